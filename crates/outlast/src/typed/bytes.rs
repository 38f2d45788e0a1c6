//! Bytes and text.

use std::marker::PhantomData;

use super::layout::*;
use super::pointer::{Handle, Place, free_header, handle};
use super::{Schema, TypedTx};
use crate::collections::{damaged, set_word, word};
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// Persistent bytes, with the interface of a `Vec<u8>` that is read and written in
/// pieces. Up to 32 bytes lie in the header's own line; more in one block, which doubles.
///
/// The pool's largest block is the limit, 536,805,376 bytes unless the pool was created with other
/// [chunks](crate::PoolOptions::chunk_bytes): more is [`Abort::TooLarge`]. Longer content is stored in parts, such as a
/// `PVec<PBytes>`, and in several transactions where the log has no room for all of it.
///
/// The handle is `Copy`, and dropping it does nothing; [`free`](Self::free) gives the blocks back.
#[must_use = "its blocks leak unless it is stored in the pool or freed"]
#[repr(transparent)]
pub struct PBytes<'id> {
    place: Place<'id>,
    of: PhantomData<()>,
}

handle! {
    PBytes<>,
    describe |schema: &mut Schema| schema.word("bytes"),
    owns true,
    free |this: Self, tx: &mut TypedTx<'id, '_, X>| this.free(tx),
    where []
}

/// A header as its block describes it.
struct Shape {
    at: PoolOffset,
    len: u64,
    block: PoolOffset,
    capacity: u64,
}

impl Shape {
    #[inline]
    fn load<X: Transact>(tx: &mut X, at: PoolOffset) -> Result<Self, Abort> {
        let mut header = [0; BYTES_INLINE_AT];
        tx.load(at, &mut header)?;
        let block = PoolOffset(word(&header, BYTES_BLOCK_AT));
        let capacity = match block.0 {
            0 => BYTES_INLINE_MAX as u64,
            _ => word(&header, BYTES_CAPACITY_AT),
        };
        let len = word(&header, BYTES_LEN_AT);
        if word(&header, 0) != BYTES_MAGIC || len > capacity {
            return Err(damaged(at, "no bytes"));
        }
        Ok(Self { at, len, block, capacity })
    }

    /// Where the content begins.
    #[inline]
    fn content(&self) -> PoolOffset {
        match self.block.0 {
            0 => self.at.plus(BYTES_INLINE_AT as u64),
            _ => self.block,
        }
    }
}

/// The least capacity of a block for `bytes` bytes.
fn capacity_for(bytes: u64, grown_from: u64) -> u64 {
    bytes.max(grown_from.saturating_mul(2)).next_multiple_of(16)
}

impl<'id> PBytes<'id> {
    /// A copy of `bytes`.
    ///
    /// # Errors
    /// Those of the transaction, [`Abort::OutOfSpace`] and [`Abort::TooLarge`] among them.
    pub fn new<X: Transact>(tx: &mut TypedTx<'id, '_, X>, bytes: &[u8]) -> Result<Self, Abort> {
        let tx = tx.raw();
        let at = tx.alloc(BYTES_HEADER_BYTES as u64, BlockKind::General)?;
        let mut header = [0; BYTES_HEADER_BYTES];
        set_word(&mut header, 0, BYTES_MAGIC);
        set_word(&mut header, BYTES_LEN_AT, bytes.len() as u64);
        if bytes.len() <= BYTES_INLINE_MAX {
            header[BYTES_INLINE_AT..][..bytes.len()].copy_from_slice(bytes);
        } else {
            let capacity = capacity_for(bytes.len() as u64, 0);
            let block = tx.alloc(capacity, BlockKind::Value)?;
            tx.store(block, bytes)?;
            set_word(&mut header, BYTES_BLOCK_AT, block.0);
            set_word(&mut header, BYTES_CAPACITY_AT, capacity);
        }
        tx.store(at, &header)?;
        Ok(Self { place: Place::new(at), of: PhantomData })
    }

    /// Length in bytes.
    ///
    /// # Errors
    /// Those of the transaction; [`Abort::Damaged`] when there are no bytes any more.
    pub fn len<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<u64, Abort> {
        Ok(Shape::load(tx.raw(), self.offset())?.len)
    }

