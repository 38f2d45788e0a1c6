//! What it costs, by closed formulas in time and traffic.

use std::sync::Arc;

use outlast_sim::Domain;
use outlast_sim::timed::{
    LaneOps, MachineConfig, NonPers, RunStats, Scheme, Setup, Source, System,
};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};

use super::dram::Shape;
use super::ports::{IN_PLACE, LOG, READ_BACK, Redu, TRUNCATION};
use super::*;

/// From an activate to a line's last data, in cycles of a machine in which rows close at once.
const READ: u64 = 20 + 20 + 4;
const LATENCY: u64 = 100;

fn bare(kind: &str) -> MachineConfig {
    let mut machine =
        MachineConfig::from_toml("bare", include_str!("../shared/bare.toml")).unwrap();
    machine.set_option("core.kind", kind).unwrap();
    machine
}

fn config(records: u64, dram_lines: u64) -> Config {
    Config {
        rings: Rings { base: LineAddr(1 << 14), rings: 1, records, data: GROUP as u64 },
        buffer: 16,
        dram: Shape { lines: dram_lines, ways: dram_lines.clamp(1, 16), is_lru: true },
        latency: LATENCY,
        updates: 8,
        fault: None,
    }
}

fn run<S: Scheme>(machine: &MachineConfig, scheme: S, log: OpLog) -> System<S> {
    let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log), LaneId(0)));
    let setup = Setup { journal: Some(Domain::Adr), ..Setup::default() };
    let mut system = System::new(machine, scheme, setup, vec![source]).unwrap();
    system.run_to_end().unwrap_or_else(|error| panic!("{error}"));
    system
}

/// A transaction that stores to each of these lines once, and time behind it.
fn transaction(log: &mut OpLog, lines: impl IntoIterator<Item = u64>, value: u64) {
    log.op(LaneId(0), Op::TxBegin);
    for line in lines {
        log.op(LaneId(0), Op::Store { at: PoolOffset(64 * line), bytes: &value.to_le_bytes() });
    }
    log.op(LaneId(0), Op::TxEnd);
    log.op(LaneId(0), Op::Compute(100_000));
}

fn load(log: &mut OpLog, line: u64) {
    log.op(LaneId(0), Op::Load { at: PoolOffset(64 * line), len: 8, depends: Some(1) });
}

/// Log lines of a transaction that stores to `lines` lines.
fn log_lines(lines: u64) -> u64 {
    lines + lines.div_ceil(GROUP as u64)
}

fn writes(stats: &RunStats) -> [u64; 3] {
    [LOG, IN_PLACE, TRUNCATION].map(|cause| stats.writes.of(cause))
}

#[test]
fn a_read_takes_the_lookup_in_the_dram_cache_and_one_that_hits_no_more() {
    for kind in ["ooo", "inorder"] {
        let machine = bare(kind);
        // All of these lines meet in one set of each level.
        let conflicting = |from: u64| (from..from + 40).map(|n| 256 * n);
        let mut log = OpLog::default();
        conflicting(0).for_each(|line| load(&mut log, line));
        let without = run(&machine, NonPers, log.clone()).now().0;
        let with = run(&machine, Redu::new(config(64, 1024), Image::new(&[])), log).now().0;
        assert_eq!(with, without + 40 * LATENCY, "{kind}");
        // Lines that left the caches while their transaction ran are in the DRAM cache afterwards.
        let prepare = |dram_lines, loads: &[u64]| {
            let mut log = OpLog::default();
            transaction(&mut log, conflicting(0), 7);
            loads.iter().for_each(|line| load(&mut log, *line));
            run(&machine, Redu::new(config(64, dram_lines), Image::new(&[])), log)
        };
        let lines: Vec<u64> = conflicting(0).take(8).collect();
        let mut hits = prepare(1024, &lines);
        let mut misses = prepare(1024, &lines.iter().map(|line| line + 1).collect::<Vec<_>>());
        assert_eq!(hits.now().0 + 8 * READ, misses.now().0, "{kind}: a hit reads no memory");
        let counter = |stats: &RunStats, name| {
            stats.counters.iter().find(|counter| counter.name == name).unwrap().value
        };
        let (hits, misses) = (hits.take_stats(), misses.take_stats());
        assert_eq!(counter(&hits, "dram_hits") - counter(&misses, "dram_hits"), 8.0, "{kind}");
        assert_eq!(counter(&hits, "dram_lookups"), counter(&misses, "dram_lookups"), "{kind}");
        assert_eq!(misses.memory.reads - hits.memory.reads, 8, "{kind}");
    }
}

