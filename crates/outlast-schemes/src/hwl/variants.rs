//! Hardware logging as schemes of the machine: the variants, what can be chosen, and what they are
//! put under.

use std::sync::Arc;

use outlast_sim::Cause;
use outlast_sim::timed::{Machine, MachineConfig, MachineError, RunStats, Setup, Source};
use outlast_trace::{Guarantee, OpLog};

use super::config::{Commit, Fault, Faults, GROWTHS_MAX, HwlConfig, LINES_MAX, LogPlace, Values};
use super::plants::{self, PLANTS};
use super::program::{Flushes, with_calls, with_flushes};
use super::{Hwl, recover_as};
use crate::scheme::{HardwareScheme, PrepareError, Prepared, Reading, Variant};
use crate::shared::ait::{Ait, machine};
use crate::work::Streams;
use crate::{Image, Key, Options, Patch, Plant, RecoveryError, Unit, Work};

/// Hardware undo+redo logging, and forced write-back.
pub struct HardwareLogging;

/// 4 MB, as the paper has it.
pub(super) const LOG_SLOTS: Key = Key::number(
    "log_slots",
    Unit::Count("lines"),
    65_536,
    (1, LINES_MAX),
    "slots of the log, a line each",
);
/// For such a log (paper, section VI).
pub(super) const SCAN_PERIOD: Key = Key::number(
    "scan_period",
    Unit::Cycles,
    3_000_000,
    (100, 1_000_000_000),
    "from one scan for lines to be forced out to the next",
);
pub(super) const FIT_LOG: Key = Key::flag(
    "fit_log",
    false,
    "a log that is too small becomes as large as two transactions need",
);
/// As in the paper's section IV-C.
const LOG_BUFFER: Key = Key::number(
    "log_buffer",
    Unit::Count("records"),
    15,
    (1, 4096),
    "entries of the log buffer in the controller",
);
const LOG_GROWTHS: Key = Key::number(
    "log_growths",
    Unit::Count("times"),
    0,
    (0, GROWTHS_MAX as u64),
    "how often the log may grow to twice its size",
);
const TX_RECORDS: Key = Key::number(
    "tx_records",
    Unit::Count("records"),
    0,
    (0, LINES_MAX),
    "declared for the largest transaction; 0: as many as the work needs",
);
const FORCES: Key =
    Key::flag("forces", true, "lines are forced out by age, where the scheme does that");
/// The paper sizes a slot by the words of one line. Two words of any lines fit into it as well, which
/// halves the log of scattered stores.
const ONE_LINE: Key = Key::flag(
    "one_line",
    false,
    "a record holds words of one line alone, as the paper's sizes suggest",
);
const KEYS: [Key; 8] =
    [LOG_SLOTS, LOG_GROWTHS, LOG_BUFFER, SCAN_PERIOD, TX_RECORDS, FORCES, FIT_LOG, ONE_LINE];

/// What the paper leaves out or gets wrong, all of it together.
const LITERAL: Faults = Faults::of(&[
    Fault::NoCommit,
    Fault::Mismatch,
    Fault::Unordered,
    Fault::OneLevel,
    Fault::Overwrite,
]);

/// What a log of one kind of values does without.
const BARE_LOG: Faults = Faults::of(&[Fault::Unordered, Fault::Overwrite]);

/// A variant and what it is made of.
struct Row {
    variant: Variant,
    values: Values,
    /// Whether lines are forced out by age.
    forces: bool,
    flushes: Option<Flushes>,
    commit: Commit,
    faults: Faults,
}

const fn row(
    variant: Variant,
    values: Values,
    forces: bool,
    flushes: Option<Flushes>,
    commit: Commit,
    faults: Faults,
) -> Row {
    Row { variant, values, forces, flushes, commit, faults }
}

const ROWS: [Row; 7] = {
    use Commit::{Buffered, Durable};
    use Values::{Both, Redo, Undo};
    let of = Variant::new;
    let (bound, sound, literal) = (Reading::Bound, Reading::Sound, Reading::AsPublished);
    let (at_commit, behind) = (Some(Flushes::AtCommit), Some(Flushes::BehindCommit));
    [
        row(
            of("hw-ulog", Guarantee::None, bound, "hardware undo log alone"),
            Undo,
            false,
            None,
            Buffered,
            BARE_LOG,
        ),
        row(
            of("hw-rlog", Guarantee::None, bound, "hardware redo log alone"),
            Redo,
            false,
            None,
            Buffered,
            BARE_LOG,
        ),
        row(
            of("hwl", Guarantee::Durable, sound, "hardware undo+redo log, data flushed behind it"),
            Both,
            false,
            behind,
            Durable,
            Faults::NONE,
        ),
        row(
            of("fwb", Guarantee::Durable, sound, "hardware undo+redo log, data forced out by age"),
            Both,
            true,
            None,
            Durable,
            Faults::NONE,
        ),
        row(
            of("fwb:buffered", Guarantee::Buffered, sound, "fwb whose commit is only issued"),
            Both,
            true,
            None,
            Buffered,
            Faults::NONE,
        ),
        row(
            of("hwl:literal", Guarantee::None, literal, "hwl as the paper's text has it"),
            Both,
            false,
            at_commit,
            Buffered,
            LITERAL,
        ),
        row(
            of("fwb:literal", Guarantee::None, literal, "fwb as the paper's text has it"),
            Both,
            true,
            None,
            Buffered,
            LITERAL,
        ),
    ]
};

