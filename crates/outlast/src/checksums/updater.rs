//! Adds up what commits change.
//!
//! Nothing needs the sums of a commit before the floor passes it (SUMS-2). Until then its differences
//! lie with its lane; what has gathered is then added up matrix by matrix, so that each line of
//! checksums is fetched, stored to and flushed once, however many commits have changed it.

use std::ops::Range;

use outlast_matrix::{Line, Spare, Vector};
use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, LineAddr};

use crate::checksums::deltas::{Deltas, Kind};
use crate::checksums::matrices::{Matrices, MatrixAt};
use crate::io::{Io, Site};
use crate::layout::Geometry;
use crate::plant::Plant;
use crate::pool::LaneSlot;

/// Matrices whose checksums are fetched ahead of the one under work.
const MATRICES_AHEAD: usize = 6;

/// Changed lines of one matrix that are looked at to fetch its checksums.
const LINES_FETCHED_MAX: usize = 16;

/// Fewer changes are sorted by comparing them.
const COUNTED_MIN: usize = 256;

/// Bits of a line's number by which changes are dealt out at a time.
const DIGIT_BITS: u32 = 9;

/// Brings sums, CRCs and members up to date with what lanes have gathered.
pub(crate) struct Updater {
    matrices: Matrices,
    // The fields below are kept for their memory.
    /// The differences that each lane had gathered.
    taken: Vec<Deltas>,
    changes: Vec<Change>,
    dealt: Vec<Change>,
    groups: Vec<Group>,
    open: OpenMatrix,
}

/// An entry of a lane.
#[derive(Clone, Copy)]
struct Change {
    line: LineAddr,
    lane: u32,
    place: u32,
}

/// Changes to lines of one matrix.
struct Group {
    matrix: MatrixAt,
    changes: Range<usize>,
}

impl Updater {
    pub fn new(geometry: Geometry) -> Self {
        Self {
            matrices: Matrices::new(geometry),
            taken: Vec::new(),
            changes: Vec::new(),
            dealt: Vec::new(),
            groups: Vec::new(),
            open: OpenMatrix::default(),
        }
    }

    /// Whether a commit below `limit` has differences that were not added.
    pub fn lags<M: Medium>(medium: &M, lanes: &[LaneSlot], limit: u64) -> bool {
        lanes.iter().any(|lane| lane.deltas.lock(medium).since().is_some_and(|since| since < limit))
    }

    /// Adds all that lanes have gathered to the sums and flushes each line that changes; `changed`
    /// hears of it. The fence is the caller's.
    pub fn add_up<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        lanes: &[LaneSlot],
        changed: impl Fn(LineAddr),
    ) {
        self.taken.resize_with(lanes.len(), Deltas::default);
        for (taken, lane) in self.taken.iter_mut().zip(lanes) {
            std::mem::swap(taken, &mut *lane.deltas.lock(io.medium));
        }
        self.sort_changes();
        self.group_changes(io);
        for index in 0..self.groups.len() {
            if let Some(ahead) = self.groups.get(index + MATRICES_AHEAD) {
                fetch(io, ahead, &self.changes[ahead.changes.clone()]);
            }
            let group = &self.groups[index];
            let changes = &self.changes[group.changes.clone()];
            self.open.change(io, group.matrix, changes, &self.taken, &changed);
        }
        self.taken.iter_mut().for_each(Deltas::clear);
    }

    /// Changes of one line come together, lines of one matrix too.
    fn sort_changes(&mut self) {
        self.changes.clear();
        self.changes.extend(changes_of(&self.taken));
        sort_by_line(&mut self.changes, &mut self.dealt);
    }

    fn group_changes<M: Medium>(&mut self, io: Io<'_, M>) {
        self.groups.clear();
        let mut from = 0;
        while let Some(first) = self.changes.get(from) {
            // The block that the line belonged to may be gone, and its matrices with it.
            let Some((matrix, _)) = self.matrices.of_line(io.medium, first.line) else {
                from += 1;
                continue;
            };
            let end = matrix.data.0 + matrix.lines;
            let count = self.changes[from..].iter().take_while(|c| c.line.0 < end).count();
            self.groups.push(Group { matrix, changes: from..from + count });
            from += count;
        }
    }
}

