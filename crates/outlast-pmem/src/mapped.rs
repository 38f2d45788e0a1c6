//! A medium that is a mapped file: real memory, real instructions.
//!
//! What flushes and fences do depends on the persistence [`Domain`]:
//!
//! | domain | flush | fence |
//! |---|---|---|
//! | `process` | nothing | `sfence` |
//! | `page` | notes the lines | `sfence`, then one write to the [log of fences](crate::read_fences), or one `msync` from the first noted page to the last |
//! | `adr` | `clwb`, else `clflushopt`, else `clflush` | `sfence` (`mfence` after `clflush`) |
//! | `eadr` | nothing | `sfence` |
//!
//! On AArch64 a flush is `dc cvadp` or `dc cvap`, and every fence `dsb sy`.
//!
//! A file is really allocated, so that a full disk is an error at creation, opening or growth and
//! not a signal at a store; it is locked while it is mapped; and it never moves in memory. A
//! program that truncates the file in spite of the lock ends this process with a bus error at the
//! next access to what is missing: nothing in here can prevent that.
//!
//! A mapping belongs to the process that made it. A forked child inherits the addresses and must
//! not use them: [`is_forked`](Medium::is_forked) tells it so.

mod hidden;
mod locked;
mod medium;
#[cfg_attr(all(unix, not(outlast_portable)), path = "mapped/os_unix.rs")]
#[cfg_attr(not(all(unix, not(outlast_portable))), path = "mapped/os_other.rs")]
#[allow(unsafe_code)]
mod os;
pub(crate) mod pages;
mod unlocked;
#[allow(unsafe_code)]
mod window;
#[allow(unsafe_code)]
pub(crate) mod words;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use outlast_trace::{FlushKind, PoolOffset};

use crate::cpu::{self, cpu_features};
use crate::detect::{Detection, ND_DEVICES, detect};
use crate::error::{MapError, MediumFailure, PAGE_BYTES, same_error};
use crate::features::CpuFeatures;
use crate::fence_log::Pages;
use crate::file::remove_if_free;
use crate::medium::Medium;
use crate::process::OwnerProcess;
use locked::{Locked, allocate, fill_holes, open_and_lock};
use os::{Access, Mapping};
use outlast_trace::Domain;
use pages::PageNotes;
use window::Window;

/// How to map a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapOptions {
    /// The persistence domain to work in; `None` takes what [detection](Detection) finds.
    pub domain: Option<Domain>,
    /// Bytes up to which the file can grow while it is mapped: so much address space is
    /// reserved, or as much as the file has if that is more. What is only read does not grow.
    pub max_len: u64,
    /// Map for reading only: others may read at the same time, and every store panics.
    pub read_only: bool,
    /// Fault every page in at once, so that no later access waits for the kernel.
    pub prefault: bool,
    /// Put nothing into shared memory: no other process reads the file beside this one.
    pub alone: bool,
}

impl Default for MapOptions {
    fn default() -> Self {
        let few_addresses = cfg!(any(not(target_pointer_width = "64"), outlast_few_addresses));
        let max_len = if few_addresses { 256 << 20 } else { 64 << 30 };
        Self { domain: None, max_len, read_only: false, prefault: false, alone: false }
    }
}

/// What a flush does, chosen once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WriteBack {
    /// The instruction `clwb` starts the write-back of a line.
    Clwb,
    /// An older instruction does.
    ClflushOpt,
    /// The oldest does.
    Clflush,
    /// Nothing: what is visible counts as durable.
    Nothing,
    /// Pages are noted for the next fence.
    Pages,
}

impl WriteBack {
    fn new(domain: Domain, flush: Option<FlushKind>) -> Self {
        match flush.filter(|_| !domain.row().is_paged) {
            _ if domain.row().has_durable_stores => Self::Nothing,
            Some(FlushKind::Clwb) => Self::Clwb,
            Some(FlushKind::ClflushOpt) => Self::ClflushOpt,
            Some(FlushKind::Clflush) => Self::Clflush,
            // Memory without an instruction is refused before anything is mapped.
            None => Self::Pages,
        }
    }
}

