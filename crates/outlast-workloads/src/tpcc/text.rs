//! The text columns, each determined by the row's key, and names.

use crate::Random;

/// Bytes of a name and an address, as warehouses and districts have them.
pub(crate) const PLACE_BYTES: usize = NAME_BYTES + ADDRESS_BYTES;
/// Bytes of W_NAME and D_NAME.
pub(crate) const NAME_BYTES: usize = 10;
const ADDRESS_BYTES: usize = 20 + 20 + 20 + 2 + 9;
/// Bytes of S_DIST_xx and OL_DIST_INFO.
pub(crate) const DIST_BYTES: usize = 24;
/// Bytes of I_DATA and S_DATA.
pub(crate) const BRAND_BYTES: usize = 50;
/// Bytes of I_NAME.
pub(crate) const ITEM_NAME_BYTES: usize = 24;
/// Bytes of C_LAST and of C_FIRST.
pub const PERSON_BYTES: usize = 16;
/// Bytes of C_DATA.
pub(crate) const DATA_BYTES: usize = 500;

/// Where streams of the texts of different tables start.
#[derive(Clone, Copy)]
pub(crate) enum Of {
    Warehouse,
    District,
    Customer,
    Item,
    Stock,
    Dist,
}

/// The random numbers of one row's text.
pub(crate) fn random(of: Of, key: u64) -> Random {
    Random::stream(0x5450_4343 + of as u64, key)
}

/// Fills `out` with letters and digits.
pub fn letters(random: &mut Random, out: &mut [u8]) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 -";
    for piece in out.chunks_mut(10) {
        let mut bits = random.next_u64();
        for byte in piece {
            *byte = ALPHABET[(bits & 63) as usize];
            bits >>= 6;
        }
    }
}

/// A text of at least `min` bytes, at most as many as fit, with zeros behind.
pub(crate) fn text(random: &mut Random, min: usize, out: &mut [u8]) {
    let len = min + random.below((out.len() - min) as u64 + 1) as usize;
    letters(random, &mut out[..len]);
    out[len..].fill(0);
}

fn digits(random: &mut Random, out: &mut [u8]) {
    out.iter_mut().for_each(|byte| *byte = b'0' + random.below(10) as u8);
}

/// Two streets, a city, a state and a ZIP code.
pub(crate) fn address(random: &mut Random, out: &mut [u8]) {
    let (streets, rest) = out.split_at_mut(60);
    streets.chunks_mut(20).for_each(|line| text(random, 10, line));
    let (state, zip) = rest.split_at_mut(2);
    letters(random, state);
    digits(random, &mut zip[..4]);
    zip[4..].copy_from_slice(b"11111");
}

/// W_NAME or D_NAME, with the address behind it where there is room.
pub(crate) fn place(of: Of, key: u64, out: &mut [u8]) {
    let mut random = random(of, key);
    let (name, rest) = out.split_at_mut(NAME_BYTES);
    text(&mut random, 6, name);
    if !rest.is_empty() {
        address(&mut random, rest);
    }
}

/// S_DIST_xx, and OL_DIST_INFO of the lines that take from this stock for that district.
pub(crate) fn dist(stock: u64, d: u64, out: &mut [u8]) {
    letters(&mut random(Of::Dist, stock | d << 40), out);
}

/// I_DATA or S_DATA: one in ten says that it is an original.
pub(crate) fn brand(random: &mut Random, out: &mut [u8]) {
    const ORIGINAL: &[u8] = b"ORIGINAL";
    text(random, 26, out);
    if random.below(10) == 0 {
        let at = random.below((26 - ORIGINAL.len()) as u64 + 1) as usize;
        out[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
}

/// The last name of that number, below a thousand, zeros behind.
pub fn last_name(number: u64) -> [u8; PERSON_BYTES] {
    const SYLLABLES: [&str; 10] =
        ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
    let mut name = [0; PERSON_BYTES];
    let mut len = 0;
    for digit in [number / 100, number / 10 % 10, number % 10] {
        let syllable = SYLLABLES[digit as usize].as_bytes();
        name[len..len + syllable.len()].copy_from_slice(syllable);
        len += syllable.len();
    }
    name
}

/// C_FIRST, C_MIDDLE, the address and C_PHONE, the first of which also serves the index of names.
pub(crate) fn first_name(key: u64) -> [u8; PERSON_BYTES] {
    let mut first = [0; PERSON_BYTES];
    text(&mut random(Of::Customer, key), 8, &mut first);
    first
}

/// C_PHONE.
pub(crate) fn phone(random: &mut Random, out: &mut [u8]) {
    digits(random, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_those_of_the_specification() {
        assert_eq!(&last_name(371), b"PRICALLYOUGHT\0\0\0");
        assert_eq!(&last_name(40), b"BARPRESBAR\0\0\0\0\0\0");
        assert_eq!(&last_name(777)[..15], b"CALLYCALLYCALLY");
    }

    #[test]
    fn one_brand_in_ten_is_original() {
        let mut random = Random::new(1);
        let mut brand_of = || {
            let mut out = [0; BRAND_BYTES];
            brand(&mut random, &mut out);
            out
        };
        let is_original = |brand: [u8; BRAND_BYTES]| brand.windows(8).any(|w| w == b"ORIGINAL");
        let originals = (0..10_000).filter(|_| is_original(brand_of())).count();
        assert!((880..1_120).contains(&originals), "{originals}");
    }
}
