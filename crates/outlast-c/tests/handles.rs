//! Every call of `outlast.h`, used well and badly: what goes wrong is a code and a text, and
//! nothing else.
#![cfg(not(miri))]

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Barrier;

use outlast_c::handles::code::outlast_code::{self, *};
use outlast_c::handles::code::*;
use outlast_c::handles::lane::*;
use outlast_c::handles::memory::*;
use outlast_c::handles::pool::*;
use outlast_c::handles::reader::*;
use outlast_c::handles::scheme::*;

fn options() -> outlast_options {
    outlast_options {
        scheme: null(),
        ack: null(),
        domain: c"process".as_ptr(),
        cache_bytes: 1 << 20,
        grow_limit_bytes: 0,
        lane_bytes: 0,
        lanes: 0,
        lock_always: 0,
        checksums: 0,
        reserved: [0; 5],
    }
}

const SIZE: u64 = 8 << 20;

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> CString {
        CString::new(self.0.path().join(name).to_str().unwrap()).unwrap()
    }
}

fn create(path: &CStr, options: &outlast_options) -> Result<outlast_pool, outlast_code> {
    let mut pool = outlast_pool { id: 0 };
    // SAFETY: texts, options and the place outlive the call.
    match unsafe { outlast_create(path.as_ptr(), SIZE, options, &mut pool) } {
        OUTLAST_OK => Ok(pool),
        code => Err(code),
    }
}

