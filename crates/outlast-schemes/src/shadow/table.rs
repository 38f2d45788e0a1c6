//! The translation table: pages with copies. The copy of a page is the one of its place in the table.

use outlast_sim::timed::{Copied, Outbox};
use outlast_trace::LineAddr;

use super::plants::Fault;
use crate::shared::SetAssoc;
use crate::shared::redo::{
    Asked, Build, Entry, FILL, Layout, PAGE_LINES, Place, Places, Requested,
};

/// Of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) sets: u64,
    pub(super) ways: u64,
    /// Whether entries stay when an epoch has ended.
    pub(super) keeps: bool,
    pub(super) fault: Option<Fault>,
}

impl Build for Shape {
    type Places = Pages;

    fn build(self, layout: Layout) -> Pages {
        Pages {
            layout,
            table: SetAssoc::new(self.sets, self.ways),
            keeps: self.keeps,
            fault: self.fault,
            changed: Vec::new(),
            filling: 0,
            filled: 0,
        }
    }
}

/// What a copy is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// The page is being copied to it.
    #[default]
    Fills,
    /// This epoch has changed it.
    Changed,
    /// It is as its home.
    Kept,
}

/// The table, and the pages that this epoch has changed.
#[derive(Debug)]
pub(super) struct Pages {
    layout: Layout,
    table: SetAssoc<State>,
    keeps: bool,
    fault: Option<Fault>,
    changed: Vec<Entry>,
    filling: u32,
    filled: u64,
}

fn page_of(line: LineAddr) -> u64 {
    line.0 / PAGE_LINES
}

impl Pages {
    fn copy_of(&self, at: usize, line: LineAddr) -> LineAddr {
        self.layout.page_slot(at as u32).plus(line.0 % PAGE_LINES)
    }

    fn change(&mut self, at: usize, page: u64) {
        *self.table.value(at) = State::Changed;
        self.changed.push(Entry::page(page, at as u32));
    }
}

impl Places for Pages {
    #[inline]
    fn locate(&self, line: LineAddr) -> LineAddr {
        let Some(at) = self.table.find(page_of(line)) else { return line };
        match self.table.get(at) {
            Some((_, State::Changed | State::Kept)) => self.copy_of(at, line),
            _ => line,
        }
    }

    fn place(&mut self, asked: Asked, out: &mut Outbox<Requested>) -> Place {
        let (line, page) = (asked.line, page_of(asked.line));
        if let Some(at) = self.table.find(page) {
            self.table.touch(at);
            match *self.table.value(at) {
                State::Fills if self.fault != Some(Fault::FillsLate) => return Place::Waits,
                State::Kept => self.change(at, page),
                State::Fills | State::Changed => {}
            }
            return Place::At(self.copy_of(at, line));
        }
        let may_go = |state: &State| match state {
            State::Kept => Some(0),
            State::Changed if self.fault == Some(Fault::ReplacesChanged) => Some(1),
            State::Fills | State::Changed => None,
        };
        let Some(at) = self.table.room(page, may_go) else { return Place::Full };
        self.table.put(at, page, State::Fills);
        self.filling += 1;
        let (from, to) = (LineAddr(PAGE_LINES * page), self.layout.page_slot(at as u32));
        let token = Requested::Filled(page);
        out.copy(Copied { from, to, lines: PAGE_LINES, cause: FILL, token });
        Place::Waits
    }

    fn filled(&mut self, page: u64, _out: &mut Outbox<Requested>) -> bool {
        self.filling -= 1;
        self.filled += 1;
        if let Some(at) = self.table.find(page) {
            self.change(at, page);
        }
        true
    }

    fn is_filling(&self) -> bool {
        self.filling > 0
    }

    fn seal(&mut self) -> Vec<Entry> {
        let changed = std::mem::take(&mut self.changed);
        for entry in &changed {
            *self.table.value(entry.slot as usize) = State::Kept;
        }
        changed
    }

    fn free(&mut self) {
        if !self.keeps {
            self.table.clear_all();
        }
    }

    fn take_filled(&mut self) -> (u64, u64) {
        (0, std::mem::take(&mut self.filled))
    }
}
