//! The fault model a second time, as a machine that takes every step it may: slow and obvious.
//!
//! [`images`] interprets a run on the reference machine of rule 12: stores wait in the lane's
//! buffer, then in a FIFO per line, streams in a pool, and anything that may leave does so at any
//! time. All states that the machine can be in are kept at every position. It shares no code with
//! [`History`](crate::memory::History) or [`Exhaustive`](crate::memory::Exhaustive), and is of use for a handful
//! of operations only; tests hold the two against each other. [`accept`] decides for one named
//! image whether the rules allow it, straight from the list of operations.

use std::collections::BTreeSet;

use outlast_trace::{FlushKind, Op, OpLog};
use rustc_hash::FxHashSet;

use crate::memory::model::{Clflush, Model, Tear, Wide};

mod accept;

pub use accept::{Claim, accept};

/// All images that a crash can leave, for each position of the run: entry *p* is for a crash
/// after the first *p* operations were issued. Where a crash may come between the words of one
/// store, those images are in the entry of the position before it.
pub fn images(base: &[u8], log: &OpLog, model: Model) -> Vec<BTreeSet<Vec<u8>>> {
    let mut machine = Machine::new(base, model);
    let mut all = Vec::new();
    for (lane, op) in log.iter() {
        let mut here = machine.memories();
        for visible in machine.issue(lane.0, &op) {
            here.extend(visible);
        }
        all.push(here);
    }
    all.push(machine.memories());
    all
}

/// Something that goes through a store buffer.
#[derive(Debug)]
struct Entry {
    lane: u16,
    what: What,
}

#[derive(Debug)]
enum What {
    /// Bytes inside one word, or of a line store's eight words.
    Write {
        stream: bool,
        /// Writes with one group may leave their FIFO in any order.
        group: usize,
        bytes: Vec<(u64, u8)>,
    },
    /// `clflush` of the line at `at`.
    Clflush { at: u64 },
}

/// How far an entry has come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    /// In its lane's store buffer.
    Buffer,
    /// Visible: in its line's FIFO, or in the pool of streams.
    Visible,
    /// On the medium, or carried out.
    Done,
}

/// One state that the machine may be in: where each entry is.
type State = Vec<Place>;

struct Machine {
    model: Model,
    base: Vec<u8>,
    /// In coherence order.
    entries: Vec<Entry>,
    states: FxHashSet<State>,
    /// By each lane since its last fence: which line was flushed, before which entry was issued.
    flushed: Vec<(u16, u64, usize)>,
    /// The same for `clflush` that only MFENCE orders.
    clflushed: Vec<(u16, u64, usize)>,
}

impl Machine {
    fn new(base: &[u8], model: Model) -> Self {
        Self {
            model,
            base: base.to_vec(),
            entries: Vec::new(),
            states: FxHashSet::from_iter([State::new()]),
            flushed: Vec::new(),
            clflushed: Vec::new(),
        }
    }

    /// The contents of the medium in each of the states. Of two writes to a byte the newer one wins,
    /// whichever came first to the medium: a word never goes back.
    fn memories(&self) -> BTreeSet<Vec<u8>> {
        let memory = |state: &State| {
            let mut memory = self.base.clone();
            for (entry, _) in self.entries.iter().zip(state).filter(|(_, p)| **p == Place::Done) {
                if let What::Write { bytes, .. } = &entry.what {
                    bytes.iter().for_each(|&(at, byte)| memory[at as usize] = byte);
                }
            }
            memory
        };
        self.states.iter().map(memory).collect()
    }

