//! PiCL: checkpoints that programs never notice, by an undo log that caches write ("PiCL: A
//! Software-Transparent, Persistent Cache Log for Nonvolatile Main Memory", MICRO'18).
//!
//! A line carries the number of the epoch of its last store. A store of a younger epoch sends what the
//! line held to the undo buffer, with the epochs for which that is the line's content. At the end of an
//! epoch nothing is flushed: a scan of the last level writes the epoch's lines home some epochs later,
//! and then the epoch has persisted. Recovery applies the log backwards. `docs/picl.md` has every point
//! in which the paper is unsound or silent (PICL-1 to PICL-13), and what shows that it is closed.
//!
//! - `ports` sits in the machine: what stores, write-backs and epochs' ends do.
//! - `buffer` is the undo buffer with the log behind it, `scan` the asynchronous cache scan.
//! - `functional` is the mechanism without a machine: a driver says what caches do.
//! - `layout` says what lies where, and what a block of the log is; `recover` comes after a crash.

mod buffer;
mod config;
mod functional;
mod layout;
mod plants;
mod ports;
mod recover;
mod scan;

use std::sync::Arc;

use outlast_sim::Inclusion;
use outlast_sim::timed::{Machine, MachineConfig, MachineError, Setup, Source};
use outlast_trace::{Guarantee, LaneId, OpLog};

use crate::scheme::{HardwareScheme, LogRead, PrepareError, Prepared, Reading, Variant};
use crate::shared::ait::{Ait, machine};
use crate::shared::epoch::{EPOCH, Registers, SAVE_LINES};
use crate::shared::output::PERSIST_OUTPUT;
use crate::{Image, Key, Options, Patch, Plant, RecoveryError, Unit, Work};
use config::{Config, Fault, Faults};
pub use functional::Functional;
pub use layout::Entry;
use layout::{Granule, Layout, block_bytes};
use ports::{EPOCHS, Picl};

/// The scheme.
pub struct CacheLog;

/// Tags tell 16 epochs apart: one is spare, the one that executes and the one that persists are two.
const GAP_MAX: u64 = EPOCHS - 3;

/// The only value that the paper shows.
const ACS_GAP: Key = Key::number(
    "acs_gap",
    Unit::Count("epochs"),
    3,
    (0, GAP_MAX),
    "epochs that have ended and are not scanned for yet",
);
/// As hardware has it whose private caches have shorter lines than the last level.
const QUARTERS: Key =
    Key::flag("quarters", false, "EIDs and undo entries are of 16 bytes, four EIDs a line");
/// What 2 KB hold with addresses and epochs: three times as many quarters.
const UNDO_ENTRIES: Key = Key::number(
    "undo_entries",
    Unit::Count("entries"),
    Granule::Line.usual_entries(),
    (1, 512),
    "entries of the undo buffer, and of a block of the log",
);
const DOUBLE: Key =
    Key::flag("double_buffer", true, "a second buffer takes entries while the first is written");
const BLOOM_BITS: Key =
    Key::number("bloom_bits", Unit::Count("bits"), 4096, (64, 1 << 24), "of the buffer's filter");
/// From the first level by the second to the last, as those of the paper's machine take.
const FORWARD: Key = Key::number(
    "forward",
    Unit::Cycles,
    34,
    (0, 1 << 30),
    "an entry's way from a private cache to the buffer",
);
const LOG: Key = Key::number(
    "log",
    Unit::Bytes,
    4 << 20,
    (64, 1 << 40),
    "the log, and what the operating system adds to it at a time",
);
const LOG_GROWTHS: Key =
    Key::number("log_growths", Unit::Count("times"), 15, (0, 1 << 20), "that it does at most");
const INTERRUPT: Key = Key::number(
    "interrupt",
    Unit::Cycles,
    2000,
    (0, 1 << 30),
    "the interrupt in which the operating system adds to the log",
);
const SUPER_BLOCK: Key = Key::number(
    "super_block",
    Unit::Bytes,
    4 << 10,
    (64, 1 << 30),
    "what of the log is freed at a time: whole blocks, one at least",
);
/// What the paper's text leaves out, all of it together.
const LITERAL: Faults = Faults::of(&[Fault::ScanUnfiltered, Fault::TornTaken, Fault::Untruncated]);

const VARIANTS: [Variant; 2] = [
    Variant::new(
        "picl",
        Guarantee::Epoch,
        Reading::Sound,
        "checkpoints by an undo log that caches write, persisted by a scan behind them",
    )
    .giving_up("what ran since the last epoch that persisted, some epochs back"),
    Variant::new(
        "picl:literal",
        Guarantee::None,
        Reading::AsPublished,
        "picl as the paper's text has it",
    ),
];

