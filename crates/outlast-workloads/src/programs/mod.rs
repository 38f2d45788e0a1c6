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

use outlast::{Abort, Runner};

use crate::{Random, Structure};
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

/// A program under way.
#[derive(Debug)]
pub struct Program {
    state: State,
}

#[derive(Debug)]
enum State {
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
        let elements = elements.max(16);
        let bytes = element_bytes.max(8);
        let state = match self {
            Self::Toggle(structure) => {
                State::Toggle(Toggle::load(structure, elements, bytes, random, seed, runner)?)
            }
            Self::Swap => State::Swap(Swap::load(elements, bytes, random, runner)?),
            Self::Graph => State::Graph(Graph::load(elements, bytes, random, runner)?),
            Self::CritBits => State::CritBits(CritBits::load(elements, bytes, random, runner)?),
            Self::Echo => State::Echo(Echo::load(elements, bytes, random, runner)?),
            Self::Vacation => State::Vacation(Vacation::load(elements, random, runner)?),
        };
        Ok(Program { state })
    }
}

impl Program {
    /// Draws and runs one transaction.
    ///
    /// # Errors
    /// Whatever the transaction fails with.
    pub fn step<R: Runner>(&mut self, runner: &mut R) -> Result<(), Abort> {
        match &mut self.state {
            State::Toggle(program) => program.step(runner),
            State::Swap(program) => program.step(runner),
            State::Graph(program) => program.step(runner),
            State::CritBits(program) => program.step(runner),
            State::Echo(program) => program.step(runner),
            State::Vacation(program) => program.step(runner),
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

    const ALL: [ProgramKind; 8] = [
        ProgramKind::Toggle(Structure::HashMap),
        ProgramKind::Toggle(Structure::BTree),
        ProgramKind::Toggle(Structure::RbTree),
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
