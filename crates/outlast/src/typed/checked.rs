//! Types with invalid bit patterns, checked when they are read.

use std::fmt;
use std::marker::PhantomData;

use super::{Persist, Schema};
use crate::Abort;

/// A type whose values are some of the values of an integer, and no others.
///
/// `#[derive(Pattern)]` implements it for an enumeration without data:
///
/// ```
/// use outlast::typed::{Checked, Pattern, Persist};
///
/// #[derive(Clone, Copy, PartialEq, Debug, Pattern)]
/// #[repr(u8)]
/// enum Colour {
///     Red = 1,
///     Green = 4,
/// }
///
/// #[derive(Clone, Copy, Persist)]
/// #[repr(C)]
/// struct Lamp {
///     colour: Checked<Colour>,
///     is_on: Checked<bool>,
/// }
///
/// let lamp = Lamp { colour: Colour::Green.into(), is_on: false.into() };
/// assert_eq!(lamp.colour.get()?, Colour::Green);
/// # Ok::<(), outlast::Abort>(())
/// ```
pub trait Pattern: Copy {
    /// The integer.
    type Bits: for<'id> Persist<'id> + fmt::Debug + PartialEq;

    /// The type's name in a schema.
    const NAME: &'static str;

    /// The values by name, for the schema.
    const VARIANTS: &'static [(&'static str, i128)];

    /// The value's bits.
    fn to_bits(self) -> Self::Bits;

    /// The value with these bits, if there is one.
    fn from_bits(bits: Self::Bits) -> Option<Self>;
}

impl Pattern for bool {
    type Bits = u8;

    const NAME: &'static str = "bool";
    const VARIANTS: &'static [(&'static str, i128)] = &[];

    fn to_bits(self) -> u8 {
        u8::from(self)
    }

    fn from_bits(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Pattern for char {
    type Bits = u32;

    const NAME: &'static str = "char";
    const VARIANTS: &'static [(&'static str, i128)] = &[];

    fn to_bits(self) -> u32 {
        u32::from(self)
    }

    fn from_bits(bits: u32) -> Option<Self> {
        Self::from_u32(bits)
    }
}

/// The bits of a `P`, which can live in a pool whatever they are; [`get`](Self::get) says whether
/// they are a `P`.
#[repr(transparent)]
pub struct Checked<P: Pattern> {
    bits: P::Bits,
    of: PhantomData<fn() -> P>,
}

impl<P: Pattern> Checked<P> {
    /// The bits of `value`.
    pub fn new(value: P) -> Self {
        Self { bits: value.to_bits(), of: PhantomData }
    }

    /// The value.
    ///
    /// # Errors
    /// [`Abort::Damaged`] when the bits are those of no value of the type.
    pub fn get(self) -> Result<P, Abort> {
        P::from_bits(self.bits)
            .ok_or_else(|| Abort::damaged(format!("{:?} is no `{}`", self.bits, P::NAME)))
    }
}

impl<P: Pattern> From<P> for Checked<P> {
    fn from(value: P) -> Self {
        Self::new(value)
    }
}

impl<P: Pattern> Clone for Checked<P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P: Pattern> Copy for Checked<P> {}

impl<P: Pattern> PartialEq for Checked<P> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}

impl<P: Pattern + fmt::Debug> fmt::Debug for Checked<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match P::from_bits(self.bits) {
            Some(value) => value.fmt(f),
            None => write!(f, "{:?}, which is no {}", self.bits, P::NAME),
        }
    }
}

impl<'id, P: Pattern> Persist<'id> for Checked<P> {
    const SIZE: usize = <P::Bits as Persist<'id>>::SIZE;

    fn describe(schema: &mut Schema) {
        schema.pattern(P::NAME, P::VARIANTS, <P::Bits as Persist<'id>>::describe);
    }

    #[inline]
    fn decode(bytes: &[u8]) -> Self {
        Self { bits: <P::Bits as Persist<'id>>::decode(bytes), of: PhantomData }
    }

    #[inline]
    fn encode(&self, bytes: &mut [u8]) {
        <P::Bits as Persist<'id>>::encode(&self.bits, bytes);
    }
}
