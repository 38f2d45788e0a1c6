//! What it costs, by closed formulas in traffic.

use std::sync::Arc;

use outlast_sim::timed::{LaneOps, Setup, Source};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};

use super::*;
use crate::shared::redo::testing::{
    SAVED, Traffic, bare, counter, options, pass, run, store, stream, work,
};

fn chosen(entries: u64, ways: u64) -> (Config, Shape) {
    let options = options();
    let config = Config::new(&work(), &options, entries, 0, false).unwrap();
    (config, Shape { sets: entries / ways, ways })
}

/// Traffic of one epoch with `dirty` dirty lines.
fn epoch(dirty: u64) -> Traffic {
    Traffic {
        data: dirty,
        directory: dirty.div_ceil(8),
        records: 2,
        home: (dirty, dirty),
        filled: (0, 0),
    }
}

#[test]
fn a_line_is_written_when_it_leaves_the_caches_and_copied_home_once() {
    for kind in ["ooo", "inorder"] {
        // Lines that stay in the caches, and lines of which most leave them before the end.
        for (lines, stride) in [(1, 1), (40, 1), (3000, 1), (40, 256)] {
            for times in [1, 3] {
                let mut log = OpLog::default();
                for value in 1..=times {
                    store(&mut log, (0..lines).map(|n| stride * n), value);
                }
                pass(&mut log);
                let (config, shape) = chosen(6144, 16);
                let mut system = run(&bare(kind), config, shape, log);
                let stats = system.take_stats();
                let of = format!("{kind}: {lines} lines, {stride} apart, {times} times");
                let left = if stride == 1 { lines } else { lines * u64::from(times) };
                let expected = Traffic { data: left + SAVED, ..epoch(lines + SAVED) };
                assert_eq!(Traffic::of(&stats), expected, "{of}");
                let counts = ["epochs", "commits", "epochs_early", "lines_past_tables"];
                assert_eq!(counts.map(|name| counter(&stats, name)), [1, 1, 0, 0], "{of}");
                let blocks = (lines + SAVED).div_ceil(512);
                assert_eq!(counter(&stats, "block_operations"), blocks, "{of}");
                let mut stored = |n| system.line(LineAddr(stride * n))[0];
                assert!((0..lines).all(|n| stored(n) == times), "{of}");
            }
        }
    }
}

#[test]
fn an_epoch_begins_with_an_empty_table() {
    let mut log = OpLog::default();
    for value in 1..=3 {
        store(&mut log, 0..20, value);
        pass(&mut log);
    }
    let (config, shape) = chosen(64, 16);
    let mut system = run(&bare("inorder"), config, shape, log);
    let stats = system.take_stats();
    let Traffic { data, directory, records, .. } = Traffic::of(&stats);
    let once = epoch(20 + SAVED);
    assert_eq!((data, directory, records), (3 * once.data, 3 * once.directory, 6));
    assert_eq!(counter(&stats, "lines_past_tables"), 0);
}

#[test]
fn a_set_without_a_free_way_ends_the_epoch() {
    for kind in ["ooo", "inorder"] {
        for (sets, ways) in [(1, 1), (1, 4), (4, 4), (8, 2)] {
            // Each line goes to the table at once, and the next one waits for that.
            let (entries, lines) = (sets * ways, 100);
            let mut log = OpLog::default();
            stream(&mut log, 0..lines, 7);
            let (config, shape) = chosen(entries, ways);
            let mut system = run(&bare(kind), config, shape, log);
            let stats = system.take_stats();
            let early = lines / (entries + 1);
            let of = format!("{kind}: {sets} sets of {ways}");
            assert_eq!(counter(&stats, "epochs_early"), early, "{of}");
            assert_eq!(counter(&stats, "commits"), early, "{of}");
            assert!((0..lines).all(|line| system.line(LineAddr(line))[63] == 7), "{of}");
            // One set is full as soon as it has as many lines as ways.
            let mut log = OpLog::default();
            stream(&mut log, (0..lines).map(|n| n * sets), 7);
            let mut system = run(&bare(kind), config, shape, log);
            let stats = system.take_stats();
            assert_eq!(counter(&stats, "epochs_early"), lines / (ways + 1), "{of}");
        }
    }
}

