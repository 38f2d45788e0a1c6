//! What a transaction tells whoever keeps the checksums.

use outlast_pmem::Medium;
use outlast_trace::{LineAddr, PoolOffset};

use crate::alloc::{Block, Reserved};
use crate::checksums::{Deltas, make_run};
use crate::io::Site;
use crate::lines::runs;
use crate::plant::Plant;
use crate::tx::blocks::block_words;
use crate::tx::{Buffers, Tx};

impl<M: Medium> Tx<'_, M> {
    /// Whether the pool has checksums of everything.
    #[inline]
    pub(super) fn keeps_sums(&self) -> bool {
        self.pool.matrices.is_some() && !self.pool.is_literal
    }

    /// K5: checksums of new blocks that take whole chunks. `true` when there is something to be
    /// fenced.
    pub(super) fn make_runs(&self) -> bool {
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

    /// Redo, before the stores in place: what stands there, and what will. Nothing else changes
    /// these lines.
    pub(super) fn note_installed(&mut self, number: u64) {
        let keeps_old = self.io().plants(Plant::SumsKeepOld);
        let medium = &self.pool.medium;
        let Buffers { deltas, lines, contents, allocated, freed, .. } = &mut self.lane.buffers;
        begin_deltas(deltas, number, medium, allocated, freed);
        for (entry, new) in lines.entries().iter().zip(contents) {
            let words = entry.words & !nobodys_words(allocated, freed, entry.line);
            if words != 0 {
                let mut old = [0; 8];
                if !keeps_old {
                    medium.load(entry.line.start(), bytemuck::cast_slice_mut(&mut old));
                }
                deltas.line(entry.line, words, &old, new);
            }
        }
    }

    /// Undo: what stood there, and what the transaction has stored.
    pub(super) fn note_stored(&mut self, number: u64) {
        let keeps_old = self.io().plants(Plant::SumsKeepOld);
        let medium = &self.pool.medium;
        let Buffers { deltas, lines, contents, allocated, freed, .. } = &mut self.lane.buffers;
        begin_deltas(deltas, number, medium, allocated, freed);
        for (entry, old) in lines.entries().iter().zip(contents) {
            if entry.written != 0 {
                let mut new = [0; 8];
                medium.load(entry.line.start(), bytemuck::cast_slice_mut(&mut new));
                let old = if keeps_old { &[0; 8] } else { old };
                deltas.line(entry.line, entry.written, old, &new);
            }
        }
    }

    /// Everything is in place, bits too: what blocks held that are given back; then all of it is
    /// handed over. The commit is not installed yet for others, so whoever finds it installed
    /// finds this.
    pub(super) fn hand_over_deltas(&mut self) {
        let medium = &self.pool.medium;
        let Buffers { deltas, allocated, freed, .. } = &mut self.lane.buffers;
        let given_back = freed.iter().filter(|block| !allocated.contains(block));
        for (at, bytes) in given_back.filter_map(|block| summed(*block)) {
            deltas.given_back(at, bytes, |at, words| {
                medium.load(at, bytemuck::cast_slice_mut(words));
            });
        }
        self.pool.lanes[self.lane.id].deltas.lock(medium).append(deltas);
    }

    /// Undo: keeps the old words of a line for the checksums.
    pub(super) fn keep_for_sums(&mut self, index: usize, missing: u8) {
        self.lane.buffers.add_contents(index);
        let line = self.lane.buffers.lines.entries()[index].line;
        for (first, words) in runs(missing) {
            let at = line.start().plus(u64::from(first) * 8);
            let content = &mut self.lane.buffers.contents[index];
            let words = &mut content[first as usize..(first + words) as usize];
            self.pool.medium.load(at, bytemuck::cast_slice_mut(words));
        }
    }

    /// K4: what an aborted transaction has stored to new blocks becomes durable, so that what
    /// free space holds is never in doubt.
    pub(super) fn leave_fresh(&mut self) {
        if !self.keeps_sums() || self.lane.buffers.fresh_lines.is_empty() {
            return;
        }
        let io = self.io();
        for index in self.lane.buffers.fresh_lines.drain(..) {
            let line = self.lane.buffers.lines.entries()[index as usize].line;
            io.flush_line(Site::FreshAborted, line);
        }
        io.fence(Site::FreshAborted);
    }
}

/// Of the commit of that number, and what the blocks hold that it takes. Where the lane keeps its
/// differences they are added to: behind a fence, what was stored a moment ago and is moved waits.
fn begin_deltas<M: Medium>(
    deltas: &mut Deltas,
    number: u64,
    medium: &M,
    allocated: &[Block],
    freed: &[Block],
) {
    deltas.commit(number);
    let taken = allocated.iter().filter(|block| !freed.contains(block));
    for (at, bytes) in taken.filter_map(|block| summed(*block)) {
        deltas.taken(at, bytes, |at, words| medium.load(at, bytemuck::cast_slice_mut(words)));
    }
}

/// The words of a line that lie in blocks which a transaction has taken and given back.
fn nobodys_words(allocated: &[Block], freed: &[Block], line: LineAddr) -> u8 {
    if allocated.is_empty() || freed.is_empty() {
        return 0;
    }
    let both = allocated.iter().filter(|block| freed.contains(block));
    both.fold(0, |mask, block| mask | block_words(*block, line))
}

/// The bytes of a block that take part in the sums from commit to commit. Long blocks have
/// matrices of their own, which come and go with them.
fn summed(block: Block) -> Option<(PoolOffset, u64)> {
    matches!(block.reserved, Reserved::Bit { .. }).then_some((block.at, block.bytes))
}
