//! What the ports charge, by closed formulas in time and traffic: one scheme for each of the families
//! that come next, reduced to what it has to pay for.

#[path = "../machine/mod.rs"]
mod machine;

mod ait;
mod buffer;
mod copies;
mod dram_cache;
mod flush;
mod kept;
mod pages;
mod stop;
mod traces;
mod undo;

use machine::bare;
use outlast_sim::Domain;
use outlast_sim::timed::{LaneOps, MachineConfig, RunError, Scheme, Setup, Source, System};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};
use std::sync::Arc;

/// Cycles of the small machine: to the memory or back, and from an activate to a line's last data.
const PATH: u64 = 10;
const READ: u64 = 20 + 20 + 4;

/// The small machine with some values changed. Rows close behind each access, so that every access
/// that is alone takes as long.
fn with(kind: &str, changes: &[(&str, &str)]) -> MachineConfig {
    let mut config = bare(kind);
    for (key, value) in [("memory.page", "closed")].iter().chain(changes) {
        config.set_option(key, value).unwrap();
    }
    config
}

/// Each lane's operations to their end, from these bytes of memory.
fn run_lanes<S: Scheme>(
    config: &MachineConfig,
    scheme: S,
    lanes: Vec<OpLog>,
    base: Vec<u8>,
) -> System<S> {
    let source = |log| -> Box<dyn Source> { Box::new(LaneOps::new(Arc::new(log), LaneId(0))) };
    let sources = lanes.into_iter().map(source).collect();
    run_sources(config, scheme, sources, base).unwrap_or_else(|error| panic!("{error}"))
}

/// Each core's instructions to their end, with what became durable kept.
fn run_sources<S: Scheme>(
    config: &MachineConfig,
    scheme: S,
    sources: Vec<Box<dyn Source>>,
    base: Vec<u8>,
) -> Result<System<S>, RunError> {
    let mut config = config.clone();
    config.core.count = config.core.count.max(sources.len() as u32);
    let setup = Setup { journal: Some(Domain::Adr), base, ..Setup::default() };
    let mut system = System::new(&config, scheme, setup, sources).unwrap();
    system.run_to_end()?;
    Ok(system)
}

fn run<S: Scheme>(config: &MachineConfig, scheme: S, log: OpLog) -> System<S> {
    run_lanes(config, scheme, vec![log], Vec::new())
}

/// Loads of lines, each waiting for the one before.
fn loads(lines: impl IntoIterator<Item = u64>) -> OpLog {
    let mut log = OpLog::default();
    for line in lines {
        let at = LineAddr(line).start();
        log.op(LaneId(0), Op::Load { at, len: 8, depends: Some(1) });
    }
    log
}

fn store(log: &mut OpLog, line: u64, value: u64) {
    log.op(LaneId(0), Op::Store { at: PoolOffset(64 * line), bytes: &value.to_le_bytes() });
}
