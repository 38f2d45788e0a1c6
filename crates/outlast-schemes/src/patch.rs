//! What recoveries write, and why they give up.

use outlast_trace::{LineAddr, PoolOffset};

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
