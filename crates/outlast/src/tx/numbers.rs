//! The numbers of commits: how they are drawn, and what a view knows by them.
//!
//! Recovery puts each word's records in the order of their numbers, so a number is above those of
//! all earlier owners of what its transaction stores to (REDO-3). Nothing needs the numbers of two
//! lanes to be in the order of time, where neither has seen the other, nor to differ. So lanes that
//! log new words draw theirs by themselves: what threads would cost each other by moving one clock
//! is more than all else that they share. The clock only says what is known to all.
//!
//! * **NUMBER-1** With all locks held, a lane draws a number above its last, above the clock and above
//!   the version of each line that it has locked.
//! * **NUMBER-2** The clock is raised: by a lane that reads a line whose version is above it, to that version;
//!   by a sweep, to the last number of each lane, before it looks at their bounds (SWEEP-4), and so by a
//!   checkpoint, while no transaction runs; for a lane that is given back, or has run alone and stored
//!   without locks, to its last number; and before a lane begins to run alone, to all others'. So it
//!   is at least the numbers of lanes that are not taken, and a lane that is alone goes on from there.
//! * **NUMBER-3** The lines with the bits of blocks are locked like others: a lane that gives a block back has
//!   a greater number than who took it, whether he has seen anything that one stored or not.
//! * **NUMBER-4** A view is what the clock was at some moment of the transaction, or before it. A transaction that
//!   locks a line behind that moment reads the clock later and has a number above the view. So what
//!   has a version up to the view was stored, or locked, before; and so was what the transaction's
//!   own lane stored, whatever its version.
//! * **NUMBER-5** What was read is looked at again behind the locks. Of two transactions that each store
//!   to what the other has read, one sees the other's lock: the locks, the clock and what lock words
//!   say are stored and loaded in one order for all.
//!
//! Other schemes draw every number from the clock, and look again only when another lane has.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;

use super::Tx;
use crate::lock::LockWord;
use crate::plant::Plant;
use crate::pool::Pool;
use crate::seq::Seq;
use crate::transact::Abort;

/// Numbers that are kept for batches when transactions have used up all others.
const NUMBERS_KEPT: u64 = 1 << 20;

impl<M: Medium> Pool<M> {
    /// Whether lanes draw numbers by themselves.
    #[inline]
    pub(crate) fn numbers_by_lane(&self) -> bool {
        self.facts.commits_by_record
    }

    /// NUMBER-2: the clock says at least that.
    pub(crate) fn raise_clock(&self, to: u64) {
        if self.clock.load(Ordering::SeqCst) < to {
            self.clock.fetch_max(to, Ordering::SeqCst);
        }
    }

    /// The greatest number of all commits that have ended.
    pub(crate) fn newest(&self) -> u64 {
        let lasts =
            self.lanes.iter().map(|lane| lane.shared.last_installed.load(Ordering::Acquire));
        lasts.fold(self.clock.load(Ordering::SeqCst), u64::max)
    }
}

impl<M: Medium> Tx<'_, M> {
    /// Draws the number of this commit and checks that everything read is still as it was.
    #[inline(always)]
    pub(crate) fn draw_number(&mut self) -> Result<u64, Abort> {
        if self.lane.buffers.is_alone {
            return self.draw_alone();
        }
        if self.io().plants(Plant::NumberBeforeLocks) {
            self.validate_reads()?;
            return Ok(self.lane.buffers.early_number);
        }
        let number = self.next_number();
        if number >= self.numbers_end() {
            return Err(Abort::NumbersUsedUp);
        }
        self.count_drawn();
        let buffers = &self.lane.buffers;
        let no_other_has = number == buffers.view + buffers.sealed.tickets + 1;
        if self.pool.numbers_by_lane() || !no_other_has {
            self.validate_reads().inspect_err(|_| self.counts.in_vain.add(1))?;
        }
        Ok(number)
    }

    /// The same of a lane that is alone.
    #[inline(always)]
    pub(crate) fn draw_alone(&self) -> Result<u64, Abort> {
        if self.io().plants(Plant::NumberBeforeLocks) {
            return Ok(self.lane.buffers.early_number);
        }
        let number = self.tick_alone();
        if number >= Seq::COUNTER_MAX {
            return Err(Abort::NumbersUsedUp);
        }
        self.count_drawn();
        Ok(number)
    }

    #[inline(always)]
    fn count_drawn(&self) {
        let drawn = &self.slot.shared.drawn;
        drawn.store(drawn.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// A planted bug: the number of a transaction that holds no locks yet.
    pub(crate) fn draw_early(&mut self) {
        self.lane.buffers.early_number = self.next_number();
    }

    /// The first number that no lane gets.
    fn numbers_end(&self) -> u64 {
        let is_kept = self.pool.numbers_by_lane() && self.lane.pending.is_empty();
        Seq::COUNTER_MAX - if is_kept { NUMBERS_KEPT } else { 0 }
    }

    /// Whether a transaction that is put off may be left without a number when its batch wants one.
    pub(crate) fn numbers_run_out(&self) -> bool {
        self.pool.clock.load(Ordering::Relaxed).max(self.last_number())
            >= Seq::COUNTER_MAX - NUMBERS_KEPT
    }

    #[inline]
    fn next_number(&self) -> u64 {
        if !self.lane.buffers.is_alone && self.pool.numbers_by_lane() {
            return self.next_of_lane();
        }
        self.tick()
    }

    /// Moves the clock and returns what it shows.
    #[inline]
    pub(crate) fn tick(&self) -> u64 {
        if self.lane.buffers.is_alone {
            return self.tick_alone();
        }
        self.pool.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// No other lane moves the clock, and a locked instruction would wait for all stores before it.
    #[inline(always)]
    fn tick_alone(&self) -> u64 {
        let clock = &self.pool.clock;
        let number = clock.load(Ordering::Relaxed).max(self.last_number()) + 1;
        clock.store(number, Ordering::Release);
        number
    }

    /// NUMBER-1.
    #[inline]
    fn next_of_lane(&self) -> u64 {
        let buffers = &self.lane.buffers;
        let above = match self.io().plants(Plant::VersionsNotPassed) {
            true => 0,
            false => buffers.locked.iter().map(|(_, was)| was.version()).fold(0, u64::max),
        };
        self.pool.clock.load(Ordering::SeqCst).max(above).max(self.last_number()) + 1
    }

    /// The number of the lane's last commit.
    #[inline]
    fn last_number(&self) -> u64 {
        self.slot.shared.last_installed.load(Ordering::Relaxed)
    }

    /// NUMBER-4: whether what has this version belongs to the transaction's view.
    #[inline]
    pub(crate) fn is_in_view(&self, word: LockWord) -> bool {
        word.version() <= self.lane.buffers.view || word.lane() == self.lane.id
    }

    /// Makes the view as new as the clock, which is at least that, if nothing that was read has
    /// changed.
    #[cold]
    pub(crate) fn extend_view(&mut self, to: u64) -> Result<(), Abort> {
        self.pool.raise_clock(to);
        let clock = self.pool.clock.load(Ordering::SeqCst);
        self.validate_reads()?;
        self.lane.buffers.view = clock;
        // The clock has counted the own numbers drawn so far.
        self.lane.buffers.sealed.tickets = 0;
        Ok(())
    }
}
