//! Where two texts of one length differ, by whole words.

use outlast::medium::LINE_BYTES;

/// Equal words between two changed ones that are taken with them: a range of its own costs more.
const GAP_WORDS_MAX: usize = 2;

const LINE: usize = LINE_BYTES as usize;
const LINE_WORDS: usize = LINE / 8;

/// Bytes that are compared by one call where most are the same.
pub(crate) const STRIDE_BYTES: usize = 8 * LINE;

/// Gathers ranges of words that differ, in ascending order.
pub(crate) struct Runs<F> {
    found: F,
    /// First and last word of the range that may go on.
    run: Option<(usize, usize)>,
}

impl<F: FnMut(usize, usize)> Runs<F> {
    /// `found` gets the first byte of each range and the one behind it.
    pub fn new(found: F) -> Self {
        Self { found, run: None }
    }

    /// Compares texts that begin at byte `at`, a multiple of a line.
    pub fn compare(&mut self, at: usize, new: &[u8], old: &[u8]) {
        let strides = new.chunks(STRIDE_BYTES).zip(old.chunks(STRIDE_BYTES));
        for ((new, old), first) in strides.zip((at / 8..).step_by(STRIDE_BYTES / 8)) {
            if new != old {
                self.compare_lines(first, new, old);
            }
        }
    }

    fn compare_lines(&mut self, first: usize, new: &[u8], old: &[u8]) {
        let ((new, new_rest), (old, old_rest)) = (new.as_chunks::<LINE>(), old.as_chunks::<LINE>());
        let lines = new.iter().zip(old).zip((first..).step_by(LINE_WORDS));
        lines.for_each(|((new, old), first)| self.add(first, words_that_differ(new, old)));
        let words = new_rest.chunks(8).zip(old_rest.chunks(8));
        for ((new, old), word) in words.zip(first + LINE_WORDS * new.len()..) {
            self.add(word, u32::from(new != old));
        }
    }

    /// Adds the words from `first` on whose bits are set.
    #[inline]
    fn add(&mut self, first: usize, mut words: u32) {
        let mut at = first;
        while words != 0 {
            let (equal, differ) = (words.trailing_zeros(), words >> words.trailing_zeros());
            let begin = at + equal as usize;
            let count = differ.trailing_ones();
            at = begin + count as usize;
            words = differ >> count;
            match &mut self.run {
                Some((_, last)) if begin - *last <= GAP_WORDS_MAX + 1 => *last = at - 1,
                run => {
                    if let Some((first, last)) = run.replace((begin, at - 1)) {
                        (self.found)(8 * first, 8 * last + 8);
                    }
                }
            }
        }
    }

    /// The texts end at byte `len`.
    pub fn end(mut self, len: usize) {
        if let Some((first, last)) = self.run {
            (self.found)(8 * first, len.min(8 * last + 8));
        }
    }
}

/// Without a branch between the words, so that vectors compare them.
#[inline]
fn words_that_differ(new: &[u8; LINE], old: &[u8; LINE]) -> u32 {
    let words = new.as_chunks::<8>().0.iter().zip(old.as_chunks::<8>().0);
    words.enumerate().fold(0, |all, (word, (new, old))| {
        all | u32::from(u64::from_ne_bytes(*new) != u64::from_ne_bytes(*old)) << word
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(new: &[u8], old: &[u8]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut runs = Runs::new(|from, to| found.push((from, to)));
        runs.compare(0, new, old);
        runs.end(new.len());
        found
    }

    #[test]
    fn runs_are_whole_words_and_small_gaps_are_taken_with_them() {
        let old = [0; 84];
        let with = |places: &[usize]| {
            let mut new = old;
            places.iter().for_each(|place| new[*place] = 1);
            runs(&new, &old)
        };
        assert_eq!(with(&[]), []);
        assert_eq!(with(&[0]), [(0, 8)]);
        assert_eq!(with(&[15, 16]), [(8, 24)]);
        assert_eq!(with(&[0, 24]), [(0, 32)], "two equal words between");
        assert_eq!(with(&[0, 32]), [(0, 8), (32, 40)], "three");
        assert_eq!(with(&[63, 64]), [(56, 72)], "over two lines");
        assert_eq!(with(&[83]), [(80, 84)], "the last word is short");
    }

    /// Texts of several strides, against the definition word by word.
    #[test]
    fn runs_cover_what_differs_and_begin_and_end_with_it() {
        let mut random = outlast_workloads::Random::new(1);
        for round in 0..2_000 {
            let len = 1 + random.below(3 * STRIDE_BYTES as u64) as usize;
            let old = vec![7; len];
            let mut new = old.clone();
            for _ in 0..random.below(1 + round % 40) {
                new[random.below(len as u64) as usize] = random.below(9) as u8;
            }
            let found = runs(&new, &old);
            let differ = |word: usize| {
                new.chunks(8).zip(old.chunks(8)).nth(word).is_some_and(|(new, old)| new != old)
            };
            let inside =
                |word: usize| found.iter().any(|(from, to)| (*from..*to).contains(&(8 * word)));
            assert!((0..len.div_ceil(8)).all(|word| !differ(word) || inside(word)));
            for (from, to) in &found {
                assert!(differ(from / 8) && differ((to - 1) / 8) && *to <= len);
            }
            let gaps = found.windows(2).map(|pair| pair[1].0 - pair[0].1);
            assert!({ gaps }.all(|gap| gap > 8 * GAP_WORDS_MAX));
        }
    }
}
