//! Allocation classes: which block sizes PMDK hands out to us.
//!
//! PMDK's default classes put a 16-byte header in front of each block, so data starts 16 bytes
//! into a line: [`Transact::alloc`](outlast::Transact::alloc)'s promise of whole lines would
//! fail, and every block would touch one line more. Its manual recommends custom classes without
//! headers for speed and compactness; these are registered whenever a pool is opened, before any
//! use, as the manual asks. They are a run-time property of the library: the pool's format is
//! PMDK's own.

use std::ffi::{CString, c_uint, c_void};

use crate::api::{AllocClass, Api, HEADER_NONE, RawPool, class_flag};

/// PMDK reserves the identities below this one.
const FIRST_ID: u8 = 128;

/// The largest block of a class: PMDK 1.12 finds no room for classes beyond.
const CLASS_BYTES_MAX: u64 = 1 << 20;

/// Sizes above 512 bytes grow by this many steps per doubling beyond [`FINE_END`]...
const COARSE_STEPS: u64 = 4;
/// ... and by this many below it, where most blocks of a store are.
const FINE_STEPS: u64 = 8;
const FINE_END: u64 = 4096;

/// How many blocks PMDK's own classes try to fetch from the heap at once.
const BLOCKS_PER_FETCH: u64 = 200;
/// PMDK's unit of growth.
const CHUNK_BYTES: u64 = 256 << 10;
/// Large blocks are fetched in fewer numbers, so that a pool is not eaten by one of a kind.
const FETCH_BYTES_MAX: u64 = 2 << 20;

/// The block size that a request of `bytes` gets: multiples of 16 below 64, of 64 from there on,
/// so that no block of 64 bytes or more shares a line.
pub(crate) fn block_bytes(bytes: u64) -> u64 {
    let bytes = bytes.max(1);
    if bytes <= 48 {
        return bytes.next_multiple_of(16);
    }
    if bytes <= 512 {
        return bytes.next_multiple_of(64);
    }
    let doubling = 1 << (63 - (bytes - 1).leading_zeros());
    let steps = if doubling < FINE_END { FINE_STEPS } else { COARSE_STEPS };
    bytes.next_multiple_of(doubling / steps)
}

/// Every block size, ascending. PMDK has identities for 127 of them.
fn sizes() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(16), |last| Some(block_bytes(last + 1)))
        .take_while(|size| *size <= CLASS_BYTES_MAX)
}

/// The classes of an open pool.
#[derive(Default)]
pub(crate) struct Classes {
    sizes: Vec<u64>,
}

impl Classes {
    /// Registers every class with the library.
    ///
    /// # Errors
    /// The size whose class the library refused.
    ///
    /// # Safety
    /// `pool` is open, and no transaction has run on it yet.
    pub unsafe fn register(api: &Api, pool: *mut RawPool) -> Result<Self, u64> {
        let sizes: Vec<u64> = sizes().collect();
        for (id, &size) in (FIRST_ID..).zip(&sizes) {
            let name = CString::new(format!("heap.alloc_class.{id}.desc")).expect("no zero byte");
            let mut class = describe(id, size);
            // SAFETY: the pool is open by the caller's promise; the name is a C string; the
            // entry point reads and writes one `pobj_alloc_class_desc`, which `class` is.
            let result =
                unsafe { (api.ctl_set)(pool, name.as_ptr(), (&raw mut class).cast::<c_void>()) };
            if result != 0 {
                return Err(size);
            }
        }
        Ok(Self { sizes })
    }

    /// The flag that asks for the class of blocks of `block` bytes, which [`block_bytes`]
    /// returned; none when that is too large for a class.
    #[inline]
    pub fn flag(&self, block: u64) -> Option<u64> {
        let index = self.sizes.binary_search(&block).ok()?;
        Some(class_flag(FIRST_ID + index as u8))
    }
}

fn describe(id: u8, size: u64) -> AllocClass {
    let fetch = (size * BLOCKS_PER_FETCH).clamp(CHUNK_BYTES, FETCH_BYTES_MAX.max(size));
    AllocClass {
        unit_size: size as usize,
        alignment: if size < 64 { 16 } else { 64 },
        units_per_block: (fetch / size) as c_uint,
        header_type: HEADER_NONE,
        class_id: c_uint::from(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_ascend_without_a_gap_and_cover_what_pmdk_can_give() {
        let sizes: Vec<u64> = sizes().collect();
        assert_eq!(sizes[..6], [16, 32, 48, 64, 128, 192]);
        for pair in sizes.windows(2) {
            assert!(pair[0] < pair[1], "{pair:?}");
            assert_eq!(block_bytes(pair[0]), pair[0], "a size is its own class");
            assert_eq!(block_bytes(pair[0] + 1), pair[1]);
            assert_eq!(block_bytes(pair[1] - 1), pair[1]);
        }
        assert_eq!(sizes.last(), Some(&CLASS_BYTES_MAX));
        assert!(sizes.len() <= 127, "PMDK has no room for {} classes", sizes.len());
    }

    #[test]
    fn blocks_waste_at_most_a_quarter_and_align_as_promised() {
        for bytes in (1..70_000).chain((1 << 20)..(1 << 20) + 3) {
            let block = block_bytes(bytes);
            assert!(block >= bytes);
            assert!(block.is_multiple_of(if bytes >= 64 { 64 } else { 16 }), "{bytes}");
            assert!(bytes <= 512 || block - bytes <= bytes / 4, "{bytes} gets {block}");
        }
    }
}
