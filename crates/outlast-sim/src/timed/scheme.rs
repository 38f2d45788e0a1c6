//! The ports through which a hardware scheme sees and steers the machine.
//!
//! A scheme implements those that it needs; the others are empty and cost nothing, since the
//! machine is compiled for each scheme. It never reaches into the machine: it answers, and what
//! it wants done (a write of its own, a later call, a waiting core to go on) it puts into the
//! [`Outbox`].

use super::time::Cycle;
use crate::{
    cache::{LineBytes, LineTag},
    hierarchy::Cause,
};
use outlast_trace::{LaneId, LineAddr, PoolOffset};

/// Whether what the machine is about to do may happen now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It may.
    Proceed,
    /// Not before the scheme has put [`Outbox::wake`] into its box; the machine asks again then.
    Wait,
}

/// A store that is about to change a line in a first-level cache.
#[derive(Clone, Copy, Debug)]
pub struct StoreSeen<'a> {
    /// Where.
    pub at: PoolOffset,
    /// What the line holds.
    pub old: &'a LineBytes,
    /// What is stored, inside one aligned word.
    pub new: &'a [u8],
    /// Whether the line is dirty in the first level already.
    pub dirty: bool,
}

/// A line that a scheme has written to memory, past the caches.
#[derive(Clone, Debug)]
pub struct SchemeWrite {
    /// Where to.
    pub line: LineAddr,
    /// Which words.
    pub words: u8,
    /// The line with them.
    pub data: LineBytes,
    /// What for: [`Cause::Logged`], [`Cause::Forced`] or [`Cause::Metadata`].
    pub cause: Cause,
    /// Comes back with [`Scheme::write_durable`].
    pub token: u32,
}

/// What a scheme wants done.
#[derive(Debug, Default)]
pub struct Outbox {
    pub(crate) writes: Vec<SchemeWrite>,
    pub(crate) kept: Vec<SchemeWrite>,
    pub(crate) reads: Vec<(LineAddr, u32)>,
    pub(crate) calls: Vec<(Cycle, u32)>,
    pub(crate) forced: Vec<LineAddr>,
    pub(crate) scans: Vec<u8>,
    pub(crate) wake: bool,
}

impl Outbox {
    /// Writes to memory.
    pub fn write(&mut self, write: SchemeWrite) {
        self.writes.push(write);
    }

    /// Reads a line from memory, past the caches and where it lies: [`Scheme::read_done`] brings it.
    pub fn read(&mut self, line: LineAddr, token: u32) {
        self.reads.push((line, token));
    }

    /// Changes a line of the scheme's own that lies in the persistence domain already (what
    /// residual energy saves at a crash): durable at once, at no cost. Its token means nothing.
    pub fn keep(&mut self, write: SchemeWrite) {
        self.kept.push(write);
    }

    /// Calls [`Scheme::step`] with `token` at a time that is not in the past.
    pub fn call(&mut self, at: Cycle, token: u32) {
        self.calls.push((at, token));
    }

    /// Writes a line back to memory if any cache has newer bytes; every cache keeps it, clean.
    pub fn force(&mut self, line: LineAddr) {
        self.forced.push(line);
    }

    /// Calls [`Scheme::scanned`] with every line of a level: 1, 2, or 3 for the last. Lookups
    /// there wait for it, as `caches.scan_tags` says.
    pub fn scan(&mut self, level: u8) {
        self.scans.push(level);
    }

    /// Lets whatever was told to wait ask again.
    pub fn wake(&mut self) {
        self.wake = true;
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty()
            && self.kept.is_empty()
            && self.reads.is_empty()
            && self.calls.is_empty()
            && self.forced.is_empty()
            && self.scans.is_empty()
            && !self.wake
    }
}

/// A hardware mechanism. Every method has an empty default.
#[expect(unused_variables, reason = "defaults ignore what they are told")]
pub trait Scheme {
    /// What it keeps beside each line of each cache.
    type Tag: LineTag;

    /// Core port: a transaction begins on a lane.
    #[inline]
    fn begin(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox) -> Answer {
        Answer::Proceed
    }

    /// Core port: a transaction ends; the lane goes on once the answer is to proceed.
    #[inline]
    fn end(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox) -> Answer {
        Answer::Proceed
    }

    /// Core port: an epoch ends on a lane.
    #[inline]
    fn epoch(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox) -> Answer {
        Answer::Proceed
    }

    /// Cache port: a store is about to change a line of a first level. The tag may be changed.
    #[inline]
    fn store(
        &mut self,
        now: Cycle,
        lane: LaneId,
        store: &StoreSeen<'_>,
        tag: &mut Self::Tag,
        out: &mut Outbox,
    ) -> Answer {
        Answer::Proceed
    }

    /// Cache port: a dirty line moved down to `level` (2, or 3 for the last).
    #[inline]
    fn moved_down(
        &mut self,
        now: Cycle,
        level: u8,
        line: LineAddr,
        data: &LineBytes,
        tag: Self::Tag,
        out: &mut Outbox,
    ) {
    }

    /// Cache port: the tag of a line that comes from memory.
    #[inline]
    fn filled(&mut self, now: Cycle, line: LineAddr, out: &mut Outbox) -> Self::Tag {
        Self::Tag::default()
    }

    /// Cache port: one line of a scan that the scheme asked for. The tag may be changed.
    #[inline]
    fn scanned(
        &mut self,
        now: Cycle,
        level: u8,
        line: LineAddr,
        dirty: bool,
        tag: &mut Self::Tag,
        out: &mut Outbox,
    ) {
    }

    /// Translation port: a core's TLB took in the page with this number.
    #[inline]
    fn translated(&mut self, now: Cycle, lane: LaneId, page: u64, out: &mut Outbox) {}

    /// Translation port: the page with this number left both levels of a core's TLB.
    #[inline]
    fn untranslated(&mut self, now: Cycle, lane: LaneId, page: u64, out: &mut Outbox) {}

    /// Controller port: where a read of this line goes.
    #[inline]
    fn route_read(&mut self, now: Cycle, line: LineAddr) -> LineAddr {
        line
    }

    /// Controller port: where a write of this line goes.
    #[inline]
    fn route_write(&mut self, now: Cycle, line: LineAddr, cause: Cause) -> LineAddr {
        line
    }

    /// Controller port: whether a write from the caches may enter its queue.
    #[inline]
    fn may_write(&mut self, now: Cycle, line: LineAddr, cause: Cause, out: &mut Outbox) -> Answer {
        Answer::Proceed
    }

    /// Controller port: a write that left the caches, or a scheme, at `sent` is durable.
    #[inline]
    fn durable(&mut self, now: Cycle, line: LineAddr, cause: Cause, sent: Cycle, out: &mut Outbox) {
    }

    /// Controller port: one of the scheme's own writes has its place in the write queue. Where that
    /// is durable, so is the write.
    #[inline]
    fn write_taken(&mut self, now: Cycle, token: u32, out: &mut Outbox) {}

    /// Controller port: one of the scheme's own writes is durable.
    #[inline]
    fn write_durable(&mut self, now: Cycle, token: u32, out: &mut Outbox) {}

    /// Controller port: a line that the scheme asked for, as memory has it.
    #[inline]
    fn read_done(&mut self, now: Cycle, token: u32, data: &LineBytes, out: &mut Outbox) {}

    /// Engine port: a call that the scheme asked for.
    #[inline]
    fn step(&mut self, now: Cycle, token: u32, out: &mut Outbox) {}
}

/// No scheme: persistent memory as plain working memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NonPers;

impl Scheme for NonPers {
    type Tag = ();
}
