//! The branch predictor: gshare (McFarling, 1993), two-bit counters chosen by the branch's
//! address and the outcomes of the branches before it.

/// Outcomes that are remembered.
const HISTORY_BITS: u32 = 12;

#[derive(Debug)]
pub(crate) struct Predictor {
    counters: Vec<u8>,
    history: u64,
}

impl Predictor {
    /// `counters` is a power of two.
    pub(crate) fn new(counters: u32) -> Self {
        Self { counters: vec![1; counters as usize], history: 0 }
    }

    /// Predicts a branch, learns what it did, and returns whether the prediction was right.
    #[inline]
    pub(crate) fn predict(&mut self, pc: u64, taken: bool) -> bool {
        let index = ((pc >> 1) ^ self.history) as usize & (self.counters.len() - 1);
        let counter = &mut self.counters[index];
        let right = (*counter >= 2) == taken;
        *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        self.history = (self.history << 1 | u64::from(taken)) & ((1 << HISTORY_BITS) - 1);
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_learnt_and_coins_are_not() {
        let mut predictor = Predictor::new(16384);
        let mut right = 0;
        for number in 0..2000u64 {
            let ok = predictor.predict(0x400, number % 5 == 0);
            right += u32::from(ok && number >= 1000);
        }
        assert!(right >= 990, "{right} of the last 1000 of a pattern of five");
        let mut rng = outlast_trace::Random::from_state(3);
        let coins = (0..4000).filter(|_| predictor.predict(0x800, rng.one_in(2))).count();
        assert!((1700..2300).contains(&coins), "{coins} of 4000 coins");
    }
}