    /// Whether the length is 0.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn is_empty<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<bool, Abort> {
        Ok(self.len(tx)? == 0)
    }

    /// All bytes.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn to_vec<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Vec<u8>, Abort> {
        let shape = Shape::load(tx.raw(), self.offset())?;
        if shape.len > 1 << 16 {
            // A damaged length must not cost that much memory before it is noticed.
            tx.raw().load(shape.content().plus(shape.len - 1), &mut [0])?;
        }
        let mut bytes = vec![0; shape.len as usize];
        if !bytes.is_empty() {
            tx.raw().load(shape.content(), &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Copies the bytes from `offset` on to `out`.
    ///
    /// # Errors
    /// As [`len`](Self::len), and [`Abort::BadAddress`] when they end before
    /// `offset + out.len()`.
    pub fn read<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), Abort> {
        let part = self.part(tx, offset, out.len())?;
        if out.is_empty() { Ok(()) } else { tx.raw().load(part, out) }
    }

    /// Overwrites the bytes from `offset` on.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let part = self.part(tx, offset, bytes.len())?;
        tx.raw().store(part, bytes)
    }

    fn part<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        offset: u64,
        len: usize,
    ) -> Result<PoolOffset, Abort> {
        let shape = Shape::load(tx.raw(), self.offset())?;
        if offset.checked_add(len as u64).is_none_or(|end| end > shape.len) {
            let (what, why) = ("a part of bytes", "they end before that");
            return Err(Abort::bad_address(what, self.offset(), why));
        }
        Ok(shape.content().plus(offset))
    }

    /// Replaces all bytes.
    ///
    /// # Errors
    /// As [`len`](Self::len), [`Abort::OutOfSpace`] and [`Abort::TooLarge`].
    pub fn set<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>, bytes: &[u8]) -> Result<(), Abort> {
        self.splice(tx, 0, bytes)
    }

    /// Adds bytes behind the last.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn extend<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let len = self.len(tx)?;
        self.splice(tx, len, bytes)
    }

    /// Keeps the first `kept` bytes, and `bytes` behind them.
    fn splice<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        kept: u64,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        let tx = tx.raw();
        let shape = Shape::load(tx, self.offset())?;
        let len = kept + bytes.len() as u64;
        let len_at = shape.at.plus(BYTES_LEN_AT as u64);
        if len <= shape.capacity {
            let range = ByteRange::new(shape.content().plus(kept), bytes.len() as u64);
            tx.will_write(&[ByteRange::new(len_at, 8), range])?;
            tx.store(range.at, bytes)?;
            return tx.store_u64(len_at, len);
        }
        let capacity = capacity_for(len, shape.capacity);
        let mut old = vec![0; kept as usize];
        if kept > 0 {
            tx.load(shape.content(), &mut old)?;
        }
        let block = tx.alloc(capacity, BlockKind::Value)?;
        if shape.block.0 != 0 {
            tx.free(shape.block)?;
        }
        let mut words = [0; 24];
        set_word(&mut words, 0, len);
        set_word(&mut words, BYTES_BLOCK_AT - BYTES_LEN_AT, block.0);
        set_word(&mut words, BYTES_CAPACITY_AT - BYTES_LEN_AT, capacity);
        tx.will_write(&[ByteRange::new(len_at, words.len() as u64)])?;
        tx.store(block, &old)?;
        tx.store(block.plus(kept), bytes)?;
        tx.store(len_at, &words)
    }

    /// Keeps the first `len` bytes. Does nothing when there are no more.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn truncate<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        len: u64,
    ) -> Result<(), Abort> {
        if len < self.len(tx)? {
            tx.raw().store_u64(self.offset().plus(BYTES_LEN_AT as u64), len)?;
        }
        Ok(())
    }

    /// Gives the blocks back.
    ///
    /// # Errors
    /// As [`len`](Self::len); [`Abort::BadAddress`] when they were freed before.
    pub fn free<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        let tx = tx.raw();
        let shape = Shape::load(tx, self.offset())?;
        if shape.block.0 != 0 {
            tx.free(shape.block)?;
        }
        free_header(tx, shape.at)
    }
}

/// Persistent text, with the interface of a [`String`]: [`PBytes`] that are UTF-8.
///
/// ```
/// use outlast::typed::{PString, TypedTx};
/// use outlast::{Abort, Transact};
///
/// fn greet<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<PString<'id>, Abort> {
///     let text = PString::new(tx, "hello")?;
///     text.push_str(tx, ", world")?;
///     assert_eq!(text.to_string(tx)?, "hello, world");
///     Ok(text)
/// }
/// ```
#[must_use = "its blocks leak unless it is stored in the pool or freed"]
#[repr(transparent)]
pub struct PString<'id> {
    place: Place<'id>,
    of: PhantomData<()>,
}

handle! {
    PString<>,
    describe |schema: &mut Schema| schema.word("text"),
    owns true,
    free |this: Self, tx: &mut TypedTx<'id, '_, X>| this.free(tx),
    where []
}

impl<'id> PString<'id> {
    /// A copy of `text`.
    ///
    /// # Errors
    /// As [`PBytes::new`].
    pub fn new<X: Transact>(tx: &mut TypedTx<'id, '_, X>, text: &str) -> Result<Self, Abort> {
        Ok(Self::from_place(PBytes::new(tx, text.as_bytes())?.place))
    }

    /// The text as bytes.
    pub fn as_bytes(self) -> PBytes<'id> {
        PBytes::from_place(self.place)
    }

    /// The text.
    ///
    /// # Errors
    /// As [`PBytes::to_vec`], and [`Abort::Damaged`] when it is no UTF-8.
    pub fn to_string<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<String, Abort> {
        String::from_utf8(self.as_bytes().to_vec(tx)?)
            .map_err(|_| damaged(self.offset(), "text that is no UTF-8"))
    }

    /// Length in bytes.
    ///
    /// # Errors
    /// As [`PBytes::len`].
    pub fn len<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<u64, Abort> {
        self.as_bytes().len(tx)
    }

    /// Whether there is no text.
    ///
    /// # Errors
    /// As [`PBytes::len`].
    pub fn is_empty<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<bool, Abort> {
        self.as_bytes().is_empty(tx)
    }

    /// Replaces the text.
    ///
    /// # Errors
    /// As [`PBytes::set`].
    pub fn set<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>, text: &str) -> Result<(), Abort> {
        self.as_bytes().set(tx, text.as_bytes())
    }

    /// Adds text behind the last.
    ///
    /// # Errors
    /// As [`PBytes::set`].
    pub fn push_str<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        text: &str,
    ) -> Result<(), Abort> {
        self.as_bytes().extend(tx, text.as_bytes())
    }

    /// Gives the blocks back.
    ///
    /// # Errors
    /// As [`PBytes::free`].
    pub fn free<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        self.as_bytes().free(tx)
    }
}
