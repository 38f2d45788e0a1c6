//! What a scheme is put under.

use std::sync::Arc;

use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, word_pieces};
use rustc_hash::FxHashMap;

use crate::scheme::PrepareError;

/// What the cores run, before any scheme changes it.
#[derive(Clone, Debug)]
pub enum Streams {
    /// Recorded operations; each log has those of one lane, or of all.
    Recorded(Vec<Arc<OpLog>>),
    /// Instructions that are made as they run, in transactions of `tx_stores` stores; 0 where there
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
    /// The bytes of memory at the start. Where it resumes other work, they are a recovered image, the
    /// scheme's own lines included.
    pub image: Arc<Vec<u8>>,
    /// The first line that the work leaves to the scheme.
    pub end: LineAddr,
    /// Lanes that run.
    pub lanes: u16,
    /// Whether transactions are begun inside others, after context switches.
    pub is_nested: bool,
    /// The work of which this is the rest after a crash. The scheme's own lines are laid out for that.
    pub whole: Option<Arc<Work>>,
}

impl Work {
    /// The rest of this work, from a recovered image on.
    pub fn resumed(&self, rest: Vec<Arc<OpLog>>, image: Arc<Vec<u8>>) -> Self {
        let whole = Some(Arc::new(self.whole().clone()));
        Self { streams: Streams::Recorded(rest), image, whole, ..self.clone() }
    }

    /// The work that decides how the scheme's own lines are laid out: all of it, before any crash.
    pub fn whole(&self) -> &Self {
        self.whole.as_deref().unwrap_or(self)
    }

    /// Refuses work that a scheme of transactions cannot take: transactions inside others, or none at
    /// all. `does` says what the scheme does to them.
    pub(crate) fn check_transactions(&self, does: &str) -> Result<(), PrepareError> {
        if self.is_nested {
            return Err(PrepareError::new("a lane has one transaction at a time"));
        }
        if matches!(self.streams, Streams::Generated { tx_stores: 0 }) {
            return Err(PrepareError::new(format_args!("{does}, and there are none")));
        }
        Ok(())
    }

    /// Words that the largest transaction of the whole work stores to, each store's counted again.
    pub fn largest_transaction(&self) -> u64 {
        match &self.whole().streams {
            Streams::Recorded(logs) => {
                let largest = logs.iter().filter_map(|log| largest_transaction(log));
                largest.map(|(_, words)| words).max().unwrap_or(0)
            }
            Streams::Generated { tx_stores } => u64::from(*tx_stores),
        }
    }

    /// The same work with programs that undo for themselves what aborts; nothing where nothing does.
    pub(crate) fn with_aborts_undone(&self) -> Option<Self> {
        let mut ops = self.whole().recorded().iter().flat_map(|log| log.iter());
        if !ops.any(|(_, op)| op == Op::TxAbort) {
            return None;
        }
        let undone = |log: &Arc<OpLog>| Arc::new(with_aborts_undone(log, &self.image));
        let streams = Streams::Recorded(self.recorded().iter().map(undone).collect());
        let whole = self.whole.as_ref().and_then(|whole| whole.with_aborts_undone());
        Some(Self { streams, whole: whole.map(Arc::new), ..self.clone() })
    }

    /// The recorded operations; none where they are made as they run.
    pub fn recorded(&self) -> &[Arc<OpLog>] {
        match &self.streams {
            Streams::Recorded(logs) => logs,
            Streams::Generated { .. } => &[],
        }
    }
}

/// What a transaction's stores replaced, the oldest first.
type Undo = Vec<(PoolOffset, Vec<u8>)>;

/// The same operations where a program stores old values back, the newest first, before it ends a
/// transaction that aborts. What it needs for that it has kept: it loads nothing. Memory begins
/// with `image`.
fn with_aborts_undone(bare: &OpLog, image: &[u8]) -> OpLog {
    let mut memory: FxHashMap<u64, [u8; 8]> = FxHashMap::default();
    let initial = |word: u64| -> [u8; 8] {
        let found = image.get(word as usize..word as usize + 8);
        found.map_or([0; 8], |word| word.try_into().expect("eight bytes were taken"))
    };
    let mut open: FxHashMap<LaneId, Vec<Undo>> = FxHashMap::default();
    let mut out = OpLog::default();
    for (lane, op) in bare.iter() {
        let open = open.entry(lane).or_default();
        match op {
            Op::TxBegin => open.push(Vec::new()),
            Op::Store { at, bytes } => {
                let (mut old, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
                for (at, len) in word_pieces(at, bytes.len()) {
                    let (piece, tail) = rest.split_at(len);
                    rest = tail;
                    let word = memory.entry(at.0 & !7).or_insert_with(|| initial(at.0 & !7));
                    let place = &mut word[(at.0 % 8) as usize..][..len];
                    old.extend_from_slice(place);
                    place.copy_from_slice(piece);
                }
                if let Some(undo) = open.last_mut() {
                    undo.push((at, old));
                }
            }
            Op::TxEnd => drop(open.pop()),
            Op::TxAbort => {
                for (at, old) in open.pop().unwrap_or_default().into_iter().rev() {
                    out.op(lane, Op::Store { at, bytes: &old });
                    let mut rest = old.as_slice();
                    for (at, len) in word_pieces(at, old.len()) {
                        let (piece, tail) = rest.split_at(len);
                        rest = tail;
                        let word = memory.entry(at.0 & !7).or_default();
                        word[(at.0 % 8) as usize..][..len].copy_from_slice(piece);
                    }
                }
                out.op(lane, Op::TxEnd);
                continue;
            }
            _ => {}
        }
        out.op(lane, op);
    }
    out
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
            Op::TxEnd | Op::TxAbort => {
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
