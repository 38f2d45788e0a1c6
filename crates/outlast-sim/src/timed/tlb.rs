//! Translation look-aside buffers: two levels, which remember pages. What they cost is time;
//! addresses are physical already.

use super::config::TlbConfig;

/// One level: set-associative, LRU.
#[derive(Debug)]
struct Level {
    sets: u64,
    mask: Option<u64>,
    ways: usize,
    /// Page number + 1; 0 is an empty way. Youngest first in each set.
    pages: Vec<u64>,
}

impl Level {
    fn new(sets: u32, ways: u32) -> Self {
        let sets = u64::from(sets);
        Self {
            sets,
            mask: sets.is_power_of_two().then(|| sets - 1),
            ways: ways as usize,
            pages: vec![0; sets as usize * ways as usize],
        }
    }

    fn set(&mut self, page: u64) -> &mut [u64] {
        let set = match self.mask {
            Some(mask) => page & mask,
            None => page % self.sets,
        };
        &mut self.pages[set as usize * self.ways..][..self.ways]
    }

    /// Whether the page is here; it becomes the youngest.
    #[inline]
    fn access(&mut self, page: u64) -> bool {
        let set = self.set(page);
        match set.iter().position(|&held| held == page + 1) {
            Some(at) => {
                set[..=at].rotate_right(1);
                true
            }
            None => false,
        }
    }

    fn holds(&mut self, page: u64) -> bool {
        self.set(page).contains(&(page + 1))
    }

    /// The page that would leave for this one.
    fn victim(&mut self, page: u64) -> Option<u64> {
        self.set(page).last().and_then(|held| held.checked_sub(1))
    }

    fn remove(&mut self, page: u64) {
        let set = self.set(page);
        if let Some(at) = set.iter().position(|&held| held == page + 1) {
            set[at..].rotate_left(1);
            set[set.len() - 1] = 0;
        }
    }

    /// Returns the page that left for it.
    fn install(&mut self, page: u64) -> Option<u64> {
        let set = self.set(page);
        set.rotate_right(1);
        std::mem::replace(&mut set[0], page + 1).checked_sub(1)
    }
}

/// The result of a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Translation {
    /// In the first level: no time.
    First,
    /// In the second level; now in the first.
    Second,
    /// Nowhere: a walk has to find it.
    Missing,
}

/// A core's TLB.
#[derive(Debug)]
pub(crate) struct Tlb {
    first: Level,
    second: Level,
    /// The page used last: most accesses stay in it.
    last: u64,
    page_shift: u32,
    /// Whether the first level holds only pages that the second has.
    is_inclusive: bool,
    /// Pages that left both levels, until the scheme takes them.
    left: Vec<u64>,
}

impl Tlb {
    pub(crate) fn new(config: &TlbConfig, is_inclusive: bool) -> Self {
        Self {
            first: Level::new(config.l1_sets, config.l1_ways),
            second: Level::new(config.l2_sets, config.l2_ways),
            last: u64::MAX,
            page_shift: config.page.0.trailing_zeros(),
            is_inclusive,
            left: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn page(&self, at: u64) -> u64 {
        at >> self.page_shift
    }

    #[inline]
    pub(crate) fn look_up(&mut self, page: u64) -> Translation {
        if page == self.last {
            return Translation::First;
        }
        self.look_up_levels(page)
    }

    fn look_up_levels(&mut self, page: u64) -> Translation {
        if self.first.access(page) {
            self.last = page;
            return Translation::First;
        }
        if self.second.access(page) {
            self.install_first(page);
            self.last = page;
            return Translation::Second;
        }
        Translation::Missing
    }

    /// The page that leaves both levels if this one is installed. Only of inclusive levels.
    pub(crate) fn leaves_for(&mut self, page: u64) -> Option<u64> {
        if self.second.holds(page) { None } else { self.second.victim(page) }
    }

    /// A walk has found the page.
    pub(crate) fn install(&mut self, page: u64) {
        if !self.second.access(page)
            && let Some(left) = self.second.install(page)
        {
            if self.is_inclusive {
                self.first.remove(left);
            }
            if !self.first.holds(left) {
                self.left.push(left);
            }
        }
        if !self.first.access(page) {
            self.install_first(page);
        }
        self.last = page;
    }

    fn install_first(&mut self, page: u64) {
        if let Some(left) = self.first.install(page)
            && !self.second.holds(left)
        {
            self.left.push(left);
        }
    }

    /// A page that left both levels since it was last asked.
    #[inline]
    pub(crate) fn take_left(&mut self) -> Option<u64> {
        self.left.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timed::config::MachineConfig;

    #[test]
    fn the_least_recently_used_page_leaves_each_level() {
        let mut config = MachineConfig::named("server").unwrap().tlb;
        (config.l1_sets, config.l1_ways, config.l2_sets, config.l2_ways) = (1, 2, 1, 4);
        let mut tlb = Tlb::new(&config, false);
        for page in 0..4 {
            assert_eq!(tlb.look_up(page), Translation::Missing);
            tlb.install(page);
        }
        assert_eq!(tlb.look_up(2), Translation::First);
        assert_eq!(tlb.look_up(0), Translation::Second);
        assert_eq!(tlb.look_up(3), Translation::Second, "2 and 0 were used since");
        tlb.install(4);
        assert_eq!(tlb.look_up(1), Translation::Missing, "the oldest of both levels");
        assert_eq!((tlb.take_left(), tlb.take_left()), (Some(1), None), "it alone left both");
        assert_eq!(tlb.page(4096), 1);
    }

    #[test]
    fn a_page_leaves_inclusive_levels_together_and_is_known_before() {
        let mut config = MachineConfig::named("server").unwrap().tlb;
        (config.l1_sets, config.l1_ways, config.l2_sets, config.l2_ways) = (1, 2, 1, 2);
        let mut tlb = Tlb::new(&config, true);
        tlb.install(0);
        assert_eq!(tlb.leaves_for(1), None, "there is room");
        tlb.install(1);
        // The first level used 0 last, of which the second knows nothing.
        assert_eq!(tlb.look_up(0), Translation::First);
        assert_eq!((tlb.leaves_for(1), tlb.leaves_for(2)), (None, Some(0)));
        tlb.install(2);
        assert_eq!((tlb.take_left(), tlb.take_left()), (Some(0), None));
        assert_eq!(tlb.look_up(0), Translation::Missing, "gone from the first level, too");
        assert_eq!((tlb.look_up(1), tlb.look_up(2)), (Translation::First, Translation::First));
    }
}
