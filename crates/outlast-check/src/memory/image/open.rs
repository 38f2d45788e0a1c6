//! The undecided contents of an image, and the order in which recovery decides them.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::memory::count::Count;
use crate::memory::history::tracker::Tracker;
use crate::memory::history::units::{TooWide, Unit, Units};
use crate::memory::image::memory::{Memory, draw, mix, print};
use crate::memory::image::verdicts::{Active, Split};

/// A unit that got its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    pub unit: u32,
    pub row: u32,
}

/// A choice that recovery came by, and its result.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub choice: Choice,
    /// Which of its options was taken.
    pub option: u32,
    /// How many images each content stands for that the options count.
    pub each: Count,
    /// How many images agree in all that is chosen up to here.
    pub rest: Count,
}

#[derive(Clone, Debug)]
pub(super) enum Choice {
    /// The content of a unit.
    Unit { unit: u32, width: u32 },
    /// The content of a unit that a class ties to others: rows, each with the number of the
    /// class's contents that have it.
    Member { unit: u32, rows: Rc<[(u32, Count)]> },
    /// The verdict of a check.
    Verdict(Rc<Split>),
}

impl Choice {
    fn is_of(&self, decided: u32) -> bool {
        matches!(self, Self::Unit { unit, .. } | Self::Member { unit, .. } if *unit == decided)
    }

    fn options(&self) -> u32 {
        match self {
            Self::Unit { width, .. } => *width,
            Self::Member { rows, .. } => rows.len() as u32,
            Self::Verdict(split) => split.options.len() as u32,
        }
    }

    fn count(&self, option: u32) -> Count {
        match self {
            Self::Unit { .. } => Count::ONE,
            Self::Member { rows, .. } => rows[option as usize].1,
            Self::Verdict(split) => split.options[option as usize].count,
        }
    }
}

/// How a unit gets its content when recovery touches it.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
    /// The next one that was not tried yet, depth first.
    Search,
    /// By chance, often an extreme one.
    Sample(u64),
    /// Rows by a unit's first word; unnamed units get their durable contents.
    Fixed(FxHashMap<u64, u32>),
    /// Everything persisted, but for the units with these first words.
    AllBut(Vec<u64>),
}

/// The open units of all crash points that are being looked into, one inside the other.
#[derive(Debug)]
pub(crate) struct Open {
    units: Units,
    /// The row of each unit; [`UNDECIDED`] if it has none yet.
    pub(super) rows: Vec<u32>,
    prints: Vec<Prints>,
    /// Fingerprints of rows, from each unit's `Prints::first` on.
    row_prints: Vec<u128>,
    /// For each line of the medium, which of `slots` it has, plus one; 0 for most.
    line_slots: Vec<u32>,
    slots: Vec<Slot>,
    /// Sum over all undecided units of the difference between "any row" and row 0.
    any_over_floor: u128,
    pub(super) mode: Mode,
    pub(super) trail: Vec<Step>,
    /// How much of the trail this recovery has come by.
    pub(super) at: usize,
    /// The decisions of this recovery, in order.
    decided: Vec<Decision>,
    /// The classes in force, those of earlier crashes first.
    pub(super) active: Vec<Active>,
    /// How many of them an earlier crash has left.
    active_before: usize,
    /// The innermost class of each unit, counted from 1; 0 for most.
    pub(super) class_of: Vec<u32>,
    pub(super) classes_print: u128,
    /// Whether some verdict stands for contents that were not all checked.
    pub(super) guessed: bool,
    /// How many images there are when nothing is decided.
    whole: Count,
    strayed: bool,
    /// The first unit of each crash point that is being looked into.
    starts: Vec<u32>,
}

pub(super) const UNDECIDED: u32 = u32::MAX;

/// The units that own the words of a line, plus one.
#[derive(Clone, Copy, Debug)]
struct Slot {
    line: u64,
    units: [u32; 8],
}

#[derive(Clone, Copy, Debug)]
struct Prints {
    first: usize,
    any: u128,
}

