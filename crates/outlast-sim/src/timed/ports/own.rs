//! The scheme's own requests: reads, writes, blocks and copies, through the queues and banks that
//! all requests share. None of them is routed, held back, or answered by the scheme again.

use super::{Scheme, flush::Flushing, outbox::SchemeRead, reads::ReadOf, writes::Origin};
use crate::{
    cache::LineBytes,
    hierarchy::Cause,
    timed::{causes::ReadCause, event::Event, memory_system::MemorySystem},
};
use outlast_trace::LineAddr;

/// Lines of a copy that are between their read and their write's place in the domain at a time.
pub(super) const COPY_LINES: u64 = 8;

/// Where one of a scheme's own requests sets out, and its answer comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::timed) enum Side {
    /// Beside the last cache: path and link lie between.
    Processor,
    /// At the queues.
    Memory,
}

/// A request, and where it sets out.
pub(in crate::timed) type Sided<R> = (Side, R);

/// A line that a scheme writes to memory, past the caches.
#[derive(Clone, Debug)]
pub struct SchemeWrite<T = ()> {
    /// The destination.
    pub line: LineAddr,
    /// The words written, a bit for each.
    pub words: u8,
    /// The line with them.
    pub data: LineBytes,
    /// The cause: [`Cause::Logged`], [`Cause::Forced`], [`Cause::Metadata`] or
    /// [`Cause::Scheme`].
    pub cause: Cause,
    /// Comes back with [`Scheme::write_taken`] and [`Scheme::write_durable`].
    pub token: T,
}

/// Lines that a scheme writes one behind the other, as one operation.
#[derive(Clone, Debug)]
pub struct Block<T = ()> {
    /// The first line's destination.
    pub line: LineAddr,
    /// The lines; one at least.
    pub data: Vec<LineBytes>,
    /// The cause of each of these writes.
    pub cause: Cause,
    /// Comes back once with [`Scheme::write_taken`] and once with [`Scheme::write_durable`].
    pub token: T,
}

/// Lines that a scheme copies inside the memory.
#[derive(Clone, Copy, Debug)]
pub struct Copied<T = ()> {
    /// The first line's source.
    pub from: LineAddr,
    /// The first line's destination.
    pub to: LineAddr,
    /// Their number; one at least.
    pub lines: u64,
    /// The cause of each read and each write.
    pub cause: Cause,
    /// Comes back with [`Scheme::write_durable`].
    pub token: T,
}

/// Several requests that make one operation.
#[derive(Clone, Debug)]
pub(in crate::timed) enum Job<T> {
    /// Writes not taken yet, and writes not durable yet.
    Block { untaken: u32, undurable: u32, token: T },
    /// Lines whose read has not set out, and lines not durable yet.
    Copy { copied: Copied<T>, unread: u64, undurable: u64 },
    /// A flush of caches.
    Flush(Box<Flushing<T>>),
}

impl<S: Scheme> MemorySystem<S> {
    /// Sends the scheme's own requests on their way.
    pub(in crate::timed) fn serve_own(&mut self) {
        for (side, SchemeRead { line, cause, token }) in std::mem::take(&mut self.outbox.reads) {
            let token = self.tokens.put(token);
            self.send_own_read(line, cause, ReadOf::Scheme(token), side);
        }
        let mut writes = std::mem::take(&mut self.outbox.writes);
        for (order, (side, SchemeWrite { line, words, data, cause, token })) in writes.drain(..) {
            let origin = Origin::Scheme(self.tokens.put(token));
            self.send_own_write(line, words, &data, cause, origin, (order, side));
        }
        if self.outbox.writes.is_empty() {
            self.outbox.writes = writes; // Keeps the allocation.
        }
        let asked = self.outbox.asked;
        for (side, block) in std::mem::take(&mut self.outbox.blocks) {
            assert!(!block.data.is_empty(), "a block has a line at least");
            let lines = block.data.len() as u32;
            let job = Job::Block { untaken: lines, undurable: lines, token: block.token };
            let job = self.jobs.put(job);
            for (number, data) in block.data.iter().enumerate() {
                let line = block.line.plus(number as u64);
                let place = (asked, side);
                self.send_own_write(line, u8::MAX, data, block.cause, Origin::Job(job), place);
            }
        }
        for copied in std::mem::take(&mut self.outbox.copies) {
            assert!(copied.lines > 0, "a copy has a line at least");
            let lines = copied.lines;
            let job = self.jobs.put(Job::Copy { copied, unread: lines, undurable: lines });
            (0..lines.min(COPY_LINES)).for_each(|_| self.copy_next(job));
        }
    }

    /// Begins the next line of a copy, if there is one.
    fn copy_next(&mut self, job: u32) {
        let Job::Copy { copied, unread, .. } = self.jobs.get(job) else { return };
        let (copied, left) = (*copied, *unread);
        if left == 0 {
            return;
        }
        *unread -= 1;
        let number = copied.lines - left;
        let of = ReadOf::Copy { job, to: copied.to.plus(number) };
        self.send_own_read(copied.from.plus(number), copied.cause, of, Side::Memory);
    }

    /// A line of a copy was read.
    pub(super) fn copy_read(&mut self, job: u32, to: LineAddr, data: &LineBytes) {
        let Job::Copy { copied, .. } = self.jobs.get(job) else { return };
        let cause = copied.cause;
        let place = (self.outbox.asked, Side::Memory);
        self.send_own_write(to, u8::MAX, data, cause, Origin::Job(job), place);
    }

    fn send_own_read(&mut self, line: LineAddr, cause: Cause, of: ReadOf, side: Side) {
        let cause = ReadCause::Scheme(cause);
        self.send_read_of(line, cause, of, side);
    }

    /// A write of a job has its place in the queue.
    pub(super) fn job_taken(&mut self, job: u32) {
        let now = self.now();
        if let Job::Block { untaken, token, .. } = self.jobs.get(job) {
            *untaken -= 1;
            if *untaken == 0 {
                let token = *token;
                self.scheme.write_taken(now, token, &mut self.outbox);
            }
        }
    }

    /// A write of a job is durable.
    pub(super) fn job_durable(&mut self, job: u32) {
        let token = match self.jobs.get(job) {
            Job::Block { undurable, token, .. } => {
                *undurable -= 1;
                (*undurable == 0).then_some(*token)
            }
            Job::Copy { copied, undurable, .. } => {
                *undurable -= 1;
                (*undurable == 0).then_some(copied.token)
            }
            Job::Flush(_) => {
                let at = self.now().plus(self.path_cycles);
                return self.wheel.schedule(at, Event::FlushAcknowledged { job });
            }
        };
        match token {
            Some(token) => {
                self.jobs.take(job);
                let now = self.now();
                self.scheme.write_durable(now, token, &mut self.outbox);
            }
            None => self.copy_next(job),
        }
    }
}
