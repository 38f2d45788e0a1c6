//! Records: their keys, what their values hold, and how that lies in the store.

use outlast::collections::load_value;
use outlast::{Abort, ByteRange, Transact};

use super::torn;
use crate::content::{fill, key_of};
use crate::zipf::fnv_hash;
use crate::{Scale, Version};

/// The key of a record: `user` and the hash of its number, in decimal.
#[derive(Clone, Copy)]
pub(crate) struct KeyName {
    bytes: [u8; Self::BYTES_MAX],
    start: usize,
}

impl AsRef<[u8]> for KeyName {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

impl KeyName {
    const PREFIX: &'static [u8; 4] = b"user";
    const DIGITS_MAX: usize = 20;
    const BYTES_MAX: usize = Self::PREFIX.len() + Self::DIGITS_MAX;

    #[inline]
    pub(crate) fn of(record: u64) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        let hash = fnv_hash(record);
        // Three chains of divisions that do not wait for each other.
        let (high, low) = (hash / 100_000_000, hash % 100_000_000);
        let (top, middle) = (high / 100_000_000, high % 100_000_000);
        write_digits(top as u32, &mut bytes[4..8]);
        write_digits(middle as u32, &mut bytes[8..16]);
        write_digits(low as u32, &mut bytes[16..24]);
        let zeros = bytes[4..23].iter().take_while(|&&digit| digit == b'0').count();
        bytes[zeros..zeros + 4].copy_from_slice(Self::PREFIX);
        Self { bytes, start: zeros }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Fills `out` with the decimal digits of a number that has no more than fit.
#[inline]
fn write_digits(mut number: u32, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Writes all fields of a record in one version.
pub(crate) fn fill_record(record: u64, version: Version, scale: &Scale, out: &mut [u8]) {
    let first = record * scale.fields;
    for (key, field) in (first..).zip(out.chunks_exact_mut(scale.field_bytes as usize)) {
        fill(key, version, field);
    }
}

/// The number of the record that a value says it is.
pub(crate) fn record_of(value: &[u8], scale: &Scale) -> Option<u64> {
    key_of(value).map(|key| key / scale.fields)
}

/// The first word of a field's value by its mark: it follows from the version and the key.
#[inline]
pub(crate) fn mark_of(value: &[u8]) -> u64 {
    u64::from_le_bytes(*value.first_chunk().expect("a value of a field has 16 bytes or more"))
}

/// A record as it is stored: its `values` as they are, or in `stored`, with their fields.
pub(crate) fn pack<'r>(scale: &Scale, values: &'r [u8], stored: &'r mut Vec<u8>) -> &'r [u8] {
    match scale.record_fields() {
        None => values,
        Some(fields) => {
            fields.encode(values, |_, value| mark_of(value), stored);
            stored
        }
    }
}

/// The values of a stored record, end to end; `false` when it has other fields, or a mark that is
/// not its value's.
pub(crate) fn unpack(scale: &Scale, stored: &[u8], values: &mut Vec<u8>) -> bool {
    values.clear();
    match scale.record_fields() {
        None => values.extend_from_slice(stored),
        Some(fields) => {
            let Some(decoded) = fields.decode(stored) else { return false };
            for (mark, value) in decoded {
                if mark != mark_of(value) {
                    return false;
                }
                values.extend_from_slice(value);
            }
        }
    }
    true
}

/// Loads the values of the record at `place`, end to end. `stored` is scratch.
#[inline]
pub(crate) fn load_record<T: Transact>(
    tx: &mut T,
    scale: &Scale,
    place: ByteRange,
    stored: &mut Vec<u8>,
    values: &mut Vec<u8>,
) -> Result<(), Abort> {
    if scale.fields_placed.is_none() {
        return load_value(tx, place, values);
    }
    load_value(tx, place, stored)?;
    if unpack(scale, stored, values) { Ok(()) } else { Err(torn(place.at)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_as_ycsb_names_them() {
        for record in (0..2_000).chain([u64::MAX, 1 << 40]) {
            let name = format!("user{}", fnv_hash(record));
            assert_eq!(KeyName::of(record).bytes(), name.as_bytes());
        }
        assert_eq!(KeyName::of(0).bytes(), b"user6284781860667377211");
    }

    #[test]
    fn a_stored_record_is_known_by_its_fields_and_marks() {
        use crate::{Layout, Workload};
        let workload = Workload::named("ycsb-a").unwrap();
        for layout in Layout::ALL {
            let scale = workload.laid_out(&workload.scale(), layout);
            let mut values = vec![0; scale.record_bytes()];
            fill_record(3, Version(9), &scale, &mut values);
            let mut stored = Vec::new();
            let mut stored = pack(&scale, &values, &mut stored).to_vec();
            let mut back = Vec::new();
            assert!(unpack(&scale, &stored, &mut back), "{layout}");
            assert_eq!(back, values, "{layout}");
            let Some(fields) = scale.record_fields() else { continue };
            // A value of one version under the mark of another.
            let mut other = vec![0; scale.field_bytes as usize];
            fill(30 + 4, Version(10), &mut other);
            let place = fields.value(4);
            stored[place.start as usize..place.end as usize].copy_from_slice(&other);
            assert!(!unpack(&scale, &stored, &mut back), "{layout}");
        }
    }

    #[test]
    fn short_hashes_lose_their_leading_zeros() {
        let mut digits = [0; 8];
        write_digits(1_234, &mut digits);
        assert_eq!(&digits, b"00001234");
        // Some of the first million hashes have 17 digits or fewer.
        let short = (0..1_000_000).filter(|&n| fnv_hash(n) < 10u64.pow(17)).collect::<Vec<_>>();
        assert!(short.len() > 1_000);
        for record in short {
            let name = format!("user{}", fnv_hash(record));
            assert_eq!(KeyName::of(record).bytes(), name.as_bytes());
        }
    }
}
