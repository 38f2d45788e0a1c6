//! The short way to single words: a transaction's windows, and what is not in them.

use outlast_pmem::{Call, Mark, Medium};
use outlast_trace::{ByteRange, LINE_BYTES, PoolOffset};

use super::Tx;
use crate::plant::Plant;
use crate::scheme::Role;
use crate::transact::{Abort, Transact};

/// Aligned words of the pool that are reached in few steps.
#[derive(Clone, Copy, PartialEq, Default)]
pub(crate) struct Window {
    /// Of whole lines.
    from: u64,
    bytes: u64,
    words: u64,
}

impl Window {
    pub(crate) const NONE: Self = Self { from: 0, bytes: 0, words: 0 };

    fn new(from: u64, to: u64) -> Self {
        debug_assert!(from <= to && (from | to).is_multiple_of(LINE_BYTES));
        Self { from, bytes: to - from, words: (to - from) / 8 }
    }

    /// One comparison tells both that `at` is inside and that it is a multiple of 8: rotated, the low bits that
    /// should be zero become the highest.
    #[inline(always)]
    pub(crate) fn has_word(self, at: PoolOffset) -> bool {
        at.0.wrapping_sub(self.from).rotate_right(3) < self.words
    }

    /// Whether it is a range of one line and inside: the window has whole lines.
    #[inline(always)]
    pub(crate) fn has_range_of_line(self, range: ByteRange) -> bool {
        let is_of_line = range.len <= LINE_BYTES - range.at.in_line() as u64;
        range.at.0.wrapping_sub(self.from) < self.bytes && is_of_line
    }

    #[inline(always)]
    pub(crate) fn has_range(self, range: ByteRange) -> bool {
        let from = range.at.0.wrapping_sub(self.from);
        from < self.bytes && range.len <= self.bytes - from
    }
}

/// The windows of a transaction.
#[derive(Default)]
pub(crate) struct Windows {
    /// No checker records accesses.
    pub is_untold: bool,
    /// Words that are in place or in the write set.
    pub loads: Window,
    /// The same where no lock is looked at and no access recorded; none beside others.
    pub quick_loads: Window,
    /// Words that are stored into the write set and nowhere else.
    pub stores: Window,
    /// The same where no access is recorded.
    pub quick_stores: Window,
    /// Words that are stored in place, where an abort alone asks for the old ones; none beside others.
    pub exchanges: Window,
    /// Bytes that are announced by fetching their lines.
    pub announced: Window,
    /// A commit may take the short way (WAY-2).
    pub allow_short: bool,
    /// Bytes of the pool when the windows were opened wide; 0 when one is not.
    pub of: u64,
}

impl Windows {
    /// Every store takes the long way, and every announcement.
    pub(crate) fn close_stores(&mut self) {
        (self.stores, self.quick_stores) = (Window::NONE, Window::NONE);
        (self.exchanges, self.announced) = (Window::NONE, Window::NONE);
        self.of = 0;
    }
}

