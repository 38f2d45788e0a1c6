//! Which matrix a line of the heap belongs to, and where that matrix lies.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use outlast_matrix::{Line, Shape};
use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, LineAddr, PoolOffset};

use crate::alloc::ChunkWord;
use crate::alloc::class::{BITS, CLASS_BYTES, ChunkShape, Class};
use crate::alloc::directory::{bit_of, load_bitmap};
use crate::checksums::shapes::{Cell, RunMatrices, check_lines};
use crate::layout::Geometry;
use crate::lines::word_mask;

/// One matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MatrixAt {
    pub shape: Shape,
    /// Its first line of data.
    pub data: LineAddr,
    /// Its first line of checksums.
    pub checks: LineAddr,
    /// Lines of data that are there: of a long block's last matrix, not all of the shape.
    pub lines: u64,
    /// Its chunk, or the first one of its block.
    pub chunk: u64,
}

impl MatrixAt {
    /// Its number, unlike all others'.
    pub fn number(&self) -> u64 {
        self.data.0
    }

    /// The checksum of the column of a line, counted from the matrix's first.
    pub fn consistency(&self, line: u64) -> LineAddr {
        LineAddr(self.checks.0 + self.shape.column_of(line as usize) as u64)
    }

    /// The checksum of its row.
    pub fn correlation(&self, line: u64) -> LineAddr {
        let row = self.shape.row_of(line as usize);
        LineAddr(self.checks.0 + (self.shape.columns() + row) as u64)
    }

    /// The first spare line.
    pub fn spare(&self) -> LineAddr {
        LineAddr(self.checks.0 + self.shape.checksum_lines() as u64)
    }

    /// The lines that hold checksums and what belongs to them.
    pub fn check_lines(&self) -> impl Iterator<Item = LineAddr> + use<> {
        (self.checks.0..self.checks.0 + check_lines(self.shape)).map(LineAddr)
    }
}

/// A chunk's use, as far as checksums depend on it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    Class(Class),
    /// A block of `chunks` chunks that begins with `first`.
    Run {
        first: u64,
        chunks: u64,
        matrices: RunMatrices,
    },
}

/// Finds matrices by the directory.
pub(crate) struct Matrices {
    geometry: Geometry,
    /// By class, once asked for.
    classes: Box<[OnceLock<(ChunkShape, Cell)>]>,
    /// The first chunk of the long block that was found last.
    last_run: AtomicU64,
}

impl Matrices {
    pub fn new(geometry: Geometry) -> Self {
        let classes = CLASS_BYTES.iter().map(|_| OnceLock::new()).collect();
        Self { geometry, classes, last_run: AtomicU64::new(0) }
    }

    /// The sums contain what is believed to be written back, and nothing else.
    pub fn are_literal(&self) -> bool {
        self.geometry.literal
    }

    fn class(&self, class: Class) -> Option<&(ChunkShape, Cell)> {
        let slot = &self.classes[usize::from(class.0)];
        if let Some(known) = slot.get() {
            return Some(known);
        }
        let shape = || (class.shape(&self.geometry), Cell::of(class, &self.geometry));
        Some(slot.get_or_init(shape))
    }

    fn word<M: Medium>(&self, medium: &M, chunk: u64) -> Option<ChunkWord> {
        ChunkWord::load(medium, &self.geometry, chunk, medium.len()).ok()
    }

    /// Whether the chunk is free, or inside a long block.
    pub fn has_free_word<M: Medium>(&self, medium: &M, chunk: u64) -> bool {
        self.word(medium, chunk) == Some(ChunkWord::Free)
    }

    /// The chunk's use. `None` for one that is free, a directory or damaged.
    pub fn content<M: Medium>(&self, medium: &M, chunk: u64) -> Option<Content> {
        if self.geometry.is_directory(chunk) {
            return None;
        }
        match self.word(medium, chunk)? {
            ChunkWord::Class(class, _) => return Some(Content::Class(class)),
            ChunkWord::Large { .. } => return self.run(medium, chunk, chunk),
            ChunkWord::Free => {}
        }
        // Inside a long block the words are zero (HEAP-3).
        let last = self.last_run.load(Ordering::Relaxed);
        if last < chunk && last != 0 {
            let found = self.run(medium, last, chunk);
            if found.is_some() {
                return found;
            }
        }
        let mut first = chunk - 1;
        while !self.geometry.is_directory(first) {
            if self.word(medium, first)? != ChunkWord::Free {
                return self.run(medium, first, chunk);
            }
            first -= 1;
        }
        None
    }

    /// The long block that begins with chunk `first`, if it covers `chunk`.
    fn run<M: Medium>(&self, medium: &M, first: u64, chunk: u64) -> Option<Content> {
        let Some(ChunkWord::Large { chunks, .. }) = self.word(medium, first) else { return None };
        let chunks = u64::from(chunks);
        if first + chunks <= chunk {
            return None;
        }
        self.last_run.store(first, Ordering::Relaxed);
        let matrices = RunMatrices::within(chunks * self.geometry.chunk_bytes);
        Some(Content::Run { first, chunks, matrices })
    }