/// The units of one crash point, to be closed again.
#[derive(Debug)]
pub(crate) struct Frame {
    units: usize,
    words: usize,
    values: usize,
    slots: usize,
    row_prints: usize,
    whole: Count,
    trail: Vec<Step>,
    decided: Vec<Decision>,
    active_before: usize,
    /// Choices in the sense of rule 4 that the crash point's own units have.
    pub choices: Count,
}

impl Frame {
    /// The first unit of the crash point.
    pub fn first_unit(&self) -> u32 {
        self.units as u32
    }
}

impl Open {
    pub fn new(len: u64) -> Self {
        Self {
            units: Units::default(),
            rows: Vec::new(),
            prints: Vec::new(),
            row_prints: Vec::new(),
            line_slots: vec![0; (len / 64) as usize],
            slots: Vec::new(),
            any_over_floor: 0,
            mode: Mode::Search,
            trail: Vec::new(),
            at: 0,
            decided: Vec::new(),
            active: Vec::new(),
            active_before: 0,
            class_of: Vec::new(),
            classes_print: 0,
            guessed: false,
            whole: Count::ONE,
            strayed: false,
            starts: Vec::new(),
        }
    }

    pub fn resize(&mut self, len: u64) {
        self.line_slots.resize((len / 64) as usize, 0);
    }

    /// Returns the mode that was in force.
    pub fn set_mode(&mut self, mode: Mode) -> Mode {
        std::mem::replace(&mut self.mode, mode)
    }

    #[inline]
    pub fn is_any(&self) -> bool {
        !self.slots.is_empty()
    }

    /// How many images there are when nothing is decided.
    pub fn whole(&self) -> Count {
        self.whole
    }

    /// The decisions of this recovery, in order.
    pub fn decisions(&self) -> &[Decision] {
        &self.decided
    }

    /// How many images agree in all that this recovery decided.
    pub fn rest(&self) -> Count {
        self.trail[..self.at].last().map_or(self.whole, |last| last.rest)
    }

    /// The same, before the choice that is about to be put behind the trail.
    pub(super) fn rest_so_far(&self) -> Count {
        self.trail.last().map_or(self.whole, |last| last.rest)
    }

    /// Whether some images were taken for refused without their check: the search is not complete.
    pub fn has_guessed(&self) -> bool {
        self.guessed
    }

    pub(super) fn width(&self, unit: u32) -> u32 {
        self.units.units[unit as usize].width
    }

    /// The words of a unit in a row.
    pub(super) fn content(&self, unit: u32, row: u32) -> impl Iterator<Item = (u64, u64)> {
        let unit = &self.units.units[unit as usize];
        let words = &self.units.words[unit.words.clone()];
        words.iter().copied().zip(self.units.row(unit, row).iter().copied())
    }

    /// A fingerprint of a unit that may have any content.
    pub(super) fn any_print(&self, unit: u32) -> u128 {
        self.prints[unit as usize].any
    }

    /// The unit that a word belongs to, if it is open.
    pub(super) fn owner(&self, word: u64) -> Option<u32> {
        let slot = self.line_slots[(word / 8) as usize].checked_sub(1)?;
        self.slots[slot as usize].units[(word % 8) as usize].checked_sub(1)
    }

    /// The first word of a unit, which names it within its crash point.
    pub fn name(&self, unit: u32) -> u64 {
        self.units.words[self.units.units[unit as usize].words.start]
    }

    /// The names of this unit and all that were opened after it.
    pub fn names_from(&self, first: u32) -> Vec<u64> {
        (first..self.units.units.len() as u32).map(|unit| self.name(unit)).collect()
    }

    /// How many contents the unit with this first word has; 0 if no unit begins there.
    pub fn width_of(&self, word: u64) -> u32 {
        let named = |unit: &&Unit| self.units.words[unit.words.start] == word;
        self.units.units.iter().rev().find(named).map_or(0, |unit| unit.width)
    }

