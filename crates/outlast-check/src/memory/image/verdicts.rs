//! Contents that one verdict joins.
//!
//! Recovery may declare that it uses words only through the verdict of a check
//! ([`Medium::verify`](outlast_pmem::Medium::verify)): a checksum that refuses a torn record.
//! Then it cannot tell the contents with one verdict from each other, and the search branches on
//! the verdict alone. The check itself runs on every content, which takes nanoseconds where a
//! recovery takes microseconds.
//!
//! A verdict that was taken is a *class*: its units stay undecided, and what recovery looks at
//! later it decides among the contents that the class has. So a promise that is broken costs
//! executions and no soundness. Sizes of classes are counted, and the images that the executions
//! stand for still add up.

use std::rc::Rc;

use outlast_trace::PoolOffset;

use super::open::{Choice, Mode, Open, Step, UNDECIDED};
use crate::memory::count::Count;
use crate::memory::image::memory::{Memory, draw, mix};

mod bench;
mod contents;

use bench::{Bench, Checked, check_some};
use contents::Contents;

/// The most contents that are all checked. Of more only some are, and the search is not complete.
const CHECKED_MAX: u64 = 1 << 22;

/// The most contents with the rarer verdict that are options of their own: recovery goes on to
/// load a record that it has found whole.
const FEW: usize = 8;

/// A check of some bytes, of which only the verdict is used.
pub(crate) type IsValid<'a> = &'a dyn Fn(&[u8]) -> bool;

/// One row for each unit of a split.
type Rows = Box<[u32]>;

/// The contents of some units, divided by their verdict.
#[derive(Debug)]
pub(super) struct Split {
    at: PoolOffset,
    len: usize,
    /// In ascending order.
    units: Vec<u32>,
    pub options: Vec<Part>,
    /// The contents with the rarer verdict, in ascending order.
    few: Contents,
    few_verdict: bool,
    /// The classes in force before, with units of which the check is concerned too.
    outer: Vec<(Rc<Split>, bool)>,
    print: u128,
}

/// One option of a split.
#[derive(Debug)]
pub(super) struct Part {
    taken: Taken,
    pub count: Count,
}

#[derive(Debug)]
enum Taken {
    /// All contents with this verdict.
    Class(bool),
    /// This content.
    Content(Rows, bool),
    /// The units are decided one by one, as if they were loaded.
    OneByOne,
}

/// A class that was taken.
#[derive(Debug)]
pub(super) struct Active {
    split: Rc<Split>,
    verdict: bool,
    /// The classes that its units had before.
    before: Vec<u32>,
}

impl Split {
    fn is_of(&self, at: PoolOffset, len: usize, units: &[u32]) -> bool {
        (self.at, self.len, &self.units[..]) == (at, len, units)
    }

    fn contains(&self, verdict: bool, row: &impl Fn(u32) -> u32) -> bool {
        let is_few = self.few.contains(self.units.iter().map(|&unit| row(unit)));
        is_few == (verdict == self.few_verdict)
            && self.outer.iter().all(|(outer, verdict)| outer.contains(*verdict, row))
    }

    fn print_of(&self, verdict: bool) -> u128 {
        if verdict { self.print } else { self.print.rotate_left(64) ^ 1 }
    }
}

impl Open {
    /// Checks some bytes for a verdict; see the module.
    pub fn verify(
        &mut self,
        at: PoolOffset,
        len: usize,
        is_valid: IsValid<'_>,
        memory: &mut Memory,
    ) -> bool {
        if self.is_any() && len > 0 {
            let words = (at.0 / 8, (at.0 + len as u64 - 1) / 8);
            let verdict = match self.mode {
                Mode::Search => self.branch(at, len, words, is_valid, memory),
                Mode::Sample(_) => self.draw_jointly(words, memory),
                Mode::Fixed(_) | Mode::AllBut(_) => None,
            };
            if let Some(verdict) = verdict {
                return verdict;
            }
            self.touch(words.0, words.1, memory);
        }
        is_valid(memory.bytes(at, len))
    }

    /// Takes the next option of the verdict. `None` where the bytes have to be looked at.
    fn branch(
        &mut self,
        at: PoolOffset,
        len: usize,
        words: (u64, u64),
        is_valid: IsValid<'_>,
        memory: &mut Memory,
    ) -> Option<bool> {
        let units = self.joined(self.undecided_in(words));
        if units.is_empty() {
            return None;
        }
        let known = match self.trail.get(self.at).map(|step| &step.choice) {
            Some(Choice::Verdict(split)) if split.is_of(at, len, &units) => true,
            Some(_) => {
                self.stray();
                false
            }
            None => false,
        };
        if !known {
            let (split, total) = self.split(at, len, units, is_valid, memory);
            let each = self.rest_so_far().over(total);
            let rest = each.by(split.options[0].count);
            self.trail.push(Step {
                choice: Choice::Verdict(Rc::new(split)),
                option: 0,
                each,
                rest,
            });
        }
        let step = &self.trail[self.at];
        self.at += 1;
        let Choice::Verdict(split) = &step.choice else { unreachable!("it was just put there") };
        let split = Rc::clone(split);
        match &split.options[step.option as usize].taken {
            Taken::OneByOne => None,
            // All contents have this verdict: it says nothing about them.
            Taken::Class(verdict) if split.options.len() == 1 => Some(*verdict),
            Taken::Class(verdict) => {
                self.activate(Rc::clone(&split), *verdict);
                Some(*verdict)
            }
            Taken::Content(rows, verdict) => {
                for (&unit, &row) in split.units.iter().zip(rows) {
                    self.set_row(unit, row, memory);
                }
                Some(*verdict)
            }
        }
    }

