//! The checker against the reference machine, on random small programs.

use std::collections::{BTreeMap, BTreeSet};

use outlast_pmem::{Medium, Recorder};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, TxId};
use proptest::prelude::*;

use super::*;
use crate::memory::brute::{self, Claim};
use crate::memory::model::{Clflush, Domain, Tear, Wide};
use crate::memory::{Broken, Crash, History};

mod verdicts;

/// Lines that programs use: two in one sector, one in another.
const LINES: [u64; 3] = [0, 1, 8];
const LEN: u64 = 576;

#[derive(Clone, Copy, Debug)]
enum Step {
    Store { line: usize, at: u64, len: usize, value: u8 },
    Stream { line: usize, word: u64, words: usize, value: u8 },
    LineStore { line: usize, value: u8 },
    Rmw { line: usize, value: u8 },
    Flush { line: usize, kind: FlushKind },
    Sfence,
    Mfence,
    Ack,
}

fn steps() -> impl Strategy<Value = Step> {
    let line = 0..LINES.len();
    prop_oneof![
        6 => (line.clone(), prop::sample::select(vec![0u64, 4, 8, 12, 60]), prop::sample::select(vec![4usize, 8, 12]), 1..4u8)
            .prop_map(|(line, at, len, value)| Step::Store { line, at, len, value }),
        2 => (line.clone(), 0..2u64, 1..3usize, 4..6u8)
            .prop_map(|(line, word, words, value)| Step::Stream { line, word, words, value }),
        1 => (line.clone(), 6..8u8).prop_map(|(line, value)| Step::LineStore { line, value }),
        1 => (line.clone(), 8..9u8).prop_map(|(line, value)| Step::Rmw { line, value }),
        4 => (line, prop::sample::select(vec![FlushKind::Clwb, FlushKind::Clwb, FlushKind::ClflushOpt, FlushKind::Clflush]))
            .prop_map(|(line, kind)| Step::Flush { line, kind }),
        3 => Just(Step::Sfence),
        1 => Just(Step::Mfence),
        2 => Just(Step::Ack),
    ]
}

/// Two lanes, up to eight operations, and few enough pieces for the reference machine: it keeps
/// every state that it can be in, and their number doubles with each piece.
fn programs() -> impl Strategy<Value = Vec<(u16, Step)>> {
    let pieces = |(_, step): &(u16, Step)| match step {
        Step::Store { len, .. } => len.div_ceil(8),
        Step::Stream { words, .. } => *words,
        Step::LineStore { .. } => 8,
        _ => 1,
    };
    prop::collection::vec((0..2u16, steps()), 1..9)
        .prop_filter("more pieces than the reference machine lists in a moment", move |program| {
            program.iter().map(pieces).sum::<usize>() <= 16
        })
}

fn log_of(program: &[(u16, Step)]) -> OpLog {
    let mut log = OpLog::default();
    for (i, (lane, step)) in program.iter().enumerate() {
        record(&mut log, LaneId(*lane), i as u64, *step);
    }
    log
}

fn record(log: &mut OpLog, lane: LaneId, number: u64, step: Step) {
    let start = |line: usize| PoolOffset(LINES[line] * 64);
    match step {
        Step::Store { line, at, len, value } => {
            // The last line has no neighbour to cross into.
            let at = if line == 2 { at.min(48) } else { at };
            log.op(lane, Op::Store { at: start(line).plus(at), bytes: &vec![value; len] });
        }
        Step::Stream { line, word, words, value } => {
            let at = start(line).plus(word * 8);
            log.op(lane, Op::StoreNt { at, bytes: &vec![value; words * 8] });
        }
        Step::LineStore { line, value } => {
            log.op(lane, Op::Store64 { line: LineAddr(LINES[line]), bytes: &[value; 64] });
        }
        Step::Rmw { line, value } => {
            log.op(lane, Op::Rmw { at: start(line), bytes: &[value; 8] });
        }
        Step::Flush { line, kind } => log.op(lane, Op::Flush { kind, line: LineAddr(LINES[line]) }),
        Step::Sfence => log.op(lane, Op::Sfence),
        Step::Mfence => log.op(lane, Op::Mfence),
        Step::Ack => log.op(lane, Op::Ack(TxId(number))),
    }
}

