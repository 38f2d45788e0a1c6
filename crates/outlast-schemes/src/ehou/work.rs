//! What some work needs of the mechanism's tables.

use outlast_trace::{Op, PoolOffset};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Work;
use crate::scheme::PrepareError;
use crate::shared::SetAssoc;
use crate::shared::ait::Ait;
use crate::work::Streams;

/// Lanes at most: a byte says whose a block is.
const LANES_MAX: u16 = 254;

/// What transactions need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Needs {
    /// Blocks of the largest.
    pub(super) largest: u64,
    /// Entries of one set of the AIT cache, of all that may run at the same time.
    pub(super) of_set: u64,
}

impl Needs {
    /// Those of this work.
    ///
    /// # Errors
    /// When it is of a kind that the mechanism does not take.
    pub(super) fn of(work: &Work, ait: Ait) -> Result<Self, PrepareError> {
        work.check_transactions("moves what transactions store")?;
        if work.lanes > LANES_MAX {
            return Err(PrepareError::new(format_args!(
                "{} lanes are too many: a block says which of {LANES_MAX} stores to it",
                work.lanes
            )));
        }
        match &work.streams {
            Streams::Generated { tx_stores } => {
                let largest = u64::from(*tx_stores);
                Ok(Self { largest, of_set: largest * u64::from(work.lanes) })
            }
            Streams::Recorded(_) => Ok(Self::recorded(work, ait)),
        }
    }

    fn recorded(work: &Work, ait: Ait) -> Self {
        let sets: SetAssoc<()> = SetAssoc::new(ait.sets, 1);
        let mut open: FxHashMap<u16, FxHashSet<u64>> = FxHashMap::default();
        // The most that any transaction of a lane has in a set.
        let mut of_sets: FxHashMap<(u16, u64), u64> = FxHashMap::default();
        let mut in_sets: FxHashMap<u64, u64> = FxHashMap::default();
        let mut largest = 1;
        for (lane, op) in work.recorded().iter().flat_map(|log| log.iter()) {
            let blocks = open.entry(lane.0).or_default();
            let (at, bytes) = match op {
                Op::TxBegin => {
                    blocks.clear();
                    continue;
                }
                Op::TxEnd | Op::TxAbort => {
                    largest = largest.max(blocks.len() as u64);
                    in_sets.clear();
                    for block in blocks.drain() {
                        *in_sets.entry(sets.set_of(block)).or_default() += 1;
                    }
                    for (&set, &count) in &in_sets {
                        let most = of_sets.entry((lane.0, set)).or_default();
                        *most = count.max(*most);
                    }
                    continue;
                }
                Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
                    (at, bytes.len() as u64)
                }
                Op::Store64 { line, .. } => (line.start(), 64),
                _ => continue,
            };
            let block_of = |at: PoolOffset| at.line().0 / ait.block_lines;
            blocks.extend(block_of(at)..=block_of(at.plus(bytes.max(1) - 1)));
        }
        let mut together: FxHashMap<u64, u64> = FxHashMap::default();
        for ((_, set), count) in of_sets {
            *together.entry(set).or_default() += count;
        }
        Self { largest, of_set: together.into_values().max().unwrap_or(0) }
    }
}
