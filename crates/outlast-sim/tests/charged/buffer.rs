//! A buffer of volatile memory in front of the persistent one: its time and traffic by closed formulas,
//! and what a crash has of it.

use super::{PATH, READ, loads, run, store, with};
use outlast_sim::Domain;
use outlast_sim::timed::{LaneOps, MachineConfig, MachineError, NonPers, Setup, Source, System};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Random, Sink};
use std::sync::Arc;

/// Cycles of a lookup in the buffer, and from an activate of its memory to a line's last data.
const LOOKUP: u64 = 3;
const DRAM_READ: u64 = 5 + 5 + 2;
/// Lines of the last level, and those that work goes round.
const LLC: u64 = 128;
const LINES: u64 = 4 * LLC;

/// A small machine with a buffer of `lines` lines.
fn machine(kind: &str, mode: &str, lines: u64) -> MachineConfig {
    let dram: &[(&str, &str)] = &[
        ("dram.preset", "ddr4-3200"),
        ("dram.clock", "1 GHz"),
        ("dram.path", "0 ns"),
        ("dram.page", "closed"),
        ("dram.bank_queue", "0"),
        ("dram.tREFI", "0 ns"),
        ("dram.drain_idle", "1"),
        // A row that is opened again at once costs no more than another.
        ("dram.tRP", "0 ns"),
        ("dram.tRCD", "5 ns"),
        ("dram.tCL", "5 ns"),
        ("dram.tBURST", "2 ns"),
        ("buffer.lookup", "3 cycles"),
    ];
    let mut config =
        with(kind, &[("l1.size", "1 KiB"), ("l2.size", "2 KiB"), ("llc.size", "8 KiB")]);
    let size = format!("{} B", 64 * lines);
    let dram = if mode == "none" { &[] } else { dram };
    for (key, value) in dram.iter().chain(&[("buffer.mode", mode), ("buffer.size", &size)]) {
        config.set_option(key, value).unwrap();
    }
    config
}

/// Lines round and round: more than caches hold.
fn rounds(count: u64) -> impl Iterator<Item = u64> {
    (0..count).flat_map(|_| 0..LINES)
}

/// Reads and writes of the persistent memory, and of the volatile one.
fn traffic(system: &mut System<NonPers>) -> [u64; 4] {
    let stats = system.take_stats();
    let dram = stats.dram.unwrap_or_default();
    [stats.memory.reads, stats.memory.writes, dram.reads, dram.writes]
}

#[test]
fn a_line_that_it_has_takes_the_time_of_its_memory_and_one_that_it_has_not_a_lookup_more() {
    for kind in ["ooo", "inorder"] {
        let mut without = run(&machine(kind, "none", 0), NonPers, loads(rounds(2)));
        assert_eq!(traffic(&mut without), [2 * LINES, 0, 0, 0], "{kind}");
        for mode in ["write-through", "write-back"] {
            let mut with = run(&machine(kind, mode, 2 * LINES), NonPers, loads(rounds(2)));
            // The first round fills it, and the second one finds all there.
            let spared = LINES * (2 * PATH + READ - DRAM_READ);
            assert_eq!(
                with.now().0 + spared,
                without.now().0 + 2 * LINES * LOOKUP,
                "{kind}, {mode}"
            );
            assert_eq!(traffic(&mut with), [LINES, 0, LINES, LINES], "{kind}, {mode}");
        }
    }
}

fn stores(count: u64) -> OpLog {
    let mut log = OpLog::default();
    rounds(count).zip(1..).for_each(|(line, value)| store(&mut log, line, value));
    log
}

#[test]
fn writes_of_each_memory_are_those_of_the_closed_formula() {
    // The last level evicts each line that it brings, but for those that it holds at the end.
    let evicted = 2 * LINES - LLC;
    for kind in ["ooo", "inorder"] {
        for (mode, lines, expected) in [
            ("none", 0, [2 * LINES, evicted, 0, 0]),
            // Filled in the first round, and written with each eviction.
            ("write-through", 2 * LINES, [LINES, evicted, LINES, LINES + evicted]),
            ("write-back", 2 * LINES, [LINES, 0, LINES, LINES + evicted]),
            // Half as large as the work: each line has left when it is wanted again, dirty.
            (
                "write-back",
                LINES / 2,
                [2 * LINES, 2 * LINES - LINES / 2, 2 * LINES - LINES / 2, 2 * LINES + evicted],
            ),
        ] {
            let mut system = run(&machine(kind, mode, lines), NonPers, stores(2));
            let of = format!("{kind}, {mode}, {lines} lines");
            for line in 0..LINES {
                let word = *system.line(LineAddr(line)).first_chunk().unwrap();
                assert_eq!(u64::from_le_bytes(word), LINES + line + 1, "{of}: line {line}");
            }
            // Only what went to persistent memory survives a crash.
            let durable = system.journal().unwrap().journal().len() as u64;
            let traffic = traffic(&mut system);
            assert_eq!((traffic, durable), (expected, expected[1]), "{of}");
            assert!(system.is_idle(), "{of}");
        }
    }
}

