//! Power cuts of a pool behind a page cache: real threads, cut between any two of their operations;
//! what is on the disk then is written to a file, which production recovers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use outlast::{
    Abort, BlockKind, CreateOptions, Domain, FilePool, MapOptions, OpenOptions, Plant, Pool,
    PoolOffset, RootKind, Runner, Scheme, Site, Transact,
};
use outlast_pmem::PageCache;

const THREADS: usize = 3;
/// Cells of each thread, and as many of all together. Each is on a page of its own.
const CELLS: u64 = 3;
const CELL_BYTES: u64 = 4096;
const POOL_BYTES: u64 = 640 << 10;

fn open(scheme: Scheme) -> OpenOptions {
    // Words of the log are streamed, as in the domain `page`.
    OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(scheme) }
}

fn created(scheme: Scheme, plant: Option<Plant>) -> (Pool<PageCache>, PoolOffset) {
    // Rings so short that they go round between two cuts.
    let create = CreateOptions { lanes: 4, lane_bytes: 4096, ..CreateOptions::default() };
    let medium = PageCache::new(POOL_BYTES).planting(Plant::code_of(plant));
    let pool = Pool::create_on(medium, &create, &open(scheme)).unwrap();
    let cells = pool.lane().unwrap().run(|tx| {
        let block = tx.alloc((THREADS as u64 + 1) * CELLS * CELL_BYTES, BlockKind::General)?;
        cell_addresses(block).try_for_each(|cell| tx.store_u64(cell, 0))?;
        tx.set_root(block, RootKind::Opaque)?;
        Ok(block)
    });
    let cells = cells.unwrap();
    (pool, cells)
}

fn cell(block: PoolOffset, owner: usize, index: u64) -> PoolOffset {
    block.plus((owner as u64 * CELLS + index) * CELL_BYTES)
}

fn cell_addresses(block: PoolOffset) -> impl Iterator<Item = PoolOffset> {
    (0..=THREADS).flat_map(move |owner| (0..CELLS).map(move |index| cell(block, owner, index)))
}

/// Adds one to each cell of a thread, and to the common ones.
fn count(tx: &mut impl Transact, block: PoolOffset, thread: usize) -> Result<(), Abort> {
    for owner in [thread, THREADS] {
        for index in 0..CELLS {
            let at = cell(block, owner, index);
            let value = tx.load_u64(at)?;
            tx.store_u64(at, value + 1)?;
        }
    }
    Ok(())
}

/// Recovers an image, in which all of a thread's cells must hold the same, at least what it was told
/// was durable and at most one more, and the common cells their sum.
fn judge(scheme: Scheme, image: &[u8], block: PoolOffset, acked: &[u64]) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    std::fs::write(&path, image).unwrap();
    let map = MapOptions { domain: Some(Domain::Page), max_len: 1 << 20, ..Default::default() };
    let pool = FilePool::open(&path, &open(scheme), &map).map_err(|error| error.to_string())?;
    let mut lane = pool.lane().unwrap();
    let load = |tx: &mut outlast::Tx<'_, _>| {
        cell_addresses(block).map(|cell| tx.load_u64(cell)).collect::<Result<Vec<_>, _>>()
    };
    let cells = lane.run(load).unwrap();
    let values = cells.chunks(CELLS as usize);
    if values.clone().any(|values| values.iter().any(|value| *value != values[0])) {
        return Err(format!("torn: {cells:?}"));
    }
    let values: Vec<u64> = values.map(|values| values[0]).collect();
    let (own, common) = (&values[..THREADS], values[THREADS]);
    if own.iter().sum::<u64>() != common {
        return Err(format!("no sum: {values:?}"));
    }
    if own.iter().zip(acked).any(|(value, acked)| value < acked) {
        return Err(format!("lost: {values:?} of {acked:?}"));
    }
    // It goes on from there.
    lane.run(|tx| count(tx, block, 0)).unwrap();
    assert_eq!(lane.run(load).unwrap()[0], own[0] + 1);
    Ok(())
}

/// Transactions of all threads that may run on while an image is judged.
const AHEAD: u64 = 20;