    /// Opens the units of the crash point at which `tracker` stands, inside those already open.
    pub fn push(&mut self, tracker: &Tracker, memory: &Memory) -> Result<Frame, TooWide> {
        let mut frame = Frame {
            units: self.units.units.len(),
            words: self.units.words.len(),
            values: self.units.values.len(),
            slots: self.slots.len(),
            row_prints: self.row_prints.len(),
            whole: self.whole,
            trail: std::mem::take(&mut self.trail),
            decided: std::mem::take(&mut self.decided),
            active_before: self.active_before,
            choices: Count::ONE,
        };
        self.at = 0;
        self.active_before = self.active.len();
        self.starts.push(frame.units as u32);
        match self.units.open(tracker, memory) {
            Ok(choices) => frame.choices = choices,
            Err(wide) => {
                self.pop(frame, None);
                return Err(wide);
            }
        }
        for unit in frame.units..self.units.units.len() {
            self.rows.push(UNDECIDED);
            self.class_of.push(0);
            self.push_prints(unit);
            self.whole = self.whole.times(self.units.units[unit].width.into());
            self.set_owner(unit, unit as u32 + 1);
        }
        Ok(frame)
    }

    fn push_prints(&mut self, unit: usize) {
        let first = self.row_prints.len();
        let unit = &self.units.units[unit];
        let words = &self.units.words[unit.words.clone()];
        for row in 0..unit.width {
            let values = self.units.row(unit, row).iter();
            let sum = words.iter().zip(values).map(|(&word, &value)| print(word, value));
            self.row_prints.push(sum.fold(0, u128::wrapping_add));
        }
        let all = self.row_prints[first..].iter().fold(0u128, |sum, &row| sum.wrapping_add(row));
        let any = u128::from(mix(all as u64)) << 64 | u128::from(mix((all >> 64) as u64 ^ 1));
        self.prints.push(Prints { first, any });
        let floor = self.row_prints[first];
        self.any_over_floor = self.any_over_floor.wrapping_add(any.wrapping_sub(floor));
    }

    /// Closes a crash point's units. `memory` is needed when any was opened.
    pub fn pop(&mut self, frame: Frame, memory: Option<&mut Memory>) {
        if let Some(memory) = memory {
            self.undecide(memory);
        }
        for unit in frame.units..self.rows.len() {
            self.set_owner(unit, 0);
            let Prints { first, any } = self.prints[unit];
            let over = any.wrapping_sub(self.row_prints[first]);
            self.any_over_floor = self.any_over_floor.wrapping_sub(over);
        }
        for slot in self.slots.drain(frame.slots..) {
            self.line_slots[slot.line as usize] = 0;
        }
        self.units.units.truncate(frame.units);
        self.units.words.truncate(frame.words);
        self.units.values.truncate(frame.values);
        self.rows.truncate(frame.units);
        self.class_of.truncate(frame.units);
        self.prints.truncate(frame.units);
        self.row_prints.truncate(frame.row_prints);
        self.whole = frame.whole;
        self.trail = frame.trail;
        self.decided = frame.decided;
        self.active_before = frame.active_before;
        self.at = 0;
        self.starts.pop();
    }

    /// Makes the decisions of this recovery part of the image, for crashes that follow it.
    pub fn settle(&mut self, memory: &mut Memory) -> Frame {
        let decided = std::mem::take(&mut self.decided);
        let whole = self.whole;
        self.whole = self.rest();
        for decision in &decided {
            self.set_owner(decision.unit as usize, 0);
            memory.adjust_fingerprint(self.settled_over_floor(decision));
            let over = self.any_over_floor_of(decision.unit);
            self.any_over_floor = self.any_over_floor.wrapping_sub(over);
        }
        self.trail.truncate(self.at);
        self.at = 0;
        let active_before = std::mem::replace(&mut self.active_before, self.active.len());
        Frame {
            units: self.units.units.len(),
            words: self.units.words.len(),
            values: self.units.values.len(),
            slots: self.slots.len(),
            row_prints: self.row_prints.len(),
            whole,
            trail: std::mem::take(&mut self.trail),
            decided,
            active_before,
            choices: Count::ONE,
        }
    }

