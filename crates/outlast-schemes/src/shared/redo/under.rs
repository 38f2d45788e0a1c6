//! A scheme with redo copies under some work.

use std::fmt::Debug;
use std::sync::Arc;

use outlast_sim::timed::{Machine, MachineConfig, MachineError, Setup, Source};
use outlast_trace::{LaneId, LineAddr, OpLog};

use super::layout::SLOTS_MAX;
use super::{Checkpoints, Fault, Layout, Places};
use crate::scheme::{PrepareError, Prepared};
use crate::shared::ait::{Ait, machine};
use crate::shared::epoch::{EPOCH, Epochs, Registers};
use crate::shared::output::PERSIST_OUTPUT;
use crate::{Image, Key, Options, Patch, RecoveryError, Unit, Work};

pub(crate) const TABLE_WAYS: Key = Key::number(
    "table_ways",
    Unit::Count("ways"),
    16,
    (1, 4096),
    "entries of each set of a translation table",
);
pub(crate) const LOOKUP: Key = Key::number(
    "table_latency",
    Unit::Cycles,
    0,
    (0, 1 << 20),
    "a lookup in the translation tables",
);
pub(crate) const COPIES: Key = Key::number(
    "copies",
    Unit::Count("entries"),
    16,
    (1, 4096),
    "lines or pages on their way home at a time",
);

pub(crate) const PAST_TABLES: Key = Key::number(
    "past_tables",
    Unit::Count("lines"),
    0,
    (0, SPILL_MAX),
    "copies for lines past the tables; 0: as many as the work has lines, at most 3145728",
);

/// Entries that a table may have.
const ENTRIES_MAX: u64 = 1 << 20;

/// Copies of lines past the tables that an epoch has at most: more than any caches hold.
const SPILL_MAX: u64 = 3 << 20;
const _: () = assert!(ENTRIES_MAX + 2 * SPILL_MAX <= SLOTS_MAX);

/// A number of entries of a translation table.
pub(crate) const fn entries_key(name: &'static str, default: u64, about: &'static str) -> Key {
    Key::number(name, Unit::Count("entries"), default, (1, ENTRIES_MAX), about)
}

/// The sets of a translation table.
///
/// # Errors
/// When its entries are no whole number of sets.
pub(crate) fn sets(options: &Options, entries: &Key) -> Result<u64, PrepareError> {
    let (count, ways) = (options.get(entries), options.get(&TABLE_WAYS));
    if count.is_multiple_of(ways) {
        return Ok(count / ways);
    }
    let (entries, table_ways) = (entries.full_name(), TABLE_WAYS.full_name());
    Err(PrepareError::new(format_args!(
        "{entries} is {count}: a multiple of the {ways} ways of a set ({table_ways}) is possible"
    )))
}

/// What was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Config {
    pub(crate) layout: Layout,
    /// Behind the program's lines; behind these nothing is in checkpoints.
    pub(crate) registers: Registers,
    /// Instructions of each core in an epoch.
    pub(crate) epoch: u64,
    /// Copies for lines past the tables, of an epoch.
    pub(crate) past_tables: u64,
    /// The first copies of lines past the tables, behind those of lines that tables name: in this epoch
    /// and in the next one.
    pub(crate) spilled: [u32; 2],
    /// Entries on their way home at a time.
    pub(crate) copies: usize,
    pub(crate) lookup_cycles: u64,
    pub(crate) persists_output: bool,
    pub(crate) fault: Option<Fault>,
}

