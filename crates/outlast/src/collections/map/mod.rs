//! The hash map: extendible hashing over 4 KiB segments.
//!
//! The highest bits of a key's hash lead through the directory to a segment, the lower ones to
//! one of its bucket lines, and 24 more are kept in the slot, so that a search touches the
//! directory (which stays in the caches), one bucket line and, with one false alarm in sixteen
//! million, the one entry it wants. A full bucket goes on in one of its segment's spare lines;
//! when those run out, the segment is split into two *fresh* ones, which cost no logging, and a
//! few words of the directory change. The directory is a tree of small extendible directories
//! rather than one table, so no transaction ever copies more than a segment and one node: 12 KiB
//! (a map created for many keys may have a larger first node, which saves a level).
//!
//! A map of [small pairs](Placement::Inline) has them in its bucket lines, three to a line, and the
//! same segments and directory: a search ends with the bucket line, an insertion stores three words
//! of it, a removal one.
//!
//! There is no counter and no other line that every operation writes. Removal empties a slot and
//! unlinks a spare line that became empty; segments are never merged, as those of other
//! extendible maps.
//!
//! Invariants, checked by the walk:
//! 1. A key is in the segment that its hash's highest bits lead to, in the bucket that the lower
//!    half chooses, and its slot's bits are its hash's lowest.
//! 2. The child words that lead to one segment are neighbours in one node and as many as the
//!    bits that the segment's depth leaves open.
//! 3. A spare line that is not in use is all zero (of pairs, its link word is); one in use is
//!    linked from exactly one line.
//! 4. Only a segment of the greatest depth has lines outside its block.

mod grow;
mod pairs;
mod scan;
mod slots;
mod walk;

use self::slots::{Gap, Search, place, search, tag, unplace};
use super::entry::{self, Blocks};
use super::hash::hash_key;
use super::layout::*;
use super::placement::{Kept, Placement};
use super::{Dictionary, damaged};
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// How a map is made.
#[derive(Clone, Copy, Debug)]
pub struct ByteMapOptions {
    /// How many keys to expect. The map takes any number; a good guess makes the directory
    /// shallower, at the price of larger steps when it doubles (8 bytes for 200 keys).
    pub expected_keys: u64,
    /// Where keys and values go.
    pub placement: Placement,
    /// Varies the hash. Where an adversary chooses the keys, this must be a secret.
    pub seed: u64,
}

impl Default for ByteMapOptions {
    fn default() -> Self {
        Self { expected_keys: 0, placement: Placement::Together, seed: 0x4F75_746C_6173_7421 }
    }
}

/// A persistent hash map with byte strings as keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteMap {
    root: PoolOffset,
}

impl ByteMap {
    /// An empty map.
    ///
    /// # Errors
    /// Those of the transaction; [`Abort::Cancelled`] for an inline placement of longer keys or
    /// values than it takes.
    pub fn create<T: Transact>(tx: &mut T, options: &ByteMapOptions) -> Result<Self, Abort> {
        Self::create_with_depth(tx, options, DEPTH_MAX)
    }

    /// As [`create`](Self::create), with a directory of fewer bits than hashes have: what tests
    /// need to see buckets outgrow their segments. Not part of the stable interface.
    #[doc(hidden)]
    pub fn create_with_depth<T: Transact>(
        tx: &mut T,
        options: &ByteMapOptions,
        depth_max: u32,
    ) -> Result<Self, Abort> {
        let (kept, [placement, key_bytes, value_bytes]) = options.placement.checked()?;
        let keys_per_segment = match kept {
            Kept::Entries(_) => KEYS_PER_SEGMENT,
            Kept::Words(_) => PAIRS_PER_SEGMENT,
        };
        let root = tx.alloc(HEADER_BYTES, BlockKind::General)?;
        let segment = tx.alloc(SEGMENT_BYTES as u64, BlockKind::General)?;
        let segments = (options.expected_keys / keys_per_segment).max(1);
        let root_bits = segments.next_power_of_two().ilog2().clamp(NODE_BITS_MAX, ROOT_BITS_MAX);
        let mut header = [0; HEADER_BYTES as usize];
        set_word(&mut header, 0, MAP_MAGIC);
        set_word(&mut header, MAP_SEED_AT, options.seed);
        set_word(&mut header, MAP_DIRECTORY_AT, Child::segment(segment).0);
        header[MAP_PLACEMENT_AT] = placement;
        header[MAP_KEY_BYTES_AT] = key_bytes;
        header[MAP_VALUE_BYTES_AT] = value_bytes;
        header[MAP_ROOT_BITS_AT] = root_bits as u8;
        header[MAP_DEPTH_MAX_AT] = depth_max.min(DEPTH_MAX) as u8;
        tx.store(root, &header)?;
        tx.store(segment, grow::SegmentImage::new(segment, 0, 0).bytes())?;
        Ok(Self { root })
    }

