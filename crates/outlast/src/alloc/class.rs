//! Size classes and the shape of a class chunk.

use std::cmp::Reverse;

use outlast_trace::LINE_BYTES;

use crate::checksums::Cell;
use crate::layout::Geometry;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord, Hash)]
pub(crate) struct Class(pub u8);

/// Where the bitmap ends and the blocks lie in a chunk of this class.
///
/// A chunk is divided in *cells*, of which only the first bytes hold blocks: the whole chunk is
/// one, or each virtual matrix. The bitmap stands at the start of the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkShape {
    pub block_bytes: u64,
    pub blocks: u32,
    pub bitmap_words: u32,
    /// From the start of the chunk to its first block.
    blocks_at: u64,
    /// Blocks of the first cell.
    first_blocks: u32,
    /// Blocks of every other cell.
    cell_blocks: u32,
    cell_bytes: u64,
}

impl ChunkShape {
    /// From the start of the chunk to a block.
    #[inline]
    pub fn block_at(&self, index: u32) -> u64 {
        match index.checked_sub(self.first_blocks) {
            None => self.blocks_at + u64::from(index) * self.block_bytes,
            Some(rest) => {
                let cell = u64::from(1 + rest / self.cell_blocks);
                cell * self.cell_bytes + u64::from(rest % self.cell_blocks) * self.block_bytes
            }
        }
    }

    /// The block that starts at this distance from the start of the chunk.
    #[inline]
    pub fn block_from(&self, offset: u64) -> Option<u32> {
        self.block_over(offset).filter(|index| self.block_at(*index) == offset)
    }

    /// The block that covers the byte at this distance from the start of the chunk.
    #[inline]
    pub fn block_over(&self, offset: u64) -> Option<u32> {
        let cell = offset / self.cell_bytes;
        let (blocks_at, before, count) = match cell.checked_sub(1) {
            None => (self.blocks_at, 0, self.first_blocks),
            Some(rest) => {
                let before = u64::from(self.first_blocks) + rest * u64::from(self.cell_blocks);
                (0, before, self.cell_blocks)
            }
        };
        let inside = (offset % self.cell_bytes).checked_sub(blocks_at)? / self.block_bytes;
        let index = before + inside;
        (inside < u64::from(count) && index < u64::from(self.blocks)).then_some(index as u32)
    }
}

/// The bytes of the block that is found for `bytes`.
pub(crate) fn block_bytes_for(bytes: u64, geometry: &Geometry) -> u64 {
    match Class::for_bytes(bytes.max(1), geometry.chunk_bytes) {
        Some(class) => class.bytes(),
        None if bytes > geometry.block_bytes_max() => u64::MAX,
        None => geometry.run_bytes(geometry.run_chunks(bytes)),
    }
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

    /// Whether chunks of this geometry are divided into blocks of this class.
    pub fn is_used_in(self, geometry: &Geometry) -> bool {
        self.bytes() * BLOCKS_MIN < geometry.chunk_bytes
    }

    pub fn bytes(self) -> u64 {
        u64::from(CLASS_BYTES[usize::from(self.0)])
    }

    pub fn shape(self, geometry: &Geometry) -> ChunkShape {
        let block_bytes = self.bytes();
        let bitmap_bytes =
            |blocks: u64| (blocks.div_ceil(u64::from(BITS)) * 8).next_multiple_of(LINE_BYTES);
        let cell = Cell::of(self, geometry);
        let cells = geometry.chunk_bytes / cell.bytes;
        let cell_blocks = cell.data_bytes / block_bytes;
        // Blocks of the first cell and of all, beside a bitmap of `bytes` bytes.
        let beside = |bitmap: u64| {
            let first = cell.data_bytes.saturating_sub(bitmap) / block_bytes;
            let all = first + (cells - 1) * cell_blocks;
            (first, all.min(bitmap / 8 * u64::from(BITS)))
        };
        let bitmaps = (LINE_BYTES..=cell.data_bytes).step_by(LINE_BYTES as usize);
        // A longer bitmap than all its blocks need leaves room for none more.
        let enough = bitmaps.clone().find(|bitmap| bitmap_bytes(beside(*bitmap).1) < *bitmap);
        let bitmaps = bitmaps.take_while(|bitmap| enough.is_none_or(|most| *bitmap < most));
        let bitmap = bitmaps.max_by_key(|bitmap| (beside(*bitmap).1, Reverse(*bitmap)));
        let bitmap = bitmap.expect("a cell has a line at least");
        let (first, blocks) = beside(bitmap);
        ChunkShape {
            block_bytes,
            blocks: blocks as u32,
            bitmap_words: (blocks as u32).div_ceil(BITS),
            blocks_at: bitmap,
            first_blocks: first.min(blocks) as u32,
            cell_blocks: cell_blocks as u32,
            cell_bytes: cell.bytes,
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

    fn shapes(checksums: bool) -> impl Iterator<Item = (Geometry, ChunkShape)> {
        [4096, 8192, 65536, 1 << 20].into_iter().flat_map(move |chunk_bytes| {
            let geometry = Geometry { checksums, ..Geometry::new(1, 256, chunk_bytes) };
            let classes = (0..CLASS_BYTES.len() as u8).filter_map(Class::from_index);
            let fitting =
                classes.filter(move |class| Class::for_bytes(class.bytes(), chunk_bytes).is_some());
            fitting.map(move |class| (geometry, class.shape(&geometry)))
        })
    }

    #[test]
    fn blocks_fill_a_chunk_without_touching_the_bitmap() {
        for (geometry, shape) in shapes(false) {
            assert!(shape.blocks >= 3, "{shape:?}");
            assert!(u64::from(shape.bitmap_words) * 8 <= shape.block_at(0));
            let end = shape.block_at(shape.blocks);
            let chunk_bytes = geometry.chunk_bytes;
            assert!(end <= chunk_bytes && chunk_bytes - end < shape.block_bytes + 128);
        }
    }

    /// Pools without checksums have as many blocks as fit behind their bitmap.
    #[test]
    fn without_checksums_a_chunk_holds_as_many_blocks_as_ever() {
        for (geometry, shape) in shapes(false) {
            let bitmap = |blocks: u64| (blocks.div_ceil(56) * 8).next_multiple_of(64);
            let chunk_bytes = geometry.chunk_bytes;
            let mut blocks = chunk_bytes / shape.block_bytes;
            while bitmap(blocks) + blocks * shape.block_bytes > chunk_bytes {
                blocks -= 1;
            }
            assert_eq!((u64::from(shape.blocks), shape.block_at(0)), (blocks, bitmap(blocks)));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "pure arithmetic, and minutes of it there")]
    fn every_byte_of_a_block_leads_to_it_and_no_other_does() {
        for (geometry, shape) in shapes(false).chain(shapes(true)) {
            assert!(shape.blocks >= 2, "{shape:?}");
            let mut over = vec![None; (geometry.chunk_bytes / 8) as usize];
            for index in 0..shape.blocks {
                let at = shape.block_at(index);
                assert!(shape.block_bytes < 64 || at % 64 == 0);
                assert_eq!(at / shape.cell_bytes, (at + shape.block_bytes - 1) / shape.cell_bytes);
                for word in at / 8..(at + shape.block_bytes) / 8 {
                    assert_eq!(over[word as usize].replace(index), None);
                }
            }
            assert!(over[..shape.bitmap_words as usize].iter().all(Option::is_none));
            for (word, index) in (0..).zip(over) {
                assert_eq!(shape.block_over(word * 8), index, "{shape:?}, word {word}");
            }
        }
    }
}
