//! A program's view of a pool, in words: the type of its root and all types that it
//! leads to, with the place of every field.

use std::fmt;
use std::fmt::Write;

use super::Persist;
use crate::collections::hash_key;

/// A type and all types reachable from it, as text, for instance
///
/// ```text
/// Bank v1; Bank v1 { 0 accounts: vector of Account v1, 8 opened: u64 }; Account v1 { 0 number: u64, 8 balance: i64 }
/// ```
///
/// Two types with the same text mean the same bytes. The text's [`fingerprint`](Self::fingerprint)
/// is what is compared when a pool is opened.
#[derive(Default)]
pub struct Schema {
    /// The type that is being described.
    text: String,
    /// Structs met so far, in that order.
    defined: Vec<Definition>,
}

struct Definition {
    /// Where it was declared: two types of one name are two types.
    key: &'static str,
    title: String,
    text: String,
}

/// Seeds the fingerprint. Part of the durable format.
const FINGERPRINT_SEED: u64 = u64::from_le_bytes(*b"OutlSchm");

/// The fingerprint of a schema's text.
pub(super) fn fingerprint_of(text: &str) -> u64 {
    hash_key(FINGERPRINT_SEED, text.as_bytes())
}

impl Schema {
    /// The schema of `T`.
    pub fn of<'id, T: Persist<'id>>() -> Self {
        let mut schema = Self::default();
        T::describe(&mut schema);
        schema
    }

    /// A hash of the text, the same on every machine.
    pub fn fingerprint(&self) -> u64 {
        fingerprint_of(&self.to_string())
    }

    /// Adds a word, such as the name of a number.
    pub fn word(&mut self, word: &str) {
        self.text.push_str(word);
    }

    /// Adds a struct: its name here, and what it is made of behind everything, once. `key` tells
    /// structs of one name apart; `fields` calls [`field`](Self::field) for each field.
    pub fn define(
        &mut self,
        key: &'static str,
        name: &str,
        version: u32,
        fields: impl FnOnce(&mut Self),
    ) {
        if let Some(known) = self.defined.iter().find(|known| known.key == key) {
            self.text.push_str(&known.title);
            return;
        }
        let alike = |other: &&Definition| {
            let title = other.title.split('#').next().unwrap_or_default();
            title.strip_suffix(&format!(" v{version}")) == Some(name)
        };
        let others = self.defined.iter().filter(alike).count();
        let title = match others {
            0 => format!("{name} v{version}"),
            _ => format!("{name} v{version}#{}", others + 1),
        };
        let index = self.defined.len();
        self.defined.push(Definition { key, title: title.clone(), text: String::new() });
        let outside = std::mem::take(&mut self.text);
        fields(self);
        self.defined[index].text = std::mem::replace(&mut self.text, outside);
        self.text.push_str(&title);
    }

    /// Adds a field of the struct that is being defined.
    pub fn field(&mut self, offset: u64, name: &str, describe: impl FnOnce(&mut Self)) {
        let comma = if self.text.is_empty() { "" } else { ", " };
        write!(self.text, "{comma}{offset} {name}: ").expect(STRING);
        describe(self);
    }

    /// Adds an array.
    pub fn array(&mut self, len: u64, describe: impl FnOnce(&mut Self)) {
        self.text.push('[');
        describe(self);
        write!(self.text, "; {len}]").expect(STRING);
    }

    /// Adds something made of other types, such as a collection: its word, then theirs.
    pub fn of_parts(&mut self, word: &str, parts: &[fn(&mut Self)]) {
        self.text.push_str(word);
        for (i, part) in parts.iter().enumerate() {
            self.text.push_str(if i == 0 { " of " } else { " to " });
            part(self);
        }
    }

    /// Adds a type that is checked when it is read.
    pub fn pattern(
        &mut self,
        name: &str,
        variants: &[(&str, i128)],
        describe: impl FnOnce(&mut Self),
    ) {
        write!(self.text, "{name} as ").expect(STRING);
        describe(self);
        for (i, (variant, bits)) in variants.iter().enumerate() {
            let before = if i == 0 { " (" } else { ", " };
            write!(self.text, "{before}{bits} {variant}").expect(STRING);
        }
        if !variants.is_empty() {
            self.text.push(')');
        }
    }
}

const STRING: &str = "a string takes any text";

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.defined
            .iter()
            .try_for_each(|Definition { title, text, .. }| write!(f, "; {title} {{ {text} }}"))
    }
}

/// A pool's root is of another type than the program's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the pool holds `{found}` (fingerprint {found_fingerprint:016x}) and the program expects `{expected}` (fingerprint {expected_fingerprint:016x})"
)]
pub struct SchemaMismatch {
    /// The schema that the pool was made with.
    pub found: String,
    /// Its fingerprint; 0 when it was made without types.
    pub found_fingerprint: u64,
    /// The schema of the type that was asked for.
    pub expected: String,
    /// Its fingerprint.
    pub expected_fingerprint: u64,
}
