//! Values with their units, as configuration files and `--set` spell them.

use crate::{config::Inclusion, policy::Policy};
use std::fmt;

/// Something that a configuration key holds.
pub(crate) trait Value: Sized {
    /// The form of a right value, for messages.
    const EXPECTS: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn show(&self) -> String;
}

/// A span of time: in cycles of the clock of the part that it belongs to, or in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// Clock cycles of the part.
    Cycles(u64),
    /// Picoseconds.
    Ps(u64),
}

impl Span {
    /// In cycles of a clock of `period_fs` femtoseconds, rounded up.
    pub fn cycles(self, period_fs: u64) -> u64 {
        match self {
            Span::Cycles(cycles) => cycles,
            Span::Ps(ps) => (ps * 1000).div_ceil(period_fs),
        }
    }

    /// Whether it is longer than `limit` microseconds, of a clock of `period_fs` femtoseconds.
    pub(super) fn exceeds_us(self, limit: u64, period_fs: u64) -> bool {
        let femtoseconds = match self {
            Span::Cycles(cycles) => u128::from(cycles) * u128::from(period_fs),
            Span::Ps(ps) => u128::from(ps) * 1000,
        };
        femtoseconds > u128::from(limit) * 1_000_000_000
    }
}

/// A clock frequency in kHz.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Clock(pub u64);

impl Clock {
    /// Its period in femtoseconds, rounded to the nearest.
    pub fn period_fs(self) -> u64 {
        (1_000_000_000_000 + self.0 / 2) / self.0
    }
}

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

/// A bandwidth in bytes per second (decimal units), or none that limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate(pub Option<u64>);

/// The energy of one bit in femtojoule, where a source gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BitEnergy(pub Option<u32>);

impl BitEnergy {
    /// In picojoule.
    pub fn picojoule(self) -> Option<f64> {
        self.0.map(|femtojoule| f64::from(femtojoule) / 1e3)
    }
}

/// How cores execute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoreKind {
    /// One instruction after the other, one cycle each outside memory.
    InOrder,
    /// Out of order, with a reorder buffer.
    OutOfOrder,
}

/// In which order a controller serves what waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduling {
    /// Data moves in the order of arrival; other banks may be prepared meanwhile.
    Fcfs,
    /// Requests that hit an open row go first, then the oldest.
    FrFcfs,
}

/// The state of a row after an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PagePolicy {
    /// It stays open until another is wanted.
    Open,
    /// It is closed unless a waiting request wants it too.
    Closed,
}

/// The treatment of writes by a buffer in front of the persistent memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BufferMode {
    /// There is no buffer.
    None,
    /// They go to memory as well, at once.
    WriteThrough,
    /// They go to memory when their lines leave the buffer.
    WriteBack,
}

/// The scope of a refresh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refresh {
    /// All banks of a rank at once.
    AllBank,
    /// One bank after the other, each as often.
    PerBank,
}

/// Which field of a memory address some bits are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Field {
    /// The row in its bank.
    Row,
    /// The rank in its channel.
    Rank,
    /// The bank in its group.
    Bank,
    /// The bank group in its rank.
    Group,
    /// The channel.
    Channel,
    /// The line in its row.
    Column,
}

/// The fields of a line's address from the highest bits to the lowest, each once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapping(pub [Field; 6]);

/// A number and what stands behind it.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end =
        text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let number = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim()))
}

/// Scaled to the base unit, if that is a whole number of them.
fn whole(number: f64, scale: f64) -> Option<u64> {
    let value = (number * scale).round();
    ((number * scale - value).abs() < 1e-6 * scale.max(1.0) && value < 1e18).then_some(value as u64)
}

