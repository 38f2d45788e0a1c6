//! Hardware redo logging behind a DRAM cache: the first design that EHOU's paper compares with
//! (`redu`, "Efficient hardware-assisted out-place update for persistent memory", section IV-A; the
//! mechanism is that of "Efficient hardware-assisted logging with asynchronous and direct-update
//! for persistent memory", MICRO'18). `docs/redu.md` says what the paper leaves open.
//!
//! - *Log.* A store of a transaction puts its line, as it is then, into its lane's log buffer. Six
//!   lines leave as one record for the lane's ring in persistent memory, when a seventh comes or the
//!   transaction ends. A line that is stored to again while it is in the buffer is there once.
//! - *Commit.* A transaction ends when its records are durable, and then the header of the last one,
//!   which makes them count. Its data is not waited for.
//! - *DRAM cache.* Lines of a running transaction that leave the caches go there, and never to their
//!   place. It is looked up before every read of persistent memory.
//! - *Direct update.* Lines of transactions that have committed are written in place: from the caches,
//!   if they are there; from the DRAM cache; from the log where the DRAM cache had no way for them.
//!   When all of a transaction's lines are durable in place, the log may be truncated behind it.
//! - *Abort.* Lines of the transaction leave the caches, the DRAM cache and the buffer, and its records
//!   never count.
//! - *Recovery* writes what committed, of each line what the last commit with it has, and moves the
//!   truncation point.
//!
//! Isolation is the program's business, by lines: no transaction stores to a line that another open
//! one has stored to. Where it happens nonetheless, the line is the first transaction's.
//!
//! ```text
//!                first store of a transaction            its record is in the log
//!   in place ───────────────────────────────────> open ─────────────────────────────> queued
//!      ^                                                                                │
//!      │                                             out of the caches, or forced out   │
//!      └── written in place <───────────────────────────────────────────────────────────┤
//!      ^                                                                                │
//!      └── written in place <── the next transaction's first store: its old bytes <─────┘
//! ```

mod dram;
mod lane;
mod plants;
mod ports;
mod recover;
#[cfg(test)]
mod tests;
mod update;

use std::sync::Arc;

use outlast_sim::timed::{Machine, MachineConfig, MachineError, Setup, Source};
use outlast_trace::{Guarantee, OpLog};

use crate::hwl::with_calls;
use crate::plant::Plant;
use crate::scheme::{HardwareScheme, PrepareError, Prepared, Reading, Variant};
use crate::shared::ait::{Ait, machine};
use crate::shared::ring::{RECORDS_MAX, Rings, Size, WORDS};
use crate::{Image, Key, Options, Patch, RecoveryError, Unit, Work};
use dram::Shape;
use plants::Fault;
use ports::Redu;

/// The scheme.
pub struct HardwareRedo;

/// Lines of a record.
const GROUP: usize = WORDS;

const LOG_RECORDS: Key = Key::number(
    "log_records",
    Unit::Count("records"),
    0,
    (0, RECORDS_MAX),
    "records of each lane's log, six lines each; 0: twice what the work needs, 1024 at least",
);
const FIT_LOG: Key = Key::flag(
    "fit_log",
    false,
    "a log too small for the work's transactions is as large as they need",
);
const LOG_BUFFER: Key = Key::number(
    "log_buffer",
    Unit::Count("lines"),
    16,
    (GROUP as u64, 4096),
    "lines of each lane's log buffer, those on their way to the log included",
);
const DRAM_SIZE: Key = Key::number(
    "dram_size",
    Unit::Bytes,
    64 << 20,
    (0, 16 << 30),
    "the DRAM cache; 0: none, and what it would hold is read from the log",
);
const DRAM_WAYS: Key = Key::number(
    "dram_ways",
    Unit::Count("ways"),
    16,
    (1, 1024),
    "ways of each set of the DRAM cache",
);
const DRAM_LRU: Key = Key::flag(
    "dram_lru",
    true,
    "the DRAM cache replaces what was used least recently, not what came first",
);
const DRAM_LATENCY: Key = Key::number(
    "dram_latency",
    Unit::Cycles,
    100,
    (0, 1 << 20),
    "the DRAM cache's, in front of every read of persistent memory",
);
const UPDATES: Key = Key::number(
    "updates",
    Unit::Count("lines"),
    8,
    (1, 4096),
    "lines on their way to their place at a time",
);
const KEYS: [Key; 8] =
    [LOG_RECORDS, FIT_LOG, LOG_BUFFER, DRAM_SIZE, DRAM_WAYS, DRAM_LRU, DRAM_LATENCY, UPDATES];

const SIZE: Size = Size { records: LOG_RECORDS, fit: FIT_LOG, least: 1024 };

/// What was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Config {
    rings: Rings,
    buffer: usize,
    dram: Shape,
    /// Cycles of a lookup in the DRAM cache.
    latency: u64,
    updates: usize,
    fault: Option<Fault>,
}

impl HardwareScheme for HardwareRedo {
    fn variants(&self) -> &'static [Variant] {
        const VARIANTS: [Variant; 1] = [Variant::new(
            "redu",
            Guarantee::Durable,
            Reading::Sound,
            "hardware redo log of lines behind a DRAM cache, direct update in place",
        )
        .giving_up("a second write of every line, and a lookup in DRAM before every read")];
        &VARIANTS
    }

    fn keys(&self) -> &'static [Key] {
        &KEYS
    }

    fn plants(&self) -> &'static [Plant] {
        &plants::PLANTS
    }

    fn small(&self) -> Options {
        Options::default()
            .with(LOG_RECORDS.name, 8)
            .with(FIT_LOG.name, 1)
            .with(LOG_BUFFER.name, 8)
            .with(DRAM_SIZE.name, 4 * 64)
            .with(DRAM_WAYS.name, 2)
            .with(UPDATES.name, 2)
    }

    fn undoes_aborts(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        _variant: &'static Variant,
        work: &Work,
        options: &Options,
        planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        work.check_transactions("logs transactions")?;
        let needed = work.largest_transaction().div_ceil(GROUP as u64).max(1);
        let records = SIZE.records("log", options, needed)?;
        let rings = Rings { base: work.end, rings: work.lanes.into(), records, data: GROUP as u64 };
        let config = Config {
            rings,
            buffer: options.get(&LOG_BUFFER) as usize,
            dram: Shape {
                lines: options.get(&DRAM_SIZE) / 64,
                ways: options.get(&DRAM_WAYS),
                is_lru: options.get(&DRAM_LRU) != 0,
            },
            latency: options.get(&DRAM_LATENCY),
            updates: options.get(&UPDATES) as usize,
            fault: planted.map(plants::fault),
        };
        let streams = work.recorded().iter().map(|log| Arc::new(with_calls(log))).collect();
        let on = Ait::chosen(options, true)?;
        Ok(Box::new(Under { streams, config, on }))
    }
}

#[derive(Debug)]
struct Under {
    streams: Vec<Arc<OpLog>>,
    config: Config,
    /// What it stands on.
    on: Option<Ait>,
}

impl Prepared for Under {
    fn streams(&self) -> &[Arc<OpLog>] {
        &self.streams
    }

    fn lines(&self) -> u64 {
        self.config.rings.base.0 + self.config.rings.lines()
    }

    fn machine(
        &self,
        config: &MachineConfig,
        setup: Setup,
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Box<dyn Machine>, MachineError> {
        let redu = Redu::new(self.config, Image::new(&setup.base));
        machine(config, redu, self.on, self.lines(), setup, sources)
    }

    fn recover(&self, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
        recover::recover(self.config.rings, self.config.fault, image)
    }
}
