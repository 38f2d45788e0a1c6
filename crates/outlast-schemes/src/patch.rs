//! What recoveries write, and why they give up.

use std::collections::BTreeMap;

use outlast_sim::LineBytes;
use outlast_trace::{LineAddr, PoolOffset};

use crate::image::Image;

/// One word that a recovery writes to persistent memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patch {
    /// Where: a multiple of 8.
    pub at: PoolOffset,
    /// What.
    pub word: [u8; 8],
}

/// Writes the patches to an image, in their order. Returns what puts back what was there.
///
/// # Panics
/// When one lies outside the image.
pub fn apply(patches: &[Patch], image: &mut [u8]) -> Vec<Patch> {
    let mut undo = Vec::with_capacity(patches.len());
    for patch in patches {
        let place = &mut image[patch.at.0 as usize..][..8];
        undo.push(Patch { at: patch.at, word: (&*place).try_into().expect("eight bytes") });
        place.copy_from_slice(&patch.word);
    }
    undo.reverse();
    undo
}

/// Whole lines that a recovery puts over an image, one after the other. Words that are there already are
/// not written again.
pub(crate) struct Restored<'a> {
    image: Image<'a>,
    /// Lines as they are by now.
    now: BTreeMap<LineAddr, LineBytes>,
    patches: Vec<Patch>,
}

impl<'a> Restored<'a> {
    pub(crate) fn new(image: Image<'a>) -> Self {
        Self { image, now: BTreeMap::new(), patches: Vec::new() }
    }

    pub(crate) fn put(&mut self, line: LineAddr, data: &LineBytes) {
        self.put_words(line, u8::MAX, data);
    }

    /// Puts back the words whose bits are set.
    pub(crate) fn put_words(&mut self, line: LineAddr, words: u8, data: &LineBytes) {
        let image = self.image;
        let now = self.now.entry(line).or_insert_with(|| *image.line(line));
        let (is, wanted) = (now.as_chunks_mut::<8>().0, data.as_chunks::<8>().0);
        for (number, (is, wanted)) in (0..).zip(is.iter_mut().zip(wanted)) {
            if words >> number & 1 == 1 && is != wanted {
                *is = *wanted;
                self.patches.push(Patch { at: line.start().plus(8 * number), word: *wanted });
            }
        }
    }

    /// What it comes to, in its order.
    pub(crate) fn into_patches(self) -> Vec<Patch> {
        self.patches
    }
}

/// An image that no run of the scheme can have left.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecoveryError {
    /// The image ends before the log does.
    #[error("the log ends at {end}, behind the image's {bytes} bytes")]
    Short {
        /// The first byte behind the log.
        end: PoolOffset,
        /// The image's length.
        bytes: u64,
    },
    /// A record names something that cannot be.
    #[error("the record in {line} is damaged")]
    Damaged {
        /// Where it lies.
        line: LineAddr,
    },
}
