//! Every call, used well and badly: what goes wrong is a code and a text, and nothing else.

#![cfg(not(miri))]

use std::ffi::{CStr, CString, c_int, c_void};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use outlast_c::ArchaptCode::{self, *};
use outlast_c::ArchaptOptions;
use outlast_c::ArchaptType::*;
use outlast_c::code::*;
use outlast_c::memory::*;
use outlast_c::pool::*;
use outlast_c::transaction::*;

/// A process has one pool at a time, so its tests take turns.
static TURN: Mutex<()> = Mutex::new(());

struct Home {
    dir: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Home {
    fn new() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        Self { dir: tempfile::tempdir().unwrap(), _turn: turn }
    }

    fn path(&self) -> CString {
        text_of(&self.dir.path().join("a.pool"))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = Archapt_Tx_Abort();
        let _ = Archapt_Tx_End();
        // A thread of a scope gives its session back a moment after the scope's end.
        while Archapt_Close() == ARCHAPT_BUSY {
            std::thread::yield_now();
        }
    }
}

fn text_of(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

fn options() -> ArchaptOptions {
    ArchaptOptions {
        path: null(),
        size_bytes: 8 << 20,
        scheme: null(),
        ack: null(),
        domain: c"process".as_ptr(),
        cache_bytes: 1 << 20,
        grow_limit_bytes: 0,
        lanes: 0,
        lock_always: 0,
        reserved: [0; 4],
    }
}

fn opened_with(path: &CStr, change: impl FnOnce(&mut ArchaptOptions)) -> ArchaptCode {
    let mut options = ArchaptOptions { path: path.as_ptr(), ..options() };
    change(&mut options);
    // SAFETY: the texts are literals or outlive the call.
    unsafe { Archapt_Init(&options) }
}

fn last_error() -> String {
    // SAFETY: the library's text ends with a zero, and is copied before the next call.
    unsafe { CStr::from_ptr(Archapt_Last_Error()) }.to_string_lossy().into_owned()
}

fn load(at: u64) -> Result<u64, ArchaptCode> {
    let mut word = 7u64;
    // SAFETY: a word has room for a word.
    match unsafe { Archapt_Load(at, (&raw mut word).cast(), 8) } {
        ARCHAPT_OK => Ok(word),
        code => Err(code),
    }
}

fn store(at: u64, word: u64) -> ArchaptCode {
    // SAFETY: a word has the bytes of a word.
    unsafe { Archapt_Store(at, (&raw const word).cast(), 8) }
}

fn root() -> u64 {
    let mut at = 7;
    // SAFETY: there is room for an offset.
    assert_eq!(unsafe { Archapt_Root(&mut at) }, ARCHAPT_OK);
    at
}

fn is_physical(ticket: u64) -> Result<bool, ArchaptCode> {
    let mut answer: c_int = 7;
    // SAFETY: there is room for an int.
    match unsafe { Archapt_Is_Physical(ticket, &mut answer) } {
        ARCHAPT_OK => Ok(answer == 1),
        code => Err(code),
    }
}

/// Start, `body`, logical commit, end.
fn transaction<R>(body: impl FnOnce() -> R) -> R {
    assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK, "{}", last_error());
    let result = body();
    assert_eq!(Archapt_Tx_LCommit(), ARCHAPT_OK, "{}", last_error());
    assert_eq!(Archapt_Tx_End(), ARCHAPT_OK, "{}", last_error());
    result
}

/// A pool with a root block of `words` words that are zero.
fn begin(home: &Home, words: usize, change: impl FnOnce(&mut ArchaptOptions)) -> u64 {
    assert_eq!(opened_with(&home.path(), change), ARCHAPT_OK, "{}", last_error());
    transaction(|| {
        assert_eq!(root(), 0);
        let block = Archapt_Malloc(ARCHAPT_VALUE as c_int, words * 8);
        assert_ne!(block, 0, "{}", last_error());
        let zeros = vec![0u64; words];
        // SAFETY: the words are there.
        let code = unsafe { Archapt_Store(block, zeros.as_ptr().cast(), words * 8) };
        assert_eq!(code, ARCHAPT_OK);
        assert_eq!(Archapt_Set_Root(block), ARCHAPT_OK);
        block
    })
}

