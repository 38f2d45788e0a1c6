//! Single cases: the paper's figures, its unsound points, damaged checksums, unnoticed lines.

mod common;

use common::{Rng, Written, minus, repaired};
use outlast_matrix::{Line, LineSet, Locate, Matrix, Outcome, Place, Shape, Sums, crc8};

fn page() -> (Written, Rng) {
    let mut rng = Rng::new(1);
    (Written::random(Shape::PAGE, &mut rng), rng)
}

fn at(row: usize, column: usize) -> usize {
    Shape::PAGE.line(Place { row, column })
}

/// An error as counters have it.
fn counted(by: u64) -> Line {
    [by, 0, 0, 0, 0, 0, 0, 0]
}

fn negative(error: &Line) -> Line {
    minus(&[0; 8], error)
}

/// The columns and rows that do not match.
fn implicated(outcome: &Outcome) -> (&[usize], &[usize]) {
    match outcome {
        Outcome::Uncorrectable { columns, rows, .. }
        | Outcome::ChecksumsDamaged { columns, rows } => (columns, rows),
        _ => panic!("{outcome:?} implicates nothing"),
    }
}

#[track_caller]
fn assert_uncorrectable(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Uncorrectable { .. }), "{outcome:?}");
}

#[test]
fn what_was_written_is_clean_by_every_rule() {
    let (written, _) = page();
    let all = LineSet::all(49);
    for locate in [Locate::Membership, Locate::Values, Locate::Crcs, Locate::Known(&all)] {
        assert_eq!(written.decode(&written.data, locate), Outcome::Clean);
        assert_eq!(written.decode_with_crcs(&written.data, locate), Outcome::Clean);
    }
}

#[test]
fn lines_that_are_no_members_may_hold_anything() {
    let mut rng = Rng::new(2);
    let members = LineSet::of(49, (0..49).filter(|line| line % 3 != 1));
    let written = Written::with_members(Shape::PAGE, members, &mut rng);
    let others: Vec<usize> = (0..49).filter(|line| line % 3 == 1).collect();
    let read = written.stale_at(&others, &mut rng);
    assert_eq!(written.decode_with_crcs(&read, Locate::Crcs), Outcome::Clean);
    let known = LineSet::all(49);
    let mut wrong = read.clone();
    wrong[0] = [0; 8];
    for locate in [Locate::Crcs, Locate::Membership] {
        assert!(written.is_right(&wrong, &written.decode_with_crcs(&wrong, locate)));
    }
    assert_uncorrectable(&written.decode_with_crcs(&wrong, Locate::Known(&known)));
}

#[test]
fn lines_that_are_no_members_are_no_suspects() {
    let mut rng = Rng::new(3);
    let (stale, others) = ([at(2, 2), at(4, 4)], [at(2, 4), at(4, 2)]);
    let members = LineSet::of(49, (0..49).filter(|line| !others.contains(line)));
    let written = Written::with_members(Shape::PAGE, members, &mut rng);
    let read = written.stale_at(&stale, &mut rng);
    let known = written.set(&[stale, others].concat());
    for locate in [Locate::Membership, Locate::Values, Locate::Known(&known)] {
        assert!(written.is_right(&read, &written.decode(&read, locate)), "{locate:?}");
    }
}

/// Four columns, four rows, one object of up to four lines in each column. CB#rc stands in row r
/// and column c, counted from 1.
fn figure_5(stale: &[(usize, usize)]) -> (Written, Vec<Line>, LineSet) {
    let shape = Shape::new(4, 4).expect("small sides");
    let mut rng = Rng::new(5);
    let members = LineSet::of(16, (0..16).filter(|line| *line != 11)); // the third has three lines
    let written = Written::with_members(shape, members, &mut rng);
    let line =
        |(row, column): &(usize, usize)| shape.line(Place { row: row - 1, column: column - 1 });
    let lines: Vec<usize> = stale.iter().map(line).collect();
    let (read, set) = (written.stale_at(&lines, &mut rng), written.set(&lines));
    (written, read, set)
}

