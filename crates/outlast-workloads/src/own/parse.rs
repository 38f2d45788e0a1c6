//! The parser: one line at a time, strict, bounded by the limits of [`super`].

use std::collections::BTreeMap;
use std::str::{FromStr, SplitAsciiWhitespace};

use super::{
    BadWork, OwnStep, OwnTransaction, OwnWork, STEPS_MAX, TRANSACTIONS_MAX, WORD_BYTES, WORDS_MAX,
    check_lanes, check_memory, check_place, check_step, no_lane, too_many_steps,
};

/// The first line, with the version of the format.
const FIRST: [&str; 2] = ["outlast-work", "1"];

/// Characters of a word that an error quotes.
const QUOTED_MAX: usize = 32;

impl FromStr for OwnWork {
    type Err = BadWork;

    fn from_str(text: &str) -> Result<Self, BadWork> {
        parse(text.as_bytes())
    }
}

/// Reads the whole text.
pub(super) fn parse(bytes: &[u8]) -> Result<OwnWork, BadWork> {
    let mut parser = Parser::default();
    let mut last = 0;
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        last = number + 1;
        let line = std::str::from_utf8(line);
        let line = line.map_err(|_| BadWork::at(last, "expected text in UTF-8"))?;
        let text = line.split('#').next().unwrap_or_default();
        let mut words = text.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        let mut line = Line { words };
        let parsed = parser.line(first, &mut line).and_then(|()| line.end());
        parsed.map_err(|bad| BadWork { line: bad.line.or(Some(last)), ..bad })?;
    }
    parser.finish(last)
}

#[derive(Default)]
struct Parser {
    has_first: bool,
    /// Words of the memory.
    words: Option<u64>,
    lanes: Option<u16>,
    initial: BTreeMap<u64, u64>,
    transactions: Vec<OwnTransaction>,
    /// The transaction whose `end` has not come.
    open: Option<OwnTransaction>,
}

impl Parser {
    fn line(&mut self, first: &str, line: &mut Line<'_>) -> Result<(), BadWork> {
        if !self.has_first {
            let version = line.words.next().unwrap_or_default();
            if [first, version] != FIRST {
                return Err(BadWork::whole(format!(
                    "expected `outlast-work 1` in the first line, found {}",
                    quoted(&format!("{first} {version}"))
                )));
            }
            self.has_first = true;
            return Ok(());
        }
        match (self.words, self.open.is_some()) {
            (None, _) => self.memory(first, line),
            (Some(words), false) => self.outside(first, line, words),
            (Some(words), true) => self.inside(first, line, words),
        }
    }

    fn memory(&mut self, first: &str, line: &mut Line<'_>) -> Result<(), BadWork> {
        if first != "memory" {
            return Err(unexpected("`memory BYTES`", first));
        }
        self.words = Some(check_memory(line.number("the bytes of the memory")?)?);
        Ok(())
    }

    /// A line outside of a transaction.
    fn outside(&mut self, first: &str, line: &mut Line<'_>, words: u64) -> Result<(), BadWork> {
        match first {
            "lanes" if self.lanes.is_none() && self.transactions.is_empty() => {
                let lanes = line.number("the number of lanes")?;
                let lanes = u16::try_from(lanes).unwrap_or(u16::MAX);
                check_lanes(lanes)?;
                self.lanes = Some(lanes);
            }
            "init" if self.transactions.is_empty() => {
                let from = line.address()?;
                let values = line.values()?;
                check_place(words, from, values.len() as u64)?;
                for (word, value) in (from..).zip(values) {
                    if self.initial.insert(word, value).is_some() {
                        let at = word * WORD_BYTES;
                        return Err(BadWork::whole(format!(
                            "{at:#x} has its initial value already"
                        )));
                    }
                }
            }
            "tx" => {
                let lane = line.number_or("the lane", 0)?;
                let (lane, lanes) = (u16::try_from(lane).unwrap_or(u16::MAX), self.lanes());
                if lane >= lanes {
                    return Err(no_lane(lane, lanes));
                }
                if self.transactions.len() == TRANSACTIONS_MAX {
                    return Err(BadWork::whole(format!("at most {TRANSACTIONS_MAX} transactions")));
                }
                self.open = Some(OwnTransaction { lane, steps: Vec::new() });
            }
            "lanes" | "init" if !self.transactions.is_empty() => {
                return Err(BadWork::whole(format!("`{first}` stands before all transactions")));
            }
            "lanes" | "memory" => {
                return Err(BadWork::whole(format!("`{first}` was said already")));
            }
            other => return Err(unexpected("`lanes`, `init` or `tx`", other)),
        }
        Ok(())
    }

