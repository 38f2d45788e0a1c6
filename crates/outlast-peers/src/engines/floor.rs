//! What the machine allows: an append to an allocated file, and one sync.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use outlast::medium::{LINE_BYTES, MapOptions, Mapped, Medium};
use outlast::{Domain, PoolOffset};

use super::{Engine, EngineError, Files, Pair, Session};

/// The file is written from the start again behind this many bytes.
const BYTES: u64 = 16 << 20;

/// Parts of the file for sessions that append apart.
const PARTS: u64 = 16;

/// Appends pairs to a file whose blocks are written already, and syncs it. A commit that survives a
/// crash cannot do less. Nothing can be read from it.
pub struct Floor {
    file: Appended,
    files: Files,
    end: AtomicU64,
    sessions: AtomicU64,
    /// Calls of `fdatasync`.
    syncs: AtomicU64,
}

/// How the file is written.
enum Appended {
    /// By `pwrite` and `fdatasync`.
    Calls(File),
    /// By stores to a mapping, which the runtime makes durable: what a pool's commit does without a
    /// transaction around it.
    Stores(Box<Mapped>),
    /// The same, each session in a part of its own, as a pool's lanes have logs of their own.
    Apart(Box<Mapped>),
}

impl Floor {
    /// Makes the file, every block of it written and durable.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn create(path: &Path) -> Result<Self, EngineError> {
        let make = || -> io::Result<File> {
            let file = File::options().read(true).write(true).create_new(true).open(path)?;
            io::copy(&mut io::Read::take(io::repeat(0), BYTES), &mut &file)?;
            file.sync_all()?;
            Ok(file)
        };
        let file = Appended::Calls(make().map_err(EngineError::of("floor"))?);
        Ok(Self::of(file, path))
    }

    /// The same through a mapping, where that is written page by page: below the domain `page`
    /// it would be no floor of a disk. Sessions may append `apart`.
    ///
    /// # Errors
    /// [`EngineError`].
    pub fn mapped(
        path: &Path,
        domain: Option<Domain>,
        apart: bool,
    ) -> Result<Option<Self>, EngineError> {
        let options = MapOptions { domain, ..MapOptions::default() };
        let medium = Mapped::create(path, BYTES, &options);
        let medium = medium.map_err(EngineError::of("mapped floor"))?;
        if medium.domain() != Domain::Page {
            return Ok(None);
        }
        for at in (0..BYTES).step_by(LINE_BYTES as usize).map(PoolOffset) {
            medium.store(at, &[1; LINE_BYTES as usize]);
        }
        medium.flush_range(PoolOffset(0), BYTES);
        medium.fence();
        let of = if apart { Appended::Apart } else { Appended::Stores };
        Ok(Some(Self::of(of(Box::new(medium)), path)))
    }

    fn of(file: Appended, path: &Path) -> Self {
        let [end, sessions, syncs] = [const { AtomicU64::new(0) }; 3];
        Self { file, files: Files(path.to_owned()), end, sessions, syncs }
    }
}

impl Engine for Floor {
    fn name(&self) -> &'static str {
        match self.file {
            Appended::Calls(_) => "floor",
            Appended::Stores(_) => "mapped floor",
            Appended::Apart(_) => "floor apart",
        }
    }

    fn settings(&self) -> String {
        let how = match self.file {
            Appended::Calls(_) => "pwrite into an allocated file, fdatasync",
            Appended::Stores(_) => "stores to a mapping of an allocated file, msync",
            Appended::Apart(_) => "as the mapped floor, each thread in a part of its own",
        };
        how.to_owned()
    }

    fn reads(&self) -> bool {
        false
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, EngineError> {
        let part = self.sessions.fetch_add(1, Ordering::Relaxed) % PARTS;
        Ok(Box::new(Appending { floor: self, record: Vec::new(), part, end: 0 }))
    }

    fn syncs(&self) -> Option<u64> {
        Some(match &self.file {
            Appended::Calls(_) => self.syncs.load(Ordering::Relaxed),
            Appended::Stores(medium) | Appended::Apart(medium) => medium.syncs(),
        })
    }

    fn bytes_on_disk(&self) -> u64 {
        self.files.bytes()
    }

    fn log_bytes(&self) -> u64 {
        BYTES
    }
}

struct Appending<'a> {
    floor: &'a Floor,
    record: Vec<u8>,
    /// Its part, and where it is in it, if it appends apart.
    part: u64,
    end: u64,
}

impl Appending<'_> {
    /// Where the next `len` bytes go.
    fn place(&mut self, len: u64) -> u64 {
        match self.floor.file {
            Appended::Apart(_) => {
                const PART: u64 = BYTES / PARTS;
                let at = self.end % PART.saturating_sub(len).max(1);
                self.end = at + len;
                self.part * PART + at
            }
            Appended::Calls(_) | Appended::Stores(_) => {
                let at = self.floor.end.fetch_add(len, Ordering::Relaxed);
                at % BYTES.saturating_sub(len).max(1)
            }
        }
    }
}

impl Session for Appending<'_> {
    fn put(&mut self, pairs: &[Pair<'_>]) -> Result<(), EngineError> {
        self.record.clear();
        for (key, value) in pairs {
            self.record.extend_from_slice(key);
            self.record.extend_from_slice(value);
        }
        self.record.resize(self.record.len().next_multiple_of(8), 0);
        let len = self.record.len() as u64;
        let (floor, at) = (self.floor, self.place(len));
        match &floor.file {
            Appended::Calls(file) => {
                floor.syncs.fetch_add(1, Ordering::Relaxed);
                write_at(file, &self.record, at).map_err(EngineError::of(floor.name()))?;
                file.sync_data().map_err(EngineError::of(floor.name()))
            }
            Appended::Stores(medium) | Appended::Apart(medium) => {
                let at = PoolOffset(at);
                medium.store(at, &self.record);
                medium.flush_range(at, len);
                medium.fence();
                Ok(())
            }
        }
    }

    fn get(&mut self, _: &[&[u8]]) -> Result<u64, EngineError> {
        Err(EngineError::new(self.floor.name(), "it only appends"))
    }

    fn scan(&mut self, _: &[u8], _: usize) -> Result<u64, EngineError> {
        Err(EngineError::new(self.floor.name(), "it only appends"))
    }
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

/// Sessions share the file's position: threads take turns there.
#[cfg(not(unix))]
fn write_at(mut file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
    use std::io::{Seek, SeekFrom, Write};
    file.seek(SeekFrom::Start(at))?;
    file.write_all(bytes)
}
