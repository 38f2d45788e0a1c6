//! The file's format against truncation and flipped bytes, and every crash while it is written.

mod disk;

use outlast_pmem::Heap;

use super::format::{SECTOR_BYTES, SegmentHeader};
use super::restore::Reader;
use super::*;
use crate::medium::{CreateOptions, OpenOptions};
use crate::pool::blank;
use crate::{BlockKind, RootKind, Runner, Transact};
use disk::{Content, Disk, Keep, Told, crashed};

const PAGES: u64 = 12;

/// A pool with a block of several pages, which [`fill`] stores to. Its log has room for all that
/// tests do: records in regions of the heap are not marked, and would make free pages differ.
fn pool() -> (Pool<Heap>, PoolOffset) {
    let create = CreateOptions { lanes: 2, lane_bytes: 16 << 10, ..CreateOptions::default() };
    let open = OpenOptions { lock_stripes: 64, ..OpenOptions::default() };
    let pool = Pool::create_on(Heap::new(128 << 10), &create, &open).unwrap();
    let root = pool.lane().unwrap().run(|tx| {
        let root = tx.alloc(PAGES * 4096, BlockKind::General)?;
        tx.store(root, &vec![0; PAGES as usize * 4096])?;
        tx.set_root(root, RootKind::Opaque)?;
        Ok(root)
    });
    (pool, root.unwrap())
}

fn fill(pool: &Pool<Heap>, root: PoolOffset, pages: impl Iterator<Item = u64>, value: u64) {
    let mut lane = pool.lane().unwrap();
    let bytes: Vec<u8> =
        (0..4096 / 8).flat_map(|word| (value << 32 | word).to_le_bytes()).collect();
    let bytes = if value == 0 { vec![0; 4096] } else { bytes };
    for page in pages {
        lane.run(|tx| tx.store(root.plus(page * 4096), &bytes)).unwrap();
    }
}

fn restored(disk: &Disk) -> Result<Vec<u8>> {
    let missing = CheckpointError::Missing { path: "checkpoint".into() };
    let file = disk.open()?.ok_or(missing)?;
    Reader::new(disk.clone(), file)?.to_bytes()
}

/// The pool's bytes but for its logs and its floor: what a checkpoint made now must give.
fn expected(pool: &Pool<Heap>) -> Vec<u8> {
    let mut bytes = pool.medium().to_bytes();
    let geometry = pool.header().geometry;
    let lanes = &mut bytes[HEADER_PAGE_BYTES as usize..geometry.heap_at as usize];
    blank::fill(&geometry, geometry.lane_at(0), lanes);
    let floor = seal_at(pool.seq(pool.newest() + 1).bits(), FLOOR_AT);
    bytes[FLOOR_AT.0 as usize..][..8].copy_from_slice(&floor.to_le_bytes());
    bytes
}

fn checkpoint(pool: &Pool<Heap>, disk: &Disk) -> CheckpointReport {
    let report = pool.checkpoint_on(disk).unwrap();
    assert!(restored(disk).unwrap() == expected(pool), "the pool as it is now: {report:?}");
    report
}

/// Three checkpoints in one file; what each of them gives, and the file's length after each.
fn three() -> (Pool<Heap>, PoolOffset, Disk, Vec<Vec<u8>>, Vec<usize>) {
    let (pool, root) = pool();
    let disk = Disk::default();
    let (mut states, mut lengths) = (Vec::new(), Vec::new());
    for (pages, value) in [(0..PAGES, 1), (2..4, 2), (3..5, 0)] {
        fill(&pool, root, pages, value);
        checkpoint(&pool, &disk);
        states.push(restored(&disk).unwrap());
        lengths.push(disk.file().len());
    }
    (pool, root, disk, states, lengths)
}