const VARIANTS: [Variant; ROWS.len()] = {
    let mut variants = [ROWS[0].variant; ROWS.len()];
    let mut k = 0;
    while k < variants.len() {
        variants[k] = ROWS[k].variant;
        k += 1;
    }
    variants
};

impl HardwareScheme for HardwareLogging {
    fn variants(&self) -> &'static [Variant] {
        &VARIANTS
    }

    fn keys(&self) -> &'static [Key] {
        &KEYS
    }

    fn plants(&self) -> &'static [Plant] {
        &PLANTS
    }

    fn small(&self) -> Options {
        Options::default()
            .with(LOG_SLOTS.name, 256)
            .with(LOG_BUFFER.name, 8)
            .with(SCAN_PERIOD.name, 4000)
            .with(FIT_LOG.name, 1)
    }

    fn prepare(
        &self,
        variant: &'static Variant,
        work: &Work,
        options: &Options,
        planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let row = ROWS.iter().find(|row| row.variant.name == variant.name);
        let row = row.expect("the variant is one of these");
        let faults = row.faults.and(planted.map_or(Faults::NONE, plants::faults));
        let config = config(row, faults, work, options)?;
        let streams = match &work.streams {
            Streams::Recorded(logs) => {
                if !faults.has(Fault::Overwrite) {
                    let fits = logs.iter().try_for_each(|log| config.check_transactions(log));
                    fits.map_err(PrepareError::new)?;
                }
                let calls = |log: &Arc<OpLog>| match row.flushes {
                    Some(flushes) => Arc::new(with_calls(&with_flushes(log, flushes))),
                    None => Arc::new(with_calls(log)),
                };
                logs.iter().map(calls).collect()
            }
            Streams::Generated { tx_stores: 0 } => {
                return Err(PrepareError::new("logs transactions, and there are none"));
            }
            Streams::Generated { .. } if row.flushes.is_some() => {
                return Err(PrepareError::new(
                    "changes what a program does, and takes a workload that is recorded first",
                ));
            }
            Streams::Generated { .. } => Vec::new(),
        };
        Ok(Box::new(Logging { config, streams, on: Ait::chosen(options, false)? }))
    }
}

fn config(
    row: &Row,
    faults: Faults,
    work: &Work,
    options: &Options,
) -> Result<HwlConfig, PrepareError> {
    let largest = work.largest_transaction() + 1;
    let given = options.get(&TX_RECORDS);
    let records_max = if given == 0 { largest } else { given };
    let mut slots = options.get(&LOG_SLOTS);
    if options.get(&FIT_LOG) != 0 && given == 0 {
        slots = slots.max(2 * largest);
    }
    // Where nothing waits for room, nothing is declared.
    let declared = if faults.has(Fault::Overwrite) { 1 } else { records_max };
    let growths = options.get(&LOG_GROWTHS) as u8;
    let log = LogPlace::create(work.end, slots, growths, declared).map_err(PrepareError::new)?;
    let forces = row.forces && options.get(&FORCES) != 0;
    let period = forces.then(|| options.get(&SCAN_PERIOD));
    let config = HwlConfig {
        buffer: options.get(&LOG_BUFFER) as usize,
        commit: row.commit,
        values: row.values,
        one_line: options.get(&ONE_LINE) != 0,
        faults,
        ..HwlConfig::new(log, declared, period)
    };
    config.check().map_err(PrepareError::new)?;
    Ok(config)
}

#[derive(Debug)]
struct Logging {
    config: HwlConfig,
    streams: Vec<Arc<OpLog>>,
    on: Option<Ait>,
}

impl Prepared for Logging {
    fn streams(&self) -> &[Arc<OpLog>] {
        &self.streams
    }

    fn lines(&self) -> u64 {
        self.config.log.base.0 + self.config.log.lines()
    }

    fn machine(
        &self,
        config: &MachineConfig,
        setup: Setup,
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Box<dyn Machine>, MachineError> {
        let hwl = Hwl::over(self.config, Image::new(&setup.base)).expect("the log was checked");
        machine(config, hwl, self.on, self.lines(), setup, sources)
    }

    fn recover(&self, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
        let HwlConfig { log, values, faults, .. } = self.config;
        recover_as(log, values, faults, image)
    }

    /// The head, or where that hardly moves any slot.
    fn writes_to_hottest_line(&self, stats: &RunStats) -> Option<f64> {
        let of = |cause| stats.writes.of(cause) as f64;
        let a_slot = of(Cause::Logged) / self.config.log.slots as f64;
        Some(a_slot.max(of(Cause::Metadata)))
    }
}
