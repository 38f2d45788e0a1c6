//! The timed machine against closed formulas, reference computations and the atomic driver.

use crate::machine::{Script, bare, chase, cycles, run};
use outlast_sim::timed::{
    Cycle, LaneOps, MachineConfig, MemoryRequest, NonPers, Pattern, Setup, Source, Stream, System,
    replay,
};
use outlast_sim::{AtomicConfig, AtomicDriver, Domain, FlushCompletion, Inclusion};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, TxId, word_pieces};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The cost of one more operation at the end of a run: what is before it does not count.
fn more(config: &MachineConfig, few: &OpLog, many: &OpLog, by: u64) -> f64 {
    (cycles(config, many) - cycles(config, few)) as f64 / by as f64
}

#[test]
fn a_pointer_chase_takes_the_latency_of_its_level() {
    for kind in ["ooo", "inorder"] {
        let mut config = bare(kind);
        let steps = |config: &MachineConfig, lines, stride| {
            let (few, many) = (chase(4 * lines, lines, stride), chase(6 * lines, lines, stride));
            more(config, &few, &many, 2 * lines)
        };
        // L1 4, L2 + 10, LLC + 30 cycles; the working set misses the level above every time.
        assert_eq!(steps(&config, 8, 1), 4.0, "{kind}: first level");
        assert_eq!(steps(&config, 128, 1), 14.0, "{kind}: second level");
        assert_eq!(steps(&config, 1024, 1), 44.0, "{kind}: last level");
        // Memory at the core's clock: path 2 x 10, open row CL 20 and burst 4.
        config.set_option("memory.page", "open").unwrap();
        assert_eq!(
            steps(&config, 1 << 14, 1),
            44.0 + 20.0 + 24.0 + 20.0 / 32.0 * 2.0,
            "{kind}: rows"
        );
    }
}

#[test]
fn a_bank_whose_rows_conflict_costs_its_row_cycle() {
    // Lines one bank's rows apart: each access closes a row and opens one.
    let config = bare("ooo");
    let conflict = 8 * 32;
    let (few, many) = (chase(400, 1 << 13, conflict), chase(600, 1 << 13, conflict));
    let per_load = more(&config, &few, &many, 200);
    // 44 for the lookups, 20 path, tRP 20, tRCD 20, CL 20, burst 4.
    assert_eq!(per_load, 44.0 + 20.0 + 20.0 + 20.0 + 24.0);
}

#[test]
fn independent_loads_are_limited_by_registers_and_latency() {
    // Random rows of eight banks with one register: no overlap at all; with more there is.
    let mut config = bare("ooo");
    let per_load = |config: &MachineConfig| {
        let script = |n: u64| {
            let mut log = OpLog::default();
            for k in 0..n {
                let at = LineAddr(k * 32 % (1 << 16) + k / 2048 % 32).start();
                log.op(LaneId(0), Op::Load { at, len: 8, depends: None });
            }
            log
        };
        more(config, &script(1000), &script(1800), 800)
    };
    config.set_option("l1.mshrs", "1").unwrap();
    let alone = per_load(&config);
    assert!((alone - (44.0 + 20.0 + 20.0 + 20.0 + 24.0)).abs() < 1.0, "{alone}");
    config.set_option("l1.mshrs", "4").unwrap();
    let four = per_load(&config);
    assert!((alone / four - 4.0).abs() < 0.1, "{alone} and {four}");
}

