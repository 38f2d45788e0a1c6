//! What is wrong with a configuration, in one line.

use super::KEYS;
use crate::config::ConfigError;

/// A configuration that cannot be used. Each message names the key and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MachineError {
    /// No key has this name.
    #[error("{origin}: no key is named '{key}'; did you mean '{nearest}'?")]
    UnknownKey {
        /// The file or option.
        origin: String,
        /// The key given.
        key: String,
        /// The key most like it.
        nearest: String,
    },
    /// A value that the key cannot have.
    #[error("{origin}: {key} = {text} is not right: give {expects}")]
    BadValue {
        /// The file or option.
        origin: String,
        /// The key.
        key: String,
        /// The value given.
        text: String,
        /// What would be right.
        expects: String,
    },
    /// No preset and no readable file has this name.
    #[error("no machine is named '{name}' and no file either; there are {known}")]
    UnknownPreset {
        /// The name given.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The file is not TOML.
    #[error("{origin}: {message}")]
    Syntax {
        /// The file.
        origin: String,
        /// Where and what, in one line.
        message: String,
    },
    /// The values do not fit together.
    #[error("{name}: {message}")]
    Impossible {
        /// The machine.
        name: String,
        /// What does not fit, and what would.
        message: String,
    },
    /// The caches cannot be built.
    #[error("{name}: {source}")]
    Caches {
        /// The machine.
        name: String,
        /// What is wrong.
        source: ConfigError,
    },
}

pub(super) fn unknown_key(origin: &str, key: &str) -> MachineError {
    let nearest = KEYS.iter().min_by_key(|(known, _)| edit_distance(known, key));
    MachineError::UnknownKey {
        origin: origin.to_owned(),
        key: key.to_owned(),
        nearest: nearest.map_or(String::new(), |(known, _)| (*known).to_owned()),
    }
}

/// Levenshtein's distance between two names, letters' case aside.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
