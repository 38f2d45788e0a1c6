//! The trait between the runtime and its memory.

use outlast_trace::{ByteRange, Domain, LINE_BYTES, LineAddr, PoolOffset, TxId};

use crate::error::MediumFailure;
use crate::fence_log::FenceRegion;

/// A call of a transaction into its runtime.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Call {
    /// The transaction begins.
    Begin,
    /// It loads.
    Load,
    /// It stores.
    Store,
    /// It announces what it will store.
    WillWrite,
    /// It takes a block.
    Alloc,
    /// It gives one back.
    Free,
    /// It commits.
    Commit,
}

/// Instructions that calls cost beside their memory accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InstructionCosts {
    /// Of [`Call::Begin`].
    pub begin: u32,
    /// Of [`Call::Load`].
    pub load: u32,
    /// Of [`Call::Store`].
    pub store: u32,
    /// Of [`Call::WillWrite`].
    pub will_write: u32,
    /// Of [`Call::Alloc`].
    pub alloc: u32,
    /// Of [`Call::Free`].
    pub free: u32,
    /// Of [`Call::Commit`].
    pub commit: u32,
}

impl InstructionCosts {
    /// The price of a call.
    pub fn of(&self, call: Call) -> u32 {
        match call {
            Call::Begin => self.begin,
            Call::Load => self.load,
            Call::Store => self.store,
            Call::WillWrite => self.will_write,
            Call::Alloc => self.alloc,
            Call::Free => self.free,
            Call::Commit => self.commit,
        }
    }
}

/// What a program tells an observing medium beside its memory accesses. Real memory ignores it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// A transaction starts.
    TxBegin,
    /// A transaction has ended, committed or aborted.
    TxEnd,
    /// The transaction was acknowledged to its client: from here on it must survive.
    Ack(TxId),
    /// A volatile lock was taken.
    Lock(u64),
    /// A volatile lock was released.
    Unlock(u64),
    /// About `n` instructions of work that touch no persistent memory.
    Compute(u32),
    /// The runtime was called; what that costs beside memory accesses a recorder may know.
    Call(Call),
    /// From here on this lane is in the named part of the program; findings name it.
    Site(&'static str),
}

/// A medium could not be made larger.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GrowError {
    /// This kind of medium has a fixed size.
    #[error("this medium has a fixed size")]
    Fixed,
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A mapped file could not: no space, past its limit, opened for reading only.
    #[error(transparent)]
    Map(#[from] crate::MapError),
}

/// Byte-addressable memory whose 64-byte lines become durable one by one.
///
/// Ordinary stores are visible to every thread at once and durable at some later time that only
/// [`flush`](Self::flush) followed by [`fence`](Self::fence) *on the same thread* can force;
/// `docs/fault-model.md` has the numbered rules. All methods take `&self`: threads share a
/// medium as they share memory, and races on one word give one of the values stored, never a
/// torn one, when the access is an aligned word.
///
/// Every method that takes an offset panics when the access leaves the medium.
pub trait Medium {
    /// Whether this medium observes what runs on it. Planted bugs and other costs of checking
    /// exist only where this is true; the optimiser removes them elsewhere.
    const OBSERVED: bool;

    /// The number of the bug that code is to have while it runs on this medium, 0 for none. Which bug that
    /// is only the code knows; a medium that does not observe carries none.
    #[inline]
    fn planted(&self) -> u16 {
        0
    }

    /// Whether [`store_line`](Self::store_line) is atomic on its 64 bytes.
    fn has_atomic_line(&self) -> bool;

    /// Size in bytes, a multiple of 64.
    fn len(&self) -> u64;

    /// Whether the medium holds no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this process is a forked child of the one that opened the medium. Then it must not
    /// use it. Costs a load.
    #[inline]
    fn is_forked(&self) -> bool {
        false
    }

    /// Why nothing becomes durable any more: a write has failed, then or earlier. Stores that follow
    /// are seen by this process and reach no file, as far as the system allows that.
    fn failure(&self) -> Option<MediumFailure> {
        None
    }

    /// Whether transactions may use the medium: this process opened it, and it has not failed.
    /// Costs a load.
    #[inline]
    fn is_usable(&self) -> bool {
        !self.is_forked() && self.failure().is_none()
    }

    /// Whether a fence writes pages to a device. It costs far more than what it writes: flushes that
    /// may wait are better left until much has gathered.
    #[inline]
    fn is_paged(&self) -> bool {
        false
    }

