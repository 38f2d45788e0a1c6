//! The two translation tables, which two epochs share.

use outlast_sim::timed::{Copied, Outbox};
use outlast_trace::LineAddr;
use rustc_hash::FxHashMap;

use super::plants::Fault;
use crate::shared::SetAssoc;
use crate::shared::redo::{
    Asked, Build, Entry, FILL, Layout, PAGE_LINES, Place, Places, Requested,
};

/// Of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) line_sets: u64,
    pub(super) page_sets: u64,
    pub(super) ways: u64,
    pub(super) page_after: u64,
    pub(super) fault: Option<Fault>,
}

impl Build for Shape {
    type Places = Tables;

    fn build(self, layout: Layout) -> Tables {
        Tables {
            layout,
            page_after: self.page_after,
            fault: self.fault,
            lines: Ways::new(self.line_sets, self.ways),
            pages: Ways::new(self.page_sets, self.ways),
            epochs: [(); 2].map(|()| Epoch {
                lines: SetAssoc::new(self.line_sets, self.ways),
                pages: SetAssoc::new(self.page_sets, self.ways),
                lines_of: FxHashMap::default(),
                entries: 0,
            }),
            now: 0,
            filling: 0,
            counts: Counts::default(),
        }
    }
}

/// Ways of a table that the entries of both epochs take, and copies that none of them has.
#[derive(Debug)]
struct Ways {
    ways: u64,
    taken: Vec<u32>,
    free: Vec<u32>,
}

impl Ways {
    fn new(sets: u64, ways: u64) -> Self {
        let free = (0..(sets * ways) as u32).rev().collect();
        Self { ways, taken: vec![0; sets as usize], free }
    }

    fn has_room(&self, set: u64) -> bool {
        u64::from(self.taken[set as usize]) < self.ways
    }

    /// A copy for an entry of a set that has room.
    fn take(&mut self, set: u64) -> u32 {
        self.taken[set as usize] += 1;
        self.free.pop().expect("there are as many copies as ways")
    }

    fn give(&mut self, set: u64, slot: u32) {
        self.taken[set as usize] -= 1;
        self.free.push(slot);
    }
}

/// A copy of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct OfLine {
    slot: u32,
    /// Whether it has all of its line.
    is_filled: bool,
}

/// A copy of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct OfPage {
    slot: u32,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// The page, as it was before this epoch, is being copied.
    #[default]
    Base,
    /// Its lines with copies are being copied into it; this number is left.
    Lines(u8),
    Ready,
}

/// The entries of one epoch.
#[derive(Debug)]
struct Epoch {
    lines: SetAssoc<OfLine>,
    pages: SetAssoc<OfPage>,
    /// Lines with copies of their own, of each page that has some.
    lines_of: FxHashMap<u64, u8>,
    /// Entries of both tables.
    entries: u64,
}

impl Epoch {
    fn line(&self, line: LineAddr) -> Option<OfLine> {
        self.lines.find(line.0).and_then(|at| self.lines.get(at)).map(|(_, of)| of)
    }

    fn page(&self, page: u64) -> Option<OfPage> {
        self.pages.find(page).and_then(|at| self.pages.get(at)).map(|(_, of)| of)
    }

    /// Where it has a line's bytes.
    #[inline]
    fn locate(&self, layout: Layout, line: LineAddr) -> Option<LineAddr> {
        if self.entries == 0 {
            return None;
        }
        match self.line(line) {
            Some(OfLine { slot, is_filled: true }) => return Some(layout.line_slot(slot)),
            Some(_) => return None,
            None => {}
        }
        let OfPage { slot, state } = self.page(line.0 / PAGE_LINES)?;
        let at = || layout.page_slot(slot).plus(line.0 % PAGE_LINES);
        (state == State::Ready).then(at)
    }

