//! The requests of a scheme.

use super::{
    Block, Copied, Kept, LevelFlush, ReadTicket, RegisterSave, Route, SchemeWrite, WriteRoute,
    WriteTicket,
    own::{Side, Sided},
};
use crate::{hierarchy::Cause, timed::time::Cycle};
use outlast_trace::{LaneId, LineAddr, PoolOffset};

/// A read of a scheme's own.
#[derive(Clone, Copy, Debug)]
pub(in crate::timed) struct SchemeRead<T> {
    pub(in crate::timed) line: LineAddr,
    pub(in crate::timed) cause: Cause,
    pub(in crate::timed) token: T,
}

/// The requests of a scheme, served in this order: discarded lines, kept lines, reads, writes, blocks,
/// copies, calls, releases, then what concerns caches and cores; in each, first come, first served.
#[derive(Debug)]
pub struct Outbox<T = ()> {
    /// Whether there is anything.
    pub(in crate::timed) any: bool,
    pub(in crate::timed) discarded: Vec<LineAddr>,
    /// Lines kept and writes asked for until now, which tell the order between the two.
    pub(in crate::timed) asked: u64,
    pub(in crate::timed) kept: Vec<(u64, Kept)>,
    pub(in crate::timed) unkept: Vec<LineAddr>,
    pub(in crate::timed) persisted: Option<u64>,
    pub(in crate::timed) reads: Vec<Sided<SchemeRead<T>>>,
    pub(in crate::timed) writes: Vec<(u64, Sided<SchemeWrite<T>>)>,
    pub(in crate::timed) blocks: Vec<Sided<Block<T>>>,
    pub(in crate::timed) copies: Vec<Copied<T>>,
    pub(in crate::timed) calls: Vec<(Cycle, T)>,
    pub(in crate::timed) read_routes: Vec<(ReadTicket, Route)>,
    pub(in crate::timed) write_routes: Vec<(WriteTicket, WriteRoute)>,
    pub(in crate::timed) done: Vec<WriteTicket>,
    pub(in crate::timed) forced: Vec<LineAddr>,
    pub(in crate::timed) scans: Vec<u8>,
    pub(in crate::timed) flushes: Vec<LevelFlush<T>>,
    pub(in crate::timed) barriers: Vec<T>,
    pub(in crate::timed) stops: Vec<T>,
    pub(in crate::timed) resume: bool,
    pub(in crate::timed) alarms: Vec<(u64, T)>,
    pub(in crate::timed) injected: Vec<(LaneId, PoolOffset, Vec<u8>)>,
    pub(in crate::timed) saved: Vec<RegisterSave>,
    pub(in crate::timed) ended: Option<u64>,
    pub(in crate::timed) wake: bool,
}

/// The requests that [`Outbox::take`] has taken.
#[derive(Clone, Debug)]
pub struct Asked<T> {
    /// Writes to memory.
    pub writes: Vec<SchemeWrite<T>>,
    /// Blocks to memory.
    pub blocks: Vec<Block<T>>,
    /// Calls of [`Scheme::step`](super::Scheme::step).
    pub calls: Vec<(Cycle, T)>,
    /// Flushes of caches.
    pub flushes: Vec<LevelFlush<T>>,
    /// Waits for all writes.
    pub barriers: Vec<T>,
    /// Stops of all cores.
    pub stops: Vec<T>,
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self {
            any: false,
            discarded: Vec::new(),
            asked: 0,
            kept: Vec::new(),
            unkept: Vec::new(),
            persisted: None,
            reads: Vec::new(),
            writes: Vec::new(),
            blocks: Vec::new(),
            copies: Vec::new(),
            calls: Vec::new(),
            read_routes: Vec::new(),
            write_routes: Vec::new(),
            done: Vec::new(),
            forced: Vec::new(),
            scans: Vec::new(),
            flushes: Vec::new(),
            barriers: Vec::new(),
            stops: Vec::new(),
            resume: false,
            alarms: Vec::new(),
            injected: Vec::new(),
            saved: Vec::new(),
            ended: None,
            wake: false,
        }
    }
}

impl<T> Outbox<T> {
    /// Writes to memory from the processor's side: along the path and over the link, as lines that
    /// leave the caches.
    pub fn write(&mut self, write: SchemeWrite<T>) {
        self.any = true;
        self.asked += 1;
        self.writes.push((self.asked, (Side::Processor, write)));
    }

    /// As [`write`](Self::write), from the memory's side: at the queue at once.
    pub fn write_inside(&mut self, write: SchemeWrite<T>) {
        self.any = true;
        self.asked += 1;
        self.writes.push((self.asked, (Side::Memory, write)));
    }

    /// Reads a line from memory, past the caches and where it lies, to the processor's side:
    /// [`Scheme::read_done`](super::Scheme::read_done) brings it.
    pub fn read(&mut self, line: LineAddr, cause: Cause, token: T) {
        self.any = true;
        self.reads.push((Side::Processor, SchemeRead { line, cause, token }));
    }

    /// As [`read`](Self::read), to the memory's side: there is neither path nor link.
    pub fn read_inside(&mut self, line: LineAddr, cause: Cause, token: T) {
        self.any = true;
        self.reads.push((Side::Memory, SchemeRead { line, cause, token }));
    }

    /// Writes lines one behind the other as one operation, from the processor's side. Each line is
    /// durable by itself, in whatever order the queue takes them;
    /// [`Scheme::write_durable`](super::Scheme::write_durable) tells when all are.
    pub fn write_block(&mut self, block: Block<T>) {
        self.any = true;
        self.blocks.push((Side::Processor, block));
    }

    /// As [`write_block`](Self::write_block), from the memory's side.
    pub fn write_block_inside(&mut self, block: Block<T>) {
        self.any = true;
        self.blocks.push((Side::Memory, block));
    }

