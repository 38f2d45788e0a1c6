//! What lies where in persistent memory, and what an entry of the log is.
//!
//! ```text
//!  program's lines | registers, core by core | header | log: entries of two lines, by their numbers
//!
//!  header                        entry: a line, then the line's old content
//! +-----------------+-----+--   +-----+-------+------+----------+-- .. --+----------+
//! | committed epoch | run |     | run | epoch | line | checksum | zeroes | 64 bytes |
//! +-----------------+-----+--   +-----+-------+------+----------+-- .. --+----------+
//! ```
//!
//! An entry counts if its run is the header's and its epoch the one behind the committed one. So one
//! word voids all: the epoch's number when it commits, the run's when a recovery has used the log.

use outlast_sim::LineBytes;
use outlast_trace::LineAddr;

use crate::image::Image;
use crate::shared::checksum;
use crate::shared::epoch::Registers;

/// Words of the header.
pub(super) const COMMITTED: u64 = 0;
pub(super) const RUN: u64 = 1;

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: u64 = 128;

/// What an entry is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub(super) run: u64,
    pub(super) epoch: u64,
}

/// The scheme's own lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) registers: Registers,
    /// Entries of the log.
    pub(super) entries: u64,
}

impl Layout {
    pub(super) fn header(&self) -> LineAddr {
        self.registers.end()
    }

    pub(super) fn lines(&self) -> u64 {
        self.place(self.entries).0
    }

    /// The first line of an entry.
    pub(super) fn place(&self, number: u64) -> LineAddr {
        self.header().plus(1 + 2 * number)
    }

    /// The lines of an entry.
    pub(super) fn encode(stamp: Stamp, line: LineAddr, old: &LineBytes) -> Vec<LineBytes> {
        let words = [stamp.run, stamp.epoch, line.0, sum_of(stamp, line, old)];
        let mut head = [0; 64];
        for (place, word) in head.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        vec![head, *old]
    }

    /// The line of an entry with this stamp, and what it held; nothing where none is whole. Planted:
    /// its parts are not compared.
    pub(super) fn decode<'a>(
        &self,
        image: Image<'a>,
        number: u64,
        stamp: Stamp,
        takes_torn: bool,
    ) -> Option<(LineAddr, &'a LineBytes)> {
        let place = self.place(number);
        let word = |number| image.word(place, number);
        if (Stamp { run: word(0), epoch: word(1) }) != stamp {
            return None;
        }
        let (line, old) = (LineAddr(word(2)), image.line(place.plus(1)));
        (takes_torn || word(3) == sum_of(stamp, line, old)).then_some((line, old))
    }
}

fn sum_of(stamp: Stamp, line: LineAddr, old: &LineBytes) -> u64 {
    checksum(&[stamp.run, stamp.epoch, line.0], std::slice::from_ref(old))
}