    fn clear(&mut self) {
        self.lines.clear_all();
        self.pages.clear_all();
        self.lines_of.clear();
        self.entries = 0;
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    lines_filled: u64,
    pages_filled: u64,
}

/// The tables: entries of this epoch, and of the last one until its checkpoint is complete.
#[derive(Debug)]
pub(super) struct Tables {
    layout: Layout,
    page_after: u64,
    fault: Option<Fault>,
    lines: Ways,
    pages: Ways,
    epochs: [Epoch; 2],
    /// Which of the two is this epoch's.
    now: usize,
    /// Copies of lines that are being filled, and copies of pages that are being built.
    filling: u32,
    counts: Counts,
}

/// Says of a token that it is a page's.
const OF_PAGE: u64 = 1 << 63;

impl Tables {
    fn last(&self) -> &Epoch {
        &self.epochs[1 - self.now]
    }

    /// A new copy of a line.
    fn new_line(&mut self, asked: Asked, out: &mut Outbox<Requested>) -> Place {
        let Asked { line, is_whole, .. } = asked;
        let set = self.epochs[self.now].lines.set_of(line.0);
        if !self.lines.has_room(set) {
            return Place::Full;
        }
        let from = self.locate(line);
        let slot = self.lines.take(set);
        let epoch = &mut self.epochs[self.now];
        let at = epoch.lines.room(line.0, |_| None).expect("a set has a way for each entry");
        epoch.lines.put(at, line.0, OfLine { slot, is_filled: is_whole });
        epoch.entries += 1;
        *epoch.lines_of.entry(line.0 / PAGE_LINES).or_default() += 1;
        let to = self.layout.line_slot(slot);
        if is_whole {
            return Place::At(to);
        }
        self.filling += 1;
        let token = Requested::Filled(line.0);
        out.copy(Copied { from, to, lines: 1, cause: FILL, token });
        Place::Waits
    }

    /// Whether a page may have a copy instead of its lines. Their places must not be about to change:
    /// none of them is being filled, none of the last epoch's is being merged, none is past the tables.
    fn may_build(&self, page: u64, has_spilled: bool) -> bool {
        let epoch = &self.epochs[self.now];
        let lines = u64::from(*epoch.lines_of.get(&page).unwrap_or(&0));
        lines >= self.page_after
            && !has_spilled
            && !self.last().lines_of.contains_key(&page)
            && self.pages.has_room(epoch.pages.set_of(page))
            && lines_of(page).all(|line| epoch.line(line).is_none_or(|of| of.is_filled))
    }

    fn build(&mut self, page: u64, out: &mut Outbox<Requested>) {
        let home = LineAddr(PAGE_LINES * page);
        let from = match self.last().page(page) {
            Some(OfPage { slot, .. }) if self.fault != Some(Fault::BuildsFromHome) => {
                self.layout.page_slot(slot)
            }
            _ => home,
        };
        let epoch = &mut self.epochs[self.now];
        let slot = self.pages.take(epoch.pages.set_of(page));
        let at = epoch.pages.room(page, |_| None).expect("a set has a way for each entry");
        epoch.pages.put(at, page, OfPage { slot, state: State::Base });
        epoch.entries += 1;
        self.filling += 1;
        let (to, token) = (self.layout.page_slot(slot), Requested::Filled(OF_PAGE | page));
        out.copy(Copied { from, to, lines: PAGE_LINES, cause: FILL, token });
    }

    /// The next step of a page's copy. Returns whether it is ready.
    fn builds(&mut self, page: u64, out: &mut Outbox<Requested>) -> bool {
        let Self { layout, fault, ref mut epochs, now, ref mut counts, .. } = *self;
        let epoch = &mut epochs[now];
        let Some(at) = epoch.pages.find(page) else { return true };
        let OfPage { slot, state } = *epoch.pages.value(at);
        let left = match state {
            State::Base => {
                counts.pages_filled += 1;
                let mut left = 0;
                let with_copies = lines_of(page).filter(|_| fault != Some(Fault::LinesLeft));
                for line in with_copies {
                    let Some(of) = epoch.line(line) else { continue };
                    left += 1;
                    out.copy(Copied {
                        from: layout.line_slot(of.slot),
                        to: layout.page_slot(slot).plus(line.0 % PAGE_LINES),
                        lines: 1,
                        cause: FILL,
                        token: Requested::Filled(OF_PAGE | page),
                    });
                }
                left
            }
            State::Lines(left) => {
                counts.lines_filled += 1;
                left - 1
            }
            State::Ready => 0,
        };
        let is_ready = left == 0;
        let epoch = &mut self.epochs[self.now];
        epoch.pages.value(at).state = if is_ready { State::Ready } else { State::Lines(left) };
        if is_ready {
            self.filling -= 1;
            self.drop_lines(page);
        }
        is_ready
    }

