//! A forked child and its parent's pools: every call refuses with a typed error, every destructor
//! leaves the pool alone, whichever of the two goes on first. From Rust and from C.
//!
//! A child has one thread. It ends without the test's own destructors, and says by a file what went
//! wrong.
#![cfg(all(unix, not(miri)))]

use std::ffi::{CStr, CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr::null;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outlast::checkpoint::{Checkpoint, CheckpointError};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::scheme::SCHEMES;
use outlast::{Abort, BlockKind, Pool, PoolError, PoolOffset, RootKind, Runner, Scheme, Transact};
use outlast_c::code::Archapt_Last_Error;
use outlast_c::code::ArchaptCode::{self, *};
use outlast_c::handles::code::outlast_code::{self, *};
use outlast_c::handles::lane::*;
use outlast_c::handles::memory::*;
use outlast_c::handles::pool::*;
use outlast_c::memory::*;
use outlast_c::pool::*;
use outlast_c::transaction::*;
use outlast_pmem::{
    Counted, Delayed, Domain, MapError, MapOptions, Mapped, Medium, Overlay, WriteCost,
};

mod system {
    use std::ffi::c_int;

    unsafe extern "C" {
        pub fn fork() -> c_int;
        pub fn waitpid(child: c_int, status: *mut c_int, options: c_int) -> c_int;
        pub fn _exit(status: c_int) -> !;
        pub fn exit(status: c_int) -> !;
    }
}

/// A child that works beside its parent.
struct Child {
    id: c_int,
    says: PathBuf,
}

/// Forks a child that does `work`. It ends by `exit`, which runs the thread's destructors.
fn fork(directory: &Path, work: impl FnOnce()) -> Child {
    static CHILDREN: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = CHILDREN.fetch_add(1, Ordering::Relaxed);
    let says = directory.join(format!("child-{number}-says"));
    // SAFETY: the child goes on with this thread alone, takes no lock that another thread of the
    // test may hold, and ends below.
    let id = unsafe { system::fork() };
    assert!(id >= 0, "there is no child");
    if id == 0 {
        let done = catch_unwind(AssertUnwindSafe(work));
        if let Err(panic) = done {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            let _ = std::fs::write(&says, text.unwrap_or_default());
            // SAFETY: it ends this process.
            unsafe { system::_exit(1) }
        }
        // SAFETY: it ends this process, and runs what its one thread has registered.
        unsafe { system::exit(0) }
    }
    Child { id, says }
}

impl Child {
    fn join(self) {
        let mut status = 0;
        // SAFETY: there is room for a status.
        let ended = unsafe { system::waitpid(self.id, &mut status, 0) };
        let said = std::fs::read_to_string(&self.says).unwrap_or_default();
        assert_eq!((ended, status), (self.id, 0), "the child says: {said}");
    }
}

/// A flag in the file system, which a parent and its child both see.
struct Flag(PathBuf);

impl Flag {
    fn raise(&self) {
        std::fs::write(&self.0, "").unwrap();
    }

    fn wait(&self) {
        while !self.0.exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

fn map() -> MapOptions {
    MapOptions { domain: Some(Domain::Process), max_len: 64 << 20, ..MapOptions::default() }
}

fn small() -> CreateOptions {
    CreateOptions { lanes: 3, lane_bytes: 4096, ..CreateOptions::default() }
}

fn sound_schemes() -> impl Iterator<Item = Scheme> {
    SCHEMES.iter().map(|row| row.scheme).filter(|scheme| !scheme.is_published())
}

fn create(path: &Path, scheme: Scheme) -> (Pool, PoolOffset) {
    let open = OpenOptions::with_scheme(scheme);
    let pool = Pool::create_with(path, 1 << 20, &small(), &open, &map()).unwrap();
    let root = |tx: &mut outlast::Tx<'_, _>| {
        let block = tx.alloc(4096, BlockKind::General)?;
        tx.store(block, &[0; 4096])?;
        tx.set_root(block, RootKind::Opaque)?;
        Ok(block)
    };
    let block = pool.lane().unwrap().run(root).unwrap();
    (pool, block)
}

fn word(block: PoolOffset, number: u64) -> PoolOffset {
    block.plus(number * 512)
}

/// The pool is sound and its first words are these.
fn judge(path: &Path, block: PoolOffset, expected: &[u64]) {
    let recovered = UnrecoveredPool::open_file(path, &map()).unwrap().recover().unwrap();
    assert_eq!(recovered.check().findings, []);
    let mut found = vec![0; expected.len()];
    for (number, found) in (0..).zip(&mut found) {
        *found = recovered.medium().load_u64(word(block, number));
    }
    assert_eq!(found, expected);
}

/// In each order: the child's destructors run before the parent goes on, or after.
#[test]
fn a_child_refuses_everything_and_its_destructors_touch_nothing() {
    for (scheme, parent_first) in
        sound_schemes().flat_map(|scheme| [(scheme, false), (scheme, true)])
    {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p");
        let flag = Flag(directory.path().join("flag"));
        let (pool, block) = create(&path, scheme);
        let mut lane = pool.lane().unwrap();
        let other = pool.lane().unwrap();
        lane.run(|tx| tx.store_u64(word(block, 0), 1)).unwrap();
        let ((), ticket) = lane.run_async(|tx| tx.store_u64(word(block, 1), 2)).unwrap();
        let ((), physical) = lane.run_ticketed(|_| Ok(())).unwrap();
        let mut lanes = Some((lane, other));
        let child = fork(directory.path(), || {
            if parent_first {
                flag.wait();
            }
            let (mut lane, other) = lanes.take().unwrap();
            let is_forked = |error: PoolError| matches!(error, PoolError::Forked);
            assert!(is_forked(pool.lane().err().unwrap()));
            assert!(is_forked(pool.lane_at(2).err().unwrap()));
            assert!(is_forked(pool.sync().unwrap_err()));
            assert!(is_forked(pool.await_durable(ticket).unwrap_err()));
            assert!(is_forked(pool.grow(2 << 20).unwrap_err()));
            assert!(is_forked(pool.root().unwrap_err()));
            let target = directory.path().join("checkpoint");
            let error = pool.checkpoint(&target).unwrap_err();
            assert!(matches!(error, CheckpointError::Forked) && !target.exists(), "{error}");
            let store = |tx: &mut outlast::Tx<'_, _>| tx.store_u64(word(block, 2), 99);
            let is_abort = |abort: &Abort| matches!(abort, Abort::Forked);
            assert!(is_abort(&lane.run(store).unwrap_err()));
            assert!(is_abort(&lane.run_async(store).unwrap_err()));
            assert!(is_abort(&lane.run_ticketed(store).unwrap_err()));
            assert!(is_abort(&lane.await_physical(physical).unwrap_err()));
            assert!(is_abort(&lane.sync().unwrap_err()));
            let mut running = lane.begin();
            assert!(is_abort(&running.load_u64(word(block, 0)).unwrap_err()));
            assert!(is_abort(&running.store_u64(word(block, 0), 99).unwrap_err()));
            assert!(is_abort(&running.alloc(64, BlockKind::General).unwrap_err()));
            assert!(is_abort(&running.free(block).unwrap_err()));
            assert!(is_abort(&running.root().unwrap_err()));
            assert!(is_abort(&running.set_root(block, RootKind::Opaque).unwrap_err()));
            let (lane, outcome) = running.commit();
            assert!(is_abort(&outcome.unwrap_err()));
            let (lane, outcome) = lane.begin().commit_async();
            assert!(is_abort(&outcome.unwrap_err()));
            drop(lane.begin().abort());
            drop(other.begin());
        });
        let mut child = Some(child);
        if !parent_first {
            child.take().unwrap().join();
        }
        let (mut lane, mut other) = lanes.take().unwrap();
        lane.run(|tx| tx.store_u64(word(block, 2), 3)).unwrap();
        other.run(|tx| tx.store_u64(word(block, 3), 4)).unwrap();
        lane.run_async(|tx| tx.store_u64(word(block, 4), 5)).unwrap();
        if let Some(child) = child {
            flag.raise();
            child.join();
        }
        lane.run(|tx| tx.store_u64(word(block, 5), 6)).unwrap();
        drop((lane, other, lanes));
        // Not closed in peace: recovery reads the log that both could have written to.
        drop(pool);
        judge(&path, block, &[1, 2, 3, 4, 5, 6, 0]);
    }
}

/// What is wrapped around a mapped file passes on whose it is.
#[test]
fn a_medium_around_a_file_is_refused_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let medium = Mapped::create(&path, 1 << 20, &map()).unwrap();
    let medium = Arc::new(Counted::new(Delayed::new(medium, WriteCost::default())));
    let pool = Pool::create_on(medium.clone(), &small(), &OpenOptions::default()).unwrap();
    assert!(medium.file().is_some());
    let child = fork(directory.path(), || {
        assert!(matches!(pool.lane().err().unwrap(), PoolError::Forked));
        let recovered = UnrecoveredPool::open(medium.clone()).unwrap().recover();
        assert!(matches!(recovered.err().unwrap(), PoolError::Forked));
        assert!(Overlay::new(&medium).is_forked());
    });
    child.join();
    drop(pool.lane().unwrap());
}

/// Transactions that are under way when the process forks are the parent's.
#[test]
fn a_transaction_under_way_is_the_parent_s() {
    for scheme in sound_schemes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("p");
        let (pool, block) = create(&path, scheme);
        let mut lane = pool.lane().unwrap();
        let mut child = None;
        let mut in_child = false;
        let ended = lane.run(|tx| {
            tx.store_u64(word(block, 0), 1)?;
            if child.is_none() {
                // SAFETY: as of `fork`.
                let id = unsafe { system::fork() };
                (child, in_child) = (Some(id), id == 0);
            }
            let value = if in_child { 99 } else { 2 };
            tx.store_u64(word(block, 1), value)?;
            tx.alloc(64, BlockKind::General)?;
            Ok(())
        });
        if in_child {
            let refused = matches!(ended, Err(Abort::Forked));
            drop(lane);
            // SAFETY: it ends this process.
            unsafe { system::_exit(if refused { 0 } else { 1 }) }
        }
        ended.unwrap();
        Child { id: child.unwrap(), says: directory.path().join("nothing") }.join();

        let mut running = lane.begin();
        running.store_u64(word(block, 2), 3).unwrap();
        let mut running = Some(running);
        for is_dropped in [false, true] {
            let child = fork(directory.path(), || {
                let mut running = running.take().unwrap();
                assert!(running.store(word(block, 3), &[9; 100]).is_err());
                if is_dropped {
                    return drop(running);
                }
                let (_, outcome) = running.commit();
                assert!(matches!(outcome, Err(Abort::Forked)));
            });
            child.join();
        }
        let (lane, outcome) = running.take().unwrap().commit();
        outcome.unwrap();
        drop((lane, running));
        drop(pool);
        judge(&path, block, &[1, 2, 3, 0]);
    }
}

