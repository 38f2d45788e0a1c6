//! A set of byte intervals: what a transaction may store into without asking the library again.

/// Disjoint intervals that neither touch nor overlap, ascending.
///
/// A sorted vector, since transactions touch few ranges and mostly in ascending order; its
/// memory is kept from one transaction to the next.
#[derive(Default)]
pub(crate) struct Intervals {
    /// First byte, and the byte behind the last.
    spans: Vec<(u64, u64)>,
}

impl Intervals {
    /// Forgets everything.
    #[inline]
    pub fn clear(&mut self) {
        self.spans.clear();
    }

    /// Whether every byte of `start..end` is in the set.
    #[inline]
    pub fn covers(&self, start: u64, end: u64) -> bool {
        let behind = self.spans.partition_point(|span| span.0 <= start);
        behind > 0 && self.spans[behind - 1].1 >= end
    }

    /// Adds `start..end`, which is not empty.
    pub fn insert(&mut self, start: u64, end: u64) {
        debug_assert!(start < end);
        // All spans that touch or overlap the new one are replaced by one that spans them.
        let first = self.spans.partition_point(|span| span.1 < start);
        let behind = first + self.spans[first..].partition_point(|span| span.0 <= end);
        if first == behind {
            self.spans.insert(first, (start, end));
        } else {
            let merged = (start.min(self.spans[first].0), end.max(self.spans[behind - 1].1));
            self.spans[first] = merged;
            self.spans.drain(first + 1..behind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_answers_as_a_set_of_bytes_would(
            ranges in prop::collection::vec((0u64..200, 1u64..20), 1..40),
            questions in prop::collection::vec((0u64..220, 1u64..20), 20),
        ) {
            let mut set = Intervals::default();
            let mut bytes = [false; 240];
            for (start, len) in ranges {
                set.insert(start, start + len);
                bytes[start as usize..(start + len) as usize].fill(true);
                for pair in set.spans.windows(2) {
                    prop_assert!(pair[0].1 < pair[1].0, "{:?}", set.spans);
                }
            }
            for (start, len) in questions {
                let expected = bytes[start as usize..(start + len) as usize].iter().all(|b| *b);
                prop_assert_eq!(set.covers(start, start + len), expected);
            }
        }
    }
}
