use std::collections::BTreeMap;

use outlast_trace::Op;
use proptest::prelude::*;

use super::{BadWork, OwnStep, OwnTransaction, OwnWork};
use crate::machine::Plan;
use crate::{Facts, State, Version, Volatile, Workload};

/// A transfer, and a lane of its own that counts.
const TRANSFER: &str = "\
# Two accounts and a counter.
outlast-work 1
memory 0x2000        # bytes
lanes 2
init 0x40 100 100

tx 0
  load 0x40 2
  think 20
  store 0x40 90 110
end
tx 1
  load 0x1000
  store 0x1000 1
end
tx 1
  store 0x1000 -1
end
";

fn parsed(text: &str) -> Result<OwnWork, BadWork> {
    text.parse()
}

#[test]
fn a_file_is_read_as_it_says() {
    let work = parsed(TRANSFER).unwrap();
    assert_eq!((work.memory_bytes(), work.lanes(), work.len()), (8192, 2, 3));
    assert_eq!(work.initial().collect::<Vec<_>>(), [(8, 100), (9, 100)]);
    let steps = [
        OwnStep::Load { word: 8, words: 2 },
        OwnStep::Think(20),
        OwnStep::Store { word: 8, values: vec![90, 110] },
    ];
    assert_eq!(work.transactions()[0], OwnTransaction { lane: 0, steps: steps.to_vec() });
    let memory = work.memory_at_end();
    assert_eq!((memory[8], memory[9], memory[512], memory[0]), (90, 110, u64::MAX, 0));
    let counts = |count| (work.count_of_lane(0, count), work.count_of_lane(1, count));
    assert_eq!([counts(1), counts(2), counts(3), counts(7)], [(1, 0), (1, 1), (1, 2), (3, 4)]);
    assert_eq!(work.lanes_in_order(5).collect::<Vec<_>>(), [0, 1, 1, 0, 1]);
    assert_eq!(parsed(&TRANSFER.replace('\n', "\r\n")), Ok(work));
}

#[test]
fn a_line_that_is_wrong_is_named_with_the_right_one() {
    let with = |line: &str| format!("outlast-work 1\nmemory 64\n{line}\n");
    let cases = [
        ("", "1: expected `outlast-work 1` before the end"),
        ("otrace 1\n", "1: expected `outlast-work 1` in the first line, found 'otrace 1'"),
        (
            "outlast-work 2\n",
            "1: expected `outlast-work 1` in the first line, found 'outlast-work 2'",
        ),
        ("outlast-work 1\ntx\n", "2: expected `memory BYTES`, found 'tx'"),
        (
            "outlast-work 1\nmemory 65\n",
            "2: memory is 65: expected a multiple of 64 bytes, up to 33554432",
        ),
        ("outlast-work 1\nmemory 4G\n", "2: expected the bytes of the memory, found '4G'"),
        (&with("begin"), "3: expected `lanes`, `init` or `tx`, found 'begin'"),
        (&with("memory 64"), "3: `memory` was said already"),
        (&with("lanes 9"), "3: lanes is 9: expected 1 to 8"),
        (&with("init 0 1\ninit 0 2"), "4: 0x0 has its initial value already"),
        (&with("tx 1"), "3: there is no lane 1: expected 0 to 0, or more `lanes`"),
        (&with("tx\nstore 4 1"), "4: address 0x4: expected a multiple of 8"),
        (&with("tx\nstore 8"), "4: expected a value of 64 bits, found the end of the line"),
        (
            &with("tx\nstore 8 18446744073709551616"),
            "4: expected a value of 64 bits, found '18446744073709551616'",
        ),
        (&with("tx\nstore 56 1 2"), "4: 2 words at 0x38 end outside of the memory of 64 bytes"),
        (&with("tx\nload 8 0"), "4: 0 words at once: expected 1 to 512"),
        (&with("tx\nload -8"), "4: expected an address, found '-8'"),
        (&with("tx\nload 8 1 1"), "4: expected the end of the line, found '1'"),
        (&with("tx\nthink 1000001"), "4: think is 1000001: expected at most 1000000 instructions"),
        (&with("tx\ntx"), "4: expected `load`, `store`, `think` or `end`, found 'tx'"),
        (&with("tx\nend\nlanes 2"), "5: `lanes` stands before all transactions"),
        (&with("tx\nload 0"), "5: expected `end` of the last transaction"),
        (&with("lanes 2\ntx\nend"), "lane 1 has no transaction: each of the 2 lanes needs one"),
        (&with(""), "lane 0 has no transaction: each of the 1 lanes needs one"),
    ];
    for (text, message) in cases {
        assert_eq!(parsed(text).unwrap_err().to_string(), message, "{text}");
    }
    let mut bytes = with("tx\nend").into_bytes();
    bytes.extend(b"\xff\n");
    let message = super::parse::parse(&bytes).unwrap_err().to_string();
    assert_eq!(message, "5: expected text in UTF-8");
}

