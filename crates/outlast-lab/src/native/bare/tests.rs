//! The loop does the workload's swaps, with the flushes and fences that it says, and no crash
//! loses any.

use outlast::Runner;
use outlast::collections::Words;
use outlast_crash::{Broken, Check, Crash, ImageMedium, Report, Violation};
use outlast_pmem::{Counted, Heap, Mark};
use outlast_trace::TxId;
use outlast_workloads::Volatile;

use super::*;

fn workload(name: &str) -> &'static Workload {
    Workload::named(name).unwrap()
}

fn draw<const SWAPS: usize>(words: u64) -> SwapDraw<SWAPS> {
    SwapDraw::of(&Scale { records: words, ..workload("sps8").scale() }, 3, 1)
}

/// The words that a worker leaves after `transactions` transactions.
fn worker_leaves(name: &str, words: u64, transactions: u64) -> Vec<u64> {
    let workload = workload(name);
    let scale = Scale { records: words, ..workload.scale() };
    let mut pool = Volatile::new();
    let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
    let mut worker = workload.worker(&scale, &loaded, 3, 1, 0);
    for _ in 0..transactions {
        worker.step(&mut pool).unwrap();
        worker.draw();
    }
    let (root, _) = pool.root().unwrap();
    pool.run(|tx| {
        let vector = Words::open(tx, root)?;
        (0..words).map(|place| vector.get(tx, place)).collect()
    })
    .unwrap()
}

fn vector<M: Medium, L: Log, const SWAPS: usize>(bare: &Bare<M, L, SWAPS>, words: u64) -> Vec<u64> {
    (0..words).map(|place| bare.medium.load_u64(bare.place(place))).collect()
}

#[test]
fn it_leaves_what_a_worker_leaves() {
    fn check<L: Log, const SWAPS: usize>(name: &str, words: u64) {
        let medium = Heap::new(bytes(&Scale { records: words, ..workload(name).scale() }));
        let mut bare = Bare::<_, L, SWAPS>::new(medium, words, draw(words));
        bare.run(10_000).unwrap();
        assert_eq!(vector(&bare, words), worker_leaves(name, words, 10_000), "{name}");
    }
    check::<Flushed, 1>("sps1", 100);
    check::<Streamed, 8>("sps8", 1_000);
    // Hardly a transaction whose swaps do not meet.
    check::<Flushed, 8>("sps8", 12);
}

/// One fence and the lines of one record for each transaction; when the ring comes round, its
/// words' lines besides, and two fences for a segment.
#[test]
fn a_transaction_writes_its_record_and_its_lines_are_swept() {
    fn count<L: Log, const SWAPS: usize>(name: &str, lines: u64) {
        const WORDS: u64 = 10_000;
        let heap = Heap::new(bytes(&Scale { records: WORDS, ..workload(name).scale() }));
        let medium = Counted::new(heap);
        let mut bare = Bare::<_, L, SWAPS>::new(medium, WORDS, draw(WORDS));
        let records = RING_BYTES / LINE_BYTES / lines;
        let before = bare.medium.counters();
        bare.run(records).unwrap();
        let did = bare.medium.counters() - before;
        let written = did.flushed_lines + did.streamed_lines;
        assert_eq!((did.fences, written), (records, records * lines), "{name}");
        let before = bare.medium.counters();
        bare.run(records).unwrap();
        let did = bare.medium.counters() - before;
        let written = did.flushed_lines + did.streamed_lines;
        let swept = records * 2 * SWAPS as u64 + SEGMENTS;
        assert_eq!(did.fences, records + 2 * SEGMENTS, "{name}");
        assert_eq!(written, records * lines + swept, "{name}");
    }
    count::<Flushed, 1>("sps1", 1);
    count::<Flushed, 8>("sps8", 4);
    count::<Streamed, 1>("sps1", 1);
    count::<Streamed, 8>("sps8", 4);
}

const WORDS: u64 = 8;

/// The vector after 0, 1, 2, … transactions of `SWAPS` swaps each.
fn states<const SWAPS: usize>(transactions: u64) -> Vec<Vec<u64>> {
    let mut draw = draw::<SWAPS>(WORDS);
    let mut vector: Vec<u64> = (0..WORDS).map(initial_word).collect();
    let mut states = vec![vector.clone()];
    for _ in 0..transactions {
        for &(a, b) in draw.pairs() {
            let (a, b) = (a as usize, b as usize);
            (vector[a], vector[b]) = (draw.swapped(vector[b]), draw.swapped(vector[a]));
        }
        draw.next();
        states.push(vector.clone());
    }
    states
}

