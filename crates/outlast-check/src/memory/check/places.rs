//! Which operations a finding points at.

use outlast_pmem::Site;
use outlast_trace::{LineAddr, Op, OpLog};

use super::classify::{Case, Unused, stored_words};
use super::finding::{Class, Place};
use super::run::lines_of;
use crate::memory::exhaustive::{Assume, LAST_ROW, OpenUnit, ReplayedCrash};
use crate::memory::history::tracker::Words;
use crate::memory::witness::Pick;

impl Case<'_> {
    pub(super) fn places(&self, class: Class) -> (Place, Vec<Place>) {
        let Some(crash) = self.last_crash() else { return (self.crash_place(), Vec::new()) };
        let missing = self.missing_stores(crash);
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
            Class::AcknowledgedEarly => (self.ack_place(&crash.log).into_iter().collect(), missing),
            Class::StaleRecord => {
                let line = self.stale_line(Unused::OrRefused);
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
        let culprits = self.culprits(crash);
        self.places_of(&crash.log, culprits.iter().filter_map(|unit| unit.missing.first()))
    }

    /// Units whose content, had all of it persisted, would have avoided the failure; all that had
    /// not persisted if no single one would have.
    pub(super) fn culprits<'c>(&self, crash: &'c ReplayedCrash) -> Vec<&'c OpenUnit> {
        let heals = |unit: &&OpenUnit| {
            let mut witness = self.failure.witness.clone();
            let Some(last) = witness.crashes.last_mut() else { return false };
            last.picks.retain(|other| other.at != unit.at);
            last.picks.push(Pick { at: unit.at, row: LAST_ROW });
            self.replay(&witness)
                .is_some_and(|(crashes, fails)| crashes.len() == witness.crashes.len() && !fails)
        };
        let culprits: Vec<&OpenUnit> = crash.open.iter().filter(heals).collect();
        if culprits.is_empty() {
            crash.open.iter().filter(|unit| !unit.missing.is_empty()).collect()
        } else {
            culprits
        }
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
        let hits = |&op: &usize| lines_of(&log.get(op).1).any(|hit| hit == line);
        let mut places: Vec<Place> =
            (from..log.len()).filter(hits).map(|op| self.place(log, op)).collect();
        places.iter_mut().for_each(|place| place.line = Some(line));
        places
    }

    /// The acknowledgement that came too early.
    fn ack_place(&self, log: &OpLog) -> Option<Place> {
        let stored = Assume::Durable(Words::Ascending);
        let early = |assume| self.early_ack(assume).flatten();
        early(stored).or_else(|| early(Assume::Nothing)).map(|op| self.place(log, op))
    }

    fn crash_place(&self) -> Place {
        let crashes = &self.failure.witness.crashes;
        let op = crashes.last().map_or(0, |point| point.op).saturating_sub(1);
        match self.last_crash() {
            Some(crash) if op < crash.log.len() => self.place(&crash.log, op),
            _ => Place { level: 1, ..Place::default() },
        }
    }

    /// An operation of the run that the last crash interrupts.
    pub(super) fn place(&self, log: &OpLog, op: usize) -> Place {
        self.place_at(self.failure.witness.crashes.len() as u32, log, op)
    }

    /// An operation of the program, whose level is 1, or of a recovery.
    pub(super) fn place_at(&self, level: u32, log: &OpLog, op: usize) -> Place {
        let (lane, what) = log.get(op);
        let sites: &[Site] = match level {
            1 => &self.ran.sites,
            _ => self.crashes.get(level as usize - 1).map_or(&[], |crash| &crash.sites),
        };
        Place { level, op, lane, line: lines_of(&what).next(), site: sites.get(op).copied() }
    }
}
