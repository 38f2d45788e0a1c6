//! Entries: the blocks that hold a key and its value.

use std::cmp::Ordering;

use super::damaged;
use super::layout::{APART_KEY_AT, ENTRY_LENGTHS_BYTES, Slot, TOGETHER_KEY_AT};
use crate::medium::LINE_BYTES;
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 65_535;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 1 << 30;

/// A value of the same length replaces the old one in place up to this size. Above it, filling
/// a fresh block and switching one word costs less than logging the old bytes or the new ones.
const IN_PLACE_BYTES_MAX: usize = 256;

/// How the entries of a dictionary lie in blocks of their own: see [`Placement`](super::Placement).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Blocks {
    Together,
    Apart,
    Scattered,
}

/// How far into its block a scattered value begins, at most.
const SHIFT_MAX: u64 = 48;

/// How far into its block a scattered value begins: 0, 16, 32 and 48 bytes are as frequent, also
/// over neighbouring blocks of any size.
fn shift_in(block: PoolOffset) -> u64 {
    16 * ((block.0 / LINE_BYTES).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62)
}

impl Blocks {
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Together),
            1 => Some(Self::Apart),
            2 => Some(Self::Scattered),
            _ => None,
        }
    }

    /// The block that a value of an entry apart lies in, with the size that was asked for.
    fn value_block(self, value: ByteRange) -> ByteRange {
        if !self.shifts(value.len) {
            return value;
        }
        let start = PoolOffset(value.at.0 - value.at.in_line() as u64);
        ByteRange::new(start, value.len + SHIFT_MAX)
    }

    /// Whether a value of `bytes` bytes begins somewhere in its block.
    fn shifts(self, value_bytes: u64) -> bool {
        self == Self::Scattered && value_bytes >= LINE_BYTES
    }
}

/// An entry as its block describes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) at: PoolOffset,
    pub(super) key: ByteRange,
    pub(super) value: ByteRange,
}

impl Entry {
    /// Decodes the first 16 bytes of the block; every block has that many.
    #[inline]
    pub(super) fn decode(blocks: Blocks, at: PoolOffset, start: &[u8; 16]) -> Self {
        let [k0, k1, k2, k3, v0, v1, v2, v3, value_block @ ..] = *start;
        let key_len = u64::from(u32::from_le_bytes([k0, k1, k2, k3]));
        let value_len = u64::from(u32::from_le_bytes([v0, v1, v2, v3]));
        let (key_at, value_at) = match blocks {
            Blocks::Together => (at.plus(TOGETHER_KEY_AT), at.plus(value_at(key_len))),
            Blocks::Apart | Blocks::Scattered => {
                (at.plus(APART_KEY_AT), PoolOffset(u64::from_le_bytes(value_block)))
            }
        };
        Self {
            at,
            key: ByteRange::new(key_at, key_len),
            value: ByteRange::new(value_at, value_len),
        }
    }

    /// Whether the value lies in its block where it was put.
    pub(super) fn is_in_place(&self, blocks: Blocks) -> bool {
        let block = blocks.value_block(self.value).at;
        !blocks.shifts(self.value.len) || self.value.at == block.plus(shift_in(block))
    }

    /// The blocks of the entry, with the sizes that were asked for.
    pub(super) fn blocks(&self, blocks: Blocks) -> (ByteRange, Option<ByteRange>) {
        let bytes = block_bytes(blocks, self.key.len, self.value.len);
        let value = blocks != Blocks::Together && self.value.len > 0;
        let value = value.then(|| blocks.value_block(self.value));
        (ByteRange::new(self.at, bytes), value)
    }
}

/// Where the value starts in a block that holds both.
fn value_at(key_len: u64) -> u64 {
    TOGETHER_KEY_AT + key_len.next_multiple_of(8)
}

/// The size of an entry's block: the head of the entry is always loadable whole.
fn block_bytes(blocks: Blocks, key_len: u64, value_len: u64) -> u64 {
    match blocks {
        Blocks::Together => (value_at(key_len) + value_len).max(16),
        Blocks::Apart | Blocks::Scattered => APART_KEY_AT + key_len,
    }
}

