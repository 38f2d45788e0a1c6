//! The write-back of a pool, by its options, its scheme and the lengths of its rings. Decided when it is opened.

use super::history::{History, Rings, Sample};
use super::{STEP_LINES_MAX, cache_bytes};
use crate::layout::Geometry;
use crate::pool::OpenOptions;
use crate::scheme::{Facts, NewBlocks, Role};

/// New blocks up to this size are logged by redo like other stores; larger ones are stored in
/// place at once and flushed before the record, which costs a fence and saves the copy.
const LOGS_BLOCKS_UP_TO: u64 = 256;

/// The same under redo where a fence waits for a device: that takes longer than the copy of some pages.
const LOGS_PAGED_BLOCKS_UP_TO: u64 = 16 << 10;

/// The same where a transaction takes many: from this one on the fence costs less than to log their contents, which are
/// mostly side by side, and written once.
const LOGS_PAGED_BLOCKS: usize = 64;

/// The same where data stays in the log until the cache has written it back by itself: what is
/// flushed for the commit, the cache has not.
const LOGS_BLOCKS_BY_AGE_UP_TO: u64 = 2048;

pub(crate) struct Plan {
    /// Log lines after which a lane does its share.
    pub step_every: u64,
    /// Log lines, or accesses, after which the history unit takes in what was installed.
    pub drain_every: u64,
    /// Only where data is flushed by age, and not under a published variant.
    pub history: Option<History>,
    /// The lines that lanes leave hints about, if hints are wanted.
    pub sample: Option<Sample>,
    /// Bytes of the largest new block whose contents are logged, by a redo or a seal.
    pub logs_blocks_up_to: u64,
    /// How many new blocks of a transaction have their contents logged, by a redo.
    pub logs_blocks: usize,
    /// Contents of new blocks in place are flushed block by block, not line by line: only pages count.
    pub flushes_fresh_whole: bool,
}

impl Plan {
    pub fn new(options: &OpenOptions, facts: &Facts, geometry: &Geometry, is_paged: bool) -> Self {
        let cache_bytes = options.cache_bytes.unwrap_or_else(cache_bytes);
        let lanes = u64::from(geometry.lanes);
        let rings = Rings { bytes: lanes * geometry.lane_bytes, cache_bytes };
        let is_by_age = facts.covers && facts.by_age;
        let has_history = is_by_age && rings.outlive_some();
        let sample = Sample::one_in_two_to_the(options.sample_bits);
        let is_published = facts.role == Role::Published;
        let drain_every = options.step_every.max(1) as u64;
        let is_paged_redo = is_paged && facts.commits_by_record && !geometry.checksums;
        Self {
            logs_blocks: if is_paged_redo { LOGS_PAGED_BLOCKS } else { usize::MAX },
            flushes_fresh_whole: is_paged_redo,
            step_every: if is_published { drain_every } else { drain_every.min(STEP_LINES_MAX) },
            drain_every,
            history: has_history
                .then(|| History::new(cache_bytes, sample, lanes * geometry.ring_lines())),
            sample: (has_history || is_published).then_some(sample),
            logs_blocks_up_to: match is_by_age && rings.outlive_all() {
                true => LOGS_BLOCKS_BY_AGE_UP_TO,
                // Contents that would make the seal long are flushed soon after all the same.
                false if facts.by_age && !facts.has_write_set => 0,
                false if facts.new_blocks == NewBlocks::BySize && is_paged => {
                    LOGS_PAGED_BLOCKS_UP_TO
                }
                false => LOGS_BLOCKS_UP_TO,
            },
        }
    }
}
