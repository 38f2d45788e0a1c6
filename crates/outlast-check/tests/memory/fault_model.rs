//! The rules of `docs/fault-model.md`, one by one, by their numbers. What a program may leave is
//! written out by hand here; the reference machine has to agree as well.

use std::collections::BTreeSet;

use outlast_check::memory::{
    Clflush, Crash, Domain, Exhaustive, ImageMedium, Model, Tear, Wide, brute,
};
use outlast_pmem::schedule::on_lane;
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{FlushKind, LaneId, LineAddr, PoolOffset, TxId};

/// Words that the programs below use: three in line 0, one in line 1, one in another sector.
const A: PoolOffset = PoolOffset(0);
const A2: PoolOffset = PoolOffset(8);
const A3: PoolOffset = PoolOffset(16);
const B: PoolOffset = PoolOffset(64);
const FAR: PoolOffset = PoolOffset(512);
const WORDS: [PoolOffset; 5] = [A, A2, A3, B, FAR];
const LEN: u64 = 576;

type Seen = BTreeSet<Vec<u64>>;

fn recorder() -> Recorder {
    Recorder::new(LEN).with_atomic_line()
}

/// The values of `words` that a crash at the end of the program may leave.
fn left_on(
    medium: Recorder,
    model: Model,
    words: &[PoolOffset],
    program: impl FnOnce(&Recorder),
) -> Seen {
    // An acknowledgement at the end tells that crash point from the others.
    const END: TxId = TxId(u64::MAX);
    program(&medium);
    medium.mark(Mark::Ack(END));
    let log = medium.take_log();
    let base = vec![0; LEN as usize];
    let mut seen = Seen::new();
    let verify = |image: &ImageMedium, crash: &Crash<'_>| {
        let found = words.iter().map(|&at| image.load_u64(at)).collect();
        if crash.acked.contains(&END) {
            seen.insert(found);
        }
        Ok(())
    };
    Exhaustive::new(model).crashes(1).run(&base, &log, verify).unwrap();
    let last = brute::images(&base, &log, model).pop().unwrap();
    let word = |image: &[u8], at: PoolOffset| {
        u64::from_le_bytes(image[at.0 as usize..][..8].try_into().unwrap())
    };
    let machine: Seen =
        last.iter().map(|image| words.iter().map(|&at| word(image, at)).collect()).collect();
    assert_eq!(seen, machine, "checker and reference machine differ");
    seen
}

fn left(model: Model, words: &[PoolOffset], program: impl FnOnce(&Recorder)) -> Seen {
    left_on(recorder(), model, words, program)
}

/// The same under the default model.
fn may_leave(words: &[PoolOffset], program: impl FnOnce(&Recorder)) -> Seen {
    left(Model::default(), words, program)
}

fn seen<const N: usize, const W: usize>(rows: [[u64; W]; N]) -> Seen {
    rows.into_iter().map(|row| row.to_vec()).collect()
}

#[test]
fn rule_1_a_line_may_persist_with_no_instruction_asking_for_it() {
    assert_eq!(may_leave(&[A], |m| m.store_u64(A, 1)), seen([[0], [1]]));
}

#[test]
fn rule_2_stores_to_a_line_persist_in_order() {
    let program = |m: &Recorder| {
        m.store_u64(A, 1);
        m.store_u64(A2, 2);
        m.store_u64(A, 3);
    };
    assert_eq!(may_leave(&[A, A2], program), seen([[0, 0], [1, 0], [1, 2], [3, 2]]));
}

#[test]
fn rule_2_holds_across_lanes() {
    let program = |m: &Recorder| {
        on_lane(LaneId(1), || m.store_u64(A, 1));
        on_lane(LaneId(0), || m.store_u64(A2, 2));
    };
    assert_eq!(may_leave(&[A, A2], program), seen([[0, 0], [1, 0], [1, 2]]));
}

#[test]
fn rule_3_lines_persist_in_any_order() {
    let program = |m: &Recorder| {
        m.store_u64(A, 1);
        m.store_u64(B, 2);
    };
    assert_eq!(may_leave(&[A, B], program), seen([[0, 0], [1, 0], [0, 2], [1, 2]]));
}

#[test]
fn rule_3_a_flush_and_a_fence_order_two_lines() {
    let program = |m: &Recorder| {
        m.store_u64(A, 1);
        m.flush(A.line());
        m.fence();
        m.store_u64(B, 2);
    };
    assert_eq!(may_leave(&[A, B], program), seen([[1, 0], [1, 2]]));
}

