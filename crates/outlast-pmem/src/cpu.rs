//! The instructions that persistence is made of, on x86-64. One of the two files with assembly.
//!
//! Stable Rust has no intrinsics for `clwb`, `clflushopt` and `movdir64b`. No block here but that of
//! `crc32` is `nomem`: each counts as reading and writing all memory, so that the compiler moves no
//! store across it. Which instructions there are is asked of CPUID once per mapping.

use std::arch::asm;
use std::arch::x86_64::__cpuid_count;

use outlast_trace::FlushKind;

use crate::features::CpuFeatures;

/// Whether what is streamed stays in the caches until it is flushed.
pub(crate) const STREAMS_ARE_STORES: bool = false;

/// Whether a locked instruction makes the thread's flushes durable (rule 7).
pub(crate) const RMW_FENCES: bool = true;

/// Asks CPUID what this processor has.
pub fn cpu_features() -> CpuFeatures {
    let (ebx, ecx) = leaf_7();
    let flush = if ebx & (1 << 24) != 0 {
        FlushKind::Clwb
    } else if ebx & (1 << 23) != 0 {
        FlushKind::ClflushOpt
    } else {
        // Part of SSE2, and so of x86-64.
        FlushKind::Clflush
    };
    CpuFeatures { flush: Some(flush), movdir64b: ecx & (1 << 28) != 0 }
}

/// Whether this processor has that instruction, the best or not.
pub fn has_flush(kind: FlushKind) -> bool {
    let (ebx, _) = leaf_7();
    match kind {
        FlushKind::Clwb => ebx & (1 << 24) != 0,
        FlushKind::ClflushOpt => ebx & (1 << 23) != 0,
        FlushKind::Clflush => true,
    }
}

/// EBX and ECX of CPUID's structured extended features; zero where there is no such leaf.
// Newer compilers declare the intrinsic safe, the oldest supported one does not.
#[allow(unused_unsafe)]
fn leaf_7() -> (u32, u32) {
    // SAFETY: every x86-64 processor has CPUID and its leaf 0.
    let leaves = unsafe { __cpuid_count(0, 0) }.eax;
    if leaves < 7 {
        return (0, 0);
    }
    // SAFETY: leaf 7 exists, as just asked.
    let features = unsafe { __cpuid_count(7, 0) };
    (features.ebx, features.ecx)
}

/// Starts the write-back of the line at `line`.
///
/// # Safety
/// - `line` lies in mapped memory.
/// - The processor has the instruction that `kind` names.
#[inline(always)]
pub(crate) unsafe fn flush_line(kind: FlushKind, line: *const u8) {
    // SAFETY: the caller vouches for the address and the instruction; a write-back changes no
    // byte that a program can see.
    unsafe {
        match kind {
            FlushKind::Clwb => asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)),
            FlushKind::ClflushOpt => {
                asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
            }
            FlushKind::Clflush => {
                asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags));
            }
        }
    }
}

/// Whether this processor has the instruction for CRC-32C.
#[inline(always)]
pub(crate) fn has_crc32c() -> bool {
    is_x86_feature_detected!("sse4.2")
}