#[test]
fn figure_5a_one_line_is_corrected_by_every_rule() {
    let (written, read, known) = figure_5(&[(3, 2)]);
    for locate in [Locate::Membership, Locate::Values, Locate::Known(&known)] {
        assert!(written.is_right(&read, &written.decode(&read, locate)), "{locate:?}");
    }
}

#[test]
fn figure_5b_two_lines_of_a_row_are_corrected_even_by_membership() {
    let (written, read, known) = figure_5(&[(1, 2), (1, 4)]);
    for locate in [Locate::Membership, Locate::Values, Locate::Known(&known)] {
        assert!(written.is_right(&read, &written.decode(&read, locate)), "{locate:?}");
    }
}

#[test]
fn figure_5c_is_uncorrectable_only_when_places_are_unknown() {
    let (written, read, known) = figure_5(&[(1, 2), (1, 4), (4, 2), (2, 4)]);
    for locate in [Locate::Membership, Locate::Values, Locate::Crcs] {
        assert_uncorrectable(&written.decode(&read, locate));
    }
    assert!(written.is_right(&read, &written.decode(&read, Locate::Known(&known))));
    assert!(written.is_right(&read, &written.decode_with_crcs(&read, Locate::Crcs)));
}

#[test]
fn arc_2_two_objects_side_by_side_are_lost_whatever_is_known() {
    let (written, mut rng) = page();
    let stale = [at(2, 0), at(3, 0), at(2, 1), at(3, 1)];
    let read = written.stale_at(&stale, &mut rng);
    let known = written.set(&stale);
    let outcome = written.decode_with_crcs(&read, Locate::Known(&known));
    let (lines, columns, rows) = (stale.to_vec(), vec![0, 1], vec![2, 3]);
    assert_eq!(outcome, Outcome::Uncorrectable { lines, columns, rows });
}

#[test]
fn arc_7_a_checksum_that_missed_an_update_undoes_it_unless_there_are_crcs() {
    let (mut written, mut rng) = page();
    let old = written.data[17];
    written.data[17] = rng.line();
    written.crcs[17] = crc8(&written.data[17]);
    assert_ne!(crc8(&old), written.crcs[17]);
    let outcome = written.decode(&written.data, Locate::Membership);
    let Outcome::Corrected(repairs) = outcome else { panic!("{outcome:?}") };
    assert_eq!((repairs[0].line, repairs[0].content), (17, old), "undone");
    let known = LineSet::of(49, [17]);
    for locate in [Locate::Membership, Locate::Values, Locate::Crcs, Locate::Known(&known)] {
        let outcome = written.decode_with_crcs(&written.data, locate);
        assert_eq!(outcome, Outcome::ChecksumsDamaged { columns: vec![2], rows: vec![3] });
    }
}

#[test]
fn arc_10_equal_errors_have_two_explanations_and_crcs_tell_the_right_one() {
    let (written, _) = page();
    let error = counted(1);
    let (right, other) = ([at(1, 1), at(4, 5)], [at(1, 5), at(4, 1)]);
    let read = written.stale(&right.map(|line| (line, error)));
    // A decoder that takes the other explanation has all sums right, and wrong contents.
    let mut wrong = read.clone();
    for line in other {
        wrong[line] = minus(&wrong[line], &negative(&error));
    }
    assert_ne!(wrong, written.data);
    assert_eq!(written.decode(&wrong, Locate::Membership), Outcome::Clean);
    assert_uncorrectable(&written.decode_with_crcs(&wrong, Locate::Membership));
    // Ours takes none, or with CRCs the right one.
    assert_uncorrectable(&written.decode(&read, Locate::Membership));
    assert_uncorrectable(&written.decode(&read, Locate::Values));
    for locate in [Locate::Values, Locate::Crcs] {
        assert!(written.is_right(&read, &written.decode_with_crcs(&read, locate)), "{locate:?}");
    }
}

