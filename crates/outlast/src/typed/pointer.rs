//! Pointers into a pool: [`PPtr`], which borrows, and [`PBox`], which owns.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU64;

use super::branded::Brand;
use super::scalars::Word;
use super::{Field, Persist, Schema, TypedTx};
use crate::{Abort, BlockKind, PoolOffset, Transact};

/// Where a pointer leads that was never one: outside every pool, so that its use is an
/// [`Abort::BadAddress`].
const NOWHERE: NonZeroU64 = NonZeroU64::new(1 << 63).expect("not zero");

/// A value that is one offset in a pool: pointers and the handles of collections. `Option` of it persists
/// too, with zero for `None`.
#[diagnostic::on_unimplemented(
    message = "`Option<{Self}>` cannot live in a pool: `{Self}` has no bit pattern left for `None`",
    label = "neither a pointer nor a collection",
    note = "store a value that means none, a `Checked<bool>` beside the value, or an `Option<PBox<{Self}>>`"
)]
pub trait Handle<'id>: Persist<'id> + sealed::Sealed {
    /// The handle of what is there.
    #[doc(hidden)]
    fn from_place(at: Place<'id>) -> Self;

    /// Where it leads, under the brand.
    #[doc(hidden)]
    fn place(self) -> Place<'id>;

    /// Where it leads.
    fn offset(self) -> PoolOffset {
        self.place().offset()
    }
}

pub(super) mod sealed {
    /// Handles are this module's.
    pub trait Sealed {}
}

/// An offset under a brand; never zero.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Place<'id> {
    at: NonZeroU64,
    brand: Brand<'id>,
}

impl Place<'_> {
    pub(super) fn new(at: PoolOffset) -> Self {
        Self { at: NonZeroU64::new(at.0).unwrap_or(NOWHERE), brand: PhantomData }
    }

    #[inline]
    pub(super) fn offset(self) -> PoolOffset {
        PoolOffset(self.at.get())
    }
}

/// Implements for a handle, a struct with a `place`, what all handles have in common.
macro_rules! handle {
    (
        $name:ident<$($param:ident $(: ?$sized:ident)?),*>,
        describe $describe:expr, owns $owns:expr, free $free:expr,
        where [$($bounds:tt)*]
    ) => {
        impl<$($param $(: ?$sized)?),*> Clone for $name<'_, $($param),*> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($param $(: ?$sized)?),*> Copy for $name<'_, $($param),*> {}

        impl<$($param $(: ?$sized)?),*> PartialEq for $name<'_, $($param),*> {
            fn eq(&self, other: &Self) -> bool {
                self.place == other.place
            }
        }

        impl<$($param $(: ?$sized)?),*> Eq for $name<'_, $($param),*> {}

        impl<$($param $(: ?$sized)?),*> std::fmt::Debug for $name<'_, $($param),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{} at {}", stringify!($name), self.place.offset())
            }
        }

        impl<$($param $(: ?$sized)?),*> $crate::typed::pointer::sealed::Sealed
            for $name<'_, $($param),*> {}

        impl<'id, $($param $(: ?$sized)?),*> $crate::typed::Handle<'id> for $name<'id, $($param),*>
        where $($bounds)*
        {
            #[inline]
            fn from_place(place: $crate::typed::pointer::Place<'id>) -> Self {
                Self { place, of: std::marker::PhantomData }
            }

            #[inline]
            fn place(self) -> $crate::typed::pointer::Place<'id> {
                self.place
            }
        }

        impl<'id, $($param $(: ?$sized)?),*> $crate::typed::Persist<'id> for $name<'id, $($param),*>
        where $($bounds)*
        {
            const SIZE: usize = 8;
            const OWNS: bool = $owns;

            fn describe(schema: &mut $crate::typed::Schema) {
                $describe(schema);
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                use $crate::typed::scalars::Word;
                let at = $crate::PoolOffset(u64::decode_word(bytes));
                $crate::typed::Handle::from_place($crate::typed::pointer::Place::new(at))
            }

            #[inline]
            fn encode(&self, bytes: &mut [u8]) {
                use $crate::typed::scalars::Word;
                self.place.offset().0.encode_word(bytes);
            }

            #[inline]
            fn load<X: $crate::Transact>(
                tx: &mut X,
                at: $crate::PoolOffset,
            ) -> Result<Self, $crate::Abort> {
                let at = $crate::PoolOffset(tx.load_u64(at)?);
                Ok($crate::typed::Handle::from_place($crate::typed::pointer::Place::new(at)))
            }

            #[inline]
            fn store<X: $crate::Transact>(
                &self,
                tx: &mut X,
                at: $crate::PoolOffset,
            ) -> Result<(), $crate::Abort> {
                tx.store_u64(at, self.place.offset().0)
            }

            fn free_owned<X: $crate::Transact>(
                self,
                tx: &mut $crate::typed::TypedTx<'id, '_, X>,
            ) -> Result<(), $crate::Abort> {
                $free(self, tx)
            }
        }
    };
}
pub(super) use handle;

