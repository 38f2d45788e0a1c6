//! `ObjHT`: what is known of objects, found by their number.

/// Nothing has this number: pools end long before.
const FREE: u64 = u64::MAX;

/// From this many slots on.
const SLOTS_MIN: usize = 64;

#[derive(Clone, Copy)]
struct Slot<R> {
    key: u64,
    record: R,
}

impl<R: Default> Slot<R> {
    fn free() -> Self {
        Self { key: FREE, record: R::default() }
    }
}

/// Numbers and their records: open addressing, grown when two thirds are taken, without tombstones.
pub(crate) struct ObjHt<R> {
    slots: Box<[Slot<R>]>,
    len: usize,
}

impl<R: Copy + Default> Default for ObjHt<R> {
    fn default() -> Self {
        Self { slots: vec![Slot::free(); SLOTS_MIN].into_boxed_slice(), len: 0 }
    }
}

impl<R: Copy + Default> ObjHt<R> {
    /// How many have a record.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        size_of_val::<[Slot<R>]>(&self.slots)
    }

    fn home(&self, key: u64) -> usize {
        // Fibonacci hashing: the high bits of the product are well mixed.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    /// Where it is, or the free slot where it would go.
    fn find(&self, key: u64) -> usize {
        let mut at = self.home(key);
        while self.slots[at].key != key && self.slots[at].key != FREE {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    /// Fetches the slot where the number's record should be.
    #[inline]
    pub fn prefetch(&self, key: u64) {
        outlast_pmem::prefetch(&self.slots[self.home(key)]);
    }

    /// The record of that number, if it has one.
    pub fn get(&self, key: u64) -> Option<R> {
        let slot = self.slots[self.find(key)];
        (slot.key == key).then_some(slot.record)
    }

    /// The record of that number; a new one if it had none.
    pub fn entry(&mut self, key: u64) -> &mut R {
        let mut at = self.find(key);
        if self.slots[at].key == FREE {
            if (self.len + 1) * 3 > self.slots.len() * 2 {
                self.double();
                at = self.find(key);
            }
            self.len += 1;
            self.slots[at] = Slot { key, record: R::default() };
        }
        &mut self.slots[at].record
    }

    /// The record of that number, if it has one.
    pub fn get_mut(&mut self, key: u64) -> Option<&mut R> {
        let at = self.find(key);
        let slot = &mut self.slots[at];
        (slot.key == key).then_some(&mut slot.record)
    }

    /// Forgets what is known of that number, if that is so; returns it.
    pub fn take_if(&mut self, key: u64, wanted: impl FnOnce(&R) -> bool) -> Option<R> {
        let mask = self.slots.len() - 1;
        let mut hole = self.find(key);
        let Slot { key: found, record } = self.slots[hole];
        if found == FREE || !wanted(&record) {
            return None;
        }
        self.len -= 1;
        // Whatever stands behind without a gap and belongs before the hole moves into it.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            if self.slots[at].key == FREE {
                break;
            }
            let home = self.home(self.slots[at].key);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
        }
        self.slots[hole] = Slot::free();
        Some(record)
    }

    #[cold]
    fn double(&mut self) {
        let doubled = vec![Slot::free(); self.slots.len() * 2].into_boxed_slice();
        let old = std::mem::replace(&mut self.slots, doubled);
        for slot in old.iter().filter(|slot| slot.key != FREE) {
            let at = self.find(slot.key);
            self.slots[at] = *slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn behaves_like_a_map_also_when_numbers_leave() {
        let mut table = ObjHt::<u64>::default();
        let mut model = HashMap::new();
        let mut random = 1u64;
        for step in 0..20_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let key = random >> 33 & 0x1ff;
            if random >> 60 < 7 {
                assert_eq!(table.take_if(key, |_| true), model.remove(&key));
            } else {
                *table.entry(key) = step;
                model.insert(key, step);
            }
            assert_eq!(table.len(), model.len());
        }
        for key in 0..0x200 {
            assert_eq!(table.get(key), model.get(&key).copied());
            assert_eq!(table.get_mut(key).copied(), model.get(&key).copied());
            assert_eq!(table.take_if(key, |_| false), None);
        }
    }
}