/// Every change that lanes have gathered.
fn changes_of(gathered: &[Deltas]) -> impl Iterator<Item = Change> + '_ {
    gathered.iter().enumerate().flat_map(|(lane, deltas)| {
        deltas.places().map(move |(line, place)| {
            let place = u32::try_from(place).expect("differences of a ring fit into memory");
            Change { line, lane: lane as u32, place }
        })
    })
}

/// Sorts by the number of the line; `dealt` is memory for it. Many are dealt out digit by digit,
/// the lowest first, which looks at each change a few times however many there are.
fn sort_by_line(changes: &mut Vec<Change>, dealt: &mut Vec<Change>) {
    if changes.len() < COUNTED_MIN {
        return changes.sort_unstable_by_key(|change| change.line.0);
    }
    let numbers = || changes.iter().map(|change| change.line.0);
    let (least, most) = (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0));
    let bits = u64::BITS - (most - least).leading_zeros();
    dealt.clear();
    dealt.resize(changes.len(), changes[0]);
    for shift in (0..bits).step_by(DIGIT_BITS as usize) {
        let digit =
            |change: &Change| ((change.line.0 - least) >> shift) as usize % (1 << DIGIT_BITS);
        let mut ends = [0; 1 << DIGIT_BITS];
        changes.iter().for_each(|change| ends[digit(change)] += 1);
        let mut behind = 0;
        for end in &mut ends {
            behind += std::mem::replace(end, behind);
        }
        for change in changes.iter() {
            let at = &mut ends[digit(change)];
            dealt[*at] = *change;
            *at += 1;
        }
        std::mem::swap(changes, dealt);
    }
}

/// Fetches the checksums that a group will change.
fn fetch<M: Medium>(io: Io<'_, M>, group: &Group, changes: &[Change]) {
    let matrix = &group.matrix;
    let mut last = None;
    for change in changes.iter().take(LINES_FETCHED_MAX) {
        if last.replace(change.line) != Some(change.line) {
            let index = change.line.0 - matrix.data.0;
            io.medium.prefetch_write(matrix.consistency(index));
            io.medium.prefetch_write(matrix.correlation(index));
        }
    }
    (0..matrix.shape.spare_lines() as u64)
        .for_each(|line| io.medium.prefetch_write(LineAddr(matrix.spare().0 + line)));
}

/// A set of numbers below 64: a pool's largest matrix has fewer lines of sums, and of spare ones.
#[derive(Clone, Copy, Default)]
struct Numbers(u64);

impl Numbers {
    /// Whether it was not in.
    #[inline]
    fn insert(&mut self, number: usize) -> bool {
        let before = self.0;
        self.0 |= 1 << number;
        self.0 != before
    }

    /// From the lowest.
    #[inline]
    fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let number = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(number)
        })
    }
}

/// The checksums of the matrix that changes just now, as far as they were needed.
#[derive(Default)]
struct OpenMatrix {
    sums: Vec<Line>,
    spare: Vec<u8>,
}

