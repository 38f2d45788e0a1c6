//! The state of one cache: which lines it holds, their data, and what is dirty.
//!
//! A [`Cache`] decides nothing but its victims. It does not know the levels around it, nor time:
//! a driver looks a line up, makes room, installs, and takes out, and passes what leaves on to
//! where it belongs. Tags stand apart from the data, so that a lookup reads one host line.

use crate::{
    config::{CacheConfig, ConfigError},
    policy::Replacement,
    stats::CacheStats,
};
use outlast_trace::LineAddr;

/// The 64 bytes of a line.
pub type LineBytes = [u8; 64];

/// Where in a [`Cache`] a line is. Good until that line leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    set: u32,
    way: u32,
}

/// The tag that a hardware scheme keeps beside each line: an epoch, a bit, or nothing at all.
pub trait LineTag: Copy + Default + PartialEq + std::fmt::Debug {}

impl<T: Copy + Default + PartialEq + std::fmt::Debug> LineTag for T {}

/// The state that a line carries with it when it moves from one cache to another.
///
/// Every move between levels and lanes passes through this one type, a scheme's tag included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contents<T = ()> {
    /// The bytes.
    pub data: LineBytes,
    /// Whether they are newer than those of every level below.
    pub dirty: bool,
    /// Whether no other lane holds the line (MESI's E and M). Meaningless in a shared cache.
    pub owned: bool,
    /// The scheme's tag of the line.
    pub tag: T,
}

/// A line that had to leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evicted<T = ()> {
    /// Which line.
    pub line: LineAddr,
    /// The state that it carried.
    pub contents: Contents<T>,
}

const DIRTY: u8 = 1;
const OWNED: u8 = 2;

/// The tag of an empty way. Lines are kept as their number + 1, so that a new cache is all
/// zeroes and costs no host memory until it is touched.
const EMPTY: u64 = 0;

/// One set-associative cache.
#[derive(Clone, Debug)]
pub struct Cache<T = ()> {
    sets: u64,
    /// `sets - 1` where that is a mask; a division is left only to odd set counts.
    mask: Option<u64>,
    ways: usize,
    tags: Vec<u64>,
    flags: Vec<u8>,
    data: Vec<LineBytes>,
    scheme_tags: Vec<T>,
    replacement: Replacement,
    /// The counts so far. The owner may take them to start again.
    pub stats: CacheStats,
}

impl<T: LineTag> Cache<T> {
    /// An empty cache. `seed` feeds the policies that draw numbers.
    ///
    /// # Errors
    /// When `config` describes no possible cache.
    pub fn new(config: CacheConfig, seed: u64) -> Result<Self, ConfigError> {
        let sets = config.sets()?;
        let ways = config.ways as usize;
        let lines = sets as usize * ways;
        Ok(Self {
            sets,
            mask: sets.is_power_of_two().then(|| sets - 1),
            ways,
            tags: vec![EMPTY; lines],
            flags: vec![0; lines],
            data: vec![[0; 64]; lines],
            scheme_tags: vec![T::default(); lines],
            replacement: Replacement::new(config.policy, sets as usize, ways, seed),
            stats: CacheStats::default(),
        })
    }

    /// Finds a line without counting it as a use.
    #[inline]
    pub fn probe(&self, line: LineAddr) -> Option<Slot> {
        let set = self.set_of(line);
        let tags = &self.tags[set * self.ways..][..self.ways];
        find(tags, address_tag(line)).map(|way| Slot { set: set as u32, way: way as u32 })
    }

    /// Finds a line for a load or a store: counts a hit or a miss, and tells the policy.
    #[inline]
    pub fn access(&mut self, line: LineAddr) -> Option<Slot> {
        let slot = self.probe(line);
        match slot {
            Some(slot) => {
                self.stats.hits += 1;
                self.replacement.hit(slot.set as usize, slot.way as usize);
            }
            None => self.stats.misses += 1,
        }
        slot
    }

