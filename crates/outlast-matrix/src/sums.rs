//! The checksums of one matrix.

use crate::{Line, LineSet, Shape, Vector};

/// The consistency and correlation checksums of one matrix, in the order of the medium, over
/// memory of any kind: an array, a vector, a borrowed slice.
///
/// Consistency checksum c is the sum of the member lines of column c, correlation checksum r that
/// of row r. Lines that are no members count as zeros.
///
/// ```
/// use outlast_matrix::{Line, LineSet, Shape, Sums};
///
/// let mut data: [Line; 49] = std::array::from_fn(|at| [at as u64; 8]);
/// let mut sums = Sums::new(Shape::PAGE, [[0; 8]; 14]);
/// sums.create(&data, &LineSet::all(49));
/// assert_eq!(sums.consistency()[1], [7 + 8 + 9 + 10 + 11 + 12 + 13; 8]);
///
/// let old = std::mem::replace(&mut data[8], [100; 8]);
/// sums.update(8, &old, &data[8]); // touches one line of each kind
/// assert_eq!(sums.correlation()[1], [1 + 100 + 15 + 22 + 29 + 36 + 43; 8]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Sums<L> {
    shape: Shape,
    vector: Vector,
    lines: L,
}

impl<L: AsRef<[Line]>> Sums<L> {
    /// The checksums that stand in `lines`: first the consistency, then the correlation ones.
    ///
    /// # Panics
    /// When `lines` are not as many as the shape has checksums.
    #[inline]
    pub fn new(shape: Shape, lines: L) -> Self {
        let count = lines.as_ref().len();
        assert_eq!(count, shape.checksum_lines(), "lines are not the checksums of {shape:?}");
        Self { shape, vector: Vector::best(), lines }
    }

    /// The same checksums, computed with other vectors from now on.
    #[must_use]
    pub fn with_vector(self, vector: Vector) -> Self {
        Self { vector, ..self }
    }

    /// The shape of the matrix.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// All checksums, in the order of the medium.
    #[inline]
    pub fn lines(&self) -> &[Line] {
        self.lines.as_ref()
    }

    /// One checksum for each column.
    #[inline]
    pub fn consistency(&self) -> &[Line] {
        &self.lines()[..self.shape.columns()]
    }

    /// One checksum for each row.
    #[inline]
    pub fn correlation(&self) -> &[Line] {
        &self.lines()[self.shape.columns()..]
    }

    /// The same checksums, borrowed.
    #[inline]
    pub fn borrowed(&self) -> Sums<&[Line]> {
        Sums { shape: self.shape, vector: self.vector, lines: self.lines() }
    }

    /// Gives the lines back.
    #[inline]
    pub fn into_inner(self) -> L {
        self.lines
    }
}

impl<L: AsRef<[Line]> + AsMut<[Line]>> Sums<L> {
    /// Sums the members among the lines of `data`, whatever the checksums were before.
    ///
    /// # Panics
    /// When `data` or `members` is not of this shape.
    #[inline]
    pub fn create(&mut self, data: &[Line], members: &LineSet) {
        assert_eq!(data.len(), self.shape.lines(), "data is not of {:?}", self.shape);
        assert_eq!(
            members.matrix_lines(),
            self.shape.lines(),
            "members are not of {:?}",
            self.shape
        );
        let (consistency, correlation) = self.lines.as_mut().split_at_mut(self.shape.columns());
        self.vector.create(data, members, consistency, correlation);
    }

    /// As of a matrix without members: all zeros.
    pub fn clear(&mut self) {
        self.lines.as_mut().fill([0; 8]);
    }

    /// Puts the new content of a member line in place of the old, in the two checksums that cover
    /// it. `old` is what the checksums contain; after a crash that need not be what the line
    /// holds.
    ///
    /// # Panics
    /// When the matrix has no line of this number.
    #[inline]
    pub fn update(&mut self, line: usize, old: &Line, new: &Line) {
        assert!(line < self.shape.lines(), "line {line} of {:?}", self.shape);
        let place = self.shape.place(line);
        let (consistency, correlation) = self.lines.as_mut().split_at_mut(self.shape.columns());
        let sums = (&mut consistency[place.column], &mut correlation[place.row]);
        self.vector.update(sums.0, sums.1, old, new);
    }

