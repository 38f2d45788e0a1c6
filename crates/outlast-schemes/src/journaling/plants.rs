//! What can be broken of it: each ordering that recovery rests on.

use crate::plant::{AppliesTo, Breaks, Plant, Shown};
use crate::shared::epoch::EPOCH;
use crate::shared::redo::Fault;

const FAULTS: [Fault; 10] = [
    Fault::Unflushed,
    Fault::RecordFirst,
    Fault::HomeFirst,
    Fault::ClearedFirst,
    Fault::ResumesEarly,
    Fault::ClearsFirst,
    Fault::SpillForgotten,
    Fault::ReadsHome,
    Fault::SavesLate,
    Fault::NeverCleared,
];

/// The fault of the plant with this number.
pub(super) fn fault(number: u8) -> Fault {
    FAULTS[usize::from(number)]
}

const USUAL: Shown = Shown {
    variant: "journaling",
    program: "hash-toggle",
    footprint: 2048,
    threads: 2,
    is_shared: false,
    abort_every: 0,
    options: &[],
    machine: &[],
};

/// Epochs in which lines are read again that have left the caches.
const LONGER: Shown = Shown { options: &[(EPOCH.name, 600)], ..USUAL };

const fn plant(name: &'static str, number: u8, about: &'static str) -> Plant {
    let applies_to = AppliesTo::These(&["journaling"]);
    Plant { name, about, breaks: Breaks::Scheme(number), applies_to, shown_by: USUAL }
}

const fn control(name: &'static str, breaks: Breaks, about: &'static str) -> Plant {
    Plant { name, about, breaks, applies_to: AppliesTo::All, shown_by: USUAL }
}

/// All plants, then the controls.
pub(super) const PLANTS: [Plant; 12] = [
    plant("journaling-unflushed", 0, "an epoch commits without what the caches have of it"),
    plant("journaling-record-first", 1, "the record is durable before the directory"),
    plant("journaling-home-first", 2, "copies go home before the record is durable"),
    plant("journaling-cleared-first", 3, "the record is cleared before the copies are home"),
    plant("journaling-resumes-early", 4, "copies are written anew before they are home"),
    plant("journaling-clears-first", 5, "recovery clears the record before the copies are home"),
    plant("journaling-spill-forgotten", 6, "the directory has no lines past the table"),
    Plant {
        shown_by: LONGER,
        ..plant("journaling-reads-home", 7, "a miss reads the home where there is a copy")
    },
    plant("journaling-saves-late", 8, "registers are saved when the next epoch has begun"),
    plant("journaling-never-cleared", 9, "the record covers copies that are written anew"),
    control("journaling-none", Breaks::Nothing, "nothing"),
    control("journaling-flush-clean", Breaks::FlushClean, "a clean line is flushed behind loads"),
];
