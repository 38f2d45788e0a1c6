//! Blocks by where they lie, to be asked which words of a line are theirs.

use outlast_trace::{LINE_BYTES, LineAddr};

use crate::alloc::Block;
use crate::lines::word_mask;

/// Some of a transaction's blocks, in the order of their places.
#[derive(Default)]
pub(crate) struct Placed(Vec<Block>);

impl Placed {
    /// These blocks, in any order; none overlaps another.
    pub fn of(blocks: impl Iterator<Item = Block>) -> Self {
        let mut placed = Self::default();
        placed.replace(blocks);
        placed
    }

    /// These instead of those before.
    pub fn replace(&mut self, blocks: impl Iterator<Item = Block>) {
        self.0.clear();
        self.0.extend(blocks);
        self.sort();
    }

    fn sort(&mut self) {
        self.0.sort_unstable_by_key(|block| block.at);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words of a line that lie in one of them.
    pub fn words_in(&self, line: LineAddr) -> u8 {
        let line_end = line.start().plus(LINE_BYTES);
        let first = self.0.partition_point(|block| block.at.plus(block.bytes) <= line.start());
        let blocks = self.0[first..].iter().take_while(|block| block.at < line_end);
        blocks.fold(0, |mask, block| mask | block_words(*block, line))
    }
}

fn block_words(block: Block, line: LineAddr) -> u8 {
    let from = block.at.0.max(line.start().0);
    let to = (block.at.0 + block.bytes).min(line.start().0 + LINE_BYTES);
    let inside = |at: u64| (at - line.start().0) as usize;
    word_mask(inside(from), inside(to))
}

#[cfg(test)]
mod tests {
    use outlast_trace::PoolOffset;

    use super::*;
    use crate::alloc::Reserved;

    fn block(at: u64, bytes: u64) -> Block {
        let reserved = Reserved::Bit { word: PoolOffset(0), bit: 0, chunk: 0, index: 0 };
        Block { at: PoolOffset(at), bytes, reserved }
    }

    #[test]
    fn a_line_has_the_words_of_all_blocks_that_touch_it() {
        let placed =
            Placed::of([block(320, 64), block(64, 16), block(96, 16), block(112, 200)].into_iter());
        let words = (0..8).map(|line| placed.words_in(LineAddr(line))).collect::<Vec<_>>();
        assert_eq!(words, [0, 0b1111_0011, 0xff, 0xff, 0b0111_1111, 0xff, 0, 0]);
        assert_eq!(Placed::default().words_in(LineAddr(1)), 0);
        assert!(Placed::of([].into_iter()).is_empty() && !placed.is_empty());
    }
}
