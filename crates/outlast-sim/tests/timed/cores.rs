//! What cores do with their time, two threads on a core, prefetching, banks, and the timeline.

use crate::machine::{Script, bare, chase, cycles, run};
use outlast_sim::timed::{
    Batch, CoreStats, Cycle, Instr, InstrKind, LaneOps, Lost, MachineConfig, NonPers, Pattern,
    RunStats, Setup, Source, SourceError, Stream, System,
};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Random, Sink};
use proptest::prelude::*;
use std::sync::Arc;

fn stats(config: &MachineConfig, log: OpLog) -> RunStats {
    run(config, log, None).take_stats()
}

/// The share of a core's cycles that it lost for a cause.
fn share(stats: &RunStats, cause: Lost) -> f64 {
    stats.cores[0].lost.of(cause) as f64 / stats.cycles as f64
}

fn loads(n: u64, line: impl Fn(u64) -> u64) -> OpLog {
    let mut log = OpLog::default();
    for k in 0..n {
        let at = LineAddr(line(k)).start();
        log.op(LaneId(0), Op::Load { at, len: 8, depends: None });
    }
    log
}

#[test]
fn every_cycle_is_busy_or_lost_for_a_cause() {
    for kind in ["ooo", "inorder"] {
        for pattern in [Pattern::Friendly, Pattern::Stride, Pattern::Random] {
            let mut config = MachineConfig::named("server").unwrap();
            config.set_option("core.kind", kind).unwrap();
            let source: Box<dyn Source> = Box::new(Stream::new(pattern, 5));
            let mut system = System::new(&config, NonPers, Setup::default(), vec![source]).unwrap();
            for _ in 0..3 {
                system.run(20_000).unwrap();
                let stats = system.take_stats();
                let CoreStats { busy_cycles, lost, .. } = stats.cores[0];
                let off = (busy_cycles + lost.total()).abs_diff(stats.cycles);
                // The cycle in which a part of a run ends may be counted in either; an instruction
                // in order is counted to its end.
                let most = if kind == "ooo" { 1 } else { 400 };
                assert!(off <= most, "{kind} {pattern:?}: {off} of {} cycles", stats.cycles);
            }
        }
    }
}

#[test]
fn cycles_are_lost_for_the_cause_that_is_there() {
    for kind in ["ooo", "inorder"] {
        let config = bare(kind);
        let chased = stats(&config, chase(2000, 1 << 14, 33));
        assert!(share(&chased, Lost::Load) > 0.9, "{kind}: {:?}", chased.cores[0]);

        let mut script = Script::default();
        for _ in 0..200 {
            script.store(0, 1).flush(0).fence();
        }
        let persisted = stats(&config, script.0);
        assert!(share(&persisted, Lost::Flush) > 0.6, "{kind}: {:?}", persisted.cores[0]);

        // A fence behind a store that misses waits for the store.
        let mut script = Script::default();
        for k in 0..200 {
            script.store(64 * k, 1).fence();
        }
        let fenced = stats(&config, script.0);
        assert!(share(&fenced, Lost::Fence) > 0.6, "{kind}: {:?}", fenced.cores[0]);

        // Stores that miss, and nothing that waits for them.
        let mut script = Script::default();
        for k in 0..2000 {
            script.store(64 * k, 1);
        }
        let stored = stats(&config, script.0);
        assert!(share(&stored, Lost::StoreBuffer) > 0.8, "{kind}: {:?}", stored.cores[0]);

        // Every load on another page, which no TLB holds, and in lines that the first level holds.
        let mut pages = config.clone();
        pages.set_option("tlb.page", "4 KiB").unwrap();
        pages.set_option("tlb.walk_latency", "500 cycles").unwrap();
        let walked = stats(&pages, chase(2000, 64, 65));
        assert!(share(&walked, Lost::Walk) > 0.8, "{kind}: {:?}", walked.cores[0]);

        // One miss register for independent loads of rows that conflict.
        let mut few = config.clone();
        few.set_option("l1.mshrs", "1").unwrap();
        let queued = stats(&few, loads(2000, |k| k * 37 % (1 << 14)));
        if kind == "ooo" {
            assert!(share(&queued, Lost::QueueFull) > 0.8, "{kind}: {:?}", queued.cores[0]);
        }
    }
}

/// Branches whose outcome no predictor can know, one in four instructions.
struct Coins(u64, Random);

