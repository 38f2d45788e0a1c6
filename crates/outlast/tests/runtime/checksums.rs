//! Pools that keep checksums: what is damaged is found, located, repaired or named.

use std::collections::BTreeMap;

use outlast::inspect::Finding;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::{RecoveredPool, UnrecoveredPool};
use outlast::{Abort, BlockKind, Pool, PoolError, PoolOffset, RootKind, Runner, Scheme, Transact};
use outlast_pmem::{Heap, Medium};
use proptest::prelude::*;

const BY_AGE: [Scheme; 2] = [Scheme::UndoArchapt, Scheme::RedoArchapt];

fn create(chunk_bytes: u64) -> CreateOptions {
    CreateOptions {
        lanes: 2,
        lane_bytes: 4096,
        chunk_bytes: Some(chunk_bytes),
        checksums: true,
        ..CreateOptions::default()
    }
}

fn open(scheme: Scheme) -> OpenOptions {
    OpenOptions {
        lock_stripes: 64,
        cache_bytes: Some(4096),
        sample_bits: 0,
        step_every: 16,
        ..OpenOptions::with_scheme(scheme)
    }
}

fn pool(scheme: Scheme, bytes: u64, chunk_bytes: u64) -> Pool<Heap> {
    Pool::create_on(Heap::new(bytes), &create(chunk_bytes), &open(scheme)).unwrap()
}

fn recovered(medium: Heap) -> RecoveredPool<Heap> {
    UnrecoveredPool::open(medium).unwrap().recover().unwrap()
}

/// Blocks by address, with what each must hold.
type Blocks = BTreeMap<u64, Vec<u8>>;

/// One step of a random program.
#[derive(Clone, Debug)]
enum Step {
    Alloc(u16, u8),
    Store(usize, u16, u16, u8),
    Free(usize),
}

fn steps() -> impl Strategy<Value = Vec<Vec<(Step, bool)>>> {
    let step = prop_oneof![
        3 => (1u16..6000, any::<u8>()).prop_map(|(len, fill)| Step::Alloc(len, fill)),
        3 => (1u16..100, any::<u8>()).prop_map(|(len, fill)| Step::Alloc(len, fill)),
        6 => (any::<usize>(), any::<u16>(), 1u16..300, any::<u8>())
            .prop_map(|(which, at, len, fill)| Step::Store(which, at, len, fill)),
        2 => any::<usize>().prop_map(Step::Free),
    ];
    // A transaction is aborted when its last step says so.
    let transaction = prop::collection::vec((step, prop::bool::weighted(0.9)), 1..6);
    prop::collection::vec(transaction, 1..40)
}

/// Runs the program, its transactions dealt to two lanes.
fn run(pool: &Pool<Heap>, program: &[Vec<(Step, bool)>]) -> Blocks {
    let mut blocks = Blocks::new();
    let mut lanes = [pool.lane().unwrap(), pool.lane().unwrap()];
    for (i, transaction) in program.iter().enumerate() {
        let result = lanes[i % 2].run(|tx| {
            let mut now = blocks.clone();
            let nth = |now: &Blocks, n: usize| now.keys().nth(n % now.len().max(1)).copied();
            for (step, _) in transaction {
                match step {
                    Step::Alloc(len, fill) => {
                        let at = tx.alloc(u64::from(*len), BlockKind::General)?;
                        // Half of it only: the rest is what was there.
                        let mut bytes = vec![0; usize::from(*len)];
                        tx.load(at, &mut bytes)?;
                        let half = usize::from(*len).div_ceil(2);
                        bytes[..half].fill(*fill);
                        tx.store(at, &bytes[..half])?;
                        now.insert(at.0, bytes);
                    }
                    Step::Store(which, at, len, fill) => {
                        let Some(block) = nth(&now, *which) else { continue };
                        let bytes = now.get_mut(&block).unwrap();
                        let from = usize::from(*at) % bytes.len();
                        let to = (from + usize::from(*len)).min(bytes.len());
                        bytes[from..to].fill(*fill);
                        let stored = bytes[from..to].to_vec();
                        tx.store(PoolOffset(block + from as u64), &stored)?;
                    }
                    Step::Free(which) => {
                        let Some(block) = nth(&now, *which) else { continue };
                        tx.free(PoolOffset(block))?;
                        now.remove(&block);
                    }
                }
            }
            match transaction.last() {
                Some((_, true)) => Ok(now),
                _ => Err(Abort::cancelled("given up")),
            }
        });
        match result {
            Ok(now) => blocks = now,
            Err(Abort::Cancelled(_) | Abort::OutOfSpace { .. } | Abort::LogFull { .. }) => {}
            Err(abort) => panic!("{abort}"),
        }
    }
    blocks
}

