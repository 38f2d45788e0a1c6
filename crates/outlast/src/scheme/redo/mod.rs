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
//!
//! Most commits are small: a lane that is alone with its pool has changed a few lines. The *short way* is the
//! same code, compiled once more without the steps that such a commit has no use for.
//!
//! * **WAY-1** Both ways are one source, so they write the same records and store, flush and fence in the same
//!   order. `SHORT` leaves out: locks, the bound, old words for checksums, new blocks, blocks given back, regions
//!   of the heap.
//! * **WAY-2** A transaction takes the short way when its lane is alone and may do so (`Windows::allow_short`,
//!   decided when the windows are opened), its lines are few, and no other list of its buffers has an entry.
//!   Whatever adds one says so at once (`Buffers::has_lines_only`). Debug builds compare at each commit.
//! * **WAY-3** A record that is too long for the ring is begun anew on the long way, before its number is drawn.
//! * **WAY-4** A transaction that has ended on the short way leaves all buffers of its lane clear, the lane alone
//!   and its windows open. If the lane is alone still, the next one begins without a look at them.
//! * **WAY-5** A transaction that may take the short way begins with a write set of *items*: a word that is the only
//!   one of its line is stored as an item of the record. A second word of a line, a store of bytes, a load of
//!   more than a word of what was stored, and every commit that is long `spread` the set into lines with their
//!   contents, so that words of one line are one item of the record.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;

use crate::ack::Ticket;
use crate::io::Site;
use crate::plant::Plant;
use crate::pool::LaneShared;
use crate::scheme::{Discipline, Facts};
use crate::seq::Seq;
use crate::transact::Abort;
use crate::tx::blocks::reserved_word;
use crate::tx::commit_record::{ITEM_WORDS_MAX, RecordSpace};
use crate::tx::{Buffers, Tx};
use crate::versions::Versions;
use crate::writeback::enter_commit;

/// The two ways of a commit (WAY-1).
pub(crate) const SHORT: bool = true;
pub(crate) const LONG: bool = false;

pub(crate) struct Redo;

impl Discipline for Redo {
    const FACTS: Facts = Facts { flushes_installed: true, ..Facts::REDO };
}

/// A record that is stored and flushed, and not fenced.
pub(crate) struct SealedRedo {
    pub number: u64,
    seq: Seq,
    /// The position behind it.
    pub head: u64,
    /// Lines that the lane had flushed before.
    flushed: u64,
}

impl<'p, M: Medium> Tx<'p, M> {
    #[inline(always)]
    pub(crate) fn commit_redo<const WAY: bool>(&mut self) -> Result<Ticket, Abort> {
        self.gather_new::<WAY>();
        let most = self.slot.longest_record();
        let space = match self.room_in_ring(most) {
            Some(room) => room,
            // WAY-3.
            None if WAY == SHORT => return self.commit_anew(),
            None => self.room_otherwise(most)?,
        };
        self.reserve_room(&space);
        let sealed = self.seal_redo::<WAY>(space)?;
        self.lane.deferred.gather_ahead(self.pool, self.slot);
        // REDO-1: the commit point.
        self.fence_or_fail(Site::RedoRecord)?;
        Ok(self.end_redo::<WAY>(sealed))
    }

    /// The same of a transaction whose changes are few lines (WAY-2), or none.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[cfg_attr(debug_assertions, inline(never))]
    pub(crate) fn commit_lines(&mut self) -> Result<Ticket, Abort> {
        self.refuse_unusable()?;
        if self.lane.buffers.lines.is_empty() {
            return Ok(Ticket::NOTHING);
        }
        self.commit_redo::<SHORT>()
    }

    #[cold]
    #[inline(never)]
    fn commit_anew(&mut self) -> Result<Ticket, Abort> {
        // Items stay where they are.
        self.lane.buffers.payload.clear();
        self.commit()
    }

    /// The record in volatile memory, and room for it.
    #[inline(always)]
    pub(crate) fn prepare_redo(&mut self) -> Result<RecordSpace, Abort> {
        self.gather_new::<LONG>();
        self.reserve_record(self.slot.longest_record())
    }

    /// The record: every word that the write set holds, then the bits of blocks. Contents of new blocks that
    /// it leaves out are durable.
    #[inline(always)]
    pub(crate) fn gather_new<const WAY: bool>(&mut self) {
        let Buffers { lines, contents, payload, .. } = &mut self.lane.buffers;
        if WAY == SHORT && lines.holds_items() {
            return payload.take_singles(lines.items());
        }
        payload.append_lines(lines.entries(), contents, ITEM_WORDS_MAX);
        if WAY == LONG {
            if self.keeps_sums() {
                self.gather_old();
            }
            self.gather_allocations();
            if !self.lane.buffers.fresh.is_empty() {
                self.persist_fresh();
            }
        }
    }