/// The lock is the parent's, as long as it has the pool, and no longer.
#[test]
fn a_child_opens_pools_of_its_own_and_keeps_no_lock() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("p");
    let (closed, opened) = (Flag(directory.path().join("c")), Flag(directory.path().join("o")));
    let (pool, block) = create(&path, Scheme::default());
    let mut pool = Some(pool);
    let open = || Pool::open_with(&path, &OpenOptions::default(), &map());
    let child = fork(directory.path(), || {
        let inherited = pool.take().unwrap();
        let error = open().expect_err("the parent has it");
        assert!(matches!(error, PoolError::Map(MapError::AlreadyOpen { .. })), "{error}");
        closed.raise();
        opened.wait();
        // Closing what was inherited unlocks nothing.
        drop(inherited.close());
        let error = open().expect_err("the parent has it again");
        assert!(matches!(error, PoolError::Map(MapError::AlreadyOpen { .. })), "{error}");
        let own = directory.path().join("own");
        let (pool, block) = create(&own, Scheme::default());
        pool.lane().unwrap().run(|tx| tx.store_u64(word(block, 0), 7)).unwrap();
        drop(pool);
        judge(&own, block, &[7]);
    });
    closed.wait();
    drop(pool.take().unwrap());
    // The child has its copy still, and no lock with it.
    let again = open().unwrap();
    opened.raise();
    child.join();
    again.lane().unwrap().run(|tx| tx.store_u64(word(block, 0), 8)).unwrap();
    drop(again);
    judge(&path, block, &[8]);
}

