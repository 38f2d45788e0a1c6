//! A lane's transaction.

use outlast_sim::timed::Cycle;
use outlast_trace::LineAddr;

use super::layout::Record;

/// How far a transaction's end has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Ending {
    #[default]
    NotYet,
    /// Its lines are forced out of the caches.
    Flushing,
    /// Journal records but the last are on their way.
    Draining { record: u64 },
    /// The last one is on its way.
    Sealing,
    /// It is durable.
    Durable,
    /// It aborts: `left` old lines are still to be restored to their places.
    Restoring { left: usize },
}

/// Where the newest bytes of a line are that a running transaction has stored to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Its old bytes are on their way to the log, and the store waits.
    Logging,
    /// In caches, or on their way to the controller.
    Dirty,
    /// In a write that left the caches then.
    Sent(Cycle),
    Durable,
}

/// A line that a running transaction has stored to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) lane: usize,
    /// The last store to it.
    pub(super) version: u32,
    pub(super) state: State,
    /// The record of its old bytes, where its page was not shadowed.
    pub(super) old: Option<u64>,
}

/// A page of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfPage {
    pub(super) page: u32,
    /// Lines that it has stored to; none where it fell back to logging.
    pub(super) lines: u64,
    pub(super) is_shadowed: bool,
}

/// A lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) is_open: bool,
    pub(super) ending: Ending,
    pub(super) lines: Vec<LineAddr>,
    pub(super) pages: Vec<OfPage>,
    /// Lines that are durable.
    pub(super) durable: usize,
    /// Old lines that it has logged.
    pub(super) old_lines: u64,
    /// Headers of the journal on their way.
    pub(super) outstanding: usize,
    /// What the last header says.
    pub(super) last: Vec<Record>,
    /// The last transaction that fell back to logging.
    pub(super) fell_back: u64,
}

impl Lane {
    /// The transaction is over.
    pub(super) fn close(&mut self) {
        self.is_open = false;
        self.ending = Ending::NotYet;
        self.lines.clear();
        self.pages.clear();
        self.durable = 0;
        self.old_lines = 0;
    }
}
