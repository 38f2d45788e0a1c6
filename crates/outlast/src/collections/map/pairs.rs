//! Pairs of words in bucket lines.

use super::super::hash::hash_word;
use super::super::layout::*;
use super::super::placement::Pairs;
use super::super::{Chain, damaged};
use super::slots::{add_line, bucket, next_line, remove_line};
use super::{ByteMap, Header, grow};
use crate::{Abort, ByteRange, PoolOffset, Transact};

/// Where in its line the key of a pair is.
#[inline]
pub(super) fn key_at(pair: usize) -> usize {
    FIRST_PAIR_AT + PAIR_BYTES * pair
}

/// Where in its line the value of a pair is.
#[inline]
pub(super) fn value_at(pair: usize) -> usize {
    key_at(pair) + 8
}

/// The pairs that a link word says are in use.
pub(super) fn in_use(link: u64) -> impl Iterator<Item = usize> {
    (0..BUCKET_PAIRS).filter(move |pair| link >> pair & 1 != 0)
}

/// The free pair that is taken first: the one nearest to the link word, to be announced with it.
#[inline]
pub(super) fn free_pair(link: u64) -> Option<usize> {
    let free = !link & PAIRS_MASK;
    (free != 0).then(|| free.ilog2() as usize)
}

enum Search {
    Found(Found),
    Absent(Gap),
}

struct Found {
    line: PoolOffset,
    pair: usize,
    link: u64,
    /// The line before, unless this is the bucket's first.
    previous: Option<PoolOffset>,
}

impl Found {
    fn value_at(&self) -> PoolOffset {
        self.line.plus(value_at(self.pair) as u64)
    }
}

/// Where a key that is absent could go.
struct Gap {
    /// The first line with a free pair, and its link word.
    free: Option<(PoolOffset, u64)>,
    /// The last line, and its link word.
    last: (PoolOffset, u64),
}

// Inlined, so that what is found stays in registers.
#[inline(always)]
fn search<T: Transact>(
    tx: &mut T,
    segment: PoolOffset,
    hash: u64,
    key: u64,
) -> Result<Search, Abort> {
    let mut line_at = segment.plus((FIRST_BUCKET_AT + bucket(hash) * BUCKET_BYTES) as u64);
    let (mut previous, mut free) = (None, None);
    let mut lines = Chain::from(line_at);
    loop {
        let mut line = [0; BUCKET_BYTES];
        tx.load(line_at, &mut line)?;
        let link = word(&line, LINK_AT);
        let same = |pair| u64::from(word(&line, key_at(pair)) == key) << pair;
        let found = (0..BUCKET_PAIRS).map(same).sum::<u64>() & link;
        if found != 0 {
            let pair = found.trailing_zeros() as usize;
            return Ok(Search::Found(Found { line: line_at, pair, link, previous }));
        }
        if free.is_none() && link & PAIRS_MASK != PAIRS_MASK {
            free = Some((line_at, link));
        }
        let next = next_line(&line);
        if next.0 == 0 {
            return Ok(Search::Absent(Gap { free, last: (line_at, link) }));
        }
        previous = Some(line_at);
        line_at = next;
        lines.follow(line_at)?;
    }
}

/// The segment of `hash`, without the way there.
#[inline(always)]
fn segment_of<T: Transact>(tx: &mut T, header: &Header, hash: u64) -> Result<PoolOffset, Abort> {
    let (mut child, mut consumed) = (header.directory, 0);
    while child.bits() != 0 {
        let bits = child.bits();
        if consumed + bits > DEPTH_MAX {
            return Err(damaged(child.at(), "a directory that is too deep"));
        }
        let index = hash << consumed >> (64 - bits);
        consumed += bits;
        child = Child(tx.load_u64(child.at().plus(8 * index))?);
    }
    Ok(child.at())
}

