//! Values with nothing in them, from which a program starts.

use super::{
    Checked, Handle, Key, PBytes, PMap, PQueue, PString, PVec, Persist, Structure, TypedTx,
};
use crate::{Abort, Transact};

/// A type with an empty form: collections and text without content, numbers and bytes of zero, `false`, `None`.
///
/// A struct with `#[derive(Persist)]` has one where each of its fields has, so that a program's first opening is one
/// line: [`TypedTx::root_or_new`]. A field without one, such as a `Checked` enumeration or a `PBox`, leaves its struct without,
/// and [`TypedTx::root_or_insert_with`] takes a function that makes the struct.
///
/// ```
/// use outlast::typed::{Empty, PBTreeMap, PString, Persist, TypedTx};
/// use outlast::{Abort, Transact};
///
/// #[derive(Clone, Copy, Persist)]
/// #[repr(C)]
/// struct Diary<'id> {
///     days: PBTreeMap<'id, u32, PString<'id>>,
///     written: u64,
/// }
///
/// fn fresh<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Diary<'id>, Abort> {
///     let diary = Diary::empty(tx)?;
///     assert_eq!((diary.days.len(tx)?, diary.written), (0, 0));
///     Ok(diary)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no empty form",
    label = "no empty form",
    note = "collections, text, numbers, arrays of these, `Option` and `Checked<bool>` have one, and structs of these with `#[derive(Persist)]`; for others `root_or_insert_with` takes a function that makes the value"
)]
pub trait Empty<'id>: Sized {
    /// The empty value. Collections among it are new.
    ///
    /// # Errors
    /// Those of the transaction.
    fn empty<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort>;
}

macro_rules! zeros {
    ($($scalar:ident)*) => {$(
        impl<'id> Empty<'id> for $scalar {
            fn empty<X: Transact>(_: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
                Ok(Self::default())
            }
        }
    )*};
}

zeros! { u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64 }

impl<'id> Empty<'id> for () {
    fn empty<X: Transact>(_: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        Ok(())
    }
}

impl<'id> Empty<'id> for Checked<bool> {
    fn empty<X: Transact>(_: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        Ok(false.into())
    }
}

impl<'id, H: Handle<'id>> Empty<'id> for Option<H> {
    fn empty<X: Transact>(_: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        Ok(None)
    }
}

impl<'id, T: Persist<'id> + Empty<'id>, const N: usize> Empty<'id> for [T; N] {
    fn empty<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        let mut items = [None; N];
        for item in &mut items {
            *item = Some(T::empty(tx)?);
        }
        Ok(items.map(|item| item.expect("each was made")))
    }
}

impl<'id> Empty<'id> for PBytes<'id> {
    fn empty<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        Self::new(tx, &[])
    }
}

impl<'id> Empty<'id> for PString<'id> {
    fn empty<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        Self::new(tx, "")
    }
}

impl<'id, T: Persist<'id>> Empty<'id> for PVec<'id, T> {
    fn empty<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        Self::new(tx)
    }
}

impl<'id, T: Persist<'id>> Empty<'id> for PQueue<'id, T> {
    fn empty<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        Self::new(tx)
    }
}

impl<'id, D, K, V> Empty<'id> for PMap<'id, D, K, V>
where
    D: Structure<K>,
    K: Key + ?Sized,
    V: Persist<'id>,
{
    fn empty<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        Self::new(tx)
    }
}