fn open(path: &CStr, options: &outlast_options) -> Result<outlast_pool, outlast_code> {
    let mut pool = outlast_pool { id: 0 };
    // SAFETY: as above.
    match unsafe { outlast_open(path.as_ptr(), options, &mut pool) } {
        OUTLAST_OK => Ok(pool),
        code => Err(code),
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

fn load(lane: outlast_lane, at: u64) -> Result<u64, outlast_code> {
    let mut word = 7u64;
    // SAFETY: a word has room for a word.
    match unsafe { outlast_load(lane, at, (&raw mut word).cast(), 8) } {
        OUTLAST_OK => Ok(word),
        code => Err(code),
    }
}

fn store(lane: outlast_lane, at: u64, word: u64) -> outlast_code {
    // SAFETY: a word has the bytes of a word.
    unsafe { outlast_store(lane, at, (&raw const word).cast(), 8) }
}

fn alloc(lane: outlast_lane, size: u64) -> Result<u64, outlast_code> {
    let mut at = 0;
    // SAFETY: there is room for an offset.
    match unsafe { outlast_alloc(lane, size, &mut at) } {
        OUTLAST_OK => Ok(at),
        code => Err(code),
    }
}

fn root(lane: outlast_lane) -> u64 {
    let mut at = 7;
    // SAFETY: there is room for an offset.
    assert_eq!(unsafe { outlast_root(lane, &mut at) }, OUTLAST_OK);
    at
}

fn announce(lane: outlast_lane, ranges: &[outlast_range]) -> outlast_code {
    // SAFETY: `ranges` holds `ranges.len()` ranges.
    unsafe { outlast_announce(lane, ranges.as_ptr(), ranges.len()) }
}

fn last_error() -> String {
    // SAFETY: the library's text ends with a zero, and is copied before the next call.
    unsafe { CStr::from_ptr(outlast_last_error()) }.to_string_lossy().into_owned()
}

fn check(path: &CStr) -> (outlast_code, u64) {
    let mut findings = 7;
    // SAFETY: the text outlives the call, and there is room for a number.
    let code = unsafe { outlast_check(path.as_ptr(), null(), &mut findings) };
    (code, findings)
}

/// A pool with a root block of 64 words that are zero, and a lane of it.
fn begun(path: &CStr, options: &outlast_options) -> (outlast_pool, outlast_lane, u64) {
    let pool = create(path, options).unwrap_or_else(|code| panic!("{code:?}: {}", last_error()));
    let lane = take(pool).unwrap();
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(root(lane), 0);
    let block = alloc(lane, 512).unwrap();
    let zeros = [0u8; 512];
    // SAFETY: the bytes are there.
    assert_eq!(unsafe { outlast_store(lane, block, zeros.as_ptr().cast(), 512) }, OUTLAST_OK);
    assert_eq!(outlast_set_root(lane, block), OUTLAST_OK);
    assert_eq!(outlast_commit(lane), OUTLAST_OK, "{}", last_error());
    (pool, lane, block)
}

fn end(pool: outlast_pool, lane: outlast_lane) {
    assert_eq!(outlast_give_back(lane), OUTLAST_OK);
    assert_eq!(outlast_close(pool), OUTLAST_OK, "{}", last_error());
}

const LEDGER: &CStr = c"ledger v1; ledger v1 { 0 entries: u64, 8 first: optional box of entry v1, \
    16 last: optional pointer to entry v1 }; entry v1 { 0 next: optional box of entry v1, 8 number: u64 }";

fn described(lane: outlast_lane, schema: &CStr) -> Result<u64, outlast_code> {
    let mut at = 7;
    // SAFETY: the text outlives the call, and there is room for an offset.
    match unsafe { outlast_described_root(lane, schema.as_ptr(), &mut at) } {
        OUTLAST_OK => Ok(at),
        code => Err(code),
    }
}

fn describe(lane: outlast_lane, schema: &CStr, size: u64) -> Result<u64, outlast_code> {
    let mut at = 7;
    // SAFETY: as above.
    match unsafe { outlast_set_described_root(lane, schema.as_ptr(), size, &mut at) } {
        OUTLAST_OK => Ok(at),
        code => Err(code),
    }
}

/// By the schema in the pool the check finds a leak, and a block with two owners.
#[test]
fn a_described_root_is_followed_by_the_check() {
    let home = Home::new();
    let path = home.path("ledger.pool");
    let pool = create(&path, &options()).unwrap();
    let lane = take(pool).unwrap();
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(described(lane, LEDGER), Ok(0));
    assert_eq!(describe(lane, c"ledger of entries", 24), Err(OUTLAST_BAD_ARGUMENT));
    assert!(last_error().contains("no schema"), "{}", last_error());
    assert_eq!(describe(lane, LEDGER, 16), Err(OUTLAST_BAD_ARGUMENT));
    assert!(last_error().contains("24 bytes, and the root 16"), "{}", last_error());
    let ledger = describe(lane, LEDGER, 24).unwrap();
    let entries: Vec<u64> = (0..9).map(|_| alloc(lane, 64).unwrap()).collect();
    for (number, entry) in (0..).zip(&entries) {
        let next = entries.get(number as usize + 1).copied().unwrap_or(0);
        assert_eq!(store(lane, *entry, next), OUTLAST_OK);
        assert_eq!(store(lane, *entry + 8, number), OUTLAST_OK);
    }
    for (word, at) in [(9, 0), (entries[0], 8), (entries[8], 16)] {
        assert_eq!(store(lane, ledger + at, word), OUTLAST_OK);
    }
    assert_eq!(described(lane, LEDGER), Ok(ledger));
    assert_eq!(described(lane, c"u64"), Err(OUTLAST_BAD_ARGUMENT));
    assert!(last_error().contains("the program expects `u64`"), "{}", last_error());
    assert_eq!(outlast_commit(lane), OUTLAST_OK, "{}", last_error());
    end(pool, lane);
    assert_eq!(check(&path), (OUTLAST_OK, 0), "{}", last_error());

    // Each word that is stored, and the number of findings.
    let change = |at: u64, word: u64| {
        let pool = open(&path, &options()).unwrap();
        let lane = take(pool).unwrap();
        assert_eq!(outlast_begin(lane), OUTLAST_OK);
        assert_eq!(store(lane, at, word), OUTLAST_OK);
        assert_eq!(outlast_commit(lane), OUTLAST_OK, "{}", last_error());
        end(pool, lane);
        check(&path)
    };
    assert_eq!(change(entries[3], entries[5]), (OUTLAST_DAMAGED, 1));
    assert!(last_error().contains("nothing leads to it"), "{}", last_error());
    // Four behind it leak; to the last one a pointer leads.
    assert_eq!(change(entries[3], entries[1]), (OUTLAST_DAMAGED, 5));
    assert!(last_error().contains("two pointers lead"), "{}", last_error());
    assert_eq!(change(entries[3], entries[4]), (OUTLAST_OK, 0));
}

fn stats(pool: outlast_pool) -> outlast_stats {
    let mut stats = std::mem::MaybeUninit::uninit();
    // SAFETY: there is room, and after success all of it was stored.
    unsafe {
        assert_eq!(outlast_pool_stats(pool, stats.as_mut_ptr()), OUTLAST_OK);
        stats.assume_init()
    }
}

#[test]
fn a_pool_tells_what_it_does() {
    let home = Home::new();
    let path = home.path("stats.pool");
    let (pool, lane, block) = begun(&path, &options());
    for word in 0..10 {
        assert_eq!(outlast_begin(lane), OUTLAST_OK);
        assert_eq!(store(lane, block, word), OUTLAST_OK);
        assert_eq!(outlast_commit(lane), OUTLAST_OK);
    }
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(outlast_abort(lane), OUTLAST_OK);
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(store(lane, SIZE, 1), OUTLAST_BAD_ADDRESS);
    assert_eq!(outlast_commit(lane), OUTLAST_BAD_ADDRESS);
    let found = stats(pool);
    assert_eq!((found.pool_bytes, found.lanes, found.lanes_taken), (SIZE, 8, 1));
    assert_eq!((found.commits, found.records, found.conflicts), (11, 11, 0));
    assert!(found.fences >= 11 && found.used_bytes >= 512, "{found:?}");
    let name = |number| {
        let name = outlast_abort_cause_name(number);
        // SAFETY: names live as long as the program.
        (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_str().unwrap())
    };
    let causes = (0..).map_while(name).zip(found.aborts).filter(|cause| cause.1 > 0);
    assert_eq!(causes.collect::<Vec<_>>(), [("cancelled", 1), ("bad-address", 1)]);
    // SAFETY: both texts live as long as the program.
    let texts = unsafe { [found.domain, found.promise].map(|text| CStr::from_ptr(text)) };
    assert_eq!(texts[0], c"process");
    assert!(texts[1].to_str().unwrap().contains("death of the process"));
    end(pool, lane);
}

#[test]
fn what_is_committed_is_there_when_the_pool_is_opened_again() {
    for number in 0..outlast_scheme_count() {
        let scheme = outlast_scheme_name(number);
        // SAFETY: the library's texts end with a zero and live on.
        let name = unsafe { CStr::from_ptr(scheme) }.to_str().unwrap();
        for ack in [c"logical", c"physical"] {
            if name.ends_with(":literal") && ack == c"physical" {
                // No other lane makes its lines age, so a client that is alone is never answered.
                continue;
            }
            let home = Home::new();
            let path = home.path("a.pool");
            let options = outlast_options { scheme, ack: ack.as_ptr(), ..options() };
            let (pool, lane, block) = begun(&path, &options);
            assert_eq!(outlast_begin(lane), OUTLAST_OK);
            let ranges = [block, block + 64].map(|at| outlast_range { at, size: 8 });
            assert_eq!(announce(lane, &ranges), OUTLAST_OK);
            assert_eq!(store(lane, block, 1), OUTLAST_OK);
            assert_eq!(store(lane, block + 64, 2), OUTLAST_OK);
            assert_eq!(load(lane, block), Ok(1));
            assert_eq!(outlast_commit(lane), OUTLAST_OK, "{name}: {}", last_error());
            assert_eq!(outlast_begin(lane), OUTLAST_OK);
            assert_eq!(store(lane, block, 3), OUTLAST_OK);
            assert_eq!(outlast_abort(lane), OUTLAST_OK);
            end(pool, lane);

            let pool = open(&path, &options).unwrap();
            let lane = take(pool).unwrap();
            assert_eq!(outlast_begin(lane), OUTLAST_OK);
            assert_eq!(root(lane), block, "{name}");
            assert_eq!((load(lane, block), load(lane, block + 64)), (Ok(1), Ok(2)), "{name}");
            assert_eq!(outlast_free(lane, block), OUTLAST_OK);
            assert_eq!(outlast_commit(lane), OUTLAST_OK);
            end(pool, lane);
        }
    }
}

fn commit_async(lane: outlast_lane) -> Result<outlast_ticket, outlast_code> {
    let mut ticket = outlast_ticket { id: u64::MAX };
    // SAFETY: there is room for a ticket.
    match unsafe { outlast_commit_async(lane, &mut ticket) } {
        OUTLAST_OK => Ok(ticket),
        code => Err(code),
    }
}

fn is_durable(pool: outlast_pool, ticket: outlast_ticket) -> Result<bool, outlast_code> {
    let mut answer = 7;
    // SAFETY: there is room for a number.
    match unsafe { outlast_is_durable(pool, ticket, &mut answer) } {
        OUTLAST_OK => Ok(answer == 1),
        code => Err(code),
    }
}

#[test]
fn asynchronous_commits_are_waited_for_by_ticket_or_all_at_once() {
    let (home, options) = (Home::new(), options());
    let (pool, lane, at) = begun(&home.path("later.pool"), &options);
    let put = |value| {
        assert_eq!(outlast_begin(lane), OUTLAST_OK);
        assert_eq!(store(lane, at, value), OUTLAST_OK);
        commit_async(lane).unwrap()
    };
    let first = put(1);
    assert_eq!(is_durable(pool, first), Ok(false));
    assert_eq!(outlast_await_durable(pool, first), OUTLAST_OK);
    assert_eq!(is_durable(pool, first), Ok(true));
    let second = put(2);
    assert_eq!(outlast_sync(pool), OUTLAST_OK);
    assert_eq!(is_durable(pool, second), Ok(true));
    // With the next commit that waits.
    let third = put(3);
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(outlast_sync(pool), OUTLAST_IN_TRANSACTION);
    assert_eq!(outlast_await_durable(pool, third), OUTLAST_IN_TRANSACTION);
    assert_eq!(load(lane, at), Ok(3));
    assert_eq!(outlast_commit(lane), OUTLAST_OK);
    assert_eq!(is_durable(pool, third), Ok(true), "it was read");
    let unknown = outlast_ticket { id: third.id + 1000 };
    assert_eq!(is_durable(pool, unknown), Err(OUTLAST_BAD_ARGUMENT));
    assert_eq!(outlast_await_durable(pool, unknown), OUTLAST_BAD_ARGUMENT);
    assert!(last_error().contains("no ticket"), "{}", last_error());
    assert_eq!(commit_async(lane), Err(OUTLAST_NO_TRANSACTION));
    assert_eq!(outlast_sync(outlast_pool { id: 0 }), OUTLAST_BAD_HANDLE);
    // SAFETY: null asks for no ticket, and for no answer.
    unsafe {
        assert_eq!(outlast_is_durable(pool, third, null_mut()), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_begin(lane), OUTLAST_OK);
        assert_eq!(store(lane, at, 4), OUTLAST_OK);
        assert_eq!(outlast_commit_async(lane, null_mut()), OUTLAST_OK);
    }
    end(pool, lane);
    let pool = open(&home.path("later.pool"), &options).unwrap();
    let lane = take(pool).unwrap();
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(load(lane, at), Ok(4), "the lane was given back");
    assert_eq!(outlast_abort(lane), OUTLAST_OK);
    end(pool, lane);
}

#[test]
fn a_handle_that_is_no_longer_good_is_told() {
    let home = Home::new();
    let path = home.path("a.pool");
    let (pool, lane, block) = begun(&path, &options());
    assert_eq!(outlast_close(pool), OUTLAST_BUSY, "a lane is not given back");
    assert!(last_error().contains("1 lanes"), "{}", last_error());
    end(pool, lane);

    let dead = |lane| {
        [
            outlast_begin(lane),
            outlast_commit(lane),
            outlast_abort(lane),
            outlast_give_back(lane),
            outlast_free(lane, block),
            outlast_set_root(lane, block),
            store(lane, block, 1),
            load(lane, block).unwrap_err(),
            alloc(lane, 64).unwrap_err(),
            announce(lane, &[]),
        ]
    };
    for id in [lane.id, 0, 1, u64::MAX, lane.id ^ 1, pool.id] {
        assert!(dead(outlast_lane { id }).iter().all(|code| *code == OUTLAST_BAD_HANDLE), "{id}");
    }
    for id in [pool.id, 0, u64::MAX, lane.id] {
        let pool = outlast_pool { id };
        assert_eq!(outlast_close(pool), OUTLAST_BAD_HANDLE);
        assert_eq!(take(pool), Err(OUTLAST_BAD_HANDLE));
    }
    assert_eq!(outlast_last_code(), OUTLAST_BAD_HANDLE);

    // The same session is taken again, under another number; another thread does not know it.
    let pool = open(&path, &options()).unwrap();
    let again = take(pool).unwrap();
    assert_ne!(again, lane);
    assert_eq!(outlast_begin(lane), OUTLAST_BAD_HANDLE);
    std::thread::spawn(move || assert_eq!(outlast_begin(again), OUTLAST_BAD_HANDLE))
        .join()
        .unwrap();
    end(pool, again);
}

#[test]
fn calls_out_of_turn_are_told_and_change_nothing() {
    let home = Home::new();
    let (pool, lane, block) = begun(&home.path("a.pool"), &options());
    assert_eq!(outlast_commit(lane), OUTLAST_NO_TRANSACTION);
    assert_eq!(outlast_abort(lane), OUTLAST_NO_TRANSACTION);
    assert_eq!(store(lane, block, 1), OUTLAST_NO_TRANSACTION);
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(outlast_begin(lane), OUTLAST_IN_TRANSACTION);
    assert_eq!(outlast_give_back(lane), OUTLAST_IN_TRANSACTION);
    // Another lane of the thread would wait for this transaction for ever.
    let other = take(pool).unwrap();
    assert_eq!(outlast_begin(other), OUTLAST_IN_TRANSACTION);
    assert_eq!(store(lane, block, 5), OUTLAST_OK);
    assert_eq!(outlast_commit(lane), OUTLAST_OK);
    assert_eq!(outlast_begin(other), OUTLAST_OK);
    assert_eq!(load(other, block), Ok(5));
    assert_eq!(outlast_abort(other), OUTLAST_OK);
    // In another pool it may have one at the same time.
    let (second, its_lane, its_block) = begun(&home.path("b.pool"), &options());
    assert_eq!((outlast_begin(lane), outlast_begin(its_lane)), (OUTLAST_OK, OUTLAST_OK));
    assert_eq!(store(its_lane, its_block, 9), OUTLAST_OK);
    assert_eq!(load(lane, block), Ok(5));
    assert_eq!((outlast_commit(its_lane), outlast_commit(lane)), (OUTLAST_OK, OUTLAST_OK));
    end(second, its_lane);
    assert_eq!(outlast_give_back(other), OUTLAST_OK);
    end(pool, lane);
}

#[test]
fn nulls_and_nonsense_are_refused() {
    let home = Home::new();
    let path = home.path("a.pool");
    let mut pool = outlast_pool { id: 0 };
    // SAFETY: null is what these calls are to refuse; what is not null outlives them.
    unsafe {
        assert_eq!(outlast_create(null(), SIZE, null(), &mut pool), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_create(path.as_ptr(), SIZE, null(), null_mut()), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_open(null(), null(), &mut pool), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_check(path.as_ptr(), null(), null_mut()), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_take_lane(pool, null_mut()), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_pool_info(pool, null_mut()), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_pool_stats(pool, null_mut()), OUTLAST_BAD_ARGUMENT);
    }
    let refused = |change: fn(&mut outlast_options)| {
        let mut options = options();
        change(&mut options);
        let code = create(&path, &options).unwrap_err();
        (code, last_error())
    };
    let (code, text) = refused(|options| options.scheme = c"undoo".as_ptr());
    assert_eq!(code, OUTLAST_BAD_ARGUMENT);
    assert!(text.contains("'undoo'") && text.contains("swift"), "{text}");
    assert!(refused(|options| options.ack = c"soon".as_ptr()).1.contains("'soon'"));
    assert!(refused(|options| options.domain = c"adr2".as_ptr()).1.contains("adr2"));
    assert!(refused(|options| options.reserved[4] = 1).1.contains("reserved"));
    assert_eq!(refused(|options| options.lanes = u32::MAX).0, OUTLAST_BAD_ARGUMENT);
    assert_eq!(refused(|options| options.lane_bytes = 7).0, OUTLAST_BAD_ARGUMENT);
    assert_eq!(open(&path, &options()), Err(OUTLAST_NOT_FOUND));
    assert_eq!(check(&path), (OUTLAST_NOT_FOUND, 7));

    let (pool, lane, block) = begun(&path, &options());
    assert_eq!(create(&path, &options()), Err(OUTLAST_EXISTS));
    assert_eq!(open(&path, &options()), Err(OUTLAST_BUSY));
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    // SAFETY: as above; a length that nothing has is refused before anything is read.
    unsafe {
        assert_eq!(outlast_load(lane, block, null_mut(), 8), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_store(lane, block, null(), 8), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_load(lane, block, null_mut(), 0), OUTLAST_OK);
        assert_eq!(outlast_store(lane, block, null(), 0), OUTLAST_OK);
        let some = (&raw const block).cast::<c_void>();
        assert_eq!(outlast_store(lane, block, some, usize::MAX), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_announce(lane, null(), 1), OUTLAST_BAD_ARGUMENT);
        let range = outlast_range { at: block, size: 8 };
        assert_eq!(outlast_announce(lane, &range, usize::MAX / 8), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_alloc(lane, 64, null_mut()), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_root(lane, null_mut()), OUTLAST_BAD_ARGUMENT);
    }
    let over = outlast_range { at: u64::MAX, size: 2 };
    assert_eq!(announce(lane, &[over]), OUTLAST_BAD_ADDRESS);
    let many: Vec<_> = (0..40).map(|i| outlast_range { at: block + 8 * i, size: 8 }).collect();
    assert_eq!(announce(lane, &many), OUTLAST_OK);
    // None of these was the transaction's failure.
    assert_eq!(store(lane, block, 4), OUTLAST_OK);
    assert_eq!(outlast_commit(lane), OUTLAST_OK, "{}", last_error());
    // The first that is decides its end.
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(load(lane, SIZE * 2), Err(OUTLAST_BAD_ADDRESS));
    assert_eq!(alloc(lane, SIZE * 2), Err(OUTLAST_BAD_ADDRESS));
    assert_eq!(outlast_commit(lane), OUTLAST_BAD_ADDRESS);
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(alloc(lane, SIZE * 2), Err(OUTLAST_OUT_OF_SPACE));
    assert!(last_error().contains("is too large: the largest has"), "{}", last_error());
    assert_eq!(outlast_abort(lane), OUTLAST_OK);
    end(pool, lane);

    let no_pool = home.0.path().join("text");
    std::fs::write(&no_pool, [b'x'; 1 << 16]).unwrap();
    assert_eq!(open(&home.path("text"), &options()), Err(OUTLAST_NOT_A_POOL));
    let of_the_system = c"/etc/passwd";
    assert_eq!(open(of_the_system, &options()), Err(OUTLAST_NOT_A_POOL));
    assert_eq!(check(of_the_system), (OUTLAST_NOT_A_POOL, 7));
    assert_eq!(check(&home.path("text")), (OUTLAST_NOT_A_POOL, 7));
}

#[test]
fn a_pool_tells_what_it_is_and_damage_is_found() {
    let home = Home::new();
    let path = home.path("a.pool");
    let options =
        outlast_options { scheme: c"redo".as_ptr(), lanes: 3, lane_bytes: 8192, ..options() };
    let (pool, lane, _) = begun(&path, &options);
    let mut info = std::mem::MaybeUninit::<outlast_info>::uninit();
    // SAFETY: there is room for it, and it is read only after it was written.
    let info = unsafe {
        assert_eq!(outlast_pool_info(pool, info.as_mut_ptr()), OUTLAST_OK);
        info.assume_init()
    };
    // SAFETY: the library's texts end with a zero and live on.
    assert_eq!(unsafe { CStr::from_ptr(info.scheme) }, c"redo");
    assert_eq!((info.size_bytes, info.lanes, info.lane_bytes, info.checksums), (SIZE, 3, 8192, 0));
    assert_eq!(info.commits, 1);
    let others: Vec<_> = (0..2).map(|_| take(pool).unwrap()).collect();
    assert_eq!(take(pool), Err(OUTLAST_NO_LANE));
    others.into_iter().for_each(|lane| assert_eq!(outlast_give_back(lane), OUTLAST_OK));
    assert_eq!(check(&path), (OUTLAST_BUSY, 7));
    end(pool, lane);
    assert_eq!(check(&path), (OUTLAST_OK, 0));

    let file = home.0.path().join("a.pool");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (code, _) = check(&path);
    assert!(matches!(code, OUTLAST_DAMAGED | OUTLAST_VERSION), "{code:?}: {}", last_error());
}

/// What a pool was created with need not be said when it is opened, nor what follows from it.
#[test]
fn the_default_scheme_is_one_that_suits_the_pool() {
    let home = Home::new();
    let schemes = [(0, c"swift"), (1, c"redo-archapt")];
    for (checksums, scheme) in schemes {
        let path = home.path(&format!("{checksums}.pool"));
        let created = outlast_options { scheme: std::ptr::null(), checksums, ..options() };
        let opened = outlast_options { scheme: std::ptr::null(), ..options() };
        let pool = create(&path, &created).unwrap_or_else(|code| panic!("{code:?}"));
        assert_eq!(outlast_close(pool), OUTLAST_OK);
        let pool = open(&path, &opened).unwrap_or_else(|code| panic!("{code:?}"));
        let mut info = std::mem::MaybeUninit::<outlast_info>::uninit();
        // SAFETY: there is room for it, it is read only after it was written, and its text lives on.
        let name = unsafe {
            assert_eq!(outlast_pool_info(pool, info.as_mut_ptr()), OUTLAST_OK);
            CStr::from_ptr(info.assume_init().scheme)
        };
        assert_eq!(name, scheme);
        assert_eq!(outlast_close(pool), OUTLAST_OK);
    }
}

#[test]
fn texts_of_codes_and_schemes_end_behind_the_last() {
    // SAFETY: the library's texts end with a zero and live on.
    let text = |text| unsafe { CStr::from_ptr(text) }.to_str().unwrap();
    assert_eq!(text(outlast_error_text(0)), "done");
    assert_eq!(text(outlast_error_text(OUTLAST_FORKED as c_int + 1)), "no code of Outlast's");
    assert_eq!(text(outlast_error_text(-1)), "no code of Outlast's");
    assert_eq!(text(outlast_version()), env!("CARGO_PKG_VERSION"));
    let count = outlast_scheme_count();
    let names: Vec<_> = (0..count).map(|n| text(outlast_scheme_name(n))).collect();
    assert!(names.contains(&"swift") && names.contains(&"undo"), "{names:?}");
    assert!((0..count).all(|n| !text(outlast_scheme_about(n)).is_empty()));
    assert!(outlast_scheme_name(count).is_null() && outlast_scheme_about(usize::MAX).is_null());
}

extern "C" fn add_one(lane: outlast_lane, context: *mut c_void) -> c_int {
    let at = context as u64;
    match load(lane, at) {
        Ok(word) => store(lane, at, word + 1) as c_int,
        Err(code) => code as c_int,
    }
}

extern "C" fn give_up(lane: outlast_lane, context: *mut c_void) -> c_int {
    assert_eq!(store(lane, 1024, 1), OUTLAST_BAD_ADDRESS);
    context as usize as c_int
}

extern "C" fn end_it(lane: outlast_lane, _: *mut c_void) -> c_int {
    outlast_abort(lane) as c_int
}

#[test]
fn a_body_runs_again_after_a_conflict_and_its_code_ends_it() {
    let home = Home::new();
    let options = outlast_options { scheme: c"swift".as_ptr(), ..options() };
    let (pool, lane, block) = begun(&home.path("a.pool"), &options);
    const THREADS: u64 = 3;
    const EACH: u64 = 300;
    let start = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let lane = take(pool).unwrap();
                start.wait();
                for _ in 0..EACH {
                    // SAFETY: the body takes an offset for its context, and does not unwind.
                    let code = unsafe { outlast_run(lane, Some(add_one), block as *mut c_void) };
                    assert_eq!(code, OUTLAST_OK, "{}", last_error());
                }
                assert_eq!(outlast_give_back(lane), OUTLAST_OK);
            });
        }
    });
    // SAFETY: the bodies take any context, and do not unwind.
    let run = |body, context: usize| unsafe { outlast_run(lane, body, context as *mut c_void) };
    assert_eq!(run(None, 0), OUTLAST_BAD_ARGUMENT);
    assert_eq!(run(Some(give_up), OUTLAST_BAD_ADDRESS as usize), OUTLAST_BAD_ADDRESS);
    assert_eq!(run(Some(give_up), 1000), OUTLAST_BAD_ARGUMENT);
    assert!(last_error().contains("1000"), "{}", last_error());
    assert_eq!(run(Some(give_up), 0), OUTLAST_BAD_ADDRESS, "its first failure decides");
    assert_eq!(run(Some(end_it), 0), OUTLAST_NO_TRANSACTION);
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(load(lane, block), Ok(THREADS * EACH));
    assert_eq!(outlast_commit(lane), OUTLAST_OK);
    end(pool, lane);
}

