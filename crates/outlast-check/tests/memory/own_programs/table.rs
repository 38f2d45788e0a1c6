//! A persistent hash table: buckets of one line, updated out of place.

use outlast_pmem::Medium;
use outlast_trace::{LineAddr, PoolOffset};

const BUCKETS: u64 = 8;
const SLOTS: u64 = 3;

/// Each bucket is {bits of slots in use, unused, (key, value) × 3}. A put fills a free slot and
/// switches to it by one store of the bits, which persists after the slot: it is in its line.
pub struct Table<'m, M> {
    medium: &'m M,
}

impl<'m, M: Medium> Table<'m, M> {
    /// Prepares the medium: all buckets are empty.
    pub fn create(medium: &M) {
        (0..BUCKETS).for_each(|bucket| medium.store_u64(LineAddr(bucket).start(), 0));
    }

    pub fn of(medium: &'m M) -> Self {
        Self { medium }
    }

    fn home(key: u64) -> LineAddr {
        LineAddr(key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & (BUCKETS - 1))
    }

    fn bits(&self, bucket: LineAddr) -> u64 {
        self.medium.load_u64(bucket.start())
    }

    fn slot(bucket: LineAddr, slot: u64) -> PoolOffset {
        bucket.start().plus(16 + slot * 16)
    }

    fn find(&self, bucket: LineAddr, key: u64) -> Option<u64> {
        let bits = self.bits(bucket);
        let has = |slot: &u64| self.medium.load_u64(Self::slot(bucket, *slot)) == key;
        (0..SLOTS).filter(|slot| bits >> slot & 1 == 1).find(has)
    }

    pub fn get(&self, key: u64) -> Option<u64> {
        let bucket = Self::home(key);
        let slot = self.find(bucket, key)?;
        Some(self.medium.load_u64(Self::slot(bucket, slot).plus(8)))
    }

    /// Stores and flushes; the fence is the caller's.
    pub fn put(&self, key: u64, value: u64) {
        let bucket = Self::home(key);
        let bits = self.bits(bucket);
        let old = self.find(bucket, key);
        let free = (0..SLOTS).find(|slot| bits >> slot & 1 == 0).expect("a bucket has room");
        let pair = [key.to_le_bytes(), value.to_le_bytes()].concat();
        self.medium.store(Self::slot(bucket, free), &pair);
        let without = bits & !old.map_or(0, |slot| 1 << slot);
        self.medium.store_u64(bucket.start(), without | 1 << free);
        self.medium.flush(bucket);
    }

    pub fn pairs(&self) -> Vec<(u64, u64)> {
        let mut pairs = Vec::new();
        for bucket in (0..BUCKETS).map(LineAddr) {
            let bits = self.bits(bucket);
            for slot in (0..SLOTS).filter(|slot| bits >> slot & 1 == 1) {
                let at = Self::slot(bucket, slot);
                pairs.push((self.medium.load_u64(at), self.medium.load_u64(at.plus(8))));
            }
        }
        pairs
    }
}