    /// Draws the number, stores the record and flushes it. What must follow is a fence.
    #[inline(always)]
    pub(crate) fn seal_redo<const WAY: bool>(
        &mut self,
        space: RecordSpace,
    ) -> Result<SealedRedo, Abort> {
        let io = self.io();
        let shared = &self.slot.shared;
        let number = if WAY == SHORT {
            self.draw_alone()?
        } else {
            if !self.lane.buffers.is_alone {
                enter_commit(self.pool, shared);
            }
            let idle = |abort| {
                shared.bound.store(LaneShared::IDLE, Ordering::Release);
                abort
            };
            self.lock_write_set().map_err(idle)?;
            self.draw_number().map_err(idle)?
        };
        let seq = self.pool.seq(number);
        if WAY == LONG && self.keeps_sums() {
            // With all locks held: nothing else changes these words before the record is there.
            let medium = &self.pool.medium;
            let load = |at, words: &mut [u64]| medium.load(at, bytemuck::cast_slice_mut(words));
            self.lane.buffers.payload.reload_old(load);
        }
        let head = self.write_record(space, seq);
        if WAY == SHORT {
            self.note_lines_to_cover(head);
        } else {
            self.note_to_cover(head, |entry| entry.words != 0);
            // Before the fence, which a lock behind it would wait for.
            self.end_blocks_after(seq);
        }
        self.lane.buffers.lines.forget_places();
        if io.plants(Plant::EarlyRelease) {
            self.release_locks(Some(number));
        }
        if io.plants(Plant::InstallBeforeFence) {
            self.install();
            self.store_allocations();
        }
        self.fetch_ahead();
        let flushed = shared.flushed.load(Ordering::Relaxed);
        Ok(SealedRedo { number, seq, head, flushed })
    }

    /// The fence is over: stores everything in place and lets others see it.
    #[inline(always)]
    pub(crate) fn end_redo<const WAY: bool>(&mut self, sealed: SealedRedo) -> Ticket {
        self.put_in_place::<WAY>(&sealed);
        self.show_installed::<WAY>(sealed)
    }

    #[inline(always)]
    pub(crate) fn put_in_place<const WAY: bool>(&mut self, sealed: &SealedRedo) {
        let SealedRedo { number, head, flushed, .. } = *sealed;
        // SWEEP-1: it has covered what was flushed before.
        self.slot.shared.fenced.store(flushed, Ordering::Release);
        if self.lane.deferred.is_unfenced {
            self.lane.deferred.is_unfenced = false;
        }

        let pool = self.pool;
        let versions = pool.versions.as_deref();
        if let Some(versions) = versions
            && versions.begin(self.lane.id)
        {
            self.keep_versions(versions);
        }
        if WAY == SHORT {
            self.install();
        } else if self.keeps_sums() {
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
            self.slot.shared.flushed.store(head, Ordering::Relaxed);
        }
    }

    /// VERSION-2: the lines of the write set and of the bits of blocks.
    #[cold]
    #[inline(never)]
    fn keep_versions(&self, versions: &Versions<M>) {
        let tag = versions.tag(self.lane.id);
        let stored = self.lane.buffers.written_lines();
        let blocks = self.taken().chain(self.given_back()).map(|block| reserved_word(block).line());
        versions.keep(&self.pool.medium, stored.chain(blocks), tag);
        if versions.is_stale() {
            self.pool.publish();
        }
    }

    #[inline(always)]
    pub(crate) fn show_installed<const WAY: bool>(&mut self, sealed: SealedRedo) -> Ticket {
        let SealedRedo { number, seq, head, .. } = sealed;
        if WAY == LONG && !self.lane.buffers.locked.is_empty() {
            self.release_held_locks(Some(number));
        }

        self.lane.log.head = head;
        let shared = &self.slot.shared;
        shared.last_installed.store(number, Ordering::Release);
        shared.installed.store(head, Ordering::Release);
        if WAY == LONG {
            shared.bound.store(LaneShared::IDLE, Ordering::Release);
        }
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
        let fresh = buffers.lines.entries().iter().filter(|entry| entry.fresh);
        self.io().flush_each(Site::RedoFresh, fresh.map(|entry| entry.line));
        self.make_runs();
        self.io().fence(Site::RedoFresh);
    }

    /// Starts the write-back of what was installed. No commit waits for it: the lane's next fence
    /// completes it, or the sweeper does.
    fn flush_installed(&self) {
        self.io().flush_each(Site::RedoData, self.lane.buffers.written_lines());
        self.flush_allocations(Site::RedoData);
    }
}

#[cfg(all(test, not(outlast_loom)))]
mod tests {
    use outlast_pmem::Heap;
    use outlast_trace::PoolOffset;

    use crate::medium::{CreateOptions, OpenOptions};
    use crate::pool::{Lane, Pool, UnrecoveredPool};
    use crate::{Abort, BlockKind, Runner, Scheme, Transact};

    const WORDS: u64 = 8 * 64;

