//! Schemes that keep what is not committed away from its place, crashed after every entry of their
//! journals: lanes whose lines share pages, lines that are stored to again and again, transactions
//! larger than tables, aborts, and crashes of recovery itself.

use outlast_schemes::{Image, MachineScheme, Prepared, Streams, Work, apply};
use outlast_sim::Domain;
use outlast_sim::timed::{Cycle, LaneOps, MachineConfig, Setup, Source, TimedJournal};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Random, Sink, TxId};
use std::sync::Arc;

const LANES: u16 = 2;
const PAGES: u64 = 6;
/// Lines of each page that a lane stores to.
const OF_PAGE: u64 = 5;

/// The lines of a lane: in every page, beside those of the other.
fn lines(lane: u16) -> Vec<LineAddr> {
    let at = |page, n| LineAddr(64 * page + 11 * n + u64::from(lane));
    (0..PAGES).flat_map(|page| (0..OF_PAGE).map(move |n| at(page, n))).collect()
}

/// A lane's lines, in their order.
type State = Vec<[u8; 64]>;

/// Stores of a transaction: line, word, value.
type Stores = Vec<(usize, u64, u64)>;

/// Bare transactions of all lanes, and the stores of each lane's that end.
struct Program {
    log: OpLog,
    transactions: Vec<Vec<Stores>>,
}

/// `count` transactions; every `abort_every`th of them aborts.
fn program(seed: u64, count: u64, abort_every: u64) -> Program {
    let mut draw = Random::from_state(seed);
    let mut log = OpLog::default();
    let all: Vec<Vec<LineAddr>> = (0..LANES).map(lines).collect();
    let mut transactions = vec![Vec::new(); LANES.into()];
    for number in 1..=count {
        let lane = draw.below(LANES.into()) as u16;
        let (id, lines) = (LaneId(lane), &all[usize::from(lane)]);
        let mut stored = Vec::new();
        log.op(id, Op::TxBegin);
        // Some store to a few lines, some to half of all, some of them twice.
        let stores = if draw.below(4) == 0 { 12 + draw.below(20) } else { 1 + draw.below(6) };
        for store in 0..stores {
            let line = draw.below(lines.len() as u64) as usize;
            let (word, value) = (draw.below(8), seed << 32 | number << 16 | store << 1 | 1);
            let at = lines[line].start().plus(8 * word);
            log.op(id, Op::Load { at: PoolOffset(at.0 & !63), len: 8, depends: None });
            log.op(id, Op::Store { at, bytes: &value.to_le_bytes() });
            stored.push((line, word, value));
        }
        if abort_every > 0 && number % abort_every == 0 {
            log.op(id, Op::TxAbort);
        } else {
            let of_lane = &mut transactions[usize::from(lane)];
            of_lane.push(stored);
            log.op(id, Op::TxEnd);
            log.op(id, Op::Ack(TxId(u64::from(lane) << 32 | of_lane.len() as u64)));
        }
        log.op(id, Op::Compute(draw.below(300) as u32));
    }
    Program { log, transactions }
}

/// What each lane's transactions leave, one after the other, from a state on.
fn states(program: &Program, from: Vec<State>) -> Vec<Vec<State>> {
    let of_lane = |(transactions, from): (&Vec<Stores>, State)| {
        let mut states = vec![from];
        for stored in transactions {
            let mut state = states[states.len() - 1].clone();
            for (line, word, value) in stored {
                state[*line][8 * *word as usize..][..8].copy_from_slice(&value.to_le_bytes());
            }
            states.push(state);
        }
        states
    };
    program.transactions.iter().zip(from).map(of_lane).collect()
}

/// What all crash points of one run came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Verdict {
    points: usize,
    torn: usize,
    lost: usize,
    first: Option<String>,
}

impl Verdict {
    fn add(&mut self, lost: bool, what: String) {
        (self.torn, self.lost) = (self.torn + usize::from(!lost), self.lost + usize::from(lost));
        self.first.get_or_insert(what);
    }
}

/// The lines of each lane in a recovered image.
fn found(prepared: &dyn Prepared, image: &[u8]) -> Vec<State> {
    let image = Image::new(image);
    let line = |line| *image.line(prepared.locate(image, line));
    (0..LANES).map(|lane| lines(lane).into_iter().map(line).collect()).collect()
}

