//! Redo copies of lines and of pages, whose checkpoint goes on while the next epoch runs (`thynvm`, "PiCL:
//! a software-transparent, persistent cache log", sections II-B and VI-A, after "ThyNVM: enabling
//! software-transparent crash consistency in persistent memory systems", MICRO'15; without its DRAM).
//! `docs/checkpointing.md` says what the papers leave open.
//!
//! - *Tables.* One names copies of lines, the other copies of 4 KiB pages, both set-associative. The
//!   entries of the last epoch stay in their ways until its checkpoint is complete, so that two epochs
//!   share each set.
//! - *Eviction.* A line goes to its page's copy or to its own, in this epoch's entries. Where a page has
//!   8 lines with copies, the next new one moves them into a copy of the page. Where a set has no
//!   free way, the line goes past the tables and the epoch ends early.
//! - *Read.* A miss finds this epoch's copy, else the last one's, else the home.
//! - *Epoch's end.* The cores stand until the checkpoint of the epoch before is complete and the caches
//!   are flushed to copies. Then they go on, and meanwhile a record commits the copies and they are merged
//!   home ([`redo`](crate::shared::redo)). Lines past the tables are home before the cores go on.
//! - *Recovery* puts copies home that the record covers: memory at the end of the last epoch, or of the
//!   one before where the record was not written yet.
//!
//! ```text
//!  a page in this epoch:
//!             first line         lines > 8: base page, then its lines copied
//!    nothing ───────────> lines ───────────────────────────────────────────> builds ──> page
//! ```

mod plants;
mod tables;
#[cfg(test)]
mod tests;

use outlast_trace::Guarantee;

use crate::plant::Plant;
use crate::scheme::{HardwareScheme, PrepareError, Prepared, Reading, Variant};
use crate::shared::ait::Ait;
use crate::shared::epoch::{EPOCH, SAVE_LINES};
use crate::shared::output::PERSIST_OUTPUT;
use crate::shared::redo::{
    COPIES, Config, LOOKUP, PAGE_LINES, PAST_TABLES, TABLE_WAYS, Under, entries_key, sets,
};
use crate::{Key, Options, Unit, Work};
use tables::Shape;

/// The scheme.
pub struct ThyNvm;

const LINE_ENTRIES: Key = entries_key("line_entries", 2048, "lines that the tables name");
const PAGE_ENTRIES: Key = entries_key("page_entries", 4096, "pages that the tables name");
const PAGE_AFTER: Key = Key::number(
    "page_after",
    Unit::Count("lines"),
    8,
    (1, PAGE_LINES),
    "lines of a page with copies of their own behind which the page has one",
);

impl HardwareScheme for ThyNvm {
    fn variants(&self) -> &'static [Variant] {
        const VARIANTS: [Variant; 1] = [Variant::new(
            "thynvm",
            Guarantee::Epoch,
            Reading::Sound,
            "checkpoints by redo copies of lines and pages, merged home while the next epoch runs",
        )
        .giving_up("what ran since the last epoch that persisted, one or two back")];
        &VARIANTS
    }

    fn keys(&self) -> &'static [Key] {
        const KEYS: [Key; 10] = [
            EPOCH,
            SAVE_LINES,
            LINE_ENTRIES,
            PAGE_ENTRIES,
            TABLE_WAYS,
            PAGE_AFTER,
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
            .with(LINE_ENTRIES.name, 16)
            .with(PAGE_ENTRIES.name, 4)
            .with(TABLE_WAYS.name, 4)
            .with(PAGE_AFTER.name, 2)
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
        let (lines, pages) = (options.get(&LINE_ENTRIES), options.get(&PAGE_ENTRIES));
        let config = Config { fault: shared, ..Config::new(work, options, lines, pages, true)? };
        let tables = Shape {
            line_sets: sets(options, &LINE_ENTRIES)?,
            page_sets: sets(options, &PAGE_ENTRIES)?,
            ways: options.get(&TABLE_WAYS),
            page_after: options.get(&PAGE_AFTER),
            fault: own,
        };
        let on = Ait::chosen(options, false)?;
        Ok(Box::new(Under { streams: work.recorded().to_vec(), config, tables, on }))
    }
}
