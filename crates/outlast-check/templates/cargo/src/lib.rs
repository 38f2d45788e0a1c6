//! A counter that survives a loss of power: the program to replace by yours.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Writes the counter. Once this returns, the number is there after any crash.
pub fn put(dir: &Path, number: u64) -> io::Result<()> {
    fs::write(dir.join("count.new"), number.to_string())?;
    File::open(dir.join("count.new"))?.sync_all()?;
    fs::rename(dir.join("count.new"), dir.join("count"))?;
    File::open(dir)?.sync_all()
}

/// Reads the counter: 0 where there is none.
pub fn get(dir: &Path) -> io::Result<u64> {
    match fs::read_to_string(dir.join("count")) {
        Ok(text) => text.parse().map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}
