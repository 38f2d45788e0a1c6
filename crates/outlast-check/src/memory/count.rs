//! Numbers of images: products of widths, which outgrow every integer type.

use std::fmt;

/// A number of images. Exact up to 128 bits; beyond, known modulo a prime, which still tells
/// whether two sums agree but for a chance of about 2⁻⁶¹.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// The number itself.
    Exact(u128),
    /// Its residue modulo 2⁶¹ − 1; the number has more than 128 bits.
    Residue(u64),
}

const PRIME: u64 = (1 << 61) - 1;

impl Count {
    /// None.
    pub const ZERO: Self = Self::Exact(0);
    /// One.
    pub const ONE: Self = Self::Exact(1);

    /// The number, unless it has more than 128 bits.
    pub fn exact(self) -> Option<u128> {
        match self {
            Self::Exact(n) => Some(n),
            Self::Residue(_) => None,
        }
    }

    /// Whether this number is known to be larger.
    pub(crate) fn exceeds(self, other: Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => a > b,
            (Self::Residue(_), Self::Exact(_)) => true,
            (_, Self::Residue(_)) => false,
        }
    }

    fn residue(self) -> u64 {
        match self {
            Self::Exact(n) => (n % u128::from(PRIME)) as u64,
            Self::Residue(r) => r,
        }
    }

    /// The product with `width`.
    pub fn times(self, width: u64) -> Self {
        if let Self::Exact(n) = self
            && let Some(product) = n.checked_mul(u128::from(width))
        {
            return Self::Exact(product);
        }
        Self::Residue(multiply(self.residue(), width % PRIME))
    }

    /// The sum.
    pub fn plus(self, other: Self) -> Self {
        if let (Self::Exact(a), Self::Exact(b)) = (self, other)
            && let Some(sum) = a.checked_add(b)
        {
            return Self::Exact(sum);
        }
        Self::Residue((self.residue() + other.residue()) % PRIME)
    }

    /// The quotient by `width`, which divides the number.
    pub(crate) fn divided_by(self, width: u64) -> Self {
        match self {
            Self::Exact(n) => Self::Exact(n / u128::from(width)),
            Self::Residue(r) => Self::Residue(multiply(r, inverse(width % PRIME))),
        }
    }

    /// The quotient by `other`, which divides the number.
    pub(crate) fn over(self, other: Self) -> Self {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => Self::Exact(a / b),
            _ => Self::Residue(multiply(self.residue(), inverse(other.residue()))),
        }
    }

    /// The product with another number.
    pub(crate) fn by(self, other: Self) -> Self {
        if let (Self::Exact(a), Self::Exact(b)) = (self, other)
            && let Some(product) = a.checked_mul(b)
        {
            return Self::Exact(product);
        }
        Self::Residue(multiply(self.residue(), other.residue()))
    }

    /// The number less `few`, which is not more.
    pub(crate) fn without(self, few: u64) -> Self {
        match self {
            Self::Exact(n) => Self::Exact(n - u128::from(few)),
            Self::Residue(r) => Self::Residue((r + PRIME - few % PRIME) % PRIME),
        }
    }

    /// Whether there is none. Beyond 128 bits there always is one.
    pub(crate) fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Whether both are the same number, as far as both are known.
    pub fn agrees_with(self, other: Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => a == b,
            _ => self.residue() == other.residue(),
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(n) => write!(f, "{n}"),
            Self::Residue(_) => f.write_str("more than 2^128"),
        }
    }
}

fn multiply(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64
}

/// By Fermat's little theorem.
fn inverse(a: u64) -> u64 {
    let (mut base, mut exponent, mut result) = (a, PRIME - 2, 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, base);
        }
        base = multiply(base, base);
        exponent >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(widths: &[u64]) -> Count {
        widths.iter().fold(Count::ONE, |count, &width| count.times(width))
    }

    #[test]
    fn small_numbers_are_exact() {
        assert_eq!(product(&[2, 3, 7]).exact(), Some(42));
        assert_eq!(product(&[2, 3]).plus(product(&[4])).exact(), Some(10));
        assert_eq!(product(&[2, 3, 7]).divided_by(3).exact(), Some(14));
    }

    #[test]
    fn large_numbers_still_add_up() {
        let widths = [3u64; 100];
        let whole = product(&widths);
        assert_eq!(whole.exact(), None);
        let third = whole.divided_by(3);
        assert!(third.agrees_with(product(&widths[1..])));
        assert!(third.plus(third).plus(third).agrees_with(whole));
        assert!(!third.plus(third).agrees_with(whole));
        assert!(whole.over(third).agrees_with(Count::Exact(3)));
        assert!(third.by(Count::Exact(3)).agrees_with(whole));
        let rest = whole.without(7);
        assert!(rest.plus(Count::Exact(7)).agrees_with(whole) && !rest.agrees_with(whole));
        assert_eq!(whole.to_string(), "more than 2^128");
    }
}