impl ByteMap {
    #[inline]
    pub(super) fn find_pair<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        pairs: Pairs,
        key: &[u8],
    ) -> Result<Option<ByteRange>, Abort> {
        let Some(key) = pairs.key(key) else { return Ok(None) };
        let hash = hash_word(header.seed, key);
        let segment = segment_of(tx, header, hash)?;
        Ok(match search(tx, segment, hash, key)? {
            Search::Found(found) => {
                Some(ByteRange::new(found.value_at(), pairs.value_bytes.into()))
            }
            Search::Absent(_) => None,
        })
    }

    #[inline]
    pub(super) fn put_pair<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        pairs: Pairs,
        key: &[u8],
        value: &[u8],
        replace: bool,
    ) -> Result<bool, Abort> {
        let key = pairs.key_to_insert(self.root, key)?;
        let value = pairs.value_to_insert(self.root, value)?;
        let hash = hash_word(header.seed, key);
        let segment = segment_of(tx, header, hash)?;
        match search(tx, segment, hash, key)? {
            Search::Found(found) => {
                if replace {
                    tx.will_write(&[ByteRange::new(found.value_at(), 8)])?;
                    tx.store_u64(found.value_at(), value)?;
                }
                Ok(true)
            }
            Search::Absent(Gap { free: Some(free), .. }) => {
                place(tx, free, (key, value), false)?;
                Ok(false)
            }
            Search::Absent(gap) => {
                self.put_in_new_line(tx, header, hash, gap, (key, value))?;
                Ok(false)
            }
        }
    }

    /// Inserts a pair whose bucket is full.
    #[inline(never)]
    fn put_in_new_line<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        hash: u64,
        mut gap: Gap,
        (key, value): (u64, u64),
    ) -> Result<(), Abort> {
        let mut path = self.descend(tx, header, hash)?;
        let mut fresh = false;
        loop {
            if let Some(free) = gap.free {
                return place(tx, free, (key, value), fresh);
            }
            let (line, link) = gap.last;
            let pair = BUCKET_PAIRS - 1;
            let words = [(key_at(pair), key), (value_at(pair), value), (LINK_AT, 1 << pair)];
            if add_line(tx, header, &path, (line, link & PAIRS_MASK), &words, fresh)? {
                return Ok(());
            }
            // Both halves are fresh blocks, and the key goes into one of them.
            grow::split(tx, header, &path)?;
            fresh = true;
            let header = self.header(tx)?;
            path = self.descend(tx, &header, hash)?;
            gap = match search(tx, path.segment, hash, key)? {
                Search::Absent(gap) => gap,
                Search::Found(_) => return Err(damaged(path.segment, "a key that came by itself")),
            };
        }
    }

    #[inline]
    pub(super) fn remove_pair<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        pairs: Pairs,
        key: &[u8],
    ) -> Result<bool, Abort> {
        let Some(key) = pairs.key(key) else { return Ok(false) };
        let hash = hash_word(header.seed, key);
        let segment = segment_of(tx, header, hash)?;
        let Search::Found(found) = search(tx, segment, hash, key)? else { return Ok(false) };
        let left = found.link & !(1 << found.pair);
        if let Some(previous) = found.previous
            && left & PAIRS_MASK == 0
        {
            unlink(tx, segment, found.line, previous, left)?;
            return Ok(true);
        }
        let link = found.line.plus(LINK_AT as u64);
        tx.will_write(&[ByteRange::new(link, 8)])?;
        tx.store_u64(link, left)?;
        Ok(true)
    }
}

/// Stores a pair into a line that has room.
#[inline]
fn place<T: Transact>(
    tx: &mut T,
    (line, link): (PoolOffset, u64),
    (key, value): (u64, u64),
    fresh: bool,
) -> Result<(), Abort> {
    let Some(pair) = free_pair(link) else { return Err(damaged(line, "a line without room")) };
    let (key_at, link_at) = (line.plus(key_at(pair) as u64), line.plus(LINK_AT as u64));
    if !fresh {
        // One range up to the link word: a log record's head costs as much as what is between.
        tx.will_write(&[ByteRange::new(key_at, link_at.0 + 8 - key_at.0)])?;
    }
    tx.store_u64(key_at, key)?;
    tx.store_u64(key_at.plus(8), value)?;
    tx.store_u64(link_at, link | 1 << pair)
}

/// Takes a line without pairs out of its bucket.
#[inline(never)]
fn unlink<T: Transact>(
    tx: &mut T,
    segment: PoolOffset,
    line: PoolOffset,
    previous: PoolOffset,
    next: u64,
) -> Result<(), Abort> {
    let in_use = tx.load_u64(previous.plus(LINK_AT as u64))? & PAIRS_MASK;
    remove_line(tx, segment, line, (previous, next | in_use), None)
}
