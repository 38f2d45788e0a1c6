//! File mappings on Unix: addresses are reserved once, the file is mapped into them piece by
//! piece as it grows, and the base never moves.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::mm::{
    Advice, MapFlags, MsyncFlags, ProtFlags, madvise, mmap, mmap_anonymous, msync, munmap,
};

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
    single_pages: AtomicBool,
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
            .and_then(|len| whole_pages(len, page_bytes())?.checked_add(BASE_ALIGN))
            .ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::empty(), flags)? };
        let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let skip = start.addr().get().wrapping_neg() % BASE_ALIGN;
        // SAFETY: `skip` is less than the slack that was reserved on top.
        let base = unsafe { start.add(skip) };
        Ok(Self {
            base,
            reserved: (start, bytes),
            mapped: AtomicUsize::new(0),
            single_pages: AtomicBool::new(false),
            access,
        })
    }

    /// Maps the file's first `len` bytes as far as they are not mapped yet. Says whether the
    /// new part was granted `MAP_SYNC`. Pages that are mapped already stay as they are.
    ///
    /// The caller holds a lock against other calls, and the file has `len` bytes.
    pub fn extend(&self, file: &File, len: u64) -> io::Result<bool> {
        let from = self.mapped.load(Ordering::Relaxed);
        let to = whole_pages(len as usize, page_bytes()).ok_or(io::ErrorKind::OutOfMemory)?;
        assert!(to <= self.reserved.1 - BASE_ALIGN, "{len} bytes were not reserved");
        if to <= from {
            return Ok(self.access.sync);
        }
        let granted = self.access.sync && self.map_part(file, from, to, sync_flags()).is_ok();
        if !granted {
            self.map_part(file, from, to, Some(MapFlags::SHARED))?;
        }
        self.mapped.store(to, Ordering::Relaxed);
        if self.single_pages.load(Ordering::Relaxed) {
            self.advise_random(from, to);
        }
        Ok(granted)
    }

    /// Asks for a page cache of single pages, now and for what is mapped later. A file system with
    /// large folios reads ahead into such, and a store through a mapping makes all of its folio
    /// dirty: a megabyte would be written back for a word.
    pub fn cache_single_pages(&self) {
        self.single_pages.store(true, Ordering::Relaxed);
        self.advise_random(0, self.mapped.load(Ordering::Relaxed));
    }

    fn advise_random(&self, from: usize, to: usize) {
        // SAFETY: `from..to` is mapped by this value; the advice changes no byte of it. A system that
        // does not take it is slower, and nothing else.
        let _ = unsafe { madvise(self.base.add(from).as_ptr().cast(), to - from, Advice::Random) };
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

    /// Maps zeros over the holes of a file that is mapped for reading only, on a file system in
    /// memory: there a load from a hole allocates a page, and ends in a signal when there is none.
    /// The content stays the same as long as no writer has the file.
    #[cfg(target_os = "linux")]
    pub fn cover_holes(&self, file: &File, len: u64) -> io::Result<()> {
        let mapped = self.mapped.load(Ordering::Relaxed);
        for hole in holes(file, 0..len)? {
            let Range { start: from, end } = pages_in_hole(hole, len, mapped, page_bytes());
            if from < end {
                let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
                // SAFETY: the pages lie inside what this value maps, and replace pages of the file
                // that hold zeros as these do.
                unsafe {
                    let at = self.base.add(from).as_ptr().cast();
                    mmap_anonymous(at, end - from, ProtFlags::READ, flags)?;
                }
            }
        }
        Ok(())
    }

    /// Holes are looked for on Linux only.
    #[cfg(not(target_os = "linux"))]
    pub fn cover_holes(&self, _file: &File, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Maps what is mapped of the file once more, privately: other threads go on with the same bytes at
    /// the same addresses, and no later store reaches the file. Where the system refuses that, stores
    /// go on reaching it.
    pub fn detach(&self, file: &File) {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let to = self.mapped.load(Ordering::Relaxed);
        if self.access.writable && to > 0 {
            // SAFETY: the pages lie inside what this value maps and are replaced by ones with the same
            // content. The system does that as one step for other threads.
            let _ = unsafe { mmap(self.base.as_ptr().cast(), to, protection, flags, file, 0) };
        }
    }

    /// The first mapped address, where the mapping stays for life.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Writes the pages that hold `from..to` to the medium and waits for it.
    pub fn sync_pages(&self, file: &File, from: u64, to: u64) -> io::Result<()> {
        let mapped = self.mapped.load(Ordering::Relaxed);
        let Range { start: from, end: to } = pages_with(from..to, mapped, page_bytes());
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
        // SAFETY: the whole range was reserved by `reserve`, is this value's own, and no
        // pointer into it is left. An error could only leave addresses in use.
        let _ = unsafe { munmap(self.reserved.0.as_ptr().cast(), self.reserved.1) };
    }
}

/// Bytes of the system's page: 4, 16 or 64 KiB. Files have multiples of [`PAGE_BYTES`](crate::PAGE_BYTES) on every
/// system, so the last page of a mapping may go past its file; no access does.
fn page_bytes() -> usize {
    #[cfg(test)]
    if let Some(bytes) = tests::assumed_page_bytes() {
        return bytes;
    }
    rustix::param::page_size()
}

/// `len` rounded up to whole pages; `None` past the largest number.
fn whole_pages(len: usize, page: usize) -> Option<usize> {
    len.checked_next_multiple_of(page)
}

/// The bytes from the first page on that holds some of `bytes`, up to their end or that of what is mapped: what `msync`
/// takes.
fn pages_with(bytes: Range<u64>, mapped: usize, page: usize) -> Range<usize> {
    bytes.start as usize / page * page..(bytes.end as usize).min(mapped)
}

/// The whole pages of a hole in a file of `len` bytes. A hole at the file's end has the rest of the last page, which
/// lies past the file.
#[cfg(any(target_os = "linux", test))]
fn pages_in_hole(hole: Range<u64>, len: u64, mapped: usize, page: usize) -> Range<usize> {
    let from = (hole.start as usize).next_multiple_of(page);
    let end = match hole.end < len {
        true => hole.end as usize / page * page,
        false => (len as usize).next_multiple_of(page).min(mapped),
    };
    from..end
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
    super::locked::write_zeros(file, from, to)
}

/// Bytes of the file that have no block, as far as its file system tells.
pub(crate) fn hole_bytes(file: &File, len: u64) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(len.saturating_sub(file.metadata()?.blocks() * 512))
}

