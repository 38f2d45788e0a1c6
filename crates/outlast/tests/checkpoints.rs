//! Checkpoints made while transactions run: every one of them is the pool at one moment.
//!
//! Two threads run transactions whose effects follow from the thread and the number of the
//! transaction alone. So from the two counters that a restored checkpoint holds follows everything
//! else that it must hold: balances, blocks and their contents, rarely touched words.

#![cfg(not(miri))]

use std::cell::Cell;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlast::{
    Abort, Ack, BlockKind, Checkpoint, CreateOptions, LineAddr, OpenOptions, Plant, Pool,
    PoolOffset, RootKind, Runner, SCHEMES, Scheme, Ticket, Transact, UnrecoveredPool,
};
use outlast_pmem::{Heap, Medium};

const THREADS: u64 = 2;
const ACCOUNTS: u64 = 64;
const ACCOUNT_BYTES: u64 = 512;
const SLOTS: u64 = 96;
const COLD_PAGES: u64 = 96;
const BALANCE: u64 = 1_000_000;

// The root block: accounts, then of each thread a counter and its slots, then cold pages.
const LEDGERS_AT: u64 = ACCOUNTS * ACCOUNT_BYTES;
const LEDGER_BYTES: u64 = 4096;
const COLD_AT: u64 = LEDGERS_AT + THREADS * LEDGER_BYTES;
const ROOT_BYTES: u64 = COLD_AT + COLD_PAGES * 4096;

/// Memory that lets other threads run in the middle of things, and with which bugs can be planted.
struct Restless(Heap);

/// Lets another thread run, once in `n` times.
fn once_in(n: u64) {
    thread_local!(static RANDOM: Cell<u64> = const { Cell::new(0x9e37_79b9_7f4a_7c15) });
    let mut x = RANDOM.get();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    RANDOM.set(x);
    if x.is_multiple_of(n) {
        std::thread::yield_now();
    }
}

impl Medium for Restless {
    const OBSERVED: bool = true;

    fn has_atomic_line(&self) -> bool {
        false
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        // Pages are torn while they are copied.
        let half = if out.len() >= 4096 { out.len() / 2 } else { 0 };
        let (first, second) = out.split_at_mut(half);
        self.0.load(at, first);
        if half > 0 {
            once_in(4);
        }
        self.0.load(at.plus(half as u64), second);
    }

    fn load_u64(&self, at: PoolOffset) -> u64 {
        self.0.load_u64(at)
    }

    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        once_in(16);
        self.0.store(at, bytes);
    }

    fn store_u64(&self, at: PoolOffset, value: u64) {
        once_in(16);
        self.0.store_u64(at, value);
    }

    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        self.0.store_nt(at, bytes);
    }

    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        self.0.store_line(line, bytes);
    }

    fn flush(&self, line: LineAddr) {
        self.0.flush(line);
    }

    fn fence(&self) {
        self.0.fence();
    }

    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.0.compare_exchange_u64(at, current, new)
    }

    fn pause(&self) {
        std::thread::yield_now();
    }
}