/// A checkpoint that is open when the process forks is unlocked by its parent alone.
#[test]
fn a_child_keeps_no_lock_of_a_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (over, target) = (Flag(at("over")), at("checkpoint"));
    let (pool, _) = create(&at("p"), Scheme::default());
    pool.checkpoint(&target).unwrap();
    let mut open = Some(Checkpoint::open(&target).unwrap());
    let dropped = fork(directory.path(), || drop(open.take()));
    let kept = fork(directory.path(), || over.wait());
    dropped.join();
    let error = pool.checkpoint(&target).unwrap_err();
    assert!(matches!(error, CheckpointError::InUse { .. }), "{error}");
    drop(open);
    pool.checkpoint(&target).unwrap();
    over.raise();
    kept.join();
}

fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

fn options() -> outlast_options {
    outlast_options {
        scheme: null(),
        ack: null(),
        domain: c"process".as_ptr(),
        cache_bytes: 0,
        grow_limit_bytes: 0,
        lane_bytes: 4096,
        lanes: 4,
        lock_always: 0,
        checksums: 0,
        reserved: [0; 5],
    }
}

fn take(pool: outlast_pool) -> Result<outlast_lane, outlast_code> {
    let mut lane = outlast_lane { id: 0 };
    // SAFETY: there is room for a handle.
    match unsafe { outlast_take_lane(pool, &mut lane) } {
        OUTLAST_OK => Ok(lane),
        code => Err(code),
    }
}

