//! Archapt as published, on undo logging and on redo logging: logs are dropped on the word of the LRU queue and
//! of checksums, also where that loses data. The [unit](self::unit) that drops them, its [objects], and the
//! [sums] that it believes stand beside.
//!
//! The undo host logs old words and nothing else. Its commit writes down that it happened, by a
//! record of old words without any, and flushes no data: until the transaction is physically
//! committed a crash takes it back although it was acknowledged (ARC-1). An abort writes an empty record of
//! new words instead, so that recovery leaves alone what was put back already.

mod objects;
pub(crate) mod sums;
mod unit;

pub(crate) use objects::Ended;
pub(crate) use unit::Unit;

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::ByteRange;

use crate::ack::Ticket;
use crate::io::{Io, Site};
use crate::layout::Geometry;
use crate::lines::runs;
use crate::log::{LiveRecord, RecordKind};
use crate::pool::{LaneShared, OpenOptions, Pool, RecoveredPool};
use crate::scheme::redo::LONG;
use crate::scheme::{Discipline, Facts, Reading, Role};
use crate::seq::Seq;
use crate::transact::Abort;
use crate::tx::Tx;
use crate::tx::blocks::reserved_word;
use crate::writeback::{Reach, Sweeper, enter_commit, reserve_lines};

/// On redo logging, or on undo logging.
pub(crate) struct Published<const ON_REDO: bool>;

pub(crate) type Undo = Published<false>;
pub(crate) type Redo = Published<true>;

impl<const ON_REDO: bool> Discipline for Published<ON_REDO> {
    const FACTS: Facts = Facts {
        role: Role::Published,
        commits_at: &[Site::RedoRecord],
        locks_at_commit: false,
        commits_by_record: false,
        keeps_announced: !ON_REDO,
        // A transaction asks others about lines that it touches.
        has_solo: false,
        has_floor: true,
        is_stepped: true,
        by_age: true,
        ..if ON_REDO { Facts::REDO } else { Facts::IN_PLACE }
    };

    fn commit<M: Medium>(tx: &mut Tx<'_, M>) -> Result<Ticket, Abort> {
        if ON_REDO { tx.commit_redo_as_published() } else { tx.commit_logically() }
    }

    /// Whatever others have pending of these bytes is flushed before this transaction sees them.
    fn touch<M: Medium>(pool: &Pool<M>, bytes: ByteRange) {
        unit::finish_pending(pool, bytes);
    }

    fn took<M: Medium>(pool: &Pool<M>, block: ByteRange) {
        unit::forget_sums(pool, block);
    }

    fn log_old<M: Medium>(tx: &mut Tx<'_, M>) -> Result<(), Abort> {
        tx.write_before_records()
    }

    fn end_aborted<M: Medium>(tx: &mut Tx<'_, M>, stored: bool) {
        tx.end_aborted_by_age(stored, Tx::end_aborted_logically);
    }

    fn step_write_back<M: Medium>(tx: &mut Tx<'_, M>) {
        unit::step(tx.pool, tx.lane.id, &mut tx.lane.accesses);
    }

    fn flush_below<M: Medium>(
        pool: &Pool<M>,
        sweeper: &mut Sweeper,
        own: usize,
        reach: Reach,
        limit: &mut u64,
    ) -> Option<Vec<u64>> {
        Some(sweeper.published.as_mut()?.flush_below(pool, own, reach, limit))
    }

    fn open<M: Medium>(pool: &RecoveredPool<M>, options: &OpenOptions, sweeper: &mut Sweeper) {
        sweeper.published = Some(Unit::new(pool, options));
    }

    /// Row i of recovery. Others may have stored to the same words since.
    fn order_unfinished<M: Medium>(
        _: Io<'_, M>,
        geometry: &Geometry,
        unfinished: &mut Vec<Vec<&LiveRecord>>,
    ) {
        if geometry.literal {
            let mut all = unfinished.concat();
            all.sort_by_key(newest_record);
            *unfinished = vec![all];
        }
    }

    fn is_dropped<M: Medium>(pool: &Pool<M>, seq: Seq) -> bool {
        unit::is_dropped(pool, seq)
    }

    fn history_bytes<M: Medium>(pool: &Pool<M>) -> u64 {
        pool.sweeper.lock(&pool.medium).published.as_ref().map_or(0, Unit::history_bytes)
    }
}

