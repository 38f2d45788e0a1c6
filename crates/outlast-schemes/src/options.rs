//! What can be chosen of a scheme: `--set scheme.KEY=VALUE`, beside the machine's keys; and of what
//! any scheme may stand on: `--set ait.KEY=VALUE`.

use std::fmt;

use outlast_sim::nearest;
use outlast_sim::timed::MachineError;

/// What stands before a scheme's keys.
pub const PREFIX: &str = "scheme.";

/// What a key's values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A number of something: what, in the plural.
    Count(&'static str),
    /// Cycles of the core's clock.
    Cycles,
    /// Bytes, with a binary unit.
    Bytes,
    /// `true` or `false`.
    Flag,
}

/// One thing that can be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its name, without [`PREFIX`]. One that is not a scheme's own has a prefix of its own in it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What its values are.
    pub unit: Unit,
    /// The value where none is given: the paper's, where it has one.
    pub default: u64,
    /// The least and the greatest value.
    pub range: (u64, u64),
}

impl Key {
    /// A key that is `true` or `false`.
    pub const fn flag(name: &'static str, default: bool, about: &'static str) -> Self {
        Self { name, about, unit: Unit::Flag, default: default as u64, range: (0, 1) }
    }

    /// A key that is a number.
    pub const fn number(
        name: &'static str,
        unit: Unit,
        default: u64,
        range: (u64, u64),
        about: &'static str,
    ) -> Self {
        Self { name, about, unit, default, range }
    }

    /// Its name as commands have it.
    pub fn full_name(&self) -> String {
        full_name(self.name)
    }

    fn parse(&self, text: &str) -> Option<u64> {
        let text = text.trim().replace('_', "");
        let (digits, unit) =
            text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
        let number = || digits.parse::<u64>().ok();
        let value = match (self.unit, unit.trim()) {
            (Unit::Flag, word) if digits.is_empty() => u64::from(word.parse::<bool>().ok()?),
            (Unit::Count(_), "") | (Unit::Cycles, "" | "cycles" | "cycle") => number()?,
            (Unit::Count(what), unit) if unit == what => number()?,
            (Unit::Bytes, "B") => number()?,
            (Unit::Bytes, "KiB") => number()?.checked_mul(1 << 10)?,
            (Unit::Bytes, "MiB") => number()?.checked_mul(1 << 20)?,
            (Unit::Bytes, "GiB") => number()?.checked_mul(1 << 30)?,
            _ => return None,
        };
        (self.range.0..=self.range.1).contains(&value).then_some(value)
    }

    /// A value as it would be given.
    pub fn show(&self, value: u64) -> String {
        match self.unit {
            Unit::Count(_) => value.to_string(),
            Unit::Cycles => format!("{value} cycles"),
            Unit::Flag => (value != 0).to_string(),
            Unit::Bytes if value.is_multiple_of(1 << 20) && value > 0 => {
                format!("{} MiB", value >> 20)
            }
            Unit::Bytes if value.is_multiple_of(1 << 10) && value > 0 => {
                format!("{} KiB", value >> 10)
            }
            Unit::Bytes => format!("{value} B"),
        }
    }

    /// What its values look like, with their range.
    pub fn expects(&self) -> String {
        let (least, most) = (self.show(self.range.0), self.show(self.range.1));
        match self.unit {
            Unit::Flag => "true or false".to_owned(),
            Unit::Count(what) => format!("a number of {what}, {least} to {most}"),
            Unit::Cycles => format!("a time in cycles, {least} to {most}"),
            Unit::Bytes => format!("a size with its unit, {least} to {most}"),
        }
    }
}

/// Values given for some keys; the others have their defaults.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    given: Vec<(&'static str, u64)>,
}

impl Options {
    /// Sets a key of these to what a text says. `origin` says where it was asked for.
    ///
    /// # Errors
    /// When none of them has this name, or the value is not of its kind.
    pub fn set(
        &mut self,
        keys: &[Key],
        origin: &str,
        name: &str,
        text: &str,
    ) -> Result<(), MachineError> {
        let Some(key) = keys.iter().find(|key| key.name == name) else {
            return Err(unknown(keys, origin, name));
        };
        let Some(value) = key.parse(text) else {
            return Err(MachineError::BadValue {
                origin: origin.to_owned(),
                key: full_name(name),
                text: text.to_owned(),
                expects: key.expects(),
            });
        };
        self.put(key.name, value);
        Ok(())
    }