fn create_c(path: &CStr) -> outlast_pool {
    let mut pool = outlast_pool { id: 0 };
    // SAFETY: texts, options and the place outlive the call.
    let code = unsafe { outlast_create(path.as_ptr(), 1 << 20, &options(), &mut pool) };
    assert_eq!(code, OUTLAST_OK);
    pool
}

fn store(lane: outlast_lane, at: u64, value: u64) -> outlast_code {
    // SAFETY: a word has the bytes of a word.
    unsafe { outlast_store(lane, at, (&raw const value).cast(), 8) }
}

fn load(lane: outlast_lane, at: u64) -> (outlast_code, u64) {
    let mut value = 0u64;
    // SAFETY: a word has room for a word.
    let code = unsafe { outlast_load(lane, at, (&raw mut value).cast(), 8) };
    (code, value)
}

fn info(pool: outlast_pool) -> outlast_code {
    let mut info = std::mem::MaybeUninit::uninit();
    // SAFETY: there is room for what it tells.
    unsafe { outlast_pool_info(pool, info.as_mut_ptr()) }
}

/// Handles of the parent are refused in the child, in every call, while another thread of the
/// parent holds and leaves the library's locks. The child opens a pool of its own.
#[test]
fn handles_of_the_parent_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = c_path(&directory.path().join("p"));
    let pool = create_c(&path);
    let lane = take(pool).unwrap();
    let mut at = 0;
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    // SAFETY: there is room for an offset.
    assert_eq!(unsafe { outlast_alloc(lane, 64, &mut at) }, OUTLAST_OK);
    assert_eq!(outlast_set_root(lane, at), OUTLAST_OK);
    assert_eq!(outlast_commit(lane), OUTLAST_OK);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(info(pool), OUTLAST_OK);
            }
        });
        for round in 0..20u64 {
            assert_eq!(outlast_begin(lane), OUTLAST_OK);
            assert_eq!(store(lane, at, round), OUTLAST_OK);
            let child = fork(directory.path(), || {
                assert_eq!(take(pool).unwrap_err(), OUTLAST_FORKED);
                assert_eq!(info(pool), OUTLAST_FORKED);
                assert_eq!(outlast_sync(pool), OUTLAST_FORKED);
                assert_eq!(outlast_close(pool), OUTLAST_FORKED);
                assert_eq!(load(lane, at).0, OUTLAST_FORKED);
                assert_eq!(store(lane, at, 99), OUTLAST_FORKED);
                assert_eq!(outlast_free(lane, at), OUTLAST_FORKED);
                assert_eq!(outlast_commit(lane), OUTLAST_FORKED);
                assert_eq!(outlast_abort(lane), OUTLAST_FORKED);
                assert_eq!(outlast_begin(lane), OUTLAST_FORKED);
                assert_eq!(outlast_give_back(lane), OUTLAST_FORKED);
                if round == 0 {
                    let own = create_c(&c_path(&directory.path().join("own")));
                    let mine = take(own).unwrap();
                    assert_eq!(outlast_begin(mine), OUTLAST_OK);
                    assert_eq!(outlast_commit(mine), OUTLAST_OK);
                    assert_eq!(outlast_give_back(mine), OUTLAST_OK);
                    assert_eq!(outlast_close(own), OUTLAST_OK);
                    assert_eq!(outlast_close(own), OUTLAST_BAD_HANDLE);
                    assert_eq!(info(pool), OUTLAST_FORKED);
                }
            });
            child.join();
            assert_eq!(outlast_commit(lane), OUTLAST_OK);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(load(lane, at), (OUTLAST_OK, 19));
    assert_eq!(outlast_abort(lane), OUTLAST_OK);
    assert_eq!(outlast_give_back(lane), OUTLAST_OK);
    assert_eq!(outlast_close(pool), OUTLAST_OK);
    let mut findings = 7;
    // SAFETY: the text outlives the call, and there is room for a number.
    let code = unsafe { outlast_check(path.as_ptr(), null(), &mut findings) };
    assert_eq!((code, findings), (OUTLAST_OK, 0));
}