fn models() -> impl Strategy<Value = Model> {
    (
        prop::sample::select(vec![
            Domain::Adr,
            Domain::Adr,
            Domain::Eadr,
            Domain::Page,
            Domain::Process,
        ]),
        prop::sample::select(vec![Tear::Line, Tear::Word]),
        prop::sample::select(vec![Clflush::WithStores, Clflush::MfenceOnly]),
        prop::sample::select(vec![Wide::Ascending, Wide::Unordered]),
    )
        .prop_map(|(domain, tear, clflush, wide)| Model { domain, tear, clflush, wide })
}

fn base() -> Vec<u8> {
    vec![0; LEN as usize]
}

type Images = BTreeSet<Vec<u8>>;

/// Images by the number of acknowledgements that go with them.
fn brute_by_acks(base: &[u8], log: &OpLog, model: Model) -> BTreeMap<usize, Images> {
    let mut by_acks: BTreeMap<usize, Images> = BTreeMap::new();
    for (position, images) in brute::images(base, log, model).into_iter().enumerate() {
        let acks = log.iter().take(position).filter(|(_, op)| matches!(op, Op::Ack(_))).count();
        by_acks.entry(acks).or_default().extend(images);
    }
    by_acks
}

/// The images that the checker enumerates at one level, by acknowledgements, seen through `project`.
fn checked_by_acks<P: Ord>(
    settings: &Exhaustive,
    base: &[u8],
    log: &OpLog,
    project: impl Fn(&ImageMedium) -> P,
) -> (BTreeMap<usize, BTreeSet<P>>, Outcome) {
    let mut by_acks: BTreeMap<usize, BTreeSet<P>> = BTreeMap::new();
    let outcome = settings
        .run(base, log, |image: &ImageMedium, crash: &Crash<'_>| {
            by_acks.entry(crash.acked.len()).or_default().insert(project(image));
            Ok(())
        })
        .unwrap();
    (by_acks, outcome)
}

/// Soundness and completeness, acknowledgements included. An image that is checked with some number
/// of acknowledgements is possible with that number. An image that is possible with some number is
/// checked with at least that number: the key reduction.
fn assert_same<P: Ord + std::fmt::Debug>(
    checked: &BTreeMap<usize, BTreeSet<P>>,
    possible: &BTreeMap<usize, BTreeSet<P>>,
) {
    for (acks, images) in checked {
        let allowed = possible.get(acks);
        let bad = images.iter().find(|image| !allowed.is_some_and(|all| all.contains(*image)));
        assert!(bad.is_none(), "checked with {acks} acknowledgements, not possible: {bad:?}");
    }
    for (acks, images) in possible {
        for image in images {
            let found = checked.range(acks..).any(|(_, all)| all.contains(image));
            assert!(found, "possible with {acks} acknowledgements, not checked: {image:?}");
        }
    }
}

