//! The DIMM's address indirection: a table (AIT) in persistent memory that says where each block
//! lies, and a cache of its entries in the DIMM's own DRAM ("Efficient hardware-assisted out-place
//! update for persistent memory", section II-B).
//!
//! A scheme *stands on* it ([`machine`]): whatever reads or writes persistent memory is looked up
//! first, the scheme's own reads, writes, blocks and copies as well. A lookup takes
//! [`Ait::latency_cycles`]; an entry that is not cached is then read from the table, a line of
//! which holds eight. Requests of one block that miss together share that read. For a scheme that
//! moves nothing every block is at home, so entries are never written, and the machine itself looks
//! up ([`Indirection`]); `ehou` moves blocks, and has the same cache, table and lookups with its own rules
//! for writing entries.
//!
//! Walks of page tables are not looked up, nor is volatile memory. The table is found without
//! itself.

use outlast_sim::timed::{
    Indirection, Machine, MachineConfig, MachineError, PAGE_TABLE, Scheme, Setup, Source, System,
};
use outlast_trace::LineAddr;

use crate::{Key, Options, PrepareError, Unit};

/// What stands before the keys of the AIT.
pub const AIT_PREFIX: &str = "ait.";

/// Whether a scheme stands on it.
pub const ON: Key = Key::flag(
    "ait.on",
    false,
    "a scheme stands on address indirection; so it does for any ait.* key",
);
/// As in the paper's Table I.
const SETS: Key =
    Key::number("ait.sets", Unit::Count("sets"), 8192, (1, 1 << 24), "sets of the AIT cache");
const WAYS: Key =
    Key::number("ait.ways", Unit::Count("ways"), 16, (1, 1 << 10), "entries of a set, one a way");
const LATENCY: Key =
    Key::number("ait.latency", Unit::Cycles, 100, (0, 1 << 20), "a lookup in the AIT cache");
const GRANULARITY: Key = Key::number(
    "ait.granularity",
    Unit::Bytes,
    64,
    (64, 256),
    "what an entry maps: 64 B, or 256 B as the device has it",
);

/// What can be chosen of it, for every scheme.
pub const AIT_KEYS: [Key; 5] = [ON, SETS, WAYS, LATENCY, GRANULARITY];

/// An address indirection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ait {
    pub(crate) sets: u64,
    pub(crate) ways: u64,
    pub(crate) latency_cycles: u64,
    /// Lines that an entry maps: 1 or 4.
    pub(crate) block_lines: u64,
}

impl Ait {
    /// What these options choose, for a scheme that stands on it by default or does not.
    ///
    /// # Errors
    /// When the granularity is between the two that there are.
    pub(crate) fn chosen(
        options: &Options,
        by_default: bool,
    ) -> Result<Option<Self>, PrepareError> {
        let is_on = match options.is_given(&ON) {
            true => options.get(&ON) != 0,
            false => by_default || AIT_KEYS.iter().any(|key| options.is_given(key)),
        };
        let block_lines = match options.get(&GRANULARITY) {
            64 => 1,
            256 => 4,
            other => {
                return Err(PrepareError::new(format_args!(
                    "an AIT that maps {other} B: ait.granularity is 64 B or 256 B"
                )));
            }
        };
        Ok(is_on.then(|| Self {
            sets: options.get(&SETS),
            ways: options.get(&WAYS),
            latency_cycles: options.get(&LATENCY),
            block_lines,
        }))
    }
}

/// A machine with a scheme in its ports that uses `lines` lines of memory, on address indirection
/// or not.
///
/// # Errors
/// When it cannot be built.
pub(crate) fn machine<S: Scheme + 'static>(
    config: &MachineConfig,
    scheme: S,
    on: Option<Ait>,
    lines: u64,
    setup: Setup,
    sources: Vec<Box<dyn Source>>,
) -> Result<Box<dyn Machine>, MachineError> {
    let volatile_from = match &config.dram.memory {
        Some(_) => LineAddr(config.dram.from.0 / 64),
        None => PAGE_TABLE,
    };
    let table = table_base(lines, volatile_from);
    let indirection = on.map(|ait| Indirection {
        sets: ait.sets,
        ways: ait.ways,
        latency_cycles: ait.latency_cycles,
        block_lines: ait.block_lines,
        table,
        end: table.min(volatile_from),
    });
    Ok(Box::new(System::new(config, scheme, Setup { indirection, ..setup }, sources)?))
}

/// Where the table of blocks that never move lies: behind all lines; of a trace whose memory is
/// not known, in the last ninth of all that a trace may reach. It is zero and stays so.
fn table_base(lines: u64, volatile_from: LineAddr) -> LineAddr {
    /// 1 TiB, the most that a trace may reach.
    const LINES_MAX: u64 = 1 << 34;
    match lines {
        0 => LineAddr(LINES_MAX.min(volatile_from.0 - volatile_from.0 / 9)),
        lines => LineAddr(lines),
    }
}
