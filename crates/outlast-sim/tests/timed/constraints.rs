//! Each limit of cores, translation, caches and the way to memory by its closed formula: what it
//! costs where it binds. Those of the memory's commands are in `controller/channel/tests.rs`.

use crate::machine::{bare, chase, cycles, run};
use outlast_sim::timed::{
    Cycle, KEYS, LaneOps, MachineConfig, NonPers, RunStats, Setup, Source, System,
};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Random, Sink};
use std::sync::Arc;

const LANE: LaneId = LaneId(0);

fn with(changes: &[(&str, &str)]) -> MachineConfig {
    let mut config = bare("ooo");
    for (key, value) in changes {
        config.set_option(key, value).unwrap();
    }
    config
}

/// What `n` more operations take, each, behind as many that do not count.
fn each(config: &MachineConfig, n: u64, op: impl Fn(u64, &mut OpLog)) -> f64 {
    let script = |n: u64| {
        let mut log = OpLog::default();
        (0..n).for_each(|k| op(k, &mut log));
        log
    };
    (cycles(config, &script(2 * n)) - cycles(config, &script(n))) as f64 / n as f64
}

fn load(line: u64, log: &mut OpLog) {
    log.op(LANE, Op::Load { at: LineAddr(line).start(), len: 8, depends: None });
}

fn store(line: u64, log: &mut OpLog) {
    log.op(LANE, Op::Store { at: LineAddr(line).start(), bytes: &[1; 8] });
}

fn near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 0.03, "{what}: {found}, by formula {expected}");
}

#[test]
fn widths_bound_instructions_and_ports_loads_and_stores() {
    for width in [1, 2, 3] {
        let one_of = f64::from(width).recip();
        for key in ["core.dispatch_width", "core.issue_width", "core.retire_width"] {
            let config = with(&[(key, &width.to_string())]);
            near(each(&config, 6000, |_, log| log.op(LANE, Op::Compute(1))), one_of, key);
        }
        let config = with(&[("core.load_ports", &width.to_string())]);
        near(each(&config, 6000, |k, log| load(k % 8, log)), one_of, "load ports");
        let config = with(&[("core.store_ports", &width.to_string())]);
        near(each(&config, 6000, |k, log| store(k % 8, log)), one_of, "store ports");
    }
}

#[test]
fn buffers_and_registers_bound_what_is_under_way() {
    // 1024 lines that only the last level holds: 44 cycles each, as many at a time as the limit.
    for limit in [4, 8] {
        let limits = [("core.rob", "64"), ("core.load_queue", "64"), ("l1.mshrs", "64")];
        for binding in limits {
            let mut changes = limits.to_vec();
            changes.extend([("l2.size", "0 B"), ("llc.latency", "40 cycles")]);
            let limit = limit.to_string();
            changes.push((binding.0, &limit));
            let per_load = each(&with(&changes), 4096, |k, log| load(k % 1024, log));
            // A place in a queue is free for the next in the cycle behind its last one's.
            let turn = if binding.0 == "l1.mshrs" { 44.0 } else { 45.0 };
            near(per_load, turn / limit.parse::<f64>().unwrap(), binding.0);
        }
    }
    // Lines of memory, one or two at a time: 44 for the lookups, 20 path, 20 tRCD, 24 data.
    for limit in [1, 2] {
        let config = with(&[("llc.mshrs", &limit.to_string()), ("memory.page", "closed")]);
        let per_load = each(&config, 2000, |k, log| load(k * 33 % (1 << 16), log));
        let alone = 20.0 + 20.0 + 24.0;
        assert!(per_load >= alone / f64::from(limit), "{limit}: {per_load}");
        assert!(per_load <= (alone + 2.0) / f64::from(limit), "{limit}: {per_load}");
    }
}

#[test]
fn a_full_store_queue_holds_back_what_comes_behind() {
    // Four stores that miss, 44 cycles each, then work for 500 cycles. With room for all four the
    // work begins at once; each that has no room keeps it waiting for one more.
    let time = |room: u32| {
        let config = with(&[("core.store_queue", &room.to_string())]);
        let mut log = OpLog::default();
        (0..1024).for_each(|line| load(line, &mut log));
        (0..4).for_each(|k| store(64 * k, &mut log));
        log.op(LANE, Op::Compute(2000));
        cycles(&config, &log) as i64
    };
    assert_eq!(time(4), time(16));
    // A store leaves its entry in the cycle behind its line's arrival.
    assert!((44..=45).contains(&(time(3) - time(4))), "one has no room");
    assert!((44..=45).contains(&(time(2) - time(3))), "nor has the next");
}

