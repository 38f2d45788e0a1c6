//! Looking at all checksums, and repairing what they say is wrong.

use outlast_matrix::{LINE_BYTES, Line, LineSet, Locate, Matrix, Outcome, Spare, Sums, crc8};
use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LineAddr, PoolOffset};

use crate::checksums::matrices::{Content, Matrices, MatrixAt, load_line, load_sum};
use crate::checksums::rebuild::summed_contents;
use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::pool::{CheckStage, CheckStep, Findings, RecoveredPool, Tell};

/// Repairs after which no other is tried.
const PASSES_MAX: usize = 4;

/// A matrix whose lines and checksums do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The first line of the matrix.
    pub matrix: PoolOffset,
    /// The lines that are wrong, or that may be.
    pub lines: Vec<PoolOffset>,
    /// The blocks that these lines belong to.
    pub blocks: Vec<ByteRange>,
    /// Whether [`repair`](RecoveredPool::repair) can put it right.
    pub correctable: bool,
    /// What is wrong.
    pub what: &'static str,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "matrix at {}: {}", self.matrix, self.what)?;
        for (i, block) in self.blocks.iter().enumerate() {
            let before = if i == 0 { "; it concerns" } else { "," };
            write!(f, "{before} the block of {} bytes at {}", block.len, block.at)?;
        }
        let end = if self.correctable { "correctable" } else { "not correctable" };
        write!(f, "; {end}")
    }
}

/// The report of a repair.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RepairReport {
    /// Matrices looked at.
    pub matrices: u64,
    /// Lines of data that got their content back, and of empty logs and of metadata's unused words.
    pub lines: u64,
    /// Matrices whose checksums were made anew, because only these were wrong.
    pub checksums: u64,
    /// The findings of a check afterwards: faults that could not be repaired, and whatever else is wrong,
    /// which no repair touches. Only a pool with nothing left is right.
    pub left: Findings,
}

/// The remedy for one matrix.
pub(crate) enum Remedy {
    /// Put these contents there.
    Lines(Vec<(LineAddr, Line)>),
    /// Make checksums and spare lines anew.
    Checksums(Vec<Option<Line>>),
}

impl<M: Medium> RecoveredPool<M> {
    /// Compares every line of the heap with its checksums. Nothing is stored. A pool without
    /// checksums has no faults that could be seen.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        self.for_each_fault(&mut |_| {}, |fault| faults.push(fault));
        faults
    }

    /// The same one by one; `tell` hears of the chunk that each matrix begins in.
    pub(crate) fn for_each_fault(&self, tell: &mut dyn FnMut(u64), mut visit: impl FnMut(Fault)) {
        // A writer's checksums follow its data later.
        if self.is_beside_writer() {
            return;
        }
        let geometry = &self.header().geometry;
        self.for_each_matrix(|matrices, content, matrix| {
            tell(geometry.chunk_of(matrix.data.start()));
            if let Err((fault, _)) = judge(self.medium(), matrices, content, &matrix) {
                visit(fault);
            }
        });
    }

    /// Puts right what [`faults`](Self::faults) would find, as far as the checksums tell, durably,
    /// and checks the whole pool again. A crash on the way leaves faults that the next repair finds;
    /// it makes none.
    ///
    /// # Errors
    /// [`PoolError::ReadOnly`] when the pool was opened for reading only, [`PoolError::Forked`] in a
    /// child of the process that opened it.
    pub fn repair(&self) -> Result<RepairReport, PoolError> {
        self.repair_telling(&mut |_| {})
    }

    /// As [`repair`](Self::repair), and tells how far it and the check behind it have come, often.
    ///
    /// # Errors
    /// As `repair`.
    pub fn repair_telling(
        &self,
        tell: &mut dyn FnMut(CheckStep),
    ) -> Result<RepairReport, PoolError> {
        if self.is_read_only() {
            return Err(PoolError::ReadOnly);
        }
        if self.medium().is_forked() {
            return Err(PoolError::Forked);
        }
        let mut report = RepairReport::default();
        // A bitmap that is put right may tell more of what it speaks of.
        for _ in 0..PASSES_MAX {
            let before = (report.lines, report.checksums);
            report.matrices = self.repair_once(&mut report, tell);
            if (report.lines, report.checksums) == before {
                break;
            }
        }
        report.lines += self.mend_logs()?;
        if let Some(failure) = self.medium().failure() {
            return Err(failure.into());
        }
        report.left = self.check_telling(tell).findings;
        Ok(report)
    }

    /// Returns how many matrices there are.
    fn repair_once(&self, report: &mut RepairReport, tell: &mut Tell<'_>) -> u64 {
        let io = Io::new(self.medium());
        let (geometry, total) = (&self.header().geometry, self.chunks());
        let mut count = 0;
        self.for_each_matrix(|matrices, content, matrix| {
            count += 1;
            let done = geometry.chunk_of(matrix.data.start());
            tell(CheckStep { stage: CheckStage::Repair, done, total });
            let Err((_, remedy)) = judge(self.medium(), matrices, content, &matrix) else {
                return;
            };
            match remedy {
                Some(Remedy::Lines(lines)) => {
                    report.lines += lines.len() as u64;
                    for (line, right) in lines {
                        io.medium.store(line.start(), bytemuck::cast_slice(&right));
                        io.flush_line(Site::RecoverData, line);
                    }
                }
                Some(Remedy::Checksums(contents)) => {
                    report.checksums += 1;
                    super::rebuild::make(io, &matrix, &contents);
                    matrix.check_lines().for_each(|line| io.flush_line(Site::RecoverData, line));
                }
                None => {}
            }
        });
        io.fence(Site::RecoverData);
        count
    }

    /// The lines of the heap that hold checksums: none where the pool keeps none.
    pub fn checksum_lines(&self) -> Vec<LineAddr> {
        let mut lines = Vec::new();
        self.for_each_matrix(|_, _, matrix| lines.extend(matrix.check_lines()));
        lines
    }

    pub(crate) fn for_each_matrix(&self, mut visit: impl FnMut(&Matrices, Content, MatrixAt)) {
        let geometry = self.header().geometry;
        if !geometry.checksums {
            return;
        }
        let matrices = Matrices::new(geometry);
        let mut chunk = 0;
        while chunk < self.chunks() {
            // Long blocks are skipped whole, so nothing before a free word has to be looked at.
            if matrices.has_free_word(self.medium(), chunk) {
                chunk += 1;
                continue;
            }
            let content = matrices.content(self.medium(), chunk);
            match content {
                Some(Content::Class(class)) => {
                    let all = matrices.of_class(chunk, class);
                    all.for_each(|matrix| visit(&matrices, Content::Class(class), matrix));
                    chunk += 1;
                }
                Some(content @ Content::Run { first, chunks, .. }) => {
                    let all = matrices.of_run(first, chunks);
                    all.for_each(|matrix| visit(&matrices, content, matrix));
                    chunk = first + chunks;
                }
                None => chunk += 1,
            }
        }
    }
}