    fn undecided_in(&self, (first, last): (u64, u64)) -> Vec<u32> {
        let mut units: Vec<u32> = (first..=last)
            .filter_map(|word| self.owner(word))
            .filter(|&unit| self.rows[unit as usize] == UNDECIDED)
            .collect();
        units.sort_unstable();
        units.dedup();
        units
    }

    /// These units, and those that a class ties to them.
    fn joined(&self, mut units: Vec<u32>) -> Vec<u32> {
        let classes = self.classes_of(&units);
        if classes.is_empty() {
            return units;
        }
        for (split, _) in classes {
            let open = split.units.iter().filter(|unit| self.rows[**unit as usize] == UNDECIDED);
            units.extend(open);
        }
        units.sort_unstable();
        units.dedup();
        units
    }

    fn classes_of(&self, units: &[u32]) -> Vec<(Rc<Split>, bool)> {
        let mut numbers: Vec<u32> =
            units.iter().map(|unit| self.class_of[*unit as usize]).filter(|n| *n != 0).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let active = |number: &u32| &self.active[*number as usize - 1];
        let class = |active: &Active| (Rc::clone(&active.split), active.verdict);
        numbers.iter().map(active).map(class).collect()
    }

    /// Divides the contents of these units by their verdict. Returns how many there are.
    fn split(
        &mut self,
        at: PoolOffset,
        len: usize,
        units: Vec<u32>,
        is_valid: IsValid<'_>,
        memory: &Memory,
    ) -> (Split, Count) {
        let outer = self.classes_of(&units);
        let all =
            units.iter().try_fold(1u64, |all, unit| all.checked_mul(self.width(*unit).into()));
        let mut checked = Checked::new(units.len());
        let mut bench = Bench::new(self, &units, at, len, memory);
        let mut check = |bench: &Bench<'_>| checked.add(bench, &outer, is_valid);
        let is_whole = all.is_some_and(|all| all <= CHECKED_MAX);
        if is_whole {
            while check(&bench) && bench.advance() {}
        } else {
            check_some(&mut bench, &mut check);
        }
        let counts = checked.counts;
        let mut split = Split {
            at,
            len,
            print: 0,
            options: Vec::new(),
            few: Contents::new(units.len()),
            few_verdict: true,
            outer,
            units,
        };
        let total = self.candidates(&split, &|unit| self.row(unit));
        let Some((few_verdict, few)) = checked.rarer() else {
            split.options.push(Part { taken: Taken::OneByOne, count: total });
            return (split, total);
        };
        self.guessed |= !is_whole;
        let many = total.without(few.len() as u64);
        let content = |rows: &[u32], verdict| Part {
            taken: Taken::Content(rows.into(), verdict),
            count: Count::ONE,
        };
        if is_whole && counts[usize::from(!few_verdict)] == 1 {
            let listed = &checked.listed[usize::from(!few_verdict)];
            split.options.extend(listed.iter().map(|rows| content(rows, !few_verdict)));
        } else if !many.is_zero() {
            split.options.push(Part { taken: Taken::Class(!few_verdict), count: many });
        }
        if few.len() <= FEW {
            split.options.extend(few.iter().map(|rows| content(rows, few_verdict)));
        } else {
            let count = Count::Exact(few.len() as u128);
            split.options.push(Part { taken: Taken::Class(few_verdict), count });
        }
        split.print = self.print_of(&split.units, &few);
        (split.few, split.few_verdict) = (few, few_verdict);
        (split, total)
    }

    /// A fingerprint of which contents have the rarer verdict.
    fn print_of(&self, units: &[u32], few: &Contents) -> u128 {
        let mut print = 0u128;
        for &unit in units {
            print = mix_into(print, self.any_print(unit));
        }
        for &row in few.iter().flatten() {
            print = mix_into(print, row.into());
        }
        print
    }

    fn row(&self, unit: u32) -> Option<u32> {
        Some(self.rows[unit as usize]).filter(|row| *row != UNDECIDED)
    }