    /// Where a fence writes pages, has it write to a log in this region from now on
    /// ([`read_fences`](crate::read_fences)), whose first entry has number `first`. Elsewhere nothing happens.
    /// Nothing else stores to the region, and no older entry that is still there has that number or a
    /// larger one.
    fn begin_fence_log(&self, region: FenceRegion, first: u64) {
        let _ = (region, first);
    }

    /// Bytes of that log whose entries recovery would put back now; 0 without one.
    fn fence_log_used_bytes(&self) -> u64 {
        0
    }

    /// Makes all of the file durable where it lies, also what another process has stored to it, and ends a log of
    /// fences: from then on a fence writes pages. A medium without a file does nothing.
    ///
    /// # Errors
    /// When the system could not write.
    fn write_in_place(&self) -> Result<(), crate::MapError> {
        Ok(())
    }

    /// Takes space for these bytes on the file system, as far as they have none, so that no store to them needs it.
    /// Their content stays. Only a sparse file lacks some.
    ///
    /// # Errors
    /// Where there is no space; nothing has changed.
    fn allocate(&self, at: PoolOffset, len: u64) -> Result<(), crate::MapError> {
        let _ = (at, len);
        Ok(())
    }

    /// Nothing needs these bytes: the whole pages among them may go back to the file system, and then read as zeros. They
    /// want to be [allocated](Self::allocate) before the next store.
    fn release(&self, at: PoolOffset, len: u64) {
        let _ = (at, len);
    }

    /// The domain that its stores become durable in, where it has one of its own.
    fn persistence(&self) -> Option<Domain> {
        None
    }

    /// System calls that have made pages durable so far; 0 where none do.
    fn sync_count(&self) -> u64 {
        0
    }

    /// The file whose content the medium is, if it is one's.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }

    /// Copies `out.len()` bytes from `at` on.
    fn load(&self, at: PoolOffset, out: &mut [u8]);

    /// Loads an aligned little-endian word, atomically.
    fn load_u64(&self, at: PoolOffset) -> u64;

    /// Whether the bytes of a range pass a check of which only the verdict is used: a checksum, or
    /// tags that prove themselves.
    ///
    /// A crash checker takes all contents with one verdict for one, so that a record that was
    /// streamed and refused is not recovered from each of its mixtures of old and new words.
    /// Therefore `is_valid` depends on nothing but the bytes, leaves them nowhere and does not
    /// use the medium; what passes is loaded afterwards.
    ///
    /// ```
    /// use outlast_pmem::{Heap, Medium};
    /// use outlast_trace::PoolOffset;
    ///
    /// let medium = Heap::new(64);
    /// medium.store(PoolOffset(8), &[3, 1, 2]);
    /// let adds_up = |bytes: &[u8]| bytes[0] == bytes[1..].iter().sum();
    /// assert!(medium.verify(PoolOffset(8), 3, adds_up));
    /// ```
    fn verify(&self, at: PoolOffset, len: u64, is_valid: impl Fn(&[u8]) -> bool) -> bool {
        const FEW: usize = 256;
        check_bounds(self.len(), at, len);
        let (mut few, mut many) = ([0; FEW], Vec::new());
        let bytes = match few.get_mut(..len as usize) {
            Some(bytes) => bytes,
            None => {
                many.resize(len as usize, 0);
                &mut many[..]
            }
        };
        self.load(at, bytes);
        is_valid(bytes)
    }

    /// Stores `bytes` from `at` on with ordinary stores; aligned words in ascending order.
    fn store(&self, at: PoolOffset, bytes: &[u8]);

    /// Stores an aligned little-endian word, atomically and after all earlier stores of this
    /// thread (release order).
    fn store_u64(&self, at: PoolOffset, value: u64);

    /// As [`store_u64`](Self::store_u64), of several words.
    #[inline]
    fn store_u64_each(&self, words: impl Iterator<Item = (PoolOffset, u64)>) {
        words.for_each(|(at, word)| self.store_u64(at, word));
    }

    /// Stores the words of a line that a mask names, bit `i` for word `i`, in ascending order.
    #[inline]
    fn store_words(&self, line: LineAddr, mask: u8, words: &[u64; 8]) {
        let mut from = 0;
        while mask >> from != 0 {
            from += (mask >> from).trailing_zeros();
            let to = from + (mask >> from).trailing_ones();
            let at = line.start().plus(8 * u64::from(from));
            match &words[from as usize..to as usize] {
                [word] => self.store_u64(at, *word),
                run => self.store(at, bytemuck::cast_slice(run)),
            }
            if to == 8 {
                return;
            }
            from = to;
        }
    }

