//! Splitting a segment.

use super::super::damaged;
use super::super::entry;
use super::super::hash::{hash_key, hash_word};
use super::super::layout::*;
use super::super::placement::Kept;
use super::super::plan::Plan;
use super::slots::bucket;
use super::{Header, Path, pairs};
use crate::{Abort, BlockKind, PoolOffset, Transact};

/// A segment in the making.
pub(super) struct SegmentImage {
    at: PoolOffset,
    image: [u8; SEGMENT_BYTES],
}

impl SegmentImage {
    /// An empty segment for the block at `at`.
    pub(super) fn new(at: PoolOffset, depth: u32, prefix: u64) -> Self {
        let mut image = [0; SEGMENT_BYTES];
        set_word(&mut image, 0, SEGMENT_MAGIC);
        set_word(&mut image, SEGMENT_DEPTH_AT, u64::from(depth));
        set_word(&mut image, SEGMENT_PREFIX_AT, prefix);
        Self { at, image }
    }

    pub(super) fn bytes(&self) -> &[u8; SEGMENT_BYTES] {
        &self.image
    }

    /// Puts a slot into a bucket. Each half of a segment that is split has room; `None` where the
    /// segment was damaged.
    fn push(&mut self, bucket: usize, slot: Slot) -> Option<()> {
        let mut line = FIRST_BUCKET_AT + bucket * BUCKET_BYTES;
        loop {
            let free = (0..BUCKET_SLOTS).find(|i| word(&self.image, line + 8 * i) == 0);
            if let Some(i) = free {
                set_word(&mut self.image, line + 8 * i, slot.0);
                return Some(());
            }
            line = self.line_after(line)?;
        }
    }

    /// The same for a pair of words.
    fn push_pair(&mut self, bucket: usize, key: u64, value: u64) -> Option<()> {
        let mut line = FIRST_BUCKET_AT + bucket * BUCKET_BYTES;
        loop {
            let link = word(&self.image, line + LINK_AT);
            if let Some(free) = pairs::free_pair(link) {
                set_word(&mut self.image, line + pairs::key_at(free), key);
                set_word(&mut self.image, line + pairs::value_at(free), value);
                set_word(&mut self.image, line + LINK_AT, link | 1 << free);
                return Some(());
            }
            line = self.line_after(line)?;
        }
    }

    /// The line of the bucket behind a full one.
    fn line_after(&mut self, line: usize) -> Option<usize> {
        match word(&self.image, line + LINK_AT) & !PAIRS_MASK {
            0 => self.take_spare(line),
            link => Some((link - self.at.0) as usize),
        }
    }

    fn take_spare(&mut self, after: usize) -> Option<usize> {
        let in_use = word(&self.image, SEGMENT_SPARES_AT);
        let spare = (!in_use).trailing_zeros() as usize;
        if spare >= SPARES {
            return None;
        }
        set_word(&mut self.image, SEGMENT_SPARES_AT, in_use | 1 << spare);
        let line = FIRST_SPARE_AT + spare * BUCKET_BYTES;
        let link = word(&self.image, after + LINK_AT);
        set_word(&mut self.image, after + LINK_AT, link | (self.at.0 + line as u64));
        Some(line)
    }
}

/// Splits the segment at the end of `path` by the next bit of its keys' hashes.
pub(super) fn split<T: Transact>(tx: &mut T, header: &Header, path: &Path) -> Result<(), Abort> {
    let mut old = [0; SEGMENT_BYTES];
    tx.load(path.segment, &mut old)?;
    let depth = word(&old, SEGMENT_DEPTH_AT) as u32;
    let node_bits = path.node.map_or(0, Child::bits);
    if word(&old, 0) != SEGMENT_MAGIC
        || depth >= header.depth_max
        || !(path.consumed..=path.consumed + node_bits).contains(&depth)
    {
        return Err(damaged(path.segment, "no segment of the hash map"));
    }
    let prefix = word(&old, SEGMENT_PREFIX_AT);
    let mut new_half = |prefix| {
        let at = tx.alloc(SEGMENT_BYTES as u64, BlockKind::General)?;
        Ok::<_, Abort>(SegmentImage::new(at, depth + 1, prefix))
    };
    let mut halves = [new_half(prefix)?, new_half(prefix | 1 << (63 - depth))?];
    distribute(tx, header, path.segment, &old, depth, &mut halves)?;
    tx.free(path.segment)?;

    let mut plan = Plan::default();
    for half in &halves {
        plan.fill(half.at, half.bytes());
    }
    let halves = halves.map(|half| Child::segment(half.at).0);
    match path.node {
        Some(node) if depth < path.consumed + node_bits => {
            repoint(&mut plan, node, path, depth, halves);
        }
        Some(node) if node_bits < path.limit => double(tx, &mut plan, node, path, halves)?,
        Some(node) => add_node(tx, &mut plan, node.at().plus(8 * path.index), halves)?,
        None => add_node(tx, &mut plan, path.holder, halves)?,
    }
    plan.apply(tx)
}