/// Frees the header block of a collection, whose magic goes first: who still has a handle finds no
/// collection there.
pub(super) fn free_header<X: Transact>(tx: &mut X, header: PoolOffset) -> Result<(), Abort> {
    tx.store_u64(header, 0)?;
    tx.free(header)
}

/// A pointer to a `T` in the pool of brand `'id`: to a block, or to something inside one.
///
/// It is an offset, so it persists, and it is good for as long as what it points to: freeing that
/// is its owner's business. It never leaves its pool: the brand, a lifetime, is refused
/// wherever another pool's is wanted, and outside [`Pool::typed`](crate::Pool::typed).
///
/// `Option<PPtr<T>>` takes 8 bytes too.
#[repr(transparent)]
pub struct PPtr<'id, T> {
    place: Place<'id>,
    of: PhantomData<fn() -> T>,
}

handle! {
    PPtr<T>,
    describe |schema: &mut Schema| {
        schema.word("pointer to ");
        T::describe(schema);
    },
    owns false,
    free |_, _: &mut TypedTx<'id, '_, X>| Ok(()),
    where [T: Persist<'id>]
}

impl<'id, T: Persist<'id>> PPtr<'id, T> {
    pub(super) fn to(at: PoolOffset) -> Self {
        Self { place: Place::new(at), of: PhantomData }
    }

    /// Loads the value.
    ///
    /// # Errors
    /// Those of the transaction.
    #[inline]
    pub fn get<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<T, Abort> {
        T::load(tx.raw(), self.place.offset())
    }

    /// Stores a value over the old one. What the old one owned is not freed: it may just have been
    /// moved elsewhere. [`put`](Self::put) frees it.
    ///
    /// # Errors
    /// Those of the transaction.
    #[inline]
    pub fn set<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>, value: T) -> Result<(), Abort> {
        value.store(tx.raw(), self.place.offset())
    }

    /// Stores a value over the old one, and frees what the old one owned and the new one has not in the same place.
    ///
    /// # Errors
    /// Those of the transaction; [`Abort::BadAddress`] where the old value's blocks were freed before.
    pub fn put<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>, value: T) -> Result<(), Abort> {
        self.replace(tx, value)?.free_replaced(tx, &value)
    }

    /// Stores a value and returns the old one, which is the caller's to free if it owns blocks.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn replace<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>, value: T) -> Result<T, Abort> {
        let old = self.get(tx)?;
        self.set(tx, value)?;
        Ok(old)
    }

    /// Stores what `change` makes of the value, and returns it.
    ///
    /// # Errors
    /// Those of the transaction.
    #[inline]
    pub fn update<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        change: impl FnOnce(T) -> T,
    ) -> Result<T, Abort> {
        let value = change(self.get(tx)?);
        self.set(tx, value)?;
        Ok(value)
    }

    /// A pointer to one field.
    #[inline]
    pub fn at<F: Persist<'id>>(self, field: Field<T, F>) -> PPtr<'id, F> {
        PPtr::to(self.place.offset().plus(field.offset()))
    }
}

impl<'id, T: Persist<'id>, const N: usize> PPtr<'id, [T; N]> {
    /// A pointer to one item.
    ///
    /// # Panics
    /// When `index` is not below `N`.
    #[inline]
    pub fn item(self, index: usize) -> PPtr<'id, T> {
        assert!(index < N, "item {index} of an array of {N}");
        PPtr::to(self.place.offset().plus((index * T::SIZE) as u64))
    }
}

