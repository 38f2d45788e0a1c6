//! Out-of-place update crashed after every entry of its journal and in its recovery, by an oracle
//! that knows what each transaction stored, when it was acknowledged, and which ones aborted; then
//! run again from what recovery left, and crashed again.

use outlast_schemes::{
    Breaks, Image, MachineScheme, Options, Prepared, Streams, Work, apply, plants,
};
use outlast_sim::Domain;
use outlast_sim::timed::{Cycle, LaneOps, Machine, MachineConfig, Setup, Source};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Random, Sink, TxId};
use std::sync::Arc;

/// Lines that each lane's transactions store to.
const DATA_LINES: u64 = 24;
const LANES: u16 = 2;
const END: LineAddr = LineAddr(DATA_LINES * LANES as u64 + 3);

/// What a lane's transactions stored: the data region after none of them, after one, and so on.
type States = Vec<Vec<u8>>;

fn region(lane: u16) -> std::ops::Range<usize> {
    let bytes = 64 * DATA_LINES as usize;
    usize::from(lane) * bytes..(usize::from(lane) + 1) * bytes
}

/// Transactions of two lanes over regions of their own that begin with `data`; some abort.
fn transactions(seed: u64, count: u64, data: &[u8], stores_max: u64) -> (OpLog, Vec<States>) {
    let mut draw = Random::from_state(seed);
    let mut log = OpLog::default();
    let mut states: Vec<States> =
        (0..LANES).map(|lane| vec![data[region(lane)].to_vec()]).collect();
    for number in 0..count {
        let lane = draw.below(LANES.into()) as u16;
        let (id, aborts) = (LaneId(lane), draw.below(6) == 0);
        let of_lane = &mut states[usize::from(lane)];
        let mut state = of_lane.last().unwrap().clone();
        log.op(id, Op::TxBegin);
        for _ in 0..1 + draw.below(stores_max) {
            let word = draw.below(DATA_LINES * 8);
            let value = 256 * (number + 1) + 1 + draw.below(250);
            let len = if draw.below(4) == 0 { 3 } else { 8 };
            let at = PoolOffset(region(lane).start as u64 + 8 * word);
            log.op(id, Op::Load { at, len: 8, depends: None });
            log.op(id, Op::Store { at, bytes: &value.to_le_bytes()[..len] });
            state[8 * word as usize..][..len].copy_from_slice(&value.to_le_bytes()[..len]);
            log.op(id, Op::Compute(draw.below(30) as u32));
        }
        if aborts {
            log.op(id, Op::TxAbort);
        } else {
            log.op(id, Op::TxEnd);
            of_lane.push(state);
            log.op(id, Op::Ack(TxId((u64::from(lane) << 32) + (of_lane.len() - 1) as u64)));
        }
        log.op(id, Op::Compute(draw.below(200) as u32));
    }
    (log, states)
}

