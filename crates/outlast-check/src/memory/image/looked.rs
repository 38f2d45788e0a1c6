//! Which lines recoveries have loaded from.

use outlast_trace::{LineAddr, PoolOffset};

/// A set of lines.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Looked(Vec<u64>);

impl Looked {
    #[inline]
    pub fn note(&mut self, at: PoolOffset, len: usize) {
        if len == 0 {
            return;
        }
        let (first, last) = (at.0 / 64, (at.0 + len as u64 - 1) / 64);
        if self.0.len() as u64 <= last / 64 {
            self.0.resize(last as usize / 64 + 1, 0);
        }
        for line in first..=last {
            self.0[line as usize / 64] |= 1 << (line % 64);
        }
    }

    /// Adds the lines of another set.
    pub fn add(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(lines, more)| *lines |= more);
    }

    pub fn contains(&self, line: LineAddr) -> bool {
        self.0.get(line.0 as usize / 64).is_some_and(|lines| lines >> (line.0 % 64) & 1 == 1)
    }
}
