//! Power cuts of a pool behind a page cache: real threads, cut between any two of their operations;
//! what is on the disk then is written to a file, which production recovers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use outlast::lab::Plant;
use outlast::medium::{CreateOptions, MapOptions, OpenOptions};
use outlast::recover::{RecoveredPool, UnrecoveredPool};
use outlast::scheme::Site;
use outlast::{Abort, BlockKind, Domain, Pool, PoolOffset, RootKind, Runner, Scheme, Transact};
use outlast_pmem::{FenceLogBug, PageCache};
use outlast_trace::Random;

const THREADS: usize = 3;
/// Cells of each thread, and as many of all together. Each is on a page of its own.
const CELLS: u64 = 3;
const CELL_BYTES: u64 = 4096;
const POOL_BYTES: u64 = 640 << 10;
/// Behind the cells: lines to which the first thread stores now and then, more than a log of fences takes at once.
const WIDE: u64 = 300;
/// How often it does: its counts that are multiples of this.
const WIDE_EVERY: u64 = 4;

fn open(scheme: Scheme) -> OpenOptions {
    OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(scheme) }
}

/// What is tried.
#[derive(Clone, Copy)]
struct Case {
    scheme: Scheme,
    plant: Option<Plant>,
    /// Bytes of the log of fences, 0 for none.
    fences: u64,
    bug: Option<FenceLogBug>,
    /// Bytes that the disk has as a whole or not.
    unit: usize,
}

/// A log of fences that is at its end after a hundred.
const FENCES: u64 = 64 << 10;

impl Case {
    fn of(scheme: Scheme) -> Self {
        Self { scheme, plant: None, fences: 0, bug: None, unit: 512 }
    }

    fn medium(self, image: &[u8]) -> PageCache {
        let medium = PageCache::from_bytes(image).planting(Plant::code_of(self.plant));
        match self.bug {
            Some(bug) => medium.breaking(bug),
            None => medium,
        }
    }
}

