//! What address indirection costs, by closed formulas, through what every scheme can be told.

use crate::machine::bare;
use outlast_schemes::{AIT_KEYS, MachineScheme, Options, Streams, Work};
use outlast_sim::timed::{LaneOps, MachineConfig, ReadCause, RunStats, Setup, Source};
use outlast_sim::{Cause, Domain};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};
use std::sync::Arc;

/// Cycles of the small machine: to the memory or back, and from an activate to a line's last data.
const PATH: u64 = 10;
const READ: u64 = 20 + 20 + 4;
/// Lines that programs have; behind them the table, in banks of its own: of eight, the lines that
/// are used have the first four.
const LINES: u64 = (1 << 16) + 128;

/// The small machine. Rows close behind each access, so that every access alone takes as long.
fn with(kind: &str) -> MachineConfig {
    let mut config = bare(kind);
    config.set_option("memory.page", "closed").unwrap();
    config
}

fn options(given: &[(&str, &str)]) -> Options {
    let mut options = Options::default();
    for (name, value) in given {
        options.set(&AIT_KEYS, "--set", name, value).unwrap();
    }
    options
}

/// One lane's operations under a scheme to their end: the last cycle, what was counted, and the
/// lines in the journal.
fn run(
    config: &MachineConfig,
    scheme: &str,
    options: &Options,
    log: &OpLog,
) -> (u64, RunStats, Vec<LineAddr>) {
    let scheme: MachineScheme = scheme.parse().unwrap();
    let work = Work {
        streams: Streams::Recorded(vec![Arc::new(log.clone())]),
        image: Arc::default(),
        end: LineAddr(LINES),
        lanes: 1,
        is_nested: false,
        whole: None,
    };
    let prepared = scheme.prepare(&work, options, None).unwrap();
    let ops = Arc::clone(&prepared.streams()[0]);
    let sources: Vec<Box<dyn Source>> = vec![Box::new(LaneOps::new(ops, LaneId(0)))];
    let base = vec![0; 64 * prepared.lines() as usize];
    let setup = Setup { journal: Some(Domain::Adr), base, ..Setup::default() };
    let mut machine = prepared.machine(config, setup, sources).unwrap();
    machine.run_to_end().unwrap();
    let journal = machine.journal().unwrap().journal();
    let lines = journal.iter().map(|entry| entry.line).collect();
    (machine.now().0, machine.take_stats(), lines)
}

/// Loads of lines, each waiting for the one before.
fn loads(lines: impl IntoIterator<Item = u64>) -> OpLog {
    let mut log = OpLog::default();
    for line in lines {
        let at = LineAddr(line).start();
        log.op(LaneId(0), Op::Load { at, len: 8, depends: Some(1) });
    }
    log
}

/// Lines that miss the caches again and again: sixteen of one set of the last level, and one more.
fn conflicting(times: u64) -> impl Iterator<Item = u64> {
    (0..17 * times).map(|n| 2048 * (n % 17))
}

fn table_reads(stats: &RunStats) -> u64 {
    let of_table = stats.reads.each().filter(|(_, name, _)| *name == "ait");
    of_table.map(|(_, _, count)| count).sum()
}

fn counter(stats: &RunStats, name: &str) -> f64 {
    stats.counters.iter().find(|counter| counter.name == name).unwrap().value
}

#[test]
fn a_read_takes_a_lookup_and_where_that_misses_a_read_of_the_table() {
    for kind in ["ooo", "inorder"] {
        let (config, log) = (with(kind), loads(conflicting(10)));
        let (without, stats, _) = run(&config, "ideal", &Options::default(), &log);
        let reads = stats.memory.reads;
        assert_eq!(reads, 170, "{kind}: every load goes to memory");
        for latency in [0, 7, 100] {
            // Seventeen ways hold all entries, sixteen none when it is looked for.
            for (ways, misses) in [(17, 17), (16, 170)] {
                let given = [
                    ("ait.sets", "1"),
                    ("ait.ways", &ways.to_string()),
                    ("ait.latency", &latency.to_string()),
                ];
                let (end, stats, _) = run(&config, "ideal", &options(&given), &log);
                let of = format!("{kind}: {given:?}");
                assert_eq!(end, without + reads * latency + misses * READ, "{of}");
                assert_eq!((table_reads(&stats), stats.reads.of(ReadCause::Load)), (misses, reads));
                assert_eq!(stats.memory.reads, reads + misses, "{of}");
                assert_eq!(counter(&stats, "ait_lookups"), reads as f64, "{of}");
                assert_eq!(counter(&stats, "ait_misses"), misses as f64, "{of}");
            }
        }
    }
}