#[test]
fn a_fence_waits_for_the_flush_and_nothing_more() {
    for kind in ["ooo", "inorder"] {
        let config = bare(kind);
        let script = |n: u64| {
            let mut script = Script::default();
            for _ in 0..n {
                script.store(0, 1).flush(0).fence();
            }
            script.0
        };
        let per_persist = more(&config, &script(50), &script(150), 100);
        // All levels 44, to the controller 10, back 10; retire, drain and dispatch a few cycles.
        assert!((64.0..=70.0).contains(&per_persist), "{kind}: {per_persist}");
        let mut far = config.clone();
        far.set_option("memory.path", "110 cycles").unwrap();
        assert_eq!(more(&far, &script(50), &script(150), 100), per_persist + 200.0, "{kind}");
        far.set_option("memory.adr", "false").unwrap();
        let durable_at_cells = more(&far, &script(50), &script(150), 100);
        assert!(durable_at_cells > per_persist + 200.0 + 40.0, "{kind}: {durable_at_cells}");
        far.set_option("memory.row_durable", "true").unwrap();
        let durable_in_row = more(&far, &script(50), &script(150), 100);
        assert_eq!(durable_in_row, durable_at_cells - 100.0, "{kind}: without tWR");
    }
}

#[test]
fn a_flush_of_a_line_that_is_on_its_way_waits_until_it_is_durable() {
    for (kind, adr) in [("ooo", "true"), ("ooo", "false"), ("inorder", "true")] {
        let mut config = bare(kind);
        config.core.count = 2;
        config.set_option("memory.path", "500 cycles").unwrap();
        config.set_option("memory.adr", adr).unwrap();
        let flush = Op::Flush { kind: FlushKind::Clwb, line: LineAddr(0) };
        let mut log = OpLog::default();
        log.op(LaneId(0), Op::Store { at: PoolOffset(0), bytes: &[7; 8] });
        log.op(LaneId(0), flush);
        log.op(LaneId(0), Op::Signal { id: 1, count: 1 });
        log.op(LaneId(1), Op::Wait { id: 1, count: 1 });
        // Long enough for the first flush to pass the caches, and not to arrive anywhere.
        log.op(LaneId(1), Op::Compute(200));
        for op in [flush, Op::Sfence, Op::Ack(TxId(1))] {
            log.op(LaneId(1), op);
        }
        let log = Arc::new(log);
        let source =
            |lane| -> Box<dyn Source> { Box::new(LaneOps::new(Arc::clone(&log), LaneId(lane))) };
        let setup = Setup { journal: Some(Domain::Adr), ..Setup::default() };
        let mut system = System::new(&config, NonPers, setup, vec![source(0), source(1)]).unwrap();
        system.run_to_end().unwrap();
        let journal = system.journal().unwrap();
        assert_eq!(journal.journal().len(), 1, "{kind}: the second flush found a clean line");
        let (acknowledged, _) = journal.acknowledged_by(Cycle(u64::MAX))[0];
        assert!(acknowledged >= journal.at(0), "{kind}, adr {adr}: {acknowledged}");
    }
}

#[test]
fn writes_cannot_leave_faster_than_cells_are_written() {
    // Streamed lines of one bank, each in another row: a row cycle with tWR each, once the queue
    // is full.
    let config = bare("ooo");
    let script = |n: u64| {
        let mut log = OpLog::default();
        for k in 0..n {
            log.op(LaneId(0), Op::Store64 { line: LineAddr(k * 8 * 32), bytes: &[1; 64] });
        }
        log
    };
    let per_line = more(&config, &script(400), &script(500), 100);
    // tRP 20, tRCD 20, CWL 20, burst 4, tWR 100.
    assert!((per_line - 164.0).abs() < 8.0, "{per_line}");
}

