//! Writing a thread from its executions: expects what the reader expects, and writes what is otherwise.
//! The plugin that captures does the same on its own paths.

use super::slot::{END, Found, OPEN, Slot};
use super::{Access, Event, Execution, ProgramWriter};

/// Writes one thread into a trace.
#[derive(Debug)]
pub struct ThreadEncoder {
    thread: u16,
    slots: Vec<Slot>,
    /// The slot before each path's first.
    paths: Vec<usize>,
    /// For each block the first slot of its path, 0 for none.
    begins: Vec<usize>,
    pos: usize,
    /// Blocks that began as expected since the last event.
    blocks: u32,
}

impl ThreadEncoder {
    /// Begins a thread.
    pub fn new(thread: u16) -> Self {
        Self {
            thread,
            slots: vec![Slot::new(END, u32::MAX, 0, 8); 2],
            paths: Vec::new(),
            begins: Vec::new(),
            pos: 1,
            blocks: 0,
        }
    }

    /// Writes an event that is no access, where the thread stands.
    pub fn event(&mut self, to: &mut ProgramWriter, event: Event<'_>) {
        let index = self.slots[self.pos].index;
        to.event(self.thread, index, std::mem::take(&mut self.blocks), event);
    }

    /// The thread ends.
    pub fn finish(mut self, to: &mut ProgramWriter) {
        let index = self.slots[self.pos].index;
        to.thread_ends(self.thread, index, std::mem::take(&mut self.blocks));
    }

    /// Writes an execution: a whole one of its block, or the rest of one that was divided.
    pub fn execution(&mut self, to: &mut ProgramWriter, execution: &Execution<'_>) {
        if execution.insns.start == 0 {
            self.begin(to, execution.block);
        }
        for access in execution.accesses {
            self.access(to, access, &mut Vec::new());
        }
    }

    /// A block begins.
    pub(super) fn begin(&mut self, to: &mut ProgramWriter, block: u32) {
        let Slot { key, path, .. } = self.slots[self.pos];
        let is_whole = key == END;
        if key == OPEN {
            self.slots[self.pos].key = END;
            self.make_default(path);
        } else if !is_whole {
            self.event(to, Event::Short);
        }
        let before = self.slots[self.pos - 1].at;
        if self.begins.len() <= block as usize {
            self.begins.resize(block as usize + 1, 0);
        }
        let begin = self.begins[block as usize];
        let next = self.slots[self.pos].next() as usize;
        if is_whole && next != 0 && self.slots[next - 1].block() == block {
            self.blocks += 1;
            self.pos = next;
        } else {
            self.event(to, Event::Block { block, once: false });
            if is_whole && begin != 0 {
                self.slots[self.pos].follows(begin as u64);
            }
            self.pos = if begin == 0 { self.new_path(block, 0..0) } else { begin };
        }
        self.slots[self.pos - 1].at = before;
    }

    fn make_default(&mut self, path: u32) {
        let first = self.paths[path as usize];
        let block = self.slots[first].block() as usize;
        self.begins[block] = first + 1;
    }

    fn new_path(&mut self, block: u32, same: std::ops::Range<usize>) -> usize {
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

    /// An access of the block, and what stands between it and the one before: places, and those that
    /// had been given out.
    pub(super) fn access(
        &mut self,
        to: &mut ProgramWriter,
        access: &Access,
        between: &mut Vec<Event<'static>>,
    ) {
        let Access { at, value, insn, len, stores } = *access;
        let key = u32::from(insn) << 3 | u32::from(stores) << 2 | len.ilog2();
        if self.slots[self.pos].key != key {
            if self.slots[self.pos].key != OPEN {
                self.switch(to, key);
            }
            if self.slots[self.pos].key == OPEN {
                self.event(to, Event::Append { insn, stores, len });
                let Slot { path, index, .. } = self.slots[self.pos];
                self.slots[self.pos] = Slot::new(key, path, index, len);
                self.slots.push(Slot::new(OPEN, path, index + 1, 8));
            }
        }
        for event in between.drain(..) {
            self.event(to, event);
        }
        let before = self.slots[self.pos - 1].at;
        let slot = &mut self.slots[self.pos];
        let found = if at == slot.expected() {
            slot.at = at;
            Found::Expected
        } else {
            slot.moved(at, before)
        };
        let step = if stores { slot.stores(value & slot.mask()) } else { None };
        if found != Found::Expected || step.is_some() {
            let far = match found {
                Found::Far(step) => Some(step as i64),
                _ => None,
            };
            let is_beside = found == Found::Beside;
            self.event(to, Event::Access { is_beside, far, value: step });
        }
        self.pos += 1;
    }

    fn switch(&mut self, to: &mut ProgramWriter, key: u32) {
        let present = self.slots[self.pos];
        let index = usize::from(present.index);
        let block = self.slots[self.paths[present.path as usize]].block();
        let same = self.pos - index..self.pos;
        let is_same = |first: &usize| {
            let keys = self.slots[*first + 1..]
                .iter()
                .take_while(|slot| slot.path == self.slots[*first].path);
            let own = keys.take(index + 1).map(|slot| slot.key);
            let wanted = self.slots[same.clone()].iter().map(|slot| slot.key).chain([key]);
            self.slots[*first].block() == block && own.eq(wanted)
        };
        let before = self.slots[self.pos - 1].at;
        match self.paths.iter().position(is_same) {
            Some(number) => {
                self.event(to, Event::Switch(Some(number as u32)));
                self.pos = self.paths[number] + 1 + index;
                self.make_default(number as u32);
            }
            None => {
                self.event(to, Event::Switch(None));
                self.pos = self.new_path(block, same);
            }
        }
        self.slots[self.pos - 1].at = before;
    }
}
