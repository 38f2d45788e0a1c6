//! Entries: a key with its value, or a member of a large value, in one block.
//!
//! ```text
//! 0   next    word of the entry behind it in its bucket, 0 for none
//! 8   meta    key bytes (28 bits), kind (4), value bytes (31), has a deadline (1)
//! 16  key, value, deadline (8 bytes, ms since 1970), one behind the other
//! ```
//!
//! A word that leads to an entry has the offset ÷ 16 in 40 bits and the upper 24 bits of the key's
//! hash above, so that another key's entry is seldom looked at.

use std::cmp::Ordering;

use outlast::{Abort, PoolOffset};

use crate::store::hasher::Hasher;
use crate::store::mem::{Mem, damaged};
use crate::store::size::rounded;

/// Bytes before the key.
pub(crate) const HEAD_BYTES: u64 = 16;
/// Bytes of a deadline.
const DEADLINE_BYTES: u64 = 8;
/// Longest key.
pub(crate) const KEY_BYTES_MAX: usize = (1 << 28) - 1;
/// Longest value in an entry.
pub(crate) const VALUE_BYTES_MAX: usize = (1 << 31) - 1;

const POINTER_BITS: u32 = 40;
const POINTER_MASK: u64 = (1 << POINTER_BITS) - 1;

/// The type of a value, and its representation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The bytes themselves.
    String = 0,
    /// Fields and values one after the other.
    HashBlob = 1,
    /// A table of fields.
    HashTable = 2,
    /// Items one after the other.
    ListBlob = 3,
    /// A sequence of items, as former versions made it: a change makes it `ListEnds`.
    ListSeq = 4,
    /// Members one after the other.
    SetBlob = 5,
    /// A table of members.
    SetTable = 6,
    /// Members and scores one after the other, in the order of scores.
    ZsetBlob = 7,
    /// A table of members and a sequence of scores with members, as former versions made it.
    ZsetTree = 8,
    /// A stream.
    Stream = 9,
    /// A sequence of items whose ends are open.
    ListEnds = 10,
    /// A table of members and the order of their scores.
    ZsetScores = 11,
}

impl Kind {
    const ALL: [Self; 12] = [
        Self::String,
        Self::HashBlob,
        Self::HashTable,
        Self::ListBlob,
        Self::ListSeq,
        Self::SetBlob,
        Self::SetTable,
        Self::ZsetBlob,
        Self::ZsetTree,
        Self::Stream,
        Self::ListEnds,
        Self::ZsetScores,
    ];

    /// The value's type, as `TYPE` names it.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::HashBlob | Self::HashTable => "hash",
            Self::ListBlob | Self::ListSeq | Self::ListEnds => "list",
            Self::SetBlob | Self::SetTable => "set",
            Self::ZsetBlob | Self::ZsetTree | Self::ZsetScores => "zset",
            Self::Stream => "stream",
        }
    }

    /// Whether the value leads to other blocks.
    pub fn is_large(self) -> bool {
        match self {
            Self::HashTable | Self::SetTable | Self::Stream => true,
            Self::ListSeq | Self::ListEnds | Self::ZsetTree | Self::ZsetScores => true,
            Self::String | Self::HashBlob | Self::ListBlob | Self::SetBlob | Self::ZsetBlob => {
                false
            }
        }
    }
}

/// An entry's head, and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub at: PoolOffset,
    pub next: u64,
    pub kind: Kind,
    pub key_len: usize,
    pub value_len: usize,
    pub has_deadline: bool,
}

impl Entry {
    pub fn load(mem: &mut Mem<'_>, at: PoolOffset) -> Result<Self, Abort> {
        let next = mem.load_u64(at)?;
        let meta = mem.load_u64(at.plus(8))?;
        let kind = Kind::ALL.get((meta >> 28 & 15) as usize).copied();
        let kind = kind.ok_or_else(|| {
            damaged(at, "a value of a type that this version of outlast does not know")
        })?;
        Ok(Self {
            at,
            next,
            kind,
            key_len: (meta & KEY_BYTES_MAX as u64) as usize,
            value_len: (meta >> 32 & VALUE_BYTES_MAX as u64) as usize,
            has_deadline: meta >> 63 != 0,
        })
    }

    /// The second word of the head.
    pub fn meta(kind: Kind, key_len: usize, value_len: usize, has_deadline: bool) -> u64 {
        key_len as u64
            | u64::from(kind as u8) << 28
            | (value_len as u64) << 32
            | u64::from(has_deadline) << 63
    }