#[test]
fn lines_of_one_block_share_its_entry_and_misses_of_one_block_its_read() {
    // Eight words of each line at the same time.
    let mut log = OpLog::default();
    for word in 0..8 * 32 {
        let at = LineAddr(word / 8).start();
        log.op(LaneId(0), Op::Load { at, len: 8, depends: None });
    }
    for (granularity, entries) in [("64 B", 32), ("256 B", 8)] {
        let given = options(&[("ait.granularity", granularity)]);
        let (_, stats, _) = run(&with("ooo"), "ideal", &given, &log);
        assert_eq!((counter(&stats, "ait_lookups"), table_reads(&stats)), (32.0, entries));
    }
}

/// Stores to a line, each flushed and waited for.
fn flushes(times: u64) -> OpLog {
    let mut log = OpLog::default();
    for value in 1..=times {
        log.op(LaneId(0), Op::Store { at: PoolOffset(0), bytes: &value.to_le_bytes() });
        log.op(LaneId(0), Op::Compute(4000));
        log.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line: LineAddr(0) });
        log.op(LaneId(0), Op::Sfence);
        log.op(LaneId(0), Op::Compute(400));
    }
    log
}

#[test]
fn a_write_is_durable_a_lookup_later_at_home() {
    for kind in ["ooo", "inorder"] {
        let times = |given: &[(&str, &str)]| {
            let (end, stats, lines) = run(&with(kind), "ideal", &options(given), &flushes(3));
            assert_eq!((stats.writes.of(Cause::Flushed), stats.memory.writes), (3, 3), "{kind}");
            assert_eq!(lines, [LineAddr(0); 3], "{kind}: nothing else is written");
            (stats.persist.of(Cause::Flushed).unwrap().mean(), end)
        };
        let (mean, end) = times(&[("ait.latency", "0")]);
        assert_eq!(mean, PATH as f64, "{kind}: the load has brought the entry");
        let (later, later_end) = times(&[("ait.latency", "30")]);
        assert_eq!((later, later_end), (mean + 30.0, end + 3 * 30), "{kind}: three fences wait");
    }
}

/// What a scheme writes for itself lies on the same memory: a lookup for each of its writes.
#[test]
fn a_schemes_own_writes_and_reads_are_looked_up_too() {
    let mut log = OpLog::default();
    let transactions = 6;
    for number in 0..transactions {
        log.op(LaneId(0), Op::TxBegin);
        log.op(LaneId(0), Op::Store { at: PoolOffset(64 * number), bytes: &[7; 8] });
        log.op(LaneId(0), Op::TxEnd);
        log.op(LaneId(0), Op::Mfence);
        log.op(LaneId(0), Op::Compute(4000));
    }
    for kind in ["ooo", "inorder"] {
        let config = with(kind);
        let (without, stats, lines) = run(&config, "skeleton", &Options::default(), &log);
        // Of each transaction a line, its old content, a record and a header.
        assert_eq!(stats.memory.writes, 4 * transactions, "{kind}");
        let of =
            |latency: &str| run(&config, "skeleton", &options(&[("ait.latency", latency)]), &log);
        let (free, free_stats, free_lines) = of("0");
        let (end, stats, same_lines) = of("30");
        // A fill, and four writes one behind the other.
        assert!(end >= free + transactions * 5 * 30, "{kind}: {end} after {free}");
        assert!(free > without, "{kind}: entries have to be read");
        // Only the first write to a line of the log has to wait for its entry.
        for (stats, latency) in [(&free_stats, 0), (&stats, 30)] {
            for cause in [0, 1, 2].map(Cause::Scheme) {
                let times = stats.persist.of(cause).unwrap();
                let (usual, longest) = (times.quantile(0.5), times.max());
                assert_eq!(usual, PATH + latency, "{kind}: {cause:?}");
                assert!(longest >= PATH + latency + READ, "{kind}: {cause:?} {longest}");
            }
        }
        assert_eq!((&same_lines, &free_lines), (&lines, &lines), "{kind}: nothing else is written");
        // Lines, and those of the log: two for a record, a header.
        let entries = transactions + 2 + 1;
        for stats in [&free_stats, &stats] {
            assert_eq!(table_reads(stats), entries, "{kind}");
            assert_eq!(counter(stats, "ait_lookups"), (transactions * 5) as f64, "{kind}");
            assert_eq!(stats.memory.writes, 4 * transactions, "{kind}");
        }
    }
}

#[test]
fn a_granularity_between_the_two_is_refused() {
    let given = options(&[("ait.granularity", "128 B")]);
    let work = Work {
        streams: Streams::Recorded(Vec::new()),
        image: Arc::default(),
        end: LineAddr(64),
        lanes: 1,
        is_nested: false,
        whole: None,
    };
    let refused = MachineScheme::plain().prepare(&work, &given, None).unwrap_err().to_string();
    assert!(refused.contains("128 B") && refused.contains("64 B or 256 B"), "{refused}");
}
