//! The adversary: replacement that does what hurts crash consistency most.
//!
//! Everything it does is allowed by rule 1 (any dirty line may be written back at any time) and
//! rule 3 (no order between lines). A program that forgets a flush is hurt when the line stays
//! volatile; one that forgets a fence or an order is hurt when the *later* store persists and
//! the earlier does not: data before its log record, commit mark before payload. So:
//!
//! - **Victims.** A set gives up the line that was stored to last, or a clean one; the line that
//!   has been dirty longest, the log record of old, stays to the end.
//! - **Tempers.** After each store the adversary may write the line back at once, unasked. Its
//!   temper changes every few dozen stores. *Hold* writes nothing back, so that only flushes
//!   and full sets make anything durable. *Newest* tosses a coin for each store. *Favourites*
//!   writes half of all lines, drawn by hash, back at each store and holds the others hostage:
//!   any two lines soon stand on different sides.

use super::recency::Recency;
use outlast_trace::LineAddr;
use outlast_trace::{Random, mix};

/// Victim choice of one cache.
#[derive(Clone, Debug)]
pub(crate) struct Adversarial {
    ways: usize,
    stores: Recency,
    rng: Random,
}

impl Adversarial {
    pub(super) fn new(sets: usize, ways: usize, rng: Random) -> Self {
        Self { ways, stores: Recency::new(sets, ways), rng }
    }

    #[inline]
    pub(super) fn filled(&mut self, set: usize, way: usize) {
        self.stores.make_youngest(set, way);
    }

    #[inline]
    pub(super) fn stored(&mut self, set: usize, way: usize) {
        self.stores.make_youngest(set, way);
    }

    pub(super) fn victim(&mut self, set: usize, dirty: impl Fn(usize) -> bool) -> usize {
        let newest_dirty = self.stores.youngest(set, &dirty);
        let clean = (0..self.ways).filter(|&way| !dirty(way)).count();
        match newest_dirty {
            Some(way) if clean == 0 || self.rng.one_in(2) => way,
            _ => {
                let drawn = self.rng.below(clean as u64) as usize;
                let mut clean_ways = (0..self.ways).filter(|&way| !dirty(way));
                clean_ways.nth(drawn).expect("fewer were drawn than counted")
            }
        }
    }
}

/// The longest that a temper lasts, in stores.
const TEMPER_STORES_MAX: u64 = 96;

/// Decides after each store whether the line is written back at once.
#[derive(Clone, Debug)]
pub(crate) struct Temper {
    mood: Mood,
    stores_left: u64,
    rng: Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Hold,
    Newest,
    Favourites { salt: u64 },
}

impl Temper {
    pub(crate) fn new(seed: u64) -> Self {
        Self { mood: Mood::Hold, stores_left: 0, rng: Random::from_state(seed) }
    }

    /// Whether `line`, just stored to, is to be written back unasked.
    #[inline]
    pub(crate) fn writes_back(&mut self, line: LineAddr) -> bool {
        if self.stores_left == 0 {
            self.change();
        }
        self.stores_left -= 1;
        match self.mood {
            Mood::Hold => false,
            Mood::Newest => self.rng.one_in(2),
            Mood::Favourites { salt } => mix(line.0 ^ salt) & 1 == 1,
        }
    }

    fn change(&mut self) {
        self.stores_left = 1 + self.rng.below(TEMPER_STORES_MAX);
        self.mood = match self.rng.below(4) {
            0 => Mood::Hold,
            1 => Mood::Newest,
            _ => Mood::Favourites { salt: self.rng.next_u64() },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_dirty_longest_is_the_last_to_leave() {
        let mut policy = Adversarial::new(1, 4, Random::from_state(3));
        for way in 0..4 {
            policy.filled(0, way);
        }
        for way in [2, 0, 3, 1] {
            policy.stored(0, way);
        }
        assert_eq!(policy.victim(0, |_| true), 1);
        for _ in 0..100 {
            let victim = policy.victim(0, |way| way != 3);
            assert!(victim == 1 || victim == 3, "way {victim} was dirty before way 1");
        }
    }

    #[test]
    fn every_temper_comes_and_favourites_split_the_lines() {
        let mut temper = Temper::new(5);
        let (mut held, mut split) = (0, 0);
        for _ in 0..400 {
            temper.change();
            match temper.mood {
                Mood::Hold => held += 1,
                Mood::Newest => {}
                Mood::Favourites { .. } => {
                    temper.stores_left = 64;
                    let back = (0..64).filter(|&n| temper.writes_back(LineAddr(n))).count();
                    assert!((10..54).contains(&back), "{back} of 64 lines written back");
                    split += 1;
                }
            }
        }
        assert!(held > 50 && split > 100 && held + split < 380);
    }
}