    /// Bytes of an entry.
    pub fn bytes(key_len: usize, value_len: usize, has_deadline: bool) -> u64 {
        let deadline = if has_deadline { DEADLINE_BYTES } else { 0 };
        HEAD_BYTES + key_len as u64 + value_len as u64 + deadline
    }

    pub fn own_bytes(&self) -> u64 {
        Self::bytes(self.key_len, self.value_len, self.has_deadline)
    }

    /// Whether a value of `value_len` bytes stays in the entry's block.
    pub fn has_room_for(&self, value_len: usize) -> bool {
        let bytes = Self::bytes(self.key_len, value_len, self.has_deadline);
        rounded(bytes) == rounded(self.own_bytes())
    }

    pub fn key_at(&self) -> PoolOffset {
        self.at.plus(HEAD_BYTES)
    }

    pub fn value_at(&self) -> PoolOffset {
        self.at.plus(HEAD_BYTES + self.key_len as u64)
    }

    pub fn deadline_at(&self) -> PoolOffset {
        self.value_at().plus(self.value_len as u64)
    }

    pub fn key(&self, mem: &mut Mem<'_>) -> Result<Vec<u8>, Abort> {
        super::mem::load_vec(mem, self.key_at(), self.key_len)
    }

    pub fn value(&self, mem: &mut Mem<'_>) -> Result<Vec<u8>, Abort> {
        super::mem::load_vec(mem, self.value_at(), self.value_len)
    }

    /// The offset that a large value begins with, or has behind the first.
    pub fn large_at(&self, mem: &mut Mem<'_>, index: u64) -> Result<PoolOffset, Abort> {
        let mut word = [0; 8];
        mem.load(self.value_at().plus(index * 8), &mut word)?;
        Ok(PoolOffset(u64::from_le_bytes(word)))
    }

    /// The two offsets that a large value begins with.
    pub fn large_both(&self, mem: &mut Mem<'_>) -> Result<(PoolOffset, PoolOffset), Abort> {
        let mut words = [0; 16];
        mem.load(self.value_at(), &mut words)?;
        let [first, second] = [0, 1].map(|index| words.as_chunks::<8>().0[index]);
        Ok((PoolOffset(u64::from_le_bytes(first)), PoolOffset(u64::from_le_bytes(second))))
    }

    /// When it expires, in ms since 1970.
    pub fn deadline(&self, mem: &mut Mem<'_>) -> Result<Option<u64>, Abort> {
        if !self.has_deadline {
            return Ok(None);
        }
        let mut word = [0; 8];
        mem.load(self.deadline_at(), &mut word)?;
        Ok(Some(u64::from_le_bytes(word)))
    }

    /// The hash of its key.
    pub fn hash(&self, mem: &mut Mem<'_>, hasher: Hasher) -> Result<u64, Abort> {
        let mut short = [0; 64];
        if let Some(key) = short.get_mut(..self.key_len) {
            mem.load(self.key_at(), key)?;
            return Ok(hasher.hash(key));
        }
        Ok(hasher.hash(&self.key(mem)?))
    }

    /// How its key compares to another.
    pub fn compare_key(&self, mem: &mut Mem<'_>, other: &[u8]) -> Result<Ordering, Abort> {
        let mut short = [0; 64];
        if let Some(key) = short.get_mut(..self.key_len) {
            mem.load(self.key_at(), key)?;
            return Ok((*key).cmp(other));
        }
        // One byte more than the other has decides the order.
        let len = self.key_len.min(other.len() + 1);
        Ok(super::mem::load_vec(mem, self.key_at(), len)?.as_slice().cmp(other))
    }

    /// Whether it is the entry of that key.
    pub fn has_key(&self, mem: &mut Mem<'_>, key: &[u8]) -> Result<bool, Abort> {
        if self.key_len != key.len() {
            return Ok(false);
        }
        let mut piece = [0; 128];
        for (index, part) in key.chunks(piece.len()).enumerate() {
            let piece = &mut piece[..part.len()];
            mem.load(self.key_at().plus((index * 128) as u64), piece)?;
            if piece != part {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The word that leads to an entry.
pub(crate) fn word(at: PoolOffset, hash: u64) -> u64 {
    (at.0 / 16) | hash & !POINTER_MASK
}

/// The entry that a word leads to.
pub(crate) fn pointer(word: u64) -> Option<PoolOffset> {
    (word != 0).then_some(PoolOffset((word & POINTER_MASK) * 16))
}

/// Whether the word may lead to an entry of that hash.
pub(crate) fn has_tag(word: u64, hash: u64) -> bool {
    (word ^ hash) & !POINTER_MASK == 0
}
