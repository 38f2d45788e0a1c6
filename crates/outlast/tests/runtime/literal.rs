//! The literal variants where nothing in the cache is lost: then they must lose nothing either, so
//! that what crash tests show of them is the published protocol's doing.

use std::collections::BTreeMap;

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::scheme::Reading;
use outlast::{Abort, BlockKind, Pool, PoolError, PoolOffset, RootKind, Runner, Scheme, Transact};
use outlast_pmem::Heap;
use outlast_trace::Random;

const LITERAL: [Scheme; 2] = [Scheme::UndoArchaptLiteral, Scheme::RedoArchaptLiteral];

/// Blocks at a time, each with a word in the root block.
const SLOTS: u64 = 24;

const SIZES: [u64; 8] = [16, 32, 48, 64, 128, 320, 700, 5000];

fn options(scheme: Scheme) -> OpenOptions {
    OpenOptions {
        lock_stripes: 64,
        cache_bytes: Some(640),
        sample_bits: 0,
        step_every: 1,
        ..OpenOptions::with_scheme(scheme)
    }
}

fn create(scheme: Scheme, open: &OpenOptions) -> (Pool<Heap>, PoolOffset) {
    let create = CreateOptions { lanes: 2, lane_bytes: 4096, ..CreateOptions::default() };
    let pool = Pool::create_on(Heap::new(1 << 20), &create, open).unwrap();
    let root = pool.lane().unwrap().run(|tx| {
        let root = tx.alloc(SLOTS * 8, BlockKind::General)?;
        tx.store(root, &[0; SLOTS as usize * 8])?;
        tx.set_root(root, RootKind::Opaque)?;
        Ok(root)
    });
    assert_eq!(pool.scheme(), scheme);
    (pool, root.unwrap())
}

/// What each slot's block holds.
type Model = BTreeMap<u64, Vec<u64>>;

/// Changes some slots in one transaction, which may give up.
fn step(
    lane: &mut impl Runner,
    root: PoolOffset,
    model: &mut Model,
    random: &mut Random,
) -> Result<(), Abort> {
    let mut next = model.clone();
    let gives_up = random.below(6) == 0;
    let plan: Vec<[u64; 4]> = (0..1 + random.below(4))
        .map(|_| [random.below(SLOTS), random.below(8), random.below(3), random.below(1 << 30)])
        .collect();
    let done = lane.run(|tx| {
        next.clone_from(model);
        for [slot, size, what, value] in &plan {
            let at = root.plus(slot * 8);
            let block = PoolOffset(tx.load_u64(at)?);
            match (next.get_mut(slot), what) {
                (None, _) => {
                    let words = vec![*value; SIZES[*size as usize] as usize / 8];
                    let block = tx.alloc(words.len() as u64 * 8, BlockKind::General)?;
                    for (word, value) in (0..).zip(&words) {
                        tx.store_u64(block.plus(word * 8), *value)?;
                    }
                    tx.store_u64(at, block.0)?;
                    next.insert(*slot, words);
                }
                (Some(_), 0) => {
                    tx.free(block)?;
                    tx.store_u64(at, 0)?;
                    next.remove(slot);
                }
                (Some(words), _) => {
                    let word = value % words.len() as u64;
                    tx.store_u64(block.plus(word * 8), *value)?;
                    words[word as usize] = *value;
                }
            }
        }
        if gives_up { Err(Abort::cancelled("given up")) } else { Ok(()) }
    });
    match done {
        Ok(()) => *model = next,
        Err(Abort::Cancelled(_)) if gives_up => {}
        Err(other) => return Err(other),
    }
    Ok(())
}

/// Recovers these bytes; everything is as the model has it, and all checksums agree.
fn judge(bytes: &[u8], root: PoolOffset, model: &Model) {
    let pool = UnrecoveredPool::open(Heap::from_bytes(bytes)).unwrap().recover().unwrap();
    assert_eq!(pool.corrected_lines(), [], "nothing was stale");
    assert_eq!(pool.faults(), []);
    let word = |at: PoolOffset| outlast_pmem::Medium::load_u64(pool.medium(), at);
    for slot in 0..SLOTS {
        let block = PoolOffset(word(root.plus(slot * 8)));
        match model.get(&slot) {
            None => assert_eq!(block.0, 0, "slot {slot}"),
            Some(words) => {
                for (i, value) in (0..).zip(words) {
                    assert_eq!(word(block.plus(i * 8)), *value, "slot {slot}, word {i}");
                }
            }
        }
    }
    let report = &mut Default::default();
    assert_eq!(pool.allocated_blocks(report).len(), model.len() + 1);
    assert_eq!(report.findings, []);
}