/// Loads the head of the entry at `at`.
#[inline]
pub(super) fn open<T: Transact>(
    tx: &mut T,
    blocks: Blocks,
    at: PoolOffset,
) -> Result<Entry, Abort> {
    let mut start = [0; 16];
    tx.load(at, &mut start)?;
    let entry = Entry::decode(blocks, at, &start);
    if entry.key.len > KEY_BYTES_MAX as u64 {
        return Err(damaged(at, "an entry with a key longer than any"));
    }
    Ok(entry)
}

/// Opens the entry at `at` and copies its key to `key`.
pub(super) fn open_with_key<T: Transact>(
    tx: &mut T,
    blocks: Blocks,
    at: PoolOffset,
    key: &mut Vec<u8>,
) -> Result<Entry, Abort> {
    let entry = open(tx, blocks, at)?;
    key.resize(entry.key.len as usize, 0);
    if !key.is_empty() {
        tx.load(entry.key.at, key)?;
    }
    Ok(entry)
}

/// The entry at `at` if its key is `key`.
#[inline]
pub(super) fn open_if<T: Transact>(
    tx: &mut T,
    blocks: Blocks,
    at: PoolOffset,
    key: &[u8],
) -> Result<Option<Entry>, Abort> {
    let mut start = [0; 16];
    tx.load(at, &mut start)?;
    let entry = Entry::decode(blocks, at, &start);
    if entry.key.len != key.len() as u64 {
        return Ok(None);
    }
    // The head of a block that holds both brings the first 8 bytes of the key along.
    let seen = match blocks {
        Blocks::Together => key.len().min(8),
        Blocks::Apart | Blocks::Scattered => 0,
    };
    let same = start[8..8 + seen] == key[..seen]
        && (seen == key.len()
            || compare(
                tx,
                &key[seen..],
                entry.key.at.plus(seen as u64),
                entry.key.len - seen as u64,
            )? == Ordering::Equal);
    Ok(same.then_some(entry))
}

/// Compares `key` with the `len` bytes at `at`, a line's worth at a time.
pub(super) fn compare<T: Transact>(
    tx: &mut T,
    key: &[u8],
    at: PoolOffset,
    len: u64,
) -> Result<Ordering, Abort> {
    let common = key.len().min(len as usize);
    let mut buffer = [0; 64];
    for (i, piece) in key[..common].chunks(64).enumerate() {
        let stored = &mut buffer[..piece.len()];
        tx.load(at.plus(64 * i as u64), stored)?;
        match piece.cmp(stored) {
            Ordering::Equal => {}
            unequal => return Ok(unequal),
        }
    }
    Ok((key.len() as u64).cmp(&len))
}

/// Blocks taken for an entry that is not written yet.
pub(super) struct Reserved {
    pub(super) entry: PoolOffset,
    value: PoolOffset,
}

/// Takes the blocks that an entry needs, so that its transaction can announce everything else
/// behind its allocations.
pub(super) fn reserve<T: Transact>(
    tx: &mut T,
    blocks: Blocks,
    key: &[u8],
    value: &[u8],
) -> Result<Reserved, Abort> {
    check_lengths(key, value)?;
    let (key_len, value_len) = (key.len() as u64, value.len() as u64);
    let bytes = block_bytes(blocks, key_len, value_len);
    match blocks {
        Blocks::Together => {
            let entry = tx.alloc(bytes, BlockKind::General)?;
            Ok(Reserved { entry, value: entry.plus(value_at(key_len)) })
        }
        Blocks::Apart | Blocks::Scattered => {
            let entry = tx.alloc(bytes, BlockKind::Key)?;
            Ok(Reserved { entry, value: alloc_value(tx, blocks, value)? })
        }
    }
}

/// A block for a value of its own; where the value is to lie.
fn alloc_value<T: Transact>(tx: &mut T, blocks: Blocks, value: &[u8]) -> Result<PoolOffset, Abort> {
    match value.len() as u64 {
        0 => Ok(PoolOffset(0)),
        bytes if blocks.shifts(bytes) => {
            let block = tx.alloc(bytes + SHIFT_MAX, BlockKind::Value)?;
            Ok(block.plus(shift_in(block)))
        }
        bytes => tx.alloc(bytes, BlockKind::Value),
    }
}

