//! Swap two elements of a vector.

use outlast::{Abort, BlockKind, PoolOffset, RootKind, Runner, Transact};

use super::fill;
use crate::Random;

/// Bytes that one transaction of the load phase stores.
const CHUNK_BYTES: usize = 4096;

#[derive(Clone, Debug)]
pub(super) struct Swap {
    base: PoolOffset,
    elements: u64,
    bytes: u64,
    pub(super) random: Random,
}

impl Swap {
    pub(super) fn load<R: Runner>(
        elements: u64,
        bytes: u64,
        random: Random,
        runner: &mut R,
    ) -> Result<Self, Abort> {
        let base = runner.run(|tx| {
            let base = tx.alloc(elements * bytes, BlockKind::General)?;
            tx.set_root(base, RootKind::Opaque)?;
            Ok(base)
        })?;
        let mut all = vec![0; (elements * bytes) as usize];
        for (number, element) in all.chunks_mut(bytes as usize).enumerate() {
            fill(element, number as u64);
        }
        for (number, chunk) in all.chunks(CHUNK_BYTES).enumerate() {
            runner.run(|tx| tx.store(base.plus((number * CHUNK_BYTES) as u64), chunk))?;
        }
        Ok(Self { base, elements, bytes, random })
    }

    pub(super) fn step<R: Runner>(&mut self, runner: &mut R) -> Result<(), Abort> {
        let first = self.random.below(self.elements);
        let second = (first + 1 + self.random.below(self.elements - 1)) % self.elements;
        let at = |element| self.base.plus(element * self.bytes);
        let (mut a, mut b) = (vec![0; self.bytes as usize], vec![0; self.bytes as usize]);
        runner.run(|tx| {
            tx.load(at(first), &mut a)?;
            tx.load(at(second), &mut b)?;
            tx.store(at(first), &b)?;
            tx.store(at(second), &a)
        })
    }
}