impl Value for u32 {
    const EXPECTS: &'static str = "a whole number, as in 64";
    fn parse(text: &str) -> Option<Self> {
        text.trim().replace('_', "").parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for bool {
    const EXPECTS: &'static str = "true or false";
    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for Span {
    const EXPECTS: &'static str = "a time with its unit, as in \"4 cycles\" or \"13.75 ns\"";
    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = number_and_unit(text)?;
        match unit {
            "cycles" | "cycle" => whole(number, 1.0).map(Span::Cycles),
            "ps" => whole(number, 1.0).map(Span::Ps),
            "ns" => whole(number, 1e3).map(Span::Ps),
            "us" => whole(number, 1e6).map(Span::Ps),
            _ => None,
        }
    }
    fn show(&self) -> String {
        match self {
            Span::Cycles(cycles) => format!("{cycles} cycles"),
            Span::Ps(ps) => format!("{} ns", *ps as f64 / 1e3),
        }
    }
}

impl Value for Clock {
    const EXPECTS: &'static str = "a frequency with its unit, as in \"2.5 GHz\" or \"1600 MHz\"";
    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = number_and_unit(text)?;
        let khz = match unit {
            "GHz" => whole(number, 1e6)?,
            "MHz" => whole(number, 1e3)?,
            _ => return None,
        };
        (1_000..=100_000_000).contains(&khz).then_some(Clock(khz))
    }
    fn show(&self) -> String {
        format!("{} MHz", self.0 as f64 / 1e3)
    }
}

impl Value for Bytes {
    const EXPECTS: &'static str = "a size with its unit, as in \"32 KiB\" or \"8 MiB\"";
    fn parse(text: &str) -> Option<Self> {
        let (number, unit) = number_and_unit(text)?;
        let scale = match unit {
            "B" => 1.0,
            "KiB" => 1024.0,
            "MiB" => 1024.0 * 1024.0,
            "GiB" => 1024.0 * 1024.0 * 1024.0,
            _ => return None,
        };
        whole(number, scale).map(Bytes)
    }
    fn show(&self) -> String {
        match self.0 {
            n if n.is_multiple_of(1 << 20) && n > 0 => format!("{} MiB", n >> 20),
            n if n.is_multiple_of(1 << 10) && n > 0 => format!("{} KiB", n >> 10),
            n => format!("{n} B"),
        }
    }
}

impl Value for Rate {
    const EXPECTS: &'static str =
        "a bandwidth with its unit, as in \"12.8 GB/s\", or \"unlimited\"";
    fn parse(text: &str) -> Option<Self> {
        if text.trim() == "unlimited" {
            return Some(Rate(None));
        }
        let (number, unit) = number_and_unit(text)?;
        let bytes = match unit {
            "GB/s" => whole(number, 1e9)?,
            "MB/s" => whole(number, 1e6)?,
            _ => return None,
        };
        (bytes > 0).then_some(Rate(Some(bytes)))
    }
    fn show(&self) -> String {
        self.0.map_or("unlimited".to_owned(), |bytes| format!("{} GB/s", bytes as f64 / 1e9))
    }
}

impl Value for BitEnergy {
    const EXPECTS: &'static str =
        "an energy for each bit with its unit, as in \"0.93 pJ\", or \"not given\"";
    fn parse(text: &str) -> Option<Self> {
        if text.trim() == "not given" {
            return Some(BitEnergy(None));
        }
        let (number, unit) = number_and_unit(text)?;
        let femtojoule = match unit {
            "fJ" => whole(number, 1.0)?,
            "pJ" => whole(number, 1e3)?,
            _ => return None,
        };
        u32::try_from(femtojoule).ok().map(|femtojoule| BitEnergy(Some(femtojoule)))
    }
    fn show(&self) -> String {
        self.picojoule().map_or("not given".to_owned(), |picojoule| format!("{picojoule} pJ"))
    }
}

/// A value that is one of a few words.
macro_rules! words {
    ($type:ty, $expects:literal, $($word:literal => $value:expr),*) => {
        impl Value for $type {
            const EXPECTS: &'static str = $expects;
            fn parse(text: &str) -> Option<Self> {
                match text.trim() {
                    $($word => Some($value),)*
                    _ => None,
                }
            }
            fn show(&self) -> String {
                $(if *self == $value {
                    return $word.to_owned();
                })*
                unreachable!("every value has its word")
            }
        }
    };
}

words!(CoreKind, "inorder or ooo", "inorder" => CoreKind::InOrder, "ooo" => CoreKind::OutOfOrder);
words!(Scheduling, "fcfs or frfcfs", "fcfs" => Scheduling::Fcfs, "frfcfs" => Scheduling::FrFcfs);
words!(PagePolicy, "open or closed", "open" => PagePolicy::Open, "closed" => PagePolicy::Closed);
words!(
    BufferMode, "none, write-through or write-back",
    "none" => BufferMode::None, "write-through" => BufferMode::WriteThrough,
    "write-back" => BufferMode::WriteBack
);
words!(
    Refresh, "all-bank or per-bank",
    "all-bank" => Refresh::AllBank, "per-bank" => Refresh::PerBank
);
words!(
    Inclusion, "inclusive or exclusive",
    "inclusive" => Inclusion::Inclusive, "exclusive" => Inclusion::Exclusive
);
words!(
    Field, "row, rank, bank, group, channel or column",
    "row" => Field::Row, "rank" => Field::Rank, "bank" => Field::Bank,
    "group" => Field::Group, "channel" => Field::Channel, "column" => Field::Column
);

impl Value for Policy {
    const EXPECTS: &'static str = "one of lru, plru, bip, random, adversarial";
    fn parse(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for Mapping {
    const EXPECTS: &'static str =
        "row, rank, bank, group, channel and column from high bits to low, each once";
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<Field> =
            text.split_whitespace().map(Field::parse).collect::<Option<_>>()?;
        let fields: [Field; 6] = fields.try_into().ok()?;
        let distinct = (0..6).all(|at| !fields[..at].contains(&fields[at]));
        distinct.then_some(Mapping(fields))
    }
    fn show(&self) -> String {
        self.0.map(|field| field.show()).join(" ")
    }
}

impl fmt::Display for CoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.show())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_units_and_come_back_as_they_are_shown() {
        assert_eq!(Span::parse("1.6 ns"), Some(Span::Ps(1600)));
        assert_eq!(Span::parse("1.6 ns").unwrap().cycles(400_000), 4);
        assert_eq!(Span::parse("4 cycles").unwrap().cycles(123), 4);
        assert_eq!(Clock::parse("2.5 GHz").unwrap().period_fs(), 400_000);
        assert_eq!(Bytes::parse("19.25 MiB"), Some(Bytes(19_712 << 10)));
        assert_eq!(Rate::parse("12.8 GB/s"), Some(Rate(Some(12_800_000_000))));
        for wrong in ["4", "ns", "4 sec", "1.5 cycles", "-1 ns"] {
            assert_eq!(Span::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Clock::parse("0 GHz"), None);
        assert_eq!(Bytes::parse("32 KB"), None, "binary units are written as such");
        assert_eq!(Mapping::parse("row rank bank group channel row"), None);
        let mapping = "row channel rank bank group column";
        assert_eq!(Mapping::parse(mapping).unwrap().show(), mapping);
        for text in ["4 cycles", "13.75 ns"] {
            assert_eq!(Span::parse(text).unwrap().show(), text);
        }
    }
}
