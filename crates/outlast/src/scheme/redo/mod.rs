//! Redo logging: new words are gathered, sealed with one fence, then stored in place.
//!
//! * **REDO-1** Nothing is stored in place, and no lock released, before the record is fenced. The
//!   fence is the commit point; no other transaction can observe an unfenced record.
//! * **REDO-2** Contents of large new blocks, or of many, are not logged. They are in place, flushed *and fenced*
//!   before the record is stored: under one common fence the record could be evicted first.
//! * **REDO-3** The number is drawn with all locks held, so that for each line the order of numbers
//!   is the order of the locks, and replay in that order ends with what the last owner stored.
//! * **REDO-4** Gaps in the numbers are harmless: a number without a complete record belongs to a
//!   transaction that no other has observed.
//! * **REDO-5** A block that was freed is quarantined until the floor is above the free (HEAP-4), since
//!   live records may still write to it at recovery.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;

use crate::ack::Ticket;
use crate::io::Site;
use crate::plant::Plant;
use crate::pool::{LaneShared, LaneSlot};
use crate::scheme::{Discipline, Facts};
use crate::seq::Seq;
use crate::transact::Abort;
use crate::tx::Tx;
use crate::tx::blocks::reserved_word;
use crate::tx::commit_record::RecordSpace;
use crate::versions::Versions;
use crate::writeback::enter_commit;

pub(crate) struct Redo;

impl Discipline for Redo {
    const FACTS: Facts = Facts { flushes_installed: true, ..Facts::REDO };
}

/// A record that is stored and flushed, and not fenced.
pub(crate) struct SealedRedo<'p> {
    slot: &'p LaneSlot,
    pub number: u64,
    seq: Seq,
    /// The position behind it.
    pub head: u64,
    /// Lines that the lane had flushed before.
    flushed: u64,
}

impl<'p, M: Medium> Tx<'p, M> {
    pub(crate) fn commit_redo(&mut self) -> Result<Ticket, Abort> {
        let space = self.prepare_redo()?;
        let sealed = self.seal_redo(space)?;
        self.lane.deferred.gather_ahead(self.pool, self.lane.id);
        // REDO-1: the commit point.
        self.fence_or_fail(Site::RedoRecord)?;
        Ok(self.end_redo(sealed))
    }

    /// The record in volatile memory, and room for it.
    #[inline(always)]
    pub(crate) fn prepare_redo(&mut self) -> Result<RecordSpace, Abort> {
        self.gather_new();
        if !self.lane.buffers.fresh.is_empty() {
            self.persist_fresh();
        }
        self.reserve_record(self.pool.lanes[self.lane.id].longest_record())
    }

