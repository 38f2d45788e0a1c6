//! What of an image is still open, and the order in which recovery decides it.

use rustc_hash::FxHashMap;

use crate::count::Count;
use crate::history::tracker::Tracker;
use crate::history::units::{TooWide, Units};
use crate::image::memory::{Memory, mix, print};

/// A unit that got its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    pub unit: u32,
    pub row: u32,
    /// How many images agree in all that is decided up to here.
    pub rest: Count,
}

/// How a unit gets its content when recovery touches it.
#[derive(Clone, Debug)]
pub(crate) enum Mode {
    /// The next one that was not tried yet, depth first.
    Search,
    /// By chance, often an extreme one.
    Sample(u64),
    /// As said, by the unit's first word; what is not named gets what is durable for certain.
    Fixed(FxHashMap<u64, u32>),
}

/// The open units of all crash points that are being looked into, one inside the other.
#[derive(Debug)]
pub(crate) struct Open {
    units: Units,
    /// The row of each unit; [`UNDECIDED`] if it has none yet.
    rows: Vec<u32>,
    prints: Vec<Prints>,
    /// Fingerprints of rows, from each unit's `Prints::first` on.
    row_prints: Vec<u128>,
    /// For each line of the medium, which of `slots` it has, plus one; 0 for most.
    line_slots: Vec<u32>,
    slots: Vec<Slot>,
    /// Sum over all undecided units of what sets "any row" apart from row 0.
    any_over_floor: u128,
    mode: Mode,
    trail: Vec<Decision>,
    /// How much of the trail this recovery has come by.
    at: usize,
    /// How many images there are when nothing is decided.
    whole: Count,
    strayed: bool,
    /// The first unit of each crash point that is being looked into.
    starts: Vec<u32>,
}

const UNDECIDED: u32 = u32::MAX;

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
    trail: Vec<Decision>,
    /// Choices in the sense of rule 4 that the crash point's own units have.
    pub choices: Count,
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
            whole: Count::ONE,
            strayed: false,
            starts: Vec::new(),
        }
    }

    pub fn resize(&mut self, len: u64) {
        self.line_slots.resize((len / 64) as usize, 0);
    }

    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    #[inline]
    pub fn is_any(&self) -> bool {
        !self.slots.is_empty()
    }

    /// How many images there are when nothing is decided.
    pub fn whole(&self) -> Count {
        self.whole
    }

    /// What this recovery decided, in order.
    pub fn decisions(&self) -> &[Decision] {
        &self.trail[..self.at]
    }

    /// How many images agree in all that this recovery decided.
    pub fn rest(&self) -> Count {
        self.decisions().last().map_or(self.whole, |last| last.rest)
    }

    /// The first word of a unit, which names it within its crash point.
    pub fn name(&self, unit: u32) -> u64 {
        self.units.words[self.units.units[unit as usize].words.start]
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
            choices: Count::ONE,
        };
        self.at = 0;
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
        self.prints.truncate(frame.units);
        self.row_prints.truncate(frame.row_prints);
        self.whole = frame.whole;
        self.trail = frame.trail;
        self.at = 0;
        self.starts.pop();
    }

    /// Makes what this recovery decided part of the image, for crashes that follow it.
    pub fn settle(&mut self, memory: &mut Memory) -> Frame {
        let decisions = self.decisions().to_vec();
        let whole = self.whole;
        self.whole = self.rest();
        for decision in &decisions {
            self.set_owner(decision.unit as usize, 0);
            memory.adjust_fingerprint(self.settled_over_floor(decision));
            let over = self.any_over_floor_of(decision.unit);
            self.any_over_floor = self.any_over_floor.wrapping_sub(over);
        }
        self.trail.truncate(self.at);
        Frame {
            units: self.units.units.len(),
            words: self.units.words.len(),
            values: self.units.values.len(),
            slots: self.slots.len(),
            row_prints: self.row_prints.len(),
            whole,
            trail: std::mem::take(&mut self.trail),
            choices: Count::ONE,
        }
    }

    /// Takes a [`settle`](Self::settle) back.
    pub fn unsettle(&mut self, frame: Frame, memory: &mut Memory) {
        self.trail = frame.trail;
        self.at = self.trail.len();
        self.whole = frame.whole;
        for i in 0..self.trail.len() {
            let decision = self.trail[i];
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

    /// Puts what was decided back to what is durable for certain.
    pub fn undecide(&mut self, memory: &mut Memory) {
        for i in 0..self.at {
            let Decision { unit, row, .. } = self.trail[i];
            self.rows[unit as usize] = UNDECIDED;
            if row != 0 {
                self.put_row(unit, 0, memory);
            }
        }
        self.at = 0;
    }

    /// Moves on to the next combination of contents. Returns false when all have been tried.
    pub fn advance(&mut self) -> bool {
        while let Some(last) = self.trail.last_mut() {
            if last.row + 1 < self.units.units[last.unit as usize].width {
                last.row += 1;
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
        let width = self.units.units[unit as usize].width;
        let row = match self.trail.get(self.at) {
            Some(decision) if decision.unit == unit => decision.row,
            Some(_) => {
                self.strayed = true;
                self.trail.truncate(self.at);
                self.first_row(unit, width)
            }
            None => self.first_row(unit, width),
        };
        self.at += 1;
        self.rows[unit as usize] = row;
        if row != 0 {
            self.put_row(unit, row, memory);
        }
    }

    fn first_row(&mut self, unit: u32, width: u32) -> u32 {
        let name = self.name(unit);
        let row = match &mut self.mode {
            Mode::Search => 0,
            Mode::Sample(state) => sample_row(state, width),
            Mode::Fixed(rows) => rows.get(&name).copied().unwrap_or(0).min(width - 1),
        };
        let rest = self.trail.last().map_or(self.whole, |last| last.rest);
        self.trail.push(Decision { unit, row, rest: rest.divided_by(width.into()) });
        row
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
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = mix(*state);
    match z & 3 {
        0 => 0,
        1 => width - 1,
        _ => (((z >> 32) * u64::from(width)) >> 32) as u32,
    }
}
