//! What threads of a program keep of their order when each runs on a core of its own.
//!
//! Stores have their places in one order of all threads, and loads lie between: behind the places
//! that had been given out when their block began. In that order an access comes behind the last
//! store of another thread to a word that it touches, and a store behind the others' last loads of
//! its word. What follows from the rest is left out.

use std::collections::HashMap;

use super::{Happening, Program, ProgramError, Thread};

/// For each thread what it waits for and what it tells. Accesses and the system's writes are counted
/// from 0 in each thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ThreadOrder {
    /// Before the access with this number: the thread that is waited for, and the count it has told.
    pub waits: Vec<(u64, u16, u64)>,
    /// The accesses after which it tells one more.
    pub tells: Vec<u64>,
}

/// A thread while the order is restored.
struct Lane {
    thread: Thread,
    /// Accesses up to now.
    count: u64,
    queue: std::collections::VecDeque<Item>,
    is_over: bool,
}

enum Item {
    Place(u64),
    Seen(u64),
    Access { at: u64, len: u64, stores: bool },
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
        lanes: (0..threads).map(|number| Lane::new(program.thread(number))).collect(),
        next: 0,
        words: HashMap::new(),
        known: vec![vec![0; threads.into()]; threads.into()],
        waits: vec![Vec::new(); threads.into()],
    };
    restored.run()?;
    Ok(restored.finish())
}

struct Restored {
    lanes: Vec<Lane>,
    /// The next place.
    next: u64,
    words: HashMap<u64, Word>,
    /// Accesses of another thread that a thread is known to come behind.
    known: Vec<Vec<u64>>,
    /// The access that waits, the thread, and the number of accesses it must have done.
    waits: Vec<Vec<(u64, u16, u64)>>,
}

impl Lane {
    fn new(thread: Thread) -> Self {
        Self { thread, count: 0, queue: Default::default(), is_over: false }
    }

    /// Reads on until there is something in the queue, or the thread is over.
    fn fill(&mut self) -> Result<(), ProgramError> {
        while self.queue.is_empty() && !self.is_over {
            let Self { thread, queue, is_over, .. } = self;
            match thread.next()? {
                None => *is_over = true,
                Some(Happening::Execution(execution)) => {
                    let (mut places, mut seen) = (execution.places, execution.seen);
                    for number in 0..=execution.accesses.len() {
                        while let Some(((at, n), rest)) = seen.split_first()
                            && *at as usize == number
                        {
                            queue.push_back(Item::Seen(*n));
                            seen = rest;
                        }
                        while let Some(((at, n), rest)) = places.split_first()
                            && *at as usize == number
                        {
                            queue.push_back(Item::Place(*n));
                            places = rest;
                        }
                        if let Some(access) = execution.accesses.get(number) {
                            let (at, len, stores) = (access.at, access.len.into(), access.stores);
                            queue.push_back(Item::Access { at, len, stores });
                        }
                    }
                }
                Some(Happening::SystemWrite { at, bytes }) => {
                    let len = bytes.len() as u64;
                    queue.push_back(Item::Access { at, len, stores: true });
                }
                Some(Happening::Place(place)) => queue.push_back(Item::Place(place)),
                Some(Happening::Seen(places)) => queue.push_back(Item::Seen(places)),
                Some(_) => {}
            }
        }
        Ok(())
    }
}

impl Restored {
    fn run(&mut self) -> Result<(), ProgramError> {
        loop {
            let mut has_moved = false;
            let mut least = u64::MAX;
            for number in 0..self.lanes.len() {
                loop {
                    self.lanes[number].fill()?;
                    match self.lanes[number].queue.front() {
                        None => break,
                        Some(Item::Place(place)) if *place > self.next => {
                            least = least.min(*place);
                            break;
                        }
                        Some(Item::Seen(places)) if *places > self.next => {
                            least = least.min(*places);
                            break;
                        }
                        _ => {}
                    }
                    has_moved = true;
                    match self.lanes[number].queue.pop_front() {
                        Some(Item::Place(place)) => self.next = self.next.max(place + 1),
                        Some(Item::Access { at, len, stores }) => {
                            self.access(number as u16, at, len, stores);
                        }
                        _ => {}
                    }
                }
            }
            if !has_moved {
                if least == u64::MAX {
                    return Ok(());
                }
                // A thread that was killed has taken places of which nothing was recorded.
                self.next = least;
            }
        }
    }

    fn access(&mut self, thread: u16, at: u64, len: u64, stores: bool) {
        let lane = &mut self.lanes[usize::from(thread)];
        let number = lane.count;
        lane.count += 1;
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

    /// What is waited for is told, and counted.
    fn finish(self) -> Vec<ThreadOrder> {
        let mut orders = vec![ThreadOrder::default(); self.lanes.len()];
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
