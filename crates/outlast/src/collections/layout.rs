//! The bytes of the collections in a pool. All integers are little-endian; offsets are bytes
//! from the start of the pool; *slot*, *child word* and *link* are defined below.
//!
//! ```text
//! slot        0..40   block offset ÷ 16 (0: the slot is empty)
//! (8 bytes,  40..64   24 bits that spare a look at the block: in a map the low 24 bits of the
//!  bits)              key's hash; in a tree the key's length (8 bits, 255 = that or longer)
//!                     and 16 bits of its hash (0 for keys of up to 8 bytes)
//!
//! entry, together (General)              entry, apart (Key)             value, apart (Value)
//!  0   4  key length                      0   4  key length              0  …  value
//!  4   4  value length                    4   4  value length
//!  8   …  key                             8   8  value block (0: empty)
//!  8↑  …  value, at a multiple of 8      16   …  key
//!
//! entry, scattered: as apart, where the value block field leads to the value, which begins 0, 16,
//! 32 or 48 bytes behind the start of its block (a line) when it has 64 bytes or more
//!
//! field of a record, together            field, apart              value of a field, apart
//!  0   8  name, zeros behind              0   8  name, zeros        0  …  value
//!  8   8  length of the value             8   8  length             (all behind the fields, each
//! 16   8  mark                           16   8  mark                at a multiple of 16, 8 bytes
//! 24   …  value                                                      at least between two)
//! (each at a multiple of 64)             (one behind the other)
//!
//! map header                             tree header
//!  0   8  MAP_MAGIC                       0   8  TREE_MAGIC
//!  8   8  hash seed                       8   8  root: node offset + height (low 6 bits)
//! 16   8  directory: a child word        16   1  placement of entries
//! 24   1  placement of entries           17   1  inline: bytes of a key
//! 25   1  bits of the first node, at most 18  1  inline: bytes of a value
//! 26   1  depth, at most                 19  45  zero
//! 27   1  inline: bytes of a key
//! 28   1  inline: bytes of a value       words header, followed by the words
//! 29  35  zero                            0   8  WORDS_MAGIC
//!                                         8   8  number of words
//! directory of trees                     16  48  zero
//!  0   8  TREES_MAGIC
//!  8   8  number of trees                red-black tree header
//! 16  48  zero                            0   8  RB_MAGIC
//! 64   …  the offset of each tree's       8   8  root node, or 0
//!         header, 8 bytes each           16   8  bytes of a value
//!                                        24  40  zero
//! red-black tree node
//! (a block that begins a line)           queue header (192 bytes)
//!  0   8  left child, or 0                0   8  QUEUE_MAGIC
//!  8   8  right child, or 0               8   8  bytes of an item
//! 16   8  parent (0: the root) + 1 when  16  48  zero
//!         the node is red                64   8  items that were taken out
//! 24   8  key                            72   8  block of the next one to be taken out
//! 32   …  value                          80  48  zero
//!                                       128   8  items that were put in
//! queue block                           136   8  block of the next one to be put in
//!  0   8  next block of the ring        144  48  zero
//!  8  56  zero
//! 64   …  places for items: see `places`
//!
//! child word: 64-byte-aligned offset + low 6 bits: 0 = a segment, k = a node of 2^k child words
//!
//! map segment (4,096 bytes)              bucket line
//!    0   64  header                       0  56  7 slots
//!   64 3072  48 bucket lines             56   8  link: the line that the bucket goes on in, or 0
//! 3136  960  15 spare lines
//!                                        map segment header
//!                                         0   8  SEGMENT_MAGIC
//!                                         8   8  depth: hash bits that all its keys share
//!                                        16   8  those bits, in the highest places
//!                                        24   8  spare lines in use, one bit each
//!                                        32  32  zero
//! bucket line of pairs (placement inline)
//!    0   8  zero
//!    8  48  3 × { key word, value word }
//!   56   8  the link, as above + bit i when the pair i is in use
//!
//! key word: the head (below) of a key; value word: the bytes of a value, zeros behind
//!
//! tree leaf (256 bytes)                  tree inner node (768 bytes)
//!   0   8  order (see `Order`)             0   8  n: number of separators, 1 to 31
//!   8   8  next leaf, or 0                 8 248  31 heads, ascending
//!  16 240  15 × { head, slot }           256 256  32 children: node offsets
//!                                        512 248  31 separator slots
//!                                        760   8  unused
//!
//! tree leaf of pairs (256 bytes, placement inline)
//!   0   8  order
//!   8 120  15 key words
//! 128   8  next leaf, or 0
//! 136 120  15 value words
//!
//! head: the first 8 bytes of a key, zero-padded, as a number whose highest byte comes first
//! separator slot: offset 0 and the length (in bits 40..48) of a separator that its head holds
//!   whole; else the block (Key) { 4 length, 4 zero, … bytes } and 255
//! order (8 bytes): nibble 0 = number of keys c; nibbles 1..=c = their slots in key order; the
//!   rest = the free slots
//! ```

