//! Shadow paging: redo copies of pages, an epoch at a time (`shadow`, "PiCL: a software-transparent,
//! persistent cache log", section VI-A). `docs/checkpointing.md` says what the paper leaves open.
//!
//! - *Eviction.* A line goes to the copy of its 4 KiB page. A page without a copy gets one, and is copied
//!   there inside the memory first, which the line waits for. Where the page's set has no way but those
//!   of pages that this epoch has changed, the line goes past the table and the epoch ends early.
//! - *Read.* A miss finds the copy, or the home where there is none.
//! - *Epoch's end.* The cores stand; the caches are flushed to copies, a record commits them all, and
//!   they are written home ([`redo`](crate::shared::redo)). The table keeps its entries: home and
//!   copy are equal, so that the same pages are not copied again in the next epoch.
//! - *Recovery* writes copies home that the record covers.
//!
//! ```text
//!            a line leaves the caches       copied                  the epoch's end, written home
//!   no entry ───────────────────────> fills ─────> changed ──────────────────────────────────> kept
//!      ^                                              ^         a line leaves the caches        │ │
//!      │                                              └─────────────────────────────────────────┘ │
//!      └──────────────────────── another page takes its way, the least recently used first <──────┘
//! ```

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
pub struct ShadowPaging;

const TABLE_ENTRIES: Key =
    entries_key("table_entries", 6144, "pages that the translation table names");
const KEEP: Key = Key::flag(
    "keep_entries",
    true,
    "the table keeps its entries when an epoch has ended, so that no page is copied twice",
);

impl HardwareScheme for ShadowPaging {
    fn variants(&self) -> &'static [Variant] {
        const VARIANTS: [Variant; 1] = [Variant::new(
            "shadow",
            Guarantee::Epoch,
            Reading::Sound,
            "checkpoints by copies of pages on their first write, caches flushed while cores stand",
        )];
        &VARIANTS
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 9] = [
            EPOCH,
            SAVE_LINES,
            TABLE_ENTRIES,
            TABLE_WAYS,
            KEEP,
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
            .with(EPOCH.name, 200)
            .with(SAVE_LINES.name, 1)
            .with(TABLE_ENTRIES.name, 4)
            .with(TABLE_WAYS.name, 2)
            .with(COPIES.name, 2)
            .with(PAST_TABLES.name, 8192)
    }

    fn prepare(
        &self,
        _variant: &'static Variant,
        work: &Work,
        options: &Options,
        planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        let (shared, own) = planted.map_or((None, None), plants::fault);
        let entries = options.get(&TABLE_ENTRIES);
        let config = Config { fault: shared, ..Config::new(work, options, 0, entries, false)? };
        let tables = Shape {
            sets: sets(options, &TABLE_ENTRIES)?,
            ways: options.get(&TABLE_WAYS),
            keeps: options.get(&KEEP) != 0,
            fault: own,
        };
        let on = Ait::chosen(options, false)?;
        Ok(Box::new(Under { streams: work.recorded().to_vec(), config, tables, on }))
    }
}
