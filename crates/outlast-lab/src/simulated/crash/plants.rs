//! What can be broken on purpose: in a scheme, in the machine, in the image. And what can be
//! changed without harm.

use std::str::FromStr;

use outlast_schemes::Patch;
use outlast_schemes::hwl::{Fault, Faults};
use outlast_sim::timed::{Cycle, TimedJournal};
use outlast_sim::{Cause, instead_of};
use outlast_trace::{FlushKind, Op, OpLog, PoolOffset, Sink};

use super::Campaign;
use crate::simulated::schemes::SimScheme;

/// Cycles for which an accepted write is in the queue for sure: column latency and more.
const QUEUED_CYCLES: u64 = 80;

/// Something broken on purpose, or changed without harm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plant {
    /// Its name: those of `PERSISTENCY.md`'s list, and the points of `docs/hwl.md`.
    pub name: &'static str,
    /// What it breaks.
    pub about: &'static str,
    /// The scheme that shows it.
    pub scheme: SimScheme,
    pub(super) faults: Faults,
    pub(super) at: At,
    /// Whether it does no harm.
    pub is_control: bool,
}

/// Where it sits, besides the scheme's own faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    Scheme,
    /// The scan comes too rarely.
    LateScan,
    /// The drain at a crash leaves out a write that was queued.
    Drain,
    /// Coherence forgets that a line is dirty. The data is shared.
    Transfer,
    /// The last write to the log is torn between its words.
    Tear,
    /// The log is small beside a transaction that is not declared.
    Undeclared,
    /// Each flush twice.
    FlushTwice,
    /// A fence behind each store of a transaction.
    MoreFences,
    /// `clflushopt` for `clwb`.
    Clflushopt,
    /// A flush of a clean line at the begin of each transaction.
    FlushClean,
}

const fn plant(
    name: &'static str,
    scheme: SimScheme,
    faults: &[Fault],
    at: At,
    about: &'static str,
) -> Plant {
    Plant { name, about, scheme, faults: Faults::of(faults), at, is_control: false }
}

const fn control(name: &'static str, scheme: SimScheme, at: At, about: &'static str) -> Plant {
    Plant { is_control: true, ..plant(name, scheme, &[], at, about) }
}

/// All plants, then the controls.
pub const PLANTS: [Plant; 18] = [
    plant(
        "H1",
        SimScheme::Fwb,
        &[Fault::Unordered],
        At::Scheme,
        "data overtakes its records in the log buffer (HWL-5)",
    ),
    plant(
        "H2",
        SimScheme::Fwb,
        &[Fault::Overwrite],
        At::LateScan,
        "lines are forced out more slowly than the log goes round (HWL-10)",
    ),
    plant(
        "H3",
        SimScheme::Fwb,
        &[Fault::HeadEarly],
        At::Scheme,
        "the log's head moves before the forced write-back is done (HWL-11)",
    ),
    plant("H9", SimScheme::Fwb, &[], At::Drain, "the drain at a crash leaves out a queued write"),
    plant("H10", SimScheme::Fwb, &[], At::Transfer, "a coherence transfer drops the dirty bit"),
    plant(
        "H11",
        SimScheme::FwbBuffered,
        &[Fault::Merge],
        At::Scheme,
        "the log buffer coalesces across transactions",
    ),
    plant("HWL-1", SimScheme::Fwb, &[Fault::NoCommit], At::Scheme, "nothing says what committed"),
    plant(
        "HWL-2",
        SimScheme::Fwb,
        &[Fault::Mismatch],
        At::Scheme,
        "what differs from memory is taken for not committed",
    ),
    plant(
        "HWL-6",
        SimScheme::Fwb,
        &[],
        At::Tear,
        "memory tears a log record, which has to arrive whole",
    ),
    plant(
        "HWL-7",
        SimScheme::Fwb,
        &[Fault::OneLevel, Fault::ByTime],
        At::Scheme,
        "a forced line only goes down one level, and the head moves by time",
    ),
    plant(
        "HWL-8",
        SimScheme::Fwb,
        &[Fault::PassesRunning],
        At::Scheme,
        "the head passes records of running transactions",
    ),
    plant(
        "HWL-9",
        SimScheme::Fwb,
        &[Fault::VolatileHead],
        At::Scheme,
        "slots are used again before the head in memory has passed them",
    ),
    plant(
        "overflow",
        SimScheme::Fwb,
        &[Fault::Overwrite],
        At::Undeclared,
        "a transaction larger than the log, and nobody looks",
    ),
    control("flush-twice", SimScheme::RedoClwb, At::FlushTwice, "every flush twice"),
    control("more-fences", SimScheme::UndoClwb, At::MoreFences, "a fence before every commit"),
    control("clflushopt", SimScheme::Hwl, At::Clflushopt, "clflushopt for clwb"),
    control("flush-clean", SimScheme::Fwb, At::FlushClean, "a flush of a line that is clean"),
    control("none", SimScheme::Fwb, At::Scheme, "nothing"),
];

