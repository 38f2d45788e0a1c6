//! The mistake in a configuration, in one line.

use super::KEYS;
use crate::config::ConfigError;
use outlast_trace::nearest;

/// A configuration that cannot be used. Each message names the key and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MachineError {
    /// No key has this name.
    #[error("{origin}: no key is named '{key}'; {instead}")]
    UnknownKey {
        /// The file or option.
        origin: String,
        /// The key given.
        key: String,
        /// The key most like it, or where all keys stand.
        instead: String,
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
        /// The form of a right value.
        expects: String,
    },
    /// No preset and no readable file has this name.
    #[error("no machine is named '{name}' and no file either; {instead}")]
    UnknownPreset {
        /// The name given.
        name: String,
        /// The one most like it, or those there are.
        instead: String,
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
        /// The values that do not fit, and those that would.
        message: String,
    },
    /// The caches cannot be built.
    #[error("{name}: {source}")]
    Caches {
        /// The machine.
        name: String,
        /// The mistake.
        source: ConfigError,
    },
}

pub(super) fn unknown_key(origin: &str, key: &str) -> MachineError {
    let presets = ["memory.preset", "dram.preset"];
    let known: Vec<&str> = KEYS.iter().map(|row| row.0).chain(presets).collect();
    let instead = match nearest(key, &known).first() {
        Some(near) => format!("did you mean '{near}'?"),
        // Some hundred of them are no answer in one line.
        None => "`outlast sim machines` lists them".to_owned(),
    };
    MachineError::UnknownKey { origin: origin.to_owned(), key: key.to_owned(), instead }
}
