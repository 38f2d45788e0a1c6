//! The volatile side of the heap: what is reserved, and where there is room.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LINE_BYTES, PoolOffset};
use rustc_hash::FxHashMap;

use crate::alloc::class::{BITS, ChunkShape, Class};
use crate::alloc::directory::{ChunkWord, bit_of, bitmap_range, load_bitmap};
use crate::checksums::{Matrices, format_cells};
use crate::io::{Io, Site};
use crate::layout::{Geometry, TAG_AT};
use crate::log::{BLANK, Region};
use crate::plant::Plant;
use crate::sealed::seal_at;
use crate::seq::Seq;
use crate::transact::BlockKind;

/// A block, and which durable word says whether it is allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Block {
    pub at: PoolOffset,
    pub bytes: u64,
    pub reserved: Reserved,
}

impl Block {
    /// Block `index` of a class chunk.
    pub fn of_class(shape: &ChunkShape, chunk_at: PoolOffset, chunk: u64, index: u32) -> Self {
        let (word, bit) = bit_of(chunk_at, index);
        Self {
            at: chunk_at.plus(shape.block_at(index)),
            bytes: shape.block_bytes,
            reserved: Reserved::Bit { word, bit, chunk, index },
        }
    }
}

/// The durable word of a block, and what it is when allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reserved {
    /// Bit `bit` of the bitmap word at `word`; block `index` of `chunk`.
    Bit { word: PoolOffset, bit: u32, chunk: u64, index: u32 },
    /// The directory word at `word` says `large`.
    Run { word: PoolOffset, large: ChunkWord, chunk: u64, chunks: u64 },
}

