//! The instructions that persistence is made of, on AArch64 under Linux. One of the two files with assembly.
//!
//! | here | instruction | why |
//! |---|---|---|
//! | flush | `dc cvadp`, else `dc cvap` | cleans the line to the point of deep persistence, or of persistence; keeps it |
//! | fence | `dsb sy` | completes earlier cleans, and nothing behind it begins before |
//! | stream | stores | the architecture has no store that passes the caches; the line is flushed behind it |
//!
//! The rules are those of Arm's Architecture Reference Manual (DDI 0487), "Ordering and completion of data and instruction
//! cache instructions" and "Data Synchronization Barrier":
//!
//! * A clean by address takes the stores to *its* line that come before it in program order, with no barrier between, in
//!   memory that is Normal and Write-Back. Cleans of other lines go in any order. That is rule 6 of `docs/fault-model.md`.
//! * A clean is complete when a DSB of the same processor element has completed, one for reads *and* writes: `dsb st`
//!   completes stores alone, and no `dmb` completes a clean. The kernel completes cleans to the point of persistence with
//!   `dsb sy`, and so does this file. It also executes a DSB before another processor runs the thread.
//! * A locked instruction (`casal`, or a loop of `ldaxr` and `stlxr`) completes no clean, unlike x86-64's: the medium
//!   fences before it ([`RMW_FENCES`]).
//! * Stores become visible in any order, also those to one line, unless each later one releases. [`words`] stores so;
//!   that is rule 2.
//! * Where the memory has no such point, both instructions clean to the point of coherency. Whether it has one is
//!   the platform's to say: `MAP_SYNC` and the persistence domain of the region.
//!
//! A line has 64 bytes here, and the smallest line of the caches is read from `CTR_EL0`. If it is shorter, a line would
//! not persist as a whole, and the processor counts as one without the instruction.
//!
//! [`words`]: crate::mapped::words

use std::arch::asm;
use std::sync::atomic::{AtomicBool, Ordering};

use outlast_trace::{FlushKind, LINE_BYTES};

pub(crate) use crate::cpu_stored::{
    STREAMS_ARE_STORES, store_line_atomic, stream, stream_line_words,
};
use crate::features::CpuFeatures;

/// Whether a locked instruction makes the thread's flushes durable.
pub(crate) const RMW_FENCES: bool = false;

/// `dc cvap` (FEAT_DPB), in the first word of capabilities.
const HWCAP_DCPOP: usize = 1 << 16;

/// `crc32c` and its kin, in the first word.
const HWCAP_CRC32: usize = 1 << 7;

/// `dc cvadp` (FEAT_DPB2), in the second word.
const HWCAP2_DCPODP: usize = 1 << 0;

/// Whether lines are cleaned to the point of deep persistence. Written before a mapping is made.
static IS_DEEP: AtomicBool = AtomicBool::new(false);

/// Asks the system (`getauxval`) what this processor has.
pub fn cpu_features() -> CpuFeatures {
    let (first, second) = rustix::param::linux_hwcap();
    IS_DEEP.store(second & HWCAP2_DCPODP != 0, Ordering::Relaxed);
    let flush = flush_of(first, smallest_line_bytes());
    CpuFeatures { flush, movdir64b: false }
}

/// The flush of a processor with these capabilities and this smallest line of its caches.
fn flush_of(capabilities: usize, line_bytes: u64) -> Option<FlushKind> {
    let has_clean = capabilities & HWCAP_DCPOP != 0;
    (has_clean && line_bytes >= LINE_BYTES).then_some(FlushKind::Clwb)
}

/// Whether this processor has an instruction that flushes in that way.
pub fn has_flush(kind: FlushKind) -> bool {
    cpu_features().flush == Some(kind)
}

/// Bytes of the smallest line of all data caches.
fn smallest_line_bytes() -> u64 {
    let register: u64;
    // SAFETY: reads a register that Linux lets programs read, or reads for them.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) register, options(nomem, nostack, preserves_flags)) };
    line_bytes_of(register)
}

/// DminLine, bits 16 to 19: the logarithm of the line in words of 4 bytes.
fn line_bytes_of(register: u64) -> u64 {
    4 << (register >> 16 & 0xf)
}