    /// Sets a key to a value that is known to be right.
    pub fn put(&mut self, name: &'static str, value: u64) {
        self.given.retain(|(known, _)| *known != name);
        self.given.push((name, value));
    }

    /// The same with another value of a key.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: u64) -> Self {
        self.put(name, value);
        self
    }

    /// Whether a value was given for a key.
    pub fn is_given(&self, key: &Key) -> bool {
        self.given.iter().any(|(name, _)| *name == key.name)
    }

    /// The value of a key.
    pub fn get(&self, key: &Key) -> u64 {
        let given = self.given.iter().find(|(name, _)| *name == key.name);
        given.map_or(key.default, |(_, value)| *value)
    }

    /// What was given of these keys, in their order: each with its value.
    pub fn given<'k>(&self, keys: &'k [Key]) -> impl Iterator<Item = (&'k Key, u64)> {
        keys.iter().filter_map(|key| {
            let given = self.given.iter().find(|(name, _)| *name == key.name);
            given.map(|(_, value)| (key, *value))
        })
    }
}

/// A key's name with its prefix, which keys of what schemes stand on have already.
fn full_name(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!("{PREFIX}{name}") }
}

fn unknown(keys: &[Key], origin: &str, name: &str) -> MachineError {
    let names: Vec<String> = keys.iter().map(Key::full_name).collect();
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let key = full_name(name);
    let instead = match (nearest(&key, &known).first(), known.is_empty()) {
        (Some(near), _) => format!("did you mean '{near}'?"),
        (None, true) => "this scheme has none".to_owned(),
        (None, false) => format!("there are {}", known.join(", ")),
    };
    MachineError::UnknownKey { origin: origin.to_owned(), key, instead }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count(what) => what,
            Self::Cycles => "cycles",
            Self::Bytes => "bytes",
            Self::Flag => "true or false",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [Key; 4] = [
        Key::number("log_slots", Unit::Count("lines"), 64, (1, 1 << 24), "lines of the log"),
        Key::number("period", Unit::Cycles, 3_000_000, (100, 1 << 30), "from scan to scan"),
        Key::number("cache", Unit::Bytes, 1 << 20, (64, 1 << 30), "of what was written"),
        Key::flag("forces", true, "whether lines are forced out"),
    ];

    #[test]
    fn values_come_with_units_and_wrong_ones_are_named() {
        let mut options = Options::default();
        for (name, text) in [
            ("log_slots", "4_096"),
            ("period", "500 cycles"),
            ("cache", "8 KiB"),
            ("forces", "false"),
        ] {
            options.set(&KEYS, "--set", name, text).unwrap();
        }
        let values = KEYS.map(|key| options.get(&key));
        assert_eq!(values, [4096, 500, 8192, 0]);
        for (key, value) in KEYS.iter().zip(values) {
            assert_eq!(key.parse(&key.show(value)), Some(value), "{}", key.name);
        }
        assert_eq!(Options::default().get(&KEYS[1]), 3_000_000);
        let wrong = |name, text: &str| {
            Options::default().set(&KEYS, "--set", name, text).unwrap_err().to_string()
        };
        assert!(wrong("log_slotz", "1").contains("did you mean 'scheme.log_slots'?"));
        assert!(wrong("endurance", "1").contains("there are scheme.log_slots, scheme.period"));
        assert!(wrong("log_slots", "0").contains("a number of lines, 1 to 16777216"));
        assert!(wrong("period", "3 ns").contains("100 cycles to 1073741824 cycles"));
        assert!(wrong("cache", "4096").contains("a size with its unit, 64 B to 1024 MiB"));
        assert!(wrong("forces", "1").contains("true or false"));
        assert!(wrong("cache", "99999999999999999999 GiB").contains("scheme.cache"));
    }
}
