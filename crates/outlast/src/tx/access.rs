//! The requests of a closure to its transaction, and where each goes.

use outlast_pmem::{Call, Mark, Medium};
use outlast_trace::{ByteRange, LINE_BYTES, LineAddr, PoolOffset};

use super::Tx;
use super::words::Window;
use crate::io::Site;
use crate::layout::ROOT_AT;
use crate::plant::Plant;
use crate::scheme::{Role, under};
use crate::transact::{Abort, BlockKind, RootKind, Transact};
use crate::writeback::Access;

/// Most lines of an announced range that are fetched at once: as many as a core has under way.
const LINES_FETCHED_MAX: usize = 16;

impl<M: Medium> Transact for Tx<'_, M> {
    #[inline]
    fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        if self.is_in_place(at, out.len()) {
            self.pool.medium.mark(Mark::Call(Call::Load));
            self.pool.medium.load(at, out);
            return Ok(());
        }
        self.load_otherwise(at, out)
    }

    #[inline(always)]
    fn load_u64(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        let buffers = &self.lane.buffers;
        if buffers.windows.quick_loads.has_word(at) {
            self.pool.medium.mark(Mark::Call(Call::Load));
            if buffers.lines.is_empty()
                || buffers.lines.surely_lacks(at.line())
                || !self.pool.facts.has_write_set
            {
                return Ok(self.pool.medium.load_u64(at));
            }
            return Ok(self.load_kept_word(at));
        }
        self.load_word_beside(at)
    }

    #[inline(always)]
    fn store_u64(&mut self, at: PoolOffset, value: u64) -> Result<(), Abort> {
        let buffers = &self.lane.buffers;
        if buffers.windows.quick_stores.has_word(at) {
            self.pool.medium.mark(Mark::Call(Call::Store));
            self.put_word(at, value);
            return Ok(());
        }
        self.store_word(at, value)
    }

    #[inline(always)]
    fn will_write(&mut self, ranges: &[ByteRange]) -> Result<(), Abort> {
        self.pool.medium.mark(Mark::Call(Call::WillWrite));
        // Closed after a failure.
        let announced = self.lane.buffers.windows.announced;
        if announced == Window::NONE {
            return self.announce(ranges);
        }
        let is_alone = self.lane.buffers.is_alone;
        for range in ranges {
            if announced.has_range_of_line(*range) {
                self.fetch_line(range.at.line(), is_alone);
            } else if announced.has_range(*range) {
                self.fetch_lines(*range);
            } else {
                return self.announce(ranges);
            }
        }
        Ok(())
    }

    #[inline]
    fn will_read(&mut self, ranges: &[ByteRange]) {
        let is_alone = self.lane.buffers.is_alone;
        for range in ranges {
            let lines = (range.at.in_line() as u64).saturating_add(range.len).div_ceil(LINE_BYTES);
            let first = range.at.line();
            for line in (first.0..first.0 + lines.min(LINES_FETCHED_MAX as u64)).map(LineAddr) {
                self.pool.medium.prefetch_read(line);
                if !is_alone {
                    self.fetch_lock(line, line == first);
                }
            }
        }
    }

    #[inline]
    fn store(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        self.pool.medium.mark(Mark::Call(Call::Store));
        let buffers = &self.lane.buffers;
        if let Ok(word) = bytes.try_into()
            && buffers.windows.quick_stores.has_word(at)
        {
            self.put_word(at, u64::from_le_bytes(word));
            return Ok(());
        }
        self.refuse_after_failure()?;
        let result = self
            .check_range("storing", at, bytes.len() as u64)
            .and_then(|()| self.store_any(at, bytes));
        self.note(result)
    }

    fn compute(&mut self, instructions: u32) {
        match M::OBSERVED {
            true => self.pool.medium.mark(Mark::Compute(instructions)),
            false => outlast_pmem::compute(instructions),
        }
    }

    fn alloc(&mut self, bytes: u64, kind: BlockKind) -> Result<PoolOffset, Abort> {
        self.pool.medium.mark(Mark::Call(Call::Alloc));
        self.refuse_after_failure()?;
        let result = self.alloc_any(bytes, kind);
        self.note(result)
    }

    fn block_bytes(&mut self, block: PoolOffset) -> Result<Option<u64>, Abort> {
        self.block_at(block).map(|(bytes, _)| Some(bytes))
    }

    fn free(&mut self, block: PoolOffset) -> Result<(), Abort> {
        self.pool.medium.mark(Mark::Call(Call::Free));
        self.refuse_after_failure()?;
        let result = self.free_any(block);
        self.note(result)
    }

    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort> {
        self.refuse_unusable()?;
        let mut word = [0; 8];
        let result = self.load_any(ROOT_AT, &mut word).and_then(|()| {
            crate::pool::parse_root(u64::from_le_bytes(word))
                .map_err(|why| Abort::damaged(format!("at {ROOT_AT}: {why}")))
        });
        self.note(result)
    }

    fn set_root(&mut self, block: PoolOffset, kind: RootKind) -> Result<(), Abort> {
        self.refuse_after_failure()?;
        let result = if let Err(outside) = self.check_range("making root", block, 16) {
            Err(outside)
        } else if block.is_aligned(16) {
            let word = crate::pool::root_word(block, kind).to_le_bytes();
            self.store_any(ROOT_AT, &word)
        } else {
            let why = "it is no block: blocks are aligned to 16";
            Err(Abort::bad_address("making root", block, why))
        };
        self.note(result)
    }

    fn failure(&self) -> Option<&Abort> {
        self.lane.buffers.failure.as_ref()
    }
}

