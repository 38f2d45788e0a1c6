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

use outlast::checkpoint::Checkpoint;
use outlast::lab::Plant;
use outlast::medium::{CreateOptions, LineAddr, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::scheme::SCHEMES;
use outlast::{
    Abort, Ack, BlockKind, Pool, PoolOffset, RootKind, Runner, Scheme, Ticket, Transact,
};
use outlast_pmem::{Heap, Medium};
use outlast_trace::mix;

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
struct Restless {
    heap: Heap,
    stage: Stage,
    planted: u16,
}

impl Restless {
    fn new(bytes: u64) -> Self {
        Self { heap: Heap::new(bytes), stage: Stage::default(), planted: 0 }
    }

    fn planting(self, plant: Option<Plant>) -> Self {
        Self { planted: Plant::code_of(plant), ..self }
    }
}

/// One store that is held up until a checkpoint is made, or waits for the thread that is held up.
#[derive(Default)]
struct Stage {
    /// The words watched, and which store to them is held up: 1 is the first.
    cue: Mutex<(Vec<PoolOffset>, usize)>,
    is_held: AtomicBool,
    goes_on: AtomicBool,
}

impl Stage {
    fn watch(&self, words: &[PoolOffset], nth: usize) {
        *self.cue.lock().unwrap() = (words.to_vec(), nth);
    }

    fn before_store(&self, at: PoolOffset, len: usize) {
        let mut cue = self.cue.lock().unwrap();
        let (words, left) = &mut *cue;
        let is_watched = |word: &PoolOffset| (at.0..at.0 + len as u64).contains(&word.0);
        if *left == 0 || !words.iter().any(is_watched) {
            return;
        }
        *left -= 1;
        if *left == 0 {
            drop(cue);
            self.is_held.store(true, Ordering::SeqCst);
            wait_until("the checkpoint ends or waits", || self.goes_on.load(Ordering::SeqCst));
        }
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::yield_now();
    }
}

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

    fn planted(&self) -> u16 {
        self.planted
    }

    fn has_atomic_line(&self) -> bool {
        false
    }

    fn len(&self) -> u64 {
        self.heap.len()
    }

    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        // Pages are torn while they are copied.
        let half = if out.len() >= 4096 { out.len() / 2 } else { 0 };
        let (first, second) = out.split_at_mut(half);
        self.heap.load(at, first);
        if half > 0 {
            once_in(4);
        }
        self.heap.load(at.plus(half as u64), second);
    }

    fn load_u64(&self, at: PoolOffset) -> u64 {
        self.heap.load_u64(at)
    }

    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        once_in(16);
        self.stage.before_store(at, bytes.len());
        self.heap.store(at, bytes);
    }

    fn store_u64(&self, at: PoolOffset, value: u64) {
        once_in(16);
        self.stage.before_store(at, 8);
        self.heap.store_u64(at, value);
    }

    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        self.stage.before_store(at, bytes.len());
        self.heap.store_nt(at, bytes);
    }

    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        self.stage.before_store(line.start(), bytes.len());
        self.heap.store_line(line, bytes);
    }

    fn flush(&self, line: LineAddr) {
        self.heap.flush(line);
    }

    fn fence(&self) {
        self.heap.fence();
    }

    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.heap.compare_exchange_u64(at, current, new)
    }

    fn pause(&self) {
        // A thread that waits here waits for the one that is held up.
        if self.stage.is_held.load(Ordering::SeqCst) {
            self.stage.goes_on.store(true, Ordering::SeqCst);
        }
        std::thread::yield_now();
    }
}

