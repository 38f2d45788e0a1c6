//! A matrix that was written rightly, to be read wrongly.
#![allow(dead_code, reason = "each test uses a part of it")]

use outlast_matrix::{Line, LineSet, Locate, Matrix, Outcome, Repair, Shape, Sums, crc8};
use outlast_trace::Random;

/// Random lines, and sets of them.
pub struct Rng(Random);

impl Rng {
    pub fn new(state: u64) -> Self {
        Self(Random::from_state(state))
    }

    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn line(&mut self) -> Line {
        std::array::from_fn(|_| self.next())
    }

    /// `count` different numbers below `bound`.
    pub fn choose(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..bound).collect();
        for at in 0..count {
            let other = at + self.below(bound - at);
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }
}

/// What should be on the medium.
pub struct Written {
    pub shape: Shape,
    pub data: Vec<Line>,
    pub members: LineSet,
    pub sums: Sums<Vec<Line>>,
    pub crcs: Vec<u8>,
}

impl Written {
    /// Random contents, all lines members.
    pub fn random(shape: Shape, rng: &mut Rng) -> Self {
        Self::with_members(shape, LineSet::all(shape.lines()), rng)
    }

    pub fn with_members(shape: Shape, members: LineSet, rng: &mut Rng) -> Self {
        let data: Vec<Line> = (0..shape.lines()).map(|_| rng.line()).collect();
        let mut sums = Sums::new(shape, vec![[0; 8]; shape.checksum_lines()]);
        sums.create(&data, &members);
        let crcs = data.iter().map(crc8).collect();
        Self { shape, data, members, sums, crcs }
    }

    /// What is read when these lines lack so much.
    pub fn stale(&self, errors: &[(usize, Line)]) -> Vec<Line> {
        let mut data = self.data.clone();
        for (line, error) in errors {
            data[*line] = minus(&data[*line], error);
        }
        data
    }

    /// What is read when these lines have older, random contents.
    pub fn stale_at(&self, lines: &[usize], rng: &mut Rng) -> Vec<Line> {
        let mut data = self.data.clone();
        lines.iter().for_each(|line| data[*line] = rng.line());
        data
    }

    pub fn decode(&self, read: &[Line], locate: Locate<'_>) -> Outcome {
        Matrix::new(read, self.sums.borrowed(), &self.members).decode(locate)
    }

    pub fn decode_with_crcs(&self, read: &[Line], locate: Locate<'_>) -> Outcome {
        let matrix = Matrix::new(read, self.sums.borrowed(), &self.members);
        matrix.with_crcs(&self.crcs).decode(locate)
    }

    /// Whether the outcome makes of `read` what was written.
    pub fn is_right(&self, read: &[Line], outcome: &Outcome) -> bool {
        match outcome {
            Outcome::Clean => self.agrees(read),
            Outcome::Corrected(repairs) => self.agrees(&repaired(read, repairs)),
            _ => false,
        }
    }

    fn agrees(&self, data: &[Line]) -> bool {
        self.members.iter().all(|line| data[line] == self.data[line])
    }

    /// These lines as a set.
    pub fn set(&self, lines: &[usize]) -> LineSet {
        LineSet::of(self.shape.lines(), lines.iter().copied())
    }
}

pub fn minus(line: &Line, error: &Line) -> Line {
    std::array::from_fn(|lane| line[lane].wrapping_sub(error[lane]))
}

pub fn repaired(read: &[Line], repairs: &[Repair]) -> Vec<Line> {
    let mut data = read.to_vec();
    repairs.iter().for_each(|repair| data[repair.line] = repair.content);
    data
}

/// Whether the lines are a forest in the graph of rows and columns, by union and find.
pub fn is_forest(shape: Shape, lines: &[usize]) -> bool {
    let mut above = [0; 512];
    (0..shape.checksum_lines()).for_each(|vertex| above[vertex] = vertex);
    fn root(above: &mut [usize], mut vertex: usize) -> usize {
        while above[vertex] != vertex {
            above[vertex] = above[above[vertex]];
            vertex = above[vertex];
        }
        vertex
    }
    lines.iter().all(|line| {
        let (row, column) = (line % shape.rows(), shape.rows() + line / shape.rows());
        let (row, column) = (root(&mut above, row), root(&mut above, column));
        above[row] = column;
        row != column
    })
}

/// Calls `visit` with every set of `size` numbers below `bound`.
pub fn every_set(size: usize, bound: usize, mut visit: impl FnMut(&[usize])) {
    let mut set: Vec<usize> = (0..size).collect();
    loop {
        visit(&set);
        let Some(at) = (0..size).rev().find(|at| set[*at] < bound - size + at) else {
            return;
        };
        set[at] += 1;
        for next in at + 1..size {
            set[next] = set[next - 1] + 1;
        }
    }
}
