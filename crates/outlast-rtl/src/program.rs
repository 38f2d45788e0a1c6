//! What cores run: a few instructions, and micro-benchmarks made of them.
//!
//! Debian packages no open RISC-V core that could stand here, so cores are interpreters of this set: one
//! memory access at a time, in order, as OpenPiton's. Registers are six; addresses are numbers of words.

/// One of six registers.
pub type Reg = usize;

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inst {
    /// A constant.
    Set(Reg, u64),
    /// `to = a + b`.
    Add(Reg, Reg, Reg),
    /// `to = a * factor + addend`.
    Scale(Reg, Reg, u64, u64),
    /// `to = (a >> shift) % modulus + addend`.
    Reduce(Reg, Reg, u32, u64, u64),
    /// Loads the word at `[base + offset]`.
    Load(Reg, Reg, u32),
    /// Stores a register to `[base + offset]`.
    Store(Reg, Reg, u32),
    /// Adds a register to the word at `[base + offset]` in the last level, and takes what it was.
    FetchAdd(Reg, Reg, Reg, u32),
    /// Writes the line of `[base]` back and throws it out of all caches.
    Flush(Reg),
    /// Goes to an instruction where a register is below a constant.
    Below(Reg, u64, usize),
    /// The end.
    Halt,
}

use Inst::{Add, Below, FetchAdd, Flush, Halt, Load, Reduce, Scale, Set, Store};

/// A linear congruential step.
const LCG: (u64, u64) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);

/// Each core counts up words that lie a line apart, and all of them one that they share.
pub fn counters(lines: u64, rounds: u64) -> [Vec<Inst>; 2] {
    [0, 1].map(|core| {
        vec![
            Set(0, 0), // Rounds.
            Set(4, 1),
            Reduce(1, 0, 0, lines, 0),     // 2: which line.
            Scale(1, 1, 16, 8 * core + 8), // Lines of the two cores alternate.
            Load(2, 1, core as u32),
            Add(2, 2, 4),
            Store(2, 1, core as u32),
            Set(1, 0),
            FetchAdd(3, 4, 1, 1),
            Add(0, 0, 4),
            Below(0, rounds, 2),
            Halt,
        ]
    })
}

/// Each core moves random amounts between random words of all lines, which the two share: loads and
/// stores of both, an atomic now and then.
pub fn transfers(seed: u64, words: u64, rounds: u64) -> [Vec<Inst>; 2] {
    [0, 1].map(|core| {
        vec![
            Set(0, seed.wrapping_mul(2).wrapping_add(core)),
            Set(5, 0),
            Scale(0, 0, LCG.0, LCG.1), // 2.
            Reduce(1, 0, 33, words, 0),
            Reduce(2, 0, 13, words, 0),
            Load(3, 1, 0),
            Add(3, 3, 0),
            Store(3, 1, 0),
            Load(4, 2, 0),
            Add(4, 4, 3),
            Store(4, 2, 0),
            Reduce(4, 0, 40, 8, 0),
            Below(4, 7, 14),
            FetchAdd(4, 3, 2, 0),
            Set(4, 1), // 14.
            Add(5, 5, 4),
            Below(5, rounds, 2),
            Halt,
        ]
    })
}

/// Each core stores to every word of its half, pass after pass; the last pass flushes what it stores.
pub fn sweeps(words: u64, passes: u64) -> [Vec<Inst>; 2] {
    [0, 1].map(|core| {
        let (first, end) = (core * words / 2, (core + 1) * words / 2);
        vec![
            Set(5, 0),
            Set(4, 1),
            Set(1, first), // 2.
            Load(2, 1, 0), // 3.
            Add(2, 2, 4),
            Store(2, 1, 0),
            Below(5, passes - 1, 8),
            Flush(1),
            Add(1, 1, 4), // 8.
            Below(1, end, 3),
            Add(5, 5, 4),
            Below(5, passes, 2),
            Halt,
        ]
    })
}
