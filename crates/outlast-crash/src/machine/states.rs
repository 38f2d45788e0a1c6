//! The memory that each number of transactions leaves, and an image beside it.

use std::collections::{BTreeMap, BTreeSet};

use outlast_schemes::Image;
use outlast_trace::PoolOffset;
use outlast_workloads::machine::Recorded;

use super::crashes::Run;
use super::history::{self, There};
use crate::explain::{Compared, Line};
use crate::oracle::prefixes::Counts;

/// Words that are compared one by one, at most.
const WORDS_MAX: usize = 8;

/// Words by their addresses.
type Words = BTreeMap<u64, u64>;

/// What the words of each set of data hold after each number of its transactions.
pub(super) struct States {
    initial: BTreeMap<u64, u64>,
    /// The words that each transaction leaves, in order.
    by_data: BTreeMap<u64, Vec<(usize, Words)>>,
}

impl States {
    /// What lies at an address.
    pub(super) fn place(&self, at: PoolOffset) -> String {
        let line = at.0 & !63;
        let is_data = self.initial.range(line..line + 64).next().is_some();
        match is_data {
            true => format!("data, line {line:#x}"),
            false => format!("line {line:#x}, the scheme's own"),
        }
    }

    pub(super) fn of(recorded: &Recorded) -> Self {
        let ran = history::ran(recorded);
        let mut states = Self { initial: BTreeMap::new(), by_data: BTreeMap::new() };
        for (data, transactions) in &ran.by_data {
            let mut memory: BTreeMap<u64, [u8; 8]> = BTreeMap::new();
            let mut left = Vec::new();
            for (number, stores) in transactions {
                let mut changed = BTreeMap::new();
                for (at, bytes) in stores {
                    for (byte, offset) in bytes.iter().zip(at.0..) {
                        let word = offset & !7;
                        let initial = word_of(&recorded.image, word).unwrap_or(0);
                        states.initial.insert(word, initial);
                        let held = memory.entry(word).or_insert(initial.to_le_bytes());
                        held[(offset % 8) as usize] = *byte;
                        changed.insert(word, u64::from_le_bytes(*held));
                    }
                }
                left.push((*number, changed));
            }
            states.by_data.insert(*data, left);
        }
        states
    }

    /// What a word may hold when no fewer than this number of transactions survive, and after which
    /// number it does.
    fn allowed(&self, data: u64, at: u64, least: usize) -> Vec<(usize, u64)> {
        let mut allowed = vec![(0, self.initial[&at])];
        for (number, words) in &self.by_data[&data] {
            if let Some(value) = words.get(&at) {
                if *number <= least {
                    allowed.clear();
                }
                allowed.push((*number, *value));
            }
        }
        allowed
    }

    /// The lines of data as all acknowledged transactions leave them, beside the image.
    pub(super) fn lines(
        &self,
        run: &Run,
        image: &[u8],
        acknowledged: &Counts,
        place: &dyn Fn(PoolOffset) -> String,
    ) -> Vec<Line> {
        let mut newest = self.initial.clone();
        for (data, transactions) in &self.by_data {
            let least = acknowledged.get(data).copied().unwrap_or(0);
            let there = transactions.iter().filter(|(number, _)| *number <= least);
            there.for_each(|(_, words)| newest.extend(words));
        }
        let lines: BTreeSet<u64> = self.initial.keys().map(|at| at & !63).collect();
        let view = Image::new(image);
        let state = |at: u64| {
            let words = |of: &BTreeMap<u64, u64>, bytes: &[u8]| -> Vec<u8> {
                let word = |at: u64| of.get(&at).copied().or_else(|| word_of(bytes, at % 64));
                (0..8).flat_map(|k| word(at + 8 * k).unwrap_or(0).to_le_bytes()).collect()
            };
            let now = view.line(run.prepared.locate(view, PoolOffset(at).line())).to_vec();
            let before = words(&self.initial, &now);
            let newest = words(&newest, &now);
            crate::explain::state_of(
                at,
                place(PoolOffset(at)),
                [before.clone(), before, now, newest],
            )
        };
        lines.into_iter().filter_map(state).collect()
    }

