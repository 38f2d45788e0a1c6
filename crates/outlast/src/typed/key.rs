//! Keys of maps.

use super::Schema;

/// A type whose values are keys of [`PHashMap`](super::PHashMap) and
/// [`PBTreeMap`](super::PBTreeMap), some of them also of [`PRbMap`](super::PRbMap): integers of fixed size, `[u8; N]`, pairs and triples of
/// these, and `str` and `[u8]` of up to 65,535 bytes.
///
/// A map copies its keys from references, so it is declared with `str` and not with `String`: `PHashMap<'id, str, u64>`,
/// `map.get(tx, "key")`.
///
/// A key is stored as bytes that compare as the values do: integers with the highest byte first,
/// negative ones below positive ones.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no key of a persistent map",
    label = "not a key",
    note = "keys are integers of fixed size, `[u8; N]`, pairs and triples of these, `str` and `[u8]`",
    note = "a map copies its keys from references: in place of `String` it is declared with `str`, in place of `Vec<u8>` with `[u8]`"
)]
pub trait Key: ToOwned {
    /// Bytes of each key, where all have the same.
    #[doc(hidden)]
    const SAME_BYTES: Option<usize> = None;

    /// Adds the type to a schema.
    fn describe(schema: &mut Schema);

    /// Calls `body` with the key's bytes.
    fn with_bytes<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R;

    /// The key that these bytes are, if they are one.
    fn from_bytes(bytes: &[u8]) -> Option<Self::Owned>;
}

/// Keys that all take the same number of bytes, so that what follows one begins at a fixed place.
pub trait FixedKey: Key + Copy {
    /// Bytes of the key.
    const BYTES: usize;
}

macro_rules! integers {
    ($($integer:ident flips $flip:expr;)*) => {$(
        impl Key for $integer {
            const SAME_BYTES: Option<usize> = Some(<Self as FixedKey>::BYTES);

            fn describe(schema: &mut Schema) {
                schema.word(stringify!($integer));
            }

            #[inline]
            fn with_bytes<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
                body(&(*self ^ $flip).to_be_bytes())
            }

            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                Some(Self::from_be_bytes(bytes.try_into().ok()?) ^ $flip)
            }
        }

        impl FixedKey for $integer {
            const BYTES: usize = size_of::<Self>();
        }
    )*};
}

integers! {
    u8 flips 0;
    u16 flips 0;
    u32 flips 0;
    u64 flips 0;
    u128 flips 0;
    i8 flips Self::MIN;
    i16 flips Self::MIN;
    i32 flips Self::MIN;
    i64 flips Self::MIN;
    i128 flips Self::MIN;
}

impl<const N: usize> Key for [u8; N] {
    const SAME_BYTES: Option<usize> = Some(N);

    fn describe(schema: &mut Schema) {
        schema.array(N as u64, |schema| schema.word("u8"));
    }

    #[inline]
    fn with_bytes<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
        body(self)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok()
    }
}

impl<const N: usize> FixedKey for [u8; N] {
    const BYTES: usize = N;
}

impl Key for [u8] {
    fn describe(schema: &mut Schema) {
        schema.word("bytes");
    }

    #[inline]
    fn with_bytes<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
        body(self)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
}

impl Key for str {
    fn describe(schema: &mut Schema) {
        schema.word("text");
    }

    #[inline]
    fn with_bytes<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
        body(self.as_bytes())
    }

    fn from_bytes(bytes: &[u8]) -> Option<String> {
        str::from_utf8(bytes).ok().map(str::to_owned)
    }
}

macro_rules! tuples {
    ($(($($part:ident $index:tt),*);)*) => {$(
        impl<$($part: FixedKey<Owned = $part>),*> Key for ($($part,)*) {
            const SAME_BYTES: Option<usize> = Some(<Self as FixedKey>::BYTES);

            fn describe(schema: &mut Schema) {
                let parts = [$($part::describe),*];
                for (i, part) in parts.iter().enumerate() {
                    schema.word(if i == 0 { "(" } else { ", " });
                    part(schema);
                }
                schema.word(")");
            }

            fn with_bytes<R>(&self, body: impl FnOnce(&[u8]) -> R) -> R {
                let mut bytes = Vec::with_capacity(Self::BYTES);
                $(self.$index.with_bytes(|part| bytes.extend_from_slice(part));)*
                body(&bytes)
            }

            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let mut rest = bytes;
                let key = ($({
                    let (part, behind) = rest.split_at_checked($part::BYTES)?;
                    rest = behind;
                    $part::from_bytes(part)?
                },)*);
                rest.is_empty().then_some(key)
            }
        }

        impl<$($part: FixedKey<Owned = $part>),*> FixedKey for ($($part,)*) {
            const BYTES: usize = 0 $(+ $part::BYTES)*;
        }
    )*};
}

tuples! {
    (A 0, B 1);
    (A 0, B 1, C 2);
}