/// Each case is a whole program on the reference machine, so there are few by default;
/// `PROPTEST_CASES` asks for more.
fn cases() -> ProptestConfig {
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() {
        ProptestConfig::default().cases
    } else {
        400
    };
    ProptestConfig {
        cases,
        max_global_rejects: 10 * cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn the_checker_enumerates_what_the_reference_machine_can_leave(
        program in programs(),
        model in models(),
    ) {
        let log = log_of(&program);
        let settings = Exhaustive::new(model).crashes(1);
        let (checked, outcome) = checked_by_acks(&settings, &base(), &log, ImageMedium::to_bytes);
        assert_same(&checked, &brute_by_acks(&base(), &log, model));
        prop_assert!(outcome.complete);
        // Recovery looked at everything, so every image was executed on its own.
        let level = &outcome.levels[0];
        prop_assert_eq!(level.allowed, level.covered);
        prop_assert_eq!(level.allowed.exact(), Some(u128::from(level.verified)));
    }

    #[test]
    fn what_recovery_does_not_look_at_is_not_enumerated_and_not_forgotten(
        program in programs(),
        model in models(),
        looks in prop::collection::vec((0..LEN / 8, any::<bool>()), 0..4),
    ) {
        let log = log_of(&program);
        // Recovery looks at some words, at the later ones only if the earlier ones say so.
        let look = |word: &dyn Fn(u64) -> u64| {
            let mut seen = Vec::new();
            for &(index, always) in &looks {
                if always || seen.last().is_none_or(|&last| last != 0) {
                    seen.push(word(index));
                }
            }
            seen
        };
        let settings = Exhaustive::new(model).crashes(1);
        let (checked, outcome) = checked_by_acks(&settings, &base(), &log, |image: &ImageMedium| {
            look(&|index| image.load_u64(PoolOffset(index * 8)))
        });
        let possible = brute_by_acks(&base(), &log, model)
            .into_iter()
            .map(|(acks, images)| {
                let word = |image: &[u8], index: u64| {
                    u64::from_le_bytes(image[index as usize * 8..][..8].try_into().unwrap())
                };
                (acks, images.iter().map(|image| look(&|index| word(image, index))).collect())
            })
            .collect();
        assert_same(&checked, &possible);
        let level = &outcome.levels[0];
        prop_assert_eq!(level.allowed, level.covered);
    }

    #[test]
    fn a_history_allows_at_each_position_what_the_machine_can_leave_there(
        program in programs(),
        tear in prop::sample::select(vec![Tear::Line, Tear::Word]),
        domain in prop::sample::select(vec![Domain::Adr, Domain::Page]),
    ) {
        let log = log_of(&program);
        // Without a store buffer in play, position by position. clflush is where one shows.
        let clflush = |(_, op): (_, Op<'_>)| matches!(op, Op::Flush { kind: FlushKind::Clflush, .. });
        prop_assume!(!log.iter().any(clflush) && log.len() < 6);
        let model = Model { domain, tear, ..Model::default() };
        let possible = brute::images(&base(), &log, model);
        let mut history = History::new(&base(), model);
        let everything: Images = possible.iter().flatten().take(200).cloned().collect();
        for (position, images) in possible.iter().enumerate() {
            prop_assert_eq!(history.images().unwrap().exact(), Some(images.len() as u128));
            for image in &everything {
                prop_assert_eq!(history.check_image(image).is_ok(), images.contains(image));
            }
            if position < log.len() {
                let (lane, op) = log.get(position);
                history.step(lane, &op);
            }
        }
    }

    #[test]
    fn a_crash_in_recovery_is_a_crash_of_a_program(
        program in programs(),
        model in models(),
        recovery in prop::collection::vec((0..3usize, 0..2u64, any::<bool>(), any::<bool>()), 1..4),
    ) {
        let log = log_of(&program);
        // Longer programs have second crashes by the billion.
        prop_assume!(log.len() < 6);
        let settings = Exhaustive::new(model);
        let run = |medium: &dyn Fn(usize, u64, bool, bool)| {
            for &(line, word, flush, fence) in &recovery {
                medium(line, word, flush, fence);
            }
        };
        let mut second: Images = Images::new();
        let outcome = settings.run(&base(), &log, |image: &ImageMedium, crash: &Crash<'_>| {
            if crash.level == 2 {
                second.insert(image.to_bytes());
                return Ok(());
            }
            run(&|line, word, flush, fence| recovery_step(image, line, word, flush, fence));
            Ok(())
        }).unwrap();
        prop_assert!(outcome.complete);
        let mut expected = Images::new();
        for image in brute::images(&base(), &log, model).into_iter().flatten().collect::<Images>() {
            let medium = Recorder::from_image(image.clone());
            run(&|line, word, flush, fence| recovery_step(&medium, line, word, flush, fence));
            expected.extend(brute::images(&image, &medium.take_log(), model).into_iter().flatten());
        }
        prop_assert!(second == expected, "{} and {}", second.len(), expected.len());
    }

    #[test]
    fn every_failure_has_a_witness_that_the_rules_accept(
        program in programs(),
        model in models(),
        at in prop::sample::select(vec![0u64, 1, 7, 8, 9, 64, 65]),
        bad in prop::sample::select(vec![0u64, 1, 2, 3, 4, 6, 8, 0x50]),
    ) {
        let log = log_of(&program);
        let settings = Exhaustive::new(model).failures_max(usize::MAX);
        let verify = |image: &ImageMedium, crash: &Crash<'_>| {
            // The first recovery stores, and the second looks at more than the first did.
            if crash.level == 1 {
                recovery_step(image, 1, 0, true, false);
                recovery_step(image, 2, 0, true, true);
            }
            let found = image.load_u64(PoolOffset(at * 8));
            let next = (at + u64::from(crash.level)) % (LEN / 8);
            let other = image.load_u64(PoolOffset(next * 8));
            if found & 0xff == bad || other & 0xff == bad {
                return Err(Violation::from("what is not wanted"));
            }
            Ok(())
        };
        let outcome = settings.run(&base(), &log, verify).unwrap();
        for failure in &outcome.failures {
            assert_accepted(&settings, &log, failure, verify);
            let small = settings.shrink(&base(), &log, failure, verify).unwrap();
            assert_accepted(&settings, &log, &small, verify);
            prop_assert!(picks(&small) <= picks(failure));
        }
    }
}

fn picks(failure: &Failure) -> usize {
    failure.witness.crashes.iter().map(|crash| crash.picks.len()).sum()
}