/// A file mapped into memory.
///
/// Dropping it unmaps and unlocks the file; it makes nothing durable.
pub struct Mapped {
    // Dropped in this order: unmapped first, unlocked last.
    window: Window,
    write_back: WriteBack,
    has_atomic_line: bool,
    pages: PageNotes,
    growing: Mutex<()>,
    failure: OnceLock<MediumFailure>,
    max_len: u64,
    domain: Domain,
    detection: Detection,
    path: PathBuf,
    /// The name of a file that has not got its own yet.
    hidden: Mutex<Option<PathBuf>>,
    owner: OwnerProcess,
    file: Locked,
}

/// What mapping a file has found out and made.
struct Made {
    window: Window,
    detection: Detection,
    max_len: u64,
}

impl Mapped {
    /// Creates a file of `len` zero bytes, durable, and maps it.
    ///
    /// # Errors
    /// [`MapError`]; whatever existed is untouched, and a file that could not be completed is
    /// removed again.
    pub fn create(
        path: impl AsRef<Path>,
        len: u64,
        options: &MapOptions,
    ) -> Result<Self, MapError> {
        let mapped = Self::create_hidden(path, len, options, [0; 8])?;
        mapped.show()?;
        Ok(mapped)
    }

    /// As [`create`](Self::create), but the file has another name until [`show`](Self::show) is called
    /// (F3), and is removed when this is dropped before. `begins` are its first bytes when it is
    /// whole: a file of that kind that a killed process has left beside it is removed.
    ///
    /// # Errors
    /// As of [`create`](Self::create).
    pub fn create_hidden(
        path: impl AsRef<Path>,
        len: u64,
        options: &MapOptions,
        begins: [u8; 8],
    ) -> Result<Self, MapError> {
        let path = path.as_ref();
        check_len(path, len)?;
        if options.read_only {
            return Err(MapError::ReadOnly { path: path.to_owned() });
        }
        check_domain(path, options.domain)?;
        let (hidden, file) = hidden::create(path, begins)?;
        let made = fill_and_map(path, &hidden, &file, len, options).inspect_err(|_| {
            // The error that is reported is the one that made the file useless.
            remove_if_free(&hidden, &file);
        })?;
        let mut mapped = Self::of(path, made, file, options);
        mapped.hidden = Mutex::new(Some(hidden));
        Ok(mapped)
    }

    /// Gives a file that was created hidden its name, durably; nothing is overwritten. Does nothing to
    /// other files.
    ///
    /// # Errors
    /// [`MapError`]; then nothing has got the name.
    pub fn show(&self) -> Result<(), MapError> {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(from) = hidden.as_ref().filter(|_| !self.is_forked()) else { return Ok(()) };
        hidden::rename(from, &self.path, self.file.get())?;
        if self.domain.row().is_power {
            let directory = hidden::directory_of(&self.path);
            os::sync_directory(directory).map_err(|error| {
                remove_if_free(&self.path, self.file.get());
                MapError::io(directory, "make durable", error)
            })?;
        }
        *hidden = None;
        Ok(())
    }

    /// Maps an existing file. What it has of holes is allocated first; on a medium for reading
    /// only, holes read as zeros and allocate nothing.
    ///
    /// # Errors
    /// [`MapError`]; the content is untouched. [`MapError::Holes`] when the file system has no
    /// space for the holes, [`MapError::Replaced`] when the name went to another file again and
    /// again.
    pub fn open(path: impl AsRef<Path>, options: &MapOptions) -> Result<Self, MapError> {
        let medium = Self::open_sparse(path, options)?;
        if !options.read_only {
            fill_holes(&medium.path, medium.file.get(), 0..medium.len())?;
        }
        Ok(medium)
    }

