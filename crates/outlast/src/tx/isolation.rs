//! Isolation: the locks a transaction holds, the versions it has read, and reads beside others.

use std::sync::atomic::{Ordering, fence};

use outlast_pmem::{Mark, Medium};
use outlast_trace::{ByteRange, LineAddr, PoolOffset, line_pieces};

use super::Tx;
use crate::lock::LockWord;
use crate::plant::Plant;
use crate::scheme::Logging;
use crate::seq::Seq;
use crate::spin::wait_longer;
use crate::transact::Abort;

/// How often a taken lock is looked at before its taker counts as in the way.
pub(super) const LOCK_PATIENCE: u32 = 7;

impl<M: Medium> Tx<'_, M> {
    pub(super) fn own(&self) -> LockWord {
        LockWord::taken_by(self.lane.id)
    }

    /// Lets go of the locks; `version` is the commit that their lines now show, `None` when
    /// nothing was stored to them.
    #[inline]
    pub(super) fn release_locks(&mut self, version: Option<u64>) {
        if !self.lane.buffers.locked.is_empty() {
            self.release_held_locks(version);
        }
        self.end_writing();
    }

    pub(super) fn release_held_locks(&mut self, version: Option<u64>) {
        // Nothing of the batch becomes visible with a transaction that has stored nothing.
        let from = if version.is_some() { 0 } else { self.lane.pending.before().locked };
        for (stripe, before) in self.lane.buffers.locked.drain(from..).rev() {
            let word = version.map_or(before, LockWord::free);
            // The mark stands where the lock is still held, so that a trace shows no two owners.
            self.pool.medium.mark(Mark::Unlock(u64::from(stripe.0)));
            self.pool.locks.release(stripe, word);
        }
    }

    /// Draws the number of this commit and checks that everything read is still as it was.
    pub(super) fn draw_number(&mut self) -> Result<u64, Abort> {
        if self.io().plants(Plant::NumberBeforeLocks) {
            self.validate_reads()?;
            return Ok(self.lane.buffers.early_number);
        }
        let number = self.tick();
        if number >= Seq::COUNTER_MAX {
            return Err(Abort::NumbersUsedUp);
        }
        if number != self.lane.buffers.view + self.lane.buffers.sealed.tickets + 1 {
            self.validate_reads()?;
        }
        Ok(number)
    }

    /// Moves the clock and returns what it shows.
    pub(super) fn tick(&self) -> u64 {
        let clock = &self.pool.clock;
        if self.lane.buffers.is_alone {
            // Nobody else moves it, and a locked instruction would wait for all stores before it.
            let number = clock.load(Ordering::Relaxed) + 1;
            clock.store(number, Ordering::Release);
            return number;
        }
        clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether every line read still has the version that was read. Own locks count by what
    /// they covered.
    pub(super) fn validate_reads(&self) -> Result<(), Abort> {
        if self.io().plants(Plant::ReadsNotValidated) {
            return Ok(());
        }
        let own = self.own();
        let buffers = &self.lane.buffers;
        for (stripe, seen) in &buffers.reads {
            let now = self.pool.locks.load(*stripe);
            let covered = || buffers.locked.iter().find(|(s, _)| s == stripe).map(|(_, was)| *was);
            let same = if now == own { covered() == Some(*seen) } else { now == *seen };
            if !same {
                return Err(Abort::Conflict);
            }
        }
        Ok(())
    }

    /// Makes the view as new as the clock, if nothing that was read has changed.
    pub(super) fn extend_view(&mut self) -> Result<(), Abort> {
        let clock = self.pool.clock.load(Ordering::Acquire);
        self.validate_reads()?;
        self.lane.buffers.view = clock;
        // The clock has counted the own numbers drawn so far.
        self.lane.buffers.sealed.tickets = 0;
        Ok(())
    }

    /// Takes the lock of a line for writing, if this transaction does not have it.
    #[inline]
    pub(super) fn lock_line(&mut self, line: LineAddr) -> Result<(), Abort> {
        if self.lane.buffers.is_alone {
            return Ok(());
        }
        let stripe = self.pool.locks.stripe(line);
        let mut tries = 0;
        loop {
            let word = self.pool.locks.load(stripe);
            if word == self.own() {
                return Ok(());
            }
            if word.is_free() {
                if word.version() > self.lane.buffers.view {
                    self.extend_view()?;
                }
                if self.pool.locks.try_take(stripe, word, self.lane.id) {
                    self.pool.medium.mark(Mark::Lock(u64::from(stripe.0)));
                    self.lane.buffers.locked.push((stripe, word));
                    if self.pool.logging == Logging::Sections {
                        self.lane.buffers.payload.acquired(stripe, word.version());
                    }
                    return Ok(());
                }
            }
            if tries >= LOCK_PATIENCE {
                return Err(Abort::Conflict);
            }
            wait_longer(&self.pool.medium, &mut tries);
        }
    }

    /// Loads an aligned word of the heap beside others.
    pub(super) fn load_shared_word(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        let mut bytes = [0; 8];
        if !self.lane.buffers.fresh.is_empty() {
            let result = self.load_found(at, &mut bytes);
            return self.note(result).map(|()| u64::from_le_bytes(bytes));
        }
        if self.pool.logging.has_write_set()
            && !self.lane.buffers.lines.surely_lacks(at.line())
            && let Some(kept) = self.kept_word(at)
        {
            return Ok(kept);
        }
        let stripe = self.pool.locks.stripe(at.line());
        let word = self.pool.locks.load(stripe);
        if word.is_free() && word.version() <= self.lane.buffers.view {
            let value = self.pool.medium.load_u64(at);
            fence(Ordering::Acquire);
            let torn_is_fine = self.io().plants(Plant::ReadsTorn);
            if self.pool.locks.load(stripe) == word || torn_is_fine {
                self.lane.buffers.note_read(stripe, word);
                return Ok(value);
            }
        }
        let result = self.read_committed(at, &mut bytes);
        self.note(result).map(|()| u64::from_le_bytes(bytes))
    }

    /// Copies a piece of one line as some committed transaction left it, together with all
    /// other lines read.
    #[inline]
    pub(super) fn read_committed(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        if self.lane.buffers.is_alone {
            self.pool.medium.load(at, out);
            return Ok(());
        }
        let stripe = self.pool.locks.stripe(at.line());
        let mut tries = 0;
        loop {
            let word = self.pool.locks.load(stripe);
            if word == self.own() {
                self.pool.medium.load(at, out);
                return Ok(());
            }
            if word.is_free() {
                self.pool.medium.load(at, out);
                fence(Ordering::Acquire);
                let torn_is_fine = self.io().plants(Plant::ReadsTorn);
                if self.pool.locks.load(stripe) == word || torn_is_fine {
                    if word.version() > self.lane.buffers.view {
                        self.extend_view()?;
                        // The line itself may have changed between its copy and the new view.
                        if self.pool.locks.load(stripe) != word {
                            continue;
                        }
                    }
                    self.lane.buffers.note_read(stripe, word);
                    return Ok(());
                }
            }
            if tries >= LOCK_PATIENCE {
                return Err(Abort::Conflict);
            }
            wait_longer(&self.pool.medium, &mut tries);
        }
    }

    /// Reads any range as committed transactions left it.
    #[inline]
    pub(super) fn read_range(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        if self.lane.buffers.is_alone {
            self.pool.medium.load(at, out);
            return Ok(());
        }
        if at.in_line() + out.len() <= 64 {
            return self.read_committed(at, out);
        }
        if self.read_lines_at_once(at, out)? {
            return Ok(());
        }
        let mut done = 0;
        for (piece, len) in line_pieces(at, out.len()) {
            self.read_committed(piece, &mut out[done..done + len])?;
            done += len;
        }
        Ok(())
    }

    /// Reads several lines with one copy between two looks at their locks. `false` when one of
    /// them is taken or changes meanwhile, and they must be read one by one.
    pub(super) fn read_lines_at_once(
        &mut self,
        at: PoolOffset,
        out: &mut [u8],
    ) -> Result<bool, Abort> {
        let locks = &self.pool.locks;
        let buffers = &mut self.lane.buffers;
        let (view, before) = (buffers.view, buffers.reads.len());
        let mut newest = 0;
        for line in ByteRange::new(at, out.len() as u64).lines() {
            let stripe = locks.stripe(line);
            let word = locks.load(stripe);
            if !word.is_free() {
                buffers.reads.truncate(before);
                return Ok(false);
            }
            newest = newest.max(word.version());
            buffers.reads.push((stripe, word));
        }
        self.pool.medium.load(at, out);
        fence(Ordering::Acquire);
        if buffers.reads[before..].iter().any(|(stripe, word)| locks.load(*stripe) != *word) {
            buffers.reads.truncate(before);
            return Ok(false);
        }
        if newest > view {
            self.extend_view()?;
        }
        Ok(true)
    }
}
