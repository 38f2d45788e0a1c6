//! Reads at the controller: a read is asked about once, when it has arrived there.
//!
//! The price of finding a line is what the answer says: nothing, cycles, or the time until the scheme
//! releases the read behind requests of its own. Its bytes are found when it is back at the caches,
//! by [`Scheme::locate`], since the line may move while the read travels.

use super::{Scheme, own::Side};
use crate::timed::{
    causes::ReadCause, controller::INSIDE, event::Event, memory_system::MemorySystem, time::Cycle,
    timeline::Kind,
};
use outlast_trace::{LaneId, LineAddr};

/// A read that waits, to be named when it is released.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ReadTicket(pub(in crate::timed) u32);

/// A read that has arrived at the controller.
#[derive(Clone, Copy, Debug)]
pub struct ReadSeen {
    /// Names it if it has to wait.
    pub ticket: ReadTicket,
    /// The line that is asked for.
    pub line: LineAddr,
    /// Who missed.
    pub cause: ReadCause,
    /// The lane whose miss it is; others may have joined it.
    pub lane: LaneId,
}

/// Where a read goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// To the line that was asked for.
    Here,
    /// To another line, at once.
    There(LineAddr),
    /// To a line, which may be the one asked for, some cycles from now.
    After {
        /// The line.
        line: LineAddr,
        /// The cycles.
        cycles: u64,
    },
    /// Nowhere: some cycles from now the scheme itself has the bytes at the controller, and they go
    /// back from there.
    Answered {
        /// The cycles.
        cycles: u64,
    },
    /// Nowhere before [`Outbox::release`](super::Outbox::release) says where.
    Wait,
}

/// Whose a read is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::timed) enum ReadOf {
    /// A miss of the last level, of this core or of cores that joined it.
    Miss(u8),
    /// The scheme, with its token's number.
    Scheme(u32),
    /// A copy, and where its bytes go.
    Copy { job: u32, to: LineAddr },
    /// The entry of a block.
    Entry(u64),
}

/// A read on its way to memory and back.
#[derive(Clone, Copy, Debug)]
struct Read {
    line: LineAddr,
    cause: ReadCause,
    of: ReadOf,
    side: Side,
    sent: Cycle,
    waits: bool,
    /// The line's place in the buffer in front of memory, which is read in place of memory.
    buffered: Option<u32>,
}

/// All reads on their way.
#[derive(Debug, Default)]
pub(in crate::timed) struct Reads {
    reads: Vec<Read>,
    free: Vec<u32>,
}

impl<S: Scheme> MemorySystem<S> {
    /// Sends a read to memory for a core's miss. `Event::ReadDone` with the number that is returned
    /// says that its data is back; `forget_read` ends it.
    pub(in crate::timed) fn send_read(
        &mut self,
        line: LineAddr,
        cause: ReadCause,
        core: u8,
        buffered: Option<u32>,
    ) -> u32 {
        let path_cycles = self.path_of_miss(line, buffered);
        self.read_sets_out(
            line,
            cause,
            (ReadOf::Miss(core), Side::Processor),
            buffered,
            path_cycles,
        )
    }

    pub(super) fn send_read_of(
        &mut self,
        line: LineAddr,
        cause: ReadCause,
        of: ReadOf,
        side: Side,
    ) -> u32 {
        let path_cycles = self.path_of(line, side);
        self.read_sets_out(line, cause, (of, side), None, path_cycles)
    }

    fn read_sets_out(
        &mut self,
        line: LineAddr,
        cause: ReadCause,
        (of, side): (ReadOf, Side),
        buffered: Option<u32>,
        path_cycles: u64,
    ) -> u32 {
        if !self.is_volatile(line) && buffered.is_none() {
            self.reads_by_cause.count(cause);
        }
        let read = Read { line, cause, of, side, sent: self.now(), waits: false, buffered };
        let number = match self.reads.free.pop() {
            Some(number) => {
                self.reads.reads[number as usize] = read;
                number
            }
            None => {
                self.reads.reads.push(read);
                (self.reads.reads.len() - 1) as u32
            }
        };
        self.wheel.schedule(self.now().plus(path_cycles), Event::ReadArrives { read: number });
        number
    }

    pub(in crate::timed) fn forget_read(&mut self, number: u32) {
        self.reads.free.push(number);
        let now = self.now();
        if let Some(timeline) = &mut self.timeline {
            let Read { line, sent, .. } = self.reads.reads[number as usize];
            timeline.slice(Kind::Read, line, sent, now);
            let under_way = self.reads.reads.len() - self.reads.free.len();
            timeline.counter("reads", now, under_way as u64);
        }
    }

