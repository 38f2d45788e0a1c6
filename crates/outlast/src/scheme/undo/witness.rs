//! Undo alone: data and what proves it durable under one fence.
//!
//! The mark of an undo commit needs a fence between the data and itself. A transaction of a lane
//! that is [alone](crate::solo) can do without: it writes a `Witnesses` record behind its undo
//! records, under the same fence as the data. For each line stored to, the record names one word
//! and what it holds now. Recovery looks there: if all witnesses agree, all data is durable and
//! the transaction is committed; if one does not, it was not acknowledged and is put back.
//!
//! * **UNDO-5** A witness is the word that its line was stored to last; the transaction stored to it
//!   once, and it held something else before. Stores to one line persist as a prefix (rule 2), so
//!   the word holds its last value only when every store to the line is durable. Words of the
//!   heap's own bear witness all of them. New blocks need none: they were flushed with an earlier
//!   record's fence. Where one was filled later, or a line has no such word, the commit takes its
//!   mark.
//!   Where the medium [writes pages](outlast_pmem::Medium::is_paged) a line may be torn between its words:
//!   there each word that was stored to bears witness.
//! * **UNDO-6** Until something later proves the transaction done, nothing may change what its
//!   witnesses speak of, nor its records. Its lane's next record proves it, being complete: such
//!   transactions use the two halves of the ring in turn, so the older records stand until the
//!   newer are fenced, and nothing is stored in place before that (UNDO-1). Everything else makes up
//!   for the mark first ([`Pool::settle`]): the end of the solo, the lane's return, and the
//!   heap's changes without a log.
//! * **UNDO-7** A transaction that stores to a block and gives it back takes its mark: the next owner
//!   fills the block before its own record is fenced.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, PoolOffset};

use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::layout::{Geometry, LANE_FLOOR};
use crate::log::{self, Item, LiveRecord, Record, RecordKind, lines_for};
use crate::plant::Plant;
use crate::pool::Pool;
use crate::recover::is_changeable;
use crate::sealed::seal_at;
use crate::transact::Abort;
use crate::tx::blocks::reserved_word;
use crate::tx::{Tx, next_number};

/// Most words that bear witness. With more, the mark's fence is a small part of the commit.
const WITNESSES_MAX: usize = 12;

/// Lines of the other half that are fetched after a commit, ready for the next transaction.
const LINES_AHEAD: u64 = 4;

impl<M: Medium> Tx<'_, M> {
    /// Flushes the data and commits by witnesses. `false` when that cannot be done, and nothing
    /// was.
    pub(crate) fn bear_witness(&mut self) -> Result<bool, Abort> {
        let io = self.io();
        let ring = self.ring();
        if !self.lane.buffers.is_alone || ring.undo_parts() < 2 {
            return Ok(false);
        }
        let Some((region, line)) = self.lane.buffers.undo.at else { return Ok(false) };
        if region.is_elsewhere || !self.gather_witnesses() {
            return Ok(false);
        }
        let witnesses = &self.lane.buffers.undo.witnesses;
        if lines_for(witnesses.len()) > region.lines - line {
            return Ok(false);
        }
        let Ok(seq) = next_number(self.lane.log.last_undo, self.pool.generation) else {
            return Ok(false);
        };
        let site = Site::UndoWitnesses;
        // Only now, since a line that is being written back is slow to read.
        self.flush_data();
        log::append(io, site, region, line, Record::new(RecordKind::Witnesses, seq, witnesses));
        self.fence_or_fail(site)?;
        self.lane.log.last_undo = seq;
        if io.medium.is_paged() {
            self.leave_half(lines_for(self.lane.buffers.undo.witnesses.len()));
        } else if !io.plants(Plant::HalvesNotSwapped) {
            self.lane.log.half ^= 1;
        }
        self.pool.lanes[self.lane.id].shared.unmarked.store(seq.bits(), Ordering::Release);
        let next = ring.undo_part(self.lane.log.half);
        for line in 0..LINES_AHEAD.min(next.lines) {
            io.medium.prefetch_write(next.line(line).line());
        }
        Ok(true)
    }

    /// UNDO-5: a word of each line, and what it holds. `false` when some line has none.
    fn gather_witnesses(&mut self) -> bool {
        let io = self.io();
        let mut witnesses = std::mem::take(&mut self.lane.buffers.undo.witnesses);
        witnesses.clear();
        let all = self.gather_data_witnesses(&mut witnesses)
            && (self.are_witnesses_new(&witnesses) || io.plants(Plant::WitnessAlwaysTrue));
        if all {
            for block in self.taken().chain(self.given_back()) {
                let at = reserved_word(block);
                witnesses.extend([at.0, io.medium.load_u64(at)]);
            }
            if io.plants(Plant::WitnessMissing) && witnesses.len() > 2 {
                witnesses.drain(..2);
            }
        }
        let few = witnesses.len() <= 2 * WITNESSES_MAX;
        self.lane.buffers.undo.witnesses = witnesses;
        all && few
    }

    fn gather_data_witnesses(&self, witnesses: &mut Vec<u64>) -> bool {
        let io = self.io();
        let buffers = &self.lane.buffers;
        let tears = io.medium.is_paged();
        for entry in buffers.lines.entries().iter().filter(|entry| entry.stored) {
            let words = if tears { entry.written } else { 1 << entry.last };
            let rewritten = entry.rewritten & words != 0;
            if entry.fresh
                || rewritten && !io.plants(Plant::WitnessAlwaysTrue)
                || witnesses.len() >= 2 * WITNESSES_MAX
            {
                return false;
            }
            let mut left = words;
            while left != 0 {
                let at = entry.line.start().plus(u64::from(left.trailing_zeros()) * 8);
                left &= left - 1;
                let is_given_back =
                    buffers.freed.iter().any(|b| b.at <= at && at.0 < b.at.0 + b.bytes);
                if is_given_back && !io.plants(Plant::WitnessInFreedBlock) {
                    return false;
                }
                witnesses.extend([at.0, io.medium.load_u64(at)]);
            }
        }
        true
    }

    /// Whether each of these words held something else before the transaction.
    fn are_witnesses_new(&self, witnesses: &[u64]) -> bool {
        log::items(self.lane.buffers.payload.as_words()).all(|item| {
            let Ok(Item::Words { at, words }) = item else { return true };
            witnesses.chunks_exact(2).all(|witness| {
                let index = witness[0].wrapping_sub(at.0) / 8;
                words.get(index as usize).is_none_or(|old| *old != witness[1])
            })
        })
    }
}

