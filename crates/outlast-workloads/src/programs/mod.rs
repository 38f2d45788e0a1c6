//! Programs over transactions that are run for their stores alone: the micro-benchmarks of the
//! HWL paper (Table III) and what stands for its WHISPER set. Each loads its data through any
//! [`Runner`] and then runs one transaction a [`step`](Program::step); nothing is drawn inside a
//! transaction, so that a repeated closure does the same.
//!
//! | program | data | a transaction |
//! |---|---|---|
//! | `hash`, `rbtree`, `btree` | a dictionary, half of its keys there | searches a key: adds it if absent, removes it if found |
//! | `sps` | a vector of elements | swaps two at random |
//! | `ssca2` | a scale-free (R-MAT) graph | adds an edge, or classifies, or scores a vertex |
//! | `ctree` | a crit-bit tree of words | adds or removes a key |
//! | `echo` | versions of values behind a hash map | writes new versions of keys, drops old ones |
//! | `vacation` | three tables of offers, customers with lists | reserves, cancels, changes offers |
//!
//! Integer elements are words; string elements span several lines.

mod ctree;
mod echo;
mod ssca2;
mod swap;
mod toggle;
mod vacation;

use outlast::collections::{Damage, ReadRaw};
use outlast::{Abort, PoolOffset, RootKind, Runner, Transact};

use crate::facts::Versions;
use crate::family::{Family, OnMachine, Thread, Unfit};
use crate::workload::within;
use crate::{OpKind, Random, Scale, State, Structure, Version, Witness};
use ctree::CritBits;
use echo::Echo;
use ssca2::Graph;
use swap::Swap;
use toggle::Toggle;
use vacation::Vacation;

/// Which program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ProgramKind {
    /// Additions and removals in a dictionary.
    Toggle(Structure),
    /// Swaps of elements of a vector.
    Swap,
    /// Kernels on a scale-free graph.
    Graph,
    /// Additions and removals in a crit-bit tree.
    CritBits,
    /// A key-value store with versions.
    Echo,
    /// Reservations.
    Vacation,
}

/// The family: a program, bytes of its data as published or ours, and bytes of its elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StoresAlone {
    pub(crate) kind: ProgramKind,
    pub(crate) footprint: u64,
    pub(crate) element_bytes: u64,
}

impl StoresAlone {
    fn element_footprint(self) -> u64 {
        self.kind.element_footprint(self.element_bytes)
    }
}

impl Family for StoresAlone {
    type Data = Program;
    type Worker = ProgramThread;

    fn stands_alone(self) -> Option<&'static str> {
        Some("its values do not say which transaction stored them")
    }

    fn scale(self, common: Scale) -> Scale {
        let records = (self.footprint / self.element_footprint()).max(ELEMENTS_MIN);
        Scale { records, operations: records, value_bytes: self.element_bytes, ..common }
    }

    fn quick_scale(self, published: Scale) -> Scale {
        let records = (published.records / 64).max(ELEMENTS_MIN);
        Scale { records, operations: records, ..published }
    }

    fn scale_of(self, keys: u64, published: Scale) -> Scale {
        Scale { records: keys.max(ELEMENTS_MIN), ..published }
    }

    fn describe(self, name: &str, scale: &Scale) -> String {
        format!("{name}: {} elements of {} bytes", scale.records, scale.value_bytes)
    }

    fn check(self, scale: &Scale) -> Result<(), Unfit> {
        let possible = ELEMENTS_MIN..=1 << 32;
        within("elements", scale.records, possible, "16 to 4,294,967,296 are possible")?;
        within("element bytes", scale.value_bytes, 8..=4096, "8 to 4,096 are possible")
    }

    fn heap_bytes(self, scale: &Scale) -> u64 {
        // At rest half of a dictionary's keys are there; a graph grows with every edge.
        let element = (2 * self.kind.element_footprint(scale.value_bytes) + 128) * 5 / 4;
        (1 << 20) + scale.records * element + scale.operations * (scale.value_bytes + 256)
    }

    fn on_machine(self) -> OnMachine {
        OnMachine { footprint: self.footprint, key_bytes: self.element_footprint() }
    }

    fn load<R: Runner>(
        self,
        scale: &Scale,
        seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Program, Abort> {
        let program = self.kind.load(scale.records, scale.value_bytes, seed, runner)?;
        progress(scale.records, scale.records);
        Ok(program)
    }

    fn attach<T: Transact>(
        self,
        _scale: &Scale,
        _root: (PoolOffset, RootKind),
        _tx: &mut T,
    ) -> Result<Option<Program>, Abort> {
        Ok(None)
    }

    fn worker(
        self,
        _scale: &Scale,
        program: &Program,
        seed: u64,
        id: u8,
        _used: u64,
    ) -> ProgramThread {
        let mut program = program.clone();
        // The first goes on where loading ended.
        if id > 1 {
            program.draw_from(Random::stream(seed, u64::from(id)));
        }
        ProgramThread(program)
    }

    fn audit<R: ReadRaw>(
        self,
        _scale: &Scale,
        _root: (PoolOffset, RootKind),
        _read: &mut R,
        _visit: &mut dyn FnMut(u64, Version),
    ) -> Result<bool, Damage> {
        Ok(false)
    }

    fn initial(self, _scale: &Scale, _seed: u64, _visit: &mut dyn FnMut(u64, State)) {}
}

