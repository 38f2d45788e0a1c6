//! Lines that residual energy has to write at a crash, and those that are lost where it does not suffice.

use super::journal::TimedJournal;
use crate::cache::LineBytes;
use outlast_trace::LineAddr;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A change of the lines that are kept.
#[derive(Clone, Debug)]
pub(super) struct KeepEvent {
    /// Entries of the journal with it.
    pub(super) entries: usize,
    pub(super) line: LineAddr,
    pub(super) change: Change,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    /// The line is kept from now on, over these bytes of the array, or over other ones than before.
    Over(LineBytes),
    /// It is kept no more.
    Ended,
}

/// The lines kept at a crash, from the first entry of a [`TimedJournal`] on: which of them residual
/// energy writes, in their order, and what the image has in place of those that it does not.
///
/// The journal's own images have all kept lines written. Queues that are in the domain beside them
/// are drained, too, and are not in here.
#[derive(Clone, Debug)]
pub struct DrainCursor<'j> {
    journal: &'j TimedJournal,
    next: usize,
    kept: BTreeMap<usize, (LineAddr, &'j LineBytes)>,
    order: FxHashMap<LineAddr, usize>,
}

impl<'j> DrainCursor<'j> {
    pub(super) fn new(journal: &'j TimedJournal) -> Self {
        Self { journal, next: 0, kept: BTreeMap::new(), order: FxHashMap::default() }
    }

    /// Goes on to a crash right after the first `entries` entries, which are not fewer than before.
    pub fn advance_to_entry(&mut self, entries: usize) {
        let events = self.journal.keep_events();
        while let Some(event) = events.get(self.next).filter(|event| event.entries <= entries) {
            let line = event.line;
            match &event.change {
                Change::Over(under) => {
                    let order = *self.order.entry(line).or_insert(self.next);
                    self.kept.insert(order, (line, under));
                }
                Change::Ended => {
                    let order = self.order.remove(&line);
                    order.and_then(|order| self.kept.remove(&order));
                }
            }
            self.next += 1;
        }
    }

    /// The lines that residual energy has to write, in that order.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = LineAddr> + '_ {
        self.kept.values().map(|(line, _)| *line)
    }

    /// The energy that takes, in nanojoule, where the memory's is known.
    pub fn nanojoules(&self) -> Option<f64> {
        Some(self.kept.len() as f64 * self.journal.drain_line_nj?)
    }

    /// The lines for which the machine's budget does not suffice, with what the array has there.
    pub fn lost(&self) -> impl Iterator<Item = (LineAddr, &'j LineBytes)> + '_ {
        self.lost_beyond(self.journal.drain_lines.unwrap_or(usize::MAX))
    }

    /// The same for a budget of `budget_lines` lines.
    pub fn lost_beyond(
        &self,
        budget_lines: usize,
    ) -> impl Iterator<Item = (LineAddr, &'j LineBytes)> + '_ {
        self.kept.values().skip(budget_lines).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timed::{config::MachineConfig, time::Cycle};
    use crate::{hierarchy::Cause, memory::Base};
    use outlast_trace::Domain;

    const CAUSE: Cause = Cause::Metadata;

    /// The images of all crashes, and what residual energy writes for each, for a budget of lines.
    fn crashes(journal: &TimedJournal, budget: usize) -> Vec<(Vec<u64>, Vec<u8>)> {
        let mut drains = journal.drains();
        let crash = |entries| {
            drains.advance_to_entry(entries);
            let mut image = vec![9; 256];
            journal.journal().cursor().advance_to_entry(entries, &mut image, |_| {});
            for (line, bytes) in drains.lost_beyond(budget) {
                image[line.start().0 as usize..][..64].copy_from_slice(bytes);
            }
            let lines = drains.lines().map(|line| line.0).collect();
            (lines, [0, 64, 128, 136].map(|at| image[at]).to_vec())
        };
        (0..=journal.journal().len()).map(crash).collect()
    }

    #[test]
    fn kept_lines_are_drained_in_their_order_and_what_is_left_is_lost() {
        let mut machine = MachineConfig::named("hwl").unwrap();
        machine.set_option("adr.drain_lines", "1").unwrap();
        let mut journal =
            TimedJournal::new(Base::Borrowed(&[9; 256]), Domain::Adr).with_drain(&machine);
        let line = |byte| [byte; 64];
        journal.keep(Cycle(1), LineAddr(2), 1, &line(1), CAUSE);
        journal.keep(Cycle(2), LineAddr(0), u8::MAX, &line(2), CAUSE);
        journal.keep(Cycle(3), LineAddr(2), 1, &line(3), CAUSE); // Keeps its place.
        journal.persist_under(Cycle(4), LineAddr(2), u8::MAX, &line(4), CAUSE);
        journal.persist_instead(Cycle(5), LineAddr(2), u8::MAX, &line(5), CAUSE);
        journal.unkeep(Cycle(6), LineAddr(0), CAUSE);
        let all = [
            (vec![], vec![9, 9, 9, 9]),
            (vec![2], vec![9, 9, 1, 9]),
            (vec![2, 0], vec![2, 9, 1, 9]),
            (vec![2, 0], vec![2, 9, 3, 9]),
            (vec![2, 0], vec![2, 9, 3, 4]),
            (vec![0], vec![2, 9, 5, 5]),
            (vec![], vec![9, 9, 5, 5]),
        ];
        assert_eq!(crashes(&journal, usize::MAX), all);
        let one: Vec<_> = crashes(&journal, 1).into_iter().map(|(_, image)| image).collect();
        assert_eq!(one[2..6], [[9, 9, 1, 9], [9, 9, 3, 9], [9, 9, 3, 4], [2, 9, 5, 5]]);
        let none: Vec<_> = crashes(&journal, 0).into_iter().map(|(_, image)| image).collect();
        assert_eq!(none[3..6], [[9, 9, 9, 9], [9, 9, 4, 4], [9, 9, 5, 5]]);
        let mut drains = journal.drains();
        drains.advance_to_entry(2);
        let lost: Vec<_> = drains.lost().map(|(line, _)| line).collect();
        assert_eq!(lost, [LineAddr(0)], "the machine's budget is one line");
        let nanojoules = machine.memory.drain_line_nj().unwrap();
        assert_eq!(drains.nanojoules(), Some(2.0 * nanojoules));
    }
}
