//! Types whose values can live in a pool.

use super::{Schema, TypedTx};
use crate::{Abort, PoolOffset, Transact};

/// A type whose values can live in a pool of the brand `'id`: a fixed number of bytes, all of which mean
/// something whatever they are, and none of which points to volatile memory or to another pool.
///
/// Integers of fixed size, floats and arrays persist; so do pointers and collections, in the pool
/// they belong to; so does a struct with `#[derive(Persist)]`, whose rules the
/// [module](super) has. A type with invalid bit patterns goes into [`Checked`](super::Checked).
/// `()` persists in no bytes: a map with it as its values is a set.
///
/// An `Option` persists of pointers and collections only, which leave a bit pattern for `None`. An optional number is
/// stored as a number that means none, beside a `Checked<bool>`, or in an `Option<PBox<u64>>`.
///
/// Values are copied out of the pool and back, field by field, little-endian. No program implements
/// this by hand: an implementation that contradicts itself damages what it stores, though never
/// memory.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in this pool",
    label = "not a persistent type",
    note = "integers of fixed size, floats and arrays persist, and `#[repr(C)]` structs with `#[derive(Persist)]`",
    note = "`bool`, `char` and enumerations go into `Checked`; an `Option` persists of pointers and collections only; what owns memory has a cousin: `PBox`, `PVec`, `PString`, `PHashMap`, `PBTreeMap`, `PRbMap`, `PQueue`"
)]
pub trait Persist<'id>: Copy {
    /// Bytes in the pool.
    const SIZE: usize;

    /// Whether values own blocks of their own, which [`free_owned`](Self::free_owned) frees.
    const OWNS: bool = false;

    /// Adds the type to a schema.
    fn describe(schema: &mut Schema);

    /// The value that these bytes are, `SIZE` of them.
    ///
    /// # Panics
    /// With fewer bytes.
    fn decode(bytes: &[u8]) -> Self;

    /// Writes the value's bytes, `SIZE` of them.
    ///
    /// # Panics
    /// With less space.
    fn encode(&self, bytes: &mut [u8]);

    /// Loads the value at `at`.
    ///
    /// # Errors
    /// Those of the transaction.
    #[inline]
    fn load<X: Transact>(tx: &mut X, at: PoolOffset) -> Result<Self, Abort> {
        with_buffer(Self::SIZE, |bytes| {
            tx.load(at, bytes)?;
            Ok(Self::decode(bytes))
        })
    }

    /// Stores the value at `at`.
    ///
    /// # Errors
    /// Those of the transaction.
    #[inline]
    fn store<X: Transact>(&self, tx: &mut X, at: PoolOffset) -> Result<(), Abort> {
        with_bytes(self, |bytes| tx.store(at, bytes))
    }

    /// Frees the blocks that the value owns, and what those own.
    ///
    /// # Errors
    /// Those of the transaction.
    fn free_owned<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        let _ = tx;
        Ok(())
    }

    /// Frees the blocks that the value owns and that `new`, which replaces it, has not in the same place.
    ///
    /// # Errors
    /// Those of the transaction.
    fn free_replaced<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        new: &Self,
    ) -> Result<(), Abort> {
        if !Self::OWNS {
            return Ok(());
        }
        let is_same =
            with_bytes(&self, |old_bytes| with_bytes(new, |new_bytes| old_bytes == new_bytes));
        if is_same { Ok(()) } else { self.free_owned(tx) }
    }
}

/// Values up to this size pass through the stack.
const STACK_BYTES: usize = 256;

/// Calls `body` with `bytes` zero bytes.
#[inline]
pub(super) fn with_buffer<R>(bytes: usize, body: impl FnOnce(&mut [u8]) -> R) -> R {
    if bytes <= STACK_BYTES {
        body(&mut [0; STACK_BYTES][..bytes])
    } else {
        body(&mut vec![0; bytes])
    }
}

/// Calls `body` with the value's bytes.
#[inline]
pub(super) fn with_bytes<'id, T: Persist<'id>, R>(value: &T, body: impl FnOnce(&[u8]) -> R) -> R {
    with_buffer(T::SIZE, |bytes| {
        value.encode(bytes);
        body(bytes)
    })
}

/// Refuses padding where a constant is evaluated. For what `#[derive(Persist)]` generates: `place` says where in which
/// struct the `bytes` bytes are.
///
/// # Panics
/// With any bytes, with a message that says how to fill them.
#[doc(hidden)]
#[track_caller]
pub const fn refuse_padding(bytes: usize, place: &str) {
    if bytes == 0 {
        return;
    }
    // A constant's message has no other arguments than texts.
    let digits = [b'0' + (bytes / 10 % 10) as u8, b'0' + (bytes % 10) as u8];
    let digits = if bytes < 10 { digits.split_at(1).1 } else { &digits };
    let parts: [&[u8]; 7] = [
        b"padding of ",
        digits,
        if bytes == 1 { b" byte " } else { b" bytes " },
        place.as_bytes(),
        b": order the fields from large to small, or fill it with a field `padding: [u8; ",
        digits,
        b"]`",
    ];
    let mut text = [0; 512];
    let (mut at, mut part) = (0, 0);
    while part < parts.len() {
        let mut byte = 0;
        while byte < parts[part].len() && at < text.len() {
            text[at] = parts[part][byte];
            (at, byte) = (at + 1, byte + 1);
        }
        part += 1;
    }
    match std::str::from_utf8(text.split_at(at).0) {
        Ok(text) => panic!("{}", text),
        Err(_) => panic!("padding"),
    }
}

/// Bytes of a field, named by a function that borrows it. For what `#[derive(Persist)]` generates.
#[doc(hidden)]
pub const fn field_bytes<T, F>(field: fn(&T) -> &F) -> usize {
    let _ = field;
    size_of::<F>()
}
