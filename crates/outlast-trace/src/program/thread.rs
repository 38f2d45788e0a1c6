//! Reading a thread: what was expected happens, and events say what else did.

use std::{ops::Range, sync::Arc};

use super::read::{Section, Source};
use super::section::{Bad, Bytes, read_stream};
use super::slot::{END, Found, OPEN, Slot};
use super::{ProgramError, event_kind, unfold};

/// An access of an execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Access {
    /// Its address in the program's memory.
    pub at: u64,
    /// The value that a store left there, little-endian; 0 for a load.
    pub value: u64,
    /// The instruction, counted from the block's first.
    pub insn: u16,
    /// Its bytes: 1, 2, 4 or 8.
    pub len: u8,
    /// Whether it stores.
    pub stores: bool,
}

/// Instructions that ran one after the other, with their accesses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Execution<'a> {
    /// The block.
    pub block: u32,
    /// The instructions of the block that ran. A system call or a signal divides an execution.
    pub insns: Range<u16>,
    /// The accesses, in their order.
    pub accesses: &'a [Access],
    /// Places in the order of all threads' stores: the access, and its place.
    pub places: &'a [(u32, u64)],
    /// Before an access: how many places had been given out.
    pub seen: &'a [(u32, u64)],
}

/// The next event of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happening<'a> {
    /// Instructions run.
    Execution(Execution<'a>),
    /// The system writes bytes.
    SystemWrite {
        /// Where.
        at: u64,
        /// Which.
        bytes: &'a [u8],
    },
    /// A system call begins.
    Call {
        /// Its number.
        number: u32,
        /// Its first three arguments.
        arguments: [u64; 3],
    },
    /// A system call returned.
    Return {
        /// Its number.
        number: u32,
        /// Its result.
        result: i64,
    },
    /// The system's next action has this place in the order of all threads.
    Place(u64),
    /// The next events happened when this number of places had been given out.
    Seen(u64),
    /// A signal's handler begins.
    Handler,
}

/// The event that comes next.
#[derive(Clone, Copy, Debug)]
struct Pending {
    kind: u8,
    flags: u8,
    index: u16,
    blocks: u64,
}

/// A thread that is read from its begin on.
#[derive(Debug)]
pub struct Thread {
    source: Arc<Source>,
    /// Its sections, the next one first from `next` on.
    sections: Vec<Section>,
    next: usize,
    blocks: Arc<[u32]>,
    /// Kinds, places, distances of addresses, distances of values, all else.
    streams: [Vec<u8>; 5],
    cursors: [usize; 5],
    event: Option<Pending>,
    /// The place of the last event.
    index: u16,
    /// All paths' slots, one path after the other.
    slots: Vec<Slot>,
    /// The slot before each path's first.
    paths: Vec<usize>,
    /// For each block the first slot of its path, 0 for none.
    begins: Vec<usize>,
    pos: usize,
    /// The block of the present path.
    block: u32,
    /// A block has begun whose instructions were not all told.
    is_running: bool,
    /// The present path ended early.
    is_short: bool,
    /// The first instruction that was not told.
    told: u16,
    accesses: Vec<Access>,
    places: Vec<(u32, u64)>,
    seen: Vec<(u32, u64)>,
    bytes: Vec<u8>,
    /// The last event has been taken.
    is_taken: bool,
}

/// The result of [`Thread::step`].
enum Step {
    /// The execution is to be told.
    Tell(Range<u16>),
    /// Something else.
    Other(Other),
    End,
}

enum Other {
    SystemWrite(u64),
    Call(u32, [u64; 3]),
    Return(u32, i64),
    Place(u64),
    Seen(u64),
    Handler,
}

const HEADS: usize = 0;
const PLACES: usize = 1;
const FAR: usize = 2;
const VALUES: usize = 3;
const REST: usize = 4;

impl Thread {
    pub(super) fn new(source: Arc<Source>, sections: Vec<Section>, blocks: Arc<[u32]>) -> Self {
        let begins = vec![0; blocks.len()];
        Self {
            source,
            sections,
            next: 0,
            blocks,
            streams: Default::default(),
            cursors: [0; 5],
            event: None,
            index: 0,
            slots: vec![Slot::new(END, u32::MAX, 0, 8); 2],
            paths: Vec::new(),
            begins,
            pos: 1,
            block: 0,
            is_running: false,
            is_short: false,
            told: 0,
            accesses: Vec::new(),
            places: Vec::new(),
            seen: Vec::new(),
            bytes: Vec::new(),
            is_taken: true,
        }
    }

