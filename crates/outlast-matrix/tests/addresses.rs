//! ARC-13: where the checksums of an object are, against the paper's equations as printed.

use outlast_matrix::Shape;

const PAGE_DATA_BYTES: i64 = 3136;
const CHECKSUM_BYTES: i64 = 64;
/// Half of the checksum area: 896 bytes in all.
const HEIGHT: i64 = 896 / 2;

/// Equation (2) as printed, for an object at `offset` in its page.
fn printed_consistency(offset: i64) -> i64 {
    let quotient = (offset + HEIGHT - 1).div_euclid(HEIGHT);
    (quotient - 1) * CHECKSUM_BYTES + PAGE_DATA_BYTES
}

/// Equation (3) as printed.
fn printed_correlation(offset: i64) -> i64 {
    offset % HEIGHT - CHECKSUM_BYTES + PAGE_DATA_BYTES + HEIGHT
}

/// For each of the 49 lines that an equation gets wrong: the line, and what it says too much.
fn wrong(printed: impl Fn(i64) -> i64, right: impl Fn(usize) -> usize) -> Vec<(usize, i64)> {
    let difference = |line: usize| (line, printed(64 * line as i64) - right(64 * line) as i64);
    (0..49).map(difference).filter(|(_, too_much)| *too_much != 0).collect()
}

fn consistency_at(offset: usize) -> usize {
    Shape::PAGE.consistency_at(offset)
}

fn correlation_at(offset: usize) -> usize {
    Shape::PAGE.correlation_at(offset)
}

#[test]
fn our_formulas_agree_with_the_matrix_itself() {
    for column in 0..7 {
        for row in 0..7 {
            for byte in [0, 1, 63] {
                let offset = 448 * column + 64 * row + byte;
                assert_eq!(consistency_at(offset), 3136 + 64 * column);
                assert_eq!(correlation_at(offset), 3584 + 64 * row);
            }
        }
    }
}

#[test]
fn as_printed_with_offsets_from_0_equation_2_is_wrong_at_the_top_of_each_column() {
    let tops: Vec<_> = (0..7).map(|column| (7 * column, -64)).collect();
    assert_eq!(wrong(printed_consistency, consistency_at), tops);
    // For the first object of a page it addresses data: the line at row 6, column 6.
    assert_eq!(printed_consistency(0), 3072);
    assert!(printed_consistency(0) < PAGE_DATA_BYTES);
}

#[test]
fn as_printed_with_offsets_from_0_equation_3_is_wrong_everywhere() {
    let all: Vec<_> = (0..49).map(|line| (line, -64)).collect();
    assert_eq!(wrong(printed_correlation, correlation_at), all);
    // Row 0 goes to the consistency checksum of the last column.
    assert_eq!(printed_correlation(0), consistency_at(3135) as i64);
}

#[test]
fn as_printed_with_offsets_of_ends_equation_2_is_right_and_3_wrong_in_the_bottom_row() {
    assert_eq!(wrong(|offset| printed_consistency(offset + 64), consistency_at), []);
    let bottoms: Vec<_> = (0..7).map(|column| (7 * column + 6, -448)).collect();
    assert_eq!(wrong(|offset| printed_correlation(offset + 64), correlation_at), bottoms);
    assert_eq!(printed_correlation(448), consistency_at(3135) as i64);
}
