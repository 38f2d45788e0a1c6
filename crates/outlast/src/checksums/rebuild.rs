//! Making the checksums of whole matrices: empty ones, those of a long block, and after a crash.

use std::collections::{BTreeMap, BTreeSet};

use outlast_matrix::{LINE_BYTES, Line, LineSet, Spare, Sums};
use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LineAddr, PoolOffset};

use crate::alloc::class::Class;
use crate::checksums::matrices::{
    Content, Matrices, MatrixAt, checksums_of, load_line, store_changed,
};
use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::layout::Geometry;
use crate::log::{Item, items};
use crate::sealed::seal_at;

/// SUMS-6: matrices with an empty bitmap and no blocks for a chunk that becomes a class's. Their fence is
/// the caller's.
pub(crate) fn format_cells<M: Medium>(
    io: Io<'_, M>,
    matrices: &Matrices,
    chunk: u64,
    class: Class,
    bitmap: ByteRange,
) {
    let word = |at: PoolOffset| if at.0 < bitmap.end().0 { seal_at(0, at) } else { 0 };
    for matrix in matrices.of_class(chunk, class) {
        let line = |index: u64| {
            let line = LineAddr(matrix.data.0 + index);
            let is_summed = line.start().0 < bitmap.end().0 && !matrices.are_literal();
            is_summed.then(|| std::array::from_fn(|i| word(line.start().plus(8 * i as u64))))
        };
        let contents: Vec<_> = (0..matrix.shape.lines() as u64).map(line).collect();
        make(io, &matrix, &contents);
        matrix.check_lines().for_each(|line| io.flush_line(Site::ChunkBitmap, line));
    }
}

/// SUMS-5: the matrices of a block that takes whole chunks, as it stands. Their fence is the caller's.
pub(crate) fn make_run<M: Medium>(io: Io<'_, M>, matrices: &Matrices, first: u64, chunks: u64) {
    for matrix in matrices.of_run(first, chunks) {
        let sums_all = !matrices.are_literal();
        let lines =
            (0..matrix.shape.lines() as u64).map(|line| match sums_all && line < matrix.lines {
                true => Some(load_line(io.medium, LineAddr(matrix.data.0 + line))),
                false => None,
            });
        make(io, &matrix, &lines.collect::<Vec<_>>());
        let data = (matrix.data.0..matrix.data.0 + matrix.lines).map(LineAddr);
        data.chain(matrix.check_lines()).for_each(|line| io.flush_line(Site::RunSums, line));
    }
}

/// Stores all checksums of a matrix whose members have these contents.
pub(super) fn make<M: Medium>(io: Io<'_, M>, matrix: &MatrixAt, lines: &[Option<Line>]) {
    let count = matrix.shape.lines();
    let members = LineSet::of(count, (0..count).filter(|line| lines[*line].is_some()));
    let data: Vec<Line> = lines.iter().map(|line| line.unwrap_or_default()).collect();
    let mut sums = Sums::new(matrix.shape, vec![[0; 8]; matrix.shape.checksum_lines()]);
    sums.create(&data, &members);
    let mut spare = Spare::empty(matrix.shape, vec![0; matrix.shape.spare_lines() * LINE_BYTES]);
    members.iter().for_each(|line| spare.insert(line, &data[line]));
    let sums = checksums_of(matrix, sums.lines());
    store_changed(io.medium, matrix.checks, bytemuck::cast_slice(&sums), |_| ());
    store_changed(io.medium, matrix.spare(), spare.seal(matrix.number()), |_| ());
}

/// The contents of a matrix as the sums have them (SUMS-3); `None` for lines that are no members.
pub(super) fn summed_contents<M: Medium>(
    medium: &M,
    matrices: &Matrices,
    content: Content,
    matrix: &MatrixAt,
) -> Result<Vec<Option<Line>>, PoolOffset> {
    let line = |line| summed_content(medium, matrices, content, matrix, line);
    (0..matrix.shape.lines() as u64).map(line).collect()
}

fn summed_content<M: Medium>(
    medium: &M,
    matrices: &Matrices,
    content: Content,
    matrix: &MatrixAt,
    line: u64,
) -> Result<Option<Line>, PoolOffset> {
    if line >= matrix.lines {
        return Ok(None);
    }
    let at = LineAddr(matrix.data.0 + line);
    let mask = matrices.summed_words(medium, content, matrix, line).ok_or(at.start())?;
    if mask == 0 {
        return Ok(None);
    }
    let content = load_line(medium, at);
    let in_sums = |word: usize| if mask >> word & 1 == 1 { content[word] } else { 0 };
    Ok(Some(std::array::from_fn(in_sums)))
}

/// Which matrices recovery makes anew (SUMS-1), and which lines of them records have touched.
pub(crate) struct Rebuild {
    pub(super) matrices: Matrices,
    pub(super) touched: BTreeSet<LineAddr>,
}

impl Rebuild {
    /// `None` where a pool keeps no checksums.
    pub fn new(geometry: &Geometry) -> Option<Self> {
        let matrices = || Matrices::new(*geometry);
        (geometry.checksums && !geometry.literal)
            .then(|| Self { matrices: matrices(), touched: BTreeSet::new() })
    }

    /// A record was applied, and all directory words are as it left them or newer.
    pub fn note<M: Medium>(&mut self, medium: &M, payload: &[u64]) {
        for item in items(payload).flatten() {
            match item {
                Item::Acquired { .. } | Item::Released { .. } | Item::Old { .. } => {}
                Item::Taken { .. } => {}
                Item::Words { at, words } => {
                    let range = ByteRange::new(at, words.len() as u64 * 8);
                    self.touched.extend(range.lines());
                }
                Item::SetBit { at, bit } | Item::ClearBit { at, bit } => {
                    self.touched.insert(at.line());
                    if let Some((block, bytes)) = self.matrices.block_of_bit(medium, at, bit) {
                        self.touched.extend(ByteRange::new(block, bytes).lines());
                    }
                }
            }
        }
    }

    /// The matrices of all these lines, by their numbers.
    pub(super) fn unsettled<M: Medium>(&self, medium: &M) -> BTreeMap<u64, MatrixAt> {
        let mut matrices = BTreeMap::new();
        for line in &self.touched {
            if let Some((matrix, _)) = self.matrices.of_line(medium, *line) {
                matrices.insert(matrix.number(), matrix);
            }
        }
        matrices
    }

    /// Makes them anew. Returns the lines to be flushed.
    pub fn make<M: Medium>(self, io: Io<'_, M>) -> Result<Vec<LineAddr>, PoolError> {
        let mut stored = Vec::new();
        for matrix in self.unsettled(io.medium).values() {
            let Some(content) = self.matrices.content(io.medium, matrix.chunk) else { continue };
            let contents = summed_contents(io.medium, &self.matrices, content, matrix)
                .map_err(|at| PoolError::Damaged { at, what: "a bitmap does not prove itself" })?;
            make(io, matrix, &contents);
            stored.extend(matrix.check_lines());
        }
        Ok(stored)
    }
}
