//! What a transaction tells whoever keeps the checksums.

use outlast_pmem::Medium;
use outlast_trace::{LineAddr, PoolOffset};

use crate::alloc::{Block, Reserved};
use crate::checksums::{Deltas, make_run};
use crate::io::Site;
use crate::lines::runs;
use crate::plant::Plant;
use crate::tx::Tx;
use crate::tx::blocks::block_words;

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

    /// Of the commit of that number, and what the blocks hold that it takes.
    fn begin_deltas(&mut self, number: u64) -> Deltas {
        let mut deltas = std::mem::take(&mut self.lane.buffers.deltas);
        deltas.commit(number);
        let medium = &self.pool.medium;
        for (at, bytes) in self.taken().filter_map(summed) {
            deltas.taken(at, bytes, |at, words| medium.load(at, bytemuck::cast_slice_mut(words)));
        }
        deltas
    }

    /// Redo, before the stores in place: what stands there, and what will. Nothing else changes
    /// these lines.
    pub(super) fn note_installed(&mut self, number: u64) {
        let mut deltas = self.begin_deltas(number);
        let medium = &self.pool.medium;
        let buffers = &self.lane.buffers;
        for (entry, new) in buffers.lines.entries().iter().zip(&buffers.contents) {
            let words = entry.words & !self.nobodys_words(entry.line);
            if words != 0 {
                let mut old = [0; 8];
                medium.load(entry.line.start(), bytemuck::cast_slice_mut(&mut old));
                if self.io().plants(Plant::SumsKeepOld) {
                    old = [0; 8];
                }
                deltas.line(entry.line, words, &old, new);
            }
        }
        self.lane.buffers.deltas = deltas;
    }

    /// The words of a line that lie in blocks which this transaction has taken and given back.
    fn nobodys_words(&self, line: LineAddr) -> u8 {
        let buffers = &self.lane.buffers;
        if buffers.allocated.is_empty() || buffers.freed.is_empty() {
            return 0;
        }
        let both = buffers.allocated.iter().filter(|block| buffers.freed.contains(block));
        both.fold(0, |mask, block| mask | block_words(*block, line))
    }

    /// Undo: what stood there, and what the transaction has stored.
    pub(super) fn note_stored(&mut self, number: u64) {
        let mut deltas = self.begin_deltas(number);
        let medium = &self.pool.medium;
        let buffers = &self.lane.buffers;
        for (entry, old) in buffers.lines.entries().iter().zip(&buffers.contents) {
            if entry.written != 0 {
                let mut new = [0; 8];
                medium.load(entry.line.start(), bytemuck::cast_slice_mut(&mut new));
                let old = if self.io().plants(Plant::SumsKeepOld) { &[0; 8] } else { old };
                deltas.line(entry.line, entry.written, old, &new);
            }
        }
        self.lane.buffers.deltas = deltas;
    }

    /// Everything is in place, bits too: what blocks held that are given back; then all of it is
    /// handed over. The commit is not installed yet for others, so whoever finds it installed
    /// finds this.
    pub(super) fn hand_over_deltas(&mut self) {
        let mut deltas = std::mem::take(&mut self.lane.buffers.deltas);
        let medium = &self.pool.medium;
        for block in self.given_back() {
            if let Some((at, bytes)) = summed(block) {
                deltas.given_back(at, bytes, |at, words| {
                    medium.load(at, bytemuck::cast_slice_mut(words));
                });
            }
        }
        self.pool.lanes[self.lane.id].deltas.lock(medium).append(&mut deltas);
        self.lane.buffers.deltas = deltas;
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

/// The bytes of a block that take part in the sums from commit to commit. Long blocks have
/// matrices of their own, which come and go with them.
fn summed(block: Block) -> Option<(PoolOffset, u64)> {
    matches!(block.reserved, Reserved::Bit { .. }).then_some((block.at, block.bytes))
}