    /// The next event; none at the end.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Happening<'_>>, ProgramError> {
        if self.is_taken {
            self.accesses.clear();
            self.places.clear();
            self.seen.clear();
        }
        self.is_taken = false;
        let step = match self.step() {
            Ok(step) => step,
            Err(Broken::Error(error)) => return Err(error),
            Err(Broken::Bad) => {
                let section = self.next.saturating_sub(1);
                return Err(self.source.damaged(format!("events of section {section}")));
            }
        };
        Ok(match step {
            Step::Tell(insns) => {
                self.is_taken = true;
                let Self { block, ref accesses, ref places, ref seen, .. } = *self;
                Some(Happening::Execution(Execution { block, insns, accesses, places, seen }))
            }
            Step::Other(other) => Some(match other {
                Other::SystemWrite(at) => Happening::SystemWrite { at, bytes: &self.bytes },
                Other::Call(number, arguments) => Happening::Call { number, arguments },
                Other::Return(number, result) => Happening::Return { number, result },
                Other::Place(place) => Happening::Place(place),
                Other::Seen(places) => Happening::Seen(places),
                Other::Handler => Happening::Handler,
            }),
            Step::End => None,
        })
    }

    /// Instructions of the present block.
    #[inline(always)]
    fn insns(&self) -> u16 {
        let block = self.block as usize;
        (self.blocks[block + 1] - self.blocks[block]) as u16
    }

    fn step(&mut self) -> Result<Step, Broken> {
        loop {
            let Some(event) = self.peek()? else {
                return Ok(if self.is_running { self.tell() } else { Step::End });
            };
            if self.is_running {
                self.expected(if event.blocks == 0 { event.index } else { u16::MAX });
                if event.blocks > 0 {
                    return Ok(self.tell());
                }
                if let Some(step) = self.here(event)? {
                    return Ok(step);
                }
            } else if event.blocks > 0 {
                let next = self.slots[self.pos].next() as usize;
                if self.slots[self.pos].key != END || next == 0 || self.is_short {
                    return Err(Broken::Bad);
                }
                self.event = Some(Pending { blocks: event.blocks - 1, ..event });
                self.begin(next);
            } else if let Some(step) = self.between(event)? {
                return Ok(step);
            }
        }
    }

    /// Accesses as expected, up to this place or the path's end.
    #[inline(always)]
    fn expected(&mut self, until: u16) {
        let mut pos = self.pos;
        for slot in &mut self.slots[self.pos..] {
            if slot.key >= OPEN || slot.index == until {
                break;
            }
            let at = slot.address(Found::Expected, 0);
            let stores = slot.key & 4 != 0;
            let value = if stores { slot.stored(None) } else { 0 };
            let (insn, len) = ((slot.key >> 3) as u16, slot.len);
            self.accesses.push(Access { at, value, insn, len, stores });
            pos += 1;
        }
        self.pos = pos;
    }

    /// The execution up to here is told.
    fn tell(&mut self) -> Step {
        let is_end = self.slots[self.pos].key >= OPEN;
        let to = match self.accesses.last() {
            Some(last) if !is_end && !self.is_short => last.insn + 1,
            _ => self.insns(),
        };
        let from = std::mem::replace(&mut self.told, to).min(to);
        self.is_running = !is_end && !self.is_short;
        Step::Tell(from..to)
    }

    /// An event inside a block.
    fn here(&mut self, event: Pending) -> Result<Option<Step>, Broken> {
        let Slot { key, index, .. } = self.slots[self.pos];
        if index != event.index {
            return Err(Broken::Bad);
        }
        match event.kind {
            event_kind::ACCESS if key < OPEN => {
                self.event = None;
                self.access(event.flags)?;
            }
            event_kind::APPEND if key == OPEN => {
                self.event = None;
                self.append()?;
            }
            event_kind::SWITCH if key != OPEN => {
                self.event = None;
                self.switch()?;
            }
            event_kind::PLACE if key < OPEN => {
                self.event = None;
                let place = self.number(REST)?;
                self.places.push((self.accesses.len() as u32, place));
            }
            event_kind::SEEN if key < OPEN => {
                self.event = None;
                let seen = self.number(REST)?;
                self.seen.push((self.accesses.len() as u32, seen));
            }
            event_kind::SHORT => {
                self.event = None;
                self.is_short = true;
                return Ok(Some(self.tell()));
            }
            event_kind::BLOCK | event_kind::BLOCK_ONCE | event_kind::END => {
                // Where a window closes, a block may end before its path.
                self.is_short |= key < OPEN;
                return Ok(Some(self.tell()));
            }
            _ if !self.accesses.is_empty() => return Ok(Some(self.tell())),
            _ => return self.other(event).map(Some),
        }
        Ok(None)
    }

    /// An event between two blocks, or behind what was told of the present one.
    fn between(&mut self, event: Pending) -> Result<Option<Step>, Broken> {
        match event.kind {
            event_kind::BLOCK | event_kind::BLOCK_ONCE => {
                self.event = None;
                let block = self.number(REST)? as usize;
                if block + 1 >= self.blocks.len() {
                    return Err(Broken::Bad);
                }
                let learns = event.kind == event_kind::BLOCK;
                self.block_begins(block, learns);
            }
            event_kind::END => return Ok(Some(Step::End)),
            event_kind::APPEND | event_kind::SWITCH if !self.is_short => self.is_running = true,
            event_kind::SHORT => self.event = None,
            event_kind::ACCESS | event_kind::APPEND | event_kind::SWITCH => {
                return Err(Broken::Bad);
            }
            _ => return self.other(event).map(Some),
        }
        Ok(None)
    }

    fn block_begins(&mut self, block: usize, learns: bool) {
        let key = self.slots[self.pos].key;
        let is_whole = key == END && !self.is_short;
        if key == OPEN {
            self.slots[self.pos].key = END;
            let path = self.slots[self.pos].path as usize;
            let first = self.paths[path];
            let its_block = self.slots[first].block() as usize;
            self.begins[its_block] = first + 1;
        }
        let begin = self.begins[block];
        if is_whole && begin != 0 && learns {
            self.slots[self.pos].follows(begin as u64);
        }
        let begin = if begin == 0 { self.new_path(block as u32, 0..0) } else { begin };
        self.begin(begin);
    }

    /// A block begins at this slot.
    #[inline(always)]
    fn begin(&mut self, begin: usize) {
        let before = self.slots[self.pos - 1].at;
        let first = &mut self.slots[begin - 1];
        first.at = before;
        self.block = first.block();
        self.pos = begin;
        self.is_running = true;
        self.is_short = false;
        self.told = 0;
    }

    /// A new path of a block that begins with these slots. Returns the first slot behind them.
    fn new_path(&mut self, block: u32, same: Range<usize>) -> usize {
        let number = self.paths.len() as u32;
        self.paths.push(self.slots.len());
        self.slots.push(Slot::first(number, block));
        let index = same.len() as u16;
        for slot in same {
            self.slots.push(self.slots[slot].on(number));
        }
        self.slots.push(Slot::new(OPEN, number, index, 8));
        self.slots.len() - 1
    }

    fn access(&mut self, flags: u8) -> Result<(), Broken> {
        let before = self.slots[self.pos - 1].at;
        let found = match flags {
            _ if flags & 1 != 0 => Found::Beside,
            _ if flags & 2 != 0 => Found::Far(unfold(self.number(FAR)?) as u64),
            _ => Found::Expected,
        };
        let step = if flags & 4 != 0 { Some(unfold(self.number(VALUES)?)) } else { None };
        let slot = &mut self.slots[self.pos];
        let at = slot.address(found, before);
        let stores = slot.key & 4 != 0;
        if step.is_some() && !stores {
            return Err(Broken::Bad);
        }
        let value = if stores { slot.stored(step) } else { 0 };
        let (insn, len) = ((slot.key >> 3) as u16, slot.len);
        self.accesses.push(Access { at, value, insn, len, stores });
        self.pos += 1;
        Ok(())
    }

    fn append(&mut self) -> Result<(), Broken> {
        let key = self.number(REST)?;
        if key >> 3 >= u64::from(self.insns()) || self.pos + 1 != self.slots.len() {
            return Err(Broken::Bad);
        }
        let Slot { path, index, .. } = self.slots[self.pos];
        let next = index.checked_add(1).ok_or(Broken::Bad)?;
        self.slots[self.pos] = Slot::new(key as u32, path, index, 1 << (key & 3));
        self.slots.push(Slot::new(OPEN, path, next, 8));
        Ok(())
    }

    fn switch(&mut self) -> Result<(), Broken> {
        let to = self.number(REST)?;
        let block = self.block;
        let index = usize::from(self.slots[self.pos].index);
        let before = self.slots[self.pos - 1].at;
        if to == 0 {
            self.pos = self.new_path(block, self.pos - index..self.pos);
        } else {
            let first = *self.paths.get(to as usize - 1).ok_or(Broken::Bad)?;
            let pos = first + 1 + index;
            let is_its = self.slots.get(pos).is_some_and(|slot| u64::from(slot.path) == to - 1);
            if self.slots[first].block() != block || !is_its {
                return Err(Broken::Bad);
            }
            self.begins[block as usize] = first + 1;
            self.pos = pos;
        }
        self.slots[self.pos - 1].at = before;
        Ok(())
    }

    fn other(&mut self, event: Pending) -> Result<Step, Broken> {
        self.event = None;
        Ok(Step::Other(match event.kind {
            event_kind::SYSTEM_WRITE => {
                let at = self.number(REST)?;
                let mut rest = Bytes(&self.streams[REST][self.cursors[REST]..]);
                let bytes = rest.bytes()?;
                self.bytes.clear();
                self.bytes.extend_from_slice(bytes);
                self.cursors[REST] = self.streams[REST].len() - rest.0.len();
                Other::SystemWrite(at)
            }
            event_kind::CALL => {
                let number = self.number(REST)? as u32;
                let mut arguments = [0; 3];
                for argument in &mut arguments {
                    *argument = self.number(REST)?;
                }
                Other::Call(number, arguments)
            }
            event_kind::RETURN => {
                Other::Return(self.number(REST)? as u32, unfold(self.number(REST)?))
            }
            event_kind::PLACE => Other::Place(self.number(REST)?),
            event_kind::SEEN => Other::Seen(self.number(REST)?),
            event_kind::HANDLER => Other::Handler,
            _ => return Err(Broken::Bad),
        }))
    }

    #[inline(always)]
    fn number(&mut self, stream: usize) -> Result<u64, Broken> {
        let bytes = &self.streams[stream][self.cursors[stream]..];
        let mut rest = Bytes(bytes);
        let number = rest.number()?;
        self.cursors[stream] += bytes.len() - rest.0.len();
        Ok(number)
    }

    /// The next event; none behind the last.
    #[inline(always)]
    fn peek(&mut self) -> Result<Option<Pending>, Broken> {
        if self.event.is_none() {
            self.event = self.read_event()?;
        }
        Ok(self.event)
    }

    fn read_event(&mut self) -> Result<Option<Pending>, Broken> {
        while self.cursors[HEADS] == self.streams[HEADS].len() {
            if !self.load()? {
                return Ok(None);
            }
        }
        let head = self.streams[HEADS][self.cursors[HEADS]];
        self.cursors[HEADS] += 1;
        let (blocks, index) = match head >> 7 {
            0 => (0, i64::from(self.index) + unfold(self.number(PLACES)?)),
            _ => (self.number(PLACES)?, self.number(PLACES)? as i64),
        };
        self.index = u16::try_from(index).map_err(|_| Broken::Bad)?;
        Ok(Some(Pending { kind: head & 15, flags: head >> 4 & 7, index: self.index, blocks }))
    }

    /// Reads the next section.
    fn load(&mut self) -> Result<bool, Broken> {
        let Some(section) = self.sections.get(self.next) else { return Ok(false) };
        let bytes = self.source.section(*section).map_err(Broken::Error)?;
        self.next += 1;
        let mut bytes = Bytes(&bytes);
        for stream in &mut self.streams {
            read_stream(&mut bytes, stream)?;
        }
        self.cursors = [0; 5];
        Ok(true)
    }
}

enum Broken {
    Bad,
    Error(ProgramError),
}

impl From<Bad> for Broken {
    fn from(Bad: Bad) -> Self {
        Self::Bad
    }
}
