//! A file that a restored pool takes the place of, kept under another name.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use outlast::checkpoint::Checkpoint;
use outlast::recover::UnrecoveredPool;
use outlast_pmem::{MapError, MapOptions};

/// A file that was moved away.
pub(super) struct Kept {
    from: PathBuf,
    /// Where it is now.
    pub path: PathBuf,
}

/// Renames a file once it is known that the checkpoint can be read and that no other process uses the file.
/// What a symbolic link leads to is moved, not the link.
pub(super) fn move_away(file: &Path, checkpoint: &Path) -> Result<Kept, Box<dyn Error>> {
    Checkpoint::open(checkpoint)?;
    let map = MapOptions { read_only: true, ..MapOptions::default() };
    if let Err(outlast::PoolError::Map(error @ MapError::AlreadyOpen { .. })) =
        UnrecoveredPool::open_file(file, &map)
    {
        return Err(error.into());
    }
    let failed = |error: io::Error| format!("{}: cannot move it aside: {error}", file.display());
    let from = file.canonicalize().map_err(failed)?;
    if !from.is_file() {
        return Err(format!("{}: is not a regular file", file.display()).into());
    }
    let path = (1..).map(|number| name_beside(&from, number)).find(|path| !path.exists());
    let path = path.expect("some number is free");
    std::fs::rename(&from, &path).map_err(failed)?;
    Ok(Kept { from, path })
}

fn name_beside(file: &Path, number: u32) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".damaged");
    if number > 1 {
        name.push(format!(".{number}"));
    }
    name.into()
}

impl Kept {
    /// Gives the file its name back.
    pub fn put_back(self) -> Result<(), Box<dyn Error>> {
        std::fs::rename(&self.path, &self.from).map_err(|error| {
            format!(
                "{}: cannot be named {} again: {error}",
                self.path.display(),
                self.from.display()
            )
        })?;
        Ok(())
    }
}
