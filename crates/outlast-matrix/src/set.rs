//! Sets of lines of one matrix.

/// A set of lines, by their numbers. Up to 64 lines it needs no heap.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct LineSet {
    lines: usize,
    len: usize,
    first: u64,
    rest: Vec<u64>,
}

impl LineSet {
    /// No line of a matrix with `lines` lines.
    pub fn none(lines: usize) -> Self {
        Self { lines, len: 0, first: 0, rest: vec![0; lines.div_ceil(64).saturating_sub(1)] }
    }

    /// All lines of a matrix with `lines` lines.
    pub fn all(lines: usize) -> Self {
        let mut set = Self::none(lines);
        (0..lines).for_each(|line| set.insert(line));
        set
    }

    /// These lines of a matrix with `lines` lines.
    ///
    /// # Panics
    /// When one of them is not in the matrix.
    pub fn of(lines: usize, members: impl IntoIterator<Item = usize>) -> Self {
        let mut set = Self::none(lines);
        members.into_iter().for_each(|line| set.insert(line));
        set
    }

    /// How many lines the matrix has.
    #[inline]
    pub fn matrix_lines(&self) -> usize {
        self.lines
    }

    /// Whether `line` is in the set.
    #[inline]
    pub fn contains(&self, line: usize) -> bool {
        line < self.lines && self.word(line / 64) >> (line % 64) & 1 == 1
    }

    /// Adds `line`.
    ///
    /// # Panics
    /// When it is not in the matrix.
    pub fn insert(&mut self, line: usize) {
        assert!(line < self.lines, "line {line} of a matrix with {} lines", self.lines);
        if !self.contains(line) {
            *self.word_mut(line / 64) |= 1 << (line % 64);
            self.len += 1;
        }
    }

    /// Takes `line` out, if it is in.
    pub fn remove(&mut self, line: usize) {
        if self.contains(line) {
            *self.word_mut(line / 64) &= !(1 << (line % 64));
            self.len -= 1;
        }
    }

    /// How many lines are in the set.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no line is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether every line of the matrix is in the set.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == self.lines
    }

    /// The lines of the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.lines).filter(|line| self.contains(*line))
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        if at == 0 { self.first } else { self.rest[at - 1] }
    }

    fn word_mut(&mut self, at: usize) -> &mut u64 {
        if at == 0 { &mut self.first } else { &mut self.rest[at - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        for lines in [1, 49, 64, 65, 130, 300] {
            let mut set = LineSet::none(lines);
            assert!(set.is_empty() && set.matrix_lines() == lines);
            set.insert(lines - 1);
            set.insert(0);
            set.insert(lines / 2);
            let mut right = vec![0, lines / 2, lines - 1];
            right.dedup();
            assert_eq!(set.iter().collect::<Vec<_>>(), right);
            assert_eq!(set.len(), right.len());
            set.remove(0);
            assert!(!set.contains(0) && !set.contains(lines));
            assert!(LineSet::all(lines).is_full());
            assert_eq!(LineSet::all(lines), LineSet::of(lines, 0..lines));
        }
    }

    #[test]
    #[should_panic(expected = "line 49 of a matrix with 49 lines")]
    fn a_line_outside_of_the_matrix_is_refused() {
        LineSet::none(49).insert(49);
    }
}