fn created(case: Case) -> (Pool<PageCache>, PoolOffset) {
    // Rings so short that they go round between two cuts.
    let fence_log_bytes = Some(case.fences);
    let create =
        CreateOptions { lanes: 4, lane_bytes: 4096, fence_log_bytes, ..CreateOptions::default() };
    let medium = case.medium(&vec![0; POOL_BYTES as usize]);
    let pool = Pool::create_on(medium, &create, &open(case.scheme)).unwrap();
    let cells = pool.lane().unwrap().run(|tx| {
        let bytes = (THREADS as u64 + 1) * CELLS * CELL_BYTES + WIDE * 64;
        let block = tx.alloc(bytes, BlockKind::General)?;
        let mut all = cell_addresses(block).chain(wide_addresses(block));
        all.try_for_each(|cell| tx.store_u64(cell, 0))?;
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

fn wide_addresses(block: PoolOffset) -> impl Iterator<Item = PoolOffset> {
    let at = cell(block, THREADS + 1, 0);
    (0..WIDE).map(move |line| at.plus(64 * line))
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
    let value = tx.load_u64(cell(block, thread, 0))?;
    if thread == 0 && value.is_multiple_of(WIDE_EVERY) {
        wide_addresses(block).try_for_each(|line| tx.store_u64(line, value))?;
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
    let pool = Pool::open_with(&path, &open(scheme), &map).map_err(|error| error.to_string())?;
    let mut lane = pool.lane().unwrap();
    let load = |tx: &mut outlast::Tx<'_, _>| {
        let all = cell_addresses(block).chain(wide_addresses(block));
        all.map(|cell| tx.load_u64(cell)).collect::<Result<Vec<_>, _>>()
    };
    let mut cells = lane.run(load).unwrap();
    let wide = cells.split_off(cells.len() - WIDE as usize);
    let values = cells.chunks(CELLS as usize);
    if values.clone().any(|values| values.iter().any(|value| *value != values[0])) {
        return Err(format!("torn: {cells:?}"));
    }
    let values: Vec<u64> = values.map(|values| values[0]).collect();
    let (own, common) = (&values[..THREADS], values[THREADS]);
    if own.iter().sum::<u64>() != common {
        return Err(format!("no sum: {values:?}"));
    }
    if wide.iter().any(|value| *value != own[0] / WIDE_EVERY * WIDE_EVERY) {
        return Err(format!("torn: {wide:?} of {}", own[0]));
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
fn first_wrong(case: Case, cuts: u64) -> Option<String> {
    let (pool, block) = created(case);
    let mut random = Random::new(case.unit as u64);
    let acked: [AtomicU64; THREADS] = Default::default();
    first_wrong_of(case, &pool, block, &acked, cuts, &mut random)
}

/// The same of a pool that has such counts already.
fn first_wrong_of(
    case: Case,
    pool: &Pool<PageCache>,
    block: PoolOffset,
    acked: &[AtomicU64; THREADS],
    cuts: u64,
    random: &mut Random,
) -> Option<String> {
    let (allowed, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = || acked.iter().map(|acked| acked.load(Ordering::SeqCst)).collect::<Vec<_>>();
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
            let until = all().iter().sum::<u64>() + 1 + random.next_u64() % 40;
            allowed.store(until + AHEAD, Ordering::Relaxed);
            while all().iter().sum::<u64>() < until {
                if is_over.load(Ordering::Relaxed) {
                    return Some("a transaction failed though power was there".to_owned());
                }
                thread::yield_now();
            }
            let (acked, image) = pool.medium().cut(case.unit, || random.next_u64(), all);
            judge(case.scheme, &image, block, &acked).err()
        });
        is_over.store(true, Ordering::Relaxed);
        found
    })
}

#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn no_power_cut_loses_or_tears_anything() {
    for scheme in crate::common::sound_schemes().filter(|scheme| *scheme != Scheme::None) {
        for fences in [0, FENCES] {
            let case = Case { fences, ..Case::of(scheme) };
            assert_eq!(first_wrong(case, 6), None, "{scheme}, {fences} bytes of fences");
        }
    }
}

/// Cuts that tear words, for each scheme with and without a log of fences. The nightly check sets
/// `OUTLAST_POWER_CUTS`.
const TORN_CUTS: u64 = 8;

/// Sectors that are written while they change tear between words. Each word of a streamed record says itself
/// whether it is there; a record with tags goes to blank lines (LOG-10).
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn no_power_cut_that_tears_words_is_taken_for_damage() {
    let cuts = std::env::var("OUTLAST_POWER_CUTS").ok().and_then(|cuts| cuts.parse().ok());
    let cuts = cuts.unwrap_or(TORN_CUTS);
    for scheme in crate::common::sound_schemes().filter(|scheme| *scheme != Scheme::None) {
        for fences in [0, FENCES] {
            let case = Case { fences, unit: 8, ..Case::of(scheme) };
            assert_eq!(first_wrong(case, cuts), None, "{scheme}, {fences} bytes of fences");
        }
    }
}

/// One lane alone stores whole lines, in transactions short enough for witnesses and long enough for a region
/// of the heap by turns; power is cut before each write to the disk, and tears words.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn no_torn_word_of_a_lone_lane_is_believed() {
    const LINES: u64 = 90;
    for scheme in crate::common::sound_schemes().filter(|scheme| *scheme != Scheme::None) {
        let (pool, block) = created(Case::of(scheme));
        let image = pool.close().cut(8, || 0, || ()).1;
        let mut random = Random::new(scheme as u64);
        let medium = PageCache::from_bytes(&image).cut_at_each_sync(8, move || random.next_u64());
        let recovered = UnrecoveredPool::open(medium).unwrap().recover().unwrap();
        let pool = recovered.start(&open(scheme)).unwrap();
        let mut lane = pool.lane().unwrap();
        let words = |tx: &mut outlast::Tx<'_, PageCache>| {
            (0..LINES * 8)
                .map(|word| tx.load_u64(block.plus(word * 8)))
                .collect::<Result<Vec<_>, _>>()
        };
        let mut now = lane.run(words).unwrap();
        pool.medium().cuts();
        for turn in 1..40u64 {
            let lines = if turn % 5 == 0 { LINES } else { turn % 3 };
            let before = now;
            now = lane
                .run(|tx| {
                    for line in 0..lines {
                        let value = turn << 8 | line;
                        tx.store(block.plus(64 * line), &value.to_le_bytes().repeat(8))?;
                    }
                    words(tx)
                })
                .unwrap();
            for image in pool.medium().cuts() {
                let found = UnrecoveredPool::open(PageCache::from_bytes(&image))
                    .and_then(|pool| pool.recover())
                    .and_then(|pool| pool.start(&open(scheme)));
                let found = found.unwrap_or_else(|error| panic!("{scheme}, {turn}: {error}"));
                let found = found.lane().unwrap().run(words).unwrap();
                assert!(found == before || found == now, "{scheme}, {turn}: torn");
            }
        }
    }
}

