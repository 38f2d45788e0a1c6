//! From a failing image to the class of the bug and the place to look at.

use std::collections::BTreeMap;

use outlast_trace::{ByteRange, LineAddr, Op, OpLog, PoolOffset, word_pieces};

use super::finding::{Class, Finding, Place, Reproduction};
use super::run::Ran;
use crate::exhaustive::{Assume, Exhaustive, Failure, ReplayedCrash};
use crate::history::tracker::Words;
use crate::image::ImageMedium;
use crate::model::Tear;
use crate::verdict::{Crash, Violation, judge};
use crate::witness::{Pick, Witness};

/// Executions of recovery spent on each counterfactual.
const IMAGES_MAX: u64 = 2_000_000;

/// Explains a failure that was made small.
pub(super) fn explain(
    settings: &Exhaustive,
    base: &[u8],
    ran: &Ran,
    failure: &Failure,
    verify: &(impl Fn(&ImageMedium, &Crash<'_>) -> Result<(), Violation> + Copy),
) -> Finding {
    let case = Case { settings, base, ran, failure, verify };
    let class = case.class();
    let (place, also) = case.places(class);
    let reproduction = Reproduction { plan: ran.plan.clone(), witness: failure.witness.clone() };
    Finding {
        class,
        place,
        also,
        violation: Some(failure.violation.clone()),
        reproduction: Some(reproduction),
    }
}

struct Case<'a, V> {
    settings: &'a Exhaustive,
    base: &'a [u8],
    ran: &'a Ran,
    failure: &'a Failure,
    verify: &'a V,
}

impl<V> Case<'_, V>
where
    V: Fn(&ImageMedium, &Crash<'_>) -> Result<(), Violation> + Copy,
{
    /// Whether nothing fails on memory that is kinder in this respect.
    fn holds(&self, settings: Exhaustive, assume: Assume) -> bool {
        let settings = settings.assuming(assume).failures_max(1).images_max(IMAGES_MAX);
        let outcome = settings.run(self.base, &self.ran.log, *self.verify);
        outcome.is_ok_and(|outcome| outcome.failures.is_empty())
    }

    /// The rows are tried in this order, and the first that holds names the class.
    ///
    /// | | the failure vanishes if | class |
    /// |---|---|---|
    /// | a | lines do not tear (where the model tears words) | tearing |
    /// | b | stores are durable at once, and *not* (c) to (e) apply | see f to h |
    /// | c | each store is durable at once and as a whole, but not word by word | tearing |
    /// | d | the leftovers in one line of the failing image are zero | stale record |
    /// | e | none of this: it fails even with stores durable at once | atomicity |
    /// | f | fences flush | missing flush |
    /// | g | flushes and streams are durable at once | missing fence |
    /// | d | (as above) | stale record |
    /// | h | stores persist in program order | order |
    /// | i | only with all stores durable at once | missing flush |
    fn class(&self) -> Class {
        let model = self.settings.model();
        let as_is = || self.settings.clone();
        if model.tear == Tear::Word
            && self.holds(as_is().with_model(model.tearing(Tear::Line)), Assume::Nothing)
        {
            return Class::Tearing;
        }
        let durable = |words| self.holds(as_is(), Assume::Durable(words));
        if !(durable(Words::Ascending) && durable(Words::Descending)) {
            return if durable(Words::Whole) {
                Class::Tearing
            } else if self.stale_line().is_some() {
                Class::StaleRecord
            } else {
                Class::Atomicity
            };
        }
        if self.holds(as_is(), Assume::FencesFlush) {
            Class::MissingFlush
        } else if self.holds(as_is(), Assume::FlushesFence) {
            Class::MissingFence
        } else if self.stale_line().is_some() {
            Class::StaleRecord
        } else if self.holds(as_is(), Assume::ProgramOrder) {
            Class::Order
        } else {
            Class::MissingFlush
        }
    }

    /// A line of the failing image whose old content, where the running transaction stores
    /// something new, is what deceives recovery: with zeros there it is in order. For crashes of
    /// the program only: what recovery finds of its own is not left from something older.
    fn stale_line(&self) -> Option<LineAddr> {
        let crash = self.last_crash().filter(|_| self.failure.witness.crashes.len() == 1)?;
        let leftovers = self.leftover_words(&crash);
        let mut lines: Vec<u64> = leftovers.iter().map(|word| word / 8).collect();
        lines.dedup();
        let deceives = |line: &u64| {
            let mut image = crash.image.clone();
            for word in leftovers.iter().filter(|word| *word / 8 == *line) {
                image[*word as usize * 8..][..8].fill(0);
            }
            image != crash.image && self.recovers(&crash, &image)
        };
        lines.iter().find(|line| deceives(line)).map(|&line| LineAddr(line))
    }

    /// Words that the transaction in progress stores to and that the image has from before, in
    /// ascending order.
    fn leftover_words(&self, crash: &ReplayedCrash) -> Vec<u64> {
        let op = self.failure.witness.crashes.last().map_or(0, |point| point.op);
        let is_ack = |at: &usize| matches!(crash.log.get(*at).1, Op::Ack(_));
        let from = (0..op.min(crash.log.len())).rev().find(is_ack).unwrap_or(0);
        let to = (op..crash.log.len()).find(is_ack).unwrap_or(crash.log.len());
        let mut new: BTreeMap<u64, u64> = BTreeMap::new();
        for at in from..to {
            for (word, value) in stored_words(&crash.log.get(at).1) {
                new.insert(word, value);
            }
        }
        let old = |word: &u64, value: &u64| {
            let at = *word as usize * 8;
            crash.image.get(at..at + 8).is_some_and(|bytes| {
                bytes != value.to_le_bytes() || Some(bytes) == crash.before.get(at..at + 8)
            })
        };
        new.into_iter().filter(|(word, value)| old(word, value)).map(|(word, _)| word).collect()
    }

    /// Whether the oracle is content with these bytes in place of the failing image.
    fn recovers(&self, crash: &ReplayedCrash, bytes: &[u8]) -> bool {
        let crashes = &self.failure.witness.crashes;
        let told = Crash {
            level: crashes.len() as u32,
            op: crashes.last().map_or(0, |point| point.op),
            acked: &crash.acked,
            begun: &crash.begun,
        };
        let mut verify = *self.verify;
        judge(&mut verify, &self.settings.image(bytes), &told, false).is_ok()
    }

    fn replay(&self, witness: &Witness) -> Option<(Vec<ReplayedCrash>, bool)> {
        let replay = self.settings.replay(self.base, &self.ran.log, witness, *self.verify).ok()?;
        Some((replay.crashes, replay.verdict.is_err()))
    }

    fn last_crash(&self) -> Option<ReplayedCrash> {
        self.replay(&self.failure.witness)?.0.pop()
    }

    fn places(&self, class: Class) -> (Place, Vec<Place>) {
        let Some(crash) = self.last_crash() else { return (self.crash_place(), Vec::new()) };
        let missing = self.missing_stores(&crash);
        let early = crash.persisted.iter().filter_map(|unit| unit.last());
        let early = self.places_of(&crash.log, early);
        let flushed = |store: &Place| self.flush_of(&crash.log, store);
        let (first, rest) = match class {
            Class::MissingFence => {
                let mut flushes: Vec<Place> = missing.iter().filter_map(flushed).collect();
                // A stream needs no flush: it is itself what was not fenced.
                if flushes.is_empty() {
                    flushes.clone_from(&missing);
                }
                (flushes, early)
            }
            Class::Order | Class::Tearing => {
                if early.is_empty() {
                    (missing, early)
                } else {
                    (early, missing)
                }
            }
            Class::StaleRecord => {
                let line = self.stale_line();
                let stale = self.stores_to(&crash.log, line).into_iter().next();
                (stale.into_iter().collect(), early)
            }
            _ => (missing, early),
        };
        let mut all = first.into_iter().chain(rest);
        let place = all.next().unwrap_or_else(|| self.crash_place());
        (place, all.collect())
    }

    /// Stores that had not persisted: those whose line, had it persisted, would have avoided the
    /// failure; all of them if no single line would have.
    fn missing_stores(&self, crash: &ReplayedCrash) -> Vec<Place> {
        let culprit = |pick: &PoolOffset| {
            let mut witness = self.failure.witness.clone();
            let Some(last) = witness.crashes.last_mut() else { return false };
            last.picks.retain(|other| other.at != *pick);
            last.picks.push(Pick { at: *pick, row: u32::MAX });
            self.replay(&witness).is_some_and(|(_, fails)| !fails)
        };
        let open: Vec<PoolOffset> = crash.open.iter().map(|unit| unit.at).collect();
        let culprits: Vec<PoolOffset> = open.iter().copied().filter(culprit).collect();
        let units = crash.open.iter().filter(|unit| {
            culprits.contains(&unit.at) || (culprits.is_empty() && !unit.missing.is_empty())
        });
        self.places_of(&crash.log, units.filter_map(|unit| unit.missing.first()))
    }

    /// The places of some words of stores, each line of an operation once.
    fn places_of<'p>(
        &self,
        log: &OpLog,
        pieces: impl Iterator<Item = &'p (u32, u32)>,
    ) -> Vec<Place> {
        let place = |&(op, piece): &(u32, u32)| {
            let word = stored_words(&log.get(op as usize).1)[piece as usize].0;
            let line = Some(LineAddr(word / 8));
            Place { line, ..self.place(log, op as usize) }
        };
        let mut places: Vec<Place> = pieces.map(place).collect();
        places.sort_by_key(|place| (place.op, place.line));
        places.dedup();
        places
    }

    /// The flush that came after a store, of its line.
    fn flush_of(&self, log: &OpLog, store: &Place) -> Option<Place> {
        let point = self.failure.witness.crashes.last()?;
        let flushes = |&op: &usize| matches!(log.get(op).1, Op::Flush { line, .. } if Some(line) == store.line);
        (store.op + 1..point.op).find(flushes).map(|op| self.place(log, op))
    }

    fn stores_to(&self, log: &OpLog, line: Option<LineAddr>) -> Vec<Place> {
        let point = self.failure.witness.crashes.last().map_or(0, |point| point.op);
        let (Some(line), from) = (line, point.saturating_sub(1)) else { return Vec::new() };
        let hits = |&op: &usize| op_lines(&log.get(op).1).any(|hit| hit == line);
        let mut places: Vec<Place> =
            (from..log.len()).filter(hits).map(|op| self.place(log, op)).collect();
        places.iter_mut().for_each(|place| place.line = Some(line));
        places
    }

    fn crash_place(&self) -> Place {
        let crashes = &self.failure.witness.crashes;
        let op = crashes.last().map_or(0, |point| point.op).saturating_sub(1);
        match self.last_crash() {
            Some(crash) if op < crash.log.len() => self.place(&crash.log, op),
            _ => Place { level: 1, op: 0, lane: Default::default(), line: None, site: None },
        }
    }

    fn place(&self, log: &OpLog, op: usize) -> Place {
        let level = self.failure.witness.crashes.len() as u32;
        let (lane, what) = log.get(op);
        let site = self.ran.sites.get(op).copied().filter(|_| level == 1);
        Place { level, op, lane, line: op_lines(&what).next(), site }
    }
}

/// The words that an operation stores to, with what it stores there as a whole word; bytes of a
/// word that it leaves alone count as zero.
fn stored_words(op: &Op<'_>) -> Vec<(u64, u64)> {
    let (at, bytes): (PoolOffset, &[u8]) = match op {
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => (*at, bytes),
        Op::Store64 { line, bytes } => (line.start(), &bytes[..]),
        _ => return Vec::new(),
    };
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

fn op_lines(op: &Op<'_>) -> impl Iterator<Item = LineAddr> + use<> {
    let range = match *op {
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
            ByteRange::new(at, bytes.len() as u64)
        }
        Op::Store64 { line, .. } | Op::Flush { line, .. } => ByteRange::new(line.start(), 64),
        _ => ByteRange::default(),
    };
    range.lines()
}