#[test]
fn arc_10_even_a_unique_explanation_can_be_wrong_without_crcs() {
    let (written, _) = page();
    // Three counters in an L; the two at its ends are behind by the same.
    let stale = [(at(1, 1), counted(5)), (at(1, 5), counted(1)), (at(4, 1), counted(1))];
    let read = written.stale(&stale);
    let outcome = written.decode(&read, Locate::Values);
    let Outcome::Corrected(repairs) = &outcome else { panic!("{outcome:?}") };
    let repaired = repaired(&read, repairs);
    assert_ne!(repaired, written.data, "miscorrected");
    assert_eq!(written.decode(&repaired, Locate::Values), Outcome::Clean, "and not noticed");
    assert_uncorrectable(&written.decode_with_crcs(&read, Locate::Values));
    assert_uncorrectable(&written.decode_with_crcs(&repaired, Locate::Values));
    assert!(written.is_right(&read, &written.decode_with_crcs(&read, Locate::Crcs)));
}

#[test]
fn arc_10_a_transfer_within_a_column_is_seen_by_rows_only() {
    let (written, _) = page();
    let error = counted(300);
    let stale = [(at(0, 3), error), (at(5, 3), negative(&error))];
    let read = written.stale(&stale);
    let outcome = written.decode(&read, Locate::Membership);
    assert_uncorrectable(&outcome);
    assert_eq!(implicated(&outcome), (&[][..], &[0, 5][..]));
    assert!(written.is_right(&read, &written.decode_with_crcs(&read, Locate::Crcs)));
}

#[test]
fn arc_10_lines_that_changed_places_in_a_column_are_seen_by_rows_only() {
    let (written, _) = page();
    let mut read = written.data.clone();
    read.swap(at(2, 6), at(3, 6));
    let outcome = written.decode(&read, Locate::Values);
    assert_eq!(implicated(&outcome), (&[][..], &[2, 3][..]));
    assert!(written.is_right(&read, &written.decode_with_crcs(&read, Locate::Crcs)));
}

#[test]
fn transfers_in_two_columns_are_seen_by_crcs_only() {
    let (written, _) = page();
    let (up, down) = (counted(4), negative(&counted(4)));
    let stale = [(at(0, 0), up), (at(1, 0), down), (at(0, 1), down), (at(1, 1), up)];
    let read = written.stale(&stale);
    assert_eq!(written.decode(&read, Locate::Membership), Outcome::Clean);
    let outcome = written.decode_with_crcs(&read, Locate::Crcs);
    let lines = stale.map(|(line, _)| line).to_vec();
    assert_eq!(outcome, Outcome::Uncorrectable { lines, columns: vec![], rows: vec![] });
}

/// The same page with these checksums overwritten: numbers as in [`Sums::lines`].
fn damaged(written: &Written, checksums: &[usize]) -> Sums<Vec<Line>> {
    let mut lines = written.sums.lines().to_vec();
    checksums.iter().for_each(|at| lines[*at] = [*at as u64; 8]);
    Sums::new(written.shape, lines)
}

