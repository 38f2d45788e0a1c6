//! The bytes of a database in a pool. All words are little-endian.
//!
//! ```text
//! root, 64 bytes            directory               table, 4096 bytes      extent, 64 KiB
//!   0  MAGIC                  8 × entries:            8 × 512:               bytes of the file
//!   8  bytes of the file        a table, or 0           an extent, or 0
//!  16  directory
//!  24  its entries
//!  32  prepared, or 0
//!
//! prepared
//!   0  bytes of the super-journal's name, padded to words
//!   8  bytes of the file, once it is committed
//!  16  bytes from its start that were never cut off
//!  24  granules
//!  32  the name, padded
//!      for each granule: its number, a block with its bytes
//! ```
//!
//! * **FILE-1** An extent that is 0 reads as zeros.
//! * **FILE-2** Bytes of extents from the file's end on are undefined; what makes the file longer stores all
//!   bytes of extents between the old end and the new one.

/// What a root begins with: `OUTLSQL1`.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"OUTLSQL1");

/// Bytes of the root.
pub(crate) const ROOT_BYTES: u64 = 64;

/// In the root: how long the file is.
pub(crate) const LEN: u64 = 8;

/// In the root: the block with the offsets of tables.
pub(crate) const DIRECTORY: u64 = 16;

/// In the root: how many offsets that has.
pub(crate) const DIRECTORY_ENTRIES: u64 = 24;

/// In the root: changes that wait for the verdict of a super-journal.
pub(crate) const PREPARED: u64 = 32;

/// Entries of a new database's directory.
pub(crate) const DIRECTORY_ENTRIES_MIN: usize = 8;

/// Entries of a table.
pub(crate) const TABLE_ENTRIES: usize = 512;

/// Bytes of an extent. It is a chunk of the pools that are created here, so none of it is lost.
pub(crate) const EXTENT_BYTES: u64 = 64 << 10;

/// Bytes of the unit in which changes are kept and compared.
pub(crate) const GRANULE_BYTES: usize = 4096;

/// Granules of an extent.
pub(crate) const GRANULES: u64 = EXTENT_BYTES / GRANULE_BYTES as u64;

const _: () = assert!(EXTENT_BYTES.is_multiple_of(GRANULE_BYTES as u64));
const _: () = assert!(PREPARED + 8 <= ROOT_BYTES);
