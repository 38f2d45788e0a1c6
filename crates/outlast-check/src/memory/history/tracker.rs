//! Follows an operation stream and knows what is durable and what is not yet.

use std::collections::BTreeMap;

use outlast_trace::{FlushKind, LaneId, LineAddr, Op, PoolOffset, word_pieces};

use crate::memory::model::{Clflush, Model, Tear, Wide};

/// Durable memory, as words.
pub(crate) trait Base {
    /// The word with this index.
    fn word(&self, index: u64) -> u64;
    /// Replaces the word with this index.
    fn set_word(&mut self, index: u64, value: u64);
    /// The medium became `len` bytes long.
    fn grow(&mut self, len: u64);
}

/// A store that was issued and need not be durable yet: the part of it that lies in one word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// Its place in the order of all events.
    pub seq: u32,
    /// The operation that it belongs to, by its index in the stream.
    pub op: u32,
    /// Which of the operation's words it is.
    pub piece: u32,
    pub lane: LaneId,
    pub kind: Kind,
    /// Which word of its cell.
    pub word: u32,
    /// Which bits of the word it stores; none if a durable stream came after it (rule 10).
    pub mask: u64,
    pub value: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Ordinary,
    Stream,
    /// One of the eight words of a line store, which belong together.
    LineStore,
}

impl Event {
    pub(crate) fn is_ordinary(&self) -> bool {
        self.kind == Kind::Ordinary
    }

    pub(crate) fn over(&self, old: u64) -> u64 {
        old & !self.mask | self.value & self.mask
    }
}

/// When an operation that raises a floor does so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Raise {
    /// As it is issued.
    Issued,
    /// As it leaves the store buffer; the lane may have gone on by then (rule 11).
    Drained,
}

/// Within what stores persist in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cells {
    /// Lines or sectors, as the domain says.
    ByModel,
    /// The whole medium: stores persist in the order of the program.
    One,
}

/// In which steps a store of several words is durable, where that is at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Words {
    Ascending,
    Descending,
    /// In one.
    Whole,
}

/// The durable state at a position of an operation stream.
#[derive(Debug)]
pub(crate) struct Tracker {
    model: Model,
    /// Bytes within which stores persist in order.
    cell_bytes: u64,
    words: Words,
    /// Events that are not durable for certain, in coherence order, by cell.
    cells: BTreeMap<u64, Vec<Event>>,
    lanes: Vec<Lane>,
    seq: u32,
    spare: Vec<Vec<Event>>,
}

#[derive(Clone, Debug, Default)]
struct Lane {
    /// Cells flushed since the last fence, with the last event that the flush covered.
    flushed: Vec<(u64, u32)>,
    /// The same for `clflush`.
    clflushed: Vec<(u64, u32)>,
    /// Cells streamed to since the last fence.
    streamed: Vec<u64>,
}

impl Tracker {
    pub(crate) fn new(model: Model) -> Self {
        Self::with(model, Cells::ByModel, Words::Ascending)
    }

    /// A tracker for a counterfactual. One cell for all needs a stream with ordinary stores only.
    pub(crate) fn with(model: Model, cells: Cells, words: Words) -> Self {
        let cell_bytes = match cells {
            // Large, and still a multiple of every unit.
            Cells::One => 1 << 34,
            Cells::ByModel => model.domain.row().unit_bytes,
        };
        Self {
            model,
            cell_bytes,
            words,
            cells: BTreeMap::new(),
            lanes: Vec::new(),
            seq: 0,
            spare: Vec::new(),
        }
    }

    pub(crate) fn model(&self) -> Model {
        self.model
    }

    /// Words in a cell.
    pub(crate) fn cell_words(&self) -> u64 {
        self.cell_bytes / 8
    }