#[test]
fn a_file_that_is_wrong_is_named_with_its_line() {
    let folder = std::env::temp_dir().join(format!("outlast-own-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("mine.work");
    let name = path.to_str().unwrap();
    std::fs::write(&path, "outlast-work 1\nmemory 64\ntx\nstore 1 1\n").unwrap();
    let message = Workload::open(name).unwrap_err().to_string();
    assert_eq!(message, format!("{name}:4: address 0x1: expected a multiple of 8"));
    assert!(Workload::named(name).is_none());
    std::fs::write(&path, TRANSFER).unwrap();
    let workload = Workload::open(name).unwrap();
    assert_eq!(Workload::named(name), Some(workload));
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(Workload::open(name).unwrap_err().to_string().starts_with(name));
    assert!(Workload::is_file_name(name) && Workload::is_file_name("mine.work"));
    assert!(!Workload::is_file_name("hash") && !Workload::is_file_name("b-tree-zipf"));
}

#[test]
fn a_worker_says_what_its_transaction_found_and_left() {
    let workload = Workload::of_work("facts", parsed(TRANSFER).unwrap());
    let scale = workload.scale();
    let mut pool = Volatile::new();
    let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
    let mut workers = [1, 2].map(|id| workload.worker(&scale, &loaded, 1, id, 0));
    let mut facts = Facts::default();
    let state = |value| State::Holds(Version(value));
    workers[0].step_with(&mut pool, &mut facts).unwrap();
    assert_eq!(facts.reads, [(8, state(100)), (9, state(100))]);
    assert_eq!(facts.writes, [(8, state(90)), (9, state(110))]);
    workers[1].step_with(&mut pool, &mut facts).unwrap();
    workers[1].draw();
    workers[1].step_with(&mut pool, &mut facts).unwrap();
    assert_eq!(facts.reads, [(512, state(1))], "a store alone is read first");
    assert_eq!(facts.writes, [(512, state(u64::MAX))]);
}

/// Memory behind all that was recorded, and how many streams that was.
fn replayed(work: OwnWork) -> (Vec<u64>, usize) {
    let (workload, words) = (Workload::of_work("replayed", work.clone()), work.words() as usize);
    let plan = Plan {
        workload,
        footprint: 0,
        threads: 1,
        warm_up: 5,
        transactions: 5,
        shared: false,
        switch_every: 0,
        abort_every: 0,
        batch: 0,
        seed: 1,
    };
    let recorded = plan.of_file().record().unwrap();
    assert_eq!(recorded.transactions, work.len());
    let mut memory = recorded.image.to_vec();
    for (_, op) in recorded.streams.iter().flat_map(|log| log.iter()) {
        if let Op::Store { at, bytes } = op {
            memory[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }
    // Address 0 is at the begin of a page.
    let words_of = |page: usize| memory[4096 * page..][..8 * words].as_chunks::<8>().0.iter();
    (words_of(1).map(|word| u64::from_le_bytes(*word)).collect(), recorded.streams.len())
}

#[test]
fn lanes_that_never_meet_in_a_page_are_streams_of_their_own() {
    let work = parsed(TRANSFER).unwrap();
    let (memory, streams) = replayed(work.clone());
    assert_eq!((memory, streams), (work.memory_at_end(), 2));
    let meeting = parsed(&TRANSFER.replace("0x1000", "0xff8")).unwrap();
    assert!(meeting.lanes_meet_within(4096) && !meeting.lanes_meet_within(64));
    let (memory, streams) = replayed(meeting.clone());
    assert_eq!((memory, streams), (meeting.memory_at_end(), 1));
}

#[test]
fn options_that_the_file_says_are_refused() {
    let workload = Workload::of_work("refused.work", parsed(TRANSFER).unwrap());
    let plan = Plan {
        workload,
        footprint: 0,
        threads: 1,
        warm_up: 0,
        transactions: 1,
        shared: false,
        switch_every: 0,
        abort_every: 0,
        batch: 0,
        seed: 1,
    };
    let message = plan.record().unwrap_err().to_string();
    assert_eq!(
        message,
        "refused.work: --threads does not apply: the file says lanes, memory and order"
    );
    let message = Plan { shared: true, ..plan.of_file() }.record().unwrap_err().to_string();
    assert!(message.contains("--shared does not apply"), "{message}");
}

fn step(words: u64) -> impl Strategy<Value = OwnStep> {
    let value = prop_oneof![0..4u64, any::<u64>()];
    let place = (0..words).prop_flat_map(move |word| (Just(word), 1..=(words - word).min(9)));
    prop_oneof![
        place.clone().prop_map(|(word, words)| OwnStep::Load { word, words }),
        (place, proptest::collection::vec(value, 9)).prop_map(|((word, count), mut values)| {
            values.truncate(count as usize);
            OwnStep::Store { word, values }
        }),
        (0..=super::INSTRUCTIONS_MAX).prop_map(OwnStep::Think),
    ]
}

fn work() -> impl Strategy<Value = OwnWork> {
    (1..64u64, 1..=4u16).prop_flat_map(|(lines, lanes)| {
        let words = 8 * lines;
        let initial = proptest::collection::btree_map(0..words, any::<u64>(), 0..20);
        let tx = (0..lanes, proptest::collection::vec(step(words), 0..6));
        let all = proptest::collection::vec(tx, 0..12);
        (initial, all).prop_map(move |(initial, all): (BTreeMap<_, _>, Vec<_>)| {
            let tx = |(lane, steps)| OwnTransaction { lane, steps };
            let one_each = (0..lanes).map(|lane| tx((lane, Vec::new())));
            let all = all.into_iter().map(tx).chain(one_each).collect();
            OwnWork::new(8 * words, lanes, initial, all).unwrap()
        })
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_back(work in work()) {
        let text = work.to_string();
        let again = parsed(&text);
        prop_assert_eq!(again.as_ref(), Ok(&work));
        prop_assert_eq!(again.unwrap().to_string(), text);
    }

    #[test]
    fn no_text_makes_the_parser_panic(
        work in work(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = work.to_string().into_bytes();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        match super::parse::parse(&bytes) {
            Ok(work) => prop_assert_eq!(parsed(&work.to_string()), Ok(work)),
            Err(bad) => {
                let line = bad.to_string();
                prop_assert!(!line.contains('\n') && line.len() < 200, "{}", line);
            }
        }
    }

    #[test]
    fn recorded_transactions_leave_what_the_file_says(work in work()) {
        prop_assert_eq!(replayed(work.clone()).0, work.memory_at_end());
    }
}