    /// Puts a line in that is not here yet, in an empty way or in place of a victim. What had to
    /// leave is returned, and is the caller's to pass on.
    #[inline]
    pub fn install(
        &mut self,
        line: LineAddr,
        contents: &Contents<T>,
    ) -> (Slot, Option<Evicted<T>>) {
        debug_assert!(self.probe(line).is_none(), "{line} is installed twice");
        let set = self.set_of(line);
        let first = set * self.ways;
        let empty = find(&self.tags[first..][..self.ways], EMPTY);
        let (way, evicted) = match empty {
            Some(way) => (way, None),
            None => {
                let flags = &self.flags[first..][..self.ways];
                let dirty = |way: usize| flags[way] & DIRTY != 0;
                let way = self.replacement.victim(set, self.ways, dirty);
                self.stats.evictions += 1;
                (way, Some(self.evicted(first + way)))
            }
        };
        let index = first + way;
        self.tags[index] = address_tag(line);
        self.flags[index] = u8::from(contents.dirty) * DIRTY + u8::from(contents.owned) * OWNED;
        self.data[index] = contents.data;
        self.scheme_tags[index] = contents.tag;
        self.replacement.filled(set, way);
        self.stats.fills += 1;
        (Slot { set: set as u32, way: way as u32 }, evicted)
    }

    /// Takes a line out, with all that it carries.
    #[inline]
    pub fn remove(&mut self, line: LineAddr) -> Option<Contents<T>> {
        let slot = self.probe(line)?;
        let index = self.index(slot);
        let contents = self.evicted(index).contents;
        self.tags[index] = EMPTY;
        self.flags[index] = 0;
        Some(contents)
    }

    /// The number of a line's place, from 0 on, set by set.
    #[inline]
    pub(crate) fn number(&self, slot: Slot) -> u32 {
        self.index(slot) as u32
    }

    /// Sets, and the ways of each.
    pub(crate) fn shape(&self) -> (u64, u64) {
        (self.sets, self.ways as u64)
    }

    /// The bytes of a line.
    #[inline]
    pub fn data(&self, slot: Slot) -> &LineBytes {
        &self.data[self.index(slot)]
    }

    /// Whether the line is newer than in every level below.
    #[inline]
    pub fn is_dirty(&self, slot: Slot) -> bool {
        self.flags[self.index(slot)] & DIRTY != 0
    }

    /// Whether the line is in no other lane's caches.
    #[inline]
    pub fn is_owned(&self, slot: Slot) -> bool {
        self.flags[self.index(slot)] & OWNED != 0
    }

    /// Grants or withdraws ownership.
    #[inline]
    pub fn set_owned(&mut self, slot: Slot, owned: bool) {
        let index = self.index(slot);
        self.flags[index] = (self.flags[index] & !OWNED) | (u8::from(owned) * OWNED);
    }

    /// Stores `bytes` from byte `at` of the line on; the line becomes dirty.
    ///
    /// # Panics
    /// When the bytes do not fit into the line.
    #[inline]
    pub fn store(&mut self, slot: Slot, at: usize, bytes: &[u8]) {
        let index = self.index(slot);
        self.data[index][at..at + bytes.len()].copy_from_slice(bytes);
        self.flags[index] |= DIRTY;
        self.replacement.stored(slot.set as usize, slot.way as usize);
    }

    /// Takes over newer bytes and their tag from a level above; the line becomes dirty.
    #[inline]
    pub fn take_over(&mut self, slot: Slot, newer: &Contents<T>) {
        self.store(slot, 0, &newer.data);
        self.set_tag(slot, newer.tag);
    }

    /// The scheme's tag of the line.
    #[inline]
    pub fn tag(&self, slot: Slot) -> T {
        self.scheme_tags[self.index(slot)]
    }

    /// Replaces what a scheme keeps beside the line.
    #[inline]
    pub fn set_tag(&mut self, slot: Slot, tag: T) {
        let index = self.index(slot);
        self.scheme_tags[index] = tag;
    }

    /// Marks a line dirty whose bytes are already right.
    #[inline]
    pub fn set_dirty(&mut self, slot: Slot) {
        let index = self.index(slot);
        self.flags[index] |= DIRTY;
    }

    /// Makes the line a clean copy of `data`, which the level below has.
    #[inline]
    pub fn clean(&mut self, slot: Slot, data: &LineBytes) {
        let index = self.index(slot);
        self.data[index] = *data;
        self.flags[index] &= !DIRTY;
    }

