//! Volatile memory beside the persistent one.

use crate::machine::{Script, bare, cycles, run};
use outlast_sim::Domain;
use outlast_sim::timed::{
    MachineConfig, MemoryConfig, MemoryRequest, NonPers, Pattern, Setup, Source, Stream, System,
    replay,
};
use outlast_trace::{LINE_BYTES, LaneId, LineAddr, Op, OpLog, Sink};

/// The first volatile line of these machines.
const FROM: u64 = 1 << 20;

fn with_dram(kind: &str) -> MachineConfig {
    let mut config = bare(kind);
    for (key, value) in [
        ("dram.preset", "ddr4-3200"),
        ("dram.from", "64 MiB"),
        ("dram.clock", "1 GHz"),
        ("dram.path", "7 cycles"),
        ("dram.tREFI", "0 ns"),
    ] {
        config.set_option(key, value).unwrap();
    }
    config
}

/// `n` dependent loads, `stride` lines apart, from `first` on.
fn chase_from(first: u64, n: u64, stride: u64) -> OpLog {
    let mut log = OpLog::default();
    for k in 0..n {
        let at = LineAddr(first + k * stride).start();
        log.op(LaneId(0), Op::Load { at, len: 8, depends: Some(1) });
    }
    log
}

#[test]
fn each_memory_has_its_own_timing() {
    for kind in ["ooo", "inorder"] {
        let config = with_dram(kind);
        // Each load closes a row of one bank and opens another.
        let per_load = |first, stride| {
            let cycles = |n| cycles(&config, &chase_from(first, n, stride));
            (cycles(600) - cycles(400)) as f64 / 200.0
        };
        // 44 of lookups, two paths of 10, tRP + tRCD + CL of 20 each, the burst.
        assert_eq!(per_load(0, 8 * 32), 44.0 + 20.0 + 60.0 + 4.0, "{kind}");
        // Two paths of 7, a clock to the bank's queue, 22 each, the burst.
        assert_eq!(per_load(FROM, 32 * 128), 44.0 + 14.0 + 1.0 + 66.0 + 4.0, "{kind}");
    }
}

#[test]
fn the_two_memories_work_at_the_same_time() {
    let config = with_dram("ooo");
    let loads = |lines: &[u64]| {
        let mut log = OpLog::default();
        for &line in lines {
            log.op(LaneId(0), Op::Load { at: LineAddr(line).start(), len: 8, depends: None });
        }
        cycles(&config, &log)
    };
    // Two rows of one bank wait for each other; a row here and one there do not.
    let (one, same_bank, both) = (loads(&[0]), loads(&[0, 8 * 32]), loads(&[0, FROM]));
    assert!(both <= one + 2, "{one}, {both}");
    assert!(same_bank >= one + 60, "{one}, {same_bank}");
}

#[test]
fn nothing_volatile_becomes_durable_and_its_flushes_are_acknowledged() {
    for kind in ["ooo", "inorder"] {
        for adr in ["true", "false"] {
            let mut config = with_dram(kind);
            config.set_option("memory.adr", adr).unwrap();
            config.set_option("dram.channels", "2").unwrap();
            config.set_option("dram.mapping", "row rank bank group column channel").unwrap();
            let mut script = Script::default();
            for line in 0..40 {
                script.store(line, line + 1).store(FROM + line, line + 1);
                script.flush(line).flush(FROM + line).fence().ack(line);
            }
            let mut system = run(&config, script.0, Some(Domain::Adr));
            let journal = system.journal().unwrap().journal().clone();
            let lines: Vec<_> = (0..journal.len()).map(|n| journal.get(n).line).collect();
            assert_eq!(lines, (0..40).map(LineAddr).collect::<Vec<_>>(), "{kind}, adr {adr}");
            assert_eq!(system.line(LineAddr(FROM + 7))[0], 8, "{kind}: it holds what was stored");
            let stats = system.take_stats();
            assert_eq!((stats.memory.writes, stats.memory.reads), (40, 40), "{kind}, adr {adr}");
            let dram = stats.dram.unwrap();
            assert_eq!((dram.writes, dram.reads), (40, 40), "{kind}, adr {adr}");
        }
    }
}

#[test]
fn caches_that_are_durable_are_so_for_persistent_lines_only() {
    let mut script = Script::default();
    script.store(3, 1).store(FROM, 1).store(4, 1);
    let system = run(&with_dram("inorder"), script.0, Some(Domain::Eadr));
    let journal = system.journal().unwrap().journal();
    let lines: Vec<_> = (0..journal.len()).map(|n| journal.get(n).line).collect();
    assert_eq!(lines, [LineAddr(3), LineAddr(4)]);
}

