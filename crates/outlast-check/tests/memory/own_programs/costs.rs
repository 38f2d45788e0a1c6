//! Operations that lose nothing and cost time: flushes, fences and lines that no crash needs.

use outlast_check::memory::{
    Check, Class, Crash, Finding, ImageMedium, Report, Schedules, Violation,
};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{LaneId, LineAddr, PoolOffset, TxId};

use crate::returns_here;

const VALID: PoolOffset = PoolOffset(0);
const VALUE: PoolOffset = PoolOffset(64);

fn persist<M: Medium>(medium: &M, at: PoolOffset, len: u64) {
    medium.flush_range(at, len);
    medium.fence();
    returns_here();
}

/// A program of one lane that publishes a value; recovery looks at both lines.
fn publishes(program: impl Fn(&Recorder) + Sync) -> Report {
    let report = Check::new(256).run(
        |_, medium: &Recorder| {
            program(medium);
            returns_here();
        },
        |image: &ImageMedium| Ok((image.load_u64(VALID), image.load_u64(VALUE))),
        |state: &(u64, u64), crash: &Crash<'_>| match *state {
            (0, _) if crash.acked.is_empty() => Ok(()),
            (_, 7) => Ok(()),
            _ => Err(Violation::from(format!("{state:?}"))),
        },
    );
    assert!(report.complete && !report.has_failures(), "{:?}", report.findings);
    report
}

fn publish<M: Medium>(medium: &M) {
    medium.store_u64(VALUE, 7);
    persist(medium, VALUE, 8);
    medium.store_u64(VALID, 1);
    persist(medium, VALID, 8);
    medium.mark(Mark::Ack(TxId(1)));
}

fn of(report: &Report, class: Class) -> Vec<&Finding> {
    report.findings.iter().filter(|finding| finding.class == class).collect()
}

#[test]
fn a_program_without_waste_has_no_findings() {
    let report = publishes(publish);
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Both flushes stand in one helper, and were one finding that named the helper.
#[test]
fn a_redundant_flush_in_a_helper_names_the_helpers_callers() {
    fn one<M: Medium>(medium: &M) -> u32 {
        persist(medium, VALUE, 8);
        line!() - 1
    }
    fn two<M: Medium>(medium: &M) -> u32 {
        persist(medium, VALID, 8);
        line!() - 1
    }
    let report = publishes(|medium| {
        publish(medium);
        one(medium);
        two(medium);
        returns_here();
    });
    let other = Recorder::new(128);
    let lines = [one(&other), two(&other)];
    let findings = of(&report, Class::RedundantFlush);
    assert_eq!(findings.len(), 2, "{:?}", report.findings);
    for (finding, line) in findings.iter().zip(lines) {
        // The helper's caller, and what called that: the program, from `publishes`.
        let [caller, _, _] = &finding.callers[..] else { panic!("{finding}") };
        assert!(caller.file.ends_with("own_programs/costs.rs"), "{finding}");
        assert_eq!(caller.line, line, "{finding}");
        assert!(finding.to_string().contains(&format!("costs.rs:{line}")), "{finding}");
    }
    assert_eq!(report.findings.len(), 2);
}

/// The fault of a helper that only flushes is its caller's, who trusts it to fence.
#[test]
fn a_failure_in_a_helper_names_its_callers_too() {
    fn flush_only<M: Medium>(medium: &M, at: PoolOffset) {
        medium.flush(at.line());
        returns_here();
    }
    let report = Check::new(128).run(
        |_, medium: &Recorder| {
            medium.store_u64(VALUE, 7);
            flush_only(medium, VALUE);
            medium.store_u64(VALID, 1);
            persist(medium, VALID, 8);
        },
        |image: &ImageMedium| Ok((image.load_u64(VALID), image.load_u64(VALUE))),
        |&(valid, value): &(u64, u64), _: &Crash<'_>| {
            if valid == 0 || value == 7 { Ok(()) } else { Err("published too early".into()) }
        },
    );
    let finding = &report.findings[0];
    assert!(!finding.class.only_costs_time());
    assert!(!finding.callers.is_empty(), "{finding}");
}

