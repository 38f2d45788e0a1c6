//! Reading a file that others have mapped.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use crate::error::MapError;

/// Copies the first bytes of a file to `start`, as far as it has any, and returns the file's length,
/// which is asked for afterwards. Nothing is mapped or locked, so others may have the file mapped
/// and store to it meanwhile: the copy is torn then, though not within an aligned word.
///
/// # Errors
/// [`MapError`]; the file is untouched.
pub fn read_beside(path: impl AsRef<Path>, start: &mut [u8]) -> Result<u64, MapError> {
    let path = path.as_ref();
    let failed = |error| MapError::io(path, "read", error);
    // Asked before opening, because the opening of a pipe waits for its other end.
    let kind = fs::metadata(path).map_err(failed)?.file_type();
    if !kind.is_file() {
        let is = if kind.is_dir() { "a directory" } else { "a device or a pipe" };
        return Err(MapError::NotRegular { path: path.to_owned(), is });
    }
    let mut file = File::open(path).map_err(failed)?;
    let mut read = 0;
    while read < start.len() {
        match file.read(&mut start[read..]).map_err(failed)? {
            0 => break,
            bytes => read += bytes,
        }
    }
    file.metadata().map(|metadata| metadata.len()).map_err(failed)
}
