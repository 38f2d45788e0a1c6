//! Judges for the common cases (`--judge`): the user writes no check.
//!
//! The right states come from the captured run itself: the file's content at each mark. [`history`] looks
//! at states in memory; `sqlite` is a check by a command, since SQLite's own recovery is to run.

pub mod history;
mod sqlite;

use std::path::{Component, Path, PathBuf};

use self::history::History;
use crate::judge::Checker;
use crate::run::Run;

/// A judge by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// Opens every SQLite database: the first column of a table `outlast_marks` counts transactions.
    Sqlite,
    /// The file has one of the contents that it had when a transaction was over, the last acknowledged or
    /// a later one.
    Replace(PathBuf),
    /// The file begins with all that was in it when the last transaction was acknowledged.
    Log(PathBuf),
}

impl Named {
    /// The judge of a text: `sqlite`, `replace=FILE` or `log=FILE`.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn new(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "sqlite" => Ok(Self::Sqlite),
            Some(("replace", file)) if !file.is_empty() => Ok(Self::Replace(file.into())),
            Some(("log", file)) if !file.is_empty() => Ok(Self::Log(file.into())),
            _ => Err(format!("no judge '{text}': sqlite, replace=FILE or log=FILE would be right")),
        }
    }

    /// Its text, as [`Named::new`] takes it.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Sqlite => "sqlite".to_owned(),
            Self::Replace(file) => format!("replace={}", file.display()),
            Self::Log(file) => format!("log={}", file.display()),
        }
    }

    /// The check of states of `run`.
    ///
    /// # Errors
    /// The run has nothing that it could judge, or a command is missing.
    pub fn checker(&self, run: &Run) -> Result<Checker, String> {
        match self {
            Self::Sqlite => sqlite::checker(run),
            Self::Replace(file) => {
                Ok(Checker::History(History::of_replacements(run, within(file, &run.dir))?))
            }
            Self::Log(file) => Ok(Checker::History(History::of_log(run, within(file, &run.dir))?)),
        }
    }
}

/// A file's path from the directory, which may stand before it.
fn within(file: &Path, dir: &Path) -> PathBuf {
    let plain = |path: &Path| -> PathBuf {
        path.components().filter(|part| *part != Component::CurDir).collect()
    };
    let (file, dir) = (plain(file), plain(dir));
    file.strip_prefix(dir).map_or(file.clone(), Path::to_owned)
}
