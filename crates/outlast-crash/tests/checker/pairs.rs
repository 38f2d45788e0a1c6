//! Pairs of programs: one with a mistake whose class is known, and a sound twin in which nothing is
//! found. Mistakes of recovery, and promises that are made by another lane, by a callback, or for
//! what the runtime still holds back.
#![cfg(not(miri))]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use outlast::recover::UnrecoveredPool;
use outlast::{Runner, Scheme, Transact};
use outlast_crash::{Check, Class, Crash, ImageMedium, Report, Schedules, Violation};
use outlast_pmem::schedule::Plan;
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{LaneId, LineAddr, PoolOffset, TxId};

use crate::{options, small_pool};

fn at(line: u64) -> PoolOffset {
    PoolOffset(line * 64)
}

fn persist<M: Medium>(medium: &M, line: u64) {
    medium.flush(LineAddr(line));
    medium.fence();
}

fn ack(medium: &Recorder, tx: u64) {
    medium.mark(Mark::Ack(TxId(tx)));
}

fn promised(crash: &Crash<'_>) -> u64 {
    crash.acked.iter().map(|tx| tx.0).max().unwrap_or(0)
}

fn expect(is_sound: bool, found: impl std::fmt::Debug) -> Result<(), Violation> {
    if is_sound { Ok(()) } else { Err(format!("found {found:?}").into()) }
}

/// The class of the first failure, and whether it is the program's (1) or a recovery's (2).
fn found(report: &Report) -> Option<(Class, u32)> {
    let finding = report.failures().next()?;
    println!("{finding}");
    Some((finding.class, finding.place.level))
}

fn in_program(class: Class) -> Option<(Class, u32)> {
    Some((class, 1))
}

fn in_recovery(class: Class) -> Option<(Class, u32)> {
    Some((class, 2))
}

/// Line 0 has the number of records, line 1 how many recovery has applied, line 2 their sum; line 3 is
/// a hint that the program never flushes.
fn adding(recover: impl Fn(&ImageMedium)) -> Option<(Class, u32)> {
    let report = Check::new(256).run(
        |_, medium: &Recorder| {
            medium.store_u64(at(3), 1);
            medium.store_u64(at(0), 1);
            persist(medium, 0);
            ack(medium, 1);
        },
        |image: &ImageMedium| {
            if image.load_u64(at(0)) > image.load_u64(at(1)) {
                recover(image);
                persist(image, 2);
                image.store_u64(at(1), 1);
                persist(image, 1);
            }
            Ok(image.load_u64(at(2)))
        },
        |sum: &u64, crash: &Crash<'_>| expect(*sum == 1 || *sum == 0 && promised(crash) == 0, sum),
    );
    found(&report)
}

#[test]
fn a_recovery_that_cannot_be_repeated_is_not_atomic() {
    let add = |image: &ImageMedium| image.store_u64(at(2), image.load_u64(at(2)) + 1);
    let set = |image: &ImageMedium| image.store_u64(at(2), 1);
    assert_eq!(adding(add), in_recovery(Class::Atomicity));
    assert_eq!(adding(set), None);
    // It adds only where a line has not persisted that need not. On memory where that line always has,
    // the second crash would meet another recovery.
    let add_unless_hinted = |image: &ImageMedium| match image.load_u64(at(3)) {
        0 => add(image),
        _ => set(image),
    };
    let set_either_way = |image: &ImageMedium| {
        let _ = image.load_u64(at(3));
        set(image);
    };
    assert_eq!(adding(add_unless_hinted), in_recovery(Class::Atomicity));
    assert_eq!(adding(set_either_way), None);
}

/// Line 0 has a value to bring home to line 1; recovery does that by `steps`.
fn bringing_home(steps: fn(&ImageMedium)) -> Option<(Class, u32)> {
    let report = Check::new(128).run(
        |_, medium: &Recorder| {
            medium.store_u64(at(0), 7);
            persist(medium, 0);
            ack(medium, 1);
        },
        |image: &ImageMedium| {
            if image.load_u64(at(0)) != 0 {
                image.store_u64(at(1), image.load_u64(at(0)));
                steps(image);
            }
            Ok(image.load_u64(at(1)))
        },
        |home: &u64, crash: &Crash<'_>| expect(*home == 7 || promised(crash) == 0, home),
    );
    found(&report)
}

#[test]
fn a_recovery_that_clears_its_log_too_early_says_how() {
    let unflushed = |image: &ImageMedium| {
        image.store_u64(at(0), 0);
        persist(image, 0);
    };
    let flushed_later = |image: &ImageMedium| {
        image.store_u64(at(0), 0);
        persist(image, 0);
        persist(image, 1);
    };
    let unfenced = |image: &ImageMedium| {
        image.flush(LineAddr(1));
        image.store_u64(at(0), 0);
        persist(image, 0);
    };
    let sound = |image: &ImageMedium| {
        persist(image, 1);
        image.store_u64(at(0), 0);
        persist(image, 0);
    };
    assert_eq!(bringing_home(unflushed), in_recovery(Class::MissingFlush));
    assert_eq!(bringing_home(flushed_later), in_recovery(Class::Order));
    assert_eq!(bringing_home(unfenced), in_recovery(Class::MissingFence));
    assert_eq!(bringing_home(sound), None);
}