    /// What transaction `number` stores, and where: words apart, of one line, across lines, again.
    fn stores(number: u64) -> Vec<(u64, Vec<u64>)> {
        let at = |nth: u64| (number * 97 + nth * 41) % (WORDS - 16);
        match number % 6 {
            0 => vec![(at(0), vec![number])],
            1 => vec![(at(0), vec![1]), (at(1), vec![2]), (at(0), vec![3])],
            2 => vec![(at(0) / 8 * 8, vec![1]), (at(0) / 8 * 8 + 3, vec![number, 4])],
            3 => vec![(at(0), (number..number + 12).collect())],
            4 => (0..16).map(|nth| (at(nth), vec![number << 8 | nth])).collect(),
            _ => (0..40).map(|nth| (nth * 8, vec![number, nth])).collect(),
        }
    }

    fn run(lane: &mut Lane<'_, Heap>, words: PoolOffset, number: u64) -> bool {
        let short = lane.run(|tx| {
            for (at, content) in stores(number) {
                let at = words.plus(8 * at);
                match content[..] {
                    [word] => tx.store_u64(at, word)?,
                    _ => tx.store(at, bytemuck::cast_slice(&content))?,
                }
            }
            Ok(tx.lane.buffers.are_few_lines_only())
        });
        short.unwrap()
    }

    /// The ring, what recovery makes of it, and how many transactions took the short way.
    fn ring_and_words(scheme: Scheme, allow_short: bool) -> (Vec<u8>, Vec<u8>, usize) {
        let create = CreateOptions { lanes: 1, lane_bytes: 1 << 12, ..CreateOptions::default() };
        let pool = Pool::create_on(Heap::new(1 << 20), &create, &OpenOptions::with_scheme(scheme))
            .unwrap();
        let mut lane = pool.lane().unwrap();
        let words = lane.run(|tx| {
            let words = tx.alloc(8 * WORDS, BlockKind::General)?;
            tx.store(words, &[0; 8 * WORDS as usize]).map(|()| words)
        });
        let words = words.unwrap();
        // The windows are open from here on.
        lane.run(|tx| {
            tx.lane.buffers.windows.allow_short &= allow_short;
            Ok(())
        })
        .unwrap();
        let short = (0..100).filter(|number| run(&mut lane, words, *number)).count();
        drop(lane);
        let geometry = pool.header().geometry;
        let (from, lines) = (geometry.ring_at(0).0 as usize, geometry.ring_lines() as usize);
        let bytes = pool.into_medium().to_bytes();
        let ring = bytes[from..from + 64 * lines].to_vec();
        let pool = UnrecoveredPool::open(Heap::from_bytes(&bytes)).unwrap().recover().unwrap();
        let pool = pool.start(&OpenOptions::with_scheme(scheme)).unwrap();
        let mut recovered = vec![0; 8 * WORDS as usize];
        pool.lane().unwrap().run(|tx| tx.load(words, &mut recovered)).unwrap();
        (ring, recovered, short)
    }

    /// WAY-1, WAY-3.
    #[test]
    fn both_ways_write_the_same_records() {
        for scheme in [Scheme::Swift, Scheme::Redo] {
            let (short_ring, short_words, short) = ring_and_words(scheme, true);
            let (long_ring, long_words, long) = ring_and_words(scheme, false);
            assert!(short > 50 && long == 0, "{scheme}: {short} and {long} took the short way");
            assert!(short_ring == long_ring, "{scheme}: the records differ");
            assert!(short_words == long_words, "{scheme}: recovery reads them differently");
        }
    }

    /// WAY-2.
    #[test]
    fn what_else_a_transaction_has_takes_the_long_way() {
        let (create, open) = (CreateOptions::default(), OpenOptions::default());
        let pool = Pool::create_on(Heap::new(4 << 20), &create, &open).unwrap();
        let mut lane = pool.lane().unwrap();
        let words = lane.run(|tx| tx.alloc(1 << 14, BlockKind::General)).unwrap();
        type Step = fn(&mut crate::Tx<'_, Heap>, PoolOffset) -> Result<(), Abort>;
        let steps: [(&str, Step, bool); 6] = [
            ("a word", |tx, at| tx.store_u64(at, 1), true),
            ("nothing", |_, _| Ok(()), true),
            ("a block", |tx, _| tx.alloc(64, BlockKind::General).map(|_| ()), false),
            ("a word behind it", |tx, at| tx.store_u64(at, 2), true),
            (
                "a failure",
                |tx, at| {
                    tx.store_u64(at, 3)?;
                    tx.free(PoolOffset(3)).or(Ok(()))
                },
                false,
            ),
            ("many lines", |tx, at| tx.store(at, &[1; 1 << 12]), false),
        ];
        for (what, step, is_short) in steps {
            let mut took = None;
            let _ = lane.run(|tx| {
                step(tx, words)?;
                took = Some(tx.lane.buffers.are_few_lines_only());
                Ok(())
            });
            assert_eq!(took, Some(is_short), "{what}");
        }
        // Another lane ends the solo.
        let mut other = pool.lane().unwrap();
        other.run(|tx| tx.load_u64(words)).unwrap();
        let is_short = lane.run(|tx| {
            tx.store_u64(words, 4)?;
            Ok(tx.lane.buffers.are_few_lines_only())
        });
        assert!(!is_short.unwrap());
    }
}