    /// Takes a [`settle`](Self::settle) back.
    pub fn unsettle(&mut self, frame: Frame, memory: &mut Memory) {
        self.trail = frame.trail;
        self.at = self.trail.len();
        self.decided = frame.decided;
        self.active_before = frame.active_before;
        self.whole = frame.whole;
        for i in 0..self.decided.len() {
            let decision = self.decided[i];
            self.set_owner(decision.unit as usize, decision.unit + 1);
            memory.adjust_fingerprint(self.settled_over_floor(&decision).wrapping_neg());
            let over = self.any_over_floor_of(decision.unit);
            self.any_over_floor = self.any_over_floor.wrapping_add(over);
        }
    }

    fn settled_over_floor(&self, decision: &Decision) -> u128 {
        let first = self.prints[decision.unit as usize].first;
        self.row_prints[first + decision.row as usize].wrapping_sub(self.row_prints[first])
    }

    fn any_over_floor_of(&self, unit: u32) -> u128 {
        let Prints { first, any } = self.prints[unit as usize];
        any.wrapping_sub(self.row_prints[first])
    }

    fn set_owner(&mut self, unit: usize, owner: u32) {
        for word in self.units.units[unit].words.clone() {
            let index = self.units.words[word];
            let line = index / 8;
            let mut slot = self.line_slots[line as usize];
            if slot == 0 {
                self.slots.push(Slot { line, units: [0; 8] });
                slot = self.slots.len() as u32;
                self.line_slots[line as usize] = slot;
            }
            self.slots[slot as usize - 1].units[(index % 8) as usize] = owner;
        }
    }

    /// A fingerprint of the set of images that this recovery stands for.
    pub fn fingerprint(&self, memory: &Memory) -> u128 {
        let mut sum = memory.fingerprint().wrapping_add(self.any_over_floor);
        sum = sum.wrapping_add(self.classes_print);
        for decision in self.decisions() {
            let Prints { first, any } = self.prints[decision.unit as usize];
            let row = self.row_prints[first + decision.row as usize];
            sum = sum.wrapping_add(row.wrapping_sub(any));
        }
        sum
    }

    /// Gets ready for a recovery.
    pub fn begin(&mut self) {
        self.at = 0;
        self.strayed = false;
    }

    /// Puts decided units back to their durable contents.
    pub fn undecide(&mut self, memory: &mut Memory) {
        for i in 0..self.decided.len() {
            let Decision { unit, row } = self.decided[i];
            self.rows[unit as usize] = UNDECIDED;
            if row != 0 {
                self.put_row(unit, 0, memory);
            }
        }
        self.decided.clear();
        self.deactivate(self.active_before);
        self.at = 0;
    }

    /// Moves on to the next combination of contents. Returns false when all have been tried.
    pub fn advance(&mut self) -> bool {
        while let Some(last) = self.trail.last_mut() {
            if last.option + 1 < last.choice.options() {
                last.option += 1;
                last.rest = last.each.by(last.choice.count(last.option));
                return true;
            }
            self.trail.pop();
        }
        false
    }

    /// Forgets the decisions of this recovery: where contents are not tried one after the other.
    pub fn forget(&mut self) {
        self.trail.clear();
    }

    /// Whether this recovery decided other units than the one before it that was given the same
    /// contents: it is no function of its image.
    pub fn has_strayed(&self) -> bool {
        self.strayed || self.at < self.trail.len()
    }

    /// Recovery accesses these words.
    #[inline]
    pub fn touch(&mut self, first: u64, last: u64, memory: &mut Memory) {
        for line in first / 8..=last / 8 {
            let slot = self.line_slots[line as usize];
            if slot != 0 {
                self.touch_line(slot, line, first, last, memory);
            }
        }
    }