    /// Cells with events that are not durable for certain, in ascending order.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (u64, &[Event])> {
        self.cells.iter().map(|(&cell, events)| (cell, &events[..]))
    }

    pub(crate) fn cell(&self, cell: u64) -> &[Event] {
        self.cells.get(&cell).map_or(&[], |events| events)
    }

    /// In how many steps the operation takes effect. Where stores are durable as they become
    /// visible, a crash may come between the words of one store.
    pub(crate) fn parts(&self, op: &Op<'_>) -> usize {
        let row = self.model.domain.row();
        match op {
            Op::Store { at, bytes } if row.has_durable_stores => {
                word_pieces(*at, bytes.len()).count()
            }
            Op::StoreNt { at, bytes } if row.has_durable_streams => {
                word_pieces(*at, bytes.len()).count()
            }
            _ => 1,
        }
    }

    /// Whether the next part of an operation raises some unit's floor: then the position before
    /// it is a key point.
    pub(crate) fn raises(&self, lane: LaneId, op: &Op<'_>, part: usize) -> Option<Raise> {
        if let Op::Grow { .. } = op {
            return Some(Raise::Issued);
        }
        let row = self.model.domain.row();
        match (row.has_durable_stores, row.has_durable_streams) {
            (_, true) => match op {
                Op::Store { .. } | Op::StoreNt { .. } | Op::Store64 { .. } | Op::Rmw { .. } => {
                    Some(Raise::Issued)
                }
                _ => None,
            },
            (true, false) => match op {
                Op::Store { .. } => Some(Raise::Drained),
                Op::Rmw { .. } => Some(Raise::Issued),
                Op::Sfence | Op::Mfence => self.fence_raises(lane, op),
                _ => None,
            },
            (false, false) => match op {
                Op::Sfence | Op::Mfence | Op::Rmw { .. } => self.fence_raises(lane, op),
                Op::Store { .. } | Op::StoreNt { .. } | Op::Store64 { .. }
                    if part == 0 && self.model.clflush == Clflush::WithStores =>
                {
                    let lane = self.lanes.get(usize::from(lane.0))?;
                    let raises = lane.clflushed.iter().any(|&(cell, seq)| self.covers(cell, seq));
                    raises.then_some(Raise::Drained)
                }
                _ => None,
            },
        }
    }

    fn fence_raises(&self, lane: LaneId, op: &Op<'_>) -> Option<Raise> {
        let number = lane;
        let lane = self.lanes.get(usize::from(lane.0))?;
        let clflushed: &[_] =
            if fences_clflush(self.model.clflush, op) { &lane.clflushed } else { &[] };
        let raises = lane.flushed.iter().chain(clflushed).any(|&(c, seq)| self.covers(c, seq))
            || lane.streamed.iter().any(|&cell| {
                self.cell(cell).iter().any(|event| !event.is_ordinary() && event.lane == number)
            });
        raises.then_some(Raise::Issued)
    }

    /// Whether a flush up to `seq` finds an ordinary store in the cell that is not yet durable.
    fn covers(&self, cell: u64, seq: u32) -> bool {
        self.cell(cell).iter().any(|event| event.is_ordinary() && event.seq <= seq)
    }

    /// Lets one part of the operation with this index take effect.
    pub(crate) fn apply(
        &mut self,
        index: usize,
        lane: LaneId,
        op: &Op<'_>,
        part: usize,
        base: &mut impl Base,
    ) {
        let index = index as u32;
        let part = match self.words {
            Words::Ascending => Some(part),
            Words::Descending => Some(self.parts(op) - 1 - part),
            Words::Whole => None,
        };
        if matches!(op, Op::Store { .. } | Op::StoreNt { .. } | Op::Store64 { .. }) {
            self.drain_clflushes(lane, base);
        }
        let row = self.model.domain.row();
        match *op {
            Op::Store { at, bytes } if row.has_durable_stores => {
                self.make_durable(at, bytes, part, base);
            }
            Op::Store { at, bytes } => self.issue(index, lane, Kind::Ordinary, at, bytes),
            Op::StoreNt { at, bytes } if row.has_durable_streams => {
                self.make_durable(at, bytes, part, base);
            }
            Op::StoreNt { at, bytes } => self.issue(index, lane, Kind::Stream, at, bytes),
            Op::Store64 { line, bytes } => match self.model.tear {
                _ if row.has_durable_streams => self.make_durable(line.start(), bytes, None, base),
                Tear::Line => self.issue(index, lane, Kind::LineStore, line.start(), bytes),
                Tear::Word => self.issue(index, lane, Kind::Stream, line.start(), bytes),
            },
            Op::Rmw { at, bytes } => {
                self.fence(lane, op, base);
                match row.has_durable_stores {
                    true => self.make_durable(at, bytes, None, base),
                    false => self.issue(index, lane, Kind::Ordinary, at, bytes),
                }
            }
            Op::Flush { kind, line } => self.flush(lane, kind, line),
            Op::Sfence | Op::Mfence => self.fence(lane, op, base),
            Op::Grow { len } => base.grow(len),
            Op::Compute(_)
            | Op::Load { .. }
            | Op::TxBegin
            | Op::TxEnd
            | Op::TxAbort
            | Op::Ack(_)
            | Op::Lock { .. }
            | Op::Unlock { .. }
            | Op::Signal { .. }
            | Op::Wait { .. }
            | Op::Epoch => {}
        }
    }

    fn lane(&mut self, lane: LaneId) -> &mut Lane {
        let lane = usize::from(lane.0);
        if self.lanes.len() <= lane {
            self.lanes.resize(lane + 1, Lane::default());
        }
        &mut self.lanes[lane]
    }

    fn issue(&mut self, op: u32, lane: LaneId, kind: Kind, at: PoolOffset, bytes: &[u8]) {
        let cell_bytes = self.cell_bytes;
        let mut done = 0;
        for (piece, (at, len)) in word_pieces(at, bytes.len()).enumerate() {
            let (mask, value) = masked(at, &bytes[done..done + len]);
            done += len;
            // The words of a line store, and of an unordered vector store, share their place.
            let joined = piece > 0
                && (kind == Kind::LineStore
                    || (self.model.wide == Wide::Unordered
                        && kind == Kind::Ordinary
                        && at.in_line() != 0));
            if !joined {
                self.seq += 1;
            }
            let cell = at.0 / cell_bytes;
            let word = (at.0 % cell_bytes / 8) as u32;
            let event =
                Event { seq: self.seq, op, piece: piece as u32, lane, kind, word, mask, value };
            let spare = &mut self.spare;
            self.cells.entry(cell).or_insert_with(|| spare.pop().unwrap_or_default()).push(event);
            if kind != Kind::Ordinary {
                let streamed = &mut self.lane(lane).streamed;
                if streamed.last() != Some(&cell) {
                    streamed.push(cell);
                }
            }
        }
    }

    /// Stores that are durable as soon as they are visible: all of the operation, or one part.
    fn make_durable(
        &mut self,
        at: PoolOffset,
        bytes: &[u8],
        part: Option<usize>,
        base: &mut impl Base,
    ) {
        let cell_bytes = self.cell_bytes;
        let mut done = 0;
        for (piece, (at, len)) in word_pieces(at, bytes.len()).enumerate() {
            let (mask, value) = masked(at, &bytes[done..done + len]);
            done += len;
            if part.is_some_and(|part| part != piece) {
                continue;
            }
            // Rule 10: streams to the same word that came before are durable with it.
            let word = (at.0 % cell_bytes / 8) as u32;
            self.settle(at.0 / cell_bytes, base, |event| event.word == word);
            let index = at.0 / 8;
            base.set_word(index, base.word(index) & !mask | value & mask);
        }
    }

    fn flush(&mut self, lane: LaneId, kind: FlushKind, line: LineAddr) {
        if self.model.domain.row().has_durable_stores {
            return;
        }
        let cell = line.start().0 / self.cell_bytes;
        if !self.cells.contains_key(&cell) {
            return;
        }
        let noted = (cell, self.seq);
        let lane = self.lane(lane);
        match kind {
            FlushKind::Clwb | FlushKind::ClflushOpt => lane.flushed.push(noted),
            FlushKind::Clflush => lane.clflushed.push(noted),
        }
    }

    fn fence(&mut self, lane: LaneId, op: &Op<'_>, base: &mut impl Base) {
        let number = lane;
        let with_clflush = fences_clflush(self.model.clflush, op);
        let lane = self.lane(lane);
        let mut flushed = std::mem::take(&mut lane.flushed);
        let mut streamed = std::mem::take(&mut lane.streamed);
        if with_clflush {
            flushed.append(&mut lane.clflushed);
        }
        for (cell, seq) in flushed.drain(..) {
            self.settle(cell, base, |event| event.is_ordinary() && event.seq <= seq);
        }
        for cell in streamed.drain(..) {
            self.settle(cell, base, |event| !event.is_ordinary() && event.lane == number);
        }
        let lane = self.lane(number);
        (lane.flushed, lane.streamed) = (flushed, streamed);
    }

    fn drain_clflushes(&mut self, lane: LaneId, base: &mut impl Base) {
        let idle = |lanes: &[Lane]| lanes.iter().all(|lane| lane.clflushed.is_empty());
        if self.model.clflush == Clflush::MfenceOnly || idle(&self.lanes) {
            return;
        }
        let clflushed = std::mem::take(&mut self.lane(lane).clflushed);
        for (cell, seq) in clflushed {
            self.settle(cell, base, |event| event.is_ordinary() && event.seq <= seq);
        }
    }

    /// Makes the chosen events of a cell durable, with all that they imply.
    fn settle(&mut self, cell: u64, base: &mut impl Base, chosen: impl Fn(&Event) -> bool) {
        let cell_bytes = self.cell_bytes;
        let Some(events) = self.cells.get_mut(&cell) else { return };
        let mut durable: Vec<bool> = events.iter().map(&chosen).collect();
        if !durable.contains(&true) {
            return;
        }
        for i in 0..events.len() {
            if durable[i] {
                mark_whole(events, &mut durable, i);
            }
        }
        imply_older_streams(events, &mut durable);
        for i in 0..events.len() {
            let event = events[i];
            if !durable[i] {
                continue;
            }
            let index = cell * (cell_bytes / 8) + u64::from(event.word);
            base.set_word(index, event.over(base.word(index)));
            if event.is_ordinary() {
                continue;
            }
            // An older ordinary store to the word can no longer show.
            for j in 0..i {
                if !durable[j] && events[j].word == event.word {
                    events[j].mask &= !event.mask;
                }
            }
        }
        let mut durable = durable.into_iter();
        events.retain(|_| durable.next() == Some(false));
        if events.is_empty() {
            self.spare.extend(self.cells.remove(&cell));
        }
    }
}