impl FromStr for Plant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        PLANTS.iter().find(|plant| plant.name == name).copied().ok_or_else(|| {
            let instead = instead_of(name, PLANTS.iter().map(|plant| plant.name));
            format!("no plant is called '{name}'; {instead}")
        })
    }
}

impl Plant {
    /// Whether a scheme has what this breaks. Elsewhere it changes nothing.
    pub fn applies_to(&self, scheme: SimScheme) -> bool {
        match self.at {
            At::Scheme if self.is_control => true,
            At::Drain | At::Transfer => true,
            At::FlushTwice | At::MoreFences | At::Clflushopt | At::FlushClean => true,
            At::Tear | At::Undeclared => scheme.has_hardware_log(),
            At::LateScan => scheme.forces_lines_out(),
            At::Scheme if self.faults.has(Fault::OneLevel) => scheme.forces_lines_out(),
            At::Scheme => scheme.has_hardware_log(),
        }
    }

    /// The campaign that kills it, or stays silent on it: small, every entry a crash point.
    pub fn campaign(&self, seed: u64) -> Campaign {
        // Data that is evicted while its records wait; else data that is stored to again and again.
        let (bench, footprint) = match self.faults.has(Fault::Unordered) {
            true => ("rbtree", 1 << 16),
            false => ("hash", 2048),
        };
        let mut campaign = Campaign::small(self.scheme, bench, seed);
        campaign.plan.footprint = footprint;
        campaign.plan.shared = matches!(self.at, At::Transfer);
        campaign.plant = Some(*self);
        campaign
    }
}

/// An entry of the journal, and what its line held before it.
pub(super) type Before = (usize, PoolOffset, [u8; 64]);

impl Plant {
    /// What a broken drain or a torn write changes in the image of a crash at `now`, just behind
    /// `point`, where the last few entries replaced what stands in `before`.
    pub(super) fn damage(
        &self,
        journal: &TimedJournal,
        point: usize,
        now: Cycle,
        before: &[Before],
    ) -> Vec<Patch> {
        let restore = |at: PoolOffset, old: &[u8; 64], words: &dyn Fn(u64) -> bool| {
            let word =
                |k: u64| Patch { at: at.plus(8 * k), word: old.as_chunks::<8>().0[k as usize] };
            (0..8).filter(|k| words(*k)).map(word).collect::<Vec<_>>()
        };
        match self.at {
            At::Drain => {
                let now = if now == Cycle::NEVER { journal.at(point - 1) } else { now };
                let queued = before.iter().find(|(entry, at, _)| {
                    let later = before.iter().any(|(other, line, _)| other > entry && line == at);
                    now.since(journal.at(*entry)) < QUEUED_CYCLES && !later
                });
                queued.map_or(Vec::new(), |(_, at, old)| restore(*at, old, &|_| true))
            }
            At::Tear => {
                let last = before.last().filter(|(entry, _, _)| {
                    *entry + 1 == point && journal.journal().get(*entry).cause == Cause::Logged
                });
                last.map_or(Vec::new(), |(_, at, old)| restore(*at, old, &|word| word >= 2))
            }
            _ => Vec::new(),
        }
    }

    /// The operations with what the plant changes in them.
    pub(super) fn rewrite(&self, log: &OpLog) -> OpLog {
        let mut out = OpLog::default();
        for (lane, op) in log.iter() {
            match (self.at, op) {
                (At::Clflushopt, Op::Flush { line, .. }) => {
                    out.op(lane, Op::Flush { kind: FlushKind::ClflushOpt, line });
                    continue;
                }
                (At::FlushTwice, Op::Flush { .. }) => out.op(lane, op),
                (At::MoreFences, Op::TxEnd) => out.op(lane, Op::Sfence),
                (At::FlushClean, Op::Load { at, .. }) => {
                    out.op(lane, op);
                    out.op(lane, Op::Flush { kind: FlushKind::Clwb, line: at.line() });
                    continue;
                }
                _ => {}
            }
            out.op(lane, op);
        }
        out
    }
}
