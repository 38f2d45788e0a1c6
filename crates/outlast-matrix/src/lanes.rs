//! Arithmetic on lines, without a word of any instruction set.
//!
//! Sums are eight sums, one for each lane of 64 bits, modulo 2⁶⁴: subtraction takes out exactly
//! what addition put in, and the order does not matter. These bodies are compiled several times,
//! each time for other vectors; see [`crate::Vector`].

use crate::Line;

#[inline(always)]
pub(crate) fn add(sum: &mut Line, line: &Line) {
    for (lane, more) in sum.iter_mut().zip(line) {
        *lane = lane.wrapping_add(*more);
    }
}

#[inline(always)]
pub(crate) fn subtract(sum: &mut Line, line: &Line) {
    for (lane, less) in sum.iter_mut().zip(line) {
        *lane = lane.wrapping_sub(*less);
    }
}

/// `consistency += new - old`, and the same for `correlation`.
#[inline(always)]
pub(crate) fn update(consistency: &mut Line, correlation: &mut Line, old: &Line, new: &Line) {
    let mut change = *new;
    subtract(&mut change, old);
    add(consistency, &change);
    add(correlation, &change);
}

/// Both kinds of sums of the members among `data`, which lies column by column.
#[inline(always)]
pub(crate) fn create(
    data: &[Line],
    is_member: impl Fn(usize) -> bool,
    consistency: &mut [Line],
    correlation: &mut [Line],
) {
    let rows = correlation.len();
    correlation.fill([0; 8]);
    for (column, sum) in consistency.iter_mut().enumerate() {
        let first = column * rows;
        let mut total = [0; 8];
        for (row, (line, across)) in data[first..][..rows].iter().zip(&mut *correlation).enumerate()
        {
            if is_member(first + row) {
                add(&mut total, line);
                add(across, line);
            }
        }
        *sum = total;
    }
}
