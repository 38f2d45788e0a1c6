//! Disks that fail: each write in turn, under every scheme. The call that needed it returns the
//! cause, nothing panics, every later commit fails alike, and after a power cut at that moment, or a
//! new opening, all that was acknowledged is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outlast::checkpoint::CheckpointError;
use outlast::medium::{CreateOptions, MapOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{
    Abort, BlockKind, Domain, Lane, Pool, PoolError, PoolOffset, RootKind, Runner, Scheme, Transact,
};
use outlast_pmem::PageCache;
use outlast_trace::Random;

use crate::{sound_schemes, step};

const POOL_BYTES: u64 = 512 << 10;
const CELLS: u64 = 3;
const CELL_BYTES: u64 = 4096;
/// Transactions of each thread. Their records go round its ring.
const COUNTS: u64 = 24;

/// Memory, the disk behind it, and how a pool on them is laid out.
#[derive(Clone, Copy)]
struct Case {
    scheme: Scheme,
    /// Bytes of the log of fences, 0 for none: then fences write pages in place.
    fences: u64,
    threads: u64,
}

impl Case {
    fn open(self) -> OpenOptions {
        OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(self.scheme) }
    }

    fn create(self) -> CreateOptions {
        let fence_log_bytes = Some(self.fences);
        CreateOptions { lanes: 4, lane_bytes: 4096, fence_log_bytes, ..CreateOptions::default() }
    }
}

/// What each thread was told: `acked[thread]` counts are durable, and `tried[thread]` were begun.
struct Told {
    acked: Vec<AtomicU64>,
    tried: Vec<AtomicU64>,
}

impl Told {
    fn new(threads: u64) -> Self {
        let zeros = || (0..threads).map(|_| AtomicU64::new(0)).collect();
        Self { acked: zeros(), tried: zeros() }
    }
}

fn is_cause(text: &str) -> bool {
    text.contains("the page cache: cannot sync it") && text.contains("os error 5")
}

fn assert_medium(abort: &Abort, context: &str) {
    assert!(
        matches!(abort, Abort::Medium(_)) && is_cause(&abort.to_string()),
        "{context}: {abort}"
    );
}

fn cell(block: PoolOffset, thread: u64, index: u64) -> PoolOffset {
    block.plus((thread * CELLS + index) * CELL_BYTES)
}

fn make_cells(lane: &mut Lane<'_, Arc<PageCache>>, threads: u64) -> Result<PoolOffset, Abort> {
    lane.run(|tx| {
        let block = tx.alloc(threads * CELLS * CELL_BYTES, BlockKind::General)?;
        for thread in 0..threads {
            (0..CELLS).try_for_each(|index| tx.store_u64(cell(block, thread, index), 0))?;
        }
        tx.set_root(block, RootKind::Opaque)?;
        Ok(block)
    })
}

/// All cells of the thread hold `value` afterwards; a block comes, and the one before goes.
fn count(
    tx: &mut impl Transact,
    block: PoolOffset,
    thread: u64,
    value: u64,
    extra: &mut Option<PoolOffset>,
) -> Result<Option<PoolOffset>, Abort> {
    for index in 0..CELLS {
        tx.store_u64(cell(block, thread, index), value)?;
    }
    if let Some(old) = *extra {
        tx.free(old)?;
    }
    let new = tx.alloc(64 + 1024 * (value % 3), BlockKind::General)?;
    tx.store_u64(new, value)?;
    Ok(Some(new))
}

/// One thread's work until it is refused, and the proof that it is refused from then on.
fn work(pool: &Pool<Arc<PageCache>>, block: PoolOffset, thread: u64, told: &Told, context: &str) {
    let mut lane = match pool.lane() {
        Ok(lane) => lane,
        Err(error) => return assert!(is_cause(&error.to_string()), "{context}: {error}"),
    };
    let mut extra = None;
    for value in 1..=COUNTS {
        told.tried[thread as usize].store(value, Ordering::SeqCst);
        // Every third is put off, and waited for every sixth time.
        let is_put_off = value % 3 == 0;
        let mut was = extra;
        let done = match is_put_off {
            true => lane.run_later(|tx| count(tx, block, thread, value, &mut was)),
            false => lane.run(|tx| count(tx, block, thread, value, &mut was)),
        };
        let done = done.and_then(|new| {
            extra = new;
            if is_put_off && value % 2 == 0 { lane.sync() } else { Ok(()) }
        });
        match done {
            Ok(()) if is_put_off && value % 2 != 0 => {}
            Ok(()) => told.acked[thread as usize].store(value, Ordering::SeqCst),
            Err(abort) => {
                assert_medium(&abort, context);
                let again = lane.run(|tx| tx.store_u64(block, 0)).unwrap_err();
                assert_medium(&again, context);
                let read = lane.run(|tx| tx.load_u64(block)).unwrap_err();
                assert_medium(&read, context);
                assert_medium(&lane.sync().unwrap_err(), context);
                let (_, ended) = lane.begin().commit();
                assert_medium(&ended.unwrap_err(), context);
                return;
            }
        }
    }
}