/// Torn is told from damaged: a flipped bit in the last record of a lane is refused, as in any other.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn a_flipped_bit_of_the_last_record_is_no_torn_word() {
    for scheme in [Scheme::Redo, Scheme::Aof, Scheme::Swift] {
        let (pool, block) = created(Case::of(scheme));
        let image = pool.close().cut(512, || 0, || ()).1;
        let recovered = UnrecoveredPool::open(PageCache::from_bytes(&image)).unwrap().recover();
        let pool = recovered.unwrap().start(&open(scheme)).unwrap();
        let mut lane = pool.lane().unwrap();
        let before = pool.medium().cut(8, || 1, || ()).1;
        lane.run(|tx| (1..20).try_for_each(|n| tx.store_u64(block.plus(8 * n), n << 32 | 77)))
            .unwrap();
        let after = pool.medium().cut(8, || 1, || ()).1;
        let geometry = pool.header().geometry;
        let ring = geometry.ring_at(0).0 as usize..geometry.lane_at(1).0 as usize;
        let written: Vec<usize> =
            ring.step_by(8).filter(|at| before[*at..*at + 8] != after[*at..*at + 8]).collect();
        assert!(written.len() > 20, "{scheme}: {}", written.len());
        for at in written {
            for bit in [0, 13, 27, 45, 50] {
                let mut image = after.clone();
                image[at + bit / 8] ^= 1 << (bit % 8);
                let opened = UnrecoveredPool::open(PageCache::from_bytes(&image))
                    .and_then(|pool| pool.recover());
                assert!(opened.is_err(), "{scheme}: bit {bit} of the word at {at}");
            }
        }
    }
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
        for fences in [0, FENCES] {
            let case = Case { plant: Some(plant), fences, ..Case::of(scheme) };
            assert!(first_wrong(case, 100).is_some(), "{scheme}: {plant:?}, {fences}");
        }
    }
}

/// Power is cut, or the process dies; the pool is opened anew, power is cut while that is under way, and so on.
fn first_wrong_of_openings(case: Case, openings: u64) -> Option<String> {
    let (mut pool, block) = created(case);
    let mut random = Random::new(openings);
    let acked: [AtomicU64; THREADS] = Default::default();
    let mut counts = vec![0; THREADS];
    for opening in 0..openings {
        let wrong = first_wrong_of(case, &pool, block, &acked, 2, &mut random);
        if wrong.is_some() {
            return wrong;
        }
        let all = || acked.iter().map(|acked| acked.load(Ordering::SeqCst)).collect::<Vec<_>>();
        let (is, image) = pool.medium().cut(case.unit, || random.next_u64(), all);
        counts = is;
        // Power fails; or the process dies, and what the page cache has stays; or it opens the medium anew.
        let medium = match opening % 3 {
            0 => case.medium(&image),
            1 => pool.into_medium().after_the_process(),
            _ => pool.into_medium(),
        };
        let mut own = Random::new(random.next_u64());
        let medium = medium.cut_at_each_sync(case.unit, move || own.next_u64());
        let recovered = match UnrecoveredPool::open(medium).and_then(UnrecoveredPool::recover) {
            Ok(recovered) => recovered.into_medium(),
            Err(error) => return Some(error.to_string()),
        };
        let mut images = recovered.cuts();
        images.push(recovered.cut(case.unit, || random.next_u64(), || ()).1);
        let wrong = images.iter().find_map(|image| judge(case.scheme, image, block, &counts).err());
        if wrong.is_some() {
            return wrong;
        }
        let image = images.swap_remove(random.next_u64() as usize % images.len());
        let recovered = UnrecoveredPool::open(case.medium(&image)).unwrap().recover();
        let Ok(recovered) = recovered else { return Some("refused".to_owned()) };
        pool = recovered.start(&open(case.scheme)).unwrap();
    }
    None
}

#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn no_power_cut_of_an_opening_loses_anything() {
    for scheme in [Scheme::Swift, Scheme::Undo] {
        for fences in [0, FENCES] {
            let case = Case { fences, ..Case::of(scheme) };
            assert_eq!(first_wrong_of_openings(case, 8), None, "{scheme}, {fences}");
        }
    }
}