#[test]
fn stores_behind_one_that_misses_are_fetched_ahead() {
    let per_store = |depth: u32| {
        let config = with(&[("core.store_prefetch", &depth.to_string())]);
        let script = |n: u64| {
            let mut log = OpLog::default();
            (0..1024).for_each(|line| load(line, &mut log));
            (0..n).for_each(|k| store(k, &mut log));
            log
        };
        (cycles(&config, &script(800)) - cycles(&config, &script(400))) as f64 / 400.0
    };
    near(per_store(0), 44.0 + 1.0, "alone");
    assert!(per_store(1) < 24.0 && per_store(3) < 13.0, "{} {}", per_store(1), per_store(3));
}

#[test]
fn flushes_under_way_are_limited() {
    // Each passes all levels, 44 cycles, and comes back over the path, 20.
    let per_flush = |limit: u32| {
        let config = with(&[("core.flushes", &limit.to_string()), ("memory.tWR", "0 ns")]);
        each(&config, 400, |k, log| {
            store(k % 16, log);
            let line = LineAddr(k % 16);
            log.op(LANE, Op::Flush { kind: FlushKind::Clwb, line });
        })
    };
    assert!((64.0..=66.0).contains(&per_flush(1)), "{}", per_flush(1));
    near(per_flush(1) / per_flush(2), 2.0, "two at a time");
    near(per_flush(1) / per_flush(4), 4.0, "four at a time");
}

#[test]
fn translation_takes_the_time_of_its_level() {
    // Lines of the first level, each in a page of its own: 4 cycles, 9 when the second level of the
    // TLB (5) has the page, 14 when a walk (6) loads its entry from the first level (4).
    let per_load = |page: &str, pages: u64| {
        let config = with(&[("tlb.page", page)]);
        let lines_of_a_page = if page == "2 MiB" { 1 << 15 } else { 64 };
        let run = |rounds: u64| {
            let mut log = OpLog::default();
            for k in 0..rounds * pages {
                let at = LineAddr(k % pages * (lines_of_a_page + 1)).start();
                log.op(LANE, Op::Load { at, len: 8, depends: Some(1) });
            }
            cycles(&config, &log)
        };
        (run(9) - run(5)) as f64 / (4 * pages) as f64
    };
    for page in ["4 KiB", "2 MiB"] {
        assert_eq!(per_load(page, 8), 4.0, "{page}: eight pages in the first level");
        assert_eq!(per_load(page, 16), 9.0, "{page}: sixteen in the second");
        assert_eq!(per_load(page, 24), 14.0, "{page}: none anywhere");
    }
    // The 24 lines of the first case lie in one page of 2 MiB.
    let small = with(&[("tlb.page", "2 MiB")]);
    let (few, many) = (chase(5 * 24, 24, 65), chase(9 * 24, 24, 65));
    assert_eq!(cycles(&small, &many) - cycles(&small, &few), 4 * 4 * 24);
}

#[test]
fn walkers_bound_walks() {
    // 24 pages round and round: each load needs a walk of 6 cycles and a load of 4.
    for walkers in [1, 2] {
        // Fewer loads at a time than pages, so that no two of them wait for the same.
        let config = with(&[
            ("tlb.page", "4 KiB"),
            ("tlb.walkers", &walkers.to_string()),
            ("core.load_queue", "8"),
        ]);
        let per_load = each(&config, 2400, |k, log| load(k % 24 * 65, log));
        near(per_load, 10.0 / f64::from(walkers), "walkers");
    }
}

#[test]
fn a_link_carries_a_line_in_its_time_each_way() {
    // 64 bytes at 1 GB/s: 64 cycles of 1 ns, for reads and for writes at the same time.
    let slow = with(&[("memory.link", "1 GB/s"), ("memory.tWR", "0 ns")]);
    let read = each(&slow, 1000, load);
    near(read, 64.0, "lines read");
    let write = each(&slow, 1000, |k, log| {
        log.op(LANE, Op::Store64 { line: LineAddr(k), bytes: &[1; 64] });
    });
    near(write, 64.0, "lines written");
    let both = each(&slow, 1000, |k, log| {
        load((1 << 14) + k, log);
        log.op(LANE, Op::Store64 { line: LineAddr(k), bytes: &[1; 64] });
    });
    near(both, 64.0, "one of each");
}