fn mixed(thread: u64, number: u64, what: u64) -> u64 {
    mix(thread << 48 ^ number << 8 ^ what)
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
    if aborts { Err(Abort::cancelled("given up")) } else { Ok(()) }
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
            assert!(matches!(aborted, Err(Abort::Cancelled(_))), "{aborted:?}");
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
        .and_then(|pool| pool.recover())
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
                // The thread may have committed and not yet told so.
                wait_until("a thread tells", || tickets.lock().unwrap().len() as u64 >= done);
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

fn options(scheme: Scheme) -> OpenOptions {
    OpenOptions { lock_stripes: 1 << 12, step_every: 64, ..OpenOptions::with_scheme(scheme) }
}

const POOL_BYTES: u64 = 8 << 20;

/// After that a run makes no further checkpoint.
const LONGEST: Duration = Duration::from_millis(1500);

const CREATE: CreateOptions = CreateOptions {
    lanes: 3,
    lane_bytes: 16 << 10,
    chunk_bytes: None,
    uuid: None,
    checksums: false,
    fence_log_bytes: None,
};

#[test]
fn checksums_are_those_of_the_moment_too() {
    let create = CreateOptions { checksums: true, ..CREATE };
    for scheme in [Scheme::UndoArchapt, Scheme::RedoArchapt] {
        for ack in Ack::ALL {
            let directory = tempfile::tempdir().unwrap();
            let target = directory.path().join("checkpoint");
            let open = OpenOptions { ack, ..options(scheme) };
            let medium = Restless::new(2 * POOL_BYTES);
            let worked = stress(medium, &create, &open, &target, 10, LONGEST);
            let worked = worked.unwrap_or_else(|error| panic!("{scheme}, {ack}: {error}"));
            assert!(worked > 0, "{scheme}: no transaction ran");
        }
    }
}

#[test]
fn every_checkpoint_is_the_pool_at_one_moment() {
    for row in SCHEMES {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("checkpoint");
        let open = options(row.scheme);
        let medium = Restless::new(POOL_BYTES);
        let worked = stress(medium, &CREATE, &open, &target, 15, LONGEST);
        let worked = worked.unwrap_or_else(|error| panic!("{}: {error}", row.scheme));
        assert!(worked > 0, "{}: no transaction ran", row.scheme);
        // On memory that observes nothing, too.
        let target = directory.path().join("other");
        let medium = Heap::new(POOL_BYTES);
        let worked = stress(medium, &CREATE, &open, &target, 15, LONGEST);
        worked.unwrap_or_else(|error| panic!("{}: {error}", row.scheme));
    }
}

/// What a script does with the words that are watched, all of them 1 before, and when it is held up
/// for a checkpoint.
struct Script {
    plant: Plant,
    words: u64,
    /// The store to one of them that is held up.
    held_at: usize,
    aborts: bool,
}

/// Each mistake with a script that brings it to light whenever it is made.
const SCRIPTS: &[Script] = &[
    // The page is copied before the store, and is not marked afterwards.
    Script { plant: Plant::MarkedBeforeStores, words: 1, held_at: 1, aborts: false },
    // One page is copied with the transaction's store and one without.
    Script { plant: Plant::PauseLeftOut, words: 2, held_at: 2, aborts: false },
    // The page is copied with what is put back afterwards.
    Script { plant: Plant::AbortNotMarked, words: 1, held_at: 2, aborts: true },
];

/// What a checkpoint has of the words of a script.
fn words_of_a_checkpoint(scheme: Scheme, script: &Script, plant: Option<Plant>) -> Vec<u64> {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("checkpoint");
    let medium = Restless::new(POOL_BYTES).planting(plant);
    let pool = Pool::create_on(medium, &CREATE, &options(scheme)).unwrap();
    let mut lane = pool.lane().unwrap();
    let block = lane.run(|tx| tx.alloc((script.words + 1) * 4096, BlockKind::General)).unwrap();
    let pages = block.0.next_multiple_of(4096);
    let words: Vec<_> = (0..script.words).map(|word| PoolOffset(pages + word * 4096)).collect();
    pool.checkpoint(&target).unwrap();
    // So their pages are marked, and the next checkpoint copies them before it closes the gate.
    lane.run(|tx| words.iter().try_for_each(|word| tx.store_u64(*word, 1))).unwrap();
    let stage = &pool.medium().stage;
    stage.watch(&words, script.held_at);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Where nothing is put back, nothing is held up.
            let is_ready =
                || stage.is_held.load(Ordering::SeqCst) || is_over.load(Ordering::SeqCst);
            wait_until("a store is held up", is_ready);
            pool.checkpoint(&target).unwrap();
            stage.goes_on.store(true, Ordering::SeqCst);
        });
        let result = lane.run(|tx| {
            words.iter().try_for_each(|word| tx.store_u64(*word, 2))?;
            if script.aborts { Err(Abort::cancelled("given up")) } else { Ok(()) }
        });
        assert_eq!(result.is_err(), script.aborts, "{result:?}");
        is_over.store(true, Ordering::SeqCst);
    });
    let bytes = Checkpoint::open(&target).unwrap().to_bytes().unwrap();
    let word = |at: &PoolOffset| bytes[at.0 as usize..][..8].try_into().unwrap();
    words.iter().map(|at| u64::from_le_bytes(word(at))).collect()
}

