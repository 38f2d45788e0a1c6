//! A vector of words.

use super::damaged;
use super::layout::{HEADER_BYTES, WORDS_AT, WORDS_LEN_AT, WORDS_MAGIC, set_word, word};
use super::raw::{Damage, ReadRaw, Walk};
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// Words written to a fresh block at a time.
const CHUNK_WORDS: u64 = 512;

/// A persistent vector of 8-byte words with a fixed length, the first at the start of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    root: PoolOffset,
    len: u64,
}

impl Words {
    /// A vector of `len` words, the one at `i` set to `initial(i)`.
    ///
    /// # Errors
    /// Those of the transaction, and [`Abort::TooLarge`] for a length that no pool could hold.
    pub fn create<T: Transact>(
        tx: &mut T,
        len: u64,
        mut initial: impl FnMut(u64) -> u64,
    ) -> Result<Self, Abort> {
        let too_large =
            || Abort::too_large("a vector of words", len.saturating_mul(8), WORDS_BYTES_MAX);
        let bytes = bytes_behind_header(len).ok_or_else(too_large)?;
        let root = tx.alloc(HEADER_BYTES + bytes, BlockKind::General)?;
        let words = Self { root, len };
        let mut header = [0; HEADER_BYTES as usize];
        set_word(&mut header, 0, WORDS_MAGIC);
        set_word(&mut header, WORDS_LEN_AT, len);
        tx.store(root, &header)?;
        let mut chunk = [0; 8 * CHUNK_WORDS as usize];
        for first in (0..len).step_by(CHUNK_WORDS as usize) {
            let count = (len - first).min(CHUNK_WORDS);
            for i in 0..count {
                set_word(&mut chunk, 8 * i as usize, initial(first + i));
            }
            tx.store(words.at(first), &chunk[..8 * count as usize])?;
        }
        Ok(words)
    }

    /// The vector whose header is at `root`.
    ///
    /// # Errors
    /// [`Abort::Damaged`] when there is none.
    pub fn open<T: Transact>(tx: &mut T, root: PoolOffset) -> Result<Self, Abort> {
        let mut header = [0; HEADER_BYTES as usize];
        tx.load(root, &mut header)?;
        let len = word(&header, WORDS_LEN_AT);
        if word(&header, 0) != WORDS_MAGIC || bytes_behind_header(len).is_none() {
            return Err(damaged(root, "no vector of words"));
        }
        Ok(Self { root, len })
    }

    /// Where the header is, for [`Transact::set_root`].
    pub fn root(self) -> PoolOffset {
        self.root
    }

    /// Number of words.
    #[expect(clippy::len_without_is_empty, reason = "a vector of a fixed length is never asked")]
    pub fn len(self) -> u64 {
        self.len
    }

    /// The range of the word at `index`, to announce it.
    ///
    /// # Panics
    /// When `index` is not below [`len`](Self::len).
    #[inline(always)]
    pub fn range(self, index: u64) -> ByteRange {
        if index >= self.len {
            outside(index, self.len);
        }
        ByteRange::new(self.at(index), 8)
    }

    /// The word at `index`.
    ///
    /// # Errors
    /// Also [`Abort::BadAddress`] when `index` is not below [`len`](Self::len).
    #[inline(always)]
    pub fn get<T: Transact>(self, tx: &mut T, index: u64) -> Result<u64, Abort> {
        tx.load_u64(self.existing(index)?)
    }

    /// Sets the word at `index`. A caller who sets several announces their ranges first.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[inline(always)]
    pub fn set<T: Transact>(self, tx: &mut T, index: u64, value: u64) -> Result<(), Abort> {
        tx.store_u64(self.existing(index)?, value)
    }

    /// The length comes from the pool, so a word behind it may be damage and no mistake.
    #[inline(always)]
    fn existing(self, index: u64) -> Result<PoolOffset, Abort> {
        if index < self.len { Ok(self.at(index)) } else { Err(self.no_such_word()) }
    }

    #[cold]
    fn no_such_word(self) -> Abort {
        Abort::bad_address("a word of a vector", self.root, "the vector ends before it")
    }

    /// The place of a word that there is: the vector lies within a pool, so that no sum overflows.
    #[inline(always)]
    fn at(self, index: u64) -> PoolOffset {
        debug_assert!(index < self.len);
        PoolOffset(self.root.0 + WORDS_AT + 8 * index)
    }

    /// Follows the vector through raw memory; see [`walk_root`](super::walk_root).
    ///
    /// # Errors
    /// The first damage.
    pub fn walk<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        block: impl FnMut(PoolOffset, u64),
    ) -> Result<(), Damage> {
        let mut walk = Walk::new(read, block, |_: &mut R, _: &[u8], _| Ok(()));
        let bytes = |header: &[u8; _]| bytes_behind_header(word(header, WORDS_LEN_AT));
        walk.claim_header(root, WORDS_MAGIC, bytes).map(|_| ())
    }

    /// Reads every word through raw memory, as `(index, word)`.
    ///
    /// # Errors
    /// The first damage, or what `visit` reports.
    pub fn read_all<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        mut visit: impl FnMut(u64, u64) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let mut walk = Walk::new(read, |_, _| {}, |_: &mut R, _: &[u8], _| Ok(()));
        let bytes = |header: &[u8; _]| bytes_behind_header(word(header, WORDS_LEN_AT));
        let header = walk.claim_header(root, WORDS_MAGIC, bytes)?;
        let words = Self { root, len: word(&header, WORDS_LEN_AT) };
        let mut chunk = [0; 8 * CHUNK_WORDS as usize];
        for first in (0..words.len).step_by(CHUNK_WORDS as usize) {
            let count = (words.len - first).min(CHUNK_WORDS);
            walk.load(words.at(first), &mut chunk[..8 * count as usize])?;
            for i in 0..count {
                visit(first + i, word(&chunk, 8 * i as usize))?;
            }
        }
        Ok(())
    }
}

/// Out of the way of who asks for words that there are.
#[cold]
#[inline(never)]
fn outside(index: u64, len: u64) -> ! {
    panic!("word {index} of a vector of {len}")
}

/// More than the largest pool has.
const WORDS_BYTES_MAX: u64 = (1 << 44) - 8;

fn bytes_behind_header(len: u64) -> Option<u64> {
    len.checked_mul(8).filter(|&bytes| bytes <= WORDS_BYTES_MAX)
}