#[test]
fn only_what_has_changed_is_written() {
    let (pool, root, disk, _, _) = three();
    fill(&pool, root, 6..8, 3);
    let report = checkpoint(&pool, &disk);
    assert_eq!((report.number, report.pages_compared), (4, 0));
    // Both pages, and the header's.
    assert_eq!(report.pages_written, 3);
    let nothing = checkpoint(&pool, &disk);
    assert_eq!((nothing.pages_written, nothing.pages_paused), (1, 1));
}

#[test]
fn after_an_opening_pages_are_compared_and_only_different_ones_written() {
    let (pool, root, disk, _, _) = three();
    fill(&pool, root, 9..10, 4);
    let bytes = pool.into_medium().to_bytes();
    let recovered = crate::recover::UnrecoveredPool::open(Heap::from_bytes(&bytes)).unwrap();
    let open = OpenOptions { lock_stripes: 64, ..OpenOptions::default() };
    let pool = recovered.recover().unwrap().start(&open).unwrap();
    let report = checkpoint(&pool, &disk);
    assert!(report.pages_compared > PAGES);
    assert_eq!(report.pages_written, 2, "{report:?}");
    // Another file knows nothing yet, and afterwards the first no longer what has changed since.
    let other = Disk::default();
    assert!(checkpoint(&pool, &other).pages_written > PAGES - 3);
    fill(&pool, root, 1..2, 5);
    assert_eq!(checkpoint(&pool, &other).pages_compared, 0);
    let report = checkpoint(&pool, &disk);
    assert!(report.pages_compared > 0);
    assert_eq!(report.pages_written, 2);
}

#[test]
fn every_aborted_and_allocated_page_is_in_it_under_every_scheme() {
    for row in crate::scheme::SCHEMES {
        // No log goes to free chunks, whose bytes no checkpoint needs.
        let create = CreateOptions { lanes: 2, lane_bytes: 256 << 10, ..CreateOptions::default() };
        let open = OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(row.scheme) };
        let pool = Pool::create_on(Heap::new(768 << 10), &create, &open).unwrap();
        let disk = Disk::default();
        let mut lane = pool.lane().unwrap();
        pool.checkpoint_on(&disk).unwrap();
        let mut blocks = Vec::new();
        for round in 0..6 {
            // A class that is new each time: its chunk is formatted, and kept by the aborted one.
            let bytes = 16 << round;
            let cancelled = lane.run(|tx| {
                let block = tx.alloc(bytes, BlockKind::Key)?;
                tx.store_u64(block, 1)?;
                Err::<(), _>(crate::Abort::cancelled("given up"))
            });
            assert!(cancelled.is_err());
            blocks.push(
                lane.run(|tx| {
                    let block = tx.alloc(bytes, BlockKind::Value)?;
                    tx.store(block, &vec![9; bytes as usize])?;
                    tx.set_root(block, RootKind::Opaque)?;
                    Ok(block)
                })
                .unwrap(),
            );
            if round == 3 {
                lane.run(|tx| tx.free(blocks[0])).unwrap();
            }
            let report = pool.checkpoint_on(&disk).unwrap();
            assert_eq!(report.pages_compared, 0);
            assert!(restored(&disk).unwrap() == expected(&pool), "{} {round}", row.scheme);
        }
    }
}

