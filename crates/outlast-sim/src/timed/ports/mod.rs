//! The ports through which a hardware scheme sees and steers the machine, one in each file.
//!
//! A scheme implements the methods of [`Scheme`] that it needs; the others are empty and cost
//! nothing, since the machine is compiled for each scheme. It never reaches into the machine: it
//! answers, and puts requests (a write of its own, a later call, the end of a wait) into the
//! [`Outbox`], which is served when the method has returned.
//!
//! - `reads`, `writes`: where a request goes that has reached the memory controller, and when.
//! - `pages`: what a scheme keeps in TLB entries, and when a page leaves the last of them.
//! - `stop`: all cores stop and go on; stores that the scheme names; calls by instructions.
//! - `flush`: a level, or all, scanned and flushed.
//! - `discard`: lines that leave all caches unwritten, of transactions that abort.
//! - `indirection`: the DIMM's table of where blocks lie, under any scheme.
//! - `kept`: durable state outside the array.
//! - `own`: the scheme's own reads and writes, blocks and copies, through the same queues and banks.
//!
//! Each file holds the types of its port and what the machine does for it.

mod discard;
mod flush;
mod indirection;
mod kept;
mod outbox;
mod own;
mod pages;
mod reads;
mod stop;
mod writes;

pub use flush::LevelFlush;
pub use indirection::Indirection;
pub use kept::{Kept, KeptStats};
pub use outbox::{Asked, Outbox};
pub use own::{Block, Copied, SchemeWrite};
pub use reads::{ReadSeen, ReadTicket, Route};
pub use stop::RegisterSave;
pub use writes::{WriteRoute, WriteSeen, WriteTicket};

pub(in crate::timed) use indirection::Entries;
pub(in crate::timed) use kept::KeptLines;
pub(in crate::timed) use own::{Job, Side};
pub(in crate::timed) use pages::{Pages, keeps_bits};
pub(in crate::timed) use reads::Reads;
pub(in crate::timed) use stop::{Alarms, Stop};
pub(in crate::timed) use writes::{Origin, Writes};

use super::time::Cycle;
use crate::{
    cache::{LineBytes, LineTag},
    hierarchy::Cause,
};
use outlast_trace::{LaneId, LineAddr, PoolOffset};
use std::fmt::Debug;

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
    /// The first byte's address.
    pub at: PoolOffset,
    /// The line as it is.
    pub old: &'a LineBytes,
    /// The bytes stored, inside one aligned word.
    pub new: &'a [u8],
    /// Whether the line is dirty in the first level already.
    pub dirty: bool,
    /// Whether any level has newer bytes of it than memory: only where
    /// [`SEES_BELOW`](Scheme::SEES_BELOW), else as `dirty`.
    pub newer: bool,
}

/// A hardware mechanism. Every method has an empty default.
#[expect(unused_variables, reason = "defaults ignore what they are told")]
pub trait Scheme: Sized {
    /// Its state beside each line of each cache.
    type Tag: LineTag;

    /// Its state in a TLB entry, beside the page; `()` for nothing.
    type Page: Copy + Default + PartialEq + Debug;

    /// The token that its own requests carry, and come back with.
    type Token: Copy + Debug;

