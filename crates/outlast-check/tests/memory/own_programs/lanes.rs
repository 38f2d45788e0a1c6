//! Programs of several lanes: their schedules, their locks, their volatile state.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use outlast_check::memory::{Check, Class, Crash, ImageMedium, Report, Schedules, Violation};
use outlast_pmem::{Mark, Medium, Recorder, schedule};
use outlast_trace::{LaneId, PoolOffset, TxId};

use super::table::Table;

const VALUE: PoolOffset = PoolOffset(64);

fn persist<M: Medium>(medium: &M, at: PoolOffset) {
    medium.flush(at.line());
    medium.fence();
}

fn value(image: &ImageMedium) -> Result<u64, String> {
    Ok(image.load_u64(VALUE))
}

fn is_there(value: &u64, crash: &Crash<'_>) -> Result<(), Violation> {
    if *value == 7 || crash.acked.is_empty() { Ok(()) } else { Err("lost".into()) }
}

fn preemptions(bound: u32) -> Schedules {
    Schedules::Preemptions { bound, schedules_max: 20_000 }
}

/// Both lanes store under one lock, which they take by `lock`.
fn stores_under(lock: impl Fn(&Mutex<()>, &dyn Fn()) + Sync) -> Report {
    Check::new(128).lanes(2).run_with(
        || Mutex::new(()),
        |lane, medium, mutex| {
            let at = PoolOffset(u64::from(lane.0) * 64);
            lock(mutex, &|| {
                medium.store_u64(at, 7);
                persist(medium, at);
            });
        },
        |image: &ImageMedium| Ok(image.load_u64(PoolOffset(0)) + image.load_u64(VALUE)),
        |_: &u64, _: &Crash<'_>| Ok(()),
    )
}

/// It hung for ever.
#[test]
fn a_lane_that_waits_for_a_mutex_of_std_is_a_finding() {
    let report = stores_under(|mutex, body| {
        let _guard = mutex.lock().unwrap();
        body();
    });
    let finding = &report.findings[0];
    assert_eq!(finding.class, Class::Endless);
    let said = finding.to_string();
    assert!(
        said.contains("stands still outside the medium") && said.contains("schedule::lock"),
        "{said}"
    );
    assert!(!report.complete);
}

#[test]
fn a_mutex_of_std_taken_by_way_of_the_scheduler_is_no_finding() {
    let report = stores_under(|mutex, body| {
        let _guard = schedule::lock(mutex).unwrap();
        body();
    });
    assert!(report.findings.is_empty() && report.complete, "{:?}", report.findings);
    assert!(report.schedules > 2);
}

/// Only the schedule without any preemption was run, which was then called complete.
#[test]
fn several_lanes_are_interrupted_once_where_no_schedules_are_given() {
    let report = Check::new(128).lanes(2).run(
        |lane, medium: &Recorder| {
            if lane == LaneId(0) {
                medium.store_u64(VALUE, 7);
                persist(medium, VALUE);
            } else if medium.load_u64(VALUE) == 7 {
                medium.mark(Mark::Ack(TxId(1))); // lane 0 may not have flushed it yet
            }
        },
        value,
        is_there,
    );
    assert!(report.has_failures(), "{} schedules", report.schedules);
}

/// Shared memory is new when the next schedule begins.
#[test]
fn state_that_lanes_share_is_made_afresh_for_each_schedule() {
    let report = Check::new(128).lanes(2).schedules(preemptions(2)).run_with(
        || AtomicBool::new(false),
        |lane, medium, ready| {
            if lane == LaneId(0) {
                medium.store_u64(VALUE, 7);
                persist(medium, VALUE);
                ready.store(true, Ordering::Release);
            } else {
                while !ready.load(Ordering::Acquire) {
                    medium.pause();
                }
                medium.mark(Mark::Ack(TxId(1)));
            }
        },
        value,
        is_there,
    );
    assert!(report.findings.is_empty() && report.complete, "{:?}", report.findings);
}

#[test]
fn an_assertion_of_the_program_that_fails_under_one_schedule_is_a_finding() {
    let program = |_: LaneId, medium: &Recorder| {
        let seen = medium.load_u64(VALUE);
        medium.store_u64(VALUE, seen + 1);
        assert_eq!(medium.load_u64(VALUE), seen + 1, "another lane has counted");
    };
    let oracle = |_: &u64, _: &Crash<'_>| Ok(());
    let check = Check::new(128).lanes(2);
    let report = check.run(program, value, oracle);
    let finding = &report.findings[0];
    assert_eq!(finding.class, Class::Panic);
    let violation = finding.violation.as_ref().unwrap();
    assert!(violation.detail.contains("another lane has counted"), "{violation}");
    let again = check.reproduce(finding.reproduction.as_ref().unwrap(), program, value, oracle);
    assert_eq!(again.unwrap_err().broken, violation.broken);
}

/// A lock that spins, as programs have them.
#[derive(Default)]
struct Spin(AtomicBool);

impl Spin {
    fn with<R>(&self, medium: &Recorder, body: impl FnOnce() -> R) -> R {
        while self.0.swap(true, Ordering::Acquire) {
            medium.pause();
        }
        let result = body();
        self.0.store(false, Ordering::Release);
        result
    }
}

/// One lane puts pairs into the table, the other acknowledges what it reads; both under a lock,
/// behind which the fence comes `late`, or within.
fn table_under_a_lock(late: bool, rounds: u64) -> Report {
    Check::new(1024).prepared(Table::create).lanes(2).run_with(
        Spin::default,
        |lane, medium, lock| {
            for n in 1..=rounds {
                if lane == LaneId(0) {
                    lock.with(medium, || {
                        Table::of(medium).put(n % 5 + 1, n);
                        if !late {
                            medium.fence();
                        }
                    });
                    if late {
                        medium.fence();
                    }
                    medium.mark(Mark::Ack(TxId(n)));
                } else if let Some(seen) = lock.with(medium, || Table::of(medium).get(n % 5 + 1)) {
                    medium.mark(Mark::Ack(TxId(1000 + seen)));
                }
            }
        },
        |image: &ImageMedium| Ok(Table::of(image).pairs()),
        |pairs: &Vec<(u64, u64)>, crash: &Crash<'_>| {
            let newest = pairs.iter().map(|(_, value)| *value).max().unwrap_or(0);
            match crash.acked.iter().map(|tx| tx.0 % 1000).max() {
                Some(promised) if newest < promised => {
                    Err(format!("{promised} was read, {newest} is left").into())
                }
                _ => Ok(()),
            }
        },
    )
}

#[test]
fn a_table_whose_fence_comes_behind_its_lock_loses_what_was_read() {
    let sound = table_under_a_lock(false, 3);
    assert!(!sound.has_failures() && sound.complete, "{:?}", sound.findings);
    let late = table_under_a_lock(true, 3);
    let finding = late.failures().next().expect("what lane 1 has read is not yet durable");
    let detail = &finding.violation.as_ref().unwrap().detail;
    assert!(detail.contains("was read"), "{finding}");
}
