//! Files that are mapped without a lock of their own, since another process has them open as well.

use std::fs::File;
use std::path::Path;

use outlast_trace::Domain;

use super::locked::{self, check_limit, fill_holes};
use super::{MapOptions, Mapped, check_domain, check_len, map_as_it_is};
use crate::error::MapError;
use crate::side::Memory;

impl Mapped {
    /// Maps an existing file for reading without locking it, beside a process that may have it open for
    /// writing: its bytes change meanwhile. The caller knows by other means which of them belong together.
    ///
    /// # Errors
    /// As of [`open`](Self::open).
    pub fn open_beside(path: impl AsRef<Path>, options: &MapOptions) -> Result<Self, MapError> {
        let path = path.as_ref();
        let options = MapOptions { read_only: true, ..options.clone() };
        check_domain(path, options.domain)?;
        let file = locked::open(path, &options)?;
        let len = file.metadata().map_err(|error| MapError::io(path, "read", error))?.len();
        check_len(path, len)?;
        let made = map_as_it_is(path, &file, len, &options)?;
        Ok(Self::of(path, made, file, &options))
    }

    /// Maps at least `len` bytes of a file of words that processes share, without a lock of its own. A shorter file
    /// is lengthened with zeros. Nothing of it is durable.
    pub(crate) fn share(
        path: &Path,
        file: File,
        len: u64,
        memory: Memory,
    ) -> Result<Self, MapError> {
        let found = file.metadata().map_err(|error| MapError::io(path, "read", error))?.len();
        if found < len {
            check_limit(path, len)?;
            file.set_len(len).map_err(|error| MapError::io(path, "enlarge", error))?;
        }
        let len = found.max(len);
        if memory == Memory::AtOnce {
            fill_holes(path, &file, 0..len)?;
        }
        let options =
            MapOptions { domain: Some(Domain::Process), max_len: len, ..MapOptions::default() };
        let made = map_as_it_is(path, &file, len, &options)?;
        let mut shared = Self::of(path, made, file, &options);
        shared.file.keep_locks();
        Ok(shared)
    }
}
