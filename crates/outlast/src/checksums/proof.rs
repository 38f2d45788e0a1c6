//! Proving what live records name before recovery makes its checksums anew (K7, K9).
//!
//! The sums of an unsettled matrix are of some moment since the floor moved: each lane's commits
//! up to one of them are in, the later ones are not, and two checksums may be of two moments. What
//! a commit adds is known: records say what stood in place of their new words (K9). So the data that
//! recovery leaves, less the growth of some of each lane's last commits, must be what a checksum
//! says. No damage does that, but for one in 2⁶⁴ of those tried.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasherDefault;

use outlast_matrix::{LINE_BYTES, Line, LineSet, Place, Spare, Sums, crc8};
use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LineAddr};
use rustc_hash::FxHasher;

use crate::alloc::{clear_bit, set_bit};
use crate::checksums::matrices::{MatrixAt, load_sum};
use crate::checksums::rebuild::{Rebuild, summed_contents, summed_line};
use crate::collections::hash_key;
use crate::error::PoolError;
use crate::log::{Item, items};

/// So many moments of one checksum are tried. With more it is left to the CRC-8 of untouched lines.
const MOMENTS_MAX: usize = 1 << 16;

/// A committed transaction that the log has.
pub(crate) struct Commit<'l> {
    pub lane: usize,
    pub payloads: &'l [&'l [u64]],
}

impl Commit<'_> {
    fn items(&self) -> impl Iterator<Item = Item<'_>> {
        self.payloads.iter().flat_map(|payload| items(payload)).flatten()
    }
}

/// By checksum line and word: by how much commits made it grow, and of which lane they were, the
/// last one first.
type Growths = HashMap<(LineAddr, usize), Vec<(usize, u64)>, BuildHasherDefault<FxHasher>>;

/// What the checksums of a matrix lack of its data.
struct Lack {
    matrix: MatrixAt,
    /// Columns, then rows.
    lines: Vec<Line>,
}

