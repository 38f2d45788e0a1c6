//! Recovery of images that are easy to miss: each test is a crash that once lost something, or
//! could have.

use outlast::medium::{CreateOptions, LINE_BYTES, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{BlockKind, Pool, PoolOffset, Runner, Scheme, Transact};
use outlast_pmem::{Heap, Medium};
use outlast_trace::Random;

use crate::watched::Watched;

/// Where the floor stands (`docs/format.md`).
const FLOOR_AT: PoolOffset = PoolOffset(128);

fn options(lanes: u32, lane_bytes: u64) -> (CreateOptions, OpenOptions) {
    let create = CreateOptions { lanes, lane_bytes, ..CreateOptions::default() };
    let open = OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(Scheme::Redo) };
    (create, open)
}

fn recovered_word(image: &[u8], at: PoolOffset) -> u64 {
    let recovered = UnrecoveredPool::open(Heap::from_bytes(image)).unwrap().recover().unwrap();
    recovered.medium().load_u64(at)
}

/// A block of zeros on lines of its own.
fn zeros<M: Medium>(pool: &Pool<M>, lines: u64) -> PoolOffset {
    let mut lane = pool.lane().unwrap();
    lane.run(|tx| {
        let block = tx.alloc(lines * LINE_BYTES, BlockKind::General)?;
        tx.store(block, &vec![0; (lines * LINE_BYTES) as usize])?;
        Ok(block)
    })
    .unwrap()
}

/// Redo flushes what it stores in place and waits for none of it, so an image may lack the
/// last transaction's data. Its record must then be found, wherever in the ring it lies: here
/// records of all lengths end everywhere, at the last line of the ring too.
#[test]
fn the_last_record_is_found_wherever_in_the_ring_it_lies() {
    for lane_bytes in [256, 448, 1024, 2048] {
        the_last_record_is_found(lane_bytes, if cfg!(miri) { 20 } else { 300 });
    }
}

fn the_last_record_is_found(lane_bytes: u64, records: u64) {
    let (create, open) = options(2, lane_bytes);
    let pool = Pool::create_on(Heap::new(64 << 10), &create, &open).unwrap();
    let block = zeros(&pool, 8);
    let mut lanes = [pool.lane().unwrap(), pool.lane().unwrap()];
    let mut random = Random::new(1);
    for value in 1..=records {
        let lines = 1 + random.below(5);
        let lane = &mut lanes[random.below(2) as usize];
        let before = pool.medium().to_bytes();
        lane.run(|tx| {
            let mut bytes = [value as u8; 5 * LINE_BYTES as usize];
            bytes[..8].copy_from_slice(&value.to_le_bytes());
            tx.store(block, &bytes[..(lines * LINE_BYTES) as usize - 8])
        })
        .unwrap();
        let mut image = pool.medium().to_bytes();
        let data = block.0 as usize..(block.0 + 8 * LINE_BYTES) as usize;
        image[data.clone()].copy_from_slice(&before[data]);
        let found = recovered_word(&image, block);
        assert_eq!(found, value, "lanes of {lane_bytes} bytes, record {value}, {lines} lines");
    }
}

/// Between the floor and the tails of one sweep another lane commits. Its tail still points to
/// records below the floor, its last record lies above: that one must be found behind them.
#[test]
fn a_commit_between_floor_and_tail_is_found_behind_dead_records() {
    let (create, open) = options(2, 1024);
    // The lane that is stopped in the middle does not have the other's line to itself.
    let open = OpenOptions { lock_always: true, ..open };
    let pool = Pool::create_on(Watched::new(64 << 10), &create, &open).unwrap();
    let block = zeros(&pool, 2);
    let (mine, others) = (block, block.plus(LINE_BYTES));
    let mut other = pool.lane_at(1).unwrap();
    for value in 1..4 {
        other.run(|tx| tx.store_u64(others, value)).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut lane = pool.lane_at(0).unwrap();
            *pool.medium().stops_at.lock().unwrap() = Some(FLOOR_AT);
            // More lines than the ring has: some commit on the way sweeps.
            for value in 1..20 {
                lane.run(|tx| tx.store_u64(mine, value)).unwrap();
            }
        });
        pool.medium().barrier.wait();
        other.run(|tx| tx.store_u64(others, 4)).unwrap();
        pool.medium().barrier.wait();
    });
    let mut image = pool.medium().image.lock().unwrap().clone();
    // The data of the last commit was not fenced by its lane, so it may be missing.
    let others_at = others.0 as usize;
    image[others_at..others_at + 8].copy_from_slice(&3u64.to_le_bytes());
    assert_eq!(recovered_word(&image, others), 4);
}

/// The sweeper believes a lane's own fences. A thread's fence completes that thread's flushes
/// only (rule 7), so a lane that goes to another thread has none open.
#[test]
fn a_lane_that_changes_hands_leaves_no_flush_unfenced() {
    let (create, open) = options(1, 1024);
    let pool = Pool::create_on(Watched::new(64 << 10), &create, &open).unwrap();
    let block = zeros(&pool, 1);
    let mut lane = pool.lane().unwrap();
    lane.run(|tx| tx.store_u64(block, 1)).unwrap();
    assert!(pool.medium().has_unfenced(), "redo waits for no data");
    drop(lane);
    assert!(!pool.medium().has_unfenced());
}

/// So it is where what the log covers was flushed between two commits: once in a step of eight log
/// lines all that is left, and half of it on the way there.
#[test]
fn a_lane_that_changes_hands_leaves_no_part_of_its_share_unfenced() {
    let lane_bytes = 256 * LINE_BYTES;
    let create = CreateOptions { lanes: 1, lane_bytes, ..CreateOptions::default() };
    let open = OpenOptions::with_scheme(Scheme::Swift);
    let pool = Pool::create_on(Watched::new(256 << 10), &create, &open).unwrap();
    let lines = 2048;
    let block = zeros(&pool, lines);
    let (mut commits, mut unfenced) = (0, 0);
    for line in 0..lines {
        let mut lane = pool.lane().unwrap();
        lane.run(|tx| tx.store_u64(block.plus(line * LINE_BYTES), 1)).unwrap();
        // The first laps cover what is not of this loop.
        if line >= 512 {
            commits += 1;
            unfenced += u64::from(pool.medium().has_unfenced());
        }
        drop(lane);
        assert!(!pool.medium().has_unfenced(), "after commit {line}");
    }
    // Where the floor moves, at each quarter of the ring, the step itself has fenced.
    assert_eq!(unfenced, commits / 8 * 2 - commits / 64);
}

#[test]
fn a_pool_closed_in_peace_can_be_opened_for_reading_only() {
    for scheme in [Scheme::Undo, Scheme::Redo] {
        let (create, open) = options(2, 1024);
        let open = OpenOptions { scheme: Some(scheme), ..open };
        let pool = Pool::create_on(Heap::new(64 << 10), &create, &open).unwrap();
        for _ in 0..2 {
            let mut lane = pool.lane().unwrap();
            lane.run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
        }
        let medium = pool.close();
        let read = UnrecoveredPool::open(&medium).unwrap().read_only();
        assert!(read.is_ok(), "{scheme}: {:?}", read.err());
    }
}
