//! A CRC-32C of words, quick enough for the way to a fence.

use crate::cpu;

const STRIPES: usize = 3;

/// What proves some words: the CRC-32C of `front` and, as eight bytes each, of the CRC-32Cs of three
/// stripes of `words`: of words 0, 3, 6 and so on, of words 1, 4, 7 …, and of words 2, 5, 8 …
///
/// Each step of a CRC waits for the one before, on most processors for three cycles, and every cycle
/// of this is one in which the fence comes later. The stripes go side by side.
#[inline]
pub fn crc32c_in_stripes(front: &[u64; 2], words: &[u64]) -> u32 {
    if cpu::has_crc32c() {
        // SAFETY: the processor has the instruction, as just asked.
        #[allow(unsafe_code)]
        return in_stripes(front, words, |crc, word| unsafe { cpu::crc32c_step(crc, word) });
    }
    in_stripes(front, words, portable_step)
}

/// The bits of `words` words of which any one may have been flipped since their [`crc32c_in_stripes`] was `crc`,
/// counted from the first word's lowest: one in each stripe at most. `found` is their CRC now.
///
/// A CRC is linear: the difference of two is that of the one bit, brought to the end over zeros.
pub(crate) fn flipped_bits(words: usize, crc: u32, found: u32) -> Vec<usize> {
    let mut all = Vec::new();
    let wanted = u64::from(crc ^ found);
    for stripe in 0..STRIPES.min(words) {
        let own = (words - stripe).div_ceil(STRIPES);
        let mut bits: [u64; 64] = std::array::from_fn(|bit| portable_step(0, 1 << bit));
        for nth in (0..own).rev() {
            let to_the_end = |crc: u64| {
                (stripe + 1..STRIPES).fold(portable_step(0, crc), |crc, _| portable_step(crc, 0))
            };
            if let Some(bit) = bits.iter().position(|crc| to_the_end(*crc) == wanted) {
                all.push(64 * (stripe + nth * STRIPES) + bit);
                break;
            }
            bits.iter_mut().for_each(|crc| *crc = portable_step(*crc, 0));
        }
    }
    all
}

/// Continues a CRC by eight bytes. As the instruction does, it leaves out the inversions before and
/// behind.
fn portable_step(crc: u64, word: u64) -> u64 {
    u64::from(!crc32c::crc32c_append(!(crc as u32), &word.to_le_bytes()))
}

#[inline(always)]
fn in_stripes(front: &[u64; 2], words: &[u64], step: impl Fn(u64, u64) -> u64) -> u32 {
    const BEGIN: u64 = !0u32 as u64;
    let mut rest = words;
    let mut stripes = [BEGIN; STRIPES];
    // Not in chunks, of which the number would be a division.
    while let Some((words, behind)) = rest.split_first_chunk::<STRIPES>() {
        stripes.iter_mut().zip(words).for_each(|(crc, word)| *crc = step(*crc, *word));
        rest = behind;
    }
    // Not in a loop: the stripes stay in registers.
    if let Some(word) = rest.first() {
        stripes[0] = step(stripes[0], *word);
    }
    if let Some(word) = rest.get(1) {
        stripes[1] = step(stripes[1], *word);
    }
    let front = front.iter().fold(BEGIN, |crc, word| step(crc, *word));
    !(stripes.iter().fold(front, |crc, stripe| step(crc, u64::from(!(*stripe as u32)))) as u32)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Word by word as the documentation says.
    fn as_documented(front: &[u64; 2], words: &[u64]) -> u32 {
        let stripe = |first: usize| {
            let own = words.iter().skip(first).step_by(STRIPES);
            let bytes: Vec<u8> = own.flat_map(|word| word.to_le_bytes()).collect();
            u64::from(crc32c::crc32c(&bytes))
        };
        let all = front.iter().copied().chain((0..STRIPES).map(stripe));
        crc32c::crc32c(&all.flat_map(u64::to_le_bytes).collect::<Vec<_>>())
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "pure arithmetic, and minutes of it there")]
        fn it_is_what_the_documentation_says(front in any::<[u64; 2]>(), words in vec(any::<u64>(), 0..50)) {
            let crc = as_documented(&front, &words);
            prop_assert_eq!(crc32c_in_stripes(&front, &words), crc);
            prop_assert_eq!(in_stripes(&front, &words, portable_step), crc);
        }

        #[test]
        #[cfg_attr(miri, ignore = "pure arithmetic, and minutes of it there")]
        fn a_flipped_bit_is_found(words in vec(any::<u64>(), 1..50), bit in any::<usize>()) {
            let front = [3, 4];
            let crc = crc32c_in_stripes(&front, &words);
            let bit = bit % (64 * words.len());
            let mut flipped = words.clone();
            flipped[bit / 64] ^= 1 << (bit % 64);
            let found = flipped_bits(words.len(), crc, crc32c_in_stripes(&front, &flipped));
            prop_assert!(found.contains(&bit) && found.len() <= STRIPES);
            for other in found {
                let mut mended = flipped.clone();
                mended[other / 64] ^= 1 << (other % 64);
                prop_assert_eq!(crc32c_in_stripes(&front, &mended), crc);
            }
        }

        #[test]
        fn a_flipped_bit_shows(front in any::<[u64; 2]>(), mut words in vec(any::<u64>(), 1..50), bit in any::<usize>()) {
            let crc = crc32c_in_stripes(&front, &words);
            let bit = bit % (64 * words.len());
            words[bit / 64] ^= 1 << (bit % 64);
            prop_assert_ne!(crc32c_in_stripes(&front, &words), crc);
        }
    }
}
