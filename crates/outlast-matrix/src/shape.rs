//! Shapes of matrices, and where in a run of bytes each part of one lies.

use std::cmp::Reverse;

use crate::LINE_BYTES;
use crate::spare::spare_lines;

/// The most rows, and the most columns, of a matrix.
pub const SIDE_MAX: usize = 255;

/// The position of a line in a matrix, both counted from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Place {
    /// Which line of its column.
    pub row: usize,
    /// Which column.
    pub column: usize,
}

/// How many rows and columns of lines a matrix has, and so where everything lies in its run.
///
/// A run holds, from its first byte on and without gaps:
///
/// | part | lines |
/// |---|---|
/// | data, column by column | rows × columns |
/// | consistency checksums, one for each column | columns |
/// | correlation checksums, one for each row | rows |
/// | [spare lines](crate::Spare) | as many as the metadata of the data lines needs |
///
/// The line at row r and column c is number c × rows + r, so an object, which lies in consecutive
/// lines, runs down a column. The paper's equations (2) and (3) are to locate the
/// checksums of an object. As printed they address wrong lines (ARC-13), in one case a line of
/// data. [`Shape::consistency_at`] and [`Shape::correlation_at`] are their corrected forms, for
/// matrices that are not square, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Shape {
    rows: usize,
    columns: usize,
}

impl Shape {
    /// Seven rows and columns: with its checksums and its spare line a page of 4096 bytes.
    pub const PAGE: Self = Self { rows: 7, columns: 7 };

    /// A matrix of `rows` times `columns` lines; `None` unless both are 1 to [`SIDE_MAX`].
    pub const fn new(rows: usize, columns: usize) -> Option<Self> {
        let fit = rows >= 1 && rows <= SIDE_MAX && columns >= 1 && columns <= SIDE_MAX;
        if fit { Some(Self { rows, columns }) } else { None }
    }

    /// The shape of the shortest run with at least `lines` lines of data. Among equally short
    /// ones the squarest, then the taller. `None` when `lines` is 0 or above 255 × 255.
    pub fn for_lines(lines: usize) -> Option<Self> {
        let fitting = (1..=SIDE_MAX).filter_map(|rows| Self::new(rows, lines.div_ceil(rows)));
        fitting.min_by_key(|shape| {
            (shape.total_lines(), shape.rows.abs_diff(shape.columns), Reverse(shape.rows))
        })
    }

    /// The shape with most data of those whose run fits in `bytes`. Among equally large ones the
    /// squarest, then the taller. `None` when not even one line of data fits. Bytes behind the
    /// shape's run are not used.
    pub fn within(bytes: usize) -> Option<Self> {
        let mut columns = SIDE_MAX;
        let fitting = (1..=SIDE_MAX).filter_map(|rows| {
            // What does not fit with fewer rows does not fit with more.
            while columns > 0 && (Self { rows, columns }).total_bytes() > bytes {
                columns -= 1;
            }
            Self::new(rows, columns)
        });
        fitting.max_by_key(|shape| {
            (shape.lines(), Reverse(shape.rows.abs_diff(shape.columns)), shape.rows)
        })
    }

    /// Lines in a column.
    #[inline]
    pub const fn rows(self) -> usize {
        self.rows
    }

    /// Lines in a row.
    #[inline]
    pub const fn columns(self) -> usize {
        self.columns
    }

    /// Lines of data.
    #[inline]
    pub const fn lines(self) -> usize {
        self.rows * self.columns
    }

    /// Lines of checksums, of both kinds.
    #[inline]
    pub const fn checksum_lines(self) -> usize {
        self.rows + self.columns
    }

    /// Lines behind the checksums.
    #[inline]
    pub const fn spare_lines(self) -> usize {
        spare_lines(self.lines())
    }

    /// Lines of the whole run.
    #[inline]
    pub const fn total_lines(self) -> usize {
        self.lines() + self.checksum_lines() + self.spare_lines()
    }