impl Rebuild {
    /// K7. `medium` holds what recovery will leave, and is not needed afterwards.
    pub fn prove<M: Medium>(&self, medium: &M, commits: &[Commit<'_>]) -> Result<(), PoolError> {
        let mut lacks = Vec::new();
        for matrix in self.unsettled(medium).values() {
            let Some(content) = self.matrices.content(medium, matrix.chunk) else { continue };
            let contents = summed_contents(medium, &self.matrices, content, matrix)
                .map_err(|at| PoolError::Damaged { at, what: "a bitmap does not prove itself" })?;
            self.compare_untouched(medium, matrix, &contents)?;
            lacks.extend(lack_of(medium, *matrix, &contents));
        }
        let growths = self.growths(medium, commits, !lacks.is_empty())?;
        lacks.iter().try_for_each(|lack| self.explain(medium, lack, &growths))
    }

    /// The CRC-8 of every member line that no record touches is right.
    fn compare_untouched<M: Medium>(
        &self,
        medium: &M,
        matrix: &MatrixAt,
        contents: &[Option<Line>],
    ) -> Result<(), PoolError> {
        let mut bytes = vec![0; matrix.shape.spare_lines() * LINE_BYTES];
        medium.load(matrix.spare().start(), &mut bytes);
        let spare = Spare::over(matrix.shape, bytes);
        for (index, content) in contents.iter().enumerate() {
            let line = LineAddr(matrix.data.0 + index as u64);
            if self.touched.contains(&line) {
                continue;
            }
            if crc8(&content.unwrap_or_default()) != spare.crcs()[index] {
                return Err(self.differs(medium, matrix, index as u64));
            }
        }
        Ok(())
    }

    fn differs<M: Medium>(&self, medium: &M, matrix: &MatrixAt, line: u64) -> PoolError {
        let content = self.matrices.content(medium, matrix.chunk);
        let over = |content| self.matrices.block_over(content, matrix, line);
        let at = LineAddr(matrix.data.0 + line).start();
        let (block, bytes) = content.and_then(over).unwrap_or((at, LINE_BYTES as u64));
        PoolError::Fault { at, block, bytes }
    }

    /// Takes the commits back one by one, the last one first, and compares new blocks on the way.
    fn growths<M: Medium>(
        &self,
        medium: &M,
        commits: &[Commit<'_>],
        are_needed: bool,
    ) -> Result<Growths, PoolError> {
        let mut growths = Growths::default();
        let has_taken =
            |commit: &Commit<'_>| commit.items().any(|i| matches!(i, Item::Taken { .. }));
        if !are_needed && !commits.iter().any(has_taken) {
            return Ok(growths);
        }
        for commit in commits.iter().rev() {
            self.compare_taken(medium, commit)?;
            let lines = self.changed_by(medium, commit);
            let summed = || lines.iter().map(|line| summed_line(medium, &self.matrices, *line));
            let after: Vec<_> = summed().collect();
            take_back(medium, commit);
            for (after, before) in after.into_iter().zip(summed()) {
                let (Some((matrix, index, after)), Some((_, _, before))) = (after, before) else {
                    continue;
                };
                let sums = [matrix.consistency(index), matrix.correlation(index)];
                for word in (0..8).filter(|word| after[*word] != before[*word]) {
                    let growth = after[word].wrapping_sub(before[word]);
                    for sum in sums {
                        growths.entry((sum, word)).or_default().push((commit.lane, growth));
                    }
                }
            }
        }
        Ok(growths)
    }

    /// The content of new blocks that the record leaves out.
    fn compare_taken<M: Medium>(&self, medium: &M, commit: &Commit<'_>) -> Result<(), PoolError> {
        for item in commit.items() {
            let Item::Taken { at, words, hash } = item else { continue };
            let mut content = vec![0; words * 8];
            medium.load(at, &mut content);
            if hash_key(0, &content) != hash {
                return Err(PoolError::Fault { at, block: at, bytes: words as u64 * 8 });
            }
        }
        Ok(())
    }

    /// The lines whose part of the sums a commit changes.
    fn changed_by<M: Medium>(&self, medium: &M, commit: &Commit<'_>) -> BTreeSet<LineAddr> {
        let mut lines = BTreeSet::new();
        for item in commit.items() {
            match item {
                Item::Old { at, words } => {
                    lines.extend(ByteRange::new(at, words.len() as u64 * 8).lines());
                }
                Item::SetBit { at, bit } | Item::ClearBit { at, bit } => {
                    lines.insert(at.line());
                    if let Some((block, bytes)) = self.matrices.block_of_bit(medium, at, bit) {
                        lines.extend(ByteRange::new(block, bytes).lines());
                    }
                }
                // Words without old ones are of new blocks, which bits name.
                Item::Words { .. }
                | Item::Taken { .. }
                | Item::Acquired { .. }
                | Item::Released { .. } => {}
            }
        }
        lines
    }

    /// Whether all columns, or else all rows, lack what some commits would add: either proves the
    /// lines, and then the other ones are damaged themselves.
    fn explain<M: Medium>(
        &self,
        medium: &M,
        Lack { matrix, lines }: &Lack,
        growths: &Growths,
    ) -> Result<(), PoolError> {
        let columns = matrix.shape.columns();
        for word in 0..8 {
            let is_odd = |nth: &usize| {
                let sum = LineAddr(matrix.checks.0 + *nth as u64);
                !is_explained(lines[*nth][word], growths.get(&(sum, word)))
            };
            let column = (0..columns).find(is_odd);
            let row = (columns..lines.len()).find(is_odd);
            if let (Some(column), Some(row)) = (column, row) {
                let line = matrix.shape.line(Place { row: row - columns, column });
                return Err(self.differs(medium, matrix, line as u64));
            }
        }
        Ok(())
    }
}

/// Puts back what a commit changed, as far as that is in the sums.
fn take_back<M: Medium>(medium: &M, commit: &Commit<'_>) {
    for item in commit.items() {
        // Bitmap words proved themselves when the items were checked.
        let _ = match item {
            Item::Old { at, words } => {
                medium.store(at, bytemuck::cast_slice(words));
                Ok(())
            }
            Item::SetBit { at, bit } => clear_bit(medium, at, bit),
            Item::ClearBit { at, bit } => set_bit(medium, at, bit),
            _ => Ok(()),
        };
    }
}

/// `None` where the checksums lack nothing.
fn lack_of<M: Medium>(medium: &M, matrix: MatrixAt, contents: &[Option<Line>]) -> Option<Lack> {
    let shape = matrix.shape;
    let members =
        LineSet::of(shape.lines(), (0..shape.lines()).filter(|line| contents[*line].is_some()));
    let data: Vec<Line> = contents.iter().map(|line| line.unwrap_or_default()).collect();
    let mut sums = Sums::new(shape, vec![[0; 8]; shape.checksum_lines()]);
    sums.create(&data, &members);
    let stored = matrix.check_lines().map(|line| load_sum(medium, line));
    let lack = |(now, stored): (&Line, Line)| -> Line {
        std::array::from_fn(|word| now[word].wrapping_sub(stored[word]))
    };
    let lines: Vec<Line> = sums.lines().iter().zip(stored).map(lack).collect();
    lines.iter().any(|line| *line != [0; 8]).then_some(Lack { matrix, lines })
}

/// Whether a lack is the growth of some of each lane's last commits.
fn is_explained(lack: u64, growths: Option<&Vec<(usize, u64)>>) -> bool {
    if lack == 0 {
        return true;
    }
    let Some(growths) = growths else { return false };
    let mut lanes: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (lane, growth) in growths {
        let last = lanes.entry(*lane).or_insert_with(|| vec![0]);
        let before = last[last.len() - 1];
        last.push(before.wrapping_add(*growth));
    }
    let mut reached = vec![0u64];
    for of_lane in lanes.values() {
        if reached.len() * of_lane.len() > MOMENTS_MAX {
            return true;
        }
        reached = reached
            .iter()
            .flat_map(|sum| of_lane.iter().map(move |growth| sum.wrapping_add(*growth)))
            .collect();
    }
    reached.contains(&lack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_is_explained_by_the_last_commits_of_each_lane_and_by_no_others() {
        // The last one first: lane 0 made it grow by 5, and by 3 before; lane 1 by 100.
        let growths = vec![(0, 5), (1, 100), (0, 3)];
        for lack in [0, 5, 8, 100, 105, 108] {
            assert!(is_explained(lack, Some(&growths)), "{lack}");
        }
        for lack in [3, 103, 1, 9, 5u64.wrapping_neg()] {
            assert!(!is_explained(lack, Some(&growths)), "{lack}");
        }
        assert!(!is_explained(1, None));
    }
}
