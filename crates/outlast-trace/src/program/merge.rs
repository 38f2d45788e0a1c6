//! All threads of a program in one order: stores by their places, loads between.

use std::collections::VecDeque;

use super::{Access, Happening, Program, ProgramError, Thread};

/// A step of a thread, in the order of all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Instructions of a block begin: the block, the first of them and one past the last. Their accesses
    /// follow.
    Instructions(u32, u16, u16),
    /// An access.
    Access(Access),
    /// The system writes bytes.
    SystemWrite(u64, Vec<u8>),
    /// A system call begins: its number, and its first three arguments.
    Call(u32, [u64; 3]),
    /// A system call returns: its number, and its result.
    Return(u32, i64),
    /// A signal's handler begins.
    Handler,
    /// A place in the order of all stores.
    Place(u64),
    /// The number of places that had been given out.
    Seen(u64),
}

/// A thread while the order is restored.
struct Lane {
    thread: Thread,
    queue: VecDeque<Step>,
    is_over: bool,
}

impl Lane {
    /// Reads on until there is something in the queue, or the thread is over.
    fn fill(&mut self) -> Result<(), ProgramError> {
        while self.queue.is_empty() && !self.is_over {
            let Self { thread, queue, is_over } = self;
            match thread.next()? {
                None => *is_over = true,
                Some(Happening::Execution(execution)) => {
                    let insns = &execution.insns;
                    queue.push_back(Step::Instructions(execution.block, insns.start, insns.end));
                    let (mut places, mut seen) = (execution.places, execution.seen);
                    for number in 0..=execution.accesses.len() {
                        while let Some(((at, n), rest)) = seen.split_first()
                            && *at as usize == number
                        {
                            queue.push_back(Step::Seen(*n));
                            seen = rest;
                        }
                        while let Some(((at, n), rest)) = places.split_first()
                            && *at as usize == number
                        {
                            queue.push_back(Step::Place(*n));
                            places = rest;
                        }
                        queue.extend(execution.accesses.get(number).copied().map(Step::Access));
                    }
                }
                Some(Happening::SystemWrite { at, bytes }) => {
                    queue.push_back(Step::SystemWrite(at, bytes.to_vec()));
                }
                Some(Happening::Call { number, arguments }) => {
                    queue.push_back(Step::Call(number, arguments));
                }
                Some(Happening::Return { number, result }) => {
                    queue.push_back(Step::Return(number, result));
                }
                Some(Happening::Place(place)) => queue.push_back(Step::Place(place)),
                Some(Happening::Seen(places)) => queue.push_back(Step::Seen(places)),
                Some(Happening::Handler) => queue.push_back(Step::Handler),
            }
        }
        Ok(())
    }
}

/// All threads while the order is restored.
pub(super) struct Merged {
    lanes: Vec<Lane>,
    /// The thread that goes on until it has to wait.
    at: usize,
    /// The next place in the order of all stores.
    next: u64,
    /// Since the first thread had its turn: whether one moved, and the least place that one waits for.
    has_moved: bool,
    least: u64,
}

impl Merged {
    pub(super) fn new(program: &Program) -> Self {
        let lane = |number| {
            let thread = program.thread(number);
            Lane { thread, queue: VecDeque::new(), is_over: false }
        };
        let lanes = (0..program.threads()).map(lane).collect();
        Self { lanes, at: 0, next: 0, has_moved: false, least: u64::MAX }
    }

    /// Places that have been given out.
    pub(super) fn places(&self) -> u64 {
        self.next
    }

    /// The next step, with its thread; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u16, Step)>, ProgramError> {
        loop {
            if self.at == self.lanes.len() {
                if !self.has_moved {
                    if self.least == u64::MAX {
                        return Ok(None);
                    }
                    // A thread that was killed has taken places of which nothing was recorded.
                    self.next = self.least;
                }
                (self.at, self.has_moved, self.least) = (0, false, u64::MAX);
            }
            let Some(lane) = self.lanes.get_mut(self.at) else { return Ok(None) };
            lane.fill()?;
            if let Some(Step::Place(place) | Step::Seen(place)) = lane.queue.front()
                && *place > self.next
            {
                self.least = self.least.min(*place);
                self.at += 1;
                continue;
            }
            match lane.queue.pop_front() {
                None => self.at += 1,
                Some(step) => {
                    self.has_moved = true;
                    if let Step::Place(place) = step {
                        self.next = self.next.max(place + 1);
                    }
                    return Ok(Some((self.at as u16, step)));
                }
            }
        }
    }
}

/// Passes on what all threads do, in one order, with the thread.
///
/// # Errors
/// When the file cannot be read or is damaged.
pub fn in_order(program: &Program, mut to: impl FnMut(u16, Step)) -> Result<(), ProgramError> {
    let mut merged = Merged::new(program);
    while let Some((thread, step)) = merged.next()? {
        to(thread, step);
    }
    Ok(())
}