    /// Issues an operation. Returns the states after a crash in its middle.
    fn issue(&mut self, lane: u16, op: &Op<'_>) -> Vec<BTreeSet<Vec<u8>>> {
        // Rule 11: the stores of every other lane have left its buffer.
        self.force(|machine, state| machine.drain_stores(state, |other| other != lane));
        let mut between = Vec::new();
        match *op {
            Op::Store { at, bytes } => between = self.store(lane, at.0, bytes, false),
            Op::StoreNt { at, bytes } => between = self.store(lane, at.0, bytes, true),
            Op::Store64 { line, bytes } if self.whole_lines() => {
                let bytes = (line.0 * 64..).zip(*bytes).collect();
                self.enter(lane, What::Write { stream: true, group: usize::MAX, bytes });
            }
            Op::Store64 { line, bytes } => {
                self.store(lane, line.0 * 64, bytes, true);
            }
            Op::Rmw { at, bytes } => {
                self.fence(lane, false);
                self.store(lane, at.0, bytes, false);
                // A locked instruction leaves nothing in the buffer.
                self.force(|machine, state| machine.drain_stores(state, |_| true));
            }
            Op::Flush { kind, line } => self.flush(lane, kind, line.0 * 64),
            Op::Sfence => self.fence(lane, false),
            Op::Mfence => self.fence(lane, true),
            Op::Grow { len } => self.base.resize(len as usize, 0),
            _ => {}
        }
        self.run_freely();
        between
    }

    /// Only power failures tear, not deaths of a process.
    fn whole_lines(&self) -> bool {
        self.model.tear == Tear::Line || !self.model.domain.row().is_power
    }

    /// Words of 8 bytes, or of what of them is stored.
    fn store(&mut self, lane: u16, at: u64, bytes: &[u8], stream: bool) -> Vec<BTreeSet<Vec<u8>>> {
        let mut between = Vec::new();
        let first = self.entries.len();
        for word in at / 8..=(at + bytes.len() as u64 - 1) / 8 {
            let all = (at..).zip(bytes.iter().copied());
            let inside: Vec<(u64, u8)> = all.filter(|(at, _)| at / 8 == word).collect();
            let group = match self.model.wide {
                // One group per line that the store touches.
                Wide::Unordered => first * 1000 + (word / 8 - at / 64) as usize,
                Wide::Ascending => self.entries.len() * 1000,
            };
            self.enter(lane, What::Write { stream, group, bytes: inside });
            if self.model.domain.row().has_durable_streams {
                between.push(self.memories());
            }
        }
        between
    }

    fn enter(&mut self, lane: u16, what: What) {
        self.entries.push(Entry { lane, what });
        let is_done = self.model.domain.row().has_durable_streams;
        let place = if is_done { Place::Done } else { Place::Buffer };
        self.force(|_, state| state.push(place));
    }

    fn flush(&mut self, lane: u16, kind: FlushKind, at: u64) {
        if self.model.domain.row().has_durable_stores {
            return;
        }
        let noted = (lane, at, self.entries.len());
        match (kind, self.model.clflush) {
            (FlushKind::Clwb | FlushKind::ClflushOpt, _) => self.flushed.push(noted),
            (FlushKind::Clflush, Clflush::MfenceOnly) => self.clflushed.push(noted),
            (FlushKind::Clflush, Clflush::WithStores) => self.enter(lane, What::Clflush { at }),
        }
    }

    fn fence(&mut self, lane: u16, mfence: bool) {
        let mut due = Vec::new();
        let mut take = |noted: &mut Vec<(u16, u64, usize)>| {
            due.extend(noted.extract_if(.., |(by, ..)| *by == lane));
        };
        take(&mut self.flushed);
        if mfence {
            take(&mut self.clflushed);
        }
        self.force(|machine, state| {
            while machine.leave_buffer(state, lane) {}
            for &(_, at, before) in &due {
                machine.force_line(state, at, before);
            }
            for i in 0..machine.entries.len() {
                if machine.entries[i].lane == lane && machine.is_stream(i) {
                    machine.force_stream(state, i);
                }
            }
        });
    }

    fn force(&mut self, step: impl Fn(&Self, &mut State)) {
        let states = std::mem::take(&mut self.states);
        self.states = states
            .into_iter()
            .map(|mut state| {
                step(self, &mut state);
                state
            })
            .collect();
    }

