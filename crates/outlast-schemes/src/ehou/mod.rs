//! Out-of-place update through the DIMM's address indirection ("Efficient hardware-assisted
//! out-place update for persistent memory").
//!
//! A transaction's lines go to free blocks; entries of the AIT cache that say so are *speculative*
//! until it commits. Data is written once, and there is no log of it. `docs/ehou.md` has every point
//! in which the paper is unsound or silent (EHOU-1 to EHOU-12), and what shows that it is closed.
//!
//! - `ehou-eager` writes a transaction's entries to the map when it ends, `ehou-lazy` when they are
//!   overwritten or evicted: a crash drains committed ones. `ehou` can evict speculative ones as well,
//!   into an overflow log for each core with a Bloom filter and a small durable buffer.
//! - `layout` says what lies where, `ports` sits in the machine, `entries` is the life of an entry,
//!   `commit` how transactions end and abort, `recover` the way back after a crash.
//!
//! *A line belongs to a transaction by claim*: its first store to a block claims it, and stores of
//! others to that block wait until it has ended. So no write is told apart by a tag, and none of an
//! earlier transaction can join a later one (EHOU-9). Words that a program streams past the caches
//! belong to no transaction.

mod commit;
mod config;
mod entries;
mod layout;
mod plants;
mod ports;
mod recover;
mod work;

use std::sync::Arc;

use outlast_sim::timed::{Machine, MachineConfig, MachineError, Setup, Source, System};
use outlast_trace::{Guarantee, LineAddr, OpLog};

use crate::scheme::{HardwareScheme, PrepareError, Prepared, Reading, Variant};
use crate::shared::ait::Ait;
use crate::{Image, Key, Options, Patch, Plant, RecoveryError, Unit, Work};
use config::{Config, Fault, Faults, Persisting};
use layout::{Layout, RECORDS, WORDS};
use ports::Ehou;
use work::Needs;

/// The scheme.
pub struct OutOfPlace;

const SPARE_BLOCKS: Key = Key::number(
    "spare_blocks",
    Unit::Count("blocks"),
    0,
    (0, 1 << 31),
    "blocks beside the program's; 0: twice what all lanes' largest transactions need at once",
);
pub(super) const LOG_BUFFER: Key = Key::number(
    "overflow_buffer",
    Unit::Count("records"),
    16,
    (RECORDS, 1 << 16),
    "records of each core's overflow log that are in its durable buffer, four a line",
);
const BLOOM_BITS: Key = Key::number(
    "bloom_bits",
    Unit::Count("bits"),
    1024,
    (64, 1 << 24),
    "of each core's filter over its overflow log",
);

const WHOLE_LINES: Key = Key::flag(
    "whole_lines",
    false,
    "a write of the AIT persists all committed entries of its line, not one",
);

/// What the paper's text leaves out, all of it together.
const LITERAL: Faults = Faults::of(&[Fault::OneByOne, Fault::ReclaimLate, Fault::FreedVolatile]);

/// A variant: when entries are persisted, whether it has overflow logs, what it leaves out.
struct Row(Variant, Persisting, bool, Faults);

const ROWS: [Row; 6] = {
    use Persisting::{Eager, Lazy};
    const fn sound(name: &'static str, about: &'static str) -> Variant {
        Variant::new(name, Guarantee::Durable, Reading::Sound, about)
            .giving_up("spare blocks, and transactions' blocks to themselves while they run")
    }
    const fn literal(name: &'static str, about: &'static str) -> Variant {
        Variant::new(name, Guarantee::None, Reading::AsPublished, about)
    }
    [
        Row(
            sound("ehou-eager", "out-of-place update, entries persisted at commit"),
            Eager,
            false,
            Faults::NONE,
        ),
        Row(
            sound(
                "ehou-lazy",
                "out-of-place update, entries persisted when overwritten or evicted",
            ),
            Lazy,
            false,
            Faults::NONE,
        ),
        Row(
            sound("ehou", "ehou-lazy with overflow logs for speculative entries"),
            Lazy,
            true,
            Faults::NONE,
        ),
        Row(
            literal("ehou-eager:literal", "ehou-eager as the paper's text has it"),
            Eager,
            false,
            LITERAL,
        ),
        Row(
            literal("ehou-lazy:literal", "ehou-lazy as the paper's text has it"),
            Lazy,
            false,
            LITERAL,
        ),
        Row(literal("ehou:literal", "ehou as the paper's text has it"), Lazy, true, LITERAL),
    ]
};

