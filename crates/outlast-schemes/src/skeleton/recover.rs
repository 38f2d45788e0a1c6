//! Recovery of the eager undo log.

use outlast_trace::LineAddr;

use super::Layout;
use crate::image::Image;
use crate::patch::{Patch, RecoveryError};

/// What recovery writes: old lines first, then the lanes' headers. All of it may be repeated.
pub(super) fn recover(layout: Layout, image: Image<'_>) -> Result<Vec<Patch>, RecoveryError> {
    image.check_length(layout.base, layout.lines())?;
    let (mut patches, mut headers) = (Vec::new(), Vec::new());
    for lane in 0..layout.lanes {
        let running = image.word(layout.header(lane), 0) + 1;
        let of_lane = patches.len();
        for number in 0..layout.records {
            let record = layout.record(lane, number);
            if image.word(record, 0) != running {
                continue;
            }
            let line = LineAddr(image.word(record, 1));
            if line >= layout.base {
                return Err(RecoveryError::Damaged { line: record });
            }
            patches.extend((0..8).map(|at| Patch {
                at: line.start().plus(8 * at),
                word: image.word(record.plus(1), at).to_le_bytes(),
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
