//! Recovery: the log backwards, then its end.
//!
//! 1. The first line of each block's place says which block begins there. The youngest is the tail.
//! 2. From the tail backwards, block by block, each entry that serves the epoch that has persisted is
//!    put home, the youngest of a block first. So the oldest that serves it wins (PICL-13).
//! 3. A block whose greatest `ValidTill` is not above that epoch ends it, since `ValidTill` never falls
//!    along the log (PICL-9).
//! 4. The header says that no block up to here counts (PICL-8).
//!
//! Only the youngest block can be torn: it was written when all before it were durable, and no line of
//! its entries was written home. So it is passed over (PICL-7).

use super::config::{Fault, Faults};
use super::layout::{Block, Entry, FIRST, GROWTHS, Layout, PERSISTED};
use super::ports::EPOCHS;
use crate::image::Image;
use crate::patch::{Patch, RecoveryError, Restored};
use crate::scheme::LogRead;

/// The blocks that begin in the log's places: sequence numbers and places, the youngest first.
fn heads(layout: Layout, image: Image<'_>) -> Result<Vec<(u64, u64)>, RecoveryError> {
    image.check_length(layout.header(), layout.lines() - layout.header().0)?;
    let growths = image.word(layout.header(), GROWTHS);
    if growths > layout.growths {
        return Err(RecoveryError::Damaged { line: layout.header() });
    }
    let first = image.word(layout.header(), FIRST).max(1);
    let places = 0..layout.chunk * (1 + growths);
    let of_place = |place| (image.word(layout.place(place), 0), place);
    let mut heads: Vec<_> = places.map(of_place).filter(|head| head.0 >= first).collect();
    heads.sort_unstable_by(|a, b| b.cmp(a));
    Ok(heads)
}

/// The blocks that may have entries of the epoch that has persisted, the youngest first.
fn serving_blocks(
    layout: Layout,
    faults: Faults,
    image: Image<'_>,
    heads: &[(u64, u64)],
) -> Result<Vec<Block>, RecoveryError> {
    let persisted = image.word(layout.header(), PERSISTED);
    let stops_at = persisted + u64::from(faults.has(Fault::StopsEarly));
    let is_narrow = faults.has(Fault::NarrowLog);
    let mut blocks: Vec<Block> = Vec::new();
    for (number, &(sequence, place)) in heads.iter().enumerate() {
        let damaged = RecoveryError::Damaged { line: layout.place(place) };
        let is_behind = blocks.last().is_none_or(|after| after.sequence == sequence + 1);
        match layout.decode(image, place) {
            Some((block, is_whole)) if is_whole || faults.has(Fault::TornTaken) => {
                if block.till <= stops_at && !is_narrow {
                    break;
                }
                if !is_behind && !is_narrow {
                    return Err(damaged);
                }
                blocks.push(block);
            }
            // The youngest, or an expired one whose place the youngest was about to take.
            _ if number == 0 || is_narrow => {}
            Some((block, _)) if block.till <= stops_at => break,
            _ => return Err(damaged),
        }
    }
    Ok(blocks)
}

/// What recovery writes, in its order. Words that are there already are not written again. All of it
/// may be repeated.
pub(super) fn recover(
    layout: Layout,
    faults: Faults,
    image: Image<'_>,
) -> Result<Vec<Patch>, RecoveryError> {
    let heads = heads(layout, image)?;
    let blocks = serving_blocks(layout, faults, image, &heads)?;
    let persisted = image.word(layout.header(), PERSISTED);
    let mut entries: Vec<&Entry> =
        blocks.iter().flat_map(|block| block.entries.iter().rev()).collect();
    entries.retain(|entry| serves(entry, persisted, faults));
    if faults.has(Fault::AppliedForward) {
        entries.reverse();
    }
    let mut restored = Restored::new(image);
    for entry in entries {
        if entry.line >= layout.header() {
            return Err(RecoveryError::Damaged { line: layout.header() });
        }
        restored.put_words(entry.line, entry.words, &entry.data);
    }
    let mut patches = restored.into_patches();
    if let Some((last, _)) = heads.first()
        && !faults.has(Fault::Untruncated)
    {
        // Of a block that is torn, the first line may be what is missing: it has the number behind.
        let at = layout.header().start().plus(8 * FIRST);
        patches.push(Patch { at, word: (last + 2).to_le_bytes() });
    }
    Ok(patches)
}

/// What steps 1 to 3 read: the first line of each place, then blocks from the youngest on, the one at
/// which they stop included.
pub(super) fn reads(layout: Layout, image: Image<'_>) -> Vec<LogRead> {
    let persisted = image.word_or_zero(layout.header(), PERSISTED);
    let growths = image.word_or_zero(layout.header(), GROWTHS).min(layout.growths);
    let of_place = |place| LogRead { line: layout.place(place), lines: 1, entries: Vec::new() };
    let mut reads: Vec<LogRead> = (0..layout.chunk * (1 + growths)).map(of_place).collect();
    for (_, place) in heads(layout, image).unwrap_or_default() {
        let Some((block, _)) = layout.decode(image, place) else { continue };
        let entries = block.entries.iter().map(|entry| entry.data).collect();
        reads.push(LogRead { entries, ..of_place(place) });
        if let Some(read) = reads.last_mut() {
            read.lines = layout.block_bytes() / 64;
        }
        if block.till <= persisted {
            break;
        }
    }
    reads
}

/// Whether an entry has what its line held at the end of this epoch, or an older one has.
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
    let heads = heads(layout, image).unwrap_or_default();
    heads.first().map_or((1, u64::MAX), |(sequence, place)| (sequence + 1, *place))
}
