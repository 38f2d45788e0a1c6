//! The FIFO in the controller and the log behind it: room (G1, G5), records and who may join them
//! (G6), their way to memory, the commit (G3), the head and growth (G4).

use super::config::{Fault, LogPlace};
use super::record::{Change, Record, WORDS_MAX};
use super::{
    DRAIN, EARLY_SCAN, HEAD_TOKEN, HEAD_TOKEN_BIT, HOLD_CYCLES, Hwl, IN_FLIGHT_MAX, Open, Outbox,
    Progress, SCANS_UNTIL_DURABLE, token_of,
};
use outlast_sim::timed::{Cycle, SchemeWrite};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::LineAddr;

/// A record that is in the log, until the head passes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged {
    lines: [LineAddr; WORDS_MAX],
    len: usize,
    pub(super) tx: u8,
    /// When its last store was performed.
    pub(super) at: Cycle,
    /// Scans that had begun by then.
    scans: u64,
    commit: bool,
}

impl Logged {
    fn lines(&self) -> &[LineAddr] {
        &self.lines[..self.len]
    }

    fn take(&mut self, line: LineAddr, at: Cycle, scans: u64) {
        if !self.lines().contains(&line) {
            self.lines[self.len] = line;
            self.len += 1;
        }
        (self.at, self.scans) = (at, scans);
    }
}

impl Hwl {
    /// Slots that have to be free before a transaction's next record (G5): its own, where it is
    /// the first those of the whole transaction, and what the others may need.
    pub(super) fn wanted(&self, tx: u8, is_first: bool) -> u64 {
        let max = self.config.tx_records_max;
        let may_need = |open: &Open| match open.progress {
            Progress::Logging { records, .. } => max.saturating_sub(records),
            Progress::Running | Progress::Ending(_) => 0,
        };
        let others = self.lanes.iter().flatten().filter(|open| open.tx != tx);
        let own = if is_first { max } else { 1 };
        own + others.map(may_need).sum::<u64>()
    }

    /// Whether `wanted` slots are free (G4).
    pub(super) fn has_room(&self, wanted: u64) -> bool {
        if self.has(Fault::Overwrite) {
            return true;
        }
        let head = if self.has(Fault::VolatileHead) { self.head } else { self.durable_head };
        let region = LogPlace::region(self.next, &self.starts);
        let from = if region == 0 { head } else { head.max(self.starts[region - 1]) };
        self.next + wanted <= from + (self.config.log.slots << region)
    }

    /// Makes a record, if the FIFO and the log have room for it.
    pub(super) fn append(&mut self, now: Cycle, record: Record, out: &mut Outbox) -> bool {
        if self.fifo.len() >= self.config.buffer {
            self.stats.buffer_full += 1;
            self.urgent = self.urgent.max(self.next - 1);
            self.issue(out);
            return false;
        }
        if LogPlace::region(self.next, &self.starts) > self.durable_regions {
            return false; // Memory does not know of the new region yet.
        }
        if !self.has_room(self.wanted(record.tx, record.first)) {
            self.stats.log_full += 1;
            self.waits_for_log = true;
            self.urgent = self.urgent.max(self.next - 1);
            self.issue(out);
            self.log_truncate(out);
            if !record.first {
                self.log_grow(out);
            }
            return false; // G4
        }
        self.stats.records += 1;
        self.next += 1;
        if self.config.scan_period.is_some()
            && !self.has(Fault::Overwrite)
            && !self.has(Fault::ByTime)
            && self.next - self.scanned_at > self.config.log.slots / 4
        {
            self.scanned_at = self.next;
            // Not in this cycle, whose stores a write of this cycle may or may not carry.
            out.call(now.next(), EARLY_SCAN);
        }
        let mut logged = Logged {
            lines: [LineAddr(0); WORDS_MAX],
            len: 0,
            tx: record.tx,
            at: now,
            scans: self.stats.scans,
            commit: record.commit,
        };
        for change in record.changes() {
            logged.take(change.line, now, self.stats.scans);
        }
        self.logged.push_back(logged);
        self.fifo.push_back(record);
        if self.fifo.len() > self.config.buffer / 2 {
            self.urgent = self.urgent.max(record.number);
        } else if !self.draining {
            self.draining = true;
            out.call(now.plus(HOLD_CYCLES), DRAIN);
        }
        self.issue(out);
        true
    }

    /// Adds a word's change to a record of the same transaction, which has those from `first` on,
    /// if there is one that is not on its way yet and has room (G6).
    pub(super) fn join(&mut self, now: Cycle, tx: u8, first: u64, change: Change) -> Option<u64> {
        let younger = self.unlogged.get(&change.line).copied().unwrap_or(0);
        let merge = self.has(Fault::Merge);
        let is_own = |record: &&mut Record| {
            merge && record.has_line(change.line) || record.tx == tx && record.number >= first
        };
        let waiting = self.fifo.iter_mut().skip(self.issued).rev().filter(is_own);
        // A record of the line goes first: a word must not be in two.
        let mut other = None;
        for record in waiting.take_while(|record| record.number >= younger || merge) {
            if record.has_line(change.line) {
                other = Some(record);
                break;
            }
            if !self.config.one_line {
                other = other.or(Some(record));
            }
        }
        let record = other?;
        if !record.add(change) {
            return None;
        }
        let number = record.number;
        let index = (number - self.head) as usize;
        self.logged[index].take(change.line, now, self.stats.scans);
        self.stats.coalesced += 1;
        Some(number)
    }