#[test]
fn rule_4_the_images_are_a_product() {
    let medium = recorder();
    medium.store_u64(A, 1);
    medium.store_u64(A2, 2);
    medium.store_u64(B, 3);
    medium.store_u64(FAR, 4);
    medium.store_u64(FAR, 4); // other choice, same bytes
    let outcome = Exhaustive::new(Model::default())
        .run(&[0; LEN as usize], &medium.take_log(), |_: &ImageMedium, _: &Crash<'_>| Ok(()))
        .unwrap();
    assert_eq!(outcome.levels[0].choices.exact(), Some(3 * 2 * 3));
    assert_eq!(outcome.levels[0].allowed.exact(), Some(3 * 2 * 2));
}

#[test]
fn rule_5_a_word_is_whole_and_a_wider_store_is_several() {
    let both = u64::from_le_bytes([7; 8]);
    let word = may_leave(&[A], |m| m.store(A, &[7; 8]));
    assert_eq!(word, seen([[0], [both]]));
    let two = |m: &Recorder| m.store(A, &[7; 16]);
    assert_eq!(may_leave(&[A, A2], two), seen([[0, 0], [both, 0], [both, both]]));
    let (low, high) = (0x0707_0707_0000_0000, 0x0707_0707);
    let across = |m: &Recorder| m.store(A.plus(4), &[7; 8]);
    assert_eq!(may_leave(&[A, A2], across), seen([[0, 0], [low, 0], [low, high]]));
}

#[test]
fn rule_5_words_of_a_vector_store_persist_in_any_order() {
    let model = Model { wide: Wide::Unordered, ..Model::default() };
    let program = |m: &Recorder| {
        m.store(A, &[1; 24]);
        m.store(A2, &[2; 8]);
    };
    let (one, two) = (0x0101_0101_0101_0101, 0x0202_0202_0202_0202);
    let mut expected = Seen::new();
    for subset in 0..8 {
        expected.insert((0..3).map(|word| one * (subset >> word & 1)).collect());
    }
    expected.insert(vec![one, two, one]);
    assert_eq!(left(model, &[A, A2, A3], program), expected);
}

#[test]
fn rule_5_a_line_store_is_atomic() {
    let program = |m: &Recorder| m.store_line(LineAddr(0), &[1; 64]);
    let one = 0x0101_0101_0101_0101;
    assert_eq!(may_leave(&[A, A2], program), seen([[0, 0], [one, one]]));
}

#[test]
fn rule_6_a_flush_covers_what_came_before_it_in_its_line() {
    let program = |m: &Recorder| {
        m.store_u64(A, 1);
        m.flush(A.line());
        m.store_u64(A, 2);
        m.store_u64(B, 3);
        m.fence();
    };
    assert_eq!(may_leave(&[A, B], program), seen([[1, 0], [1, 3], [2, 0], [2, 3]]));
}

#[test]
fn rule_6_a_flush_is_not_ordered_with_later_stores() {
    for kind in [FlushKind::Clwb, FlushKind::ClflushOpt] {
        let program = |m: &Recorder| {
            m.store_u64(A, 1);
            m.flush(A.line());
            m.store_u64(B, 2);
        };
        let medium = recorder().flushing_with(kind);
        let all = seen([[0, 0], [1, 0], [0, 2], [1, 2]]);
        assert_eq!(left_on(medium, Model::default(), &[A, B], program), all);
    }
}

#[test]
fn rule_7_only_the_own_lanes_fence_makes_a_flush_durable() {
    let program = |by: u16| {
        move |m: &Recorder| {
            m.store_u64(A, 1);
            m.flush(A.line());
            on_lane(LaneId(by), || m.fence());
        }
    };
    assert_eq!(may_leave(&[A], program(0)), seen([[1]]));
    assert_eq!(may_leave(&[A], program(1)), seen([[0], [1]]));
    let mfence = recorder().fencing_with_mfence();
    assert_eq!(left_on(mfence, Model::default(), &[A], program(0)), seen([[1]]));
}

#[test]
fn rule_7_a_flush_of_another_lanes_store_counts() {
    let program = |m: &Recorder| {
        on_lane(LaneId(1), || m.store_u64(A, 1));
        m.flush(A.line());
        m.fence();
    };
    assert_eq!(may_leave(&[A], program), seen([[1]]));
}

#[test]
fn rule_7_a_locked_instruction_is_a_fence_even_when_it_fails() {
    let program = |expected: u64| {
        move |m: &Recorder| {
            m.store_u64(A, 1);
            m.flush(A.line());
            let _ = m.compare_exchange_u64(B, expected, 5);
        }
    };
    assert_eq!(may_leave(&[A, B], program(0)), seen([[1, 0], [1, 5]]));
    assert_eq!(may_leave(&[A, B], program(9)), seen([[1, 0]]));
}

#[test]
fn rule_8_clflush_is_ordered_with_later_stores_on_intel_only() {
    let program = |m: &Recorder| {
        m.store_u64(A, 1);
        m.flush(A.line());
        m.store_u64(B, 2);
    };
    let clflush = || recorder().flushing_with(FlushKind::Clflush);
    let words = &[A, B];
    // The store may still wait behind the clflush; once it is there, so is what was flushed.
    let intel = seen([[0, 0], [1, 0], [1, 2]]);
    assert_eq!(left_on(clflush(), Model::default(), words, program), intel);
    let amd = Model { clflush: Clflush::MfenceOnly, ..Model::default() };
    let any = seen([[0, 0], [1, 0], [0, 2], [1, 2]]);
    assert_eq!(left_on(clflush(), amd, words, program), any);
}

#[test]
fn rule_8_retirement_proves_nothing_and_amd_needs_mfence() {
    let flushed = |m: &Recorder| {
        m.store_u64(A, 1);
        m.flush(A.line());
    };
    let fenced = |m: &Recorder| {
        flushed(m);
        m.fence();
    };
    let clflush = || recorder().flushing_with(FlushKind::Clflush);
    let amd = Model { clflush: Clflush::MfenceOnly, ..Model::default() };
    assert_eq!(left_on(clflush(), Model::default(), &[A], flushed), seen([[0], [1]]));
    assert_eq!(left_on(clflush(), Model::default(), &[A], fenced), seen([[1]]));
    assert_eq!(left_on(clflush(), amd, &[A], fenced), seen([[0], [1]]));
    let mfence = clflush().fencing_with_mfence();
    assert_eq!(left_on(mfence, amd, &[A], fenced), seen([[1]]));
}

#[test]
fn rule_9_a_flush_without_a_fence_changes_nothing() {
    let program = |flush: bool| {
        move |m: &Recorder| {
            m.store_u64(A, 1);
            if flush {
                m.flush(A.line());
            }
            m.store_u64(A2, 2);
            m.store_u64(B, 3);
        }
    };
    assert_eq!(may_leave(&WORDS, program(true)), may_leave(&WORDS, program(false)));
}

#[test]
fn rule_10_streamed_words_persist_in_any_order_until_the_fence() {
    let program = |m: &Recorder| m.store_nt(A, &[1; 16]);
    let one = 0x0101_0101_0101_0101;
    let any = seen([[0, 0], [one, 0], [0, one], [one, one]]);
    assert_eq!(may_leave(&[A, A2], program), any);
    let fenced = |m: &Recorder| {
        program(m);
        m.fence();
    };
    assert_eq!(may_leave(&[A, A2], fenced), seen([[one, one]]));
    let fenced_elsewhere = |m: &Recorder| {
        program(m);
        on_lane(LaneId(1), || {
            m.flush(A.line());
            m.fence();
        });
    };
    assert_eq!(may_leave(&[A, A2], fenced_elsewhere), any);
}

#[test]
fn rule_10_streams_and_stores_in_one_line_are_not_ordered() {
    let program = |m: &Recorder| {
        m.store_u64(A, 1);
        m.store_nt(A2, &2u64.to_le_bytes());
        m.store_u64(A3, 3);
    };
    let expected = seen([[0, 0, 0], [1, 0, 0], [1, 0, 3], [0, 2, 0], [1, 2, 0], [1, 2, 3]]);
    assert_eq!(may_leave(&[A, A2, A3], program), expected);
}

#[test]
fn rule_10_one_word_never_goes_back() {
    let streams = |m: &Recorder| {
        m.store_nt(A, &1u64.to_le_bytes());
        m.store_nt(A, &2u64.to_le_bytes());
    };
    assert_eq!(may_leave(&[A], streams), seen([[0], [1], [2]]));
    // Fenced, the older value is gone, and an older ordinary store cannot come back either.
    let fenced = |m: &Recorder| {
        m.store_u64(A, 7);
        m.store_nt(A, &1u64.to_le_bytes());
        m.fence();
    };
    assert_eq!(may_leave(&[A], fenced), seen([[1]]));
    // An ordinary store that persisted implies the stream before it, a line store as a whole.
    let after = |m: &Recorder| {
        m.store_line(LineAddr(0), &[1; 64]);
        m.store_u64(A, 2);
    };
    let one = 0x0101_0101_0101_0101;
    assert_eq!(may_leave(&[A, A2], after), seen([[0, 0], [one, one], [2, one]]));
}

#[test]
fn rule_11_an_acknowledgement_may_outrun_the_store_it_speaks_of() {
    let eadr = Model::default().in_domain(Domain::Eadr);
    assert_eq!(left(eadr, &[A], |m| m.store_u64(A, 1)), seen([[0], [1]]));
    let fenced = |m: &Recorder| {
        m.store_u64(A, 1);
        m.fence();
    };
    assert_eq!(left(eadr, &[A], fenced), seen([[1]]));
    let handed_over = |m: &Recorder| {
        on_lane(LaneId(1), || m.store_u64(A, 1));
        on_lane(LaneId(0), || m.mark(Mark::TxBegin));
    };
    assert_eq!(left(eadr, &[A], handed_over), seen([[1]]));
}

#[test]
fn rule_13_eadr_keeps_the_order_of_stores_and_not_of_streams() {
    let eadr = Model::default().in_domain(Domain::Eadr);
    let program = |m: &Recorder| {
        m.store_u64(A, 1);
        m.store_u64(B, 2);
        m.store_u64(A, 3);
    };
    assert_eq!(left(eadr, &[A, B], program), seen([[0, 0], [1, 0], [1, 2], [3, 2]]));
    let streamed = |m: &Recorder| {
        m.store_nt(B, &1u64.to_le_bytes());
        m.store_u64(A, 2);
        on_lane(LaneId(1), || m.fence());
    };
    assert_eq!(left(eadr, &[A, B], streamed), seen([[2, 0], [2, 1]]));
}

#[test]
fn rule_13_in_the_page_domain_the_sector_is_the_line() {
    let page = Model::default().in_domain(Domain::Page);
    let program = |m: &Recorder| {
        m.store_u64(A, 1);
        m.store_u64(B, 2); // the same sector
        m.store_u64(FAR, 3); // another
    };
    let sectors = [[0, 0], [1, 0], [1, 2]];
    let expected = sectors.iter().flat_map(|[a, b]| [[*a, *b, 0], [*a, *b, 3]]);
    assert_eq!(left(page, &[A, B, FAR], program), expected.map(Vec::from).collect());
    let synced = |m: &Recorder| {
        program(m);
        m.flush(B.line());
        m.fence();
    };
    assert_eq!(left(page, &[A, B, FAR], synced), seen([[1, 2, 0], [1, 2, 3]]));
}

#[test]
fn rule_13_a_dying_process_loses_nothing_that_it_stored() {
    let process = Model::default().in_domain(Domain::Process);
    let program = |m: &Recorder| {
        m.store_u64(A, 1);
        m.store_nt(B, &2u64.to_le_bytes());
    };
    assert_eq!(left(process, &[A, B], program), seen([[1, 2]]));
}

#[test]
fn rule_14_what_recovery_stores_may_persist_in_part() {
    let medium = recorder();
    medium.mark(Mark::TxBegin);
    let mut second = Seen::new();
    let verify = |image: &ImageMedium, crash: &Crash<'_>| {
        if crash.level == 2 {
            second.insert(vec![image.load_u64(A), image.load_u64(B)]);
        } else {
            image.store_u64(A, 1);
            image.store_u64(B, 2);
            image.flush(A.line());
            image.fence();
            image.store_u64(A, 3);
        }
        Ok(())
    };
    let settings = Exhaustive::new(Model::default());
    settings.run(&[0; LEN as usize], &medium.take_log(), verify).unwrap();
    assert_eq!(second, seen([[0, 0], [1, 0], [0, 2], [1, 2], [3, 0], [3, 2]]));
}

