//! Lanes side by side, and whether one serial order explains what each of them saw.
//!
//! Under the scheduler, by seeds, so that every failure replays; and on threads that run freely.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outlast::lab::Plant;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::scheme::SCHEMES;
use outlast::{Abort, BlockKind, Pool, PoolOffset, Runner, Scheme, Transact};
use outlast_crash::{Anomaly, Call, SerialHistory};
use outlast_pmem::schedule::{self, Plan};
use outlast_pmem::{Heap, Medium, Recorder};
use outlast_trace::Random;

const LANES: u64 = 3;
const POOL_BYTES: u64 = 4 << 20;

/// Cells, each on a page or on a line of its own, or all on as few lines as there can be.
#[derive(Clone, Copy)]
struct Cells {
    at: PoolOffset,
    count: u64,
    stride: u64,
}

impl Cells {
    fn place(self, cell: u64) -> PoolOffset {
        self.at.plus(cell * self.stride)
    }
}

/// When a commit is durable as it returns.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    Always,
    /// Most commits are asynchronous, where the scheme can do that.
    Seldom,
}

/// As many bytes as a lane has to itself, if it comes first.
const PAGE: u64 = 4096;

const WAITS: [Waits; 2] = [Waits::Always, Waits::Seldom];

/// A transaction that loads some cells and stores to some of them, and now and then gives up.
fn attempt<T: Transact>(tx: &mut T, cells: Cells, draws: u64, own: u64) -> Result<Call, Abort> {
    let (mut call, mut draws) = (Call::default(), Random::from_state(draws));
    for _ in 0..2 + draws.next_u64() % 3 {
        let cell = draws.next_u64() % cells.count;
        if call.stores.iter().any(|(stored, ..)| *stored == cell) {
            continue;
        }
        let value = tx.load_u64(cells.place(cell))?;
        if draws.next_u64().is_multiple_of(2) {
            tx.store_u64(cells.place(cell), own)?;
            call.stores.push((cell, value, own));
        } else {
            call.loads.push((cell, value));
        }
    }
    // A value that it has both loaded and replaced counts once, as replaced.
    call.loads.retain(|(cell, _)| !call.stores.iter().any(|(stored, ..)| stored == cell));
    match draws.next_u64() % 8 {
        0 => Err(Abort::cancelled("given up")),
        _ => Ok(call),
    }
}

fn pool_on<M: Medium>(medium: M, open: &OpenOptions, count: u64, stride: u64) -> (Pool<M>, Cells) {
    let create =
        CreateOptions { lanes: LANES as u32 + 1, lane_bytes: 4096, ..CreateOptions::default() };
    let pool = Pool::create_on(medium, &create, open).unwrap();
    let at = pool
        .lane()
        .unwrap()
        .run(|tx| {
            let block = tx.alloc(count * stride, BlockKind::General)?;
            tx.store(block, &vec![0; (count * stride) as usize])?;
            Ok(block)
        })
        .unwrap();
    (pool, Cells { at, count, stride })
}

/// The work of one lane: `transactions` transactions, or fewer where it is told to end.
#[expect(clippy::too_many_arguments, reason = "a lane and all that it has to know")]
fn work<M: Medium>(
    pool: &Pool<M>,
    cells: Cells,
    lane: u64,
    seed: u64,
    transactions: u64,
    waits: Waits,
    clock: &AtomicU64,
    over: &AtomicBool,
) -> Vec<Call> {
    let (mut seat, mut calls) = (pool.lane().unwrap(), Vec::new());
    for number in 0..transactions {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let draws = Random::from_state(seed ^ lane << 56 ^ number << 24).next_u64();
        let began = clock.fetch_add(1, Ordering::SeqCst);
        let own = (lane + 1) << 32 | (number + 1);
        let body = |tx: &mut outlast::Tx<'_, M>| attempt(tx, cells, draws, own);
        let result = match (waits, draws % 8) {
            (Waits::Always, _) | (_, 0) => seat.run(body),
            (Waits::Seldom, _) => seat.run_later(body),
        };
        if waits == Waits::Seldom && draws % 16 == 9 {
            pool.sync().unwrap();
        }
        let ended = clock.fetch_add(1, Ordering::SeqCst);
        match result {
            Ok(call) => calls.push(Call { began, ended, ..call }),
            Err(Abort::Cancelled(_)) => {}
            // The log of commands only grows.
            Err(Abort::LogFull { .. } | Abort::OutOfSpace { .. }) => break,
            Err(abort) => panic!("{abort}"),
        }
    }
    calls
}