/// A thread that ends in the middle of a transaction undoes it and gives its lane back.
#[test]
fn a_thread_that_ends_gives_its_lanes_back() {
    let home = Home::new();
    let options = outlast_options { lanes: 2, ..options() };
    let (pool, lane, block) = begun(&home.path("a.pool"), &options);
    for _ in 0..5 {
        std::thread::spawn(move || {
            let lane = take(pool).unwrap();
            assert_eq!(outlast_begin(lane), OUTLAST_OK);
            assert_eq!(store(lane, block, 9), OUTLAST_OK);
        })
        .join()
        .unwrap();
    }
    assert_eq!(outlast_begin(lane), OUTLAST_OK);
    assert_eq!(load(lane, block), Ok(0));
    assert_eq!(outlast_commit(lane), OUTLAST_OK);
    end(pool, lane);
}

/// What a body of a reader hands out.
struct Read {
    at: u64,
    /// Bytes behind the root that it loads.
    beyond: u64,
    value: u64,
    codes: [outlast_code; 2],
    ends_in: outlast_code,
}

unsafe extern "C" fn read_root(snapshot: *mut outlast_snapshot, context: *mut c_void) -> c_int {
    // SAFETY: the context is the caller's `Read`.
    let read = unsafe { &mut *context.cast::<Read>() };
    let value = (&raw mut read.value).cast();
    // SAFETY: the snapshot is the body's, and the places outlive the calls.
    read.codes = unsafe {
        [
            outlast_snapshot_root(snapshot, &mut read.at),
            outlast_snapshot_load(snapshot, read.at + read.beyond, value, 8),
        ]
    };
    read.ends_in as c_int
}

