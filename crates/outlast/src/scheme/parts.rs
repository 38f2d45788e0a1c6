//! A payload that goes on in another region of the log where one ends.

use std::ops::Range;

use outlast_pmem::Medium;

use crate::log::{self, Region, lines_for};
use crate::transact::Abort;
use crate::tx::Tx;

/// A part of a payload, in one region.
pub(crate) struct Part {
    pub region: Region,
    /// Its first line there.
    pub line: u64,
    /// Its words of the payload; none when nothing more fits there.
    pub words: Range<usize>,
    /// Where the next part is. A record behind this part names it.
    pub next: Option<Region>,
}

impl<M: Medium> Tx<'_, M> {
    /// Cuts the payload into parts of whole items, from a line of a region on and through as many
    /// further regions as it takes, which `more` finds. `spare` lines stay free at each end, one
    /// of them for the name of the next region.
    pub(crate) fn place_parts(
        &mut self,
        mut region: Region,
        mut line: u64,
        spare: u64,
        mut more: impl FnMut(&mut Self, u64) -> Result<Region, Abort>,
    ) -> Result<Vec<Part>, Abort> {
        let total = self.lane.buffers.payload.as_words().len();
        let mut parts = Vec::new();
        let mut from = 0;
        loop {
            let rest = &self.lane.buffers.payload.as_words()[from..];
            let room = region.lines.saturating_sub(line + spare);
            let to = from + log::prefix_within(rest, room);
            let mut part = Part { region, line, words: from..to, next: None };
            if to == total {
                parts.push(part);
                return Ok(parts);
            }
            let next = more(self, lines_for(total - to) + spare)?;
            part.next = Some(next);
            parts.push(part);
            (region, line, from) = (next, 0, to);
        }
    }
}