/// Recovery copies lines 2 and 3 to lines 4 and 5 and says in line 1 how far it has come.
fn copying(cursor_first: bool) -> Option<(Class, u32)> {
    let report = Check::new(384).run(
        |_, medium: &Recorder| {
            medium.store_u64(at(2), 2);
            medium.store_u64(at(3), 3);
            medium.flush(LineAddr(2));
            persist(medium, 3);
            medium.store_u64(at(0), 1);
            persist(medium, 0);
            ack(medium, 1);
        },
        |image: &ImageMedium| {
            if image.load_u64(at(0)) == 1 {
                for item in image.load_u64(at(1))..2 {
                    let advance = || {
                        image.store_u64(at(1), item + 1);
                        persist(image, 1);
                    };
                    if cursor_first {
                        advance();
                    }
                    image.store_u64(at(4 + item), image.load_u64(at(2 + item)));
                    persist(image, 4 + item);
                    if !cursor_first {
                        advance();
                    }
                }
            }
            Ok((image.load_u64(at(4)), image.load_u64(at(5))))
        },
        |items: &(u64, u64), crash: &Crash<'_>| {
            expect(*items == (2, 3) || *items == (0, 0) && promised(crash) == 0, items)
        },
    );
    found(&report)
}

#[test]
fn a_cursor_that_runs_ahead_of_what_recovery_has_done_is_not_atomic() {
    assert_eq!(copying(true), in_recovery(Class::Atomicity));
    assert_eq!(copying(false), None);
}

/// Both lines change together, and recovery has no value while they differ. `second` is the second
/// transaction.
fn both_lines(second: fn(&Recorder)) -> Option<(Class, u32)> {
    let report = Check::new(256).run(
        |_, medium: &Recorder| {
            for line in 0..2 {
                medium.store_u64(at(line), 1);
                persist(medium, line);
            }
            ack(medium, 1);
            second(medium);
            ack(medium, 2);
        },
        |image: &ImageMedium| {
            let side = if image.load_u64(at(2)) == 1 { 3 } else { 0 };
            let values = (image.load_u64(at(side)), image.load_u64(at(1)));
            Ok(if side == 3 || values.0 == values.1 { values.0 } else { 0 })
        },
        |value: &u64, crash: &Crash<'_>| expect(*value >= promised(crash), value),
    );
    found(&report)
}

#[test]
fn a_transaction_that_spoils_an_older_one_is_no_early_promise() {
    let in_place = |medium: &Recorder| {
        medium.store_u64(at(0), 2);
        medium.store_u64(at(1), 2);
        medium.flush(LineAddr(0));
        persist(medium, 1);
    };
    let aside = |medium: &Recorder| {
        medium.store_u64(at(3), 2);
        persist(medium, 3);
        medium.store_u64(at(2), 1);
        persist(medium, 2);
    };
    let aside_out_of_order = |medium: &Recorder| {
        medium.store_u64(at(3), 2);
        medium.store_u64(at(2), 1);
        medium.flush(LineAddr(3));
        persist(medium, 2);
    };
    assert_eq!(both_lines(in_place), in_program(Class::Atomicity));
    assert_eq!(both_lines(aside_out_of_order), in_program(Class::Order));
    assert_eq!(both_lines(aside), None);
}

/// Lane 0 makes line 0 durable by five steps and says after `told_after` of them that it has; lane 1
/// acknowledges when it hears that.
fn told_after(told_after: usize) -> Option<(Class, u32)> {
    let report = Check::new(128).lanes(2).run_with(
        || AtomicBool::new(false),
        move |lane, medium: &Recorder, told: &AtomicBool| {
            if lane == LaneId(1) {
                while !told.load(Ordering::Acquire) {
                    medium.pause();
                }
                return ack(medium, 1);
            }
            for step in 0..5 {
                if step == told_after {
                    told.store(true, Ordering::Release);
                    medium.pause();
                }
                match step {
                    0 => medium.store_u64(at(1), 1),
                    1 => medium.store_u64(at(0), 1),
                    2 => medium.flush(LineAddr(0)),
                    3 => medium.fence(),
                    _ => medium.store_u64(at(1), 2),
                }
            }
        },
        |image: &ImageMedium| Ok(image.load_u64(at(0))),
        |value: &u64, crash: &Crash<'_>| expect(*value >= promised(crash), value),
    );
    found(&report)
}