/// Continues a CRC-32C by eight bytes, without the inversions before and behind.
///
/// # Safety
/// The processor has the instruction ([`has_crc32c`]).
#[inline(always)]
pub(crate) unsafe fn crc32c_step(mut crc: u64, word: u64) -> u64 {
    // SAFETY: changes one register; the caller vouches for the instruction. An intrinsic would be a
    // call from code that is compiled for every x86-64.
    unsafe {
        asm!(
            "crc32 {}, {}",
            inout(reg) crc,
            in(reg) word,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    crc
}

/// [`tagged_line`](crate::tagged_line) in registers of two words, from which it is streamed.
#[inline(always)]
pub(crate) fn tagged_line(words: &[u64; 7], tag: u8) -> [u64; 8] {
    use std::arch::x86_64::*;

    let [a, b, c, d, e, f, g] = words.map(|word| word as i64);
    let tag = (u64::from(tag) << 56) as i64;
    // SAFETY: every x86-64 has SSE2, and these change registers alone.
    unsafe {
        let (low, tags) = (_mm_set1_epi64x((1 << 56) - 1), _mm_set1_epi64x(tag));
        let tagged = |pair| _mm_or_si128(_mm_and_si128(pair, low), tags);
        let pairs = [_mm_set_epi64x(b, a), _mm_set_epi64x(d, c), _mm_set_epi64x(f, e)];
        let last = _mm_set_epi64x(0, g);
        // The highest bytes of a, c, e and g, in two bytes each, and of b, d and f.
        let tops = [
            _mm_srli_epi64::<56>(pairs[0]),
            _mm_slli_epi64::<16>(_mm_srli_epi64::<56>(pairs[1])),
            _mm_slli_epi64::<32>(_mm_srli_epi64::<56>(pairs[2])),
            _mm_slli_epi64::<48>(_mm_srli_epi64::<56>(last)),
        ];
        let tops = _mm_or_si128(_mm_or_si128(tops[0], tops[1]), _mm_or_si128(tops[2], tops[3]));
        let tops = _mm_or_si128(tops, _mm_slli_epi64::<8>(_mm_unpackhi_epi64(tops, tops)));
        let [first, second, third] = pairs.map(tagged);
        let fourth = tagged(_mm_unpacklo_epi64(last, tops));
        std::mem::transmute([first, second, third, fourth])
    }
}

/// Orders all earlier stores, streams and weakly ordered flushes before all later ones.
#[inline(always)]
pub(crate) fn store_fence() {
    // SAFETY: a fence touches no register and no memory.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) }
}

/// As [`store_fence`], and orders loads and `clflush` on every vendor's processors (rule 8).
#[inline(always)]
pub(crate) fn full_fence() {
    // SAFETY: a fence touches no register and no memory.
    unsafe { asm!("mfence", options(nostack, preserves_flags)) }
}

/// Fetches the line at `line` in order to write it. Faults on no address whatever; processors
/// without the instruction take it as a no-op.
#[inline(always)]
pub(crate) fn prefetch_write(line: *const u8) {
    // SAFETY: a prefetch is a hint: it changes nothing and never faults.
    unsafe { asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags)) }
}

/// Fetches the line at `line` in order to read it. Faults on no address whatever.
#[inline(always)]
pub(crate) fn prefetch_read(line: *const u8) {
    // SAFETY: as above.
    unsafe { asm!("prefetcht0 [{}]", in(reg) line, options(nostack, preserves_flags)) }
}

/// Copies at least a line's worth of words from memory that others may store to meanwhile. Each
/// word of `src` is read, once or twice, by one access or as a part of one: old or new, as by an
/// atomic load.
///
/// # Safety
/// - `src` is a multiple of 8 and valid for atomic reads of `out.len()` bytes.
/// - `out.len()` is a multiple of 8 and at least 64.
#[inline]
pub(crate) unsafe fn copy_words(src: *const u8, out: &mut [u8]) {
    debug_assert!(src.addr().is_multiple_of(8) && out.len().is_multiple_of(8) && out.len() >= 64);
    let (lines, rest) = (out.len() / 64, out.len() % 64);
    let to = out.as_mut_ptr();
    // SAFETY: the caller vouches for both ranges, and the instructions were asked for. What is
    // left over is copied with some words before it, as one more line.
    unsafe {
        let (last_from, last_to) = (src.add(out.len() - 64), to.add(out.len() - 64));
        if is_x86_feature_detected!("avx512f") {
            copy_lines_avx512(src, to, lines);
            if rest > 0 {
                copy_lines_avx512(last_from, last_to, 1);
            }
        } else if is_x86_feature_detected!("avx") {
            copy_lines_avx(src, to, lines);
            if rest > 0 {
                copy_lines_avx(last_from, last_to, 1);
            }
        } else {
            copy_lines_sse2(src, to, lines);
            if rest > 0 {
                copy_lines_sse2(last_from, last_to, 1);
            }
        }
    }
}

/// # Safety
/// - `src` and `dst` are valid for `lines` times 64 bytes, `lines` is not zero.
/// - The processor has AVX-512F.
#[inline(always)]
unsafe fn copy_lines_avx512(src: *const u8, dst: *mut u8, lines: usize) {
    // SAFETY: accesses the bytes that the caller vouches for, four lines in a round and then one
    // in a round. The upper registers need no clean-up for code without AVX.
    unsafe {
        asm!(
            "sub {n}, 4",
            "jb 3f",
            "2:",
            "vmovdqu64 zmm16, [{s}]",
            "vmovdqu64 zmm17, [{s} + 64]",
            "vmovdqu64 zmm18, [{s} + 128]",
            "vmovdqu64 zmm19, [{s} + 192]",
            "vmovdqu64 [{d}], zmm16",
            "vmovdqu64 [{d} + 64], zmm17",
            "vmovdqu64 [{d} + 128], zmm18",
            "vmovdqu64 [{d} + 192], zmm19",
            "add {s}, 256",
            "add {d}, 256",
            "sub {n}, 4",
            "jae 2b",
            "3:",
            "add {n}, 4",
            "jz 5f",
            "4:",
            "vmovdqu64 zmm16, [{s}]",
            "vmovdqu64 [{d}], zmm16",
            "add {s}, 64",
            "add {d}, 64",
            "dec {n}",
            "jnz 4b",
            "5:",
            s = inout(reg) src => _,
            d = inout(reg) dst => _,
            n = inout(reg) lines => _,
            out("xmm16") _,
            out("xmm17") _,
            out("xmm18") _,
            out("xmm19") _,
            options(nostack)
        );
    }
}

