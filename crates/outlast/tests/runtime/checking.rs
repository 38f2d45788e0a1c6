//! What a check says about blocks, against a model; and the steps that it tells.

use std::collections::BTreeMap;

use outlast::inspect::{CheckReport, CheckStage, FINDINGS_MAX, Finding};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::{RecoveredPool, UnrecoveredPool};
use outlast::{BlockKind, Pool, PoolOffset, Runner, Transact};
use outlast_pmem::Heap;

/// A pool with blocks of many sizes, some of which were freed, and those that are left.
fn filled(checksums: bool) -> (RecoveredPool<Heap>, BTreeMap<PoolOffset, u64>) {
    let create = CreateOptions { lanes: 1, checksums, ..CreateOptions::default() };
    let pool = Pool::create_on(Heap::new(4 << 20), &create, &OpenOptions::default()).unwrap();
    let mut lane = pool.lane().unwrap();
    let mut blocks = Vec::new();
    for n in 0..400u64 {
        let bytes = [16, 24, 64, 100, 640, 3000, 40_000][(n % 7) as usize];
        match lane.run(|tx| tx.alloc(bytes, BlockKind::ALL[(n % 4) as usize])) {
            Ok(block) => blocks.push(block),
            Err(full) => assert!(bytes == 40_000, "{full}"),
        }
    }
    for block in blocks.iter().step_by(3) {
        lane.run(|tx| tx.free(*block)).unwrap();
    }
    let left = blocks.iter().enumerate().filter(|(n, _)| n % 3 != 0).map(|(_, block)| *block);
    let sizes = lane.run(|tx| left.clone().map(|at| Ok((at, tx.block_at(at)?.0))).collect());
    drop(lane);
    (UnrecoveredPool::open(pool.close()).unwrap().read_only().unwrap(), sizes.unwrap())
}

