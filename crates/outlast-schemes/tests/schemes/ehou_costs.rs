//! What out-of-place update costs, by closed formulas.

use crate::machine::bare;
use outlast_schemes::{MachineScheme, Options, Streams, Work};
use outlast_sim::Domain;
use outlast_sim::timed::{LaneOps, MachineConfig, ReadCause, RunStats, Setup, Source};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};
use std::sync::Arc;

/// From an activate to a line's last data.
const READ: u64 = 20 + 20 + 4;
/// From an activate of a bank to the next: lines of a log lie in one bank.
const ROW_CYCLE: u64 = 40 + 20;
/// Lines that programs have; behind them the map, in banks of its own.
const LINES: u64 = (1 << 16) + 128;
const VARIANTS: [&str; 3] = ["ehou-eager", "ehou-lazy", "ehou"];

fn with(kind: &str) -> MachineConfig {
    let mut config = bare(kind);
    config.set_option("memory.page", "closed").unwrap();
    config
}

/// One lane's operations to their end: the last cycle and what was counted.
fn run(
    config: &MachineConfig,
    scheme: &str,
    given: &[(&'static str, u64)],
    log: &OpLog,
) -> (u64, RunStats) {
    let scheme: MachineScheme = scheme.parse().unwrap();
    let mut options = Options::default();
    given.iter().for_each(|(name, value)| options.put(name, *value));
    let work = Work {
        streams: Streams::Recorded(vec![Arc::new(log.clone())]),
        image: Arc::default(),
        end: LineAddr(LINES),
        lanes: 1,
        is_nested: false,
        whole: None,
    };
    let prepared = scheme.prepare(&work, &options, None).unwrap();
    let ops = Arc::clone(&prepared.streams()[0]);
    let sources: Vec<Box<dyn Source>> = vec![Box::new(LaneOps::new(ops, LaneId(0)))];
    let base = vec![0; 64 * prepared.lines() as usize];
    let setup = Setup { journal: Some(Domain::Adr), base, ..Setup::default() };
    let mut machine = prepared.machine(config, setup, sources).unwrap();
    machine.run_to_end().unwrap();
    (machine.now().0, machine.take_stats())
}

fn load(log: &mut OpLog, line: u64) {
    log.op(LaneId(0), Op::Load { at: LineAddr(line).start(), len: 8, depends: Some(1) });
}

fn store(log: &mut OpLog, line: u64, value: u64) {
    log.op(LaneId(0), Op::Store { at: PoolOffset(64 * line), bytes: &value.to_le_bytes() });
}

/// A transaction that stores to each of these lines.
fn transaction(log: &mut OpLog, lines: impl IntoIterator<Item = u64>, value: u64) {
    log.op(LaneId(0), Op::TxBegin);
    lines.into_iter().for_each(|line| store(log, line, value));
    log.op(LaneId(0), Op::TxEnd);
    log.op(LaneId(0), Op::Mfence);
}

fn writes(stats: &RunStats, cause: &str) -> u64 {
    let named = stats.writes.each().filter(|(_, name, _)| *name == cause);
    named.map(|(_, _, count)| count).sum()
}

fn reads(stats: &RunStats, cause: &str) -> u64 {
    let named = stats.reads.each().filter(|(_, name, _)| *name == cause);
    named.map(|(_, _, count)| count).sum()
}

/// Writes of programs' lines, for whatever cause they left the caches.
fn data(stats: &RunStats) -> u64 {
    ["evicted", "flushed", "forced"].map(|cause| writes(stats, cause)).iter().sum()
}

fn counter(stats: &RunStats, name: &str) -> u64 {
    stats.counters.iter().find(|counter| counter.name == name).unwrap().value as u64
}

#[test]
fn a_read_takes_a_lookup_and_where_that_misses_a_read_of_the_map() {
    // Seventeen lines of one set of the last level, which has sixteen ways.
    let mut log = OpLog::default();
    (0..170).for_each(|n| load(&mut log, 2048 * (n % 17)));
    let config = with("inorder");
    let (without, _) = run(&config, "ideal", &[], &log);
    for scheme in VARIANTS {
        for latency in [0, 7, 100] {
            for (ways, misses) in [(17, 17), (16, 170)] {
                let given = [("ait.sets", 1), ("ait.ways", ways), ("ait.latency", latency)];
                let (end, stats) = run(&config, scheme, &given, &log);
                assert_eq!(end, without + 170 * latency + misses * READ, "{scheme} {given:?}");
                assert_eq!((reads(&stats, "ait"), stats.reads.of(ReadCause::Load)), (misses, 170));
                assert_eq!(stats.memory.writes, 0);
            }
        }
    }
}

#[test]
fn data_is_written_once_and_entries_at_commit_or_when_overwritten() {
    for kind in ["ooo", "inorder"] {
        for lines in [1, 9, 30] {
            for times in 1..4 {
                let mut log = OpLog::default();
                (0..times).for_each(|value| transaction(&mut log, 0..lines, value));
                for (scheme, entries) in VARIANTS.into_iter().zip([
                    times * lines,
                    (times - 1) * lines,
                    (times - 1) * lines,
                ]) {
                    let (_, stats) = run(&with(kind), scheme, &[], &log);
                    let of = format!("{kind} {scheme} {lines} lines, {times} times");
                    assert_eq!(
                        (data(&stats), writes(&stats, "ait")),
                        (times * lines, entries),
                        "{of}"
                    );
                    assert_eq!(stats.memory.writes, times * lines + entries, "{of}");
                    let overwritten = if scheme == "ehou-eager" { 0 } else { entries };
                    assert_eq!(counter(&stats, "ait_overwritten"), overwritten, "{of}");
                }
            }
        }
    }
}

#[test]
fn a_line_of_the_map_takes_all_its_committed_entries_where_that_is_chosen() {
    let given = [("whole_lines", 1)];
    for (lines, times) in [(1, 3), (8, 2), (9, 3), (30, 2)] {
        let mut log = OpLog::default();
        (0..times).for_each(|value| transaction(&mut log, 0..lines, value));
        let of_map = u64::div_ceil(lines, 8);
        for (scheme, commits) in VARIANTS.into_iter().zip([times, times - 1, times - 1]) {
            let (_, stats) = run(&with("inorder"), scheme, &given, &log);
            let of = format!("{scheme} {lines} lines, {times} times");
            assert_eq!(writes(&stats, "ait"), commits * of_map, "{of}");
            assert_eq!(data(&stats), times * lines, "{of}");
        }
    }
}

#[test]
fn committed_entries_that_are_evicted_are_written_once() {
    // A transaction's entries, then one that needs all that the cache has.
    let (lines, ways) = (12, 16);
    let mut log = OpLog::default();
    transaction(&mut log, 0..lines, 1);
    transaction(&mut log, 1000..1000 + ways, 1);
    for (scheme, entries, evicted) in
        [("ehou-eager", lines + ways, 0), ("ehou-lazy", lines, lines), ("ehou", lines, lines)]
    {
        let given = [("ait.sets", 1), ("ait.ways", ways)];
        let (_, stats) = run(&with("inorder"), scheme, &given, &log);
        let counted = (writes(&stats, "ait"), counter(&stats, "ait_evicted"));
        assert_eq!(counted, (entries, evicted), "{scheme}");
        assert_eq!(stats.memory.writes, lines + ways + entries, "{scheme}");
    }
}

#[test]
fn what_overflows_is_logged_once_and_applied_at_commit() {
    for (lines, ways, buffer) in [(20, 4, 16), (20, 4, 4), (41, 1, 8), (8, 8, 4)] {
        let mut log = OpLog::default();
        transaction(&mut log, 0..lines, 1);
        let given = [("ait.sets", 1), ("ait.ways", ways), ("overflow_buffer", buffer)];
        let (_, stats) = run(&with("inorder"), "ehou", &given, &log);
        let overflowed = lines - ways;
        let log_lines = overflowed.div_ceil(4).saturating_sub(buffer / 4);
        let of = format!("{lines} lines, {given:?}");
        assert_eq!(counter(&stats, "ait_overflowed"), overflowed, "{of}");
        assert_eq!((data(&stats), writes(&stats, "ait")), (lines, overflowed), "{of}");
        assert_eq!(writes(&stats, "overflow log"), log_lines, "{of}");
        // What left the buffer is read again to be applied; misses find the filter's answer wrong
        // at times.
        assert!(reads(&stats, "overflow log") >= log_lines, "{of}");
        assert_eq!(stats.memory.writes, lines + overflowed + log_lines, "{of}");
    }
}

/// Lines of a set of the last level, which are in different sets of banks than logs are.
const APART: u64 = 2048;

/// A transaction that begins and flushes `lines` lines out of all caches, one after the other.
fn flushed(lines: u64) -> OpLog {
    let mut log = OpLog::default();
    log.op(LaneId(0), Op::TxBegin);
    for line in (0..lines).map(|number| APART * number) {
        store(&mut log, line, 7);
        log.op(LaneId(0), Op::Flush { kind: FlushKind::ClflushOpt, line: LineAddr(line) });
        log.op(LaneId(0), Op::Mfence);
        log.op(LaneId(0), Op::Compute(2000));
    }
    log
}

#[test]
fn a_load_takes_a_read_for_each_line_of_the_overflow_log_from_the_newest_on() {
    // Of the entries, one is cached: the others overflow in their order, four to a line of the log.
    for kind in ["ooo", "inorder"] {
        for (records, buffer) in [(1, 4), (4, 4), (5, 4), (9, 4), (9, 8), (16, 8), (18, 4)] {
            let begun = flushed(records + 1);
            let written = u64::div_ceil(records, 4).saturating_sub(buffer / 4);
            for (wanted, latency) in (0..records).flat_map(|of| [(of, 0), (of, 10), (of, 100)]) {
                let given = [
                    ("ait.sets", 1),
                    ("ait.ways", 1),
                    ("ait.latency", latency),
                    ("overflow_buffer", buffer),
                    ("bloom_bits", 1 << 16),
                ];
                let mut loads = begun.clone();
                load(&mut loads, APART * wanted);
                let takes = |scheme, given: &[(&'static str, u64)]| {
                    let (before, _) = run(&with(kind), scheme, given, &begun);
                    let (end, stats) = run(&with(kind), scheme, given, &loads);
                    (end - before, stats)
                };
                let (plain, _) = takes("ideal", &[]);
                let (took, stats) = takes("ehou", &given);
                let of = format!("{kind}: {wanted} of {records}, {given:?}");
                let lines = written.saturating_sub(wanted / 4);
                let of_log = if lines > 0 { READ + (lines - 1) * ROW_CYCLE } else { 0 };
                assert_eq!(took, plain + latency + of_log, "{of}");
                assert_eq!(reads(&stats, "overflow log"), lines, "{of}");
                assert_eq!(counter(&stats, "ait_found_in_log"), 1, "{of}");
                assert_eq!(reads(&stats, "ait"), records + 1, "{of}: the stores' fills");
            }
        }
    }
}

#[test]
fn a_commit_reads_again_what_left_the_buffer_of_the_overflow_log() {
    let mut log = flushed(9);
    load(&mut log, 0);
    log.op(LaneId(0), Op::Mfence);
    log.op(LaneId(0), Op::Compute(2000));
    load(&mut log, APART);
    log.op(LaneId(0), Op::Mfence);
    log.op(LaneId(0), Op::TxEnd);
    let config = with("inorder");
    let of = |buffer| {
        let given = [
            ("ait.sets", 1),
            ("ait.ways", 1),
            ("ait.latency", 10),
            ("overflow_buffer", buffer),
            ("bloom_bits", 1 << 16),
        ];
        run(&config, "ehou", &given, &log)
    };
    let (buffered_end, buffered) = of(64);
    assert_eq!((reads(&buffered, "overflow log"), writes(&buffered, "overflow log")), (0, 0));
    let (end, stats) = of(4);
    // Records 0 to 3 are in a line that was written, the next ones in the buffer; the first load
    // evicts the ninth, whose record takes a third line.
    let (first, second, lines) = (1, 2, 2);
    assert_eq!(writes(&stats, "overflow log"), lines);
    assert_eq!(reads(&stats, "overflow log"), first + second + lines, "two loads, and the commit");
    for stats in [&buffered, &stats] {
        assert_eq!(counter(stats, "ait_found_in_log"), 2);
        assert_eq!(reads(stats, "ait"), 9, "the nine stores' fills");
    }
    // Beside what the loads took, those of the commit: they overlap each other.
    let waited = end - buffered_end - (READ + READ + ROW_CYCLE);
    assert!(waited <= lines * ROW_CYCLE, "{waited} cycles");
}

#[test]
fn blocks_of_four_lines_are_copied_but_for_the_line_that_is_written() {
    let blocks = 7;
    for scheme in VARIANTS {
        for offset in 0..4 {
            let mut log = OpLog::default();
            transaction(&mut log, (0..blocks).map(|block| 4 * block + offset), 1);
            let (_, stats) = run(&with("inorder"), scheme, &[("ait.granularity", 256)], &log);
            let entries = if scheme == "ehou-eager" { blocks } else { 0 };
            assert_eq!(reads(&stats, "copies"), 3 * blocks, "{scheme} {offset}");
            assert_eq!(writes(&stats, "copies"), 3 * blocks, "{scheme} {offset}");
            assert_eq!(data(&stats), blocks, "{scheme} {offset}");
            assert_eq!(stats.memory.writes, 4 * blocks + entries, "{scheme} {offset}");
        }
    }
}

#[test]
fn a_crash_drains_committed_entries_and_the_lists() {
    for lines in [1, 4, 9, 50] {
        let mut log = OpLog::default();
        // Each entry in a line of the map of its own.
        transaction(&mut log, (0..lines).map(|line| 8 * line), 1);
        for scheme in ["ehou-lazy", "ehou"] {
            let (_, stats) = run(&with("inorder"), scheme, &[], &log);
            let lists = lines.div_ceil(4) + lines.div_ceil(8) + 1;
            assert_eq!(stats.kept.lines_max, lines + lists, "{scheme} {lines}");
        }
    }
}