/// # Safety
/// - `src` and `dst` are valid for `lines` times 64 bytes, `lines` is not zero.
/// - The processor has AVX.
#[inline(always)]
unsafe fn copy_lines_avx(src: *const u8, dst: *mut u8, lines: usize) {
    // SAFETY: accesses the bytes that the caller vouches for, four lines in a round and then one
    // in a round. Code without AVX finds the upper halves clear, as it needs them, and code with AVX
    // counts on none of them.
    unsafe {
        asm!(
            "sub {n}, 4",
            "jb 3f",
            "2:",
            "vmovdqu ymm0, [{s}]",
            "vmovdqu ymm1, [{s} + 32]",
            "vmovdqu ymm2, [{s} + 64]",
            "vmovdqu ymm3, [{s} + 96]",
            "vmovdqu ymm4, [{s} + 128]",
            "vmovdqu ymm5, [{s} + 160]",
            "vmovdqu ymm6, [{s} + 192]",
            "vmovdqu ymm7, [{s} + 224]",
            "vmovdqu [{d}], ymm0",
            "vmovdqu [{d} + 32], ymm1",
            "vmovdqu [{d} + 64], ymm2",
            "vmovdqu [{d} + 96], ymm3",
            "vmovdqu [{d} + 128], ymm4",
            "vmovdqu [{d} + 160], ymm5",
            "vmovdqu [{d} + 192], ymm6",
            "vmovdqu [{d} + 224], ymm7",
            "add {s}, 256",
            "add {d}, 256",
            "sub {n}, 4",
            "jae 2b",
            "3:",
            "add {n}, 4",
            "jz 5f",
            "4:",
            "vmovdqu ymm0, [{s}]",
            "vmovdqu ymm1, [{s} + 32]",
            "vmovdqu [{d}], ymm0",
            "vmovdqu [{d} + 32], ymm1",
            "add {s}, 64",
            "add {d}, 64",
            "dec {n}",
            "jnz 4b",
            "5:",
            "vzeroupper",
            s = inout(reg) src => _,
            d = inout(reg) dst => _,
            n = inout(reg) lines => _,
            out("xmm0") _,
            out("xmm1") _,
            out("xmm2") _,
            out("xmm3") _,
            out("xmm4") _,
            out("xmm5") _,
            out("xmm6") _,
            out("xmm7") _,
            out("xmm8") _,
            out("xmm9") _,
            out("xmm10") _,
            out("xmm11") _,
            out("xmm12") _,
            out("xmm13") _,
            out("xmm14") _,
            out("xmm15") _,
            options(nostack)
        );
    }
}

/// # Safety
/// `src` and `dst` are valid for `lines` times 64 bytes, `lines` is not zero.
#[inline(always)]
unsafe fn copy_lines_sse2(src: *const u8, dst: *mut u8, lines: usize) {
    // SAFETY: accesses the bytes that the caller vouches for, one line in a round.
    unsafe {
        asm!(
            "2:",
            "movdqu {a}, [{s}]",
            "movdqu {b}, [{s} + 16]",
            "movdqu {c}, [{s} + 32]",
            "movdqu {e}, [{s} + 48]",
            "movdqu [{d}], {a}",
            "movdqu [{d} + 16], {b}",
            "movdqu [{d} + 32], {c}",
            "movdqu [{d} + 48], {e}",
            "add {s}, 64",
            "add {d}, 64",
            "dec {n}",
            "jnz 2b",
            s = inout(reg) src => _,
            d = inout(reg) dst => _,
            n = inout(reg) lines => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            e = out(xmm_reg) _,
            options(nostack)
        );
    }
}

