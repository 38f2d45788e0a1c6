//! Directory words and bitmap words: reading, writing, and the bits that records name.

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, PoolOffset};

use crate::alloc::class::{BITS, ChunkShape, Class};
use crate::sealed::{seal, unseal};
use crate::transact::BlockKind;

const STATE_CLASS: u64 = 1;
const STATE_LARGE: u64 = 2;

/// What a chunk's directory word says.
///
/// ```text
/// payload: 55..48 state (0 free, 1 class, 2 large) | 47..40 block kind | 39..32 class | 31..0 run
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkWord {
    /// Nobody's, or inside a large run whose first chunk stands before it (M3).
    Free,
    /// Blocks of one size and kind.
    Class(Class, BlockKind),
    /// The first chunk of a large block that takes `chunks` chunks.
    Large { chunks: u32, kind: BlockKind },
}

impl ChunkWord {
    /// The sealed word.
    pub fn to_word(self) -> u64 {
        seal(match self {
            Self::Free => 0,
            Self::Class(class, kind) => {
                STATE_CLASS << 48 | (kind as u64) << 40 | u64::from(class.0) << 32
            }
            Self::Large { chunks, kind } => {
                STATE_LARGE << 48 | (kind as u64) << 40 | u64::from(chunks)
            }
        })
    }

    /// What a word says; `Err` for a word that this code never wrote.
    pub fn from_word(word: u64) -> Result<Self, &'static str> {
        let payload = unseal(word).ok_or("a directory word does not prove itself")?;
        let kind = || BlockKind::from_bits((payload >> 40) as u8).ok_or("an unknown block kind");
        match payload >> 48 {
            0 if payload == 0 => Ok(Self::Free),
            STATE_CLASS => {
                let class = Class::from_index((payload >> 32) as u8).ok_or("an unknown class")?;
                Ok(Self::Class(class, kind()?))
            }
            STATE_LARGE if payload as u32 > 0 => {
                Ok(Self::Large { chunks: payload as u32, kind: kind()? })
            }
            _ => Err("a directory word names no state"),
        }
    }
}

/// Where the bitmap word and the bit of block `index` of a chunk are.
pub(crate) fn bit_of(chunk_at: PoolOffset, index: u32) -> (PoolOffset, u32) {
    (chunk_at.plus(u64::from(index / BITS) * 8), index % BITS)
}

/// The bytes of a class chunk's bitmap.
pub(crate) fn bitmap_range(chunk_at: PoolOffset, shape: &ChunkShape) -> ByteRange {
    ByteRange::new(chunk_at, u64::from(shape.bitmap_words) * 8)
}

/// Sets a bit of a sealed bitmap word, which stays sealed. Idempotent.
pub(crate) fn set_bit<M: Medium>(medium: &M, at: PoolOffset, bit: u32) -> Result<(), &'static str> {
    change_word(medium, at, |map| map | 1 << bit)
}

/// Clears a bit of a sealed bitmap word, which stays sealed. Idempotent.
pub(crate) fn clear_bit<M: Medium>(
    medium: &M,
    at: PoolOffset,
    bit: u32,
) -> Result<(), &'static str> {
    change_word(medium, at, |map| map & !(1 << bit))
}

fn change_word<M: Medium>(
    medium: &M,
    at: PoolOffset,
    change: impl Fn(u64) -> u64,
) -> Result<(), &'static str> {
    let map = load_bitmap(medium, at)?;
    medium.store_u64(at, seal(change(map)));
    Ok(())
}

/// The 56 bits of a bitmap word.
pub(crate) fn load_bitmap<M: Medium>(medium: &M, at: PoolOffset) -> Result<u64, &'static str> {
    unseal(medium.load_u64(at)).ok_or("a bitmap word does not prove itself")
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_pmem::Heap;

    #[test]
    fn words_come_back_and_flips_do_not() {
        let words = [
            ChunkWord::Free,
            ChunkWord::Class(Class(3), BlockKind::Value),
            ChunkWord::Large { chunks: 9, kind: BlockKind::Log },
        ];
        for word in words {
            assert_eq!(ChunkWord::from_word(word.to_word()), Ok(word));
            for bit in 0..64 {
                assert!(ChunkWord::from_word(word.to_word() ^ 1 << bit).is_err());
            }
        }
        assert_eq!(ChunkWord::Free.to_word(), 0);
    }

    #[test]
    fn setting_and_clearing_are_idempotent() {
        let medium = Heap::new(64);
        let at = PoolOffset(8);
        for _ in 0..2 {
            set_bit(&medium, at, 55).unwrap();
            set_bit(&medium, at, 0).unwrap();
            assert_eq!(load_bitmap(&medium, at), Ok(1 << 55 | 1));
        }
        for _ in 0..2 {
            clear_bit(&medium, at, 55).unwrap();
            assert_eq!(load_bitmap(&medium, at), Ok(1));
        }
        medium.store_u64(at, medium.load_u64(at) ^ 1 << 20);
        assert!(set_bit(&medium, at, 1).is_err());
    }
}