    pub(super) fn compared(
        &self,
        acknowledged: &Counts,
        there: Option<&There>,
        word: &dyn Fn(u64) -> [u8; 8],
    ) -> Vec<Compared> {
        let mut rows = Vec::new();
        for data in self.by_data.keys() {
            let least = acknowledged.get(data).copied().unwrap_or(0);
            let kept = match there {
                Some(There::Transactions(counts)) => counts.get(data).copied(),
                _ => None,
            };
            let mut odd = Vec::new();
            for at in self.words_of(*data) {
                let (found, allowed) =
                    (u64::from_le_bytes(word(at)), self.allowed(*data, at, least));
                if !allowed.iter().any(|(_, value)| *value == found) {
                    odd.push((at, found, allowed));
                }
            }
            let found = match kept {
                Some(kept) => format!("{kept} transactions"),
                None if odd.is_empty() => "words of different numbers of transactions".to_owned(),
                None => format!("{} words that none of these leaves", odd.len()),
            };
            rows.push(Compared {
                what: format!("data {data}"),
                expected: format!("what {least} or more whole transactions leave"),
                found,
                is_allowed: kept.is_some_and(|kept| kept >= least),
            });
            if kept.is_none() && odd.is_empty() {
                rows.extend(self.half_there(*data, least, word));
            }
            for (at, found, allowed) in odd.into_iter().take(WORDS_MAX) {
                let allowed = allowed.iter().take(3);
                let told: Vec<String> = allowed
                    .map(|(number, value)| format!("{value:#x} of transaction {number}"))
                    .collect();
                rows.push(Compared {
                    what: format!("word {at:#x}"),
                    expected: told.join(" or "),
                    found: self.origin(*data, at, found),
                    is_allowed: false,
                });
            }
        }
        rows.sort_by_key(|row| row.is_allowed);
        rows.truncate(2 * WORDS_MAX);
        rows
    }

    /// The words of the first transaction that is there in part, each as the others found it before or
    /// as that transaction left it.
    fn half_there(&self, data: u64, least: usize, word: &dyn Fn(u64) -> [u8; 8]) -> Vec<Compared> {
        let mut before = self.initial.clone();
        for (number, words) in &self.by_data[&data] {
            let changed = words.iter().filter(|(at, value)| before[*at] != **value);
            let changed: Vec<(u64, u64, u64)> =
                changed.map(|(at, value)| (*at, *value, u64::from_le_bytes(word(*at)))).collect();
            let there = changed.iter().filter(|(_, value, found)| value == found).count();
            if *number > least && there > 0 && there < changed.len() {
                let row = |(at, value, found): &(u64, u64, u64)| Compared {
                    what: format!("word {at:#x} of transaction {number}"),
                    expected: format!(
                        "{value:#x} here and in its {} other words, or in none",
                        changed.len() - 1
                    ),
                    found: match found == value {
                        true => format!("{found:#x}"),
                        false => self.origin(data, *at, *found),
                    },
                    is_allowed: found == value,
                };
                return changed.iter().map(row).take(WORDS_MAX).collect();
            }
            before.extend(words);
        }
        Vec::new()
    }

    fn words_of(&self, data: u64) -> BTreeSet<u64> {
        self.by_data[&data].iter().flat_map(|(_, words)| words.keys().copied()).collect()
    }

    /// A value with the transaction that left it.
    fn origin(&self, data: u64, at: u64, value: u64) -> String {
        let mut writers = self.by_data[&data].iter();
        let left = |(_, words): &&(usize, BTreeMap<u64, u64>)| words.get(&at) == Some(&value);
        match writers.find(left) {
            Some((number, _)) => format!("{value:#x} of transaction {number}"),
            None if self.initial.get(&at) == Some(&value) => format!("{value:#x}, the initial one"),
            None => format!("{value:#x}, which no transaction wrote there"),
        }
    }
}

pub(super) fn word_of(bytes: &[u8], at: u64) -> Option<u64> {
    let word = bytes.get(at as usize..at as usize + 8)?;
    Some(u64::from_le_bytes(word.try_into().expect("eight bytes were taken")))
}
