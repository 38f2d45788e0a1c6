//! The bytes of a database in a pool. All words are little-endian.
//!
//! ```text
//! root, 64 bytes            directory               table, 4096 bytes      extent, 64 KiB
//!   0  MAGIC                  8 × entries:            8 × 512:               bytes of the file
//!   8  bytes of the file        a table, or 0           an extent, or 0
//!  16  directory
//!  24  its entries
//!  32  prepared, or 0
//!  40  spilled, or 0
//!
//! prepared
//!   0  bytes of the super-journal's name, which is padded to words; the highest bit is set where extents follow
//!   8  bytes of the file, once it is committed
//!  16  bytes from its start that were never cut off
//!  24  granules
//!  32  the name, padded
//!      for each granule: its number, a block with its bytes
//!      where extents follow: how many; for each its index, the extent, bytes of it that are the file's
//!
//! spilled
//!   0  the next such list, or 0
//!   8  extents
//!  16  the extents
//! ```
//!
//! * **FILE-1** An extent that is 0 reads as zeros.
//! * **FILE-2** Bytes of extents from the file's end on are undefined; what makes the file longer stores all
//!   bytes of extents between the old end and the new one.
//! * **FILE-3** Extents of a spilled list belong to a transaction that has not committed: no table leads to them, and
//!   only changes that are prepared may. The commit that makes some of them the file's frees the others and the lists.
//!   Lists that an opening finds are a crashed transaction's, and are freed once nothing is prepared.

/// The first word of a root: `OUTLSQL1`.
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

/// In the root: the first list of extents that a transaction has stored before its commit.
pub(crate) const SPILLED: u64 = 40;

/// Entries of a new database's directory.
pub(crate) const DIRECTORY_ENTRIES_MIN: usize = 8;

/// Entries of a table.
pub(crate) const TABLE_ENTRIES: usize = 512;

/// Bytes of an extent. It is a chunk of the pools that are created here, so none of it is lost.
pub(crate) const EXTENT_BYTES: u64 = 64 << 10;

/// Bytes of the unit in which changes are kept and compared.
pub(crate) const GRANULE_BYTES: usize = 4096;

/// Extents that are spilled in one transaction of the pool, and so those of a list, at most.
pub(crate) const SPILL_EXTENTS: usize = 32;

/// In the first word of what is prepared: spilled extents belong to it.
pub(crate) const HAS_SPILLED: u64 = 1 << 63;

/// Granules of an extent.
pub(crate) const GRANULES: u64 = EXTENT_BYTES / GRANULE_BYTES as u64;

const _: () = assert!(EXTENT_BYTES.is_multiple_of(GRANULE_BYTES as u64));
const _: () = assert!(PREPARED + 8 <= SPILLED && SPILLED + 8 <= ROOT_BYTES);
