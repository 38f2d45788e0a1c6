//! Programs, recoveries and oracles that panic, never end, or answer differently each time: each
//! is a finding, and none takes the checker with it.
#![cfg(not(miri))]

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use outlast_check::memory::{
    Broken, Check, Class, Crash, Finding, ImageMedium, Report, Reproduction, Schedules, Violation,
};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{LaneId, LineAddr, PoolOffset, TxId};

fn at(offset: u64) -> PoolOffset {
    PoolOffset(offset)
}

fn set<M: Medium>(medium: &M, offset: u64, value: u64) {
    medium.store_u64(at(offset), value);
    medium.flush(at(offset).line());
    medium.fence();
}

fn first(report: &Report) -> &Finding {
    report.failures().next().expect("nothing was found")
}

fn violation(report: &Report) -> &Violation {
    first(report).violation.as_ref().expect("a failure says what is wrong")
}

fn content(_: &u64, _: &Crash<'_>) -> Result<(), Violation> {
    Ok(())
}

#[test]
fn a_recovery_that_waits_for_a_lock_that_no_lane_holds_is_endless() {
    let check = Check::new(128).recovery_ops_max(10_000);
    let report = check.run(
        |_, medium: &Recorder| {
            medium.store_u64(at(0), 1);
            set(medium, 64, 5);
            medium.store_u64(at(0), 0);
        },
        |image: &ImageMedium| {
            while image.load_u64(at(0)) == 1 {
                std::hint::spin_loop();
            }
            Ok(0)
        },
        content,
    );
    assert_eq!(first(&report).class, Class::Endless, "{}", first(&report));
    assert_eq!(violation(&report).broken, Broken::Stuck);
    assert!(violation(&report).detail.contains("10000 operations"), "{}", violation(&report));
}

/// The sum of what is done is added to twice if recovery is cut short. With less persisted
/// recovery has less to do, so that the second crash of a smaller image may lie behind its end.
#[test]
fn an_image_whose_recovery_is_shorter_is_made_small_as_well() {
    let report = Check::new(192).run(
        |_, medium: &Recorder| set(medium, 0, 1),
        |image: &ImageMedium| {
            if image.load_u64(at(0)) > image.load_u64(at(64)) {
                set(image, 128, image.load_u64(at(128)) + 1);
                set(image, 64, 1);
            }
            Ok(image.load_u64(at(128)))
        },
        |sum: &u64, _: &Crash<'_>| if *sum < 2 { Ok(()) } else { Err(format!("{sum}").into()) },
    );
    let finding = first(&report);
    assert_eq!(finding.reproduction.as_ref().unwrap().witness.crashes.len(), 2);
    assert_eq!(finding.class, Class::Atomicity, "{finding}");
}

#[test]
fn a_program_that_panics_is_a_finding_at_its_last_operation() {
    let check = Check::new(128)
        .lanes(2)
        .schedules(Schedules::Preemptions { bound: 1, schedules_max: 1_000 });
    let program = |_: LaneId, medium: &Recorder| {
        let seen = medium.load_u64(at(0));
        medium.store_u64(at(0), seen + 1);
        assert_eq!(medium.load_u64(at(0)), seen + 1, "another lane has counted");
    };
    let recover = |image: &ImageMedium| Ok(image.load_u64(at(0)));
    let report = check.run(program, recover, content);
    let finding = first(&report);
    assert_eq!(finding.class, Class::Panic, "{finding}");
    let detail = &violation(&report).detail;
    assert!(detail.contains("another lane has counted"), "{detail}");
    assert!(detail.contains("unsound_code.rs:"), "{detail}");
    assert!(finding.place.site.unwrap().location.file().ends_with("unsound_code.rs"));
    // Its line reproduces it.
    let text = finding.reproduction.as_ref().unwrap().to_string();
    let again = check.reproduce(&text.parse().unwrap(), program, recover, content);
    assert_eq!(again.err(), finding.violation, "{text}");
}

