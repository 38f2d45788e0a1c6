//! What ran, as the oracle takes it: bare transactions, or epochs of stores.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use outlast_schemes::{Image, Patch, Prepared};
use outlast_sim::LineBytes;
use outlast_sim::timed::{Cycle, TimedJournal};
use outlast_trace::{Guarantee, LaneId, LineAddr, Op, PoolOffset, TxId};
use outlast_workloads::machine::Recorded;
use rustc_hash::FxHashSet;

use super::crashes::Run;
use crate::oracle::check;
use crate::oracle::epoch::Epochs;
use crate::oracle::prefixes::{Counts, PrefixHistory, Ran, Stores};
use crate::{Broken, Violation};

/// The set of data of a transaction.
pub(super) fn data_of(tx: TxId) -> u64 {
    tx.0 >> 32
}

/// The place of a transaction among those of its data, from 1 on.
pub(super) fn number_of(tx: TxId) -> usize {
    (tx.0 & u64::from(u32::MAX)) as usize
}

/// What ran.
pub(super) enum History {
    Transactions(PrefixHistory),
    /// Of one run: it alone says where its epochs ended.
    Epochs(Epochs),
}

/// How much of it is somewhere: reported, or found in an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum There {
    Transactions(Counts),
    /// All up to the end of this epoch, when each core stood at its position.
    Epoch {
        epoch: u64,
        positions: Vec<u64>,
    },
}

/// What the oracle says of a recovered image.
#[derive(Clone)]
pub(super) struct Judged {
    /// What is there, if it is whole.
    pub there: Option<There>,
    /// Whether something is missing that was reported.
    pub lost: bool,
    /// Whether the guarantee allows it.
    pub verdict: Result<(), Violation>,
}

impl Judged {
    /// An image that nothing explains.
    pub fn torn(violation: Violation) -> Self {
        Self { there: None, lost: false, verdict: Err(violation) }
    }
}

impl History {
    /// Of work under a scheme that promises transactions.
    pub fn of_transactions(work: &Recorded) -> Self {
        let word = |at: u64| work.image.get(at as usize..at as usize + 8);
        Self::Transactions(PrefixHistory::new(&ran(work), |at| {
            word(at).map_or([0; 8], |word| word.try_into().expect("eight bytes were taken"))
        }))
    }

    /// Of one run under a scheme that promises epochs.
    pub fn of_epochs(run: &Run) -> Self {
        let There::Epoch { epoch, positions } = &run.recovered else {
            unreachable!("what is there is told as what ran")
        };
        let image = Image::new(&run.base);
        let line = |number| image.line(run.prepared.locate(image, LineAddr(number)));
        let base = (0..run.prepared.epoch_lines()).flat_map(line).copied().collect();
        Self::Epochs(Epochs::of_run(base, *epoch, positions.clone(), run.journal()))
    }

    /// What was reported durable by then, in a run that began with what was recovered before.
    pub fn reported(&self, journal: &TimedJournal, now: Cycle, recovered: &There) -> There {
        if let There::Epoch { epoch, .. } = recovered {
            let epoch = journal.persisted_by(now).max(*epoch);
            return There::Epoch { epoch, positions: Vec::new() };
        }
        let mut counts = Counts::new();
        for (_, tx) in journal.acknowledged_by(now) {
            let count = counts.entry(data_of(*tx)).or_insert(0);
            *count = (*count).max(number_of(*tx));
        }
        There::Transactions(counts)
    }

    /// Judges a recovered image by a guarantee. Where recovery is known to have written no more than
    /// `written`, bytes that nothing else can have changed are not compared.
    pub fn judge(
        &mut self,
        guarantee: Guarantee,
        prepared: &dyn Prepared,
        image: Image<'_>,
        (reported, recovered): (&There, &There),
        written: Option<Vec<Patch>>,
    ) -> Judged {
        if let Err(wrong) = prepared.audit(image) {
            return Judged::torn(Violation::new(Broken::Other, wrong));
        }
        match (self, reported, recovered) {
            (Self::Epochs(epochs), There::Epoch { epoch: reported, .. }, recovered) => {
                let Some(named) = prepared.epoch(image) else {
                    let detail = "recovery names no epoch";
                    return Judged::torn(Violation::new(Broken::Garbage, detail));
                };
                let cores = match recovered {
                    There::Epoch { positions, .. } => positions.len() as u16,
                    There::Transactions(_) => 0,
                };
                let position = |core| prepared.resumes_at(image, LaneId(core));
                let positions: Vec<u64> = (0..cores).map(position).collect();
                let lines = |first: LineAddr, most: u64| {
                    let at = prepared.locate(image, first);
                    let lies_behind =
                        |n: &u64| prepared.locate(image, first.plus(*n)) == at.plus(*n);
                    let more = (1..most).take_while(lies_behind).count() as u64;
                    Cow::Borrowed(image.lines_from(at, 1 + more))
                };
                let written = written.map(|all| all.iter().map(|patch| patch.at.line()).collect());
                let verdict = epochs.check(named, *reported, &positions, lines, written);
                let is = |broken| verdict.as_ref().is_err_and(|wrong| wrong.broken == broken);
                let there = verdict.is_ok().then_some(There::Epoch { epoch: named, positions });
                Judged { there, lost: is(Broken::Lost), verdict }
            }
            (
                Self::Transactions(history),
                There::Transactions(acknowledged),
                There::Transactions(recovered),
            ) => {
                // Words come by their addresses, so eight of them ask for one line.
                let last: Cell<Option<(LineAddr, &LineBytes)>> = Cell::new(None);
                let word = |at: u64| {
                    let line = PoolOffset(at).line();
                    let bytes = match last.get() {
                        Some((of, bytes)) if of == line => bytes,
                        _ => image.line(prepared.locate(image, line)),
                    };
                    last.set(Some((line, bytes)));
                    bytes.as_chunks::<8>().0[(at % 64 / 8) as usize]
                };
                match history.explain(word, acknowledged, recovered) {
                    Err(torn) => Judged::torn(torn),
                    Ok(kept) => Judged {
                        lost: check(Guarantee::Durable, &kept).is_err(),
                        verdict: check(guarantee, &kept),
                        there: Some(There::Transactions(kept.counts)),
                    },
                }
            }
            _ => unreachable!("what is there is told as what ran"),
        }
    }
}

