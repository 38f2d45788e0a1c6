//! The words of a command.

use std::ops::Index;

/// A command's words: slices of the buffer that it arrived in.
#[derive(Clone, Copy)]
pub struct Args<'a> {
    bytes: &'a [u8],
    ranges: &'a [(usize, usize)],
}

impl<'a> Args<'a> {
    /// Words at those places of a buffer: first byte and end.
    pub(crate) fn new(bytes: &'a [u8], ranges: &'a [(usize, usize)]) -> Self {
        Self { bytes, ranges }
    }

    /// How many there are, the command's name included.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// A word, if there is one of that number.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        let (start, end) = *self.ranges.get(index)?;
        self.bytes.get(start..end)
    }

    /// A word that the command's arity promises; the empty one otherwise.
    pub fn at(&self, index: usize) -> &'a [u8] {
        self.get(index).unwrap_or_default()
    }

    /// The words from that number on.
    pub fn from(self, index: usize) -> Self {
        Self { ranges: self.ranges.get(index..).unwrap_or_default(), ..self }
    }

    /// The words before that number.
    pub fn to(self, index: usize) -> Self {
        Self { ranges: self.ranges.get(..index).unwrap_or_default(), ..self }
    }

    /// The first word alone.
    pub fn first(self) -> Self {
        self.to(1)
    }

    /// The words one after the other.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + 'a {
        self.ranges.iter().map(move |(start, end)| &self.bytes[*start..*end])
    }

    /// A copy that owns its bytes.
    pub fn to_owned(self) -> OwnedArgs {
        let mut owned = OwnedArgs::default();
        self.iter().for_each(|word| owned.push(word));
        owned
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    fn index(&self, index: usize) -> &[u8] {
        self.at(index)
    }
}

/// A command's words with the bytes that they lie in.
#[derive(Clone, Default, Debug)]
pub struct OwnedArgs {
    bytes: Vec<u8>,
    ranges: Vec<(usize, usize)>,
}

impl OwnedArgs {
    /// One word more.
    pub fn push(&mut self, word: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(word);
        self.ranges.push((start, self.bytes.len()));
    }

    /// No words.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ranges.clear();
    }

    /// A view of it.
    pub fn view(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.ranges)
    }
}

impl<W: AsRef<[u8]>> FromIterator<W> for OwnedArgs {
    fn from_iter<I: IntoIterator<Item = W>>(words: I) -> Self {
        let mut owned = Self::default();
        words.into_iter().for_each(|word| owned.push(word.as_ref()));
        owned
    }
}