    /// Whether a read whose data is back was the scheme's, which has the line then.
    pub(in crate::timed) fn is_schemes_read(&mut self, number: u32) -> bool {
        let Read { line, of, .. } = self.reads.reads[number as usize];
        if let ReadOf::Miss(_) = of {
            return false;
        }
        self.forget_read(number);
        let (now, data) = (self.now(), self.memory.read(line));
        match of {
            ReadOf::Scheme(token) => {
                let token = self.tokens.take(token);
                self.scheme.read_done(now, token, &data, &mut self.outbox);
            }
            ReadOf::Copy { job, to } => self.copy_read(job, to, &data),
            ReadOf::Entry(block) => self.has_entry(block),
            ReadOf::Miss(_) => {}
        }
        true
    }

    pub(in crate::timed) fn read_arrives(&mut self, number: u32) {
        let Read { line, cause, of, buffered, .. } = self.reads.reads[number as usize];
        let (now, ticket) = (self.wheel.now(), ReadTicket(number));
        let route = match of {
            _ if buffered.is_some() => Route::Here,
            ReadOf::Miss(core) if !self.is_volatile(line) => {
                let seen = ReadSeen { ticket, line, cause, lane: LaneId(core.into()) };
                let route = self.scheme.route_read(now, &seen, &mut self.outbox);
                self.read_is_looked_up(number, line, route)
            }
            ReadOf::Scheme(_) | ReadOf::Copy { .. } if !self.is_volatile(line) => {
                self.read_is_looked_up(number, line, Route::Here)
            }
            _ => Route::Here,
        };
        if route == Route::Here { self.read_enters(number) } else { self.read_goes(number, route) }
    }

    /// A read enters the queue of its line.
    pub(in crate::timed) fn read_enters(&mut self, number: u32) {
        let Read { line, side, buffered, .. } = self.reads.reads[number as usize];
        let now = self.now();
        let (controller, first, line) = match buffered {
            Some(place) => self.memory_of_buffer(place),
            None => {
                let (controller, first, _) = self.memory_of(line);
                (controller, first, line)
            }
        };
        let id = if side == Side::Memory { number | INSIDE } else { number };
        let channel = first + controller.read(now, id, line);
        self.wake_channel(channel);
    }

    #[cold]
    fn read_goes(&mut self, number: u32, route: Route) {
        let now = self.now();
        match route {
            Route::Here => self.read_enters(number),
            Route::There(line) => {
                self.read_moves(number, line);
                self.read_enters(number);
            }
            Route::After { line, cycles } => {
                self.read_moves(number, line);
                self.wheel.schedule(now.plus(cycles), Event::ReadEnters { read: number });
            }
            Route::Answered { cycles } => {
                let cause = self.reads.reads[number as usize].cause;
                self.reads_by_cause.uncount(cause);
                self.wheel.schedule(now.plus(cycles), Event::ReadAnswered { read: number });
            }
            Route::Wait => self.reads.reads[number as usize].waits = true,
        }
    }

    /// The scheme has a read's bytes at the controller, and they go back.
    pub(in crate::timed) fn read_is_answered(&mut self, number: u32) {
        let (now, line) = (self.now(), self.reads.reads[number as usize].line);
        let (controller, _, path_cycles) = self.memory_of(line);
        let at = controller.link_from_memory(now).plus(path_cycles);
        self.wheel.schedule(at, Event::ReadDone { read: number });
    }

    /// A read goes to another line than was asked for.
    fn read_moves(&mut self, number: u32, line: LineAddr) {
        let cause = self.reads.reads[number as usize].cause;
        if self.is_volatile(line) {
            self.reads_by_cause.uncount(cause);
        }
        self.reads.reads[number as usize].line = line;
    }

    /// Lets reads go on that the scheme releases.
    pub(in crate::timed) fn release_reads(&mut self) {
        for (read, route) in std::mem::take(&mut self.outbox.read_routes) {
            let line = self.reads.reads[read.0 as usize].line;
            let route = self.read_is_looked_up(read.0, line, route);
            self.release_read(read, route);
        }
    }

    /// Lets a read go on that waits.
    pub(super) fn release_read(&mut self, ReadTicket(number): ReadTicket, route: Route) {
        let waits = &mut self.reads.reads[number as usize].waits;
        assert!(std::mem::take(waits), "read {number} is released and does not wait");
        self.read_goes(number, route);
    }

    /// A read's data is at the controller, on the memory's side, at `at`.
    pub(in crate::timed) fn read_is_served(&mut self, id: u32, at: Cycle, path_cycles: u64) {
        let path_cycles = if id & INSIDE == 0 { path_cycles } else { 0 };
        self.wheel.schedule(at.plus(path_cycles), Event::ReadDone { read: id & !INSIDE });
    }
}