impl Config {
    /// For some work, with tables that name up to `lines` copies of lines and `pages` of pages. A
    /// checkpoint may overlap with the next epoch if `overlaps`.
    ///
    /// # Errors
    /// When the work does not say where its memory ends.
    pub(crate) fn new(
        work: &Work,
        options: &Options,
        lines: u64,
        pages: u64,
        overlaps: bool,
    ) -> Result<Self, PrepareError> {
        if work.end == LineAddr(0) {
            return Err(PrepareError::new(
                "has its copies behind the program's memory, of which such a trace does not say the end",
            ));
        }
        let registers = Registers::of(work, options);
        let end = registers.end();
        let spill = match options.get(&PAST_TABLES) {
            0 => SPILL_MAX,
            given => given,
        };
        let spill = spill.min(end.0);
        let second = if overlaps { lines + spill } else { lines };
        Ok(Self {
            layout: Layout::behind(end, second + spill, pages),
            registers,
            epoch: options.get(&EPOCH),
            past_tables: spill,
            spilled: [lines, second].map(|slot| slot as u32),
            copies: options.get(&COPIES) as usize,
            lookup_cycles: options.get(&LOOKUP),
            persists_output: options.get(&PERSIST_OUTPUT) != 0,
            fault: None,
        })
    }

    /// The first line that is in no checkpoint.
    pub(crate) fn end(&self) -> LineAddr {
        self.registers.end()
    }

    /// The epochs of a run over this memory.
    pub(super) fn epochs(&self, memory: Image<'_>) -> Epochs {
        let epochs = Epochs::behind(self.layout.epoch(memory), self.registers, self.epoch, memory);
        epochs
            .saving_late(self.fault == Some(Fault::SavesLate))
            .persisting_output(self.persists_output)
    }

    /// Refuses caches that may hold more lines than there are copies past the tables.
    fn check(&self, machine: &MachineConfig) -> Result<(), MachineError> {
        let cores = u64::from(machine.core.count);
        let in_front = if machine.buffer.writes_back() { machine.buffer.size.0 } else { 0 };
        let bytes = cores * (machine.l1.size.0 + machine.l2.size.0) + machine.llc.size.0 + in_front;
        let buffered = cores * u64::from(machine.wc_lines) + u64::from(machine.memory.write_buffer);
        let (may_be_dirty, room) = (bytes / 64 + buffered, self.past_tables);
        if self.end().0 <= room || may_be_dirty <= room {
            return Ok(());
        }
        Err(MachineError::Impossible {
            name: machine.name.clone(),
            message: format!(
                "its caches and buffers hold {may_be_dirty} lines, and {} is {room}",
                PAST_TABLES.full_name()
            ),
        })
    }
}

/// What makes a scheme's tables.
pub(crate) trait Build: Copy + Debug + Send + Sync {
    type Places: Places + 'static;

    /// Empty tables.
    fn build(self, layout: Layout) -> Self::Places;
}

/// A scheme under some work.
#[derive(Debug)]
pub(crate) struct Under<B> {
    pub(crate) streams: Vec<Arc<OpLog>>,
    pub(crate) config: Config,
    pub(crate) tables: B,
    /// What it stands on.
    pub(crate) on: Option<Ait>,
}

impl<B: Build> Prepared for Under<B> {
    fn streams(&self) -> &[Arc<OpLog>] {
        &self.streams
    }

    fn lines(&self) -> u64 {
        self.config.layout.end().0
    }

    fn machine(
        &self,
        config: &MachineConfig,
        setup: Setup,
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Box<dyn Machine>, MachineError> {
        self.config.check(config)?;
        let Self { config: chosen, tables, .. } = self;
        let places = tables.build(chosen.layout);
        let epochs = chosen.epochs(Image::new(&setup.base));
        let scheme = Checkpoints::new(*chosen, epochs, places);
        machine(config, scheme, self.on, self.lines(), setup, sources)
    }

    fn recover(&self, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
        self.config.layout.recover(image, self.config.fault)
    }

    fn epoch(&self, image: Image<'_>) -> Option<u64> {
        Some(self.config.layout.epoch(image))
    }

    fn epoch_lines(&self) -> u64 {
        self.config.end().0
    }

    fn resumes_at(&self, image: Image<'_>, lane: LaneId) -> u64 {
        self.config.registers.position(image, lane)
    }
}
