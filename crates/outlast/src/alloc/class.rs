//! Size classes and the shape of a class chunk.

use outlast_trace::LINE_BYTES;

/// Block sizes in bytes. Below a line they pack; from a line up every block starts a line.
/// Steps of at most a fifth keep what rounding wastes below that.
pub(crate) const CLASS_BYTES: &[u32] = &[
    16, 32, 48, 64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896, 960, 1024,
    1088, 1152, 1280, 1408, 1536, 1792, 2048, 2560, 3072, 3584, 4096, 5120, 6144, 7168, 8192,
    10240, 12288, 14336, 16384,
];

/// Bits of a bitmap word.
pub(crate) const BITS: u32 = crate::sealed::PAYLOAD_BITS;

/// A class takes part in a chunk only when the chunk holds at least this many of its blocks.
const BLOCKS_MIN: u64 = 4;

/// An index into [`CLASS_BYTES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(crate) struct Class(pub u8);

/// Where the bitmap ends and the blocks start in a chunk of this class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkShape {
    pub block_bytes: u64,
    pub blocks: u32,
    pub bitmap_words: u32,
    /// From the start of the chunk to its first block.
    pub blocks_at: u64,
}

/// The bytes of the block that is found for `bytes`.
pub(crate) fn block_bytes_for(bytes: u64, chunk_bytes: u64) -> u64 {
    let whole_chunks = || bytes.checked_next_multiple_of(chunk_bytes).unwrap_or(u64::MAX);
    Class::for_bytes(bytes.max(1), chunk_bytes).map_or_else(whole_chunks, Class::bytes)
}

impl Class {
    /// The smallest class for `bytes`, or `None` when only a run of chunks will do.
    pub fn for_bytes(bytes: u64, chunk_bytes: u64) -> Option<Self> {
        let index = CLASS_BYTES.partition_point(|size| u64::from(*size) < bytes);
        let size = *CLASS_BYTES.get(index)?;
        (u64::from(size) * BLOCKS_MIN < chunk_bytes).then_some(Self(index as u8))
    }

    /// The class that a directory word names, if there is one.
    pub fn from_index(index: u8) -> Option<Self> {
        (usize::from(index) < CLASS_BYTES.len()).then_some(Self(index))
    }

    pub fn bytes(self) -> u64 {
        u64::from(CLASS_BYTES[usize::from(self.0)])
    }

    pub fn shape(self, chunk_bytes: u64) -> ChunkShape {
        let block_bytes = self.bytes();
        let bitmap_bytes =
            |blocks: u64| (blocks.div_ceil(u64::from(BITS)) * 8).next_multiple_of(LINE_BYTES);
        let mut blocks = chunk_bytes / block_bytes;
        while bitmap_bytes(blocks) + blocks * block_bytes > chunk_bytes {
            blocks -= 1;
        }
        ChunkShape {
            block_bytes,
            blocks: blocks as u32,
            bitmap_words: (blocks as u32).div_ceil(BITS),
            blocks_at: bitmap_bytes(blocks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_ascending_and_line_aligned_from_a_line_up() {
        assert!(CLASS_BYTES.is_sorted());
        assert!(CLASS_BYTES.iter().all(|s| *s < 64 && s % 16 == 0 || s % 64 == 0));
    }

    #[test]
    #[cfg_attr(miri, ignore = "pure arithmetic, and minutes of it there")]
    fn a_request_gets_the_smallest_class_that_fits() {
        for bytes in 1..=16384 {
            let class = Class::for_bytes(bytes, 1 << 20).unwrap();
            assert!(class.bytes() >= bytes);
            assert!(class.0 == 0 || u64::from(CLASS_BYTES[usize::from(class.0) - 1]) < bytes);
        }
        assert_eq!(Class::for_bytes(16385, 1 << 20), None);
        assert_eq!(Class::for_bytes(1024, 4096), None);
    }

    #[test]
    fn blocks_fill_a_chunk_without_touching_the_bitmap() {
        for chunk_bytes in [4096, 65536, 1 << 20] {
            for index in 0..CLASS_BYTES.len() as u8 {
                let class = Class::from_index(index).unwrap();
                let Some(class) = Class::for_bytes(class.bytes(), chunk_bytes) else { continue };
                let shape = class.shape(chunk_bytes);
                assert!(shape.blocks >= 3, "{shape:?}");
                assert!(u64::from(shape.bitmap_words) * 8 <= shape.blocks_at);
                let end = shape.blocks_at + u64::from(shape.blocks) * shape.block_bytes;
                assert!(end <= chunk_bytes && chunk_bytes - end < shape.block_bytes + 128);
            }
        }
    }
}
