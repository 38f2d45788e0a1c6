//! The class of a finding where several look alike, and what a finding says besides: the lost
//! acknowledgement with its lane, and the lines with old and with new content.
#![cfg(not(miri))]

use outlast_check::memory::{
    Check, Class, Crash, Finding, Held, ImageMedium, Report, Schedules, Violation,
};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{LaneId, LineAddr, PoolOffset, TxId};

fn at(offset: u64) -> PoolOffset {
    PoolOffset(offset)
}

fn persist<M: Medium>(medium: &M, line: u64) {
    medium.flush(LineAddr(line));
    medium.fence();
}

fn ack(medium: &Recorder, tx: u64) {
    medium.mark(Mark::Ack(TxId(tx)));
}

fn first(report: &Report) -> &Finding {
    report.failures().next().expect("nothing was found")
}

fn words(image: &ImageMedium) -> Result<(u64, u64), String> {
    Ok((image.load_u64(at(0)), image.load_u64(at(64))))
}

fn class_of(
    check: &Check,
    program: impl Fn(&Recorder) + Sync,
    is_sound: impl Fn((u64, u64), &Crash<'_>) -> bool,
) -> Class {
    let report = check.run(
        |_, medium: &Recorder| program(medium),
        words,
        |state: &(u64, u64), crash: &Crash<'_>| {
            if is_sound(*state, crash) { Ok(()) } else { Err(format!("{state:?}").into()) }
        },
    );
    println!("{}", first(&report));
    first(&report).class
}

#[test]
fn a_line_that_is_never_flushed_is_not_called_out_of_order() {
    // A pointer is published within the fence that would have persisted its target as well.
    let pointed = |flush_target: bool| {
        class_of(
            &Check::new(128),
            move |medium| {
                medium.store_u64(at(64), 5);
                medium.store_u64(at(0), 64);
                if flush_target {
                    medium.flush(LineAddr(1));
                }
                persist(medium, 0);
            },
            |(pointer, target), _| pointer == 0 || target == 5,
        )
    };
    assert_eq!(pointed(false), Class::MissingFlush);
    assert_eq!(pointed(true), Class::Order);
}

#[test]
fn a_word_changed_in_place_is_no_stale_record() {
    // Both words change together; a null in either is accepted.
    let in_place = |program: fn(&Recorder)| {
        let check = Check::new(128).prepared(|medium| {
            medium.store_u64(at(0), 1);
            medium.store_u64(at(64), 1);
        });
        class_of(&check, program, |(a, b), _| a == 0 || b == 0 || a == b)
    };
    let never_flushed = |medium: &Recorder| {
        medium.store_u64(at(0), 2);
        medium.store_u64(at(64), 2);
        persist(medium, 1);
    };
    let in_one_batch = |medium: &Recorder| {
        medium.store_u64(at(0), 2);
        medium.store_u64(at(64), 2);
        medium.flush(LineAddr(0));
        persist(medium, 1);
        persist(medium, 0);
    };
    let one_after_the_other = |medium: &Recorder| {
        medium.store_u64(at(0), 2);
        persist(medium, 0);
        medium.store_u64(at(64), 2);
        persist(medium, 1);
    };
    assert_ne!(in_place(never_flushed), Class::StaleRecord);
    assert_ne!(in_place(in_one_batch), Class::StaleRecord);
    assert_eq!(in_place(one_after_the_other), Class::Atomicity);
    // The same with one word that was durable before, so that an order of stores would do.
    let published = |flush_value: bool| {
        let check = Check::new(128).prepared(|medium| medium.store_u64(at(0), 1));
        class_of(
            &check,
            move |medium| {
                medium.store_u64(at(0), 2);
                medium.store_u64(at(64), 2);
                if flush_value {
                    medium.flush(LineAddr(0));
                }
                persist(medium, 1);
            },
            |(a, b), _| a == 0 || b == 0 || a == b,
        )
    };
    assert_eq!(published(false), Class::MissingFlush);
    assert_eq!(published(true), Class::Order);
}

