//! One type for media of two kinds.

use outlast_trace::{LineAddr, PoolOffset};

use crate::error::{MapError, MediumFailure};
use crate::fence_log::FenceRegion;
use crate::layer::{pass_on, pass_on_unobserved};
use crate::medium::{GrowError, Mark, Medium};

/// A medium of one kind or of another, chosen at run time. Code that is generic over its medium is
/// compiled once for both, where the time to choose matters less than the time to compile.
///
/// [`Medium::share_out`] has the caller's thread do all parts.
pub enum Either<A, B> {
    /// Of the one kind.
    A(A),
    /// Of the other.
    B(B),
}

/// Calls the medium that it is.
macro_rules! chosen {
    ($either:ident, $($call:tt)*) => {
        match $either {
            Self::A(medium) => medium.$($call)*,
            Self::B(medium) => medium.$($call)*,
        }
    };
}

impl<A: Medium, B: Medium> Medium for Either<A, B> {
    const OBSERVED: bool = A::OBSERVED || B::OBSERVED;

    pass_on_unobserved!(chosen);

    pass_on! {
        chosen:
        store(at: PoolOffset, bytes: &[u8]);
        store_u64(at: PoolOffset, value: u64);
        store_words(line: LineAddr, mask: u8, words: &[u64; 8]);
        store_nt(at: PoolOffset, bytes: &[u8]);
        store_line_nt(line: LineAddr, words: &[u64; 8]);
        store_line(line: LineAddr, bytes: &[u8; 64]);
        flush(line: LineAddr);
        flush_range(at: PoolOffset, len: u64);
        fence();
        try_fence() -> bool;
        compare_exchange_u64(at: PoolOffset, current: u64, new: u64) -> Result<u64, u64>;
    }
}
