//! How to open or create a database: the parameters of SQLite's URI.

use outlast::medium::{CreateOptions, MapOptions, OpenOptions};
use outlast::{Domain, Scheme};

use crate::changes::SPILL_BYTES;
use crate::layout::EXTENT_BYTES;

/// The parameters that a URI can have, beside SQLite's own.
pub const PARAMETERS: [&str; 5] = ["scheme", "domain", "size", "limit", "spill"];

/// Redo logging, where neither a URI nor the pool asks for another scheme: it takes least of SQLite's transactions,
/// which mostly change other pages than the ones before, so that data left to the cache is flushed all the same.
const USUAL_SCHEME: Scheme = Scheme::Redo;

/// How to open or create a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// How transactions are made durable; `None` takes `redo`, or what the pool's checksums need.
    pub scheme: Option<Scheme>,
    /// The memory that a crash spares; `None` takes what this machine and the file are found to have.
    pub domain: Option<Domain>,
    /// Bytes of a new pool.
    pub size_bytes: u64,
    /// The pool grows by itself up to this many bytes.
    pub limit_bytes: u64,
    /// Changes of a transaction that volatile memory holds, at most; more of them are spilled into the pool.
    pub spill_bytes: u64,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        let limit_bytes = MapOptions::default().max_len;
        let (size_bytes, spill_bytes) = (16 << 20, SPILL_BYTES as u64);
        Self { scheme: None, domain: None, size_bytes, limit_bytes, spill_bytes }
    }
}

/// A parameter that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter}={value}: {why}")]
pub struct BadParameter {
    parameter: &'static str,
    value: String,
    why: String,
}

impl DatabaseOptions {
    /// The options of a URI; `value_of` knows the values of its parameters.
    ///
    /// # Errors
    /// [`BadParameter`], which says what would be right.
    pub fn from_uri(value_of: impl Fn(&str) -> Option<String>) -> Result<Self, BadParameter> {
        let mut options = Self::default();
        for parameter in PARAMETERS {
            let Some(value) = value_of(parameter) else { continue };
            options.set(parameter, &value).map_err(|why| BadParameter {
                parameter,
                value: value.clone(),
                why,
            })?;
        }
        if options.size_bytes > options.limit_bytes {
            let value = options.size_bytes.to_string();
            let why = format!("more than the limit of {} bytes", options.limit_bytes);
            return Err(BadParameter { parameter: "size", value, why });
        }
        Ok(options)
    }

    fn set(&mut self, parameter: &str, value: &str) -> Result<(), String> {
        match parameter {
            "scheme" => self.scheme = Some(value.parse().map_err(words)?),
            "domain" => self.domain = Some(value.parse().map_err(words)?),
            "size" => self.size_bytes = bytes(value)?,
            "limit" => self.limit_bytes = bytes(value)?,
            _ => self.spill_bytes = bytes(value)?,
        }
        Ok(())
    }

    pub(crate) fn create(&self) -> CreateOptions {
        // One connection at a time commits; the second lane is for tools that look in.
        CreateOptions {
            lanes: 2,
            lane_bytes: 1 << 20,
            chunk_bytes: Some(EXTENT_BYTES),
            ..CreateOptions::default()
        }
    }

    pub(crate) fn open(&self) -> OpenOptions {
        let grow_limit_bytes = self.limit_bytes;
        OpenOptions {
            scheme: self.scheme,
            usual_scheme: USUAL_SCHEME,
            grow_limit_bytes,
            lock_stripes: 1 << 10,
            ..OpenOptions::default()
        }
    }

    pub(crate) fn map(&self) -> MapOptions {
        let max_len = self.limit_bytes.max(MapOptions::default().max_len);
        MapOptions { domain: self.domain, max_len, ..MapOptions::default() }
    }
}

fn words(error: impl ToString) -> String {
    error.to_string()
}

/// Bytes, maybe with a binary unit.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        Some(b't' | b'T') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number: Option<u64> = digits.parse().ok();
    number
        .filter(|number| *number > 0 && number.leading_zeros() > shift)
        .map(|number| number << shift)
        .ok_or_else(|| "no size: write bytes or use K, M, G, T, as in 64M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[(&str, &str)]) -> Result<DatabaseOptions, String> {
        let find = |name: &str| given.iter().find(|(of, _)| *of == name);
        DatabaseOptions::from_uri(|name| find(name).map(|(_, value)| (*value).to_owned()))
            .map_err(words)
    }

    #[test]
    fn a_uri_says_how_and_what_cannot_be_is_named() {
        assert_eq!(of(&[]), Ok(DatabaseOptions::default()));
        let given = of(&[
            ("scheme", "redo-archapt"),
            ("domain", "page"),
            ("size", "32M"),
            ("limit", "1G"),
            ("spill", "2M"),
        ]);
        let wanted = DatabaseOptions {
            scheme: Some(Scheme::RedoArchapt),
            domain: Some(Domain::Page),
            size_bytes: 32 << 20,
            limit_bytes: 1 << 30,
            spill_bytes: 2 << 20,
        };
        assert_eq!(given, Ok(wanted));
        for (name, value) in
            [("scheme", "quick"), ("domain", "tape"), ("size", "0"), ("limit", "9999999T")]
        {
            let error = of(&[(name, value)]).unwrap_err();
            assert!(error.starts_with(&format!("{name}={value}: ")), "{error}");
        }
        let error = of(&[("size", "2M"), ("limit", "1M")]).unwrap_err();
        assert_eq!(error, "size=2097152: more than the limit of 1048576 bytes");
    }
}
