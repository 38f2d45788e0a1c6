//! What a scheme is put under.

use std::sync::Arc;

use outlast_trace::{LaneId, LineAddr, Op, OpLog, word_pieces};
use rustc_hash::FxHashMap;

/// What the cores run, before any scheme changes it.
#[derive(Clone, Debug)]
pub enum Streams {
    /// Recorded operations; each log has those of one lane, or of all.
    Recorded(Vec<Arc<OpLog>>),
    /// Instructions that are made as they run, in transactions of so many stores; 0 where there
    /// are no transactions.
    Generated {
        /// Stores of each.
        tx_stores: u32,
    },
}

/// Work for a machine, with the memory that it starts from.
#[derive(Clone, Debug)]
pub struct Work {
    /// What runs.
    pub streams: Streams,
    /// The bytes of memory at the start.
    pub image: Arc<Vec<u8>>,
    /// The first line that the work leaves to the scheme.
    pub end: LineAddr,
    /// Lanes that run.
    pub lanes: u16,
    /// Whether transactions are begun inside others, after context switches.
    pub is_nested: bool,
}

impl Work {
    /// Words that its largest transaction stores to, each store's counted again.
    pub fn largest_transaction(&self) -> u64 {
        match &self.streams {
            Streams::Recorded(logs) => {
                let largest = logs.iter().filter_map(|log| largest_transaction(log));
                largest.map(|(_, words)| words).max().unwrap_or(0)
            }
            Streams::Generated { tx_stores } => u64::from(*tx_stores),
        }
    }

    /// The recorded operations; none where they are made as they run.
    pub fn recorded(&self) -> &[Arc<OpLog>] {
        match &self.streams {
            Streams::Recorded(logs) => logs,
            Streams::Generated { .. } => &[],
        }
    }
}

/// Words that the largest of a log's transactions stores to, each store's counted again, and its
/// lane.
pub fn largest_transaction(bare: &OpLog) -> Option<(LaneId, u64)> {
    let mut words: FxHashMap<LaneId, Vec<u64>> = FxHashMap::default();
    let mut largest: Option<(LaneId, u64)> = None;
    for (lane, op) in bare.iter() {
        let open = words.entry(lane).or_default();
        match op {
            Op::TxBegin => open.push(0),
            Op::Store { at, bytes } => {
                if let Some(count) = open.last_mut() {
                    *count += word_pieces(at, bytes.len()).count() as u64;
                }
            }
            Op::TxEnd => {
                let count = open.pop().unwrap_or(0);
                if largest.is_none_or(|(_, most)| count > most) {
                    largest = Some((lane, count));
                }
            }
            _ => {}
        }
    }
    largest
}