impl<M: Medium> Tx<'_, M> {
    fn commit_redo_as_published(&mut self) -> Result<Ticket, Abort> {
        let space = self.prepare_redo()?;
        let sealed = self.seal_redo::<LONG>(space)?;
        self.renew_sums();
        self.fence_or_fail(Site::RedoRecord)?;
        self.put_in_place::<LONG>(&sealed);
        self.hand_over_ended(sealed.number, sealed.head);
        Ok(self.show_installed::<LONG>(sealed))
    }

    /// The logical commit on undo logging.
    fn commit_logically(&mut self) -> Result<Ticket, Abort> {
        let io = self.io();
        if self.has_stored_nothing() {
            self.release_locks(None);
            return Ok(Ticket::NOTHING);
        }
        // Old bits of blocks.
        self.log_gathered()?;
        if self.make_runs() || !self.lane.buffers.undo.fresh_lines.is_empty() {
            self.flush_fresh();
            io.fence(Site::UndoFresh);
        }
        if self.lane.buffers.sealed.last == 0 {
            let shared = &self.pool.lanes[self.lane.id].shared;
            enter_commit(self.pool, shared);
        }
        let number = match self.draw_number() {
            Ok(number) => number,
            Err(abort) => {
                let shared = &self.pool.lanes[self.lane.id].shared;
                shared.bound.store(LaneShared::IDLE, Ordering::Release);
                return Err(abort);
            }
        };
        let head = self.mark_end(RecordKind::Before, number);
        self.renew_sums();
        self.fence_or_fail(Site::RedoRecord)?;
        self.store_allocations();
        self.hand_over_ended(number, head);
        self.release_locks(Some(number));
        self.end_sealed(head, number);
        let seq = self.pool.seq(number);
        self.end_blocks_after(seq);
        Ok(Ticket::of(seq))
    }

    /// A record without words, in the ring. Its fence is the caller's.
    fn mark_end(&mut self, kind: RecordKind, number: u64) -> u64 {
        let io = self.io();
        reserve_lines(self.pool, self.slot, &mut self.lane, 1);
        let (seq, slot) = (self.pool.seq(number), &self.pool.lanes[self.lane.id]);
        let log = &mut self.lane.log;
        log.begin_record(io, Site::RedoRecord, slot, seq, 1);
        log.place().append_words(io, Site::RedoRecord, (kind, seq), &[], 1);
        log.end_record(1)
    }

    /// Old words are put back, durably. Returns the number under which they count no more; `last`
    /// is that of the last record.
    fn end_aborted_logically(&mut self, last: u64) -> u64 {
        self.renew_sums();
        if last == 0 {
            return 0;
        }
        let number = self.tick();
        let head = self.mark_end(RecordKind::Redo, number);
        self.io().fence(Site::RedoRecord);
        self.lane.log.head = head;
        let ended = Ended { counter: number, head, lines: Vec::new() };
        self.pool.lanes[self.lane.id].ended.lock(&self.pool.medium).push(ended);
        number
    }

    /// Objects that are written again while they have checksums: the paper has these "recalculated
    /// and updated" and names no order. They are flushed with the commit's record, under its fence.
    fn renew_sums(&self) {
        let medium = &self.pool.medium;
        let buffers = &self.lane.buffers;
        let is_redo = self.pool.facts.has_write_set;
        let entries = buffers.lines.entries().iter().enumerate();
        let changed = |reading| {
            entries.filter(move |(_, entry)| {
                // The content of new blocks is in place and durable, and is not looked at again.
                let is_rewritten = if is_redo { entry.words != 0 } else { entry.written != 0 };
                !(reading == Reading::NothingOnRewrite && is_rewritten)
            })
        };
        unit::renew_sums(self.pool, |reading| {
            changed(reading).map(|(index, entry)| {
                let mut content = [0; 8];
                medium.load(entry.line.start(), bytemuck::cast_slice_mut(&mut content));
                if is_redo {
                    for (first, words) in runs(entry.words) {
                        let words = first as usize..(first + words) as usize;
                        content[words.clone()].copy_from_slice(&buffers.contents[index][words]);
                    }
                }
                (entry.line, content)
            })
        });
    }

    /// Everything is in place; locks are still held, so the next transaction that touches these lines finds them
    /// pending.
    fn hand_over_ended(&self, counter: u64, head: u64) {
        let buffers = &self.lane.buffers;
        let is_redo = self.pool.facts.has_write_set;
        let stored = buffers
            .lines
            .entries()
            .iter()
            .filter(|entry| if is_redo { entry.words != 0 } else { entry.written != 0 });
        let blocks = self.taken().chain(self.given_back());
        let words = blocks.map(|block| reserved_word(block).line());
        let lines = stored.map(|entry| entry.line).chain(words).collect();
        let ended = Ended { counter, head, lines };
        self.pool.lanes[self.lane.id].ended.lock(&self.pool.medium).push(ended);
    }
}

fn newest_record(record: &&LiveRecord) -> std::cmp::Reverse<Seq> {
    std::cmp::Reverse(record.seq)
}
