//! Rows of tables: a stamp, numbers that it vouches for, and text that follows from both.
//!
//! ```text
//! row   0  8  stamp: the version, with a check over it, the row's key and all its numbers
//!       8  …  numbers, those that may change first
//!       …  …  text
//! ```
//!
//! So an update stores one short range, the stamp and the changed numbers, and a row of which
//! only a part is new is recognised by itself.

use crate::Version;
use crate::content::{stamp, unstamp};
use outlast_trace::mix;

/// Bytes of the stamp.
pub(crate) const STAMP_BYTES: usize = 8;

/// The stamp of a row with these numbers. `fact` is its key among the facts.
#[inline]
pub(crate) fn seal(fact: u64, version: Version, numbers: &[u8]) -> [u8; STAMP_BYTES] {
    stamp(fact ^ digest(numbers), version).to_le_bytes()
}

/// The version of a row that starts with its stamp, if the stamp is one of these numbers.
#[inline]
pub(crate) fn unseal(fact: u64, row: &[u8], numbers: &[u8]) -> Option<Version> {
    let word = u64::from_le_bytes(*row.first_chunk()?);
    unstamp(fact ^ digest(numbers), word)
}

/// A number that two contents hardly share.
#[inline]
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    let sum = words
        .fold(bytes.len() as u64, |sum, word| (sum.rotate_left(23) ^ word).wrapping_mul(FACTOR));
    mix(sum)
}

/// Writes numbers one behind the other.
pub(crate) struct Put<'a>(pub(crate) &'a mut [u8]);

/// Reads numbers one behind the other.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

macro_rules! numbers {
    ($($name:ident)*) => {
        impl Put<'_> {
            $(#[inline]
            pub(crate) fn $name(&mut self, number: $name) {
                self.bytes(&number.to_le_bytes());
            })*
        }

        impl Take<'_> {
            $(#[inline]
            pub(crate) fn $name(&mut self) -> $name {
                $name::from_le_bytes(*self.array())
            })*
        }
    };
}

numbers!(u8 u16 u32 u64 i32 i64);

impl Put<'_> {
    /// Writes bytes as they are.
    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let (head, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.0 = rest;
    }
}

impl<'a> Take<'a> {
    fn array<const N: usize>(&mut self) -> &'a [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect("a row holds all its numbers");
        self.0 = rest;
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_of_one_row_with_its_numbers() {
        let mut numbers = *b"nineteen bytes long";
        let row = seal(5, Version(7), &numbers);
        assert_eq!(unseal(5, &row, &numbers), Some(Version(7)));
        assert_eq!(unseal(6, &row, &numbers), None);
        assert_eq!(unseal(5, &row, &numbers[..18]), None);
        numbers[18] ^= 1;
        assert_eq!(unseal(5, &row, &numbers), None);
    }

    #[test]
    fn numbers_are_taken_as_they_were_put() {
        let mut bytes = [0; 15];
        let mut put = Put(&mut bytes);
        put.u16(513);
        put.i64(-3);
        put.i32(-70_000);
        put.u8(9);
        assert!(put.0.is_empty());
        let mut take = Take(&bytes);
        assert_eq!((take.u16(), take.i64(), take.i32(), take.u8()), (513, -3, -70_000, 9));
    }
}