    /// As [`open`](Self::open), and leaves the file's holes as they are. The program
    /// [allocates](Medium::allocate) them before it stores there, or loads: on a `tmpfs` without space a load from a hole ends
    /// the process, too.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_sparse(path: impl AsRef<Path>, options: &MapOptions) -> Result<Self, MapError> {
        let path = path.as_ref();
        check_domain(path, options.domain)?;
        let file = open_and_lock(path, options)?;
        let len = file.metadata().map_err(|error| MapError::io(path, "read", error))?.len();
        check_len(path, len)?;
        let made = map(path, &file, len, options)?;
        Ok(Self::of(path, made, file, options))
    }

    fn of(path: &Path, made: Made, file: File, options: &MapOptions) -> Self {
        let Made { window, detection, max_len } = made;
        let domain = options.domain.unwrap_or(detection.domain);
        let CpuFeatures { flush, movdir64b } = cpu_features();
        let owner = OwnerProcess::new();
        Self {
            window,
            write_back: WriteBack::new(domain, flush),
            has_atomic_line: movdir64b,
            pages: PageNotes::default(),
            growing: Mutex::new(()),
            failure: OnceLock::new(),
            max_len,
            domain,
            detection,
            path: path.to_owned(),
            hidden: Mutex::new(None),
            file: Locked::new(file, owner.clone(), options.read_only),
            owner,
        }
    }

    /// The same mapping, whose lines are flushed by this instruction from now on instead of the
    /// best that there is; nothing changes where the domain needs no flush instruction.
    ///
    /// # Panics
    /// When the processor does not have it: [`has_flush`](crate::has_flush) tells.
    #[must_use]
    pub fn flushing_with(mut self, kind: FlushKind) -> Self {
        assert!(cpu::has_flush(kind), "this processor has no {kind:?}");
        self.write_back = match self.domain {
            Domain::Adr => WriteBack::new(Domain::Adr, Some(kind)),
            _ => self.write_back,
        };
        self
    }

    /// The persistence domain in force.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// What was found about the file, whatever domain is in force.
    pub fn detection(&self) -> &Detection {
        &self.detection
    }

    /// One line for people: the domain in force, what emulates it if anything does, and why.
    pub fn describe(&self) -> String {
        self.detection.describe(self.domain)
    }

    /// How often bytes were written back and the device flushed: in the domain `page` once for each
    /// fence that found something flushed, or for several threads' fences together; else never.
    pub fn syncs(&self) -> u64 {
        self.pages.syncs()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where these bytes are in this process's memory; `None` outside the pool. They stay there while it is mapped, and change
    /// as others store.
    pub fn address(&self, at: PoolOffset, len: u64) -> Option<usize> {
        self.window.address(at, len)
    }

    /// The failure of the medium as that of another call.
    fn failed_map(&self) -> Option<MapError> {
        match self.failure.get()?.cause() {
            MapError::Io { path, what, source } => {
                Some(MapError::Io { path: path.clone(), what, source: same_error(source) })
            }
            _ => None,
        }
    }

    /// The length up to which the file can grow while it is mapped, in bytes.
    pub fn max_len(&self) -> u64 {
        if os::CAN_GROW { self.max_len } else { self.window.len() }
    }

    /// A call that was to make something durable has failed, and the system may have dropped what it
    /// was to write. From here on nothing that is stored reaches the file, and then nothing is
    /// promised any more: no fence succeeds.
    fn fail(&self, what: &'static str, error: &io::Error) {
        // Another thread that fails meanwhile waits until the file is out of reach.
        self.failure.get_or_init(|| {
            // Before anything that is stored no longer reaches the file.
            self.owner.stop();
            self.window.detach(self.file.get());
            self.file.forget_cached_when_dropped();
            MediumFailure::new(&self.path, what, same_error(error))
        });
    }

    /// As [`fail`](Self::fail), where what is stored is durable through the page cache; elsewhere a
    /// failed call has lost nothing.
    fn fail_if_paged(&self, what: &'static str, error: &io::Error) {
        if self.write_back == WriteBack::Pages {
            self.fail(what, error);
            self.pages.fail();
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let hidden = self.hidden.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(hidden) = hidden
            && self.owner.is_this_process()
        {
            remove_if_free(hidden, self.file.get());
        }
    }
}

impl Pages for Mapped {
    fn load_word(&self, at: PoolOffset) -> u64 {
        self.window.load_u64(at)
    }

    fn write_back(&self, bytes: Range<u64>) -> io::Result<()> {
        self.window.sync_pages(self.file.get(), bytes.start, bytes.end)
    }

    fn write_through(&self, at: PoolOffset, bytes: &[u8]) -> io::Result<()> {
        match os::write_through(self.file.get(), at.0, bytes) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.window.store(at, bytes);
                self.write_back(at.0..at.0 + bytes.len() as u64)
            }
            result => result,
        }
    }

    fn fail(&self, error: &io::Error) {
        Mapped::fail(self, "sync", error);
    }
}

