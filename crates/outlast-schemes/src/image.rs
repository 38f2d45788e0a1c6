//! What a recovery reads: persistent memory as a crash left it.

use std::cell::RefCell;

use outlast_sim::LineBytes;
use outlast_trace::LineAddr;
use rustc_hash::FxHashSet;

use crate::patch::RecoveryError;

/// The lines that a recovery has read, in the order in which it read them first.
#[derive(Clone, Debug, Default)]
pub struct LinesRead {
    lines: RefCell<(Vec<LineAddr>, FxHashSet<LineAddr>)>,
}

impl LinesRead {
    /// The lines.
    pub fn into_lines(self) -> Vec<LineAddr> {
        self.lines.into_inner().0
    }

    fn note(&self, line: LineAddr) {
        let (order, seen) = &mut *self.lines.borrow_mut();
        if seen.insert(line) {
            order.push(line);
        }
    }
}

/// All of a scheme's memory before a run: these bytes, and zeroes up to its `lines`. A machine takes
/// the bytes alone, since what it was not given is zero.
pub fn whole_image(bytes: &[u8], lines: u64) -> Vec<u8> {
    // The host gives zeroed pages only when they are touched.
    let mut image = vec![0; bytes.len().max(64 * lines as usize)];
    image[..bytes.len()].copy_from_slice(bytes);
    image
}

/// An image of persistent memory, read line by line.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    bytes: &'a [u8],
    read: Option<&'a LinesRead>,
}

impl<'a> Image<'a> {
    /// These bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, read: None }
    }

    /// These bytes; what is read of them is noted.
    pub fn noting(bytes: &'a [u8], read: &'a LinesRead) -> Self {
        Self { bytes, read: Some(read) }
    }

    /// Whole lines that it has.
    pub fn lines(self) -> u64 {
        self.bytes.len() as u64 / 64
    }

    /// Bytes that it has.
    pub fn len(self) -> u64 {
        self.bytes.len() as u64
    }

    /// Whether it has none.
    pub fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// A line.
    ///
    /// # Panics
    /// When the image ends before it does.
    pub fn line(self, line: LineAddr) -> &'a LineBytes {
        if let Some(read) = self.read {
            read.note(line);
        }
        self.bytes[line.start().0 as usize..].first_chunk().expect("the image has the line")
    }

    /// `lines` lines from this one on.
    ///
    /// # Panics
    /// When the image ends before they do.
    pub fn lines_from(self, first: LineAddr, lines: u64) -> &'a [u8] {
        if let Some(read) = self.read {
            (0..lines).for_each(|n| read.note(first.plus(n)));
        }
        &self.bytes[first.start().0 as usize..][..64 * lines as usize]
    }

    /// Word `number` of a line.
    ///
    /// # Panics
    /// As [`line`](Self::line).
    pub fn word(self, line: LineAddr, number: u64) -> u64 {
        let at = 8 * number as usize;
        let word = self.line(line)[at..at + 8].try_into().expect("eight bytes were taken");
        u64::from_le_bytes(word)
    }

    /// The same where the image may end early: zeroes follow it.
    pub fn word_or_zero(self, line: LineAddr, number: u64) -> u64 {
        if line.0 < self.lines() { self.word(line, number) } else { 0 }
    }

    /// Whether the image has these lines.
    ///
    /// # Errors
    /// [`RecoveryError::Short`].
    pub fn check_length(self, base: LineAddr, lines: u64) -> Result<(), RecoveryError> {
        let end = base.plus(lines).start();
        if end.0 <= self.len() {
            return Ok(());
        }
        Err(RecoveryError::Short { end, bytes: self.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_noted_once_in_its_order() {
        let bytes: Vec<u8> = (0..=255).collect();
        let read = LinesRead::default();
        let image = Image::noting(&bytes, &read);
        assert_eq!(image.word(LineAddr(3), 1).to_le_bytes()[0], 200);
        assert_eq!(image.line(LineAddr(0))[5], 5);
        assert_eq!(image.word(LineAddr(3), 0).to_le_bytes()[0], 192);
        assert_eq!(image.lines(), 4);
        assert_eq!(
            (image.word_or_zero(LineAddr(0), 0), image.word_or_zero(LineAddr(4), 0)),
            (image.word(LineAddr(0), 0), 0)
        );
        assert!(image.check_length(LineAddr(2), 3).is_err());
        assert_eq!(read.into_lines(), [LineAddr(3), LineAddr(0)]);
    }
}
