//! Lines of which each word carries a tag.

#[cfg(all(target_arch = "x86_64", not(outlast_portable), not(miri)))]
use crate::cpu::tagged_line as by_vectors;
#[cfg(not(all(target_arch = "x86_64", not(outlast_portable), not(miri))))]
use word_by_word as by_vectors;

const TAG_SHIFT: u32 = 56;

/// Seven words as eight with `tag` as the highest byte of each. Below it, seven have the lower 56 bits of one word
/// each, and the eighth has the highest byte of all, that of the first word lowest.
///
/// ```
/// let line = outlast_pmem::tagged_line(&[0x0102_0304_0506_0708; 7], 0xAB);
/// assert_eq!(line[..7], [0xAB02_0304_0506_0708; 7]);
/// assert_eq!(line[7], 0xAB01_0101_0101_0101);
/// ```
#[inline(always)]
pub fn tagged_line(words: &[u64; 7], tag: u8) -> [u64; 8] {
    by_vectors(words, tag)
}

/// As documented.
#[cfg_attr(not(test), allow(dead_code))]
fn word_by_word(words: &[u64; 7], tag: u8) -> [u64; 8] {
    let mut line = [u64::from(tag) << TAG_SHIFT; 8];
    for (i, word) in words.iter().enumerate() {
        line[i] |= word & !(0xff << TAG_SHIFT);
        line[7] |= word >> TAG_SHIFT << (8 * i);
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn vectors_make_the_same_line(words in any::<[u64; 7]>(), tag in any::<u8>()) {
            prop_assert_eq!(tagged_line(&words, tag), word_by_word(&words, tag));
        }
    }
}
