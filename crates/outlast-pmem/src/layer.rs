//! Media over other media.

use std::sync::Arc;
use std::thread;

use outlast_trace::{LineAddr, PoolOffset};

use crate::error::{MapError, MediumFailure};
use crate::fence_log::FenceRegion;
use crate::medium::{GrowError, Mark, Medium};

/// A call that passes through a [`Layer`] and stores, orders or makes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Bytes stored through the caches.
    Store {
        /// The first byte's address.
        at: PoolOffset,
        /// How many.
        len: u64,
    },
    /// Words of a line stored through the caches, bit `i` of `mask` for word `i`.
    Words {
        /// The line.
        line: LineAddr,
        /// Which of its words.
        mask: u8,
    },
    /// Bytes stored past the caches.
    Stream {
        /// The first byte's address.
        at: PoolOffset,
        /// How many.
        len: u64,
    },
    /// Lines of a range flushed.
    Flush {
        /// The range's first byte.
        at: PoolOffset,
        /// Its length in bytes.
        len: u64,
    },
    /// A fence.
    Fence,
    /// A compare-exchange, which always passes.
    Exchange {
        /// The word's address.
        at: PoolOffset,
        /// Whether it stored; false before it is done.
        stored: bool,
    },
}

/// How an access goes on to the medium below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pass {
    /// As it came.
    On,
    /// A stream goes through the caches; other accesses as they came.
    Cached,
    /// It ends here: the medium below never sees it, nor does [`Layer::after`].
    Off,
}

/// A medium over another one. Every layer is a [`Medium`] that passes every method on to the medium
/// below, as it came; a layer states only what it changes.
///
/// Methods that differ only in speed, such as [`Medium::store_words`] and [`Medium::store`], are one
/// kind of [`Access`]: no layer can observe the one and miss the other.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use outlast_pmem::{Access, Heap, Layer, Medium};
///
/// /// Counts fences.
/// struct Fences(Heap, AtomicU64);
///
/// impl Layer for Fences {
///     type Inner = Heap;
///
///     fn inner(&self) -> &Heap {
///         &self.0
///     }
///
///     fn after(&self, access: Access) {
///         if access == Access::Fence {
///             self.1.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let medium = Fences(Heap::new(64), AtomicU64::new(0));
/// medium.fence();
/// assert!(medium.try_fence());
/// assert_eq!(medium.1.into_inner(), 2);
/// ```
pub trait Layer: Sized {
    /// The medium below.
    type Inner: Medium + ?Sized;

    /// The medium below.
    fn inner(&self) -> &Self::Inner;

    /// Decides how an access goes on.
    #[inline(always)]
    fn before(&self, access: Access) -> Pass {
        let _ = access;
        Pass::On
    }

    /// Observes an access that the medium below has done. An access that panics there never comes here.
    #[inline(always)]
    fn after(&self, access: Access) {
        let _ = access;
    }

    /// [`Medium::share_out`] through the layer: the caller's thread does all parts. A layer that several
    /// threads may use calls [`share_out_below`](Self::share_out_below).
    fn divide(&self, parts: usize, work: &(dyn Fn(&Self, usize) + Sync)) {
        (0..parts).for_each(|part| work(self, part));
    }

    /// Shares out among the threads of the medium below. Threads other than the caller's fence each part
    /// through this layer, which thus observes their fences.
    fn share_out_below(&self, parts: usize, work: &(dyn Fn(&Self, usize) + Sync))
    where
        Self: Sync,
    {
        let caller = thread::current().id();
        self.inner().share_out(parts, &|_, part| {
            work(self, part);
            if thread::current().id() != caller {
                self.fence();
            }
        });
    }
}

