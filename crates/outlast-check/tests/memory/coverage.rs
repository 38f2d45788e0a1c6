//! Programs with more images than can be verified: a crash point with many must not hide the bug
//! behind it, and what was left out is told.
#![cfg(not(miri))]

use outlast_check::memory::{
    Check, Class, Crash, Exhaustive, ImageMedium, Model, Report, Violation,
};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{LaneId, LineAddr, PoolOffset, TxId};

fn at(offset: u64) -> PoolOffset {
    PoolOffset(offset)
}

/// A batch of lines that are fenced together and that recovery all reads, then a value that is
/// published, with a fence or without.
fn batch_and_publish(lines: u64, is_fenced: bool) -> impl Fn(LaneId, &Recorder) + Sync {
    move |_, medium| {
        for line in 0..lines {
            medium.store_u64(at((line + 4) * 64), 1);
            medium.flush(LineAddr(line + 4));
        }
        medium.fence();
        medium.store_u64(at(0), 9);
        medium.flush(LineAddr(0));
        if is_fenced {
            medium.fence();
        }
        medium.store_u64(at(64), 1);
        medium.flush(LineAddr(1));
        medium.fence();
        medium.mark(Mark::Ack(TxId(1)));
    }
}

/// The published value, after a census of the batch.
fn recover(lines: u64) -> impl Fn(&ImageMedium) -> Result<(u64, u64), String> {
    move |image| {
        let census: u64 = (0..lines).map(|line| image.load_u64(at((line + 4) * 64))).sum();
        assert!(census <= lines);
        Ok((image.load_u64(at(64)), image.load_u64(at(0))))
    }
}

fn is_published(&(valid, value): &(u64, u64), _: &Crash<'_>) -> Result<(), Violation> {
    if valid == 0 || value == 9 { Ok(()) } else { Err(format!("valid and {value}").into()) }
}

fn run(check: &Check, lines: u64, is_fenced: bool) -> Report {
    check.run(batch_and_publish(lines, is_fenced), recover(lines), is_published)
}

#[test]
fn a_crash_point_with_many_images_does_not_hide_the_bug_behind_it() {
    for lines in [22, 40, 200] {
        let check = Check::new((lines + 4) * 64).images_max(4_000);
        let report = run(&check, lines, false);
        let finding = report.failures().next().expect("the bug behind the batch");
        // The batch does not keep its class from being decided either.
        assert_eq!(finding.class, Class::MissingFence, "{finding}");
        assert!(report.images_verified <= 4_000);
        assert_eq!(report.coverage.sampled, 1, "{report}");
    }
}

#[test]
fn what_was_left_out_is_told() {
    let check = Check::new(26 * 64).images_max(4_000).crashes(1);
    let report = run(&check, 22, true);
    assert!(!report.has_failures() && !report.complete, "{report}");
    let coverage = &report.coverage;
    assert_eq!((coverage.sampled, coverage.unvisited), (1, 0), "{report}");
    let widest = coverage.widest.unwrap();
    assert_eq!(widest.op, 44);
    assert_eq!(widest.allowed.exact(), Some(1 << 22));
    assert!(widest.verified > 1_000, "{report}");
    let text = report.to_string();
    assert!(text.contains("1 sampled"), "{text}");
    assert!(text.contains("the widest before operation 44: 4194304 images"), "{text}");
    // With enough images for it, the same crash point is enumerated.
    let report = run(&Check::new(14 * 64).images_max(4_000).crashes(1), 10, true);
    assert!(report.complete, "{report}");
    assert_eq!(report.coverage.sampled, 0);
}

#[test]
fn images_that_others_leave_over_finish_a_wide_crash_point() {
    // 1,024 images at one of some twenty crash points, in all hardly more than are allowed.
    let program = |_: LaneId, medium: &Recorder| {
        batch_and_publish(10, true)(LaneId(0), medium);
        for number in 2..20 {
            medium.store_u64(at(64), number);
            medium.flush(LineAddr(1));
            medium.fence();
        }
    };
    let check = Check::new(14 * 64).images_max(2_600).crashes(1);
    let report = check.run(program, recover(10), is_published);
    assert!(report.complete, "{report}");
    assert!(report.images_verified <= 2_600);
}

/// Samples begin with each line alone and each line left out, so a bug that needs one line to be
/// early or late is met for certain.
#[test]
fn samples_meet_each_line_alone_and_each_left_out() {
    const LINES: u64 = 40;
    let program = |_: LaneId, medium: &Recorder| {
        for line in 0..LINES {
            medium.store_u64(at(line * 64), 1);
            medium.flush(LineAddr(line));
        }
        medium.fence();
    };
    let count = |image: &ImageMedium| {
        Ok((0..LINES).filter(|line| image.load_u64(at(*line * 64)) == 1).collect::<Vec<u64>>())
    };
    let check = Check::new(LINES * 64).images_max(4_000).crashes(1);
    for victim in [0, 17, 39] {
        let alone = check.run(program, count, |lines: &Vec<u64>, _: &Crash<'_>| {
            if *lines == [victim] { Err("alone".into()) } else { Ok(()) }
        });
        let left_out = check.run(program, count, |lines: &Vec<u64>, _: &Crash<'_>| {
            let all_but_one = lines.len() as u64 == LINES - 1 && !lines.contains(&victim);
            if all_but_one { Err("left out".into()) } else { Ok(()) }
        });
        assert!(alone.has_failures() && left_out.has_failures(), "line {victim}");
    }
}

