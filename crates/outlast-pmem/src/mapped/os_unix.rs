//! File mappings on Unix: addresses are reserved once, the file is mapped into them piece by
//! piece as it grows, and the base never moves.

use std::fs::File;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, mmap_anonymous, msync, munmap};

/// Whether a mapping can grow where it is.
pub(crate) const CAN_GROW: bool = true;

/// Mappings start at a multiple of this, so that huge pages can back them.
const BASE_ALIGN: usize = 2 << 20;

/// How a file is to be mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    /// Map for reading and writing, not for reading only.
    pub writable: bool,
    /// Ask for `MAP_SYNC` first.
    pub sync: bool,
    /// Fault every page in now.
    pub prefault: bool,
}

/// A reserved stretch of addresses whose first part is a mapped file.
pub(crate) struct Mapping {
    /// First mapped address.
    base: NonNull<u8>,
    /// What was reserved, with the slack for alignment: `(address, bytes)`.
    reserved: (NonNull<u8>, usize),
    /// Bytes from `base` on that map the file, a multiple of the system's page size.
    mapped: AtomicUsize,
    access: Access,
}

// SAFETY: a mapping is an address range; it belongs to no thread, and what is behind it is
// accessed by atomics and instructions only.
unsafe impl Send for Mapping {}
// SAFETY: as above; `extend` is called under its owner's lock.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `max_len` bytes of addresses. Nothing is mapped yet.
    pub fn reserve(max_len: u64, access: Access) -> io::Result<Self> {
        let bytes = usize::try_from(max_len)
            .ok()
            .and_then(|len| len.checked_next_multiple_of(page_bytes())?.checked_add(BASE_ALIGN))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::empty(), flags)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = start.addr().get().wrapping_neg() % BASE_ALIGN;
        // SAFETY: `skip` is less than the slack that was reserved on top.
        let base = unsafe { start.add(skip) };
        Ok(Self { base, reserved: (start, bytes), mapped: AtomicUsize::new(0), access })
    }

    /// Maps the file's first `len` bytes as far as they are not mapped yet. Says whether the
    /// new part was granted `MAP_SYNC`. Pages that are mapped already stay as they are.
    ///
    /// The caller holds a lock against other calls, and the file has `len` bytes.
    pub fn extend(&self, file: &File, len: u64) -> io::Result<bool> {
        let from = self.mapped.load(Ordering::Relaxed);
        let to = (len as usize).next_multiple_of(page_bytes());
        assert!(to <= self.reserved.1 - BASE_ALIGN, "{len} bytes were not reserved");
        if to <= from {
            return Ok(self.access.sync);
        }
        let granted = self.access.sync && self.map_part(file, from, to, sync_flags()).is_ok();
        if !granted {
            self.map_part(file, from, to, Some(MapFlags::SHARED))?;
        }
        self.mapped.store(to, Ordering::Relaxed);
        Ok(granted)
    }

    fn map_part(
        &self,
        file: &File,
        from: usize,
        to: usize,
        flags: Option<MapFlags>,
    ) -> io::Result<()> {
        let mut flags = flags.ok_or(io::ErrorKind::Unsupported)? | MapFlags::FIXED;
        let mut protection = ProtFlags::READ;
        if self.access.writable {
            protection |= ProtFlags::WRITE;
        }
        if self.access.prefault {
            flags |= prefault_flags();
        }
        // SAFETY: `from..to` lies inside what this value reserved and behind what it mapped, so
        // the fixed mapping replaces inaccessible pages of its own only.
        unsafe {
            let at = self.base.add(from).as_ptr().cast();
            mmap(at, to - from, protection, flags, file, from as u64)?;
        }
        Ok(())
    }

    /// The first mapped address, where the mapping stays for life.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Writes the pages that hold `from..to` to the medium and waits for it.
    pub fn sync_pages(&self, file: &File, from: u64, to: u64) -> io::Result<()> {
        let from = from as usize / page_bytes() * page_bytes();
        let to = (to as usize).min(self.mapped.load(Ordering::Relaxed));
        // SAFETY: the range is mapped; msync changes no byte that a program can see.
        unsafe { msync(self.base.add(from).as_ptr().cast(), to - from, MsyncFlags::SYNC)? };
        if cfg!(target_vendor = "apple") {
            // There msync leaves the bytes in the drive's cache; this does not.
            file.sync_data()?;
        }
        Ok(())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the whole range was reserved by `reserve`, is this value's own, and nobody
        // holds a pointer into it any more. An error could only leave addresses in use.
        let _ = unsafe { munmap(self.reserved.0.as_ptr().cast(), self.reserved.1) };
    }
}

fn page_bytes() -> usize {
    rustix::param::page_size()
}

/// The flags that grant a mapping only if stores reach the medium without `msync`.
fn sync_flags() -> Option<MapFlags> {
    #[cfg(target_os = "linux")]
    return Some(MapFlags::SHARED_VALIDATE | MapFlags::SYNC);
    #[cfg(not(target_os = "linux"))]
    None
}

fn prefault_flags() -> MapFlags {
    #[cfg(target_os = "linux")]
    return MapFlags::POPULATE;
    #[cfg(not(target_os = "linux"))]
    MapFlags::empty()
}

/// The name of the file's file system if it keeps its files in memory only.
pub(crate) fn volatile_fs(file: &File) -> Option<&'static str> {
    #[cfg(target_os = "linux")]
    match rustix::fs::fstatfs(file).ok()?.f_type as u32 {
        0x0102_1994 => Some("tmpfs"),
        0x8584_58f6 => Some("ramfs"),
        0x9584_58f6 => Some("hugetlbfs"),
        _ => None,
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        None
    }
}

/// Bytes that an ordinary user may still allocate on the file's file system, if it has a limit.
pub(crate) fn free_bytes(file: &File) -> Option<u64> {
    let stat = rustix::fs::fstatvfs(file).ok()?;
    // A file system of no size has no limit (tmpfs with `size=0`), or does not tell.
    (stat.f_blocks > 0).then(|| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Makes the file `to` bytes long with every block of `from..to` really allocated and zero.
pub(crate) fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        loop {
            match fallocate(file, FallocateFlags::empty(), from, to - from) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                // Some file systems cannot allocate ahead; writing zeros makes them.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    super::write_zeros(file, from, to)
}

/// Makes the entry of a new file in its directory durable.
pub(crate) fn sync_directory(directory: &std::path::Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
