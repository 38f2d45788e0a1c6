//! The LRU queue: lines in the order of their last access.
//!
//! A circular buffer of accesses, newest at the end. A line that is accessed again is entered
//! again; its older entry stays behind and counts for nothing, since the line's place is known to
//! be the newer one. So an access costs one sequential store and nothing is ever unlinked.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use outlast_trace::LineAddr;

/// With this many entries for each line that counts, those that do not are dropped.
const ENTRIES_PER_LINE_MAX: usize = 4;

/// Lines with their places, which only grow.
pub(crate) struct LruQueue {
    capacity: usize,
    /// The place of each line in the queue.
    objects: HashMap<LineAddr, u64, BuildHasherDefault<LineHasher>>,
    entries: VecDeque<(u64, LineAddr)>,
    next_place: u64,
    horizon: u64,
}

/// The hash of one number. No adversary chooses lines so that their hashes collide.
#[derive(Default)]
struct LineHasher(u64);

impl Hasher for LineHasher {
    fn write_u64(&mut self, number: u64) {
        // The table looks at the lowest bits and at the highest.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a line is one number")
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl LruQueue {
    /// A queue with room for `lines` lines.
    pub fn new(capacity: usize) -> Self {
        let (objects, entries) = (HashMap::default(), VecDeque::new());
        Self { capacity, objects, entries, next_place: 1, horizon: 0 }
    }

    /// The place of an access now, whether or not it is entered.
    pub fn now(&self) -> u64 {
        self.next_place
    }

    /// Enters an access.
    pub fn touch(&mut self, line: LineAddr) {
        self.objects.insert(line, self.next_place);
        self.entries.push_back((self.next_place, line));
        self.next_place += 1;
        while self.objects.len() > self.capacity {
            let (place, line) = self.entries.pop_front().expect("every line has its entry");
            if self.objects.get(&line) == Some(&place) {
                self.objects.remove(&line);
                self.horizon = place + 1;
            }
        }
        if self.entries.len() >= ENTRIES_PER_LINE_MAX * self.objects.len().max(64) {
            let objects = &self.objects;
            self.entries.retain(|(place, line)| objects.get(line) == Some(place));
        }
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        (self.objects.capacity() + self.entries.capacity()) * size_of::<(u64, LineAddr)>()
    }

    /// Lines accessed last before this place have left the queue.
    pub fn horizon(&self) -> u64 {
        self.horizon
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_trace::Random;

    #[test]
    fn lines_leave_in_the_order_of_their_last_access() {
        let mut queue = LruQueue::new(20);
        // The obvious list: lines with the place of their last access, least recent first.
        let mut model: Vec<(u64, LineAddr)> = Vec::new();
        let mut random = Random::new(7);
        for _ in 0..30_000 {
            let line = LineAddr(random.below(64));
            model.retain(|(_, l)| *l != line);
            model.push((queue.now(), line));
            queue.touch(line);
            if model.len() > 20 {
                let (left, line) = model.remove(0);
                assert!(left < queue.horizon() && !queue.objects.contains_key(&line));
            }
            let oldest = model[0].0;
            assert!(oldest >= queue.horizon() && queue.objects.len() == model.len());
        }
        assert!(queue.entries.len() <= ENTRIES_PER_LINE_MAX * 64, "old entries are dropped");
    }
}