#[test]
fn where_words_tear_each_has_its_own_prefix() {
    let torn = Model::default().tearing(Tear::Word);
    let program = |m: &Recorder| {
        m.store_u64(A, 1);
        m.store_u64(A2, 2);
        m.store_u64(A, 3);
    };
    let expected = seen([[0, 0], [1, 0], [3, 0], [0, 2], [1, 2], [3, 2]]);
    assert_eq!(left(torn, &[A, A2], program), expected);
    let one = 0x0101_0101_0101_0101;
    let line = |m: &Recorder| m.store_line(LineAddr(0), &[1; 64]);
    assert_eq!(left(torn, &[A, A2], line), seen([[0, 0], [one, 0], [0, one], [one, one]]));
}

#[test]
fn new_bytes_of_a_grown_medium_are_durable() {
    let medium = Recorder::new(64).growing_to(128);
    medium.store_u64(A, 1);
    medium.grow(128).unwrap();
    let mut lengths = BTreeSet::new();
    let verify = |image: &ImageMedium, _: &Crash<'_>| {
        lengths.insert(image.len());
        Ok(())
    };
    Exhaustive::new(Model::default()).run(&[0; 64], &medium.take_log(), verify).unwrap();
    assert_eq!(lengths.into_iter().collect::<Vec<_>>(), [64, 128]);
}