    /// Every line held, with whether it is dirty, set by set.
    pub fn lines(&self) -> impl Iterator<Item = (LineAddr, bool)> + '_ {
        let held = self.tags.iter().zip(&self.flags).filter(|(tag, _)| **tag != EMPTY);
        held.map(|(tag, flags)| (LineAddr(tag - 1), flags & DIRTY != 0))
    }

    /// Visits every line held, set by set, with the number of its set, whether it is dirty, and what
    /// is kept beside it.
    pub(crate) fn scan(&mut self, mut visit: impl FnMut(u64, LineAddr, bool, &mut T)) {
        for index in 0..self.tags.len() {
            if self.tags[index] != EMPTY {
                let (set, line) = (index / self.ways, LineAddr(self.tags[index] - 1));
                let dirty = self.flags[index] & DIRTY != 0;
                visit(set as u64, line, dirty, &mut self.scheme_tags[index]);
            }
        }
    }

    #[inline]
    fn set_of(&self, line: LineAddr) -> usize {
        match self.mask {
            Some(mask) => (line.0 & mask) as usize,
            None => (line.0 % self.sets) as usize,
        }
    }

    #[inline]
    fn index(&self, slot: Slot) -> usize {
        slot.set as usize * self.ways + slot.way as usize
    }

    #[inline]
    fn evicted(&self, index: usize) -> Evicted<T> {
        let flags = self.flags[index];
        Evicted {
            line: LineAddr(self.tags[index].wrapping_sub(1)),
            contents: Contents {
                data: self.data[index],
                dirty: flags & DIRTY != 0,
                owned: flags & OWNED != 0,
                tag: self.scheme_tags[index],
            },
        }
    }
}

#[inline]
fn address_tag(line: LineAddr) -> u64 {
    line.0 + 1
}

/// The first way that holds `tag`. Common way counts compare all ways without a branch, which
/// the compiler turns into vector instructions; the others look at one after the other.
#[inline]
fn find(tags: &[u64], tag: u64) -> Option<usize> {
    match tags.len() {
        4 => find_among::<4>(tags, tag),
        8 => find_among::<8>(tags, tag),
        11 => find_among::<11>(tags, tag),
        12 => find_among::<12>(tags, tag),
        16 => find_among::<16>(tags, tag),
        20 => find_among::<20>(tags, tag),
        _ => tags.iter().position(|&held| held == tag),
    }
}

#[inline]
fn find_among<const WAYS: usize>(tags: &[u64], tag: u64) -> Option<usize> {
    let tags: &[u64; WAYS] = tags.first_chunk()?;
    let mut found = 0u32;
    for (way, &held) in tags.iter().enumerate() {
        found |= u32::from(held == tag) << way;
    }
    (found != 0).then(|| found.trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn contents(byte: u8, dirty: bool) -> Contents {
        Contents { data: [byte; 64], dirty, owned: false, tag: () }
    }

    #[test]
    fn lines_come_back_as_they_went_in_for_every_way_count() {
        for ways in 1..=24 {
            for sets in [1, 3, 4] {
                let config = CacheConfig::new(64 * ways * sets, ways as u32);
                let mut cache = Cache::new(config, 0).unwrap();
                let lines = ways * sets;
                for n in 0..lines {
                    let (_, evicted) = cache.install(LineAddr(n), &contents(n as u8, n % 2 == 0));
                    assert_eq!(evicted, None, "{n} of {lines} lines");
                }
                for n in 0..lines {
                    let slot = cache.probe(LineAddr(n)).unwrap();
                    assert_eq!(cache.data(slot), &[n as u8; 64]);
                    assert_eq!(cache.is_dirty(slot), n % 2 == 0);
                }
                let (_, evicted) = cache.install(LineAddr(lines), &contents(0, false));
                assert_eq!(evicted.unwrap().line, LineAddr(0), "the oldest of set 0");
                assert_eq!(cache.remove(LineAddr(lines)), Some(contents(0, false)));
                assert_eq!(cache.remove(LineAddr(lines)), None);
            }
        }
    }

    #[test]
    fn a_store_dirties_and_a_clean_copy_does_not() {
        let config = CacheConfig { size_bytes: 128, ways: 2, policy: Policy::Lru };
        let mut cache = Cache::new(config, 0).unwrap();
        let (slot, _) = cache.install(LineAddr(7), &contents(1, false));
        cache.store(slot, 62, &[8, 9]);
        assert!(cache.is_dirty(slot) && !cache.is_owned(slot));
        assert_eq!(cache.data(slot)[61..], [1, 8, 9]);
        cache.set_owned(slot, true);
        cache.clean(slot, &[4; 64]);
        assert!(!cache.is_dirty(slot) && cache.is_owned(slot));
        assert_eq!(cache.lines().collect::<Vec<_>>(), [(LineAddr(7), false)]);
    }
}
