//! `check`: whether everything durable is what this code writes, whether data and checksums agree,
//! and whether the allocator agrees with what the root object reaches.

use std::collections::{BTreeMap, BTreeSet};

use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, PoolOffset};

use super::blocks::{BlockMap, Reached};
use crate::alloc::class::BITS;
use crate::alloc::directory::{bit_of, load_bitmap};
use crate::alloc::{ChunkWord, class::Class};
use crate::checksums::Fault;
use crate::collections::{Reach, walk_any, walk_root};
use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::layout::{HEADER_PAGE_BYTES, HEADER_ZERO_AT, LANE_FLOOR, LANE_SEEN, LANE_TAIL, TAG_AT};
use crate::log::record::untag;
use crate::log::streamed::Lap;
use crate::log::{self, BLANK, Region};
use crate::pool::fences;
use crate::pool::open::read_floor;
use crate::pool::{
    LANE_FLOOR_UNPROVEN, LANE_SEEN_UNPROVEN, LANE_TAIL_UNPROVEN, RecoveredPool, load_sealed,
};
use crate::recover::is_closed;
use crate::transact::BlockKind;
use crate::typed::layout::ROOT_MAGIC;

/// One thing that is wrong with a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// A word or line that this code never wrote.
    Damaged {
        /// Where.
        at: PoolOffset,
        /// What about it.
        what: String,
    },
    /// Allocated, and nothing leads to it.
    Leaked {
        /// The block.
        at: PoolOffset,
        /// Its size.
        bytes: u64,
    },
    /// Something leads there, and it is not allocated.
    NotAllocated {
        /// Where a pointer leads.
        at: PoolOffset,
        /// The size that the structure takes it to have.
        bytes: u64,
    },
    /// Lines and their checksums do not agree.
    Fault(Fault),
    /// Two pointers lead to one block.
    ReachedTwice {
        /// The block.
        at: PoolOffset,
    },
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged { at, what } => write!(f, "damaged at {at}: {what}"),
            Self::Leaked { at, bytes } => {
                write!(f, "block of {bytes} bytes at {at} is allocated and nothing leads to it")
            }
            Self::NotAllocated { at, bytes } => {
                write!(f, "a pointer leads to {bytes} bytes at {at}, which are not allocated")
            }
            Self::Fault(fault) => write!(f, "{fault}"),
            Self::ReachedTwice { at } => write!(f, "two pointers lead to the block at {at}"),
        }
    }
}

/// Findings that a report keeps. A damaged pool may have one for each of its blocks.
pub const FINDINGS_MAX: usize = 1000;

/// The findings about a pool: the first [`FINDINGS_MAX`], and the number of the rest. As a
/// slice it is those that were kept, so it is empty when nothing was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    kept: Vec<Finding>,
    more: u64,
}

impl Findings {
    /// How many there were, kept or not.
    pub fn count(&self) -> u64 {
        self.kept.len() as u64 + self.more
    }

    /// How many there were behind those that were kept.
    pub fn more(&self) -> u64 {
        self.more
    }

    /// Keeps one, or counts it.
    pub fn push(&mut self, finding: Finding) {
        if self.kept.len() < FINDINGS_MAX {
            self.kept.push(finding);
        } else {
            self.more += 1;
        }
    }
}

impl std::ops::Deref for Findings {
    type Target = [Finding];

    fn deref(&self) -> &[Finding] {
        &self.kept
    }
}

impl Extend<Finding> for Findings {
    fn extend<I: IntoIterator<Item = Finding>>(&mut self, findings: I) {
        findings.into_iter().for_each(|finding| self.push(finding));
    }
}

impl<'a> IntoIterator for &'a Findings {
    type Item = &'a Finding;
    type IntoIter = std::slice::Iter<'a, Finding>;

    fn into_iter(self) -> Self::IntoIter {
        self.kept.iter()
    }
}

impl<const N: usize> PartialEq<[Finding; N]> for Findings {
    fn eq(&self, all: &[Finding; N]) -> bool {
        *self == *all.as_slice()
    }
}

impl PartialEq<Vec<Finding>> for Findings {
    fn eq(&self, all: &Vec<Finding>) -> bool {
        *self == *all.as_slice()
    }
}