#[test]
fn what_is_committed_is_there_when_the_pool_is_opened_again() {
    for scheme in [c"undo", c"redo", c"undo-archapt", c"redo-archapt"] {
        for ack in [c"logical", c"physical"] {
            let home = Home::new();
            let with = |options: &mut ArchaptOptions| {
                options.scheme = scheme.as_ptr();
                options.ack = ack.as_ptr();
            };
            let block = begin(&home, 8, with);
            transaction(|| {
                assert_eq!(Archapt_Will_Write(block, 64), ARCHAPT_OK);
                assert_eq!(store(block, 1), ARCHAPT_OK);
                assert_eq!(load(block), Ok(1));
            });
            let ticket = Archapt_Ticket();
            assert_eq!(
                is_physical(ticket).is_ok_and(|is| is),
                ack == c"physical" || scheme == c"undo"
            );
            assert_eq!(Archapt_Wait(ticket), ARCHAPT_OK);
            assert_eq!(is_physical(ticket), Ok(true));
            assert_eq!(Archapt_Close(), ARCHAPT_OK, "{}", last_error());
            assert_eq!(opened_with(&home.path(), with), ARCHAPT_OK, "{}", last_error());
            assert_eq!(transaction(|| (root(), load(block))), (block, Ok(1)));
            assert_eq!(Archapt_Ticket(), 0, "nothing was changed");
            assert_eq!(is_physical(ticket), Ok(true));
        }
    }
}

#[test]
fn what_is_not_committed_is_undone() {
    let home = Home::new();
    let block = begin(&home, 8, |_| ());
    assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
    assert_eq!(store(block, 1), ARCHAPT_OK);
    assert_eq!(Archapt_Tx_Abort(), ARCHAPT_OK);
    assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
    assert_eq!(store(block, 2), ARCHAPT_OK);
    assert_eq!(Archapt_Tx_End(), ARCHAPT_NOT_COMMITTED);
    assert_eq!(transaction(|| load(block)), Ok(0));
}

#[test]
fn calls_out_of_turn_are_told_so() {
    let home = Home::new();
    let without_pool = [Archapt_Tx_Start(), Archapt_Tx_LCommit(), Archapt_Tx_End()];
    assert_eq!(without_pool, [ARCHAPT_NOT_OPEN; 3]);
    assert_eq!((Archapt_Close(), Archapt_Wait(0)), (ARCHAPT_NOT_OPEN, ARCHAPT_NOT_OPEN));
    assert_eq!((load(4096), is_physical(0)), (Err(ARCHAPT_NOT_OPEN), Err(ARCHAPT_NOT_OPEN)));
    assert_eq!(Archapt_Malloc(1, 64), 0);
    assert_eq!(Archapt_Last_Code(), ARCHAPT_NOT_OPEN);
    assert!(last_error().contains("Archapt_Init"), "{}", last_error());

    let block = begin(&home, 8, |_| ());
    assert_eq!(opened_with(&home.path(), |_| ()), ARCHAPT_ALREADY_OPEN);
    let idle = [Archapt_Tx_LCommit(), Archapt_Tx_End(), Archapt_Tx_Abort(), store(block, 1)];
    assert_eq!(idle, [ARCHAPT_NO_TRANSACTION; 4]);
    let idle = [Archapt_Free(2, block, 64), Archapt_Set_Root(block), Archapt_Will_Write(block, 8)];
    assert_eq!(idle, [ARCHAPT_NO_TRANSACTION; 3]);

    assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
    let under_way = [Archapt_Tx_Start(), Archapt_Close(), Archapt_Leave(), Archapt_Wait(0)];
    assert_eq!(under_way, [ARCHAPT_IN_TRANSACTION; 4]);
    assert_eq!(store(block, 5), ARCHAPT_OK);
    assert_eq!(Archapt_Tx_LCommit(), ARCHAPT_OK);
    let committed = [Archapt_Tx_LCommit(), Archapt_Tx_Abort(), store(block, 6)];
    assert_eq!(committed, [ARCHAPT_NO_TRANSACTION; 3]);
    assert!(last_error().contains("Archapt_Tx_End"), "{}", last_error());
    assert_eq!(
        (Archapt_Tx_Start(), Archapt_Close()),
        (ARCHAPT_IN_TRANSACTION, ARCHAPT_IN_TRANSACTION)
    );
    assert_eq!(Archapt_Tx_End(), ARCHAPT_OK);
    let never = Archapt_Ticket() + 1_000_000;
    assert_eq!(transaction(|| load(block)), Ok(5));
    assert_eq!(Archapt_Wait(never), ARCHAPT_UNKNOWN_TICKET);
    assert_eq!(is_physical(never), Err(ARCHAPT_UNKNOWN_TICKET));
}