/// Where the head of a pool's log of fences is.
fn head_of(pool: &RecoveredPool<PageCache>) -> usize {
    let geometry = pool.header().geometry;
    (geometry.heap_at - geometry.fence_log_bytes()) as usize
}

/// The next opening of the same medium says where its entries begin in place, not in the log that it ends.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn an_opening_ends_the_log_of_the_one_before() {
    let (pool, block) = created(Case { fences: FENCES, ..Case::of(Scheme::Swift) });
    pool.lane().unwrap().run(|tx| count(tx, block, 1)).unwrap();
    let recovered = UnrecoveredPool::open(pool.into_medium()).unwrap().recover().unwrap();
    let head = head_of(&recovered);
    let images = [0, 1].map(|kept| recovered.medium().cut(512, || kept, || ()).1);
    let [synced, stored] = images.map(|image| image[head..head + 8].to_vec());
    assert_eq!(synced, stored);
}

/// A pool that fenced to its log is opened in a domain that asks for less, and power fails after that: after the death
/// of the process, when its page cache had everything, and after another loss of power.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn a_domain_that_asks_for_less_loses_nothing_of_before() {
    let case = Case { fences: FENCES, ..Case::of(Scheme::Swift) };
    for has_power in [true, false] {
        let (pool, block) = created(case);
        (0..30).for_each(|_| pool.lane().unwrap().run(|tx| count(tx, block, 1)).unwrap());
        let medium = match has_power {
            true => pool.into_medium().after_the_process(),
            false => case.medium(&pool.medium().cut(512, || 0, || ()).1),
        };
        let recovered = UnrecoveredPool::open(medium.in_process()).unwrap().recover().unwrap();
        // The system writes the head of the log by itself, and nothing else of what was not synced.
        let head = head_of(&recovered);
        let medium = recovered.into_medium();
        let (old, new) = (medium.cut(512, || 0, || ()).1, medium.cut(512, || 1, || ()).1);
        let mut image = old;
        image[head..head + 512].copy_from_slice(&new[head..head + 512]);
        assert_eq!(judge(case.scheme, &image, block, &[0, 30, 0]), Ok(()), "{has_power}");
    }
}

/// What was closed in peace can be read without recovery, also after a loss of power.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn a_closed_pool_needs_no_recovery_after_a_power_cut() {
    for fences in [0, FENCES] {
        let (pool, block) = created(Case { fences, ..Case::of(Scheme::Swift) });
        (0..30).for_each(|_| pool.lane().unwrap().run(|tx| count(tx, block, 1)).unwrap());
        let image = pool.close().cut(512, || 0, || ()).1;
        let read = UnrecoveredPool::open(PageCache::from_bytes(&image)).unwrap().read_only();
        assert!(read.is_ok(), "{fences}");
    }
}

/// A pool whose first lane commits until its ring has grown, then closes; power is cut before each write to the disk.
/// The images, each with what was acknowledged.
fn growing_and_closing(case: Case) -> (PoolOffset, Vec<(u64, Vec<u8>)>) {
    let (pool, block) = created(case);
    let image = pool.into_medium().cut(512, || 0, || ()).1;
    let mut random = Random::new(7);
    let medium = case.medium(&image).cut_at_each_sync(case.unit, move || random.next_u64());
    let recovered = UnrecoveredPool::open(medium).unwrap().recover().unwrap();
    let pool = recovered.start(&open(case.scheme)).unwrap();
    let (first, mut images) = (pool.space().log_bytes, Vec::new());
    let mut lane = pool.lane().unwrap();
    for acked in 0..60 {
        lane.run(|tx| count(tx, block, 1)).unwrap();
        images.extend(pool.medium().cuts().into_iter().map(|image| (acked, image)));
    }
    assert!(pool.space().log_bytes > first, "the ring has grown from {first}");
    drop(lane);
    let medium = pool.close();
    images.extend(medium.cuts().into_iter().map(|image| (60, image)));
    images.push((60, medium.cut(case.unit, || 0, || ()).1));
    let recovered =
        UnrecoveredPool::open(PageCache::from_bytes(&images.last().unwrap().1)).unwrap();
    assert_eq!(recovered.read_only().unwrap().space().log_bytes, first, "a closed pool's is short");
    (block, images)
}