    /// Copies lines inside the memory: a read and a write of each through queues and banks, without
    /// path and link. [`Scheme::write_durable`](super::Scheme::write_durable) tells when all lines
    /// are durable.
    pub fn copy(&mut self, copy: Copied<T>) {
        self.any = true;
        self.copies.push(copy);
    }

    /// Keeps words of a line in a buffer or table of the scheme's own in the persistence domain, which
    /// residual energy writes to the array at a crash: durable at once, at no cost. A line that is
    /// kept again keeps its place among the others.
    pub fn keep(&mut self, line: Kept) {
        self.any = true;
        self.asked += 1;
        self.kept.push((self.asked, line));
    }

    /// Drops a kept line: the array keeps what it had before. A line that is not kept stays.
    pub fn unkeep(&mut self, line: LineAddr) {
        self.any = true;
        self.unkept.push(line);
    }

    /// Reports that a crash from now on leaves the end of this epoch or of a younger one.
    pub fn report_persisted(&mut self, epoch: u64) {
        self.any = true;
        self.persisted = Some(epoch);
    }

    /// Calls [`Scheme::step`](super::Scheme::step) with `token` at a time that is not in the past.
    pub fn call(&mut self, at: Cycle, token: T) {
        self.any = true;
        self.calls.push((at, token));
    }

    /// Lets a read go on that was told to wait.
    pub fn release(&mut self, read: ReadTicket, route: Route) {
        self.any = true;
        self.read_routes.push((read, route));
    }

    /// Lets a write go on that was told to wait.
    pub fn release_write(&mut self, write: WriteTicket, route: WriteRoute) {
        self.any = true;
        self.write_routes.push((write, route));
    }

    /// A write that the scheme has taken is durable: its flush or fence may be told.
    pub fn done(&mut self, write: WriteTicket) {
        self.any = true;
        self.done.push(write);
    }

    /// Drops a line from all caches without writing it back, and those writes of it on their way
    /// that [`Scheme::is_discarded`](super::Scheme::is_discarded) names. Loads find then what
    /// [`Scheme::locate`](super::Scheme::locate) points to. All newer bytes of the line go: where a
    /// transaction's first store meets some that have to stay, in whichever level, the scheme forces
    /// the line out first.
    pub fn discard(&mut self, line: LineAddr) {
        self.any = true;
        self.discarded.push(line);
    }

    /// Writes a line back to memory if any cache has newer bytes; every cache keeps it, clean.
    pub fn force(&mut self, line: LineAddr) {
        self.any = true;
        self.forced.push(line);
    }

    /// Calls [`Scheme::scanned`](super::Scheme::scanned) with every line of a level: 1, 2, or 3 for
    /// the last. Lookups there wait for it, as `caches.scan_tags` says.
    pub fn scan(&mut self, level: u8) {
        self.any = true;
        self.scans.push(level);
    }

    /// Scans and flushes a level or all; [`Scheme::flushed`](super::Scheme::flushed) tells when all
    /// lines are durable. Bytes stored after its begin need not be.
    pub fn flush(&mut self, flush: LevelFlush<T>) {
        self.any = true;
        self.flushes.push(flush);
    }

    /// Calls [`Scheme::flushed`](super::Scheme::flushed) with `token` when all that has left the
    /// caches until now is durable, but for what the scheme itself has told to wait or has taken.
    pub fn wait_for_writes(&mut self, token: T) {
        self.any = true;
        self.barriers.push(token);
    }

    /// Stops all cores; [`Scheme::stopped`](super::Scheme::stopped) tells when they stand. Where they
    /// stop or stand already, it tells when they do, injected stores included.
    pub fn stop(&mut self, token: T) {
        self.any = true;
        self.stops.push(token);
    }

    /// Lets all cores go on.
    pub fn resume(&mut self) {
        self.any = true;
        self.resume = true;
    }

    /// Calls [`Scheme::step`](super::Scheme::step) with `token` when `instructions` more have
    /// retired on all cores together: at the end of the cycle in which the last of them does.
    pub fn call_after_instructions(&mut self, instructions: u64, token: T) {
        self.any = true;
        self.alarms.push((instructions, token));
    }

    /// Lets a lane's core store these bytes before its next instruction, whether the cores stand or
    /// not: real stores, which count apart from the program's instructions.
    pub fn inject(&mut self, lane: LaneId, at: PoolOffset, bytes: Vec<u8>) {
        self.any = true;
        self.injected.push((lane, at, bytes));
    }

    /// Lets a lane's core store its registers, as [`inject`](Self::inject) does. Only while the core
    /// stands.
    pub fn save_registers(&mut self, save: RegisterSave) {
        self.any = true;
        self.saved.push(save);
    }

    /// Notes in the journal that an epoch ends where all cores stand now.
    pub fn end_epoch(&mut self, epoch: u64) {
        self.any = true;
        self.ended = Some(epoch);
    }

    /// Lets all that was told to wait ask again.
    pub fn wake(&mut self) {
        self.any = true;
        self.wake = true;
    }

    /// Takes what a driver without a machine serves: writes, blocks, calls, flushes, barriers and stops,
    /// each in its order. Everything else is dropped: there are no caches and cores to ask.
    pub fn take(&mut self) -> Asked<T> {
        let all = std::mem::take(self);
        Asked {
            writes: all.writes.into_iter().map(|(_, (_, write))| write).collect(),
            blocks: all.blocks.into_iter().map(|(_, block)| block).collect(),
            calls: all.calls,
            flushes: all.flushes,
            barriers: all.barriers,
            stops: all.stops,
        }
    }

    /// Whether nothing is wanted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.any
    }
}