/// What a run has come to: whether its disk failed, and where the cells are if they were made.
struct Outcome {
    has_failed: bool,
    block: Option<PoolOffset>,
    told: Told,
    medium: Arc<PageCache>,
}

fn run(case: Case, failing: u64) -> Outcome {
    let context = format!("{} with fences {}, write {failing}", case.scheme, case.fences);
    let medium = Arc::new(PageCache::new(POOL_BYTES).failing_at(failing));
    let told = Told::new(case.threads);
    let mut outcome = Outcome { has_failed: false, block: None, told, medium };
    let created = Pool::create_on(Arc::clone(&outcome.medium), &case.create(), &case.open());
    let pool = match created {
        Ok(pool) => pool,
        Err(error) => {
            assert!(is_cause(&error.to_string()), "{context}: {error}");
            outcome.has_failed = true;
            return outcome;
        }
    };
    match pool.lane().map(|mut lane| make_cells(&mut lane, case.threads)) {
        Ok(Ok(block)) => outcome.block = Some(block),
        Ok(Err(abort)) => assert_medium(&abort, &context),
        Err(error) => assert!(is_cause(&error.to_string()), "{context}: {error}"),
    }
    if let Some(block) = outcome.block {
        std::thread::scope(|scope| {
            for thread in 0..case.threads {
                let (pool, told, context) = (&pool, &outcome.told, &context);
                scope.spawn(move || work(pool, block, thread, told, context));
            }
        });
    }
    outcome.has_failed = pool.failure().is_some();
    if outcome.has_failed {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("checkpoint");
        let refused = pool.checkpoint(&target);
        assert!(matches!(refused, Err(CheckpointError::Medium(_))), "{context}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{context}");
        assert!(matches!(pool.grow(POOL_BYTES * 2), Err(PoolError::Medium(_))), "{context}");
        assert!(matches!(pool.sync(), Err(PoolError::Medium(_))), "{context}");
        assert!(matches!(pool.lane().err(), Some(PoolError::Medium(_))), "{context}");
        assert!(matches!(pool.try_close(), Err(PoolError::Medium(_))), "{context}");
    } else if pool.try_close().is_err() {
        // The last writes are those of the end.
        outcome.has_failed = true;
    }
    outcome
}

/// Each thread's cells hold the same in an image, at least what the thread was told.
fn judge(case: Case, outcome: &Outcome, image: &[u8], context: &str) {
    let Some(block) = outcome.block else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pool");
    std::fs::write(&path, image).unwrap();
    let map = MapOptions { domain: Some(Domain::Process), ..MapOptions::default() };
    let recovered = UnrecoveredPool::open_file(&path, &map).and_then(UnrecoveredPool::recover);
    let recovered = recovered.unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(recovered.check().findings.len(), 0, "{context}");
    let pool = recovered.start(&case.open()).unwrap();
    let mut lane = pool.lane().unwrap();
    for thread in 0..case.threads {
        let values = lane.run(|tx| {
            let cells = (0..CELLS).map(|index| tx.load_u64(cell(block, thread, index)));
            cells.collect::<Result<Vec<_>, _>>()
        });
        let values = values.unwrap();
        let told = |told: &[AtomicU64]| told[thread as usize].load(Ordering::SeqCst);
        let (acked, tried) = (told(&outcome.told.acked), told(&outcome.told.tried));
        let is_whole = values.iter().all(|value| *value == values[0]);
        let is_kept = (acked..=tried).contains(&values[0]);
        assert!(
            is_whole && is_kept,
            "{context}: {values:?}, of {acked} acknowledged, {tried} tried"
        );
    }
}

/// Fails each write of a run in turn, `step` apart, from `first` on.
fn fail_each(case: Case, first: u64, step: u64) {
    let mut failing = first;
    loop {
        let outcome = run(case, failing);
        let Case { scheme, fences, threads } = case;
        let context = format!("{scheme}, {fences}, {threads} threads, write {failing}");
        if scheme != Scheme::None {
            let mut random = Random::new(failing);
            let ((), image) = outcome.medium.cut(4096, &mut || random.next_u64() >> 40, || ());
            judge(case, &outcome, &image, &format!("{context}, power cut"));
        }
        if !outcome.has_failed {
            assert!(failing > 0, "{context}: nothing was written");
            return;
        }
        failing += step;
    }
}

#[test]
fn each_write_that_fails_is_an_error_under_every_scheme() {
    let step = step(5);
    for (first, scheme) in (0..).zip(sound_schemes()) {
        for fences in [0, 32 << 10] {
            fail_each(Case { scheme, fences, threads: 1 }, first % step, step);
        }
    }
}

#[test]
fn each_write_that_fails_is_an_error_to_every_thread() {
    let step = step(11);
    for (first, scheme) in (0..).zip(sound_schemes()) {
        for fences in [0, 32 << 10] {
            fail_each(Case { scheme, fences, threads: 3 }, first % step, step);
        }
    }
}
