//! Contents of values: bytes that name their key and version.
//!
//! ```text
//! word of a value   bits 0..24   a check over key and version
//!                   bits 24..64  the version
//! longer value      0   8  that word
//!                   8   8  the key (values of 16 bytes and more)
//!                  16   …  a stream that the word and the key determine
//! ```
//!
//! So a value that is torn, or that belongs to another key, is recognised by itself.

use crate::facts::Version;
use outlast_trace::mix;

/// The shortest value, in bytes.
pub const VALUE_BYTES_MIN: usize = 8;

const CHECK_BITS: u32 = 24;

/// The word of `version` of `key`.
#[inline]
pub fn stamp(key: u64, version: Version) -> u64 {
    let check = mix(key ^ mix(version.0 ^ 0x7665_7273_696F_6E73)) >> (64 - CHECK_BITS);
    version.0 << CHECK_BITS | check
}

/// The version of `key` that a word is, if it is one.
#[inline]
pub fn unstamp(key: u64, word: u64) -> Option<Version> {
    let version = Version(word >> CHECK_BITS);
    (stamp(key, version) == word).then_some(version)
}

/// Fills `out`, which is [`VALUE_BYTES_MIN`] bytes or longer, with `version` of `key`.
///
/// # Panics
/// When `out` is shorter.
#[inline]
pub fn fill(key: u64, version: Version, out: &mut [u8]) {
    assert!(out.len() >= VALUE_BYTES_MIN, "a value holds its version");
    let word = stamp(key, version);
    let (words, rest) = out.as_chunks_mut::<8>();
    let last = words.len() as u64;
    for (i, bytes) in words.iter_mut().enumerate() {
        *bytes = word_at(key, word, i as u64).to_le_bytes();
    }
    if !rest.is_empty() {
        rest.copy_from_slice(&word_at(key, word, last).to_le_bytes()[..rest.len()]);
    }
}

/// The version of `key` that a value is, if it is one, whole.
#[inline]
pub fn version_of(key: u64, value: &[u8]) -> Option<Version> {
    let (words, rest) = value.as_chunks::<8>();
    let word = u64::from_le_bytes(*words.first()?);
    let version = unstamp(key, word)?;
    // All differences in one word: no branch for each, so that the compiler may take several
    // at a time.
    let difference = words.iter().enumerate().fold(0, |difference, (i, bytes)| {
        difference | (u64::from_le_bytes(*bytes) ^ word_at(key, word, i as u64))
    });
    let last = word_at(key, word, words.len() as u64).to_le_bytes();
    (difference == 0 && *rest == last[..rest.len()]).then_some(version)
}

/// The key that a value of 16 bytes or more says it is of. Only [`version_of`] tells whether
/// that is so.
pub fn key_of(value: &[u8]) -> Option<u64> {
    value.get(8..16)?.try_into().ok().map(u64::from_le_bytes)
}

/// The `i`-th word of the value of `key` that starts with `word`.
#[inline]
fn word_at(key: u64, word: u64, i: u64) -> u64 {
    match i {
        0 => word,
        1 => key,
        _ => mix((word ^ key.rotate_left(32)).wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_tells_its_version_and_only_of_its_key() {
        for len in [8, 9, 16, 20, 100, 1000] {
            let mut value = vec![0; len];
            fill(7, Version(12), &mut value);
            assert_eq!(version_of(7, &value), Some(Version(12)));
            assert_eq!(version_of(8, &value), None);
            assert_eq!(key_of(&value), (len >= 16).then_some(7));
        }
    }

    #[test]
    fn a_value_torn_at_any_word_is_recognised() {
        let (mut old, mut new) = ([0; 100], [0; 100]);
        fill(7, Version(12), &mut old);
        fill(7, Version(13), &mut new);
        for split in (8..100).step_by(8).filter(|&split| split != 16) {
            let mut torn = new;
            torn[split..].copy_from_slice(&old[split..]);
            assert_eq!(version_of(7, &torn), None, "new up to {split}, then old");
            let mut torn = old;
            torn[split..].copy_from_slice(&new[split..]);
            assert_eq!(version_of(7, &torn), None, "old up to {split}, then new");
        }
        assert_eq!(version_of(7, &[0; 100]), None);
    }
}
