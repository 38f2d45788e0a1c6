//! Undo checkpoints: what they cost by closed formulas, the paper's worked example, and crashes of
//! programs that no workload is: stores past the caches, flushes, output, logs that are full.

#[path = "../../outlast-sim/tests/machine/mod.rs"]
mod machine;

use machine::bare;
use outlast_schemes::{Image, MachineScheme, Options, Prepared, Streams, Work, apply};
use outlast_sim::Domain;
use outlast_sim::timed::{
    Cycle, LaneOps, Machine, MachineConfig, RunStats, Setup, Source, TimedJournal,
};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Random, Sink};
use std::sync::Arc;

/// Lines that programs have, the first behind them included.
const LINES: u64 = 1 << 10;

fn prepared(
    scheme: &str,
    given: &[(&'static str, u64)],
    lanes: u16,
    log: &OpLog,
) -> Box<dyn Prepared> {
    let scheme: MachineScheme = scheme.parse().unwrap();
    let mut options = Options::default();
    given.iter().for_each(|(name, value)| options.put(name, *value));
    let work = Work {
        streams: Streams::Recorded(vec![Arc::new(log.clone())]),
        image: Arc::default(),
        end: LineAddr(LINES),
        lanes,
        is_nested: false,
        whole: None,
    };
    scheme.prepare(&work, &options, None).unwrap_or_else(|error| panic!("{error}"))
}

fn run(config: &MachineConfig, prepared: &dyn Prepared, lanes: u16) -> Box<dyn Machine> {
    let ops = &prepared.streams()[0];
    let source =
        |lane| -> Box<dyn Source> { Box::new(LaneOps::new(Arc::clone(ops), LaneId(lane))) };
    let base = vec![0; 64 * prepared.lines() as usize];
    let setup = Setup { journal: Some(Domain::Adr), base, stores: true, ..Setup::default() };
    let mut machine = prepared.machine(config, setup, (0..lanes).map(source).collect()).unwrap();
    machine.run_to_end().unwrap_or_else(|error| panic!("{error}"));
    machine
}

/// One lane under a scheme on the machine with round times.
fn counted(scheme: &str, given: &[(&'static str, u64)], log: &OpLog) -> RunStats {
    let prepared = prepared(scheme, given, 1, log);
    run(&bare("inorder"), prepared.as_ref(), 1).take_stats()
}

fn store(log: &mut OpLog, line: u64, value: u64) {
    log.op(LaneId(0), Op::Store { at: PoolOffset(64 * line), bytes: &value.to_le_bytes() });
}

/// Instructions that compute between the stores of one epoch and the next: time for a scan.
const PAUSE: u64 = 40_000;

fn pause(log: &mut OpLog) {
    log.op(LaneId(0), Op::Compute(PAUSE as u32));
}

/// Stores to the first `lines` lines, round by round, and a pause before each.
fn rounds(lines: u64, rounds: u64) -> OpLog {
    let mut log = OpLog::default();
    for round in 1..=rounds {
        pause(&mut log);
        (0..lines).for_each(|line| store(&mut log, line, round));
    }
    log
}

fn writes(stats: &RunStats, cause: &str) -> u64 {
    let named = stats.writes.each().filter(|(_, name, _)| *name == cause);
    named.map(|(_, _, count)| count).sum()
}

fn reads(stats: &RunStats) -> u64 {
    stats.reads.each().map(|(_, _, count)| count).sum()
}

fn counter(stats: &RunStats, name: &str) -> u64 {
    stats.counters.iter().find(|counter| counter.name == name).unwrap().value as u64
}

#[test]
fn a_block_of_the_log_has_28_entries_and_nothing_is_read_for_them() {
    for lines in [27, 28, 29, 300] {
        let stats = counted("picl", &[], &rounds(lines, 3));
        assert_eq!(counter(&stats, "undo_entries"), lines, "one for the first store to each");
        assert_eq!(counter(&stats, "undo_blocks"), lines / 28);
        assert_eq!(writes(&stats, "undo"), lines / 28 * 32, "2 KB each");
        assert_eq!(reads(&stats), lines, "fills alone");
        assert_eq!(counter(&stats, "epochs"), 0);
    }
}

#[test]
fn a_block_of_the_log_has_84_entries_of_quarters_one_for_the_first_store_to_each() {
    let quarters = [("quarters", 1)];
    for lines in [83, 84, 85, 300] {
        let stats = counted("picl", &quarters, &rounds(lines, 3));
        assert_eq!(counter(&stats, "undo_entries"), lines, "one quarter of each line");
        assert_eq!(counter(&stats, "undo_blocks"), lines / 84);
        assert_eq!(writes(&stats, "undo"), lines / 84 * 32, "2 KB each");
    }
    let mut all = OpLog::default();
    for word in (0..8 * 21).chain(0..8 * 21) {
        let at = PoolOffset(8 * word);
        all.op(LaneId(0), Op::Store { at, bytes: &word.to_le_bytes() });
    }
    let stats = counted("picl", &quarters, &all);
    assert_eq!(counter(&stats, "undo_entries"), 4 * 21, "each quarter of them");
    assert_eq!(writes(&stats, "undo"), 32);
    assert_eq!(counter(&counted("picl", &[], &all), "undo_entries"), 21);
}

/// Each epoch stores to the same lines, and so do the registers.
#[test]
fn every_epoch_logs_what_it_stores_to_and_a_gap_spares_the_scan_what_is_overwritten() {
    let (lines, epochs, saved) = (50, 9, 3);
    for gap in [0, 1, 3, 8] {
        let given = [("epoch", lines + PAUSE), ("save_lines", saved), ("acs_gap", gap)];
        let stats = counted("picl", &given, &rounds(lines, epochs));
        assert_eq!(counter(&stats, "epochs"), epochs);
        assert_eq!(counter(&stats, "undo_entries"), epochs * (lines + saved));
        let scanned = if gap == 0 { epochs * (lines + saved) } else { 0 };
        assert_eq!(writes(&stats, "cache scan"), scanned, "gap {gap}");
        assert_eq!(writes(&stats, "persisted epoch"), epochs - gap, "gap {gap}");
        assert_eq!(reads(&stats), lines + saved);
        assert_eq!(counter(&stats, "epochs_early"), 0);
    }
}

/// Each epoch stores to lines of its own.
#[test]
fn a_scan_writes_the_lines_of_its_epoch_and_no_others() {
    let (lines, epochs) = (40, 8);
    let mut log = OpLog::default();
    for epoch in 0..epochs {
        pause(&mut log);
        (0..lines).for_each(|line| store(&mut log, epoch * lines + line, 1));
    }
    for gap in [1, 2, 5] {
        let given = [("epoch", lines + PAUSE), ("save_lines", 1), ("acs_gap", gap)];
        let stats = counted("picl", &given, &log);
        assert_eq!(writes(&stats, "cache scan"), (epochs - gap) * lines, "gap {gap}");
        assert_eq!(counter(&stats, "undo_entries"), epochs * (lines + 1));
    }
}

#[test]
fn undo_checkpoints_in_memory_take_a_read_and_two_writes_for_each_line() {
    let (lines, epochs, saved) = (50, 4, 3);
    let given = [("epoch", lines + PAUSE), ("save_lines", saved)];
    let stats = counted("frm", &given, &rounds(lines, epochs));
    let flushed = epochs * (lines + saved);
    assert_eq!(counter(&stats, "epochs"), epochs);
    assert_eq!(counter(&stats, "undo_entries"), flushed);
    assert_eq!(reads(&stats), flushed + lines + saved, "old lines, and fills");
    assert_eq!(writes(&stats, "log"), 2 * flushed, "one block of two lines each");
    assert_eq!(writes(&stats, "epoch flush"), flushed);
    assert_eq!(writes(&stats, "commit record"), epochs);
}

/// Memory at the end of an epoch, by what cores stored.
fn memory(journal: &TimedJournal, epoch: u64, lines: u64) -> Vec<u8> {
    let mut memory = vec![0; 64 * lines as usize];
    let end = journal.ended_epochs().iter().find(|end| end.epoch == epoch);
    let stores = end.map_or(0, |end| end.stores);
    for (at, word) in &journal.stored_words()[..stores] {
        memory[at.0 as usize..][..8].copy_from_slice(word);
    }
    memory
}

/// Recovers a crash behind every entry, and demands the end of the epoch that recovery names. Returns
/// the epochs that were named.
fn crash(prepared: &dyn Prepared, machine: &dyn Machine, what: &str) -> Vec<u64> {
    let journal = machine.journal().unwrap();
    let mut image = vec![0; 64 * prepared.lines() as usize];
    let mut cursor = journal.journal().cursor();
    let entries = journal.journal().len();
    let mut named: Vec<u64> = Vec::new();
    let mut expected = Vec::new();
    for entry in 0..=entries {
        cursor.advance_to_entry(entry, &mut image, |_| {});
        let now = match entry < entries {
            true => Cycle(journal.at(entry).0.saturating_sub(1)),
            false => Cycle::NEVER,
        };
        let what = format!("{what}, behind entry {entry} of {entries}");
        let patches = prepared.recover(Image::new(&image)).unwrap();
        let undo = apply(&patches, &mut image);
        let again = prepared.recover(Image::new(&image)).unwrap();
        assert!(again.is_empty(), "{what}: recovered twice: {again:?}");
        let epoch = prepared.epoch(Image::new(&image)).unwrap();
        assert!(epoch >= journal.persisted_by(now), "{what}: {epoch}");
        if named.last() != Some(&epoch) {
            expected = memory(journal, epoch, prepared.epoch_lines());
            named.push(epoch);
        }
        let differs = expected.iter().zip(&image).position(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}: not as at the end of epoch {epoch}");
        apply(&undo, &mut image);
    }
    named
}

/// Figure 6: epoch 1 stores to A, B and C; epoch 2 to A; epoch 3 evicts A, stores to C and evicts B.
#[test]
fn the_papers_example_has_its_entries_and_one_line_to_scan() {
    let (a, b, c) = (100, 101, 102);
    let mut log = OpLog::default();
    let evict = |log: &mut OpLog, line| {
        log.op(LaneId(0), Op::Flush { kind: FlushKind::ClflushOpt, line: LineAddr(line) });
    };
    [a, b, c].into_iter().for_each(|line| store(&mut log, line, 1));
    pause(&mut log);
    store(&mut log, a, 2);
    log.op(LaneId(0), Op::Compute(2));
    pause(&mut log);
    evict(&mut log, a);
    store(&mut log, c, 3);
    evict(&mut log, b);
    pause(&mut log);
    log.op(LaneId(0), Op::Compute(3 * (PAUSE as u32 + 3))); // Epochs 4 to 6 store nothing.
    let given = [("epoch", PAUSE + 3), ("save_lines", 1), ("acs_gap", 2)];
    let prepared = prepared("picl", &given, 1, &log);
    let mut machine = run(&bare("inorder"), prepared.as_ref(), 1);
    let stats = machine.take_stats();
    assert_eq!(counter(&stats, "epochs"), 6);
    assert_eq!(writes(&stats, "cache scan"), 1, "C3, by the third scan");
    let named = crash(prepared.as_ref(), machine.as_ref(), "Fig. 6");
    assert_eq!(named, [0, 1, 2, 3, 4]);
    // What the log has of the three, in its order.
    let mut image = vec![0; 64 * prepared.lines() as usize];
    let journal = machine.journal().unwrap().journal();
    journal.cursor().advance_to_entry(journal.len(), &mut image, |_| {});
    let word = |line: u64, word: u64| Image::new(&image).word(LineAddr(line), word);
    let header = LINES + 1;
    let blocks = (0..).map(|number| header + 1 + 32 * number);
    let blocks = blocks.take_while(|block| word(*block, 0) != 0);
    let entries = blocks.flat_map(|block| {
        let (base, count) = (word(block, 1), word(block, 2) & 0xffff);
        (0..count).map(move |entry| {
            let of = word(block + (4 + entry) / 8, (4 + entry) % 8);
            let epoch = |by: u32| base + (of >> by & 0x7fff);
            (of & ((1 << 34) - 1), epoch(34), epoch(49), word(block + 4 + entry, 0))
        })
    });
    let entries: Vec<_> = entries.filter(|entry| entry.0 < LINES).collect();
    let expected = [(a, 0, 1, 0), (b, 0, 1, 0), (c, 0, 1, 0), (a, 1, 2, 1), (c, 1, 3, 1)];
    assert_eq!(entries, expected);
}

/// What a program may do to memory, by two lanes to the same lines.
fn program(seed: u64, count: u64) -> OpLog {
    let mut draw = Random::from_state(seed);
    let mut log = OpLog::default();
    for number in 0..count {
        let lane = LaneId(draw.below(2) as u16);
        let line = LineAddr(draw.below(48));
        let at = line.start().plus(8 * draw.below(8));
        let value = (number << 8 | draw.below(256)).to_le_bytes();
        match draw.below(24) {
            0 => log.op(lane, Op::StoreNt { at, bytes: &value }),
            1 => log.op(lane, Op::Store64 { line, bytes: &[value[0] | 1; 64] }),
            2 => log.op(lane, Op::Flush { kind: FlushKind::Clwb, line }),
            3 => log.op(lane, Op::Flush { kind: FlushKind::Clflush, line }),
            4 => log.op(lane, Op::Rmw { at, bytes: &value }),
            5 => log.op(lane, Op::Sfence),
            6 => log.op(lane, Op::Load { at, len: 8, depends: None }),
            7 => log.op(lane, Op::Store { at, bytes: &value[..3] }),
            8 => log.op(lane, Op::Compute(draw.below(40) as u32)),
            9 if number % 3 == 0 => log.op(lane, Op::Epoch),
            _ => log.op(lane, Op::Store { at, bytes: &value }),
        }
    }
    log
}

const SMALL: [(&str, u64); 7] = [
    ("epoch", 40),
    ("save_lines", 1),
    ("acs_gap", 1),
    ("undo_entries", 4),
    ("bloom_bits", 256),
    ("log", 32 * 320),
    ("log_growths", 31),
];

/// The same with quarters of lines, and a log for entries that are as many as four times.
const QUARTERS: [(&str, u64); 8] = [
    ("quarters", 1),
    ("epoch", 40),
    ("save_lines", 1),
    ("acs_gap", 1),
    ("undo_entries", 4),
    ("bloom_bits", 256),
    ("log", 64 * 320),
    ("log_growths", 31),
];

/// Tables that are full again and again: of lines, of pages, of both.
const LINES_TABLE: [(&str, u64); 4] =
    [("epoch", 40), ("save_lines", 1), ("table_entries", 8), ("table_ways", 2)];
const PAGES_TABLE: [(&str, u64); 4] =
    [("epoch", 40), ("save_lines", 1), ("table_entries", 1), ("table_ways", 1)];
const BOTH_TABLES: [(&str, u64); 6] = [
    ("epoch", 40),
    ("save_lines", 1),
    ("line_entries", 8),
    ("page_entries", 2),
    ("table_ways", 2),
    ("page_after", 3),
];

#[test]
fn whatever_a_program_does_an_epoch_is_whole() {
    for (scheme, given, shown_by, least) in [
        ("picl", &SMALL[..], "undo_entries", 80),
        ("picl", &QUARTERS[..], "undo_entries", 80),
        ("frm", &SMALL[..2], "undo_entries", 80),
        ("journaling", &LINES_TABLE[..], "lines_past_tables", 80),
        ("shadow", &PAGES_TABLE[..], "block_operations", 10),
        ("thynvm", &BOTH_TABLES[..], "lines_copied_on_write", 10),
    ] {
        for seed in 1..3 {
            for machine in [
                &[][..],
                &[("core.threads", "1"), ("core.kind", "inorder")],
                &[("memory.adr", "false")],
                &[("memory.adr", "false"), ("memory.channels", "2")],
                &[("caches.inclusion", "exclusive")],
                &[("l1.write_through", "true")],
                &[("l2.size", "1 KiB"), ("l2.ways", "4")],
            ] {
                let mut config = MachineConfig::named("tiny").unwrap();
                for (key, value) in machine {
                    config.set_option(key, value).unwrap();
                }
                let prepared = prepared(scheme, given, 2, &program(seed, 450));
                let mut ran = run(&config, prepared.as_ref(), 2);
                let what = format!("{scheme}, seed {seed}, {}", config.name);
                let named = crash(prepared.as_ref(), ran.as_ref(), &what);
                assert!(named.len() > 4, "{what}: {named:?}");
                assert!(counter(&ran.take_stats(), shown_by) > least, "{what}");
            }
        }
    }
}

/// The smallest log, which is full again and again and does not grow: epochs end early, and the world
/// stands until they have persisted. And one that grows a little first.
#[test]
fn a_full_log_grows_and_then_ends_epochs() {
    let block = 5 * 64;
    for (places, growths) in [(300, 0), (30, 9)] {
        let given =
            [&SMALL[1..], &[("epoch", 2000), ("log", places * block), ("log_growths", growths)]]
                .concat();
        let prepared = prepared("picl", &given, 2, &program(7, 3000));
        let mut ran = run(&MachineConfig::named("tiny").unwrap(), prepared.as_ref(), 2);
        let what = format!("{places} places, {growths} growths");
        let named = crash(prepared.as_ref(), ran.as_ref(), &what);
        let stats = ran.take_stats();
        assert!(counter(&stats, "log_exhausted") > 1, "{what}: {stats:?}");
        assert_eq!(counter(&stats, "epochs_early"), counter(&stats, "log_exhausted"), "{what}");
        assert_eq!(counter(&stats, "log_growths"), growths, "{what}");
        assert!(named.len() > 2, "{what}: {named:?}");
    }
    let log = program(7, 10);
    let given = [&SMALL[1..], &[("log", 10 * block), ("log_growths", 1)]].concat();
    let prepared = prepared("picl", &given, 2, &log);
    let config = MachineConfig::named("tiny").unwrap();
    let error = prepared.machine(&config, Setup::default(), Vec::new()).err().unwrap();
    assert!(error.to_string().contains("a log of 20 blocks may be full"), "{error}");
}

/// The same of the log in memory: an epoch ends while the caches still fit into it.
#[test]
fn an_epoch_ends_before_its_log_is_full() {
    let given = [("epoch", 100_000), ("save_lines", 1), ("log", 1 << 16)];
    let prepared = prepared("frm", &given, 2, &program(3, 4000));
    let mut ran = run(&MachineConfig::named("tiny").unwrap(), prepared.as_ref(), 2);
    let named = crash(prepared.as_ref(), ran.as_ref(), "frm");
    let early = counter(&ran.take_stats(), "epochs_early");
    assert!(early > 2 && named.len() as u64 == early + 1, "{early}: {named:?}");
}

/// Output of an epoch is held until that has persisted; at once, if that is asked for.
#[test]
fn output_waits_for_its_epoch() {
    let mut log = OpLog::default();
    for n in 0..400 {
        store(&mut log, n % 30, n);
        if n == 105 {
            log.op(LaneId(0), Op::Epoch);
        }
    }
    let delay = |gap, persist| {
        let given = [("epoch", 50), ("acs_gap", gap), ("persist_output", persist)];
        let stats = counted("picl", &given, &log);
        assert_eq!(counter(&stats, "outputs"), 1);
        assert_eq!(counter(&stats, "output_cycles"), counter(&stats, "output_cycles_max"));
        (counter(&stats, "output_cycles"), counter(&stats, "epochs_early"))
    };
    let waits: Vec<_> = [0, 1, 2, 3].map(|gap| delay(gap, 0)).to_vec();
    assert!(waits.windows(2).all(|pair| pair[0].0 < pair[1].0), "{waits:?}");
    let at_once = delay(3, 1);
    assert!(at_once.0 < waits[1].0 && at_once.1 == 1, "{at_once:?} {waits:?}");
}

/// Instructions take a cycle each, and nothing is stored. Output that comes N instructions earlier
/// in its epoch is held N cycles longer, whatever the scheme does at the epoch's end.
#[test]
fn output_is_held_for_the_rest_of_its_epoch_under_every_scheme() {
    const EPOCH: u64 = 2000;
    for scheme in ["picl", "frm", "journaling", "shadow", "thynvm"] {
        let delay = |before: u64, at_once: bool| {
            let mut log = OpLog::default();
            store(&mut log, 1, 1);
            log.op(LaneId(0), Op::Compute(EPOCH as u32 / 2 + before as u32));
            log.op(LaneId(0), Op::Epoch);
            log.op(LaneId(0), Op::Compute(20 * EPOCH as u32));
            let at_once = u64::from(at_once);
            let given = [("epoch", EPOCH), ("save_lines", 1), ("persist_output", at_once)];
            let stats = counted(scheme, &given, &log);
            let of = |name| counter(&stats, name);
            assert_eq!(of("outputs"), 1, "{scheme}");
            let all = ["output_cycles", "output_cycles_mean", "output_cycles_p99"].map(of);
            assert!(
                all.iter().all(|cycles| *cycles == of("output_cycles_max")),
                "{scheme}: {all:?}"
            );
            assert_eq!(of("epochs_early"), at_once, "{scheme}");
            all[0]
        };
        let early = delay(100, false);
        assert!(early > EPOCH / 2 - 100, "{scheme}: {early}");
        assert_eq!(early - delay(600, false), 500, "{scheme}");
        assert!(delay(100, true) < early, "{scheme}");
    }
}