/// Replays what the ring holds behind the floor, and returns the vector. From line `seals` of a
/// record on, a missing line counts as zeros.
fn recover<L: Log, const SWAPS: usize>(
    image: &ImageMedium,
    ring_bytes: u64,
    seals: u64,
) -> Vec<u64> {
    let ring_lines = ring_bytes / LINE_BYTES;
    let lines = lines_of::<L>(SWAPS * SWAP_WORDS);
    let swept = vec![[0; SWAPS]; (ring_lines / lines) as usize];
    let (draw, log) = (draw(WORDS), PhantomData::<L>);
    let bare = Bare::<_, L, SWAPS> { medium: image, draw, ring_lines, next: 0, swept, log };
    let mut next = image.load_u64(PoolOffset(0)).max(1);
    let read = |number| {
        let first = bare.record_line(number);
        let mut words = Vec::new();
        for line in 0..lines {
            let at = LineAddr(first.0 + line);
            let found = L::read(image, at, number, bare.lap(number));
            match found {
                Some(found) => words.extend(found),
                None if line >= seals => words.extend([0; log::LINE_WORDS]),
                None => return None,
            }
        }
        Some(words)
    };
    let end = next + bare.swept.len() as u64;
    while next < end
        && let Some(words) = read(next)
    {
        for swap in words.as_chunks::<SWAP_WORDS>().0.iter().take(SWAPS) {
            image.store_u64(bare.place(swap[0] & 0xFFFF_FFFF), swap[1]);
            image.store_u64(bare.place(swap[0] >> 32), swap[2]);
        }
        next += 1;
    }
    image.flush_range(bare.place(0), 8 * WORDS);
    image.fence();
    image.store_u64(PoolOffset(0), next);
    image.flush(LineAddr(0));
    image.fence();
    vector(&bare, WORDS)
}

/// Every image that any cache may leave, of a ring that comes round, and of the recoveries that
/// crash too: all that was acknowledged is there, and nothing of two that are not.
fn crashed<L: Log, const SWAPS: usize>(ring_lines: u64, transactions: u64, seals: u64) -> Report {
    let ring_bytes = ring_lines * LINE_BYTES;
    let after = states::<SWAPS>(transactions);
    Check::new(LINE_BYTES + ring_bytes + 8 * WORDS).images_max(2_000_000).run(
        |_, medium| {
            let draw = draw(WORDS);
            let mut bare = Bare::<_, L, SWAPS>::with_ring(medium, ring_bytes, WORDS, draw);
            medium.mark(Mark::Ack(TxId(0)));
            for nth in 1..=transactions {
                bare.step();
                medium.mark(Mark::Ack(TxId(nth)));
                bare.draw();
            }
        },
        |image| Ok(recover::<L, SWAPS>(image, ring_bytes, seals)),
        |state: &Vec<u64>, crash: &Crash<'_>| {
            let acked = match crash.acked.iter().map(|id| id.0).max() {
                Some(last) => last,
                // The vector itself was under way.
                None => return Ok(()),
            };
            let legal = &after[acked as usize..(acked as usize + 2).min(after.len())];
            let lost = || Violation::new(Broken::Lost, format!("{state:x?} after {acked}"));
            legal.contains(state).then_some(()).ok_or_else(lost)
        },
    )
}

#[test]
fn no_crash_loses_a_swap() {
    // One line to a record, and two.
    let reports = [
        crashed::<Flushed, 1>(4, 9, u64::MAX),
        crashed::<Flushed, 3>(8, 6, u64::MAX),
        crashed::<Streamed, 1>(4, 9, u64::MAX),
        crashed::<Streamed, 3>(8, 5, u64::MAX),
    ];
    for report in reports {
        assert!(!report.has_failures(), "{:?}", report.findings);
        assert!(report.complete && report.images_verified > 1_000, "{report:?}");
    }
    // The check is not blind: a record whose second line is believed unseen loses something.
    assert!(crashed::<Flushed, 3>(8, 6, 1).has_failures());
    assert!(crashed::<Streamed, 3>(8, 5, 1).has_failures());
}
