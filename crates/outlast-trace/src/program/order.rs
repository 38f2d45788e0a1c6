//! The order that threads of a program keep when each runs on a core of its own.
//!
//! Stores have their places in one order of all threads, and loads lie between: behind the places
//! that had been given out when their block began. In that order an access comes behind the last
//! store of another thread to a word that it touches, and a store behind the others' last loads of
//! its word. What follows from the rest is left out.

use std::collections::HashMap;

use super::{Program, ProgramError, Step, in_order};

/// For each thread what it waits for and what it tells. Accesses and the system's writes are counted
/// from 0 in each thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ThreadOrder {
    /// Before the access with this number: the thread that is waited for, and the count it has told.
    pub waits: Vec<(u64, u16, u64)>,
    /// The accesses after which it tells one more.
    pub tells: Vec<u64>,
}

/// Who touched a word last.
#[derive(Default)]
struct Word {
    stored: Option<(u16, u64)>,
    loaded: Vec<(u16, u64)>,
}

/// The order of all threads of a program; none where it has one thread.
///
/// # Errors
/// When the file cannot be read or is damaged.
pub fn order(program: &Program) -> Result<Vec<ThreadOrder>, ProgramError> {
    let threads = program.threads();
    if threads < 2 {
        return Ok(vec![ThreadOrder::default(); threads.into()]);
    }
    let mut restored = Restored {
        counts: vec![0; threads.into()],
        words: HashMap::new(),
        known: vec![vec![0; threads.into()]; threads.into()],
        waits: vec![Vec::new(); threads.into()],
    };
    in_order(program, |thread, step| match step {
        Step::Access(access) => {
            restored.access(thread, access.at, access.len.into(), access.stores);
        }
        Step::SystemWrite(at, bytes) => restored.access(thread, at, bytes.len() as u64, true),
        _ => {}
    })?;
    Ok(restored.finish())
}

struct Restored {
    /// Accesses of each thread up to now.
    counts: Vec<u64>,
    words: HashMap<u64, Word>,
    /// Accesses of another thread that a thread is known to come behind.
    known: Vec<Vec<u64>>,
    /// The access that waits, the thread, and the number of accesses it must have done.
    waits: Vec<Vec<(u64, u16, u64)>>,
}

impl Restored {
    fn access(&mut self, thread: u16, at: u64, len: u64, stores: bool) {
        let number = self.counts[usize::from(thread)];
        self.counts[usize::from(thread)] += 1;
        for word in at / 8..at.saturating_add(len).div_ceil(8) {
            let word = self.words.entry(word).or_default();
            let mut behind = |(other, done): (u16, u64)| {
                let known = &mut self.known[usize::from(thread)][usize::from(other)];
                if other != thread && *known < done {
                    *known = done;
                    self.waits[usize::from(thread)].push((number, other, done));
                }
            };
            word.stored.into_iter().for_each(&mut behind);
            if stores {
                word.loaded.drain(..).for_each(&mut behind);
                word.stored = Some((thread, number + 1));
            } else {
                match word.loaded.iter_mut().find(|(other, _)| *other == thread) {
                    Some((_, done)) => *done = number + 1,
                    None => word.loaded.push((thread, number + 1)),
                }
            }
        }
    }

    /// Tells each place that is waited for, and counts it.
    fn finish(self) -> Vec<ThreadOrder> {
        let mut orders = vec![ThreadOrder::default(); self.counts.len()];
        for (_, other, done) in self.waits.iter().flatten() {
            orders[usize::from(*other)].tells.push(done - 1);
        }
        for order in &mut orders {
            order.tells.sort_unstable();
            order.tells.dedup();
        }
        for (thread, waits) in self.waits.into_iter().enumerate() {
            let counted = waits.into_iter().map(|(number, other, done)| {
                let tells = &orders[usize::from(other)].tells;
                let count = tells.partition_point(|tell| *tell < done) as u64;
                (number, other, count)
            });
            orders[thread].waits = counted.collect();
        }
        orders
    }
}