impl Source for Coins {
    fn fill(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        for _ in 0..256.min(self.0) {
            self.0 -= 1;
            let kind = InstrKind::Branch(self.1.one_in(2));
            batch.instrs.push(if self.0.is_multiple_of(4) {
                Instr { kind, pc: 64, ..Instr::work() }
            } else {
                Instr::work()
            });
        }
        Ok(())
    }
}

#[test]
fn wrong_branches_lose_their_penalty() {
    for kind in ["ooo", "inorder"] {
        let mut config = bare(kind);
        config.set_option("core.mispredict_penalty", "12 cycles").unwrap();
        let source: Box<dyn Source> = Box::new(Coins(20_000, Random::new(1)));
        let mut system = System::new(&config, NonPers, Setup::default(), vec![source]).unwrap();
        system.run_to_end().unwrap();
        let stats = system.take_stats();
        let CoreStats { mispredicted, lost, .. } = stats.cores[0];
        let per_branch = lost.of(Lost::Branch) as f64 / mispredicted as f64;
        assert!(mispredicted > 1500 && (9.0..=13.0).contains(&per_branch), "{kind} {per_branch}");
    }
}

/// An instruction before the branches.
struct Before(Option<Instr>, Coins);

impl Source for Before {
    fn fill(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        batch.instrs.extend(self.0.take());
        self.1.fill(batch)
    }
}

#[test]
fn a_line_that_arrives_for_a_store_cuts_no_penalty_short() {
    let mut config = bare("inorder");
    config.set_option("core.mispredict_penalty", "50 cycles").unwrap();
    let end = |first: Instr| {
        let source: Box<dyn Source> = Box::new(Before(Some(first), Coins(100, Random::new(1))));
        let mut system = System::new(&config, NonPers, Setup::default(), vec![source]).unwrap();
        system.run_to_end().unwrap();
        assert!(system.take_stats().cores[0].mispredicted > 5);
        system.now()
    };
    // The store's line comes while the core waits for a branch, and all that is there to wait for it is the
    // store buffer.
    assert_eq!(end(Instr::store(64, 1)), end(Instr::work()));
}

#[test]
fn a_stride_is_fetched_ahead_after_three_lines_of_a_page() {
    let mut config = bare("ooo");
    for (key, value) in [("l1.size", "32 KiB"), ("l1.ways", "8"), ("l1.latency", "1 cycles")] {
        config.set_option(key, value).unwrap();
    }
    let misses = |config: &MachineConfig| {
        let mut log = OpLog::default();
        for k in 0..640 {
            let at = LineAddr(k).start();
            log.op(LaneId(0), Op::Load { at, len: 8, depends: Some(1) });
            log.op(LaneId(0), Op::Compute(2000));
        }
        let stats = stats(config, log);
        (stats.caches.l1.misses, stats.cores[0].prefetches)
    };
    assert_eq!(misses(&config), (640, 0));
    config.set_option("l1.prefetch", "4").unwrap();
    // Ten pages: three lines of each are missed, the others fetched.
    assert_eq!(misses(&config), (30, 610));
    // At random it fetches nothing.
    let random = stats(&config, loads(500, |k| (k * 7919 + k * k) % (1 << 16)));
    assert!(random.cores[0].prefetches < 20, "{:?}", random.cores[0]);
}

#[test]
fn accesses_of_one_bank_follow_each_other() {
    let mut config = bare("ooo");
    config.set_option("core.load_ports", "4").unwrap();
    let per_load = |config: &MachineConfig, stride: u64| {
        let script = |n: u64| {
            let mut log = OpLog::default();
            for k in 0..n {
                let at = PoolOffset(8 * (k % 4 * stride));
                log.op(LaneId(0), Op::Load { at, len: 8, depends: None });
            }
            log
        };
        (cycles(config, &script(3000)) - cycles(config, &script(1000))) as f64 / 2000.0
    };
    assert_eq!(per_load(&config, 4), 0.25, "four ports, no banks");
    config.set_option("l1.banks", "4").unwrap();
    assert_eq!(per_load(&config, 1), 0.25, "four banks, each its own");
    assert_eq!(per_load(&config, 4), 1.0, "one bank for all");
    config.set_option("l1.banks", "2").unwrap();
    assert_eq!(per_load(&config, 1), 0.5, "two banks");
}

