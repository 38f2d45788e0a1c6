//! The common part of the hash map and the B+tree.

use crate::{Abort, ByteRange, PoolOffset, Transact};

/// A persistent set of pairs of byte strings with unique keys.
///
/// Every method is one operation inside the caller's transaction and calls
/// [`Transact::will_write`] at most once. Apart from what is listed, each fails with whatever
/// the transaction fails with, and with [`Abort::Damaged`] when what it reads makes no sense.
pub trait Dictionary: Copy {
    /// Where the value of `key` lies. The place is good until this transaction changes the
    /// dictionary, and the bytes may be loaded, announced and stored there.
    fn find<T: Transact>(self, tx: &mut T, key: &[u8]) -> Result<Option<ByteRange>, Abort>;

    /// Sets the value of `key`; whether there was one before.
    ///
    /// # Errors
    /// [`Abort::TooLarge`] for a key above [`KEY_BYTES_MAX`](super::KEY_BYTES_MAX) or a
    /// value above [`VALUE_BYTES_MAX`](super::VALUE_BYTES_MAX).
    fn insert<T: Transact>(self, tx: &mut T, key: &[u8], value: &[u8]) -> Result<bool, Abort>;

    /// Sets the value of `key` unless it has one; whether it was set.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    fn add<T: Transact>(self, tx: &mut T, key: &[u8], value: &[u8]) -> Result<bool, Abort>;

    /// Removes `key` and its value; whether there was one.
    fn remove<T: Transact>(self, tx: &mut T, key: &[u8]) -> Result<bool, Abort>;

    /// Calls `visit` with every key and the place of its value; a tree in the order of keys, a
    /// map in none. `visit` may load and store values but not change the dictionary; whatever it
    /// fails with ends the walk.
    fn for_each<T: Transact>(
        self,
        tx: &mut T,
        visit: impl FnMut(&mut T, &[u8], ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort>;

    /// The number of keys, counted by a walk: no operation keeps a counter that all would share.
    fn len<T: Transact>(self, tx: &mut T) -> Result<u64, Abort> {
        let mut keys = 0;
        self.for_each(tx, |_, _, _| {
            keys += 1;
            Ok(())
        })?;
        Ok(keys)
    }

    /// Copies the value of `key` to `out`, which becomes as long as the value; `false`, and
    /// `out` as it was, when there is none.
    fn get<T: Transact>(self, tx: &mut T, key: &[u8], out: &mut Vec<u8>) -> Result<bool, Abort> {
        let Some(value) = self.find(tx, key)? else { return Ok(false) };
        load_value(tx, value, out)?;
        Ok(true)
    }

    /// Copies the part of the value of `key` that starts at byte `offset` to `out`; `false` when
    /// there is no such key.
    ///
    /// # Errors
    /// [`Abort::BadAddress`] when the value ends before `offset + out.len()`.
    fn read_value<T: Transact>(
        self,
        tx: &mut T,
        key: &[u8],
        offset: u64,
        out: &mut [u8],
    ) -> Result<bool, Abort> {
        let Some(value) = self.find(tx, key)? else { return Ok(false) };
        let part = part(value, offset, out.len())?;
        if part.len > 0 {
            tx.load(part.at, out)?;
        }
        Ok(true)
    }

    /// Overwrites the part of the value of `key` that starts at byte `offset`; `false` when
    /// there is no such key.
    ///
    /// # Errors
    /// [`Abort::BadAddress`] when the value ends before `offset + bytes.len()`.
    fn update_value<T: Transact>(
        self,
        tx: &mut T,
        key: &[u8],
        offset: u64,
        bytes: &[u8],
    ) -> Result<bool, Abort> {
        let Some(value) = self.find(tx, key)? else { return Ok(false) };
        let part = part(value, offset, bytes.len())?;
        if part.len > 0 {
            tx.will_write(&[part])?;
            tx.store(part.at, bytes)?;
        }
        Ok(true)
    }
}

/// Copies a value to `out`, which becomes as long as the value.
///
/// # Errors
/// Those of the transaction.
pub fn load_value<T: Transact>(
    tx: &mut T,
    value: ByteRange,
    out: &mut Vec<u8>,
) -> Result<(), Abort> {
    if value.len as usize > out.len().max(1 << 16) {
        // A damaged length must not cost that much memory before it is noticed.
        tx.load(value.at.plus(value.len - 1), &mut [0])?;
    }
    out.resize(value.len as usize, 0);
    if out.is_empty() { Ok(()) } else { tx.load(value.at, out) }
}

fn part(value: ByteRange, offset: u64, len: usize) -> Result<ByteRange, Abort> {
    let fits = offset.checked_add(len as u64).is_some_and(|end| end <= value.len);
    if !fits {
        let at = PoolOffset(value.at.0.saturating_add(offset));
        let why = "the value ends before that";
        return Err(Abort::bad_address("a part of a value", at, why));
    }
    Ok(ByteRange::new(value.at.plus(offset), len as u64))
}
