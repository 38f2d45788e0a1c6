//! Objects in matrices, and what can be done to them.

use std::ops::Range;

use outlast_matrix::{
    LINE_BYTES, Line, LineSet, Locate, Matrix, Outcome, Shape, Spare, Sums, line_to_bytes,
};
use outlast_pmem::Medium;
use outlast_trace::{LineAddr, PoolOffset};

/// Matrices whose checksums are fetched ahead of the one under work.
const MATRICES_AHEAD: usize = 8;

/// Where objects lie: in matrices of one shape, one object behind the other, as many as fit whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    shape: Shape,
    /// Bytes from one matrix to the next.
    stride: u64,
    /// Lines of an object.
    lines: usize,
    /// Objects in a matrix.
    per_matrix: usize,
    objects: usize,
}

impl Layout {
    /// In matrices, each of as many lines as fit into `matrix_bytes`.
    pub fn new(matrix_bytes: usize, lines: usize, objects: usize) -> Self {
        let shape = Shape::within(matrix_bytes).expect("at least a page");
        let per_matrix = shape.lines() / lines;
        Self { shape, stride: matrix_bytes as u64, lines, per_matrix, objects: objects.max(1) }
    }

    pub fn per_matrix(&self) -> usize {
        self.per_matrix
    }

    pub fn objects(&self) -> usize {
        self.objects
    }

    pub fn matrices(&self) -> usize {
        self.objects.div_ceil(self.per_matrix)
    }

    pub fn bytes(&self) -> u64 {
        self.matrices() as u64 * self.stride
    }

    pub fn matrix_of(&self, object: u32) -> usize {
        object as usize / self.per_matrix
    }

    /// The object of this number, the `nth` of its batch.
    pub fn member(&self, object: u32, nth: usize) -> Member {
        let per_matrix = self.per_matrix as u32;
        let (matrix, index) = (object / per_matrix, object % per_matrix);
        Member { matrix, first: index * self.lines as u32, nth: nth as u32 }
    }

    /// The object's lines, as its matrix numbers them.
    fn lines_of(&self, member: Member) -> Range<usize> {
        member.first as usize..member.first as usize + self.lines
    }

    fn at(&self, member: Member) -> PoolOffset {
        self.line_at(member.matrix as usize, member.first as usize)
    }

    pub fn objects_in(&self, matrix: usize) -> Range<usize> {
        matrix * self.per_matrix..((matrix + 1) * self.per_matrix).min(self.objects)
    }

    /// Lines of a matrix that hold objects: its first ones.
    fn members_in(&self, matrix: usize) -> usize {
        self.objects_in(matrix).len() * self.lines
    }

    fn line_at(&self, matrix: usize, line: usize) -> PoolOffset {
        PoolOffset(matrix as u64 * self.stride + (line * LINE_BYTES) as u64)
    }

    fn sums_at(&self, matrix: usize) -> PoolOffset {
        self.line_at(matrix, self.shape.lines())
    }

    fn spare_at(&self, matrix: usize) -> PoolOffset {
        self.line_at(matrix, self.shape.lines() + self.shape.checksum_lines())
    }

    /// Marks the checksums that cover an object, in their order on the medium.
    fn touch(&self, member: Member, touched: &mut [bool]) {
        let lines = self.lines_of(member);
        let (rows, columns) = (self.shape.rows(), self.shape.columns());
        touched[lines.start / rows..=(lines.end - 1) / rows].fill(true);
        // Rows from the first line's on, and from the top again.
        let first = lines.start % rows;
        let to_bottom = lines.len().min(rows - first);
        touched[columns + first..][..to_bottom].fill(true);
        touched[columns..][..(lines.len() - to_bottom).min(first)].fill(true);
    }
}

/// Memory for lines that begins with one of the processor's.
struct Aligned {
    words: Vec<u64>,
    lines: usize,
}

impl Aligned {
    fn new(lines: usize) -> Self {
        Self { words: vec![0; (lines + 1) * 8], lines }
    }

    fn lines(&self) -> &[Line] {
        let from = self.words.as_ptr().align_offset(LINE_BYTES).min(8);
        &self.words[from..].as_chunks().0[..self.lines]
    }