    /// Bytes of the whole run.
    #[inline]
    pub const fn total_bytes(self) -> usize {
        self.total_lines() * LINE_BYTES
    }

    /// Offset of the first consistency checksum, which is the number of bytes of data.
    #[inline]
    pub const fn consistency_start(self) -> usize {
        self.lines() * LINE_BYTES
    }

    /// Offset of the first correlation checksum.
    #[inline]
    pub const fn correlation_start(self) -> usize {
        self.consistency_start() + self.columns * LINE_BYTES
    }

    /// Offset of the first spare line.
    #[inline]
    pub const fn spare_start(self) -> usize {
        self.correlation_start() + self.rows * LINE_BYTES
    }

    /// The column of line number `line`.
    #[inline]
    pub const fn column_of(self, line: usize) -> usize {
        line / self.rows
    }

    /// The row of line number `line`.
    #[inline]
    pub const fn row_of(self, line: usize) -> usize {
        line % self.rows
    }

    /// Where line number `line` is.
    #[inline]
    pub const fn place(self, line: usize) -> Place {
        Place { row: self.row_of(line), column: self.column_of(line) }
    }

    /// The number of the line at `place`.
    #[inline]
    pub const fn line(self, place: Place) -> usize {
        place.column * self.rows + place.row
    }

    /// Offset of the consistency checksum that covers the byte of data at `offset`.
    ///
    /// # Panics
    /// When `offset` is not in the data.
    #[inline]
    pub const fn consistency_at(self, offset: usize) -> usize {
        assert!(offset < self.consistency_start(), "an offset outside of the data");
        self.consistency_start() + self.column_of(offset / LINE_BYTES) * LINE_BYTES
    }

    /// Offset of the correlation checksum that covers the byte of data at `offset`.
    ///
    /// # Panics
    /// When `offset` is not in the data.
    #[inline]
    pub const fn correlation_at(self, offset: usize) -> usize {
        assert!(offset < self.consistency_start(), "an offset outside of the data");
        self.correlation_start() + self.row_of(offset / LINE_BYTES) * LINE_BYTES
    }

    /// Offsets of all checksum lines that cover some of the `size` bytes at `offset`, each once,
    /// in ascending order; none for an empty object.
    ///
    /// # Panics
    /// When the object does not lie in the data.
    pub fn checksums_of(self, offset: usize, size: usize) -> impl Iterator<Item = usize> + use<> {
        let end = offset.checked_add(size).expect("an object ends in the address space");
        assert!(end <= self.consistency_start(), "an object outside of the data");
        let first = offset / LINE_BYTES;
        let lines = if size == 0 { 0 } else { end.div_ceil(LINE_BYTES) - first };
        let columns = self.column_of(first)..(first + lines).div_ceil(self.rows);
        let columns = if lines == 0 { 0..0 } else { columns };
        let below_first = move |row: usize| (row + self.rows - self.row_of(first)) % self.rows;
        let rows = (0..self.rows).filter(move |row| below_first(*row) < lines);
        columns
            .map(move |column| self.consistency_start() + column * LINE_BYTES)
            .chain(rows.map(move |row| self.correlation_start() + row * LINE_BYTES))
    }
}

