//! The DRAM cache: lines that left the caches, looked up before persistent memory is read. A crash
//! loses it.

use outlast_sim::LineBytes;
use outlast_trace::LineAddr;

use crate::shared::SetAssoc;

/// Its shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Lines that it has room for.
    pub(super) lines: u64,
    pub(super) ways: u64,
    /// Whether it replaces what was used least recently; else what came first.
    pub(super) is_lru: bool,
}

/// Lines with their bytes.
#[derive(Clone, Debug)]
pub(super) struct DramCache {
    /// Of each line, whether memory lacks its bytes: then it may not be replaced. Nothing where the
    /// cache has no lines.
    lines: Option<SetAssoc<bool>>,
    /// The bytes at each position, 64 each.
    data: Vec<u8>,
    is_lru: bool,
}

impl DramCache {
    pub(super) fn new(shape: Shape) -> Self {
        let Shape { lines, is_lru, .. } = shape;
        let ways = shape.ways.min(lines.max(1));
        let sets = lines / ways;
        Self {
            lines: (sets > 0).then(|| SetAssoc::new(sets, ways)),
            // The host gives zeroed pages only when they are touched: such a cache has gigabytes.
            data: vec![0; 64 * (sets * ways) as usize],
            is_lru,
        }
    }

    #[inline]
    fn find(&self, line: LineAddr) -> Option<usize> {
        self.lines.as_ref().and_then(|lines| lines.find(line.0))
    }

    /// The bytes of a line that is there.
    #[inline]
    pub(super) fn get(&self, line: LineAddr) -> Option<&LineBytes> {
        self.find(line).map(|at| &self.data.as_chunks().0[at])
    }

    /// Whether a read finds its line there.
    pub(super) fn look_up(&mut self, line: LineAddr) -> bool {
        let Some(lines) = &mut self.lines else { return false };
        let Some(at) = lines.find(line.0) else { return false };
        if self.is_lru {
            lines.touch(at);
        }
        true
    }

    /// Puts a line there that memory lacks. False where all ways of its set hold such lines.
    pub(super) fn insert(&mut self, line: LineAddr, data: &LineBytes) -> bool {
        let Some(lines) = &mut self.lines else { return false };
        let room = || lines.room(line.0, |is_pinned| (!is_pinned).then_some(0));
        let Some(at) = lines.find(line.0).or_else(room) else { return false };
        lines.put(at, line.0, true);
        self.data.as_chunks_mut().0[at] = *data;
        true
    }

    /// Memory has a line's bytes now.
    pub(super) fn unpin(&mut self, line: LineAddr) {
        if let (Some(at), Some(lines)) = (self.find(line), &mut self.lines) {
            *lines.value_mut(at) = false;
        }
    }

    /// Drops a line that is newer elsewhere.
    pub(super) fn remove(&mut self, line: LineAddr) {
        if let (Some(at), Some(lines)) = (self.find(line), &mut self.lines) {
            lines.clear(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(is_lru: bool) -> DramCache {
        let mut cache = DramCache::new(Shape { lines: 4, ways: 2, is_lru });
        for line in [0, 2] {
            assert!(cache.insert(LineAddr(line), &[line as u8; 64]));
        }
        cache
    }

    #[test]
    fn lines_that_memory_lacks_stay_and_others_leave_by_the_policy() {
        let mut full = filled(true);
        assert!(!full.insert(LineAddr(4), &[4; 64]), "both ways are pinned");
        assert!(full.insert(LineAddr(2), &[9; 64]), "a line that is there is replaced by itself");
        assert_eq!(full.get(LineAddr(2)), Some(&[9; 64]));
        for (is_lru, stays) in [(true, 0), (false, 2)] {
            let mut cache = filled(is_lru);
            [0, 2].into_iter().for_each(|line| cache.unpin(LineAddr(line)));
            assert!(cache.look_up(LineAddr(0)));
            assert!(cache.insert(LineAddr(4), &[4; 64]));
            assert!(cache.get(LineAddr(stays)).is_some(), "LRU {is_lru}");
            assert!(cache.get(LineAddr(2 - stays)).is_none(), "LRU {is_lru}");
            cache.remove(LineAddr(4));
            assert!(!cache.look_up(LineAddr(4)));
        }
    }

    #[test]
    fn a_cache_of_no_lines_has_none() {
        let mut none = DramCache::new(Shape { lines: 0, ways: 16, is_lru: true });
        assert!(!none.insert(LineAddr(1), &[1; 64]) && !none.look_up(LineAddr(1)));
    }
}
