//! What can be broken of it: `PERSISTENCY.md`'s H16, and each ordering that it rests on.

use super::{JOURNAL_RECORDS, SHADOW_PAGES, TLB_PAGES, TX_PAGES};
use crate::plant::{AppliesTo, Breaks, Plant, Shown};

/// What is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// A transaction is journaled before its lines are durable.
    SealsEarly,
    /// A transaction ends while its commit is on its way.
    EndsEarly,
    /// Transactions write to the page where the committed line is.
    InPlace,
    /// Recovery does not replay the journal.
    NoReplay,
    /// The journal says where a page lies before its lines are copied, and the other page is free.
    FreesEarly,
    /// The journal does not say where a consolidated page lies.
    UnjournaledConsolidation,
    /// The truncation point passes commits that the table does not have.
    TruncatesEarly,
    /// A store does not wait until its line's old bytes are logged.
    UnloggedOld,
    /// A commit does not say that a transaction which fell back to logging has ended.
    ForgetsFallBack,
    /// What goes on after a crash takes all pages to be at home.
    CountsAnew,
    /// An abort leaves the current bits of its lines.
    KeepsBits,
}

const FAULTS: [Fault; 11] = [
    Fault::SealsEarly,
    Fault::EndsEarly,
    Fault::InPlace,
    Fault::NoReplay,
    Fault::FreesEarly,
    Fault::UnjournaledConsolidation,
    Fault::TruncatesEarly,
    Fault::UnloggedOld,
    Fault::ForgetsFallBack,
    Fault::CountsAnew,
    Fault::KeepsBits,
];

/// The fault of the plant with this number.
pub(super) fn fault(number: u8) -> Fault {
    FAULTS[usize::from(number)]
}

/// Data that is stored to again and again.
const USUAL: Shown = Shown {
    variant: "ssp",
    program: "hash-toggle",
    footprint: 2048,
    threads: 2,
    is_shared: false,
    abort_every: 0,
    options: &[(TLB_PAGES.name, 64), (TX_PAGES.name, 64), (SHADOW_PAGES.name, 64)],
    machine: &[],
};
/// Data of many pages, of which TLBs hold few.
const LEAVING: Shown = Shown {
    program: "rbtree-toggle",
    footprint: 1 << 16,
    options: &[(TLB_PAGES.name, 2), (TX_PAGES.name, 64), (SHADOW_PAGES.name, 64)],
    ..USUAL
};
/// A journal that goes round as often as it can.
const ROUND: Shown = Shown {
    options: &[
        (TLB_PAGES.name, 64),
        (TX_PAGES.name, 64),
        (SHADOW_PAGES.name, 64),
        (JOURNAL_RECORDS.name, 8),
    ],
    ..USUAL
};
/// Transactions that shadow one page and log the old lines of the others.
const FALLING_BACK: Shown = Shown {
    options: &[(TLB_PAGES.name, 64), (TX_PAGES.name, 1), (SHADOW_PAGES.name, 64)],
    ..LEAVING
};

const fn plant(name: &'static str, number: u8, shown_by: Shown, about: &'static str) -> Plant {
    let applies_to = AppliesTo::These(&["ssp"]);
    Plant { name, about, breaks: Breaks::Scheme(number), applies_to, shown_by }
}

const fn control(
    name: &'static str,
    shown_by: Shown,
    breaks: Breaks,
    about: &'static str,
) -> Plant {
    Plant { name, about, breaks, applies_to: AppliesTo::All, shown_by }
}

/// All plants, then the controls.
pub(super) const PLANTS: [Plant; 13] = [
    plant("H16", 0, USUAL, "bitmaps are swapped before the lines are durable"),
    plant("ssp-ends-early", 1, USUAL, "a transaction ends while its commit is on its way"),
    plant("ssp-in-place", 2, USUAL, "transactions write over the committed lines"),
    plant("ssp-no-replay", 3, USUAL, "bitmaps are swapped without their journal"),
    plant("ssp-frees-early", 4, LEAVING, "a page is free before its lines have been copied"),
    plant("ssp-unjournaled", 5, LEAVING, "a consolidation is not journaled, and frees a page"),
    plant("ssp-truncates-early", 6, ROUND, "the journal is truncated before the table has it"),
    plant("ssp-unlogged", 7, FALLING_BACK, "a store does not wait until the old line is logged"),
    plant("ssp-forgets-log", 8, FALLING_BACK, "a commit leaves its log of old lines in force"),
    plant("ssp-counts-anew", 9, LEAVING, "after a crash all pages are taken to be at home"),
    plant(
        "ssp-keeps-bits",
        10,
        Shown { abort_every: 3, ..USUAL },
        "an abort leaves the current bits of its lines",
    ),
    control("ssp-none", LEAVING, Breaks::Nothing, "nothing"),
    control("ssp-fence", FALLING_BACK, Breaks::MoreFences, "a fence precedes each end"),
];