const VARIANTS: [Variant; ROWS.len()] = {
    let mut variants = [ROWS[0].0; ROWS.len()];
    let mut k = 0;
    while k < variants.len() {
        variants[k] = ROWS[k].0;
        k += 1;
    }
    variants
};

impl HardwareScheme for OutOfPlace {
    fn variants(&self) -> &'static [Variant] {
        &VARIANTS
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 4] = [SPARE_BLOCKS, LOG_BUFFER, BLOOM_BITS, WHOLE_LINES];
        &KEYS
    }

    fn plants(&self) -> &'static [Plant] {
        &plants::PLANTS
    }

    fn small(&self) -> Options {
        Options::default().with("ait.sets", 1).with("ait.ways", 48).with("ait.latency", 20)
    }

    fn undoes_aborts(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        variant: &'static Variant,
        work: &Work,
        options: &Options,
        planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let row = ROWS.iter().find(|row| row.0.name == variant.name);
        let &Row(_, persisting, logs, faults) = row.expect("the variant is one of these");
        let faults = faults.and(planted.map_or(Faults::NONE, plants::faults));
        let Some(ait) = Ait::chosen(options, true)? else {
            return Err(PrepareError::new(
                "moves blocks by the AIT, so ait.on is true or not given",
            ));
        };
        let needs = Needs::of(work.whole(), ait)?;
        if !logs && needs.of_set > ait.ways {
            return Err(PrepareError::new(format_args!(
                "transactions that run at the same time may need {} entries of one set of the AIT \
                 cache, which has {}: take more ait.ways, or a variant with overflow logs",
                needs.of_set, ait.ways
            )));
        }
        let together = u64::from(work.lanes) * needs.largest;
        let spares = match options.get(&SPARE_BLOCKS) {
            0 => 2 * together + 64,
            given if given >= together => given,
            given => {
                return Err(PrepareError::new(format_args!(
                    "{given} spare blocks are too few: transactions that run at the same time may \
                     need {together}"
                )));
            }
        };
        let slack = if faults.has(Fault::LogUnread) { 8 } else { 1 };
        let cached = ait.sets.saturating_mul(ait.ways).min(needs.largest);
        let logged = if logs { slack * needs.largest } else { 0 };
        let layout = Layout {
            end: work.end,
            block_lines: ait.block_lines,
            blocks: work.end.0.div_ceil(ait.block_lines).next_multiple_of(WORDS),
            spares: (slack * spares).next_multiple_of(WORDS),
            lanes: work.lanes.into(),
            reclaimed: (slack * cached).next_multiple_of(RECORDS),
            logged: logged.next_multiple_of(RECORDS),
        };
        if layout.all() >= u64::from(u32::MAX) {
            return Err(PrepareError::new(format_args!(
                "{} blocks are too many: an entry names one of {}",
                layout.all(),
                u32::MAX
            )));
        }
        let config = Config {
            layout,
            ait,
            persisting,
            logs,
            whole_lines: options.get(&WHOLE_LINES) == 1,
            buffer_lines: options.get(&LOG_BUFFER) / RECORDS,
            bloom_bits: options.get(&BLOOM_BITS),
            faults,
        };
        Ok(Box::new(Under { streams: work.recorded().to_vec(), config }))
    }
}

#[derive(Debug)]
struct Under {
    streams: Vec<Arc<OpLog>>,
    config: Config,
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
        let ehou = Ehou::new(self.config, &setup.base);
        Ok(Box::new(System::new(config, ehou, setup, sources)?))
    }

    fn recover(&self, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
        recover::recover(self.config.layout, self.config.faults, image)
    }

    fn locate(&self, image: Image<'_>, line: LineAddr) -> LineAddr {
        recover::locate(self.config.layout, image, line)
    }

    fn audit(&self, image: Image<'_>) -> Result<(), String> {
        recover::audit(self.config.layout, image)
    }
}
