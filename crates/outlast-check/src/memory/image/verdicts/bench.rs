//! Checks contents one after the other, without recovering any.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use outlast_trace::PoolOffset;

use super::contents::Contents;
use super::{IsValid, Rows, Split};
use crate::memory::image::memory::{Memory, mix};
use crate::memory::image::open::Open;

/// Contents drawn by chance that are checked beside regular ones, where not all are.
const DRAWN: u32 = 1 << 14;

/// The most contents that are listed as those with the rarer verdict.
const LISTED_MAX: usize = 1 << 16;

/// The bytes that are checked, and which content they have.
pub(super) struct Bench<'a> {
    open: &'a Open,
    units: &'a [u32],
    rows: Rows,
    /// The words of the range.
    bytes: Vec<u8>,
    first_word: u64,
    range: std::ops::Range<usize>,
}

impl<'a> Bench<'a> {
    pub fn new(
        open: &'a Open,
        units: &'a [u32],
        at: PoolOffset,
        len: usize,
        memory: &Memory,
    ) -> Self {
        let first_word = at.0 / 8;
        let from = (at.0 % 8) as usize;
        let mut bytes = vec![0; (from + len).next_multiple_of(8)];
        memory.get(PoolOffset(first_word * 8), &mut bytes);
        let rows = vec![0; units.len()].into();
        Self { open, units, rows, bytes, first_word, range: from..from + len }
    }

    fn set(&mut self, index: usize, row: u32) {
        self.rows[index] = row;
        for (word, value) in self.open.content(self.units[index], row) {
            let at = word.wrapping_sub(self.first_word).saturating_mul(8);
            if at < self.bytes.len() as u64 {
                self.bytes[at as usize..][..8].copy_from_slice(&value.to_le_bytes());
            }
        }
    }

    fn set_all(&mut self, row: impl Fn(usize) -> u32) {
        (0..self.units.len()).for_each(|index| self.set(index, row(index)));
    }

    fn last_row(&self, index: usize) -> u32 {
        self.open.width(self.units[index]) - 1
    }

    /// Moves on to the next content. Returns false after the last one.
    pub fn advance(&mut self) -> bool {
        for index in 0..self.units.len() {
            if self.rows[index] < self.last_row(index) {
                self.set(index, self.rows[index] + 1);
                return true;
            }
            self.set(index, 0);
        }
        false
    }
}

/// The checks so far.
pub(super) struct Checked {
    /// Contents by verdict: fails, passes.
    pub counts: [u64; 2],
    /// The same, those listed that came first.
    pub listed: [Contents; 2],
    /// The check panicked on a content.
    panicked: bool,
}

impl Checked {
    /// Nothing yet, of the contents of `units` units.
    pub fn new(units: usize) -> Self {
        let listed = [Contents::new(units), Contents::new(units)];
        Self { counts: [0, 0], listed, panicked: false }
    }

    /// Checks the content on the bench, if the classes in force have it. Returns whether to go on.
    pub fn add(
        &mut self,
        bench: &Bench<'_>,
        outer: &[(Rc<Split>, bool)],
        check: IsValid<'_>,
    ) -> bool {
        let row = |unit| match bench.units.binary_search(&unit) {
            Ok(index) => bench.rows[index],
            Err(_) => bench.open.rows[unit as usize],
        };
        if !outer.iter().all(|(split, verdict)| split.contains(*verdict, &row)) {
            return true;
        }
        let bytes = &bench.bytes[bench.range.clone()];
        match catch_unwind(AssertUnwindSafe(|| check(bytes))) {
            Ok(verdict) => {
                let verdict = usize::from(verdict);
                self.counts[verdict] += 1;
                if self.listed[verdict].len() < LISTED_MAX {
                    self.listed[verdict].push(&bench.rows);
                }
            }
            Err(_) => self.panicked = true,
        }
        !self.panicked && self.counts.iter().any(|count| *count <= LISTED_MAX as u64)
    }

    /// The rarer verdict, and all contents that have it; none if they are too many to be listed.
    pub fn rarer(&mut self) -> Option<(bool, Contents)> {
        let [fails, passes] = self.counts;
        let few = usize::from(passes <= fails);
        let nothing_known = self.counts == [0, 0];
        if self.panicked || nothing_known || self.counts[few] > LISTED_MAX as u64 {
            return None;
        }
        let none = Contents::new(1);
        let listed = std::mem::replace(&mut self.listed[few], none);
        // Where contents are drawn by chance, some are drawn again.
        Some((few == 1, listed.sorted()))
    }
}

/// Checks nothing, everything, one word more or less, a word after the other, and contents drawn
/// by chance: the ways in which checks are weak.
pub(super) fn check_some(bench: &mut Bench<'_>, check: &mut impl FnMut(&Bench<'_>) -> bool) {
    let units = bench.units.len();
    let last: Vec<u32> = (0..units).map(|index| bench.last_row(index)).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15;
    let mut go_on = true;
    let mut put = |row: &dyn Fn(usize) -> u32| {
        if go_on {
            bench.set_all(row);
            go_on = check(bench);
        }
    };
    for one in 0..=units {
        put(&|index| if index == one { last[index] } else { 0 });
        put(&|index| if index == one { 0 } else { last[index] });
        put(&|index| if index < one { last[index] } else { 0 });
        put(&|index| if index < one { 0 } else { last[index] });
    }
    for _ in 0..DRAWN {
        random = mix(random);
        let drawn = |index: usize| {
            let drawn = mix(random ^ index as u64) >> 32;
            ((drawn * (u64::from(last[index]) + 1)) >> 32) as u32
        };
        put(&drawn);
    }
}