/// Makes a new file `len` bytes long and durable, and maps it.
fn fill_and_map(
    path: &Path,
    named: &Path,
    file: &File,
    len: u64,
    options: &MapOptions,
) -> Result<Made, MapError> {
    locked::lock(path, file, options)?;
    // Before it was locked, another creation could take it for one that was left over.
    if !crate::is_named(named, file).unwrap_or(false) {
        return Err(MapError::Replaced { path: path.to_owned() });
    }
    allocate(path, file, 0, len)?;
    let made = map(path, file, len, options)?;
    if options.domain.unwrap_or(made.detection.domain).row().is_power {
        file.sync_all().map_err(|error| MapError::io(path, "make durable", error))?;
    }
    Ok(made)
}

fn map(path: &Path, file: &File, len: u64, options: &MapOptions) -> Result<Made, MapError> {
    let made = map_as_it_is(path, file, len, options)?;
    if options.read_only && os::volatile_fs(file).is_some() {
        made.window.cover_holes(file).map_err(|error| MapError::io(path, "map", error))?;
    }
    Ok(made)
}

/// Maps a file of which holes stay holes, where another process may store to them.
fn map_as_it_is(
    path: &Path,
    file: &File,
    len: u64,
    options: &MapOptions,
) -> Result<Made, MapError> {
    // What is only read does not grow, and reserved addresses count where these are limited.
    let max_len = if options.read_only { len } else { options.max_len.max(len) };
    let volatile_fs = os::volatile_fs(file);
    let sync =
        volatile_fs.is_none() && has_line_flush() && options.domain.is_none_or(Domain::is_memory);
    let access = Access { writable: !options.read_only, sync, prefault: options.prefault };
    let mapping = Mapping::reserve(max_len, access).map_err(|source| MapError::NoAddresses {
        path: path.to_owned(),
        len: max_len,
        source,
    })?;
    let mapped_sync =
        mapping.extend(file, len).map_err(|error| MapError::io(path, "map", error))?;
    let detection = detect(volatile_fs, mapped_sync, Path::new(ND_DEVICES));
    let domain = options.domain.unwrap_or(detection.domain);
    if domain.row().is_paged && !options.read_only {
        mapping.cache_single_pages();
    }
    Ok(Made { window: Window::new(mapping, len, !options.read_only), detection, max_len })
}

fn check_len(path: &Path, len: u64) -> Result<(), MapError> {
    // Lengths past i64 are refused here, because no file system takes them.
    let good = len > 0 && len.is_multiple_of(PAGE_BYTES) && i64::try_from(len).is_ok();
    if good { Ok(()) } else { Err(MapError::BadLength { path: path.to_owned(), len }) }
}

/// Whether this processor makes single lines durable, in a way that is known.
fn has_line_flush() -> bool {
    cpu_features().flush.is_some()
}

fn check_domain(path: &Path, domain: Option<Domain>) -> Result<(), MapError> {
    match domain {
        Some(domain) if domain.is_memory() && !has_line_flush() => {
            Err(MapError::NoSuchDomain { path: path.to_owned(), domain })
        }
        _ => Ok(()),
    }
}

// Miri knows neither file mappings nor instructions.
#[cfg(all(test, not(miri)))]
mod tests;