/// Checksums take in what a block held before it was taken, also what the log had left there.
#[test]
fn checksums_fit_what_nobody_stored() {
    for scheme in [crate::Scheme::UndoArchapt, crate::Scheme::RedoArchapt] {
        let create = CreateOptions {
            lanes: 2,
            lane_bytes: 1024,
            checksums: true,
            ..CreateOptions::default()
        };
        let open = OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(scheme) };
        let pool = Pool::create_on(Heap::new(512 << 10), &create, &open).unwrap();
        let disk = Disk::default();
        let mut lane = pool.lane().unwrap();
        let root = lane.run(|tx| tx.alloc(3000, BlockKind::General)).unwrap();
        pool.checkpoint_on(&disk).unwrap();
        let faults = || {
            let medium = Heap::from_bytes(&restored(&disk).unwrap());
            let recovered =
                crate::recover::UnrecoveredPool::open(medium).unwrap().recover().unwrap();
            recovered.faults()
        };
        for bytes in [20_000, 100] {
            // Too long for the ring, so the log goes to what is free.
            for value in 1..10 {
                lane.run(|tx| tx.store(root, &[value; 3000])).unwrap();
            }
            pool.checkpoint_on(&disk).unwrap();
            assert_eq!(faults(), [], "{scheme}");
            writeback::sweep(&pool, 0, writeback::Reach::All);
            for _ in 0..5 {
                lane.run(|tx| tx.alloc(bytes, BlockKind::General)).unwrap();
            }
            lane.run(|tx| tx.store_u64(root, 1)).unwrap();
            let report = pool.checkpoint_on(&disk).unwrap();
            assert_eq!(report.pages_compared, 0);
            assert_eq!(faults(), [], "{scheme}, {bytes}");
        }
    }
}

#[test]
fn a_file_cut_off_anywhere_gives_the_checkpoint_before() {
    let (_, _, disk, states, lengths) = three();
    let whole = disk.file();
    for len in 0..whole.len() {
        let cut = restored(&Disk::with_file(whole[..len].to_vec()));
        match lengths.iter().rposition(|end| *end <= len) {
            Some(last) => assert!(cut.unwrap() == states[last], "cut off at {len}"),
            None if len == 0 => {
                assert!(matches!(cut, Err(CheckpointError::NotACheckpoint { .. })));
            }
            None => assert!(matches!(cut, Err(CheckpointError::Incomplete { .. })), "{len}"),
        }
    }
}

#[test]
fn a_cut_off_tail_is_written_over() {
    let (pool, root, disk, _, lengths) = three();
    let whole = disk.file();
    for len in (lengths[1] + 1..lengths[2]).step_by(777) {
        let cut = Disk::with_file(whole[..len].to_vec());
        fill(&pool, root, 7..8, len as u64);
        assert_eq!(checkpoint(&pool, &cut).number, 3);
    }
}

#[test]
fn every_flipped_byte_is_noticed_or_of_no_account() {
    let (_, _, disk, states, lengths) = three();
    let whole = disk.file();
    // Of what segment and part each byte is.
    let mut header = [0; SECTOR_BYTES as usize];
    header.copy_from_slice(&whole[lengths[1]..][..SECTOR_BYTES as usize]);
    let format::Found::Whole(header) = SegmentHeader::from_sector(&header) else {
        panic!("the third segment begins there")
    };
    let (mut noticed, mut harmless) = (0, 0);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        match restored(&Disk::with_file(bytes)) {
            Err(CheckpointError::Damaged { .. } | CheckpointError::NotACheckpoint { .. }) => {
                noticed += 1;
            }
            Err(other) => panic!("byte {at}: {other}"),
            Ok(found) => {
                assert!(found == states[2], "byte {at} changes what is restored");
                assert!(at < lengths[1], "byte {at} of the last segment goes unnoticed");
                harmless += 1;
            }
        }
    }
    // Only pages that newer ones replace are of no account: of the first segment the pages 2 to 4
    // and the header's, of the second both and the header's; of them some may be read for naught.
    assert_eq!(header.zero, 2, "pages 3 and 4 are zero again");
    assert_eq!(harmless, 4096 * (4 + 2), "and {noticed} noticed");
}

#[test]
fn other_files_are_refused_and_left_alone() {
    let (pool, _, disk, _, _) = three();
    let (other, _) = self::pool();
    let error = other.checkpoint_on(&disk).unwrap_err();
    assert!(matches!(error, CheckpointError::OtherPool { .. }), "{error}");
    for bytes in [b"#!/bin/sh\n".repeat(100), vec![0; 5000], Vec::new(), vec![7; 3]] {
        let disk = Disk::with_file(bytes.clone());
        let error = pool.checkpoint_on(&disk).unwrap_err();
        let refused = matches!(error, CheckpointError::NotACheckpoint { .. });
        assert!(refused && disk.file() == bytes, "{error}");
    }
}