    /// The lines of a page have their bytes in the page's copy.
    fn drop_lines(&mut self, page: u64) {
        let epoch = &mut self.epochs[self.now];
        for line in lines_of(page) {
            let Some(at) = epoch.lines.find(line.0) else { continue };
            let slot = epoch.lines.value(at).slot;
            epoch.lines.clear(at);
            epoch.entries -= 1;
            self.lines.give(epoch.lines.set_of(line.0), slot);
        }
        epoch.lines_of.remove(&page);
    }

    /// Frees the ways and copies of an epoch.
    fn give(&mut self, which: usize) {
        let epoch = &self.epochs[which];
        for (line, OfLine { slot, .. }) in epoch.lines.iter() {
            self.lines.give(epoch.lines.set_of(line), slot);
        }
        for (page, OfPage { slot, .. }) in epoch.pages.iter() {
            self.pages.give(epoch.pages.set_of(page), slot);
        }
    }
}

fn lines_of(page: u64) -> impl Iterator<Item = LineAddr> {
    (PAGE_LINES * page..PAGE_LINES * (page + 1)).map(LineAddr)
}

impl Places for Tables {
    const OVERLAPS: bool = true;

    #[inline]
    fn locate(&self, line: LineAddr) -> LineAddr {
        let found = self.epochs[self.now].locate(self.layout, line);
        found.or_else(|| self.last().locate(self.layout, line)).unwrap_or(line)
    }

    fn place(&mut self, asked: Asked, out: &mut Outbox<Requested>) -> Place {
        let Asked { line, has_spilled, .. } = asked;
        let page = line.0 / PAGE_LINES;
        if self.fault == Some(Fault::Overwrites)
            && let Some(at) = self.last().locate(self.layout, line)
        {
            return Place::At(at);
        }
        let epoch = &self.epochs[self.now];
        if let Some(OfPage { slot, state }) = epoch.page(page) {
            return match state {
                State::Ready => Place::At(self.layout.page_slot(slot).plus(line.0 % PAGE_LINES)),
                State::Base | State::Lines(_) => Place::Waits,
            };
        }
        match epoch.line(line) {
            Some(OfLine { slot, is_filled: true }) => Place::At(self.layout.line_slot(slot)),
            Some(_) => Place::Waits,
            None if self.may_build(page, has_spilled) => {
                self.build(page, out);
                Place::Waits
            }
            None => self.new_line(asked, out),
        }
    }

    fn filled(&mut self, what: u64, out: &mut Outbox<Requested>) -> bool {
        if what & OF_PAGE != 0 {
            return self.builds(what & !OF_PAGE, out);
        }
        self.filling -= 1;
        self.counts.lines_filled += 1;
        let epoch = &mut self.epochs[self.now];
        if let Some(at) = epoch.lines.find(what) {
            epoch.lines.value(at).is_filled = true;
        }
        true
    }

    fn is_filling(&self) -> bool {
        self.filling > 0
    }

    fn seal(&mut self) -> Vec<Entry> {
        let epoch = &self.epochs[self.now];
        let lines = epoch.lines.iter().map(|(line, of)| Entry::line(LineAddr(line), of.slot));
        let pages = epoch.pages.iter().map(|(page, of)| Entry::page(page, of.slot));
        let entries = lines.chain(pages).collect();
        if self.fault == Some(Fault::FreesEarly) {
            self.give(self.now);
        }
        self.now = 1 - self.now;
        debug_assert_eq!(self.epochs[self.now].entries, 0, "its checkpoint is complete");
        entries
    }

    fn free(&mut self) {
        let which = 1 - self.now;
        if self.fault != Some(Fault::FreesEarly) {
            self.give(which);
        }
        self.epochs[which].clear();
    }

    fn take_filled(&mut self) -> (u64, u64) {
        let Counts { lines_filled, pages_filled } = std::mem::take(&mut self.counts);
        (lines_filled, pages_filled)
    }
}
