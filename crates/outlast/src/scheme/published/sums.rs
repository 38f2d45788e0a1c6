//! Checksums of what the published variants believe to be written back, as the paper on Archapt has
//! them: they contain the lines that left the LRU queue without a flush, and no others.
//!
//! Nothing here is sound, on purpose. The sums of a line's column and row and the bit that makes it
//! a member are three lines that reach memory each when it likes (ARC-6); a page counts as right
//! when its columns agree (ARC-10); wrong lines are located where a wrong row and a wrong column
//! cross (ARC-11); members that the log has changed are compared like all others (ARC-12). CRCs,
//! which the paper does not have, are not looked at. What it does not say is read in its favour: the
//! addresses are right (ARC-13), and the spare line keeps the members (ARC-15).

use std::collections::HashMap;

use outlast_matrix::{LINE_BYTES, Line, LineSet, Locate, Matrix, Outcome, Spare, Sums};
use outlast_pmem::Medium;
use outlast_trace::{LineAddr, PoolOffset};

use crate::checksums::faults::{Fault, Remedy, fault_of};
use crate::checksums::matrices::{
    Content, Matrices, MatrixAt, checksums_of, load_line, load_sum, store_changed,
};
use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::layout::Geometry;
use crate::pool::RecoveredPool;

/// The content of the sums of a running pool.
pub(crate) struct Believed {
    matrices: Matrices,
    /// The content with which a line is in the sums, if its bit says that it is.
    contained: HashMap<LineAddr, Line>,
    /// A row's checksum is flushed once all lines of the row are members.
    rows_once_built: bool,
}

impl Believed {
    pub fn new(
        geometry: Geometry,
        contained: HashMap<LineAddr, Line>,
        rows_once_built: bool,
    ) -> Self {
        Self { matrices: Matrices::new(geometry), contained, rows_once_built }
    }

    /// Whether checksums can stand for this line: it lies in a block, not in a bitmap.
    pub fn can_contain<M: Medium>(&self, medium: &M, line: LineAddr) -> bool {
        self.matrices.of_line(medium, line).is_some_and(|(matrix, index)| {
            let content = self.matrices.content(medium, matrix.chunk);
            content.is_some_and(|content| {
                !self.matrices.bitmap_lines(content, &matrix).contains(&index)
            })
        })
    }

    /// Whether the sums contain this line.
    pub fn contains<M: Medium>(&self, medium: &M, line: LineAddr) -> bool {
        let found = self.matrices.of_line(medium, line);
        found.is_some_and(|(matrix, index)| spare_of(medium, &matrix).contains(index as usize))
    }

    /// Puts a line into the sums with that content, whatever they had of it, or takes it out.
    /// `changed` hears the lines of checksums that are to be flushed.
    pub fn set<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        line: LineAddr,
        content: Option<&Line>,
        changed: &mut Vec<LineAddr>,
    ) {
        let Some((matrix, index)) = self.matrices.of_line(io.medium, line) else { return };
        let mut spare = spare_of(io.medium, &matrix);
        let was_member = spare.contains(index as usize);
        let old = self.contained.get(&line).filter(|_| was_member).copied().unwrap_or_default();
        let new = content.copied().unwrap_or_default();
        match content {
            Some(content) => self.contained.insert(line, *content),
            None => self.contained.remove(&line),
        };
        if old == new && was_member == content.is_some() {
            return;
        }
        for sum in [matrix.consistency(index), matrix.correlation(index)] {
            let mut sums = load_line(io.medium, sum);
            for (word, (old, new)) in sums.iter_mut().zip(old.iter().zip(&new)) {
                *word = word.wrapping_add(*new).wrapping_sub(*old);
            }
            io.medium.store(sum.start(), bytemuck::cast_slice(&sums));
        }
        match content {
            Some(content) => spare.insert(index as usize, content),
            None => spare.remove(index as usize),
        }
        spare.set_version(spare.version().wrapping_add(1));
        let is_built = !self.rows_once_built || {
            let row = matrix.shape.row_of(index as usize);
            let lines = 0..matrix.lines as usize;
            lines.filter(|line| matrix.shape.row_of(*line) == row).all(|line| spare.contains(line))
        };
        store_changed(io.medium, matrix.spare(), spare.seal(matrix.number()), |line| {
            changed.push(line);
        });
        changed.push(matrix.consistency(index));
        changed.extend(is_built.then(|| matrix.correlation(index)));
    }
}

/// The spare lines as they are. The word with a page's members is never torn, so it counts though
/// the CRC behind it may be of another moment.
fn spare_of<M: Medium>(medium: &M, matrix: &MatrixAt) -> Spare<Vec<u8>> {
    let mut bytes = vec![0; matrix.shape.spare_lines() * LINE_BYTES];
    medium.load(matrix.spare().start(), &mut bytes);
    Spare::over(matrix.shape, bytes)
}

fn sums_of<M: Medium>(medium: &M, matrix: &MatrixAt) -> Vec<Line> {
    let lines = matrix.check_lines().take(matrix.shape.checksum_lines());
    lines.map(|line| load_sum(medium, line)).collect()
}

