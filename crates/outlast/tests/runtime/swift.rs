//! What `swift` asks of the memory: on the way to the acknowledgement its log lines and one fence,
//! and behind it each line that the log covers once, a few at a time.

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{BlockKind, Pool, PoolOffset, Runner, Scheme, Transact};
use outlast_pmem::{Counted, Counters, Heap, Medium};

const LINE: u64 = 64;
/// Lines of a lane's ring: its bytes without the line of the lane's own words.
const RING_LINES: u64 = 255;

fn pool(lanes: u32) -> (Pool<Counted<Heap>>, PoolOffset) {
    let lane_bytes = (RING_LINES + 1) * LINE;
    let create = CreateOptions { lanes, lane_bytes, ..CreateOptions::default() };
    let open = OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(Scheme::Swift) };
    let pool = Pool::create_on(Counted::new(Heap::new(4 << 20)), &create, &open).unwrap();
    let mut lane = pool.lane().unwrap();
    let block = lane.run(|tx| tx.alloc(1 << 20, BlockKind::General)).unwrap();
    drop(lane);
    (pool, block)
}

/// What one commit that stores to the words at `places` of the block asks for, until it returns.
fn commit(
    lane: &mut outlast::Lane<'_, Counted<Heap>>,
    block: PoolOffset,
    places: impl Iterator<Item = u64> + Clone,
    value: u64,
) -> Counters {
    let before = lane.pool().medium().counters();
    lane.run(|tx| {
        let mut places = places.clone();
        places.try_for_each(|place| tx.store_u64(block.plus(place * LINE), value))
    })
    .unwrap();
    lane.pool().medium().counters() - before
}

#[test]
fn a_commit_streams_its_log_lines_and_fences_once() {
    for (words, lock_always) in [(1, false), (4, false), (16, false), (16, true)] {
        let (pool, block) = pool(if lock_always { 2 } else { 1 });
        let mut lane = pool.lane().unwrap();
        let mut other = lock_always.then(|| pool.lane().unwrap());
        if let Some(other) = &mut other {
            other.run(|tx| tx.load_u64(block).map(|_| ())).unwrap();
        }
        // Fewer than half of the ring, so that nothing is old.
        for value in 1..=RING_LINES / 2 / (words + 1) {
            let spent = commit(&mut lane, block, 0..words, value);
            let log_bytes = spent.stored_bytes - words * 8;
            assert_eq!(spent.fences, 1);
            assert!(log_bytes > words * 16, "each word and where it goes is logged");
            assert!(spent.streamed_lines <= log_bytes.div_ceil(LINE), "{spent:?}");
            assert_eq!(spent.flushed_lines, 0);
        }
    }
}

/// Of records of one log line four are covered in front of one commit, half of a step's share. Where
/// they are longer each commit covers about as much as it stores, and never more than twice that.
#[test]
fn the_sweep_is_shared_among_commits_and_flushes_each_line_once() {
    for (words, in_one_commit) in [(1, 4), (4, 4), (16, 32)] {
        let (pool, block) = pool(1);
        let mut lane = pool.lane().unwrap();
        // Far more than the ring covers, one after the other: no line is stored to twice.
        let commits = 12_000 / words;
        let mut total = Counters::default();
        let mut most = 0;
        for commit_no in 0..commits {
            let places = commit_no * words..(commit_no + 1) * words;
            let spent = commit(&mut lane, block, places, commit_no + 1);
            most = most.max(spent.flushed_lines);
            total.flushed_lines += spent.flushed_lines;
            total.fences += spent.fences;
        }
        let lines = commits * words;
        // With the floor and the tail.
        assert!(most <= in_one_commit + 2, "{most} lines in one commit of {words}");
        let log_lines = commits * (words / 4 + 1);
        let sweeps = log_lines / (RING_LINES / 4) + 1;
        assert!(total.fences <= commits + 3 * sweeps, "{total:?}");
        let still_dirty = RING_LINES * words.min(4);
        assert!(total.flushed_lines >= lines - still_dirty, "{total:?}");
        assert!(total.flushed_lines <= lines + 2 * sweeps, "{total:?}");
    }
}

#[test]
fn a_line_that_is_stored_to_all_the_time_is_flushed_once_in_half_a_ring() {
    let (pool, block) = pool(1);
    let mut lane = pool.lane().unwrap();
    let commits = 12_000;
    let before = pool.medium().counters();
    for value in 1..=commits {
        commit(&mut lane, block, 0..2, value);
    }
    let flushed = (pool.medium().counters() - before).flushed_lines;
    let halves = commits / (RING_LINES / 2) + 1;
    let sweeps = commits / (RING_LINES / 4) + 1;
    assert!(flushed <= 2 * halves + 2 * sweeps, "{flushed} lines beside the log");
}

/// Transactions that the ring cannot hold, small ones, and blocks that come and go, over and over:
/// what a process leaves that dies now is what was committed, whatever the log still covers.
#[test]
fn everything_is_there_after_any_number_of_laps() {
    let (pool, block) = pool(2);
    let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
    let mut expected = vec![0; 4096];
    let mut held = Vec::new();
    for round in 1..400u64 {
        let lane = if round % 3 == 0 { &mut two } else { &mut one };
        let count = if round % 16 == 0 { 2000 } else { round % 7 + 1 };
        lane.run(|tx| {
            for i in 0..count {
                tx.store_u64(block.plus((round * 37 + i) % 4096 * 8), round << 16 | i)?;
            }
            if round % 5 == 0 {
                held.drain(..).try_for_each(|block| tx.free(block))?;
            } else {
                let new = tx.alloc(200, BlockKind::General)?;
                tx.store_u64(new, round)?;
                held.push(new);
            }
            Ok(())
        })
        .unwrap();
        (0..count).for_each(|i| expected[((round * 37 + i) % 4096) as usize] = round << 16 | i);
    }
    let image = Heap::from_bytes(&pool.medium().inner().to_bytes());
    let recovered = UnrecoveredPool::open(image).unwrap().recover().unwrap();
    for (i, word) in (0..).zip(&expected) {
        assert_eq!(recovered.medium().load_u64(block.plus(i * 8)), *word, "word {i}");
    }
}
