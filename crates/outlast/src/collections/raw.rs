//! Following structures through raw memory that nothing vouches for.

use rustc_hash::FxHashMap;

use super::entry::{Blocks, Entry, KEY_BYTES_MAX, VALUE_BYTES_MAX};
use super::layout::{HEADER_BYTES, MAP_MAGIC, RB_MAGIC, TREE_MAGIC, word};
use super::{ByteMap, ByteTree, Names, Queue, RbTree, Trees, Words};
use crate::{ByteRange, PoolOffset, RootKind};

/// Bytes in a pool that cannot be what was stored there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} at {at}")]
pub struct Damage {
    /// Where.
    pub at: PoolOffset,
    /// What is wrong there.
    pub what: &'static str,
}

impl Damage {
    pub(super) fn new(at: PoolOffset, what: &'static str) -> Self {
        Self { at, what }
    }
}

/// Reads a pool's bytes outside any transaction. Closures implement it.
pub trait ReadRaw {
    /// Copies `out.len()` bytes from `at` on; `false` when they are not all inside the pool.
    fn read(&mut self, at: PoolOffset, out: &mut [u8]) -> bool;
}

impl<F: FnMut(PoolOffset, &mut [u8]) -> bool> ReadRaw for F {
    fn read(&mut self, at: PoolOffset, out: &mut [u8]) -> bool {
        self(at, out)
    }
}

/// How far a walk came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Every block of the structure was visited.
    Whole,
    /// The root is of the user's own making; nothing but its offset is known.
    Unknown,
}

/// Follows the root object through raw memory: calls `block` with every block that it reaches,
/// as `(offset, bytes asked of the allocator)`, each once, and `entry` with the key and the
/// value's place of every entry of a dictionary (words have none; an item of a queue has its
/// number, highest byte first, as its key). Checks every invariant of the
/// structure on the way. No content makes it panic, loop or read outside the pool.
///
/// # Errors
/// The first [`Damage`] that it meets, or that `entry` reports.
pub fn walk_root<R: ReadRaw>(
    kind: RootKind,
    root: PoolOffset,
    read: &mut R,
    mut block: impl FnMut(PoolOffset, u64),
    mut entry: impl FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
) -> Result<Reach, Damage> {
    match kind {
        RootKind::Opaque => return Ok(Reach::Unknown),
        RootKind::HashMap => ByteMap::walk(root, read, block, entry)?,
        RootKind::BTree => ByteTree::walk(root, read, block, entry)?,
        RootKind::Words => Words::walk(root, read, block)?,
        RootKind::RbTree => RbTree::walk(root, read, block, entry)?,
        RootKind::Queue => Queue::walk(root, read, block, entry)?,
        RootKind::Trees => {
            Trees::walk(root, read, block, |read, _, key, value| entry(read, key, value))?;
        }
        RootKind::Names => return Names::walk(root, read, &mut block, &mut entry),
    }
    Ok(Reach::Whole)
}

/// Follows the tree or map whose header is at a place, if one is there; its blocks belong to who knows what leads
/// to it.
pub(crate) fn walk_any<R: ReadRaw>(at: PoolOffset, read: &mut R) -> Result<(), Damage> {
    let mut magic = [0; 8];
    if !read.read(at, &mut magic) {
        return Ok(());
    }
    match u64::from_le_bytes(magic) {
        MAP_MAGIC => ByteMap::walk(at, read, |_, _| (), |_, _, _| Ok(())),
        TREE_MAGIC => ByteTree::walk(at, read, |_, _| (), |_, _, _| Ok(())),
        RB_MAGIC => RbTree::walk(at, read, |_, _| (), |_, _, _| Ok(())),
        _ => Ok(()),
    }
}

/// A set of places where blocks start, multiples of 16: a bit for each that there is, so that a walk
/// through millions of blocks takes little memory.
#[derive(Default)]
pub(super) struct Places(FxHashMap<u64, Box<[u64; PLACES_WORDS as usize]>>);

/// Bits of a part of the set are for neighbours: 64 KiB of the pool.
const PLACES_WORDS: u64 = 64;