fn mixed(thread: u64, number: u64, what: u64) -> u64 {
    let mut x = thread << 48 ^ number << 8 ^ what;
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// What transaction `number` of a thread does.
struct Plan {
    from: u64,
    to: u64,
    amount: u64,
    slot: u64,
    block_bytes: u64,
    cold: u64,
    /// How often it is tried and aborted before it is committed.
    aborts: u64,
}

impl Plan {
    fn of(thread: u64, number: u64) -> Self {
        let draw = |what, below| mixed(thread, number, what) % below;
        Self {
            from: draw(1, ACCOUNTS),
            to: draw(2, ACCOUNTS),
            amount: 1 + draw(3, 9),
            slot: draw(4, SLOTS),
            block_bytes: [48, 200, 400, 1000, 9000][draw(5, 5) as usize],
            cold: draw(6, COLD_PAGES),
            aborts: u64::from(draw(7, 4) == 0),
        }
    }

    /// The block's content: every word of it.
    fn block(&self, thread: u64, number: u64) -> Vec<u8> {
        let word = mixed(thread, number, 8) | 1;
        (0..self.block_bytes / 8).flat_map(|_| word.to_le_bytes()).collect()
    }
}

fn counter_at(root: PoolOffset, thread: u64) -> PoolOffset {
    root.plus(LEDGERS_AT + thread * LEDGER_BYTES)
}

fn slot_at(root: PoolOffset, thread: u64, slot: u64) -> PoolOffset {
    counter_at(root, thread).plus(64 + slot * 8)
}

fn cold_at(root: PoolOffset, thread: u64, page: u64) -> PoolOffset {
    root.plus(COLD_AT + page * 4096 + thread * 64)
}

fn add<T: Transact>(tx: &mut T, at: PoolOffset, amount: u64) -> Result<(), Abort> {
    let old = tx.load_u64(at)?;
    tx.store_u64(at, old.wrapping_add(amount))
}

fn apply<T: Transact>(
    tx: &mut T,
    root: PoolOffset,
    thread: u64,
    number: u64,
    aborts: bool,
) -> Result<(), Abort> {
    let plan = Plan::of(thread, number);
    // An attempt that is to be aborted leaves garbage where it can.
    let garbage = if aborts { 1 << 40 } else { 0 };
    add(tx, root.plus(plan.from * ACCOUNT_BYTES), plan.amount.wrapping_neg() ^ garbage)?;
    add(tx, root.plus(plan.to * ACCOUNT_BYTES), plan.amount)?;
    tx.store_u64(cold_at(root, thread, plan.cold), (number + 1) ^ garbage)?;
    let slot = slot_at(root, thread, plan.slot);
    let old = tx.load_u64(slot)?;
    if old != 0 {
        tx.free(PoolOffset(old))?;
    }
    let block = tx.alloc(plan.block_bytes, BlockKind::General)?;
    tx.store(block, &plan.block(thread, number ^ garbage))?;
    tx.store_u64(slot, block.0)?;
    tx.store_u64(counter_at(root, thread), number + 1)?;
    if aborts { Err(Abort::Cancelled) } else { Ok(()) }
}

/// What the threads have told of themselves.
#[derive(Default)]
struct Told {
    begun: [AtomicU64; THREADS as usize],
    acknowledged: [AtomicU64; THREADS as usize],
    tickets: [Mutex<Vec<Ticket>>; THREADS as usize],
    over: AtomicBool,
}

fn work<M: Medium>(pool: &Pool<M>, root: PoolOffset, thread: u64, told: &Told) {
    let mut lane = pool.lane().unwrap();
    let mine = thread as usize;
    // Its log only grows: when the pool is full of it the thread has done its work.
    let is_full = |abort: &Abort| {
        let full = matches!(abort, Abort::LogFull { .. } | Abort::OutOfSpace { .. });
        full && pool.scheme() == Scheme::Aof
    };
    for number in 0.. {
        if told.over.load(Ordering::Relaxed) {
            return;
        }
        for _ in 0..Plan::of(thread, number).aborts {
            let aborted = lane.run(|tx| apply(tx, root, thread, number, true));
            if aborted.as_ref().is_err_and(is_full) {
                return;
            }
            assert!(matches!(aborted, Err(Abort::Cancelled)), "{aborted:?}");
        }
        told.begun[mine].store(number + 1, Ordering::SeqCst);
        let ticket = match lane.run_ticketed(|tx| apply(tx, root, thread, number, false)) {
            Ok(((), ticket)) => ticket,
            Err(abort) if is_full(&abort) => return,
            Err(abort) => panic!("{abort}"),
        };
        told.tickets[mine].lock().unwrap().push(ticket);
        told.acknowledged[mine].store(number + 1, Ordering::SeqCst);
    }
}

fn counters(counters: &[AtomicU64]) -> Vec<u64> {
    counters.iter().map(|counter| counter.load(Ordering::SeqCst)).collect()
}

/// What the restored pool holds, against what follows from its counters.
fn judge(bytes: &[u8], lowest: &[u64], highest: &[u64]) -> Result<Vec<u64>, String> {
    let recovered = UnrecoveredPool::open(Heap::from_bytes(bytes))
        .and_then(|pool| pool.recover(None))
        .map_err(|error| error.to_string())?;
    let report = recovered.report();
    if report.undone + report.replayed > 0 {
        return Err(format!("its log is not empty: {report:?}"));
    }
    if let Some(fault) = recovered.faults().first() {
        return Err(format!("{fault:?}"));
    }
    let (root, _) = recovered.root().map_err(|error| error.to_string())?.ok_or("no root")?;
    let word = |at: PoolOffset| recovered.medium().load_u64(at);
    let done: Vec<u64> = (0..THREADS).map(|thread| word(counter_at(root, thread))).collect();
    for (thread, done) in done.iter().enumerate() {
        if !(lowest[thread]..=highest[thread]).contains(done) {
            let range = (lowest[thread], highest[thread]);
            return Err(format!("thread {thread} has {done} transactions, not {range:?}"));
        }
    }
    let mut balances = vec![BALANCE; ACCOUNTS as usize];
    let mut blocks = std::collections::BTreeMap::new();
    let mut cold = std::collections::BTreeMap::new();
    for (thread, done) in (0..).zip(&done) {
        for number in 0..*done {
            let plan = Plan::of(thread, number);
            let [from, to] = [plan.from as usize, plan.to as usize];
            balances[from] = balances[from].wrapping_sub(plan.amount);
            balances[to] = balances[to].wrapping_add(plan.amount);
            cold.insert(cold_at(root, thread, plan.cold), number + 1);
            blocks.insert(slot_at(root, thread, plan.slot), plan.block(thread, number));
        }
    }
    for (account, balance) in (0..).zip(&balances) {
        let found = word(root.plus(account * ACCOUNT_BYTES));
        if found != *balance {
            return Err(format!("account {account} has {found}, not {balance}, at {done:?}"));
        }
    }
    for (at, value) in &cold {
        if word(*at) != *value {
            return Err(format!("the word at {at} is {}, not {value}, at {done:?}", word(*at)));
        }
    }
    for (slot, content) in &blocks {
        let mut found = vec![0; content.len()];
        recovered.medium().load(PoolOffset(word(*slot)), &mut found);
        if found != *content {
            return Err(format!("the block of the slot at {slot} is not as stored, at {done:?}"));
        }
    }
    let check = recovered.check_with(|_, visit| {
        visit(root, ROOT_BYTES);
        blocks.iter().for_each(|(slot, block)| visit(PoolOffset(word(*slot)), block.len() as u64));
        Ok(true)
    });
    match check.findings.first() {
        Some(finding) => Err(finding.to_string()),
        None => Ok(done),
    }
}

/// Checkpoints while two threads work, as many or until the time is up; each restored and judged.
fn stress<M: Medium + Sync>(
    medium: M,
    create: &CreateOptions,
    open: &OpenOptions,
    target: &Path,
    checkpoints: u64,
    time: Duration,
) -> Result<u64, String> {
    let pool = Pool::create_on(medium, create, open).unwrap();
    let root = pool
        .lane()
        .unwrap()
        .run(|tx| {
            let root = tx.alloc(ROOT_BYTES, BlockKind::General)?;
            tx.store(root, &vec![0; ROOT_BYTES as usize])?;
            for account in 0..ACCOUNTS {
                tx.store_u64(root.plus(account * ACCOUNT_BYTES), BALANCE)?;
            }
            tx.set_root(root, RootKind::Opaque)?;
            Ok(root)
        })
        .unwrap();
    let (told, began) = (Told::default(), Instant::now());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, told) = (&pool, &told);
            scope.spawn(move || work(pool, root, thread, told));
        }
        let result = (1..=checkpoints).try_for_each(|number| {
            let lowest = counters(&told.acknowledged);
            let report = pool.checkpoint(target).map_err(|error| error.to_string())?;
            let highest = counters(&told.begun);
            let checkpoint = Checkpoint::open(target).map_err(|error| error.to_string())?;
            let bytes = checkpoint.to_bytes().map_err(|error| error.to_string())?;
            let done = judge(&bytes, &lowest, &highest)?;
            // The cut is where the report says that it is.
            for (tickets, done) in told.tickets.iter().zip(done) {
                let mut waited = 0;
                while (tickets.lock().unwrap().len() as u64) < done && waited < 10_000 {
                    // The thread has committed and not yet told so.
                    std::thread::sleep(Duration::from_micros(100));
                    waited += 1;
                }
                let tickets = tickets.lock().unwrap();
                let before = tickets.iter().filter(|ticket| **ticket <= report.last).count();
                if before as u64 != done {
                    return Err(format!(
                        "{before} transactions up to {:?}, {done} in it",
                        report.last
                    ));
                }
            }
            assert_eq!(report.number, number);
            if began.elapsed() < time { Ok(()) } else { Err(String::new()) }
        });
        told.over.store(true, Ordering::Relaxed);
        result
    })
    .or_else(|error| if error.is_empty() { Ok(()) } else { Err(error) })?;
    Ok(counters(&told.acknowledged).iter().sum())
}