/// Schemes that store in place before they commit.
const STORES_FIRST: [Scheme; 5] =
    [Scheme::None, Scheme::Undo, Scheme::UndoArchapt, Scheme::UndoArchaptLiteral, Scheme::Atlas];

#[test]
fn every_planted_bug_is_caught() {
    for (row, script) in SCHEMES.iter().flat_map(|row| SCRIPTS.iter().map(move |s| (row, s))) {
        let sound = vec![if script.aborts { 1 } else { 2 }; script.words as usize];
        let Script { plant, .. } = script;
        let words = words_of_a_checkpoint(row.scheme, script, None);
        assert_eq!(words, sound, "{}, the script of {plant} without it", row.name);
        // Where nothing stands in place before the commit, an abort puts nothing back. Rollback and
        // the log of commands store outside of what the others share.
        let changes_nothing = match plant {
            Plant::AbortNotMarked => !STORES_FIRST.contains(&row.scheme),
            _ => row.scheme.is_baseline(),
        };
        if !changes_nothing {
            let words = words_of_a_checkpoint(row.scheme, script, Some(*plant));
            assert_ne!(words, sound, "{plant} under {} goes unnoticed", row.name);
        }
    }
}

#[test]
fn new_blocks_are_marked() {
    for row in SCHEMES {
        let content = |plant| {
            let directory = tempfile::tempdir().unwrap();
            let target = directory.path().join("checkpoint");
            let medium = Restless::new(POOL_BYTES).planting(plant);
            let pool = Pool::create_on(medium, &CREATE, &options(row.scheme)).unwrap();
            let mut lane = pool.lane().unwrap();
            let mut new_block = || {
                let stored = lane.run(|tx| {
                    let block = tx.alloc(4000, BlockKind::General)?;
                    tx.store(block, &[7; 4000])?;
                    Ok(block)
                });
                stored.unwrap()
            };
            // The first of its size; a chunk that is new is marked whole.
            new_block();
            pool.checkpoint(&target).unwrap();
            let block = new_block();
            pool.checkpoint(&target).unwrap();
            let bytes = Checkpoint::open(&target).unwrap().to_bytes().unwrap();
            bytes[block.0 as usize..][..4000].to_vec()
        };
        assert!(content(None) == [7; 4000], "{}", row.name);
        // A literal variant marks what it writes back, too; most baselines know no new blocks.
        if !row.scheme.is_published() && !row.scheme.is_baseline() {
            let planted = content(Some(Plant::FreshNotMarked));
            assert!(planted != [7; 4000], "{} goes unnoticed", row.name);
        }
    }
}

/// No mistake is without a script.
#[test]
fn every_mistake_has_a_script() {
    for plant in Plant::shown_in(outlast::lab::Shows::Checkpoint)
        .filter(|plant| *plant != Plant::FreshNotMarked)
    {
        assert!(SCRIPTS.iter().any(|script| script.plant == plant), "{plant}");
    }
}
