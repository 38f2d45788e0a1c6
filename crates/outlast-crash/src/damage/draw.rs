//! Numbers that a seed decides.

use crate::mix;

/// A generator: the same seed gives the same numbers.
#[derive(Clone, Debug)]
pub(super) struct Draw(u64);

impl Draw {
    /// The generator of one case of a run.
    pub fn of(seed: u64, index: u64) -> Self {
        Self(mix(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(index.wrapping_add(1))))
    }

    pub fn next(&mut self) -> u64 {
        crate::draw(&mut self.0)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }
}