#[test]
fn a_promise_that_another_lane_makes_from_a_flag_may_be_too_early() {
    assert_eq!(told_after(1), in_program(Class::AcknowledgedEarly));
    assert_eq!(told_after(2), in_program(Class::AcknowledgedEarly));
    assert_eq!(told_after(3), in_program(Class::MissingFence));
    assert_eq!(told_after(4), None);
}

/// Values that are queued, in memory or on the medium, and become durable together.
struct Queue<'m> {
    medium: &'m Recorder,
    waiting: Mutex<Vec<u64>>,
    is_stored_at_once: bool,
}

impl Queue<'_> {
    fn put(&self, value: u64) {
        if self.is_stored_at_once {
            self.medium.store_u64(PoolOffset(8 * value), value);
        }
        self.waiting.lock().unwrap().push(value);
    }

    fn sync(&self, durable: impl Fn(u64)) {
        let all = std::mem::take(&mut *self.waiting.lock().unwrap());
        for value in &all {
            if !self.is_stored_at_once {
                self.medium.store_u64(PoolOffset(8 * value), *value);
            }
            self.medium.flush(PoolOffset(8 * value).line());
        }
        self.medium.fence();
        all.into_iter().for_each(durable);
    }
}

fn queued(is_stored_at_once: bool, early: bool, syncs: bool) -> Option<(Class, u32)> {
    let report = Check::new(128).run(
        |_, medium: &Recorder| {
            let queue = Queue { medium, waiting: Mutex::default(), is_stored_at_once };
            let callback = |value| ack(medium, value);
            for value in 1..=3 {
                queue.put(value);
                if early {
                    callback(value);
                }
            }
            // What has nothing to do with the queue.
            medium.store_u64(at(1), 1);
            persist(medium, 1);
            if syncs {
                queue.sync(|value| {
                    if !early {
                        callback(value);
                    }
                });
            }
        },
        |image: &ImageMedium| {
            Ok((1..=3).take_while(|n| image.load_u64(PoolOffset(8 * n)) == *n).count() as u64)
        },
        |count: &u64, crash: &Crash<'_>| expect(*count >= promised(crash), count),
    );
    found(&report)
}

#[test]
fn a_callback_that_comes_before_its_sync_promises_too_early() {
    assert_eq!(queued(false, true, true), in_program(Class::AcknowledgedEarly));
    assert_eq!(queued(true, true, true), in_program(Class::AcknowledgedEarly));
    assert_eq!(queued(true, true, false), in_program(Class::MissingFlush));
    assert_eq!(queued(false, false, true), None);
    assert_eq!(queued(true, false, true), None);
}

/// When a transaction of the runtime is acknowledged.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    /// When `run_later` returns.
    Returned,
    /// So, and another lane does it.
    Elsewhere,
    /// When `sync` returns.
    Synced,
}

fn later(told: Told, transactions: u64) -> Option<(Class, u32)> {
    let (base, cell) = small_pool::<64>(Scheme::Swift);
    let report = Check::on_image(base)
        .lanes(2)
        .schedules(Schedules::One(Plan::default()))
        .crashes(1)
        .run_with(
            || AtomicUsize::new(0),
            |lane, medium: &Recorder, returned: &AtomicUsize| {
                if lane == LaneId(1) {
                    while told == Told::Elsewhere && returned.load(Ordering::Acquire) == 0 {
                        medium.pause();
                    }
                    (0..returned.load(Ordering::Acquire)).for_each(|n| ack(medium, n as u64 + 1));
                    return;
                }
                let pool = UnrecoveredPool::open(medium).unwrap().recover().unwrap();
                let pool = pool.start(&options(Scheme::Swift)).unwrap();
                let mut lane = pool.lane().unwrap();
                for number in 1..=transactions {
                    lane.run_later(|tx| tx.store_u64(cell, number)).unwrap();
                    match told {
                        Told::Returned => ack(medium, number),
                        Told::Elsewhere => {
                            returned.store(number as usize, Ordering::Release);
                            medium.pause();
                        }
                        Told::Synced => {}
                    }
                }
                lane.sync().unwrap();
                if told == Told::Synced {
                    ack(medium, transactions);
                }
            },
            |image: &ImageMedium| {
                let opened = UnrecoveredPool::open(image).and_then(|pool| pool.recover());
                opened.map_err(|error| error.to_string())?;
                Ok(image.load_u64(cell))
            },
            |value: &u64, crash: &Crash<'_>| expect(*value >= promised(crash), value),
        );
    found(&report)
}

#[test]
fn what_the_runtime_commits_later_is_promised_too_early_before_a_sync() {
    for transactions in 1..=3 {
        let early = in_program(Class::AcknowledgedEarly);
        assert_eq!(later(Told::Returned, transactions), early, "{transactions}");
        assert_eq!(later(Told::Elsewhere, transactions), early, "{transactions}");
        assert_eq!(later(Told::Synced, transactions), None, "{transactions}");
    }
}