#[test]
fn banks_of_the_last_level_bound_its_throughput() {
    let mut config = bare("ooo");
    for (key, value) in
        [("l2.size", "0 B"), ("llc.banks", "4"), ("llc.bank_busy", "12 cycles"), ("l1.mshrs", "16")]
    {
        config.set_option(key, value).unwrap();
    }
    // 1024 lines, all in the last level after the first round and none in the first.
    let per_load = |config: &MachineConfig, stride: u64| {
        let script = |n| loads(n, |k| k % 1024 * stride);
        (cycles(config, &script(4096)) - cycles(config, &script(2048))) as f64 / 2048.0
    };
    let spread = per_load(&config, 1);
    assert!((spread - 3.0).abs() < 0.1, "{spread}: four banks of 12 cycles");
    let one = per_load(&config, 4);
    assert!((one - 12.0).abs() < 0.2, "{one}: one bank");
}

fn two(config: &MachineConfig, sources: Vec<Box<dyn Source>>) -> System<NonPers> {
    System::new(config, NonPers, Setup::default(), sources).unwrap()
}

fn friendly(seed: u64) -> Box<dyn Source> {
    Box::new(Stream::new(Pattern::Friendly, seed))
}

#[test]
fn two_streams_on_a_core_are_faster_than_one_after_the_other() {
    let mut config = MachineConfig::named("server").unwrap();
    config.core.count = 1;
    let ipc = |config: &MachineConfig, sources: Vec<Box<dyn Source>>| {
        let mut system = two(config, sources);
        system.run(100_000).unwrap();
        system.take_stats();
        system.run(200_000).unwrap();
        system.take_stats()
    };
    let alone = ipc(&config, vec![friendly(1)]).ipc();
    config.set_option("core.threads", "2").unwrap();
    let unused = ipc(&config, vec![friendly(1)]).ipc();
    assert_eq!(alone, unused, "a thread alone has all of its core");
    let both = ipc(&config, vec![friendly(1), friendly(2)]);
    let width = f64::from(config.core.dispatch_width.min(config.core.retire_width));
    assert!(both.ipc() > 0.97 * alone && both.ipc() <= width + 0.01, "{}", both.ipc());
    let of = |core: usize| both.cores[core].instructions as f64;
    assert!((0.8..1.25).contains(&(of(0) / of(1))), "{} and {}", of(0), of(1));
    // Streams that wait for their own loads and leave most of the core's width to each other.
    let waiting = |lines: u64| -> Vec<Box<dyn Source>> {
        let mut log = OpLog::default();
        for k in 0..3000 * lines {
            let at = LineAddr(k / lines % 16).start();
            let lane = LaneId((k % lines) as u16);
            log.op(lane, Op::Load { at, len: 8, depends: Some(1) });
        }
        let log = Arc::new(log);
        (0..lines)
            .map(|lane| Box::new(LaneOps::new(log.clone(), LaneId(lane as u16))) as Box<dyn Source>)
            .collect()
    };
    let time = |sources| {
        let mut system = two(&config, sources);
        system.run_to_end().unwrap();
        system.now().0
    };
    let (one, both) = (time(waiting(1)), time(waiting(2)));
    assert!(both < one * 11 / 10, "{one} for one, {both} for two");
    config.core.retire_width = 2;
    let narrow = ipc(&config, vec![friendly(1), friendly(2)]).ipc();
    assert!(narrow > 1.9 && narrow < 2.01, "{narrow}: both retire through one width of two");
    config.core.kind = outlast_sim::timed::CoreKind::InOrder;
    assert!(config.validate().unwrap_err().to_string().contains("core.threads"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn two_streams_on_a_core_leave_what_a_flat_memory_would(
        steps in proptest::collection::vec((0..2u16, 0..24u64, any::<u8>(), 0..6u8), 1..250),
        (banks, prefetch, through, atomics) in (0..3u32, 0..3u32, any::<bool>(), any::<bool>()),
    ) {
        let mut config = bare("ooo");
        for (key, value) in [
            ("core.threads", "2"), ("l1.size", "512 B"), ("l2.size", "1 KiB"), ("l2.ways", "4"),
            ("llc.size", "2 KiB"), ("caches.wc_lines", "2"), ("core.flushes", "4"),
        ] {
            config.set_option(key, value).unwrap();
        }
        (config.extras.l1_banks, config.extras.prefetch) = (banks, prefetch);
        (config.extras.write_through, config.extras.llc_atomics) = (through, atomics);
        let (mut log, mut expected) = (OpLog::default(), vec![0u8; 24 * 64]);
        for (lane, line, byte, what) in steps {
            // Each thread stores to words of its own, streams to lines of its own.
            let (lane, own) = (LaneId(lane), PoolOffset(64 * line + 8 * u64::from(lane)));
            let streamed = LineAddr(24 + 2 * (line % 4) + u64::from(lane.0));
            match what {
                0 | 1 => {
                    let bytes = &[byte; 8];
                    let locked = what == 1;
                    let store = Op::Store { at: own, bytes };
                    log.op(lane, if locked { Op::Rmw { at: own, bytes } } else { store });
                    expected[own.0 as usize..][..8].fill(byte);
                }
                2 => log.op(lane, Op::Load { at: own, len: 8, depends: Some(1) }),
                3 => log.op(lane, Op::StoreNt { at: streamed.start(), bytes: &[byte; 8] }),
                4 => log.op(lane, Op::Sfence),
                _ => log.op(lane, Op::Flush {
                    kind: outlast_trace::FlushKind::Clwb,
                    line: LineAddr(line),
                }),
            }
        }
        let log = Arc::new(log);
        let sources = (0..2)
            .map(|lane| Box::new(LaneOps::new(log.clone(), LaneId(lane))) as Box<dyn Source>)
            .collect();
        let mut system = two(&config, sources);
        system.run_to_end().unwrap();
        for (number, line) in expected.as_chunks::<64>().0.iter().enumerate() {
            prop_assert_eq!(&system.line(LineAddr(number as u64)), line, "line {}", number);
        }
        prop_assert!(system.is_idle());
    }
}

#[test]
fn a_fence_waits_for_what_the_other_thread_sent_on_its_way() {
    let mut config = bare("ooo");
    config.set_option("core.threads", "2").unwrap();
    config.set_option("memory.path", "200 cycles").unwrap();
    let mut log = OpLog::default();
    let (streams, fences) = (LaneId(0), LaneId(1));
    log.op(streams, Op::StoreNt { at: PoolOffset(64), bytes: &[7; 8] });
    log.op(streams, Op::Compute(200));
    log.op(streams, Op::Sfence);
    log.op(streams, Op::Ack(outlast_trace::TxId(1)));
    // The other thread's fences empty the buffer that both write through.
    for _ in 0..20 {
        log.op(fences, Op::Compute(8));
        log.op(fences, Op::Sfence);
    }
    let log = Arc::new(log);
    let sources = (0..2)
        .map(|lane| Box::new(LaneOps::new(log.clone(), LaneId(lane))) as Box<dyn Source>)
        .collect();
    let setup = Setup { journal: Some(outlast_sim::Domain::Adr), ..Setup::default() };
    let mut system = System::new(&config, NonPers, setup, sources).unwrap();
    system.run_to_end().unwrap();
    let journal = system.journal().unwrap();
    let (durable, acknowledged) = (journal.at(0), journal.acknowledged_by(Cycle(u64::MAX))[0].0);
    assert!(acknowledged >= durable, "durable at {durable}, acknowledged at {acknowledged}");
}

#[test]
fn a_timeline_is_json_whose_slices_nest_and_changes_nothing() {
    let mut log = OpLog::default();
    for k in 0..300u64 {
        let lane = LaneId(0);
        log.op(lane, Op::TxBegin);
        log.op(lane, Op::Load { at: PoolOffset(4096 * k), len: 8, depends: None });
        log.op(lane, Op::Store { at: PoolOffset(64 * k), bytes: &[1; 8] });
        log.op(lane, Op::Flush { kind: outlast_trace::FlushKind::Clwb, line: LineAddr(k) });
        log.op(lane, Op::Sfence);
        log.op(lane, Op::TxEnd);
        log.op(lane, Op::Ack(outlast_trace::TxId(k)));
    }
    for kind in ["ooo", "inorder"] {
        let config = bare(kind);
        let (from, to) = (Cycle(1000), Cycle(9000));
        let run = |timeline: bool| {
            let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log.clone()), LaneId(0)));
            let mut system = two(&config, vec![source]);
            if timeline {
                system.keep_timeline(from, to);
            }
            system.run_to_end().unwrap();
            let json = system.take_timeline().map(|t| t.to_json(1_000_000, system.now()));
            (system.take_stats(), json)
        };
        let ((with, json), (without, _)) = (run(true), run(false));
        assert_eq!(with, without, "{kind}");
        let json: serde_json::Value = serde_json::from_str(&json.unwrap()).unwrap();
        let events = json["traceEvents"].as_array().unwrap();
        let of = |phase: &'static str| events.iter().filter(move |e| e["ph"] == phase);
        // A cycle is a nanosecond, and times are in microseconds.
        let cycle = |us: f64| (us * 1000.0).round() as u64;
        let mut rows: std::collections::BTreeMap<u64, Vec<(u64, u64)>> = Default::default();
        for event in of("X") {
            let at = cycle(event["ts"].as_f64().unwrap());
            let until = at + cycle(event["dur"].as_f64().unwrap());
            assert!((from.0..=to.0).contains(&at) && until <= to.0 && at < until, "{event}");
            rows.entry(event["tid"].as_u64().unwrap()).or_default().push((at, until));
        }
        let banks = rows.keys().filter(|row| **row >= 1000).count();
        assert_eq!(rows.len(), 2 + banks, "what the core does, its transactions, and banks");
        assert!((1..=8).contains(&banks), "{kind}: {banks}");
        for command in ["ACT", "PRE", "RD", "WR"] {
            let in_a_bank = |e: &serde_json::Value| e["tid"].as_u64() >= Some(1000);
            assert!(of("X").any(|e| e["name"] == command && in_a_bank(e)), "{kind}: no {command}");
        }
        for slices in rows.values() {
            assert!(slices.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{kind}: {slices:?}");
        }
        let whole: u64 = rows[&0].iter().map(|(at, until)| until - at).sum();
        assert_eq!(whole, to.0 - from.0, "every cycle of the window is somebody's");
        for phase in ["b", "e"] {
            assert!(of(phase).count() > 20, "{kind}: {phase}");
        }
        assert_eq!(of("b").count(), of("e").count());
        for name in ["flush", "read", "write: flushed"] {
            let named = |e: &serde_json::Value| e["name"].as_str().unwrap().starts_with(name);
            assert!(of("b").any(named), "{kind}: no {name}");
        }
        assert!(of("C").any(|e| e["name"] == "reads"));
    }
}

