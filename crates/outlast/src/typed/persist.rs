//! Types whose values can live in a pool.

use super::{Schema, TypedTx};
use crate::{Abort, PoolOffset, Transact};

/// A type whose values can live in a pool of the brand `'id`: a fixed number of bytes, all of which mean
/// something whatever they are, and none of which points to volatile memory or to another pool.
///
/// Integers of fixed size, floats and arrays persist; so do pointers and collections, in the pool
/// they belong to; so does a struct with `#[derive(Persist)]`, whose rules the
/// [module](super) has. A type with invalid bit patterns goes into [`Checked`](super::Checked).
///
/// Values are copied out of the pool and back, field by field, little-endian. No program implements
/// this by hand: an implementation that contradicts itself damages what it stores, though never
/// memory.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in this pool",
    label = "not a persistent type",
    note = "integers of fixed size, floats and arrays persist, and `#[repr(C)]` structs with `#[derive(Persist)]`",
    note = "`bool`, `char` and enumerations go into `Checked`; what owns memory has a cousin: `PBox`, `PVec`, `PString`, `PHashMap`, `PBTreeMap`, `PRbMap`, `PQueue`"
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

/// Bytes of a field, named by a function that borrows it. For what `#[derive(Persist)]` generates.
#[doc(hidden)]
pub const fn field_bytes<T, F>(field: fn(&T) -> &F) -> usize {
    let _ = field;
    size_of::<F>()
}
