//! Bucket lines: finding a key's slot, filling one and emptying one.

use std::ops::Range;

use super::super::entry::{self, Blocks, Entry};
use super::super::layout::*;
use super::super::placement::Kept;
use super::super::{Chain, damaged};
use super::{ByteMap, Header, Path, pairs};
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// The 24 bits of a hash that a slot keeps.
#[inline]
pub(super) fn tag(hash: u64) -> u32 {
    hash as u32 & 0xFF_FFFF
}

#[inline]
pub(super) fn bucket(hash: u64) -> usize {
    (((hash & 0xFFFF_FFFF) * BUCKETS as u64) >> 32) as usize
}

/// Where the bucket of a line goes on, or 0.
pub(super) fn next_line(line: &[u8; BUCKET_BYTES]) -> PoolOffset {
    PoolOffset(word(line, LINK_AT) & !PAIRS_MASK)
}

pub(super) enum Search {
    Found(Found),
    Absent(Gap),
}

pub(super) struct Found {
    pub(super) slot_at: PoolOffset,
    pub(super) slot: Slot,
    pub(super) entry: Entry,
    pub(super) line: [u8; BUCKET_BYTES],
    /// The line before the slot's line, unless that is the bucket's first.
    pub(super) previous: Option<PoolOffset>,
}

/// Where a key that is absent could go.
pub(super) struct Gap {
    pub(super) free: Option<PoolOffset>,
    pub(super) last_line: PoolOffset,
}

#[inline]
pub(super) fn search<T: Transact>(
    tx: &mut T,
    blocks: Blocks,
    segment: PoolOffset,
    hash: u64,
    key: &[u8],
) -> Result<Search, Abort> {
    let tag = tag(hash);
    let mut line_at = segment.plus((FIRST_BUCKET_AT + bucket(hash) * BUCKET_BYTES) as u64);
    let mut previous = None;
    let mut free = None;
    let mut lines = Chain::from(line_at);
    loop {
        let mut line = [0; BUCKET_BYTES];
        tx.load(line_at, &mut line)?;
        for i in 0..BUCKET_SLOTS {
            let slot = Slot(word(&line, 8 * i));
            let slot_at = line_at.plus(8 * i as u64);
            if slot.is_empty() {
                free.get_or_insert(slot_at);
            } else if slot.extra() == tag
                && let Some(entry) = entry::open_if(tx, blocks, slot.at(), key)?
            {
                return Ok(Search::Found(Found { slot_at, slot, entry, line, previous }));
            }
        }
        let link = word(&line, LINK_AT);
        if link == 0 {
            return Ok(Search::Absent(Gap { free, last_line: line_at }));
        }
        previous = Some(line_at);
        line_at = PoolOffset(link);
        lines.follow(line_at)?;
    }
}

/// Puts the slot of a new key where the search found room, or takes another line for it; `false`
/// when the segment has to be split first. `fresh` says that this transaction made the segment.
pub(super) fn place<T: Transact>(
    tx: &mut T,
    header: &Header,
    path: &Path,
    gap: &Gap,
    slot: Slot,
    fresh: bool,
) -> Result<bool, Abort> {
    let announce = |tx: &mut T, ranges: &[ByteRange]| match fresh {
        true => Ok(()),
        false => tx.will_write(ranges),
    };
    if let Some(slot_at) = gap.free {
        announce(tx, &[ByteRange::new(slot_at, 8)])?;
        tx.store_u64(slot_at, slot.0)?;
        return Ok(true);
    }
    add_line(tx, header, path, (gap.last_line, 0), &[(0, slot.0)], fresh)
}

/// Most words that a line begins with.
const FIRST_WORDS_MAX: usize = 3;

