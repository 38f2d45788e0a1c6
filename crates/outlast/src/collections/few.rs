//! A list that is short nearly always.

/// Items that are kept here before a block of memory is taken for them.
const INLINE: usize = 16;

/// A list of `T`, in place up to a length that hardly any operation passes.
pub(super) struct Few<T> {
    inline: [T; INLINE],
    len: usize,
    /// All items, once there are more than fit in place.
    spilled: Vec<T>,
}

impl<T: Copy + Default> Few<T> {
    pub(super) fn new() -> Self {
        Self { inline: [T::default(); INLINE], len: 0, spilled: Vec::new() }
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) {
        if self.len < INLINE {
            self.inline[self.len] = item;
            self.len += 1;
            return;
        }
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline);
        }
        self.spilled.push(item);
    }

    #[inline]
    pub(super) fn items(&mut self) -> &mut [T] {
        if self.spilled.is_empty() { &mut self.inline[..self.len] } else { &mut self.spilled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_list_and_a_long_one_hold_what_was_pushed() {
        for len in [0, 1, INLINE - 1, INLINE, INLINE + 1, 5 * INLINE] {
            let mut few = Few::new();
            (0..len).for_each(|i| few.push(i));
            assert!(few.items().iter().copied().eq(0..len), "{len} items");
        }
    }
}