/// Owns a block that holds a `T`.
///
/// Dropping it does nothing: the block is in the pool and stays there, until
/// [`free`](Self::free) or [`into_inner`](Self::into_inner) gives it back, or whatever owns the box
/// is freed.
#[must_use = "its blocks leak unless it is stored in the pool or freed"]
#[repr(transparent)]
pub struct PBox<'id, T> {
    place: Place<'id>,
    of: PhantomData<fn() -> T>,
}

handle! {
    PBox<T>,
    describe |schema: &mut Schema| schema.of_parts("box", &[T::describe]),
    owns true,
    free |this: Self, tx: &mut TypedTx<'id, '_, X>| this.free(tx),
    where [T: Persist<'id>]
}

impl<'id, T: Persist<'id>> PBox<'id, T> {
    /// A new block that holds `value`.
    ///
    /// # Errors
    /// Those of the transaction, [`Abort::OutOfSpace`] and [`Abort::TooLarge`] among them.
    pub fn new<X: Transact>(tx: &mut TypedTx<'id, '_, X>, value: T) -> Result<Self, Abort> {
        let at = tx.raw().alloc(T::SIZE.max(1) as u64, BlockKind::General)?;
        value.store(tx.raw(), at)?;
        Ok(Self { place: Place::new(at), of: PhantomData })
    }

    /// A pointer to the value.
    #[inline]
    pub fn ptr(self) -> PPtr<'id, T> {
        PPtr { place: self.place, of: PhantomData }
    }

    /// As [`PPtr::get`].
    ///
    /// # Errors
    /// Those of the transaction.
    #[inline]
    pub fn get<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<T, Abort> {
        self.ptr().get(tx)
    }

    /// As [`PPtr::set`].
    ///
    /// # Errors
    /// Those of the transaction.
    #[inline]
    pub fn set<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>, value: T) -> Result<(), Abort> {
        self.ptr().set(tx, value)
    }

    /// As [`PPtr::at`].
    #[inline]
    pub fn at<F: Persist<'id>>(self, field: Field<T, F>) -> PPtr<'id, F> {
        self.ptr().at(field)
    }

    /// Gives the block back, and what the value owns. A list of boxes is freed by as many nested
    /// calls, as one of [`Box`]es is dropped: a long one is better taken apart from its front.
    ///
    /// # Errors
    /// Those of the transaction; [`Abort::BadAddress`] when it was freed before.
    pub fn free<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        if T::OWNS {
            self.get(tx)?.free_owned(tx)?;
        }
        tx.raw().free(self.place.offset())
    }

    /// Gives the block back and returns the value, which keeps what it owns.
    ///
    /// # Errors
    /// As [`free`](Self::free).
    pub fn into_inner<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<T, Abort> {
        let value = self.get(tx)?;
        tx.raw().free(self.place.offset())?;
        Ok(value)
    }
}

const _: () = {
    assert!(size_of::<Option<PPtr<'static, u64>>>() == 8);
    assert!(size_of::<Option<PBox<'static, u64>>>() == 8);
};

impl<'id, H: Handle<'id>> Persist<'id> for Option<H> {
    const SIZE: usize = 8;
    const OWNS: bool = H::OWNS;

    fn describe(schema: &mut Schema) {
        schema.word("optional ");
        H::describe(schema);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        from_word(u64::decode_word(bytes))
    }

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        to_word(*self).encode_word(bytes);
    }

    #[inline]
    fn load<X: Transact>(tx: &mut X, at: PoolOffset) -> Result<Self, Abort> {
        tx.load_u64(at).map(from_word)
    }

    #[inline]
    fn store<X: Transact>(&self, tx: &mut X, at: PoolOffset) -> Result<(), Abort> {
        tx.store_u64(at, to_word(*self))
    }

    fn free_owned<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        self.map_or(Ok(()), |handle| handle.free_owned(tx))
    }
}

#[inline]
fn from_word<'id, H: Handle<'id>>(word: u64) -> Option<H> {
    (word != 0).then(|| H::from_place(Place::new(PoolOffset(word))))
}

#[inline]
fn to_word<'id, H: Handle<'id>>(handle: Option<H>) -> u64 {
    handle.map_or(0, |handle| handle.offset().0)
}

impl fmt::Debug for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.offset())
    }
}
