//! `ObjHT`: what is known of lines, found by their address.

use outlast_trace::LineAddr;

/// No line has this number: pools end long before.
const FREE: u64 = u64::MAX;

/// From this many slots on.
const SLOTS_MIN: usize = 64;

#[derive(Clone, Copy)]
struct Slot<R> {
    line: u64,
    record: R,
}

impl<R: Default> Slot<R> {
    fn free() -> Self {
        Self { line: FREE, record: R::default() }
    }
}

/// Lines and their records: open addressing, grown when two thirds are taken, without tombstones.
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
    /// How many lines have a record.
    pub fn len(&self) -> usize {
        self.len
    }

    fn home(&self, line: u64) -> usize {
        // Fibonacci hashing: the high bits of the product are well mixed.
        let hash = line.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    /// Where the line is, or the free slot where it would go.
    fn find(&self, line: u64) -> usize {
        let mut at = self.home(line);
        while self.slots[at].line != line && self.slots[at].line != FREE {
            at = (at + 1) & (self.slots.len() - 1);
        }
        at
    }

    /// The record of a line, if it has one.
    pub fn get(&self, line: LineAddr) -> Option<R> {
        let slot = self.slots[self.find(line.0)];
        (slot.line == line.0).then_some(slot.record)
    }

    /// The record of a line; a new one if it had none.
    pub fn entry(&mut self, line: LineAddr) -> &mut R {
        let mut at = self.find(line.0);
        if self.slots[at].line == FREE {
            if (self.len + 1) * 3 > self.slots.len() * 2 {
                self.double();
                at = self.find(line.0);
            }
            self.len += 1;
            self.slots[at] = Slot { line: line.0, record: R::default() };
        }
        &mut self.slots[at].record
    }

    /// The record of a line that has one.
    pub fn get_mut(&mut self, line: LineAddr) -> Option<&mut R> {
        let at = self.find(line.0);
        let slot = &mut self.slots[at];
        (slot.line == line.0).then_some(&mut slot.record)
    }

    /// Forgets a line.
    pub fn remove(&mut self, line: LineAddr) {
        let mask = self.slots.len() - 1;
        let mut hole = self.find(line.0);
        if self.slots[hole].line == FREE {
            return;
        }
        self.len -= 1;
        // Whatever stands behind without a gap and belongs before the hole moves into it.
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            if self.slots[at].line == FREE {
                break;
            }
            let home = self.home(self.slots[at].line);
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[at];
                hole = at;
            }
        }
        self.slots[hole] = Slot::free();
    }

    #[cold]
    fn double(&mut self) {
        let doubled = vec![Slot::free(); self.slots.len() * 2].into_boxed_slice();
        let old = std::mem::replace(&mut self.slots, doubled);
        for slot in old.iter().filter(|slot| slot.line != FREE) {
            let at = self.find(slot.line);
            self.slots[at] = *slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn behaves_like_a_map_also_when_lines_leave() {
        let mut table = ObjHt::<u64>::default();
        let mut model = HashMap::new();
        let mut random = 1u64;
        for step in 0..20_000 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let line = LineAddr(random >> 33 & 0x1ff);
            if random >> 60 < 7 {
                table.remove(line);
                model.remove(&line);
            } else {
                *table.entry(line) = step;
                model.insert(line, step);
            }
            assert_eq!(table.len(), model.len());
        }
        for line in (0..0x200).map(LineAddr) {
            assert_eq!(table.get(line), model.get(&line).copied());
            assert_eq!(table.get_mut(line).copied(), model.get(&line).copied());
        }
    }
}