fn options(scheme: Scheme, plant: Option<Plant>) -> OpenOptions {
    OpenOptions { lock_stripes: 1 << 12, plant, step_every: 64, ..OpenOptions::with_scheme(scheme) }
}

const POOL_BYTES: u64 = 8 << 20;

const CREATE: CreateOptions = CreateOptions {
    lanes: 3,
    lane_bytes: 16 << 10,
    chunk_bytes: None,
    uuid: None,
    checksums: false,
    plant: None,
};

#[test]
fn checksums_are_those_of_the_moment_too() {
    let create = CreateOptions { checksums: true, ..CREATE };
    for scheme in [Scheme::UndoArchapt, Scheme::RedoArchapt] {
        for ack in Ack::ALL {
            let directory = tempfile::tempdir().unwrap();
            let target = directory.path().join("checkpoint");
            let open = OpenOptions { ack, ..options(scheme, None) };
            let medium = Restless(Heap::new(2 * POOL_BYTES));
            let worked = stress(medium, &create, &open, &target, 10, Duration::from_secs(10));
            let worked = worked.unwrap_or_else(|error| panic!("{scheme}, {ack}: {error}"));
            assert!(worked > 0, "{scheme}: nobody worked");
        }
    }
}

#[test]
fn every_checkpoint_is_the_pool_at_one_moment() {
    for row in SCHEMES {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("checkpoint");
        let open = options(row.scheme, None);
        let medium = Restless(Heap::new(POOL_BYTES));
        let worked = stress(medium, &CREATE, &open, &target, 15, Duration::from_secs(10));
        let worked = worked.unwrap_or_else(|error| panic!("{}: {error}", row.scheme));
        assert!(worked > 0, "{}: nobody worked", row.scheme);
        // On memory that observes nothing, too.
        let target = directory.path().join("other");
        let medium = Heap::new(POOL_BYTES);
        let worked = stress(medium, &CREATE, &open, &target, 15, Duration::from_secs(10));
        worked.unwrap_or_else(|error| panic!("{}: {error}", row.scheme));
    }
}

