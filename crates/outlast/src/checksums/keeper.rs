//! Adds up what commits change.

use outlast_matrix::{Line, Spare};
use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, LineAddr, PoolOffset, line_pieces};

use crate::checksums::deltas::{Delta, Deltas};
use crate::checksums::matrices::{Matrices, MatrixAt, load_line, store_changed};
use crate::io::Io;
use crate::layout::Geometry;
use crate::lines::word_mask;
use crate::plant::Plant;

/// Brings sums, CRCs and members up to date with what lanes hand over.
pub(crate) struct Keeper {
    matrices: Matrices,
    /// The lane's entries under work; kept for its memory.
    pub taken: Deltas,
    spare: OpenSpare,
}

/// What becomes of the membership of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Member {
    Joins,
    Stays,
    Leaves,
}

impl Keeper {
    pub fn new(geometry: Geometry) -> Self {
        let spare = OpenSpare { of: None, bytes: Vec::new() };
        Self { matrices: Matrices::new(geometry), taken: Deltas::default(), spare }
    }

    /// Adds all that was taken over to the sums. `changed` hears each line stored to, and since
    /// which commit it is pending.
    pub fn add_up<M: Medium>(&mut self, io: Io<'_, M>, mut changed: impl FnMut(LineAddr, u64)) {
        let deltas = std::mem::take(&mut self.taken);
        let mut counter = 0;
        for delta in deltas.iter() {
            match delta {
                Delta::Commit(next) => {
                    self.spare.close(io, &mut |line| changed(line, counter));
                    counter = next;
                }
                Delta::Words { line, mask, pairs } => {
                    let (mut old, mut new) = ([0; 8], [0; 8]);
                    let words = (0..8).filter(|word| mask >> word & 1 == 1);
                    for (word, [was, is]) in words.zip(pairs) {
                        (old[word], new[word]) = (*was, *is);
                    }
                    if !io.plants(Plant::SumsMissUpdates) {
                        let mut note = |line| changed(line, counter);
                        self.change(io, line, &old, &new, Member::Stays, &mut note);
                    }
                }
                Delta::Taken { at, words } => {
                    for_each_line(at, words, |line, content, _| {
                        let mut note = |line| changed(line, counter);
                        self.change(io, line, &[0; 8], content, Member::Joins, &mut note);
                    });
                }
                Delta::GivenBack { at, words } => {
                    for_each_line(at, words, |line, content, whole| {
                        // Other blocks may share the line.
                        let member = if whole { Member::Leaves } else { Member::Stays };
                        let mut note = |line| changed(line, counter);
                        self.change(io, line, content, &[0; 8], member, &mut note);
                    });
                }
            }
        }
        self.spare.close(io, &mut |line| changed(line, counter));
        self.taken = deltas;
        self.taken.clear();
    }

    fn change<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        line: LineAddr,
        old: &Line,
        new: &Line,
        member: Member,
        changed: &mut impl FnMut(LineAddr),
    ) {
        // The block that the line belonged to may be gone, and its matrices with it.
        let Some((matrix, index)) = self.matrices.of_line(io.medium, line) else { return };
        if old != new {
            let old = if io.plants(Plant::SumsKeepOld) { &[0; 8] } else { old };
            for sum in [matrix.consistency(index), matrix.correlation(index)] {
                if io.plants(Plant::ColumnSumsMissing) && sum == matrix.consistency(index) {
                    continue;
                }
                let mut content = load_line(io.medium, sum);
                for (word, (old, new)) in content.iter_mut().zip(old.iter().zip(new)) {
                    *word = word.wrapping_add(*new).wrapping_sub(*old);
                }
                io.medium.store(sum.start(), bytemuck::cast_slice(&content));
                changed(sum);
            }
        }
        self.spare.open(io, matrix, changed);
        let mut spare = Spare::over(matrix.shape, self.spare.bytes.as_mut_slice());
        spare.change(index as usize, &std::array::from_fn(|word| old[word] ^ new[word]));
        match member {
            Member::Joins => spare.set_member(index as usize, true),
            Member::Stays => {}
            Member::Leaves => spare.set_member(index as usize, false),
        }
    }
}

/// The spare lines of the matrix that changes just now.
struct OpenSpare {
    of: Option<MatrixAt>,
    bytes: Vec<u8>,
}

impl OpenSpare {
    fn open<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        matrix: MatrixAt,
        changed: &mut impl FnMut(LineAddr),
    ) {
        if self.of == Some(matrix) {
            return;
        }
        self.close(io, changed);
        self.bytes.resize(matrix.shape.spare_lines() * LINE_BYTES as usize, 0);
        io.medium.load(matrix.spare().start(), &mut self.bytes);
        self.of = Some(matrix);
    }

    fn close<M: Medium>(&mut self, io: Io<'_, M>, changed: &mut impl FnMut(LineAddr)) {
        let Some(matrix) = self.of.take() else { return };
        let mut spare = Spare::over(matrix.shape, self.bytes.as_mut_slice());
        spare.set_version(spare.version().wrapping_add(1));
        spare.seal(matrix.number());
        store_changed(io.medium, matrix.spare(), &self.bytes, changed);
    }
}

/// Each line that a block covers, with its words in their places, and whether all of it is the
/// block's.
fn for_each_line(at: PoolOffset, words: &[u64], mut visit: impl FnMut(LineAddr, &Line, bool)) {
    let mut rest = words;
    for (piece, len) in line_pieces(at, words.len() * 8) {
        let (here, behind) = rest.split_at(len / 8);
        rest = behind;
        let mut content = [0; 8];
        content[piece.in_line() / 8..][..here.len()].copy_from_slice(here);
        let mask = word_mask(piece.in_line(), piece.in_line() + len);
        visit(piece.line(), &content, mask == 0xff);
    }
}