#[test]
fn a_sampled_check_is_a_function_of_its_seed() {
    let seen = |seed: u64| {
        let images = std::cell::RefCell::new(Vec::new());
        Check::new(44 * 64).images_max(6_000).crashes(1).seed(seed).run(
            batch_and_publish(40, true),
            |image: &ImageMedium| {
                let bits = (4..44).fold(0, |bits, line| bits << 1 | image.load_u64(at(line * 64)));
                images.borrow_mut().push(bits);
                Ok((0, bits))
            },
            |_: &(u64, u64), _: &Crash<'_>| Ok(()),
        );
        images.into_inner()
    };
    assert!(seen(1) == seen(1), "one seed draws one sequence of images");
    assert!(seen(1) != seen(2), "another seed draws others");
}

#[test]
fn crashes_of_recovery_share_images_too() {
    // Each recovery stores a line for each that it finds, which makes 4^12 pairs of crashes.
    const LINES: u64 = 12;
    let program = |_: LaneId, medium: &Recorder| {
        for line in 0..LINES {
            medium.store_u64(at(line * 64), 1);
            medium.flush(LineAddr(line));
        }
        medium.fence();
        medium.store_u64(at(2 * LINES * 64), 1);
        medium.flush(LineAddr(2 * LINES));
        medium.fence();
    };
    let recover = |is_flushed: bool| {
        move |image: &ImageMedium| {
            for line in 0..LINES {
                if image.load_u64(at(line * 64)) == 1 {
                    image.store_u64(at((LINES + line) * 64), 1);
                    image.flush(LineAddr(LINES + line));
                }
            }
            image.fence();
            // Only behind all of this comes the bug.
            if image.load_u64(at(2 * LINES * 64)) == 1 {
                image.store_u64(at(2 * LINES * 64 + 64), 7);
                if is_flushed {
                    image.flush(LineAddr(2 * LINES + 1));
                    image.fence();
                }
                image.store_u64(at(2 * LINES * 64), 2);
                image.flush(LineAddr(2 * LINES));
                image.fence();
            }
            Ok((image.load_u64(at(2 * LINES * 64)), image.load_u64(at(2 * LINES * 64 + 64))))
        }
    };
    let oracle = |&(state, value): &(u64, u64), _: &Crash<'_>| {
        if state != 2 || value == 7 { Ok(()) } else { Err(Violation::from("home is not there")) }
    };
    let check = Check::new((2 * LINES + 2) * 64).images_max(20_000);
    let report = check.run(program, recover(false), oracle);
    let finding = report.failures().next().expect("the bug in recovery");
    assert_eq!((finding.class, finding.place.level), (Class::MissingFlush, 2), "{finding}");
    let sound = check.run(program, recover(true), oracle);
    assert!(!sound.has_failures() && !sound.complete, "{sound}");
    assert!(sound.images_verified <= 20_000, "{sound}");
}

/// Whether a flush at the fence would have helped cannot be seen among 2^40 images. Where the
/// same batch is small, it can.
#[test]
fn a_class_that_takes_too_many_images_is_not_decided() {
    let class = |lines: u64| {
        let check = Check::new((lines + 4) * 64).images_max(4_000);
        let report = check.run(
            |_, medium: &Recorder| {
                medium.store_u64(at(0), 9);
                medium.fence();
                for line in 0..lines {
                    medium.store_u64(at((line + 4) * 64), 1);
                    medium.flush(LineAddr(line + 4));
                }
                medium.store_u64(at(64), 1);
                medium.flush(LineAddr(1));
                medium.fence();
                medium.flush(LineAddr(0)); // too late
                medium.fence();
                medium.mark(Mark::Ack(TxId(1)));
            },
            recover(lines),
            is_published,
        );
        report.failures().next().expect("a flush that comes too late").class
    };
    assert_eq!(class(3), Class::MissingFlush);
    assert_eq!(class(40), Class::NotDecided);
}

/// An exhaustive check without shares is as it was: it ends when its images are used up.
#[test]
fn without_shares_the_first_crash_points_get_all_images() {
    let medium = Recorder::new(26 * 64);
    batch_and_publish(22, false)(LaneId(0), &medium);
    let log = medium.take_log();
    let judge = |image: &ImageMedium, crash: &Crash<'_>| {
        is_published(&recover(22)(image).map_err(Violation::from)?, crash)
    };
    let settings = Exhaustive::new(Model::default()).crashes(1).images_max(1_000);
    let base = vec![0; 26 * 64];
    assert!(settings.run(&base, &log, judge).unwrap().failures.is_empty());
    let shared = settings.sharing_images(0).run(&base, &log, judge).unwrap();
    assert_eq!(shared.failures.len(), 1);
    assert!(shared.images_verified() <= 1_000);
}