impl PartialEq<[Finding]> for Findings {
    fn eq(&self, all: &[Finding]) -> bool {
        self.more == 0 && self.kept == all
    }
}

/// The findings of a check, and how far it looked.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// What is wrong.
    pub findings: Findings,
    /// Allocated blocks.
    pub blocks: u64,
    /// Bytes of them.
    pub block_bytes: u64,
    /// Chunks by what they are: free, of a class, in a large block, directories.
    pub chunks_free: u64,
    /// Chunks of size classes.
    pub chunks_class: u64,
    /// Chunks of large blocks.
    pub chunks_large: u64,
    /// Allocated bytes of each kind of block.
    pub bytes_by_kind: BTreeMap<BlockKind, u64>,
    /// Blocks that the root leads to; `None` when the root's kind is not known here.
    pub reachable: Option<u64>,
}

/// How far a check or a repair has come, for a caller that shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CheckStep {
    /// The part that is being looked at.
    pub stage: CheckStage,
    /// How much of that was.
    pub done: u64,
    /// How much there is.
    pub total: u64,
}

/// The parts of a check, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CheckStage {
    /// Every line and its checksums, chunk by chunk, as often as that puts something right; only of a
    /// repair, which checks the pool afterwards.
    Repair,
    /// The directory and the bitmaps, chunk by chunk.
    Allocator,
    /// Every line and its checksums, chunk by chunk; only where the pool keeps some.
    Checksums,
    /// Blocks that the root leads to, of all allocated ones.
    Reachability,
}

impl std::fmt::Display for CheckStage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Repair => "chunks repaired",
            Self::Allocator => "chunks of the allocator",
            Self::Checksums => "chunks with checksums",
            Self::Reachability => "blocks reached",
        })
    }
}

/// Hears of the steps of a check or a repair.
pub(crate) type Tell<'a> = dyn FnMut(CheckStep) + 'a;

impl<M: Medium> RecoveredPool<M> {
    /// Every allocated block with its size, and all damage on the way, into `report`.
    pub fn allocated_blocks(&self, report: &mut CheckReport) -> BTreeMap<PoolOffset, u64> {
        let blocks = self.map_blocks(report, &mut |_| {});
        blocks.iter().map(|(at, bytes, _)| (at, bytes)).collect()
    }

    /// As [`allocated_blocks`](Self::allocated_blocks), in little memory.
    fn map_blocks(&self, report: &mut CheckReport, tell: &mut Tell<'_>) -> BlockMap {
        let geometry = &self.header().geometry;
        let heap_end = geometry.chunk_at(self.chunks()).0;
        let mut blocks = BlockMap::new(*geometry, self.chunks());
        let mut chunk = 0;
        while chunk < self.chunks() {
            let (stage, total) = (CheckStage::Allocator, self.chunks());
            tell(CheckStep { stage, done: chunk, total });
            let word_at = geometry.directory_at(chunk);
            let mut taken = 1;
            match ChunkWord::load(self.medium(), geometry, chunk, heap_end) {
                Ok(ChunkWord::Free) if geometry.is_directory(chunk) => {}
                Ok(_) if geometry.is_directory(chunk) => {
                    let what = "the word of a directory itself says that it holds blocks";
                    report.findings.push(damaged(word_at, what));
                }
                Ok(ChunkWord::Free) => report.chunks_free += 1,
                Ok(ChunkWord::Class(class, kind)) => {
                    report.chunks_class += 1;
                    self.class_blocks(chunk, class, kind, &mut blocks, report);
                }
                Ok(ChunkWord::Large { chunks, kind }) => {
                    taken = u64::from(chunks);
                    self.large_block(chunk, taken, kind, &mut blocks, report);
                }
                Err(why) => report.findings.push(damaged(word_at, why)),
            }
            chunk += taken;
        }
        for (_, bytes, _) in blocks.iter() {
            report.blocks += 1;
            report.block_bytes += bytes;
        }
        blocks
    }