    fn touch_line(&mut self, slot: u32, line: u64, first: u64, last: u64, memory: &mut Memory) {
        let from = first.max(line * 8) % 8;
        let to = last.min(line * 8 + 7) % 8;
        for word in from..=to {
            let owner = self.slots[slot as usize - 1].units[word as usize];
            if owner != 0 && self.rows[owner as usize - 1] == UNDECIDED {
                self.decide(owner - 1, memory);
            }
        }
    }

    fn decide(&mut self, unit: u32, memory: &mut Memory) {
        match self.trail.get(self.at) {
            Some(step) if step.choice.is_of(unit) => {}
            other => {
                if other.is_some() {
                    self.stray();
                }
                self.push_step(unit);
            }
        }
        let step = &self.trail[self.at];
        let row = match &step.choice {
            Choice::Member { rows, .. } => rows[step.option as usize].0,
            _ => step.option,
        };
        self.at += 1;
        self.set_row(unit, row, memory);
    }

    /// This recovery came by another choice than the one before it.
    pub(super) fn stray(&mut self) {
        self.strayed = true;
        self.trail.truncate(self.at);
    }

    pub(super) fn set_row(&mut self, unit: u32, row: u32, memory: &mut Memory) {
        self.rows[unit as usize] = row;
        self.decided.push(Decision { unit, row });
        if row != 0 {
            self.put_row(unit, row, memory);
        }
    }

    fn push_step(&mut self, unit: u32) {
        let width = self.width(unit);
        let before = self.rest_so_far();
        if let Some(rows) = self.rows_in_class(unit) {
            let all = rows.iter().fold(Count::ZERO, |all, (_, count)| all.plus(*count));
            let (each, first) = (before.over(all), rows[0].1);
            let choice = Choice::Member { unit, rows };
            self.trail.push(Step { choice, option: 0, each, rest: each.by(first) });
            return;
        }
        let name = self.name(unit);
        let row = match &mut self.mode {
            Mode::Search => 0,
            Mode::Sample(state) => sample_row(state, width),
            Mode::Fixed(rows) => rows.get(&name).copied().unwrap_or(0).min(width - 1),
            Mode::AllBut(left_out) if left_out.contains(&name) => 0,
            Mode::AllBut(_) => width - 1,
        };
        self.push_row(unit, row);
    }

    fn push_row(&mut self, unit: u32, row: u32) {
        let width = self.width(unit);
        let each = self.rest_so_far().divided_by(width.into());
        let choice = Choice::Unit { unit, width };
        self.trail.push(Step { choice, option: row, each, rest: each });
    }

    /// Gives a unit a content that was drawn.
    pub(super) fn draw(&mut self, unit: u32, row: u32, memory: &mut Memory) {
        self.push_row(unit, row);
        self.at += 1;
        self.set_row(unit, row, memory);
    }

    /// The words of each unit that is still open.
    pub fn undecided_words(&self) -> impl Iterator<Item = &[u64]> {
        let open = self.units.units.iter().zip(&self.rows).filter(|(_, row)| **row == UNDECIDED);
        open.map(|(unit, _)| &self.units.words[unit.words.clone()])
    }

    /// Which crash, counted from 0, left this unit open.
    pub fn crash_of(&self, unit: u32) -> usize {
        self.starts.partition_point(|&start| start <= unit) - 1
    }

    fn put_row(&self, unit: u32, row: u32, memory: &mut Memory) {
        let unit = &self.units.units[unit as usize];
        let words = &self.units.words[unit.words.clone()];
        for (&word, &value) in words.iter().zip(self.units.row(unit, row)) {
            memory.put_word(word, value);
        }
    }
}

/// Half of the time nothing or everything, else any.
fn sample_row(state: &mut u64, width: u32) -> u32 {
    let z = draw(state);
    match z & 3 {
        0 => 0,
        1 => width - 1,
        _ => (((z >> 32) * u64::from(width)) >> 32) as u32,
    }
}