    fn lines_mut(&mut self) -> &mut [Line] {
        let from = self.words.as_ptr().align_offset(LINE_BYTES).min(8);
        &mut self.words[from..].as_chunks_mut().0[..self.lines]
    }
}

/// An object of a batch. Where it lies is known, as of an object that one has a pointer to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Member {
    pub matrix: u32,
    /// Its first line there.
    first: u32,
    /// Which of the batch it is.
    nth: u32,
}

/// Objects that share a matrix.
pub(super) type Group<'a> = &'a [Member];

/// Objects on a medium.
pub(super) struct Objects<M> {
    pub medium: M,
    layout: Layout,
    /// Counts how often objects were stored to: every content is new.
    pub version: u64,
    /// Lines flushed, or streamed, so far.
    pub flushed: u64,
    // Kept for their memory: of one matrix at most.
    data: Aligned,
    /// Checksums, then spare lines.
    sums: Aligned,
    touched: Vec<bool>,
    all: LineSet,
    /// The bytes that an update replaces, object by object of a batch.
    old: Aligned,
}

impl<M: Medium> Objects<M> {
    pub fn new(medium: M, layout: Layout, batch: usize) -> Self {
        let mut objects = Self {
            medium,
            layout,
            version: 0,
            flushed: 0,
            data: Aligned::new(0),
            sums: Aligned::new(0),
            touched: Vec::new(),
            all: LineSet::none(0),
            old: Aligned::new((batch + layout.per_matrix).max(1) * layout.lines),
        };
        objects.lay_out(layout);
        objects
    }

    /// From here on the objects lie like this; nothing is moved.
    pub fn lay_out(&mut self, layout: Layout) {
        let shape = layout.shape;
        self.layout = layout;
        self.data = Aligned::new(shape.lines());
        self.sums = Aligned::new(shape.checksum_lines() + shape.spare_lines());
        self.touched = vec![false; shape.checksum_lines() + shape.spare_lines()];
        self.all = LineSet::all(shape.lines());
    }

    /// Flushes the object's lines.
    pub fn flush_object(&mut self, member: Member) {
        let lines = self.layout.lines;
        self.medium.flush_range(self.layout.at(member), (lines * LINE_BYTES) as u64);
        self.flushed += lines as u64;
    }

