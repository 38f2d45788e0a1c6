//! What can be broken of hardware logging: `PERSISTENCY.md`'s list, and the points of `docs/hwl.md`.

use super::config::{Fault, Faults};
use super::variants::{FIT_LOG, LOG_SLOTS, SCAN_PERIOD};
use crate::plant::{AppliesTo, Breaks, Plant, Shown};

/// Variants that log in hardware, and those that force lines out.
const LOGGING: AppliesTo = AppliesTo::These(&[
    "hw-ulog",
    "hw-rlog",
    "hwl",
    "fwb",
    "fwb:buffered",
    "hwl:literal",
    "fwb:literal",
]);
const FORCING: AppliesTo = AppliesTo::These(&["fwb", "fwb:buffered", "fwb:literal"]);

/// Data that is stored to again and again, under `fwb`.
const USUAL: Shown = Shown {
    variant: "fwb",
    program: "hash-toggle",
    footprint: 2048,
    threads: 2,
    is_shared: false,
    abort_every: 0,
    options: &[],
    machine: &[],
};
/// A log that goes round as often as it can.
const ROUND: Shown = Shown { options: &[(LOG_SLOTS.name, 1)], ..USUAL };

/// The faults of each plant, by its number.
const FAULTS: [&[Fault]; 10] = [
    &[Fault::Unordered],
    &[Fault::Overwrite],
    &[Fault::HeadEarly],
    &[Fault::Merge],
    &[Fault::NoCommit],
    &[Fault::Mismatch],
    &[Fault::OneLevel, Fault::ByTime],
    &[Fault::PassesRunning],
    &[Fault::VolatileHead],
    &[Fault::Overwrite],
];

/// The faults of the plant with this number.
pub(super) fn faults(number: u8) -> Faults {
    Faults::of(FAULTS[usize::from(number)])
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

const fn control(
    name: &'static str,
    variant: &'static str,
    breaks: Breaks,
    about: &'static str,
) -> Plant {
    let shown_by = Shown { variant, ..USUAL };
    Plant { name, about, breaks, applies_to: AppliesTo::All, shown_by }
}

/// All plants, then the controls.
pub(super) const PLANTS: [Plant; 16] = [
    plant(
        "H1",
        0,
        LOGGING,
        // Data that is evicted while its records wait.
        Shown { program: "rbtree-toggle", footprint: 1 << 16, ..USUAL },
        "data overtakes its records in the log buffer (HWL-5)",
    ),
    plant(
        "H2",
        1,
        FORCING,
        Shown { options: &[(LOG_SLOTS.name, 1), (SCAN_PERIOD.name, 4_000_000)], ..USUAL },
        "lines are forced out more slowly than the log goes round (HWL-10)",
    ),
    plant(
        "H3",
        2,
        LOGGING,
        ROUND,
        "the log's head moves before the forced write-back is done (HWL-11)",
    ),
    Plant {
        breaks: Breaks::Drain,
        applies_to: AppliesTo::All,
        ..plant("H9", 0, LOGGING, USUAL, "the drain at a crash leaves out a queued write")
    },
    Plant {
        breaks: Breaks::Transfer,
        applies_to: AppliesTo::All,
        ..plant(
            "H10",
            0,
            LOGGING,
            Shown { is_shared: true, ..USUAL },
            "a coherence transfer drops the dirty bit",
        )
    },
    plant(
        "H11",
        3,
        LOGGING,
        Shown { variant: "fwb:buffered", ..USUAL },
        "the log buffer coalesces across transactions",
    ),
    plant("HWL-1", 4, LOGGING, USUAL, "nothing says what committed"),
    plant("HWL-2", 5, LOGGING, USUAL, "what differs from memory is taken for not committed"),
    Plant {
        breaks: Breaks::TornRecord,
        ..plant("HWL-6", 0, LOGGING, USUAL, "memory tears a log record, which has to arrive whole")
    },
    plant(
        "HWL-7",
        6,
        FORCING,
        ROUND,
        "a forced line only goes down one level, and the head moves by time",
    ),
    plant(
        "HWL-8",
        7,
        LOGGING,
        // More of them run at once, whatever the seed.
        Shown { threads: 4, ..ROUND },
        "the head passes records of running transactions",
    ),
    plant(
        "HWL-9",
        8,
        LOGGING,
        ROUND,
        "slots are used again before the head in memory has passed them",
    ),
    plant(
        "overflow",
        9,
        LOGGING,
        // Beside it, a transaction that is not declared.
        Shown { options: &[(LOG_SLOTS.name, 4), (FIT_LOG.name, 0)], ..USUAL },
        "a transaction larger than the log, and nothing looks",
    ),
    control("clflushopt", "hwl", Breaks::Clflushopt, "clflushopt for clwb"),
    control("flush-clean", "fwb", Breaks::FlushClean, "a flush of a line that is clean"),
    control("none", "fwb", Breaks::Nothing, "nothing"),
];