    /// The matrix that a line of data belongs to, and its number there. `None` for lines that
    /// have no checksums: outside of the heap, directories, free chunks, checksums themselves.
    pub fn of_line<M: Medium>(&self, medium: &M, line: LineAddr) -> Option<(MatrixAt, u64)> {
        if line.start().0 < self.geometry.heap_at {
            return None;
        }
        let chunk = self.geometry.chunk_of(line.start());
        match self.content(medium, chunk)? {
            Content::Class(class) => {
                let (_, cell) = self.class(class)?;
                let at = self.geometry.chunk_at(chunk);
                let index = (line.start().0 - at.0) / cell.bytes;
                let matrix = cell_matrix(at, chunk, cell, index)?;
                let inside = line.0 - matrix.data.0;
                (inside < matrix.lines).then_some((matrix, inside))
            }
            Content::Run { first, matrices, .. } => {
                let inside = line.0 - self.geometry.chunk_at(first).line().0;
                let lines = matrices.shape.lines() as u64;
                let matrix = self.run_matrix(first, matrices, inside / lines);
                (inside < matrices.lines).then_some((matrix, inside % lines))
            }
        }
    }

    fn run_matrix(&self, first: u64, run: RunMatrices, index: u64) -> MatrixAt {
        let data = self.geometry.chunk_at(first).line().0;
        let lines = run.shape.lines() as u64;
        MatrixAt {
            shape: run.shape,
            data: LineAddr(data + index * lines),
            checks: LineAddr(data + run.lines + index * check_lines(run.shape)),
            lines: lines.min(run.lines.saturating_sub(index * lines)),
            chunk: first,
        }
    }

    /// All matrices of a run of chunks that is, or becomes, one block.
    pub fn of_run(&self, first: u64, chunks: u64) -> impl Iterator<Item = MatrixAt> + '_ {
        let run = RunMatrices::within(chunks * self.geometry.chunk_bytes);
        (0..run.count()).map(move |index| self.run_matrix(first, run, index))
    }

    /// All matrices of a chunk that is, or becomes, one of this class.
    pub fn of_class(&self, chunk: u64, class: Class) -> impl Iterator<Item = MatrixAt> + '_ {
        let at = self.geometry.chunk_at(chunk);
        let cell = self.class(class).map(|(_, cell)| *cell);
        let cells = cell.map_or(0, |cell| self.geometry.chunk_bytes / cell.bytes);
        (0..cells).filter_map(move |index| cell_matrix(at, chunk, &cell?, index))
    }

    /// Which words of a line the sums contain (SUMS-3), by the durable bits. `None` when the bits do
    /// not prove themselves.
    pub fn summed_words<M: Medium>(
        &self,
        medium: &M,
        content: Content,
        matrix: &MatrixAt,
        line: u64,
    ) -> Option<u8> {
        let Content::Class(class) = content else {
            return Some(if line < matrix.lines { 0xff } else { 0 });
        };
        let (shape, _) = self.class(class)?;
        let at = self.geometry.chunk_at(matrix.chunk);
        let offset = (matrix.data.0 + line) * LINE_BYTES - at.0;
        if let Some(mask) = bitmap_words(shape, offset) {
            return Some(mask);
        }
        let is_allocated = |offset: u64| -> Option<bool> {
            let Some(index) = shape.block_over(offset) else { return Some(false) };
            let (word, bit) = bit_of(at, index);
            Some(load_bitmap(medium, word).ok()? >> bit & 1 == 1)
        };
        if shape.block_bytes >= LINE_BYTES {
            return is_allocated(offset).map(|all| if all { 0xff } else { 0 });
        }
        (0..8).try_fold(0, |mask, word| {
            is_allocated(offset + word * 8).map(|is| mask | u8::from(is) << word)
        })
    }

    /// Which words of a member line the sums may contain, if one goes by its class alone.
    pub fn possible_words(&self, content: Content, matrix: &MatrixAt, line: u64) -> Vec<u8> {
        let Content::Class(class) = content else { return vec![0xff] };
        let Some((shape, _)) = self.class(class) else { return vec![0xff] };
        let offset = (matrix.data.0 + line) * LINE_BYTES - self.geometry.chunk_at(matrix.chunk).0;
        if let Some(mask) = bitmap_words(shape, offset) {
            return vec![mask];
        }
        if shape.block_bytes >= LINE_BYTES {
            return vec![0xff];
        }
        let over = |word: u64| shape.block_over(offset + word * 8);
        let mut blocks: Vec<u32> = (0..8).filter_map(over).collect();
        blocks.dedup();
        let mask_of = |block: u32| {
            (0..8).filter(|word| over(*word) == Some(block)).fold(0, |mask, word| mask | 1 << word)
        };
        let masks: Vec<u8> = blocks.into_iter().map(mask_of).collect();
        let chosen = |subset: u32| {
            let all = masks.iter().enumerate();
            all.filter(|(i, _)| subset >> i & 1 == 1).fold(0, |mask, (_, block)| mask | block)
        };
        (0..1 << masks.len()).map(chosen).collect()
    }

    /// The lines of a matrix that hold a chunk's bitmap.
    pub fn bitmap_lines(&self, content: Content, matrix: &MatrixAt) -> std::ops::Range<u64> {
        let Content::Class(class) = content else { return 0..0 };
        let first = self.geometry.chunk_at(matrix.chunk).line();
        match self.class(class) {
            Some((shape, _)) if matrix.data == first => {
                0..u64::from(shape.bitmap_words).div_ceil(8)
            }
            _ => 0..0,
        }
    }

    /// The block that covers a line of a matrix, or the first of those that share it.
    pub fn block_over(
        &self,
        content: Content,
        matrix: &MatrixAt,
        line: u64,
    ) -> Option<(PoolOffset, u64)> {
        let at = self.geometry.chunk_at(matrix.chunk);
        match content {
            Content::Run { matrices, .. } => Some((at, matrices.data_bytes())),
            Content::Class(class) => {
                let (shape, _) = self.class(class)?;
                let offset = (matrix.data.0 + line) * LINE_BYTES - at.0;
                let index = shape.block_over(offset)?;
                Some((at.plus(shape.block_at(index)), shape.block_bytes))
            }
        }
    }

    /// The block that a bit speaks of.
    pub fn block_of_bit<M: Medium>(
        &self,
        medium: &M,
        word: PoolOffset,
        bit: u32,
    ) -> Option<(PoolOffset, u64)> {
        let chunk = self.geometry.chunk_of(word);
        let Some(Content::Class(class)) = self.content(medium, chunk) else { return None };
        let (shape, _) = self.class(class)?;
        let at = self.geometry.chunk_at(chunk);
        let index = ((word.0 - at.0) / 8) as u32 * BITS + bit;
        (index < shape.blocks).then(|| (at.plus(shape.block_at(index)), shape.block_bytes))
    }
}

