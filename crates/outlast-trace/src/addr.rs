//! Addresses: byte offsets inside a pool, and the 64-byte lines that persist.

use std::fmt;

/// Bytes in a cache line, the unit of persistence (rule 1 of the fault model).
pub const LINE_BYTES: u64 = 64;

/// A byte offset from the start of a pool. Valid wherever the pool is mapped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PoolOffset(pub u64);

impl PoolOffset {
    /// The line that holds this byte.
    #[inline]
    pub const fn line(self) -> LineAddr {
        LineAddr(self.0 / LINE_BYTES)
    }

    /// The position of this byte in its line, 0 to 63.
    #[inline]
    pub const fn in_line(self) -> usize {
        (self.0 % LINE_BYTES) as usize
    }

    /// The offset `bytes` further on, or the last one: an offset that was read from damaged memory
    /// leads out of every pool, and never back into it.
    #[inline]
    pub const fn plus(self, bytes: u64) -> Self {
        Self(self.0.saturating_add(bytes))
    }

    /// Whether this offset is a multiple of `align` bytes.
    #[inline]
    pub const fn is_aligned(self, align: u64) -> bool {
        self.0.is_multiple_of(align)
    }
}

impl fmt::Debug for PoolOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for PoolOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The number of a 64-byte line: its byte offset divided by 64.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LineAddr(pub u64);

impl LineAddr {
    /// The offset of the line's first byte.
    #[inline]
    pub const fn start(self) -> PoolOffset {
        PoolOffset(self.0 * LINE_BYTES)
    }

    /// The line `lines` further on.
    #[inline]
    pub const fn plus(self, lines: u64) -> Self {
        Self(self.0 + lines)
    }
}

impl fmt::Debug for LineAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{:#x}", self.0)
    }
}

impl fmt::Display for LineAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {:#x}", self.0)
    }
}

/// `len` bytes from `at` on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct ByteRange {
    /// First byte.
    pub at: PoolOffset,
    /// Number of bytes.
    pub len: u64,
}

impl ByteRange {
    /// The range of `len` bytes from `at` on.
    #[inline]
    pub const fn new(at: PoolOffset, len: u64) -> Self {
        Self { at, len }
    }

    /// The offset behind the last byte, as [`PoolOffset::plus`] has it.
    #[inline]
    pub const fn end(self) -> PoolOffset {
        self.at.plus(self.len)
    }

    /// Every line that the range touches, in ascending order; none for an empty range.
    #[inline]
    pub fn lines(self) -> impl Iterator<Item = LineAddr> + use<> {
        let first = self.at.line().0;
        let last = if self.len == 0 { first } else { self.end().0.div_ceil(LINE_BYTES) };
        (first..last).map(LineAddr)
    }
}

/// Splits `len` bytes at `at` where lines end: yields `(offset, length)`.
pub fn line_pieces(at: PoolOffset, len: usize) -> impl Iterator<Item = (PoolOffset, usize)> {
    pieces(at, len, LINE_BYTES)
}

/// Splits `len` bytes at `at` into the pieces that are atomic under power failure: whole or
/// partial aligned 8-byte words (rule 5 of the fault model). Yields `(offset, length)`.
pub fn word_pieces(at: PoolOffset, len: usize) -> impl Iterator<Item = (PoolOffset, usize)> {
    pieces(at, len, 8)
}

fn pieces(at: PoolOffset, len: usize, unit: u64) -> impl Iterator<Item = (PoolOffset, usize)> {
    let end = at.plus(len as u64).0;
    let mut next = at.0;
    std::iter::from_fn(move || {
        (next < end).then(|| {
            let stop = end.min((next / unit + 1) * unit);
            let piece = (PoolOffset(next), (stop - next) as usize);
            next = stop;
            piece
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_names_every_line_it_touches() {
        let lines =
            |at, len| ByteRange::new(PoolOffset(at), len).lines().map(|l| l.0).collect::<Vec<_>>();
        assert_eq!(lines(0, 64), [0]);
        assert_eq!(lines(63, 2), [0, 1]);
        assert_eq!(lines(64, 129), [1, 2, 3]);
        assert_eq!(lines(70, 0), [] as [u64; 0]);
    }

    #[test]
    fn pieces_cover_a_range_without_crossing_their_unit() {
        let words: Vec<_> = word_pieces(PoolOffset(5), 14).collect();
        assert_eq!(words, [(PoolOffset(5), 3), (PoolOffset(8), 8), (PoolOffset(16), 3)]);
        let lines: Vec<_> = line_pieces(PoolOffset(60), 70).collect();
        assert_eq!(lines, [(PoolOffset(60), 4), (PoolOffset(64), 64), (PoolOffset(128), 2)]);
    }
}
