//! The queue: items in a ring of blocks, first in, first out.
//!
//! Putting an item in stores it to the next place and moves one end on; taking one out moves the
//! other. Each end has a line of its own, so consumers and producers do not meet while there is
//! something between them, and an item of up to a line lies in one line. A consumer that leaves
//! a block leaves it in the ring, where producers take it up again when they come round; one
//! block waits so at most, further ones are given back. So a queue whose length stays about the
//! same never asks the allocator for anything.
//!
//! Items of one queue have one length, which is fixed when it is created.
//!
//! ```text
//!                head                   tail
//!                 |                      |
//!   [ block ]->[ ··ab ]->[ cdef ]->[ ghi· ]->[ waits ]-.
//!        ^---------------------------------------------'
//! ```
//!
//! Invariants, checked by the walk (`places`: how many items a block has room for):
//! 1. An end is the number of items that passed it, and the block of the next one: item `n` lies
//!    in place `n mod places` of its block. The head is not behind the tail.
//! 2. From the head's block to the tail's are as many links as there are multiples of `places`
//!    between the two numbers.
//! 3. Behind the tail's block comes the head's, or one block that waits and then the head's.

mod walk;

use super::layout::*;
use super::{Chain, damaged, other_length};
use crate::medium::LINE_BYTES;
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// The longest item of a queue, in bytes.
pub const QUEUE_ITEM_BYTES_MAX: u64 = 1 << 16;

/// Bytes of a block of small items.
const BLOCK_BYTES: u64 = 4096;
/// Places of a block for large items.
const PLACES_MIN: u64 = 4;

/// A persistent queue of items of one length.
///
/// Every method is one operation inside the caller's transaction and calls
/// [`Transact::will_write`] at most once. Apart from what is listed, each fails with whatever
/// the transaction fails with, and with [`Abort::Damaged`] when what it reads makes no sense.
///
/// ```
/// use outlast::collections::Queue;
/// use outlast::{Abort, RootKind, Transact};
///
/// fn hand_on(tx: &mut impl Transact, queue: Queue) -> Result<Option<u64>, Abort> {
///     queue.enqueue(tx, &7u64.to_le_bytes())?;
///     let mut item = [0; 8];
///     let there = queue.dequeue(tx, &mut item)?;
///     Ok(there.then(|| u64::from_le_bytes(item)))
/// }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue {
    root: PoolOffset,
    item_bytes: u64,
}

/// One end of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct End {
    /// How many items passed it.
    passed: u64,
    /// Where the next one goes to or comes from.
    block: PoolOffset,
}

impl End {
    #[inline]
    fn load<T: Transact>(tx: &mut T, at: PoolOffset) -> Result<Self, Abort> {
        let mut bytes = [0; 16];
        tx.load(at, &mut bytes)?;
        Ok(Self::decode(&bytes))
    }

    fn decode(bytes: &[u8; 16]) -> Self {
        Self { passed: word(bytes, 0), block: PoolOffset(word(bytes, 8)) }
    }

    fn encode(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        set_word(&mut bytes, 0, self.passed);
        set_word(&mut bytes, 8, self.block.0);
        bytes
    }
}

impl Queue {
    /// An empty queue for items of `item_bytes` bytes.
    ///
    /// # Errors
    /// Those of the transaction, and [`Abort::TooLarge`] for items longer than
    /// [`QUEUE_ITEM_BYTES_MAX`].
    pub fn create<T: Transact>(tx: &mut T, item_bytes: u64) -> Result<Self, Abort> {
        if item_bytes > QUEUE_ITEM_BYTES_MAX {
            return Err(Abort::too_large("an item of a queue", item_bytes, QUEUE_ITEM_BYTES_MAX));
        }
        let root = tx.alloc(QUEUE_HEADER_BYTES, BlockKind::General)?;
        let queue = Self { root, item_bytes };
        let block = tx.alloc(queue.block_bytes(), BlockKind::General)?;
        tx.store_u64(block, block.0)?;
        let end = End { passed: 0, block }.encode();
        let mut header = [0; QUEUE_HEADER_BYTES as usize];
        set_word(&mut header, 0, QUEUE_MAGIC);
        set_word(&mut header, QUEUE_ITEM_BYTES_AT, item_bytes);
        for at in [QUEUE_HEAD_AT, QUEUE_TAIL_AT] {
            header[at as usize..at as usize + end.len()].copy_from_slice(&end);
        }
        tx.store(root, &header)?;
        Ok(queue)
    }

    /// The queue whose header is at `root`.
    ///
    /// # Errors
    /// [`Abort::Damaged`] when there is none.
    pub fn open<T: Transact>(tx: &mut T, root: PoolOffset) -> Result<Self, Abort> {
        let mut header = [0; HEADER_BYTES as usize];
        tx.load(root, &mut header)?;
        Self::decode(root, &header).ok_or_else(|| damaged(root, "no header of a queue"))
    }

