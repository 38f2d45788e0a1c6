//! Where the items of a vector lie.

use std::ops::Range;

use super::super::layout::*;
use crate::collections::{damaged, set_word, word};
use crate::medium::LINE_BYTES;
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// Items that a vector's segments hold: the place of an item follows from its index.
#[derive(Clone, Copy)]
pub(in crate::typed) struct Segments {
    item_bytes: u64,
    /// Items of the first segment: 2 to the power of this.
    first_bits: u32,
}

impl Segments {
    pub(in crate::typed) const fn of(item_bytes: usize) -> Self {
        let line = LINE_BYTES as usize;
        let first = if item_bytes < line { line / item_bytes } else { 1 };
        Self { item_bytes: item_bytes as u64, first_bits: first.ilog2() }
    }

    /// The segment of an item, and its place there.
    #[inline]
    pub(super) fn locate(self, index: u64) -> (usize, u64) {
        match (index >> self.first_bits).checked_ilog2() {
            None => (0, index),
            Some(doublings) => {
                (doublings as usize + 1, index - (1 << (self.first_bits + doublings)))
            }
        }
    }

    /// Items of a segment.
    pub(in crate::typed) fn items(self, segment: usize) -> u64 {
        1 << (self.first_bits + (segment as u32).saturating_sub(1))
    }

    /// Segments that `items` items need.
    pub(in crate::typed) fn needed(self, len: u64) -> usize {
        if len == 0 { 0 } else { self.locate(len - 1).0 + 1 }
    }
}

/// Where a vector's length is stored.
pub(super) fn len_at(header: PoolOffset) -> PoolOffset {
    header.plus(VEC_LEN_AT as u64)
}

/// A vector's header, loaded for an operation that touches more than one item.
pub(super) struct Shape {
    pub(super) at: PoolOffset,
    pub(super) image: [u8; VEC_HEADER_BYTES],
    pub(super) segments: Segments,
    /// Segments that the operation has allocated: their words have to be stored.
    grown: Range<usize>,
}

/// Items that lie one behind the other, in one segment.
struct Piece {
    segment: usize,
    range: ByteRange,
}

impl Shape {
    pub(super) fn load<X: Transact>(
        tx: &mut X,
        at: PoolOffset,
        segments: Segments,
    ) -> Result<Self, Abort> {
        let mut image = [0; VEC_HEADER_BYTES];
        tx.load(at, &mut image)?;
        let shape = Self { at, image, segments, grown: 0..0 };
        let possible = segments.needed(shape.len()) <= VEC_SEGMENTS
            && (0..segments.needed(shape.len())).all(|i| shape.segment(i).0 != 0);
        if word(&shape.image, 0) != VEC_MAGIC || !possible {
            return Err(damaged(at, "no vector"));
        }
        Ok(shape)
    }

    pub(super) fn len(&self) -> u64 {
        word(&self.image, VEC_LEN_AT)
    }

    pub(super) fn segment(&self, segment: usize) -> PoolOffset {
        PoolOffset(word(&self.image, VEC_SEGMENTS_AT + 8 * segment))
    }

    /// Takes the segments that `len` items need and that are not there.
    pub(super) fn reserve<X: Transact>(&mut self, tx: &mut X, len: u64) -> Result<(), Abort> {
        let needed = self.segments.needed(len);
        if needed > VEC_SEGMENTS {
            let item_bytes = self.segments.item_bytes;
            let largest = (2 * self.segments.items(VEC_SEGMENTS - 1)).saturating_mul(item_bytes);
            return Err(Abort::too_large("a vector", len.saturating_mul(item_bytes), largest));
        }
        let first = (0..needed).find(|&i| self.segment(i).0 == 0).unwrap_or(needed);
        self.grown = first..needed;
        for i in first..needed {
            let bytes = self.segments.items(i).checked_mul(self.segments.item_bytes);
            let bytes = bytes.unwrap_or(u64::MAX);
            let block = tx.alloc(bytes, BlockKind::General)?;
            set_word(&mut self.image, VEC_SEGMENTS_AT + 8 * i, block.0);
        }
        Ok(())
    }

    /// Where the items from `from` to `to` lie, in order.
    fn pieces(&self, from: u64, to: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut next = from;
        while next < to {
            let (segment, place) = self.segments.locate(next);
            let items = (self.segments.items(segment) - place).min(to - next);
            let bytes = self.segments.item_bytes;
            let at = self.segment(segment).plus(place * bytes);
            pieces.push(Piece { segment, range: ByteRange::new(at, items * bytes) });
            next += items;
        }
        pieces
    }

    pub(super) fn load_items<X: Transact>(
        &self,
        tx: &mut X,
        from: u64,
        to: u64,
    ) -> Result<Vec<u8>, Abort> {
        let pieces = self.pieces(from, to);
        if let Some(last) = pieces.last() {
            // A damaged length must not cost that much memory before it is noticed.
            tx.load(PoolOffset(last.range.end().0.saturating_sub(1)), &mut [0])?;
        }
        let mut bytes = vec![0; ((to - from) * self.segments.item_bytes) as usize];
        let mut rest = &mut bytes[..];
        for Piece { range, .. } in pieces {
            let (now, later) = rest.split_at_mut(range.len as usize);
            tx.load(range.at, now)?;
            rest = later;
        }
        Ok(bytes)
    }

    /// Announces and stores these items from `from` on, the words of new segments, and the length.
    pub(super) fn store_items<X: Transact>(
        &self,
        tx: &mut X,
        from: u64,
        mut items: &[u8],
        len: u64,
    ) -> Result<(), Abort> {
        let count = items.len() as u64 / self.segments.item_bytes;
        let pieces = self.pieces(from, from + count);
        let [start, end] = [self.grown.start, self.grown.end].map(|i| VEC_SEGMENTS_AT + 8 * i);
        let words = start..end;
        let words_at = self.at.plus(words.start as u64);
        let mut announced = vec![ByteRange::new(len_at(self.at), 8)];
        if !words.is_empty() {
            announced.push(ByteRange::new(words_at, words.len() as u64));
        }
        let old = pieces.iter().filter(|piece| !self.grown.contains(&piece.segment));
        announced.extend(old.map(|piece| piece.range));
        tx.will_write(&announced)?;
        for Piece { range, .. } in pieces {
            let (now, later) = items.split_at(range.len as usize);
            tx.store(range.at, now)?;
            items = later;
        }
        if !words.is_empty() {
            tx.store(words_at, &self.image[words])?;
        }
        tx.store_u64(len_at(self.at), len)
    }
}