    /// Draws the number, stores the record and flushes it. What must follow is a fence.
    #[inline(always)]
    pub(crate) fn seal_redo(&mut self, space: RecordSpace) -> Result<SealedRedo<'p>, Abort> {
        let io = self.io();
        let slot = &self.pool.lanes[self.lane.id];
        if !self.lane.buffers.is_alone {
            enter_commit(self.pool, &slot.shared);
        }
        let idle = |abort| {
            slot.shared.bound.store(LaneShared::IDLE, Ordering::Release);
            abort
        };
        self.lock_write_set().map_err(idle)?;
        let number = self.draw_number().map_err(idle)?;
        let seq = self.pool.seq(number);
        if self.keeps_sums() {
            // With all locks held: nothing else changes these words before the record is there.
            let medium = &self.pool.medium;
            let load = |at, words: &mut [u64]| medium.load(at, bytemuck::cast_slice_mut(words));
            self.lane.buffers.payload.reload_old(load);
        }
        let head = self.write_record(space, seq);
        self.note_to_cover(head, |entry| entry.words != 0);
        // Before the fence, which a lock behind it would wait for.
        self.end_blocks_after(seq);
        self.lane.buffers.lines.forget_places();
        self.lane.buffers.scan_remainder();
        if io.plants(Plant::EarlyRelease) {
            self.release_locks(Some(number));
        }
        if io.plants(Plant::InstallBeforeFence) {
            self.install();
            self.store_allocations();
        }
        self.fetch_ahead();
        let flushed = slot.shared.flushed.load(Ordering::Relaxed);
        Ok(SealedRedo { slot, number, seq, head, flushed })
    }

    /// The fence is over: stores everything in place and lets others see it.
    #[inline(always)]
    pub(crate) fn end_redo(&mut self, sealed: SealedRedo<'p>) -> Ticket {
        self.put_in_place(&sealed);
        self.show_installed(sealed)
    }

    #[inline(always)]
    pub(crate) fn put_in_place(&mut self, sealed: &SealedRedo<'p>) {
        let SealedRedo { slot, number, head, flushed, .. } = *sealed;
        // SWEEP-1: it has covered what was flushed before.
        slot.shared.fenced.store(flushed, Ordering::Release);
        if self.lane.deferred.is_unfenced {
            self.lane.deferred.is_unfenced = false;
        }

        let pool = self.pool;
        let versions = pool.versions.as_deref();
        let is_read = versions.is_some_and(|versions| versions.begin(self.lane.id));
        if let Some(versions) = versions.filter(|_| is_read) {
            self.keep_versions(versions);
        }
        if self.keeps_sums() {
            let mut deltas = self.begin_deltas(number);
            self.note_installed(&mut deltas);
            self.install();
            self.store_summed_allocations(&mut deltas);
            self.note_given_back(&mut deltas);
        } else {
            self.install();
            self.store_allocations();
        }
        if let Some(versions) = versions {
            versions.end(self.lane.id, &pool.medium);
        }
        if self.pool.facts.flushes_installed {
            self.flush_installed();
            slot.shared.flushed.store(head, Ordering::Relaxed);
        }
    }

    /// VERSION-2: the lines of the write set and of the bits of blocks.
    #[cold]
    #[inline(never)]
    fn keep_versions(&self, versions: &Versions<M>) {
        let tag = versions.tag(self.lane.id);
        let stored = self.lane.buffers.lines.entries().iter().filter(|entry| entry.words != 0);
        let blocks = self.taken().chain(self.given_back()).map(|block| reserved_word(block).line());
        versions.keep(&self.pool.medium, stored.map(|entry| entry.line).chain(blocks), tag);
        if versions.is_stale() {
            self.pool.publish();
        }
    }

    #[inline(always)]
    pub(crate) fn show_installed(&mut self, sealed: SealedRedo<'p>) -> Ticket {
        let SealedRedo { slot, number, seq, head, .. } = sealed;
        if !self.lane.buffers.locked.is_empty() {
            self.release_held_locks(Some(number));
        }

        self.lane.log.head = head;
        slot.shared.last_installed.store(number, Ordering::Release);
        slot.shared.installed.store(head, Ordering::Release);
        slot.shared.bound.store(LaneShared::IDLE, Ordering::Release);
        Ticket::of(seq)
    }

    /// REDO-2: contents of new blocks that are stored in place.
    #[inline(never)]
    fn persist_fresh(&self) {
        if self.io().plants(Plant::FreshUnflushed) {
            return;
        }
        let buffers = &self.lane.buffers;
        if self.pool.plan.flushes_fresh_whole {
            for range in &buffers.fresh {
                self.io().flush(Site::RedoFresh, range.at, range.len);
            }
        }
        for entry in buffers.lines.entries() {
            if entry.fresh {
                self.io().flush_line(Site::RedoFresh, entry.line);
            }
        }
        self.make_runs();
        self.io().fence(Site::RedoFresh);
    }

    /// Starts the write-back of what was installed. No commit waits for it: the lane's next fence
    /// completes it, or the sweeper does.
    fn flush_installed(&self) {
        for entry in self.lane.buffers.lines.entries() {
            if entry.words != 0 {
                self.io().flush_line(Site::RedoData, entry.line);
            }
        }
        self.flush_allocations(Site::RedoData);
    }
}
