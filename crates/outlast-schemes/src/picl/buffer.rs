//! The undo buffer, and the log behind it.
//!
//! ```text
//!  store ─> on its way ─> filling ─full, or asked for─> in flight ─durable─> live ─expired─> free
//! ```
//!
//! One block at a time is in flight. So only the youngest one can be torn, and each that is durable has
//! all before it durable as well. With a second buffer, entries are taken meanwhile. Entries keep their
//! order from the store to the log, which is that of their `ValidTill`.

use std::collections::VecDeque;

use outlast_sim::timed::{Block, Cycle, Outbox};
use outlast_trace::LineAddr;

use super::config::{Config, Fault};
use super::layout::Entry;
use super::ports::{GROWTH, Token, UNDO, header_word};
use crate::shared::Bloom;

/// A block in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Placed {
    number: u64,
    sequence: u64,
    till: u64,
    entries: u64,
}

/// The buffer and the log.
#[derive(Clone, Debug)]
pub(super) struct UndoLog {
    config: Config,
    /// Entries that private caches have sent, with the time at which they arrive.
    forwarded: VecDeque<(Cycle, Entry)>,
    filling: Vec<Entry>,
    /// Over these two, and over the block in flight.
    filter: Bloom,
    in_flight: Option<Placed>,
    flying: Bloom,
    /// Entries made, and those of them that are durable.
    made: u64,
    durable: u64,
    flush_wanted: bool,
    next_sequence: u64,
    free: VecDeque<u64>,
    live: VecDeque<Placed>,
    /// Parts of the log that are in use, behind the first.
    grown: u64,
    is_growing: bool,
    pub(super) counted: Counted,
}

/// What it counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) entries: u64,
    pub(super) blocks: u64,
    pub(super) growths: u64,
    pub(super) live_max: u64,
}

impl UndoLog {
    /// An empty log of these parts, whose next block has this sequence number, behind what lies at
    /// `last`.
    pub(super) fn new(config: Config, grown: u64, next_sequence: u64, last: u64) -> Self {
        let places = config.layout.chunk * (1 + grown);
        Self {
            config,
            forwarded: VecDeque::new(),
            filling: Vec::with_capacity(config.layout.entries as usize),
            filter: Bloom::new(config.bloom_bits),
            in_flight: None,
            flying: Bloom::new(config.bloom_bits),
            made: 0,
            durable: 0,
            flush_wanted: false,
            next_sequence,
            free: (0..places).map(|number| (last.wrapping_add(1) + number) % places).collect(),
            live: VecDeque::new(),
            grown,
            is_growing: false,
            counted: Counted::default(),
        }
    }