/// Whether some of a part of the file may not be allocated. Space that is allocated and was never written
/// looks like a hole on some file systems.
#[cfg(target_os = "linux")]
pub(crate) fn may_have_holes(file: &File, part: Range<u64>) -> io::Result<bool> {
    let is_whole = part.start == 0 && part.end == file.metadata()?.len();
    if is_whole && volatile_fs(file).is_some() {
        // Blocks are pages of the file there and nothing else.
        return Ok(hole_bytes(file, part.end)? > 0);
    }
    Ok(hole_after(file, part.start, part.end)?.is_some())
}

/// Elsewhere holes are not looked for: a store into one may need space that is not there.
#[cfg(not(target_os = "linux"))]
pub(crate) fn may_have_holes(_file: &File, _part: Range<u64>) -> io::Result<bool> {
    Ok(false)
}

/// Allocates every hole of a part of the file, whose content stays.
#[cfg(target_os = "linux")]
pub(crate) fn allocate_holes(file: &File, part: Range<u64>) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    loop {
        match fallocate(file, FallocateFlags::empty(), part.start, part.end - part.start) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    for hole in holes(file, part)? {
        super::locked::write_zeros(file, hole.start, hole.end)?;
    }
    Ok(())
}

/// Not reached: no hole was found.
#[cfg(not(target_os = "linux"))]
pub(crate) fn allocate_holes(_file: &File, _part: Range<u64>) -> io::Result<()> {
    Ok(())
}

/// Gives the blocks of whole pages back to the file system, which then read as zeros. Where it cannot, they stay.
#[cfg(target_os = "linux")]
pub(crate) fn release(file: &File, pages: Range<u64>) {
    use rustix::fs::{FallocateFlags, fallocate};
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = fallocate(file, punch, pages.start, pages.end - pages.start);
}

/// Blocks stay where holes are not looked for.
#[cfg(not(target_os = "linux"))]
pub(crate) fn release(_file: &File, _pages: Range<u64>) {}

/// Every hole of a part of the file, in order.
#[cfg(target_os = "linux")]
fn holes(file: &File, part: Range<u64>) -> io::Result<Vec<Range<u64>>> {
    let (mut found, mut at) = (Vec::new(), part.start);
    while let Some(hole) = hole_after(file, at, part.end)? {
        at = hole.end;
        found.push(hole);
    }
    Ok(found)
}

/// The first hole from `at` on; none where the file system does not tell.
#[cfg(target_os = "linux")]
fn hole_after(file: &File, at: u64, len: u64) -> io::Result<Option<std::ops::Range<u64>>> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    if at >= len {
        return Ok(None);
    }
    let start = match seek(file, SeekFrom::Hole(at)) {
        Ok(start) if start < len => start,
        Ok(_) | Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match seek(file, SeekFrom::Data(start)) {
        Ok(end) => Ok(Some(start..end.min(len))),
        Err(Errno::NXIO) => Ok(Some(start..len)),
        Err(error) => Err(error.into()),
    }
}

/// Has the system forget which of the file's bytes it has in memory, as far as they are clean: some may
/// be called clean because they could not be written.
#[cfg(target_os = "linux")]
pub(crate) fn forget_cached(file: &File) {
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
}

/// Left to the system elsewhere.
#[cfg(not(target_os = "linux"))]
pub(crate) fn forget_cached(_file: &File) {}

