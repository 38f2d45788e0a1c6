//! Requests that look their block up, and wait where its entry is not cached.

use super::{
    ports::{Outbox, ReadTicket, Route, WriteRoute, WriteTicket},
    time::Cycle,
};
use outlast_trace::LineAddr;

/// A request that waits for its block's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// A read of this line, and when its own lookup is over.
    Read(ReadTicket, LineAddr, Cycle),
    /// A write of these words of a line.
    Write(WriteTicket, LineAddr, Cycle, u8),
}

impl Waiting {
    /// Lets it go on to a line once its lookup is over.
    pub fn release<T>(self, now: Cycle, to: LineAddr, out: &mut Outbox<T>) {
        match self {
            Self::Read(ticket, _, over) => out.release(
                ticket,
                match over.since(now) {
                    0 => Route::There(to),
                    cycles => Route::After { line: to, cycles },
                },
            ),
            Self::Write(ticket, _, over, _) => out.release_write(
                ticket,
                match over.since(now) {
                    0 => WriteRoute::There(to),
                    cycles => WriteRoute::After { line: to, cycles },
                },
            ),
        }
    }
}

/// All that wait, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub struct Lookups {
    waiting: Vec<(u64, Waiting)>,
}

impl Lookups {
    /// One waits for its block; returns whether it is the first of that block.
    pub fn wait(&mut self, block: u64, asked: Waiting) -> bool {
        let is_first = !self.is_waited_for(block);
        self.waiting.push((block, asked));
        is_first
    }

    /// Whether requests of a block wait.
    #[inline]
    pub fn is_waited_for(&self, block: u64) -> bool {
        self.waiting.iter().any(|(of, _)| *of == block)
    }

    /// A write waits no more: it is over.
    pub fn forget(&mut self, write: WriteTicket) {
        let is_it =
            |asked: &Waiting| matches!(asked, Waiting::Write(ticket, ..) if *ticket == write);
        self.waiting.retain(|(_, asked)| !is_it(asked));
    }

    /// The first that waits for a block.
    pub fn first(&self, block: u64) -> Option<Waiting> {
        self.waiting.iter().find(|(of, _)| *of == block).map(|(_, asked)| *asked)
    }

    /// The reads that wait for a block, which wait no more.
    pub fn next_read(&mut self, block: u64) -> Option<Waiting> {
        let is_read = |asked: &Waiting| matches!(asked, Waiting::Read(..));
        let at = self.waiting.iter().position(|(of, asked)| *of == block && is_read(asked))?;
        Some(self.waiting.remove(at).1)
    }

    /// The first that waits for a block, which waits no more.
    pub fn next(&mut self, block: u64) -> Option<Waiting> {
        let at = self.waiting.iter().position(|(of, _)| *of == block)?;
        Some(self.waiting.remove(at).1)
    }
}
