//! A map segment by segment, and from the beginning again.

use super::super::layout::*;
use super::slots::{each_item_of_segment, segment_depth};
use super::{ByteMap, grow};
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

impl ByteMap {
    /// The map whose header is at `root`, which is looked at when it is first used.
    pub(crate) fn at(root: PoolOffset) -> Self {
        Self { root }
    }

    /// Calls `visit` with every key of the segment that `hash` leads to, and the place of its value.
    /// Returns the first hash of the next segment; `None` behind the last.
    pub(crate) fn for_each_in_segment<T: Transact>(
        self,
        tx: &mut T,
        hash: u64,
        mut visit: impl FnMut(&mut T, &[u8], ByteRange) -> Result<(), Abort>,
    ) -> Result<Option<u64>, Abort> {
        let header = self.header(tx)?;
        let segment = self.descend(tx, &header, hash)?.segment;
        let depth = segment_depth(tx, segment, hash)?;
        let mut key = Vec::new();
        each_item_of_segment(tx, header.kept, segment, &mut |tx: &mut T, item| {
            let value = item.open(tx, header.kept, &mut key)?;
            visit(tx, &key, value)
        })?;
        // All hashes of the segment have their first `depth` bits in common.
        let others = u64::MAX.checked_shr(depth as u32).unwrap_or(0);
        Ok((hash | others).checked_add(1))
    }

    /// Makes the map empty. Its header stays; all its other blocks are freed already.
    pub(crate) fn reset<T: Transact>(self, tx: &mut T) -> Result<(), Abort> {
        let segment = tx.alloc(SEGMENT_BYTES as u64, BlockKind::General)?;
        tx.store(segment, grow::SegmentImage::new(segment, 0, 0).bytes())?;
        tx.store_u64(self.root.plus(MAP_DIRECTORY_AT as u64), Child::segment(segment).0)
    }
}