#[test]
fn another_cores_caches_are_asked_in_their_time() {
    let time = |snoop: u32| {
        let mut config = with(&[("core.count", "2")]);
        config.set_option("caches.snoop", &format!("{snoop} cycles")).unwrap();
        let mut log = OpLog::default();
        store(0, &mut log);
        log.op(LANE, Op::Signal { id: 1, count: 1 });
        log.op(LaneId(1), Op::Wait { id: 1, count: 1 });
        log.op(LaneId(1), Op::Load { at: PoolOffset(0), len: 8, depends: None });
        let log = Arc::new(log);
        let sources = (0..2)
            .map(|lane| Box::new(LaneOps::new(log.clone(), LaneId(lane))) as Box<dyn Source>)
            .collect();
        let mut system = System::new(&config, NonPers, Setup::default(), sources).unwrap();
        system.run_to_end().unwrap();
        system.now().0
    };
    for snoop in [1, 15, 40] {
        assert_eq!(time(snoop) - time(0), u64::from(snoop));
    }
}

#[test]
fn write_combining_holds_as_many_lines_as_it_has() {
    // A word of each of three lines in turn, each line eight times.
    let writes = |lines: &str| {
        let config = with(&[("caches.wc_lines", lines)]);
        let mut log = OpLog::default();
        for k in 0..24 {
            let at = PoolOffset(64 * (k % 3) + k / 3 * 8);
            log.op(LANE, Op::StoreNt { at, bytes: &[1; 8] });
        }
        log.op(LANE, Op::Sfence);
        run(&config, log, None).take_stats().writes.of(outlast_sim::Cause::Streamed)
    };
    assert_eq!(writes("3"), 3, "each line leaves when it is complete");
    assert_eq!(writes("2"), 24, "each word displaces another line");
}

#[test]
fn queues_of_the_memory_hold_as_many_as_they_have() {
    for room in [2, 5] {
        let room = room.to_string();
        let reads = with(&[("memory.read_queue", &room), ("l1.mshrs", "32")]);
        let mut log = OpLog::default();
        (0..400).for_each(|k| load(k * 256, &mut log));
        let stats = run(&reads, log, None).take_stats().memory;
        assert_eq!(stats.read_queue.max.to_string(), room, "reads");
        assert!(stats.read_queue.full_cycles > 0);
        let writes = with(&[
            ("memory.write_queue", &room),
            ("memory.drain_high", &room),
            ("memory.drain_low", "1"),
        ]);
        let mut log = OpLog::default();
        for k in 0..400 {
            log.op(LANE, Op::Store64 { line: LineAddr(k * 256), bytes: &[1; 64] });
        }
        let stats = run(&writes, log, None).take_stats().memory;
        assert_eq!(stats.write_queue.max.to_string(), room, "writes");
    }
}

#[test]
fn locked_instructions_let_nothing_pass() {
    // An independent load behind a locked store to a line of the last level: a plain store leaves it
    // alone, a locked one keeps it waiting until that is visible.
    let per_pair = |locked: bool| {
        each(&with(&[("l2.size", "0 B")]), 400, |k, log| {
            let at = LineAddr(k * 7 % 1024).start();
            match locked {
                true => log.op(LANE, Op::Rmw { at, bytes: &[1; 8] }),
                false => log.op(LANE, Op::Store { at, bytes: &[1; 8] }),
            }
            load(2048 + k * 7 % 1024, log);
        })
    };
    let (plain, locked) = (per_pair(false), per_pair(true));
    // The store's 34 cycles, and the load's, one after the other.
    assert!(locked >= 68.0 && plain < locked - 25.0, "{plain} and {locked}");
}

#[test]
fn locked_instructions_of_the_last_level_take_the_lookups_of_all() {
    let cost = |kind: &str, changes: &[(&str, &str)], stores_before: bool| {
        let mut config = with(changes);
        config.set_option("core.kind", kind).unwrap();
        each(&config, 400, |k, log| {
            // Four lines that every level holds.
            if stores_before {
                store(k % 4, log);
            }
            log.op(LANE, Op::Rmw { at: LineAddr(k % 4).start(), bytes: &[k as u8; 8] });
        })
    };
    let below = ("llc.atomics", "true");
    for kind in ["inorder", "ooo"] {
        // 4 of the first level, 10 of the second, 30 of the last; out of order some to retire.
        let over = cost(kind, &[below], false) - 44.0;
        assert!(if kind == "ooo" { (0.0..=8.0).contains(&over) } else { over == 0.0 }, "{over}");
        for (key, value, lookups) in [
            ("l2.latency", "20 cycles", 54.0),
            ("llc.latency", "100 cycles", 114.0),
            ("l2.size", "0 B", 34.0),
        ] {
            assert_eq!(cost(kind, &[below, (key, value)], false), lookups + over, "{kind}: {key}");
        }
        // A plain store in between has to fetch the line from the last level, too.
        let with_stores = cost(kind, &[below], true);
        assert!((88.0..=88.0 + 2.0 * over + 2.0).contains(&with_stores), "{kind}: {with_stores}");
        assert!(cost(kind, &[], true) < 20.0, "{kind}: in the first level");
    }
    let message = "llc.atomics needs caches.inclusion = inclusive";
    let config = with(&[below, ("caches.inclusion", "exclusive")]);
    let refused = System::new(&config, NonPers, Setup::default(), Vec::new()).err().unwrap();
    assert!(refused.to_string().contains(message), "{refused}");
}

