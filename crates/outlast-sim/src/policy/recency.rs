//! The order of a set's ways by age, as 32-bit stamps: what LRU and its kin share.

/// One stamp a way; in a set, a larger stamp is younger.
///
/// A shared clock makes "youngest" one store. Stamps run out after some two thousand million
/// uses; then every set is renumbered by rank, which changes no order.
#[derive(Clone, Debug)]
pub(super) struct Recency {
    ways: usize,
    stamps: Vec<i32>,
    clock: i32,
}

impl Recency {
    pub(super) fn new(sets: usize, ways: usize) -> Self {
        Self { ways, stamps: vec![0; sets * ways], clock: 0 }
    }

    #[inline]
    pub(super) fn make_youngest(&mut self, set: usize, way: usize) {
        if self.clock == i32::MAX {
            self.renumber();
        }
        self.clock += 1;
        self.stamps[set * self.ways + way] = self.clock;
    }

    #[inline]
    pub(super) fn make_oldest(&mut self, set: usize, way: usize) {
        let mut oldest = self.lowest(set);
        if oldest == i32::MIN {
            self.renumber();
            oldest = self.lowest(set);
        }
        self.stamps[set * self.ways + way] = oldest - 1;
    }

    #[inline]
    pub(super) fn oldest(&self, set: usize) -> usize {
        let stamps = self.set(set);
        let mut oldest = 0;
        for way in 1..stamps.len() {
            if stamps[way] < stamps[oldest] {
                oldest = way;
            }
        }
        oldest
    }

    /// The youngest way among those that `eligible` accepts.
    pub(super) fn youngest(&self, set: usize, eligible: impl Fn(usize) -> bool) -> Option<usize> {
        let stamps = self.set(set);
        (0..stamps.len()).filter(|&way| eligible(way)).max_by_key(|&way| stamps[way])
    }

    fn set(&self, set: usize) -> &[i32] {
        &self.stamps[set * self.ways..][..self.ways]
    }

    fn lowest(&self, set: usize) -> i32 {
        self.set(set).iter().copied().min().unwrap_or(0)
    }

    #[cold]
    fn renumber(&mut self) {
        let mut order: Vec<usize> = Vec::with_capacity(self.ways);
        for stamps in self.stamps.chunks_exact_mut(self.ways) {
            order.clear();
            order.extend(0..stamps.len());
            order.sort_by_key(|&way| stamps[way]);
            for (rank, &way) in order.iter().enumerate() {
                stamps[way] = rank as i32;
            }
        }
        self.clock = self.ways as i32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(recency: &Recency) -> Vec<usize> {
        let mut ways: Vec<usize> = (0..recency.ways).collect();
        ways.sort_by_key(|&way| recency.stamps[way]);
        ways
    }

    #[test]
    fn order_survives_stamps_running_out_at_either_end() {
        let mut recency = Recency::new(1, 4);
        recency.clock = i32::MAX - 2;
        for way in [2, 0, 3, 1] {
            recency.make_youngest(0, way);
        }
        assert_eq!(order(&recency), [2, 0, 3, 1]);
        assert!(recency.clock < 10, "the clock started again");

        recency.stamps = vec![i32::MIN + 1, 5, 7, 6];
        recency.make_oldest(0, 1);
        recency.make_oldest(0, 2);
        assert_eq!(order(&recency), [2, 1, 0, 3]);
        assert_eq!(recency.oldest(0), 2);
        assert_eq!(recency.youngest(0, |way| way != 3), Some(0));
    }
}