fn assert_accepted(settings: &Exhaustive, log: &OpLog, failure: &Failure, verify: impl Judge) {
    let text = failure.witness.to_string();
    let witness: Witness = text.parse().unwrap();
    let replay = settings.replay(&base(), log, &witness, verify).unwrap();
    assert_eq!(replay.impossible, None, "{text}");
    assert_eq!(replay.verdict.as_ref(), Err(&failure.violation), "{text}");
    for (crash, point) in replay.crashes.iter().zip(&witness.crashes) {
        let persisted: Vec<(u32, u32)> = crash.persisted.iter().flatten().copied().collect();
        let claim = Claim {
            before: &crash.before,
            log: &crash.log,
            op: point.op,
            part: point.part,
            told: point.told,
            persisted: &persisted,
            image: &crash.image,
        };
        brute::accept(settings.model(), &claim).unwrap_or_else(|why| panic!("{text}: {why}"));
        // The acceptor is no rubber stamp: other bytes are refused.
        let mut other = crash.image.clone();
        other[3] ^= 0x80;
        assert!(brute::accept(settings.model(), &Claim { image: &other, ..claim }).is_err());
    }
}

fn recovery_step<M: Medium>(medium: &M, line: usize, word: u64, flush: bool, fence: bool) {
    let at = PoolOffset(LINES[line] * 64 + word * 8);
    let found = medium.load_u64(at);
    medium.store_u64(at, found.rotate_left(8) ^ 0x50);
    if flush {
        medium.flush(at.line());
    }
    if fence {
        medium.fence();
    }
}

/// An earlier crash has fewer images, and the number of a content may mean none there.
#[test]
fn an_earlier_crash_is_no_smaller_failure_when_it_cannot_leave_the_image() {
    let program = [
        (0, Step::Rmw { line: 0, value: 8 }),
        (0, Step::Stream { line: 0, word: 0, words: 1, value: 4 }),
    ];
    let log = log_of(&program);
    let settings = Exhaustive::new(Model::default()).failures_max(usize::MAX);
    let verify = |image: &ImageMedium, _: &Crash<'_>| match image.load_u64(PoolOffset(0)) & 0xff {
        8 => Err(Violation::from("what is not wanted")),
        _ => Ok(()),
    };
    let outcome = settings.run(&base(), &log, verify).unwrap();
    assert!(!outcome.failures.is_empty());
    for failure in &outcome.failures {
        assert_accepted(&settings, &log, failure, verify);
        let small = settings.shrink(&base(), &log, failure, verify).unwrap();
        assert_accepted(&settings, &log, &small, verify);
    }
}

/// A store that a durable stream has hidden persists before a later one to its line all the same.
#[test]
fn a_witness_names_hidden_stores_too() {
    let program = [
        (0, Step::Store { line: 1, at: 0, len: 12, value: 1 }),
        (0, Step::Stream { line: 1, word: 1, words: 1, value: 4 }),
        (0, Step::Sfence),
        (0, Step::Stream { line: 1, word: 0, words: 1, value: 4 }),
        (0, Step::Store { line: 1, at: 0, len: 4, value: 1 }),
    ];
    let log = log_of(&program);
    let settings = Exhaustive::new(Model::default()).failures_max(usize::MAX);
    let verify = |_: &ImageMedium, _: &Crash<'_>| Err(Violation::from("everything is wrong"));
    let verify = |image: &ImageMedium, crash: &Crash<'_>| {
        image.load_u64(LineAddr(1).start());
        verify(image, crash)
    };
    let outcome = settings.run(&base(), &log, verify).unwrap();
    assert!(outcome.failures.len() > 2);
    for failure in &outcome.failures {
        assert_accepted(&settings, &log, failure, verify);
    }
}

/// A program of `lines` lines with two unflushed stores each, and its number of images.
fn wide_program(lines: u64) -> (Vec<u8>, OpLog, u128) {
    let medium = Recorder::new(lines * 64);
    for line in 0..lines {
        medium.store_u64(LineAddr(line).start(), line + 1);
        medium.store_u64(LineAddr(line).start().plus(8), line + 1);
    }
    (vec![0; lines as usize * 64], medium.take_log(), 3u128.pow(lines.min(80) as u32))
}