#[test]
fn blocks_are_given_back_as_they_were_taken() {
    let home = Home::new();
    let kept = begin(&home, 8, |_| ());
    let [key, large] = transaction(|| {
        [(ARCHAPT_KEY, 60), (ARCHAPT_LOG, 100_000)].map(|(kind, size)| {
            let block = Archapt_Malloc(kind as c_int, size);
            assert_ne!(block, 0, "{}", last_error());
            block
        })
    });
    transaction(|| {
        let free = |kind, at, size| Archapt_Free(kind as c_int, at, size);
        assert_eq!(free(ARCHAPT_VALUE, key, 60), ARCHAPT_WRONG_TYPE);
        assert_eq!(free(ARCHAPT_KEY, key, 65), ARCHAPT_WRONG_SIZE);
        assert!(last_error().contains("64 bytes"), "{}", last_error());
        assert_eq!(free(ARCHAPT_KEY, key, 0), ARCHAPT_WRONG_SIZE);
        assert_eq!(free(ARCHAPT_LOG, large, usize::MAX), ARCHAPT_WRONG_SIZE);
        assert_eq!(free(ARCHAPT_KEY, large, 100_000), ARCHAPT_WRONG_TYPE);
        assert_eq!(Archapt_Free(4, key, 60), ARCHAPT_BAD_ARGUMENT);
        assert_eq!(Archapt_Free(-1, key, 60), ARCHAPT_BAD_ARGUMENT);
        assert_eq!(Archapt_Malloc(9, 8), 0);
        assert_eq!(free(ARCHAPT_KEY, key, 60), ARCHAPT_OK, "{}", last_error());
        assert_eq!(free(ARCHAPT_LOG, large, 100_000), ARCHAPT_OK, "{}", last_error());
    });
    // What is no block ends the transaction.
    for at in [0, key, kept + 8, 1 << 40, u64::MAX] {
        assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
        assert_eq!(Archapt_Free(ARCHAPT_VALUE as c_int, at, 64), ARCHAPT_BAD_ADDRESS, "{at}");
        assert_eq!(Archapt_Tx_LCommit(), ARCHAPT_BAD_ADDRESS);
        assert_eq!(Archapt_Tx_End(), ARCHAPT_NO_TRANSACTION);
    }
    assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
    assert_eq!(Archapt_Malloc(ARCHAPT_KEY as c_int, usize::MAX), 0);
    assert_eq!(Archapt_Last_Code(), ARCHAPT_OUT_OF_SPACE);
    assert_eq!(Archapt_Tx_LCommit(), ARCHAPT_OUT_OF_SPACE);
}