impl<M: Medium> Tx<'_, M> {
    /// What is to be stored to, wherever that is.
    ///
    /// Lines are fetched before the first lock: a locked instruction waits for the loads before it,
    /// one after the other, but not for prefetches. Redo does not look at what it overwrites, and
    /// would wait for it when it stores in place.
    #[inline(never)]
    fn announce(&mut self, ranges: &[ByteRange]) -> Result<(), Abort> {
        self.refuse_after_failure()?;
        if !self.pool.facts.keeps_announced {
            for range in ranges {
                if let Err(outside) = self.check_range("announcing", range.at, range.len) {
                    return self.note(Err(outside));
                }
                self.fetch(*range);
            }
            return Ok(());
        }
        if ranges.len() > 1 {
            let len = self.pool.medium.len();
            ranges.iter().filter(|range| range.at.0 < len).for_each(|range| self.fetch(*range));
        }
        let result = ranges.iter().try_for_each(|range| {
            self.check_range("announcing", range.at, range.len)?;
            self.keep_old(range.at, range.len)
        });
        self.note(result)
    }

    /// Fetches the first lines of a range, and their locks.
    #[inline]
    pub(crate) fn fetch(&self, range: ByteRange) {
        if range.at.in_line() as u64 + range.len <= LINE_BYTES {
            return self.fetch_line(range.at.line(), self.lane.buffers.is_alone);
        }
        self.fetch_lines(range);
    }

    #[inline(never)]
    fn fetch_lines(&self, range: ByteRange) {
        let is_alone = self.lane.buffers.is_alone;
        range.lines().take(LINES_FETCHED_MAX).for_each(|line| self.fetch_line(line, is_alone));
    }

    #[inline]
    fn fetch_line(&self, line: LineAddr, is_alone: bool) {
        self.pool.medium.prefetch_write(line);
        if !is_alone && !self.pool.bias.is_of(line, self.lane.buffers.bias_of) {
            self.pool.locks.prefetch_write(self.pool.locks.stripe(line));
        }
    }

    /// Fetches the lock of a line that is loaded beside others, unless the locks of the line before it lie
    /// there as well.
    fn fetch_lock(&self, line: LineAddr, is_first: bool) {
        let stripe = self.pool.locks.stripe(line);
        let is_own = || self.pool.bias.is_of(line, self.lane.buffers.bias_of);
        if (is_first || stripe.begins_line()) && !is_own() {
            self.pool.locks.prefetch_read(stripe);
        }
    }

    pub(crate) fn check_range(
        &self,
        what: &'static str,
        at: PoolOffset,
        len: u64,
    ) -> Result<(), Abort> {
        let heap_at = self.pool.header().geometry.heap_at;
        let end = at.0.checked_add(len);
        if at.0 < heap_at || end.is_none_or(|end| end > self.pool.medium.len()) {
            return Err(Abort::bad_address(what, at, "it lies outside the heap"));
        }
        Ok(())
    }

    /// Whether this transaction allocated these bytes and stores to them without a log.
    #[inline]
    pub(crate) fn is_fresh(&self, at: PoolOffset, len: u64) -> bool {
        let fresh = &self.lane.buffers.fresh[self.lane.pending.before().fresh..];
        // Stores go to the newest block most of the time.
        fresh.iter().rev().any(|block| block.at <= at && at.0 + len <= block.end().0)
    }

    #[inline]
    pub(crate) fn load_any(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        self.touch(ByteRange::new(at, out.len() as u64));
        self.note_access(at, out.len() as u64);
        self.load_found(at, out)
    }

    /// Loads what has been told of.
    #[inline]
    pub(crate) fn load_found(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        if self.lane.buffers.is_alone && !self.pool.facts.has_write_set {
            // Everything is in place.
            self.pool.medium.load(at, out);
            return Ok(());
        }
        if !self.lane.buffers.fresh.is_empty() && self.is_fresh(at, out.len() as u64) {
            self.pool.medium.load(at, out);
            return Ok(());
        }
        if self.pool.facts.has_write_set && !self.lane.buffers.lines.is_empty() {
            return self.load_over_write_set(at, out);
        }
        self.read_range(at, out)
    }

    /// VERSION-3, for lines of a new block to which the transaction has not stored yet.
    #[inline]
    fn keep_fresh(&self, at: PoolOffset, len: u64) {
        let io = self.io();
        if !io.is_read() {
            return;
        }
        let lines = &self.lane.buffers.lines;
        let is_kept = |line| lines.find(line).is_some_and(|index| lines.entries()[index].fresh);
        for line in ByteRange::new(at, len).lines().filter(|line| !is_kept(*line)) {
            io.keep(line.start(), LINE_BYTES);
        }
    }

    /// Leaves a hint for the history unit, if there is one.
    #[inline]
    pub(crate) fn note_access(&mut self, at: PoolOffset, len: u64) {
        if let Some(sample) = self.pool.plan.sample
            && sample.has(at)
        {
            let lines = (at.in_line() as u64 + len).div_ceil(LINE_BYTES);
            self.lane.accesses.push(Access::new(at.line(), lines));
        }
    }

    pub(crate) fn store_any(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.note_outside_windows();
        self.lane.buffers.spread();
        self.begin_writing()?;
        self.note_access(at, bytes.len() as u64);
        if self.io().plants(Plant::MarkedBeforeStores) {
            let lines = ByteRange::new(at, bytes.len() as u64).lines();
            self.pool.checkpointer.changes.mark_lines(lines);
        }
        if !self.lane.buffers.fresh.is_empty() && self.is_fresh(at, bytes.len() as u64) {
            self.keep_fresh(at, bytes.len() as u64);
            self.pool.medium.store(at, bytes);
            if self.pool.plan.flushes_fresh_whole {
                return Ok(());
            }
            for line in ByteRange::new(at, bytes.len() as u64).lines() {
                let buffers = &mut self.lane.buffers;
                let (index, _) = buffers.lines.find_or_add(line);
                buffers.add_contents(index);
                let entry = buffers.lines.entry_mut(index);
                entry.stored = true;
                if !std::mem::replace(&mut entry.fresh, true) {
                    buffers.undo.fresh_lines.push(index as u32);
                }
            }
            return Ok(());
        }
        let facts = &self.pool.facts;
        if facts.has_write_set {
            self.store_to_write_set(at, bytes)
        } else if facts.is_volatile {
            self.exchange(at, bytes)
        } else {
            self.store_in_place(at, bytes)
        }
    }

    /// Before the first store, allocation or free of a transaction that needs a right to write.
    #[inline]
    pub(crate) fn begin_writing(&self) -> Result<(), Abort> {
        match self.pool.facts.has_one_writer {
            true => under!(self.pool.scheme(), D => D::begin_writing(self)),
            false => Ok(()),
        }
    }

    /// Before the transaction sees or changes these bytes.
    #[inline]
    pub(crate) fn touch(&self, bytes: ByteRange) {
        if self.pool.facts.role == Role::Published {
            under!(self.pool.scheme(), D => D::touch(self.pool, bytes));
        }
    }

    /// Remembers a failure, so that a closure that swallows it cannot commit.
    #[inline]
    pub(crate) fn note<R>(&mut self, result: Result<R, Abort>) -> Result<R, Abort> {
        if let Err(abort) = &result {
            let buffers = &mut self.lane.buffers;
            buffers.has_lines_only = false;
            buffers.failure.get_or_insert_with(|| abort.clone());
            buffers.windows.close_stores();
        }
        result
    }

    /// A transaction that a forked child has a copy of is its parent's, and a medium that has failed
    /// takes none. What is loaded or kept without a call does not ask: nothing of the pool changes
    /// before the commit, which does.
    #[inline]
    pub(crate) fn refuse_unusable(&self) -> Result<(), Abort> {
        if self.pool.medium.is_usable() { Ok(()) } else { Err(self.pool.refusal()) }
    }

    /// The fence of a commit point, or of a record before something is stored over what it keeps.
    #[inline(always)]
    pub(crate) fn fence_or_fail(&self, site: Site) -> Result<(), Abort> {
        if self.io().try_fence(site) { Ok(()) } else { Err(self.pool.refusal()) }
    }

    /// The transaction has not begun: every operation fails.
    pub(crate) fn refuse_all(&mut self, abort: Abort) {
        let _ = self.note(Err::<(), _>(abort));
        (self.lane.buffers.windows.loads, self.lane.buffers.windows.quick_loads) =
            (Window::NONE, Window::NONE);
    }

    /// After a failure nothing more is changed: an operation that failed half-way has locked
    /// and kept some of its lines and not others.
    #[inline]
    pub(crate) fn refuse_after_failure(&self) -> Result<(), Abort> {
        self.refuse_unusable()?;
        match &self.lane.buffers.failure {
            None => Ok(()),
            Some(abort) => Err(abort.clone()),
        }
    }
}