impl OpenMatrix {
    /// Adds these changes of lines of the matrix, which are sorted by line.
    fn change<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        matrix: MatrixAt,
        changes: &[Change],
        taken: &[Deltas],
        changed: &impl Fn(LineAddr),
    ) {
        let shape = matrix.shape;
        let columns = shape.columns();
        self.sums.resize(shape.checksum_lines(), [0; 8]);
        self.spare.resize(shape.spare_lines() * LINE_BYTES as usize, 0);
        io.medium.load(matrix.spare().start(), &mut self.spare);
        let mut spare = Spare::over(shape, self.spare.as_mut_slice());
        // Which sums are here, and which spare lines are not as they were.
        let (mut loaded, mut renewed) = (Numbers::default(), Numbers::default());
        let mut left = None;

        let vector = Vector::best();
        for change in changes {
            let delta = taken[change.lane as usize].get(change.place as usize);
            if delta.kind == Kind::Change && io.plants(Plant::SumsMissUpdates) {
                continue;
            }
            let index = (change.line.0 - matrix.data.0) as usize;
            renewed.insert(spare.change_crc(index, delta.crc));
            // A block that is given back is not taken again before the floor has passed that, and
            // by then both have been added. Changes of one line come in any order.
            match delta.kind {
                Kind::Joins if left != Some(index) => {
                    renewed.insert(spare.set_member(index, true));
                }
                Kind::Leaves => {
                    renewed.insert(spare.set_member(index, false));
                    left = Some(index);
                }
                Kind::Joins | Kind::Change | Kind::LeavesInPart => {}
            }
            let (down, across) = (shape.column_of(index), columns + shape.row_of(index));
            for at in [down, across] {
                if loaded.insert(at) {
                    let line = LineAddr(matrix.checks.0 + at as u64);
                    let sum = &mut self.sums[at];
                    io.medium.load(line.start(), bytemuck::cast_slice_mut(sum));
                }
            }
            let (consistency, correlation) = self.sums.split_at_mut(columns);
            let (down, across) = (&mut consistency[down], &mut correlation[across - columns]);
            let before = *down;
            vector.add_packed([down, across], delta.mask, delta.growth);
            if io.plants(Plant::ColumnSumsMissing) {
                *down = before;
            }
        }
        spare.set_version(spare.version().wrapping_add(1));
        spare.seal(matrix.number());
        renewed.insert(shape.spare_lines() - 1);

        let store = |line: LineAddr, content: &[u8]| {
            io.medium.store(line.start(), content);
            changed(line);
            io.flush_line(Site::Sums, line);
        };
        for at in loaded.iter() {
            let line = LineAddr(matrix.checks.0 + at as u64);
            store(line, bytemuck::cast_slice(&self.sums[at]));
        }
        let spare = self.spare.as_chunks::<{ LINE_BYTES as usize }>().0;
        for at in renewed.iter() {
            store(LineAddr(matrix.spare().0 + at as u64), &spare[at]);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use outlast_matrix::Shape;
    use outlast_pmem::Recorder;
    use outlast_trace::{Op, Random};

    use super::*;
    use crate::checksums::Loads;
    use crate::checksums::matrices::load_line;
    use crate::checksums::rebuild::make;

    /// What commits of two lanes make of the lines of a matrix, `None` where no block is.
    struct Commits {
        lines: Vec<Option<Line>>,
        gathered: [Deltas; 2],
        random: Random,
    }

    impl Commits {
        fn draw(&mut self, below: u64) -> u64 {
            self.random.below(below)
        }

        fn run(&mut self, matrix: MatrixAt, commits: u64) {
            let mut left = BTreeSet::new();
            for _ in 0..commits {
                let index = self.draw(matrix.lines) as usize;
                let (lane, mask) = (self.draw(2) as usize, self.draw(256) as u8);
                let new = std::array::from_fn(|_| self.draw(3));
                let (line, deltas) =
                    (LineAddr(matrix.data.0 + index as u64), &mut self.gathered[lane]);
                match self.lines[index] {
                    None if left.contains(&index) => {}
                    None => {
                        deltas.taken(line.start(), LINE_BYTES, |_, words| {
                            words.copy_from_slice(&new)
                        });
                        self.lines[index] = Some(new);
                    }
                    Some(old) if mask % 8 == 0 => {
                        deltas.given_back(line.start(), LINE_BYTES, |_, words| {
                            words.copy_from_slice(&old);
                        });
                        self.lines[index] = None;
                        left.insert(index);
                    }
                    Some(old) => {
                        let changes = std::iter::once((line, mask));
                        deltas.lines(changes, &[new], Loads::Old, |_, content| *content = old);
                        let counts = |word: usize| mask >> word & 1 == 1;
                        let now = |word| if counts(word) { new[word] } else { old[word] };
                        self.lines[index] = Some(std::array::from_fn(now));
                    }
                }
            }
        }
    }

    /// The lines of a matrix's checksums.
    fn checks<M: Medium>(medium: &M, matrix: &MatrixAt) -> Vec<Line> {
        matrix.check_lines().map(|line| load_line(medium, line)).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "thousands of commits take minutes there")]
    fn what_is_added_up_in_any_order_is_what_would_be_made_anew() {
        for (pages, reversed) in [(1, false), (1, true), (16, false), (16, true)] {
            let shape = Shape::within(pages * 4096).unwrap();
            let (data, lines) = (LineAddr(64), shape.lines() as u64);
            let matrix = MatrixAt { shape, data, checks: LineAddr(64 + lines), lines, chunk: 0 };
            let pool_bytes = 4096 * (pages as u64 + 1);
            let (medium, anew) = (Recorder::new(pool_bytes), Recorder::new(pool_bytes));
            let mut commits = Commits {
                lines: vec![None; shape.lines()],
                gathered: Default::default(),
                random: Random::new(7),
            };
            make(Io::new(&medium), &matrix, &commits.lines);
            medium.take_log();
            for round in 1..=4 {
                commits.run(matrix, lines * u64::from(round));
                let mut changes: Vec<_> = changes_of(&commits.gathered).collect();
                if reversed {
                    changes.reverse();
                }
                changes.sort_by_key(|change| change.line.0);
                let before = checks(&medium, &matrix);
                let told = std::cell::RefCell::new(BTreeSet::new());
                let tell = |line: LineAddr| assert!(told.borrow_mut().insert(line.0));
                let io = Io::new(&medium);
                OpenMatrix::default().change(io, matrix, &changes, &commits.gathered, &tell);
                commits.gathered.iter_mut().for_each(Deltas::clear);

                make(Io::new(&anew), &matrix, &commits.lines);
                let mut bytes = vec![0; shape.spare_lines() * LINE_BYTES as usize];
                anew.load(matrix.spare().start(), &mut bytes);
                let mut spare = Spare::over(shape, bytes);
                spare.set_version(round);
                anew.store(matrix.spare().start(), spare.seal(matrix.number()));
                let after = checks(&medium, &matrix);
                assert_eq!(after, checks(&anew, &matrix), "{pages} pages, round {round}");

                let numbered = matrix.check_lines().zip(before.iter().zip(&after));
                let changed = numbered.filter(|(_, (before, after))| before != after);
                let changed: BTreeSet<u64> = changed.map(|(line, _)| line.0).collect();
                let flushed: Vec<u64> = flushed_lines(&medium);
                let flushed_once: BTreeSet<u64> = flushed.iter().copied().collect();
                assert_eq!(flushed_once.len(), flushed.len(), "a line is flushed twice");
                assert_eq!(flushed_once, told.into_inner());
                assert!(changed.is_subset(&flushed_once));
            }
        }
    }

    fn flushed_lines(medium: &Recorder) -> Vec<u64> {
        let log = medium.take_log();
        let flushed = log.iter().filter_map(|(_, op)| match op {
            Op::Flush { line, .. } => Some(line.0),
            _ => None,
        });
        flushed.collect()
    }

    #[test]
    fn changes_come_in_the_order_of_their_lines() {
        let mut random = Random::new(7);
        let (mut changes, mut dealt) = (Vec::new(), Vec::new());
        for (count, span) in [(3, 9), (300, 1), (1000, 5), (5000, 1 << 9), (5000, 1 << 36)] {
            changes.clear();
            changes.extend((0..count).map(|place| Change {
                line: LineAddr(77 + random.below(span)),
                lane: 0,
                place,
            }));
            let mut right: Vec<_> = changes.iter().map(|c| (c.line.0, c.place)).collect();
            sort_by_line(&mut changes, &mut dealt);
            assert!(changes.is_sorted_by_key(|change| change.line.0), "{count} of {span}");
            let mut found: Vec<_> = changes.iter().map(|c| (c.line.0, c.place)).collect();
            found.sort_unstable();
            right.sort_unstable();
            assert_eq!(found, right, "none is lost and none is new");
        }
    }
}