    /// Names of the scheme's own causes of traffic: [`Cause::Scheme`] is an index into them.
    const CAUSES: &'static [&'static str] = &[];

    /// Whether a store sees the levels below the first: it is told whether they have newer bytes than
    /// memory, and a tag that it changes becomes that of the line in these levels as well.
    const SEES_BELOW: bool = false;

    /// Engine port: the machine is there, and runs from now on.
    #[inline]
    fn started(&mut self, out: &mut Outbox<Self::Token>) {}

    /// Core port: a transaction begins on a lane.
    #[inline]
    fn begin(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox<Self::Token>) -> Answer {
        Answer::Proceed
    }

    /// Core port: a transaction ends; the lane goes on once the answer is to proceed.
    #[inline]
    fn end(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox<Self::Token>) -> Answer {
        Answer::Proceed
    }

    /// Core port: a lane's transaction is given up. All of its stores have passed
    /// [`store`](Self::store), and the lane begins nothing more before the answer is to proceed: loads
    /// find then what was there before the transaction. What of it is in caches or on its way to
    /// memory goes by [`Outbox::discard`].
    #[inline]
    fn abort(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox<Self::Token>) -> Answer {
        Answer::Proceed
    }

    /// Core port: an epoch ends on a lane.
    #[inline]
    fn epoch(&mut self, now: Cycle, lane: LaneId, out: &mut Outbox<Self::Token>) -> Answer {
        Answer::Proceed
    }

    /// Cache port: a store is about to change a line of a first level. The tag may be changed, and so
    /// may the bits of its page; there are none where no TLB holds the page, which may have left
    /// while the store waited in its buffer.
    #[inline]
    fn store(
        &mut self,
        now: Cycle,
        lane: LaneId,
        store: &StoreSeen<'_>,
        tag: &mut Self::Tag,
        page: Option<&mut Self::Page>,
        out: &mut Outbox<Self::Token>,
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
        out: &mut Outbox<Self::Token>,
    ) {
    }

    /// Cache port: words of a line that a program streams leave the processor, past the caches.
    /// A read of the line finds them from now on.
    #[inline]
    fn streams(&mut self, now: Cycle, line: LineAddr, out: &mut Outbox<Self::Token>) {}

    /// Cache port: the tag of a line that comes from memory.
    #[inline]
    fn filled(&mut self, now: Cycle, line: LineAddr, out: &mut Outbox<Self::Token>) -> Self::Tag {
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
        out: &mut Outbox<Self::Token>,
    ) {
    }

    /// Cache port: whether a flush that the scheme asked for writes this line of a level that it scans,
    /// as the tags say at its begin; the tag may be changed. A line goes with its newest bytes,
    /// which may be in another level, and not at all where memory has them.
    #[inline]
    fn is_flushed(
        &mut self,
        now: Cycle,
        token: Self::Token,
        level: u8,
        line: LineAddr,
        dirty: bool,
        tag: &mut Self::Tag,
    ) -> bool {
        dirty
    }

    /// Cache port: whether a write of a line that is being discarded goes with it. It left the caches
    /// and has no place yet. Where bytes that stay may be on their way, the tag or the time tells
    /// them apart. A write that goes is told of as little as if it had never been: where it waits,
    /// its ticket is void.
    #[inline]
    fn is_discarded(&mut self, now: Cycle, write: &WriteSeen<'_, Self::Tag>) -> bool {
        true
    }

    /// Translation port: a core's TLB took in the page with this number. Its bits, which may be
    /// changed, are new ones where no other TLB holds it.
    #[inline]
    fn translated(
        &mut self,
        now: Cycle,
        lane: LaneId,
        page: u64,
        bits: &mut Self::Page,
        out: &mut Outbox<Self::Token>,
    ) {
    }

    /// Translation port: the page with this number is about to leave the last TLB that holds it, for
    /// a walk that ends and waits as long as the answer is to wait. Asked again then; another page
    /// may be the one to leave by that time. Only where the scheme keeps bits.
    #[inline]
    fn page_leaves(
        &mut self,
        now: Cycle,
        page: u64,
        bits: &mut Self::Page,
        out: &mut Outbox<Self::Token>,
    ) -> Answer {
        Answer::Proceed
    }

    /// Translation port: the page with this number left both levels of a core's TLB.
    #[inline]
    fn untranslated(&mut self, now: Cycle, lane: LaneId, page: u64, out: &mut Outbox<Self::Token>) {
    }

    /// Controller port: where a line's bytes are at this moment. It has no side effects and takes no
    /// time; [`route_read`](Self::route_read) has the price. It changes for a line at the moment
    /// in which a write of it is routed elsewhere, taken, or moved by the scheme itself. Lines from
    /// [`PAGE_TABLE`](crate::timed::PAGE_TABLE) on are no program's.
    #[inline]
    fn locate(&self, line: LineAddr) -> LineAddr {
        line
    }

    /// Controller port: the bytes of a line that the scheme itself has at the controller at this moment,
    /// in a buffer or cache of its own, where those of memory are older. Without side effects and
    /// without time, as [`locate`](Self::locate), which is not asked then.
    #[inline]
    fn held(&self, line: LineAddr) -> Option<&LineBytes> {
        None
    }

    /// Controller port: where a read goes that has just arrived at the controller, asked once.
    /// Reads of volatile lines and the scheme's own are not asked about.
    #[inline]
    fn route_read(&mut self, now: Cycle, read: &ReadSeen, out: &mut Outbox<Self::Token>) -> Route {
        Route::Here
    }

    /// Controller port: where a write goes that has arrived at the controller and may pass
    /// [`may_write`](Self::may_write), asked once. Writes of volatile lines and the scheme's own
    /// are not asked about.
    #[inline]
    fn route_write(
        &mut self,
        now: Cycle,
        write: &WriteSeen<'_, Self::Tag>,
        out: &mut Outbox<Self::Token>,
    ) -> WriteRoute {
        WriteRoute::Here
    }

    /// Controller port: whether a write from the caches may pass at all; asked again after each
    /// [`Outbox::wake`], oldest write first.
    #[inline]
    fn may_write(
        &mut self,
        now: Cycle,
        line: LineAddr,
        cause: Cause,
        out: &mut Outbox<Self::Token>,
    ) -> Answer {
        Answer::Proceed
    }

    /// Controller port: a write that left the caches, or a scheme, at `sent` is durable; `line` is
    /// the one that was asked for, wherever it went.
    #[inline]
    fn durable(
        &mut self,
        now: Cycle,
        line: LineAddr,
        cause: Cause,
        sent: Cycle,
        out: &mut Outbox<Self::Token>,
    ) {
    }

    /// Controller port: one of the scheme's own writes has its place in the write queue, or all lines
    /// of a block have. Where that is durable, so is the write.
    #[inline]
    fn write_taken(&mut self, now: Cycle, token: Self::Token, out: &mut Outbox<Self::Token>) {}

    /// Controller port: one of the scheme's own writes is durable, or all lines of a block or a copy
    /// are.
    #[inline]
    fn write_durable(&mut self, now: Cycle, token: Self::Token, out: &mut Outbox<Self::Token>) {}

    /// Controller port: a line that the scheme asked for, as memory has it.
    #[inline]
    fn read_done(
        &mut self,
        now: Cycle,
        token: Self::Token,
        data: &LineBytes,
        out: &mut Outbox<Self::Token>,
    ) {
    }

    /// Engine port: a call that the scheme asked for.
    #[inline]
    fn step(&mut self, now: Cycle, token: Self::Token, out: &mut Outbox<Self::Token>) {}

    /// Engine port: all cores stand, as the scheme asked for with this token.
    #[inline]
    fn stopped(&mut self, now: Cycle, token: Self::Token, out: &mut Outbox<Self::Token>) {}

    /// Cache port: a flush that the scheme asked for is over, and all its lines are durable.
    #[inline]
    fn flushed(&mut self, now: Cycle, token: Self::Token, out: &mut Outbox<Self::Token>) {}

    /// Statistics port: each figure that was counted since the last call, with its name and its unit
    /// in results; counting starts again.
    #[inline]
    fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {}
}

/// No scheme: persistent memory as plain working memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NonPers;

impl Scheme for NonPers {
    type Tag = ();
    type Page = ();
    type Token = ();
}