#[test]
fn every_planted_bug_is_caught() {
    // What is not marked by an abort shows only now and then here, and has a test of its own.
    for plant in Plant::checkpoints().filter(|plant| *plant != Plant::AbortNotMarked) {
        // Baselines store in fewer ways; some of the mistakes change nothing there. Literal variants
        // store as the sound ones do.
        let is_tried = |scheme: Scheme| !scheme.is_baseline() && !scheme.is_literal();
        for row in SCHEMES.iter().filter(|row| is_tried(row.scheme)) {
            let began = Instant::now();
            let caught = loop {
                let directory = tempfile::tempdir().unwrap();
                let target = directory.path().join("checkpoint");
                let open = options(row.scheme, Some(plant));
                let medium = Restless(Heap::new(POOL_BYTES));
                let left = Duration::from_secs(120).saturating_sub(began.elapsed());
                match stress(medium, &CREATE, &open, &target, 100, left) {
                    Err(error) => break Some(error),
                    Ok(_) if left.is_zero() => break None,
                    Ok(_) => {}
                }
            };
            let seconds = began.elapsed().as_secs_f64();
            println!("{plant}, {}: {seconds:.1} s: {caught:?}", row.scheme);
            assert!(caught.is_some(), "{plant} under {} goes unnoticed", row.scheme);
        }
    }
}

