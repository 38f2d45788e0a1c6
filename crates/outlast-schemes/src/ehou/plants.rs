//! What can be broken: `PERSISTENCY.md`'s list, and the points of `docs/ehou.md`.

use super::LOG_BUFFER;
use super::config::{Fault, Faults};
use crate::plant::{AppliesTo, Breaks, Plant, Shown};

const ALL: AppliesTo = AppliesTo::These(&["ehou-eager", "ehou-lazy", "ehou"]);
const LAZY: AppliesTo = AppliesTo::These(&["ehou-lazy", "ehou"]);
const LOGGING: AppliesTo = AppliesTo::These(&["ehou"]);

/// Data that is stored to again and again.
const USUAL: Shown = Shown {
    variant: "ehou-lazy",
    program: "hash-toggle",
    footprint: 2048,
    threads: 2,
    is_shared: false,
    abort_every: 0,
    options: &[],
    machine: &[],
};
/// An AIT cache that holds no transaction, and a log that leaves its buffer.
const OVERFLOWING: Shown = Shown {
    variant: "ehou",
    program: "rbtree-toggle",
    options: &[("ait.ways", 2), (LOG_BUFFER.name, 4)],
    ..USUAL
};
/// Transactions of which some lines are evicted before they abort.
const ABORTING: Shown = Shown { program: "rbtree-toggle", abort_every: 3, ..USUAL };
/// The same, whose evicted lines are read again and stored to.
const READ_AGAIN: Shown = Shown { program: "ctree", ..OVERFLOWING };

/// The fault of each plant, by its number.
const FAULTS: [Fault; 15] = [
    Fault::LogToMap,
    Fault::DrainsSpeculative,
    Fault::ReclaimLost,
    Fault::AppliedEarly,
    Fault::OneByOne,
    Fault::LogCleared,
    Fault::ReclaimLate,
    Fault::FreedVolatile,
    Fault::FreedEarly,
    Fault::AbortLeaks,
    Fault::AbortStays,
    Fault::LinesLeft,
    Fault::LogUnread,
    Fault::Overwritten,
    Fault::Evicted,
];

/// The faults of the plant with this number.
pub(super) fn faults(number: u8) -> Faults {
    Faults::of(&[FAULTS[usize::from(number)]])
}

const fn plant(
    name: &'static str,
    number: u8,
    applies_to: AppliesTo,
    shown_by: Shown,
    about: &'static str,
) -> Plant {
    Plant { name, about, breaks: Breaks::Scheme(number), applies_to, shown_by }
}

pub(super) const PLANTS: [Plant; 15] = [
    plant("H12", 0, LOGGING, OVERFLOWING, "a speculative entry is evicted to the map, not the log"),
    plant("H13", 1, ALL, USUAL, "a crash drains speculative entries, too"),
    plant("H14", 2, ALL, USUAL, "recovery does not restore the reclaim list"),
    plant("H15", 3, LOGGING, OVERFLOWING, "the overflow log is applied before the commit"),
    plant("EHOU-2", 4, ALL, USUAL, "entries commit one by one"),
    plant("EHOU-3", 5, LOGGING, OVERFLOWING, "the overflow log is cleared before it is applied"),
    plant("EHOU-4", 6, ALL, USUAL, "committed blocks are reclaimed"),
    plant("EHOU-5-leak", 7, ALL, USUAL, "that superseded blocks are free is not durable"),
    plant("EHOU-5-early", 8, ALL, USUAL, "superseded blocks are free before the commit"),
    plant("EHOU-8-leak", 9, ALL, ABORTING, "an abort does not free its blocks"),
    plant("EHOU-8-stays", 10, ALL, ABORTING, "an abort leaves its speculative entries"),
    plant("EHOU-9", 11, ALL, USUAL, "a transaction ends before its lines have left the caches"),
    plant("EHOU-12", 12, LOGGING, READ_AGAIN, "a miss looks into no overflow log"),
    plant("ehou-overwritten", 13, LAZY, USUAL, "a committed entry is overwritten unpersisted"),
    plant(
        "ehou-evicted",
        14,
        LAZY,
        Shown { options: &[("ait.ways", 24)], ..USUAL },
        "a committed entry is evicted unpersisted",
    ),
];