fn judge(calls: impl IntoIterator<Item = Call>) -> (usize, Result<(), Anomaly>) {
    let mut history = SerialHistory::new(0);
    calls.into_iter().for_each(|call| history.add(call));
    (history.len(), history.check())
}

/// A run that follows from its seed.
fn scheduled(
    scheme: Scheme,
    plant: Option<Plant>,
    seed: u64,
    stride: u64,
    waits: Waits,
) -> (usize, Result<(), Anomaly>) {
    let open = OpenOptions {
        lock_stripes: 1 << 10,
        lock_always: seed.is_multiple_of(2),
        step_every: 2,
        ..OpenOptions::with_scheme(scheme)
    };
    // A bias is revoked once; so that this is not over soon there are more of them.
    let count = if stride == PAGE { 10 } else { 4 };
    let (pool, cells) =
        pool_on(Recorder::new(POOL_BYTES).planting(Plant::code_of(plant)), &open, count, stride);
    let (clock, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let plan = Plan::Random { seed, stay: [0, 128, 220][seed as usize % 3] };
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let (pool, clock, over) = (&pool, &clock, &over);
            move || work(pool, cells, lane, seed, 12, waits, clock, over)
        })
        .collect();
    let run = schedule::run(&plan, lanes).unwrap_or_else(|error| panic!("{scheme}: {error}"));
    judge(run.unwrap().into_iter().flatten())
}

fn durable_or_not() -> impl Iterator<Item = Scheme> {
    SCHEMES.iter().map(|row| row.scheme)
}

#[test]
fn what_lanes_see_has_one_serial_order() {
    for (scheme, waits) in durable_or_not().flat_map(|scheme| WAITS.map(|waits| (scheme, waits))) {
        if waits == Waits::Seldom && !scheme.commits_later() {
            continue;
        }
        let mut committed = 0;
        for seed in 0..60 {
            let stride = [64, 64, 8, 8, PAGE, PAGE][seed as usize % 6];
            let (calls, result) = scheduled(scheme, None, seed, stride, waits);
            committed += calls;
            if let Err(anomaly) = result {
                panic!("{scheme}, seed {seed}, stride {stride}: {anomaly}");
            }
        }
        assert!(committed > 60 * 12, "{scheme}: {committed}");
    }
}

/// What is wrong with asynchronous commits that no crash has to show.
#[test]
fn every_mistake_of_asynchronous_isolation_is_noticed() {
    for scheme in durable_or_not().filter(|scheme| scheme.commits_later()) {
        for plant in [Plant::AsyncUnlocked, Plant::SoloStaysPending] {
            let seed = (0..400)
                .find(|seed| scheduled(scheme, Some(plant), *seed, 64, Waits::Seldom).1.is_err());
            assert!(seed.is_some(), "{plant} under {scheme} goes unnoticed");
        }
    }
}

#[test]
fn every_mistake_with_pages_of_ones_own_is_noticed() {
    for scheme in durable_or_not().filter(|scheme| scheme.commits_later()) {
        for (plant, waits) in
            [(Plant::BiasBelieved, Waits::Always), (Plant::BiasStaysPending, Waits::Seldom)]
        {
            let mut seeds = (1..800).step_by(2);
            let seed =
                seeds.find(|seed| scheduled(scheme, Some(plant), *seed, PAGE, waits).1.is_err());
            assert!(seed.is_some(), "{plant} under {scheme} goes unnoticed");
        }
    }
    assert_eq!(
        Plant::shown_in(outlast::lab::Shows::Bias).count(),
        2,
        "and one that the next test notices"
    );
}

