//! Isolation: the locks a transaction holds, the versions it has read, and reads beside others.

use std::sync::atomic::{Ordering, fence};

use outlast_pmem::{Mark, Medium};
use outlast_trace::{ByteRange, LineAddr, PoolOffset, line_pieces};

use super::blocks::reserved_word;
use super::{Buffers, Tx};
use crate::bias::{Bias, Holder};
use crate::lock::{LockWord, Stripe};
use crate::plant::Plant;
use crate::scheme::under;
use crate::spin::wait_longer;
use crate::transact::Abort;

/// How often a taken lock is looked at before its taker counts as in the way.
pub(crate) const LOCK_PATIENCE: u32 = 7;

impl<M: Medium> Tx<'_, M> {
    pub(crate) fn own(&self) -> LockWord {
        LockWord::taken_by(self.lane.id)
    }

    /// Lets go of the locks; `version` is the commit that their lines now show, `None` when
    /// nothing was stored to them.
    #[inline]
    pub(crate) fn release_locks(&mut self, version: Option<u64>) {
        if !self.lane.buffers.locked.is_empty() {
            self.release_held_locks(version);
        }
        if self.pool.facts.has_one_writer {
            under!(self.pool.scheme(), D => D::end_writing(self));
        }
    }

    pub(crate) fn release_held_locks(&mut self, version: Option<u64>) {
        // Nothing of the batch becomes visible with a transaction that has stored nothing.
        let from = if version.is_some() { 0 } else { self.lane.pending.before().locked };
        let locked = &mut self.lane.buffers.locked;
        for (stripe, before) in locked[from..].iter().rev().copied() {
            let word = version.map_or(before, |number| LockWord::free(number, self.lane.id));
            // The mark stands where the lock is still held, so that a trace shows no two owners.
            self.pool.medium.mark(Mark::Unlock(u64::from(stripe.0)));
            self.pool.locks.release(stripe, word);
        }
        locked.truncate(from);
    }

    /// Whether every line read still has the version that was read. Own locks count by what
    /// they covered.
    pub(crate) fn validate_reads(&self) -> Result<(), Abort> {
        if self.io().plants(Plant::ReadsNotValidated) {
            return Ok(());
        }
        let own = self.own();
        let Buffers { reads, locked, .. } = &self.lane.buffers;
        // Lines read are mostly locked in the same order.
        let mut next = 0;
        for (stripe, seen) in reads {
            let now = self.pool.locks.load(*stripe);
            if now == *seen {
                continue;
            }
            if now != own {
                return Err(Abort::Conflict);
            }
            let (before, behind) = locked.split_at(next);
            let is_it = |(locked, _): &(Stripe, LockWord)| locked == stripe;
            let found = behind.iter().position(is_it).map(|at| next + at);
            let Some(at) = found.or_else(|| before.iter().position(is_it)) else {
                unreachable!("a lane remembers what it has locked");
            };
            if locked[at].1 != *seen {
                return Err(Abort::Conflict);
            }
            next = at + 1;
        }
        Ok(())
    }

    /// BIAS-1: whether the lane has the line to itself, so that it needs no lock. A free page becomes
    /// the lane's; what is another's is taken from that one, for which the transaction starts over.
    #[inline]
    pub(crate) fn has_to_itself(&mut self, line: LineAddr) -> Result<bool, Abort> {
        match self.pool.bias.holder(self.pool.bias.page(line)) {
            Holder::Lane(id) if id == self.lane.buffers.bias_of => Ok(true),
            Holder::Shared { since } if since <= self.lane.buffers.view => Ok(false),
            _ => self.comes_to_have(line),
        }
    }

    #[cold]
    #[inline(never)]
    fn comes_to_have(&mut self, line: LineAddr) -> Result<bool, Abort> {
        let bias = &self.pool.bias;
        let page = bias.page(line);
        let own = self.lane.buffers.bias_of;
        let (since, has_it) = loop {
            match bias.holder(page) {
                Holder::Free { since } => {
                    if let Some(holder) = bias.take(page, since, own, self.lane.log.head) {
                        self.lane.pages.push(page);
                        break (since, holder == Holder::Lane(own));
                    }
                }
                Holder::Lane(id) if id == own => return Ok(true),
                Holder::Shared { since } => break (since, false),
                Holder::Lane(owner) => _ = bias.revoke(page, owner),
                // BIAS-4.
                Holder::Revoked(owner) => {
                    if owner != own && self.pool.share_at_once(page, self.lane.id) {
                        continue;
                    }
                    self.lane.buffers.wanted_page = Some(page);
                    return Err(Abort::Conflict);
                }
            }
        };
        // BIAS-3.
        if since > self.lane.buffers.view {
            self.extend_view(since)?;
        }
        Ok(has_it)
    }

    /// The lane that has to itself what the transaction has given up for.
    pub(crate) fn wants_page_of(&self) -> Option<usize> {
        match self.pool.bias.holder(self.lane.buffers.wanted_page?) {
            Holder::Revoked(owner) => Some(owner),
            _ => None,
        }
    }

    /// Takes the lock of a line for writing, if this transaction does not have it. What is read
    /// under it is read together with all else.
    #[inline]
    pub(crate) fn lock_line(&mut self, line: LineAddr) -> Result<(), Abort> {
        if self.lane.buffers.is_alone || self.has_to_itself(line)? {
            return Ok(());
        }
        match self.take_lock(line)? {
            Some(before) if !self.is_in_view(before) => self.extend_view(before.version()),
            _ => Ok(()),
        }
    }

    /// REDO-3: takes the locks of all that the write set has, where that was not done store by store,
    /// and of the words that say which blocks are taken (NUMBER-3). A locked instruction waits for the stores before it; here the commit before has long ended.
    /// It is a full fence behind what was stored before.
    #[inline(always)]
    pub(crate) fn lock_write_set(&mut self) -> Result<(), Abort> {
        match self.lane.buffers.is_alone || !self.pool.facts.locks_at_commit {
            true => Ok(()),
            false => self.lock_all_written(),
        }
    }

    #[inline(never)]
    fn lock_all_written(&mut self) -> Result<(), Abort> {
        let (held, own) = (self.lane.buffers.locked.len(), self.lane.buffers.bias_of);
        for index in self.lane.pending.before().lines..self.lane.buffers.lines.entries().len() {
            let entry = self.lane.buffers.lines.entries()[index];
            if entry.words != 0 && !self.pool.bias.is_of(entry.line, own) {
                self.lock_written(entry.line)?;
            }
        }
        if !self.io().plants(Plant::BitsUnlocked) {
            self.lock_allocations()?;
        }
        if self.lane.buffers.locked.len() == held || cfg!(not(target_arch = "x86_64")) {
            fence(Ordering::SeqCst);
        }
        Ok(())
    }

    #[inline]
    fn lock_written(&mut self, line: LineAddr) -> Result<(), Abort> {
        if !self.has_to_itself(line)? {
            self.take_lock(line)?;
        }
        Ok(())
    }

    #[inline]
    fn lock_allocations(&mut self) -> Result<(), Abort> {
        let before = self.lane.pending.before();
        for index in before.allocated..self.lane.buffers.allocated.len() {
            self.lock_written(reserved_word(self.lane.buffers.allocated[index]).line())?;
        }
        for index in before.freed..self.lane.buffers.freed.len() {
            self.lock_written(reserved_word(self.lane.buffers.freed[index]).line())?;
        }
        Ok(())
    }

    /// Takes the lock of a line and tells what its word said; `None` when the lane has it already.
    #[inline]
    fn take_lock(&mut self, line: LineAddr) -> Result<Option<LockWord>, Abort> {
        let stripe = self.pool.locks.stripe(line);
        let mut tries = 0;
        loop {
            let word = self.pool.locks.load(stripe);
            if word == self.own() {
                return Ok(None);
            }
            if word.is_free() && self.pool.locks.try_take(stripe, word, self.lane.id) {
                self.pool.medium.mark(Mark::Lock(u64::from(stripe.0)));
                self.lane.buffers.locked.push((stripe, word));
                if self.pool.facts.logs_locks {
                    under!(self.pool.scheme(), D => D::locked(self, stripe, word));
                }
                return Ok(Some(word));
            }
            if tries >= LOCK_PATIENCE || self.has_read_before(stripe) {
                return Err(Abort::Conflict);
            }
            self.wait_for_holder(&mut tries)?;
        }
    }

    /// The lane that has the lock now has changed what was read under it, or is about to: the wait would
    /// be for nothing. Where a scheduler says which lane runs, waits are short.
    #[cold]
    fn has_read_before(&self, stripe: Stripe) -> bool {
        !M::OBSERVED && self.lane.buffers.reads.iter().any(|(read, _)| *read == stripe)
    }

    /// One round of waiting for the holder of a lock: long, if no lane can be waiting for this one. Where
    /// it would be very long, it is better done outside.
    #[cold]
    fn wait_for_holder(&mut self, tries: &mut u32) -> Result<(), Abort> {
        if M::OBSERVED || !self.lane.buffers.locked.is_empty() {
            wait_longer(&self.pool.medium, tries);
        } else if self.lane.backoff.is_hot() {
            return Err(Abort::Conflict);
        } else {
            self.pool.make_way();
            self.back_off(*tries);
            *tries += 1;
        }
        Ok(())
    }

    /// Loads an aligned word of the heap beside others.
    pub(crate) fn load_shared_word(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        let mut bytes = [0; 8];
        if !self.lane.buffers.fresh.is_empty() {
            let result = self.load_found(at, &mut bytes);
            return self.note(result).map(|()| u64::from_le_bytes(bytes));
        }
        if self.pool.facts.has_write_set
            && !self.lane.buffers.lines.surely_lacks(at.line())
            && let Some(kept) = self.kept_word(at)
        {
            return Ok(kept);
        }
        match self.has_to_itself(at.line()) {
            Ok(true) => return Ok(self.pool.medium.load_u64(at)),
            Ok(false) => {}
            failed => return self.note(failed).map(|_| 0),
        }
        let stripe = self.pool.locks.stripe(at.line());
        let word = self.pool.locks.load(stripe);
        if word.is_free() && self.is_in_view(word) {
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
    pub(crate) fn read_committed(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        if self.lane.buffers.is_alone || self.has_to_itself(at.line())? {
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
                    if !self.is_in_view(word) {
                        self.extend_view(word.version())?;
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
            self.wait_for_holder(&mut tries)?;
        }
    }

    /// Reads any range as committed transactions left it.
    #[inline]
    pub(crate) fn read_range(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        if self.lane.buffers.is_alone || self.has_all_to_itself(at, out.len()) {
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

    /// Whether all these bytes are the lane's own.
    #[inline]
    fn has_all_to_itself(&self, at: PoolOffset, len: usize) -> bool {
        let (bias, id) = (&self.pool.bias, self.lane.buffers.bias_of);
        bias.is_of(at.line(), id)
            && (at.in_line() + len <= 64
                || ByteRange::new(at, len as u64).lines().all(|line| bias.is_of(line, id)))
    }

    /// Reads several lines with one copy between two looks at their locks. `false` when one of
    /// them is taken or changes meanwhile, and they must be read one by one.
    fn read_lines_at_once(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<bool, Abort> {
        let range = ByteRange::new(at, out.len() as u64);
        for line in Bias::first_in_pages(range) {
            // Pages that the lane has to itself are read with the rest, and need no look at a lock.
            self.has_to_itself(line)?;
        }
        let locks = &self.pool.locks;
        let (id, before) = (self.lane.id, self.lane.buffers.reads.len());
        let buffers = &mut self.lane.buffers;
        let view = buffers.view;
        buffers.reads.extend(range.lines().map(|line| {
            let stripe = locks.stripe(line);
            (stripe, locks.load(stripe))
        }));
        let (mut all_free, mut newest) = (true, 0);
        for (_, word) in &buffers.reads[before..] {
            all_free &= word.is_free();
            newest = newest.max(if word.lane() == id { 0 } else { word.version() });
        }
        if !all_free {
            buffers.reads.truncate(before);
            return Ok(false);
        }
        self.pool.medium.load(at, out);
        fence(Ordering::Acquire);
        if buffers.reads[before..].iter().any(|(stripe, word)| locks.load(*stripe) != *word) {
            buffers.reads.truncate(before);
            return Ok(false);
        }
        if newest > view {
            self.extend_view(newest)?;
        }
        Ok(true)
    }
}