impl<M: Medium> Tx<'_, M> {
    /// Words of the heap are reached without a look at what else there may be. Under a published
    /// variant whatever is touched may be pending.
    #[inline(never)]
    pub(crate) fn open_windows(&mut self) {
        let pool = self.pool;
        // Asked once: the pool may grow meanwhile.
        let len = pool.medium.len();
        let buffers = &mut self.lane.buffers;
        let heap = if pool.facts.role != Role::Published {
            Window::new(pool.header().geometry.heap_at, len)
        } else {
            Window::NONE
        };
        let is_untold = pool.plan.history.is_none();
        let heap_if = |is_open: bool| if is_open { heap } else { Window::NONE };
        let is_quick = !pool.io().plants(Plant::MarkedBeforeStores);
        let (is_kept, is_alone) = (is_quick && pool.facts.commits_by_record, buffers.is_alone);
        let is_exchanged = is_quick && pool.facts.is_volatile && is_alone;
        buffers.windows = Windows {
            is_untold,
            loads: heap,
            quick_loads: heap_if(is_untold && is_alone),
            stores: heap_if(is_kept),
            quick_stores: heap_if(is_untold && is_kept),
            exchanges: heap_if(is_exchanged),
            announced: heap_if(is_kept || is_exchanged),
            allow_short: is_untold
                && is_alone
                && pool.facts.commits_by_record
                && pool.plan.sample.is_none()
                && pool.matrices.is_none(),
            of: len,
        };
    }

    /// An access was in no window. Where the pool has grown since they were opened, the next transaction opens
    /// them anew.
    pub(crate) fn note_outside_windows(&mut self) {
        let of = self.lane.buffers.windows.of;
        if of != 0 && of != self.pool.medium.len() {
            self.lane.buffers.has_lines_only = false;
        }
    }

    /// Whether a glance shows that all these bytes may be loaded where they are: the short way of
    /// [`load`](Transact::load), of a transaction that runs alone.
    #[inline(always)]
    pub(crate) fn is_in_place(&self, at: PoolOffset, len: usize) -> bool {
        let buffers = &self.lane.buffers;
        buffers.windows.quick_loads.has_range(ByteRange::new(at, len as u64))
            && (buffers.lines.is_empty()
                || !self.pool.facts.has_write_set
                || at.in_line() + len <= LINE_BYTES as usize
                    && buffers.lines.surely_lacks(at.line()))
    }

    /// [`load`](Transact::load), whatever it takes.
    #[inline(never)]
    pub(crate) fn load_otherwise(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        self.note_outside_windows();
        self.refuse_unusable()?;
        self.pool.medium.mark(Mark::Call(Call::Load));
        let result =
            self.check_range("loading", at, out.len() as u64).and_then(|()| self.load_any(at, out));
        self.note(result)
    }

    /// [`load_u64`](Transact::load_u64) of a transaction that is not alone, or is recorded.
    #[inline(never)]
    pub(crate) fn load_word_beside(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        let buffers = &self.lane.buffers;
        if buffers.windows.is_untold
            && buffers.windows.loads.has_word(at)
            && self.pool.bias.is_of(at.line(), buffers.bias_of)
        {
            self.pool.medium.mark(Mark::Call(Call::Load));
            if buffers.lines.surely_lacks(at.line()) || !self.pool.facts.has_write_set {
                return Ok(self.pool.medium.load_u64(at));
            }
            return Ok(self.load_kept_word(at));
        }
        self.load_word(at)
    }

    /// [`load_u64`](Transact::load_u64), beside others and whatever else takes more than a few
    /// instructions.
    #[inline(never)]
    pub(crate) fn load_word(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        self.refuse_unusable()?;
        if self.lane.buffers.windows.loads.has_word(at) {
            self.pool.medium.mark(Mark::Call(Call::Load));
            self.note_access(at, 8);
            if !self.lane.buffers.is_alone {
                return self.load_shared_word(at);
            }
            return Ok(match self.pool.facts.has_write_set {
                true => self.load_kept_word(at),
                false => self.pool.medium.load_u64(at),
            });
        }
        let mut bytes = [0; 8];
        self.load(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Whether a word of the heap is stored into the write set and nowhere else, though the transaction has new blocks
    /// that are stored to in place.
    fn is_logged_word(&self, at: PoolOffset) -> bool {
        let is_kept =
            self.pool.facts.commits_by_record && !self.io().plants(Plant::MarkedBeforeStores);
        is_kept && self.lane.buffers.windows.loads.has_word(at) && !self.is_fresh(at, 8)
    }

    /// The same for stores.
    #[inline(never)]
    pub(crate) fn store_word(&mut self, at: PoolOffset, value: u64) -> Result<(), Abort> {
        if self.lane.buffers.windows.stores.has_word(at) {
            self.pool.medium.mark(Mark::Call(Call::Store));
            self.note_access(at, 8);
            self.put_word(at, value);
            return Ok(());
        }
        if self.is_logged_word(at) {
            self.refuse_after_failure()?;
            self.pool.medium.mark(Mark::Call(Call::Store));
            self.note_access(at, 8);
            self.put_word(at, value);
            return Ok(());
        }
        if self.lane.buffers.windows.exchanges.has_word(at) {
            self.pool.medium.mark(Mark::Call(Call::Store));
            self.refuse_unusable()?;
            self.exchange_word(at, value);
            return Ok(());
        }
        self.store(at, &value.to_le_bytes())
    }
}