use outlast_trace::{LINE_BYTES, PoolOffset};

pub(super) const MAP_MAGIC: u64 = u64::from_le_bytes(*b"OutlMap1");
pub(super) const TREE_MAGIC: u64 = u64::from_le_bytes(*b"OutlTre1");
pub(super) const WORDS_MAGIC: u64 = u64::from_le_bytes(*b"OutlWrd1");
pub(super) const TREES_MAGIC: u64 = u64::from_le_bytes(*b"OutlTrs1");
pub(super) const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"OutlSeg1");
pub(super) const RB_MAGIC: u64 = u64::from_le_bytes(*b"OutlRbt1");
pub(super) const QUEUE_MAGIC: u64 = u64::from_le_bytes(*b"OutlQue1");

/// Bytes in the header block of each structure.
pub(super) const HEADER_BYTES: u64 = LINE_BYTES;

/// Bytes in an entry block that say how long its key and its value are.
pub(super) const ENTRY_LENGTHS_BYTES: u64 = 8;
/// Where the key of an entry apart starts.
pub(super) const APART_KEY_AT: u64 = 16;
/// Where the key of an entry together starts.
pub(super) const TOGETHER_KEY_AT: u64 = 8;

pub(super) const MAP_SEED_AT: usize = 8;
pub(super) const MAP_DIRECTORY_AT: usize = 16;
pub(super) const MAP_PLACEMENT_AT: usize = 24;
pub(super) const MAP_ROOT_BITS_AT: usize = 25;
pub(super) const MAP_DEPTH_MAX_AT: usize = 26;
pub(super) const MAP_KEY_BYTES_AT: usize = 27;
pub(super) const MAP_VALUE_BYTES_AT: usize = 28;
/// Bytes of a map's header that say something, as whole words.
pub(super) const MAP_HEADER_USED: usize = 32;

pub(super) const CHILD_BITS_MASK: u64 = 63;
/// The smallest directory node: one line.
pub(super) const NODE_BITS_MIN: u32 = 3;
/// The largest directory node below the first one: what one transaction copies at most.
pub(super) const NODE_BITS_MAX: u32 = 9;
/// The largest first node, whatever was expected: 8 MiB.
pub(super) const ROOT_BITS_MAX: u32 = 20;
/// The highest hash bits choose the segment: at most this many.
pub(super) const DEPTH_MAX: u32 = 32;

pub(super) const SEGMENT_BYTES: usize = 4096;
pub(super) const SEGMENT_DEPTH_AT: usize = 8;
pub(super) const SEGMENT_PREFIX_AT: usize = 16;
pub(super) const SEGMENT_SPARES_AT: usize = 24;
pub(super) const BUCKETS: usize = 48;
pub(super) const SPARES: usize = 15;
pub(super) const FIRST_BUCKET_AT: usize = 64;
pub(super) const FIRST_SPARE_AT: usize = FIRST_BUCKET_AT + BUCKETS * BUCKET_BYTES;
pub(super) const BUCKET_BYTES: usize = 64;
pub(super) const BUCKET_SLOTS: usize = 7;
pub(super) const LINK_AT: usize = BUCKET_SLOTS * 8;
pub(super) const BUCKET_PAIRS: usize = 3;
pub(super) const FIRST_PAIR_AT: usize = 8;
pub(super) const PAIR_BYTES: usize = 16;
/// The bits of a link word that say which pairs are in use.
pub(super) const PAIRS_MASK: u64 = (1 << BUCKET_PAIRS) - 1;

