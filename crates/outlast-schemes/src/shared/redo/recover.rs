//! Recovery: copies that a commit covers are put home, and then cover nothing.

use super::Fault;
use super::layout::{Commit, Entry, Layout, WORDS};
use crate::image::Image;
use crate::patch::{Patch, RecoveryError, Restored};

impl Layout {
    /// The epoch at whose end an image is that recovery has left.
    pub(super) fn epoch(self, image: Image<'_>) -> u64 {
        Commit::from_word(image.word_or_zero(self.record(), 0)).epoch
    }

    /// What recovery writes: copies home, then the record without entries. All of it may be
    /// repeated.
    ///
    /// # Errors
    /// When the image ends too soon, or an entry names what cannot be.
    pub(super) fn recover(
        self,
        image: Image<'_>,
        fault: Option<Fault>,
    ) -> Result<Vec<Patch>, RecoveryError> {
        image.check_length(self.record(), self.end().0 - self.record().0)?;
        let commit = Commit::from_word(image.word(self.record(), 0));
        if commit.entries == 0 {
            return Ok(Vec::new()); // Copies, if there are any, are of an epoch that never ended.
        }
        if commit.entries > self.entries() {
            return Err(RecoveryError::Damaged { line: self.record() });
        }
        let mut restored = Restored::new(image);
        for number in 0..commit.entries {
            let at = self.directory(number / WORDS);
            let entry = Entry::from_word(image.word(at, number % WORDS));
            if !self.has(entry) {
                return Err(RecoveryError::Damaged { line: at });
            }
            let (copy, home) = (self.copy(entry), entry.home_line());
            for line in 0..entry.lines() {
                restored.put(home.plus(line), image.line(copy.plus(line)));
            }
        }
        let mut patches = restored.into_patches();
        let word = Commit { entries: 0, ..commit }.to_word().to_le_bytes();
        let cleared = Patch { at: self.record().start(), word };
        match fault {
            Some(Fault::ClearsFirst) => patches.insert(0, cleared),
            _ => patches.push(cleared),
        }
        Ok(patches)
    }
}

#[cfg(test)]
mod tests {
    use outlast_trace::LineAddr;

    use super::*;
    use crate::patch::apply;

    /// A line of 64 bytes is put home from its copy, and a page from its own.
    #[test]
    fn what_is_covered_goes_home_and_nothing_else() {
        let layout = Layout::behind(LineAddr(128), 2, 1);
        let mut image = vec![0; (64 * layout.end().0) as usize];
        let fill = |image: &mut Vec<u8>, line: LineAddr, lines: u64, byte: u8| {
            image[line.start().0 as usize..][..64 * lines as usize].fill(byte);
        };
        let put = |image: &mut Vec<u8>, at: usize, word: u64| {
            image[at..at + 8].copy_from_slice(&word.to_le_bytes());
        };
        fill(&mut image, layout.line_slot(1), 1, 7);
        fill(&mut image, layout.page_slot(0), 64, 8);
        let directory = layout.directory(0).start().0 as usize;
        put(&mut image, directory, Entry::line(LineAddr(5), 1).to_word());
        put(&mut image, directory + 8, Entry::page(1, 0).to_word());
        let record = layout.record().start().0 as usize;
        put(&mut image, record, Commit { epoch: 4, entries: 0 }.to_word());
        assert_eq!(layout.recover(Image::new(&image), None).unwrap(), []);
        put(&mut image, record, Commit { epoch: 5, entries: 2 }.to_word());
        let patches = layout.recover(Image::new(&image), None).unwrap();
        apply(&patches, &mut image);
        assert_eq!(layout.epoch(Image::new(&image)), 5);
        assert_eq!(layout.recover(Image::new(&image), None).unwrap(), []);
        assert!(image[64 * 5..64 * 6].iter().all(|byte| *byte == 7));
        assert!(image[64 * 64..64 * 128].iter().all(|byte| *byte == 8));
        assert!(image[..64 * 5].iter().chain(&image[64 * 6..64 * 64]).all(|byte| *byte == 0));
    }

    #[test]
    fn what_no_run_has_left_is_refused() {
        let layout = Layout::behind(LineAddr(64), 2, 0);
        let mut image = vec![0; (64 * layout.end().0) as usize];
        let put = |image: &mut Vec<u8>, line: LineAddr, word: u64| {
            image[line.start().0 as usize..][..8].copy_from_slice(&word.to_le_bytes());
        };
        let refused = |image: &[u8]| layout.recover(Image::new(image), None).unwrap_err();
        assert!(matches!(refused(&image[..64 * 65]), RecoveryError::Short { .. }));
        put(&mut image, layout.record(), Commit { epoch: 1, entries: 3 }.to_word());
        assert_eq!(refused(&image), RecoveryError::Damaged { line: layout.record() });
        put(&mut image, layout.record(), Commit { epoch: 1, entries: 1 }.to_word());
        put(&mut image, layout.directory(0), Entry::line(layout.record(), 0).to_word());
        assert_eq!(refused(&image), RecoveryError::Damaged { line: layout.directory(0) });
    }
}
