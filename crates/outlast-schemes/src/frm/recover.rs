//! Recovery: the log of the epoch that had not committed, backwards.

use super::Fault;
use super::layout::{COMMITTED, Layout, RUN, Stamp};
use super::ports::WINDOW;
use crate::image::Image;
use crate::patch::{Patch, RecoveryError, Restored};

/// What recovery writes: old lines, the oldest of each last, then another run's number, which voids
/// the log. Words that are there already are not written again. All of it may be repeated.
pub(super) fn recover(
    layout: Layout,
    fault: Option<Fault>,
    image: Image<'_>,
) -> Result<Vec<Patch>, RecoveryError> {
    image.check_length(layout.header(), layout.lines() - layout.header().0)?;
    let word = |word| image.word(layout.header(), word);
    let run = word(RUN);
    let stamp = Stamp { run, epoch: word(COMMITTED) + 1 };
    let mut entries = Vec::new();
    // No entry was begun so far behind one that was missing.
    let mut missing = 0;
    for number in 0..layout.entries {
        match layout.decode(image, number, stamp, fault == Some(Fault::TornTaken)) {
            Some((line, _)) if line >= layout.header() => {
                return Err(RecoveryError::Damaged { line: layout.place(number) });
            }
            Some(entry) => {
                entries.push(entry);
                missing = 0;
            }
            None if missing == WINDOW => break,
            None => missing += 1,
        }
    }
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    if fault != Some(Fault::AppliedForward) {
        entries.reverse();
    }
    let mut restored = Restored::new(image);
    entries.into_iter().for_each(|(line, old)| restored.put(line, old));
    let mut patches = restored.into_patches();
    if fault != Some(Fault::LogKept) {
        let at = layout.header().start().plus(8 * RUN);
        patches.push(Patch { at, word: (run + 1).to_le_bytes() });
    }
    Ok(patches)
}