fn init(path: &CStr) -> ArchaptCode {
    let options = ArchaptOptions {
        path: path.as_ptr(),
        size_bytes: 4 << 20,
        scheme: c"swift".as_ptr(),
        ack: null(),
        domain: c"process".as_ptr(),
        cache_bytes: 0,
        grow_limit_bytes: 0,
        lanes: 2,
        lock_always: 0,
        reserved: [0; 4],
    };
    // SAFETY: texts and options outlive the call.
    unsafe { Archapt_Init(&options) }
}

fn archapt_text() -> String {
    // SAFETY: the library's text ends with a zero, and is copied before the next call.
    unsafe { CStr::from_ptr(Archapt_Last_Error()) }.to_string_lossy().into_owned()
}

#[test]
fn the_session_of_the_parent_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = c_path(&directory.path().join("p"));
    assert_eq!(init(&path), ARCHAPT_OK, "{}", archapt_text());
    assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
    let at = Archapt_Malloc(ArchaptType::ARCHAPT_GENERAL as c_int, 64);
    assert_ne!(at, 0);
    assert_eq!(Archapt_Set_Root(at), ARCHAPT_OK);
    let child = fork(directory.path(), || {
        assert_eq!(Archapt_Tx_LCommit(), ARCHAPT_FORKED);
        assert_eq!(Archapt_Tx_End(), ARCHAPT_FORKED);
        assert_eq!(Archapt_Tx_Abort(), ARCHAPT_FORKED);
        assert_eq!(Archapt_Tx_Start(), ARCHAPT_FORKED);
        assert_eq!(Archapt_Malloc(ArchaptType::ARCHAPT_GENERAL as c_int, 64), 0);
        assert_eq!(Archapt_Wait(1), ARCHAPT_FORKED);
        assert_eq!(Archapt_Leave(), ARCHAPT_FORKED);
        assert_eq!(Archapt_Close(), ARCHAPT_FORKED);
        assert!(archapt_text().contains("forked this one"), "{}", archapt_text());
        assert_eq!(init(&path), ARCHAPT_BUSY);
        let own = c_path(&directory.path().join("own"));
        assert_eq!(init(&own), ARCHAPT_OK, "{}", archapt_text());
        assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
        assert_ne!(Archapt_Malloc(ArchaptType::ARCHAPT_GENERAL as c_int, 64), 0);
        assert_eq!(Archapt_Tx_LCommit(), ARCHAPT_OK);
        assert_eq!(Archapt_Tx_End(), ARCHAPT_OK);
        assert_eq!(Archapt_Close(), ARCHAPT_OK);
    });
    child.join();
    let word = 7u64;
    // SAFETY: a word has the bytes of a word.
    assert_eq!(unsafe { Archapt_Store(at, (&raw const word).cast(), 8) }, ARCHAPT_OK);
    assert_eq!(Archapt_Tx_LCommit(), ARCHAPT_OK);
    assert_eq!(Archapt_Tx_End(), ARCHAPT_OK);
    assert_eq!(Archapt_Close(), ARCHAPT_OK);
    judge(&directory.path().join("p"), PoolOffset(at), &[7]);
}