    /// As [`update`](Self::update), for consecutive lines from number `first` on, which takes less
    /// than doing it one by one.
    ///
    /// # Panics
    /// When the matrix does not have all these lines, or `old` and `new` differ in number.
    pub fn update_run(&mut self, first: usize, old: &[Line], new: &[Line]) {
        assert_eq!(old.len(), new.len(), "a run has as many lines before as after");
        self.change_run(first, old, new);
    }

    /// Adds consecutive lines from number `first` on, which become members.
    ///
    /// # Panics
    /// When the matrix does not have all these lines.
    pub fn add_run(&mut self, first: usize, content: &[Line]) {
        self.change_run(first, &[], content);
    }

    fn change_run(&mut self, first: usize, old: &[Line], new: &[Line]) {
        let end = first.checked_add(new.len());
        assert!(
            end.is_some_and(|end| end <= self.shape.lines()),
            "{} lines from {first} on of {:?}",
            new.len(),
            self.shape
        );
        let (consistency, correlation) = self.lines.as_mut().split_at_mut(self.shape.columns());
        self.vector.update_run(first, old, new, consistency, correlation);
    }

    /// Adds a line that becomes a member.
    ///
    /// # Panics
    /// When the matrix has no line of this number.
    #[inline]
    pub fn add(&mut self, line: usize, content: &Line) {
        self.update(line, &[0; 8], content);
    }

    /// Takes out a line that is a member no more. `content` is what the checksums contain.
    ///
    /// # Panics
    /// When the matrix has no line of this number.
    #[inline]
    pub fn remove(&mut self, line: usize, content: &Line) {
        self.update(line, content, &[0; 8]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cases() -> ProptestConfig {
        let cases = if cfg!(miri) { 3 } else { 128 };
        ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
    }

    fn created(shape: Shape, data: &[Line], members: &LineSet) -> Vec<Line> {
        let mut sums = Sums::new(shape, vec![[7; 8]; shape.checksum_lines()]);
        sums.create(data, members);
        sums.into_inner()
    }

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn increments_lead_where_creation_does(
            (rows, columns) in (1usize..9, 1usize..9),
            steps in proptest::collection::vec(any::<(prop::sample::Index, Option<Line>)>(), 0..40),
        ) {
            let shape = Shape::new(rows, columns).expect("small sides");
            let mut data = vec![[0; 8]; shape.lines()];
            let mut members = LineSet::none(shape.lines());
            for vector in Vector::all() {
                let before = created(shape, &data, &members);
                let mut sums = Sums::new(shape, before).with_vector(vector);
                for (at, content) in &steps {
                    let line = at.index(shape.lines());
                    match (members.contains(line), content) {
                        (true, Some(new)) => sums.update(line, &data[line], new),
                        (true, None) => sums.remove(line, &data[line]),
                        (false, Some(new)) => sums.add(line, new),
                        (false, None) => {}
                    }
                    match content {
                        Some(new) => {
                            data[line] = *new;
                            members.insert(line);
                        }
                        None => members.remove(line),
                    }
                    prop_assert_eq!(sums.lines(), &created(shape, &data, &members)[..]);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "line 49 of Shape")]
    fn a_line_that_is_not_there_is_refused() {
        Sums::new(Shape::PAGE, [[0; 8]; 14]).update(49, &[0; 8], &[0; 8]);
    }

    #[test]
    #[should_panic(expected = "2 lines from 48 on")]
    fn a_run_that_leaves_the_matrix_is_refused() {
        Sums::new(Shape::PAGE, [[0; 8]; 14]).add_run(48, &[[1; 8]; 2]);
    }

    #[test]
    #[should_panic(expected = "as many lines before as after")]
    fn a_run_with_fewer_old_lines_is_refused() {
        Sums::new(Shape::PAGE, [[0; 8]; 14]).update_run(0, &[[1; 8]; 1], &[[1; 8]; 2]);
    }

    #[test]
    #[should_panic(expected = "are not the checksums")]
    fn too_few_lines_are_no_checksums() {
        let _ = Sums::new(Shape::PAGE, [[0; 8]; 13]);
    }
}
