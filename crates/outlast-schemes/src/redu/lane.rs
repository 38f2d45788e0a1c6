//! A lane's transaction and its log buffer.

use outlast_sim::LineBytes;
use outlast_trace::LineAddr;

/// How far a transaction's end has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Ending {
    #[default]
    NotYet,
    /// The last record's lines are on their way; its header goes when all else is durable (R1).
    Draining { record: u64 },
    /// The last header is on its way.
    Sealing,
    /// It is durable.
    Durable,
}

/// A lane.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) is_open: bool,
    pub(super) ending: Ending,
    /// Lines that the transaction has stored to.
    pub(super) lines: Vec<LineAddr>,
    /// Lines that are in no record yet, the oldest first.
    pub(super) buffer: Vec<(LineAddr, LineBytes)>,
    /// Lines of records on their way.
    pub(super) in_flight: usize,
    /// Headers and blocks on their way.
    pub(super) outstanding: usize,
}

impl Lane {
    /// The bytes of a line in the buffer.
    #[inline]
    pub(super) fn buffered(&self, line: LineAddr) -> Option<&LineBytes> {
        self.buffer.iter().rev().find(|(of, _)| *of == line).map(|(_, data)| data)
    }

    /// Replaces a line in the buffer, if it is there.
    #[inline]
    pub(super) fn join(&mut self, line: LineAddr, data: &LineBytes) -> bool {
        let found = self.buffer.iter_mut().rev().find(|(of, _)| *of == line);
        found.is_some_and(|(_, held)| {
            *held = *data;
            true
        })
    }

    /// The transaction is over.
    pub(super) fn close(&mut self) {
        self.is_open = false;
        self.ending = Ending::NotYet;
        self.lines.clear();
        self.buffer.clear();
    }
}