#[test]
fn memory_alone_keeps_its_closed_form_bandwidth() {
    let mut server = MachineConfig::named("server").unwrap();
    // One rank, which every refresh stops.
    server.set_option("memory.ranks", "1").unwrap();
    let all_at_once = |n: u64, line: fn(u64) -> u64| -> Vec<MemoryRequest> {
        (0..n).map(|k| MemoryRequest { line: LineAddr(line(k)), write: false, at: 0 }).collect()
    };
    // One row after the other of one bank group: tCCD_L = 8 clocks of 0.625 ns a line.
    let mut machine = server.clone();
    machine.set_option("memory.mapping", "row channel rank bank group column").unwrap();
    let sequential = replay(&machine.memory, &all_at_once(20_000, |k| k / 128 * 512 + k % 128));
    let refresh = 1.0 - 560.0 / 12_480.0;
    let expected = 64.0 / (8.0 * 0.625e-9) * refresh;
    assert!((sequential.bandwidth / expected - 1.0).abs() < 0.03, "{sequential:?}");
    // The preset has groups in turn: tCCD_S = 4 clocks, and a stream gets all of the bus.
    let sequential = replay(&server.memory, &all_at_once(20_000, |k| k));
    let expected = 64.0 / (4.0 * 0.625e-9) * refresh;
    assert!((sequential.bandwidth / expected - 1.0).abs() < 0.04, "{sequential:?}");
    // One at a time, far apart: a clock to the bank, tRP + tRCD + CL + burst, unless a refresh closed the row.
    let alone: Vec<_> = (0..2000)
        .map(|k: u64| MemoryRequest {
            line: LineAddr(k.wrapping_mul(0x9e37_79b9) % (1 << 24)),
            write: false,
            at: 2000 * k,
        })
        .collect();
    let latency = replay(&server.memory, &alone).read_latency_clocks;
    assert!((0.9..=1.0).contains(&(latency / 71.0)), "{latency} clocks");
}

#[test]
fn the_same_seed_gives_the_same_result_and_few_ticks() {
    // Events and ticks per instruction hold what skipping ahead saves; no clock is involved.
    let limits = [
        (Pattern::Friendly, "ooo", 0.10, 0.30),
        (Pattern::Friendly, "inorder", 0.01, 0.01),
        (Pattern::Stride, "ooo", 0.60, 0.40),
        (Pattern::Stride, "inorder", 0.70, 0.20),
        (Pattern::Random, "ooo", 6.5, 1.6),
        (Pattern::Random, "inorder", 5.5, 0.9),
    ];
    for (pattern, kind, events, ticks) in limits {
        let once = || {
            let mut config = MachineConfig::named("server").unwrap();
            config.set_option("core.kind", kind).unwrap();
            let source: Box<dyn Source> = Box::new(Stream::new(pattern, 5));
            let mut system = System::new(&config, NonPers, Setup::default(), vec![source]).unwrap();
            system.run(20_000).unwrap();
            system.take_stats();
            system.run(60_000).unwrap();
            system.take_stats()
        };
        let (first, again) = (once(), once());
        assert_eq!(first, again, "{pattern:?} {kind}");
        let per_instr = |count: u64| count as f64 / first.instructions() as f64;
        let (had_events, had_ticks) = (per_instr(first.events), per_instr(first.ticks()));
        assert!(
            had_events <= events && had_ticks <= ticks,
            "{pattern:?} {kind}: {had_events} events and {had_ticks} ticks an instruction"
        );
    }
}

/// What a program does, for several lanes in one order.
#[derive(Clone, Debug)]
enum Step {
    Load(u64),
    Store(u64, u8, usize),
    Flush(u64, u8),
    Fence,
    Stream(u64, u8),
    Line(u64, u8),
    Compute(u32),
}

fn any_step(lines: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..lines * 64 - 8).prop_map(Step::Load),
        8 => (0..lines * 64 - 100, any::<u8>(), 1..100usize)
            .prop_map(|(at, byte, len)| Step::Store(at, byte, len)),
        3 => (0..lines, 0..3u8).prop_map(|(line, kind)| Step::Flush(line, kind)),
        1 => Just(Step::Fence),
        1 => (0..lines * 8, any::<u8>()).prop_map(|(word, byte)| Step::Stream(word, byte)),
        1 => (0..lines, any::<u8>()).prop_map(|(line, byte)| Step::Line(line, byte)),
        2 => (1..40u32).prop_map(Step::Compute),
    ]
}

