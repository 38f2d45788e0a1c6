//! What the machine allows: an append to an allocated file, and one `fdatasync`.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Engine, EngineError, Files, Pair, Session};

const NAME: &str = "floor";

/// The file is written from the start again behind this many bytes.
const BYTES: u64 = 16 << 20;

/// Appends pairs to a file whose blocks are written already, and syncs it. A commit that survives a
/// crash cannot do less. Nothing can be read from it.
pub struct Floor {
    file: File,
    files: Files,
    end: AtomicU64,
    syncs: AtomicU64,
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
        let file = make().map_err(EngineError::of(NAME))?;
        let files = Files(path.to_owned());
        Ok(Self { file, files, end: AtomicU64::new(0), syncs: AtomicU64::new(0) })
    }
}

impl Engine for Floor {
    fn name(&self) -> &'static str {
        NAME
    }

    fn settings(&self) -> String {
        "pwrite into an allocated file, fdatasync".to_owned()
    }

    fn reads(&self) -> bool {
        false
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, EngineError> {
        Ok(Box::new(Appending { floor: self, record: Vec::new() }))
    }

    fn syncs(&self) -> Option<u64> {
        Some(self.syncs.load(Ordering::Relaxed))
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
}

impl Session for Appending<'_> {
    fn put(&mut self, pairs: &[Pair<'_>]) -> Result<(), EngineError> {
        self.record.clear();
        for (key, value) in pairs {
            self.record.extend_from_slice(key);
            self.record.extend_from_slice(value);
        }
        let len = self.record.len() as u64;
        let at =
            self.floor.end.fetch_add(len, Ordering::Relaxed) % BYTES.saturating_sub(len).max(1);
        write_at(&self.floor.file, &self.record, at).map_err(EngineError::of(NAME))?;
        self.floor.syncs.fetch_add(1, Ordering::Relaxed);
        self.floor.file.sync_data().map_err(EngineError::of(NAME))
    }

    fn get(&mut self, _: &[&[u8]]) -> Result<u64, EngineError> {
        Err(EngineError::new(NAME, "it only appends"))
    }

    fn scan(&mut self, _: &[u8], _: usize) -> Result<u64, EngineError> {
        Err(EngineError::new(NAME, "it only appends"))
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
