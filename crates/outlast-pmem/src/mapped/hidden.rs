//! Files that get their name when they are whole.
//!
//! * **F3** A new file is made beside its place, under a name of its own that ends in `.creating-` and
//!   sixteen digits, and locked there. It is renamed, onto nothing, when it is whole and durable. So a
//!   creation that is cut short leaves nothing under the name that was asked for, and the next one
//!   removes what is left beside it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::os;
use crate::error::MapError;

/// How the name goes on of a file that is being made.
const SUFFIX: &str = ".creating-";

/// Digits of the number in that name.
const NUMBER_DIGITS: usize = 16;

/// Makes an empty file beside a place that nothing has.
pub(super) fn create(path: &Path, begins: [u8; 8]) -> Result<(PathBuf, File), MapError> {
    refuse_existing(path)?;
    let failed = |error| match MapError::io(path, "create", error) {
        MapError::NotFound { path } => MapError::NoDirectory { path },
        error => error,
    };
    let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let mut prefix = name.to_owned();
    prefix.push(SUFFIX);
    remove_left_over(directory_of(path), &prefix, begins);
    let mut name = prefix;
    // Keys of hashes are random.
    name.push(format!("{:016x}", RandomState::new().hash_one(std::process::id())));
    let hidden = path.with_file_name(name);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&hidden);
    Ok((hidden, file.map_err(failed)?))
}

/// Gives a file that is whole and locked its name, unless something has it.
pub(super) fn rename(hidden: &Path, path: &Path, file: &File) -> Result<(), MapError> {
    os::rename_onto_nothing(hidden, path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => match refuse_existing(path) {
            Err(error) => error,
            Ok(()) => MapError::AlreadyExists { path: path.to_owned() },
        },
        _ => MapError::io(path, "create", error),
    })?;
    debug_assert!(crate::is_named(path, file).unwrap_or(true), "the name was given to this file");
    Ok(())
}

fn refuse_existing(path: &Path) -> Result<(), MapError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            Err(MapError::NotRegular { path: path.to_owned(), is: "a directory" })
        }
        Ok(_) => Err(MapError::AlreadyExists { path: path.to_owned() }),
        // What cannot be looked at is refused when something is made there.
        Err(_) => Ok(()),
    }
}

/// The directory that has the path's last component.
pub(super) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Removes what killed processes have left: files of such names that no process has locked, and that
/// are empty or begin with zeros or as a whole one does. What cannot be removed stays.
fn remove_left_over(directory: &Path, prefix: &OsStr, begins: [u8; 8]) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file());
        if has_number(&entry.file_name(), prefix) && is_file() {
            let _ = remove_if_ours(&entry.path(), begins);
        }
    }
}

fn remove_if_ours(path: &Path, begins: [u8; 8]) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut start = [0; 8];
    let begins_like_ours = match file.read_exact(&mut start) {
        Ok(()) => start == [0; 8] || start == begins,
        Err(_) => file.metadata()?.len() == 0,
    };
    if begins_like_ours {
        crate::remove_if_free(path, &file);
    }
    Ok(())
}

/// Whether a name is the prefix and one of our numbers.
fn has_number(name: &OsString, prefix: &OsStr) -> bool {
    let digits = name.as_encoded_bytes().strip_prefix(prefix.as_encoded_bytes());
    digits.is_some_and(|digits| {
        let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        digits.len() == NUMBER_DIGITS && digits.iter().all(is_digit)
    })
}