    /// As [`store_words`](Self::store_words), of several lines.
    #[inline]
    fn store_words_each<'w>(&self, lines: impl Iterator<Item = (LineAddr, u8, &'w [u64; 8])>) {
        lines.for_each(|(line, mask, words)| self.store_words(line, mask, words));
    }

    /// Stores whole aligned words past the caches. Nothing is ordered or durable before this
    /// thread's next fence (rule 10).
    fn store_nt(&self, at: PoolOffset, bytes: &[u8]);

    /// Stores a whole line as [`store_nt`](Self::store_nt) does, from eight little-endian words.
    #[inline]
    fn store_line_nt(&self, line: LineAddr, words: &[u64; 8]) {
        self.store_nt(line.start(), bytemuck::bytes_of(words));
    }

    /// Stores a whole line past the caches (MOVDIR64B), atomically where
    /// [`has_atomic_line`](Self::has_atomic_line) says so, else as `store_nt` does.
    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]);

    /// Starts the write-back of a line; orders nothing.
    fn flush(&self, line: LineAddr);

    /// Starts the write-back of each of some lines.
    #[inline]
    fn flush_each(&self, lines: impl Iterator<Item = LineAddr>) {
        lines.for_each(|line| self.flush(line));
    }

    /// Starts the write-back of every line that the range touches.
    #[inline]
    fn flush_range(&self, at: PoolOffset, len: u64) {
        for line in ByteRange::new(at, len).lines() {
            self.flush(line);
        }
    }

    /// Makes durable what this thread flushed or streamed before, unless the medium
    /// [has failed](Self::failure).
    fn fence(&self);

    /// As [`fence`](Self::fence), and tells whether all of that is durable.
    #[inline]
    #[track_caller]
    #[must_use]
    fn try_fence(&self) -> bool {
        self.fence();
        self.failure().is_none()
    }

    /// Replaces an aligned word if it holds `current`; returns what it held. A locked
    /// instruction, so it orders this thread's flushes like a fence (rule 7).
    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64>;

    /// Fetches the line for ownership, so that a later store to it does not wait.
    #[inline]
    fn prefetch_write(&self, line: LineAddr) {
        let _ = line;
    }

    /// Fetches the line, so that a later load from it does not wait.
    #[inline]
    fn prefetch_read(&self, line: LineAddr) {
        let _ = line;
    }

    /// From how many consecutive lines on a record of a log is better streamed than stored and
    /// flushed. May be found by trying, on `lines` lines from `first` on, which are the caller's
    /// alone meanwhile and hold the same all the time. Where time means nothing it is 1:
    /// everything is streamed.
    fn stream_from(&self, first: LineAddr, lines: u64) -> u64 {
        let _ = (first, lines);
        1
    }

    /// Makes the medium at least `len` bytes long; new bytes are zero and durable.
    fn grow(&self, len: u64) -> Result<(), GrowError> {
        let _ = len;
        Err(GrowError::Fixed)
    }

    /// Tells an observing medium what the program is doing.
    #[inline]
    fn mark(&self, mark: Mark) {
        let _ = mark;
    }

    /// Does parts `0..parts` of some work, each once, and returns when all are done. A medium that
    /// several threads can use at the same moment may let them, and has them fence what they
    /// flushed; by default the caller's thread does one part after the other. What that one flushed
    /// is the caller's to fence. Parts do not wait for each other.
    ///
    /// Panics when a part does.
    fn share_out(&self, parts: usize, work: &(dyn Fn(&Self, usize) + Sync)) {
        (0..parts).for_each(|part| work(self, part));
    }

    /// Called wherever the program waits for another thread, and before it takes a volatile
    /// lock: a scheduler switches threads here.
    #[inline]
    fn pause(&self) {
        std::hint::spin_loop();
    }
}

/// Panics with the same words everywhere when an access leaves the medium.
#[inline]
#[track_caller]
pub(crate) fn check_bounds(medium_len: u64, at: PoolOffset, len: u64) {
    if at.0 > medium_len || medium_len - at.0 < len {
        out_of_bounds(medium_len, at, len);
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn out_of_bounds(medium_len: u64, at: PoolOffset, len: u64) -> ! {
    panic!("access of {len} bytes at {at} leaves a medium of {medium_len} bytes");
}

/// Rounds a length up to whole lines.
pub(crate) fn whole_lines(len: u64) -> u64 {
    len.div_ceil(LINE_BYTES) * LINE_BYTES
}
