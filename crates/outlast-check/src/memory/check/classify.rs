//! From a failing image to the class of the bug.
//!
//! The run that the last crash interrupts is checked again on memory that is kinder in one respect. The
//! check begins at the last crash point before the failing one: the search found nothing earlier.
//! Kinder memory leaves no image there that the search had not looked for.
//!
//! A failure that takes several crashes is a failure of the last recovery: fewer crashes were
//! searched first, and left nothing wrong. The earlier crashes stay as they were, each with its
//! image, and only that recovery runs on kinder memory: what it begins with must not change.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, TxId, word_pieces};

use super::finding::{Class, Finding, Reproduction};
use super::program::Verify;
use super::run::Ran;
use crate::memory::exhaustive::{
    Assume, Exhaustive, Failure, ReplayedCrash, acknowledged_at, prefix,
};
use crate::memory::history::tracker::Words;
use crate::memory::image::ImageMedium;
use crate::memory::model::Tear;
use crate::memory::verdict::{Broken, Crash, judge};
use crate::memory::witness::{CrashPoint, Witness};

/// Executions of recovery spent on each counterfactual.
const IMAGES_MAX: u64 = 2_000_000;

/// Acknowledgements that are tried, and fences behind each that it is made to wait for.
const ACKS_MAX: usize = 16;
const FENCES_MAX: usize = 64;

/// Explains a failure that was made small.
pub(super) fn explain(
    settings: &Exhaustive,
    base: &[u8],
    ran: &Ran,
    failure: &Failure,
    verify: Verify<'_>,
) -> Finding {
    let replay = settings.replay(base, &ran.log, &failure.witness, verify);
    let crashes = replay.map_or_else(|_| Vec::new(), |replay| replay.crashes);
    let case = Case { settings, base, ran, failure, crashes, verify };
    let class = case.class().unwrap_or(Class::NotDecided);
    let (place, also) = case.places(class);
    let reproduction = Reproduction { plan: ran.plan.clone(), witness: failure.witness.clone() };
    Finding {
        class,
        place,
        callers: Vec::new(),
        also,
        lost: case.lost(),
        lines: case.lines(),
        violation: Some(failure.violation.clone()),
        reproduction: Some(reproduction),
    }
}

/// A failure, with all that its replay needs.
pub(super) struct Case<'a> {
    pub settings: &'a Exhaustive,
    pub base: &'a [u8],
    pub ran: &'a Ran,
    pub failure: &'a Failure,
    /// The crashes of the failing image, replayed.
    pub crashes: Vec<ReplayedCrash>,
    pub verify: Verify<'a>,
}