/// One thread of a program.
pub(crate) struct ProgramThread(Program);

impl Thread for ProgramThread {
    /// A step draws for itself.
    fn draw(&mut self) {}

    fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        witness.restart();
        self.0.step(runner).map(|()| OpKind::Step)
    }

    fn versions(&self) -> Option<&Versions> {
        None
    }
}

/// The fewest elements of a program.
const ELEMENTS_MIN: u64 = 16;

/// A program under way.
#[derive(Clone, Debug)]
pub struct Program {
    running: Running,
}

#[derive(Clone, Debug)]
enum Running {
    Toggle(Toggle),
    Swap(Swap),
    Graph(Graph),
    CritBits(CritBits),
    Echo(Echo),
    Vacation(Vacation),
}

impl ProgramKind {
    /// Bytes that one element takes at rest, about: what a footprint is divided by.
    pub fn element_footprint(self, element_bytes: u64) -> u64 {
        match self {
            // Half of the keys are there: what a key costs is half of what an entry does.
            Self::Toggle(Structure::HashMap) => (element_bytes + 40) / 2,
            Self::Toggle(Structure::BTree) => (element_bytes + 48) / 2,
            // Nodes are about two thirds full.
            Self::Toggle(Structure::ClrsTree) => (element_bytes + 32) * 3 / 4,
            Self::Toggle(Structure::RbTree) => (element_bytes + 48).next_multiple_of(16) / 2,
            Self::Swap => element_bytes,
            Self::Graph => ssca2::vertex_footprint(element_bytes),
            Self::CritBits => (element_bytes + 64) / 2,
            Self::Echo => echo::key_footprint(element_bytes),
            Self::Vacation => vacation::OFFER_FOOTPRINT,
        }
    }

    /// Loads the data of `elements` elements of `element_bytes` bytes (at least 8) each.
    ///
    /// # Errors
    /// Whatever a transaction fails with.
    pub fn load<R: Runner>(
        self,
        elements: u64,
        element_bytes: u64,
        seed: u64,
        runner: &mut R,
    ) -> Result<Program, Abort> {
        let random = Random::stream(seed, 0x626172);
        let elements = elements.max(ELEMENTS_MIN);
        let bytes = element_bytes.max(8);
        let running = match self {
            Self::Toggle(structure) => {
                Running::Toggle(Toggle::load(structure, elements, bytes, random, seed, runner)?)
            }
            Self::Swap => Running::Swap(Swap::load(elements, bytes, random, runner)?),
            Self::Graph => Running::Graph(Graph::load(elements, bytes, random, runner)?),
            Self::CritBits => Running::CritBits(CritBits::load(elements, bytes, random, runner)?),
            Self::Echo => Running::Echo(Echo::load(elements, bytes, random, runner)?),
            Self::Vacation => Running::Vacation(Vacation::load(elements, random, runner)?),
        };
        Ok(Program { running })
    }
}

impl Program {
    /// Draws from now on from this.
    fn draw_from(&mut self, random: Random) {
        match &mut self.running {
            Running::Toggle(program) => program.random = random,
            Running::Swap(program) => program.random = random,
            Running::Graph(program) => program.random = random,
            Running::CritBits(program) => program.random = random,
            Running::Echo(program) => program.random = random,
            Running::Vacation(program) => program.random = random,
        }
    }

    /// Draws and runs one transaction.
    ///
    /// # Errors
    /// Whatever the transaction fails with.
    pub fn step<R: Runner>(&mut self, runner: &mut R) -> Result<(), Abort> {
        match &mut self.running {
            Running::Toggle(program) => program.step(runner),
            Running::Swap(program) => program.step(runner),
            Running::Graph(program) => program.step(runner),
            Running::CritBits(program) => program.step(runner),
            Running::Echo(program) => program.step(runner),
            Running::Vacation(program) => program.step(runner),
        }
    }
}

/// Bytes of an element that differ with every number.
fn fill(bytes: &mut [u8], number: u64) {
    for (k, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(k as u32) | 1 << 63;
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Volatile;

    const ALL: [ProgramKind; 9] = [
        ProgramKind::Toggle(Structure::HashMap),
        ProgramKind::Toggle(Structure::BTree),
        ProgramKind::Toggle(Structure::RbTree),
        ProgramKind::Toggle(Structure::ClrsTree),
        ProgramKind::Swap,
        ProgramKind::Graph,
        ProgramKind::CritBits,
        ProgramKind::Echo,
        ProgramKind::Vacation,
    ];

    #[test]
    fn every_program_runs_and_stores_and_a_repeated_closure_does_the_same() {
        for kind in ALL {
            for bytes in [8, 200] {
                let run = |mut pool: Volatile| {
                    let mut program = kind.load(300, bytes, 1, &mut pool).unwrap();
                    pool.take_footprint();
                    for _ in 0..500 {
                        program.step(&mut pool).unwrap();
                    }
                    let footprint = pool.take_footprint();
                    let blocks: Vec<_> = pool.live_blocks().collect();
                    (footprint.stored_bytes + footprint.fresh_bytes, blocks.len())
                };
                let (stored, blocks) = run(Volatile::checked(1, 0));
                assert!(stored > 500, "{kind:?} stores {stored} bytes");
                let (_, again) = run(Volatile::checked(1, 20));
                assert_eq!(blocks, again, "{kind:?}");
            }
        }
    }
}
