//! Vectors of basic blocks.

use std::collections::HashMap;

use outlast_trace::{Program, ProgramError, Step, in_order};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Dimensions that vectors are projected to: SimPoint's.
pub const DIMENSIONS: usize = 15;

/// A projected vector.
pub type Vector = [f64; DIMENSIONS];

/// A part of a trace.
#[derive(Clone, PartialEq, Debug)]
pub struct Interval {
    /// Instructions of all threads before it.
    pub begins_at: u64,
    /// Its instructions.
    pub instructions: u64,
    /// Where they ran: each block's share of the instructions, projected.
    pub vector: Vector,
    /// Cycles that an instruction may take.
    pub cost: f64,
}

/// Intervals of a trace, each of `instructions` instructions of all threads, up to the end of a
/// block. The last one is shorter.
///
/// # Errors
/// When the trace cannot be read.
pub fn vectors(
    program: &Program,
    instructions: u64,
    seed: u64,
) -> Result<Vec<Interval>, ProgramError> {
    // A block that was translated twice is one.
    let mut numbers: HashMap<u64, usize> = HashMap::new();
    let numbers: Vec<usize> = (0..program.blocks())
        .map(|block| {
            let next = numbers.len();
            let at = program.block(block).first().map_or(0, |site| site.at);
            *numbers.entry(at).or_insert(next)
        })
        .collect();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let blocks = numbers.iter().max().map_or(0, |last| last + 1);
    let axes: Vec<Vector> =
        (0..blocks).map(|_| std::array::from_fn(|_| 2.0 * random.random::<f64>() - 1.0)).collect();
    let mut counts = vec![0u64; blocks];
    let mut ran: Vec<usize> = Vec::new();
    let mut intervals = Vec::new();
    let (mut begins_at, mut passed) = (0, 0);
    let mut close = |counts: &mut Vec<u64>, ran: &mut Vec<usize>, begins_at: u64, passed: u64| {
        let mut vector = [0.0; DIMENSIONS];
        for block in ran.drain(..) {
            let share = std::mem::take(&mut counts[block]) as f64 / (passed - begins_at) as f64;
            for (sum, axis) in vector.iter_mut().zip(&axes[block]) {
                *sum += share * axis;
            }
        }
        intervals.push(Interval { begins_at, instructions: passed - begins_at, vector, cost: 0.0 });
    };
    in_order(program, |_, step| {
        let Step::Instructions(block, from, to) = step else { return };
        if passed - begins_at >= instructions && from == 0 {
            close(&mut counts, &mut ran, begins_at, passed);
            begins_at = passed;
        }
        let block = numbers[block as usize];
        let count = u64::from(to.saturating_sub(from));
        if counts[block] == 0 && count > 0 {
            ran.push(block);
        }
        counts[block] += count;
        passed += count;
    })?;
    if passed > begins_at {
        close(&mut counts, &mut ran, begins_at, passed);
    }
    Ok(intervals)
}
