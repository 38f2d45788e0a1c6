//! `epoch`: the image equals, byte for byte, memory at the end of the epoch that recovery names, and
//! that epoch is no older than the last one reported persisted. Saved registers are bytes as others,
//! and they say where each core stood.
//!
//! Epochs are decided by the run and not by its program, so the history is the machine's own: the order
//! in which stores became visible, and the moments at which epochs ended.

use std::borrow::Cow;

use outlast_sim::timed::TimedJournal;
use outlast_trace::{LineAddr, PoolOffset};

use crate::{Broken, Violation};

/// A word as a store made it.
type Stored = (PoolOffset, [u8; 8]);

/// The end of an epoch.
#[derive(Clone, Debug)]
pub struct End {
    /// How many of the stores came before.
    pub stores: usize,
    /// Where each core stood, from the program's begin on.
    pub positions: Vec<u64>,
}

/// Memory at the end of each epoch of one run.
#[derive(Clone, Debug)]
pub struct Epochs {
    base: Vec<u8>,
    /// The epoch at whose end the run began.
    first: u64,
    stores: Vec<Stored>,
    /// The lines that the run has changed in memory or in caches, ascending.
    changed: Vec<LineAddr>,
    /// The ends of that epoch and of those behind it.
    ends: Vec<End>,
    /// The number of stores that was asked for last, and memory behind them.
    memory: (usize, Vec<u8>),
}

impl Epochs {
    /// The history of a run that began with this memory, at the end of epoch `first`, when each core
    /// stood at its place of `positions`.
    pub fn of_run(base: Vec<u8>, first: u64, positions: Vec<u64>, journal: &TimedJournal) -> Self {
        let mut ends = vec![End { stores: 0, positions: positions.clone() }];
        for end in journal.ended_epochs() {
            let next = first + ends.len() as u64;
            assert_eq!(end.epoch, next, "epochs end one behind the other");
            let at = positions.iter().zip(&end.positions).map(|(from, at)| from + at);
            ends.push(End { stores: end.stores, positions: at.collect() });
        }
        let mut of_run = Self::of(base, first, journal.stored_words().to_vec(), ends);
        let end = LineAddr(of_run.base.len() as u64 / 64);
        let of_journal = journal.journal().iter().map(|entry| entry.line);
        of_run.changed.extend(of_journal.filter(|line| *line < end));
        of_run.changed.sort_unstable();
        of_run.changed.dedup();
        of_run
    }

    /// The history of these stores over this memory, with the ends of epoch `first` and of those behind
    /// it.
    pub fn of(base: Vec<u8>, first: u64, stores: Vec<Stored>, ends: Vec<End>) -> Self {
        let changed = stores.iter().map(|(at, _)| at.line()).collect();
        Self { memory: (0, base.clone()), base, first, stores, changed, ends }
    }

    /// Another store, behind all others.
    pub fn stored(&mut self, at: PoolOffset, word: [u8; 8]) {
        self.stores.push((at, word));
        self.changed.push(at.line());
    }

    /// The end of another epoch.
    pub fn ended(&mut self, end: End) {
        self.ends.push(end);
    }

    /// Makes `memory` what it is behind the first `stores` stores. Crash points ascend, and so do epochs,
    /// mostly.
    fn behind(&mut self, stores: usize) {
        if self.memory.0 > stores {
            self.memory = (0, self.base.clone());
        }
        let (at, memory) = &mut self.memory;
        for (place, word) in &self.stores[*at..stores] {
            if let Some(old) = memory.get_mut(place.0 as usize..place.0 as usize + 8) {
                old.copy_from_slice(word);
            }
        }
        *at = stores;
    }