/// Whether a matrix counts as right; if not, what is wrong, and what would put it right.
pub(crate) fn judge<M: Medium>(
    medium: &M,
    matrices: &Matrices,
    content: Content,
    matrix: &MatrixAt,
) -> Result<(), (Fault, Option<Remedy>)> {
    let spare = spare_of(medium, matrix);
    let members = spare.members();
    let raw = |line: usize| load_line(medium, LineAddr(matrix.data.0 + line as u64));
    let count = matrix.shape.lines();
    let data: Vec<Line> = (0..count)
        .map(|line| if members.contains(line) { raw(line) } else { Line::default() })
        .collect();
    let sums = sums_of(medium, matrix);
    let sums = Sums::new(matrix.shape, sums.as_slice());
    let mut now = Sums::new(matrix.shape, vec![[0; 8]; matrix.shape.checksum_lines()]);
    now.create(&data, &members);
    let bad_columns: Vec<usize> = (0..matrix.shape.columns())
        .filter(|column| now.consistency()[*column] != sums.consistency()[*column])
        .collect();
    if bad_columns.is_empty() {
        return Ok(());
    }
    let fault = |lines: &[usize], correctable, what| {
        fault_of(matrices, content, matrix, lines, correctable, what)
    };
    match Matrix::new(&data, sums, &members).decode(Locate::Membership) {
        Outcome::Corrected(repairs) => {
            let lines: Vec<usize> = repairs.iter().map(|repair| repair.line).collect();
            let whole = repairs
                .iter()
                .map(|repair| (LineAddr(matrix.data.0 + repair.line as u64), repair.content));
            let remedy = Remedy::Lines(whole.collect());
            Err((fault(&lines, true, "lines are stale"), Some(remedy)))
        }
        Outcome::Uncorrectable { lines, .. } if !lines.is_empty() => {
            let what = "more lines are stale than the checksums can tell apart";
            Err((fault(&lines, false, what), None))
        }
        // No row says which line of the column it is.
        _ => {
            let suspects =
                members.iter().filter(|line| bad_columns.contains(&matrix.shape.column_of(*line)));
            let suspects: Vec<usize> = suspects.collect();
            if suspects.is_empty() {
                // No block's data: a checksum was ahead of the bit that makes its line a member.
                let contents = (0..count).map(|line| members.contains(line).then(|| data[line]));
                let remedy = Remedy::Checksums(contents.collect());
                let what = "checksums contain what is no member";
                return Err((fault(&[], true, what), Some(remedy)));
            }
            let what = "columns do not agree, and no row says which line it is";
            Err((fault(&suspects, false, what), None))
        }
    }
}

impl<M: Medium> RecoveredPool<M> {
    /// Compares every page with its checksums and corrects what they tell, durably. Returns the
    /// lines corrected. A crash on the way finds the rest again.
    pub(crate) fn restore_believed(&self) -> Result<Vec<PoolOffset>, PoolError> {
        let io = Io::new(self.medium());
        let (mut corrected, mut lines, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
        self.for_each_matrix(|matrices, content, matrix| {
            match judge(io.medium, matrices, content, &matrix) {
                Ok(()) | Err((_, Some(Remedy::Checksums(_)))) => settle_sums(io, &matrix),
                Err((_, Some(Remedy::Lines(repairs)))) => {
                    for (line, right) in repairs {
                        io.medium.store(line.start(), bytemuck::cast_slice(&right));
                        io.flush_line(Site::RecoverData, line);
                        corrected.push(line.start());
                    }
                }
                Err((fault, _)) => {
                    lines.extend(fault.lines);
                    blocks.extend(fault.blocks);
                }
            }
        });
        io.fence(Site::RecoverData);
        if lines.is_empty() && blocks.is_empty() {
            Ok(corrected)
        } else {
            Err(PoolError::Uncorrectable { corrected, lines, blocks })
        }
    }

    /// The sums' content of each line.
    pub(crate) fn believed_contents(&self) -> HashMap<LineAddr, Line> {
        let mut contained = HashMap::new();
        self.for_each_matrix(|_, _, matrix| {
            for line in spare_of(self.medium(), &matrix).members().iter() {
                let line = LineAddr(matrix.data.0 + line as u64);
                contained.insert(line, load_line(self.medium(), line));
            }
        });
        contained
    }
}

/// The page counts as right: then checksums that do not agree are made anew, lest they spoil later
/// corrections. The paper clears all of them after a recovery, which comes to this.
fn settle_sums<M: Medium>(io: Io<'_, M>, matrix: &MatrixAt) {
    let members: LineSet = spare_of(io.medium, matrix).members();
    let load = |line: usize| load_line(io.medium, LineAddr(matrix.data.0 + line as u64));
    let data: Vec<Line> = (0..matrix.shape.lines())
        .map(|line| if members.contains(line) { load(line) } else { Line::default() })
        .collect();
    let mut sums = Sums::new(matrix.shape, vec![[0; 8]; matrix.shape.checksum_lines()]);
    sums.create(&data, &members);
    let sums = checksums_of(matrix, sums.lines());
    store_changed(io.medium, matrix.checks, bytemuck::cast_slice(&sums), |line| {
        io.flush_line(Site::RecoverData, line);
    });
}