#[test]
fn bad_addresses_and_pointers_touch_nothing() {
    let home = Home::new();
    let block = begin(&home, 8, |_| ());
    let mut word = 7u64;
    let out: *mut c_void = (&raw mut word).cast();
    assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
    // SAFETY: null is allowed; a size that nothing can have is refused before anything is touched.
    unsafe {
        assert_eq!(Archapt_Load(block, null_mut(), 8), ARCHAPT_BAD_ARGUMENT);
        assert_eq!(Archapt_Store(block, null(), 8), ARCHAPT_BAD_ARGUMENT);
        assert_eq!(Archapt_Load(block, null_mut(), 0), ARCHAPT_OK);
        assert_eq!(Archapt_Store(block, null(), 0), ARCHAPT_OK);
        assert_eq!(Archapt_Load(block, out, usize::MAX), ARCHAPT_BAD_ARGUMENT);
        assert_eq!(Archapt_Store(block, out, 1 << 63), ARCHAPT_BAD_ARGUMENT);
        assert_eq!(Archapt_Root(null_mut()), ARCHAPT_BAD_ARGUMENT);
        assert_eq!(Archapt_Is_Physical(0, null_mut()), ARCHAPT_BAD_ARGUMENT);
    }
    assert_eq!(Archapt_Will_Write(u64::MAX, 8), ARCHAPT_BAD_ADDRESS);
    assert_eq!(Archapt_Tx_LCommit(), ARCHAPT_OK, "none of that was the transaction's fault");
    assert_eq!(Archapt_Tx_End(), ARCHAPT_OK);
    for at in [0, 64, 1 << 30, u64::MAX - 4, u64::MAX] {
        for call in [|at| store(at, 1), |at| load(at).unwrap_err(), |at| Archapt_Set_Root(at)] {
            assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
            assert_eq!(call(at), ARCHAPT_BAD_ADDRESS, "{at}");
            assert_eq!(Archapt_Tx_Abort(), ARCHAPT_OK);
        }
    }
    assert_eq!(transaction(|| load(block)), Ok(0));
}

#[test]
fn pools_that_cannot_be_opened_say_why() {
    let home = Home::new();
    // SAFETY: null is allowed.
    unsafe {
        assert_eq!(Archapt_Init(null()), ARCHAPT_BAD_ARGUMENT);
        assert_eq!(Archapt_Init(&options()), ARCHAPT_BAD_ARGUMENT);
    }
    let path = home.path();
    assert_eq!(opened_with(&path, |o| o.size_bytes = 0), ARCHAPT_NOT_FOUND);
    assert_eq!(opened_with(&path, |o| o.size_bytes = 4096), ARCHAPT_BAD_ARGUMENT);
    assert_eq!(opened_with(&path, |o| o.size_bytes = u64::MAX), ARCHAPT_BAD_ARGUMENT);
    assert_eq!(opened_with(&path, |o| o.scheme = c"swiff".as_ptr()), ARCHAPT_BAD_ARGUMENT);
    assert!(last_error().contains("'swiff'"), "{}", last_error());
    assert_eq!(opened_with(&path, |o| o.ack = c"never".as_ptr()), ARCHAPT_BAD_ARGUMENT);
    assert_eq!(opened_with(&path, |o| o.domain = c"moon".as_ptr()), ARCHAPT_BAD_ARGUMENT);
    assert_eq!(opened_with(&path, |o| o.reserved[3] = 1), ARCHAPT_BAD_ARGUMENT);
    assert_eq!(opened_with(&path, |o| o.lanes = u32::MAX), ARCHAPT_BAD_ARGUMENT);
    assert!(!home.dir.path().join("a.pool").exists(), "nothing was made of it");

    std::fs::write(home.dir.path().join("a.pool"), [b'x'; 8192]).unwrap();
    assert_eq!(opened_with(&path, |_| ()), ARCHAPT_NOT_A_POOL);
    // SAFETY: the path outlives the call.
    let created = unsafe { Archapt_Create(&ArchaptOptions { path: path.as_ptr(), ..options() }) };
    assert_eq!(created, ARCHAPT_EXISTS);
    assert_eq!(opened_with(&text_of(home.dir.path()), |_| ()), ARCHAPT_NOT_A_POOL);
    assert_eq!(opened_with(c"/etc/passwd", |_| ()), ARCHAPT_NOT_A_POOL);
    assert_eq!(opened_with(&text_of(Path::new("")), |o| o.size_bytes = 0), ARCHAPT_NOT_FOUND);
}

