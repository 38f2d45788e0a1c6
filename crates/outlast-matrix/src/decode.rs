//! Finding and repairing wrong lines.
//!
//! For each column the *syndrome* is what its consistency checksum has more than the sum of its
//! lines, for each row likewise. A line that lacks e adds e to the syndromes of its row and its
//! column. To decode is to find lines, and what each of them lacks, that explain all syndromes.
//! Once the lines are located, [`peel()`] computes their contents; the rules of [`Locate`] differ
//! in how they locate. Whatever they find is applied to a copy and judged anew (D1).
//!
//! - **D1** A repair is reported only when, with it, all checksums of both kinds agree and, where
//!   CRCs are given, the CRC of every member.
//! - **D2** Where a rule leaves several explanations, none is taken.
//! - **D3** What is not explained is reported, whatever it is; only a matrix in which everything
//!   agrees is clean.

mod peel;
mod search;
mod syndromes;

use crate::{Line, LineSet, Place, Shape, Sums, Vector, lanes};
use peel::peel;
use search::{Budget, assignments};
use syndromes::Syndromes;

/// How wrong lines are located.
#[derive(Clone, Copy, Debug)]
pub enum Locate<'a> {
    /// Where a mismatched row and a mismatched column cross; the rule of the paper. Two wrong
    /// lines in different rows and columns are too many already.
    Membership,
    /// By values: each mismatched row has one wrong line, and the columns' syndromes say in which
    /// column, or the other way round. Above sixteen mismatched rows or columns it gives up.
    Values,
    /// Where the CRC-8 differs. Without CRCs nothing is located. One wrong line in 256 has the
    /// right CRC; one such line among the wrong ones is found by trying the crossings of
    /// mismatched rows and columns, up to 1024 of them.
    Crcs,
    /// The caller knows all lines that can be wrong. Those of them that are no members do not
    /// matter. Repairs all of them exactly when they are a forest in the graph whose vertices are
    /// the rows and columns, and whose edges are the lines.
    Known(&'a LineSet),
}

/// A line and what it must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Repair {
    /// The number of the line.
    pub line: usize,
    /// Its right content.
    pub content: Line,
}

/// What became of a matrix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// All checksums agree, and all CRCs, where given.
    Clean,
    /// Lines are wrong, and with these contents all checksums and CRCs agree. In ascending order.
    Corrected(Vec<Repair>),
    /// All lines are right by their CRCs, and checksums are wrong: create them anew.
    ChecksumsDamaged {
        /// Columns whose consistency checksum does not match.
        columns: Vec<usize>,
        /// Rows whose correlation checksum does not match.
        rows: Vec<usize>,
    },
    /// Something is wrong that the rule cannot correct.
    Uncorrectable {
        /// Members that the rule suspects, and those whose CRC differs.
        lines: Vec<usize>,
        /// Columns whose consistency checksum does not match.
        columns: Vec<usize>,
        /// Rows whose correlation checksum does not match.
        rows: Vec<usize>,
    },
}

/// A matrix as it was read: lines, their checksums, and which of them the checksums contain.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    data: &'a [Line],
    sums: Sums<&'a [Line]>,
    members: &'a LineSet,
    crcs: Option<&'a [u8]>,
}

impl<'a> Matrix<'a> {
    /// The lines `data` under the checksums `sums` of its `members`.
    ///
    /// # Panics
    /// When `data` or `members` is not of the shape of `sums`.
    pub fn new(data: &'a [Line], sums: Sums<&'a [Line]>, members: &'a LineSet) -> Self {
        let shape = sums.shape();
        assert_eq!(data.len(), shape.lines(), "data is not of {shape:?}");
        assert_eq!(members.matrix_lines(), shape.lines(), "members are not of {shape:?}");
        Self { data, sums, members, crcs: None }
    }

