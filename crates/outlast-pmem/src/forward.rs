//! A reference to a medium, or a share of one, is that medium. It is as if called from where the
//! program called: a recorder names that place.

use std::sync::Arc;

use outlast_trace::{LineAddr, PoolOffset};

use crate::fence_log::FenceRegion;
use crate::medium::{GrowError, Mark, Medium};

/// Passes every method on, the provided ones too: a medium may do better than their defaults. All but
/// `share_out`, whose other threads get a reference to the medium that is shared out, and not of this
/// life: through a pointer, the caller's thread does everything.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<M: Medium + ?Sized> Medium for $pointer {
            const OBSERVED: bool = M::OBSERVED;

            #[inline(always)]
            fn planted(&self) -> u16 {
                (**self).planted()
            }

            #[inline(always)]
            fn has_atomic_line(&self) -> bool {
                (**self).has_atomic_line()
            }

            #[inline(always)]
            fn is_paged(&self) -> bool {
                (**self).is_paged()
            }

            #[inline(always)]
            fn len(&self) -> u64 {
                (**self).len()
            }

            #[inline(always)]
            fn is_forked(&self) -> bool {
                (**self).is_forked()
            }

            fn failure(&self) -> Option<crate::MediumFailure> {
                (**self).failure()
            }

            #[inline(always)]
            fn is_usable(&self) -> bool {
                (**self).is_usable()
            }

            fn file(&self) -> Option<&std::fs::File> {
                (**self).file()
            }

            fn begin_fence_log(&self, region: FenceRegion, first: u64) {
                (**self).begin_fence_log(region, first);
            }

            fn fence_log_used_bytes(&self) -> u64 {
                (**self).fence_log_used_bytes()
            }

            fn write_in_place(&self) -> Result<(), crate::MapError> {
                (**self).write_in_place()
            }

            #[inline(always)]
            #[track_caller]
            fn load(&self, at: PoolOffset, out: &mut [u8]) {
                (**self).load(at, out);
            }

            #[inline(always)]
            #[track_caller]
            fn load_u64(&self, at: PoolOffset) -> u64 {
                (**self).load_u64(at)
            }

            #[inline(always)]
            #[track_caller]
            fn verify(&self, at: PoolOffset, len: u64, is_valid: impl Fn(&[u8]) -> bool) -> bool {
                (**self).verify(at, len, is_valid)
            }

            #[inline(always)]
            #[track_caller]
            fn store(&self, at: PoolOffset, bytes: &[u8]) {
                (**self).store(at, bytes);
            }

            #[inline(always)]
            #[track_caller]
            fn store_u64(&self, at: PoolOffset, value: u64) {
                (**self).store_u64(at, value);
            }

            #[inline(always)]
            #[track_caller]
            fn store_words(&self, line: LineAddr, mask: u8, words: &[u64; 8]) {
                (**self).store_words(line, mask, words);
            }

            #[inline(always)]
            #[track_caller]
            fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
                (**self).store_nt(at, bytes);
            }

            #[inline(always)]
            #[track_caller]
            fn store_line_nt(&self, line: LineAddr, words: &[u64; 8]) {
                (**self).store_line_nt(line, words);
            }

            #[inline(always)]
            #[track_caller]
            fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
                (**self).store_line(line, bytes);
            }

            #[inline(always)]
            #[track_caller]
            fn flush(&self, line: LineAddr) {
                (**self).flush(line);
            }

            #[inline(always)]
            #[track_caller]
            fn flush_range(&self, at: PoolOffset, len: u64) {
                (**self).flush_range(at, len);
            }

            #[inline(always)]
            #[track_caller]
            fn fence(&self) {
                (**self).fence();
            }

            #[inline(always)]
            #[track_caller]
            fn try_fence(&self) -> bool {
                (**self).try_fence()
            }

            #[inline(always)]
            #[track_caller]
            fn compare_exchange_u64(
                &self,
                at: PoolOffset,
                current: u64,
                new: u64,
            ) -> Result<u64, u64> {
                (**self).compare_exchange_u64(at, current, new)
            }

            #[inline(always)]
            #[track_caller]
            fn prefetch_write(&self, line: LineAddr) {
                (**self).prefetch_write(line);
            }

            #[inline(always)]
            #[track_caller]
            fn prefetch_read(&self, line: LineAddr) {
                (**self).prefetch_read(line);
            }

            fn stream_from(&self, first: LineAddr, lines: u64) -> u64 {
                (**self).stream_from(first, lines)
            }

            fn grow(&self, len: u64) -> Result<(), GrowError> {
                (**self).grow(len)
            }

            #[inline(always)]
            #[track_caller]
            fn mark(&self, mark: Mark) {
                (**self).mark(mark);
            }

            #[inline(always)]
            fn pause(&self) {
                (**self).pause();
            }
        }
    )*};
}

forward!(&M, Arc<M>);
