//! Recovery: old lines of a transaction that fell back to logging are restored, the journal is replayed
//! into the table, and the truncation point moves behind it.

use std::collections::BTreeMap;

use outlast_trace::LineAddr;

use super::layout::{Entry, FELL_BACK, LINES, Layout, NONE, RECORDS, Record};
use super::plants::Fault;
use crate::image::Image;
use crate::patch::{Patch, RecoveryError};
use crate::shared::ring::replay;

/// What recovery writes, in this order; all of it may be repeated.
///
/// 1. Old lines of each lane's transaction behind the last one that ended.
/// 2. Entries of the table that the journal changes.
/// 3. Headers of lanes, so that those old lines mean nothing to the next transaction.
/// 4. The truncation point.
pub(super) fn recover(
    layout: Layout,
    fault: Option<Fault>,
    image: Image<'_>,
) -> Result<Vec<Patch>, RecoveryError> {
    image.check_length(LineAddr(0), layout.lines())?;
    let replay = replay(layout.journal, image)?;
    let mut entries: BTreeMap<u32, Entry> = BTreeMap::new();
    let mut ended: Vec<u64> =
        (0..layout.lanes() as usize).map(|lane| image.word(layout.header(lane), 0)).collect();
    let in_memory = ended.clone();
    for (ring, header) in &replay.records {
        let damaged = RecoveryError::Damaged { line: layout.journal.header(*ring, header.number) };
        let count = usize::from(header.count);
        if count > RECORDS {
            return Err(damaged);
        }
        for record in (0..count).map(|number| Record::decode(&header.words, number)) {
            let Record { page, other, bitmap } = record;
            if page == FELL_BACK && *ring < ended.len() {
                ended[*ring] = ended[*ring].max(bitmap);
                continue;
            }
            let is_page = |page: u32| u64::from(page) < layout.pages + layout.shadows;
            if u64::from(page) >= layout.pages || (bitmap != 0 && !is_page(other)) {
                return Err(damaged);
            }
            let entry = entries.entry(page).or_insert_with(|| layout.entry(image, page));
            *entry = if *ring == layout.background() {
                Entry { primary: other, ..Entry::home(page) }
            } else {
                Entry { other: if bitmap == 0 { NONE } else { other }, bitmap, ..*entry }
            };
        }
    }
    let mut patches = Vec::new();
    for (lane, ended) in ended.iter_mut().enumerate() {
        let running = *ended + 1;
        let of_lane = patches.len();
        for number in 0..layout.undo {
            let record = layout.old_line(lane, number);
            if image.word(record, 0) != running {
                break; // A store waits for its record, so there is no gap between them.
            }
            let place = LineAddr(image.word(record, 1));
            if place.0 >= (layout.pages + layout.shadows) * LINES {
                return Err(RecoveryError::Damaged { line: record });
            }
            let old = image.line(record.plus(1)).as_chunks::<8>().0;
            patches.extend(old.iter().enumerate().map(|(word, bytes)| Patch {
                at: place.start().plus(8 * word as u64),
                word: *bytes,
            }));
        }
        if patches.len() > of_lane {
            *ended = running;
        }
    }
    if fault != Some(Fault::NoReplay) {
        for (page, entry) in entries {
            let at = layout.table_line(page).start().plus(16 * u64::from(page % 4));
            let [place, bitmap] = entry.encode();
            patches.push(Patch { at, word: place.to_le_bytes() });
            patches.push(Patch { at: at.plus(8), word: bitmap.to_le_bytes() });
        }
    }
    for (lane, (ended, before)) in ended.iter().zip(in_memory).enumerate() {
        if *ended != before {
            let at = layout.header(lane).start();
            patches.push(Patch { at, word: ended.to_le_bytes() });
        }
    }
    patches.extend(replay.point);
    Ok(patches)
}

/// The account of pages in an image that recovery has left: each physical page is one page's, once, or
/// free.
pub(super) fn audit(layout: Layout, image: Image<'_>) -> Result<(), String> {
    let mut used = vec![NONE; (layout.pages + layout.shadows) as usize];
    for page in 0..layout.pages as u32 {
        let Entry { primary, other, bitmap } = layout.entry(image, page);
        if bitmap != 0 && other == NONE {
            return Err(format!("page {page} has lines in no physical page"));
        }
        for physical in [Some(primary), (bitmap != 0).then_some(other)].into_iter().flatten() {
            let Some(by) = used.get_mut(physical as usize) else {
                return Err(format!("page {page} lies in physical page {physical}: there is none"));
            };
            if *by != NONE {
                return Err(format!(
                    "physical page {physical} is used by page {by} and by page {page}"
                ));
            }
            *by = page;
        }
    }
    Ok(())
}