/// The words to which work stores outside of transactions: no scheme promises anything of these.
fn unprotected(work: &Recorded) -> FxHashSet<u64> {
    let mut words = FxHashSet::default();
    for stream in &work.streams {
        let mut open: BTreeMap<u16, u64> = BTreeMap::new();
        for (lane, op) in stream.iter() {
            let depth = open.entry(lane.0).or_default();
            match op {
                Op::TxBegin => *depth += 1,
                Op::TxEnd | Op::TxAbort => *depth = depth.saturating_sub(1),
                Op::Store { at, bytes } if *depth == 0 => {
                    words.extend(at.0 / 8..(at.0 + bytes.len() as u64).div_ceil(8));
                }
                _ => {}
            }
        }
    }
    words
}

/// The transactions of recorded work, with their stores to words that nothing else stores to.
pub(super) fn ran(work: &Recorded) -> Ran {
    let unprotected = unprotected(work);
    let is_protected = |at: PoolOffset, bytes: &[u8]| {
        let mut words = at.0 / 8..(at.0 + bytes.len() as u64).div_ceil(8);
        unprotected.is_empty() || !words.any(|word| unprotected.contains(&word))
    };
    let mut ran = Ran::default();
    for stream in &work.streams {
        let mut open: BTreeMap<u16, Vec<Stores>> = BTreeMap::new();
        let mut ended: BTreeMap<u16, Stores> = BTreeMap::new();
        for (lane, op) in stream.iter() {
            let stack = open.entry(lane.0).or_default();
            match op {
                Op::TxBegin => stack.push(Stores::new()),
                Op::Store { at, bytes } => {
                    if let Some(stores) = stack.last_mut()
                        && is_protected(at, bytes)
                    {
                        stores.push((at, bytes.to_vec()));
                    }
                }
                Op::TxEnd => drop(ended.insert(lane.0, stack.pop().unwrap_or_default())),
                Op::TxAbort => ran.aborted.extend(stack.pop().unwrap_or_default()),
                Op::Ack(tx) => {
                    let stores = ended.remove(&lane.0).unwrap_or_default();
                    ran.by_data.entry(data_of(tx)).or_default().insert(number_of(tx), stores);
                }
                _ => {}
            }
        }
    }
    ran
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use outlast_schemes::RecoveryError;
    use outlast_sim::timed::{Machine, MachineConfig, MachineError, Setup, Source};
    use outlast_trace::OpLog;

    use super::*;
    use crate::oracle::epoch::End;

    /// An image of two lines, which lie the wrong way round, behind a line with the epoch's number.
    #[derive(Debug)]
    struct Swapped;

    impl Prepared for Swapped {
        fn streams(&self) -> &[Arc<OpLog>] {
            &[]
        }

        fn lines(&self) -> u64 {
            3
        }

        fn machine(
            &self,
            _: &MachineConfig,
            _: Setup,
            _: Vec<Box<dyn Source>>,
        ) -> Result<Box<dyn Machine>, MachineError> {
            unreachable!("nothing runs")
        }

        fn recover(&self, _: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
            Ok(Vec::new())
        }

        fn locate(&self, _: Image<'_>, line: LineAddr) -> LineAddr {
            LineAddr(2 - line.0)
        }

        fn epoch(&self, image: Image<'_>) -> Option<u64> {
            Some(image.word(LineAddr(0), 0)).filter(|epoch| *epoch != 99)
        }
    }

    #[test]
    fn an_epoch_of_the_machine_is_judged_where_the_scheme_has_its_lines() {
        let stores = (1..=2).map(|epoch| (PoolOffset(64), [epoch; 8])).collect();
        let ends = (0..=2).map(|stores| End { stores, positions: vec![0] }).collect();
        let mut history = History::Epochs(Epochs::of(vec![0; 128], 0, stores, ends));
        let there = |epoch, cores| There::Epoch { epoch, positions: vec![0; cores] };
        let mut judge = |byte: u8, named: u8, reported: u64| {
            let mut image = vec![0; 192];
            image[64..72].fill(byte);
            image[0] = named;
            let (reported, recovered) = (there(reported, 0), there(0, 1));
            let told = (&reported, &recovered);
            let judged = history.judge(Guarantee::Epoch, &Swapped, Image::new(&image), told, None);
            (judged.there, judged.verdict.map_err(|wrong| wrong.broken), judged.lost)
        };
        assert_eq!(judge(1, 1, 1), (Some(there(1, 1)), Ok(()), false));
        assert_eq!(judge(2, 2, 1), (Some(there(2, 1)), Ok(()), false));
        assert_eq!(judge(1, 1, 2), (None, Err(Broken::Lost), true));
        assert_eq!(judge(2, 1, 1), (None, Err(Broken::Torn), false));
        assert_eq!(judge(0, 99, 0), (None, Err(Broken::Garbage), false));
    }
}