    /// Judges an image of which recovery says that it is the end of epoch `named`, with each core at its
    /// place of `positions`, when `reported` was the last epoch reported persisted. `found` has the lines
    /// of the run's memory from one on: at least that one, at most the number given. Where recovery has
    /// written these lines and no others, only they and those that the run has changed are compared.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check<'a>(
        &mut self,
        named: u64,
        reported: u64,
        positions: &[u64],
        found: impl Fn(LineAddr, u64) -> Cow<'a, [u8]>,
        written: Option<Vec<LineAddr>>,
    ) -> Result<(), Violation> {
        let last = self.first + self.ends.len() as u64 - 1;
        if named < reported {
            let detail =
                format!("recovery goes back to epoch {named}, and {reported} was reported");
            return Err(Violation::new(Broken::Lost, detail));
        }
        if named < self.first || named > last {
            let detail = format!("recovery names epoch {named}, and {last} was the last to end");
            return Err(Violation::new(Broken::Garbage, detail));
        }
        let end = self.ends[(named - self.first) as usize].clone();
        self.behind(end.stores);
        let memory = &self.memory.1;
        let lines = self.base.len() as u64 / 64;
        let compare = |first: LineAddr, most: u64| {
            let most = most.min(lines.saturating_sub(first.0));
            if most == 0 {
                return Ok(1); // No line of the program's.
            }
            let is = found(first, most);
            let was = &memory[first.start().0 as usize..][..is.len()];
            if *was == *is {
                return Ok(is.len() as u64 / 64); // Faster than byte by byte.
            }
            let differs = was.iter().zip(is.iter()).position(|(a, b)| a != b).expect("they differ");
            let at = first.start().plus(differs as u64);
            let detail = format!(
                "byte {at} is {:#x}; at the end of epoch {named} it was {:#x}",
                is[differs], was[differs]
            );
            Err(Violation::new(Broken::Torn, detail))
        };
        match written {
            None => {
                let mut at = 0;
                while at < lines {
                    at += compare(LineAddr(at), lines - at)?;
                }
            }
            Some(written) => {
                for line in written.iter().chain(&self.changed) {
                    compare(*line, 1)?;
                }
            }
        }
        for (core, (is, was)) in positions.iter().zip(&end.positions).enumerate() {
            if is != was {
                let detail = format!(
                    "core {core} goes on at instruction {is}; at the end of epoch {named} it stood at {was}"
                );
                return Err(Violation::new(Broken::Torn, detail));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three epochs over two lines behind epoch `first`: each stores its number to byte 0, the second
    /// one to byte 96 as well. One core, ten instructions each.
    fn epochs(first: u64) -> Epochs {
        let word = |at, byte: u8| (PoolOffset(at), [byte; 8]);
        let stores = vec![word(0, 1), word(0, 2), word(96, 7), word(0, 3), word(0, 4)];
        let end = |(stores, at)| End { stores, positions: vec![at] };
        let ends = [(0, 5), (1, 15), (3, 25), (4, 35)].map(end).to_vec();
        Epochs::of(vec![9; 128], first, stores, ends)
    }

    fn broken(epochs: &mut Epochs, image: &[u8], named: u64, reported: u64) -> Option<Broken> {
        let at = 5 + 10 * named.saturating_sub(epochs.first);
        broken_at(epochs, image, named, reported, at)
    }

    fn broken_at(
        epochs: &mut Epochs,
        image: &[u8],
        named: u64,
        reported: u64,
        at: u64,
    ) -> Option<Broken> {
        // One line at a time, or as many as are asked for.
        let verdicts = [1, u64::MAX].map(|each| {
            let lines = |first: LineAddr, most: u64| {
                Cow::Borrowed(&image[first.start().0 as usize..][..64 * most.min(each) as usize])
            };
            epochs.check(named, reported, &[at], lines, None)
        });
        assert_eq!(verdicts[0], verdicts[1]);
        verdicts[0].as_ref().err().map(|violation| violation.broken)
    }

    fn image(first: u8, other: u8) -> Vec<u8> {
        let mut image = vec![9; 128];
        image[..8].fill(first);
        image[96..104].fill(other);
        image
    }

    #[test]
    fn an_image_is_that_of_the_epoch_named_byte_for_byte() {
        for first in [0, 6] {
            let mut epochs = epochs(first);
            let of = [image(9, 9), image(1, 9), image(2, 7), image(3, 7)];
            for named in (0..4).rev().chain(0..4) {
                let image = &of[named as usize];
                for other in 0..4 {
                    let expected = (other != named).then_some(Broken::Torn);
                    let is = broken(&mut epochs, image, first + other, 0);
                    assert_eq!(is, expected, "{named} as {other}");
                }
            }
            let mut is = |image: &[u8], named| broken(&mut epochs, image, first + named, 0);
            assert_eq!(is(&image(3, 9), 3), Some(Broken::Torn), "a word of the second epoch");
            assert_eq!(is(&image(4, 7), 3), Some(Broken::Torn), "the epoch under way");
            let mut torn = image(3, 7);
            torn[3] = 2;
            assert_eq!(is(&torn, 3), Some(Broken::Torn), "a byte of a word");
        }
    }

    #[test]
    fn a_line_that_nothing_has_written_is_seen_where_all_of_memory_is_compared() {
        let stores = vec![(PoolOffset(0), [1; 8])];
        let ends = [0, 1].map(|stores| End { stores, positions: vec![5] }).to_vec();
        let mut epochs = Epochs::of(vec![9; 192], 0, stores, ends);
        let mut image = [9; 192];
        image[..8].fill(1);
        image[130] = 8;
        let mut is_torn = |written: Option<Vec<LineAddr>>| {
            let lines = |first: LineAddr, most: u64| {
                Cow::Borrowed(&image[first.start().0 as usize..][..64 * most as usize])
            };
            epochs.check(1, 0, &[5], lines, written).is_err()
        };
        assert!(is_torn(None));
        assert!(is_torn(Some(vec![LineAddr(2)])));
        assert!(!is_torn(Some(vec![LineAddr(1)])), "it is left out");
    }

    #[test]
    fn no_epoch_older_than_the_last_one_reported_will_do() {
        let mut epochs = epochs(0);
        assert_eq!(broken(&mut epochs, &image(2, 7), 2, 2), None);
        assert_eq!(broken(&mut epochs, &image(3, 7), 3, 2), None);
        assert_eq!(broken(&mut epochs, &image(2, 7), 2, 3), Some(Broken::Lost));
        assert_eq!(broken(&mut epochs, &image(4, 7), 4, 3), Some(Broken::Garbage), "not ended");
    }

    #[test]
    fn registers_say_where_each_core_stood() {
        let mut epochs = epochs(0);
        assert_eq!(broken_at(&mut epochs, &image(2, 7), 2, 0, 25), None);
        assert_eq!(broken_at(&mut epochs, &image(2, 7), 2, 0, 15), Some(Broken::Torn));
    }

    #[test]
    fn a_run_that_resumed_has_no_epochs_before_its_first() {
        let mut epochs = epochs(6);
        assert_eq!(broken(&mut epochs, &image(9, 9), 5, 0), Some(Broken::Garbage));
        assert_eq!(broken(&mut epochs, &image(9, 9), 6, 0), None);
    }
}