/// A request that the heap cannot fulfil.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeapError {
    /// Nothing of this size is free now.
    Full,
    /// A durable word is not what this code writes.
    Damaged { at: PoolOffset, why: &'static str },
    /// The offset is not an allocated block's.
    NotABlock(&'static str),
}

/// Chunks that become a class's beside the one that it needs, at most.
const CHUNKS_AHEAD_MAX: usize = 15;

/// Chunks of other lanes that are looked at before a new one is taken.
const LOOKS_MAX: usize = 64;

type Result<T> = std::result::Result<T, HeapError>;

/// The volatile state of a chunk.
enum Chunk {
    /// Not read yet.
    Unknown,
    /// A zone's directory.
    Directory,
    Free,
    /// Part of a run: a large block or a region of the log.
    InRun,
    Class(Box<ClassChunk>),
}

struct ClassChunk {
    class: Class,
    kind: BlockKind,
    shape: ChunkShape,
    /// Allocated, reserved by a running transaction, or freed and not yet safe to reuse.
    taken: Box<[u64]>,
    free: u32,
    /// The first word that may have a clear bit.
    hint: usize,
    /// Whether it stands in the list of chunks with room.
    listed: bool,
    /// The lane that takes blocks from it, while others have chunks of their own.
    home_of: Option<usize>,
}

/// Which bits and chunks are free for new transactions. Shared under a lock.
pub(crate) struct Heap {
    geometry: Geometry,
    /// Where checksums lie, if the pool keeps some.
    matrices: Option<Matrices>,
    chunks: Vec<Chunk>,
    /// Chunks below this index have been read.
    scanned: u64,
    free: BTreeSet<u64>,
    with_room: BTreeMap<(Class, BlockKind), Vec<u64>>,
    /// By lane: where it takes blocks of a class from.
    homes: FxHashMap<(usize, Class, BlockKind), u64>,
    /// Freed by a commit of that number; usable again once the floor has passed it (HEAP-4).
    quarantine: VecDeque<(Seq, Block)>,
    /// Regions of the log whose record had that number.
    regions: Vec<(Seq, Region)>,
    /// No chunk changes its use as long as the pool runs.
    pub keeps_chunks: bool,
    /// Free chunks that requests leave alone.
    pub held_back: u64,
    /// How often free chunks were taken in this opening.
    pub takings: u64,
    /// Ranges stored to without a transaction's log since the caller took note last.
    changed: Vec<ByteRange>,
}

impl Heap {
    pub fn new(geometry: Geometry, chunks: u64) -> Self {
        let mut heap = Self {
            geometry,
            matrices: geometry.checksums.then(|| Matrices::new(geometry)),
            chunks: Vec::new(),
            scanned: 0,
            free: BTreeSet::new(),
            with_room: BTreeMap::new(),
            homes: FxHashMap::default(),
            quarantine: VecDeque::new(),
            regions: Vec::new(),
            keeps_chunks: false,
            held_back: 0,
            takings: 0,
            changed: Vec::new(),
        };
        heap.grow_to(chunks);
        heap
    }

    /// The parts of chunks that reserving has stored to, for the checkpointer.
    pub fn drain_changed(&mut self) -> impl Iterator<Item = ByteRange> + '_ {
        self.changed.drain(..)
    }

    /// The heap has this many chunks now.
    pub fn grow_to(&mut self, chunks: u64) {
        let first = self.chunks.len() as u64;
        self.chunks.extend((first..chunks).map(|chunk| {
            if self.geometry.is_directory(chunk) { Chunk::Directory } else { Chunk::Unknown }
        }));
    }

    pub fn chunk_count(&self) -> u64 {
        self.chunks.len() as u64
    }

    /// Where it ends.
    fn end(&self) -> u64 {
        self.geometry.chunk_at(self.chunk_count()).0
    }

    /// Takes a block for a transaction of a lane. Nothing durable changes but, when a class gets a
    /// new chunk, that chunk's bitmap and directory word; `settle` is called before. Lanes take blocks
    /// of different chunks as long as there are enough, since two that change the same line of a
    /// bitmap wait for each other, and leave those alone that `is_anothers`.
    pub fn reserve<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        bytes: u64,
        kind: BlockKind,
        lane: usize,
        is_anothers: &dyn Fn(PoolOffset) -> bool,
        settle: &dyn Fn(),
    ) -> Result<Block> {
        match Class::for_bytes(bytes.max(1), self.geometry.chunk_bytes) {
            Some(class) => self.reserve_bit(io, class, kind, lane, is_anothers, settle),
            None => {
                let chunks = self.geometry.run_chunks(bytes);
                let chunk = self.take_run(io, chunks, settle)?;
                Ok(self.run_block(chunk, chunks, kind))
            }
        }
    }

    fn run_block(&self, chunk: u64, chunks: u64, kind: BlockKind) -> Block {
        Block {
            at: self.geometry.chunk_at(chunk),
            bytes: self.geometry.run_bytes(chunks),
            reserved: Reserved::Run {
                word: self.geometry.directory_at(chunk),
                large: ChunkWord::Large { chunks: chunks as u32, kind },
                chunk,
                chunks,
            },
        }
    }

    fn reserve_bit<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        class: Class,
        kind: BlockKind,
        lane: usize,
        is_anothers: &dyn Fn(PoolOffset) -> bool,
        settle: &dyn Fn(),
    ) -> Result<Block> {
        if let Some(&home) = self.homes.get(&(lane, class, kind))
            && let Some(block) = self.take_from(home, class, kind)
        {
            return Ok(block);
        }
        loop {
            if let Some(home) = self.find_home(class, kind, Some(is_anothers)) {
                return Ok(self.move_in(home, class, kind, lane));
            }
            if self.scan_one(io)? {
                continue;
            }
            match self.take_run(io, 1, settle) {
                Ok(chunk) => self.format(io, chunk, class, kind),
                Err(HeapError::Full) => {
                    let home = self.find_home(class, kind, None).ok_or(HeapError::Full)?;
                    return Ok(self.move_in(home, class, kind, lane));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A block of a chunk, if that is of this class and has one free.
    fn take_from(&mut self, chunk: u64, class: Class, kind: BlockKind) -> Option<Block> {
        let at = self.geometry.chunk_at(chunk);
        match &mut self.chunks[chunk as usize] {
            Chunk::Class(state) if (state.class, state.kind) == (class, kind) => {
                state.take().map(|index| state.block(at, chunk, index))
            }
            _ => None,
        }
    }

    /// Another block of the chunk that this one is of.
    pub fn take_beside(&mut self, block: Block, kind: BlockKind) -> Option<Block> {
        let Reserved::Bit { chunk, .. } = block.reserved else { return None };
        let class = Class::for_bytes(block.bytes, self.geometry.chunk_bytes)?;
        self.take_from(chunk, class, kind)
    }

    /// Where blocks lie in a chunk, if that is a class's.
    pub fn shape_of(&self, chunk: u64) -> Option<ChunkShape> {
        match self.chunks.get(chunk as usize)? {
            Chunk::Class(state) => Some(state.shape),
            _ => None,
        }
    }

    /// Of the chunks with room the one that was listed last. With `is_anothers` one that is no lane's
    /// home and not another's, of those listed lately; else any.
    fn find_home(
        &mut self,
        class: Class,
        kind: BlockKind,
        is_anothers: Option<&dyn Fn(PoolOffset) -> bool>,
    ) -> Option<u64> {
        let list = self.with_room.get_mut(&(class, kind))?;
        let mut looks = 0;
        for index in (0..list.len()).rev() {
            let chunk = list[index];
            let Chunk::Class(state) = &mut self.chunks[chunk as usize] else {
                unreachable!("only class chunks have room")
            };
            if state.free == 0 {
                // Behind it there are other lanes' homes only.
                state.listed = false;
                list.remove(index);
                continue;
            }
            let is_free = |is_anothers: &dyn Fn(PoolOffset) -> bool| {
                state.home_of.is_none() && !is_anothers(self.geometry.chunk_at(chunk))
            };
            if is_anothers.is_none_or(is_free) {
                return Some(chunk);
            }
            looks += 1;
            if looks == LOOKS_MAX {
                break;
            }
        }
        None
    }

    /// The lane takes its blocks from that chunk, which has room, from here on.
    fn move_in(&mut self, chunk: u64, class: Class, kind: BlockKind, lane: usize) -> Block {
        if let Some(old) = self.homes.insert((lane, class, kind), chunk)
            && let Chunk::Class(state) = &mut self.chunks[old as usize]
            && state.home_of == Some(lane)
        {
            state.home_of = None;
        }
        if let Chunk::Class(state) = &mut self.chunks[chunk as usize] {
            state.home_of = Some(lane);
        }
        self.take_from(chunk, class, kind).expect("it has room")
    }

    /// Reads the next unread chunk's words. `false` when all were read.
    fn scan_one<M: Medium>(&mut self, io: Io<'_, M>) -> Result<bool> {
        while self.scanned < self.chunk_count() {
            let chunk = self.scanned;
            self.scanned += 1;
            if matches!(self.chunks[chunk as usize], Chunk::Unknown) {
                let run = self.read_chunk(io, chunk)?;
                self.scanned = chunk + run;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Learns what an unknown chunk is. Returns how many chunks it takes.
    fn read_chunk<M: Medium>(&mut self, io: Io<'_, M>, chunk: u64) -> Result<u64> {
        let word_at = self.geometry.directory_at(chunk);
        let damaged = |at, why| HeapError::Damaged { at, why };
        let word = ChunkWord::load(io.medium, &self.geometry, chunk, self.end())
            .map_err(|why| damaged(word_at, why))?;
        match word {
            ChunkWord::Free => {
                self.chunks[chunk as usize] = Chunk::Free;
                self.free.insert(chunk);
                Ok(1)
            }
            ChunkWord::Class(class, kind) => {
                let state = ClassChunk::read(io, &self.geometry, chunk, class, kind)
                    .map_err(|(at, why)| damaged(at, why))?;
                self.chunks[chunk as usize] = Chunk::Class(Box::new(state));
                self.list(chunk);
                Ok(1)
            }
            ChunkWord::Large { chunks, .. } => {
                let chunks = u64::from(chunks);
                // HEAP-3, and of what was read before nothing lies there.
                let is_inside = |inner: u64| {
                    let at = self.geometry.directory_at(inner);
                    let state = &self.chunks[inner as usize];
                    matches!(state, Chunk::Unknown | Chunk::InRun)
                        && io.medium.load_u64(at) == ChunkWord::Free.to_word(at)
                };
                let astray = (chunk + 1..chunk + chunks).find(|inner| !is_inside(*inner));
                if let Some(inner) = astray {
                    let at = self.geometry.directory_at(inner);
                    return Err(damaged(at, "a chunk inside a large block has a word"));
                }
                self.mark_run(chunk, chunks);
                Ok(chunks)
            }
        }
    }

    fn mark_run(&mut self, chunk: u64, chunks: u64) {
        for state in &mut self.chunks[chunk as usize..(chunk + chunks) as usize] {
            *state = Chunk::InRun;
        }
    }

    /// Puts a class chunk into the list of those with room, if it has some.
    fn list(&mut self, chunk: u64) {
        if let Chunk::Class(state) = &mut self.chunks[chunk as usize]
            && state.free > 0
            && !state.listed
        {
            state.listed = true;
            self.with_room.entry((state.class, state.kind)).or_default().push(chunk);
        }
    }

    /// A run of free chunks; they count as taken from here on. Durably, what was there may change
    /// from here on, without a log: `settle` comes first.
    fn take_run<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        chunks: u64,
        settle: &dyn Fn(),
    ) -> Result<u64> {
        while self.scan_one(io)? {}
        if !io.plants(Plant::FormatUnsettled) {
            settle();
        }
        let first = match self.find_run(chunks) {
            Some(first) => first,
            None => {
                self.reclaim_empty_chunks(io);
                self.find_run(chunks).ok_or(HeapError::Full)?
            }
        };
        for chunk in first..first + chunks {
            self.free.remove(&chunk);
        }
        self.takings += 1;
        self.mark_run(first, chunks);
        Ok(first)
    }

    fn find_run(&self, chunks: u64) -> Option<u64> {
        if (self.free.len() as u64) < chunks.saturating_add(self.held_back) {
            return None;
        }
        let mut run = 0;
        let mut next = None;
        for &chunk in &self.free {
            run = if next == Some(chunk) { run + 1 } else { 1 };
            next = Some(chunk + 1);
            if run == chunks {
                return Some(chunk + 1 - chunks);
            }
        }
        None
    }

    /// Gives the chunks of classes that have no block left back to all. Rare, so each pays its
    /// own fence; nothing refers to them (HEAP-4 holds for each of their blocks).
    fn reclaim_empty_chunks<M: Medium>(&mut self, io: Io<'_, M>) {
        if self.keeps_chunks {
            return;
        }
        let empty: Vec<u64> = (0..self.chunk_count())
            .filter(|chunk| match &self.chunks[*chunk as usize] {
                Chunk::Class(state) => state.free == state.shape.blocks,
                _ => false,
            })
            .collect();
        for &chunk in &empty {
            let word_at = self.geometry.directory_at(chunk);
            io.keep(word_at, 8);
            io.medium.store_u64(word_at, ChunkWord::Free.to_word(word_at));
            io.flush(Site::ChunkWord, word_at, 8);
            self.changed.push(ByteRange::new(word_at, 8));
            self.chunks[chunk as usize] = Chunk::Free;
            self.free.insert(chunk);
        }
        if !empty.is_empty() {
            io.fence(Site::ChunkWord);
            for list in self.with_room.values_mut() {
                list.retain(|chunk| !empty.contains(chunk));
            }
        }
    }

    /// Makes a free chunk a class's: bitmap and empty checksums first, then the word that gives
    /// them meaning (HEAP-2, SUMS-6). Where each of the two fences is a sync, others behind it become the
    /// class's along with it.
    fn format<M: Medium>(&mut self, io: Io<'_, M>, chunk: u64, class: Class, kind: BlockKind) {
        let mut chunks = vec![chunk];
        self.takings += 1;
        if io.medium.is_paged() && !self.keeps_chunks {
            let spare = self.free.len().saturating_sub(self.held_back as usize);
            let more = self.chunks_ahead(class, kind, spare);
            chunks.extend(self.free.range(chunk..).take(more));
        }
        let geometry = self.geometry;
        let state = || ClassChunk::new(&geometry, class, kind);
        let shape = state().shape;
        for &chunk in &chunks {
            let bitmap = bitmap_range(geometry.chunk_at(chunk), &shape);
            io.keep(bitmap.at, bitmap.len);
            for word in (0..u64::from(shape.bitmap_words)).map(|index| bitmap.at.plus(index * 8)) {
                io.medium.store_u64(word, seal_at(0, word));
            }
            io.flush(Site::ChunkBitmap, bitmap.at, bitmap.len);
            if let Some(matrices) = &self.matrices {
                format_cells(io, matrices, chunk, class, bitmap);
            }
        }
        io.fence(Site::ChunkBitmap);
        for &chunk in &chunks {
            let at = geometry.chunk_at(chunk);
            let word_at = geometry.directory_at(chunk);
            io.keep(word_at, 8);
            io.medium.store_u64(word_at, ChunkWord::Class(class, kind).to_word(word_at));
            self.changed.push(ByteRange::new(word_at, 8));
            // Empty checksums lie anywhere in the chunk.
            let whole = ByteRange::new(at, geometry.chunk_bytes);
            let bitmap = bitmap_range(at, &shape);
            self.changed.push(if self.matrices.is_some() { whole } else { bitmap });
            io.flush(Site::ChunkWord, word_at, 8);
        }
        io.fence(Site::ChunkWord);
        for &chunk in chunks.iter().rev() {
            self.free.remove(&chunk);
            self.chunks[chunk as usize] = Chunk::Class(Box::new(state()));
            self.list(chunk);
        }
    }

    /// How many of `spare` free chunks a class gets beside the one that it needs: as many as it has, up to a bound, and
    /// no larger a part of them than it has of the chunks in use. What one class takes of the last ones another
    /// lacks: those without a block go back to all by a fence, and become the other's by two.
    fn chunks_ahead(&self, class: Class, kind: BlockKind, spare: usize) -> usize {
        let (mut its, mut all) = (0, 0);
        for chunk in &self.chunks {
            if let Chunk::Class(state) = chunk {
                all += 1;
                its += usize::from((state.class, state.kind) == (class, kind));
            }
        }
        its.min(CHUNKS_AHEAD_MAX).min(spare * its / all.max(1))
    }

    /// The allocated block that starts at `at`. Durably allocated, that is: blocks that the
    /// asking transaction has reserved itself it must look up itself.
    pub fn find<M: Medium>(&mut self, io: Io<'_, M>, at: PoolOffset) -> Result<Block> {
        let heap_at = self.geometry.heap_at;
        if at.0 < heap_at {
            return Err(HeapError::NotABlock("it lies before the heap"));
        }
        let chunk = self.geometry.chunk_of(at);
        if chunk >= self.chunk_count() {
            return Err(HeapError::NotABlock("it lies behind the heap"));
        }
        let word_at = self.geometry.directory_at(chunk);
        // A free word is a free chunk's, or one's inside a large block that is not known yet
        // (HEAP-3). Only the scan from the start of a zone can tell; here it is no block anyway.
        let is_unknown = matches!(self.chunks[chunk as usize], Chunk::Unknown);
        if is_unknown && io.medium.load_u64(word_at) != ChunkWord::Free.to_word(word_at) {
            self.read_chunk(io, chunk)?;
        }
        let chunk_at = self.geometry.chunk_at(chunk);
        match &self.chunks[chunk as usize] {
            Chunk::Class(state) => {
                let offset = at.0 - chunk_at.0;
                let Some(index) = state.shape.block_from(offset) else {
                    return Err(HeapError::NotABlock("no block starts there"));
                };
                let block = state.block(chunk_at, chunk, index);
                let (word, bit) = bit_of(chunk_at, index);
                let map = load_bitmap(io.medium, word)
                    .map_err(|why| HeapError::Damaged { at: word, why })?;
                if map & 1 << bit == 0 {
                    return Err(HeapError::NotABlock("that block is not allocated"));
                }
                Ok(block)
            }
            _ => match ChunkWord::load(io.medium, &self.geometry, chunk, self.end()) {
                Ok(ChunkWord::Large { chunks, kind }) if at == chunk_at => {
                    Ok(self.run_block(chunk, u64::from(chunks), kind))
                }
                Ok(_) => Err(HeapError::NotABlock("no block starts there")),
                Err(why) => Err(HeapError::Damaged { at: word_at, why }),
            },
        }
    }

    /// The durable word that would say so if a block started at `at`.
    pub fn word_of(&self, at: PoolOffset) -> Option<PoolOffset> {
        if at.0 < self.geometry.heap_at {
            return None;
        }
        let chunk = self.geometry.chunk_of(at);
        let chunk_at = self.geometry.chunk_at(chunk);
        match self.chunks.get(chunk as usize)? {
            Chunk::Class(state) => {
                state.shape.block_over(at.0 - chunk_at.0).map(|index| bit_of(chunk_at, index).0)
            }
            _ => Some(self.geometry.directory_at(chunk)),
        }
    }

    /// Which region of the heap the block is in.
    pub fn kind_of(&self, block: Block) -> BlockKind {
        match block.reserved {
            Reserved::Run { large: ChunkWord::Large { kind, .. }, .. } => kind,
            Reserved::Bit { chunk, .. } | Reserved::Run { chunk, .. } => {
                match &self.chunks[chunk as usize] {
                    Chunk::Class(state) => state.kind,
                    _ => unreachable!("a block's chunk keeps its class while the block is taken"),
                }
            }
        }
    }

    /// The block may be handed out again: its reservation was dropped, or its free is durable
    /// and no live record names it.
    pub fn release(&mut self, block: Block) {
        match block.reserved {
            Reserved::Bit { chunk, index, .. } => {
                let Chunk::Class(state) = &mut self.chunks[chunk as usize] else {
                    unreachable!("a block's chunk keeps its class while the block is taken")
                };
                state.give_back(index);
                self.list(chunk);
            }
            Reserved::Run { chunk, chunks, .. } => self.release_run(chunk, chunks),
        }
    }

    fn release_run(&mut self, chunk: u64, chunks: u64) {
        for chunk in chunk..chunk + chunks {
            self.chunks[chunk as usize] = Chunk::Free;
            self.free.insert(chunk);
        }
    }

    /// The block was freed by the commit of number `seq`; it may be handed out again once the
    /// durable floor is above that.
    pub fn release_after(&mut self, seq: Seq, block: Block) {
        self.quarantine.push_back((seq, block));
    }

    /// Whether raising the floor would give something back.
    pub fn has_quarantine(&self) -> bool {
        !self.quarantine.is_empty() || !self.regions.is_empty()
    }

    /// The durable floor is `floor` now: everything freed below it may be used again.
    pub fn floor_raised(&mut self, floor: Seq) {
        // Commits of several lanes enter nearly, not strictly, in order.
        let mut waiting = std::mem::take(&mut self.quarantine);
        waiting.retain(|(seq, block)| {
            let safe = *seq < floor;
            if safe {
                self.release(*block);
            }
            !safe
        });
        self.quarantine = waiting;
        let regions = std::mem::take(&mut self.regions);
        for (seq, region) in regions {
            if seq < floor {
                self.release_region(region);
            } else {
                self.regions.push((seq, region));
            }
        }
    }

    /// As [`reserve_unscrubbed`](Self::reserve_unscrubbed); the stretch's tags are blank, durably,
    /// so that old bytes pass for no record. Where the medium tears lines, all its words are (LOG-10).
    pub fn reserve_region<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        lines: u64,
        settle: &dyn Fn(),
    ) -> Result<Region> {
        let region = self.reserve_unscrubbed(io, lines, settle)?;
        io.keep(region.at, region.lines * LINE_BYTES);
        if !io.plants(Plant::RegionNotScrubbed) {
            let words = if io.medium.is_paged() { 0..=TAG_AT } else { TAG_AT..=TAG_AT };
            for line in 0..region.lines {
                for word in words.clone().step_by(8) {
                    io.medium.store_u64(region.line(line).plus(word), BLANK);
                }
            }
            io.flush(Site::Region, region.at, region.lines * LINE_BYTES);
            io.fence(Site::Region);
        }
        Ok(region)
    }

    /// A stretch of free chunks for `lines` lines of log, or as many as one run has. Durably it
    /// stays free. For records whose number and place something durable names before they are
    /// read.
    pub fn reserve_unscrubbed<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        lines: u64,
        settle: &dyn Fn(),
    ) -> Result<Region> {
        let lines_per_chunk = self.geometry.chunk_bytes / LINE_BYTES;
        let mut chunks = lines.div_ceil(lines_per_chunk).max(1);
        let chunk = loop {
            match self.take_run(io, chunks, settle) {
                Err(HeapError::Full) if chunks > 1 => chunks = chunks.div_ceil(2),
                result => break result?,
            }
        };
        Ok(Region {
            at: self.geometry.chunk_at(chunk),
            lines: chunks * lines_per_chunk,
            is_elsewhere: true,
        })
    }

    /// The region may be used again at once.
    pub fn release_region(&mut self, region: Region) {
        let chunk = self.geometry.chunk_of(region.at);
        self.release_run(chunk, region.lines * LINE_BYTES / self.geometry.chunk_bytes);
    }

    /// The region holds a record of that number and may be used again once it is dead.
    pub fn release_region_after(&mut self, seq: Seq, region: Region) {
        self.regions.push((seq, region));
    }
}

impl ClassChunk {
    fn new(geometry: &Geometry, class: Class, kind: BlockKind) -> Self {
        let shape = class.shape(geometry);
        let mut taken = vec![0; shape.bitmap_words as usize].into_boxed_slice();
        // Bits past the last block count as taken, so that no search finds them.
        let used = shape.blocks % BITS;
        if used != 0 {
            *taken.last_mut().expect("a chunk has blocks") = ((1 << BITS) - 1) & !((1 << used) - 1);
        }
        Self {
            class,
            kind,
            shape,
            taken,
            free: shape.blocks,
            hint: 0,
            listed: false,
            home_of: None,
        }
    }

    fn read<M: Medium>(
        io: Io<'_, M>,
        geometry: &Geometry,
        chunk: u64,
        class: Class,
        kind: BlockKind,
    ) -> std::result::Result<Self, (PoolOffset, &'static str)> {
        let mut state = Self::new(geometry, class, kind);
        let at = geometry.chunk_at(chunk);
        for (index, taken) in state.taken.iter_mut().enumerate() {
            let word = at.plus(index as u64 * 8);
            let map = load_bitmap(io.medium, word).map_err(|why| (word, why))?;
            if map & *taken != 0 {
                return Err((word, "a bitmap has bits for blocks that do not exist"));
            }
            *taken |= map;
            state.free -= map.count_ones();
        }
        Ok(state)
    }

    fn take(&mut self) -> Option<u32> {
        if self.free == 0 {
            return None;
        }
        loop {
            let word = &mut self.taken[self.hint];
            let bit = word.trailing_ones();
            if bit < BITS {
                *word |= 1 << bit;
                self.free -= 1;
                return Some(self.hint as u32 * BITS + bit);
            }
            self.hint += 1;
        }
    }

    fn give_back(&mut self, index: u32) {
        let word = (index / BITS) as usize;
        debug_assert!(self.taken[word] & 1 << (index % BITS) != 0, "a block is given back once");
        self.taken[word] &= !(1 << (index % BITS));
        self.free += 1;
        self.hint = self.hint.min(word);
    }

    fn block(&self, chunk_at: PoolOffset, chunk: u64, index: u32) -> Block {
        Block::of_class(&self.shape, chunk_at, chunk, index)
    }
}