impl<M: Medium> Pool<M> {
    /// UNDO-6: makes the mark durable that an undo transaction with witnesses has left out, if the
    /// lane's last one did.
    pub(crate) fn settle(&self, lane: usize) {
        let unmarked = &self.lanes[lane].shared.unmarked;
        if unmarked.load(Ordering::Acquire) == 0 {
            return;
        }
        // The second thread waits for the fence of the first.
        let _settling = self.undo.settling.lock(&self.medium);
        let last = unmarked.load(Ordering::Acquire);
        if last == 0 {
            return;
        }
        let io = Io::counted(&self.medium, &self.counts.of_marks, self.versions());
        let at = self.header().geometry.lane_at(lane).plus(LANE_FLOOR);
        self.medium.store_u64(at, seal_at(last, at));
        io.flush(Site::UndoSettled, at, 8);
        io.fence(Site::UndoSettled);
        unmarked.store(0, Ordering::Release);
    }
}

/// Whether all of these witnesses agree. `None` when they speak of places that no transaction
/// changes.
fn agree<M: Medium>(
    medium: &M,
    witnesses: &[u64],
    is_changeable: impl Fn(PoolOffset) -> bool,
) -> Option<bool> {
    let (pairs, []) = witnesses.as_chunks::<2>() else { return None };
    let mut all = true;
    for &[at, value] in pairs {
        let at = PoolOffset(at);
        if !at.is_aligned(8) || !is_changeable(at) {
            return None;
        }
        all &= medium.load_u64(at) == value;
    }
    Some(all)
}

/// Row c': takes the witnesses from behind a lane's undo records, and those records too when
/// the witnesses prove their transaction committed.
pub(crate) fn drop_witnessed<M: Medium>(
    io: Io<'_, M>,
    geometry: &Geometry,
    records: &mut Vec<LiveRecord>,
) -> Result<(), PoolError> {
    let Some(last) = records.pop_if(|last| last.kind == RecordKind::Witnesses) else {
        return Ok(());
    };
    let len = io.medium.len();
    let is_changeable = |at: PoolOffset| is_changeable(geometry, len, ByteRange::new(at, 8));
    match agree(io.medium, &last.payload, is_changeable) {
        Some(agree) if agree || io.plants(Plant::WitnessesBelieved) => records.clear(),
        Some(_) => {}
        None => {
            let what = "a witness speaks of a place that no transaction changes";
            return Err(PoolError::Damaged { at: geometry.chunk_at(0), what });
        }
    }
    Ok(())
}