#[test]
fn a_full_disk_leaves_the_former_checkpoint_and_the_next_one_works() {
    let (pool, root, disk, states, _) = three();
    for writes in 0..4 {
        fill(&pool, root, 5..7, 100 + writes);
        disk.fail_after_writes(Some(writes as usize));
        let error = pool.checkpoint_on(&disk).unwrap_err();
        assert!(error.to_string().contains("cannot write it"), "{error}");
        if writes < 3 {
            assert!(restored(&disk).unwrap() == states[2]);
        }
        disk.fail_after_writes(None);
    }
    assert!(checkpoint(&pool, &disk).pages_compared > 0);
}

#[test]
fn a_file_of_mostly_dead_pages_is_written_anew() {
    let (pool, root, disk, _, _) = three();
    let mut compacted = 0;
    for value in 10..60 {
        fill(&pool, root, 0..PAGES / 2, value);
        let report = checkpoint(&pool, &disk);
        compacted += usize::from(report.compacted);
        assert_eq!(report.pages_compared, 0, "and the marks count on");
        let live = expected(&pool).chunks(4096).filter(|page| page.iter().any(|b| *b != 0)).count();
        assert!(report.file_bytes <= 2 * live as u64 * 4096 + DEAD_BYTES);
        assert_eq!(report.file_bytes, disk.file().len() as u64);
    }
    assert!(compacted >= 3);
}

/// Every crash while a checkpoint is made; how many images were looked at, or what was wrong.
fn crash_everywhere(
    before: &Content,
    told: &[Told],
    new: &[u8],
) -> std::result::Result<usize, String> {
    let former = restored(&Disk::of(before.clone()));
    let mut images = 0;
    for end in 0..=told.len() {
        let told_so_far = &told[..end];
        let (_, pieces) = crashed(before, told_so_far, Keep::All);
        let step = pieces.div_ceil(40).max(1);
        let keeps = [Keep::All, Keep::Nothing].into_iter();
        let keeps = keeps.chain((0..pieces).step_by(step).map(Keep::AllBut));
        let keeps = keeps.chain((0..pieces).step_by(step).map(Keep::Only));
        for keep in keeps.chain((0..30).map(Keep::Drawn)) {
            let (content, _) = crashed(before, told_so_far, keep);
            let is_new = match (restored(&Disk::of(content)), &former) {
                (Ok(found), _) if found == new => true,
                (Ok(found), Ok(former)) if found == *former => false,
                (Err(CheckpointError::Missing { .. }), Err(_)) => false,
                (Ok(_), _) => return Err(format!("a third state after {end} calls, {keep:?}")),
                (Err(error), _) => return Err(format!("{error} after {end} calls, {keep:?}")),
            };
            if end == told.len() && !is_new {
                return Err(format!("made and then lost, {keep:?}"));
            }
            images += 1;
        }
    }
    Ok(images)
}

/// Makes a pool and a disk on which the next checkpoint is of that sort.
type Prepare = Box<dyn Fn() -> (Pool<Heap>, Disk)>;

/// Checkpoints of every sort: the first of a file, one that continues, one over a cut-off tail, and
/// one that is followed by the writing anew of the file.
fn sorts() -> Vec<(&'static str, Prepare)> {
    let first = || {
        let (pool, root) = pool();
        fill(&pool, root, 0..PAGES, 1);
        (pool, Disk::default())
    };
    let next = || {
        let (pool, root, disk, _, _) = three();
        fill(&pool, root, 4..7, 8);
        (pool, disk)
    };
    let over_a_tail = || {
        let (pool, root, disk, _, lengths) = three();
        let mut file = disk.file();
        // All of the last one but its trailer.
        file.truncate(lengths[2] - SECTOR_BYTES as usize);
        fill(&pool, root, 0..3, 8);
        (pool, Disk::with_file(file))
    };
    let anew = || {
        let (pool, root, disk, _, _) = three();
        for value in 20.. {
            fill(&pool, root, 0..PAGES, value);
            if disk.file().len() > 100 << 10 {
                break;
            }
            pool.checkpoint_on(&disk).unwrap();
        }
        (pool, disk)
    };
    vec![
        ("first", Box::new(first)),
        ("next", Box::new(next)),
        ("over a tail", Box::new(over_a_tail)),
        ("anew", Box::new(anew)),
    ]
}

