//! The changes that a transaction hands to the checksum updater.

use std::sync::MutexGuard;

use outlast_matrix::Line;
use outlast_pmem::Medium;
use outlast_trace::{LineAddr, PoolOffset};

use crate::alloc::{Block, Reserved};
use crate::checksums::{Deltas, Loads, make_run};
use crate::io::Site;
use crate::lines::runs;
use crate::plant::Plant;
use crate::tx::placed::Placed;
use crate::tx::{Buffers, Tx};

/// The lane's gathered differences, while a commit adds to them.
pub(crate) type OpenDeltas<'p> = MutexGuard<'p, Deltas>;

impl<'p, M: Medium> Tx<'p, M> {
    /// Whether the pool has checksums of everything. Those of a published variant are of another kind.
    #[inline]
    pub(crate) fn keeps_sums(&self) -> bool {
        self.pool.matrices.is_some() && self.pool.facts.covers
    }

    /// SUMS-5: checksums of new blocks that take whole chunks. `true` when there is something to be
    /// fenced.
    pub(crate) fn make_runs(&self) -> bool {
        let Some(matrices) = &self.pool.matrices else { return false };
        let mut made = false;
        for block in self.taken() {
            if let Reserved::Run { chunk, chunks, .. } = block.reserved {
                make_run(self.io(), matrices, chunk, chunks);
                made = true;
            }
        }
        made
    }

    /// Where the lane writes down what the commit of that number changes in the sums; begins with
    /// the contents of blocks that it takes. The updater waits until it is all there. Taken
    /// right behind the commit's fence, when no store is left that a lock would wait for.
    pub(crate) fn begin_deltas(&self, number: u64) -> OpenDeltas<'p> {
        let medium = &self.pool.medium;
        let Buffers { allocated, freed, .. } = &self.lane.buffers;
        let mut deltas = self.pool.lanes[self.lane.id].deltas.lock(medium);
        deltas.commit(number);
        let taken = allocated.iter().filter(|block| !freed.contains(block));
        for (at, bytes) in taken.filter_map(|block| summed(*block)) {
            deltas.taken(at, bytes, |at, words| medium.load(at, bytemuck::cast_slice_mut(words)));
        }
        deltas
    }

    /// Redo, before the stores in place: what stands there, and what will. Nothing else changes
    /// these lines.
    pub(crate) fn note_installed(&self, deltas: &mut Deltas) {
        let Buffers { lines, contents, allocated, freed, .. } = &self.lane.buffers;
        // Taken and given back in this transaction.
        let both = if freed.is_empty() { &[][..] } else { allocated };
        let unowned = Placed::of(both.iter().filter(|block| freed.contains(block)).copied());
        let changes = lines
            .entries()
            .iter()
            .map(|entry| (entry.line, entry.words & !unowned.words_in(entry.line)));
        deltas.lines(changes, contents, Loads::Old, |line, old| match self.keeps_old() {
            true => *old = [0; 8],
            false => self.pool.medium.load(line.start(), bytemuck::cast_slice_mut(old)),
        });
    }

    /// Undo: what stood there, and what the transaction has stored.
    pub(crate) fn note_stored(&self, deltas: &mut Deltas) {
        let Buffers { lines, contents, .. } = &self.lane.buffers;
        let changes = lines.entries().iter().map(|entry| (entry.line, entry.written));
        let load = |line: LineAddr, new: &mut Line| {
            self.pool.medium.load(line.start(), bytemuck::cast_slice_mut(new));
        };
        if self.keeps_old() {
            let nothing = vec![[0; 8]; contents.len()];
            return deltas.lines(changes, &nothing, Loads::New, load);
        }
        deltas.lines(changes, contents, Loads::New, load);
    }

    /// The planted bug.
    fn keeps_old(&self) -> bool {
        self.io().plants(Plant::SumsKeepOld)
    }

    /// Everything is in place, bits too: what blocks held that are given back. The commit is not
    /// installed yet for others, so a lane that finds it installed finds this.
    pub(crate) fn note_given_back(&mut self, deltas: &mut Deltas) {
        let medium = &self.pool.medium;
        let Buffers { allocated, freed, .. } = &self.lane.buffers;
        let given_back = freed.iter().filter(|block| !allocated.contains(block));
        for (at, bytes) in given_back.filter_map(|block| summed(*block)) {
            deltas.given_back(at, bytes, |at, words| {
                medium.load(at, bytemuck::cast_slice_mut(words));
            });
        }
        self.lane.are_sums_due = deltas.is_much();
    }

    /// Undo: keeps the old words of a line for the checksums.
    pub(crate) fn keep_for_sums(&mut self, index: usize, missing: u8) {
        self.lane.buffers.add_contents(index);
        let line = self.lane.buffers.lines.entries()[index].line;
        for (first, words) in runs(missing) {
            let at = line.start().plus(u64::from(first) * 8);
            let content = &mut self.lane.buffers.contents[index];
            let words = &mut content[first as usize..(first + words) as usize];
            self.pool.medium.load(at, bytemuck::cast_slice_mut(words));
        }
    }

    /// SUMS-4: what an aborted transaction has stored to new blocks becomes durable, so that what
    /// free space holds is never in doubt.
    pub(crate) fn leave_fresh(&mut self) {
        if !self.keeps_sums() || self.lane.buffers.undo.fresh_lines.is_empty() {
            return;
        }
        let io = self.io();
        for index in self.lane.buffers.undo.fresh_lines.drain(..) {
            let line = self.lane.buffers.lines.entries()[index as usize].line;
            io.flush_line(Site::FreshAborted, line);
        }
        io.fence(Site::FreshAborted);
    }
}

/// The bytes of a block that take part in the sums from commit to commit. Long blocks have
/// matrices of their own, which come and go with them.
fn summed(block: Block) -> Option<(PoolOffset, u64)> {
    matches!(block.reserved, Reserved::Bit { .. }).then_some((block.at, block.bytes))
}
