//! Records that are streamed: each word becomes durable by itself, and a checksum tells.

use outlast::recover::UnrecoveredPool;
use outlast::{BlockKind, Runner as _, Scheme, Transact};
use outlast_crash::{Check, Crash, Exhaustive, ImageMedium, Model, Report, Violation};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{LaneId, OpLog, PoolOffset, TxId};

use crate::{options, small_pool};

const RECORD_BYTES: u64 = 256;

fn sum(words: &[u64]) -> u64 {
    let fold = |sum: u64, word: &u64| (sum ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(17);
    words.iter().fold(0xcbf2_9ce4_8422_2325, fold) | 1
}

fn words_of(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    bytes.chunks_exact(8).map(word).collect()
}

fn is_whole(bytes: &[u8]) -> bool {
    let words = words_of(bytes);
    words[0] == sum(&words[1..])
}

/// Two records of `words` words, one acknowledged after the other.
fn append_two<M: Medium>(medium: &M, words: usize, streamed: bool) {
    for n in 1..=2u64 {
        let mut record = vec![n; words];
        record[0] = sum(&record[1..]);
        let bytes: Vec<u8> = record.iter().flat_map(|word| word.to_le_bytes()).collect();
        let home = PoolOffset((n - 1) * RECORD_BYTES);
        if streamed {
            medium.store_nt(home, &bytes);
        } else {
            medium.store(home, &bytes);
            medium.flush_range(home, bytes.len() as u64);
        }
        medium.fence();
        medium.mark(Mark::Ack(TxId(n)));
    }
}

/// How many records recovery finds, by way of a check that `is_valid` makes.
fn count<M: Medium>(medium: &M, words: usize, is_valid: impl Fn(&[u8]) -> bool) -> u64 {
    let len = words as u64 * 8;
    let found = |n: &u64| medium.verify(PoolOffset(n * RECORD_BYTES), len, &is_valid);
    (0..2).take_while(found).count() as u64
}

fn check_two(words: usize, streamed: bool, is_valid: fn(&[u8]) -> bool) -> Report {
    Check::new(2 * RECORD_BYTES).run(
        move |_: LaneId, medium: &Recorder| append_two(medium, words, streamed),
        move |image: &ImageMedium| Ok(count(image, words, is_valid)),
        |found: &u64, crash: &Crash<'_>| match crash.acked.len() as u64 {
            acked if *found < acked => Err("lost".into()),
            acked if *found > acked + 1 => Err("never written".into()),
            _ => Ok(()),
        },
    )
}

/// Sixteen words took 131,000 executions of recovery, twenty-four were out of reach.
#[test]
fn a_streamed_record_under_a_checksum_takes_no_more_images_than_a_stored_one() {
    for words in [8, 16, 20] {
        let streamed = check_two(words, true, is_whole);
        let stored = check_two(words, false, is_whole);
        assert!(!streamed.has_failures() && streamed.complete, "{words}: {:?}", streamed.findings);
        assert!(streamed.images_verified <= stored.images_verified, "{words} words");
    }
    let long = check_two(32, true, is_whole);
    assert!(!long.has_failures() && !long.complete, "2^32 mixtures are not checked in a moment");
}

/// The checksum leaves out one word, whose old content then passes for new.
#[test]
fn a_checksum_that_overlooks_a_word_lets_half_a_record_pass() {
    let overlooks = |bytes: &[u8]| {
        let mut words = words_of(bytes);
        let last = words.len() - 1;
        words[last] = words[1];
        words[0] == sum(&words[1..])
    };
    for words in [8, 32] {
        let append = move |_: LaneId, medium: &Recorder| append_two(medium, words, true);
        let report = Check::new(2 * RECORD_BYTES).run(
            append,
            move |image: &ImageMedium| {
                let found = count(image, words, overlooks);
                let last = |n| image.load_u64(PoolOffset(n * RECORD_BYTES + words as u64 * 8 - 8));
                Ok((0..found).map(last).collect::<Vec<u64>>())
            },
            |found: &Vec<u64>, _: &Crash<'_>| match found.iter().zip(1..).find(|(w, n)| *w != n) {
                Some((word, n)) => Err(format!("record {n} ends in {word}").into()),
                None => Ok(()),
            },
        );
        assert!(report.has_failures(), "{words} words");
    }
}

/// A run of the runtime: a transaction that allocates, or one that stores one word.
fn transactions(allocate: bool) -> (Vec<u8>, OpLog) {
    let (base, cells) = small_pool::<256>(Scheme::Swift);
    let medium = Recorder::from_image(base.clone());
    let recovered = UnrecoveredPool::open(&medium).unwrap().recover().unwrap();
    let pool = recovered.start(&options(Scheme::Swift)).unwrap();
    pool.lane()
        .unwrap()
        .run(|tx| {
            if !allocate {
                return tx.store_u64(cells, 5);
            }
            let block = tx.alloc(64, BlockKind::General)?;
            tx.store_u64(block, 1)?;
            tx.store_u64(cells, block.0)
        })
        .unwrap();
    drop(pool);
    (base, medium.take_log())
}

/// Checking the metadata behind recovery looked at ring words that recovery had refused: 65,551
/// images instead of 31.
#[test]
fn checking_the_runtimes_metadata_enumerates_no_words_that_recovery_has_refused() {
    for allocate in [false, true] {
        let (base, log) = transactions(allocate);
        let images = |metadata: bool| {
            let judge = |image: &ImageMedium, _: &Crash<'_>| {
                let pool = UnrecoveredPool::open(image).and_then(|pool| pool.recover());
                let pool = pool.map_err(|error| Violation::from(error.to_string()))?;
                match metadata.then(|| pool.check_metadata().0.findings) {
                    Some(findings) if !findings.is_empty() => Err(format!("{findings:?}").into()),
                    _ => Ok(()),
                }
            };
            let settings = Exhaustive::new(Model::default()).crashes(1).images_max(300_000);
            let outcome = settings.run(&base, &log, judge).unwrap();
            assert!(outcome.complete && outcome.failures.is_empty(), "{:?}", outcome.failures);
            outcome.images_verified()
        };
        let (recovered, checked) = (images(false), images(true));
        assert!(checked <= 3 * recovered, "{checked} and {recovered} images");
    }
}