fn check_lengths(key: &[u8], value: &[u8]) -> Result<(), Abort> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Abort::too_large("a key", key.len() as u64, KEY_BYTES_MAX as u64));
    }
    if value.len() > VALUE_BYTES_MAX {
        return Err(Abort::too_large("a value", value.len() as u64, VALUE_BYTES_MAX as u64));
    }
    Ok(())
}

/// Writes an entry into its fresh blocks, in one store where it is small.
pub(super) fn fill<T: Transact>(
    tx: &mut T,
    blocks: Blocks,
    reserved: &Reserved,
    key: &[u8],
    value: &[u8],
) -> Result<(), Abort> {
    let mut small = [0; 128];
    small[..8].copy_from_slice(&lengths(key, value));
    let key_at = match blocks {
        Blocks::Together => TOGETHER_KEY_AT as usize,
        Blocks::Apart | Blocks::Scattered => {
            small[8..16].copy_from_slice(&reserved.value.0.to_le_bytes());
            APART_KEY_AT as usize
        }
    };
    let mut len = key_at;
    let key_fits = key_at + key.len() <= small.len();
    if key_fits {
        len += key.len();
        small[key_at..len].copy_from_slice(key);
    }
    let value_from = value_at(key.len() as u64) as usize;
    let value_joins =
        blocks == Blocks::Together && key_fits && value_from + value.len() <= small.len();
    if value_joins && !value.is_empty() {
        len = value_from + value.len();
        small[value_from..len].copy_from_slice(value);
    }
    tx.store(reserved.entry, &small[..len])?;
    if !key_fits {
        tx.store(reserved.entry.plus(key_at as u64), key)?;
    }
    if !value_joins && !value.is_empty() {
        tx.store(reserved.value, value)?;
    }
    Ok(())
}

fn lengths(key: &[u8], value: &[u8]) -> [u8; ENTRY_LENGTHS_BYTES as usize] {
    (key.len() as u64 | (value.len() as u64) << 32).to_le_bytes()
}

/// Gives the blocks of an entry back.
pub(super) fn free<T: Transact>(tx: &mut T, blocks: Blocks, entry: &Entry) -> Result<(), Abort> {
    let (block, value) = entry.blocks(blocks);
    tx.free(block.at)?;
    value.map_or(Ok(()), |value| tx.free(value.at))
}

/// Gives `entry`, to which the slot at `slot_at` points, another value; a whole operation.
pub(super) fn replace<T: Transact>(
    tx: &mut T,
    blocks: Blocks,
    entry: &Entry,
    (slot_at, slot): (PoolOffset, Slot),
    key: &[u8],
    value: &[u8],
) -> Result<(), Abort> {
    check_lengths(key, value)?;
    if entry.value.len == value.len() as u64 && value.len() <= IN_PLACE_BYTES_MAX {
        if value.is_empty() {
            return Ok(());
        }
        tx.will_write(&[entry.value])?;
        return tx.store(entry.value.at, value);
    }
    match blocks {
        Blocks::Together => {
            let reserved = reserve(tx, blocks, key, value)?;
            free(tx, blocks, entry)?;
            tx.will_write(&[ByteRange::new(slot_at, 8)])?;
            fill(tx, blocks, &reserved, key, value)?;
            tx.store_u64(slot_at, slot.moved_to(reserved.entry).0)
        }
        Blocks::Apart | Blocks::Scattered => {
            let block = alloc_value(tx, blocks, value)?;
            if let (_, Some(old)) = entry.blocks(blocks) {
                tx.free(old.at)?;
            }
            let mut start = [0; 16];
            start[..8].copy_from_slice(&lengths(key, value));
            start[8..].copy_from_slice(&block.0.to_le_bytes());
            tx.will_write(&[ByteRange::new(entry.at, 16)])?;
            if !value.is_empty() {
                tx.store(block, value)?;
            }
            tx.store(entry.at, &start)
        }
    }
}