    fn decode(root: PoolOffset, header: &[u8; HEADER_BYTES as usize]) -> Option<Self> {
        let item_bytes = word(header, QUEUE_ITEM_BYTES_AT);
        let sound = word(header, 0) == QUEUE_MAGIC && item_bytes <= QUEUE_ITEM_BYTES_MAX;
        sound.then_some(Self { root, item_bytes })
    }

    /// Where the header is, for [`Transact::set_root`].
    pub fn root(self) -> PoolOffset {
        self.root
    }

    /// Bytes of each item.
    pub fn item_bytes(self) -> u64 {
        self.item_bytes
    }

    /// Puts an item in at the end. Returns its number: how many were put in before it, ever.
    ///
    /// # Errors
    /// Also [`Abort::Damaged`] when `item` is not as long as the queue says that its items are.
    #[inline]
    pub fn enqueue<T: Transact>(self, tx: &mut T, item: &[u8]) -> Result<u64, Abort> {
        self.check_length(item.len())?;
        let tail = self.end(tx, self.tail_at())?;
        let place = self.place(tail);
        match self.is_last_of_block(tail) {
            false => {
                let passed_at = ByteRange::new(self.tail_at(), 8);
                tx.will_write(&[place, passed_at][usize::from(item.is_empty())..])?;
                tx.store_u64(passed_at.at, tail.passed + 1)?;
            }
            true => self.fill_block(tx, tail, place)?,
        }
        if !item.is_empty() {
            tx.store(place.at, item)?;
        }
        Ok(tail.passed)
    }

    /// Moves the tail behind the last place of its block, to one that waits or a new one, and
    /// announces that `place` is stored too.
    fn fill_block<T: Transact>(self, tx: &mut T, tail: End, place: ByteRange) -> Result<(), Abort> {
        let next = PoolOffset(tx.load_u64(tail.block)?);
        let head = self.end(tx, self.head_at())?;
        let mut ranges = [ByteRange::new(self.tail_at(), 16), place, ByteRange::new(tail.block, 8)];
        let waits = next != head.block;
        let block = match waits {
            true => next,
            false => tx.alloc(self.block_bytes(), BlockKind::General)?,
        };
        if place.len == 0 {
            ranges.swap(1, 2);
        }
        let used = 3 - usize::from(waits) - usize::from(place.len == 0);
        tx.will_write(&ranges[..used])?;
        if !waits {
            tx.store_u64(block, next.0)?;
            tx.store_u64(tail.block, block.0)?;
        }
        tx.store(self.tail_at(), &End { passed: tail.passed + 1, block }.encode())
    }

    /// Takes the first item out and copies it to `out`; `false`, and `out` as it was, when the
    /// queue is empty.
    ///
    /// # Errors
    /// Also [`Abort::Damaged`] when `out` is not as long as the queue says that its items are.
    #[inline]
    pub fn dequeue<T: Transact>(self, tx: &mut T, out: &mut [u8]) -> Result<bool, Abort> {
        Ok(self.dequeue_numbered(tx, out)?.is_some())
    }

    /// As [`dequeue`](Self::dequeue), and returns the number of the item: what
    /// [`enqueue`](Self::enqueue) returned for it.
    ///
    /// # Errors
    /// As `dequeue`.
    #[inline]
    pub fn dequeue_numbered<T: Transact>(
        self,
        tx: &mut T,
        out: &mut [u8],
    ) -> Result<Option<u64>, Abort> {
        let Some(head) = self.load_first(tx, out)? else { return Ok(None) };
        match self.is_last_of_block(head) {
            false => {
                tx.will_write(&[ByteRange::new(self.head_at(), 8)])?;
                tx.store_u64(self.head_at(), head.passed + 1)?;
            }
            true => self.leave_block(tx, head)?,
        }
        Ok(Some(head.passed))
    }

    /// Moves the head behind the last place of its block, which waits from now on; one that has
    /// waited so far is given back.
    fn leave_block<T: Transact>(self, tx: &mut T, head: End) -> Result<(), Abort> {
        let tail = self.end(tx, self.tail_at())?;
        let next = PoolOffset(tx.load_u64(head.block)?);
        let waiting = PoolOffset(tx.load_u64(tail.block)?);
        let gives_back = waiting != head.block;
        if gives_back {
            if tx.load_u64(waiting)? != head.block.0 {
                return Err(damaged(waiting, "a ring of blocks that does not close"));
            }
            tx.free(waiting)?;
        }
        let ranges = [ByteRange::new(self.head_at(), 16), ByteRange::new(tail.block, 8)];
        tx.will_write(&ranges[..1 + usize::from(gives_back)])?;
        if gives_back {
            tx.store_u64(tail.block, head.block.0)?;
        }
        tx.store(self.head_at(), &End { passed: head.passed + 1, block: next }.encode())
    }