/// A store that has left all caches for the buffer is flushed from there.
fn flushed_late() -> OpLog {
    let mut log = stores(1);
    log.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line: LineAddr(0) });
    log.op(LaneId(0), Op::Sfence);
    log
}

#[test]
fn a_flush_reaches_memory_through_the_buffer_and_is_lost_where_that_is_planted() {
    for kind in ["ooo", "inorder"] {
        let config = machine(kind, "write-back", 2 * LINES);
        for planted in [false, true] {
            let source: Box<dyn Source> =
                Box::new(LaneOps::new(Arc::new(flushed_late()), LaneId(0)));
            let journal = Some(Domain::Adr);
            let setup = Setup { journal, flushes_end_in_buffer: planted, ..Setup::default() };
            let mut system = System::new(&config, NonPers, setup, vec![source]).unwrap();
            system.run_to_end().unwrap();
            let journal = system.journal().unwrap().journal();
            let durable: Vec<_> = (0..journal.len())
                .map(|n| (journal.get(n).line, journal.get(n).words[0]))
                .collect();
            let expected = if planted { vec![] } else { vec![(LineAddr(0), 1u64.to_le_bytes())] };
            assert_eq!(durable, expected, "{kind}, planted {planted}");
        }
    }
}

#[test]
fn whatever_a_program_does_it_finds_its_own_bytes() {
    for kind in ["ooo", "inorder"] {
        for inclusion in ["inclusive", "exclusive"] {
            for mode in ["write-through", "write-back"] {
                let mut config = machine(kind, mode, LLC * 2);
                config.set_option("caches.inclusion", inclusion).unwrap();
                let mut random = Random::new(7);
                let mut draw = |below| random.below(below);
                let mut expected = vec![[0u64; 8]; LINES as usize];
                let mut log = OpLog::default();
                for value in 1..20_000u64 {
                    let (line, word) = (draw(LINES), draw(8));
                    let (at, bytes) = (PoolOffset(64 * line + 8 * word), &value.to_le_bytes());
                    let line = LineAddr(line);
                    log.op(
                        LaneId(0),
                        match draw(12) {
                            0 => Op::Flush { kind: FlushKind::Clwb, line },
                            1 => Op::Flush { kind: FlushKind::ClflushOpt, line },
                            2 => Op::Sfence,
                            3..=5 => Op::Load { at, len: 8, depends: None },
                            kind => {
                                expected[line.0 as usize][word as usize] = value;
                                match kind {
                                    6 | 7 => Op::StoreNt { at, bytes },
                                    _ => Op::Store { at, bytes },
                                }
                            }
                        },
                    );
                }
                log.op(LaneId(0), Op::Sfence);
                let mut system = run(&config, NonPers, log);
                for (line, words) in expected.iter().enumerate() {
                    let found = system.line(LineAddr(line as u64));
                    let found =
                        found.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
                    assert!(found.eq(*words), "{kind}, {inclusion}, {mode}: line {line}");
                }
                assert!(system.is_idle(), "{kind}, {inclusion}, {mode}");
            }
        }
    }
}

#[test]
fn what_is_wrong_with_it_is_said_in_one_line() {
    let wrong = |options: &[(&str, &str)]| -> String {
        let mut config = with("inorder", &[]);
        let set = options.iter().try_for_each(|(key, value)| config.set_option(key, value));
        let error: MachineError = set.and_then(|()| config.validate()).unwrap_err();
        error.to_string()
    };
    let dram = ("dram.preset", "ddr4-3200");
    let mode = ("buffer.mode", "write-back");
    assert!(wrong(&[mode]).ends_with("buffer.mode needs dram.preset, the memory it lies in"));
    assert_eq!(
        wrong(&[("buffer.mode", "writeback")]),
        "--set: buffer.mode = writeback is not right: give none, write-through or write-back"
    );
    assert!(wrong(&[dram, mode, ("buffer.size", "100 B")]).contains("buffer.size: "));
    assert_eq!(
        wrong(&[("buffer.sise", "1 MiB")]),
        "--set: no key is named 'buffer.sise'; did you mean 'buffer.size'?"
    );
    assert!(
        wrong(&[dram, mode, ("buffer.ways", "0")]).ends_with("buffer.ways is 0: take 1 to 1024")
    );
}