    /// The map whose header is at `root`.
    ///
    /// # Errors
    /// [`Abort::Damaged`] when there is none.
    pub fn open<T: Transact>(tx: &mut T, root: PoolOffset) -> Result<Self, Abort> {
        let map = Self { root };
        map.header(tx)?;
        Ok(map)
    }

    /// Where the header is, for [`Transact::set_root`].
    pub fn root(self) -> PoolOffset {
        self.root
    }

    #[inline(always)]
    fn header<T: Transact>(self, tx: &mut T) -> Result<Header, Abort> {
        let mut image = [0; MAP_HEADER_USED];
        tx.load(self.root, &mut image)?;
        Header::decode(&image).ok_or_else(|| damaged(self.root, "no header of a hash map"))
    }

    fn put<T: Transact>(
        self,
        tx: &mut T,
        key: &[u8],
        value: &[u8],
        replace: bool,
    ) -> Result<bool, Abort> {
        let header = self.header(tx)?;
        let blocks = match header.kept {
            Kept::Entries(blocks) => blocks,
            Kept::Words(pairs) => return self.put_pair(tx, &header, pairs, key, value, replace),
        };
        let hash = hash_key(header.seed, key);
        let path = self.descend(tx, &header, hash)?;
        match search(tx, blocks, path.segment, hash, key)? {
            Search::Found(found) => {
                if replace {
                    let place = (found.slot_at, found.slot);
                    entry::replace(tx, blocks, &found.entry, place, key, value)?;
                }
                Ok(true)
            }
            Search::Absent(gap) => {
                self.insert_new(tx, (&header, blocks), hash, path, gap, key, value)?;
                Ok(false)
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of it is what the search found out")]
    fn insert_new<T: Transact>(
        self,
        tx: &mut T,
        (header, blocks): (&Header, Blocks),
        hash: u64,
        mut path: Path,
        mut gap: Gap,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Abort> {
        let reserved = entry::reserve(tx, blocks, key, value)?;
        entry::fill(tx, blocks, &reserved, key, value)?;
        let slot = Slot::new(reserved.entry, tag(hash));
        let mut fresh = false;
        while !place(tx, header, &path, &gap, slot, fresh)? {
            // Both halves are fresh blocks, and the key goes into one of them.
            grow::split(tx, header, &path)?;
            fresh = true;
            let header = self.header(tx)?;
            path = self.descend(tx, &header, hash)?;
            gap = match search(tx, blocks, path.segment, hash, key)? {
                Search::Absent(gap) => gap,
                Search::Found(_) => return Err(damaged(path.segment, "a key that came by itself")),
            };
        }
        Ok(())
    }

    /// Follows the directory to the segment of `hash`.
    #[inline]
    fn descend<T: Transact>(self, tx: &mut T, header: &Header, hash: u64) -> Result<Path, Abort> {
        let mut path = Path {
            holder: self.root.plus(MAP_DIRECTORY_AT as u64),
            node: None,
            consumed: 0,
            limit: header.root_bits,
            index: 0,
            segment: header.directory.at(),
        };
        let mut child = header.directory;
        while child.bits() != 0 {
            let bits = child.bits();
            if let Some(node) = path.node {
                path.holder = node.at().plus(8 * path.index);
                path.consumed += node.bits();
                path.limit = NODE_BITS_MAX;
            }
            if path.consumed + bits > DEPTH_MAX {
                return Err(damaged(child.at(), "a directory that is too deep"));
            }
            path.index = hash << path.consumed >> (64 - bits);
            path.node = Some(child);
            child = Child(tx.load_u64(child.at().plus(8 * path.index))?);
        }
        path.segment = child.at();
        Ok(path)
    }
}

/// Keys that a segment holds on average between its splits.
const KEYS_PER_SEGMENT: u64 = 200;
/// The same of pairs of words.
const PAIRS_PER_SEGMENT: u64 = 90;

struct Header {
    seed: u64,
    directory: Child,
    kept: Kept,
    root_bits: u32,
    depth_max: u32,
}

impl Header {
    #[inline(always)]
    fn decode(image: &[u8]) -> Option<Self> {
        let header = Self {
            seed: word(image, MAP_SEED_AT),
            directory: Child(word(image, MAP_DIRECTORY_AT)),
            kept: Kept::from_bytes([
                image[MAP_PLACEMENT_AT],
                image[MAP_KEY_BYTES_AT],
                image[MAP_VALUE_BYTES_AT],
            ])?,
            root_bits: u32::from(image[MAP_ROOT_BITS_AT]),
            depth_max: u32::from(image[MAP_DEPTH_MAX_AT]),
        };
        let sound = word(image, 0) == MAP_MAGIC
            && (NODE_BITS_MAX..=ROOT_BITS_MAX).contains(&header.root_bits)
            && header.depth_max <= DEPTH_MAX;
        sound.then_some(header)
    }
}

/// The way to a segment.
struct Path {
    /// Where the child word that points to `node` (or to the segment, without one) is stored.
    holder: PoolOffset,
    /// The last directory node.
    node: Option<Child>,
    /// Hash bits consumed before `node`.
    consumed: u32,
    /// How many bits `node` may grow to.
    limit: u32,
    /// The place in `node` of the child word that points to the segment.
    index: u64,
    segment: PoolOffset,
}

impl Dictionary for ByteMap {
    #[inline]
    fn find<T: Transact>(self, tx: &mut T, key: &[u8]) -> Result<Option<ByteRange>, Abort> {
        let header = self.header(tx)?;
        let blocks = match header.kept {
            Kept::Entries(blocks) => blocks,
            Kept::Words(pairs) => return self.find_pair(tx, &header, pairs, key),
        };
        let hash = hash_key(header.seed, key);
        let path = self.descend(tx, &header, hash)?;
        match search(tx, blocks, path.segment, hash, key)? {
            Search::Found(found) => Ok(Some(found.entry.value)),
            Search::Absent(_) => Ok(None),
        }
    }

    fn insert<T: Transact>(self, tx: &mut T, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        self.put(tx, key, value, true)
    }

    fn add<T: Transact>(self, tx: &mut T, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        Ok(!self.put(tx, key, value, false)?)
    }

    fn remove<T: Transact>(self, tx: &mut T, key: &[u8]) -> Result<bool, Abort> {
        let header = self.header(tx)?;
        let blocks = match header.kept {
            Kept::Entries(blocks) => blocks,
            Kept::Words(pairs) => return self.remove_pair(tx, &header, pairs, key),
        };
        let hash = hash_key(header.seed, key);
        let path = self.descend(tx, &header, hash)?;
        match search(tx, blocks, path.segment, hash, key)? {
            Search::Found(found) => {
                entry::free(tx, blocks, &found.entry)?;
                unplace(tx, path.segment, &found)?;
                Ok(true)
            }
            Search::Absent(_) => Ok(false),
        }
    }

    fn for_each<T: Transact>(
        self,
        tx: &mut T,
        mut visit: impl FnMut(&mut T, &[u8], ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let kept = self.header(tx)?.kept;
        let mut key = Vec::new();
        self.each_item(tx, &mut |tx, item| {
            let value = item.open(tx, kept, &mut key)?;
            visit(tx, &key, value)
        })
    }

    fn len<T: Transact>(self, tx: &mut T) -> Result<u64, Abort> {
        let mut keys = 0;
        self.each_item(tx, &mut |_, _| {
            keys += 1;
            Ok(())
        })?;
        Ok(keys)
    }
}
