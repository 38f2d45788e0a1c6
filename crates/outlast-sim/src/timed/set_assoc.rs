//! A set-associative table with replacement of the least recently used, in flat arrays.

/// No key.
const EMPTY: u64 = u64::MAX;

/// Values under keys, a limited number in each set. A position stays valid until something is put
/// there.
#[derive(Clone, Debug)]
pub struct SetAssoc<V> {
    sets: u64,
    ways: usize,
    /// The last set's number where that is a mask.
    mask: Option<u64>,
    keys: Vec<u64>,
    used: Vec<u64>,
    values: Vec<V>,
    uses: u64,
}

impl<V: Copy + Default> SetAssoc<V> {
    /// An empty table; one set and one way at least.
    pub fn new(sets: u64, ways: u64) -> Self {
        let (sets, ways) = (sets.max(1), ways.max(1) as usize);
        let entries = sets as usize * ways;
        Self {
            sets,
            ways,
            mask: sets.is_power_of_two().then(|| sets - 1),
            keys: vec![EMPTY; entries],
            used: vec![0; entries],
            values: vec![V::default(); entries],
            uses: 0,
        }
    }

    /// The set of a key.
    #[inline]
    pub fn set_of(&self, key: u64) -> u64 {
        self.mask.map_or_else(|| key % self.sets, |mask| key & mask)
    }

    #[inline]
    fn ways_of(&self, key: u64) -> std::ops::Range<usize> {
        let first = self.set_of(key) as usize * self.ways;
        first..first + self.ways
    }

    /// Where a key is.
    #[inline]
    pub fn find(&self, key: u64) -> Option<usize> {
        let ways = self.ways_of(key);
        let first = ways.start;
        self.keys[ways].iter().position(|held| *held == key).map(|way| first + way)
    }

    /// The value at a position.
    #[inline]
    pub fn value_mut(&mut self, at: usize) -> &mut V {
        &mut self.values[at]
    }

    /// Empties a position.
    pub fn clear(&mut self, at: usize) {
        self.keys[at] = EMPTY;
    }

    /// Empties every position.
    pub fn clear_all(&mut self) {
        self.keys.fill(EMPTY);
    }

    /// What it holds, set after set.
    pub fn iter(&self) -> impl Iterator<Item = (u64, V)> {
        let held = self.keys.iter().zip(&self.values);
        held.filter(|(key, _)| **key != EMPTY).map(|(key, value)| (*key, *value))
    }

    /// Counts a use of what is at a position.
    #[inline]
    pub fn touch(&mut self, at: usize) {
        self.uses += 1;
        self.used[at] = self.uses;
    }

    /// The value at a position.
    #[inline]
    pub fn value(&mut self, at: usize) -> &mut V {
        &mut self.values[at]
    }

    /// What is at a position.
    #[inline]
    pub fn get(&self, at: usize) -> Option<(u64, V)> {
        (self.keys[at] != EMPTY).then(|| (self.keys[at], self.values[at]))
    }

    /// Where a key that is not there may be put: an empty position, or that of the least rank, of
    /// which the one that was used longest ago. What has no rank stays.
    pub fn room(&self, key: u64, rank: impl Fn(&V) -> Option<u8>) -> Option<usize> {
        let ways = self.ways_of(key);
        if let Some(way) = self.keys[ways.clone()].iter().position(|held| *held == EMPTY) {
            return Some(ways.start + way);
        }
        let ranked = ways.filter_map(|at| Some((rank(&self.values[at])?, self.used[at], at)));
        ranked.min().map(|(_, _, at)| at)
    }

    /// Puts a key's value at a position that [`room`](Self::room) has found.
    pub fn put(&mut self, at: usize, key: u64, value: V) {
        debug_assert!(self.ways_of(key).contains(&at), "a key stays in its set");
        (self.keys[at], self.values[at]) = (key, value);
        self.touch(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_of_the_least_rank_makes_room() {
        let mut table = SetAssoc::new(2, 2);
        let by_value = |value: &u8| (*value < 9).then_some(*value);
        for (key, value) in [(0, 1), (2, 1), (1, 9), (3, 9)] {
            let at = table.room(key, by_value).unwrap();
            table.put(at, key, value);
        }
        let first = table.find(0).unwrap();
        assert_eq!(table.room(4, by_value), Some(first), "both rank the same, and 0 is older");
        table.touch(first);
        assert_eq!(table.room(4, by_value), table.find(2));
        table.values[first] = 0;
        assert_eq!(table.room(4, by_value), Some(first), "a lower rank goes first");
        assert_eq!(table.room(5, by_value), None, "nothing of the other set may go");
        table.put(first, 4, 7);
        assert_eq!((table.find(0), table.find(4)), (None, Some(first)));
        assert_eq!(std::mem::replace(table.value_mut(first), 3), 7);
        table.clear(first);
        assert_eq!((table.find(4), table.room(6, by_value)), (None, Some(first)));
        assert_eq!(table.iter().collect::<Vec<_>>(), [(2, 1), (1, 9), (3, 9)]);
        table.clear_all();
        assert_eq!((table.find(1), table.iter().next()), (None, None));
    }

    #[test]
    fn any_number_of_sets_will_do() {
        let mut table = SetAssoc::new(3, 1);
        for key in 0..3 {
            let at = table.room(key, |_: &()| Some(0)).unwrap();
            table.put(at, key, ());
        }
        assert!((0..3).all(|key| table.find(key).is_some()));
        assert_eq!((table.set_of(7), table.find(3)), (1, None));
    }
}
