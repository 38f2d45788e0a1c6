//! Where the keys and the values of a dictionary lie.

use super::entry::Blocks;
use crate::{Abort, PoolOffset};

/// The longest key and the longest value that a node holds itself.
pub(super) const INLINE_BYTES_MAX: usize = 8;

/// Where the keys and the values of a dictionary lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Placement {
    /// A key and its value share a block: one allocation, one chase.
    #[default]
    Together,
    /// Keys lie in blocks of [`BlockKind::Key`](crate::BlockKind::Key) and values, line-aligned from
    /// 64 bytes on, in blocks of [`BlockKind::Value`](crate::BlockKind::Value), so that an allocator
    /// can cluster each.
    Apart,
    /// As `Apart`, but values from 64 bytes on begin at any multiple of 16, as from an allocator
    /// that knows nothing of lines: what the others are measured against.
    Scattered,
    /// Keys and values lie in the nodes themselves: no allocation, no chase. All keys have one
    /// length, 1 to 8 bytes, and all values have one, 0 to 8. No key of another length is ever
    /// found, and none can be inserted.
    Inline {
        /// Bytes of each key.
        key_bytes: u8,
        /// Bytes of each value.
        value_bytes: u8,
    },
}

impl Placement {
    /// The best placement for keys and values of these lengths: `Inline` where both fit.
    #[must_use]
    pub fn of_lengths(key_bytes: usize, value_bytes: usize) -> Self {
        let inline = (1..=INLINE_BYTES_MAX).contains(&key_bytes) && value_bytes <= INLINE_BYTES_MAX;
        match inline {
            true => Self::Inline { key_bytes: key_bytes as u8, value_bytes: value_bytes as u8 },
            false => Self::Together,
        }
    }

    /// What a header says of it, and how.
    pub(super) fn checked(self) -> Result<(Kept, [u8; 3]), Abort> {
        let bytes = self.to_bytes();
        let kept = Kept::from_bytes(bytes);
        let why = "inline keys have 1 to 8 bytes, and values 0 to 8";
        Ok((kept.ok_or_else(|| Abort::cancelled(why))?, bytes))
    }

    /// How headers store it.
    fn to_bytes(self) -> [u8; 3] {
        match self {
            Self::Together => [0; 3],
            Self::Apart => [1, 0, 0],
            Self::Scattered => [2, 0, 0],
            Self::Inline { key_bytes, value_bytes } => [3, key_bytes, value_bytes],
        }
    }
}

/// What a header says of its entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kept {
    /// Each in a block of its own.
    Entries(Blocks),
    /// Each as two words of a node.
    Words(Pairs),
}

impl Kept {
    #[inline]
    pub(super) fn from_bytes(bytes: [u8; 3]) -> Option<Self> {
        match bytes {
            [3, key_bytes, value_bytes] => {
                let pairs = Pairs { key_bytes, value_bytes };
                pairs.is_possible().then_some(Self::Words(pairs))
            }
            [blocks, ..] => Blocks::from_byte(blocks).map(Self::Entries),
        }
    }
}

/// Pairs of a key and a value, of at most a word each, with the lengths that all have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pairs {
    key_bytes: u8,
    pub(super) value_bytes: u8,
}

impl Pairs {
    fn is_possible(self) -> bool {
        (1..=INLINE_BYTES_MAX as u8).contains(&self.key_bytes)
            && usize::from(self.value_bytes) <= INLINE_BYTES_MAX
    }

    /// Bytes of a key.
    #[inline]
    pub(super) fn key_len(self) -> usize {
        usize::from(self.key_bytes)
    }

    /// The word of a key: a number whose order is that of the keys. `None` for a key of another
    /// length.
    #[inline]
    pub(super) fn key(self, key: &[u8]) -> Option<u64> {
        if key.len() != self.key_len() {
            return None;
        }
        Some(key_word(key))
    }

    /// The word of a key that is to be inserted.
    #[inline]
    pub(super) fn key_to_insert(self, root: PoolOffset, key: &[u8]) -> Result<u64, Abort> {
        self.key(key).ok_or_else(|| other_length(root, "the dictionary's keys have another length"))
    }

    /// The word of a value that is to be inserted.
    #[inline]
    pub(super) fn value_to_insert(self, root: PoolOffset, value: &[u8]) -> Result<u64, Abort> {
        if value.len() != usize::from(self.value_bytes) {
            return Err(other_length(root, "the dictionary's values have another length"));
        }
        if let Ok(word) = value.try_into() {
            return Ok(u64::from_le_bytes(word));
        }
        let mut bytes = [0; 8];
        bytes[..value.len()].copy_from_slice(value);
        Ok(u64::from_le_bytes(bytes))
    }

    /// The bytes of the key whose word that is; the key is the first [`key_len`](Self::key_len) of them.
    pub(super) fn key_bytes(self, word: u64) -> [u8; 8] {
        word.to_be_bytes()
    }

    /// Whether a key can have this word.
    pub(super) fn is_key(self, word: u64) -> bool {
        word.checked_shl(8 * u32::from(self.key_bytes)).unwrap_or(0) == 0
    }
}

/// The first 8 bytes of a key, zero-padded, as a number that compares as they do.
#[inline]
pub(super) fn key_word(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

#[cold]
fn other_length(root: PoolOffset, why: &'static str) -> Abort {
    Abort::bad_address("inserting a pair", root, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_back_and_impossible_ones_refused() {
        for (placement, blocks) in [
            (Placement::Together, Blocks::Together),
            (Placement::Apart, Blocks::Apart),
            (Placement::Scattered, Blocks::Scattered),
        ] {
            assert_eq!(Kept::from_bytes(placement.to_bytes()), Some(Kept::Entries(blocks)));
        }
        for (key, value, inline) in
            [(8, 8, true), (1, 0, true), (0, 8, false), (9, 8, false), (8, 9, false)]
        {
            let bytes = [3, key, value];
            assert_eq!(Kept::from_bytes(bytes).is_some(), inline, "{key} and {value}");
            let placement = Placement::of_lengths(key.into(), value.into());
            assert_eq!(placement.to_bytes() == bytes, inline);
        }
        assert_eq!(Kept::from_bytes([4, 8, 8]), None);
    }

    #[test]
    fn words_compare_as_keys_do_and_give_them_back() {
        let pairs = Pairs { key_bytes: 3, value_bytes: 2 };
        let keys: [&[u8]; 4] = [b"\0\0\0", b"\0\0\x01", b"abc", b"\xff\0\0"];
        let words = keys.map(|key| pairs.key(key).unwrap());
        assert!(words.is_sorted());
        for (key, word) in keys.iter().zip(words) {
            assert_eq!(&pairs.key_bytes(word)[..3], *key);
            assert!(pairs.is_key(word) && !pairs.is_key(word | 1));
        }
        assert_eq!(pairs.key(b"ab"), None);
        assert!(pairs.key_to_insert(PoolOffset(64), b"abcd").is_err());
        assert!(pairs.value_to_insert(PoolOffset(64), b"1").is_err());
        assert_eq!(pairs.value_to_insert(PoolOffset(64), b"\x01\x02").unwrap(), 0x201);
    }
}