    /// Sends the oldest records on their way to the log.
    pub(super) fn issue(&mut self, out: &mut Outbox) {
        while self.issued < self.fifo.len().min(IN_FLIGHT_MAX) {
            let mut record = self.fifo[self.issued];
            if record.number > self.urgent {
                break;
            }
            record.keep(self.config.values);
            out.write(SchemeWrite {
                line: self.config.log.slot(record.number, &self.starts),
                words: u8::MAX,
                data: record.encode(),
                cause: Cause::Logged,
                token: token_of(record.number),
            });
            self.issued += 1;
        }
    }

    /// A record has left the FIFO for the write queue.
    pub(super) fn record_taken(&mut self, token: u32, out: &mut Outbox) {
        let index = self.fifo.iter().position(|r| token_of(r.number) == token);
        self.fifo.remove(index.expect("only records that are on their way are taken"));
        self.issued -= 1;
        self.issue(out);
        out.wake();
    }

    /// A record is durable.
    pub(super) fn record_durable(&mut self, token: u32, out: &mut Outbox) {
        // Of the numbers that are not durable, the one with this token.
        let ahead = token.wrapping_sub(token_of(self.durable)) & !HEAD_TOKEN_BIT;
        self.early.push(self.durable + u64::from(ahead));
        while let Some(at) = self.early.iter().position(|number| *number == self.durable) {
            self.early.swap_remove(at);
            // Where no head is kept, the record may be forgotten already.
            if let Some(index) = self.durable.checked_sub(self.head)
                && let Some(logged) = self.logged.get(index as usize)
                && logged.commit
            {
                self.committed[usize::from(logged.tx)] = self.durable;
            }
            self.durable += 1;
        }
        let durable = self.durable;
        self.unlogged.retain(|_, last| *last >= durable);
        self.log_truncate(out);
        out.wake();
    }

    /// Whether the head may pass the oldest record (G4).
    pub(super) fn may_pass(&self, oldest: &Logged) -> bool {
        let not_written = |line: &LineAddr| {
            self.unwritten.get(line).is_some_and(|(first, _)| *first <= oldest.at)
        };
        let committed = self.committed[usize::from(oldest.tx)] >= self.head;
        let in_memory = if self.has(Fault::ByTime) {
            self.stats.scans >= oldest.scans + SCANS_UNTIL_DURABLE
        } else {
            self.has(Fault::HeadEarly) || !oldest.lines().iter().any(not_written)
        };
        let is_durable = self.head < self.durable;
        is_durable && in_memory && (committed || self.has(Fault::PassesRunning))
    }

    /// `log_truncate`: moves the head as far as G4 lets it. It is called whenever something
    /// became durable, and when the log is full.
    pub(super) fn log_truncate(&mut self, out: &mut Outbox) {
        if self.has(Fault::Overwrite) {
            // No head is kept; the records are forgotten, or this would grow for ever.
            while self.logged.len() as u64 > self.config.log.slots {
                self.logged.pop_front();
                self.head += 1;
            }
            return;
        }
        if self.moving_head.is_some() {
            return;
        }
        let before = self.head;
        while self.logged.front().is_some_and(|oldest| self.may_pass(oldest)) {
            self.logged.pop_front();
            self.head += 1;
        }
        if self.has(Fault::VolatileHead) && self.head > before {
            out.wake(); // There is room already; no write of the head will tell.
        }
        // A head goes to memory for an eighth of the log, or as soon as a core waits for it.
        let moved = self.head - self.durable_head;
        let slots = self.config.log.slots;
        let due = if self.has(Fault::VolatileHead) {
            moved > slots // Once a round: no core waits for it.
        } else {
            moved > slots / 8 || (moved > 0 && self.waits_for_log)
        };
        if due {
            self.write_head(out);
        }
    }

    /// `log_grow`: where a running transaction holds the head and nothing else can give way, the
    /// next record begins a new region, twice as large.
    pub(super) fn log_grow(&mut self, out: &mut Outbox) {
        let region = LogPlace::region(self.next, &self.starts);
        let may = region < usize::from(self.config.log.growths) && self.moving_head.is_none();
        let is_held = self.logged.front().is_some_and(|oldest| {
            self.committed[usize::from(oldest.tx)] < self.head && self.head < self.durable
        });
        if may && is_held && self.starts[region] == 0 {
            self.starts[region] = self.next;
            self.stats.grown += 1;
            self.write_head(out);
        }
    }

    pub(super) fn write_head(&mut self, out: &mut Outbox) {
        let regions = self.starts.iter().take_while(|start| **start != 0).count();
        self.moving_head = Some((self.head, regions));
        let mut data: LineBytes = [0; 64];
        for (word, into) in [self.head].iter().chain(&self.starts).zip(data.as_chunks_mut().0) {
            *into = word.to_le_bytes();
        }
        out.write(SchemeWrite {
            line: self.config.log.base,
            words: u8::MAX,
            data,
            cause: Cause::Metadata,
            token: HEAD_TOKEN,
        });
    }

    /// Makes the transaction's commit part of the log (G3). None when that has to wait.
    pub(super) fn log_commit(
        &mut self,
        now: Cycle,
        tx: u8,
        last: u64,
        out: &mut Outbox,
    ) -> Option<u64> {
        if self.has(Fault::NoCommit) {
            self.committed[usize::from(tx)] = last;
            return Some(last);
        }
        let waiting = self.fifo.iter_mut().skip(self.issued);
        let number = match waiting.rev().find(|record| record.number == last) {
            Some(record) => {
                record.commit = true;
                last
            }
            None => {
                let mut record = Record::new(self.next, tx);
                record.commit = true;
                if !self.append(now, record, out) {
                    return None;
                }
                self.stats.commit_records += 1;
                self.next - 1
            }
        };
        self.logged[(number - self.head) as usize].commit = true;
        Some(number)
    }
}