/// Puts every slot of the old segment into the half that its key's hash says.
fn distribute<T: Transact>(
    tx: &mut T,
    header: &Header,
    segment: PoolOffset,
    old: &[u8; SEGMENT_BYTES],
    depth: u32,
    halves: &mut [SegmentImage; 2],
) -> Result<(), Abort> {
    let mut key = Vec::new();
    let too_many = || damaged(segment, "a segment with more keys than it holds");
    for i in 0..BUCKETS {
        let mut line = FIRST_BUCKET_AT + i * BUCKET_BYTES;
        let mut lines = 0;
        loop {
            let half_of = |hash: u64| (hash >> (63 - depth) & 1) as usize;
            let link = word(old, line + LINK_AT);
            match header.kept {
                Kept::Entries(blocks) => {
                    let slots = (0..BUCKET_SLOTS).map(|i| Slot(word(old, line + 8 * i)));
                    for slot in slots.filter(|slot| !slot.is_empty()) {
                        entry::open_with_key(tx, blocks, slot.at(), &mut key)?;
                        let hash = hash_key(header.seed, &key);
                        let pushed = halves[half_of(hash)].push(bucket(hash), slot);
                        pushed.ok_or_else(too_many)?;
                    }
                }
                Kept::Words(_) => {
                    for pair in pairs::in_use(link) {
                        let key = word(old, line + pairs::key_at(pair));
                        let value = word(old, line + pairs::value_at(pair));
                        let hash = hash_word(header.seed, key);
                        let pushed = halves[half_of(hash)].push_pair(bucket(hash), key, value);
                        pushed.ok_or_else(too_many)?;
                    }
                }
            }
            let link = link & !PAIRS_MASK;
            if link == 0 {
                break;
            }
            line = spare_line(segment, link)
                .filter(|_| lines < SPARES)
                .ok_or_else(|| damaged(segment, "a bucket that leaves its segment"))?;
            lines += 1;
        }
    }
    Ok(())
}

/// Where in the segment's image the spare line that a link points to is.
pub(super) fn spare_line(segment: PoolOffset, link: u64) -> Option<usize> {
    let at = link.checked_sub(segment.0)?;
    let in_spares = (FIRST_SPARE_AT as u64..SEGMENT_BYTES as u64).contains(&at);
    (in_spares && at.is_multiple_of(BUCKET_BYTES as u64)).then_some(at as usize)
}

/// The node has several child words for the segment: each half gets its half of them.
fn repoint(plan: &mut Plan, node: Child, path: &Path, depth: u32, halves: [u64; 2]) {
    let span = 1u64 << (path.consumed + node.bits() - depth);
    let first = path.index & !(span - 1);
    let words: Vec<u8> =
        (0..span).flat_map(|i| halves[usize::from(i >= span / 2)].to_le_bytes()).collect();
    plan.store(node.at().plus(8 * first), &words);
}

/// The node has one child word for the segment and may grow: a node of twice the size follows it.
fn double<T: Transact>(
    tx: &mut T,
    plan: &mut Plan,
    node: Child,
    path: &Path,
    halves: [u64; 2],
) -> Result<(), Abort> {
    let bits = node.bits() + 1;
    let at = tx.alloc(8 << bits, BlockKind::General)?;
    tx.free(node.at())?;
    let mut old = vec![0; 8 << node.bits()];
    tx.load(node.at(), &mut old)?;
    let mut new = vec![0; 8 << bits];
    for (from, to) in old.as_chunks::<8>().0.iter().zip(new.as_chunks_mut::<16>().0) {
        to[..8].copy_from_slice(from);
        to[8..].copy_from_slice(from);
    }
    set_word(&mut new, 16 * path.index as usize, halves[0]);
    set_word(&mut new, 16 * path.index as usize + 8, halves[1]);
    plan.fill(at, &new);
    plan.store(path.holder, &Child::node(at, bits).0.to_le_bytes());
    Ok(())
}

/// The child word at `holder` gets a smallest node of its own.
fn add_node<T: Transact>(
    tx: &mut T,
    plan: &mut Plan,
    holder: PoolOffset,
    halves: [u64; 2],
) -> Result<(), Abort> {
    const WORDS: usize = 1 << NODE_BITS_MIN;
    let at = tx.alloc(8 * WORDS as u64, BlockKind::General)?;
    let mut node = [0; 8 * WORDS];
    for i in 0..WORDS {
        set_word(&mut node, 8 * i, halves[usize::from(i >= WORDS / 2)]);
    }
    plan.fill(at, &node);
    plan.store(holder, &Child::node(at, NODE_BITS_MIN).0.to_le_bytes());
    Ok(())
}