pub(super) const TREE_ROOT_AT: usize = 8;
pub(super) const TREE_PLACEMENT_AT: usize = 16;
pub(super) const TREE_KEY_BYTES_AT: usize = 17;
pub(super) const TREE_VALUE_BYTES_AT: usize = 18;
/// Bytes of a tree's header that say something, as whole words.
pub(super) const TREE_HEADER_USED: usize = 24;

pub(super) const LEAF_BYTES: usize = 256;
pub(super) const LEAF_SLOTS: usize = 15;
pub(super) const LEAF_NEXT_AT: usize = 8;
pub(super) const LEAF_SLOTS_AT: usize = 16;
/// Where a leaf of pairs has its keys: the lines of the order word, so that a search needs no others.
pub(super) const LEAF_KEYS_AT: usize = 8;
pub(super) const LEAF_WORDS_NEXT_AT: usize = LEAF_KEYS_AT + 8 * LEAF_SLOTS;
pub(super) const LEAF_VALUES_AT: usize = LEAF_WORDS_NEXT_AT + 8;
pub(super) const INNER_BYTES: usize = 768;
pub(super) const INNER_HEADS_AT: usize = 8;
pub(super) const INNER_CHILDREN_AT: usize = 256;
pub(super) const INNER_SEPARATORS_AT: usize = 512;
pub(super) const SEPARATORS_MAX: usize = 31;
/// Bytes before the text of a separator in its block.
pub(super) const SEPARATOR_TEXT_AT: u64 = 8;
/// Sixteen keys to a leaf on average at the least would need more memory than a pool can have.
pub(super) const HEIGHT_MAX: usize = 24;

pub(super) const WORDS_LEN_AT: usize = 8;
pub(super) const WORDS_AT: u64 = HEADER_BYTES;
pub(super) const TREES_LEN_AT: usize = 8;
pub(super) const TREES_AT: u64 = HEADER_BYTES;

pub(super) const RB_ROOT_AT: usize = 8;
pub(super) const RB_VALUE_BYTES_AT: usize = 16;
pub(super) const RB_LEFT_AT: usize = 0;
pub(super) const RB_RIGHT_AT: usize = 8;
pub(super) const RB_PARENT_AT: usize = 16;
pub(super) const RB_KEY_AT: usize = 24;
pub(super) const RB_VALUE_AT: usize = 32;
/// The colour in the parent word: nodes begin with a line.
pub(super) const RB_RED: u64 = 1;
/// A pool has room for fewer than 2^38 nodes, and a tree of `n` is no higher than 2 log2(n + 1).
pub(super) const RB_HEIGHT_MAX: usize = 76;

pub(super) const QUEUE_ITEM_BYTES_AT: usize = 8;
/// Words that consumers change and words that producers change lie on lines of their own.
pub(super) const QUEUE_HEAD_AT: u64 = LINE_BYTES;
pub(super) const QUEUE_TAIL_AT: u64 = 2 * LINE_BYTES;
pub(super) const QUEUE_HEADER_BYTES: u64 = 3 * LINE_BYTES;
/// Where the places of a queue's block begin.
pub(super) const QUEUE_PLACES_AT: u64 = LINE_BYTES;

