//! Blocks too large for an allocation class.
//!
//! PMDK gives those a header and starts them 16 bytes into a line. We ask for a page more, hand
//! out the first whole page, and leave a mark right before it that leads back to what PMDK knows
//! the block by.
//!
//! ```text
//! PMDK's object          data - 24   data - 16  data - 8   data, a multiple of 4096
//! | (slack)              | MAGIC     | uuid     | object   | ...
//! ```

/// Bytes that a large block needs beside its own.
pub(crate) const EXTRA_BYTES: u64 = ALIGN + MARK_BYTES;
/// The bytes of a mark.
pub(crate) const MARK_BYTES: u64 = 24;

const ALIGN: u64 = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"large at");

/// Where the data of a block starts that PMDK put at `object`.
pub(crate) fn data_of(object: u64) -> u64 {
    (object + MARK_BYTES).next_multiple_of(ALIGN)
}

/// Whether a block at `data` can be a large one. Rarely true of others, so that the memory in
/// front of those is rarely looked at.
pub(crate) fn may_be_large(data: u64) -> bool {
    data.is_multiple_of(ALIGN)
}

/// The mark in front of the data of `object`.
pub(crate) fn mark(uuid_lo: u64, object: u64) -> [u8; MARK_BYTES as usize] {
    let mut mark = [0; MARK_BYTES as usize];
    for (place, word) in mark.chunks_exact_mut(8).zip([MAGIC, uuid_lo, object]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    mark
}

/// The object whose mark this is, if it is the mark of the block at `data`. Bytes of another
/// block can only look so if a forger wants them to.
pub(crate) fn object_of(bytes: &[u8; MARK_BYTES as usize], uuid_lo: u64, data: u64) -> Option<u64> {
    let object = u64::from_le_bytes(bytes[16..].try_into().expect("eight bytes"));
    let plausible = object < data && data_of(object) == data;
    (plausible && *bytes == mark(uuid_lo, object)).then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_leads_back_to_its_object_and_to_no_other() {
        for object in [16, 4000, 4071, 4072, 4073, 0x3c_2410] {
            let data = data_of(object);
            assert!(may_be_large(data));
            assert!(data >= object + MARK_BYTES && data - object <= EXTRA_BYTES);
            assert_eq!(object_of(&mark(7, object), 7, data), Some(object));
            assert_eq!(object_of(&mark(7, object), 8, data), None, "another pool's");
            assert_eq!(object_of(&mark(7, object), 7, data + ALIGN), None, "another block's");
        }
        assert_eq!(object_of(&[0; 24], 0, 4096), None);
        assert_eq!(object_of(&[0xff; 24], u64::MAX, 4096), None);
    }
}
