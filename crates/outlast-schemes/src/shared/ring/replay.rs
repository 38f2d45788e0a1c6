//! What recovery finds in rings.

use crate::image::Image;
use crate::patch::{Patch, RecoveryError};

use super::record::Header;
use super::{Commit, Rings};

/// The records to be replayed.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// Records with their rings, in the order of their transactions' commits (R4).
    pub(crate) records: Vec<(usize, Header)>,
    /// The truncation point behind them, to be written when all else is; none where there is nothing.
    pub(crate) point: Option<Patch>,
}

/// What committed and was not truncated.
///
/// # Errors
/// When the image is too short, or a commit's records are not there.
pub(crate) fn replay(rings: Rings, image: Image<'_>) -> Result<Replay, RecoveryError> {
    image.check_length(rings.base, rings.lines())?;
    let point = image.word(rings.base, 0).max(1);
    let header = |ring, number| Header::decode(image.line(rings.header(ring, number)));
    let mut commits: Vec<(Commit, usize, u64)> = Vec::new();
    for ring in 0..rings.rings as usize {
        for slot in 0..rings.records {
            let Header { number, commit, .. } = header(ring, slot);
            let live = commit.filter(|commit| commit.seq >= point);
            commits.extend(live.map(|commit| (commit, ring, number)));
        }
    }
    commits.sort_by_key(|(commit, _, _)| commit.seq);
    let mut records = Vec::new();
    for &(commit, ring, last) in &commits {
        let damaged = |number| RecoveryError::Damaged { line: rings.header(ring, number) };
        let before = last.checked_sub(commit.records).ok_or_else(|| damaged(last))?;
        for number in before + 1..=last {
            let header = header(ring, number);
            if header.number != number || (number < last) != header.commit.is_none() {
                return Err(damaged(number));
            }
            records.push((ring, header));
        }
    }
    let point = commits.last().map(|(commit, _, _)| Patch {
        at: rings.base.start(),
        word: (commit.seq + 1).to_le_bytes(),
    });
    Ok(Replay { records, point })
}
