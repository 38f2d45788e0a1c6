//! Lines for which the tables have no room: the one that ends an epoch early, what is on its way
//! behind it, and what the flush finds then.
//!
//! Their copies lie behind those that tables name, and their entries are in the directory as any: one
//! record covers them all. No table has them, so cores stand until they are home. Two epochs one
//! behind the other have areas of their own where a checkpoint overlaps with the next epoch.

use outlast_sim::timed::{Copied, Outbox};
use outlast_trace::LineAddr;
use rustc_hash::FxHashMap;

use super::FILL;
use super::layout::{Entry, Layout};
use super::ports::Token;

/// Such lines of the epoch that ends.
#[derive(Debug)]
pub(super) struct Spill {
    layout: Layout,
    /// The first of their copies, in this epoch and in the next one.
    first: [u32; 2],
    lines: Vec<LineAddr>,
    /// Of each line its number, and whether its copy has all of it.
    copies: FxHashMap<LineAddr, (u32, bool)>,
    /// Copies that are being filled.
    filling: u32,
    filled: u64,
}

impl Spill {
    /// With its first copies in two areas.
    pub(super) fn new(layout: Layout, first: [u32; 2]) -> Self {
        let copies = FxHashMap::default();
        Self { layout, first, lines: Vec::new(), copies, filling: 0, filled: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn slot(&self, number: u32) -> LineAddr {
        self.layout.line_slot(self.first[0] + number)
    }

    /// Where a line's newest bytes are, if they are here.
    #[inline]
    pub(super) fn locate(&self, line: LineAddr) -> Option<LineAddr> {
        if self.lines.is_empty() {
            return None;
        }
        let (number, is_filled) = self.copies.get(&line)?;
        is_filled.then(|| self.slot(*number))
    }

    /// Whether a line is one of them.
    pub(super) fn has(&self, line: LineAddr) -> bool {
        self.copies.contains_key(&line)
    }

    /// The place of a write of a line that no table has room for, whose newest bytes are at `from` until
    /// then. None if it has to wait for its copy.
    pub(super) fn place(
        &mut self,
        line: LineAddr,
        from: LineAddr,
        is_whole: bool,
        out: &mut Outbox<Token>,
    ) -> Option<LineAddr> {
        let is_new = !self.copies.contains_key(&line);
        let next = (self.lines.len() as u32, is_whole);
        let (number, is_filled) = *self.copies.entry(line).or_insert(next);
        let slot = self.slot(number);
        if is_new {
            self.lines.push(line);
            if !is_whole {
                self.filling += 1;
                let token = Token::Spilled(line);
                out.copy(Copied { from, to: slot, lines: 1, cause: FILL, token });
            }
        }
        is_filled.then_some(slot)
    }

    /// A copy has all of its line.
    pub(super) fn filled(&mut self, line: LineAddr) {
        if let Some((_, is_filled)) = self.copies.get_mut(&line) {
            *is_filled = true;
            self.filling -= 1;
            self.filled += 1;
        }
    }

    pub(super) fn is_filling(&self) -> bool {
        self.filling > 0
    }

    /// Copies that have been filled since the last call.
    pub(super) fn take_filled(&mut self) -> u64 {
        std::mem::take(&mut self.filled)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        let numbered = self.lines.iter().zip(self.first[0]..);
        numbered.map(|(line, slot)| Entry::line(*line, slot))
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.copies.clear();
        self.first.swap(0, 1);
    }
}