const _: () = {
    assert!(SEGMENT_BYTES == 64 + (BUCKETS + SPARES) * BUCKET_BYTES);
    assert!(FIRST_SPARE_AT + SPARES * BUCKET_BYTES == SEGMENT_BYTES);
    assert!(LINK_AT + 8 == BUCKET_BYTES && BUCKET_BYTES as u64 == LINE_BYTES);
    assert!(FIRST_PAIR_AT + BUCKET_PAIRS * PAIR_BYTES == LINK_AT);
    assert!(LEAF_SLOTS_AT + LEAF_SLOTS * 16 == LEAF_BYTES);
    assert!(LEAF_WORDS_NEXT_AT == 2 * LINE_BYTES as usize);
    assert!(LEAF_VALUES_AT + LEAF_SLOTS * 8 == LEAF_BYTES);
    assert!(INNER_HEADS_AT + SEPARATORS_MAX * 8 == INNER_CHILDREN_AT);
    assert!(INNER_CHILDREN_AT + (SEPARATORS_MAX + 1) * 8 == INNER_SEPARATORS_AT);
    assert!(INNER_SEPARATORS_AT + SEPARATORS_MAX * 8 + 8 == INNER_BYTES);
    assert!(RB_RIGHT_AT == RB_LEFT_AT + 8 && RB_LEFT_AT == 0, "a side is an index");
    assert!(RB_VALUE_AT == RB_KEY_AT + 8, "a key and its value move together");
    assert!(8 << NODE_BITS_MIN == LINE_BYTES);
    assert!(ROOT_BITS_MAX < DEPTH_MAX && (DEPTH_MAX as u64) < CHILD_BITS_MASK);
    assert!((HEIGHT_MAX as u64) < CHILD_BITS_MASK);
};

/// A pointer to a block with 24 bits about its key; the layout is in the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Slot(pub(super) u64);

impl Slot {
    const AT_BITS: u32 = 40;
    const AT_MASK: u64 = (1 << Self::AT_BITS) - 1;
    pub(super) const EMPTY: Self = Self(0);

    pub(super) fn new(at: PoolOffset, extra: u32) -> Self {
        debug_assert!(at.is_aligned(16) && at.0 >> 4 <= Self::AT_MASK && extra >> 24 == 0);
        Self(at.0 >> 4 | u64::from(extra) << Self::AT_BITS)
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.0 & Self::AT_MASK == 0
    }

    #[inline]
    pub(super) fn at(self) -> PoolOffset {
        PoolOffset((self.0 & Self::AT_MASK) << 4)
    }

    /// The 24 bits.
    #[inline]
    pub(super) fn extra(self) -> u32 {
        (self.0 >> Self::AT_BITS) as u32
    }

    /// The same bits with another block.
    pub(super) fn moved_to(self, at: PoolOffset) -> Self {
        Self::new(at, self.extra())
    }
}

/// Points to a segment of the map or to a directory node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Child(pub(super) u64);

impl Child {
    pub(super) fn segment(at: PoolOffset) -> Self {
        debug_assert!(at.is_aligned(LINE_BYTES));
        Self(at.0)
    }

    pub(super) fn node(at: PoolOffset, bits: u32) -> Self {
        debug_assert!(at.is_aligned(LINE_BYTES) && bits >= NODE_BITS_MIN);
        Self(at.0 | u64::from(bits))
    }

    #[inline]
    pub(super) fn at(self) -> PoolOffset {
        PoolOffset(self.0 & !CHILD_BITS_MASK)
    }

    /// How many hash bits the node takes; 0 for a segment.
    #[inline]
    pub(super) fn bits(self) -> u32 {
        (self.0 & CHILD_BITS_MASK) as u32
    }
}

/// Little-endian word at byte `at` of an image.
#[inline]
pub(crate) fn word(image: &[u8], at: usize) -> u64 {
    let (bytes, _) = image[at..].split_first_chunk().expect("a word fits behind every field");
    u64::from_le_bytes(*bytes)
}

/// Sets the little-endian word at byte `at` of an image.
#[inline]
pub(crate) fn set_word(image: &mut [u8], at: usize, value: u64) {
    image[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_its_offset_and_its_bits() {
        let slot = Slot::new(PoolOffset(0x123_4560), 0xAB_CDEF);
        assert_eq!((slot.at(), slot.extra()), (PoolOffset(0x123_4560), 0xAB_CDEF));
        let high = PoolOffset((1 << 44) - 16);
        assert_eq!(slot.moved_to(high).at(), high);
        assert_eq!(slot.moved_to(high).extra(), 0xAB_CDEF);
        assert!(Slot::EMPTY.is_empty() && !slot.is_empty());
    }
}