fn cell_matrix(at: PoolOffset, chunk: u64, cell: &Cell, index: u64) -> Option<MatrixAt> {
    let shape = cell.shape?;
    let data = at.plus(index * cell.bytes).line();
    let lines = shape.lines() as u64;
    Some(MatrixAt { shape, data, checks: LineAddr(data.0 + lines), lines, chunk })
}

/// The words of the line at this distance from the start of its chunk that belong to the bitmap;
/// `None` for lines behind it.
fn bitmap_words(shape: &ChunkShape, offset: u64) -> Option<u8> {
    let left = u64::from(shape.bitmap_words).checked_sub(offset / 8).filter(|left| *left > 0)?;
    Some(word_mask(0, 8 * left.min(8) as usize))
}

pub(crate) fn load_line<M: Medium>(medium: &M, line: LineAddr) -> Line {
    let mut content = [0; 8];
    medium.load(line.start(), bytemuck::cast_slice_mut(&mut content));
    content
}

/// SUMS-8: what the checksum at that line has beside its sum.
fn base(line: LineAddr) -> Line {
    let word = |word: u64| (line.0 * 8 + word).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    [0, 1, 2, 3, 4, 5, 6, 7].map(word)
}

/// The sum that a checksum holds.
pub(crate) fn load_sum<M: Medium>(medium: &M, line: LineAddr) -> Line {
    let (stored, base) = (load_line(medium, line), base(line));
    std::array::from_fn(|word| stored[word].wrapping_sub(base[word]))
}

/// The checksums of a matrix that hold these sums.
pub(crate) fn checksums_of(matrix: &MatrixAt, sums: &[Line]) -> Vec<Line> {
    let with_base = |(line, sum): (LineAddr, &Line)| {
        let base = base(line);
        std::array::from_fn(|word| sum[word].wrapping_add(base[word]))
    };
    matrix.check_lines().zip(sums).map(with_base).collect()
}

/// Stores the lines of `bytes` that are not there already, and shows each.
pub(crate) fn store_changed<M: Medium>(
    medium: &M,
    first: LineAddr,
    bytes: &[u8],
    mut changed: impl FnMut(LineAddr),
) {
    let lines = bytes.chunks_exact(LINE_BYTES as usize);
    for (line, now) in (first.0..).map(LineAddr).zip(lines) {
        let was = load_line(medium, line);
        if bytemuck::bytes_of(&was) != now {
            medium.store(line.start(), now);
            changed(line);
        }
    }
}
