//! Recovery: what committed is written in place again, of each line what the last commit with it has.

use outlast_trace::LineAddr;
use rustc_hash::FxHashSet;

use super::GROUP;
use super::plants::Fault;
use crate::image::Image;
use crate::patch::{Patch, RecoveryError};
use crate::shared::ring::{Rings, replay};

/// What recovery writes: lines, then the truncation point. All of it may be repeated.
pub(super) fn recover(
    rings: Rings,
    fault: Option<Fault>,
    image: Image<'_>,
) -> Result<Vec<Patch>, RecoveryError> {
    let mut replay = replay(rings, image)?;
    if fault == Some(Fault::ByLane) {
        replay.records.sort_by_key(|(ring, _)| *ring);
    }
    let (mut patches, mut newer) = (Vec::new(), FxHashSet::default());
    for (ring, header) in replay.records.into_iter().rev() {
        let damaged = RecoveryError::Damaged { line: rings.header(ring, header.number) };
        if usize::from(header.count) > GROUP {
            return Err(damaged);
        }
        for (number, line) in header.words[..header.count.into()].iter().enumerate().rev() {
            let line = LineAddr(*line);
            if line >= rings.base {
                return Err(damaged);
            }
            if !newer.insert(line) {
                continue;
            }
            let data = image.line(rings.data(ring, header.number).plus(number as u64));
            patches.extend(data.as_chunks::<8>().0.iter().enumerate().map(|(word, bytes)| Patch {
                at: line.start().plus(8 * word as u64),
                word: *bytes,
            }));
        }
    }
    patches.extend(replay.point);
    Ok(patches)
}
