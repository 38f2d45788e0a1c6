//! Journaling: redo copies of lines, an epoch at a time (`journaling`, "PiCL: a software-transparent,
//! persistent cache log", sections II-B and VI-A). `docs/checkpointing.md` says what the paper leaves
//! open.
//!
//! - *Eviction.* A line goes to its copy in the redo buffer, or to a new one: a set-associative
//!   translation table says which. Where its set has no free way, it waits and the epoch ends early.
//! - *Read.* A miss finds the copy, or the home where there is none.
//! - *Epoch's end.* The cores stand; the caches are flushed to copies, past the table where a set is
//!   full; a record commits them all, they are copied home, and the table is empty again
//!   ([`redo`](crate::shared::redo)).
//! - *Recovery* puts copies home that the record covers.

mod plants;
mod table;
#[cfg(test)]
mod tests;

use outlast_trace::Guarantee;

use crate::plant::Plant;
use crate::scheme::{HardwareScheme, PrepareError, Prepared, Reading, Variant};
use crate::shared::ait::Ait;
use crate::shared::epoch::{EPOCH, SAVE_LINES};
use crate::shared::output::PERSIST_OUTPUT;
use crate::shared::redo::{
    COPIES, Config, LOOKUP, PAST_TABLES, TABLE_WAYS, Under, entries_key, sets,
};
use crate::{Key, Options, Work};
use table::Shape;

/// The scheme.
pub struct Journaling;

const TABLE_ENTRIES: Key =
    entries_key("table_entries", 6144, "lines that the translation table names");

impl HardwareScheme for Journaling {
    fn variants(&self) -> &'static [Variant] {
        const VARIANTS: [Variant; 1] = [Variant::new(
            "journaling",
            Guarantee::Epoch,
            Reading::Sound,
            "checkpoints by redo copies of lines, caches flushed while cores stand",
        )];
        &VARIANTS
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 8] = [
            EPOCH,
            SAVE_LINES,
            TABLE_ENTRIES,
            TABLE_WAYS,
            LOOKUP,
            COPIES,
            PAST_TABLES,
            PERSIST_OUTPUT,
        ];
        &KEYS
    }

    fn plants(&self) -> &'static [Plant] {
        &plants::PLANTS
    }

    fn small(&self) -> Options {
        Options::default()
            .with(EPOCH.name, 100)
            .with(SAVE_LINES.name, 1)
            .with(TABLE_ENTRIES.name, 16)
            .with(TABLE_WAYS.name, 4)
            .with(COPIES.name, 4)
            .with(PAST_TABLES.name, 8192)
    }

    fn prepare(
        &self,
        _variant: &'static Variant,
        work: &Work,
        options: &Options,
        planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let entries = options.get(&TABLE_ENTRIES);
        let config = Config {
            fault: planted.map(plants::fault),
            ..Config::new(work, options, entries, 0, false)?
        };
        let tables = Shape { sets: sets(options, &TABLE_ENTRIES)?, ways: options.get(&TABLE_WAYS) };
        let on = Ait::chosen(options, false)?;
        Ok(Box::new(Under { streams: work.recorded().to_vec(), config, tables, on }))
    }
}
