//! Recovery: the log backwards, then its end.

use std::collections::BTreeMap;

use super::config::{Fault, Faults};
use super::layout::{Block, Entry, FIRST, GROWTHS, Layout, PERSISTED};
use super::ports::EPOCHS;
use crate::image::Image;
use crate::patch::{Patch, RecoveryError, Restored};

/// The blocks that a recovery finds, by their sequence numbers, with their places.
fn blocks(
    layout: Layout,
    faults: Faults,
    image: Image<'_>,
) -> Result<BTreeMap<u64, (u64, Block)>, RecoveryError> {
    image.check_length(layout.header(), layout.lines() - layout.header().0)?;
    let growths = image.word(layout.header(), GROWTHS);
    if growths > layout.growths {
        return Err(RecoveryError::Damaged { line: layout.header() });
    }
    let first = image.word(layout.header(), FIRST);
    let places = 0..layout.chunk * (1 + growths);
    let found = places.filter_map(|number| {
        let (block, is_whole) = layout.decode(image, number)?;
        let counts = block.sequence >= first && (is_whole || faults.has(Fault::TornTaken));
        counts.then_some((block.sequence, (number, block)))
    });
    Ok(found.collect())
}

/// What recovery writes: what the log has of lines that memory does not have as at the end of the
/// epoch, the oldest entry of each line last; then that the log is empty (PICL-8). Words that are
/// there already are not written again. All of it may be repeated.
pub(super) fn recover(
    layout: Layout,
    faults: Faults,
    image: Image<'_>,
) -> Result<Vec<Patch>, RecoveryError> {
    let persisted = image.word_or_zero(layout.header(), PERSISTED);
    let blocks = blocks(layout, faults, image)?;
    let mut restored = Restored::new(image);
    let mut next = None;
    let scan: Vec<&(u64, Block)> = match faults.has(Fault::AppliedForward) {
        true => blocks.values().collect(),
        false => blocks.values().rev().collect(),
    };
    let is_backward = !faults.has(Fault::AppliedForward);
    for (number, block) in scan {
        let stops_at = persisted + u64::from(faults.has(Fault::StopsEarly));
        if is_backward && block.till <= stops_at && !faults.has(Fault::NarrowLog) {
            break; // And so is each one before (PICL-9).
        }
        let is_gap = next.is_some_and(|next| next != block.sequence);
        if is_gap && is_backward && !faults.has(Fault::NarrowLog) {
            return Err(RecoveryError::Damaged { line: layout.place(*number) });
        }
        next = Some(block.sequence - 1);
        let serving = block.entries.iter().filter(|entry| serves(entry, persisted, faults));
        let mut serving: Vec<&Entry> = serving.collect();
        if is_backward {
            serving.reverse();
        }
        for entry in serving {
            if entry.line >= layout.header() {
                return Err(RecoveryError::Damaged { line: layout.place(*number) });
            }
            restored.put(entry.line, &entry.data);
        }
    }
    let mut patches = restored.into_patches();
    if let Some((last, _)) = blocks.last_key_value()
        && !faults.has(Fault::Untruncated)
    {
        // A block that is torn has the number behind the last.
        let at = layout.header().start().plus(8 * FIRST);
        patches.push(Patch { at, word: (last + 2).to_le_bytes() });
    }
    Ok(patches)
}

/// Whether an entry is of the epoch that is gone back to.
fn serves(entry: &Entry, persisted: u64, faults: Faults) -> bool {
    let Entry { from, till, .. } = *entry;
    if faults.has(Fault::NarrowLog) {
        let distance = |epoch: u64| (epoch % EPOCHS + EPOCHS - from % EPOCHS) % EPOCHS;
        return distance(persisted) < distance(till);
    }
    from <= persisted && persisted < till
}

/// The sequence number behind the last block, and that one's place: where a log that no recovery has
/// emptied goes on.
pub(super) fn behind_last(layout: Layout, image: Image<'_>) -> (u64, u64) {
    let blocks = blocks(layout, Faults::NONE, image).unwrap_or_default();
    let last = blocks.last_key_value();
    last.map_or((1, u64::MAX), |(sequence, (number, _))| (sequence + 1, *number))
}