/// Memory that tells when somebody copies a whole page of it.
struct Watched {
    inner: Restless,
    page: AtomicU64,
    copies: AtomicU64,
}

impl Medium for Watched {
    const OBSERVED: bool = true;

    fn has_atomic_line(&self) -> bool {
        self.inner.has_atomic_line()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        self.inner.load(at, out);
        if out.len() == 4096 && at.0 == self.page.load(Ordering::SeqCst) {
            self.copies.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn load_u64(&self, at: PoolOffset) -> u64 {
        self.inner.load_u64(at)
    }

    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.inner.store(at, bytes);
    }

    fn store_u64(&self, at: PoolOffset, value: u64) {
        self.inner.store_u64(at, value);
    }

    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        self.inner.store_nt(at, bytes);
    }

    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        self.inner.store_line(line, bytes);
    }

    fn flush(&self, line: LineAddr) {
        self.inner.flush(line);
    }

    fn fence(&self) {
        self.inner.fence();
    }

    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.inner.compare_exchange_u64(at, current, new)
    }

    fn pause(&self) {
        self.inner.pause();
    }
}

/// What a checkpoint has of a word that a transaction stores to before the page is copied, and
/// puts back, aborting, before the checkpoint ends. The word was 1 and is 1.
fn word_stored_to_and_put_back(scheme: Scheme, plant: Option<Plant>) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("checkpoint");
    let medium = Watched {
        inner: Restless(Heap::new(POOL_BYTES)),
        page: AtomicU64::new(u64::MAX),
        copies: AtomicU64::new(0),
    };
    let pool = Pool::create_on(medium, &CREATE, &options(scheme, plant)).unwrap();
    let mut lane = pool.lane().unwrap();
    let block = lane.run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
    pool.checkpoint(&target).unwrap();
    // So the page is one that the next checkpoint copies.
    lane.run(|tx| tx.store_u64(block, 1)).unwrap();
    let medium = pool.medium();
    medium.page.store(block.0 & !4095, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let mut checkpoint = None;
        let aborted = lane.run(|tx| {
            tx.store_u64(block, 2)?;
            checkpoint = Some(scope.spawn(|| pool.checkpoint(&target)));
            let began = Instant::now();
            while medium.copies.load(Ordering::SeqCst) == 0 {
                assert!(began.elapsed() < Duration::from_secs(60), "{scheme}: nobody copies it");
                std::thread::yield_now();
            }
            Err::<(), _>(Abort::Cancelled)
        });
        assert!(matches!(aborted, Err(Abort::Cancelled)), "{aborted:?}");
        checkpoint.map(|thread| thread.join().unwrap().unwrap())
    });
    let bytes = Checkpoint::open(&target).unwrap().to_bytes().unwrap();
    let word = &bytes[block.0 as usize..][..8];
    u64::from_le_bytes(word.try_into().unwrap())
}

#[test]
fn what_an_abort_puts_back_is_copied_again() {
    for row in SCHEMES {
        assert_eq!(word_stored_to_and_put_back(row.scheme, None), 1, "{}", row.name);
    }
    // The others have nothing in place before they commit.
    for scheme in [Scheme::None, Scheme::Undo, Scheme::UndoArchapt, Scheme::Atlas] {
        let planted = word_stored_to_and_put_back(scheme, Some(Plant::AbortNotMarked));
        assert_eq!(planted, 2, "{scheme}: the mistake changes nothing");
    }
}