#[test]
fn untouched_units_are_counted_and_not_executed() {
    let (base, log, allowed) = wide_program(40);
    let settings = Exhaustive::new(Model::default());
    let look = |image: &ImageMedium, _: &Crash<'_>| {
        image.load_u64(PoolOffset(0));
        Ok(())
    };
    let outcome = settings.run(&base, &log, look).unwrap();
    assert_eq!(outcome.levels[0].allowed.exact(), Some(allowed));
    assert_eq!(outcome.levels[0].covered.exact(), Some(allowed));
    assert_eq!(outcome.levels[0].verified, 3);
    assert!(outcome.complete);
}

#[test]
fn counts_beyond_128_bits_still_agree() {
    let (base, log, _) = wide_program(200);
    let look = |image: &ImageMedium, _: &Crash<'_>| {
        (0..4).for_each(|line| {
            image.load_u64(LineAddr(line * 7).start());
        });
        Ok(())
    };
    let outcome = Exhaustive::new(Model::default()).run(&base, &log, look).unwrap();
    let level = &outcome.levels[0];
    assert_eq!(level.allowed.exact(), None);
    assert!(level.allowed.agrees_with(level.covered));
    assert_eq!(level.verified, 81);
}

#[test]
fn a_recovery_that_is_no_function_of_its_image_is_found_out() {
    let (base, log, _) = wide_program(4);
    let mut calls = 0u64;
    let outcome = Exhaustive::new(Model::default())
        .run(&base, &log, |image: &ImageMedium, _: &Crash<'_>| {
            calls += 1;
            image.load_u64(LineAddr(calls % 4).start());
            Ok(())
        })
        .unwrap();
    assert_eq!(outcome.failures[0].violation.broken, Broken::Strayed);
    assert!(!outcome.complete);
}

#[test]
fn recoveries_that_panic_or_never_end_are_violations() {
    let (base, log, _) = wide_program(1);
    let settings = Exhaustive::new(Model::default()).recovery_ops_max(1000);
    let broken = |verify: fn(&ImageMedium, &Crash<'_>) -> Result<(), Violation>| {
        settings.run(&base, &log, verify).unwrap().failures[0].violation.broken
    };
    let panics = broken(|image, _| {
        image.load_u64(PoolOffset(1 << 20));
        Ok(())
    });
    assert_eq!(panics, Broken::Panicked);
    let spins = broken(|image, _| {
        loop {
            image.load_u64(PoolOffset(0));
        }
    });
    assert_eq!(spins, Broken::Stuck);
    let waits = broken(|image, _| {
        loop {
            image.pause();
        }
    });
    assert_eq!(waits, Broken::Stuck);
}

#[test]
fn equal_recoveries_are_crashed_once_and_counted() {
    let medium = Recorder::new(192);
    medium.store_u64(PoolOffset(64), 1);
    medium.flush_range(PoolOffset(64), 8);
    medium.fence();
    medium.flush_range(PoolOffset(64), 8);
    medium.fence();
    let log = medium.take_log();
    let verify = |image: &ImageMedium, _: &Crash<'_>| {
        image.load_u64(PoolOffset(64));
        image.store_u64(PoolOffset(0), 9);
        Ok(())
    };
    let outcome = Exhaustive::new(Model::default()).run(&[0; 192], &log, verify).unwrap();
    let [first, second] = &outcome.levels[..] else { panic!("two levels") };
    // Both contents before the first fence, the last one again at the end.
    assert_eq!((first.key_points, first.verified, first.distinct), (2, 3, 2));
    assert_eq!(first.repeated, 1);
    assert_eq!((second.key_points, second.verified), (2, 4));
    assert!(outcome.complete);
}

#[test]
fn a_pool_that_grows_in_program_and_recovery_is_put_back() {
    let medium = Recorder::new(64).growing_to(256);
    medium.store_u64(PoolOffset(0), 1);
    medium.grow(128).unwrap();
    medium.store_u64(PoolOffset(64), 2);
    medium.flush_range(PoolOffset(64), 8);
    medium.fence();
    let log = medium.take_log();
    let mut lengths = BTreeSet::new();
    let settings = Exhaustive::new(Model::default()).growing_to(256);
    let outcome = settings
        .run(&[0; 64], &log, |image: &ImageMedium, crash: &Crash<'_>| {
            lengths.insert((crash.level, image.len()));
            let last = PoolOffset(image.len() - 64);
            image.load_u64(last);
            image.store_u64(last, 7);
            if crash.level == 1 {
                image.grow(image.len() + 64).unwrap();
                image.store_u64(last.plus(64), 8);
            }
            Ok(())
        })
        .unwrap();
    assert!(outcome.complete);
    let expected = [(1, 64), (1, 128), (2, 64), (2, 128), (2, 192)];
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), expected);
}