/// Rule 10: what is durable in a word makes the older streams to that word durable. `durable`
/// marks events; a line store is marked as a whole.
pub(crate) fn imply_older_streams(events: &[Event], durable: &mut [bool]) {
    if events.iter().all(Event::is_ordinary) {
        return;
    }
    for i in (0..events.len()).rev() {
        if !durable[i] {
            continue;
        }
        for j in 0..i {
            if !durable[j] && !events[j].is_ordinary() && events[j].word == events[i].word {
                mark_whole(events, durable, j);
            }
        }
    }
}

/// Marks an event, and with one word of a line store all eight.
pub(crate) fn mark_whole(events: &[Event], marks: &mut [bool], i: usize) {
    marks[i] = true;
    if events[i].kind == Kind::LineStore {
        for (mark, event) in marks.iter_mut().zip(events) {
            *mark |= event.kind == Kind::LineStore && event.seq == events[i].seq;
        }
    }
}

/// Whether this operation makes flushes by `clflush` durable.
fn fences_clflush(clflush: Clflush, op: &Op<'_>) -> bool {
    clflush == Clflush::WithStores || matches!(op, Op::Mfence)
}

/// A piece of a store as bits of its word.
fn masked(at: PoolOffset, bytes: &[u8]) -> (u64, u64) {
    let from = (at.0 % 8) as usize;
    let mut mask = [0; 8];
    let mut value = [0; 8];
    mask[from..from + bytes.len()].fill(0xff);
    value[from..from + bytes.len()].copy_from_slice(bytes);
    (u64::from_le_bytes(mask), u64::from_le_bytes(value))
}
