//! The typed API's own bytes in a pool. Integers are little-endian, offsets are bytes from
//! the start of the pool, and an item's bytes are those of its `Persist`.
//!
//! ```text
//! typed root (General; the root object)   vector header (General)
//!  0   8  ROOT_MAGIC                        0   8  VEC_MAGIC
//!  8   8  fingerprint of the schema         8   8  number of items
//! 16   8  text of the schema (Value)       16 240  30 segments: block offsets, 0 for none
//! 24   8  its length, bytes
//! 32   8  bytes of the value               segment 0 holds as many items as fit into a line,
//! 40  24  zero                             rounded down to a power of two, but one at least;
//! 64   …  value                            segment 1 as many; others twice as many as before
//!
//! bytes header (General)                   queue header (General)
//!  0   8  BYTES_MAGIC                       0   8  QUEUE_MAGIC
//!  8   8  length, bytes                     8   8  items ever pushed
//! 16   8  block (Value), 0: inline         16   8  last segment, 0 when there is none
//! 24   8  bytes of that block              24   8  items ever popped
//! 32  32  up to 32 bytes, inline           32   8  first segment, 0 when there is none
//!                                          40  24  zero
//! queue segment (General)
//!  0   8  next segment, 0 for the last     item n of a queue lies in its segment at place
//!  8   …  items                            n modulo the items of a segment
//! ```

pub(crate) const ROOT_MAGIC: u64 = u64::from_le_bytes(*b"OutlTyp1");
pub(super) const VEC_MAGIC: u64 = u64::from_le_bytes(*b"OutlVec1");
pub(super) const BYTES_MAGIC: u64 = u64::from_le_bytes(*b"OutlByt1");
pub(super) const QUEUE_MAGIC: u64 = u64::from_le_bytes(*b"OutlTQu1");

pub(super) const ROOT_HEADER_BYTES: u64 = 64;
pub(super) const ROOT_FINGERPRINT_AT: usize = 8;
pub(super) const ROOT_TEXT_AT: usize = 16;
pub(super) const ROOT_TEXT_LEN_AT: usize = 24;
pub(super) const ROOT_VALUE_BYTES_AT: usize = 32;
/// Longer schemas are damage.
pub(super) const SCHEMA_BYTES_MAX: u64 = 1 << 20;

pub(super) const VEC_LEN_AT: usize = 8;
pub(super) const VEC_SEGMENTS_AT: usize = 16;
pub(super) const VEC_SEGMENTS: usize = 30;
pub(super) const VEC_HEADER_BYTES: usize = 256;

pub(super) const BYTES_LEN_AT: usize = 8;
pub(super) const BYTES_BLOCK_AT: usize = 16;
pub(super) const BYTES_CAPACITY_AT: usize = 24;
pub(super) const BYTES_INLINE_AT: usize = 32;
pub(super) const BYTES_INLINE_MAX: usize = 32;
pub(super) const BYTES_HEADER_BYTES: usize = 64;

pub(super) const QUEUE_PUSHED_AT: usize = 8;
pub(super) const QUEUE_LAST_AT: usize = 16;
pub(super) const QUEUE_POPPED_AT: usize = 24;
pub(super) const QUEUE_FIRST_AT: usize = 32;
pub(super) const QUEUE_HEADER_BYTES: usize = 64;
pub(super) const QUEUE_ITEMS_AT: u64 = 8;
/// Bytes of a segment of a queue, about.
pub(super) const QUEUE_SEGMENT_BYTES: usize = 1024;

const _: () = {
    assert!(VEC_SEGMENTS_AT + 8 * VEC_SEGMENTS == VEC_HEADER_BYTES);
    assert!(BYTES_INLINE_AT + BYTES_INLINE_MAX == BYTES_HEADER_BYTES);
    assert!(QUEUE_FIRST_AT + 8 <= QUEUE_HEADER_BYTES);
    assert!(ROOT_VALUE_BYTES_AT + 8 <= ROOT_HEADER_BYTES as usize);
};