#[test]
fn leftovers_that_recovery_takes_for_a_record_are_stale() {
    // A list in line 0 leads to nodes; a node that is used again still has its old successor.
    let node = |medium: &Recorder, clear: bool| {
        if clear {
            medium.store_u64(at(64 + 8), 0);
        }
        medium.store_u64(at(64), 7);
        persist(medium, 1);
        medium.store_u64(at(0), 64);
        persist(medium, 0);
    };
    let check = |clear: bool| {
        Check::new(256).prepared(|medium| medium.store_u64(at(64 + 8), 128)).run(
            |_, medium: &Recorder| {
                node(medium, clear);
                medium.store_u64(at(64 + 8), 0);
                persist(medium, 1);
                ack(medium, 1);
            },
            |image: &ImageMedium| {
                let mut values = Vec::new();
                let mut next = image.load_u64(at(0));
                while next != 0 && next < 256 && values.len() < 4 {
                    values.push(image.load_u64(at(next)));
                    next = image.load_u64(at(next + 8));
                }
                Ok(values)
            },
            |values: &Vec<u64>, _: &Crash<'_>| match values[..] {
                [] | [7] => Ok(()),
                _ => Err(format!("the list is {values:?}").into()),
            },
        )
    };
    assert_eq!(first(&check(false)).class, Class::StaleRecord, "{}", first(&check(false)));
    assert!(!check(true).has_failures());
}

#[test]
fn a_promise_that_comes_before_its_stores_or_their_flush_is_too_early() {
    let before = |promise_first: fn(&Recorder)| {
        class_of(&Check::new(128), promise_first, |(a, _), crash| a == 1 || crash.acked.is_empty())
    };
    let the_store = |medium: &Recorder| {
        ack(medium, 1);
        medium.store_u64(at(0), 1);
        persist(medium, 0);
    };
    let the_flush = |medium: &Recorder| {
        medium.store_u64(at(0), 1);
        ack(medium, 1);
        persist(medium, 0);
    };
    let the_fence = |medium: &Recorder| {
        medium.store_u64(at(0), 1);
        medium.flush(LineAddr(0));
        ack(medium, 1);
        medium.fence();
    };
    let no_flush_at_all = |medium: &Recorder| {
        medium.store_u64(at(0), 1);
        ack(medium, 1);
        medium.fence();
    };
    assert_eq!(before(the_store), Class::AcknowledgedEarly);
    assert_eq!(before(the_flush), Class::AcknowledgedEarly);
    assert_eq!(before(the_fence), Class::MissingFence);
    assert_eq!(before(no_flush_at_all), Class::MissingFlush);
}

#[test]
fn fewer_crashes_and_fewer_preemptions_come_first() {
    // A lock that is left behind is met at the first crash, and in the recovery from it too.
    let report = Check::new(128).run(
        |_, medium: &Recorder| {
            medium.store_u64(at(0), 1);
            medium.store_u64(at(64), 5);
            persist(medium, 1);
            medium.store_u64(at(0), 0);
        },
        |image: &ImageMedium| {
            if image.load_u64(at(0)) == 1 {
                return Err("locked".into());
            }
            image.store_u64(at(0), 1);
            image.store_u64(at(64), 6);
            persist(image, 1);
            image.store_u64(at(0), 0);
            Ok(())
        },
        |(): &(), _: &Crash<'_>| Ok(()),
    );
    assert_eq!(first(&report).reproduction.as_ref().unwrap().witness.crashes.len(), 1);
    // What the program itself left behind is nothing stale.
    assert_eq!(first(&report).class, Class::Atomicity, "{}", first(&report));
    // Either of two bugs shows with one preemption or none; two are allowed.
    let report = Check::new(192)
        .lanes(2)
        .schedules(Schedules::Preemptions { bound: 2, schedules_max: 10_000 })
        .run(
            |lane, medium: &Recorder| {
                let home = 64 * u64::from(lane.0);
                for _ in 0..3 {
                    medium.store_u64(at(home), medium.load_u64(at(home)) + 1);
                }
                persist(medium, u64::from(lane.0));
                if medium.load_u64(at(0)) == 3 && lane == LaneId(1) {
                    ack(medium, 1); // nothing persisted what the other lane stored
                }
            },
            words,
            |state: &(u64, u64), crash: &Crash<'_>| {
                let sound = state.0 == 3 || crash.acked.is_empty();
                if sound { Ok(()) } else { Err(Violation::from("lost")) }
            },
        );
    let plan = first(&report).reproduction.as_ref().unwrap().plan.to_string();
    assert!(plan.split_whitespace().count() <= 2, "{plan}");
}

