//! Directory words and bitmap words: reading, writing, and the bits that records name.

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, PoolOffset};

use crate::alloc::class::{BITS, ChunkShape, Class};
use crate::layout::Geometry;
use crate::sealed::{seal_at, unseal_at};
use crate::transact::BlockKind;

const STATE_CLASS: u64 = 1;
const STATE_LARGE: u64 = 2;

/// The content of a chunk's directory word.
///
/// ```text
/// payload: 55..48 state (0 free, 1 class, 2 large) | 47..40 block kind | 39..32 class | 31..0 run
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ChunkWord {
    /// Free, or inside a large run whose first chunk stands before it (HEAP-3).
    Free,
    /// Blocks of one size and kind.
    Class(Class, BlockKind),
    /// The first chunk of a large block that takes `chunks` chunks.
    Large { chunks: u32, kind: BlockKind },
}

impl ChunkWord {
    /// The sealed word at that place.
    pub fn to_word(self, at: PoolOffset) -> u64 {
        let payload = match self {
            Self::Free => 0,
            Self::Class(class, kind) => {
                STATE_CLASS << 48 | (kind as u64) << 40 | u64::from(class.0) << 32
            }
            Self::Large { chunks, kind } => {
                STATE_LARGE << 48 | (kind as u64) << 40 | u64::from(chunks)
            }
        };
        seal_at(payload, at)
    }

    /// The directory's word of a chunk of a heap that ends at byte `heap_end` of the pool;
    /// `Err` for a word that this code never wrote there.
    pub fn load<M: Medium>(
        medium: &M,
        geometry: &Geometry,
        chunk: u64,
        heap_end: u64,
    ) -> Result<Self, &'static str> {
        let at = geometry.directory_at(chunk);
        let word = Self::from_word(medium.load_u64(at), at)?;
        match word {
            Self::Class(class, _) if !class.is_used_in(geometry) => {
                Err("a directory word names a class that chunks of this size do not have")
            }
            Self::Large { .. } if geometry.is_directory(chunk) => {
                Err("a directory word says that a directory is a large block")
            }
            Self::Large { chunks, .. } => {
                let end = chunk + u64::from(chunks);
                let zone_end = (chunk / geometry.zone_chunks() + 1) * geometry.zone_chunks();
                if end > zone_end {
                    Err("a large block reaches past its zone")
                } else if geometry.chunk_at(end).0 > heap_end {
                    Err("a large block reaches past the heap")
                } else {
                    Ok(word)
                }
            }
            word => Ok(word),
        }
    }

    /// The meaning of a word at that place by itself; `Err` for a word that this code never wrote there.
    fn from_word(word: u64, at: PoolOffset) -> Result<Self, &'static str> {
        let payload = unseal_at(word, at).ok_or("a directory word does not prove itself")?;
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
    medium.store_u64(at, seal_at(change(map), at));
    Ok(())
}

/// The 56 bits of a bitmap word.
pub(crate) fn load_bitmap<M: Medium>(medium: &M, at: PoolOffset) -> Result<u64, &'static str> {
    unseal_at(medium.load_u64(at), at).ok_or("a bitmap word does not prove itself")
}

/// Stores directory words that say that chunks are free, from one of that number up to the end of a
/// heap of `chunk_count`, and shows the ranges that they are in. Neither flushes nor fences.
pub(crate) fn store_free_words<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    first: u64,
    chunk_count: u64,
    mut stored: impl FnMut(ByteRange),
) {
    const BATCH: u64 = 512;
    let mut chunk = first;
    while chunk < chunk_count {
        let zone_end = (chunk / geometry.zone_chunks() + 1) * geometry.zone_chunks();
        let count = (zone_end.min(chunk_count) - chunk).min(BATCH);
        let at = geometry.directory_at(chunk);
        let free = |word: u64| ChunkWord::Free.to_word(at.plus(8 * word));
        let words: Vec<u64> = (0..count).map(free).collect();
        medium.store(at, bytemuck::cast_slice(&words));
        stored(ByteRange::new(at, 8 * count));
        chunk += count;
    }
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
        let at = PoolOffset(4096);
        for word in words {
            assert_eq!(ChunkWord::from_word(word.to_word(at), at), Ok(word));
            for bit in 0..64 {
                assert!(ChunkWord::from_word(word.to_word(at) ^ 1 << bit, at).is_err());
            }
        }
        assert!(ChunkWord::from_word(0, at).is_err());
    }

    /// A word may prove itself and still say what no chunk can be.
    #[test]
    fn words_that_no_chunk_can_have_are_damage() {
        let geometry = Geometry::new(1, 256, 4096);
        let (zone, chunks) = (geometry.zone_chunks(), geometry.zone_chunks() + 6);
        let medium = Heap::new(geometry.chunk_at(chunks).0);
        let load = |chunk: u64, word: ChunkWord| {
            let at = geometry.directory_at(chunk);
            medium.store_u64(at, word.to_word(at));
            ChunkWord::load(&medium, &geometry, chunk, medium.len())
        };
        let kind = BlockKind::General;
        let large = |chunks| ChunkWord::Large { chunks, kind };
        for (chunk, word) in [
            (1, ChunkWord::Free),
            (1, ChunkWord::Class(Class(0), kind)),
            (1, large(zone as u32 - 1)),
            (zone + 1, large(5)),
        ] {
            assert_eq!(load(chunk, word), Ok(word));
        }
        for (chunk, word) in [
            (1, ChunkWord::Class(Class(37), kind)),
            (1, large(zone as u32)),
            (2, large(zone as u32 - 1)),
            (1, large(u32::MAX)),
            (zone, large(2)),
            (zone + 1, large(6)),
        ] {
            assert!(load(chunk, word).is_err(), "{word:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "pure arithmetic, and minutes of it there")]
    fn fresh_words_are_free_in_every_zone() {
        let geometry = Geometry::new(1, 256, 4096);
        let chunks = 2 * geometry.zone_chunks() + 3;
        let medium = Heap::new(geometry.chunk_at(chunks).0);
        store_free_words(&medium, &geometry, 0, 5, |_| ());
        store_free_words(&medium, &geometry, 5, chunks, |_| ());
        for chunk in 0..chunks {
            let word = ChunkWord::load(&medium, &geometry, chunk, medium.len());
            assert_eq!(word, Ok(ChunkWord::Free));
        }
    }

    #[test]
    fn setting_and_clearing_are_idempotent() {
        let medium = Heap::new(64);
        let at = PoolOffset(8);
        assert!(set_bit(&medium, at, 1).is_err(), "zero is no bitmap");
        medium.store_u64(at, seal_at(0, at));
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
