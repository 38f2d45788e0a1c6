//! The bytes of all memory: a base image, and over it pages that appear when they are written.

use std::ops::Deref;
use std::sync::Arc;

use crate::cache::LineBytes;
use outlast_trace::LineAddr;

/// Lines of a page.
const PAGE_LINES: u64 = 64;
/// Pages of a chunk, 1 MiB.
const PAGES: u64 = 256;

type Page = [LineBytes; PAGE_LINES as usize];
type Chunk = [Option<Box<Page>>; PAGES as usize];

/// The initial contents of memory. Behind its end there are zeroes.
#[derive(Clone, Debug)]
pub(crate) enum Base<'b> {
    /// An image that outlives the memory.
    Borrowed(&'b [u8]),
    /// One that several memories have in common.
    Shared(Arc<Vec<u8>>),
}

impl Deref for Base<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Base<'_> {
    fn line(&self, line: LineAddr) -> LineBytes {
        let mut bytes = [0; 64];
        if let Some(tail) = self.get(line.start().0 as usize..) {
            let there = tail.len().min(64);
            bytes[..there].copy_from_slice(&tail[..there]);
        }
        bytes
    }
}

/// Memory. It costs what is written of it, however large its base is.
#[derive(Clone, Debug)]
pub(crate) struct SparseMemory<'b> {
    base: Base<'b>,
    chunks: Vec<Option<Box<Chunk>>>,
}

impl<'b> SparseMemory<'b> {
    /// Memory that starts with these bytes.
    pub(crate) fn new(base: Base<'b>) -> Self {
        Self { base, chunks: Vec::new() }
    }

    #[inline]
    pub(crate) fn read(&self, line: LineAddr) -> LineBytes {
        let (chunk, page, at) = split(line);
        match self.chunks.get(chunk).and_then(|chunk| chunk.as_ref()?[page].as_ref()) {
            Some(page) => page[at],
            None => self.base.line(line),
        }
    }

    /// A line, to be written.
    #[inline]
    pub(crate) fn line(&mut self, line: LineAddr) -> &mut LineBytes {
        let (chunk, page, at) = split(line);
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let Self { base, chunks } = self;
        let chunk = chunks[chunk].get_or_insert_with(|| Box::new([const { None }; _]));
        &mut chunk[page].get_or_insert_with(|| copied(base, line.0 - at as u64))[at]
    }

    /// Replaces the words in `words`.
    #[inline]
    pub(crate) fn write(&mut self, line: LineAddr, words: u8, data: &LineBytes) {
        let line = self.line(line);
        if words == u8::MAX {
            *line = *data;
            return;
        }
        let (old, new) = (line.as_chunks_mut::<8>().0, data.as_chunks::<8>().0);
        for word in (0..8).filter(|word| words >> word & 1 == 1) {
            old[word] = new[word];
        }
    }
}

/// The page of the base that begins with this line.
#[cold]
fn copied(base: &Base<'_>, first: u64) -> Box<Page> {
    let mut page = Box::new([[0; 64]; _]);
    if let Some(tail) = base.get(LineAddr(first).start().0 as usize..) {
        let bytes = page.as_flattened_mut();
        let there = tail.len().min(bytes.len());
        bytes[..there].copy_from_slice(&tail[..there]);
    }
    page
}

/// A line's chunk, its page in it, and its place there.
#[inline]
fn split(line: LineAddr) -> (usize, usize, usize) {
    let page = line.0 / PAGE_LINES;
    ((page / PAGES) as usize, (page % PAGES) as usize, (line.0 % PAGE_LINES) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a chunk.
    const CHUNK: u64 = PAGES * PAGE_LINES;

    #[test]
    #[cfg_attr(miri, ignore = "megabytes, line by line, take minutes there")]
    fn memory_is_its_base_and_zeroes_until_written() {
        let bytes: Vec<u8> = (0..64 * (CHUNK + 70) + 9).map(|at| (at / 3) as u8).collect();
        let mut memory = SparseMemory::new(Base::Borrowed(&bytes));
        let mut expected = bytes.clone();
        expected.resize(64 * (3 * CHUNK) as usize, 0);
        let is_as_expected = |memory: &SparseMemory<'_>, expected: &[u8]| {
            expected.as_chunks().0.iter().enumerate().for_each(|(number, line)| {
                assert_eq!(memory.read(LineAddr(number as u64)), *line, "line {number}");
            });
        };
        is_as_expected(&memory, &expected);
        // In the base, at its ragged end, behind it in the same page, and far behind it.
        for (line, words) in [(3, 0b10), (CHUNK + 70, 0b1), (CHUNK + 75, 0xff), (3 * CHUNK - 1, 4)]
        {
            memory.write(LineAddr(line), words, &[7; 64]);
            for word in (0..8).filter(|word| words >> word & 1 == 1) {
                expected[(64 * line + 8 * word) as usize..][..8].fill(7);
            }
        }
        is_as_expected(&memory, &expected);
        assert_eq!(
            memory.chunks.iter().flatten().flat_map(|chunk| &chunk[..]).flatten().count(),
            3
        );
    }
}
