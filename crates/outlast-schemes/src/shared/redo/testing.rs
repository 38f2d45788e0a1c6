//! What tests of costs have in common: a machine of round times, and programs whose lines are counted.

use std::sync::Arc;

use outlast_sim::timed::{
    LaneOps, Machine, MachineConfig, ReadCause, RunStats, Setup, Source, System,
};
use outlast_sim::{Cause, Domain};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};

use super::{Build, Checkpoints, Config, DIRECTORY, FILL, FLUSH, HOME, RECORD};
use crate::shared::epoch::{EPOCH, SAVE_LINES};
use crate::{Image, Options, Streams, Work};

/// Instructions of an epoch, and behind the stores of a program.
pub(crate) const EPOCH_INSTRUCTIONS: u64 = 100_000;
/// Lines in which a core saves its registers.
pub(crate) const SAVED: u64 = 2;
/// Lines of the program's memory.
const LINES: u64 = 1 << 14;

pub(crate) fn bare(kind: &str) -> MachineConfig {
    let mut machine =
        MachineConfig::from_toml("bare", include_str!("../bare.toml")).expect("it is one");
    machine.set_option("core.kind", kind).expect("it is a kind");
    machine
}

/// Work of one core over [`LINES`].
pub(crate) fn work() -> Work {
    Work {
        streams: Streams::Generated { tx_stores: 0 },
        image: Arc::default(),
        end: LineAddr(LINES),
        lanes: 1,
        is_nested: false,
        whole: None,
    }
}

/// Options with short epochs.
pub(crate) fn options() -> Options {
    Options::default().with(EPOCH.name, EPOCH_INSTRUCTIONS).with(SAVE_LINES.name, SAVED)
}

pub(crate) fn run<B: Build>(
    machine: &MachineConfig,
    config: Config,
    tables: B,
    log: OpLog,
) -> System<Checkpoints<B::Places>> {
    let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log), LaneId(0)));
    let setup = Setup { journal: Some(Domain::Adr), ..Setup::default() };
    let scheme =
        Checkpoints::new(config, config.epochs(Image::new(&[])), tables.build(config.layout));
    let mut system = System::new(machine, scheme, setup, vec![source]).expect("it can be built");
    Machine::run_to_end(&mut system).unwrap_or_else(|error| panic!("{error}"));
    system
}

/// Stores a byte to each of these lines.
pub(crate) fn store(log: &mut OpLog, lines: impl IntoIterator<Item = u64>, value: u8) {
    for line in lines {
        log.op(LaneId(0), Op::Store { at: PoolOffset(64 * line), bytes: &[value; 8] });
    }
}

/// Stores whole lines past the caches, and waits for each; no store is begun while that takes.
pub(crate) fn stream(log: &mut OpLog, lines: impl IntoIterator<Item = u64>, value: u8) {
    for line in lines {
        log.op(LaneId(0), Op::Store64 { line: LineAddr(line), bytes: &[value; 64] });
        log.op(LaneId(0), Op::Sfence);
        log.op(LaneId(0), Op::Compute(500));
    }
}

/// Lets the epoch end, and the next one not.
pub(crate) fn pass(log: &mut OpLog) {
    log.op(LaneId(0), Op::Compute(EPOCH_INSTRUCTIONS as u32 + 2000));
}

/// Reads and writes of a run by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Traffic {
    /// Lines that left the caches, for whatever reason.
    pub(crate) data: u64,
    pub(crate) directory: u64,
    pub(crate) records: u64,
    /// Lines that were copied home: read, and written.
    pub(crate) home: (u64, u64),
    /// Lines with which copies began: read, and written.
    pub(crate) filled: (u64, u64),
}

impl Traffic {
    pub(crate) fn of(stats: &RunStats) -> Self {
        let both = |cause| (stats.reads.of(ReadCause::Scheme(cause)), stats.writes.of(cause));
        let data = [Cause::Evicted, Cause::Flushed, Cause::Forced, Cause::Streamed, FLUSH];
        Self {
            data: data.map(|cause| stats.writes.of(cause)).iter().sum(),
            directory: stats.writes.of(DIRECTORY),
            records: stats.writes.of(RECORD),
            home: both(HOME),
            filled: both(FILL),
        }
    }
}

/// What a run counted under this name.
pub(crate) fn counter(stats: &RunStats, name: &str) -> u64 {
    let found = stats.counters.iter().find(|counter| counter.name == name);
    found.unwrap_or_else(|| panic!("nothing counts {name}")).value as u64
}