fn prepared(scheme: &str, options: &[(&'static str, u64)], log: OpLog) -> Box<dyn Prepared> {
    broken(scheme, options, log, None)
}

/// The same with a plant, by its name.
fn broken(
    scheme: &str,
    options: &[(&'static str, u64)],
    log: OpLog,
    plant: Option<&str>,
) -> Box<dyn Prepared> {
    let planted = plant.map(|name| {
        let breaks = plants().find(|plant| plant.name == name).unwrap().breaks;
        let Breaks::Scheme(number) = breaks else { panic!("{name} breaks no scheme") };
        number
    });
    let scheme: MachineScheme = scheme.parse().unwrap();
    let mut of_scheme = Options::default().with("ait.latency", 20);
    options.iter().for_each(|(name, value)| of_scheme.put(name, *value));
    let work = Work {
        streams: Streams::Recorded(vec![Arc::new(log)]),
        image: Arc::default(),
        end: END,
        lanes: LANES,
        is_nested: false,
        whole: None,
    };
    scheme.prepare(&work, &of_scheme, planted).unwrap_or_else(|error| panic!("{error}"))
}

fn run(machine: &MachineConfig, prepared: &dyn Prepared, base: Vec<u8>) -> Box<dyn Machine> {
    let source = |lane: u16| -> Box<dyn Source> {
        Box::new(LaneOps::new(Arc::clone(&prepared.streams()[0]), LaneId(lane)))
    };
    let sources = (0..LANES).map(source).collect();
    let setup = Setup { base, journal: Some(Domain::Adr), ..Setup::default() };
    let mut machine = prepared.machine(machine, setup, sources).unwrap();
    machine.run_to_end().unwrap_or_else(|error| panic!("{error}"));
    machine
}

/// The program's data as a recovered image has it.
fn data_of(prepared: &dyn Prepared, image: &[u8]) -> Vec<u8> {
    let line = |number| {
        let at = prepared.locate(Image::new(image), LineAddr(number)).start().0 as usize;
        &image[at..at + 64]
    };
    (0..END.0).flat_map(line).copied().collect()
}

fn check(prepared: &dyn Prepared, image: &[u8], states: &[States], acked: &[usize], what: &str) {
    prepared.audit(Image::new(image)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let data = data_of(prepared, image);
    for (lane, states) in (0..LANES).zip(states) {
        let kept = states.iter().rposition(|state| *state == data[region(lane)]);
        let kept = kept.unwrap_or_else(|| panic!("{what}: lane {lane} is torn"));
        let acked = acked[usize::from(lane)];
        assert!(kept >= acked, "{what}: lane {lane} has {kept} of {acked} transactions");
    }
}

/// Crashes a run after every entry, and recoveries after every write if `again`. Returns about
/// six of the recovered images, at equal distances.
fn crash(
    prepared: &dyn Prepared,
    machine: &dyn Machine,
    base: Vec<u8>,
    states: &[States],
    again: bool,
    what: &str,
) -> Vec<Vec<u8>> {
    let (timed, mut image, mut kept) = (machine.journal().unwrap(), base, Vec::new());
    let mut cursor = timed.journal().cursor();
    let entries = timed.journal().len();
    for entry in 0..=entries {
        cursor.advance_to_entry(entry, &mut image, |_| {});
        let now = match entry < entries {
            true => Cycle(timed.at(entry).0.saturating_sub(1)),
            false => Cycle::NEVER,
        };
        let mut acked = vec![0; LANES.into()];
        for (_, tx) in timed.acknowledged_by(now) {
            acked[(tx.0 >> 32) as usize] = (tx.0 & u64::from(u32::MAX)) as usize;
        }
        let what = format!("{what}, behind entry {entry} of {entries}");
        let patches = prepared.recover(Image::new(&image)).unwrap();
        for stop in (if again { 0 } else { patches.len() })..=patches.len() {
            let first = apply(&patches[..stop], &mut image);
            let second = prepared.recover(Image::new(&image)).unwrap();
            assert!(stop < patches.len() || second.is_empty(), "{what}: {second:?}");
            let undo = apply(&second, &mut image);
            check(prepared, &image, states, &acked, &what);
            if entry % (entries / 6) == 0 && stop == patches.len() {
                kept.push(image.clone());
            }
            apply(&undo, &mut image);
            apply(&first, &mut image);
        }
    }
    kept
}

/// The whole of it, and what the first run counted.
fn campaign(scheme: &str, options: &[(&'static str, u64)], seed: u64, stores_max: u64) -> f64 {
    let machine = MachineConfig::named("tiny").unwrap();
    let (log, states) = transactions(seed, 40, &vec![0; 64 * END.0 as usize], stores_max);
    let first = prepared(scheme, options, log);
    let base = vec![0; 64 * first.lines() as usize];
    let what = format!("{scheme} {options:?} seed {seed}");
    let mut ran = run(&machine, first.as_ref(), base.clone());
    let again = seed == 1;
    let recovered = crash(first.as_ref(), ran.as_ref(), base, &states, again, &what);
    assert!(recovered.len() > 5);
    for (number, image) in recovered.into_iter().enumerate() {
        let data = data_of(first.as_ref(), &image);
        let (log, states) = transactions(seed + 100, 8, &data, stores_max);
        // The same tables, since they are as large as the first work needs.
        let next = first.machine(&machine, setup(&image), sources(log)).map(|mut machine| {
            machine.run_to_end().unwrap_or_else(|error| panic!("{error}"));
            machine
        });
        let what = format!("{what}, resumed {number}");
        crash(first.as_ref(), next.unwrap().as_ref(), image, &states, false, &what);
    }
    let stats = ran.take_stats();
    let of = |name: &str| stats.counters.iter().find(|counter| counter.name == name);
    of("ait_overflowed").unwrap().value
}

fn setup(image: &[u8]) -> Setup {
    Setup { base: image.to_vec(), journal: Some(Domain::Adr), ..Setup::default() }
}

fn sources(log: OpLog) -> Vec<Box<dyn Source>> {
    let log = Arc::new(log);
    (0..LANES)
        .map(|lane| Box::new(LaneOps::new(Arc::clone(&log), LaneId(lane))) as Box<dyn Source>)
        .collect()
}

const SETS: &str = "ait.sets";
const WAYS: &str = "ait.ways";

#[test]
fn lazy_and_eager_persisting_lose_and_leak_nothing() {
    for scheme in ["ehou-lazy", "ehou-eager"] {
        for seed in 1..4 {
            let overflowed = campaign(scheme, &[(SETS, 2), (WAYS, 10)], seed, 7);
            assert_eq!(overflowed, 0.0);
        }
    }
}

#[test]
fn overflow_logs_lose_and_leak_nothing() {
    for (seed, ways, buffer) in [(1, 2, 4), (2, 1, 4), (3, 3, 8), (4, 2, 64)] {
        let options = [(SETS, 1), (WAYS, ways), ("overflow_buffer", buffer), ("bloom_bits", 64)];
        assert!(campaign("ehou", &options, seed, 24) > 20.0, "seed {seed}");
    }
}

#[test]
fn blocks_of_four_lines_are_copied_whole() {
    for scheme in ["ehou-lazy", "ehou-eager", "ehou"] {
        campaign(scheme, &[(SETS, 1), (WAYS, 14), ("ait.granularity", 256)], 1, 7);
    }
    campaign("ehou", &[(SETS, 1), (WAYS, 2), ("ait.granularity", 256)], 2, 20);
}

/// EHOU-7: what residual energy does not suffice for is lost, and with it what has committed.
#[test]
fn a_drain_beyond_its_budget_loses_what_is_left() {
    let convicted = |budget: u64| {
        let mut machine = MachineConfig::named("tiny").unwrap();
        machine.set_option("adr.drain_lines", &budget.to_string()).unwrap();
        let (log, states) = transactions(1, 40, &vec![0; 64 * END.0 as usize], 7);
        let prepared = prepared("ehou-lazy", &[(SETS, 1), (WAYS, 20)], log);
        let mut image = vec![0; 64 * prepared.lines() as usize];
        let ran = run(&machine, prepared.as_ref(), image.clone());
        let timed = ran.journal().unwrap();
        let (mut cursor, mut drains) = (timed.journal().cursor(), timed.drains());
        let (mut convicted, mut most) = (0, 0);
        for entry in 0..=timed.journal().len() {
            cursor.advance_to_entry(entry, &mut image, |_| {});
            drains.advance_to_entry(entry);
            most = most.max(drains.lines().len());
            let mut crashed = image.clone();
            for (line, bytes) in drains.lost() {
                crashed[line.start().0 as usize..][..64].copy_from_slice(bytes);
            }
            let is_whole = prepared.recover(Image::new(&crashed)).is_ok_and(|patches| {
                apply(&patches, &mut crashed);
                let data = data_of(prepared.as_ref(), &crashed);
                let is_state = |(lane, states): (u16, &States)| {
                    states.iter().any(|state| *state == data[region(lane)])
                };
                prepared.audit(Image::new(&crashed)).is_ok()
                    && (0..LANES).zip(&states).all(is_state)
            });
            convicted += usize::from(!is_whole);
        }
        (convicted, most as u64)
    };
    let (none, most) = convicted(1000);
    assert!(none == 0 && (10..1000).contains(&most), "{none} of {most} lines");
    assert_eq!(convicted(most).0, 0, "it suffices");
    assert!(convicted(most / 2).0 > 0, "half of what is needed loses nothing");
}

/// EHOU-12: a load of another core, behind the eviction of a speculative entry, does not bring back
/// what was before the transaction.
#[test]
fn another_cores_load_finds_what_overflowed() {
    let mut log = OpLog::default();
    let mut op = |lane, op: Op<'_>| log.op(LaneId(lane), op);
    let word = |line: u64, word: u64| PoolOffset(64 * line + 8 * word);
    op(0, Op::TxBegin);
    for line in 0..4 {
        op(0, Op::Store { at: word(line, 0), bytes: &[7; 8] });
        op(0, Op::Flush { kind: FlushKind::ClflushOpt, line: LineAddr(line) });
        op(0, Op::Mfence);
    }
    op(0, Op::Signal { id: 1, count: 1 });
    op(1, Op::Wait { id: 1, count: 1 });
    op(1, Op::Load { at: word(0, 0), len: 8, depends: None });
    op(1, Op::Mfence);
    op(1, Op::Signal { id: 2, count: 1 });
    op(0, Op::Wait { id: 2, count: 1 });
    op(0, Op::TxEnd);
    op(0, Op::Mfence);
    op(0, Op::Signal { id: 3, count: 1 });
    op(1, Op::Wait { id: 3, count: 1 });
    op(1, Op::TxBegin);
    op(1, Op::Store { at: word(0, 1), bytes: &[9; 8] });
    op(1, Op::TxEnd);
    op(1, Op::Mfence);
    let machine = MachineConfig::named("tiny").unwrap();
    let words = |plant| {
        let prepared = broken("ehou", &[(SETS, 1), (WAYS, 1)], log.clone(), plant);
        let mut image = vec![0; 64 * prepared.lines() as usize];
        let mut ran = run(&machine, prepared.as_ref(), image.clone());
        let journal = ran.journal().unwrap().journal();
        journal.cursor().advance_to_entry(journal.len(), &mut image, |_| {});
        let data = data_of(prepared.as_ref(), &image);
        let stats = ran.take_stats();
        let found = stats.counters.iter().find(|counter| counter.name == "ait_found_in_log");
        (data[0], data[8], found.unwrap().value)
    };
    assert_eq!(words(None), (7, 9, 1.0));
    assert_eq!(words(Some("EHOU-12")), (0, 9, 0.0), "the second transaction's line is stale");
}