const _: () = assert!(Shape::PAGE.lines() == 49);
const _: () = assert!(Shape::PAGE.consistency_start() == 3136);
const _: () = assert!(Shape::PAGE.correlation_start() == 3584);
const _: () = assert!(Shape::PAGE.spare_start() == 4032);
const _: () = assert!(Shape::PAGE.total_bytes() == 4096);

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(rows: usize, columns: usize) -> Shape {
        Shape::new(rows, columns).expect("sides within bounds")
    }

    #[test]
    fn sides_have_bounds() {
        assert_eq!(Shape::new(7, 7), Some(Shape::PAGE));
        for (rows, columns) in [(0, 1), (1, 0), (256, 1), (1, 256)] {
            assert_eq!(Shape::new(rows, columns), None);
        }
        assert_eq!(shape(255, 255).lines(), 65_025);
    }

    #[test]
    fn a_page_is_the_shape_of_4096_bytes_and_of_49_lines() {
        assert_eq!(Shape::within(4096), Some(Shape::PAGE));
        assert_eq!(Shape::for_lines(49), Some(Shape::PAGE));
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn the_shape_within_a_run_leaves_no_room_for_more_data() {
        assert_eq!(Shape::within(0), None);
        assert_eq!(Shape::within(shape(1, 1).total_bytes() - 1), None);
        assert_eq!(Shape::within(shape(1, 1).total_bytes()), Some(shape(1, 1)));
        assert_eq!(Shape::within(usize::MAX), Some(shape(255, 255)));
        let all = |side: usize| (1..=side).flat_map(move |r| (1..=side).map(move |c| shape(r, c)));
        for lines in 4..200 {
            let found = Shape::within(lines * LINE_BYTES).expect("four lines hold one of data");
            assert!(found.total_lines() <= lines);
            let better =
                |other: &Shape| other.total_lines() <= lines && other.lines() > found.lines();
            assert_eq!(all(200).find(better), None, "{lines} lines");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn the_shape_for_lines_is_the_shortest_that_holds_them() {
        assert_eq!(Shape::for_lines(0), None);
        assert_eq!(Shape::for_lines(65_025), Some(shape(255, 255)));
        assert_eq!(Shape::for_lines(65_026), None);
        assert_eq!(Shape::for_lines(6), Some(shape(3, 2)), "the taller of two");
        for lines in [1, 2, 50, 100, 1000, 10_000, 60_000] {
            let found = Shape::for_lines(lines).expect("within bounds");
            assert!(found.lines() >= lines);
            assert!(found.rows() <= 2 * found.columns() && found.columns() <= 2 * found.rows());
            let every = (1..=255).flat_map(|r| (1..=255).map(move |c| shape(r, c)));
            let shortest = every.filter(|s| s.lines() >= lines).map(Shape::total_lines).min();
            assert_eq!(shortest, Some(found.total_lines()), "{lines} lines: {found:?}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn parts_follow_each_other_without_gaps() {
        for shape in [shape(1, 1), shape(3, 5), Shape::PAGE, shape(20, 9), shape(255, 255)] {
            assert_eq!(shape.correlation_start() - shape.consistency_start(), shape.columns() * 64);
            assert_eq!(shape.spare_start() - shape.correlation_start(), shape.rows() * 64);
            assert_eq!(shape.total_bytes() - shape.spare_start(), shape.spare_lines() * 64);
            for line in 0..shape.lines() {
                let place = shape.place(line);
                assert!(place.row < shape.rows() && place.column < shape.columns());
                assert_eq!(shape.line(place), line);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn an_object_has_the_checksums_of_each_of_its_bytes_once() {
        for shape in [shape(1, 4), shape(4, 1), shape(3, 5), Shape::PAGE] {
            for first in 0..shape.lines() {
                for last in first..shape.lines() {
                    let (offset, end) = (first * 64 + 7, last * 64 + 8);
                    let found: Vec<_> = shape.checksums_of(offset, end - offset).collect();
                    let bytes = || (offset..end).step_by(16).chain([end - 1]);
                    let mut right: Vec<_> = bytes().map(|at| shape.consistency_at(at)).collect();
                    right.extend(bytes().map(|at| shape.correlation_at(at)));
                    right.sort_unstable();
                    right.dedup();
                    assert_eq!(found, right, "{shape:?}, lines {first} to {last}");
                }
            }
            assert_eq!(shape.checksums_of(64, 0).count(), 0);
        }
    }

    #[test]
    #[should_panic(expected = "outside of the data")]
    fn checksums_have_no_checksums() {
        Shape::PAGE.consistency_at(3136);
    }
}
