//! What each checksum has more than the lines that it covers.

use crate::{Line, LineSet, Sums, lanes};

const ZERO: Line = [0; 8];

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Syndromes {
    /// One for each row: correlation checksum less the sum of the row's members.
    pub(super) rows: Vec<Line>,
    /// One for each column: consistency checksum less the sum of the column's members.
    pub(super) columns: Vec<Line>,
}

impl Syndromes {
    pub(super) fn of(data: &[Line], sums: &Sums<&[Line]>, members: &LineSet) -> Self {
        let shape = sums.shape();
        let mut right = Sums::new(shape, vec![ZERO; shape.checksum_lines()]);
        right.create(data, members);
        let less = |(stored, right): (&Line, &Line)| {
            let mut syndrome = *stored;
            lanes::subtract(&mut syndrome, right);
            syndrome
        };
        Self {
            rows: sums.correlation().iter().zip(right.correlation()).map(less).collect(),
            columns: sums.consistency().iter().zip(right.consistency()).map(less).collect(),
        }
    }

    pub(super) fn are_zero(&self) -> bool {
        self.rows.iter().chain(&self.columns).all(|syndrome| *syndrome == ZERO)
    }

    pub(super) fn bad_rows(&self) -> Vec<usize> {
        not_zero(&self.rows)
    }

    pub(super) fn bad_columns(&self) -> Vec<usize> {
        not_zero(&self.columns)
    }
}

fn not_zero(syndromes: &[Line]) -> Vec<usize> {
    (0..syndromes.len()).filter(|at| syndromes[*at] != ZERO).collect()
}