/// Methods that do as another medium does.
macro_rules! pass_on {
    ($to:ident: $($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(#[inline(always)]
        #[track_caller]
        fn $name(&self, $($argument: $type),*) $(-> $result)? {
            $to!(self, $name($($argument),*))
        })*
    };
}
pub(crate) use pass_on;

/// The methods that are no [`Access`].
macro_rules! pass_on_unobserved {
    ($to:ident) => {
        $crate::layer::pass_on! {
            $to:
            planted() -> u16;
            has_atomic_line() -> bool;
            len() -> u64;
            is_forked() -> bool;
            failure() -> Option<MediumFailure>;
            is_usable() -> bool;
            is_paged() -> bool;
            begin_fence_log(region: FenceRegion, first: u64);
            fence_log_used_bytes() -> u64;
            write_in_place() -> Result<(), MapError>;
            allocate(at: PoolOffset, len: u64) -> Result<(), MapError>;
            release(at: PoolOffset, len: u64);
            persistence() -> Option<outlast_trace::Domain>;
            sync_count() -> u64;
            file() -> Option<&std::fs::File>;
            load(at: PoolOffset, out: &mut [u8]);
            load_u64(at: PoolOffset) -> u64;
            verify(at: PoolOffset, len: u64, is_valid: impl Fn(&[u8]) -> bool) -> bool;
            prefetch_write(line: LineAddr);
            prefetch_read(line: LineAddr);
            stream_from(first: LineAddr, lines: u64) -> u64;
            grow(len: u64) -> Result<(), GrowError>;
            mark(mark: Mark);
            pause();
        }
    };
}
pub(crate) use pass_on_unobserved;

/// Calls the medium below a layer.
macro_rules! below {
    ($layer:ident, $($call:tt)*) => {
        $layer.inner().$($call)*
    };
}

/// Passes an access to the medium below, between the layer's two hooks.
macro_rules! pass {
    ($layer:ident, $access:expr, $on:expr) => {
        pass!($layer, $access, $on, $on)
    };
    ($layer:ident, $access:expr, $on:expr, $cached:expr $(, $off:expr)?) => {{
        let access = $access;
        let passed = match $layer.before(access) {
            Pass::On => $on,
            Pass::Cached => $cached,
            Pass::Off => return $($off)?,
        };
        $layer.after(access);
        passed
    }};
}

// A call is as if it came from the place that called the layer: a recorder names that place.
impl<L: Layer> Medium for L {
    const OBSERVED: bool = <L::Inner as Medium>::OBSERVED;

    pass_on_unobserved!(below);

    #[inline(always)]
    #[track_caller]
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        let len = bytes.len() as u64;
        pass!(self, Access::Store { at, len }, self.inner().store(at, bytes));
    }

    #[inline(always)]
    #[track_caller]
    fn store_u64(&self, at: PoolOffset, value: u64) {
        pass!(self, Access::Store { at, len: 8 }, self.inner().store_u64(at, value));
    }

    #[inline(always)]
    #[track_caller]
    fn store_words(&self, line: LineAddr, mask: u8, words: &[u64; 8]) {
        pass!(self, Access::Words { line, mask }, self.inner().store_words(line, mask, words));
    }

    #[inline(always)]
    #[track_caller]
    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        let inner = self.inner();
        let access = Access::Stream { at, len: bytes.len() as u64 };
        pass!(self, access, inner.store_nt(at, bytes), inner.store(at, bytes));
    }

    #[inline(always)]
    #[track_caller]
    fn store_line_nt(&self, line: LineAddr, words: &[u64; 8]) {
        let inner = self.inner();
        let access = Access::Stream { at: line.start(), len: 64 };
        let cached = || inner.store_words(line, !0, words);
        pass!(self, access, inner.store_line_nt(line, words), cached());
    }

    #[inline(always)]
    #[track_caller]
    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        let inner = self.inner();
        let access = Access::Stream { at: line.start(), len: 64 };
        pass!(self, access, inner.store_line(line, bytes), inner.store(line.start(), bytes));
    }

    #[inline(always)]
    #[track_caller]
    fn flush(&self, line: LineAddr) {
        let access = Access::Flush { at: line.start(), len: 64 };
        pass!(self, access, self.inner().flush(line));
    }

    #[inline(always)]
    #[track_caller]
    fn flush_range(&self, at: PoolOffset, len: u64) {
        pass!(self, Access::Flush { at, len }, self.inner().flush_range(at, len));
    }

    #[inline(always)]
    #[track_caller]
    fn fence(&self) {
        pass!(self, Access::Fence, self.inner().fence());
    }

    #[inline(always)]
    #[track_caller]
    fn try_fence(&self) -> bool {
        let inner = self.inner();
        pass!(self, Access::Fence, inner.try_fence(), inner.try_fence(), inner.failure().is_none())
    }

    #[inline(always)]
    #[track_caller]
    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.before(Access::Exchange { at, stored: false });
        let result = self.inner().compare_exchange_u64(at, current, new);
        self.after(Access::Exchange { at, stored: result.is_ok() });
        result
    }

    fn share_out(&self, parts: usize, work: &(dyn Fn(&Self, usize) + Sync)) {
        self.divide(parts, work);
    }
}

/// A reference to a medium is that medium. The threads of [`Medium::share_out`] would need a reference
/// that lives as long as this one, so the caller's thread does all parts.
impl<M: Medium + ?Sized> Layer for &M {
    type Inner = M;

    #[inline(always)]
    fn inner(&self) -> &M {
        self
    }
}

/// A share of a medium is that medium, as a reference is.
impl<M: Medium + ?Sized> Layer for Arc<M> {
    type Inner = M;

    #[inline(always)]
    fn inner(&self) -> &M {
        self
    }
}

#[cfg(test)]
mod tests;
