//! Work that touches no persistent memory, for programs whose work is given by a number.

/// Instructions of a round of the loop below: add, compare, branch, and the store that hides the counter.
const ROUND_INSTRUCTIONS: u32 = 4;

/// Executes about this number of simple instructions.
#[inline]
pub fn compute(instructions: u32) {
    for round in 0..instructions / ROUND_INSTRUCTIONS {
        std::hint::black_box(round);
    }
}
