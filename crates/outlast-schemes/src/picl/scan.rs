//! The asynchronous cache scan, which has epochs persist.
//!
//! ```text
//!  idle ─an epoch is due─> scans ─all its lines are durable─> drains ─so are all entries─>
//!       settles ─so is all that had left the caches─> writes PersistedEID ─durable─> idle
//! ```
//!
//! A scan takes lines whose tag is of an epoch that is to persist. One that is stored to before its
//! turn has an entry with what it held, which is made before the scan's end; so the scan ends with all
//! entries that were made until then, those on their way from private caches included (PICL-3). A line
//! that was evicted before its turn may be on its way to memory: hence the wait behind that (PICL-10).

use outlast_sim::timed::{Cycle, LevelFlush, Outbox};

use super::config::Fault;
use super::layout;
use super::ports::{Eids, PERSISTED, Picl, SCANNED, Token, header_word};

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Scan {
    Idle,
    /// Up to this epoch.
    Scans(u64),
    /// Up to this epoch, until this number of entries is durable.
    Drains(u64, u64),
    Settles(u64),
    Writes(u64),
}

impl Picl {
    /// The epoch up to which all are to persist: `gap` behind the last that has ended, or `urgent`
    /// where that is later.
    fn due(&self) -> u64 {
        let committed = self.committed() + u64::from(self.config.faults.has(Fault::GapShort));
        committed.saturating_sub(self.config.gap).max(self.urgent.min(committed))
    }

    /// Begins a scan if one is due and none is under way. One that lags behind takes all epochs that
    /// are due in one pass.
    pub(super) fn scan_if_due(&mut self, out: &mut Outbox<Token>) {
        let due = self.due();
        if self.scan != Scan::Idle || due <= self.persisted {
            return;
        }
        self.scan = Scan::Scans(due);
        let level = self.config.scanned_level;
        let token = Token::Scanned(due);
        // Nothing waits for an epoch that is merely due.
        let yields = self.urgent < due;
        out.flush(LevelFlush { level, cause: SCANNED, invalidate: false, yields, token });
        if self.config.faults.has(Fault::PersistedAtScan) {
            self.write_persisted(due, out);
        }
    }

    /// Whether a scan takes a line with this tag. Whether any level has newer bytes of it than memory
    /// decides then whether there is anything to write.
    pub(super) fn is_scanned(&self, token: Token, tag: Eids) -> bool {
        let Token::Scanned(until) = token else { return false };
        let granules = &tag[..self.config.layout.granule.of_line() as usize];
        granules.iter().any(|eid| {
            let epoch = eid.epoch(self.epochs.executing());
            epoch.is_some_and(|epoch| epoch > self.persisted && epoch <= until)
        })
    }

    /// A wait of the scan is over.
    pub(super) fn scan_came(&mut self, token: Token, out: &mut Outbox<Token>) {
        match (token, self.scan) {
            (Token::Scanned(_), Scan::Scans(until)) => {
                let made = match self.config.faults.has(Fault::ForwardsLost) {
                    true => self.log.made_here(),
                    false => self.log.made(),
                };
                self.scan = Scan::Drains(until, made);
                if self.config.faults.has(Fault::PersistedUnordered) {
                    self.write_persisted(until, out);
                }
                self.scan_goes_on(out);
            }
            (Token::Settled, Scan::Settles(until)) => self.write_persisted(until, out),
            _ => {}
        }
    }

    /// Entries have become durable.
    pub(super) fn scan_goes_on(&mut self, out: &mut Outbox<Token>) {
        if let Scan::Drains(until, made) = self.scan
            && self.log.is_durable(made, out)
        {
            self.scan = Scan::Settles(until);
            out.wait_for_writes(Token::Settled);
        }
    }

    fn write_persisted(&mut self, epoch: u64, out: &mut Outbox<Token>) {
        self.scan = Scan::Writes(epoch);
        let header = self.config.layout.header();
        out.write(header_word(header, layout::PERSISTED, epoch, PERSISTED, Token::Persisted));
    }

    /// `PersistedEID` is durable.
    pub(super) fn has_persisted(&mut self, now: Cycle, out: &mut Outbox<Token>) {
        let Scan::Writes(epoch) = self.scan else { return };
        self.scan = Scan::Idle;
        self.persisted = epoch;
        out.report_persisted(epoch);
        self.epochs.have_persisted(epoch, now);
        self.log.collect(epoch, out);
        self.scan_if_due(out);
        self.resume_if_may(out);
    }
}