/// Rings grow and become short again: RING-1 to RING-3.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn no_power_cut_while_rings_grow_and_shrink_loses_anything() {
    for scheme in [Scheme::Swift, Scheme::Redo] {
        for (fences, unit) in [(0, 512), (FENCES, 512), (FENCES, 8)] {
            let case = Case { fences, unit, ..Case::of(scheme) };
            let (block, images) = growing_and_closing(case);
            for (count, image) in images {
                assert_eq!(
                    judge(scheme, &image, block, &[0, count, 0]),
                    Ok(()),
                    "{scheme}, {count}"
                );
                assert_eq!(findings(&image), Vec::<String>::new(), "{scheme}, {count}");
            }
        }
    }
}

/// Damage that a check names in what recovery leaves.
fn findings(image: &[u8]) -> Vec<String> {
    let recovered = UnrecoveredPool::open(PageCache::from_bytes(image)).unwrap().recover().unwrap();
    let (report, _) = recovered.check_metadata();
    report.findings.iter().map(|finding| format!("{finding:?}")).collect()
}

/// A ring that is used before its new lines are blank shows them to a check, and to the next record that a crash tears.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn power_cuts_find_rings_that_grow_too_early() {
    let planted = Plant::shown_in(outlast::lab::Shows::Rings).chain([Plant::RingNotZeroed]);
    for plant in planted {
        let case = Case { plant: Some(plant), fences: FENCES, ..Case::of(Scheme::Swift) };
        let (_, images) = growing_and_closing(case);
        assert!(images.iter().any(|(_, image)| !findings(image).is_empty()), "{plant:?}");
    }
}

/// A transaction of many new blocks, whose contents the record leaves out (REDO-2): a list of them from the root block.
/// Power is cut before each write; the first image that is wrong.
fn first_wrong_of_many_blocks(case: Case) -> Option<String> {
    const BLOCKS: u64 = 100;
    // The record has its place in the ring, beside which it would need a fence before.
    let (lanes, lane_bytes, fence_log_bytes) = (1, 64 << 10, Some(case.fences));
    let create = CreateOptions { lanes, lane_bytes, fence_log_bytes, ..CreateOptions::default() };
    let pool = Pool::create_on(PageCache::new(1 << 20), &create, &open(case.scheme)).unwrap();
    let block = pool.lane().unwrap().run(|tx| {
        let block = tx.alloc(64, BlockKind::General)?;
        tx.store_u64(block, 0)?;
        Ok(block)
    });
    let block = block.unwrap();
    let image = pool.into_medium().cut(512, || 0, || ()).1;
    // Most units are there, or a record of many would never be.
    let mut random = Random::new(11);
    let most = move || u64::from(!random.next_u64().is_multiple_of(16));
    let medium = case.medium(&image).cut_at_each_sync(case.unit, most);
    let recovered = UnrecoveredPool::open(medium).unwrap().recover().unwrap();
    let pool = recovered.start(&open(case.scheme)).unwrap();
    let mut lane = pool.lane().unwrap();
    for turn in 1..20u64 {
        lane.run(|tx| {
            let mut next = 0;
            for n in 0..BLOCKS {
                let new = tx.alloc(128, BlockKind::General)?;
                let words = [next, turn, n];
                tx.store(new, bytemuck::cast_slice(&words))?;
                // A word by the short way.
                tx.store_u64(new.plus(64), turn << 32 | n)?;
                assert_eq!(tx.load_u64(new.plus(64))?, turn << 32 | n);
                next = new.0;
            }
            tx.store_u64(block, next)
        })
        .unwrap();
        for image in pool.medium().cuts() {
            let medium = PageCache::from_bytes(&image);
            let found = UnrecoveredPool::open(medium).and_then(UnrecoveredPool::recover);
            let found = match found {
                Ok(found) => found.into_medium(),
                Err(error) => return Some(error.to_string()),
            };
            use outlast_pmem::Medium;
            let (mut at, mut left, mut of) = (found.load_u64(block), BLOCKS, None);
            while at != 0 {
                let word = |offset| found.load_u64(PoolOffset(at + offset));
                let (is, n) = (word(8), word(16));
                left = left.wrapping_sub(1);
                if *of.get_or_insert(is) != is || n != left || word(64) != is << 32 | n {
                    return Some(format!("turn {turn}: block {n} of {is}, {left} left"));
                }
                at = word(0);
            }
            // As before the transaction, or all of it.
            let is_known = of.is_none_or(|of| left == 0 && (of == turn || of + 1 == turn));
            if !is_known {
                return Some(format!("turn {turn}: {left} left of {of:?}"));
            }
        }
    }
    None
}

