//! Software logging as schemes of the machine.

use std::sync::Arc;

use outlast_sim::timed::{Machine, MachineConfig, MachineError, NonPers, Setup, Source};
use outlast_trace::{ByteRange, Guarantee, LaneId, LineAddr, Op, OpLog};
use rustc_hash::FxHashMap;

use super::{Data, Initial, Logging, SoftwareLog, recover};
use crate::plant::{AppliesTo, Breaks, Plant, Shown};
use crate::scheme::{HardwareScheme, PrepareError, Prepared, Reading, Variant};
use crate::shared::ait::{Ait, machine};
use crate::work::Streams;
use crate::{Image, Key, Options, Patch, RecoveryError, Unit, Work};

/// Logs that transactions write for themselves.
pub struct Software;

const LOG_SLOTS: Key = Key::number(
    "log_slots",
    Unit::Count("lines"),
    65_536,
    (1, 1 << 24),
    "lines of all lanes' circular logs together",
);

const fn variant(name: &'static str, about: &'static str) -> Variant {
    Variant::new(name, Guarantee::Durable, Reading::Sound, about)
}

const fn unsafe_variant(name: &'static str, about: &'static str) -> Variant {
    Variant::new(name, Guarantee::None, Reading::Bound, about)
}

/// What each variant logs, whether it flushes its data, and whether its log goes round.
const VARIANTS: [(Variant, Logging, Data, bool); 7] = [
    (
        unsafe_variant("unsafe-undo", "software undo log, data never flushed"),
        Logging::Undo,
        Data::Left,
        false,
    ),
    (
        unsafe_variant("unsafe-redo", "software redo log, data never flushed"),
        Logging::Redo,
        Data::Left,
        false,
    ),
    (
        variant("undo-clwb", "software undo log, data flushed at commit"),
        Logging::Undo,
        Data::Flushed,
        false,
    ),
    (
        variant("redo-clwb", "software redo log, data flushed behind it"),
        Logging::Redo,
        Data::Flushed,
        false,
    ),
    (
        variant("undo-redo-clwb", "software undo+redo log, data flushed behind it"),
        Logging::UndoRedo,
        Data::Flushed,
        false,
    ),
    (
        variant("undo-clwb:ring", "undo-clwb with a circular log"),
        Logging::Undo,
        Data::Flushed,
        true,
    ),
    (
        variant("redo-clwb:ring", "redo-clwb with a circular log"),
        Logging::Redo,
        Data::Flushed,
        true,
    ),
];

const fn names() -> [Variant; VARIANTS.len()] {
    let mut names = [VARIANTS[0].0; VARIANTS.len()];
    let mut k = 0;
    while k < names.len() {
        names[k] = VARIANTS[k].0;
        k += 1;
    }
    names
}

const fn control(
    name: &'static str,
    variant: &'static str,
    breaks: Breaks,
    about: &'static str,
) -> Plant {
    let shown_by = Shown {
        variant,
        program: "hash-toggle",
        footprint: 2048,
        threads: 2,
        is_shared: false,
        abort_every: 0,
        options: &[],
        machine: &[],
    };
    Plant { name, about, breaks, applies_to: AppliesTo::All, shown_by }
}

impl HardwareScheme for Software {
    fn variants(&self) -> &'static [Variant] {
        const NAMES: [Variant; VARIANTS.len()] = names();
        &NAMES
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 1] = [LOG_SLOTS];
        &KEYS
    }

    fn plants(&self) -> &'static [Plant] {
        const PLANTS: [Plant; 2] = [
            control("flush-twice", "redo-clwb", Breaks::FlushTwice, "every flush twice"),
            control("more-fences", "undo-clwb", Breaks::MoreFences, "a fence before every commit"),
        ];
        &PLANTS
    }

    fn small(&self) -> Options {
        Options::default().with(LOG_SLOTS.name, 256)
    }

    fn prepare(
        &self,
        variant: &'static Variant,
        work: &Work,
        options: &Options,
        _planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let row = VARIANTS.iter().find(|row| row.0.name == variant.name);
        let &(_, logging, data, ring) = row.expect("the variant is one of these");
        let Streams::Recorded(streams) = &work.streams else {
            return Err(PrepareError::new(
                "changes what a program does, and takes a workload that is recorded first",
            ));
        };
        if work.is_nested {
            return Err(PrepareError::new(
                "context switches inside transactions are for hardware schemes: in software each \
                 thread has its own log",
            ));
        }
        if logging != Logging::Undo && data == Data::Flushed {
            streams.iter().try_for_each(|bare| check_alone(bare))?;
        }
        let needed = 2 + (work.largest_transaction() + 1).div_ceil(2);
        let share = options.get(&LOG_SLOTS) / u64::from(work.lanes);
        let lines = if ring { needed.max(share) } else { needed };
        let log = SoftwareLog { base: work.end, lines, ring };
        let initial = Initial { bytes: &work.image };
        let apply = |bare: &Arc<OpLog>| -> Result<Arc<OpLog>, PrepareError> {
            let applied = log.apply(logging, data, initial, bare);
            Ok(Arc::new(applied.map_err(PrepareError::new)?))
        };
        let streams = streams.iter().map(apply).collect::<Result<_, _>>()?;
        let on = Ait::chosen(options, false)?;
        Ok(Box::new(Logged { streams, logging, log, lanes: work.lanes, on }))
    }
}

/// Refuses lines that several lanes store to: a lane's committed records are replayed until its next
/// transaction, over whatever others have stored since.
fn check_alone(bare: &OpLog) -> Result<(), PrepareError> {
    let mut owners: FxHashMap<LineAddr, LaneId> = FxHashMap::default();
    for (lane, op) in bare.iter() {
        let Op::Store { at, bytes } = op else { continue };
        for line in ByteRange::new(at, bytes.len() as u64).lines() {
            let owner = *owners.entry(line).or_insert(lane);
            if owner != lane {
                return Err(PrepareError::new(format_args!(
                    "lanes {} and {} store to {line}, and recovery replays each lane's log by itself: \
                     give each its own data, or take undo-clwb or a hardware scheme",
                    owner.0, lane.0
                )));
            }
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Logged {
    streams: Vec<Arc<OpLog>>,
    logging: Logging,
    log: SoftwareLog,
    lanes: u16,
    on: Option<Ait>,
}

impl Prepared for Logged {
    fn streams(&self) -> &[Arc<OpLog>] {
        &self.streams
    }

    fn lines(&self) -> u64 {
        self.log.base.0 + self.log.lines * u64::from(self.lanes)
    }

    fn machine(
        &self,
        config: &MachineConfig,
        setup: Setup,
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Box<dyn Machine>, MachineError> {
        machine(config, NonPers, self.on, self.lines(), setup, sources)
    }

    fn recover(&self, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
        recover(self.logging, self.log, self.lanes, image)
    }
}
