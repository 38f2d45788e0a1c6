//! Preparation of a lane's ring before its first record of an opening.

use outlast_pmem::Medium;

use crate::io::Site;
use crate::layout::LANE_TAIL;
use crate::log;
use crate::plant::Plant;
use crate::pool::{LaneState, Pool};
use crate::sealed::seal_at;

impl<M: Medium> Pool<M> {
    /// LOG-5: before its first record of this opening a lane says by its tail where that goes and in
    /// which lap, durably; where the ring is to be made blank it is so before. What stands there is of an
    /// older generation, so a crash in between changes nothing.
    pub(super) fn lay_out(&self, lane: &mut LaneState) {
        let slot = &self.lanes[lane.id];
        if std::mem::replace(&mut lane.log.is_laid_out, true)
            || !slot.streams() && !slot.is_blanked_first
        {
            return;
        }
        let io = self.io();
        if slot.is_blanked_first && !io.plants(Plant::RingNotZeroed) {
            log::blank(io, Site::Ring, slot.ring);
            io.fence(Site::Ring);
        }
        let at = self.header.geometry.lane_at(lane.id).plus(LANE_TAIL);
        self.medium.store_u64(at, seal_at(log::tail_at(slot.first), at));
        io.flush(Site::FirstLap, at, 8);
        io.fence(Site::FirstLap);
    }
}

#[cfg(all(test, feature = "lab"))]
mod tests {
    use super::*;
    use crate::medium::{CreateOptions, OpenOptions};
    use crate::recover::UnrecoveredPool;
    use crate::{BlockKind, PoolOffset, Runner, Scheme, Transact};
    use outlast_pmem::Recorder;

    /// Lines of a ring, and words of a transaction whose records leave several of them over: two of six
    /// lines and four, or, sealed, six of three and two.
    fn lines_and_words(scheme: Scheme) -> (u64, u64) {
        if scheme == Scheme::UndoArchapt { (20, 9) } else { (16, 19) }
    }