fn play(steps: &[(u16, Step)], streams: bool) -> OpLog {
    let mut log = OpLog::default();
    for (lane, step) in steps {
        let lane = LaneId(*lane);
        match *step {
            Step::Load(at) => {
                log.op(lane, Op::Load { at: PoolOffset(at), len: 8, depends: Some(1) });
            }
            Step::Store(at, byte, len) => {
                log.op(lane, Op::Store { at: PoolOffset(at), bytes: &vec![byte; len] });
            }
            Step::Flush(line, kind) => {
                let kinds = [FlushKind::Clwb, FlushKind::ClflushOpt, FlushKind::Clflush];
                let kind = kinds[usize::from(kind)];
                log.op(lane, Op::Flush { kind, line: LineAddr(line) });
            }
            Step::Fence => log.op(lane, Op::Sfence),
            Step::Stream(word, byte) if streams => {
                log.op(lane, Op::StoreNt { at: PoolOffset(8 * word), bytes: &[byte; 8] });
            }
            Step::Line(line, byte) if streams => {
                log.op(lane, Op::Store64 { line: LineAddr(line), bytes: &[byte; 64] });
            }
            Step::Stream(..) | Step::Line(..) => {}
            Step::Compute(n) => log.op(lane, Op::Compute(n)),
        }
    }
    log
}

/// The same with each load and store cut into its aligned words, and if that is wanted a fence
/// behind each store.
fn by_words(log: &OpLog, fences: bool) -> OpLog {
    let mut words = OpLog::default();
    for (lane, op) in log.iter() {
        let (at, bytes) = match op {
            Op::Load { at, len, depends } => {
                for (at, len) in word_pieces(at, len as usize) {
                    words.op(lane, Op::Load { at, len: len as u32, depends });
                }
                continue;
            }
            Op::Store { at, bytes } => (at, bytes),
            other => {
                words.op(lane, other);
                continue;
            }
        };
        let mut rest = bytes;
        for (at, len) in word_pieces(at, bytes.len()) {
            let (bytes, tail) = rest.split_at(len);
            rest = tail;
            words.op(lane, Op::Store { at, bytes });
            if fences {
                words.op(lane, Op::Mfence);
            }
        }
    }
    words
}

