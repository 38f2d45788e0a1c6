//! Proving what live records name before recovery makes its checksums anew (SUMS-7, SUMS-9).
//!
//! The sums of an unsettled matrix are of some moment since the floor moved: each lane's commits
//! up to one of them are in, the later ones are not, and two checksums may be of two moments. What
//! a commit adds is known: records say what stood in place of their new words (SUMS-9). So the data that
//! recovery leaves, less the growth of some of each lane's last commits, must be what a checksum
//! says. No damage does that, but for one in 2⁶⁴ of those tried.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::BuildHasherDefault;

use outlast_matrix::{LINE_BYTES, Line, LineSet, Place, Spare, Sums, crc8};
use outlast_pmem::Medium;
use outlast_trace::{LineAddr, PoolOffset};
use rustc_hash::FxHasher;

use crate::alloc::{clear_bit, set_bit};
use crate::checksums::matrices::{Matrices, MatrixAt, load_sum};
use crate::checksums::rebuild::{Rebuild, summed_contents};
use crate::collections::hash_key;
use crate::error::PoolError;
use crate::log::{Item, items};
use crate::seq::Seq;

/// Moments of one checksum that are tried. With more it is left to the CRC-8 of untouched lines.
const MOMENTS_MAX: usize = 1 << 16;

/// A committed transaction that the log has.
pub(crate) struct Commit<'l> {
    pub seq: Seq,
    pub lane: usize,
    pub payloads: &'l [&'l [u64]],
}

impl Commit<'_> {
    pub(super) fn items(&self) -> impl Iterator<Item = Item<'_>> {
        self.payloads.iter().flat_map(|payload| items(payload)).flatten()
    }

    /// The words that it stored, with what it stored there.
    pub(super) fn new_words(&self) -> impl Iterator<Item = (PoolOffset, u64)> {
        self.items().flat_map(Item::new_words)
    }

    /// The words of blocks that it did not take itself, with what stood there.
    pub(super) fn old_words(&self) -> impl Iterator<Item = (PoolOffset, u64)> {
        self.items().flat_map(Item::old_words)
    }
}

/// Words by their places.
type Words = HashMap<PoolOffset, u64, BuildHasherDefault<FxHasher>>;

/// By how much commits made a word of a checksum grow, and of which lane they were, the last one
/// first.
type GrowthsOfWord = Vec<(usize, u64)>;

struct Growths<'m, M> {
    matrices: &'m Matrices,
    medium: &'m M,
    /// By checksum line and word.
    by_sum: HashMap<(LineAddr, usize), GrowthsOfWord, BuildHasherDefault<FxHasher>>,
    /// By data line: what commits changed of its CRC-8, and of which lane they were, the last one first.
    by_line: HashMap<LineAddr, Vec<(usize, u8)>, BuildHasherDefault<FxHasher>>,
}

/// What a commit changed of the CRC-8s of lines, in the order in which its lane writes that down: blocks
/// taken, words changed, their bits, blocks given back.
#[derive(Default)]
struct CrcSteps {
    joined: Vec<(LineAddr, u8)>,
    changed: BTreeMap<LineAddr, u8>,
    bits: Vec<(LineAddr, u8)>,
    left: Vec<(LineAddr, u8)>,
}

/// The CRC-8 of a line that has one word. That of any line is the exclusive-or of those of its words.
fn crc_of(at: PoolOffset, word: u64) -> u8 {
    let mut line = [0; 8];
    line[at.in_line() / 8] = word;
    crc8(&line)
}

/// The CRC-8s of a block's words, line by line.
fn crcs_of(words: impl Iterator<Item = (PoolOffset, u64)>) -> BTreeMap<LineAddr, u8> {
    let mut lines = BTreeMap::new();
    for (at, word) in words {
        *lines.entry(at.line()).or_default() ^= crc_of(at, word);
    }
    lines
}

impl<M: Medium> Growths<'_, M> {
    /// A commit of that lane has made a word grow, if that is in some sums.
    fn add(&mut self, lane: usize, at: PoolOffset, growth: u64) {
        let found = self.matrices.of_line(self.medium, at.line());
        let Some((matrix, index)) = found.filter(|_| growth != 0) else { return };
        for sum in [matrix.consistency(index), matrix.correlation(index)] {
            self.by_sum.entry((sum, at.in_line() / 8)).or_default().push((lane, growth));
        }
    }

    fn add_crcs(&mut self, lane: usize, CrcSteps { joined, changed, bits, left }: CrcSteps) {
        let bits = bits.into_iter().rev();
        let last_first =
            left.into_iter().rev().chain(bits).chain(changed).chain(joined.into_iter().rev());
        for (line, crc) in last_first.filter(|(_, crc)| *crc != 0) {
            self.by_line.entry(line).or_default().push((lane, crc));
        }
    }
}