#[test]
fn a_program_that_never_ends_is_a_finding() {
    let stores = Check::new(64).program_ops_max(5_000).run(
        |_, medium: &Recorder| {
            while medium.load_u64(at(0)) != 1 {
                medium.store_u64(at(8), 1);
            }
        },
        |image: &ImageMedium| Ok(image.load_u64(at(0))),
        content,
    );
    let waits = Check::new(64).run(
        |_, medium: &Recorder| {
            while medium.load_u64(at(0)) != 1 {
                medium.pause();
            }
        },
        |image: &ImageMedium| Ok(image.load_u64(at(0))),
        content,
    );
    for report in [stores, waits] {
        assert_eq!(first(&report).class, Class::Endless, "{}", first(&report));
        assert_eq!(violation(&report).broken, Broken::Stuck);
        assert!(!report.complete);
    }
}

#[test]
fn panics_of_recovery_and_oracle_name_message_and_line() {
    // A flush is missing; one recovery asserts that it is not, the other leaves that to its oracle.
    let program = |_: LaneId, medium: &Recorder| {
        medium.store_u64(at(64), 7);
        set(medium, 0, 1);
    };
    let sound = |image: &ImageMedium| image.load_u64(at(0)) == 0 || image.load_u64(at(64)) == 7;
    let recovery = Check::new(128).run(
        program,
        |image: &ImageMedium| {
            assert!(sound(image), "nothing is published that is not there");
            Ok(0)
        },
        content,
    );
    let oracle = Check::new(128).run(
        program,
        |image: &ImageMedium| Ok(u64::from(sound(image))),
        |sound: &u64, _: &Crash<'_>| {
            assert_eq!(*sound, 1, "nothing is published that is not there");
            Ok(())
        },
    );
    for report in [recovery, oracle] {
        assert_eq!(first(&report).class, Class::MissingFlush, "{}", first(&report));
        let Violation { broken, detail } = violation(&report);
        assert_eq!(*broken, Broken::Panicked);
        assert!(detail.contains("nothing is published that is not there"), "{detail}");
        assert!(detail.contains("unsound_code.rs:"), "{detail}");
    }
}

#[test]
fn a_recovery_that_panics_on_what_lost_nothing_is_called_that() {
    let report = Check::new(64).run(
        |_, medium: &Recorder| set(medium, 0, 1),
        |image: &ImageMedium| {
            let number = [7].get(image.load_u64(at(0)) as usize + 1).copied();
            Ok(number.expect("there is a number"))
        },
        content,
    );
    assert_eq!(first(&report).class, Class::Panic, "{}", first(&report));
    assert!(violation(&report).detail.contains("there is a number"));
}

#[test]
fn an_image_that_a_changed_program_cannot_leave_is_named_as_such() {
    let program = |fixed: bool| {
        move |_: LaneId, medium: &Recorder| {
            medium.store_u64(at(64), 7);
            if fixed {
                medium.flush(LineAddr(1));
                medium.fence();
            }
            set(medium, 0, 1);
        }
    };
    let recover = |image: &ImageMedium| Ok((image.load_u64(at(0)), image.load_u64(at(64))));
    let oracle = |state: &(u64, u64), _: &Crash<'_>| {
        if state.0 == 0 || state.1 == 7 { Ok(()) } else { Err("published too early".into()) }
    };
    let report = Check::new(128).run(program(false), recover, oracle);
    let found = first(&report).reproduction.clone().unwrap();
    let again = |reproduction: &Reproduction, fixed| {
        Check::new(128).reproduce(reproduction, program(fixed), recover, oracle)
    };
    assert_eq!(again(&found, false).err(), first(&report).violation);
    let beyond = "switch / op 1 with 0x9000=3".parse().unwrap();
    let too_long = "switch / op 99".parse().unwrap();
    let other_row = "switch / op 1 with 0x40=5".parse().unwrap();
    let second = "switch / op 0; op 1".parse().unwrap();
    let no_such_lane = "switch 2:5 / op 1".parse().unwrap();
    for (reproduction, fixed) in [
        (&found, true),
        (&beyond, false),
        (&too_long, false),
        (&other_row, false),
        (&second, false),
        (&no_such_lane, false),
    ] {
        let violation = again(reproduction, fixed).unwrap_err();
        assert_eq!(violation.broken, Broken::NoSuchImage, "{reproduction}: {violation}");
        assert!(violation.detail.starts_with("this image cannot exist here: "), "{violation}");
    }
}