    /// Whether another entry can be taken now.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        let is_taking = self.config.is_double || self.in_flight.is_none();
        let held = (self.filling.len() + self.forwarded.len()) as u64;
        is_taking && held < self.config.layout.entries
    }

    /// Takes an entry, which [`has_room`](Self::has_room) for it. Returns how many have been made.
    pub(super) fn append(&mut self, now: Cycle, entry: Entry, out: &mut Outbox<Token>) -> u64 {
        self.insert(entry.line);
        self.made += 1;
        self.counted.entries += 1;
        if self.config.forward_cycles > 0 {
            let at = now.plus(self.config.forward_cycles);
            self.forwarded.push_back((at, entry));
            out.call(at, Token::Arrived);
        } else {
            self.filling.push(entry);
            self.flush_if_due(out);
        }
        self.made
    }

    fn insert(&mut self, line: LineAddr) {
        if !(self.config.faults.has(Fault::FilterMisses) && line.0 % 2 == 1) {
            self.filter.insert(line.0);
        }
    }

    /// Entries from private caches have arrived.
    pub(super) fn arrived(&mut self, now: Cycle, out: &mut Outbox<Token>) {
        while self.forwarded.front().is_some_and(|(at, _)| *at <= now) {
            let arrived = self.forwarded.pop_front();
            self.filling.extend(arrived.map(|(_, entry)| entry));
        }
        self.flush_if_due(out);
    }

    /// The youngest entry that is on its way.
    pub(super) fn on_its_way(&self) -> Option<&Entry> {
        self.forwarded.back().map(|(_, entry)| entry)
    }

    /// Whether a line may have an entry that is not durable: then all that have one are written.
    #[inline]
    pub(super) fn holds_back(&mut self, line: LineAddr, out: &mut Outbox<Token>) -> bool {
        let issued_will_do = self.config.faults.has(Fault::FlushIssued);
        if self.filter.may_have(line.0) {
            self.flush(out);
            return !issued_will_do || self.filter.may_have(line.0);
        }
        !issued_will_do && self.in_flight.is_some() && self.flying.may_have(line.0)
    }

    /// Entries made until now.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Entries made until now that have come to the buffer.
    pub(super) fn made_here(&self) -> u64 {
        self.made - self.forwarded.len() as u64
    }

    /// Whether the first `made` entries are durable. Where they are not, they are written.
    pub(super) fn is_durable(&mut self, made: u64, out: &mut Outbox<Token>) -> bool {
        if self.durable < made {
            self.flush(out);
        }
        self.durable >= made
    }

    /// Writes what the buffer holds as soon as that can be.
    fn flush(&mut self, out: &mut Outbox<Token>) {
        self.flush_wanted = true;
        self.flush_if_due(out);
    }

    fn flush_if_due(&mut self, out: &mut Outbox<Token>) {
        let is_full = self.filling.len() as u64 == self.config.layout.entries;
        let is_due = is_full || self.flush_wanted && !self.filling.is_empty();
        if !is_due || self.in_flight.is_some() || self.is_growing {
            return;
        }
        let Some(number) = self.free.pop_front() else {
            self.grow(out);
            return;
        };
        let till = self.filling.iter().map(|entry| entry.till).max().unwrap_or(0);
        let (sequence, entries) = (self.next_sequence, self.filling.len() as u64);
        if self.config.faults.has(Fault::BlockCut) {
            let kept = self.config.layout.entries - self.config.layout.header_lines();
            let cut = self.filling.iter_mut().skip(kept as usize);
            cut.for_each(|entry| entry.data = [0; 64]);
        }
        let data = self.config.layout.encode(sequence, &self.filling);
        self.in_flight = Some(Placed { number, sequence, till, entries });
        self.next_sequence += 1;
        self.counted.blocks += 1;
        self.filling.clear();
        self.flush_wanted = false;
        std::mem::swap(&mut self.filter, &mut self.flying);
        self.filter.clear();
        let on_their_way: Vec<LineAddr> =
            self.forwarded.iter().map(|(_, entry)| entry.line).collect();
        on_their_way.into_iter().for_each(|line| self.insert(line));
        let line = self.config.layout.place(number);
        out.write_block(Block { line, data, cause: UNDO, token: Token::Flushed });
    }

    /// The block in flight is durable.
    pub(super) fn flushed(&mut self, out: &mut Outbox<Token>) {
        if let Some(placed) = self.in_flight.take() {
            self.durable += placed.entries;
            let is_full = placed.entries == self.config.layout.entries;
            if self.config.faults.has(Fault::PlaceTakenAgain) && !is_full {
                self.free.push_front(placed.number);
            }
            self.live.push_back(placed);
            self.counted.live_max = self.counted.live_max.max(self.live.len() as u64);
        }
        self.flush_if_due(out);
    }

    /// The log is full: the operating system adds to it, if it has any more.
    fn grow(&mut self, out: &mut Outbox<Token>) {
        if self.grown == self.config.layout.growths {
            return;
        }
        self.is_growing = true;
        out.call(Cycle(0), Token::Interrupt); // Now.
    }

    /// The interrupt was served: the header says that the log is longer.
    pub(super) fn interrupted(&mut self, out: &mut Outbox<Token>) {
        if self.config.faults.has(Fault::GrowthUnrecorded) {
            return self.has_grown(out);
        }
        let header = self.config.layout.header();
        out.write(header_word(
            header,
            super::layout::GROWTHS,
            self.grown + 1,
            GROWTH,
            Token::Grown,
        ));
    }

    /// That is durable.
    pub(super) fn has_grown(&mut self, out: &mut Outbox<Token>) {
        let chunk = self.config.layout.chunk;
        self.grown += 1;
        self.free.extend(chunk * self.grown..chunk * (self.grown + 1));
        self.is_growing = false;
        self.counted.growths += 1;
        self.flush_if_due(out);
    }

    /// Frees super blocks whose entries serve no epoch behind the one that has persisted.
    pub(super) fn collect(&mut self, persisted: u64, out: &mut Outbox<Token>) {
        let of = self.config.layout.super_blocks;
        let until = persisted + u64::from(self.config.faults.has(Fault::FreedEarly));
        while let Some(first) = self.live.front() {
            let last = first.sequence / of * of + of - 1;
            let members = self.live.iter().take_while(|placed| placed.sequence <= last);
            let (count, till) =
                members.fold((0, 0), |(count, till), placed| (count + 1, placed.till.max(till)));
            let is_whole = self.live.get(count - 1).is_some_and(|end| end.sequence == last);
            if !is_whole || till > until {
                break;
            }
            self.free.extend(self.live.drain(..count).map(|placed| placed.number));
        }
        self.flush_if_due(out);
    }

    /// Whether the log holds few blocks more than this, and nothing can be added to it.
    pub(super) fn is_nearly_full(&self, blocks: u64) -> bool {
        self.grown == self.config.layout.growths && self.free.len() as u64 <= blocks
    }
}
