//! Shadow sub-paging: the second design that EHOU's paper compares with (`ssp`, "Efficient
//! hardware-assisted out-place update for persistent memory", section IV-A; the mechanism is that of
//! "SSP: eliminating redundant writes in failure-atomic NVRAMs via shadow sub-paging", MICRO'19).
//! `docs/ssp.md` says what the paper leaves open.
//!
//! - A page that transactions store to has two physical pages and two bitmaps, which say for each line
//!   where its committed and where its newest bytes are. TLB entries have the bitmaps; the controller
//!   keeps them for every page with two physical pages (the SSP cache).
//! - *Stores* of a transaction go to the physical page where the committed line is not. So lines may
//!   leave the caches at any time.
//! - *Commit.* Lines are flushed; when all are durable, the journal gets each page with its new bitmap,
//!   the last record making all of them count; then the bitmaps are swapped.
//! - *Consolidation.* A page that leaves the last TLB goes into one physical page; of its lines the fewer
//!   are copied, which takes as many reads as writes.
//! - *Fall-back.* Pages beyond what a TLB holds are not shadowed: old lines are logged before their first
//!   store.
//! - *Abort.* Lines leave the caches, and current bits become the committed ones; old lines that were
//!   logged are restored.
//! - *Recovery* replays the journal into the table, which says where each page lies. Data stays where it
//!   is.
//!
//! Isolation is the program's business, by lines: no transaction stores to a line that another open
//! one has stored to. Where it happens nonetheless, the line is the first transaction's.

mod abort;
mod checkpoint;
mod commit;
mod consolidate;
mod fallback;
mod lane;
mod layout;
mod pages;
mod plants;
mod ports;
mod recover;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use outlast_sim::timed::{Machine, MachineConfig, MachineError, Setup, Source};
use outlast_trace::{Guarantee, LineAddr, OpLog};

use crate::hwl::with_calls;
use crate::plant::Plant;
use crate::scheme::{HardwareScheme, PrepareError, Prepared, Reading, Variant};
use crate::shared::ait::{Ait, machine};
use crate::shared::ring::{RECORDS_MAX, Rings, Size};
use crate::{Image, Key, Options, Patch, RecoveryError, Unit, Work};
use layout::{LINES, Layout, RECORDS};
use plants::Fault;
use ports::SubPages;

/// The scheme.
pub struct ShadowSubPaging;

const SHADOW_PAGES: Key = Key::number(
    "shadow_pages",
    Unit::Count("pages"),
    0,
    (0, 1 << 24),
    "shadow pages, and entries of the SSP cache; 0: 1560 a lane, as the paper's TLBs have, or as \
     many as the work has pages",
);
/// The most ways that a TLB can have.
const WAYS_MAX: u32 = 64;
const TLB_PAGES: Key = Key::number(
    "tlb_pages",
    Unit::Count("pages"),
    0,
    (0, 1 << 16),
    "pages that each core's TLB holds, in sets of 64 at most; 0: the machine's TLB",
);
const TX_PAGES: Key = Key::number(
    "tx_pages",
    Unit::Count("pages"),
    0,
    (0, 1 << 24),
    "pages that a transaction shadows, before it falls back to logging; 0: as many as a TLB holds",
);
const JOURNAL_RECORDS: Key = Key::number(
    "journal_records",
    Unit::Count("records"),
    0,
    (0, RECORDS_MAX),
    "records of each lane's journal, three pages each; 0: twice what the work needs, 16384 at least",
);
const FIT_JOURNAL: Key = Key::flag(
    "fit_journal",
    false,
    "a journal too small for the work's transactions is as large as they need",
);
const WALKS_WAIT: Key = Key::flag(
    "walks_wait",
    false,
    "a walk waits until the page that leaves for it has been consolidated",
);
const ONE_WAY: Key = Key::flag(
    "one_way",
    false,
    "a page goes into its first physical page when it is consolidated, not where more of it lies",
);
const KEYS: [Key; 7] =
    [SHADOW_PAGES, TLB_PAGES, TX_PAGES, JOURNAL_RECORDS, FIT_JOURNAL, WALKS_WAIT, ONE_WAY];

/// Pages of a TLB of the paper, both levels.
const PAPER_TLB: u64 = 24 + 1536;
/// Pages of a program at most: 64 GiB.
const PAGES_MAX: u64 = 1 << 24;
const SIZE: Size = Size { records: JOURNAL_RECORDS, fit: FIT_JOURNAL, least: 1 << 14 };

/// What was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Config {
    layout: Layout,
    /// Pages that a transaction shadows.
    tx_pages: u64,
    walks_wait: bool,
    /// Whether pages are always consolidated into their first physical page.
    one_way: bool,
    /// Whether the machine has TLBs.
    is_translated: bool,
    fault: Option<Fault>,
}