#[test]
fn a_recovery_that_depends_on_more_than_its_image_is_not_deterministic() {
    let program = |_: LaneId, medium: &Recorder| {
        for line in 1..6 {
            medium.store_u64(at(line * 64), line);
            medium.flush(LineAddr(line));
        }
        medium.fence();
        medium.mark(Mark::Ack(TxId(1)));
    };
    let places = || (1..6).map(|line| (line, line * 64)).collect::<HashMap<u64, u64>>();
    // The order of loads, the order of stores, and the answer itself.
    let loads = Check::new(512).run(
        program,
        |image: &ImageMedium| Ok(places().values().map(|place| image.load_u64(at(*place))).sum()),
        content,
    );
    let stores = Check::new(512).run(
        program,
        |image: &ImageMedium| {
            places().values().for_each(|place| image.store_u64(at(*place), 1));
            Ok(0)
        },
        content,
    );
    let calls = std::cell::Cell::new(0);
    let answers = Check::new(512).run(
        program,
        |image: &ImageMedium| {
            calls.set(calls.get() + 1);
            Ok(image.load_u64(at(64)) + calls.get())
        },
        |sum: &u64, _: &Crash<'_>| if *sum == 3 { Err("it is three".into()) } else { Ok(()) },
    );
    for report in [loads, stores, answers] {
        assert_eq!(first(&report).class, Class::NotDeterministic, "{}", first(&report));
        assert_eq!(violation(&report).broken, Broken::Strayed);
    }
}

#[test]
fn a_line_with_too_many_contents_is_a_finding_that_says_where() {
    let streamed = [9; 64];
    let report = Check::new(256).crashes(1).run(
        |_, medium: &Recorder| {
            medium.store(at(64), &[0xff; 64]);
            for round in 0..10u8 {
                medium.store_nt(at(64), &streamed.map(|byte: u8| byte + round));
            }
            medium.fence();
            set(medium, 128, 1);
        },
        |image: &ImageMedium| Ok(image.load_u64(at(64))),
        content,
    );
    let finding = first(&report);
    assert_eq!(finding.class, Class::TooWide, "{finding}");
    assert_eq!(finding.place.line, Some(LineAddr(1)));
    assert!(finding.place.site.unwrap().location.file().ends_with("unsound_code.rs"));
    assert_eq!(violation(&report).broken, Broken::Unchecked);
    assert!(!report.complete && report.has_failures());
    // What comes after that crash point was checked all the same.
    assert!(report.images_verified > 1);
}

const HANG: &str = "OUTLAST_TEST_HANGS_IN";

/// A loop without an operation can only be named. The test runs itself as another process.
#[test]
fn code_that_hangs_without_an_operation_is_named_and_ends_the_process() {
    if let Ok(place) = std::env::var(HANG) {
        hang_in(&place);
        return;
    }
    for (place, said) in [
        ("recovery", "the recovery or the oracle after a crash before operation 2"),
        ("oracle", "the recovery or the oracle after a crash before operation 2"),
    ] {
        let this = std::env::current_exe().unwrap();
        let name = "code_that_hangs_without_an_operation_is_named_and_ends_the_process";
        let ran = Command::new(this).args([name, "--exact"]).env(HANG, place).output().unwrap();
        let text = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(101), "{place}: {text}");
        assert!(text.contains("endless: ") && text.contains(said), "{place}: {text}");
    }
}

fn hang_in(place: &str) {
    let hang = |here: &str| {
        if here == place {
            loop {
                std::hint::spin_loop();
            }
        }
    };
    Check::new(64).time_max(Duration::from_millis(300)).run(
        |_, medium: &Recorder| set(medium, 0, 1),
        |image: &ImageMedium| {
            hang("recovery");
            Ok(image.load_u64(at(0)))
        },
        |_: &u64, _: &Crash<'_>| {
            hang("oracle");
            Ok(())
        },
    );
}
