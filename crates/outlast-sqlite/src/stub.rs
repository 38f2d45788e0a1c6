//! The file that names a super-journal while a pool waits for its end.
//!
//! SQLite commits a transaction over several databases by deleting a super-journal. After a crash, a plain database among
//! them rolls back and deletes the super-journal too, if no other journal names it. A pool has no journal
//! on disk; this file, where SQLite looks for one, keeps the super-journal until the pool has been opened.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The last bytes of a journal with the name of a super-journal.
const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The place of such a file.
pub(crate) struct Stub {
    path: PathBuf,
}

impl Stub {
    /// That of a database.
    pub fn of(database: &Path) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push("-journal");
        Self { path: name.into() }
    }

    /// Writes it, durably: the name, its length and the sum of its bytes, as a journal ends.
    pub fn write(&self, super_journal: &[u8]) -> io::Result<()> {
        let sum = super_journal.iter().fold(0_u32, |sum, byte| {
            // SQLite adds characters, which have a sign.
            sum.wrapping_add_signed(i32::from(byte.cast_signed()))
        });
        let mut file = File::create(&self.path)?;
        file.write_all(super_journal)?;
        file.write_all(&(super_journal.len() as u32).to_be_bytes())?;
        file.write_all(&sum.to_be_bytes())?;
        file.write_all(&JOURNAL_MAGIC)?;
        file.sync_all()?;
        match self.path.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }

    /// Removes it, if it is there.
    pub fn remove(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
