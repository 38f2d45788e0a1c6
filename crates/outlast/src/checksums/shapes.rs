//! Which matrices the heap is divided into.
//!
//! Blocks of a class that fit twice into a page lie in pages of 7 × 7 lines. Longer ones get larger
//! matrices, of up to 64 KiB with their checksums, and so do blocks that take whole chunks; there
//! the data of all matrices comes first, in one piece, then the checksums of each.

use std::sync::LazyLock;

use outlast_matrix::Shape;
use outlast_trace::LINE_BYTES;

use crate::alloc::class::Class;
use crate::layout::Geometry;

/// Bytes of a page, the smallest matrix.
const PAGE_BYTES: u64 = 4096;

/// Bytes of the largest, as a multiple of a page by powers of two.
const LARGEST_SHIFT: u32 = 4;

/// The shapes of matrices of 4, 8, …, 64 KiB.
static SHAPES: LazyLock<[Shape; LARGEST_SHIFT as usize + 1]> = LazyLock::new(|| {
    std::array::from_fn(|shift| {
        Shape::within((PAGE_BYTES << shift) as usize).expect("a page holds a matrix")
    })
});

/// The largest matrix, of a power of two in bytes, within `bytes`.
fn within(bytes: u64) -> (u64, Shape) {
    let shift = (bytes / PAGE_BYTES).max(1).ilog2().min(LARGEST_SHIFT);
    (PAGE_BYTES << shift, SHAPES[shift as usize])
}

/// Lines behind the data of a matrix.
pub(super) fn check_lines(shape: Shape) -> u64 {
    (shape.total_lines() - shape.lines()) as u64
}

fn data_bytes(shape: Shape) -> u64 {
    shape.lines() as u64 * LINE_BYTES
}

/// A part of a class chunk, and how much of it holds blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub bytes: u64,
    pub data_bytes: u64,
    /// Its matrix, if it has one.
    pub shape: Option<Shape>,
}

impl Cell {
    /// The cells of this class's chunks.
    pub fn of(class: Class, geometry: &Geometry) -> Self {
        let chunk_bytes = geometry.chunk_bytes;
        if !geometry.checksums {
            return Self { bytes: chunk_bytes, data_bytes: chunk_bytes, shape: None };
        }
        let fits_twice = class.bytes() * 2 <= data_bytes(Shape::PAGE);
        let (bytes, shape) = within(if fits_twice { PAGE_BYTES } else { chunk_bytes });
        Self { bytes, data_bytes: data_bytes(shape), shape: Some(shape) }
    }
}

/// The matrices of a block that takes whole chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RunMatrices {
    pub shape: Shape,
    /// Lines of data, of all matrices. The last one may have fewer than its shape.
    pub lines: u64,
}

impl RunMatrices {
    /// As much data as fits into `bytes` bytes together with its checksums.
    pub fn within(bytes: u64) -> Self {
        let (_, shape) = within(bytes);
        let (data, check) = (shape.lines() as u64, check_lines(shape));
        let total = bytes / LINE_BYTES;
        let (whole, rest) = (total / (data + check), total % (data + check));
        Self { shape, lines: whole * data + rest.saturating_sub(check) }
    }

    pub fn data_bytes(&self) -> u64 {
        self.lines * LINE_BYTES
    }

    /// How many matrices there are.
    pub fn count(&self) -> u64 {
        self.lines.div_ceil(self.shape.lines() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_smallest_matrix() {
        assert_eq!(within(1), (4096, Shape::PAGE));
        assert_eq!(within(8191), (4096, Shape::PAGE));
        let (bytes, shape) = within(1 << 20);
        assert_eq!(bytes, 64 << 10);
        assert!(shape.total_bytes() as u64 <= bytes && shape.lines() >= 890, "{shape:?}");
        // The updater keeps sets of them in a word.
        assert!(shape.checksum_lines() <= 64 && shape.spare_lines() <= 64, "{shape:?}");
    }

    #[test]
    fn the_data_of_a_run_and_its_checksums_fit() {
        for pages in 1..300 {
            let run = RunMatrices::within(pages * 4096);
            let used = run.lines + run.count() * check_lines(run.shape);
            assert!(used <= pages * 64, "{pages} pages: {run:?}");
            // One line more would need a place that is not there.
            let more = RunMatrices { lines: run.lines + 1, ..run };
            assert!(more.lines + more.count() * check_lines(more.shape) > pages * 64);
            assert!(run.lines >= pages * 64 * 3 / 5, "{pages} pages: {run:?}");
        }
    }

    #[test]
    fn a_run_has_the_chunks_that_its_bytes_need() {
        for (chunk_bytes, checksums) in [(4096, true), (65536, true), (4096, false)] {
            let geometry = Geometry { checksums, ..Geometry::new(1, 256, chunk_bytes) };
            for bytes in (1..3_000_000).step_by(1999) {
                let chunks = geometry.run_chunks(bytes);
                assert!(geometry.run_bytes(chunks) >= bytes);
                assert!(chunks == 1 || geometry.run_bytes(chunks - 1) < bytes, "{bytes}");
            }
        }
    }
}
