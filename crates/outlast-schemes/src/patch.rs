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

/// Writes the patches to an image, in their order.
///
/// # Panics
/// When one lies outside the image.
pub fn apply(patches: &[Patch], image: &mut [u8]) {
    for patch in patches {
        image[patch.at.0 as usize..][..8].copy_from_slice(&patch.word);
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

/// Word `number` of a line of an image.
pub(crate) fn word(image: &[u8], line: LineAddr, number: u64) -> u64 {
    let at = (line.start().0 + 8 * number) as usize;
    u64::from_le_bytes(image[at..at + 8].try_into().expect("eight bytes were taken"))
}

/// Whether the image holds these lines.
pub(crate) fn check_length(image: &[u8], base: LineAddr, lines: u64) -> Result<(), RecoveryError> {
    let end = base.plus(lines).start();
    if end.0 <= image.len() as u64 {
        return Ok(());
    }
    Err(RecoveryError::Short { end, bytes: image.len() as u64 })
}