/// What is wrong with a recovered image: whether that is a loss, and what.
fn wrong(
    prepared: &dyn Prepared,
    image: &[u8],
    states: &[Vec<State>],
    needed: &[usize],
) -> Option<(bool, String)> {
    if let Err(what) = prepared.audit(Image::new(image)) {
        return Some((false, what));
    }
    for (lane, found) in found(prepared, image).into_iter().enumerate() {
        match states[lane].iter().rposition(|state| *state == found) {
            None => return Some((false, format!("lane {lane} is torn"))),
            Some(done) if done < needed[lane] => {
                return Some((true, format!("lane {lane}: {done} of {}", needed[lane])));
            }
            Some(_) => {}
        }
    }
    None
}

fn acknowledged(journal: &TimedJournal, now: Cycle) -> Vec<usize> {
    let mut counts = vec![0; LANES.into()];
    for (_, tx) in journal.acknowledged_by(now) {
        let count = &mut counts[(tx.0 >> 32) as usize];
        *count = (*count).max((tx.0 & u64::from(u32::MAX)) as usize);
    }
    counts
}

/// A scheme under two programs, of which the second may go on where the first has crashed.
fn prepare(
    scheme: &str,
    options: &[(&'static str, u64)],
    planted: Option<u8>,
    programs: [&Program; 2],
) -> Box<dyn Prepared> {
    let scheme: MachineScheme = scheme.parse().unwrap();
    let small = options.iter().fold(scheme.small(), |small, (key, value)| small.with(key, *value));
    let work = Work {
        streams: Streams::Recorded(programs.map(|of| Arc::new(of.log.clone())).to_vec()),
        image: Arc::new(vec![0; (64 * 64 * PAGES) as usize]),
        end: LineAddr(64 * PAGES),
        lanes: LANES,
        is_nested: false,
        whole: None,
    };
    scheme.prepare(&work, &small, planted).unwrap()
}

/// Runs one of the programs from an image on and crashes it after every `step`th entry. With `again`
/// recovery crashes as well, after some of its writes. `each` gets recovered images.
fn crash(
    prepared: &dyn Prepared,
    number: usize,
    mut image: Vec<u8>,
    states: &[Vec<State>],
    (step, again): (usize, bool),
    mut each: impl FnMut(usize, Vec<u8>),
) -> Verdict {
    let log = &prepared.streams()[number];
    let source =
        |lane| -> Box<dyn Source> { Box::new(LaneOps::new(Arc::clone(log), LaneId(lane))) };
    let setup = Setup { base: image.clone(), journal: Some(Domain::Adr), ..Setup::default() };
    let machine = MachineConfig::named("tiny").unwrap();
    let mut machine = prepared.machine(&machine, setup, (0..LANES).map(source).collect()).unwrap();
    machine.run_to_end().unwrap_or_else(|error| panic!("{error}"));
    let journal = machine.journal().unwrap();
    let entries = journal.journal().len();
    let mut verdict = Verdict::default();
    let mut cursor = journal.journal().cursor();
    for crash in (0..=entries).step_by(step) {
        verdict.points += 1;
        cursor.advance_to_entry(crash, &mut image, |_| {});
        let next = if crash < entries { journal.at(crash) } else { Cycle::NEVER };
        let needed = acknowledged(journal, Cycle(next.0.saturating_sub(1)));
        let patches = match prepared.recover(Image::new(&image)) {
            Ok(patches) => patches,
            Err(error) => {
                verdict.add(false, format!("entry {crash}: {error}"));
                continue;
            }
        };
        let stops = (0..patches.len()).step_by(13).filter(|_| again).chain([patches.len()]);
        for stop in stops {
            let mut recovered = image.clone();
            apply(&patches[..stop], &mut recovered);
            if stop < patches.len() {
                match prepared.recover(Image::new(&recovered)) {
                    Ok(rest) => drop(apply(&rest, &mut recovered)),
                    Err(error) => verdict.add(false, format!("entry {crash}, {stop}: {error}")),
                }
            }
            match wrong(prepared, &recovered, states, &needed) {
                Some((lost, what)) => {
                    verdict
                        .add(lost, format!("entry {crash}, {stop} of {}: {what}", patches.len()));
                }
                None if stop == patches.len() => each(crash, recovered),
                None => {}
            }
        }
    }
    verdict
}

/// Lines of zeroes.
fn zeroes() -> Vec<State> {
    (0..LANES).map(|lane| vec![[0; 64]; lines(lane).len()]).collect()
}

/// Crashes the program everywhere, from the beginning on.
fn crash_all(
    (scheme, options): (&str, &[(&'static str, u64)]),
    planted: Option<u8>,
    program: &Program,
    again: bool,
) -> Verdict {
    let prepared = prepare(scheme, options, planted, [program, program]);
    let image = vec![0; (prepared.lines() * 64) as usize];
    let states = states(program, zeroes());
    crash(prepared.as_ref(), 0, image, &states, (1, again), |_, _| {})
}

/// Options under which tables are full, and under which they are not.
const CASES: [(&str, &[(&str, u64)]); 14] = [
    ("redu", &[]),
    ("redu", &[("ait.on", 0)]),
    ("redu", &[("dram_size", 0)]),
    ("redu", &[("dram_size", 1 << 20), ("log_records", 256), ("updates", 64)]),
    ("ssp", &[]),
    ("ssp", &[("ait.on", 0), ("tx_pages", 64), ("shadow_pages", 64), ("tlb_pages", 2)]),
    ("ssp", &[("tx_pages", 64), ("shadow_pages", 2)]),
    ("ssp", &[("tx_pages", 64), ("shadow_pages", 64), ("tlb_pages", 2)]),
    ("ssp", &[("tx_pages", 64), ("shadow_pages", 64), ("tlb_pages", 64)]),
    ("ssp", &[("shadow_pages", 0), ("tx_pages", 1), ("journal_records", 4)]),
    ("ssp", &[("walks_wait", 1), ("tlb_pages", 2), ("shadow_pages", 3)]),
    ("ssp", &[("one_way", 1), ("tx_pages", 64), ("shadow_pages", 64), ("tlb_pages", 2)]),
    ("ehou-eager", &[("whole_lines", 1)]),
    ("ehou", &[("whole_lines", 1), ("ait.sets", 2), ("ait.ways", 8)]),
];

fn assert_clean(verdict: &Verdict, of: &str) {
    let clean = Verdict { points: verdict.points, ..Verdict::default() };
    assert_eq!(*verdict, clean, "{of}");
}

#[test]
fn nothing_is_lost_whichever_tables_are_full() {
    for case in CASES {
        for seed in 1..3 {
            let verdict = crash_all(case, None, &program(seed, 60, 0), seed == 1);
            assert_clean(&verdict, &format!("{case:?}, seed {seed}"));
            assert!(verdict.points > 200, "{case:?}: {verdict:?}");
        }
    }
}

#[test]
fn what_aborts_leaves_nothing() {
    for case in CASES {
        for seed in 4..6 {
            let verdict = crash_all(case, None, &program(seed, 60, 3), seed == 4);
            assert_clean(&verdict, &format!("{case:?}, seed {seed}"));
        }
    }
}

/// Crashes, goes on with another program, and crashes again.
fn crash_twice((scheme, options): (&str, &[(&'static str, u64)]), planted: Option<u8>) -> Verdict {
    let (first, second) = (program(7, 40, 5), program(8, 30, 4));
    let prepared = prepare(scheme, options, planted, [&first, &second]);
    let image = vec![0; (prepared.lines() * 64) as usize];
    let mut recovered = Vec::new();
    let of_first = states(&first, zeroes());
    let verdict = crash(prepared.as_ref(), 0, image, &of_first, (1, false), |entry, image| {
        if entry % 50 == 17 {
            recovered.push(image);
        }
    });
    assert_clean(&verdict, scheme);
    assert!(recovered.len() > 3);
    let mut both = Verdict::default();
    for image in recovered {
        let of_second = states(&second, found(prepared.as_ref(), &image));
        let Verdict { points, torn, lost, first } =
            crash(prepared.as_ref(), 1, image, &of_second, (3, false), |_, _| {});
        both.points += points;
        both.torn += torn;
        both.lost += lost;
        both.first = both.first.or(first);
    }
    both
}

#[test]
fn what_goes_on_from_a_recovered_image_loses_nothing_either() {
    for case in CASES {
        assert_clean(&crash_twice(case, None), &format!("{case:?}"));
    }
    // That which takes all pages to be at home.
    let (anew, case) = (Some(9), CASES[4]);
    let verdict = crash_twice(case, anew);
    assert!(verdict.torn > 0, "{case:?}: {verdict:?}");
}