/// A program of everything: loads, stores, flushes and streams near and far, on two cores.
fn everything() -> OpLog {
    let mut log = OpLog::default();
    let mut random = Random::new(3);
    let mut draw = |below| random.below(below);
    for k in 0..6000 {
        let lane = LaneId((k % 2) as u16);
        let line = match draw(4) {
            0 => draw(24),
            1 => k / 4 % 4096,
            _ => draw(1 << 13),
        };
        let at = PoolOffset(64 * line + 8 * draw(8));
        match draw(10) {
            0..4 => log.op(lane, Op::Load { at, len: 8, depends: None }),
            4..7 => log.op(lane, Op::Store { at, bytes: &[k as u8; 8] }),
            7 => log.op(lane, Op::Flush { kind: FlushKind::Clwb, line: LineAddr(line) }),
            8 => log.op(lane, Op::StoreNt { at: PoolOffset((1 << 21) + at.0), bytes: &[1; 8] }),
            _ if draw(8) == 0 => log.op(lane, Op::Sfence),
            _ if draw(8) == 0 => log.op(lane, Op::Rmw { at, bytes: &[k as u8; 8] }),
            _ => log.op(lane, Op::Compute(3)),
        }
    }
    log
}

fn stats_of(config: &MachineConfig, log: &Arc<OpLog>) -> RunStats {
    let sources = (0..2)
        .map(|lane| Box::new(LaneOps::new(Arc::clone(log), LaneId(lane))) as Box<dyn Source>)
        .collect();
    let mut system = System::new(config, NonPers, Setup::default(), sources).unwrap();
    system.run_to_end().unwrap();
    assert!(system.now() > Cycle(0));
    system.take_stats()
}

/// Keys that a plain run does not show, and what does.
const ELSEWHERE: &[&str] = &[
    "core.predictor_counters", // cores.rs: wrong_branches_lose_their_penalty
    "core.mispredict_penalty", // the same
    "core.instr_pj",           // energy.rs
    "core.static_pj",
    "l1.access_pj",
    "l2.access_pj",
    "llc.access_pj",
    "adr.drain_lines",  // charged/kept.rs
    "caches.scan_tags", // ports.rs: a_lookup_during_a_scan_waits_for_the_end_of_a_set
    "dram.from",        // dram.rs
    "memory.row_read",  // memory_stats.rs: energy_is_lines_and_rows_times_the_bits_energy
    "memory.row_write",
    "memory.array_read",
    "memory.array_write",
    "memory.endurance", // outlast-lab: the_log_wears_out_as_fast_as_it_is_written
];