/// Starts the write-back of the line at `line`.
///
/// # Safety
/// - `line` lies in mapped memory.
/// - The processor has the instruction that `kind` names.
#[inline(always)]
pub(crate) unsafe fn flush_line(kind: FlushKind, line: *const u8) {
    debug_assert_eq!(kind, FlushKind::Clwb);
    // SAFETY: the caller vouches for address and instruction; a clean changes no byte that a program can
    // see. `s3_3_c7_c13_1` is `dc cvadp`, and `s3_3_c7_c12_1` is `dc cvap`, for assemblers of any age.
    unsafe {
        if IS_DEEP.load(Ordering::Relaxed) {
            asm!("sys #3, c7, c13, #1, {}", in(reg) line, options(nostack, preserves_flags));
        } else {
            asm!("sys #3, c7, c12, #1, {}", in(reg) line, options(nostack, preserves_flags));
        }
    }
}

/// Whether this processor has the instruction for CRC-32C.
#[inline(always)]
pub(crate) fn has_crc32c() -> bool {
    rustix::param::linux_hwcap().0 & HWCAP_CRC32 != 0
}

/// Continues a CRC-32C by eight bytes, without the inversions before and behind.
///
/// # Safety
/// The processor has the instruction ([`has_crc32c`]).
#[inline(always)]
pub(crate) unsafe fn crc32c_step(mut crc: u64, word: u64) -> u64 {
    // SAFETY: changes one register; the caller vouches for the instruction.
    unsafe {
        asm!(
            ".arch_extension crc",
            "crc32cx {crc:w}, {crc:w}, {word:x}",
            crc = inout(reg) crc,
            word = in(reg) word,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    crc
}

/// Completes all earlier flushes and stores before anything that comes later.
#[inline(always)]
pub(crate) fn store_fence() {
    // SAFETY: a barrier touches no register and no memory.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// As [`store_fence`], which orders loads here.
#[inline(always)]
pub(crate) fn full_fence() {
    store_fence();
}

/// Fetches the line at `line` in order to write it. Faults on no address whatever.
#[inline(always)]
pub(crate) fn prefetch_write(line: *const u8) {
    // SAFETY: a prefetch is a hint: it changes nothing and never faults.
    unsafe { asm!("prfm pstl1keep, [{}]", in(reg) line, options(nostack, preserves_flags)) }
}

/// Fetches the line at `line` in order to read it. Faults on no address whatever.
#[inline(always)]
pub(crate) fn prefetch_read(line: *const u8) {
    // SAFETY: as above.
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, preserves_flags)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_to_persistence_of_whole_lines_is_a_flush() {
        assert_eq!(flush_of(HWCAP_DCPOP | HWCAP_CRC32, 64), Some(FlushKind::Clwb));
        assert_eq!(flush_of(HWCAP_DCPOP, 128), Some(FlushKind::Clwb));
        assert_eq!(flush_of(HWCAP_DCPOP, 32), None, "half a line could persist alone");
        assert_eq!(flush_of(HWCAP_CRC32, 64), None);
    }

    #[test]
    fn the_smallest_line_is_read_from_its_field() {
        // As a Neoverse N1 has it, and with lines of 32 bytes.
        assert_eq!(line_bytes_of(0x8444_c004), 64);
        assert_eq!(line_bytes_of(0x8443_c004), 32);
        assert!(smallest_line_bytes().is_power_of_two());
    }

    #[test]
    fn both_cleans_and_the_fence_are_executed_where_they_are() {
        let (first, second) = rustix::param::linux_hwcap();
        let lines = vec![7u8; 256];
        for (deep, has) in [(false, first & HWCAP_DCPOP != 0), (true, second & HWCAP2_DCPODP != 0)]
        {
            println!("deep {deep}: {}", if has { "executed" } else { "the processor lacks it" });
            if has {
                IS_DEEP.store(deep, Ordering::Relaxed);
                // SAFETY: the address is mapped, and the processor has the instruction, as just asked.
                unsafe { flush_line(FlushKind::Clwb, lines.as_ptr()) };
                store_fence();
            }
        }
        cpu_features();
        assert!(lines.iter().all(|byte| *byte == 7));
    }

    #[test]
    fn the_instruction_continues_the_same_crc() {
        if !has_crc32c() {
            return println!("the processor has no crc32cx");
        }
        let mut crc = u64::from(!0u32);
        for word in [0u64, 1, !0, 0x0123_4567_89ab_cdef] {
            let expected = !crc32c::crc32c_append(!(crc as u32), &word.to_le_bytes());
            // SAFETY: the processor has the instruction, as just asked.
            crc = unsafe { crc32c_step(crc, word) };
            assert_eq!(crc, u64::from(expected));
        }
    }
}
