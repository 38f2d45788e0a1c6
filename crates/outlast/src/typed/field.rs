//! Where a field lies in its struct.

use std::marker::PhantomData;

/// A field of type `F` in a struct `T`. `#[derive(Persist)]` makes one for each field, in the
/// constant `FIELDS` of the struct; [`PPtr::at`](super::PPtr::at) takes it.
pub struct Field<T, F> {
    offset: u64,
    of: PhantomData<fn(T) -> F>,
}

impl<T, F> Field<T, F> {
    /// For what `#[derive(Persist)]` generates.
    #[doc(hidden)]
    pub const fn at_offset(offset: u64) -> Self {
        Self { offset, of: PhantomData }
    }

    /// Bytes from the start of the struct.
    #[inline]
    pub const fn offset(self) -> u64 {
        self.offset
    }

    /// A field of this field.
    #[inline]
    pub const fn then<G>(self, inner: Field<F, G>) -> Field<T, G> {
        Field::at_offset(self.offset + inner.offset)
    }
}

impl<T, F> Clone for Field<T, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, F> Copy for Field<T, F> {}
