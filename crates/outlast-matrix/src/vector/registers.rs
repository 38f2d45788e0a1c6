//! The sums, written once over lines in registers of any width.

use crate::{Line, LineSet, lanes};

/// A line in registers.
///
/// A value proves that the processor has the registers; so only making one is unsafe.
pub(super) trait Registers: Copy {
    /// Eight zeros.
    ///
    /// # Safety
    /// The processor has these registers.
    unsafe fn zero() -> Self;

    /// The lanes of `line`.
    ///
    /// # Safety
    /// The processor has these registers.
    unsafe fn load(line: &Line) -> Self;

    fn store(self, line: &mut Line);
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
}

/// What every processor has.
impl Registers for Line {
    #[inline(always)]
    unsafe fn zero() -> Self {
        [0; 8]
    }

    #[inline(always)]
    unsafe fn load(line: &Line) -> Self {
        *line
    }

    #[inline(always)]
    fn store(self, line: &mut Line) {
        *line = self;
    }

    #[inline(always)]
    fn plus(mut self, other: Self) -> Self {
        lanes::add(&mut self, &other);
        self
    }

    #[inline(always)]
    fn minus(mut self, other: Self) -> Self {
        lanes::subtract(&mut self, &other);
        self
    }
}

/// `consistency += new - old`, and the same for `correlation`.
///
/// # Safety
/// The processor has the registers `R`.
#[inline(always)]
pub(super) unsafe fn update<R: Registers>(
    consistency: &mut Line,
    correlation: &mut Line,
    old: &Line,
    new: &Line,
) {
    // SAFETY: the caller vouches for the registers.
    let (change, down, across) =
        unsafe { (R::load(new).minus(R::load(old)), R::load(consistency), R::load(correlation)) };
    down.plus(change).store(consistency);
    across.plus(change).store(correlation);
}

/// The same for a run of lines from number `first` on, in columns of as many as there are
/// correlation checksums. With no old lines the new ones are added.
///
/// # Safety
/// The processor has the registers `R`.
#[inline(always)]
pub(super) unsafe fn update_run<R: Registers>(
    first: usize,
    old: &[Line],
    new: &[Line],
    consistency: &mut [Line],
    correlation: &mut [Line],
) {
    let rows = correlation.len();
    let (mut column, mut row) = (first / rows, first % rows);
    let mut rest = new;
    let mut old = old;
    while !rest.is_empty() {
        let (lines, behind) = rest.split_at(rest.len().min(rows - row));
        rest = behind;
        let (before, old_behind) = old.split_at(old.len().min(lines.len()));
        old = old_behind;
        let sum = &mut consistency[column];
        let across = &mut correlation[row..row + lines.len()];
        // SAFETY: the caller vouches for the registers.
        unsafe {
            let mut down = R::load(sum);
            if before.is_empty() {
                for (line, across) in lines.iter().zip(across) {
                    let change = R::load(line);
                    down = down.plus(change);
                    R::load(across).plus(change).store(across);
                }
            } else {
                for ((line, before), across) in lines.iter().zip(before).zip(across) {
                    let change = R::load(line).minus(R::load(before));
                    down = down.plus(change);
                    R::load(across).plus(change).store(across);
                }
            }
            down.store(sum);
        }
        (column, row) = (column + 1, 0);
    }
}

/// Both kinds of sums of the members among `data`, which lies column by column.
///
/// # Safety
/// The processor has the registers `R`.
#[inline(always)]
pub(super) unsafe fn create<R: Registers>(
    data: &[Line],
    members: &LineSet,
    consistency: &mut [Line],
    correlation: &mut [Line],
) {
    // SAFETY: the caller vouches for the registers.
    unsafe {
        match <&mut [Line; 7]>::try_from(&mut *correlation) {
            Ok(seven) if members.is_full() => {
                create_in_seven::<R>(data, |_| true, consistency, seven);
            }
            Ok(seven) => {
                create_in_seven::<R>(data, |line| members.contains(line), consistency, seven);
            }
            Err(_) if members.is_full() => {
                consistency.fill([0; 8]);
                correlation.fill([0; 8]);
                update_run::<R>(0, &[], data, consistency, correlation);
            }
            Err(_) => create_in_memory::<R>(data, members, consistency, correlation),
        }
    }
}

/// For seven rows, as in a page: the sums of the rows stay in registers, too.
///
/// # Safety
/// The processor has the registers `R`.
#[inline(always)]
unsafe fn create_in_seven<R: Registers>(
    data: &[Line],
    is_member: impl Fn(usize) -> bool,
    consistency: &mut [Line],
    correlation: &mut [Line; 7],
) {
    // SAFETY: the caller vouches for the registers.
    let zero = unsafe { R::zero() };
    let mut across = [zero; 7];
    for (column, (lines, sum)) in data.as_chunks::<7>().0.iter().zip(consistency).enumerate() {
        let mut down = zero;
        for row in 0..7 {
            if is_member(column * 7 + row) {
                // SAFETY: the caller vouches for the registers.
                let line = unsafe { R::load(&lines[row]) };
                down = down.plus(line);
                across[row] = across[row].plus(line);
            }
        }
        down.store(sum);
    }
    across.into_iter().zip(correlation).for_each(|(across, sum)| across.store(sum));
}

/// For any number of rows, and some members.
///
/// # Safety
/// The processor has the registers `R`.
#[inline(always)]
unsafe fn create_in_memory<R: Registers>(
    data: &[Line],
    members: &LineSet,
    consistency: &mut [Line],
    correlation: &mut [Line],
) {
    let rows = correlation.len();
    correlation.fill([0; 8]);
    for (column, (lines, sum)) in data.chunks_exact(rows).zip(consistency).enumerate() {
        // SAFETY: the caller vouches for the registers.
        let mut down = unsafe { R::zero() };
        for (row, (line, across)) in lines.iter().zip(&mut *correlation).enumerate() {
            if members.contains(column * rows + row) {
                // SAFETY: the caller vouches for the registers.
                let (line, more) = unsafe { (R::load(line), R::load(across)) };
                down = down.plus(line);
                more.plus(line).store(across);
            }
        }
        down.store(sum);
    }
}