#[test]
fn places_inside_recovery_have_a_site() {
    let report = Check::new(192).run(
        |_, medium: &Recorder| {
            medium.store_u64(at(0), 1);
            persist(medium, 0);
            ack(medium, 1);
        },
        |image: &ImageMedium| {
            if image.load_u64(at(0)) == 1 {
                image.mark(Mark::Site("bring home"));
                image.store_u64(at(64), 1); // a flush is missing here
                image.store_u64(at(0), 0);
                persist(image, 0);
            }
            Ok(image.load_u64(at(64)))
        },
        |home: &u64, crash: &Crash<'_>| {
            if *home == 1 || crash.acked.is_empty() { Ok(()) } else { Err("lost".into()) }
        },
    );
    let finding = first(&report);
    assert_eq!((finding.class, finding.place.level), (Class::MissingFlush, 2), "{finding}");
    let site = finding.place.site.unwrap();
    assert!(site.location.file().ends_with("classes.rs"), "{finding}");
    assert_eq!(site.label, Some("bring home"));
    assert_eq!(finding.place.line, Some(LineAddr(1)));
}

#[test]
fn a_finding_says_which_acknowledgement_was_lost_and_what_lines_held() {
    // Lane 1 forgets the fence before its second acknowledgement.
    let report = Check::new(256).lanes(2).run(
        |lane, medium: &Recorder| {
            let line = u64::from(lane.0) + 1;
            for number in 1..=2 {
                medium.store_u64(at(line * 64), number);
                medium.flush(LineAddr(line));
                if lane == LaneId(0) || number == 1 {
                    medium.fence();
                }
                ack(medium, 10 * u64::from(lane.0) + number);
            }
            medium.store_u64(at(0), 9);
            persist(medium, 0);
        },
        |image: &ImageMedium| Ok([image.load_u64(at(64)), image.load_u64(at(128))]),
        |counts: &[u64; 2], crash: &Crash<'_>| {
            let promised = |lane: u64| crash.acked.iter().filter(|tx| tx.0 / 10 == lane).count();
            match (0..2).find(|lane| (counts[*lane as usize] as usize) < promised(*lane)) {
                Some(lane) => Err(format!("lane {lane} is short").into()),
                None => Ok(()),
            }
        },
    );
    let finding = first(&report);
    assert_eq!(finding.class, Class::MissingFence, "{finding}");
    let lost: Vec<_> = finding.lost.iter().map(|lost| (lost.tx, lost.place.lane)).collect();
    assert_eq!(lost, [(TxId(12), LaneId(1))], "{finding}");
    let held: Vec<_> = finding.lines.iter().map(|line| (line.line, line.held)).collect();
    assert!(held.contains(&(LineAddr(2), Held::Old)), "{finding}");
    let text = finding.to_string();
    assert!(text.contains("lost transaction 12, acknowledged by operation"), "{text}");
    assert!(text.contains("old content after operation"), "{text}");
    assert!(text.contains("classes.rs:"), "{text}");
}

#[test]
fn lines_with_new_content_are_told_from_those_with_old() {
    let report = Check::new(128).run(
        |_, medium: &Recorder| {
            medium.store_u64(at(64), 5);
            medium.store_u64(at(0), 64);
            persist(medium, 0);
        },
        words,
        |(pointer, target): &(u64, u64), _: &Crash<'_>| {
            if *pointer == 0 || *target == 5 { Ok(()) } else { Err("nothing there".into()) }
        },
    );
    let finding = first(&report);
    let held: Vec<_> = finding.lines.iter().map(|line| (line.line, line.held)).collect();
    assert_eq!(held, [(LineAddr(0), Held::New), (LineAddr(1), Held::Old)], "{finding}");
    assert!(finding.lost.is_empty());
}
