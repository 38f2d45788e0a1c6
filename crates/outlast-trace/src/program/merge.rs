//! All threads of a program in one order: stores by their places, loads between.

use std::collections::VecDeque;

use super::{Access, Happening, Program, ProgramError, Thread};

/// What a thread does, in the order of all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Instructions of a block begin: the block, the first of them and one past the last. Their accesses
    /// follow.
    Instructions(u32, u16, u16),
    /// An access.
    Access(Access),
    /// The system writes bytes.
    SystemWrite(u64, Vec<u8>),
    /// A system call begins.
    Call(u32),
    /// A signal's handler begins.
    Handler,
    /// A place in the order of all stores.
    Place(u64),
    /// So many places had been given out.
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
                Some(Happening::Call { number, .. }) => queue.push_back(Step::Call(number)),
                Some(Happening::Place(place)) => queue.push_back(Step::Place(place)),
                Some(Happening::Seen(places)) => queue.push_back(Step::Seen(places)),
                Some(Happening::Handler) => queue.push_back(Step::Handler),
                Some(Happening::Return { .. }) => {}
            }
        }
        Ok(())
    }
}

/// Passes on what all threads do, in one order, with the thread.
///
/// # Errors
/// When the file cannot be read or is damaged.
pub fn in_order(program: &Program, mut to: impl FnMut(u16, Step)) -> Result<(), ProgramError> {
    let lane =
        |number| Lane { thread: program.thread(number), queue: VecDeque::new(), is_over: false };
    let mut lanes: Vec<Lane> = (0..program.threads()).map(lane).collect();
    let mut next = 0;
    loop {
        let mut has_moved = false;
        let mut least = u64::MAX;
        for (number, lane) in lanes.iter_mut().enumerate() {
            loop {
                lane.fill()?;
                match lane.queue.front() {
                    None => break,
                    Some(Step::Place(place) | Step::Seen(place)) if *place > next => {
                        least = least.min(*place);
                        break;
                    }
                    Some(_) => {}
                }
                has_moved = true;
                if let Some(step) = lane.queue.pop_front() {
                    if let Step::Place(place) = step {
                        next = next.max(place + 1);
                    }
                    to(number as u16, step);
                }
            }
        }
        if !has_moved {
            if least == u64::MAX {
                return Ok(());
            }
            // A thread that was killed has taken places of which nothing was recorded.
            next = least;
        }
    }
}