    /// Takes every step that may be taken at any time, in every order.
    fn run_freely(&mut self) {
        let mut new: Vec<State> = self.states.iter().cloned().collect();
        while let Some(state) = new.pop() {
            let lanes: BTreeSet<u16> = self.entries.iter().map(|entry| entry.lane).collect();
            let mut steps = Vec::new();
            for lane in lanes {
                let mut next = state.clone();
                if self.leave_buffer(&mut next, lane) {
                    steps.push(next);
                }
            }
            for i in 0..self.entries.len() {
                let mut next = state.clone();
                if self.reach_medium(&mut next, i) {
                    steps.push(next);
                }
            }
            for next in steps {
                if self.states.insert(next.clone()) {
                    new.push(next);
                }
            }
        }
    }

    fn is_stream(&self, i: usize) -> bool {
        matches!(self.entries[i].what, What::Write { stream: true, .. })
    }

    fn words(&self, i: usize) -> BTreeSet<u64> {
        match &self.entries[i].what {
            What::Write { bytes, .. } => bytes.iter().map(|(at, _)| at / 8).collect(),
            What::Clflush { .. } => BTreeSet::new(),
        }
    }

    /// Streams before `i` to one of its words that are not yet on the medium.
    fn older_streams(&self, state: &State, i: usize) -> Vec<usize> {
        let words = self.words(i);
        let waits = |&j: &usize| state[j] != Place::Done && self.is_stream(j);
        (0..i).filter(waits).filter(|&j| !self.words(j).is_disjoint(&words)).collect()
    }

    /// Which FIFO a write goes through.
    fn fifo(&self, i: usize) -> Option<(u64, usize)> {
        let What::Write { stream: false, group, bytes } = &self.entries[i].what else {
            return None;
        };
        let span = match self.model.tear {
            Tear::Word => 8,
            Tear::Line => self.model.domain.row().unit_bytes,
        };
        Some((bytes[0].0 / span, *group))
    }

    /// The oldest entry of a lane's store buffer leaves it.
    fn leave_buffer(&self, state: &mut State, lane: u16) -> bool {
        let waits = |i: &usize| state[*i] == Place::Buffer && self.entries[*i].lane == lane;
        let Some(i) = (0..state.len()).find(waits) else { return false };
        match self.entries[i].what {
            What::Clflush { at } => {
                state[i] = Place::Done;
                self.force_line(state, at, i);
            }
            What::Write { stream: false, .. } if self.model.domain.row().has_durable_stores => {
                self.force_older_streams(state, i);
                state[i] = Place::Done;
            }
            What::Write { .. } => state[i] = Place::Visible,
        }
        true
    }

    /// Every store leaves the buffers of these lanes; a `clflush` with no store behind it stays.
    fn drain_stores(&self, state: &mut State, lanes: impl Fn(u16) -> bool) {
        for i in 0..state.len() {
            let Entry { lane, what } = &self.entries[i];
            while lanes(*lane) && matches!(what, What::Write { .. }) && state[i] == Place::Buffer {
                self.leave_buffer(state, *lane);
            }
        }
    }

    /// A visible write reaches the medium, if nothing must come before it.
    fn reach_medium(&self, state: &mut State, i: usize) -> bool {
        if state[i] != Place::Visible || !self.older_streams(state, i).is_empty() {
            return false;
        }
        if let Some((fifo, group)) = self.fifo(i) {
            let waits = |j: usize| state[j] != Place::Done;
            let first = |j: usize| self.fifo(j).is_some_and(|(f, g)| f == fifo && g != group);
            if (0..i).any(|j| waits(j) && first(j)) {
                return false;
            }
        }
        state[i] = Place::Done;
        true
    }

    fn force_older_streams(&self, state: &mut State, i: usize) {
        self.older_streams(state, i).into_iter().for_each(|j| self.force_stream(state, j));
    }

    fn force_stream(&self, state: &mut State, i: usize) {
        self.force_older_streams(state, i);
        state[i] = Place::Done;
    }

    /// Every visible store to the line (or sector) at `at` that was issued before entry `before`
    /// reaches the medium.
    fn force_line(&self, state: &mut State, at: u64, before: usize) {
        let span = self.model.domain.row().unit_bytes;
        for i in 0..before {
            let What::Write { stream: false, bytes, .. } = &self.entries[i].what else { continue };
            if state[i] == Place::Visible && bytes[0].0 / span == at / span {
                self.force_older_streams(state, i);
                state[i] = Place::Done;
            }
        }
    }
}
