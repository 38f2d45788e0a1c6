//! Whether a file's bytes lie in memory, so that flushing caches is all that durability asks.

use std::path::Path;

/// Whether the file system at `path` maps memory itself: DAX, or memory that emulates it.
#[cfg(target_os = "linux")]
pub(crate) fn is_memory(path: &Path) -> std::io::Result<bool> {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statfs, statx};

    /// From `linux/magic.h`.
    const TMPFS_MAGIC: u64 = 0x0102_1994;
    const RAMFS_MAGIC: u64 = 0x8584_58f6;
    const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

    #[allow(clippy::unnecessary_cast, reason = "the field's type differs between processors")]
    let kind = statfs(path)?.f_type as u64 & 0xffff_ffff;
    if [TMPFS_MAGIC, RAMFS_MAGIC, HUGETLBFS_MAGIC].contains(&kind) {
        return Ok(true);
    }
    let facts = statx(CWD, path, AtFlags::empty(), StatxFlags::TYPE)?;
    Ok(facts.stx_attributes.contains(StatxAttributes::DAX))
}

/// Elsewhere it is unknown, and libpmemobj does not exist anyway.
#[cfg(not(target_os = "linux"))]
pub(crate) fn is_memory(_path: &Path) -> std::io::Result<bool> {
    Ok(false)
}
