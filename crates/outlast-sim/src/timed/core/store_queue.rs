//! The store queue and, as its older part, the store buffer: stores in program order from
//! dispatch until they are in the cache (total store order).

use crate::{cache::LineBytes, timed::instr::Mark, timed::time::Cycle};
use outlast_trace::FlushKind;

/// The action of an entry when it is the oldest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StoreKind {
    Store,
    /// The store of a locked instruction that the last level performs.
    Atomic,
    StoreNt,
    Store64,
    Flush(FlushKind),
    Mark(Mark),
}

impl StoreKind {
    /// Whether it goes to the caches, and younger loads take its bytes.
    #[inline]
    fn is_cached(self) -> bool {
        matches!(self, Self::Store | Self::Atomic)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Store {
    pub(super) at: u64,
    pub(super) value: u64,
    pub(super) len: u8,
    pub(super) kind: StoreKind,
    /// The caches were asked once, which is counted.
    pub(super) asked: bool,
    /// When address and data are there; [`Cycle::NEVER`] while that is not known.
    pub(super) ready: Cycle,
}

/// Buckets of the filter that spares searches.
const BUCKETS: usize = 256;

/// A ring of stores, numbered from the start of the run.
///
/// `head <= senior <= tail`: what is before `senior` has retired and may be drained.
#[derive(Debug)]
pub(super) struct StoreQueue {
    entries: Vec<Store>,
    lines: Vec<LineBytes>,
    mask: u64,
    capacity: u64,
    pub(super) head: u64,
    pub(super) senior: u64,
    pub(super) tail: u64,
    /// How many stores to words of each bucket are here.
    buckets: Box<[u16; BUCKETS]>,
}

impl StoreQueue {
    pub(super) fn new(capacity: u32) -> Self {
        let slots = (capacity as usize).next_power_of_two();
        let empty = Store {
            at: 0,
            value: 0,
            len: 0,
            kind: StoreKind::Store,
            asked: false,
            ready: Cycle::NEVER,
        };
        Self {
            entries: vec![empty; slots],
            lines: vec![[0; 64]; slots],
            mask: slots as u64 - 1,
            capacity: capacity.into(),
            head: 0,
            senior: 0,
            tail: 0,
            buckets: Box::new([0; BUCKETS]),
        }
    }

    #[inline]
    pub(super) fn room(&self) -> u64 {
        self.capacity - (self.tail - self.head)
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    #[inline]
    pub(super) fn get(&mut self, number: u64) -> &mut Store {
        &mut self.entries[(number & self.mask) as usize]
    }

    pub(super) fn line(&self, number: u64) -> &LineBytes {
        &self.lines[(number & self.mask) as usize]
    }

    #[inline]
    pub(super) fn push(&mut self, store: Store) -> u64 {
        let number = self.tail;
        if store.kind.is_cached() {
            self.buckets[bucket(store.at)] += 1;
        }
        self.entries[(number & self.mask) as usize] = store;
        self.tail += 1;
        number
    }

    pub(super) fn set_line(&mut self, number: u64, line: &LineBytes) {
        self.lines[(number & self.mask) as usize] = *line;
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        let store = &self.entries[(self.head & self.mask) as usize];
        if store.kind.is_cached() {
            self.buckets[bucket(store.at)] -= 1;
        }
        self.head += 1;
    }

    /// The youngest store to the word of `at` among those before number `before`, with its
    /// number.
    #[inline]
    pub(super) fn youngest_to(&self, at: u64, before: u64) -> Option<(u64, Cycle)> {
        if self.buckets[bucket(at)] == 0 {
            return None;
        }
        (self.head..before).rev().find_map(|number| {
            let store = &self.entries[(number & self.mask) as usize];
            (store.kind.is_cached() && store.at / 8 == at / 8).then_some((number, store.ready))
        })
    }
}

#[inline]
fn bucket(at: u64) -> usize {
    ((at / 8) ^ (at >> 11)) as usize % BUCKETS
}
