//! Tree pseudo-LRU: a binary tree over the ways whose inner nodes point away from the last use.
//!
//! The tree is a heap in an array: node `i` has the children `2i + 1` and `2i + 2`, and with `n`
//! ways the indices from `n - 1` on are the leaves. So it exists for every number of ways; where
//! that is a power of two it is the usual balanced tree.

/// One node a byte, `ways - 1` of them a set: 1 when the victim is to the right.
#[derive(Clone, Debug)]
pub(crate) struct TreePlru {
    inner: usize,
    right: Vec<u8>,
}

impl TreePlru {
    pub(super) fn new(sets: usize, ways: usize) -> Self {
        Self { inner: ways - 1, right: vec![0; sets * (ways - 1)] }
    }

    /// Turns every node on the way to `way` away from it.
    #[inline]
    pub(super) fn hit(&mut self, set: usize, way: usize) {
        let nodes = &mut self.right[set * self.inner..][..self.inner];
        let mut node = self.inner + way;
        while node > 0 {
            let is_left = node % 2 == 1;
            node = (node - 1) / 2;
            nodes[node] = u8::from(is_left);
        }
    }

    /// Follows the nodes from the root to a leaf.
    #[inline]
    pub(super) fn victim(&self, set: usize) -> usize {
        let nodes = &self.right[set * self.inner..][..self.inner];
        let mut node = 0;
        while node < self.inner {
            node = 2 * node + 1 + usize::from(nodes[node]);
        }
        node - self.inner
    }
}