/// The bytes that a memory without caches holds in the end.
fn reference(log: &OpLog, bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    for (_, op) in log.iter() {
        match op {
            Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
                memory[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            Op::Store64 { line, bytes } => {
                memory[line.start().0 as usize..][..64].copy_from_slice(bytes);
            }
            _ => {}
        }
    }
    memory
}

const LINES: u64 = 96;

/// Those of the crash emulator, by name.
fn any_policy() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec!["lru", "plru", "bip", "random", "adversarial"])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_image_after_a_run_is_that_of_a_flat_memory(
        steps in proptest::collection::vec((Just(0u16), any_step(LINES)), 1..300),
        kind in prop_oneof![Just("ooo"), Just("inorder")],
        inclusion in prop_oneof![Just("inclusive"), Just("exclusive")],
        adr in any::<bool>(), through in any::<bool>(),
        prefetch in 0..4u32, banks in 0..3u32, policy in any_policy(),
    ) {
        let mut config = bare(kind);
        for key in ["l1.policy", "l2.policy", "llc.policy"] {
            config.set_option(key, policy).unwrap();
        }
        config.extras.prefetch = prefetch;
        (config.extras.l1_banks, config.extras.llc_banks) = (banks, banks);
        for (key, value) in [
            ("l1.size", "512 B"), ("l2.size", "1 KiB"), ("l2.ways", "4"), ("llc.size", "2 KiB"),
            ("memory.write_buffer", "2"), ("memory.write_queue", "4"), ("memory.drain_high", "3"),
            ("memory.drain_low", "1"), ("memory.read_queue", "2"), ("core.flushes", "3"),
            ("caches.wc_lines", "2"), ("caches.inclusion", inclusion),
            ("tlb.page", "4 KiB"), ("core.clock", "2.5 GHz"),
        ] {
            config.set_option(key, value).unwrap();
        }
        config.memory.adr = adr;
        config.extras.write_through = through && inclusion == "inclusive";
        let log = play(&steps, true);
        let expected = reference(&log, (LINES as usize + 2) * 64);
        let mut system = run(&config, log, Some(Domain::Adr));
        for (number, line) in expected.as_chunks::<64>().0.iter().enumerate() {
            prop_assert_eq!(&system.line(LineAddr(number as u64)), line, "line {}", number);
        }
        prop_assert!(system.is_idle());
    }

    #[test]
    fn without_latencies_the_journal_is_the_atomic_drivers(
        steps in proptest::collection::vec((Just(0u16), any_step(LINES)), 1..300),
        exclusive in any::<bool>(), has_l2 in any::<bool>(), eadr in any::<bool>(),
        through in any::<bool>(), policy in any_policy(),
    ) {
        let mut config = MachineConfig::from_toml("none", crate::machine::NO_TIME).unwrap();
        for key in ["l1.policy", "l2.policy", "llc.policy"] {
            config.set_option(key, policy).unwrap();
        }
        config.inclusion = if exclusive { Inclusion::Exclusive } else { Inclusion::Inclusive };
        if has_l2 {
            config.set_option("l2.size", "1 KiB").unwrap();
        }
        config.extras.write_through = through && !exclusive;
        let domain = if eadr { Domain::Eadr } else { Domain::Adr };
        // The timed machine stores word by word, which policies that count accesses notice; and a
        // line may arrive before the store to it happens, which one that looks at dirt notices.
        let log = match policy {
            "lru" => play(&steps, false),
            _ => by_words(&play(&steps, false), policy == "adversarial"),
        };
        let base = vec![0; (LINES as usize + 2) * 64];
        let atomic = AtomicConfig {
            domain,
            completion: FlushCompletion::AtFlush,
            ..AtomicConfig::from(config.caches())
        };
        let atomic = AtomicDriver::new(&atomic, 0, &base).unwrap().play(&log);
        let system = run(&config, log, Some(domain));
        let timed = system.journal().unwrap().journal();
        // Where stores are durable by themselves, the timed machine has one for each word.
        let entry = |e: outlast_sim::Persisted<'_>| -> Vec<_> {
            let pieces = if eadr { e.words.chunks(1) } else { e.words.chunks(8) };
            let place = |(k, words): (usize, &[[u8; 8]])| {
                (e.line, e.first_word + k, words.to_vec(), e.cause)
            };
            pieces.enumerate().map(place).collect()
        };
        prop_assert_eq!(
            timed.iter().flat_map(entry).collect::<Vec<_>>(),
            atomic.iter().flat_map(entry).collect::<Vec<_>>()
        );
    }

    #[test]
    fn hits_of_a_level_are_those_of_its_stack_distances(
        words in proptest::collection::vec(0..400u64, 1..400),
        kind in prop_oneof![Just("ooo"), Just("inorder")],
    ) {
        // One miss at a time, so that no access joins a miss under way, which counts as a miss.
        let mut config = bare(kind);
        for (key, value) in [("l1.size", "2 KiB"), ("l1.ways", "4"), ("l2.size", "0 B")] {
            config.set_option(key, value).unwrap();
        }
        let mut log = OpLog::default();
        for &word in &words {
            log.op(LaneId(0), Op::Load { at: PoolOffset(8 * word), len: 8, depends: Some(1) });
        }
        let mut system = run(&config, log, None);
        let lines: Vec<u64> = words.iter().map(|word| word / 8).collect();
        let sets = 8;
        let hits = lines.iter().enumerate().filter(|&(now, &line)| {
            let last = lines[..now].iter().rposition(|&other| other == line);
            last.is_some_and(|last| {
                let between: BTreeSet<u64> =
                    lines[last + 1..now].iter().copied().filter(|o| o % sets == line % sets).collect();
                between.len() < 4
            })
        });
        let stats = system.take_stats().caches.l1;
        let hits = hits.count() as u64;
        prop_assert_eq!((stats.hits, stats.misses), (hits, lines.len() as u64 - hits));
    }

    #[test]
    fn cores_that_share_lines_agree_on_them_in_the_end(
        steps in proptest::collection::vec((0..3u16, any_step(24)), 1..200),
        kind in prop_oneof![Just("ooo"), Just("inorder")],
    ) {
        // Each lane stores to words of its own, of lines that all share.
        let mut config = bare(kind);
        for (key, value) in
            [("core.count", "3"), ("l1.size", "512 B"), ("l2.size", "1 KiB"), ("l2.ways", "4"), ("llc.size", "2 KiB")]
        {
            config.set_option(key, value).unwrap();
        }
        let own: Vec<_> = steps
            .into_iter()
            .map(|(lane, step)| match step {
                Step::Store(at, byte, _) => {
                    (lane, Step::Store(at / 64 * 64 + 8 * u64::from(lane), byte, 8))
                }
                Step::Stream(..) | Step::Line(..) => (lane, Step::Fence),
                other => (lane, other),
            })
            .collect();
        let log = play(&own, true);
        let expected = reference(&log, 26 * 64);
        let log = Arc::new(log);
        let sources = (0..3)
            .map(|lane| Box::new(LaneOps::new(log.clone(), LaneId(lane))) as Box<dyn Source>)
            .collect();
        let mut system = System::new(&config, NonPers, Setup::default(), sources).unwrap();
        system.run_to_end().unwrap();
        for (number, line) in expected.as_chunks::<64>().0.iter().enumerate() {
            prop_assert_eq!(&system.line(LineAddr(number as u64)), line, "line {}", number);
        }
    }
}