impl Case<'_> {
    /// Whether nothing fails on memory that is kinder in this respect, up to the acknowledgement
    /// behind the failing crash: what comes later may be wrong in another way. Nothing if that takes
    /// more images than are allowed.
    fn holds(&self, settings: Exhaustive, assume: Assume) -> Option<bool> {
        let (from, to) = self.region();
        self.holds_in(&prefix(self.last_run(), to), from, settings, assume)
    }

    /// The same of a run up to its end, with crashes from operation `from` on.
    fn holds_in(
        &self,
        log: &OpLog,
        from: usize,
        settings: Exhaustive,
        assume: Assume,
    ) -> Option<bool> {
        let settings = settings
            .assuming(assume)
            .crashes(1)
            .failures_max(1)
            .at_most_images(IMAGES_MAX)
            .from_op(assume.position(log, from));
        let outcome = match self.earlier() {
            None => settings.run_all(self.base, log, self.verify),
            Some((before, told)) => {
                let level = self.failure.witness.crashes.len() as u32;
                let verify = |image: &ImageMedium, crash: &Crash<'_>| {
                    let acked = [&told.acked, crash.acked].concat();
                    let begun = [&told.begun, crash.begun].concat();
                    let crash = Crash { level, op: crash.op, acked: &acked, begun: &begun };
                    (self.verify)(image, &crash)
                };
                settings.run_all(before, log, verify)
            }
        };
        let is_whole = outcome.unchecked.is_empty() && outcome.coverage.first_unfinished.is_none();
        let is_decided = !outcome.failures.is_empty() || is_whole;
        is_decided.then_some(outcome.failures.is_empty())
    }

    /// The medium that the last crash's run began with, and the crash before it; nothing for a
    /// crash of the program.
    fn earlier(&self) -> Option<(&[u8], &ReplayedCrash)> {
        match &self.crashes[..] {
            [.., earlier, last] => Some((&last.before, earlier)),
            _ => None,
        }
    }

    /// The run that the last crash interrupts: the program's, or a recovery's.
    fn last_run(&self) -> &OpLog {
        self.last_crash().map_or(&self.ran.log, |crash| &crash.log)
    }

    /// The operations of that run from the last crash point before the failing one to the
    /// acknowledgement after it; where stores wait in a buffer, after all that was acknowledged meanwhile.
    fn region(&self) -> (usize, usize) {
        let log = self.last_run();
        let point = self.failure.witness.crashes.last();
        let (op, told) = point.map_or((0, 0), |point| (point.op, point.told.max(point.op)));
        let is_ack = |at: &usize| matches!(log.get(*at).1, Op::Ack(_));
        let to = (told..log.len()).find(is_ack).unwrap_or(log.len());
        (self.settings.last_point_before(log, op), to)
    }

    /// The rows are tried in this order, and the first that holds names the class. Nothing where
    /// one that comes before it could not be decided.
    ///
    /// | | the failure vanishes if | class |
    /// |---|---|---|
    /// | a | lines do not tear (where the model tears words) | tearing |
    /// | b | *not* with each store durable at once, word by word | see c to g |
    /// | c | each store is durable at once and as a whole | tearing |
    /// | d | (recovery does not end) | endless |
    /// | e | (recovery panics on what the program began with) | panic |
    /// | f | besides, an acknowledgement waits: see [`early_ack`](Self::early_ack) | acknowledged too early |
    /// | g | the leftovers in one line of the failing image are zero | stale record, else atomicity |
    /// | h | fences flush | missing flush |
    /// | i | flushes and streams are durable at once | missing fence |
    /// | k | an acknowledgement waits | acknowledged too early |
    /// | j | a line persists that its lane does not flush before it acknowledges | missing flush |
    /// | g | (as above) | stale record |
    /// | l | stores persist in program order | order, else missing flush |
    fn class(&self) -> Option<Class> {
        let model = self.settings.model();
        let as_is = || self.settings.clone();
        if model.tear == Tear::Word
            && self.holds(as_is().with_model(model.tearing(Tear::Line)), Assume::Nothing)?
        {
            return Some(Class::Tearing);
        }
        let durable = |words| self.holds(as_is(), Assume::Durable(words));
        if !(durable(Words::Ascending)? && durable(Words::Descending)?) {
            return Some(if durable(Words::Whole)? {
                Class::Tearing
            } else if self.failure.violation.broken == Broken::Stuck {
                Class::Endless
            } else if self.panics_on_base() {
                Class::Panic
            } else if self.early_ack(Assume::Durable(Words::Ascending))?.is_some() {
                Class::AcknowledgedEarly
            } else if self.stale_line(Unused::OrRefused).is_some() {
                Class::StaleRecord
            } else {
                Class::Atomicity
            });
        }
        let fences_flush = self.holds(as_is(), Assume::FencesFlush);
        if fences_flush == Some(true) || fences_flush.is_none() && self.is_never_flushed() {
            return Some(Class::MissingFlush);
        }
        fences_flush?;
        Some(if self.holds(as_is(), Assume::FlushesFence)? {
            Class::MissingFence
        } else if self.early_ack(Assume::Nothing)?.is_some() {
            Class::AcknowledgedEarly
        } else if self.is_never_flushed() {
            Class::MissingFlush
        } else if self.stale_line(Unused::IfRefused).is_some() {
            Class::StaleRecord
        } else if self.holds(as_is(), Assume::ProgramOrder)? {
            Class::Order
        } else {
            Class::MissingFlush
        })
    }

    /// The operation of an acknowledgement that came too early, if one did: a crash just before it
    /// leaves nothing wrong, one just behind it does, and one behind some later fence, of any lane,
    /// does not where the acknowledgement waits for that fence. Other acknowledgements behind it are left
    /// out, for they may make the same mistake. Nothing if that takes more images than are allowed.
    ///
    /// A crash just behind it is what tells a promise that came too early from a later transaction that
    /// spoils what was promised: there that transaction has not begun.
    pub(super) fn early_ack(&self, assume: Assume) -> Option<Option<usize>> {
        // What no single crash loses was not promised too early.
        if self.failure.witness.crashes.len() != 1 {
            return Some(None);
        }
        let log = self.last_run();
        let told = self.failure.witness.crashes[0].told.min(log.len());
        let is_ack = |at: &usize| matches!(log.get(*at).1, Op::Ack(_));
        let acks = (self.region().0..told).rev().filter(is_ack).take(ACKS_MAX);
        for ack in acks {
            let holds_at =
                |log: &OpLog| self.holds_in(log, log.len(), self.settings.clone(), assume);
            if !holds_at(&prefix(log, ack))? || holds_at(&prefix(log, ack + 1))? {
                continue;
            }
            for fence in self.fences_behind(ack, assume) {
                if holds_at(&acknowledged_at(log, ack, fence))? {
                    return Some(Some(ack));
                }
            }
        }
        Some(None)
    }

    /// The fences that an acknowledgement may have to wait for. Once a word that was missing is
    /// stored again, a flush of its line is no longer for the sake of what was acknowledged.
    fn fences_behind(&self, ack: usize, assume: Assume) -> Vec<usize> {
        let log = self.last_run();
        let missing = match (self.last_crash(), assume) {
            (Some(crash), Assume::Nothing) => self.missing_words(crash, ack),
            _ => BTreeSet::new(),
        };
        let stores_again = |op: &usize| {
            stored_words(&log.get(*op).1).iter().any(|(word, _)| missing.contains(word))
        };
        let end = (ack + 1..log.len()).find(stores_again).unwrap_or(log.len());
        let is_fence =
            |op: &usize| matches!(log.get(*op).1, Op::Sfence | Op::Mfence | Op::Rmw { .. });
        (ack + 1..end).filter(is_fence).take(FENCES_MAX).collect()
    }

    /// The words stored before an operation that would have avoided the failure had they persisted.
    fn missing_words(&self, crash: &ReplayedCrash, before: usize) -> BTreeSet<u64> {
        let culprits = self.culprits(crash);
        let missing = culprits.iter().flat_map(|unit| &unit.missing);
        let missing = missing.filter(|(op, _)| (*op as usize) < before);
        missing
            .map(|&(op, piece)| stored_words(&crash.log.get(op as usize).1)[piece as usize].0)
            .collect()
    }

    /// Whether recovery or oracle panics on the medium as the program found it.
    fn panics_on_base(&self) -> bool {
        let panics = |begun: ReplayedCrash| !self.recovers(&begun, &begun.image, &[]);
        self.failure.violation.broken == Broken::Panicked && self.durable_at(0).is_some_and(panics)
    }

    /// Whether a line that had to persist is not flushed between its last store and the next
    /// acknowledgement of the lane that stored it.
    fn is_never_flushed(&self) -> bool {
        let model = self.settings.model();
        let row = model.domain.row();
        if row.has_durable_stores {
            return false;
        }
        let cell_bytes = row.unit_bytes;
        let Some(crash) = self.last_crash() else { return false };
        let point = self.failure.witness.crashes.last().map_or(0, |point| point.op);
        let log = &crash.log;
        let acknowledged_by = |lane: LaneId| {
            let is_ack = |op: &usize| matches!(log.get(*op), (by, Op::Ack(_)) if by == lane);
            (point.min(log.len())..log.len()).find(is_ack).unwrap_or(log.len())
        };
        let cell = |line: LineAddr| line.start().0 / cell_bytes;
        self.culprits(crash).iter().any(|unit| {
            let stores = unit.missing.iter().map(|&(op, _)| op as usize);
            let stores =
                stores.filter(|&op| matches!(log.get(op).1, Op::Store { .. } | Op::Rmw { .. }));
            let home = unit.at.0 / cell_bytes;
            let flushes =
                |op: &usize| matches!(log.get(*op).1, Op::Flush { line, .. } if cell(line) == home);
            stores.max().is_some_and(|last| {
                !(last + 1..acknowledged_by(log.get(last).0)).any(|op| flushes(&op))
            })
        })
    }

    /// A line of the failing image whose old content, where the running transaction stores
    /// something new, is what deceives recovery: with zeros there it is in order. For crashes of
    /// the program only: what recovery finds of its own is not left from something older.
    ///
    /// A word in use that is changed in place has old content too, and zeros may happen to be
    /// accepted there. It is told apart by what recovery thinks of damage: see [`Unused`].
    pub(super) fn stale_line(&self, unused: Unused) -> Option<LineAddr> {
        let crash = self.last_crash().filter(|_| self.failure.witness.crashes.len() == 1)?;
        let leftovers = self.leftover_words(crash);
        let begun = self.durable_at(self.transaction(crash).start);
        let mut lines: Vec<u64> = leftovers.iter().map(|word| word / 8).collect();
        lines.dedup();
        let with = |line: u64, bytes: &[u8], change: fn(u8) -> u8| {
            let mut changed = bytes.to_vec();
            for word in leftovers.iter().filter(|word| *word / 8 == line) {
                let at = *word as usize * 8;
                changed[at..at + 8].iter_mut().for_each(|byte| *byte = change(*byte));
            }
            changed
        };
        let deceives = |line: &u64| {
            let zeroed = with(*line, &crash.image, |_| 0);
            if zeroed == crash.image || !self.recovers(crash, &zeroed, &crash.acked) {
                return false;
            }
            let damaged = with(*line, &crash.image, |byte| !byte);
            let was_unused = |begun: &ReplayedCrash| {
                let damaged = with(*line, &begun.image, |byte| !byte);
                self.recovers(begun, &begun.image, &begun.acked)
                    && self.recovers(begun, &damaged, &begun.acked)
            };
            self.recovers(crash, &damaged, &crash.acked)
                || unused == Unused::OrRefused && begun.as_ref().is_some_and(was_unused)
        };
        lines.iter().find(|line| deceives(line)).map(|&line| LineAddr(line))
    }

    /// Words that the transaction in progress stores to and that the image has from before, in
    /// ascending order.
    fn leftover_words(&self, crash: &ReplayedCrash) -> Vec<u64> {
        let mut new: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for at in self.transaction(crash) {
            for (word, value) in stored_words(&crash.log.get(at).1) {
                new.entry(word).or_default().push(value);
            }
        }
        let is_old = |word: u64, values: &[u64]| {
            let at = word as usize * 8;
            crash.image.get(at..at + 8).is_some_and(|bytes| {
                let is_new = values.iter().any(|value| value.to_le_bytes() == bytes);
                !is_new || Some(bytes) == crash.before.get(at..at + 8)
            })
        };
        new.into_iter().filter(|(word, new)| is_old(*word, new)).map(|(word, _)| word).collect()
    }

    /// Whether the oracle is content with these bytes in place of the failing image.
    pub(super) fn recovers(&self, crash: &ReplayedCrash, bytes: &[u8], acked: &[TxId]) -> bool {
        let crashes = &self.failure.witness.crashes;
        let told = Crash {
            level: crashes.len() as u32,
            op: crashes.last().map_or(0, |point| point.op),
            acked,
            begun: &crash.begun,
        };
        let mut verify = self.verify;
        let image = self.settings.image(bytes);
        image.with(|state| state.begin(false, self.settings.limits()));
        judge(&mut verify, &image, &told, false).is_ok()
    }

    /// The operations between the acknowledgements before and after the failing crash.
    fn transaction(&self, crash: &ReplayedCrash) -> Range<usize> {
        let len = crash.log.len();
        let op = self.failure.witness.crashes.last().map_or(0, |point| point.op.min(len));
        let is_ack = |at: &usize| matches!(crash.log.get(*at).1, Op::Ack(_));
        let start = (0..op).rev().find(is_ack).unwrap_or(0);
        start..(op..len).find(is_ack).unwrap_or(len)
    }

    /// The certainly durable state at an operation of the program.
    fn durable_at(&self, op: usize) -> Option<ReplayedCrash> {
        let point = CrashPoint { op, part: 0, told: op, picks: Vec::new() };
        self.replay(&Witness { crashes: vec![point] })?.0.pop()
    }

    pub(super) fn replay(&self, witness: &Witness) -> Option<(Vec<ReplayedCrash>, bool)> {
        let replay = self.settings.replay(self.base, &self.ran.log, witness, self.verify).ok()?;
        Some((replay.crashes, replay.verdict.is_err()))
    }

    pub(super) fn last_crash(&self) -> Option<&ReplayedCrash> {
        self.crashes.last()
    }
}

/// When old content counts as left over, and not as in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unused {
    /// If recovery is in order with damage in its place: it takes it for no record.
    IfRefused,
    /// If so, or if damage there was of no account before the program began.
    OrRefused,
}

/// The bytes that an operation stores, and their address.
pub(crate) fn stored_bytes<'o>(op: &Op<'o>) -> Option<(PoolOffset, &'o [u8])> {
    match *op {
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
            Some((at, bytes))
        }
        Op::Store64 { line, bytes } => Some((line.start(), bytes)),
        _ => None,
    }
}

/// The words that an operation stores to, with what it stores there as a whole word; bytes of a
/// word that it leaves alone count as zero.
pub(crate) fn stored_words(op: &Op<'_>) -> Vec<(u64, u64)> {
    let Some((at, bytes)) = stored_bytes(op) else { return Vec::new() };
    let mut done = 0;
    word_pieces(at, bytes.len())
        .map(|(at, len)| {
            let mut word = [0; 8];
            let from = (at.0 % 8) as usize;
            word[from..from + len].copy_from_slice(&bytes[done..done + len]);
            done += len;
            (at.0 / 8, u64::from_le_bytes(word))
        })
        .collect()
}