    fn large_block(
        &self,
        chunk: u64,
        chunks: u64,
        kind: BlockKind,
        blocks: &mut BlockMap,
        report: &mut CheckReport,
    ) {
        let geometry = &self.header().geometry;
        let bytes = geometry.run_bytes(chunks);
        report.chunks_large += chunks;
        *report.bytes_by_kind.entry(kind).or_default() += bytes;
        blocks.add_large(chunk, bytes);
        for inner in chunk + 1..chunk + chunks {
            // HEAP-3.
            let at = geometry.directory_at(inner);
            if self.medium().load_u64(at) != ChunkWord::Free.to_word(at) {
                report.findings.push(damaged(at, "a chunk inside a large block has a word"));
            }
        }
    }

    fn class_blocks(
        &self,
        chunk: u64,
        class: Class,
        kind: BlockKind,
        blocks: &mut BlockMap,
        report: &mut CheckReport,
    ) {
        let geometry = &self.header().geometry;
        let at = geometry.chunk_at(chunk);
        let shape = class.shape(geometry);
        let mut bitmap = vec![0; shape.bitmap_words as usize].into_boxed_slice();
        for word in 0..shape.bitmap_words {
            let (word_at, _) = bit_of(at, word * BITS);
            let map = match load_bitmap(self.medium(), word_at) {
                Ok(map) => map,
                Err(why) => {
                    report.findings.push(damaged(word_at, why));
                    continue;
                }
            };
            for bit in (0..BITS).filter(|bit| map >> bit & 1 == 1) {
                let index = word * BITS + bit;
                if index >= shape.blocks {
                    let what = "a bitmap has bits for blocks that do not exist";
                    report.findings.push(damaged(word_at, what));
                    break;
                }
                *report.bytes_by_kind.entry(kind).or_default() += shape.block_bytes;
                bitmap[word as usize] |= 1 << bit;
            }
        }
        blocks.add_class(chunk, shape, bitmap);
    }

    /// Everything durable but what structures store: header page, lanes, directory, bitmaps.
    pub fn check_metadata(&self) -> (CheckReport, BTreeMap<PoolOffset, u64>) {
        let (report, blocks) = self.map_metadata(&mut |_| {});
        (report, blocks.iter().map(|(at, bytes, _)| (at, bytes)).collect())
    }

    /// As [`check_metadata`](Self::check_metadata), in little memory.
    fn map_metadata(&self, tell: &mut Tell<'_>) -> (CheckReport, BlockMap) {
        let mut report = CheckReport::default();
        self.check_header_page(&mut report);
        self.check_lanes(&mut report);
        if let Err(error) = self.root() {
            report.findings.push(damaged(crate::layout::ROOT_AT, &error.to_string()));
        }
        let blocks = self.map_blocks(&mut report, tell);
        (report, blocks)
    }