#[test]
fn a_conflict_is_a_code_and_the_loser_starts_again() {
    let home = Home::new();
    let block = begin(&home, 8, |options| options.lock_always = 1);
    let (both, rounds) = (Barrier::new(2), if cfg!(miri) { 3 } else { 500 });
    // One that is sure to happen: what the first thread has read, the second stores to before that
    // commits.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
            assert_eq!(load(block), Ok(0));
            both.wait();
            both.wait();
            // With redo the commit finds out, with undo the store.
            let late = store(block, 2);
            assert!([ARCHAPT_OK, ARCHAPT_CONFLICT].contains(&late));
            assert_eq!(Archapt_Tx_LCommit(), ARCHAPT_CONFLICT);
            assert!(last_error().contains("in the way"), "{}", last_error());
            assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
            assert_eq!(store(block, 0), ARCHAPT_OK);
            assert_eq!(Archapt_Tx_LCommit(), ARCHAPT_OK);
            assert_eq!(Archapt_Tx_End(), ARCHAPT_OK);
        });
        scope.spawn(|| {
            both.wait();
            assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
            assert_eq!(store(block, 1), ARCHAPT_OK);
            assert_eq!(Archapt_Tx_LCommit(), ARCHAPT_OK);
            assert_eq!(Archapt_Tx_End(), ARCHAPT_OK);
            both.wait();
        });
    });
    let add_one = || {
        assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK);
        let code = match load(block) {
            Ok(sum) => store(block, sum + 1),
            Err(code) => code,
        };
        let outcome = Archapt_Tx_LCommit();
        assert!(code == ARCHAPT_OK || outcome == code);
        if outcome == ARCHAPT_OK {
            assert_eq!(Archapt_Tx_End(), ARCHAPT_OK);
        }
        assert!(outcome == ARCHAPT_OK || outcome == ARCHAPT_CONFLICT, "{}", last_error());
        outcome == ARCHAPT_OK
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..rounds).for_each(|_| while !add_one() {}));
        }
    });
    assert_eq!(transaction(|| load(block)), Ok(3 * rounds));
}

#[test]
fn sessions_go_back_with_their_threads() {
    let home = Home::new();
    let block = begin(&home, 8, |options| options.lanes = 2);
    // A thread that ends in the middle of a transaction undoes it.
    let in_the_middle = move || {
        assert_eq!(Archapt_Tx_Start(), ARCHAPT_OK, "{}", last_error());
        assert_eq!(store(block, 9), ARCHAPT_OK);
    };
    for _ in 0..4 {
        std::thread::spawn(in_the_middle).join().unwrap();
    }
    assert_eq!(transaction(|| load(block)), Ok(0));

    let (taken, over) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            transaction(|| load(block)).unwrap();
            taken.wait();
            over.wait();
        });
        taken.wait();
        let third = scope.spawn(|| (Archapt_Tx_Start(), last_error()));
        let (code, text) = third.join().unwrap();
        assert_eq!(code, ARCHAPT_NO_LANE);
        assert!(text.contains("2 lanes"), "{text}");
        assert_eq!(Archapt_Leave(), ARCHAPT_OK);
        scope.spawn(|| transaction(|| load(block))).join().unwrap().unwrap();
        assert_eq!(Archapt_Close(), ARCHAPT_BUSY, "a thread has its session yet");
        assert!(last_error().contains("1 other"), "{}", last_error());
        over.wait();
        other.join().unwrap();
    });
    assert_eq!(transaction(|| load(block)), Ok(0), "the pool is still open");
    assert_eq!(Archapt_Close(), ARCHAPT_OK, "{}", last_error());
}

#[test]
fn every_code_has_a_text() {
    for code in -1..40 {
        // SAFETY: the library's texts end with a zero and live for ever.
        let text = unsafe { CStr::from_ptr(Archapt_Error_Text(code)) }.to_str().unwrap();
        assert_eq!(text == "no such code", !(0..=ARCHAPT_FORKED as c_int).contains(&code));
    }
    // SAFETY: as above.
    let version = unsafe { CStr::from_ptr(Archapt_Version()) };
    assert_eq!(version.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
}