#[test]
fn lines_are_written_to_the_log_and_in_place_once_for_each_commit() {
    for kind in ["ooo", "inorder"] {
        for lines in [1, 5, 6, 7, 12, 13, 40] {
            for times in [1, 2] {
                let mut log = OpLog::default();
                (0..times).for_each(|value| transaction(&mut log, 0..lines, value + 1));
                let mut system =
                    run(&bare(kind), Redu::new(config(1024, 1024), Image::new(&[])), log);
                let stats = system.take_stats();
                let expected = [times * log_lines(lines), times * lines, 0];
                assert_eq!(writes(&stats), expected, "{kind}, {lines} lines, {times} times");
                assert_eq!(stats.memory.writes, expected.iter().sum::<u64>());
                assert!(system.is_idle() && system.scheme().lines.is_empty(), "{kind}");
            }
        }
    }
}

#[test]
fn a_line_that_leaves_the_caches_before_the_commit_is_written_no_more_often() {
    for kind in ["ooo", "inorder"] {
        // Sixteen lines of a set stay in the caches, and the others leave; all meet in one set of the
        // DRAM cache as well, which has sixteen ways.
        let lines = || (0..40).map(|n| 256 * n);
        for (dram_lines, read_back) in [(16, 8), (1024, 8), (0, 24)] {
            let mut log = OpLog::default();
            transaction(&mut log, lines(), 9);
            let mut system =
                run(&bare(kind), Redu::new(config(64, dram_lines), Image::new(&[])), log);
            let stats = system.take_stats();
            let of = format!("{kind}, DRAM cache of {dram_lines}");
            assert_eq!(writes(&stats), [log_lines(40), 40, 0], "{of}");
            let reads = stats.reads.of(outlast_sim::timed::ReadCause::Scheme(READ_BACK));
            assert_eq!(reads, read_back, "{of}");
            assert!(lines().all(|line| system.line(LineAddr(line))[0] == 9), "{of}");
        }
    }
}

#[test]
fn stores_that_meet_in_the_buffer_are_logged_once() {
    let mut log = OpLog::default();
    transaction(&mut log, [1, 2, 1, 2, 1], 3);
    // A seventh line drives the first six out: they are logged again.
    transaction(&mut log, (0..7).chain(0..6), 4);
    let mut system = run(&bare("inorder"), Redu::new(config(64, 1024), Image::new(&[])), log);
    assert_eq!(writes(&system.take_stats()), [log_lines(2) + log_lines(13), 2 + 7, 0]);
}

#[test]
fn the_log_is_truncated_when_half_of_it_is_full() {
    let mut log = OpLog::default();
    (0..8).for_each(|value| transaction(&mut log, 0..6, value));
    let mut system = run(&bare("inorder"), Redu::new(config(4, 1024), Image::new(&[])), log);
    // A record each: behind every second transaction.
    assert_eq!(writes(&system.take_stats()), [8 * 7, 8 * 6, 4]);
}

#[test]
fn a_log_that_a_transaction_does_not_fit_into_is_refused_with_what_it_needs() {
    let work = |stores| Work {
        streams: crate::Streams::Generated { tx_stores: stores },
        image: Arc::default(),
        end: LineAddr(0),
        lanes: 2,
        is_nested: false,
        whole: None,
    };
    let variant = &HardwareRedo.variants()[0];
    let small = Options::default().with(LOG_RECORDS.name, 2);
    let prepare = |stores| HardwareRedo.prepare(variant, &work(stores), &small, None);
    assert!(prepare(12).is_ok());
    let refused = prepare(13).unwrap_err().to_string();
    assert!(refused.contains("a log of 2 records is too small: a transaction may need 3"));
    assert!(prepare(0).unwrap_err().to_string().contains("there are none"));
}