    fn options(scheme: Scheme) -> OpenOptions {
        OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(scheme) }
    }

    fn created(scheme: Scheme, plant: Option<Plant>) -> (Pool<Recorder>, PoolOffset) {
        let lane_bytes = (lines_and_words(scheme).0 + 1) * 64;
        let create = CreateOptions { lanes: 1, lane_bytes, ..CreateOptions::default() };
        let medium = Recorder::from_image(vec![0; 64 << 10]).planting(Plant::code_of(plant));
        let pool = Pool::create_on(medium, &create, &options(scheme)).unwrap();
        let block = pool.lane().unwrap().run(|tx| tx.alloc(512, BlockKind::General)).unwrap();
        (pool, block)
    }

    /// `None` where recovery refuses what it finds.
    fn opened(bytes: Vec<u8>, scheme: Scheme, plant: Option<Plant>) -> Option<Pool<Recorder>> {
        let medium = Recorder::from_image(bytes).planting(Plant::code_of(plant));
        let recovered = UnrecoveredPool::open(medium).unwrap();
        Some(recovered.recover().ok()?.start(&options(scheme)).unwrap())
    }

    /// Stores to `words` words, in one transaction.
    fn commit(pool: &Pool<Recorder>, block: PoolOffset, words: u64, value: u64) {
        let store = |tx: &mut crate::Tx<'_, Recorder>| {
            (0..words).try_for_each(|word| tx.store_u64(block.plus(16 * word), value))
        };
        pool.lane().unwrap().run(store).unwrap();
        pool.medium().take_log();
    }

    /// A line of the ring of which a word carries the tag of the lap that will be written there
    /// next: what a crash leaves of that could not be told from it.
    fn mistakable(pool: &Pool<Recorder>) -> Option<u64> {
        let slot = &pool.lanes[0];
        let head = slot.place(slot.shared.installed.load(std::sync::atomic::Ordering::Relaxed));
        let carries = |line: u64, lap: log::streamed::Lap| {
            let at = slot.ring.line(line);
            (0..8)
                .any(|word| log::streamed::carries(pool.medium().load_u64(at.plus(8 * word)), lap))
        };
        (0..slot.ring.lines).find(|line| {
            let place = if *line < head.line { head.next_lap() } else { head };
            carries(*line, place.lap.unwrap())
        })
    }

    /// Hundreds of laps of one opening, each leaving the same lines over.
    fn after_many_laps(scheme: Scheme, plant: Option<Plant>) -> Option<u64> {
        let (pool, block) = created(scheme, plant);
        (0..3000).find_map(|value| {
            commit(&pool, block, lines_and_words(scheme).1, value);
            mistakable(&pool)
        })
    }

    /// Hundreds of openings, each after a crash in the middle of a record.
    fn after_many_openings(scheme: Scheme, plant: Option<Plant>) -> Option<u64> {
        let (mut pool, block) = created(scheme, plant);
        let mut random = 88_172_645_463_325_252u64;
        for value in 0..600u64 {
            // What is done to the ring before is fenced.
            drop(pool.lane().unwrap());
            let before = pool.medium().to_bytes();
            // Now and then much of the ring, mostly a line of it.
            let words = if value % 200 < 3 { 1 + value % 200 * 9 } else { 1 };
            commit(&pool, block, words, value);
            let line = mistakable(&pool);
            if line.is_some() {
                return line;
            }
            // Any of the ring's words may not have arrived. Where a commit takes two fences that is more
            // than a crash can leave, and may be refused; then all have arrived.
            let whole = pool.medium().to_bytes();
            let mut left = whole.clone();
            let ring = pool.lanes[0].ring;
            for at in (ring.at.0..ring.at.0 + ring.lines * 64).step_by(8).map(|at| at as usize) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                if random.is_multiple_of(3) {
                    left[at..at + 8].copy_from_slice(&before[at..at + 8]);
                }
            }
            let torn = opened(left, scheme, plant);
            let Some(next) = torn.or_else(|| opened(whole, scheme, plant)) else {
                // Recovery takes a word of long ago for one of a later lap (LOG-9).
                return Some(value);
            };
            pool = next;
        }
        None
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of transactions take minutes there")]
    fn no_word_of_the_ring_is_ever_mistaken_for_one_of_the_lap_to_come() {
        let [rest, zeroes] = [Plant::RestOfLapUnwritten, Plant::RingNotZeroed].map(Some);
        for scheme in [Scheme::Swift, Scheme::UndoArchapt] {
            assert_eq!(after_many_laps(scheme, None), None, "{scheme}");
            assert_eq!(after_many_openings(scheme, None), None, "{scheme}");
            assert!(after_many_laps(scheme, rest).is_some(), "{scheme}");
            assert!(after_many_openings(scheme, zeroes).is_some(), "{scheme}");
        }
        assert_eq!(
            Plant::shown_in(crate::plant::Shows::Laps).count(),
            2,
            "every one of them is planted here"
        );
    }

    /// A ring that held records of the other form is made blank before the first of this one, both ways.
    #[test]
    fn a_pool_goes_from_one_form_of_log_to_the_other_and_back() {
        let (pool, block) = created(Scheme::Swift, None);
        let mut bytes = pool.medium().to_bytes();
        let schemes = [Scheme::Swift, Scheme::Undo, Scheme::UndoArchapt, Scheme::Redo];
        for value in 0..40u64 {
            let scheme = schemes[value as usize % 4];
            let recovered = UnrecoveredPool::open(Recorder::from_image(bytes)).unwrap();
            let recovered = recovered.recover().unwrap();
            assert_eq!(recovered.check_metadata().0.findings, []);
            let last = recovered.medium().load_u64(block);
            assert_eq!(last, value.saturating_sub(1));
            let pool = recovered.start(&options(scheme)).unwrap();
            (0..=value % 7).for_each(|_| commit(&pool, block, 1 + value % 3, value));
            bytes = pool.medium().to_bytes();
        }
    }
}
