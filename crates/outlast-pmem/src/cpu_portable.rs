//! The interface of the instruction file for processors whose flush instructions are not known:
//! ordinary stores and fences, enough for the domains `process` and `page`.

use std::sync::atomic::{Ordering, fence};

use outlast_trace::FlushKind;

pub(crate) use crate::cpu_stored::{
    STREAMS_ARE_STORES, store_line_atomic, stream, stream_line_words,
};
use crate::features::CpuFeatures;

/// Whether a locked instruction makes the thread's flushes durable: there are none.
pub(crate) const RMW_FENCES: bool = true;

/// What is known of this processor: nothing.
pub fn cpu_features() -> CpuFeatures {
    CpuFeatures { flush: None, movdir64b: false }
}

/// Whether this processor is known to have that instruction: no.
pub fn has_flush(_: FlushKind) -> bool {
    false
}

/// Never reached: without line flushes there is no domain that asks for one.
///
/// # Safety
/// None is needed; the signature is that of the instruction.
pub(crate) unsafe fn flush_line(kind: FlushKind, _line: *const u8) {
    unreachable!("{kind:?} on a processor without it");
}

/// Whether this processor is known to have an instruction for CRC-32C: no.
pub(crate) fn has_crc32c() -> bool {
    false
}

/// Never reached.
///
/// # Safety
/// None is needed; the signature is that of the instruction.
pub(crate) unsafe fn crc32c_step(_crc: u64, _word: u64) -> u64 {
    unreachable!("CRC-32C by an instruction that is not there");
}

/// Orders all earlier stores before all later ones.
#[inline(always)]
pub(crate) fn store_fence() {
    fence(Ordering::SeqCst);
}

/// As [`store_fence`], and orders loads.
#[inline(always)]
pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Does nothing: a prefetch is a hint.
#[inline(always)]
pub(crate) fn prefetch_write(_line: *const u8) {}

/// As [`prefetch_write`].
#[inline(always)]
pub(crate) fn prefetch_read(_line: *const u8) {}