/// How a page ceases to be a lane's own.
#[derive(Clone, Copy)]
enum End {
    Revoked,
    GivenBack,
}

/// What a transaction reads of a page that ceased to be another lane's own while it ran, after another
/// cell of which it knows the state before: of what that lane stored to both in one transaction.
fn read_of_page_that_was_own(scheme: Scheme, plant: Option<Plant>, end: End) -> Result<u64, Abort> {
    let open = OpenOptions { lock_stripes: 1 << 10, ..OpenOptions::with_scheme(scheme) };
    let (pool, cells) =
        pool_on(Recorder::new(POOL_BYTES).planting(Plant::code_of(plant)), &open, 2, PAGE);
    let [shared, own] = [cells.place(0), cells.place(1)];
    let [mut first, mut second, third] = [0, 1, 2].map(|id| pool.lane_at(id).unwrap());
    // With all lanes at work, both lanes on the one page, and the first alone on the other.
    second.run(|tx| tx.load_u64(shared)).unwrap();
    first.run(|tx| Ok((tx.load_u64(shared)?, tx.load_u64(own)?))).unwrap();
    let mut reader = third.begin();
    assert_eq!(reader.load_u64(shared).unwrap(), 0);
    first.run(|tx| tx.store_u64(shared, 1).and_then(|()| tx.store_u64(own, 1))).unwrap();
    match end {
        End::Revoked => assert_eq!(second.run(|tx| tx.load_u64(own)).unwrap(), 1),
        End::GivenBack => drop(first),
    }
    reader.load_u64(own)
}

#[test]
fn a_page_that_was_a_lanes_own_is_not_of_older_views() {
    for scheme in durable_or_not().filter(|scheme| scheme.commits_later()) {
        for end in [End::Revoked, End::GivenBack] {
            let read = read_of_page_that_was_own(scheme, None, end);
            assert!(matches!(read, Err(Abort::Conflict)), "{scheme}: {read:?}");
            let read = read_of_page_that_was_own(scheme, Some(Plant::BiasNotCounted), end);
            assert!(matches!(read, Ok(1)), "its plant under {scheme} goes unnoticed: {read:?}");
        }
    }
}

#[test]
fn every_mistake_of_isolation_is_noticed() {
    // Rollback has one writer at a time, atlas locks what it reads; literal variants isolate as the
    // sound ones do.
    let is_tried = |scheme: &Scheme| !scheme.is_baseline() && !scheme.is_published();
    for scheme in durable_or_not().filter(is_tried) {
        for plant in Plant::shown_in(outlast::lab::Shows::Isolation) {
            let seed = (0..400)
                .find(|seed| scheduled(scheme, Some(plant), *seed, 64, Waits::Always).1.is_err());
            assert!(seed.is_some(), "{plant} under {scheme} goes unnoticed");
        }
    }
}

#[test]
fn threads_that_run_freely_have_one_serial_order_too() {
    for scheme in durable_or_not() {
        for (stride, waits) in [8, 64, PAGE].into_iter().flat_map(|s| WAITS.map(|waits| (s, waits)))
        {
            let open = OpenOptions { step_every: 8, ..OpenOptions::with_scheme(scheme) };
            let (pool, cells) = pool_on(Heap::new(POOL_BYTES), &open, 6, stride);
            let (clock, over) = (AtomicU64::new(0), AtomicBool::new(false));
            let all = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for lane in 0..LANES {
                    let (pool, clock, over, all) = (&pool, &clock, &over, &all);
                    scope.spawn(move || {
                        let calls = work(pool, cells, lane, stride, 3000, waits, clock, over);
                        all.lock().unwrap().extend(calls);
                    });
                }
            });
            let (calls, result) = judge(all.into_inner().unwrap());
            if let Err(anomaly) = result {
                panic!("{scheme}, stride {stride}: {anomaly}");
            }
            assert!(calls > 0, "{scheme}");
        }
    }
}
