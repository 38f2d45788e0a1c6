//! Numbers and arrays.

use super::persist::with_buffer;
use super::{Persist, Schema, TypedTx};
use crate::{Abort, PoolOffset, Transact};

/// A decoder has as many bytes as the type takes.
const WHOLE: &str = "a value's bytes are all there";

macro_rules! bytewise {
    ($($scalar:ident)*) => {$(
        impl Persist<'_> for $scalar {
            const SIZE: usize = size_of::<Self>();

            fn describe(schema: &mut Schema) {
                schema.word(stringify!($scalar));
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                Self::from_le_bytes(*bytes.first_chunk().expect(WHOLE))
            }

            #[inline]
            fn encode(&self, bytes: &mut [u8]) {
                *bytes.first_chunk_mut().expect(WHOLE) = self.to_le_bytes();
            }

            #[inline]
            fn load<X: Transact>(tx: &mut X, at: PoolOffset) -> Result<Self, Abort> {
                let mut bytes = [0; size_of::<Self>()];
                tx.load(at, &mut bytes)?;
                Ok(Self::from_le_bytes(bytes))
            }

            #[inline]
            fn store<X: Transact>(&self, tx: &mut X, at: PoolOffset) -> Result<(), Abort> {
                tx.store(at, &self.to_le_bytes())
            }
        }
    )*};
}

bytewise!(u8 u16 u32 u128 i8 i16 i32 i128 f32);

/// Types of 8 bytes go through the transaction's loads and stores of words.
macro_rules! wordwise {
    ($($scalar:ident: $to_word:expr, $from_word:expr;)*) => {$(
        impl Persist<'_> for $scalar {
            const SIZE: usize = 8;

            fn describe(schema: &mut Schema) {
                schema.word(stringify!($scalar));
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                $from_word(u64::decode_word(bytes))
            }

            #[inline]
            fn encode(&self, bytes: &mut [u8]) {
                $to_word(*self).encode_word(bytes);
            }

            #[inline]
            fn load<X: Transact>(tx: &mut X, at: PoolOffset) -> Result<Self, Abort> {
                tx.load_u64(at).map($from_word)
            }

            #[inline]
            fn store<X: Transact>(&self, tx: &mut X, at: PoolOffset) -> Result<(), Abort> {
                tx.store_u64(at, $to_word(*self))
            }
        }
    )*};
}

wordwise! {
    u64: std::convert::identity, std::convert::identity;
    i64: i64::cast_unsigned, u64::cast_signed;
    f64: f64::to_bits, f64::from_bits;
}

/// Words as bytes in a pool.
pub(super) trait Word: Sized {
    fn decode_word(bytes: &[u8]) -> Self;
    fn encode_word(self, bytes: &mut [u8]);
}

impl Word for u64 {
    #[inline]
    fn decode_word(bytes: &[u8]) -> Self {
        Self::from_le_bytes(*bytes.first_chunk().expect(WHOLE))
    }

    #[inline]
    fn encode_word(self, bytes: &mut [u8]) {
        *bytes.first_chunk_mut().expect(WHOLE) = self.to_le_bytes();
    }
}

/// No bytes, which no transaction loads or stores: the values of a set.
impl Persist<'_> for () {
    const SIZE: usize = 0;

    fn describe(schema: &mut Schema) {
        schema.word("()");
    }

    fn decode(_: &[u8]) -> Self {}

    fn encode(&self, _: &mut [u8]) {}

    #[inline]
    fn load<X: Transact>(_: &mut X, _: PoolOffset) -> Result<Self, Abort> {
        Ok(())
    }

    #[inline]
    fn store<X: Transact>(&self, _: &mut X, _: PoolOffset) -> Result<(), Abort> {
        Ok(())
    }
}

impl<'id, T: Persist<'id>, const N: usize> Persist<'id> for [T; N] {
    const SIZE: usize = N * T::SIZE;
    const OWNS: bool = T::OWNS;

    fn describe(schema: &mut Schema) {
        schema.array(N as u64, T::describe);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        std::array::from_fn(|i| T::decode(&bytes[i * T::SIZE..(i + 1) * T::SIZE]))
    }

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        for (i, item) in self.iter().enumerate() {
            item.encode(&mut bytes[i * T::SIZE..(i + 1) * T::SIZE]);
        }
    }

    #[inline]
    fn load<X: Transact>(tx: &mut X, at: PoolOffset) -> Result<Self, Abort> {
        if Self::SIZE == 0 {
            return Ok(Self::decode(&[]));
        }
        with_buffer(Self::SIZE, |bytes| {
            tx.load(at, bytes)?;
            Ok(Self::decode(bytes))
        })
    }

    fn free_owned<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        match T::OWNS {
            true => self.into_iter().try_for_each(|item| item.free_owned(tx)),
            false => Ok(()),
        }
    }

    fn free_replaced<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        new: &Self,
    ) -> Result<(), Abort> {
        match T::OWNS {
            true => self.into_iter().zip(new).try_for_each(|(old, new)| old.free_replaced(tx, new)),
            false => Ok(()),
        }
    }
}
