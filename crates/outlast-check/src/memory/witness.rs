//! A failing image, said in so few words that one line replays it.

use std::fmt;
use std::str::FromStr;

use outlast_trace::{OpLog, PoolOffset};

/// Names one allowed image: the place of each crash, and the stores that had persisted.
///
/// `Display` and `FromStr` are the form that failures print:
/// `op 17 told 19 with 0x40=2 0x80=1; op 3`, one crash after the other. A pick names a unit by
/// its first open word and says which of its contents it has; units that are not named hold what
/// was durable for certain.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Witness {
    /// The crashes: of the program, of the recovery from that, and so on. None where the program
    /// fails by itself.
    pub crashes: Vec<CrashPoint>,
}

/// One crash.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct CrashPoint {
    /// The operation before which it came.
    pub op: usize,
    /// How many words of that operation were visible already; only in `eadr` and `process`.
    pub part: usize,
    /// Up to which operation the program had gone on, and acknowledged, while the store at `op`
    /// stood in the store buffer (rule 11). Equal to `op` for most.
    pub told: usize,
    /// Units that are not at their floor.
    pub picks: Vec<Pick>,
}

/// The content that a unit has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Pick {
    /// The unit's first open word.
    pub at: PoolOffset,
    /// Which of its contents, in the order of rule 4; 0 is what is durable for certain.
    pub row: u32,
}

impl Witness {
    /// A crash at the end of a run, after which nothing persisted but what was durable.
    pub(crate) fn at_end_of(log: &OpLog) -> Self {
        let (op, told) = (log.len(), log.len());
        Self { crashes: vec![CrashPoint { op, part: 0, told, picks: Vec::new() }] }
    }
}

/// A witness without a crash: of a program that fails by itself.
const NO_CRASH: &str = "no crash";

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.crashes.is_empty() {
            return f.write_str(NO_CRASH);
        }
        for (i, crash) in self.crashes.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "op {}", crash.op)?;
            if crash.part > 0 {
                write!(f, ".{}", crash.part)?;
            }
            if crash.told != crash.op {
                write!(f, " told {}", crash.told)?;
            }
            if !crash.picks.is_empty() {
                f.write_str(" with")?;
            }
            for pick in &crash.picks {
                write!(f, " {}={}", pick.at, pick.row)?;
            }
        }
        Ok(())
    }
}

/// A text that is no witness.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` names no image; expected `op N [told N] [with 0xADDRESS=N …]`, crashes set apart by `;`"
)]
pub struct ParseWitnessError(String);

impl FromStr for Witness {
    type Err = ParseWitnessError;

    fn from_str(text: &str) -> Result<Self, ParseWitnessError> {
        if text.trim() == NO_CRASH {
            return Ok(Self { crashes: Vec::new() });
        }
        let crashes: Option<Vec<CrashPoint>> = text.split(';').map(parse_crash).collect();
        crashes.map(|crashes| Self { crashes }).ok_or_else(|| ParseWitnessError(text.to_owned()))
    }
}

fn parse_crash(text: &str) -> Option<CrashPoint> {
    let mut words = text.split_whitespace().peekable();
    if words.next()? != "op" {
        return None;
    }
    let position = words.next()?;
    let (op, part) = position.split_once('.').unwrap_or((position, "0"));
    let op = op.parse().ok()?;
    let mut crash = CrashPoint { op, part: part.parse().ok()?, told: op, picks: Vec::new() };
    if words.next_if_eq(&"told").is_some() {
        crash.told = words.next()?.parse().ok()?;
    }
    if words.next_if_eq(&"with").is_some() {
        crash.picks = words.by_ref().map(parse_pick).collect::<Option<_>>()?;
    }
    words.next().is_none().then_some(crash)
}

fn parse_pick(word: &str) -> Option<Pick> {
    let (at, row) = word.split_once('=')?;
    let at = u64::from_str_radix(at.strip_prefix("0x")?, 16).ok()?;
    Some(Pick { at: PoolOffset(at), row: row.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_is_written_and_read_back() {
        for text in [
            "no crash",
            "op 17",
            "op 17.2 told 19",
            "op 17 told 19 with 0x40=2 0x80=1; op 3; op 4 with 0x0=1",
        ] {
            assert_eq!(text.parse::<Witness>().unwrap().to_string(), text);
        }
        for text in ["", "op", "op x", "op 1 with 40=2", "op 1 told", "op 1;", "op 1 2"] {
            assert!(text.parse::<Witness>().is_err(), "{text}");
        }
    }
}
