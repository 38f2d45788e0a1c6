//! Workloads as the timed machine runs them: as bare transactions, once for all schemes.
//!
//! Every [`Workload`] of the runtime is one of them, the same program under the same name. Beside
//! them stand programs that are run for their stores alone.

mod plan;

pub use plan::{Plan, PlanError, Recorded};

use std::sync::OnceLock;

use outlast::Abort;

use crate::workload::{Kind, workloads};
use crate::{Bare, Program, ProgramKind, Scale, Structure, Worker, Workload};

/// A workload that the machine can run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BareWorkload {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    what: What,
    /// Bytes of its data as published, or ours where nothing is.
    pub footprint: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum What {
    /// A program, and the bytes of its elements.
    Program(ProgramKind, u64),
    /// A workload of the runtime, and bytes that one of its keys takes, about.
    Workload(&'static Workload, u64),
}

const MB: u64 = 1 << 20;
/// A workload of the runtime has so many keys at least.
const KEYS_MIN: u64 = 20;
/// String elements: four lines.
const STRING: u64 = 256;

const fn program(
    name: &'static str,
    kind: ProgramKind,
    footprint: u64,
    element_bytes: u64,
    about: &'static str,
) -> BareWorkload {
    BareWorkload { name, about, what: What::Program(kind, element_bytes), footprint }
}

const HASH: ProgramKind = ProgramKind::Toggle(Structure::HashMap);
const RBTREE: ProgramKind = ProgramKind::Toggle(Structure::RbTree);
const BTREE: ProgramKind = ProgramKind::Toggle(Structure::BTree);

/// The micro-benchmarks of the HWL paper (Table III), integers then strings; then what stands for
/// its WHISPER set, whose footprints are not published: those are ours.
const PROGRAMS: [BareWorkload; 14] = [
    program("hash-toggle", HASH, 256 * MB, 8, "hash map: a key added if absent, removed if found"),
    program("rbtree-toggle", RBTREE, 256 * MB, 8, "red-black tree: the same"),
    program("sps", ProgramKind::Swap, 1024 * MB, 8, "swap of two elements of a vector"),
    program("btree-toggle", BTREE, 256 * MB, 8, "B+tree: a key added if absent, removed if found"),
    program("ssca2", ProgramKind::Graph, 16 * MB, 8, "kernels on a scale-free graph"),
    program("hash-string", HASH, 256 * MB, STRING, "hash-toggle with elements of 256 bytes"),
    program("rbtree-string", RBTREE, 256 * MB, STRING, "rbtree-toggle with elements of 256 bytes"),
    program("sps-string", ProgramKind::Swap, 1024 * MB, STRING, "sps with elements of 256 bytes"),
    program("btree-string", BTREE, 256 * MB, STRING, "btree-toggle with elements of 256 bytes"),
    program("ssca2-string", ProgramKind::Graph, 16 * MB, 64, "ssca2 with edges of 72 bytes"),
    program("ctree", ProgramKind::CritBits, 256 * MB, 64, "crit-bit tree: additions, removals"),
    program("hashmap", HASH, 256 * MB, 64, "hash-toggle with elements of 64 bytes"),
    program("echo", ProgramKind::Echo, 256 * MB, 64, "versioned key-value store, batches of puts"),
    program("vacation", ProgramKind::Vacation, 256 * MB, 8, "reservations in four tables"),
];

/// Every workload that the machine can run: programs, then the runtime's.
pub fn bare_workloads() -> &'static [BareWorkload] {
    static ALL: OnceLock<Vec<BareWorkload>> = OnceLock::new();
    ALL.get_or_init(|| {
        let of_runtime = workloads().iter().map(|workload| {
            let (footprint, key_bytes) = match workload.kind {
                Kind::Ycsb(_) => (256 * MB, 1_100),
                Kind::Swaps(_) => (8 * MB, 8),
                Kind::Pairs(_) => (16 * MB, 64),
                Kind::Queue => (MB / 4, 64),
                Kind::FewWords => (256, 8),
                Kind::Tpcc => (256 * MB, 1_000),
                Kind::Linkbench(_) => (256 * MB, 300),
            };
            let what = What::Workload(workload, key_bytes);
            BareWorkload { name: workload.name, about: workload.about, what, footprint }
        });
        PROGRAMS.into_iter().chain(of_runtime).collect()
    })
}

enum Running {
    Program(Program),
    Worker(Box<Worker>),
}

impl Running {
    fn step(&mut self, bare: &mut Bare) -> Result<(), Abort> {
        match self {
            Self::Program(program) => program.step(bare),
            Self::Worker(worker) => {
                worker.draw();
                worker.step(bare).map(drop)
            }
        }
    }
}

impl BareWorkload {
    /// The workload of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        bare_workloads().iter().find(|workload| workload.name == name)
    }

    /// Keys of a workload of the runtime in so many bytes; nothing for a program.
    pub fn keys_in(&self, footprint: u64) -> Option<u64> {
        match self.what {
            What::Program(..) => None,
            What::Workload(_, key_bytes) => Some((footprint / key_bytes).max(KEYS_MIN)),
        }
    }

    /// Bytes of so many keys of a workload of the runtime; nothing for a program.
    pub fn footprint_of(&self, keys: u64) -> Option<u64> {
        match self.what {
            What::Program(..) => None,
            What::Workload(_, key_bytes) => Some(keys.max(KEYS_MIN) * key_bytes),
        }
    }

    fn load(&self, footprint: u64, seed: u64, bare: &mut Bare) -> Result<Running, Abort> {
        match self.what {
            What::Program(kind, element_bytes) => {
                let elements = footprint / kind.element_footprint(element_bytes);
                let program = kind.load(elements, element_bytes, seed, bare)?;
                Ok(Running::Program(program))
            }
            What::Workload(workload, key_bytes) => {
                let scale = workload.scale_of((footprint / key_bytes).max(KEYS_MIN));
                let scale = Scale { operations: scale.records, ..scale };
                let loaded = workload.load(&scale, seed, bare, &mut |_, _| {})?;
                let worker = workload.worker(&scale, &loaded, seed, 1, 0);
                Ok(Running::Worker(Box::new(worker)))
            }
        }
    }
}