#[test]
fn there_is_no_key_that_changes_nothing() {
    let log = Arc::new(everything());
    let mut base = MachineConfig::named("server").unwrap();
    // Small, so that everything binds, and with what is off in the presets.
    for (key, value) in [
        ("core.count", "2"),
        ("core.rob", "24"),
        ("core.load_queue", "8"),
        ("core.store_queue", "6"),
        ("core.flushes", "3"),
        ("core.store_prefetch", "2"),
        ("core.issue_width", "2"),
        ("core.retire_width", "3"),
        ("tlb.l1_sets", "1"),
        ("tlb.l2_sets", "1"),
        ("tlb.walkers", "1"),
        ("l1.size", "1 KiB"),
        ("l1.ways", "2"),
        ("l1.mshrs", "3"),
        ("l1.prefetch", "2"),
        ("l1.banks", "2"),
        ("l2.size", "4 KiB"),
        ("l2.ways", "4"),
        ("llc.size", "32 KiB"),
        ("llc.ways", "4"),
        ("llc.mshrs", "4"),
        ("llc.banks", "2"),
        ("llc.bank_busy", "6 cycles"),
        ("caches.wc_lines", "2"),
        ("memory.link", "6 GB/s"),
        ("memory.refresh", "all-bank"),
        ("memory.bank_queue", "2"),
        ("memory.read_queue", "4"),
        ("memory.write_queue", "4"),
        ("memory.drain_high", "4"),
        ("memory.drain_low", "1"),
        ("memory.drain_idle", "2"),
        ("memory.write_buffer", "2"),
        ("memory.row_hits", "2"),
        ("memory.tRFCpb", "60 cycles"),
        ("memory.tRREFD", "4 cycles"),
        ("memory.tFAW", "60 cycles"),
        ("memory.tREFI", "2000 cycles"),
    ] {
        base.set_option(key, value).unwrap();
    }
    let usual = stats_of(&base, &log);
    let other = |key: &str| match key {
        "core.kind" => "inorder",
        "core.count" => "1",
        "core.threads" => "1",
        "core.clock" => "3 GHz",
        "tlb.page" => "2 MiB",
        "l1.policy" | "l2.policy" | "llc.policy" => "random",
        "l1.write_through" | "llc.atomics" => "true",
        "l1.size" => "2 KiB",
        "l2.size" => "8 KiB",
        "llc.per_core" => "32 KiB",
        "buffer.mode" => "write-back",
        "buffer.size" => "64 KiB",
        "buffer.ways" => "2",
        "buffer.policy" => "random",
        "buffer.lookup" => "31 cycles",
        "llc.size" => "64 KiB",
        "llc.banks" => "4",
        "l1.banks" => "4",
        "caches.inclusion" => "exclusive",
        "memory.clock" => "1200 MHz",
        "l1.prefetch" => "0",
        "memory.channels" => "2",
        "core.load_ports" | "memory.read_queue" | "memory.row_hits" => "1",
        "core.load_queue" => "4",
        "memory.write_queue" => "3",
        "memory.ranks" | "memory.groups" | "memory.banks" => "1",
        "memory.row" => "1 KiB",
        "memory.mapping" => "row column rank bank group channel",
        "memory.scheduling" => "fcfs",
        "memory.page" => "closed",
        "memory.adr" => "false",
        "memory.row_durable" => "true",
        "memory.refresh" => "per-bank",
        "memory.link" => "3 GB/s",
        "memory.drain_high" => "3",
        "memory.drain_low" => "0",
        "memory.tREFI" => "1000 cycles",
        "memory.tCCD_L" | "memory.tRRD_L" => "20 cycles",
        "memory.tRTP" => "40 cycles",
        "memory.tRTRS" => "9 cycles",
        "memory.tRAS" | "memory.tWR" => "100 cycles",
        "memory.tFAW" => "200 cycles",
        "memory.tBURST" => "8 cycles",
        "memory.tCCD_S" | "memory.tRRD_S" => "8 cycles",
        key if key.starts_with("memory.t") || key.ends_with("latency") => "31 cycles",
        "memory.path" | "caches.snoop" | "llc.bank_busy" => "31 cycles",
        _ => "8",
    };
    let mut silent = Vec::new();
    for (key, _) in KEYS {
        if ELSEWHERE.contains(key) {
            continue;
        }
        let mut config = base.clone();
        // Some need others to bind, or to be possible.
        let needs: &[(&str, &str)] = match *key {
            "core.threads" => &[("core.count", "1"), ("core.threads", "2")],
            "core.count" => &[("core.threads", "2")],
            "memory.row_durable" => &[("memory.adr", "false"), ("memory.drain_idle", "1")],
            "memory.adr" => &[("memory.drain_idle", "1")],
            "memory.tRFCpb" | "memory.tRREFD" => &[("memory.refresh", "per-bank")],
            "memory.write_queue" => &[("memory.drain_high", "3")],
            "memory.drain_idle" => &[("memory.write_queue", "16")],
            "memory.scheduling" => &[("memory.bank_queue", "0"), ("memory.read_queue", "16")],
            "l1.ways" => &[("l1.size", "4 KiB")],
            "memory.row_hits" => &[("memory.mapping", "row channel rank bank group column")],
            key if key.starts_with("buffer.") => &[
                ("dram.preset", "ddr4-3200"),
                ("buffer.mode", "write-through"),
                ("buffer.size", "32 KiB"),
                ("buffer.ways", "4"),
            ],
            _ => &[],
        };
        needs.iter().for_each(|(key, value)| config.set_option(key, value).unwrap());
        let own = needs.is_empty() || ["core.threads", "core.count"].contains(key);
        let before = if own { usual.clone() } else { stats_of(&config, &log) };
        if *key != "core.threads" {
            config.set_option(key, other(key)).unwrap();
        }
        // The last level is as large as the cores are many where a key says so.
        if stats_of(&config.with_cores(1), &log) == before {
            silent.push(*key);
        }
    }
    assert!(silent.is_empty(), "no effect: {silent:?}");
}
