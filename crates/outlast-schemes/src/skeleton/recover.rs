//! Recovery of the eager undo log.

use outlast_trace::LineAddr;

use super::Layout;
use crate::patch::{Patch, RecoveryError, check_length, word};

/// What recovery writes: old lines first, then the lanes' headers. All of it may be repeated.
pub(super) fn recover(layout: Layout, image: &[u8]) -> Result<Vec<Patch>, RecoveryError> {
    check_length(image, layout.base, layout.lines())?;
    let (mut patches, mut headers) = (Vec::new(), Vec::new());
    for lane in 0..layout.lanes {
        let running = word(image, layout.header(lane), 0) + 1;
        let of_lane = patches.len();
        for number in 0..layout.records {
            let record = layout.record(lane, number);
            if word(image, record, 0) != running {
                continue;
            }
            let line = LineAddr(word(image, record, 1));
            if line >= layout.base {
                return Err(RecoveryError::Damaged { line: record });
            }
            patches.extend((0..8).map(|at| Patch {
                at: line.start().plus(8 * at),
                word: word(image, record.plus(1), at).to_le_bytes(),
            }));
        }
        if patches.len() > of_lane {
            let at = layout.header(lane).start();
            headers.push(Patch { at, word: running.to_le_bytes() });
        }
    }
    patches.extend(headers);
    Ok(patches)
}