#[test]
fn a_check_tells_what_leaks_from_what_is_not_there() {
    for checksums in [false, true] {
        let (pool, model) = filled(checksums);
        let mut report = CheckReport::default();
        assert_eq!(pool.allocated_blocks(&mut report), model);
        assert_eq!(report.blocks, model.len() as u64);
        assert_eq!(report.block_bytes, model.values().sum::<u64>());
        assert_eq!(report.findings, []);

        // Some are reached, two of them twice; what else is pointed to is no block.
        let every = |n: usize| model.iter().skip(n).step_by(5).map(|(at, bytes)| (*at, *bytes));
        let outside = [PoolOffset(0), PoolOffset(64), PoolOffset(4 << 20), PoolOffset(u64::MAX)];
        let checked = pool.check_with(|_, block| {
            (0..4).flat_map(every).for_each(|(at, bytes)| block(at, bytes));
            every(0).take(2).for_each(|(at, _)| block(at, 1));
            every(1).take(3).for_each(|(at, bytes)| block(at, bytes + 1));
            every(1).take(3).for_each(|(at, _)| block(at.plus(8), 8));
            outside.iter().for_each(|at| block(*at, 8));
            Ok(true)
        });
        let twice = every(0).take(2).map(|(at, _)| Finding::ReachedTwice { at });
        let none = |(at, bytes)| Finding::NotAllocated { at, bytes };
        let larger = every(1).take(3).map(|(at, bytes)| none((at, bytes + 1)));
        let inside = every(1).take(3).map(|(at, _)| none((at.plus(8), 8)));
        let outside = outside.iter().map(|at| none((*at, 8)));
        let leaked = every(4).map(|(at, bytes)| Finding::Leaked { at, bytes });
        let expected = twice.chain(larger).chain(inside).chain(outside).chain(leaked);
        assert_eq!(checked.findings, expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_check_tells_how_far_it_has_come() {
    for checksums in [false, true] {
        let (pool, _) = filled(checksums);
        let mut steps = Vec::new();
        pool.check_telling(&mut |step| steps.push(step));
        assert!(steps.is_sorted_by_key(|step| (step.stage, step.done)));
        assert!(steps.iter().all(|step| step.done <= step.total));
        let has = |stage| steps.iter().any(|step| step.stage == stage);
        assert!(has(CheckStage::Allocator));
        assert_eq!(has(CheckStage::Checksums), checksums);
        assert!(!has(CheckStage::Reachability), "the root is the program's own");
    }
}

/// A repair tells of itself and then of the check behind it.
#[test]
fn a_repair_tells_how_far_it_has_come() {
    let (pool, _) = filled(true);
    let image = pool.into_medium();
    let pool = UnrecoveredPool::open(image).unwrap().recover().unwrap();
    let mut steps = Vec::new();
    let report = pool.repair_telling(&mut |step| steps.push(step)).unwrap();
    assert!(report.left.iter().all(|finding| matches!(finding, Finding::Leaked { .. })));
    assert!(steps.is_sorted_by_key(|step| (step.stage, step.done)), "one pass: nothing is damaged");
    assert!(steps.iter().all(|step| step.done <= step.total));
    let of_repair = steps.iter().filter(|step| step.stage == CheckStage::Repair).count() as u64;
    assert_eq!(of_repair, report.matrices);
    assert!(steps.iter().any(|step| step.stage == CheckStage::Checksums));
}

/// A report keeps findings up to a limit and counts the others, from any part of the check.
#[test]
fn findings_are_kept_up_to_a_limit_and_counted_behind_it() {
    let (pool, model) = filled(false);
    let report = pool.check_with(|_, block| {
        (0..3000).for_each(|n| block(PoolOffset(8 + 64 * n), 8));
        Ok(true)
    });
    assert_eq!(report.findings.len(), FINDINGS_MAX);
    let none = |finding: &Finding| matches!(finding, Finding::NotAllocated { .. });
    assert!(report.findings.iter().all(none));
    let all = 3000 + model.len() as u64;
    assert_eq!((report.findings.count(), report.findings.more()), (all, all - 1000));
}

/// In a zone of free chunks no chunk is looked at for each that comes after it.
#[test]
fn free_chunks_with_checksums_are_looked_at_once() {
    use outlast_pmem::Recorder;
    let create = CreateOptions { lanes: 1, checksums: true, ..CreateOptions::default() };
    let pool = Pool::create_on(Heap::new(4 << 20), &create, &OpenOptions::default()).unwrap();
    let medium = Recorder::from_image(pool.close().to_bytes()).recording_loads();
    let pool = UnrecoveredPool::open(medium).unwrap().read_only().unwrap();
    let before = pool.medium().ops();
    assert_eq!(pool.faults(), []);
    let loads = (pool.medium().ops() - before) as u64;
    assert!(loads <= 4 * pool.chunks(), "{loads} loads for {} chunks", pool.chunks());
}

/// Recovery stores to an overlay, and the check is that of the pool recovered in place.
#[test]
fn a_recovered_overlay_is_checked_as_the_pool_would_be() {
    use crate::common::{live_redo_image, live_undo_image};
    use outlast_pmem::Overlay;
    for image in [live_redo_image(), live_undo_image()] {
        let below = Heap::from_bytes(&image);
        let above = UnrecoveredPool::open(Overlay::new(&below)).unwrap().recover().unwrap();
        let there = UnrecoveredPool::open(Heap::from_bytes(&image)).unwrap().recover().unwrap();
        assert_eq!(above.report(), there.report());
        let (above_check, there_check) = (above.check(), there.check());
        assert_eq!(above_check.findings, there_check.findings);
        assert_eq!(above_check.block_bytes, there_check.block_bytes);
        let changed = above.into_medium().changed_bytes();
        assert!(0 < changed && changed < image.len() as u64, "{changed} bytes were copied");
        assert!(below.to_bytes() == image, "nothing changes underneath");
    }
}
