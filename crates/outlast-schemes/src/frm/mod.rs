//! FRM: undo checkpoints, as high-frequency checkpointing does it (PiCL's paper, section II-B and VI).
//!
//! Whatever leaves the caches is read at home, logged and written home, one behind the other. At the end
//! of an epoch the world stands while all dirty lines leave so; then a commit record voids the log.
//! Recovery applies the log backwards. `docs/picl.md` has what the paper leaves open.

mod layout;
mod ports;
mod recover;

use std::sync::Arc;

use outlast_sim::timed::{Machine, MachineConfig, MachineError, Setup, Source};
use outlast_trace::{Guarantee, LaneId, OpLog};

use crate::plant::{AppliesTo, Breaks, Plant, Shown};
use crate::scheme::{HardwareScheme, PrepareError, Prepared, Reading, Variant};
use crate::shared::ait::{Ait, machine};
use crate::shared::epoch::{EPOCH, Registers, SAVE_LINES};
use crate::shared::output::PERSIST_OUTPUT;
use crate::{Image, Key, Options, Patch, RecoveryError, Unit, Work};
use layout::{COMMITTED, ENTRY_BYTES, Layout};
use ports::{Frm, WINDOW};

/// The scheme.
pub struct UndoCheckpoints;

const LOG: Key = Key::number(
    "log",
    Unit::Bytes,
    64 << 20,
    (ENTRY_BYTES, 1 << 40),
    "the log; an epoch ends early while all caches still fit into it",
);

/// What can be broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// A line is written home before its entry is durable.
    Unordered,
    /// The commit record is written while the caches are flushed.
    CommitsEarly,
    /// H8 of others: registers are saved when the next epoch has begun.
    SavesLate,
    /// Recovery has the youngest entry of a line win.
    AppliedForward,
    /// Recovery leaves its log to the epoch that comes next.
    LogKept,
    /// Recovery takes entries of which a part is missing.
    TornTaken,
}

const FAULTS: [Fault; 6] = [
    Fault::Unordered,
    Fault::CommitsEarly,
    Fault::SavesLate,
    Fault::AppliedForward,
    Fault::LogKept,
    Fault::TornTaken,
];

const USUAL: Shown = Shown {
    variant: "frm",
    program: "hash-toggle",
    footprint: 2048,
    threads: 2,
    is_shared: false,
    abort_every: 0,
    options: &[],
    machine: &[],
};
/// Epochs in which lines are evicted again and again.
const LONG: Shown = Shown { options: &[("epoch", 1500)], ..USUAL };

const fn plant(name: &'static str, number: u8, shown_by: Shown, about: &'static str) -> Plant {
    let applies_to = AppliesTo::These(&["frm"]);
    Plant { name, about, breaks: Breaks::Scheme(number), applies_to, shown_by }
}

impl HardwareScheme for UndoCheckpoints {
    fn variants(&self) -> &'static [Variant] {
        const VARIANTS: [Variant; 1] = [Variant::new(
            "frm",
            Guarantee::Epoch,
            Reading::Sound,
            "checkpoints by an undo log in memory, caches flushed while the world stands",
        )];
        &VARIANTS
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 4] = [EPOCH, SAVE_LINES, LOG, PERSIST_OUTPUT];
        &KEYS
    }

    fn plants(&self) -> &'static [Plant] {
        const PLANTS: [Plant; 6] = [
            plant(
                "frm-unordered",
                0,
                USUAL,
                "a line is written home before its undo entry is durable",
            ),
            plant("frm-commits-early", 1, USUAL, "an epoch commits before its lines are durable"),
            plant("frm-saves-late", 2, USUAL, "an epoch commits before registers are saved"),
            plant("frm-forward", 3, USUAL, "recovery has the youngest entry of a line win"),
            plant("frm-log-kept", 4, LONG, "recovery does not void the log"),
            plant("frm-torn", 5, USUAL, "recovery takes entries that were torn"),
        ];
        &PLANTS
    }

    fn small(&self) -> Options {
        Options::default()
            .with(EPOCH.name, 100)
            .with(SAVE_LINES.name, 1)
            .with(LOG.name, 512 * ENTRY_BYTES)
    }

    fn prepare(
        &self,
        _variant: &'static Variant,
        work: &Work,
        options: &Options,
        planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let layout = Layout {
            registers: Registers::of(work.whole(), options),
            entries: options.get(&LOG) / ENTRY_BYTES,
        };
        let fault = planted.map(|number| FAULTS[usize::from(number)]);
        let on = Ait::chosen(options, false)?;
        let epoch = options.get(&EPOCH);
        let streams = work.recorded().to_vec();
        let persists_output = options.get(&PERSIST_OUTPUT) != 0;
        Ok(Box::new(Under { streams, layout, epoch, persists_output, fault, on }))
    }
}

#[derive(Debug)]
struct Under {
    streams: Vec<Arc<OpLog>>,
    layout: Layout,
    epoch: u64,
    persists_output: bool,
    fault: Option<Fault>,
    /// What it stands on.
    on: Option<Ait>,
}

/// Lines that may become dirty or be streamed from the moment on at which an epoch is to end: those of
/// store buffers, what is on its way, and the registers.
fn lines_at_end(config: &MachineConfig, registers: Registers) -> u64 {
    let stored = registers.lanes() * u64::from(config.core.store_queue) + registers.saved_lines();
    stored + u64::from(config.memory.write_buffer) + WINDOW
}

impl Prepared for Under {
    fn streams(&self) -> &[Arc<OpLog>] {
        &self.streams
    }

    fn lines(&self) -> u64 {
        self.layout.lines()
    }

    fn machine(
        &self,
        config: &MachineConfig,
        setup: Setup,
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Box<dyn Machine>, MachineError> {
        let reserve = lines_at_end(config, self.layout.registers);
        if self.layout.entries < 2 * reserve {
            let least = LOG.show(2 * reserve * ENTRY_BYTES);
            let message = format!(
                "a log of {} may be full before the caches are flushed: scheme.log is {least} at least",
                LOG.show(self.layout.entries * ENTRY_BYTES)
            );
            return Err(MachineError::Impossible { name: config.name.clone(), message });
        }
        let memory = Image::new(&setup.base);
        let frm = Frm::new(self.layout, self.epoch, reserve, self.fault, memory)
            .persisting_output(self.persists_output);
        machine(config, frm, self.on, self.lines(), setup, sources)
    }

    fn recover(&self, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
        recover::recover(self.layout, self.fault, image)
    }

    fn epoch(&self, image: Image<'_>) -> Option<u64> {
        Some(image.word_or_zero(self.layout.header(), COMMITTED))
    }

    fn epoch_lines(&self) -> u64 {
        self.layout.header().0
    }

    fn resumes_at(&self, image: Image<'_>, lane: LaneId) -> u64 {
        self.layout.registers.position(image, lane)
    }
}