#[test]
fn a_run_ends_after_as_many_instructions_as_were_asked_for() {
    for kind in ["ooo", "inorder"] {
        let mut config = MachineConfig::named("server").unwrap();
        config.set_option("core.kind", kind).unwrap();
        let width = u64::from(config.core.retire_width);
        let source: Box<dyn Source> = Box::new(Stream::new(Pattern::Friendly, 5));
        let mut system = System::new(&config, NonPers, Setup::default(), vec![source]).unwrap();
        for asked in [100, 1, 900] {
            system.run(asked).unwrap();
            let ran = system.take_stats().instructions();
            assert!((asked..asked + width).contains(&ran), "{kind}: {ran} for {asked}");
        }
    }
}

/// Loads of all lines, then stores to some of them, then the same loads.
fn lines_twice() -> OpLog {
    let mut log = loads(1000, |k| k);
    for k in 0..1000u64 {
        let bytes = (k + 1).to_le_bytes();
        log.op(LaneId(0), Op::Store { at: LineAddr(k / 2).start(), bytes: &bytes });
    }
    loads(1000, |k| k).iter().for_each(|(lane, op)| log.op(lane, op));
    log
}

#[test]
fn what_is_passed_without_time_is_in_caches_and_in_memory() {
    for (kind, leaves_dirty) in [("ooo", true), ("inorder", true), ("inorder", false)] {
        let mut config = MachineConfig::named("server").unwrap();
        config.set_option("core.kind", kind).unwrap();
        let log = Arc::new(lines_twice());
        let machine = |warm: u64| {
            let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::clone(&log), LaneId(0)));
            let mut system = System::new(&config, NonPers, Setup::default(), vec![source]).unwrap();
            if warm > 0 {
                system.warm(warm, leaves_dirty).unwrap();
                assert!((warm..warm + 1000).contains(&system.passed()), "{}", system.passed());
            }
            system.run_to_end().unwrap();
            let stats = system.take_stats();
            let line =
                |line| u64::from_le_bytes(system.line(LineAddr(line))[..8].try_into().unwrap());
            assert_eq!([0, 7, 499, 500].map(line), [2, 16, 1000, 0], "{kind}, {warm}");
            stats
        };
        let (cold, warm) = (machine(0), machine(1900));
        assert!(cold.caches.traffic.memory_reads >= 1000);
        // A scheme that keeps state with lines may keep some with pages: its TLBs begin empty.
        let walks = if leaves_dirty { 0 } else { 1000u64.div_ceil(64) };
        assert!(warm.cores[0].walks <= walks, "{kind}: {} walks", warm.cores[0].walks);
        let reads = warm.caches.traffic.memory_reads;
        assert!(reads <= walks, "{kind}: {reads} reads of memory");
        let (all, some) = (cold.instructions(), warm.instructions());
        assert!(some > 0 && some + 1900 <= all, "{some} of {all} took time");
    }
}