impl HardwareScheme for CacheLog {
    fn variants(&self) -> &'static [Variant] {
        &VARIANTS
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 13] = [
            EPOCH,
            ACS_GAP,
            SAVE_LINES,
            QUARTERS,
            UNDO_ENTRIES,
            DOUBLE,
            BLOOM_BITS,
            FORWARD,
            LOG,
            LOG_GROWTHS,
            INTERRUPT,
            SUPER_BLOCK,
            PERSIST_OUTPUT,
        ];
        &KEYS
    }

    fn plants(&self) -> &'static [Plant] {
        &plants::PLANTS
    }

    fn small(&self) -> Options {
        Options::default()
            .with(EPOCH.name, 60)
            .with(SAVE_LINES.name, 1)
            .with(ACS_GAP.name, 1)
            .with(UNDO_ENTRIES.name, 4)
            .with(BLOOM_BITS.name, 256)
            .with(LOG.name, 8 * block_bytes(Granule::Line, 4))
            .with(LOG_GROWTHS.name, 63)
            .with(SUPER_BLOCK.name, 2 * block_bytes(Granule::Line, 4))
    }

    fn prepare(
        &self,
        variant: &'static Variant,
        work: &Work,
        options: &Options,
        planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let literal = if variant.reading == Reading::AsPublished { LITERAL } else { Faults::NONE };
        let faults = literal.and(planted.map_or(Faults::NONE, plants::faults));
        let config = configured(work, options, faults)?;
        let on = Ait::chosen(options, false)?;
        Ok(Box::new(Under { streams: work.recorded().to_vec(), config, on }))
    }
}

/// What is chosen, over this work.
fn configured(work: &Work, options: &Options, faults: Faults) -> Result<Config, PrepareError> {
    let granule = if options.get(&QUARTERS) != 0 { Granule::Quarter } else { Granule::Line };
    let entries = match options.is_given(&UNDO_ENTRIES) {
        true => options.get(&UNDO_ENTRIES),
        false => granule.usual_entries(),
    };
    let block = block_bytes(granule, entries);
    let layout = Layout {
        registers: Registers::of(work.whole(), options),
        granule,
        entries,
        chunk: options.get(&LOG) / block,
        growths: options.get(&LOG_GROWTHS),
        super_blocks: (options.get(&SUPER_BLOCK) / block).max(1),
    };
    if layout.chunk == 0 {
        return Err(PrepareError::new(format_args!(
            "a log of {} holds no block of {entries} entries, which takes {block} B",
            LOG.show(options.get(&LOG))
        )));
    }
    // Planted: so far behind that tags begin again.
    let behind = if faults.has(Fault::TagsWrap) { EPOCHS } else { 0 };
    Ok(Config {
        layout,
        epoch: options.get(&EPOCH),
        gap: options.get(&ACS_GAP) + behind,
        is_double: options.get(&DOUBLE) != 0,
        bloom_bits: options.get(&BLOOM_BITS),
        forward_cycles: options.get(&FORWARD),
        interrupt_cycles: options.get(&INTERRUPT),
        persists_output: options.get(&PERSIST_OUTPUT) != 0,
        scanned_level: None,
        faults,
    })
}

#[derive(Debug)]
struct Under {
    streams: Vec<Arc<OpLog>>,
    config: Config,
    /// What it stands on.
    on: Option<Ait>,
}

impl Under {
    /// Entries that the end of an epoch may make behind the last instruction, and so blocks: what is in
    /// store buffers, and the registers.
    fn reserve(&self, config: &MachineConfig) -> u64 {
        let registers = self.config.layout.registers;
        registers.lanes() * u64::from(config.core.store_queue) + registers.saved_lines() + 4
    }
}

impl Prepared for Under {
    fn streams(&self) -> &[Arc<OpLog>] {
        &self.streams
    }

    fn lines(&self) -> u64 {
        self.config.layout.lines()
    }

    fn machine(
        &self,
        config: &MachineConfig,
        setup: Setup,
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Box<dyn Machine>, MachineError> {
        let Layout { chunk, growths, .. } = self.config.layout;
        let (reserve, blocks) = (self.reserve(config), chunk * (1 + growths));
        if blocks < 2 * reserve {
            let least = LOG.show(2 * reserve * self.config.layout.block_bytes());
            let message = format!(
                "a log of {blocks} blocks may be full before an epoch has ended: scheme.log and \
                 scheme.log_growths have to make {least} at least"
            );
            return Err(MachineError::Impossible { name: config.name.clone(), message });
        }
        let is_inclusive = config.caches().inclusion == Inclusion::Inclusive;
        let scanned_level = is_inclusive.then_some(3);
        let of_machine = Config { scanned_level, ..self.config };
        let picl = Picl::new(of_machine, reserve, Image::new(&setup.base));
        machine(config, picl, self.on, self.lines(), setup, sources)
    }

    fn recover(&self, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
        recover::recover(self.config.layout, self.config.faults, image)
    }

    fn reads_at_recovery(&self, image: Image<'_>) -> Vec<LogRead> {
        recover::reads(self.config.layout, image)
    }

    fn epoch(&self, image: Image<'_>) -> Option<u64> {
        Some(image.word_or_zero(self.config.layout.header(), layout::PERSISTED))
    }

    fn epoch_lines(&self) -> u64 {
        self.config.layout.header().0
    }

    fn resumes_at(&self, image: Image<'_>, lane: LaneId) -> u64 {
        self.config.layout.registers.position(image, lane)
    }
}
