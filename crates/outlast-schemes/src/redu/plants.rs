//! What can be broken of it: `PERSISTENCY.md`'s H17, and each ordering that it rests on.

use super::{DRAM_SIZE, LOG_RECORDS, UPDATES};
use crate::plant::{AppliesTo, Breaks, Plant, Shown};

/// What is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// Lines of a running transaction that leave the caches are written in place.
    InPlace,
    /// The commit goes beside the records that it makes count (R1).
    CommitEarly,
    /// A transaction ends while its commit is on its way.
    EndsEarly,
    /// The truncation point passes transactions whose lines are not in place (R2).
    PassesUnapplied,
    /// Slots are used again before the point that passed them is durable (R3).
    FreesEarly,
    /// Recovery replays lane after lane (R4).
    ByLane,
    /// Reads do not look the DRAM cache up.
    ReadsPast,
    /// A line that is stored to again while its record is on its way is not logged again.
    LogsOnce,
    /// Lines of a transaction whose old version waits for its place are stored to, and it is forgotten.
    Forgets,
    /// Lines of a transaction that aborts stay in the DRAM cache.
    AbortedLeft,
}

const FAULTS: [Fault; 10] = [
    Fault::InPlace,
    Fault::CommitEarly,
    Fault::EndsEarly,
    Fault::PassesUnapplied,
    Fault::FreesEarly,
    Fault::ByLane,
    Fault::ReadsPast,
    Fault::LogsOnce,
    Fault::Forgets,
    Fault::AbortedLeft,
];

/// The fault of the plant with this number.
pub(super) fn fault(number: u8) -> Fault {
    FAULTS[usize::from(number)]
}

/// Data that is stored to again and again.
const USUAL: Shown = Shown {
    variant: "redu",
    program: "hash-toggle",
    footprint: 2048,
    threads: 2,
    is_shared: false,
    abort_every: 0,
    options: &[],
    machine: &[],
};
/// Transactions of which lines are evicted while they run.
const EVICTING: Shown = Shown { program: "rbtree-toggle", footprint: 1 << 16, ..USUAL };
/// Transactions that go through trees between two stores to a line.
const AGAIN: Shown =
    Shown { program: "vacation", footprint: 1 << 15, options: &[(DRAM_SIZE.name, 4096)], ..USUAL };
/// A log that goes round as often as it can.
const ROUND: Shown = Shown { options: &[(LOG_RECORDS.name, 8), (UPDATES.name, 1)], ..USUAL };

const fn plant(name: &'static str, number: u8, shown_by: Shown, about: &'static str) -> Plant {
    let applies_to = AppliesTo::These(&["redu"]);
    Plant { name, about, breaks: Breaks::Scheme(number), applies_to, shown_by }
}

const fn control(name: &'static str, breaks: Breaks, about: &'static str) -> Plant {
    Plant { name, about, breaks, applies_to: AppliesTo::All, shown_by: USUAL }
}

/// All plants, then the controls.
pub(super) const PLANTS: [Plant; 12] = [
    plant("H17", 0, EVICTING, "a line is written in place before its log is durable"),
    plant("redu-commit-early", 1, USUAL, "the commit goes beside the records that it makes count"),
    plant("redu-ends-early", 2, USUAL, "a transaction ends while its commit is on its way"),
    plant("redu-truncates-early", 3, ROUND, "the log is truncated before lines are in place"),
    plant("redu-frees-early", 4, ROUND, "slots are used again before the log is truncated"),
    plant(
        "redu-by-lane",
        5,
        Shown { is_shared: true, options: &[(LOG_RECORDS.name, 32)], ..USUAL },
        "recovery replays lane after lane, not by the order of commits",
    ),
    plant("redu-reads-past", 6, AGAIN, "reads pass the DRAM cache by"),
    plant("redu-logs-once", 7, AGAIN, "a line whose record has left is not logged again"),
    plant("redu-forgets", 8, ROUND, "a line that waits for its place is overwritten and forgotten"),
    plant(
        "redu-aborted-left",
        9,
        Shown { program: "rbtree-string", abort_every: 3, ..AGAIN },
        "an abort leaves lines in the DRAM cache",
    ),
    control("redu-none", Breaks::Nothing, "nothing"),
    control("redu-fence", Breaks::MoreFences, "a fence precedes the end of each transaction"),
];