#[test]
#[cfg_attr(miri, ignore = "slow")]
fn damaged_checksums_are_told_from_damaged_data_by_crcs() {
    let (written, _) = page();
    let known = LineSet::of(49, [at(3, 2)]);
    for checksums in [vec![2], vec![10], vec![2, 10], vec![0, 1], vec![8, 9, 13], vec![0, 4, 7, 8]]
    {
        let sums = damaged(&written, &checksums);
        let matrix = Matrix::new(&written.data, sums.borrowed(), &written.members);
        let columns: Vec<usize> = checksums.iter().filter(|at| **at < 7).copied().collect();
        let rows: Vec<usize> = checksums.iter().filter(|at| **at >= 7).map(|at| at - 7).collect();
        for locate in [Locate::Membership, Locate::Values, Locate::Crcs, Locate::Known(&known)] {
            let outcome = matrix.decode(locate);
            assert_uncorrectable(&outcome);
            assert_eq!(implicated(&outcome), (&columns[..], &rows[..]));
            let outcome = matrix.with_crcs(&written.crcs).decode(locate);
            let (columns, rows) = (columns.clone(), rows.clone());
            assert_eq!(outcome, Outcome::ChecksumsDamaged { columns, rows }, "{locate:?}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow")]
fn with_a_damaged_checksum_no_repair_is_believed() {
    let (written, mut rng) = page();
    let read = written.stale_at(&[at(3, 2)], &mut rng);
    let known = LineSet::of(49, [at(3, 2)]);
    for checksum in 0..14 {
        let sums = damaged(&written, &[checksum]);
        let matrix = Matrix::new(&read, sums.borrowed(), &written.members);
        for locate in [Locate::Membership, Locate::Values, Locate::Crcs, Locate::Known(&known)] {
            let outcome = matrix.with_crcs(&written.crcs).decode(locate);
            let Outcome::Uncorrectable { lines, .. } = outcome else { panic!("{outcome:?}") };
            assert!(lines.contains(&at(3, 2)));
            assert_uncorrectable(&matrix.decode(locate));
        }
    }
}

#[test]
fn a_wrong_crc_over_right_data_is_reported() {
    let (mut written, _) = page();
    written.crcs[12] ^= 1;
    for locate in [Locate::Membership, Locate::Values, Locate::Crcs] {
        let outcome = written.decode_with_crcs(&written.data, locate);
        let nothing = vec![];
        let (columns, rows) = (nothing.clone(), nothing);
        assert_eq!(outcome, Outcome::Uncorrectable { lines: vec![12], columns, rows });
    }
}

/// Another content with the same CRC-8.
fn unnoticed(right: &Line, rng: &mut Rng) -> Line {
    std::iter::repeat_with(|| rng.line())
        .find(|line| crc8(line) == crc8(right))
        .expect("one in 256 has it")
}

#[test]
fn one_stale_line_that_its_crc_misses_is_found_among_others() {
    let (written, mut rng) = page();
    for others in
        [vec![], vec![at(0, 5)], vec![at(1, 3), at(2, 3), at(1, 0)], vec![at(4, 4), at(0, 0)]]
    {
        let mut read = written.stale_at(&others, &mut rng);
        let missed = at(1, 5);
        read[missed] = unnoticed(&written.data[missed], &mut rng);
        let matrix = Matrix::new(&read, written.sums.borrowed(), &written.members);
        let seen = matrix.with_crcs(&written.crcs).crc_mismatches();
        assert_eq!(seen, written.set(&others));
        let outcome = written.decode_with_crcs(&read, Locate::Crcs);
        assert!(written.is_right(&read, &outcome), "{others:?}: {outcome:?}");
    }
}

#[test]
fn a_stale_line_that_its_crc_misses_is_not_blamed_on_the_checksums() {
    let (written, mut rng) = page();
    let missed = at(1, 5);
    let mut read = written.data.clone();
    read[missed] = unnoticed(&written.data[missed], &mut rng);
    let elsewhere = LineSet::of(49, [at(0, 0)]);
    assert_uncorrectable(&written.decode_with_crcs(&read, Locate::Known(&elsewhere)));
    for locate in [Locate::Membership, Locate::Values, Locate::Crcs] {
        assert!(written.is_right(&read, &written.decode_with_crcs(&read, locate)), "{locate:?}");
    }
}

#[test]
fn suspects_that_are_right_are_not_listed_as_repairs() {
    let (written, mut rng) = page();
    let read = written.stale_at(&[at(0, 0)], &mut rng);
    let known = written.set(&[at(0, 0), at(1, 1), at(1, 2)]);
    let outcome = written.decode(&read, Locate::Known(&known));
    let Outcome::Corrected(repairs) = outcome else { panic!("{outcome:?}") };
    assert_eq!(repairs.iter().map(|repair| repair.line).collect::<Vec<_>>(), [at(0, 0)]);
}
