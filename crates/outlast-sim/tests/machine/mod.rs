//! Small machines with round times, and scripts for them.
#![allow(dead_code, reason = "each test uses its part of this")]

use outlast_sim::Domain;
use outlast_sim::timed::{LaneOps, MachineConfig, NonPers, Setup, Source, System};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, TxId};
use std::sync::Arc;

/// Everything takes round numbers of one clock; nothing is translated.
const BARE: &str = r#"
base = "blank"
[core]
clock = "1 GHz"
count = 1
dispatch_width = 4
issue_width = 4
retire_width = 4
load_ports = 2
rob = 64
load_queue = 32
store_queue = 16
[tlb]
page = "0 B"
l1_sets = 2
l2_sets = 4
l2_latency = "5 cycles"
walk_latency = "6 cycles"
[l1]
size = "2 KiB"
ways = 4
latency = "4 cycles"
mshrs = 8
[l2]
size = "16 KiB"
ways = 8
latency = "10 cycles"
[llc]
size = "256 KiB"
ways = 16
latency = "30 cycles"
mshrs = 16
[caches]
snoop = "15 cycles"
[memory]
clock = "1 GHz"
path = "10 cycles"
tCL = "20 cycles"
tCWL = "20 cycles"
tRCD = "20 cycles"
tRP = "20 cycles"
tRAS = "40 cycles"
tBURST = "4 cycles"
tCCD_S = "4 cycles"
tCCD_L = "4 cycles"
tWR = "100 cycles"
tWTR_S = "4 cycles"
tWTR_L = "4 cycles"
tRTP = "4 cycles"
"#;

/// No time for anything but an instruction's cycle. Every write is on its way alone.
pub const NO_TIME: &str = r#"
base = "blank"
[core]
store_queue = 4
[tlb]
page = "0 B"
[l1]
size = "512 B"
ways = 4
[llc]
size = "2 KiB"
ways = 4
"#;

/// The small machine with this kind of core.
pub fn bare(kind: &str) -> MachineConfig {
    let mut config = MachineConfig::from_toml("bare", BARE).unwrap();
    config.set_option("core.kind", kind).unwrap();
    config
}

/// Runs a lane's operations to their end.
pub fn run(config: &MachineConfig, log: OpLog, journal: Option<Domain>) -> System<NonPers> {
    let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log), LaneId(0)));
    let setup = Setup { journal, ..Setup::default() };
    let mut system = System::new(config, NonPers, setup, vec![source]).unwrap();
    system.run_to_end().unwrap_or_else(|error| panic!("{error}"));
    system
}

/// How many cycles that takes.
pub fn cycles(config: &MachineConfig, log: &OpLog) -> u64 {
    run(config, log.clone(), None).now().0
}

/// `n` loads, each waiting for the one before, `stride` lines apart, round `lines` lines.
pub fn chase(n: u64, lines: u64, stride: u64) -> OpLog {
    let mut log = OpLog::default();
    for k in 0..n {
        let at = LineAddr(k % lines * stride).start();
        log.op(LaneId(0), Op::Load { at, len: 8, depends: Some(1) });
    }
    log
}

/// Operations of lane 0, line by line.
#[derive(Default)]
pub struct Script(pub OpLog);

impl Script {
    pub fn store(&mut self, line: u64, value: u64) -> &mut Self {
        let at = PoolOffset(64 * line);
        self.0.op(LaneId(0), Op::Store { at, bytes: &value.to_le_bytes() });
        self
    }

    pub fn flush(&mut self, line: u64) -> &mut Self {
        let line = LineAddr(line);
        self.0.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line });
        self
    }

    pub fn fence(&mut self) -> &mut Self {
        self.0.op(LaneId(0), Op::Sfence);
        self
    }

    pub fn ack(&mut self, tx: u64) -> &mut Self {
        self.0.op(LaneId(0), Op::Ack(TxId(tx)));
        self
    }
}