    /// How many contents the units of a split have that its outer classes allow, with those rows
    /// that are given.
    fn candidates(&self, split: &Split, row: &dyn Fn(u32) -> Option<u32>) -> Count {
        let is_outer = |unit: &u32| {
            split.outer.iter().any(|(outer, _)| outer.units.binary_search(unit).is_ok())
        };
        let free = split.units.iter().filter(|unit| row(**unit).is_none() && !is_outer(unit));
        let free = free.fold(Count::ONE, |all, unit| all.times(self.width(*unit).into()));
        let outer = split.outer.iter();
        outer.fold(free, |all, (outer, verdict)| all.by(self.members(outer, *verdict, row)))
    }

    /// How many contents a class has, with those rows that are given.
    fn members(&self, split: &Split, verdict: bool, row: &dyn Fn(u32) -> Option<u32>) -> Count {
        let has = |(unit, few): (&u32, &u32)| row(*unit).is_none_or(|row| row == *few);
        let fits = |few: &&[u32]| split.units.iter().zip(few.iter()).all(has);
        let few = split.few.iter().filter(fits).count() as u64;
        if verdict == split.few_verdict {
            Count::Exact(few.into())
        } else {
            self.candidates(split, row).without(few)
        }
    }

    /// The rows that a unit of a class may have, each with the number of contents that have it.
    /// `None` for a unit of none.
    pub(super) fn rows_in_class(&self, unit: u32) -> Option<Rc<[(u32, Count)]>> {
        let active = self.active.get((self.class_of[unit as usize] as usize).checked_sub(1)?)?;
        let count = |row| {
            let given = |other| if other == unit { Some(row) } else { self.row(other) };
            (row, self.members(&active.split, active.verdict, &given))
        };
        Some((0..self.width(unit)).map(count).filter(|(_, count)| !count.is_zero()).collect())
    }

    fn activate(&mut self, split: Rc<Split>, verdict: bool) {
        let number = self.active.len() as u32 + 1;
        let class = |unit: &u32| std::mem::replace(&mut self.class_of[*unit as usize], number);
        let before = split.units.iter().map(class).collect();
        self.classes_print = self.classes_print.wrapping_add(split.print_of(verdict));
        self.active.push(Active { split, verdict, before });
    }

    /// Forgets the classes taken last, until `left` remain.
    pub(super) fn deactivate(&mut self, left: usize) {
        while self.active.len() > left {
            let Some(Active { split, verdict, before }) = self.active.pop() else { return };
            for (&unit, class) in split.units.iter().zip(before) {
                self.class_of[unit as usize] = class;
            }
            self.classes_print = self.classes_print.wrapping_sub(split.print_of(verdict));
        }
    }

    /// A content of each class in force, as far as it is not decided and not at its floor: what
    /// names the image.
    pub fn representatives(&self) -> Vec<(u32, u32)> {
        let mut all = Vec::new();
        for (number, active) in (1..).zip(&self.active) {
            let is_open = |unit: &&u32| {
                self.row(**unit).is_none() && self.class_of[**unit as usize] == number
            };
            let open: Vec<u32> = active.split.units.iter().filter(is_open).copied().collect();
            let mut rows = vec![0; open.len()];
            let fits = |rows: &[u32]| {
                let row = |unit| match open.binary_search(&unit) {
                    Ok(index) => rows[index],
                    Err(_) => self.rows[unit as usize],
                };
                active.split.contains(active.verdict, &row)
            };
            while !open.is_empty() && !fits(&rows) && self.step(&open, &mut rows) {}
            all.extend(open.into_iter().zip(rows).filter(|(_, row)| *row != 0));
        }
        all
    }

    /// The next content of some units.
    fn step(&self, units: &[u32], rows: &mut [u32]) -> bool {
        for (&unit, row) in units.iter().zip(rows) {
            if *row + 1 < self.width(unit) {
                *row += 1;
                return true;
            }
            *row = 0;
        }
        false
    }

    /// Where contents are drawn: words that are checked together are often new together, or all
    /// but one, since a check refuses nearly everything else.
    fn draw_jointly(&mut self, words: (u64, u64), memory: &mut Memory) -> Option<bool> {
        let units = self.undecided_in(words);
        let Mode::Sample(state) = &mut self.mode else { return None };
        let drawn = draw(state);
        let other = (drawn >> 32) as usize % units.len().max(1);
        let is_new = match drawn & 3 {
            0 => |_, _| false,
            1 => |_, _| true,
            2 => |index: usize, other: usize| index != other,
            _ => return None,
        };
        for (index, unit) in units.into_iter().enumerate() {
            let row = if is_new(index, other) { self.width(unit) - 1 } else { 0 };
            self.draw(unit, row, memory);
        }
        None
    }
}

fn mix_into(print: u128, part: u128) -> u128 {
    let low = mix(print as u64 ^ part as u64);
    let high = mix((print >> 64) as u64 ^ (part >> 64) as u64 ^ low);
    u128::from(high) << 64 | u128::from(low.wrapping_add(high))
}