    /// A line of a transaction.
    fn inside(&mut self, first: &str, line: &mut Line<'_>, words: u64) -> Result<(), BadWork> {
        let step = match first {
            "load" => {
                let word = line.address()?;
                OwnStep::Load { word, words: line.number_or("the number of words", 1)? }
            }
            "store" => OwnStep::Store { word: line.address()?, values: line.values()? },
            "think" => {
                let instructions = line.number("the number of instructions")?;
                OwnStep::Think(u32::try_from(instructions).unwrap_or(u32::MAX))
            }
            "end" => {
                self.transactions.extend(self.open.take());
                return Ok(());
            }
            other => return Err(unexpected("`load`, `store`, `think` or `end`", other)),
        };
        check_step(words, &step)?;
        let steps = &mut self.open.as_mut().expect("a transaction is open").steps;
        if steps.len() == STEPS_MAX {
            return Err(too_many_steps());
        }
        steps.push(step);
        Ok(())
    }

    fn lanes(&self) -> u16 {
        self.lanes.unwrap_or(1)
    }

    fn finish(self, last: usize) -> Result<OwnWork, BadWork> {
        if self.open.is_some() {
            return Err(BadWork::at(last, "expected `end` of the last transaction"));
        }
        let lanes = self.lanes();
        let Some(words) = self.words else {
            let missing = if self.has_first { "`memory BYTES`" } else { "`outlast-work 1`" };
            return Err(BadWork::at(last, format!("expected {missing} before the end")));
        };
        OwnWork::new(words * WORD_BYTES, lanes, self.initial, self.transactions)
    }
}

/// The rest of a line.
struct Line<'t> {
    words: SplitAsciiWhitespace<'t>,
}

impl Line<'_> {
    fn number(&mut self, of: &str) -> Result<u64, BadWork> {
        let word = self.words.next();
        let number = word.and_then(|word| number(word).filter(|_| !word.starts_with('-')));
        number.ok_or_else(|| unexpected(of, word.unwrap_or_default()))
    }

    fn number_or(&mut self, of: &str, default: u64) -> Result<u64, BadWork> {
        match self.words.clone().next() {
            None => Ok(default),
            Some(_) => self.number(of),
        }
    }

    /// The number of the word at an address.
    fn address(&mut self) -> Result<u64, BadWork> {
        let at = self.number("an address")?;
        match at.is_multiple_of(WORD_BYTES) {
            true => Ok(at / WORD_BYTES),
            false => {
                Err(BadWork::whole(format!("address {at:#x}: expected a multiple of {WORD_BYTES}")))
            }
        }
    }

    /// All values that are left, one at least.
    fn values(&mut self) -> Result<Vec<u64>, BadWork> {
        let mut values = Vec::new();
        for word in self.words.by_ref().take(WORDS_MAX as usize + 1) {
            values.push(number(word).ok_or_else(|| unexpected("a value of 64 bits", word))?);
        }
        match values.is_empty() {
            true => Err(unexpected("a value of 64 bits", "")),
            false => Ok(values),
        }
    }

    fn end(&mut self) -> Result<(), BadWork> {
        self.words.next().map_or(Ok(()), |word| Err(unexpected("the end of the line", word)))
    }
}

/// A number, decimal or hexadecimal behind `0x`; one below zero is its two's complement.
fn number(word: &str) -> Option<u64> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    match (word.strip_prefix("0x"), word.strip_prefix('-')) {
        (Some(hex), _) => u64::from_str_radix(hex, 16).ok().filter(|_| digits(hex)),
        (None, Some(below)) if digits(below) => word.parse::<i64>().ok().map(i64::cast_unsigned),
        (None, None) if digits(word) => word.parse().ok(),
        _ => None,
    }
}

fn unexpected(expected: &str, found: &str) -> BadWork {
    let found = if found.is_empty() { "the end of the line".to_owned() } else { quoted(found) };
    BadWork::whole(format!("expected {expected}, found {found}"))
}

/// A word as an error shows it: printable, and not long.
fn quoted(word: &str) -> String {
    let shown: String = word.trim().chars().take(QUOTED_MAX).flat_map(char::escape_debug).collect();
    let rest = if word.chars().count() > QUOTED_MAX { "…" } else { "" };
    format!("'{shown}{rest}'")
}