#[test]
fn a_machine_that_uses_none_runs_as_if_there_were_none() {
    for kind in ["ooo", "inorder"] {
        let stats = |dram: bool| {
            let mut config = MachineConfig::named("server").unwrap();
            config.set_option("core.kind", kind).unwrap();
            // Page table entries lie above all else.
            config.set_option("tlb.page", "0 B").unwrap();
            if dram {
                config.set_option("dram.preset", "ddr4-3200").unwrap();
                config.set_option("dram.from", "1 GiB").unwrap();
            }
            let source: Box<dyn Source> = Box::new(Stream::new(Pattern::Random, 3));
            let mut system = System::new(&config, NonPers, Setup::default(), vec![source]).unwrap();
            system.run(30_000).unwrap();
            system.take_stats()
        };
        let (without, mut with) = (stats(false), stats(true));
        assert_eq!(with.dram.take(), Some(Default::default()), "{kind}");
        assert_eq!(with, without, "{kind}");
    }
}

#[test]
fn what_is_wrong_with_it_is_said_of_its_own_keys() {
    let wrong = |options: &[(&str, &str)]| {
        let mut config = bare("ooo");
        let set = options.iter().try_for_each(|(key, value)| config.set_option(key, value));
        set.and_then(|()| config.validate()).unwrap_err().to_string()
    };
    let dram = ("dram.preset", "ddr4-3200");
    assert!(wrong(&[dram]).ends_with("dram.from, a multiple of 64 B above 0 B, or buffer.mode"));
    assert!(wrong(&[("dram.from", "1 GiB")]).ends_with("dram.from needs dram.preset"));
    assert_eq!(wrong(&[("dram.tCL", "4 ns")]), "--set: dram.tCL needs dram.preset before it");
    assert_eq!(
        wrong(&[dram, ("dram.tCLL", "4 ns")]),
        "--set: no key is named 'dram.tCLL'; did you mean 'dram.tCL'?"
    );
    assert!(
        wrong(&[("dram.preset", "sram")])
            .contains("no memory is named 'sram'; there are ddr4-3200")
    );
    let banks = wrong(&[dram, ("dram.from", "1 GiB"), ("dram.banks", "3")]);
    assert!(banks.ends_with("dram.banks is 3: take a power of two"), "{banks}");
    let text = "base = \"hwl\"\n[dram]\nfrom = \"8 GiB\"\npreset = \"ddr4-3200\"\ntCL = \"9 ns\"\n";
    let machine = MachineConfig::from_toml("mine.toml", text).unwrap();
    machine.validate().unwrap();
    let dram = machine.dram.memory.unwrap();
    assert_eq!(dram.t_cl, outlast_sim::timed::Span::Ps(9000));
    assert_eq!(machine.memory.row.0, 2048, "that of hwl-pcm stays");
}

/// Bytes that a memory's channels can carry in a second.
fn most(memory: &MemoryConfig) -> f64 {
    let burst = memory.t_burst.cycles(memory.clock.period_fs()) as f64;
    let seconds = burst * memory.clock.period_fs() as f64 * 1e-15;
    LINE_BYTES as f64 * f64::from(memory.channels) / seconds
}

#[test]
fn no_list_takes_more_than_the_channels_carry_and_a_stream_takes_nearly_all() {
    let request = |line, write, at| MemoryRequest { line: LineAddr(line), write, at };
    let all = |line: fn(u64) -> u64, write: fn(u64) -> bool, every: u64| -> Vec<_> {
        (0..4000).map(|n| request(line(n), write(n), n * every)).collect()
    };
    let lists: [Vec<MemoryRequest>; 7] = [
        all(|n| n, |_| false, 0),
        all(|n| n, |_| true, 0),
        all(|_| 7, |_| false, 0),
        all(|_| 7, |_| true, 0),
        all(|n| n % 3, |n| n % 2 == 0, 1),
        all(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44, |n| n % 3 == 0, 0),
        vec![request(3, true, 0), request(3, false, 1)],
    ];
    for preset in ["server", "ehou", "hwl", "picl"] {
        let mut machine = MachineConfig::named(preset).unwrap();
        for channels in ["1", "2"] {
            machine.set_option("memory.channels", channels).unwrap();
            for (number, list) in lists.iter().enumerate() {
                let (found, most) =
                    (replay(&machine.memory, list).bandwidth, most(&machine.memory));
                assert!(found <= most * 1.000_001, "{preset}, {number}: {found} of {most}");
                if preset == "server" && channels == "1" && number == 0 {
                    println!("{found:e} of {most:e} bytes a second");
                    assert!(found > 0.9 * most, "a stream gets {found} of {most}");
                }
            }
        }
    }
}