impl Places {
    /// Whether the place is new.
    pub(super) fn insert(&mut self, at: PoolOffset) -> bool {
        let place = at.0 / 16;
        let (word, bit) = (place / 64, 1 << (place % 64));
        let part = self.0.entry(word / PLACES_WORDS);
        let words = part.or_insert_with(|| Box::new([0; PLACES_WORDS as usize]));
        let word = &mut words[(word % PLACES_WORDS) as usize];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

/// A walk in progress: reads within bounds and sees that no block is reached twice, which is
/// also what ends it.
pub(super) struct Walk<'w, R, B, E> {
    read: &'w mut R,
    block: B,
    entry: E,
    seen: Places,
    key: Vec<u8>,
}

impl<'w, R, B, E> Walk<'w, R, B, E>
where
    R: ReadRaw,
    B: FnMut(PoolOffset, u64),
    E: FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
{
    pub(super) fn new(read: &'w mut R, block: B, entry: E) -> Self {
        Self { read, block, entry, seen: Places::default(), key: Vec::new() }
    }

    /// Reads bytes of a block that was claimed.
    pub(super) fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Damage> {
        let inside = self.read.read(at, out);
        inside.then_some(()).ok_or(Damage::new(at, "a pointer out of the pool"))
    }

    /// Reaches a block of `bytes` bytes.
    pub(super) fn claim(&mut self, at: PoolOffset, bytes: u64) -> Result<(), Damage> {
        let align = if bytes >= 64 { 64 } else { 16 };
        if at.0 == 0 || !at.is_aligned(align) {
            return Err(Damage::new(at, "a pointer to no block"));
        }
        let last = at.0.checked_add(bytes - 1).ok_or(Damage::new(at, "a block without end"))?;
        self.load(PoolOffset(last), &mut [0])?;
        if !self.seen.insert(at) {
            return Err(Damage::new(at, "a block reached twice"));
        }
        (self.block)(at, bytes);
        Ok(())
    }

    /// Hands an entry whose block is claimed to the visitor.
    pub(super) fn visit(&mut self, key: &[u8], value: ByteRange) -> Result<(), Damage> {
        (self.entry)(self.read, key, value)
    }

    /// Claims a block and reads its first `N` bytes.
    pub(super) fn claim_image<const N: usize>(
        &mut self,
        at: PoolOffset,
    ) -> Result<[u8; N], Damage> {
        self.claim(at, N as u64)?;
        let mut image = [0; N];
        self.load(at, &mut image)?;
        Ok(image)
    }

    /// Claims the header block of a structure, which starts with `magic`; `extra` is what the
    /// block holds behind the header, as the header says.
    pub(super) fn claim_header(
        &mut self,
        at: PoolOffset,
        magic: u64,
        extra: impl FnOnce(&[u8; HEADER_BYTES as usize]) -> Option<u64>,
    ) -> Result<[u8; HEADER_BYTES as usize], Damage> {
        let mut header = [0; HEADER_BYTES as usize];
        self.load(at, &mut header)?;
        if word(&header, 0) != magic {
            return Err(Damage::new(at, "a header of another structure"));
        }
        let bytes = extra(&header).and_then(|extra| extra.checked_add(HEADER_BYTES));
        self.claim(at, bytes.ok_or(Damage::new(at, "a header with an impossible length"))?)?;
        Ok(header)
    }

    /// Reaches the blocks of an entry, hands its key to `check`, then to the visitor.
    pub(super) fn entry(
        &mut self,
        blocks: Blocks,
        at: PoolOffset,
        check: impl FnOnce(&[u8]) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let mut start = [0; 16];
        self.load(at, &mut start)?;
        let entry = Entry::decode(blocks, at, &start);
        if entry.key.len > KEY_BYTES_MAX as u64 || entry.value.len > VALUE_BYTES_MAX as u64 {
            return Err(Damage::new(at, "an entry longer than any"));
        }
        if !entry.is_in_place(blocks) {
            return Err(Damage::new(at, "a pointer into the middle of a value"));
        }
        let (block, value) = entry.blocks(blocks);
        self.claim(block.at, block.len)?;
        if let Some(value) = value {
            self.claim(value.at, value.len)?;
        }
        let mut key = std::mem::take(&mut self.key);
        key.resize(entry.key.len as usize, 0);
        self.load(entry.key.at, &mut key)?;
        check(&key)?;
        (self.entry)(self.read, &key, entry.value)?;
        self.key = key;
        Ok(())
    }
}