impl HardwareScheme for ShadowSubPaging {
    fn variants(&self) -> &'static [Variant] {
        const VARIANTS: [Variant; 1] = [Variant::new(
            "ssp",
            Guarantee::Durable,
            Reading::Sound,
            "shadow sub-paging: two physical pages for a page, bitmaps in TLB entries",
        )
        .giving_up("a second physical page for each that is written, and pages over 4 KiB")];
        &VARIANTS
    }

    fn keys(&self) -> &'static [Key] {
        &KEYS
    }

    fn plants(&self) -> &'static [Plant] {
        &plants::PLANTS
    }

    fn small(&self) -> Options {
        Options::default()
            .with(SHADOW_PAGES.name, 4)
            .with(TLB_PAGES.name, 3)
            .with(TX_PAGES.name, 2)
            .with(JOURNAL_RECORDS.name, 8)
            .with(FIT_JOURNAL.name, 1)
    }

    fn undoes_aborts(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        _variant: &'static Variant,
        work: &Work,
        options: &Options,
        planted: Option<u8>,
    ) -> Result<Box<dyn Prepared>, PrepareError> {
        work.check_transactions("shadows transactions")?;
        let pages = work.end.0.div_ceil(LINES);
        if pages == 0 || pages > PAGES_MAX {
            return Err(PrepareError::new(format_args!(
                "its table has an entry for each page, of {PAGES_MAX} at most, and the work has \
                 {pages}"
            )));
        }
        let lanes = u64::from(work.lanes);
        let words = work.largest_transaction();
        // Each word may be in a page of its own, and a record more says that it fell back.
        let needed = (words.min(pages) + 1).div_ceil(RECORDS as u64).max(1);
        let records = SIZE.records("journal", options, needed)?;
        let shadows = match options.get(&SHADOW_PAGES) {
            0 => (lanes * PAPER_TLB).min(pages),
            given => given,
        };
        let base = Layout::journal_base(pages, shadows);
        let journal = Rings { base, rings: lanes + 1, records, data: 0 };
        // A transaction that falls back logs each of its lines once.
        let layout = Layout { pages, shadows, journal, undo: words.min(pages * LINES).max(1) };
        let under = Under {
            streams: work.recorded().iter().map(|log| Arc::new(with_calls(log))).collect(),
            layout,
            tlb_pages: options.get(&TLB_PAGES),
            tx_pages: options.get(&TX_PAGES),
            walks_wait: options.get(&WALKS_WAIT) != 0,
            one_way: options.get(&ONE_WAY) != 0,
            fault: planted.map(plants::fault),
            on: Ait::chosen(options, true)?,
        };
        Ok(Box::new(under))
    }
}

#[derive(Debug)]
struct Under {
    streams: Vec<Arc<OpLog>>,
    layout: Layout,
    tlb_pages: u64,
    tx_pages: u64,
    walks_wait: bool,
    one_way: bool,
    fault: Option<Fault>,
    /// What it stands on.
    on: Option<Ait>,
}

impl Under {
    /// The machine's TLBs as they are under the scheme.
    fn with_tlbs(&self, config: &MachineConfig) -> Result<MachineConfig, MachineError> {
        let mut config = config.clone();
        let page = config.tlb.page.0;
        if page != 0 && page != 64 * LINES {
            return Err(MachineError::Impossible {
                name: config.name,
                message: format!("ssp has sub-pages of 4 KiB pages, and tlb.page is {page} B"),
            });
        }
        if self.tlb_pages > 0 {
            let tlb = &mut config.tlb;
            (tlb.l1_sets, tlb.l1_ways) = (1, 1);
            // The most ways of a set that divide the pages.
            let pages = self.tlb_pages as u32;
            let ways = (1..=WAYS_MAX).rev().find(|ways| pages.is_multiple_of(*ways)).unwrap_or(1);
            (tlb.l2_sets, tlb.l2_ways) = (pages / ways, ways);
        }
        Ok(config)
    }
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
        let config = self.with_tlbs(config)?;
        let in_tlb = u64::from(config.tlb.l2_sets) * u64::from(config.tlb.l2_ways);
        let is_translated = config.tlb.page.0 > 0;
        let tx_pages = match self.tx_pages {
            0 if is_translated => in_tlb,
            0 => u64::MAX,
            given => given,
        };
        let Self { layout, walks_wait, one_way, fault, .. } = *self;
        let of = Config { layout, tx_pages, walks_wait, one_way, is_translated, fault };
        let ssp = SubPages::new(of, Image::new(&setup.base));
        machine(&config, ssp, self.on, self.lines(), setup, sources)
    }

    fn recover(&self, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
        recover::recover(self.layout, self.fault, image)
    }

    fn locate(&self, image: Image<'_>, line: LineAddr) -> LineAddr {
        let page = line.0 / LINES;
        if page >= self.layout.pages {
            return line;
        }
        self.layout.entry(image, page as u32).place(line)
    }

    fn audit(&self, image: Image<'_>) -> Result<(), String> {
        recover::audit(self.layout, image)
    }
}