/// Adds a line with these words, each behind its place, to the bucket whose last line that is, with
/// the low bits of its link word; `false` when the segment has to be split first.
pub(super) fn add_line<T: Transact>(
    tx: &mut T,
    header: &Header,
    path: &Path,
    (last_line, link_bits): (PoolOffset, u64),
    words: &[(usize, u64)],
    fresh: bool,
) -> Result<bool, Abort> {
    let announce = |tx: &mut T, ranges: &[ByteRange]| match fresh {
        true => Ok(()),
        false => tx.will_write(ranges),
    };
    let link = ByteRange::new(last_line.plus(LINK_AT as u64), 8);
    let mut start = [0; BUCKET_BYTES];
    tx.load(path.segment, &mut start)?;
    let in_use = word(&start, SEGMENT_SPARES_AT);
    let spare = (!in_use).trailing_zeros() as usize;
    if spare < SPARES {
        let line = path.segment.plus((FIRST_SPARE_AT + spare * BUCKET_BYTES) as u64);
        let spares = ByteRange::new(path.segment.plus(SEGMENT_SPARES_AT as u64), 8);
        let mut ranges = [spares; 2 + FIRST_WORDS_MAX];
        ranges[1] = link;
        for (range, (at, _)) in ranges[2..].iter_mut().zip(words) {
            *range = ByteRange::new(line.plus(*at as u64), 8);
        }
        announce(tx, &ranges[..2 + words.len()])?;
        for (at, word) in words {
            tx.store_u64(line.plus(*at as u64), *word)?;
        }
        tx.store_u64(link.at, line.0 | link_bits)?;
        tx.store_u64(spares.at, in_use | 1 << spare)?;
        return Ok(true);
    }
    if word(&start, SEGMENT_DEPTH_AT) < u64::from(header.depth_max) {
        return Ok(false);
    }
    let line = tx.alloc(BUCKET_BYTES as u64, BlockKind::General)?;
    let mut image = [0; BUCKET_BYTES];
    words.iter().for_each(|(at, word)| set_word(&mut image, *at, *word));
    announce(tx, &[link])?;
    tx.store(line, &image)?;
    tx.store_u64(link.at, line.0 | link_bits)?;
    Ok(true)
}

/// Takes the slot out of its line, and the line out of its bucket when it was the last there.
pub(super) fn unplace<T: Transact>(
    tx: &mut T,
    segment: PoolOffset,
    found: &Found,
) -> Result<(), Abort> {
    let slot = ByteRange::new(found.slot_at, 8);
    let others = (0..BUCKET_SLOTS).filter(|&i| !Slot(word(&found.line, 8 * i)).is_empty()).count();
    let Some(previous) = found.previous.filter(|_| others == 1) else {
        tx.will_write(&[slot])?;
        return tx.store_u64(slot.at, Slot::EMPTY.0);
    };
    let line = found.slot_at.line().start();
    remove_line(tx, segment, line, (previous, word(&found.line, LINK_AT)), Some(slot))
}

/// Takes a line out of its bucket. The link word of the line before becomes `after`; `slot` is
/// emptied.
pub(super) fn remove_line<T: Transact>(
    tx: &mut T,
    segment: PoolOffset,
    line: PoolOffset,
    (previous, after): (PoolOffset, u64),
    slot: Option<ByteRange>,
) -> Result<(), Abort> {
    let link = ByteRange::new(previous.plus(LINK_AT as u64), 8);
    let index = line.0.wrapping_sub(segment.0 + FIRST_SPARE_AT as u64) / BUCKET_BYTES as u64;
    if index >= SPARES as u64 {
        tx.free(line)?;
        tx.will_write(&[link])?;
        return tx.store_u64(link.at, after);
    }
    let spares = ByteRange::new(segment.plus(SEGMENT_SPARES_AT as u64), 8);
    let own_link = ByteRange::new(line.plus(LINK_AT as u64), 8);
    let in_use = tx.load_u64(spares.at)?;
    match slot {
        Some(slot) => tx.will_write(&[spares, link, slot, own_link])?,
        None => tx.will_write(&[spares, link, own_link])?,
    }
    tx.store_u64(link.at, after)?;
    if let Some(slot) = slot {
        tx.store_u64(slot.at, Slot::EMPTY.0)?;
    }
    tx.store_u64(own_link.at, 0)?;
    tx.store_u64(spares.at, in_use & !(1 << index))
}

impl ByteMap {
    /// Calls `visit` with every slot or pair in use.
    pub(super) fn each_item<T: Transact>(
        self,
        tx: &mut T,
        visit: &mut impl FnMut(&mut T, Item) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let header = self.header(tx)?;
        each_item_below(tx, header.kept, header.directory, 0..0, 0, visit)
    }
}

