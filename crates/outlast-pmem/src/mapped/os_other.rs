//! File mappings where addresses cannot be reserved ahead: a mapping has the size that its file
//! has when it is opened, and cannot grow.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;

use memmap2::{MmapOptions, MmapRaw};

/// Whether a mapping can grow where it is.
pub(crate) const CAN_GROW: bool = false;

/// How a file is to be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    /// Map for reading and writing, not for reading only.
    pub writable: bool,
    /// Ask for `MAP_SYNC` first: there is none here.
    pub sync: bool,
    /// Fault every page in now: left to the system here.
    pub prefault: bool,
}

/// A mapped file.
pub(crate) struct Mapping {
    map: std::sync::OnceLock<MmapRaw>,
    access: Access,
}

impl Mapping {
    /// Nothing can be reserved here; `extend` maps the file.
    pub fn reserve(_max_len: u64, access: Access) -> io::Result<Self> {
        Ok(Self { map: std::sync::OnceLock::new(), access })
    }

    /// Maps the file's `len` bytes, once. Says that `MAP_SYNC` was not granted.
    pub fn extend(&self, file: &File, len: u64) -> io::Result<bool> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut options = MmapOptions::new();
        options.len(len);
        let map = if self.access.writable {
            options.map_raw(file)?
        } else {
            options.map_raw_read_only(file)?
        };
        assert!(self.map.set(map).is_ok(), "a mapping that cannot grow was extended");
        Ok(false)
    }

    /// Stores go on reaching the file: a mapping cannot be replaced here.
    pub fn detach(&self, _file: &File) {}

    /// The first mapped address, dangling before the file is mapped.
    pub fn base(&self) -> NonNull<u8> {
        self.map.get().and_then(|map| NonNull::new(map.as_mut_ptr())).unwrap_or(NonNull::dangling())
    }

    /// Left to the system here.
    pub fn cache_single_pages(&self) {}

    /// Holes are not looked for here.
    pub fn cover_holes(&self, _file: &File, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Writes the pages that hold `from..to` to the medium and waits for it.
    pub fn sync_pages(&self, file: &File, from: u64, to: u64) -> io::Result<()> {
        if let Some(map) = self.map.get() {
            map.flush_range(from as usize, (to - from) as usize)?;
        }
        file.sync_data()
    }
}

/// The name of the file's file system if it keeps its files in memory only: not asked here.
pub(crate) fn volatile_fs(_file: &File) -> Option<&'static str> {
    None
}

/// Bytes free on the file's file system: not asked here.
pub(crate) fn free_bytes(_file: &File) -> Option<u64> {
    None
}

/// Makes the file `to` bytes long with every block of `from..to` really allocated and zero.
pub(crate) fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    super::locked::write_zeros(file, from, to)
}

/// Holes are not looked for here: a store into one may need space that is not there.
pub(crate) fn may_have_holes(_file: &File, _part: Range<u64>) -> io::Result<bool> {
    Ok(false)
}

/// Not asked here.
pub(crate) fn hole_bytes(_file: &File, _len: u64) -> io::Result<u64> {
    Ok(0)
}

/// Not reached: no hole was found.
pub(crate) fn allocate_holes(_file: &File, _part: Range<u64>) -> io::Result<()> {
    Ok(())
}

/// Blocks stay where holes are not looked for.
pub(crate) fn release(_file: &File, _pages: Range<u64>) {}

/// Left to the system here.
pub(crate) fn forget_cached(_file: &File) {}

/// A store to the mapping does it, and a flush of its pages.
pub(crate) fn write_through(_file: &File, _at: u64, _bytes: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Renames a file, unless something has the new name.
pub(crate) fn rename_onto_nothing(from: &std::path::Path, to: &std::path::Path) -> io::Result<()> {
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

/// Directories need no flush of their own here.
pub(crate) fn sync_directory(_directory: &std::path::Path) -> io::Result<()> {
    Ok(())
}
