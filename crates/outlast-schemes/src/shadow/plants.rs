//! What can be broken of it: each ordering that recovery rests on.

use super::TABLE_ENTRIES;
use crate::plant::{AppliesTo, Breaks, Plant, Shown};
use crate::shared::epoch::EPOCH;
use crate::shared::redo::{Fault as Shared, TABLE_WAYS};

/// What is broken of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// A line does not wait until its page has been copied.
    FillsLate,
    /// A page takes the way of one that this epoch has changed.
    ReplacesChanged,
}

const FAULTS: [(Option<Shared>, Option<Fault>); 10] = [
    (Some(Shared::Unflushed), None),
    (Some(Shared::RecordFirst), None),
    (Some(Shared::HomeFirst), None),
    (Some(Shared::ClearedFirst), None),
    (Some(Shared::ResumesEarly), None),
    (Some(Shared::ClearsFirst), None),
    (Some(Shared::ReadsHome), None),
    (Some(Shared::SavesLate), None),
    (None, Some(Fault::FillsLate)),
    (None, Some(Fault::ReplacesChanged)),
];

/// The fault of the plant with this number.
pub(super) fn fault(number: u8) -> (Option<Shared>, Option<Fault>) {
    FAULTS[usize::from(number)]
}

const USUAL: Shown = Shown {
    variant: "shadow",
    program: "hash-toggle",
    footprint: 2048,
    threads: 2,
    is_shared: false,
    abort_every: 0,
    options: &[],
    machine: &[],
};
/// Data of more pages than the table names.
const WIDE: Shown = Shown {
    program: "rbtree-toggle",
    footprint: 1 << 13,
    options: &[(TABLE_ENTRIES.name, 1), (TABLE_WAYS.name, 1)],
    ..USUAL
};

/// Epochs in which lines are read again that have left the caches.
const LONGER: Shown = Shown { options: &[(EPOCH.name, 600)], ..USUAL };

const fn plant(name: &'static str, number: u8, shown_by: Shown, about: &'static str) -> Plant {
    let applies_to = AppliesTo::These(&["shadow"]);
    Plant { name, about, breaks: Breaks::Scheme(number), applies_to, shown_by }
}

const fn control(
    name: &'static str,
    breaks: Breaks,
    shown_by: Shown,
    about: &'static str,
) -> Plant {
    Plant { name, about, breaks, applies_to: AppliesTo::All, shown_by }
}

/// All plants, then the controls.
pub(super) const PLANTS: [Plant; 12] = [
    plant("shadow-unflushed", 0, USUAL, "an epoch commits without what the caches have of it"),
    plant("shadow-record-first", 1, USUAL, "the record is durable before the directory"),
    plant("shadow-home-first", 2, USUAL, "copies go home before the record is durable"),
    plant("shadow-cleared-first", 3, USUAL, "the record is cleared before the copies are home"),
    plant("shadow-resumes-early", 4, USUAL, "copies are written to before they are home"),
    plant("shadow-clears-first", 5, USUAL, "recovery clears the record before copies are home"),
    plant("shadow-reads-home", 6, LONGER, "a miss reads the home where there is a copy"),
    plant("shadow-saves-late", 7, USUAL, "registers are saved when the next epoch has begun"),
    plant("shadow-fills-late", 8, USUAL, "a line does not wait until its page has been copied"),
    plant("shadow-replaces-changed", 9, WIDE, "a page takes the way of one that was changed"),
    control("shadow-none", Breaks::Nothing, WIDE, "nothing"),
    control(
        "shadow-flush-clean",
        Breaks::FlushClean,
        USUAL,
        "clean lines are flushed behind loads",
    ),
];