    /// The same matrix with a [CRC-8](crate::crc8()) for each line; those of lines that are no
    /// members do not matter.
    ///
    /// # Panics
    /// When there is not one for each line.
    #[must_use]
    pub fn with_crcs(self, crcs: &'a [u8]) -> Self {
        assert_eq!(crcs.len(), self.data.len(), "CRCs are not of {:?}", self.shape());
        Self { crcs: Some(crcs), ..self }
    }

    fn shape(&self) -> Shape {
        self.sums.shape()
    }

    /// The members whose CRC differs from the one given; none where no CRCs are given.
    pub fn crc_mismatches(&self) -> LineSet {
        let lines = self.data.len();
        let Some(given) = self.crcs else {
            return LineSet::none(lines);
        };
        let mut crcs = vec![0; lines];
        Vector::best().crc8_each(self.data, &mut crcs);
        LineSet::of(lines, self.members.iter().filter(|line| crcs[*line] != given[*line]))
    }

    /// Whether all checksums agree, and all CRCs, where given.
    pub fn is_clean(&self) -> bool {
        Syndromes::of(self.data, &self.sums, self.members).are_zero()
            && self.crc_mismatches().is_empty()
    }

    /// Says whether the matrix is right, and corrects it if `locate` allows.
    ///
    /// Two contents that satisfy the same checksums differ in at least four lines. So with CRCs,
    /// where contents are random and the checksums are right, a wrong explanation passes with a
    /// probability of 2⁻³² at most; [`Locate::Membership`] and [`Locate::Known`] try one
    /// explanation, [`Locate::Crcs`] at most 1025, [`Locate::Values`] those that its search
    /// finds. The same holds for [`Outcome::Clean`]. Two checksums that both missed one update of
    /// a right line look as if the line were stale. It passes for stale with 2⁻⁸.
    ///
    /// [`Outcome::ChecksumsDamaged`] is wrong when at least two lines are wrong and all of them
    /// have the right CRC: 2⁻¹⁶ at most. Without CRCs everything rests on errors that neither
    /// cancel nor are equal, and those of counters are (ARC-10).
    ///
    /// Without CRCs a mismatch in rows alone, or in columns alone, is uncorrectable: a checksum
    /// that missed its update under right data looks the same as data that missed one together
    /// with the other checksum.
    pub fn decode(&self, locate: Locate<'_>) -> Outcome {
        let syndromes = Syndromes::of(self.data, &self.sums, self.members);
        let mismatches = self.crc_mismatches();
        if syndromes.are_zero() && mismatches.is_empty() {
            return Outcome::Clean;
        }
        let crossings = self.crossings(&syndromes);
        let (suspects, repairs) = match locate {
            Locate::Membership => {
                let repairs = self.at(&crossings, &syndromes);
                (crossings.clone(), repairs)
            }
            Locate::Values => (crossings.clone(), self.by_values(&syndromes)),
            Locate::Crcs => (mismatches.clone(), self.by_crcs(&mismatches, &crossings, &syndromes)),
            Locate::Known(set) => {
                let lines = self.members.iter().filter(|line| set.contains(*line));
                let known = LineSet::of(self.data.len(), lines);
                let repairs = self.at(&known, &syndromes);
                (known, repairs)
            }
        };
        let (columns, rows) = (syndromes.bad_columns(), syndromes.bad_rows());
        if let Some(repairs) = repairs {
            Outcome::Corrected(repairs)
        } else if self.data_is_right(&mismatches, &crossings, &syndromes) {
            Outcome::ChecksumsDamaged { columns, rows }
        } else {
            let is_suspect = |line: &usize| suspects.contains(*line) || mismatches.contains(*line);
            let lines = self.members.iter().filter(is_suspect).collect();
            Outcome::Uncorrectable { lines, columns, rows }
        }
    }

