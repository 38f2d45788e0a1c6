//! Descriptions of machines in TOML: what is accepted can be built and runs.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use outlast_fuzz::seeds;
use outlast_sim::timed::{
    KEYS, LaneOps, MachineConfig, MemoryRequest, NonPers, Setup, Source, System,
};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};

/// Descriptions of which the fuzzer makes others.
const SEEDS: &[&str] = &[
    "base = \"tiny\"\ncore.kind = \"ooo\"\n",
    "base = \"blank\"\n[l1]\nsize = \"8KiB\"\nways = 8\npolicy = \"plru\"\n",
    "base = \"picl\"\n[memory]\npreset = \"cxl-pm\"\nchannels = 2\nrefresh = \"per-bank\"\n",
    "[dram]\nfrom = \"1GiB\"\npreset = \"ddr4-3200\"\n[buffer]\nmode = \"cache\"\nsize = \"1MiB\"\n",
    "base = \"tiny\"\nllc.size = \"64KiB\"\ncaches.inclusion = \"exclusive\"\nl1.prefetch = 2\n",
    "base = \"ehou\"\ncore.count = 2\nmemory.write_queue = 8\nmemory.drain_high = 6\nmemory.t_cl = \"10ns\"\n",
];

fn operations() -> Arc<OpLog> {
    let mut log = OpLog::default();
    for line in (0..40).map(|n| LineAddr(n * n)) {
        log.op(LaneId(0), Op::Load { at: line.start(), len: 8, depends: Some(1) });
        log.op(LaneId(0), Op::Store { at: line.start(), bytes: &[7; 8] });
        log.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line });
        log.op(LaneId(0), Op::Sfence);
        log.op(LaneId(0), Op::StoreNt { at: PoolOffset(1 << 20), bytes: &[9; 64] });
    }
    Arc::new(log)
}

/// Each key alone, as the default machine has it.
fn keys() -> Vec<String> {
    let machine = MachineConfig::named("server").expect("a preset");
    let keys = KEYS.iter().filter_map(|(key, _)| Some((key, machine.get(key)?)));
    keys.map(|(key, value)| format!("base = \"tiny\"\n{key} = \"{value}\"\n")).collect()
}

fuzz_target!(init: seeds(SEEDS.iter().map(ToString::to_string).chain(keys())), |input: &str| {
    let _ = input.lines().next().map(MemoryRequest::parse);
    // A base that is no preset is a file.
    if input.contains('/') {
        return;
    }
    let Ok(config) = MachineConfig::from_toml("input", input) else { return };
    let source: Box<dyn Source> = Box::new(LaneOps::new(operations(), LaneId(0)));
    if let Ok(mut system) = System::new(&config, NonPers, Setup::default(), vec![source]) {
        let _ = system.run_to_end();
        system.take_stats();
    }
});
