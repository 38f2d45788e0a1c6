//! What the atomic driver promises of its journal: determinism, a last image equal to a flat
//! memory, and the three domains.

use crate::common::{any_log, any_machine, base};
use outlast_sim::{AtomicConfig, AtomicDriver, Cause, Domain, FlushCompletion, Policy, Preset};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};
use proptest::prelude::*;

/// The bytes an operation stores, and where.
fn stored<'a>(op: &Op<'a>) -> Option<(PoolOffset, &'a [u8])> {
    match *op {
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
            Some((at, bytes))
        }
        Op::Store64 { line, bytes } => Some((line.start(), bytes)),
        _ => None,
    }
}

/// A flat memory after the first `ops` operations.
fn flat_memory(log: &OpLog, ops: usize) -> Vec<u8> {
    let mut memory = base();
    for (_, op) in log.iter().take(ops) {
        if let Some((at, bytes)) = stored(&op) {
            memory[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }
    memory
}

fn last_image(journal: &outlast_sim::Journal) -> Vec<u8> {
    let mut image = base();
    journal.cursor().advance_to_entry(journal.len(), &mut image, |_| {});
    image
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn loads_and_the_last_image_equal_a_flat_memory(
        config in any_machine(Domain::Adr), seed in any::<u64>(), log in any_log(150),
    ) {
        let base = base();
        let mut driver = AtomicDriver::new(&config, seed, &base).unwrap();
        for (number, (lane, op)) in log.iter().enumerate() {
            driver.op(lane, op);
            if let Op::Load { at, len, .. } = op {
                let mut loaded = vec![0; len as usize];
                driver.load(lane, at, &mut loaded);
                let flat = flat_memory(&log, number);
                prop_assert_eq!(&loaded, &flat[at.0 as usize..][..len as usize]);
            }
        }
        driver.write_back_all();
        prop_assert_eq!(driver.journal().ops(), log.len());
        prop_assert_eq!(last_image(driver.journal()), flat_memory(&log, log.len()));
    }

    #[test]
    fn the_same_seed_leaves_the_same_journal(
        config in any_machine(Domain::Adr), seed in any::<u64>(), log in any_log(100),
    ) {
        let play = || AtomicDriver::new(&config, seed, &base()).unwrap().play(&log);
        prop_assert_eq!(play(), play());
    }

    #[test]
    fn a_process_leaves_all_that_it_executed(
        config in any_machine(Domain::Process), seed in any::<u64>(), log in any_log(100),
    ) {
        let journal = AtomicDriver::new(&config, seed, &base()).unwrap().play(&log);
        let (mut image, mut cursor) = (base(), journal.cursor());
        for ops in 0..=log.len() {
            cursor.advance_to(ops, &mut image, |_| {});
            prop_assert_eq!(&image, &flat_memory(&log, ops), "after {} operations", ops);
        }
    }

    #[test]
    fn durable_caches_leave_all_but_streams(
        config in any_machine(Domain::Eadr), seed in any::<u64>(), log in any_log(100),
    ) {
        let journal = AtomicDriver::new(&config, seed, &base()).unwrap().play(&log);
        let (mut image, mut cursor) = (base(), journal.cursor());
        // For each word, whether its last store was a stream whose lane has not fenced since.
        let mut streaming = vec![None; base().len() / 8];
        for (number, (lane, op)) in log.iter().enumerate() {
            if let Some((at, bytes)) = stored(&op) {
                let streams = matches!(op, Op::StoreNt { .. } | Op::Store64 { .. });
                for word in at.0 / 8..(at.0 + bytes.len() as u64).div_ceil(8) {
                    streaming[word as usize] = streams.then_some(lane);
                }
            }
            if matches!(op, Op::Sfence | Op::Mfence | Op::Rmw { .. }) {
                streaming.iter_mut().filter(|by| **by == Some(lane)).for_each(|by| *by = None);
            }
            cursor.advance_to(number + 1, &mut image, |_| {});
            let flat = flat_memory(&log, number + 1);
            for (word, by) in streaming.iter().enumerate() {
                let bytes = 8 * word..8 * word + 8;
                prop_assert!(by.is_some() || image[bytes.clone()] == flat[bytes],
                    "word {} after operation {}", word, number);
            }
        }
    }
}

fn log(ops: &[(u16, Op<'_>)]) -> OpLog {
    let mut log = OpLog::default();
    for &(lane, op) in ops {
        log.op(LaneId(lane), op);
    }
    log
}

/// Images at the end of `log` that the seeds leave, each once.
fn last_images(config: &AtomicConfig, log: &OpLog) -> std::collections::BTreeSet<Vec<u8>> {
    let play = |seed| AtomicDriver::new(config, seed, &base()).unwrap().play(log);
    (0..200).map(|seed| last_image(&play(seed))).collect()
}

fn small(policy: Policy, completion: FlushCompletion) -> AtomicConfig {
    let caches = Preset::Small.config().with_lanes(2).with_policy(policy);
    AtomicConfig { caches, domain: Domain::Adr, completion }
}

const AT: PoolOffset = PoolOffset(0);
const FLUSH: Op<'_> = Op::Flush { kind: FlushKind::Clwb, line: LineAddr(0) };

#[test]
fn a_flush_completes_at_once_or_anywhere_up_to_the_fence_with_the_bytes_it_took() {
    let ops = [(0, Op::Store { at: AT, bytes: &[1] }), (0, FLUSH)];
    let later = [(0, Op::Store { at: AT, bytes: &[2] }), (0, Op::Sfence)];
    let first_byte = |completion, ops: &[(u16, Op<'_>)]| {
        let images = last_images(&small(Policy::Lru, completion), &log(ops));
        images.iter().map(|image| image[0]).collect::<Vec<_>>()
    };
    assert_eq!(first_byte(FlushCompletion::AtFlush, &ops), [1]);
    assert_eq!(first_byte(FlushCompletion::AtFence, &ops), [1, 0xee]);
    let all = [ops, later].concat();
    assert_eq!(first_byte(FlushCompletion::AtFlush, &all), [1]);
    assert_eq!(first_byte(FlushCompletion::AtFence, &all), [1], "2 was never flushed");
    let foreign = [ops, [(1, Op::Sfence), (1, Op::Mfence)]].concat();
    assert_eq!(first_byte(FlushCompletion::AtFence, &foreign), [1, 0xee], "another lane's fence");
}

#[test]
fn a_late_flush_does_not_bring_old_bytes_back() {
    // Lane 0 takes 1, lane 1 takes 2 and then writes 1 again: 2 is older than what is durable.
    let store = |byte: &'static [u8]| Op::Store { at: AT, bytes: byte };
    let clflush = Op::Flush { kind: FlushKind::Clflush, line: LineAddr(0) };
    let ops = [
        (0, store(&[1])),
        (0, FLUSH),
        (1, store(&[2])),
        (1, FLUSH),
        (1, store(&[1])),
        (1, clflush),
        (1, Op::Sfence),
        (0, Op::Sfence),
    ];
    let images = last_images(&small(Policy::Lru, FlushCompletion::AtFence), &log(&ops));
    assert!(images.iter().all(|image| image[0] == 1), "{} images", images.len());
}

#[test]
fn bytes_taken_before_a_newer_write_back_are_forgotten() {
    // Lane 0's flush took the bytes that the line has again when it completes, so the line is
    // clean then; what lane 1's took in between must not follow.
    let store = |byte: &'static [u8]| Op::Store { at: AT, bytes: byte };
    let ops = [
        (0, store(&[1])),
        (0, FLUSH),
        (1, store(&[2])),
        (1, FLUSH),
        (0, store(&[1])),
        (0, Op::Sfence),
        (1, Op::Sfence),
        (1, FLUSH),
        (1, Op::Sfence),
    ];
    let images = last_images(&small(Policy::Lru, FlushCompletion::AtFence), &log(&ops));
    assert!(images.iter().all(|image| image[0] == 1), "{} images", images.len());
}

#[test]
fn streamed_words_leave_in_any_order_and_direct_stores_whole() {
    let (words, line) = ([7; 24], [9; 64]);
    let ops = [
        (0, Op::StoreNt { at: AT, bytes: &words }),
        (0, Op::Load { at: PoolOffset(64), len: 1, depends: None }),
        (0, Op::StoreNt { at: AT, bytes: &words }),
        (0, Op::StoreNt { at: AT, bytes: &words }),
        (0, Op::Store64 { line: LineAddr(2), bytes: &line }),
    ];
    let log = log(&ops);
    let images = last_images(&small(Policy::Lru, FlushCompletion::AtFlush), &log);
    let words: std::collections::BTreeSet<_> =
        images.iter().map(|image| (image[0] == 7, image[8] == 7, image[16] == 7)).collect();
    assert_eq!(words.len(), 8, "every subset of the words: {words:?}");
    assert!(images.iter().any(|image| image[128] == 9));
    assert!(images.iter().any(|image| image[128] == 0xee));
    for image in &images {
        assert!(image[128..192].iter().all(|&byte| byte == image[128]), "a direct store is torn");
    }
}

#[test]
fn the_adversary_persists_the_later_store_and_keeps_the_earlier() {
    let ops = [
        (0, Op::Store { at: AT, bytes: &[1] }),
        (0, Op::Store { at: PoolOffset(64), bytes: &[1] }),
    ];
    let outcomes = |policy| -> Vec<_> {
        let images = last_images(&small(policy, FlushCompletion::AtFlush), &log(&ops));
        images.iter().map(|image| (image[0], image[64])).collect()
    };
    assert_eq!(outcomes(Policy::Lru), [(0xee, 0xee)]);
    assert_eq!(outcomes(Policy::Adversarial), [(1, 1), (1, 0xee), (0xee, 1), (0xee, 0xee)]);
}

#[test]
fn what_the_adversary_writes_back_is_said_to_be_unasked() {
    let ops = [(0, Op::Store { at: AT, bytes: &[1; 64] })];
    let config = small(Policy::Adversarial, FlushCompletion::AtFlush);
    let torn = (0..50).any(|seed| {
        let journal = AtomicDriver::new(&config, seed, &base()).unwrap().play(&log(&ops));
        assert!(journal.iter().all(|entry| entry.cause == Cause::Unasked && entry.op == 0));
        let image = last_image(&journal);
        image[0] == 1 && image[63] == 0xee
    });
    assert!(torn, "a wide store is eight stores, between which the line may leave");
}

#[test]
fn a_pool_that_grew_starts_as_zeroes() {
    let ops = [(0, Op::Store { at: PoolOffset(1000), bytes: &[1] })];
    let config = AtomicConfig::from(Preset::Tiny.config());
    let mut driver = AtomicDriver::new(&config, 0, &[5; 100]).unwrap();
    driver.op(LaneId(0), ops[0].1);
    driver.write_back_all();
    let journal = driver.into_journal();
    assert_eq!(journal.image_bytes(), 1024);
    assert_eq!(journal.entries_after(1), 0);
    assert_eq!(journal.get(0).op, 1);
}
