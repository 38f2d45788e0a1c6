//! The translation table: a line's copy in this epoch.

use outlast_sim::timed::{Copied, Outbox};
use outlast_trace::LineAddr;

use crate::shared::SetAssoc;
use crate::shared::redo::{Asked, Build, Entry, FILL, Layout, Place, Places, Requested};

/// Of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) sets: u64,
    pub(super) ways: u64,
}

impl Build for Shape {
    type Places = Lines;

    fn build(self, layout: Layout) -> Lines {
        let table = SetAssoc::new(self.sets, self.ways);
        Lines { layout, table, entries: Vec::new(), filling: 0, filled: 0 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Copy {
    slot: u32,
    /// Whether it has all of its line.
    is_filled: bool,
}

/// The table, and the copies of this epoch in their order.
#[derive(Debug)]
pub(super) struct Lines {
    layout: Layout,
    table: SetAssoc<Copy>,
    entries: Vec<Entry>,
    /// Copies that are being filled.
    filling: u32,
    filled: u64,
}

impl Places for Lines {
    #[inline]
    fn locate(&self, line: LineAddr) -> LineAddr {
        let found = self.table.find(line.0).and_then(|at| self.table.get(at));
        match found {
            Some((_, copy)) if copy.is_filled => self.layout.line_slot(copy.slot),
            _ => line,
        }
    }

    fn place(&mut self, asked: Asked, out: &mut Outbox<Requested>) -> Place {
        let Asked { line, is_whole, .. } = asked;
        if let Some(at) = self.table.find(line.0) {
            let copy = *self.table.value(at);
            return match copy.is_filled {
                true => Place::At(self.layout.line_slot(copy.slot)),
                false => Place::Waits,
            };
        }
        let Some(at) = self.table.room(line.0, |_| None) else { return Place::Full };
        let slot = self.entries.len() as u32;
        self.table.put(at, line.0, Copy { slot, is_filled: is_whole });
        self.entries.push(Entry::line(line, slot));
        let to = self.layout.line_slot(slot);
        if is_whole {
            return Place::At(to);
        }
        self.filling += 1;
        let token = Requested::Filled(line.0);
        out.copy(Copied { from: line, to, lines: 1, cause: FILL, token });
        Place::Waits
    }

    fn filled(&mut self, line: u64, _out: &mut Outbox<Requested>) -> bool {
        if let Some(at) = self.table.find(line) {
            self.table.value(at).is_filled = true;
        }
        self.filling -= 1;
        self.filled += 1;
        true
    }

    fn is_filling(&self) -> bool {
        self.filling > 0
    }

    fn seal(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.entries)
    }

    fn free(&mut self) {
        self.table.clear_all();
    }

    fn take_filled(&mut self) -> (u64, u64) {
        (std::mem::take(&mut self.filled), 0)
    }
}