#[test]
fn what_the_flush_finds_no_way_for_goes_past_the_table_and_is_covered() {
    for kind in ["ooo", "inorder"] {
        let lines = 500;
        let mut log = OpLog::default();
        store(&mut log, 0..lines, 5);
        pass(&mut log);
        store(&mut log, 0..lines, 6);
        let (config, shape) = chosen(64, 16);
        let mut system = run(&bare(kind), config, shape, log);
        let stats = system.take_stats();
        assert_eq!(Traffic::of(&stats), epoch(lines + SAVED), "{kind}");
        assert_eq!(counter(&stats, "lines_past_tables"), lines + SAVED - 64, "{kind}");
        assert!((0..lines).all(|line| system.line(LineAddr(line))[0] == 6), "{kind}");
    }
}

#[test]
fn a_copy_begins_with_what_a_streamed_word_leaves_as_it_was() {
    for kind in ["ooo", "inorder"] {
        for (entries, spilled) in [(64, 0), (1, 9)] {
            let mut log = OpLog::default();
            store(&mut log, 0..10, 5);
            pass(&mut log);
            for line in 0..10 {
                let at = PoolOffset(64 * line + 8);
                log.op(LaneId(0), Op::StoreNt { at, bytes: &[9; 8] });
            }
            log.op(LaneId(0), Op::Sfence);
            for line in 0..10 {
                log.op(LaneId(0), Op::Load { at: PoolOffset(64 * line), len: 8, depends: Some(1) });
            }
            pass(&mut log);
            let (config, shape) = chosen(entries, entries.min(16));
            let mut system = run(&bare(kind), config, shape, log);
            let stats = system.take_stats();
            assert_eq!(Traffic::of(&stats).filled, (10, 10), "{kind}");
            assert!(counter(&stats, "lines_past_tables") >= spilled, "{kind}");
            for line in 0..10 {
                let found = system.line(LineAddr(line));
                assert_eq!((found[0], found[8], found[16]), (5, 9, 0), "{kind}: line {line}");
            }
        }
    }
}

#[test]
fn what_it_cannot_have_is_refused_by_name() {
    let variant = &Journaling.variants()[0];
    let refused = |work: &Work, options: &Options| {
        Journaling.prepare(variant, work, options, None).map(|_| ()).unwrap_err().to_string()
    };
    let uneven = Options::default().with(TABLE_ENTRIES.name, 100);
    let message = refused(&work(), &uneven);
    assert_eq!(
        message,
        "scheme.table_entries is 100: a multiple of the 16 ways of a set (scheme.table_ways) is possible"
    );
    let endless = Work { end: LineAddr(0), ..work() };
    assert!(refused(&endless, &Options::default()).contains("does not say"));
    let vast = Work { end: LineAddr(1 << 30), ..work() };
    let prepared = Journaling.prepare(variant, &vast, &Options::default(), None).unwrap();
    let mut machine = bare("inorder");
    machine.set_option("llc.size", "256 MiB").unwrap();
    let setup = Setup::default();
    let refused = prepared.machine(&machine, setup, Vec::new()).err().unwrap().to_string();
    let limit = "its caches and buffers hold 4194612 lines, and scheme.past_tables is 3145728";
    assert!(refused.contains(limit), "{refused}");
}

/// Copies wait for entries while the cores stand, and take no room from what leaves the caches.
#[test]
fn on_address_indirection_the_cores_go_on_when_the_copies_are_home() {
    for kind in ["ooo", "inorder"] {
        let mut log = OpLog::default();
        store(&mut log, 0..300, 5);
        pass(&mut log);
        let on = options().with("ait.sets", 1).with("ait.ways", 2).with(TABLE_ENTRIES.name, 64);
        let variant = &Journaling.variants()[0];
        let prepared = Journaling.prepare(variant, &work(), &on, None).unwrap();
        let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log), LaneId(0)));
        let mut machine = prepared.machine(&bare(kind), Setup::default(), vec![source]).unwrap();
        machine.run_to_end().unwrap_or_else(|error| panic!("{kind}: {error}"));
        let stats = machine.take_stats();
        let counts = ["commits", "entries_committed"].map(|name| counter(&stats, name));
        assert_eq!(counts, [1, 300 + SAVED], "{kind}");
        assert!(counter(&stats, "ait_misses") > 600, "{kind}");
    }
}