#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn many_new_blocks_are_there_as_a_whole_or_not() {
    for scheme in [Scheme::Swift, Scheme::Redo] {
        for (fences, unit) in [(0, 512), (FENCES, 512), (FENCES, 8)] {
            let case = Case { fences, unit, ..Case::of(scheme) };
            assert_eq!(first_wrong_of_many_blocks(case), None, "{scheme}, {fences}, {unit}");
        }
        // An entry of the log of fences is there as a whole, so that a fence may lack.
        for (plant, fences) in
            [(Plant::FreshUnflushed, FENCES), (Plant::SkipFence(Site::RedoFresh), 0)]
        {
            let case = Case { plant: Some(plant), fences, ..Case::of(scheme) };
            assert!(first_wrong_of_many_blocks(case).is_some(), "{scheme}: {plant:?}");
        }
    }
}

/// A log of fences that is broken is noticed, in each way that there is.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn power_cuts_find_a_broken_log_of_fences() {
    use FenceLogBug::{EntryUnflushed, LineLeftOut, OlderRunLeft, RunBegunEarly};
    for bug in [RunBegunEarly, OlderRunLeft, LineLeftOut, EntryUnflushed] {
        let case = Case { fences: FENCES, bug: Some(bug), ..Case::of(Scheme::Swift) };
        assert!(first_wrong(case, 3000).is_some(), "{bug:?}");
    }
    for plant in Plant::shown_in(outlast::lab::Shows::Fences) {
        let case = Case { fences: FENCES, plant: Some(plant), ..Case::of(Scheme::Swift) };
        assert!(first_wrong_of_openings(case, 60).is_some(), "{plant:?}");
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

/// Two classes of a pool that grows share its new chunks, and none gives back what the other lacks.
#[test]
#[cfg_attr(miri, ignore = "maps files")]
fn classes_share_new_chunks() {
    const LIMIT: u64 = 64 << 20;
    let dir = tempfile::tempdir().unwrap();
    let create =
        CreateOptions { lanes: 1, chunk_bytes: Some(64 << 10), ..CreateOptions::default() };
    let options = OpenOptions { grow_limit_bytes: LIMIT, ..open(Scheme::Swift) };
    let map = MapOptions { domain: Some(Domain::Page), max_len: LIMIT, ..MapOptions::default() };
    let path = dir.path().join("shared.pool");
    let pool = Pool::create_with(&path, 4 << 20, &create, &options, &map).unwrap();
    let mut lane = pool.lane().unwrap();
    let mut fill = |times: u64| {
        for _ in 0..times {
            let many = |tx: &mut outlast::Tx<'_, _>| {
                (0..200).try_for_each(|one| {
                    let bytes = if one % 8 == 0 { 1000 } else { 200 };
                    tx.alloc(bytes, BlockKind::General).map(|_| ())
                })
            };
            lane.run(many).unwrap();
        }
        (pool.medium().syncs(), pool.stats().counters.unwrap().growths)
    };
    let (before, grown_before) = fill(100);
    let (after, grown) = fill(200);
    let (syncs, growths) = (after - before - 200, grown - grown_before);
    // With the sweeps 47 a growth; 71 where a class takes all the chunks that it can.
    assert!(growths >= 4 && syncs <= 58 * growths, "{syncs} syncs, {growths} growths");
}

/// A commit on a lone lane costs one flush of the device, the sweep a few in a whole ring.
#[test]
fn a_commit_syncs_once() {
    for scheme in [Scheme::Swift, Scheme::Redo, Scheme::Aof] {
        let (pool, block) = created(Case::of(scheme));
        let mut lane = pool.lane().unwrap();
        lane.run(|tx| count(tx, block, 1)).unwrap();
        let before = pool.medium().syncs();
        (0..200).for_each(|_| lane.run(|tx| count(tx, block, 1)).unwrap());
        let syncs = pool.medium().syncs() - before;
        // A record takes three lines of 63, and a full ring three fences.
        assert!((200..240).contains(&syncs), "{scheme}: {syncs}");
    }
}
