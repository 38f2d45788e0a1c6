//! Ports: how many of something may begin in one cycle.

use crate::timed::time::Cycle;

/// Cycles ahead for which reservations are kept. What is reserved further ahead is granted.
const AHEAD: usize = 256;

#[derive(Debug)]
pub(in crate::timed) struct Ports {
    /// For each cycle modulo `AHEAD`: the cycle, and how many begin in it.
    taken: Box<[(u64, u32); AHEAD]>,
    width: u32,
}

impl Ports {
    pub(in crate::timed) fn new(width: u32) -> Self {
        Self { taken: Box::new([(u64::MAX, 0); AHEAD]), width }
    }

    /// Reserves a port in the first cycle from `at` on that has one free. `now` is not later.
    #[inline]
    pub(in crate::timed) fn reserve(&mut self, now: Cycle, at: Cycle) -> Cycle {
        let mut cycle = at.0;
        while cycle < now.0 + AHEAD as u64 {
            let slot = &mut self.taken[cycle as usize % AHEAD];
            if slot.0 != cycle {
                *slot = (cycle, 1);
                return Cycle(cycle);
            }
            if slot.1 < self.width {
                slot.1 += 1;
                return Cycle(cycle);
            }
            cycle += 1;
        }
        Cycle(cycle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cycle_begins_more_than_its_width() {
        let mut ports = Ports::new(2);
        let at = |ports: &mut Ports, at| ports.reserve(Cycle(10), Cycle(at)).0;
        assert_eq!([at(&mut ports, 10), at(&mut ports, 12), at(&mut ports, 10)], [10, 12, 10]);
        assert_eq!([at(&mut ports, 10), at(&mut ports, 10), at(&mut ports, 10)], [11, 11, 12]);
        assert_eq!(at(&mut ports, 11), 13, "11 and 12 are full");
        assert_eq!(ports.reserve(Cycle(266), Cycle(266)).0, 266, "the ring is used again");
    }
}