    /// Copies the first item to `out` and leaves it there; `false`, and `out` as it was, when
    /// the queue is empty.
    ///
    /// # Errors
    /// As [`dequeue`](Self::dequeue).
    pub fn peek<T: Transact>(self, tx: &mut T, out: &mut [u8]) -> Result<bool, Abort> {
        Ok(self.load_first(tx, out)?.is_some())
    }

    #[inline]
    fn load_first<T: Transact>(self, tx: &mut T, out: &mut [u8]) -> Result<Option<End>, Abort> {
        self.check_length(out.len())?;
        let head = self.end(tx, self.head_at())?;
        let put_in = tx.load_u64(self.tail_at())?;
        if head.passed >= put_in {
            return if head.passed == put_in { Ok(None) } else { Err(self.head_behind_tail()) };
        }
        if !out.is_empty() {
            tx.load(self.place(head).at, out)?;
        }
        Ok(Some(head))
    }

    /// The numbers of the items that are in the queue: those taken out so far, those put in.
    pub fn numbers<T: Transact>(self, tx: &mut T) -> Result<std::ops::Range<u64>, Abort> {
        Ok(tx.load_u64(self.head_at())?..tx.load_u64(self.tail_at())?)
    }

    /// How many items are in the queue.
    pub fn len<T: Transact>(self, tx: &mut T) -> Result<u64, Abort> {
        let numbers = self.numbers(tx)?;
        let len = numbers.end.checked_sub(numbers.start);
        len.ok_or_else(|| self.head_behind_tail())
    }

    /// Whether there is nothing in it.
    pub fn is_empty<T: Transact>(self, tx: &mut T) -> Result<bool, Abort> {
        Ok(self.len(tx)? == 0)
    }

    /// Calls `visit` with every item's number and place, the first one first. `visit` may load
    /// and store items but not change the queue.
    ///
    /// # Errors
    /// Also whatever `visit` fails with.
    pub fn for_each<T: Transact>(
        self,
        tx: &mut T,
        mut visit: impl FnMut(&mut T, u64, ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let mut at = self.end(tx, self.head_at())?;
        let mut blocks = Chain::from(at.block);
        for left in (0..self.len(tx)?).rev() {
            visit(tx, at.passed, self.place(at))?;
            // The last item may end its block, behind which comes the first one.
            if left > 0 && self.is_last_of_block(at) {
                at.block = PoolOffset(tx.load_u64(at.block)?);
                blocks.follow(at.block)?;
            }
            at.passed += 1;
        }
        Ok(())
    }

    /// One end of the queue.
    #[inline]
    fn end<T: Transact>(self, tx: &mut T, at: PoolOffset) -> Result<End, Abort> {
        let end = End::load(tx, at)?;
        match end.passed {
            u64::MAX => Err(damaged(at, "a queue that more items passed than there can be")),
            _ => Ok(end),
        }
    }

    #[inline]
    fn check_length(self, given: usize) -> Result<(), Abort> {
        match given as u64 == self.item_bytes {
            true => Ok(()),
            false => Err(other_length(self.root, "a queue", self.item_bytes, given)),
        }
    }

    #[cold]
    fn head_behind_tail(self) -> Abort {
        damaged(self.root, "a queue's head behind its tail")
    }

    fn head_at(self) -> PoolOffset {
        self.root.plus(QUEUE_HEAD_AT)
    }

    fn tail_at(self) -> PoolOffset {
        self.root.plus(QUEUE_TAIL_AT)
    }

    /// Bytes from one place to the next: no item of up to a line lies on two.
    #[inline]
    fn stride(self) -> u64 {
        match self.item_bytes {
            bytes if bytes <= LINE_BYTES => bytes.max(8).next_power_of_two(),
            bytes => bytes.next_multiple_of(LINE_BYTES),
        }
    }

    /// How many items a block has room for: a power of two.
    #[inline]
    fn places(self) -> u64 {
        let most = ((BLOCK_BYTES - QUEUE_PLACES_AT) / self.stride()).max(PLACES_MIN);
        1 << most.ilog2()
    }

    fn block_bytes(self) -> u64 {
        QUEUE_PLACES_AT + self.places() * self.stride()
    }

    #[inline]
    fn place(self, end: End) -> ByteRange {
        let nth = end.passed & (self.places() - 1);
        ByteRange::new(end.block.plus(QUEUE_PLACES_AT + nth * self.stride()), self.item_bytes)
    }

    #[inline]
    fn is_last_of_block(self, end: End) -> bool {
        (end.passed + 1) & (self.places() - 1) == 0
    }
}