#[test]
fn a_reader_beside_a_pool_sees_what_is_committed() {
    let home = Home::new();
    let path = home.path("read.pool");
    let pool = create(&path, &options()).unwrap();
    let mut lane = outlast_lane { id: 0 };
    let mut at = 0;
    let mut reader = outlast_reader { id: 0 };
    let look = |reader, beyond, ends_in| {
        let mut read = Read { at: 0, beyond, value: 0, codes: [OUTLAST_OK; 2], ends_in };
        // SAFETY: the context outlives the call.
        let code = unsafe { outlast_read(reader, Some(read_root), (&raw mut read).cast()) };
        (code, read)
    };
    // SAFETY: texts, places and values outlive the calls.
    unsafe {
        assert_eq!(outlast_take_lane(pool, &mut lane), OUTLAST_OK);
        assert_eq!(outlast_open_reader(path.as_ptr(), null(), null_mut()), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_open_reader(path.as_ptr(), null(), &mut reader), OUTLAST_OK);
        for value in [7_u64, 8] {
            assert_eq!(outlast_begin(lane), OUTLAST_OK);
            if at == 0 {
                assert_eq!(outlast_alloc(lane, 64, &mut at), OUTLAST_OK);
                assert_eq!(outlast_set_root(lane, at), OUTLAST_OK);
            }
            assert_eq!(outlast_store(lane, at, (&raw const value).cast(), 8), OUTLAST_OK);
            assert_eq!(outlast_commit(lane), OUTLAST_OK);
            let (code, read) = look(reader, 0, OUTLAST_OK);
            assert_eq!((code, read.codes), (OUTLAST_OK, [OUTLAST_OK; 2]));
            assert_eq!((read.at, read.value), (at, value));
        }
        let (code, read) = look(reader, 1 << 40, OUTLAST_OK);
        assert_eq!(code, OUTLAST_BAD_ADDRESS);
        assert_eq!(read.codes, [OUTLAST_OK, OUTLAST_BAD_ADDRESS]);
        assert_eq!(look(reader, 0, OUTLAST_NOT_FOUND).0, OUTLAST_NOT_FOUND);
        assert_eq!(outlast_read(reader, None, null_mut()), OUTLAST_BAD_ARGUMENT);
        assert_eq!(outlast_snapshot_root(null_mut(), &mut at), OUTLAST_BAD_ARGUMENT);
        let mut none = outlast_reader { id: 0 };
        let missing = home.path("missing.pool");
        assert_eq!(outlast_open_reader(missing.as_ptr(), null(), &mut none), OUTLAST_NOT_FOUND);
        assert_eq!(outlast_close_reader(reader), OUTLAST_OK);
        assert_eq!(outlast_close_reader(reader), OUTLAST_BAD_HANDLE);
        assert_eq!(look(reader, 0, OUTLAST_OK).0, OUTLAST_BAD_HANDLE);
        assert_eq!(outlast_give_back(lane), OUTLAST_OK);
    }
    assert_eq!(outlast_close(pool), OUTLAST_OK);
}