    /// Members where a mismatched row and a mismatched column cross.
    fn crossings(&self, syndromes: &Syndromes) -> LineSet {
        let (rows, columns) = (syndromes.bad_rows(), syndromes.bad_columns());
        let shape = self.shape();
        let all = columns
            .iter()
            .flat_map(|&column| rows.iter().map(move |&row| shape.line(Place { row, column })));
        LineSet::of(shape.lines(), all.filter(|line| self.members.contains(*line)))
    }

    /// The repair of these suspects, if that is all that is wrong.
    fn at(&self, suspects: &LineSet, syndromes: &Syndromes) -> Option<Vec<Repair>> {
        self.accepted(&peel(self.shape(), suspects, syndromes.clone())?)
    }

    fn by_crcs(
        &self,
        mismatches: &LineSet,
        crossings: &LineSet,
        syndromes: &Syndromes,
    ) -> Option<Vec<Repair>> {
        /// Bounds the work on large matrices in which very much is wrong.
        const CROSSINGS_MAX: usize = 1024;
        self.crcs?;
        if let Some(repairs) = self.at(mismatches, syndromes) {
            return Some(repairs);
        }
        if crossings.len() > CROSSINGS_MAX {
            return None;
        }
        let unnoticed = crossings.iter().filter(|line| !mismatches.contains(*line));
        only(unnoticed.filter_map(|line| {
            let mut suspects = mismatches.clone();
            suspects.insert(line);
            self.at(&suspects, syndromes)
        }))
    }

    fn by_values(&self, syndromes: &Syndromes) -> Option<Vec<Repair>> {
        let (rows, columns) = (syndromes.bad_rows(), syndromes.bad_columns());
        let across: Vec<Line> = rows.iter().map(|row| syndromes.rows[*row]).collect();
        let down: Vec<Line> = columns.iter().map(|column| syndromes.columns[*column]).collect();
        let line = |row: usize, column: usize| {
            self.shape().line(Place { row: rows[row], column: columns[column] })
        };
        let is_member = |row, column| self.members.contains(line(row, column));
        let mut budget = Budget::default();
        // One wrong line in each row, then one in each column.
        let by_row = assignments(&across, &down, is_member, &mut budget)?;
        let by_column = assignments(&down, &across, |to, from| is_member(from, to), &mut budget)?;
        let in_rows = by_row.iter().map(|columns| {
            columns.iter().enumerate().map(|(row, &to)| (line(row, to), across[row])).collect()
        });
        let in_columns = by_column.iter().map(|rows| {
            rows.iter().enumerate().map(|(column, &to)| (line(to, column), down[column])).collect()
        });
        let found = in_rows.chain(in_columns);
        only(found.filter_map(|errors: Vec<(usize, Line)>| self.accepted(&errors)))
    }

    /// The repair of these errors, if everything agrees with it (D1).
    fn accepted(&self, errors: &[(usize, Line)]) -> Option<Vec<Repair>> {
        let mut data = self.data.to_vec();
        errors.iter().for_each(|(line, error)| lanes::add(&mut data[*line], error));
        let content = |&(line, _): &(usize, Line)| Repair { line, content: data[line] };
        let mut repairs: Vec<Repair> = errors.iter().map(content).collect();
        repairs.sort_unstable();
        let repaired = Matrix { data: &data, ..*self };
        repaired.is_clean().then_some(repairs)
    }

    /// Whether the checksums alone are to blame: every CRC matches, and that is not because of one
    /// wrong line that happens to have its right content's CRC.
    fn data_is_right(
        &self,
        mismatches: &LineSet,
        crossings: &LineSet,
        syndromes: &Syndromes,
    ) -> bool {
        let one_line = || crossings.len() == 1 && self.at(crossings, syndromes).is_some();
        self.crcs.is_some() && mismatches.is_empty() && !one_line()
    }
}

/// The one thing that all of them are (D2).
fn only<T: PartialEq>(mut found: impl Iterator<Item = T>) -> Option<T> {
    let first = found.next()?;
    found.all(|other| other == first).then_some(first)
}