fn assert_holds(medium: &Heap, blocks: &Blocks) {
    for (at, right) in blocks {
        let mut bytes = vec![0; right.len()];
        medium.load(PoolOffset(*at), &mut bytes);
        assert_eq!(bytes, *right, "block at {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 120 }))]

    /// Whatever transactions do, a pool that was closed has no faults; neither has one that was
    /// only left, once it is recovered, though all it stored is there.
    #[test]
    fn right_programs_have_no_faults(program in steps(), large in any::<bool>()) {
        for scheme in BY_AGE {
            let (bytes, chunk_bytes) = if large { (4 << 20, 64 << 10) } else { (1 << 20, 4096) };
            let pool = pool(scheme, bytes, chunk_bytes);
            let blocks = run(&pool, &program);
            let left = Heap::from_bytes(&pool.medium().to_bytes());
            let closed = recovered(pool.close());
            prop_assert_eq!(closed.report().replayed, 0);
            for pool in [recovered(left), closed] {
                prop_assert_eq!(pool.faults(), []);
                prop_assert_eq!(pool.check_metadata().0.findings, []);
                assert_holds(pool.medium(), &blocks);
            }
        }
    }

    /// One wrong line anywhere, checksums and bitmaps included, is found and put right.
    #[test]
    fn a_damaged_line_is_found_and_repaired(
        program in steps(), place in any::<prop::sample::Index>(), noise in any::<[u8; 64]>(),
    ) {
        for scheme in BY_AGE {
            let pool = pool(scheme, 1 << 20, 4096);
            let blocks = run(&pool, &program);
            let heap_at = pool.header().geometry.heap_at;
            let medium = recovered(pool.close()).into_medium();
            let right = medium.to_bytes();
            let lines: Vec<u64> = covered_lines(&medium, heap_at);
            if lines.is_empty() {
                continue;
            }
            let line = PoolOffset(*place.get(&lines));
            let mut bytes = [0; 64];
            medium.load(line, &mut bytes);
            bytes.iter_mut().zip(noise).for_each(|(byte, noise)| *byte ^= noise);
            medium.store(line, &bytes);
            let damaged = medium.to_bytes();
            let pool = recovered(medium);
            let faults = pool.faults();
            prop_assert!(faults.len() <= 1, "{:?}", faults);
            let report = pool.repair().unwrap();
            let is_leak = |finding: &Finding| matches!(finding, Finding::Leaked { .. });
            prop_assert!(report.left.iter().all(is_leak), "nothing is the root: {:?}", report.left);
            prop_assert_eq!(pool.faults(), []);
            assert_holds(pool.medium(), &blocks);
            if faults.is_empty() && damaged != right {
                // Then no block's data is in the line.
                prop_assert_eq!(report.lines + report.checksums, 0);
            }
        }
    }
}

/// Lines of chunks that hold blocks: their directory words do not say that they are free.
fn covered_lines(medium: &Heap, heap_at: u64) -> Vec<u64> {
    let mut inside = false;
    let chunks = (medium.len() - heap_at) / 4096;
    (1..chunks.min(512))
        .filter(|chunk| {
            let word = medium.load_u64(PoolOffset(heap_at + chunk * 8));
            inside = word << 8 != 0;
            inside
        })
        .flat_map(|chunk| (0..64).map(move |line| heap_at + chunk * 4096 + line * 64))
        .collect()
}

/// A pool with 24 blocks of 128 bytes, which fill most of a page.
fn filled(scheme: Scheme) -> (Pool<Heap>, Vec<PoolOffset>) {
    let pool = pool(scheme, 1 << 20, 4096);
    let mut lane = pool.lane().unwrap();
    let blocks: Vec<PoolOffset> = (0..24u8)
        .map(|i| {
            lane.run(|tx| {
                let at = tx.alloc(128, BlockKind::Value)?;
                tx.store(at, &[i + 1; 128])?;
                tx.set_root(at, RootKind::Opaque)?;
                Ok(at)
            })
            .unwrap()
        })
        .collect();
    drop(lane);
    (pool, blocks)
}

#[test]
fn several_damaged_lines_of_a_page_are_repaired_and_too_many_are_named() {
    for scheme in BY_AGE {
        let (pool, blocks) = filled(scheme);
        let medium = recovered(pool.close()).into_medium();
        // The floor moves with every opening.
        let heap_of = |medium: &Heap| medium.to_bytes()[12 << 10..].to_vec();
        let right = heap_of(&medium);
        for block in &blocks[..3] {
            medium.store(block.plus(64), &[0xee; 64]);
        }
        let pool = recovered(medium);
        let faults = pool.faults();
        assert_eq!(faults.len(), 1);
        let concerned: Vec<PoolOffset> = faults[0].blocks.iter().map(|block| block.at).collect();
        assert_eq!(concerned, blocks[..3]);
        assert!(faults[0].correctable);
        let report = pool.repair().unwrap();
        assert_eq!((report.lines, report.left.len()), (3, 0));
        assert!(heap_of(pool.medium()) == right);

        // Whole blocks that lie in the same two rows of two columns form a rectangle.
        let medium = pool.into_medium();
        let all: Vec<PoolOffset> = blocks[..12].to_vec();
        for block in &all {
            let noise: Vec<u8> = (0..128u8).map(|i| i.wrapping_mul(37) ^ 0x5a).collect();
            medium.store(*block, &noise);
        }
        let damaged = heap_of(&medium);
        let pool = recovered(medium);
        let faults = pool.faults();
        assert_eq!(faults.len(), 1);
        assert!(!faults[0].correctable, "{}", faults[0]);
        for at in &all {
            assert!(faults[0].blocks.iter().any(|block| block.at == *at), "{at}: {}", faults[0]);
        }
        assert!(faults[0].to_string().contains(&format!("128 bytes at {}", all[0])));
        let left: Vec<Finding> = faults.into_iter().map(Finding::Fault).collect();
        assert_eq!(pool.repair().unwrap().left, left);
        assert!(heap_of(pool.medium()) == damaged, "what is not understood is left alone");
    }
}

#[test]
fn damage_beside_the_stores_of_later_transactions_stays_visible() {
    for scheme in BY_AGE {
        let (pool, blocks) = filled(scheme);
        let medium = recovered(pool.close()).into_medium();
        medium.store(blocks[5].plus(8), &[0xee; 3]);
        let pool = recovered(medium).start(&open(scheme)).unwrap();
        let mut lane = pool.lane().unwrap();
        for round in 0..50u64 {
            // Also to the damaged line itself.
            lane.run(|tx| {
                tx.store_u64(blocks[4], round)?;
                tx.store_u64(blocks[5].plus(48), round)?;
                tx.free(blocks[20 - round as usize % 2]).and_then(|()| {
                    let again = tx.alloc(128, BlockKind::Value)?;
                    tx.store(again, &[9; 128])?;
                    Err::<(), _>(Abort::cancelled("given up"))
                })
            })
            .unwrap_err();
            lane.run(|tx| {
                tx.store_u64(blocks[4], round)?;
                tx.store_u64(blocks[5].plus(48), round)
            })
            .unwrap();
        }
        drop(lane);
        let pool = recovered(pool.close());
        assert_eq!(pool.faults().len(), 1);
        assert_eq!(pool.repair().unwrap().lines, 1);
        let mut bytes = [0; 64];
        pool.medium().load(blocks[5], &mut bytes);
        let mut right = [6; 64];
        right[48..56].copy_from_slice(&49u64.to_le_bytes());
        assert_eq!(bytes, right);
    }
}

#[test]
fn damage_in_a_page_that_the_log_has_changed_is_an_error_and_is_not_summed_up() {
    for scheme in BY_AGE {
        let (pool, blocks) = filled(scheme);
        let medium = recovered(pool.close()).into_medium();
        let pool = recovered(medium).start(&open(scheme)).unwrap();
        pool.lane().unwrap().run(|tx| tx.store_u64(blocks[4], 77)).unwrap();
        let medium = Heap::from_bytes(&pool.medium().to_bytes());
        medium.store(blocks[6], &[0xee; 8]);
        let error = UnrecoveredPool::open(medium).unwrap().recover().err().unwrap();
        let PoolError::Fault { at, block, bytes } = error else { panic!("{error}") };
        assert_eq!((at, block, bytes), (blocks[6], blocks[6], 128));
    }
}

/// Damaged, the pool is refused with the line and its block, and no byte of it changes.
#[track_caller]
fn assert_fault(medium: &Heap, line: PoolOffset, block: PoolOffset) {
    let before = medium.to_bytes();
    let error = UnrecoveredPool::open(medium).unwrap().recover().err();
    match error.expect("the damage is noticed") {
        PoolError::Fault { at, block: named, .. } => assert_eq!((at, named), (line, block)),
        error => panic!("{error}"),
    }
    assert!(medium.to_bytes() == before, "something was stored");
}

/// The line that a live record changes in part is itself proven before its sums are made anew.
#[test]
fn damage_beside_the_words_of_a_live_record_is_an_error_and_nothing_is_stored() {
    for scheme in BY_AGE {
        let (pool, blocks) = filled(scheme);
        let pool = recovered(pool.close()).start(&open(scheme)).unwrap();
        let mut lane = pool.lane().unwrap();
        for number in 0..3 {
            lane.run(|tx| tx.store_u64(blocks[4], number)).unwrap();
            lane.run(|tx| tx.store_u64(blocks[9].plus(8), number)).unwrap();
        }
        drop(lane);
        let image = pool.medium().to_bytes();
        assert!(UnrecoveredPool::open(Heap::from_bytes(&image)).unwrap().recover().is_ok());
        for word in 1..8 {
            let medium = Heap::from_bytes(&image);
            let at = blocks[4].plus(word * 8);
            medium.store_u64(at, medium.load_u64(at) ^ 1 << (7 * word));
            assert_fault(&medium, blocks[4], blocks[4]);
        }
    }
}

/// Nor does another line pass that no record names, if its CRC-8 happens to be right.
#[test]
fn a_line_whose_crc_collides_in_a_page_that_the_log_has_changed_is_an_error() {
    for scheme in BY_AGE {
        let (pool, blocks) = filled(scheme);
        let pool = recovered(pool.close()).start(&open(scheme)).unwrap();
        pool.lane().unwrap().run(|tx| tx.store_u64(blocks[4], 77)).unwrap();
        let medium = Heap::from_bytes(&pool.medium().to_bytes());
        collide(&medium, blocks[6]);
        assert_fault(&medium, blocks[6], blocks[6]);
    }
}

/// Changes a line so that its CRC-8 stays.
fn collide(medium: &Heap, at: PoolOffset) {
    let mut line = [0; 8];
    medium.load(at, bytemuck::cast_slice_mut(&mut line));
    let right = outlast_matrix::crc8(&line);
    line[3] ^= 0x5a;
    while outlast_matrix::crc8(&line) != right {
        line[5] += 1;
    }
    medium.store(at, bytemuck::cast_slice(&line));
}

/// What a record leaves out of a new block is proven by the record all the same.
#[test]
fn damage_in_a_new_block_that_the_log_leaves_out_is_an_error() {
    for scheme in BY_AGE {
        let pool = pool(scheme, 1 << 20, 16 << 10);
        let block = pool.lane().unwrap().run(|tx| {
            let block = tx.alloc(3000, BlockKind::Value)?;
            tx.store(block, &[7; 3000])?;
            tx.set_root(block, RootKind::Opaque)?;
            Ok(block)
        });
        let block = block.unwrap();
        let medium = Heap::from_bytes(&pool.medium().to_bytes());
        medium.store_u64(block.plus(2048), 1);
        assert_fault(&medium, block, block);
    }
}

/// A lane may store to another's new block under the same number as that one took it: contents of
/// large new blocks are in no record, so nothing orders the two.
#[test]
fn stores_to_a_new_block_of_another_lane_are_no_damage() {
    for scheme in BY_AGE {
        let pool = pool(scheme, 4 << 20, 64 << 10);
        let mut lanes = [pool.lane().unwrap(), pool.lane().unwrap()];
        let first = lanes[0].run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
        let block = lanes[1].run(|tx| {
            tx.store_u64(first, 1)?;
            let block = tx.alloc(5000, BlockKind::General)?;
            tx.store(block, &[3; 5000])?;
            Ok(block)
        });
        let block = block.unwrap();
        for number in 0..3 {
            lanes[0].run(|tx| tx.store_u64(block.plus(4000), number)).unwrap();
        }
        drop(lanes);
        let left = recovered(Heap::from_bytes(&pool.medium().to_bytes()));
        assert_eq!(left.faults(), []);
    }
}

#[test]
fn a_line_whose_crc_collides_beside_a_damaged_checksum_is_named_and_left_alone() {
    for scheme in BY_AGE {
        let (pool, blocks) = filled(scheme);
        let medium = recovered(pool.close()).into_medium();
        collide(&medium, blocks[3]);
        // Line 7c + r is at row r, column c; the rows' sums are in the page's lines 56 to 62.
        let page = PoolOffset(blocks[3].0 / 4096 * 4096);
        let row = (blocks[3].0 - page.0) / 64 % 7;
        medium.store_u64(page.plus((56 + (row + 1) % 7) * 64 + 24), 0xeeee);
        let pool = recovered(medium);
        let before = pool.medium().to_bytes();
        let faults = pool.faults();
        assert!(faults.len() == 1 && !faults[0].correctable, "{faults:?}");
        assert!(faults[0].blocks.iter().any(|block| block.at == blocks[3]), "{}", faults[0]);
        assert_eq!(pool.repair().unwrap().left, [Finding::Fault(faults[0].clone())]);
        assert!(pool.medium().to_bytes() == before, "what is undecided is left alone");
    }
}

#[test]
fn a_repair_that_cannot_look_at_a_page_does_not_succeed() {
    for scheme in BY_AGE {
        let (pool, blocks) = filled(scheme);
        let geometry = pool.header().geometry;
        let medium = recovered(pool.close()).into_medium();
        medium.store(blocks[3], &[0xee; 64]);
        let pool = recovered(medium);
        assert_eq!(pool.faults().len(), 1);
        let word = geometry.directory_at(geometry.chunk_of(blocks[3]));
        pool.medium().store_u64(word, pool.medium().load_u64(word) ^ 1 << 33);
        assert_eq!(pool.faults(), [], "nothing says that there are blocks");
        let report = pool.repair().unwrap();
        let is_named =
            |finding: &Finding| matches!(finding, Finding::Damaged { at, .. } if *at == word);
        assert!(report.left.iter().any(is_named), "{:?}", report.left);
    }
}

#[test]
fn a_pool_with_checksums_wants_a_scheme_that_keeps_them() {
    for scheme in [Scheme::None, Scheme::Undo, Scheme::Redo, Scheme::Swift] {
        let error = Pool::create_on(Heap::new(1 << 20), &create(4096), &open(scheme)).err();
        assert!(matches!(error, Some(PoolError::KeepsChecksums { given }) if given == scheme));
    }
}

#[test]
fn a_header_with_unknown_flags_is_refused() {
    let medium = filled(Scheme::RedoArchapt).0.close();
    medium.store_u64(PoolOffset(56), 17);
    let mut header = [0; 120];
    medium.load(PoolOffset(0), &mut header);
    medium.store(PoolOffset(120), &crc32c::crc32c(&header).to_le_bytes());
    let error = UnrecoveredPool::open(medium).err().unwrap();
    assert!(matches!(error, PoolError::Flags { found: 17 }), "{error}");
}