/// Streams `src` to `dst` past the caches. The words leave in no order that one may rely on.
///
/// # Safety
/// - `dst` is valid for writes of `src.len()` bytes and a multiple of 8.
/// - `src.len()` is a multiple of 8.
#[inline]
pub(crate) unsafe fn stream(dst: *mut u8, src: &[u8]) {
    debug_assert!(dst.addr().is_multiple_of(8) && src.len().is_multiple_of(8));
    // Whole lines take four vector stores instead of eight word stores; around them go words.
    let head_len = (dst.addr().wrapping_neg() % 64).min(src.len());
    let (head, rest) = src.split_at(head_len);
    let (lines, tail) = rest.as_chunks::<64>();
    // SAFETY: the parts follow each other, and the caller vouches for their sum. All of them are
    // whole words; where there are lines, the head ends at a multiple of 64.
    unsafe {
        stream_words(dst, head);
        let mut to = dst.add(head_len);
        for line in lines {
            stream_line(to, line);
            to = to.add(64);
        }
        stream_words(to, tail);
    }
}

/// # Safety
/// - `dst` is valid for writes of 64 bytes and a multiple of 16.
#[inline(always)]
unsafe fn stream_line(dst: *mut u8, src: &[u8; 64]) {
    // SAFETY: reads the 64 bytes of `src`, writes the 64 at `dst`, which the caller vouches for.
    unsafe {
        asm!(
            "movdqu {a}, [{s}]",
            "movdqu {b}, [{s} + 16]",
            "movdqu {c}, [{s} + 32]",
            "movdqu {e}, [{s} + 48]",
            "movntdq [{d}], {a}",
            "movntdq [{d} + 16], {b}",
            "movntdq [{d} + 32], {c}",
            "movntdq [{d} + 48], {e}",
            s = in(reg) src.as_ptr(),
            d = in(reg) dst,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            e = out(xmm_reg) _,
            options(nostack, preserves_flags)
        );
    }
}

/// # Safety
/// As [`stream`].
#[inline(always)]
unsafe fn stream_words(dst: *mut u8, src: &[u8]) {
    let mut to = dst;
    for word in src.as_chunks::<8>().0 {
        // SAFETY: one of the words that the caller vouches for.
        unsafe {
            let value = u64::from_ne_bytes(*word);
            asm!("movnti [{}], {}", in(reg) to, in(reg) value, options(nostack, preserves_flags));
            to = to.add(8);
        }
    }
}

/// Stores the words of a line past the caches, from registers: words that were just made need not
/// go through memory. Two at a time, since few stores can be under way at once.
///
/// # Safety
/// - `dst` is valid for writes of 64 bytes and a multiple of 16.
#[inline(always)]
pub(crate) unsafe fn stream_line_words(dst: *mut u8, words: &[u64; 8]) {
    use std::arch::x86_64::_mm_set_epi64x;

    for (i, [low, high]) in words.as_chunks::<2>().0.iter().enumerate() {
        // SAFETY: two of the eight words that the caller vouches for; every x86-64 has SSE2.
        unsafe {
            let (to, pair) = (dst.add(16 * i), _mm_set_epi64x(*high as i64, *low as i64));
            asm!("movntdq [{}], {}", in(reg) to, in(xmm_reg) pair, options(nostack, preserves_flags));
        }
    }
}

/// Stores 64 bytes at once, past the caches.
///
/// # Safety
/// - `dst` is valid for writes of 64 bytes and a multiple of 64.
/// - The processor has `movdir64b`.
#[inline]
pub(crate) unsafe fn store_line_atomic(dst: *mut u8, src: &[u8; 64]) {
    // SAFETY: the caller vouches for the destination and the instruction; the source is a
    // reference.
    unsafe {
        asm!("movdir64b {}, [{}]", in(reg) dst, in(reg) src.as_ptr(), options(nostack, preserves_flags));
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn words_are_copied_alike_with_and_without_wide_registers() {
        let words: Vec<u64> = (1..=200).map(|word: u64| word * 0x0101_0101_0101_0101).collect();
        let source: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        for lines in 1..20 {
            let mut out = vec![0; lines * 64];
            // SAFETY: source and target have `lines` lines.
            unsafe { copy_lines_sse2(source.as_ptr(), out.as_mut_ptr(), lines) };
            assert_eq!(out, source[..lines * 64], "{lines} lines");
            if is_x86_feature_detected!("avx") {
                out.fill(0);
                // SAFETY: as above, and the processor has the instructions.
                unsafe { copy_lines_avx(source.as_ptr(), out.as_mut_ptr(), lines) };
                assert_eq!(out, source[..lines * 64], "{lines} lines by AVX");
            }
        }
        for len in (64..1000).step_by(8) {
            let mut out = vec![0; len];
            // SAFETY: `words` has `len` bytes behind its first word, and is aligned.
            unsafe { copy_words(words.as_ptr().add(1).cast(), &mut out) };
            assert_eq!(out, source[8..8 + len], "{len} bytes");
        }
    }
}
