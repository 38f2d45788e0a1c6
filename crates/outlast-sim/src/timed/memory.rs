//! The bytes of all memory, as a program sees them: sparse, in chunks that appear when written.

use crate::cache::LineBytes;
use outlast_trace::LineAddr;

/// Lines of a chunk: 1 MiB.
const CHUNK_LINES: u64 = 1 << 14;

/// Main memory. What was never written is zero, or comes from the base image.
#[derive(Debug, Default)]
pub(crate) struct MainMemory {
    chunks: Vec<Option<Box<[LineBytes]>>>,
}

impl MainMemory {
    /// Memory that starts with these bytes.
    pub(crate) fn new(base: &[u8]) -> Self {
        let mut memory = Self::default();
        for (number, piece) in base.chunks(64).enumerate() {
            if piece.iter().any(|&byte| byte != 0) {
                let mut data = [0; 64];
                data[..piece.len()].copy_from_slice(piece);
                memory.write(LineAddr(number as u64), u8::MAX, &data);
            }
        }
        memory
    }

    #[inline]
    pub(crate) fn read(&self, line: LineAddr) -> LineBytes {
        let (chunk, at) = split(line);
        match self.chunks.get(chunk) {
            Some(Some(lines)) => lines[at],
            _ => [0; 64],
        }
    }

    /// Replaces the words in `words`.
    #[inline]
    pub(crate) fn write(&mut self, line: LineAddr, words: u8, data: &LineBytes) {
        let (chunk, at) = split(line);
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        let lines = self.chunks[chunk]
            .get_or_insert_with(|| vec![[0; 64]; CHUNK_LINES as usize].into_boxed_slice());
        if words == u8::MAX {
            lines[at] = *data;
            return;
        }
        let (old, new) = (lines[at].as_chunks_mut::<8>().0, data.as_chunks::<8>().0);
        for word in (0..8).filter(|word| words >> word & 1 == 1) {
            old[word] = new[word];
        }
    }
}

fn split(line: LineAddr) -> (usize, usize) {
    ((line.0 / CHUNK_LINES) as usize, (line.0 % CHUNK_LINES) as usize)
}