/// The difference between the data of a matrix and its checksums.
struct Lack {
    matrix: MatrixAt,
    /// Columns, then rows.
    lines: Vec<Line>,
    /// The lines of data that sums have when recovery is done.
    contents: Vec<Option<Line>>,
}

impl Rebuild {
    /// SUMS-7. `medium` holds what recovery will leave, and is not needed afterwards.
    pub fn prove<M: Medium>(&self, medium: &M, commits: &[Commit<'_>]) -> Result<(), PoolError> {
        let mut lacks = Vec::new();
        for matrix in self.unsettled(medium).values() {
            let Some(content) = self.matrices.content(medium, matrix.chunk) else { continue };
            let contents = summed_contents(medium, &self.matrices, content, matrix)
                .map_err(|at| PoolError::Damaged { at, what: "a bitmap does not prove itself" })?;
            self.compare_untouched(medium, matrix, &contents)?;
            lacks.extend(lack_of(medium, *matrix, &contents));
        }
        let has_taken =
            |commit: &Commit<'_>| commit.items().any(|i| matches!(i, Item::Taken { .. }));
        if lacks.is_empty() && !commits.iter().any(has_taken) {
            return Ok(());
        }
        let growths = self.growths(medium, commits)?;
        lacks.iter().try_for_each(|lack| {
            self.explain(medium, lack, &growths)?;
            self.compare_touched(medium, lack, &growths)
        })
    }

    /// The CRC-8 of every member line that no record touches is right.
    fn compare_untouched<M: Medium>(
        &self,
        medium: &M,
        matrix: &MatrixAt,
        contents: &[Option<Line>],
    ) -> Result<(), PoolError> {
        let spare = spare_of(medium, matrix);
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

    /// The CRC-8 of every member line is right but for what some of each lane's last commits changed of it.
    /// Sums may lack what another line has in the same words; its CRC-8 does not.
    fn compare_touched<M: Medium>(
        &self,
        medium: &M,
        Lack { matrix, contents, .. }: &Lack,
        growths: &Growths<'_, M>,
    ) -> Result<(), PoolError> {
        let spare = spare_of(medium, matrix);
        for (index, content) in contents.iter().enumerate() {
            let Some(content) = content else { continue };
            let line = LineAddr(matrix.data.0 + index as u64);
            let differs_by = crc8(content) ^ spare.crcs()[index];
            if !is_reached(differs_by, growths.by_line.get(&line)) {
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

    /// By how much each commit made checksums grow. New blocks are compared on the way.
    ///
    /// Numbers order what commits do to a line by their records, and the bits of blocks; what a block
    /// held when it was taken is in no record, and a commit that stores to it later may have a smaller
    /// number. So words are not taken back in the order of numbers: each has its old and new content
    /// in the record, and a block held what is old in the first record that has some of it.
    fn growths<'m, M: Medium>(
        &'m self,
        medium: &'m M,
        commits: &[Commit<'_>],
    ) -> Result<Growths<'m, M>, PoolError> {
        let mut first_old = Words::default();
        for (word, old) in commits.iter().flat_map(Commit::old_words) {
            first_old.entry(word).or_insert(old);
        }
        let (by_sum, by_line) = Default::default();
        let mut growths = Growths { matrices: &self.matrices, medium, by_sum, by_line };
        for commit in commits.iter().rev() {
            let mut crcs = CrcSteps::default();
            let new: Words = commit.new_words().collect();
            let when_taken = |word: PoolOffset| {
                let known = new.get(&word).or_else(|| first_old.get(&word));
                known.copied().unwrap_or_else(|| medium.load_u64(word))
            };
            for (word, old) in commit.old_words() {
                let new = new.get(&word).copied().unwrap_or(old);
                growths.add(commit.lane, word, new.wrapping_sub(old));
                *crcs.changed.entry(word.line()).or_default() ^= crc_of(word, old ^ new);
            }
            for item in commit.items() {
                match item {
                    Item::Taken { at, words, hash } => {
                        let content: Vec<u64> =
                            words_from(at, words as u64).map(when_taken).collect();
                        if hash_key(0, bytemuck::cast_slice(&content)) != hash {
                            return Err(PoolError::Fault {
                                at,
                                block: at,
                                bytes: words as u64 * 8,
                            });
                        }
                    }
                    Item::SetBit { at, bit } => {
                        let flipped = self.take_bit_back(
                            medium,
                            commit.lane,
                            at,
                            &mut growths,
                            clear_bit,
                            bit,
                        );
                        crcs.bits.push((at.line(), crc_of(at, flipped)));
                        let words = || self.block_words(medium, at, bit);
                        words().for_each(|word| growths.add(commit.lane, word, when_taken(word)));
                        crcs.joined.extend(crcs_of(words().map(|word| (word, when_taken(word)))));
                    }
                    Item::ClearBit { at, bit } => {
                        let flipped =
                            self.take_bit_back(medium, commit.lane, at, &mut growths, set_bit, bit);
                        crcs.bits.push((at.line(), crc_of(at, flipped)));
                        // Nothing is stored to it before the floor has passed this commit.
                        let words = || self.block_words(medium, at, bit);
                        let held = |word| medium.load_u64(word);
                        words().for_each(|word| {
                            growths.add(commit.lane, word, held(word).wrapping_neg());
                        });
                        crcs.left.extend(crcs_of(words().map(|word| (word, held(word)))));
                    }
                    Item::Words { .. }
                    | Item::Old { .. }
                    | Item::Acquired { .. }
                    | Item::Released { .. } => {}
                }
            }
            growths.add_crcs(commit.lane, crcs);
        }
        Ok(growths)
    }

    /// The words of the block that a bit speaks of.
    pub(super) fn block_words<M: Medium>(
        &self,
        medium: &M,
        at: PoolOffset,
        bit: u32,
    ) -> impl Iterator<Item = PoolOffset> + use<M> {
        let (block, bytes) = self.matrices.block_of_bit(medium, at, bit).unwrap_or((at, 0));
        words_from(block, bytes / 8)
    }

    /// Bits go in the order of numbers: their word is locked. Returns what flips in that word.
    fn take_bit_back<M: Medium>(
        &self,
        medium: &M,
        lane: usize,
        at: PoolOffset,
        growths: &mut Growths<'_, M>,
        change: impl Fn(&M, PoolOffset, u32) -> Result<(), &'static str>,
        bit: u32,
    ) -> u64 {
        let after = medium.load_u64(at);
        // The word proved itself when the items were checked.
        if change(medium, at, bit).is_ok() {
            growths.add(lane, at, after.wrapping_sub(medium.load_u64(at)));
        }
        after ^ medium.load_u64(at)
    }

    /// Whether all columns, or else all rows, lack what some commits would add: either proves the
    /// lines, and then the other ones are damaged themselves. Lines that changed places within a column
    /// leave its sum as it was; then what one row lacks another has. Where one column and one row lack
    /// the same, it is of their line: if no block has that any more, what it holds makes no difference.
    fn explain<M: Medium>(
        &self,
        medium: &M,
        Lack { matrix, lines, contents }: &Lack,
        growths: &Growths<'_, M>,
    ) -> Result<(), PoolError> {
        let columns = matrix.shape.columns();
        for word in 0..8 {
            let growths_of = |nth: usize| {
                let sum = LineAddr(matrix.checks.0 + nth as u64);
                growths.by_sum.get(&(sum, word))
            };
            let is_odd = |nth: &usize| !is_explained(lines[*nth][word], growths_of(*nth));
            let odd_columns: Vec<_> = (0..columns).filter(is_odd).collect();
            let odd_rows: Vec<_> = (columns..lines.len()).filter(is_odd).collect();
            let lacks = |nth: usize| rests(lines[nth][word], growths_of(nth));
            let place = match (&odd_columns[..], &odd_rows[..]) {
                ([column], [row])
                    if contents
                        [matrix.shape.line(Place { row: row - columns, column: *column })]
                    .is_none()
                        && have_common(lacks(*column), lacks(*row)) =>
                {
                    continue;
                }
                ([column, ..], [row, ..]) => Place { row: row - columns, column: *column },
                (odd, []) | ([], odd) => {
                    let Some(first) = exchanged(odd, lacks) else { continue };
                    match first < columns {
                        true => Place { row: 0, column: first },
                        false => Place { row: first - columns, column: 0 },
                    }
                }
            };
            let line = matrix.shape.line(place);
            return Err(self.differs(medium, matrix, line as u64));
        }
        Ok(())
    }
}

/// Whether two sums lack the same at some moments of each.
fn have_common(a: Option<Vec<u64>>, b: Option<Vec<u64>>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return false };
    let a: HashSet<u64, BuildHasherDefault<FxHasher>> = a.into_iter().collect();
    b.iter().any(|rest| a.contains(rest))
}

/// The first of two sums of which one has what the other lacks, at some moments of each.
fn exchanged(odd: &[usize], lacks: impl Fn(usize) -> Option<Vec<u64>>) -> Option<usize> {
    if odd.len() < 2 {
        return None;
    }
    let mut seen: HashMap<u64, usize, BuildHasherDefault<FxHasher>> = HashMap::default();
    for nth in odd {
        let rests = lacks(*nth)?;
        if let Some(first) = rests.iter().find_map(|rest| seen.get(&rest.wrapping_neg())) {
            return Some(*first);
        }
        seen.extend(rests.into_iter().map(|rest| (rest, *nth)));
    }
    None
}

fn spare_of<M: Medium>(medium: &M, matrix: &MatrixAt) -> Spare<Vec<u8>> {
    let mut bytes = vec![0; matrix.shape.spare_lines() * LINE_BYTES];
    medium.load(matrix.spare().start(), &mut bytes);
    Spare::over(matrix.shape, bytes)
}

/// Whether some of each lane's last steps come to that difference of CRC-8s.
fn is_reached(difference: u8, steps: Option<&Vec<(usize, u8)>>) -> bool {
    let mut lanes: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
    for (lane, crc) in steps.into_iter().flatten() {
        let last = lanes.entry(*lane).or_insert_with(|| vec![0]);
        last.push(last[last.len() - 1] ^ crc);
    }
    let mut reached = vec![0];
    for of_lane in lanes.values() {
        let each = reached.iter().flat_map(|crc| of_lane.iter().map(move |step| crc ^ step));
        reached = each.collect();
        reached.sort_unstable();
        reached.dedup();
    }
    reached.contains(&difference)
}

fn words_from(at: PoolOffset, count: u64) -> impl Iterator<Item = PoolOffset> {
    (0..count).map(move |word| at.plus(word * 8))
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
    lines.iter().any(|line| *line != [0; 8]).then(|| Lack {
        matrix,
        lines,
        contents: contents.to_vec(),
    })
}

/// Whether a lack is the growth of some of each lane's last commits.
fn is_explained(lack: u64, growths: Option<&GrowthsOfWord>) -> bool {
    lack == 0 || rests(lack, growths).is_none_or(|rests| rests.contains(&0))
}

/// What is left of a lack when some of each lane's last commits are taken off, for each choice of them;
/// `None` where there are too many.
fn rests(lack: u64, growths: Option<&GrowthsOfWord>) -> Option<Vec<u64>> {
    let mut lanes: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    for (lane, growth) in growths.into_iter().flatten() {
        let last = lanes.entry(*lane).or_insert_with(|| vec![0]);
        let before = last[last.len() - 1];
        last.push(before.wrapping_add(*growth));
    }
    let mut left = vec![lack];
    for of_lane in lanes.values() {
        if left.len() * of_lane.len() > MOMENTS_MAX {
            return None;
        }
        left = left
            .iter()
            .flat_map(|rest| of_lane.iter().map(move |growth| rest.wrapping_sub(*growth)))
            .collect();
    }
    Some(left)
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

    #[test]
    fn a_crc_is_that_of_some_moment_of_each_lane() {
        let steps = vec![(0, 1), (1, 8), (0, 2)];
        let reached = (0..=255).filter(|crc| is_reached(*crc, Some(&steps)));
        assert!(reached.eq([0, 1, 3, 8, 9, 11]));
        assert!(is_reached(0, None) && !is_reached(1, None));
    }

    #[test]
    fn lines_that_changed_places_are_seen_in_what_two_sums_lack() {
        let exchanged = |lacks: &[u64]| {
            let odd: Vec<usize> = (0..lacks.len()).collect();
            exchanged(&odd, |nth| rests(lacks[nth], Some(&vec![(0, 5)])))
        };
        // One has 7 too much, of which 5 may be a commit's that the sum lacks; the other lacks 7.
        assert_eq!(exchanged(&[12, 9, 7u64.wrapping_neg()]), Some(0));
        assert_eq!(exchanged(&[12, 9, 8u64.wrapping_neg()]), None);
        assert_eq!(exchanged(&[0]), None);
    }
}