    /// Makes, or brings up to date, the checksums of these groups of objects. `updates`: what was
    /// [kept](Self::keep_old) is in them.
    pub fn sum_groups(&mut self, groups: &[Group<'_>], updates: bool) {
        for (index, group) in groups.iter().enumerate() {
            if let Some(ahead) = groups.get(index + MATRICES_AHEAD) {
                self.fetch(ahead);
            }
            let matrix = group[0].matrix as usize;
            if self.layout.objects_in(matrix).len() == group.len() {
                // Every object of the matrix is new: its old checksums are of no use.
                self.make(matrix, true);
            } else {
                self.change(matrix, group, updates);
            }
        }
    }

    /// The least that has to be done for checksums of these groups: every line that goes into
    /// them is read, every line that holds them is written and flushed. Nothing is computed.
    pub fn touch_groups(&mut self, groups: &[Group<'_>]) {
        for (index, group) in groups.iter().enumerate() {
            if let Some(ahead) = groups.get(index + MATRICES_AHEAD) {
                self.fetch(ahead);
            }
            let matrix = group[0].matrix as usize;
            if self.layout.objects_in(matrix).len() == group.len() {
                self.make(matrix, false);
                continue;
            }
            self.mark_touched(group);
            for member in *group {
                self.load_object(*member);
                std::hint::black_box(self.data.lines());
            }
            self.load_touched(matrix);
            std::hint::black_box(self.sums.lines());
            self.store_touched(matrix);
        }
    }

    /// Makes the checksums of a matrix whose every object is new; they are streamed, since what
    /// was there before need not be fetched. Without `computes` only their lines are streamed.
    fn make(&mut self, matrix: usize, computes: bool) {
        let layout = self.layout;
        let members = layout.members_in(matrix);
        let (sums, spare) = self.sums.lines_mut().split_at_mut(layout.shape.checksum_lines());
        let mut sums = Sums::new(layout.shape, sums);
        let spare = bytemuck::cast_slice_mut(spare);
        let empty = if computes { Spare::empty } else { Spare::over };
        let mut spare = empty(layout.shape, spare);
        // Of a page the sums stay in registers. A larger matrix does not stay in the nearest
        // cache, so it is gone through once, column by column.
        let is_page = layout.shape == Shape::PAGE;
        let step = if is_page { layout.shape.lines() } else { layout.shape.rows() };
        if computes && !is_page {
            sums.clear();
        }
        for first in (0..members).step_by(step) {
            let lines = first..(first + step).min(members);
            let (data, behind) = self.data.lines_mut().split_at_mut(lines.len());
            let at = layout.line_at(matrix, first);
            self.medium.load(at, bytemuck::cast_slice_mut(data));
            if !computes {
                std::hint::black_box(&data);
                continue;
            }
            spare.insert_run(first, data);
            if is_page {
                // Lines behind the members are zeros, which add nothing.
                behind.fill([0; 8]);
                sums.create(self.data.lines(), &self.all);
            } else {
                sums.add_run(first, data);
            }
        }
        if computes {
            spare.seal(matrix as u64);
        }
        // Columns behind the members have none, and stay zeros.
        let columns = members.div_ceil(layout.shape.rows());
        let (consistency, rest) = self.sums.lines().split_at(layout.shape.columns());
        let at = layout.sums_at(matrix);
        self.medium.store_nt(at, bytemuck::cast_slice(&consistency[..columns]));
        let behind = at.plus((consistency.len() * LINE_BYTES) as u64);
        self.medium.store_nt(behind, bytemuck::cast_slice(rest));
        self.flushed += (columns + rest.len()) as u64;
    }

    /// Puts these objects of a matrix into its checksums, in place of their old content if there
    /// is any, and flushes the checksums that change.
    fn change(&mut self, matrix: usize, group: Group<'_>, updates: bool) {
        let layout = self.layout;
        let shape = layout.shape;
        self.mark_touched(group);
        self.load_touched(matrix);
        for &member in group {
            self.load_object(member);
            let lines = layout.lines_of(member);
            let content = &self.data.lines()[..layout.lines];
            let (sums, spare) = self.sums.lines_mut().split_at_mut(shape.checksum_lines());
            let mut sums = Sums::new(shape, sums);
            if updates {
                let old = &self.old.lines()[member.nth as usize * layout.lines..][..layout.lines];
                sums.update_run(lines.start, old, content);
            } else {
                sums.add_run(lines.start, content);
            }
            Spare::over(shape, bytemuck::cast_slice_mut(spare)).insert_run(lines.start, content);
        }
        let spare = &mut self.sums.lines_mut()[shape.checksum_lines()..];
        Spare::over(shape, bytemuck::cast_slice_mut(spare)).seal(matrix as u64);
        self.store_touched(matrix);
    }

    /// Marks the checksums of these objects, and all spare lines.
    fn mark_touched(&mut self, group: Group<'_>) {
        self.touched.fill(false);
        self.touched[self.layout.shape.checksum_lines()..].fill(true);
        for member in group {
            self.layout.touch(*member, &mut self.touched);
        }
    }

    fn load_touched(&mut self, matrix: usize) {
        let at = self.layout.sums_at(matrix);
        let sums = self.sums.lines_mut();
        for run in runs(&self.touched) {
            let from = at.plus((run.start * LINE_BYTES) as u64);
            self.medium.load(from, bytemuck::cast_slice_mut(&mut sums[run]));
        }
    }

    fn store_touched(&mut self, matrix: usize) {
        let at = self.layout.sums_at(matrix);
        for run in runs(&self.touched) {
            let at = at.plus((run.start * LINE_BYTES) as u64);
            let lines = &self.sums.lines()[run.clone()];
            self.medium.store(at, bytemuck::cast_slice(lines));
            self.medium.flush_range(at, (run.len() * LINE_BYTES) as u64);
            self.flushed += run.len() as u64;
        }
    }

    /// Fetches what a group's checksums are about to change. What is streamed is not fetched.
    fn fetch(&self, group: Group<'_>) {
        let layout = &self.layout;
        let matrix = group[0].matrix as usize;
        if layout.objects_in(matrix).len() == group.len() {
            return;
        }
        let (at, columns) = (layout.sums_at(matrix).line().0, layout.shape.columns());
        for member in group {
            let lines = layout.lines_of(*member);
            let rows = layout.shape.rows();
            for column in lines.start / rows..=(lines.end - 1) / rows {
                self.medium.prefetch_write(LineAddr(at + column as u64));
            }
            for line in lines.take(rows) {
                self.medium.prefetch_write(LineAddr(at + (columns + line % rows) as u64));
            }
        }
        let spare = layout.spare_at(matrix).line().0;
        (0..layout.shape.spare_lines() as u64)
            .for_each(|line| self.medium.prefetch_write(LineAddr(spare + line)));
    }

    fn load_object(&mut self, member: Member) {
        let data = &mut self.data.lines_mut()[..self.layout.lines];
        self.medium.load(self.layout.at(member), bytemuck::cast_slice_mut(data));
    }

    /// Keeps what an object of a batch holds, for an update.
    pub fn keep_old(&mut self, member: Member) {
        self.load_object(member);
        let count = self.layout.lines;
        let (old, data) = (self.old.lines_mut(), self.data.lines());
        old[member.nth as usize * count..][..count].copy_from_slice(&data[..count]);
    }

    /// Gives the object a content that it never had before.
    pub fn store_object(&self, member: Member) {
        let first = self.layout.at(member).line();
        for line in (first.0..first.0 + self.layout.lines as u64).map(LineAddr) {
            let number = line.0 + (self.version << 32);
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let content = std::array::from_fn(|lane| mixed.rotate_left(8 * lane as u32));
            self.medium.store(line.start(), &line_to_bytes(&content));
        }
    }

    /// No matrix has anything in its checksums.
    pub fn forget_all(&mut self) {
        let shape = self.layout.shape;
        for matrix in 0..self.layout.matrices() {
            let (sums, spare) = self.sums.lines_mut().split_at_mut(shape.checksum_lines());
            sums.fill([0; 8]);
            Spare::empty(shape, bytemuck::cast_slice_mut(spare)).seal(matrix as u64);
            let lines = bytemuck::cast_slice(self.sums.lines());
            self.medium.store_nt(self.layout.sums_at(matrix), lines);
        }
        self.medium.fence();
    }

    /// Every matrix has all its objects in its checksums.
    pub fn create_all(&mut self) {
        let flushed = self.flushed;
        (0..self.layout.matrices()).for_each(|matrix| self.make(matrix, true));
        self.medium.fence();
        self.flushed = flushed;
    }

    /// Every matrix's checksums and CRCs agree with its data.
    ///
    /// # Panics
    /// When they do not.
    pub fn verify(&self) {
        let layout = &self.layout;
        let shape = layout.shape;
        let read = |at: PoolOffset, lines: usize| {
            let mut content: Vec<Line> = vec![[0; 8]; lines];
            self.medium.load(at, bytemuck::cast_slice_mut(&mut content));
            content
        };
        for matrix in 0..layout.matrices() {
            let data = read(layout.line_at(matrix, 0), shape.lines());
            let sums = read(layout.sums_at(matrix), shape.checksum_lines());
            let spare = read(layout.spare_at(matrix), shape.spare_lines());
            let spare = Spare::parse(shape, bytemuck::cast_slice(&spare), matrix as u64)
                .unwrap_or_else(|flaw| panic!("matrix {matrix}: {flaw}"));
            let members = spare.members();
            let right = layout.members_in(matrix);
            assert_eq!(members.len(), right, "matrix {matrix} has other members");
            let decoder = Matrix::new(&data, Sums::new(shape, &sums[..]), &members);
            let outcome = decoder.with_crcs(spare.crcs()).decode(Locate::Crcs);
            assert_eq!(outcome, Outcome::Clean, "matrix {matrix}");
        }
    }
}

/// The runs of `true`.
fn runs(marks: &[bool]) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = at + marks[at..].iter().position(|mark| *mark)?;
        at = from + marks[from..].iter().take_while(|mark| **mark).count();
        Some(from..at)
    })
}