#[test]
fn nothing_is_acknowledged_before_it_is_durable() {
    for adr in [true, false] {
        for kind in ["ooo", "inorder"] {
            let mut config = bare(kind);
            config.memory.adr = adr;
            let mut script = Script::default();
            for tx in 0..20 {
                script.store(tx * 8, tx + 1).flush(tx * 8).fence().ack(tx);
            }
            let system = run(&config, script.0, Some(Domain::Adr));
            let journal = system.journal().unwrap();
            let acknowledged = journal.acknowledged_by(Cycle::NEVER);
            assert_eq!(acknowledged.len(), 20);
            for (at, tx) in acknowledged {
                let entries = journal.entries_by(*at);
                let durable =
                    (0..entries).any(|n| journal.journal().get(n).line == LineAddr(tx.0 * 8));
                assert!(durable, "{kind}, adr {adr}: {tx:?} at {at}");
                let before = journal.entries_by(Cycle(at.0 - 11));
                assert!(before <= entries, "time goes on");
            }
        }
    }
}

#[test]
fn a_lock_keeps_the_recorded_order() {
    let mut log = OpLog::default();
    // Lane 1 was first though it has more to do before.
    for (lane, ticket, value) in [(1u16, 1, 11u8), (0, 2, 22)] {
        let lane = LaneId(lane);
        log.op(lane, Op::Compute(if lane.0 == 1 { 5000 } else { 1 }));
        log.op(lane, Op::Lock { id: 9, ticket });
        log.op(lane, Op::Store { at: PoolOffset(0), bytes: &[value; 8] });
        log.op(lane, Op::Unlock { id: 9, ticket });
    }
    for kind in ["ooo", "inorder"] {
        let mut config = bare(kind);
        config.set_option("core.count", "2").unwrap();
        let log = Arc::new(log.clone());
        let sources = (0..2)
            .map(|lane| Box::new(LaneOps::new(log.clone(), LaneId(lane))) as Box<dyn Source>)
            .collect();
        let mut system = System::new(&config, NonPers, Setup::default(), sources).unwrap();
        system.run_to_end().unwrap();
        assert_eq!(system.line(LineAddr(0))[0], 22, "{kind}");
        assert!(system.now() > Cycle(1000), "{kind}: lane 0 waited");
    }
}

#[test]
fn whoever_waits_for_ever_is_named() {
    let mut log = OpLog::default();
    log.op(LaneId(0), Op::Wait { id: 4, count: 1 });
    let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log), LaneId(0)));
    let mut system = System::new(&bare("ooo"), NonPers, Setup::default(), vec![source]).unwrap();
    let error = system.run_to_end().unwrap_err().to_string();
    assert!(error.contains("Wait { id: 4, count: 1 }"), "{error}");
}