fn work(scheme: Scheme, reading: Reading, seed: u64) -> (u64, u64) {
    let open = OpenOptions { reading, ..options(scheme) };
    let (pool, root) = create(scheme, &open);
    let (mut model, mut random) = (Model::new(), Random::new(seed));
    let mut pool = Some(pool);
    let (mut physical, mut logical) = (0, 0);
    for round in 0..30 {
        let running = pool.take().unwrap();
        let mut lane = running.lane().unwrap();
        for _ in 0..20 {
            step(&mut lane, root, &mut model, &mut random).unwrap();
            let (_, ticket) = lane
                .run_ticketed(|tx| {
                    let word = tx.load_u64(root)?;
                    tx.store_u64(root, word)
                })
                .unwrap();
            step(&mut lane, root, &mut model, &mut random).unwrap();
            if running.is_physical(ticket) {
                physical += 1
            } else {
                logical += 1
            };
        }
        drop(lane);
        if scheme == Scheme::RedoArchaptLiteral {
            judge(&running.medium().to_bytes(), root, &model);
        }
        let medium = if round % 2 == 0 || scheme == Scheme::UndoArchaptLiteral {
            running.close()
        } else {
            running.into_medium()
        };
        judge(&medium.to_bytes(), root, &model);
        let recovered = UnrecoveredPool::open(medium).unwrap().recover().unwrap();
        pool = Some(recovered.start(&open).unwrap());
    }
    (physical, logical)
}

#[test]
fn without_a_cache_that_forgets_nothing_is_lost_and_nothing_corrected() {
    for scheme in LITERAL {
        for seed in 1..6 {
            let (physical, logical) = work(scheme, Reading::BothAtEviction, seed);
            assert!(physical > 0 && logical > 0, "{scheme}: {physical} and {logical}");
            work(scheme, Reading::RowsOnceBuilt, seed);
        }
    }
}

/// What is logically committed redo repeats and undo takes back (ARC-1), aborted or not beside it.
#[test]
fn undo_takes_back_what_is_only_logically_committed() {
    for scheme in LITERAL {
        // A queue that nothing leaves.
        let open = OpenOptions { cache_bytes: None, ..options(scheme) };
        let (pool, root) = create(scheme, &open);
        let pool = UnrecoveredPool::open(pool.close()).unwrap().recover().unwrap();
        let pool = pool.start(&open).unwrap();
        let mut lane = pool.lane().unwrap();
        let ((), first) = lane.run_ticketed(|tx| tx.store_u64(root, 5)).unwrap();
        let cancelled = lane.run(|tx| {
            tx.store_u64(root.plus(64), 6)?;
            Err::<(), _>(Abort::cancelled("given up"))
        });
        assert!(cancelled.is_err());
        // Its line is touched again, which flushes it.
        let ((), second) = lane.run_ticketed(|tx| tx.store_u64(root, 7)).unwrap();
        assert!(pool.is_physical(first) && !pool.is_physical(second));
        let copy = Heap::from_bytes(&pool.medium().to_bytes());
        let recovered = UnrecoveredPool::open(copy).unwrap().recover().unwrap();
        let left = outlast_pmem::Medium::load_u64(recovered.medium(), root);
        let taken_back = scheme == Scheme::UndoArchaptLiteral;
        assert_eq!(left, if taken_back { 5 } else { 7 }, "{scheme}");
        let report = recovered.report();
        assert_eq!(
            (report.undone, report.replayed > 0),
            (usize::from(taken_back) * 2, !taken_back)
        );
    }
}

#[test]
fn a_pool_is_one_of_a_literal_variant_or_none() {
    for literal in LITERAL {
        let (pool, _) = create(literal, &options(literal));
        assert!(pool.header().geometry.literal && pool.header().geometry.checksums);
        let bytes = pool.close().to_bytes();
        for other in outlast::scheme::SCHEMES.iter().filter(|row| !row.scheme.is_published()) {
            let pool = UnrecoveredPool::open(Heap::from_bytes(&bytes)).unwrap();
            let error = pool.recover().unwrap().start(&options(other.scheme)).err();
            assert!(matches!(error, Some(PoolError::Literal { given }) if given == other.scheme));
        }
    }
    for checksums in [false, true] {
        let create = CreateOptions { checksums, lanes: 1, ..CreateOptions::default() };
        let open = options(Scheme::RedoArchapt);
        let bytes = Pool::create_on(Heap::new(4 << 20), &create, &open).unwrap().close().to_bytes();
        for literal in LITERAL {
            let pool = UnrecoveredPool::open(Heap::from_bytes(&bytes)).unwrap();
            let error = pool.recover().unwrap().start(&options(literal)).err().unwrap();
            assert!(matches!(error, PoolError::NotLiteral { given } if given == literal));
            assert!(error.to_string().contains("--literal"), "{error}");
        }
    }
}
