//! The time of a scan of a level's tags.
//!
//! A scan reads tags set after set. The port is the scan's while it reads those of a set; lookups
//! come between two sets, and the scan does not wait for them. What it finds is found at its begin,
//! all of it at once.

use super::{config::LevelConfig, time::Cycle};
use crate::config::CacheConfig;
use outlast_trace::LINE_BYTES;

/// How a scan goes through a level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanShape {
    sets: u64,
    /// Sets of a buffer behind the level, as if they had its ways. Lookups of the level do not wait for
    /// them.
    behind: u64,
    /// Cycles that the tags of a set take; 0 where scans take no time.
    set_cycles: u64,
}

impl ScanShape {
    pub(crate) fn new(level: &LevelConfig, behind: Option<CacheConfig>, tags_a_cycle: u32) -> Self {
        let ways = u64::from(level.ways);
        let set_cycles = match tags_a_cycle {
            0 => 0,
            tags => ways.div_ceil(tags.into()),
        };
        let lines = behind.map_or(0, |buffer| buffer.size_bytes / LINE_BYTES);
        Self { sets: level.size.0 / LINE_BYTES / ways, behind: lines.div_ceil(ways), set_cycles }
    }

    /// When a scan that begins now has read the tags of a set, or of all.
    pub(crate) fn read_by(self, now: Cycle, set: Option<u64>) -> Cycle {
        now.plus(set.map_or(self.sets + self.behind, |set| set + 1) * self.set_cycles)
    }

    /// A scan that begins now.
    pub(crate) fn begin(self, now: Cycle) -> Scan {
        let until = now.plus(self.sets * self.set_cycles);
        Scan { from: now, until, set_cycles: self.set_cycles }
    }
}

/// A scan under way, or over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scan {
    from: Cycle,
    until: Cycle,
    set_cycles: u64,
}

impl Scan {
    /// When a lookup may begin that wants to at `at`.
    #[inline]
    pub(crate) fn between_sets(&self, at: Cycle) -> Cycle {
        if at >= self.until || at <= self.from {
            return at;
        }
        let into = at.since(self.from) % self.set_cycles;
        if into == 0 { at } else { at.plus(self.set_cycles - into) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timed::config::MachineConfig;

    #[test]
    fn lookups_wait_for_the_end_of_a_set_and_for_nothing_behind_the_last() {
        let mut level = MachineConfig::named("hwl").unwrap().llc;
        (level.size.0, level.ways) = (4096, 16); // 4 sets.
        let scan = ScanShape::new(&level, None, 1).begin(Cycle(100));
        let starts = |at| scan.between_sets(Cycle(at)).0;
        assert_eq!([starts(100), starts(101), starts(115), starts(116)], [100, 116, 116, 116]);
        assert_eq!([starts(149), starts(163), starts(164), starts(165)], [164, 164, 164, 165]);
        let faster = ScanShape::new(&level, None, 5).begin(Cycle(0));
        assert_eq!(faster.between_sets(Cycle(15)), Cycle(16), "four cycles a set, the last of 16");
        assert_eq!(faster.between_sets(Cycle(17)), Cycle(17));
        let free = ScanShape::new(&level, None, 0).begin(Cycle(0));
        assert_eq!(free.between_sets(Cycle(1)), Cycle(1));
    }
}