/// Lane 1 flushes what it has read before it acknowledges. In most schedules lane 0 has done so
/// already; in the others it has not.
#[test]
fn a_reader_that_flushes_before_it_acknowledges_does_nothing_redundant() {
    let check = Check::new(128).lanes(2);
    let two = Schedules::Preemptions { bound: 2, schedules_max: 20_000 };
    for check in [check.clone(), check.clone().schedules(two)] {
        let report = check.run(
            |lane, medium: &Recorder| {
                if lane == LaneId(0) {
                    medium.store_u64(VALUE, 7);
                    persist(medium, VALUE, 8);
                } else if medium.load_u64(VALUE) == 7 {
                    persist(medium, VALUE, 8);
                    medium.mark(Mark::Ack(TxId(2)));
                }
            },
            |image: &ImageMedium| Ok(image.load_u64(VALUE)),
            |value: &u64, crash: &Crash<'_>| {
                if *value == 7 || crash.acked.is_empty() { Ok(()) } else { Err("lost".into()) }
            },
        );
        assert!(report.findings.is_empty() && report.complete, "{:?}", report.findings);
    }
}

#[test]
fn a_range_of_which_one_line_is_clean_is_flushed_for_the_others() {
    let report = publishes(|medium| {
        medium.store_u64(VALUE, 7);
        persist(medium, VALUE, 128);
        medium.store_u64(VALID, 1);
        persist(medium, VALID, 8);
        medium.mark(Mark::Ack(TxId(1)));
    });
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn a_fence_with_nothing_flushed_before_it_is_needless() {
    let report = publishes(|medium| {
        publish(medium);
        medium.fence();
        returns_here();
    });
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!(finding.class, Class::NeedlessFence);
    assert!(finding.class.only_costs_time());
    assert_eq!(finding.callers.len(), 1, "it stands in the program itself: {finding}");
}

/// A locked instruction is a fence, and so is not in need of another one.
#[test]
fn a_locked_instruction_fences_and_a_fence_behind_it_is_needless() {
    let exchanges = |fenced: bool| {
        publishes(move |medium| {
            medium.store_u64(VALUE, 7);
            medium.flush(VALUE.line());
            medium.compare_exchange_u64(VALID, 0, 1).unwrap();
            if fenced {
                medium.fence();
            }
            persist(medium, VALID, 8);
            medium.mark(Mark::Ack(TxId(1)));
        })
    };
    assert!(exchanges(false).findings.is_empty());
    assert_eq!(of(&exchanges(true), Class::NeedlessFence).len(), 1);
}

/// Needless in one schedule only: lane 1 may have something to flush before this fence.
#[test]
fn a_fence_that_some_schedule_needs_is_not_needless() {
    let report = Check::new(192).lanes(2).run(
        |lane, medium: &Recorder| {
            if lane == LaneId(0) {
                medium.store_u64(VALUE, 7);
                persist(medium, VALUE, 8);
            } else {
                if medium.load_u64(VALUE) == 0 {
                    medium.store_u64(PoolOffset(128), 1);
                    medium.flush(LineAddr(2));
                }
                medium.fence();
            }
        },
        |image: &ImageMedium| Ok(image.load_u64(VALUE) + image.load_u64(PoolOffset(128))),
        |_: &u64, _: &Crash<'_>| Ok(()),
    );
    assert!(report.findings.is_empty() && report.complete, "{:?}", report.findings);
}

/// A counter that is persisted with each value, and that recovery counts again by itself.
#[test]
fn a_line_that_is_persisted_and_never_read_again_is_found() {
    let counter = PoolOffset(128);
    let report = publishes(|medium| {
        medium.store_u64(counter, 1);
        persist(medium, counter, 8);
        publish(medium);
    });
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!(finding.class, Class::NeverRead);
    assert_eq!(finding.place.line, Some(counter.line()));
    assert!(finding.class.only_costs_time());
}