/// Threads count; power is cut now and then, some transactions apart. The first image that is wrong.
fn first_wrong(scheme: Scheme, plant: Option<Plant>, unit: usize, cuts: u64) -> Option<String> {
    let (pool, block) = created(scheme, plant);
    let acked: [AtomicU64; THREADS] = Default::default();
    let (allowed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = || acked.iter().map(|acked| acked.load(Ordering::SeqCst)).collect::<Vec<_>>();
    let mut random = 0x2545_f491_4f6c_dd1d_u64 ^ unit as u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random >> 32
    };
    let count_on = |thread: usize| {
        let mut lane = pool.lane().unwrap();
        while !is_over.load(Ordering::Relaxed) {
            if all().iter().sum::<u64>() >= allowed.load(Ordering::Relaxed) {
                thread::yield_now();
            } else if lane.run(|tx| count(tx, block, thread)).is_ok() {
                acked[thread].fetch_add(1, Ordering::SeqCst);
            } else {
                is_over.store(true, Ordering::Relaxed);
            }
        }
    };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let count_on = &count_on;
            scope.spawn(move || count_on(thread));
        }
        let found = (0..cuts).find_map(|_| {
            let until = all().iter().sum::<u64>() + 1 + next() % 40;
            allowed.store(until + AHEAD, Ordering::Relaxed);
            while all().iter().sum::<u64>() < until {
                if is_over.load(Ordering::Relaxed) {
                    return Some("a transaction failed though power was there".to_owned());
                }
                thread::yield_now();
            }
            let (acked, image) = pool.medium().cut(unit, &mut next, all);
            judge(scheme, &image, block, &acked).err()
        });
        is_over.store(true, Ordering::Relaxed);
        found
    })
}

#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn no_power_cut_loses_or_tears_anything() {
    for scheme in crate::common::sound_schemes().filter(|scheme| *scheme != Scheme::None) {
        assert_eq!(first_wrong(scheme, None, 512, 8), None, "{scheme}");
    }
    // Sectors that are written while they change tear between words; each word of the log says itself
    // whether it is there.
    assert_eq!(first_wrong(Scheme::Swift, None, 8, 20), None);
}

/// The same of code that is broken, so that it can fail.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn power_cuts_find_what_was_not_synced() {
    for (scheme, plant) in [
        (Scheme::Swift, Plant::SkipFence(Site::RedoRecord)),
        (Scheme::Swift, Plant::SkipFlush(Site::SweepData)),
        (Scheme::Redo, Plant::SkipFence(Site::RedoRecord)),
        (Scheme::Redo, Plant::SkipFlush(Site::SweepData)),
        (Scheme::Undo, Plant::SkipFence(Site::UndoRecord)),
        (Scheme::Aof, Plant::SkipFence(Site::Command)),
    ] {
        assert!(first_wrong(scheme, Some(plant), 512, 100).is_some(), "{scheme}: {plant:?}");
    }
}

/// Where a class has many chunks, sixteen more become its with two syncs.
#[test]
fn many_chunks_take_few_syncs() {
    let create = CreateOptions { lanes: 1, ..CreateOptions::default() };
    let medium = PageCache::new(1 << 20);
    let pool = Pool::create_on(medium, &create, &open(Scheme::Swift)).unwrap();
    let mut lane = pool.lane().unwrap();
    let mut grow = |times: u64| {
        for _ in 0..times {
            lane.run(|tx| tx.alloc(400, BlockKind::General)).unwrap();
        }
        pool.medium().syncs()
    };
    let before = grow(400);
    let syncs = grow(800) - before;
    // A chunk of 4 KiB has nine blocks: 89 chunks, 178 syncs one by one.
    assert!((806..820).contains(&syncs), "{syncs}");
}

/// A commit on a lone lane costs one flush of the device, the sweep a few in a whole ring.
#[test]
fn a_commit_syncs_once() {
    for scheme in [Scheme::Swift, Scheme::Redo, Scheme::Aof] {
        let (pool, block) = created(scheme, None);
        let mut lane = pool.lane().unwrap();
        lane.run(|tx| count(tx, block, 0)).unwrap();
        let before = pool.medium().syncs();
        (0..200).for_each(|_| lane.run(|tx| count(tx, block, 0)).unwrap());
        let syncs = pool.medium().syncs() - before;
        // A record takes three lines of 63, and a full ring three fences.
        assert!((200..240).contains(&syncs), "{scheme}: {syncs}");
    }
}
