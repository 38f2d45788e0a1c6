//! `check`: whether everything durable is what this code writes, whether data and checksums agree,
//! and whether the allocator agrees with what the root object reaches.

use std::collections::{BTreeMap, BTreeSet};

use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, PoolOffset};

use super::blocks::BlockMap;
use crate::alloc::class::BITS;
use crate::alloc::directory::{bit_of, load_bitmap};
use crate::alloc::{ChunkWord, class::Class};
use crate::checksums::Fault;
use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::layout::{
    HEADER_PAGE_BYTES, HEADER_ZERO_AT, LANE_FLOOR, LANE_LINES, LANE_SEEN, LANE_TAIL, TAG_AT,
};
use crate::log::record::untag;
use crate::log::streamed::Lap;
use crate::log::{self, BLANK};
use crate::pool::fences;
use crate::pool::open::read_floor;
use crate::pool::{
    LANE_FLOOR_UNPROVEN, LANE_LINES_UNPROVEN, LANE_SEEN_UNPROVEN, LANE_TAIL_UNPROVEN,
    RecoveredPool, load_sealed, ring_in_use,
};
use crate::recover::is_closed;
use crate::transact::BlockKind;

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
    /// Blocks that the root leads to; `None` when the root's kind is not known here, or its walk came to damage.
    pub reachable: Option<u64>,
    /// The root in words, and the name of the walker that knows it.
    pub root: Option<(&'static str, String)>,
    /// Blocks that probably leak: no block that the root leads to holds their offset, and the walker knows no more of
    /// the program than that. Findings only where the program stores offsets as they are.
    pub suspected: Findings,
    /// The paths of the pointers and values that findings are about, by the place that those name.
    pub paths: BTreeMap<PoolOffset, String>,
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
    pub(super) fn map_blocks(&self, report: &mut CheckReport, tell: &mut Tell<'_>) -> BlockMap {
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
        blocks.add_large(chunk, chunks, bytes);
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
    pub(super) fn map_metadata(&self, tell: &mut Tell<'_>) -> (CheckReport, BlockMap) {
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
        let used = LANE_SEEN + if geometry.has_short_rings { 16 } else { 8 };
        let lanes = (0..geometry.lanes as usize).map(|lane| (geometry.lane_at(lane), used));
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
                (LANE_LINES, LANE_LINES_UNPROVEN),
            ] {
                if word == LANE_LINES && !geometry.has_short_rings {
                    continue;
                }
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
            let Ok(ring) = ring_in_use(self.medium(), geometry, lane) else { continue };
            let tail = load_sealed(self.medium(), geometry.lane_at(lane).plus(LANE_TAIL), "");
            let place = tail.ok().and_then(|tail| log::place_of_tail(ring, tail));
            let is_damaged = |tail: Lap, line: u64| {
                let is_around = place.is_some_and(|place| line < place.line);
                let lap = tail.after(u64::from(is_around));
                log::streamed::is_damaged(self.medium(), ring, line, lap)
            };
            for line in 0..ring.lines {
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
}

/// Reads a medium's bytes, as far as it has them.
pub(super) fn raw<M: Medium>(medium: &M) -> impl FnMut(PoolOffset, &mut [u8]) -> bool {
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

pub(super) fn damaged(at: PoolOffset, what: &str) -> Finding {
    Finding::Damaged { at, what: what.to_owned() }
}