/// Writes bytes to the file and makes them durable, and no other byte of it.
#[cfg(target_os = "linux")]
pub(crate) fn write_through(file: &File, mut at: u64, mut bytes: &[u8]) -> io::Result<()> {
    use rustix::io::{Errno, ReadWriteFlags, pwritev2};
    while !bytes.is_empty() {
        match pwritev2(file, &[io::IoSlice::new(bytes)], at, ReadWriteFlags::DSYNC) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                at += written as u64;
                bytes = &bytes[written..];
            }
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Err(io::ErrorKind::Unsupported.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Elsewhere a store to the mapping does it, and a flush of its pages.
#[cfg(not(target_os = "linux"))]
pub(crate) fn write_through(_file: &File, _at: u64, _bytes: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Renames a file, unless something has the new name.
pub(crate) fn rename_onto_nothing(from: &std::path::Path, to: &std::path::Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(()),
            // Some file systems can rename in the usual way only.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    std::fs::hard_link(from, to)?;
    std::fs::remove_file(from)
}

/// Makes the entry of a new file in its directory durable.
pub(crate) fn sync_directory(directory: &std::path::Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

// Miri knows no file mappings.
#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local!(static ASSUMED: Cell<Option<usize>> = const { Cell::new(None) });

    /// The page size that this thread's test assumes, a multiple of the system's.
    pub(super) fn assumed_page_bytes() -> Option<usize> {
        ASSUMED.get()
    }

    const PAGES: [usize; 3] = [4096, 16384, 65536];

    #[test]
    fn what_is_written_back_is_the_pages_of_the_bytes() {
        for page in PAGES {
            let mapped = whole_pages(3 * 65536 + 4096, page).unwrap();
            for (start, end) in [(0, 1), (4096, 8192), (65535, 65537), (69632, 200_704)] {
                let pages = pages_with(start..end, mapped, page);
                assert!(pages.start.is_multiple_of(page), "msync takes whole pages");
                assert!(pages.start as u64 <= start && start - (pages.start as u64) < page as u64);
                assert_eq!(pages.end as u64, end, "of {start}..{end} in pages of {page}");
            }
            assert_eq!(pages_with(0..u64::MAX >> 1, mapped, page).end, mapped);
        }
        assert_eq!(whole_pages(4096, 65536), Some(65536));
        assert_eq!(whole_pages(usize::MAX - 4095, 4096), Some(usize::MAX - 4095));
        assert_eq!(whole_pages(usize::MAX - 4095, 65536), None);
    }

    #[test]
    fn zeros_cover_whole_pages_of_holes_alone() {
        for page in PAGES {
            let len = 5 * 65536 + 4096;
            let mapped = whole_pages(len as usize, page).unwrap();
            let hole = pages_in_hole(4096..2 * 65536 + 4096, len, mapped, page);
            assert_eq!(hole.start, page.max(4096), "data before the hole stays, pages of {page}");
            assert_eq!(hole.end, (2 * 65536 + 4096) / page * page);
            let last = pages_in_hole(4 * 65536..len, len, mapped, page);
            assert_eq!(last, 4 * 65536..mapped);
            let none = pages_in_hole(4096..8192, len, mapped, 65536);
            assert!(none.is_empty(), "{none:?}");
        }
    }

    /// A file of a length that no page divides is created, grown, synced and opened again, as if the system had
    /// larger pages. What is mapped past its end is reached by no access.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn files_are_the_same_whatever_the_page_size() {
        use crate::{Domain, MapOptions, Mapped, Medium};
        use outlast_trace::PoolOffset;

        let directory = tempfile::tempdir().unwrap();
        let options =
            MapOptions { domain: Some(Domain::Page), max_len: 1 << 20, ..MapOptions::default() };
        let mut files = Vec::new();
        for page in PAGES {
            if !page.is_multiple_of(rustix::param::page_size()) {
                continue;
            }
            ASSUMED.set(Some(page));
            let path = directory.path().join(page.to_string());
            let medium = Mapped::create(&path, 3 * 4096, &options).unwrap();
            for (pages, at) in
                [(3, 2 * 4096), (17, 16 * 4096), (18, 17 * 4096), (40, 39 * 4096 + 4088)]
            {
                medium.grow(pages * 4096).unwrap();
                assert_eq!(medium.len(), pages * 4096);
                medium.store_u64(PoolOffset(at), at);
                medium.flush_range(PoolOffset(at), 8);
                medium.fence();
                assert!(medium.failure().is_none());
            }
            drop(medium);
            files.push(path);
        }
        // Each is opened with each other's pages.
        for path in &files {
            for page in
                PAGES.into_iter().filter(|page| page.is_multiple_of(rustix::param::page_size()))
            {
                ASSUMED.set(Some(page));
                let read_only = MapOptions { read_only: true, ..MapOptions::default() };
                let medium = Mapped::open(path, &read_only).unwrap();
                assert_eq!(medium.len(), 40 * 4096);
                for at in [2 * 4096, 16 * 4096, 17 * 4096, 39 * 4096 + 4088] {
                    assert_eq!(medium.load_u64(PoolOffset(at)), at);
                }
                assert_eq!(std::fs::read(path).unwrap(), std::fs::read(&files[0]).unwrap());
            }
        }
        ASSUMED.set(None);
    }
}
