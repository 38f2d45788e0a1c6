//! Undo per store, in sections bounded by locks, with what depends on what (mechanisms of Atlas).
//!
//! A transaction is a failure-atomic section. It logs each word before its first store to it,
//! announced or not, and each lock that it takes and lets go. It lets go of its locks *before* its
//! data is durable, so a section that takes them may end first and must not outlive it. A lock
//! names the section that released it last: its version is that section's number.
//!
//! * **ATLAS-1** The old content of a word and the locks taken since are logged, and fenced, before
//!   anything is stored over it (as UNDO-1).
//! * **ATLAS-2** That a lock is released, and under which number, is logged and fenced before it is.
//!   Numbers are drawn with all locks held, so that what depends on a section has a greater one.
//! * **ATLAS-3** A section's data is flushed and fenced, and every section on which it depends is
//!   stable, before its mark is stored. The mark makes its records dead: with it the section is
//!   *stable*. It is fenced before the section is acknowledged, its blocks change hands, or a lane that
//!   depends on it is told. A section depends on those that released its locks, and on those whose
//!   words it has read.
//! * **ATLAS-4** So a section that is not stable has nothing stable that depends on it. Recovery undoes
//!   all that are not, in the reverse of the order of their numbers: those that had released
//!   nothing, and have none, first.
//! * **ATLAS-5** An aborted section has put its old words back durably, and what they came from is
//!   stable, before it lets go of its locks: its lines then show its own number.
//!
//! Every lane prunes its own log, and waits where a helper thread would come back later.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;

use outlast_pmem::Medium;

use crate::ack::Ticket;
use crate::io::{Io, Site};
use crate::layout::Geometry;
use crate::lock::{LockWord, Stripe};
use crate::log::{Item, LiveRecord, items};
use crate::plant::Plant;
use crate::scheme::{Discipline, Facts, Role};
use crate::spin::wait;
use crate::transact::Abort;
use crate::tx::Tx;

pub(crate) struct Atlas;

impl Discipline for Atlas {
    const FACTS: Facts = Facts {
        role: Role::Baseline,
        commits_at: &[Site::UndoMark],
        // Sections are made of locks.
        has_solo: false,
        logs_locks: true,
        ..Facts::IN_PLACE
    };

    fn commit<M: Medium>(tx: &mut Tx<'_, M>) -> Result<Ticket, Abort> {
        let io = tx.io();
        let number = tx.draw_number()?;
        let predecessors = tx.predecessors();
        for (stripe, _) in &tx.lane.buffers.locked {
            tx.lane.buffers.payload.released(*stripe, number);
        }
        if io.plants(Plant::EarlyRelease) {
            tx.let_go(number);
        }
        // ATLAS-2, with allocations gathered after the last store.
        tx.log_gathered()?;
        tx.store_allocations();
        tx.let_go(number);
        tx.flush_data();
        if !io.plants(Plant::MarkWithData) {
            tx.fence_or_fail(Site::UndoData)?;
        }
        tx.await_stable(&predecessors);
        tx.mark_done()?; // ATLAS-3
        tx.pool.lanes[tx.lane.id].shared.section.store(0, Ordering::Release);
        tx.end_blocks();
        Ok(Ticket::of(tx.pool.seq(number)))
    }

    fn commit_nothing<M: Medium>(tx: &Tx<'_, M>) -> Result<(), Abort> {
        tx.await_stable(&tx.predecessors());
        // What they did may never be.
        tx.refuse_unusable()
    }

    fn locked<M: Medium>(tx: &mut Tx<'_, M>, stripe: Stripe, was: LockWord) {
        tx.lane.buffers.payload.acquired(stripe, was.version());
    }

    fn end_aborted<M: Medium>(tx: &mut Tx<'_, M>, stored: bool) {
        tx.make_put_back_durable(stored);
        if stored {
            // ATLAS-5.
            tx.await_stable(&tx.predecessors());
        }
    }

    /// ATLAS-4.
    fn order_unfinished<M: Medium>(
        io: Io<'_, M>,
        _: &Geometry,
        unfinished: &mut Vec<Vec<&LiveRecord>>,
    ) {
        if !io.plants(Plant::SectionsLaneByLane) {
            unfinished.sort_by_key(newest_section);
        }
    }

    fn abandon<M: Medium>(tx: &Tx<'_, M>) {
        tx.pool.lanes[tx.lane.id].shared.section.store(0, Ordering::Release);
    }
}

impl<M: Medium> Tx<'_, M> {
    /// From here on others may take the locks, and depend on this section.
    fn let_go(&mut self, number: u64) {
        self.pool.lanes[self.lane.id].shared.section.store(number, Ordering::Release);
        self.release_locks(Some(number));
        // Others may have stored over it: what fails from here on puts nothing back.
        self.lane.buffers.undo.stored = false;
    }

    /// Sections that are not stable and whose words this one has read or locked, with their lanes.
    fn predecessors(&self) -> Vec<(usize, u64)> {
        let buffers = &self.lane.buffers;
        let seen = |number| {
            let both = buffers.reads.iter().chain(&buffers.locked);
            both.into_iter().any(|(_, word)| word.is_free() && word.version() == number)
        };
        let lanes = self.pool.lanes.iter().enumerate();
        let unstable = lanes.map(|(id, lane)| (id, lane.shared.section.load(Ordering::Acquire)));
        unstable.filter(|(_, number)| *number != 0 && seen(*number)).collect()
    }

    /// ATLAS-3. They wait for smaller numbers only, so no two wait for each other.
    fn await_stable(&self, predecessors: &[(usize, u64)]) {
        if self.io().plants(Plant::PrunedTooEarly) {
            return;
        }
        for (lane, number) in predecessors {
            let mut tries = 0;
            while self.pool.lanes[*lane].shared.section.load(Ordering::Acquire) == *number {
                wait(&self.pool.medium, &mut tries);
            }
        }
    }
}

/// The number under which a section has released its locks; what has released none comes last.
fn newest_section(undo: &Vec<&LiveRecord>) -> Reverse<u64> {
    let mut items = undo.iter().flat_map(|record| items(&record.payload));
    let released = items.find_map(|item| match item {
        Ok(Item::Released { by, .. }) => Some(by),
        _ => None,
    });
    Reverse(released.unwrap_or(u64::MAX))
}
