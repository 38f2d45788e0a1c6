//! Arithmetic on lines: eight lanes of 64 bits, each modulo 2⁶⁴.
//!
//! Subtraction takes out exactly what addition put in, and the order of additions does not matter.

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