/// The fault of these lines of a matrix, counted from its first.
pub(crate) fn fault_of(
    matrices: &Matrices,
    content: Content,
    matrix: &MatrixAt,
    lines: &[usize],
    correctable: bool,
    what: &'static str,
) -> Fault {
    let at = |line: &usize| LineAddr(matrix.data.0 + *line as u64).start();
    let over = |line: &usize| matrices.block_over(content, matrix, *line as u64);
    let mut blocks: Vec<ByteRange> =
        lines.iter().filter_map(over).map(|(at, len)| ByteRange::new(at, len)).collect();
    blocks.dedup();
    let lines = lines.iter().map(at).collect();
    Fault { matrix: matrix.data.start(), lines, blocks, correctable, what }
}

/// Whether a settled matrix is right; if not, what is wrong, and what would put it right.
fn judge<M: Medium>(
    medium: &M,
    matrices: &Matrices,
    content: Content,
    matrix: &MatrixAt,
) -> Result<(), (Fault, Option<Remedy>)> {
    #[cfg(feature = "lab")]
    if matrices.are_literal() {
        return crate::scheme::published::sums::judge(medium, matrices, content, matrix);
    }
    let fault = |lines: &[usize], correctable, what| {
        fault_of(matrices, content, matrix, lines, correctable, what)
    };
    let count = matrix.shape.lines();
    let mut bytes = vec![0; matrix.shape.spare_lines() * LINE_BYTES];
    medium.load(matrix.spare().start(), &mut bytes);
    let spare = Spare::parse(matrix.shape, bytes, matrix.number()).ok();
    // The bits say which words are in the sums, or without them the spare lines.
    let raw = |line: usize| load_line(medium, LineAddr(matrix.data.0 + line as u64));
    let bitmap = matrices.bitmap_lines(content, matrix);
    let bitmap_is_right = |contents: &Vec<Option<Line>>, spare: &Spare<Vec<u8>>| {
        let mut lines = bitmap.clone().map(|line| line as usize);
        lines.all(|line| crc8(&contents[line].unwrap_or_default()) == spare.crcs()[line])
    };
    let by_bits = summed_contents(medium, matrices, content, matrix).ok();
    let by_bits = by_bits
        .filter(|contents| spare.as_ref().is_none_or(|spare| bitmap_is_right(contents, spare)));
    let are_by_bits = by_bits.is_some();
    let contents = match (by_bits, &spare) {
        (Some(contents), _) => contents,
        (None, Some(spare)) => contents_by_spare(matrices, content, matrix, spare, raw),
        (None, None) => {
            let what = "neither the bitmap nor the spare lines prove themselves";
            return Err((fault(&[0], false, what), None));
        }
    };
    let members = LineSet::of(count, (0..count).filter(|line| contents[*line].is_some()));
    let data: Vec<Line> = contents.iter().map(|line| line.unwrap_or_default()).collect();
    let sums: Vec<Line> = matrix
        .check_lines()
        .take(matrix.shape.checksum_lines())
        .map(|line| load_sum(medium, line))
        .collect();
    let sums = Sums::new(matrix.shape, sums.as_slice());
    let seen = Matrix::new(&data, sums, &members);
    let seen = match &spare {
        Some(spare) => seen.with_crcs(spare.crcs()),
        None => seen,
    };
    let outcome = match &spare {
        Some(_) => seen.decode(Locate::Crcs),
        None => seen.decode(Locate::Values),
    };
    match outcome {
        Outcome::Clean => {
            let agrees = |spare: &Spare<Vec<u8>>| {
                (0..count).all(|line| !members.contains(line) || spare.contains(line))
            };
            if spare.as_ref().is_some_and(agrees) && (are_by_bits || bitmap.is_empty()) {
                return Ok(());
            }
            if !are_by_bits {
                return Err((fault(&[0], false, "the bitmap does not prove itself"), None));
            }
            let what = "the spare lines are damaged";
            Err((fault(&[], true, what), Some(Remedy::Checksums(contents))))
        }
        Outcome::ChecksumsDamaged { columns, rows } if columns.is_empty() || rows.is_empty() => {
            let what = "checksums are damaged, and all lines are right";
            Err((fault(&[], true, what), Some(Remedy::Checksums(contents))))
        }
        Outcome::ChecksumsDamaged { columns, rows } => {
            // A line whose CRC-8 collides would look the same, and one wrong line in 256 does.
            let shape = matrix.shape;
            let is_crossing = |line: &usize| {
                columns.contains(&shape.column_of(*line)) && rows.contains(&shape.row_of(*line))
            };
            let lines: Vec<usize> = members.iter().filter(is_crossing).collect();
            let what = "checksums of both kinds disagree, and every CRC-8 is right";
            Err((fault(&lines, false, what), None))
        }
        Outcome::Corrected(repairs) => {
            let lines: Vec<usize> = repairs.iter().map(|repair| repair.line).collect();
            // Words that are not in the sums stay as they are.
            let whole = repairs.iter().map(|repair| {
                let mask = match are_by_bits || bitmap.contains(&(repair.line as u64)) {
                    true => matrices.summed_words(medium, content, matrix, repair.line as u64),
                    false => None,
                };
                let mask = mask.unwrap_or(0xff);
                let mut line = raw(repair.line);
                for word in (0..8).filter(|word| mask >> word & 1 == 1) {
                    line[word] = repair.content[word];
                }
                (LineAddr(matrix.data.0 + repair.line as u64), line)
            });
            let remedy = Remedy::Lines(whole.collect());
            Err((fault(&lines, true, "lines are damaged"), Some(remedy)))
        }
        Outcome::Uncorrectable { lines, .. } => {
            let what = "more lines are damaged than the checksums can tell apart";
            Err((fault(&lines, false, what), None))
        }
    }
}

/// The contents of a matrix by its spare lines alone. Where blocks share a line, the CRC-8 tells
/// which of them are in the sums; should it not, whatever is taken will not add up.
fn contents_by_spare(
    matrices: &Matrices,
    content: Content,
    matrix: &MatrixAt,
    spare: &Spare<Vec<u8>>,
    raw: impl Fn(usize) -> Line,
) -> Vec<Option<Line>> {
    let member = |line: usize| {
        let raw = raw(line);
        let masked = |mask: u8| {
            let in_sums = |word: usize| if mask >> word & 1 == 1 { raw[word] } else { 0 };
            std::array::from_fn(in_sums)
        };
        let mut possible =
            matrices.possible_words(content, matrix, line as u64).into_iter().map(masked);
        let last = possible.next_back().unwrap_or(raw);
        possible.find(|content| crc8(content) == spare.crcs()[line]).unwrap_or(last)
    };
    let lines = 0..matrix.shape.lines();
    lines.map(|line| spare.contains(line).then(|| member(line))).collect()
}
