//! What can be broken: `PERSISTENCY.md`'s list, and the points of `docs/picl.md`.

use super::config::{Fault, Faults};
use super::layout::{Granule, block_bytes};
use crate::plant::{AppliesTo, BUFFERED, Breaks, Plant, Shown};

const ALL: AppliesTo = AppliesTo::These(&["picl"]);

/// Data that is stored to again and again.
const USUAL: Shown = Shown {
    variant: "picl",
    program: "hash-toggle",
    footprint: 2048,
    threads: 2,
    is_shared: false,
    abort_every: 0,
    options: &[],
    machine: &[],
};
/// Each epoch persists as soon as it has ended.
const AT_ONCE: Shown = Shown { options: &[("acs_gap", 0)], ..USUAL };
/// A log of small parts, which is used again and again.
const REUSED: Shown =
    Shown { options: &[("acs_gap", 3), ("log", 4 * BLOCK), ("log_growths", 127)], ..USUAL };
/// Entries take long from private caches to the buffer.
const FAR: Shown = Shown { options: &[("forward", 2000)], ..USUAL };
/// Many epochs.
const MANY: Shown = Shown { options: &[("epoch", 10), ("acs_gap", 0), ("save_lines", 1)], ..USUAL };
/// Many epochs, and a log in which what has expired stays long.
const LONG: Shown =
    Shown { options: &[("epoch", 15), ("save_lines", 1), ("log", 96 * BLOCK)], ..USUAL };
/// Stores to quarters of lines that stay in caches for more epochs than tags tell apart.
const QUARTERED: Shown = Shown {
    program: "array-random",
    options: &[("epoch", 5), ("acs_gap", 0), ("save_lines", 1), ("quarters", 1)],
    ..USUAL
};
/// A block of the log.
const BLOCK: u64 = block_bytes(Granule::Line, 4);

/// The fault of each plant, by its number.
const FAULTS: [Fault; 20] = [
    Fault::FilterMisses,
    Fault::PersistedAtScan,
    Fault::TillEarly,
    Fault::ScanUnfiltered,
    Fault::SavesLate,
    Fault::ForwardsLost,
    Fault::TagsWrap,
    Fault::NarrowLog,
    Fault::FlushIssued,
    Fault::TornTaken,
    Fault::Untruncated,
    Fault::StopsEarly,
    Fault::PersistedUnordered,
    Fault::AppliedForward,
    Fault::FreedEarly,
    Fault::GrowthUnrecorded,
    Fault::BlockCut,
    Fault::PlaceTakenAgain,
    Fault::GapShort,
    Fault::QuartersStay,
];

/// The faults of the plant with this number.
pub(super) fn faults(number: u8) -> Faults {
    Faults::of(&[FAULTS[usize::from(number)]])
}

const fn plant(name: &'static str, number: u8, shown_by: Shown, about: &'static str) -> Plant {
    Plant { name, about, breaks: Breaks::Scheme(number), applies_to: ALL, shown_by }
}

pub(super) const PLANTS: [Plant; 21] = [
    plant("H4", 0, USUAL, "the filter misses lines whose undo entries are in the buffer"),
    plant("H5", 1, USUAL, "an epoch counts as persisted before its cache scan ends"),
    plant("H6", 2, USUAL, "an undo entry's ValidTill is an epoch too low"),
    plant("PICL-1", 3, AT_ONCE, "what the cache scan writes does not wait for its undo entries"),
    plant("PICL-2", 4, USUAL, "registers are saved when the next epoch has begun"),
    plant("PICL-3", 5, FAR, "the scan's end does not wait for entries from private caches"),
    plant("PICL-4", 6, MANY, "epochs do not wait for a scan that tags cannot follow"),
    plant("PICL-4-log", 7, LONG, "epochs have four bits in the log as well"),
    plant("PICL-5", 8, USUAL, "a flush of the undo buffer counts when it is issued"),
    plant("PICL-7", 9, USUAL, "recovery takes blocks that were torn"),
    plant("PICL-8", 10, USUAL, "recovery does not empty the log"),
    plant("PICL-9", 11, USUAL, "recovery stops an epoch too early"),
    plant("PICL-10", 12, USUAL, "PersistedEID is not ordered behind the undo buffer"),
    plant("PICL-13", 13, USUAL, "recovery has the youngest entry of a line win"),
    plant("picl-freed-early", 14, REUSED, "super blocks are free an epoch too early"),
    plant("picl-growth", 15, USUAL, "the log's new part is used before that is durable"),
    plant(
        "PICL-6",
        16,
        USUAL,
        "a block has no room for its header: the last entries' bytes are lost",
    ),
    plant("PICL-11", 17, USUAL, "a block's place is taken again where the block was not full"),
    plant("PICL-12", 18, AT_ONCE, "the epoch that executes counts as one that the scan is behind"),
    plant("PICL-4-quarters", 19, QUARTERED, "a line that has gone home keeps its quarters' EIDs"),
    Plant {
        name: "picl-buffer",
        about: "what the cache scan writes counts as durable in a DRAM buffer in front of memory",
        breaks: Breaks::Buffer,
        applies_to: ALL,
        shown_by: Shown { machine: BUFFERED, ..AT_ONCE },
    },
];