#[test]
fn a_crash_leaves_the_former_checkpoint_or_the_new_one() {
    let mut images = 0;
    for (sort, prepared) in sorts() {
        let (pool, disk) = prepared();
        let before = disk.content();
        disk.take_record();
        let report = pool.checkpoint_on(&disk).unwrap();
        disk.returned();
        assert_eq!(report.compacted, sort == "anew");
        let told = disk.take_record();
        let result = crash_everywhere(&before, &told, &expected(&pool));
        images += result.unwrap_or_else(|error| panic!("{sort}: {error}"));
        // And whatever is left, the next checkpoint can go on from it.
        for end in 0..told.len() {
            let (content, _) = crashed(&before, &told[..end], Keep::Drawn(end as u64));
            checkpoint(&pool, &Disk::of(content));
        }
    }
    println!("{images} images");
}

#[test]
fn every_sync_is_needed() {
    for (sort, prepared) in sorts() {
        let syncs = {
            let (pool, disk) = prepared();
            disk.take_record();
            pool.checkpoint_on(&disk).unwrap();
            let told = disk.take_record();
            told.iter().filter(|told| matches!(told, Told::Sync { .. })).count()
        };
        assert!(syncs >= 1);
        // Where the file is written anew within the same call, that one's sync suffices for both.
        let first = if sort == "anew" { syncs - 1 } else { 0 };
        for number in first..syncs {
            let (pool, disk) = prepared();
            let before = disk.content();
            disk.take_record();
            disk.forget_sync(Some(number));
            pool.checkpoint_on(&disk).unwrap();
            disk.returned();
            let told = disk.take_record();
            let result = crash_everywhere(&before, &told, &expected(&pool));
            let error = result.expect_err("a sync that nothing needs");
            println!("{sort}, without sync {number} of {syncs}: {error}");
        }
    }
}

#[test]
fn a_thread_with_a_transaction_does_not_wait_for_itself() {
    let (pool, root) = pool();
    let disk = Disk::default();
    let mut running = pool.lane().unwrap().begin();
    running.store_u64(root, 5).unwrap();
    assert!(matches!(pool.checkpoint_on(&disk), Err(CheckpointError::InTransaction)));
    drop(running);
    checkpoint(&pool, &disk);
}

#[test]
fn pages_that_the_pool_did_not_have_for_a_while_are_zero_when_it_grows() {
    // A file that knows the pool when it was longer.
    let (pool, _, disk, _, _) = three();
    let page = pool.pages() + 3;
    let catalog = Catalog::read(&disk, &disk.open().unwrap().unwrap(), None).unwrap();
    let file = disk.open().unwrap().unwrap();
    let mut writer = SegmentWriter::new(&disk, &file, catalog.end);
    writer.put(page, &[7; PAGE_BYTES as usize]).unwrap();
    let newest = catalog.newest.unwrap();
    let longer = SegmentHeader {
        id: Uuid::new_v4(),
        previous: newest.id,
        number: newest.number + 1,
        pool_bytes: (page + 1) * PAGE_BYTES,
        ..newest
    };
    writer.finish(longer).unwrap();
    assert_eq!(restored(&disk).unwrap()[page as usize * 4096], 7);
    checkpoint(&pool, &disk);
    let catalog = Catalog::read(&disk, &disk.open().unwrap().unwrap(), None).unwrap();
    assert_eq!(catalog.page(page), None);
}