/// `path`: the bits of hashes that lead here; `bits`: which of them the node above has decided.
fn each_item_below<T: Transact>(
    tx: &mut T,
    kept: Kept,
    child: Child,
    bits: Range<u32>,
    path: u64,
    visit: &mut impl FnMut(&mut T, Item) -> Result<(), Abort>,
) -> Result<(), Abort> {
    if child.bits() == 0 {
        // A segment stands in one node, so that no damaged directory makes this go on for ever.
        let depth = segment_depth(tx, child.at(), path)?;
        if !(u64::from(bits.start)..=u64::from(bits.end)).contains(&depth) {
            return Err(damaged(child.at(), "a segment of the hash map in another node"));
        }
        return each_item_of_segment(tx, kept, child.at(), visit);
    }
    let bits = bits.end..bits.end + child.bits();
    if bits.end > DEPTH_MAX {
        return Err(damaged(child.at(), "a directory that is too deep"));
    }
    let mut last = Child(0);
    for i in 0..1 << child.bits() {
        let next = Child(tx.load_u64(child.at().plus(8 * i))?);
        if next != last {
            each_item_below(tx, kept, next, bits.clone(), path | i << (64 - bits.end), visit)?;
        }
        last = next;
    }
    Ok(())
}

/// The depth of a segment that the highest bits of `hash` lead to.
pub(super) fn segment_depth<T: Transact>(
    tx: &mut T,
    segment: PoolOffset,
    hash: u64,
) -> Result<u64, Abort> {
    let mut start = [0; BUCKET_BYTES];
    tx.load(segment, &mut start)?;
    let depth = word(&start, SEGMENT_DEPTH_AT);
    let differs = word(&start, SEGMENT_PREFIX_AT) ^ hash;
    let is_here = depth == 0 || depth <= u64::from(DEPTH_MAX) && differs >> (64 - depth) == 0;
    if word(&start, 0) != SEGMENT_MAGIC || !is_here {
        return Err(damaged(segment, "no segment of the hash map"));
    }
    Ok(depth)
}

/// What a bucket line holds of a key.
pub(super) enum Item {
    /// The slot of an entry.
    Slot(Slot),
    /// The word of a key, and where its value's is.
    Pair(u64, PoolOffset),
}

impl Item {
    /// Where the value is; `key` becomes the key.
    pub(super) fn open<T: Transact>(
        self,
        tx: &mut T,
        kept: Kept,
        key: &mut Vec<u8>,
    ) -> Result<ByteRange, Abort> {
        match (self, kept) {
            (Self::Slot(slot), Kept::Entries(blocks)) => {
                Ok(entry::open_with_key(tx, blocks, slot.at(), key)?.value)
            }
            (Self::Pair(word, value_at), Kept::Words(pairs)) => {
                key.clear();
                key.extend_from_slice(&pairs.key_bytes(word)[..pairs.key_len()]);
                Ok(ByteRange::new(value_at, pairs.value_bytes.into()))
            }
            _ => unreachable!("a map's lines hold what its header says"),
        }
    }
}

pub(super) fn each_item_of_segment<T: Transact>(
    tx: &mut T,
    kept: Kept,
    segment: PoolOffset,
    visit: &mut impl FnMut(&mut T, Item) -> Result<(), Abort>,
) -> Result<(), Abort> {
    for i in 0..BUCKETS {
        let mut line_at = segment.plus((FIRST_BUCKET_AT + i * BUCKET_BYTES) as u64);
        let mut lines = Chain::from(line_at);
        loop {
            let mut line = [0; BUCKET_BYTES];
            tx.load(line_at, &mut line)?;
            match kept {
                Kept::Entries(_) => {
                    let slots = (0..BUCKET_SLOTS).map(|i| Slot(word(&line, 8 * i)));
                    for slot in slots.filter(|slot| !slot.is_empty()) {
                        visit(tx, Item::Slot(slot))?;
                    }
                }
                Kept::Words(_) => {
                    for pair in pairs::in_use(word(&line, LINK_AT)) {
                        let value_at = line_at.plus(pairs::value_at(pair) as u64);
                        visit(tx, Item::Pair(word(&line, pairs::key_at(pair)), value_at))?;
                    }
                }
            }
            line_at = next_line(&line);
            if line_at.0 == 0 {
                break;
            }
            lines.follow(line_at)?;
        }
    }
    Ok(())
}
