//! Following a queue through raw memory.

use super::super::layout::*;
use super::super::raw::{Damage, ReadRaw, Walk};
use super::{End, Queue};
use crate::{ByteRange, PoolOffset};

impl Queue {
    /// Follows the queue through raw memory, its items in their order; each is told with its
    /// number, highest byte first. See [`walk_root`](super::super::walk_root).
    ///
    /// # Errors
    /// The first damage, or what `entry` reports.
    pub fn walk<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        block: impl FnMut(PoolOffset, u64),
        entry: impl FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let mut walk = Walk::new(read, block, entry);
        let behind = QUEUE_HEADER_BYTES - HEADER_BYTES;
        let header = walk.claim_header(root, QUEUE_MAGIC, |_| Some(behind))?;
        let queue = Self::decode(root, &header)
            .ok_or(Damage::new(root, "a queue's header out of range"))?;
        let mut end = |at| {
            let mut bytes = [0; 16];
            walk.load(at, &mut bytes).map(|()| End::decode(&bytes))
        };
        let (head, tail) = (end(queue.head_at())?, end(queue.tail_at())?);
        if head.passed > tail.passed {
            return Err(Damage::new(root, "a queue's head behind its tail (invariant 1)"));
        }
        queue.walk_ring(&mut walk, head, tail)
    }

    /// The numbers of the items in the queue at `root`: those taken out so far, those put in.
    ///
    /// # Errors
    /// [`Damage`] when there is no queue.
    pub fn read_numbers<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
    ) -> Result<std::ops::Range<u64>, Damage> {
        let mut walk = Walk::new(read, |_, _| {}, |_: &mut R, _: &[u8], _| Ok(()));
        let behind = QUEUE_HEADER_BYTES - HEADER_BYTES;
        walk.claim_header(root, QUEUE_MAGIC, |_| Some(behind))?;
        let mut passed = |at| {
            let mut bytes = [0; 8];
            walk.load(root.plus(at), &mut bytes).map(|()| u64::from_le_bytes(bytes))
        };
        Ok(passed(QUEUE_HEAD_AT)?..passed(QUEUE_TAIL_AT)?)
    }

    fn walk_ring<R, B, E>(
        self,
        walk: &mut Walk<'_, R, B, E>,
        head: End,
        tail: End,
    ) -> Result<(), Damage>
    where
        R: ReadRaw,
        B: FnMut(PoolOffset, u64),
        E: FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
    {
        let next_of = |walk: &mut Walk<'_, R, B, E>, block| {
            walk.claim(block, self.block_bytes())?;
            let mut next = [0; 8];
            walk.load(block, &mut next).map(|()| PoolOffset(u64::from_le_bytes(next)))
        };
        let mut at = head;
        let mut next = next_of(walk, at.block)?;
        while at.passed < tail.passed {
            walk.visit(&at.passed.to_be_bytes(), self.place(at))?;
            if self.is_last_of_block(at) {
                at.block = next;
                next = next_of(walk, next)?;
            }
            at.passed += 1;
        }
        if at.block != tail.block {
            return Err(Damage::new(at.block, "a queue that ends in another block (invariant 2)"));
        }
        if next != head.block {
            next = next_of(walk, next)?;
        }
        if next != head.block {
            return Err(Damage::new(at.block, "a ring that does not close (invariant 3)"));
        }
        Ok(())
    }
}
