//! What can be broken of it: `PERSISTENCY.md`'s H7 and H8, and each ordering that recovery rests on.

use super::PAGE_AFTER;
use crate::plant::{AppliesTo, Breaks, Plant, Shown};
use crate::shared::redo::{COPIES, Fault as Shared};

/// What is broken of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// A line goes to the copy that the last epoch has of it.
    Overwrites,
    /// Copies of the last epoch are written anew before its checkpoint is complete.
    FreesEarly,
    /// A page's copy begins with the home, where the last epoch has a newer copy.
    BuildsFromHome,
    /// A page's copy does not get the lines that had copies of their own.
    LinesLeft,
}

const FAULTS: [(Option<Shared>, Option<Fault>); 11] = [
    (Some(Shared::Unflushed), None),
    (Some(Shared::SavesLate), None),
    (Some(Shared::RecordFirst), None),
    (Some(Shared::HomeFirst), None),
    (Some(Shared::ClearedFirst), None),
    (Some(Shared::NeverCleared), None),
    (Some(Shared::ClearsFirst), None),
    (None, Some(Fault::Overwrites)),
    (None, Some(Fault::FreesEarly)),
    (None, Some(Fault::BuildsFromHome)),
    (None, Some(Fault::LinesLeft)),
];

/// The fault of the plant with this number.
pub(super) fn fault(number: u8) -> (Option<Shared>, Option<Fault>) {
    FAULTS[usize::from(number)]
}

const USUAL: Shown = Shown {
    variant: "thynvm",
    program: "hash-toggle",
    footprint: 2048,
    threads: 2,
    is_shared: false,
    abort_every: 0,
    options: &[],
    machine: &[],
};

/// Pages that are built while those of the last epoch are merged, slowly.
const BUILDING: Shown =
    Shown { program: "rbtree-toggle", options: &[(COPIES.name, 1), (PAGE_AFTER.name, 1)], ..USUAL };

const fn shown(name: &'static str, number: u8, shown_by: Shown, about: &'static str) -> Plant {
    let applies_to = AppliesTo::These(&["thynvm"]);
    Plant { name, about, breaks: Breaks::Scheme(number), applies_to, shown_by }
}

const fn plant(name: &'static str, number: u8, about: &'static str) -> Plant {
    shown(name, number, USUAL, about)
}

const fn control(name: &'static str, breaks: Breaks, about: &'static str) -> Plant {
    Plant { name, about, breaks, applies_to: AppliesTo::All, shown_by: USUAL }
}

/// All plants, then the controls.
pub(super) const PLANTS: [Plant; 13] = [
    plant("H7", 0, "the tables are persisted before the lines that caches have"),
    plant("H8", 1, "the record is written before the registers are saved"),
    plant("thynvm-record-first", 2, "the record is durable before the directory"),
    plant("thynvm-home-first", 3, "copies go home before the record is durable"),
    plant("thynvm-cleared-first", 4, "the record is cleared before the copies are home"),
    plant("thynvm-never-cleared", 5, "the record covers copies that are written anew"),
    plant("thynvm-clears-first", 6, "recovery clears the record before the copies are home"),
    plant("thynvm-overwrites", 7, "a line goes to the copy of an epoch that is being merged"),
    plant("thynvm-frees-early", 8, "entries are used anew before their checkpoint is complete"),
    shown("thynvm-builds-from-home", 9, BUILDING, "a page's copy begins with what is at home"),
    plant("thynvm-lines-left", 10, "a page's copy lacks the lines that had copies"),
    Plant { shown_by: BUILDING, ..control("thynvm-none", Breaks::Nothing, "nothing") },
    control("thynvm-flush-clean", Breaks::FlushClean, "clean lines are flushed behind loads"),
];