    /// Words that are zero in every pool and are not here.
    fn for_each_nonzero(&self, mut visit: impl FnMut(PoolOffset, &'static str)) {
        let geometry = &self.header().geometry;
        for at in (HEADER_ZERO_AT..HEADER_PAGE_BYTES).step_by(8).map(PoolOffset) {
            if self.medium().load_u64(at) != 0 {
                visit(at, "the rest of the header page is not zero");
            }
        }
        let page = [crate::layout::FLOOR_AT, crate::layout::ROOT_AT, crate::layout::CHUNKS_AT];
        let page = page.map(|word| (word, 8));
        let lanes =
            (0..geometry.lanes as usize).map(|lane| (geometry.lane_at(lane), LANE_SEEN + 8));
        for (line, used) in page.into_iter().chain(lanes) {
            for at in (used..LINE_BYTES).step_by(8).map(|i| line.plus(i)) {
                if self.medium().load_u64(at) != 0 {
                    visit(at, METADATA_REST);
                }
            }
        }
    }

    fn check_header_page(&self, report: &mut CheckReport) {
        self.for_each_nonzero(|at, what| report.findings.push(damaged(at, what)));
        if self.is_beside_writer() {
            return;
        }
        let (geometry, corrected) = (&self.header().geometry, self.corrected_fence());
        fences::harmless_findings(self.medium(), geometry, corrected, |finding| {
            report.findings.push(finding);
        });
    }

    fn check_lanes(&self, report: &mut CheckReport) {
        if self.is_beside_writer() {
            return;
        }
        let geometry = &self.header().geometry;
        for lane in 0..geometry.lanes as usize {
            let at = geometry.lane_at(lane);
            for (word, what) in [
                (LANE_TAIL, LANE_TAIL_UNPROVEN),
                (LANE_FLOOR, LANE_FLOOR_UNPROVEN),
                (LANE_SEEN, LANE_SEEN_UNPROVEN),
            ] {
                if load_sealed(self.medium(), at.plus(word), what).is_err() {
                    report.findings.push(damaged(at.plus(word), what));
                }
            }
        }
        self.for_each_damaged_log_line(|at, what| report.findings.push(damaged(at, what)));
    }

    /// Places in lines of the lanes' rings that no record can have left.
    fn for_each_damaged_log_line(&self, mut visit: impl FnMut(PoolOffset, &str)) {
        let geometry = &self.header().geometry;
        let is_closed = read_floor(self.medium()).is_ok_and(is_closed);
        let mut visit = |at, what: &str| match is_closed {
            true => visit(at, &format!("{what}: {NOTHING_LOST}")),
            false => visit(at, what),
        };
        for lane in 0..geometry.lanes as usize {
            let (at, lines) = (geometry.ring_at(lane), geometry.ring_lines());
            let ring = Region { at, lines, is_elsewhere: false };
            let tail = load_sealed(self.medium(), geometry.lane_at(lane).plus(LANE_TAIL), "");
            let place = tail.ok().and_then(|tail| log::place_of_tail(ring, tail));
            let is_damaged = |tail: Lap, line: u64| {
                let is_around = place.is_some_and(|place| line < place.line);
                let lap = tail.after(u64::from(is_around));
                log::streamed::is_damaged(self.medium(), ring, line, lap)
            };
            for line in 0..lines {
                let tag_at = ring.line(line).plus(TAG_AT);
                match place.map(|place| place.lap) {
                    None => break,
                    Some(None) if !self.medium().verify(tag_at, 8, is_tag) => {
                        visit(tag_at, "the tag of a log line does not prove itself");
                    }
                    Some(Some(lap)) if is_damaged(lap, line) => {
                        let what = "a word of a log line carries the tag of no lap that wrote it";
                        visit(ring.line(line), what);
                    }
                    Some(_) => {}
                }
            }
        }
    }

    /// Puts right what needs no redundancy: words that are zero in every pool, and lines of logs that are empty
    /// since the pool was recovered. How many lines that were.
    pub(crate) fn mend_logs(&self) -> Result<u64, PoolError> {
        let io = Io::new(self.medium());
        let mut lines = BTreeSet::new();
        self.for_each_nonzero(|at, _| {
            self.medium().store_u64(at, 0);
            io.flush(Site::RecoverData, at, 8);
            lines.insert(at.line());
        });
        let mut blank = BTreeSet::new();
        self.for_each_damaged_log_line(|at, _| {
            blank.insert(at.line());
        });
        for line in &blank {
            io.medium.store_words(*line, !0, &[BLANK; 8]);
            io.flush_line(Site::RecoverData, *line);
        }
        io.fence(Site::RecoverData);
        lines.append(&mut blank);
        if self.medium().is_paged() {
            self.medium().write_in_place()?;
        }
        fences::end(io, self.header())?;
        Ok(lines.len() as u64)
    }

    /// The whole check: metadata, checksums, and the allocator against what the root object reaches, as far
    /// as the root is one of the structures of [`collections`](crate::collections).
    ///
    /// Of a snapshot beside a writer neither logs nor checksums are looked at, which are the writer's.
    ///
    /// It takes memory for a few bits of each block that there is room for, and for the findings that
    /// it keeps.
    pub fn check(&self) -> CheckReport {
        self.check_telling(&mut |_| {})
    }

    /// As [`check`](Self::check), and tells how far it has come, often.
    pub fn check_telling(&self, tell: &mut dyn FnMut(CheckStep)) -> CheckReport {
        let root = self.root().ok().flatten();
        self.check_with_telling(tell, |medium, block| {
            let Some((at, kind)) = root else { return Ok(true) };
            let mut read = raw(medium);
            walk_root(kind, at, &mut read, block, |_, _, _| Ok(()))
                .map(|reach| reach == Reach::Whole)
                .map_err(|damage| damage.to_string())
        })
    }

    /// The check with a walk of the caller's own. `visit` follows the root object and calls back
    /// with each block that a pointer leads to and the bytes the structure uses of it; it
    /// answers `Ok(false)` when it does not know this kind of root, and `Err` with what it found
    /// broken.
    pub fn check_with<V>(&self, visit: V) -> CheckReport
    where
        V: FnOnce(&M, &mut dyn FnMut(PoolOffset, u64)) -> Result<bool, String>,
    {
        self.check_with_telling(&mut |_| {}, visit)
    }

    fn check_with_telling<V>(&self, tell: &mut Tell<'_>, visit: V) -> CheckReport
    where
        V: FnOnce(&M, &mut dyn FnMut(PoolOffset, u64)) -> Result<bool, String>,
    {
        let (mut report, mut blocks) = self.map_metadata(tell);
        self.for_each_fault(
            &mut |chunk| {
                tell(CheckStep { stage: CheckStage::Checksums, done: chunk, total: self.chunks() });
            },
            |fault| report.findings.push(Finding::Fault(fault)),
        );
        let (total, findings) = (report.blocks, &mut report.findings);
        let mut reached = 0;
        let known = visit(self.medium(), &mut |at, bytes| {
            reached += 1;
            let stage = CheckStage::Reachability;
            tell(CheckStep { stage, done: reached, total });
            match blocks.reach(at, bytes) {
                Reached::First => {}
                Reached::Again => findings.push(Finding::ReachedTwice { at }),
                Reached::NoBlock => findings.push(Finding::NotAllocated { at, bytes }),
            }
        });
        if known == Ok(false) && self.has_typed_root() {
            self.check_typed(&blocks, findings);
        }
        match known {
            Ok(true) => {
                report.reachable = Some(reached);
                let leaked = blocks.iter().filter(|(_, _, reached)| !reached);
                let leaked = leaked.map(|(at, bytes, _)| Finding::Leaked { at, bytes });
                report.findings.extend(leaked);
            }
            Ok(false) => {}
            Err(what) => {
                let at = self.root().ok().flatten().map_or(PoolOffset(0), |root| root.0);
                report.findings.push(Finding::Damaged { at, what });
            }
        }
        report
    }
}

impl<M: Medium> RecoveredPool<M> {
    fn has_typed_root(&self) -> bool {
        let root = self.root().ok().flatten();
        let mut magic = [0; 8];
        root.is_some_and(|(at, _)| raw(self.medium())(at, &mut magic))
            && u64::from_le_bytes(magic) == ROOT_MAGIC
    }

    /// Which collections a typed root leads to only its program knows. Those that are maps and trees begin with
    /// their magic, and are followed from there.
    fn check_typed(&self, blocks: &BlockMap, findings: &mut Findings) {
        for (at, _, _) in blocks.iter() {
            if let Err(damage) = walk_any(at, &mut raw(self.medium())) {
                findings.push(damaged(damage.at, damage.what));
            }
        }
    }
}

/// Reads a medium's bytes, as far as it has them.
fn raw<M: Medium>(medium: &M) -> impl FnMut(PoolOffset, &mut [u8]) -> bool {
    |at, out| {
        let (at, len) = (at.0, medium.len());
        let inside = at <= len && len - at >= out.len() as u64;
        if inside {
            medium.load(PoolOffset(at), out);
        }
        inside
    }
}

/// Whether a word is the tag of some log line.
fn is_tag(word: &[u8]) -> bool {
    word.try_into().is_ok_and(|word| untag(u64::from_le_bytes(word)).is_some())
}

const METADATA_REST: &str = "the rest of a metadata line is not zero";

/// Said of damage in a log that nothing needs.
pub(super) const NOTHING_LOST: &str = "nothing needs it, nothing is lost, and a repair mends it";

fn damaged(at: PoolOffset, what: &str) -> Finding {
    Finding::Damaged { at, what: what.to_owned() }
}
