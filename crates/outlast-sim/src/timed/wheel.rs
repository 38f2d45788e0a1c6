//! The event queue: a wheel of 4096 slots, one a cycle, for what happens soon, and a heap for
//! the rest. Events of one cycle come out in the order in which they were put in.

use super::time::Cycle;
use std::{cmp::Reverse, collections::BinaryHeap};

const SLOTS: usize = 4096;
const MASK: u64 = SLOTS as u64 - 1;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node<E> {
    event: E,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    first: u32,
    last: u32,
}

/// Something that happens later than the wheel reaches.
#[derive(Clone, Copy, Debug)]
struct Far<E> {
    at: Cycle,
    number: u64,
    event: E,
}

impl<E> PartialEq for Far<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Far<E> {}

impl<E> PartialOrd for Far<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Far<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Events in order of time.
///
/// **W1** Every event within `SLOTS` cycles of `now` is in the wheel, every later one in the
/// heap; `advance` keeps that, so an event that waited in the heap stands before any that is
/// put directly into its slot later.
#[derive(Debug)]
pub(crate) struct Wheel<E> {
    now: Cycle,
    next: Cycle,
    slots: Box<[Slot; SLOTS]>,
    /// One bit per slot that has events, and one per word of these that has any.
    words: [u64; SLOTS / 64],
    summary: u64,
    nodes: Vec<Node<E>>,
    free: u32,
    far: BinaryHeap<Reverse<Far<E>>>,
    scheduled: u64,
}

impl<E: Copy> Wheel<E> {
    pub(crate) fn new() -> Self {
        Self {
            now: Cycle(0),
            next: Cycle::NEVER,
            slots: Box::new([Slot { first: NONE, last: NONE }; SLOTS]),
            words: [0; SLOTS / 64],
            summary: 0,
            nodes: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            scheduled: 0,
        }
    }

    /// The time that was reached.
    #[inline]
    pub(crate) fn now(&self) -> Cycle {
        self.now
    }

    /// When the next event happens; [`Cycle::NEVER`] if there is none.
    #[inline]
    pub(crate) fn next(&self) -> Cycle {
        self.next
    }

    /// Puts an event in. Nothing happens in the past: `at` is not before [`now`](Self::now).
    #[inline]
    pub(crate) fn schedule(&mut self, at: Cycle, event: E) {
        debug_assert!(at >= self.now, "{at} is before {}", self.now);
        self.scheduled += 1;
        if at.since(self.now) < SLOTS as u64 {
            self.put(at, event);
        } else {
            self.far.push(Reverse(Far { at, number: self.scheduled, event }));
        }
        self.next = self.next.min(at);
    }

    /// Lets time pass up to `to`, which is not later than the next event.
    #[inline]
    pub(crate) fn advance(&mut self, to: Cycle) {
        debug_assert!(self.now <= to && to <= self.next, "{to} passes an event at {}", self.next);
        self.now = to;
        while let Some(Reverse(far)) = self.far.peek()
            && far.at.since(to) < SLOTS as u64
        {
            let Far { at, event, .. } = *far;
            self.far.pop();
            self.put(at, event); // W1
        }
    }

    /// Takes out the oldest event of the present cycle.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<E> {
        if self.next != self.now {
            return None;
        }
        let index = (self.now.0 & MASK) as usize;
        let node = self.slots[index].first;
        let Node { event, next } = self.nodes[node as usize];
        self.nodes[node as usize].next = self.free;
        self.free = node;
        self.slots[index].first = next;
        if next == NONE {
            self.words[index / 64] &= !(1 << (index % 64));
            if self.words[index / 64] == 0 {
                self.summary &= !(1 << (index / 64));
            }
            self.next = self.find_next();
        }
        Some(event)
    }

    #[inline]
    fn put(&mut self, at: Cycle, event: E) {
        let node = match self.free {
            NONE => {
                self.nodes.push(Node { event, next: NONE });
                (self.nodes.len() - 1) as u32
            }
            free => {
                self.free = self.nodes[free as usize].next;
                self.nodes[free as usize] = Node { event, next: NONE };
                free
            }
        };
        let index = (at.0 & MASK) as usize;
        let slot = &mut self.slots[index];
        if slot.first == NONE {
            slot.first = node;
            self.words[index / 64] |= 1 << (index % 64);
            self.summary |= 1 << (index / 64);
        } else {
            self.nodes[slot.last as usize].next = node;
        }
        slot.last = node;
    }

    fn find_next(&self) -> Cycle {
        if self.summary == 0 {
            return self.far.peek().map_or(Cycle::NEVER, |Reverse(far)| far.at);
        }
        let here = (self.now.0 & MASK) as usize;
        let (word, bit) = (here / 64, here % 64);
        let in_word = self.words[word] & (u64::MAX << bit);
        let index = if in_word != 0 {
            word * 64 + in_word.trailing_zeros() as usize
        } else {
            // The words behind this one, then those before it, then this one's lower bits.
            let behind = self.summary & !(u64::MAX >> (63 - word));
            let word = if behind != 0 { behind } else { self.summary }.trailing_zeros() as usize;
            word * 64 + self.words[word].trailing_zeros() as usize
        };
        self.now.plus((index as u64).wrapping_sub(here as u64) & MASK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_in_order_of_time_and_then_of_arrival(
            gaps in proptest::collection::vec((0..3usize, 0..9000u64), 1..300)
        ) {
            // The reference is a sorted list; a third of the events are put in while others run.
            let mut wheel = Wheel::new();
            let mut expected: Vec<(u64, usize)> = Vec::new();
            let mut came = Vec::new();
            for (number, &(kind, gap)) in gaps.iter().enumerate() {
                let gap = if kind == 0 { gap % 4 } else { gap };
                wheel.schedule(wheel.now().plus(gap), number);
                expected.push((wheel.now().0 + gap, number));
                if kind == 2 && wheel.next() != Cycle::NEVER {
                    wheel.advance(wheel.next());
                    let event = wheel.pop().unwrap();
                    came.push((wheel.now().0, event));
                }
            }
            while wheel.next() != Cycle::NEVER {
                wheel.advance(wheel.next());
                while let Some(event) = wheel.pop() {
                    came.push((wheel.now().0, event));
                }
            }
            prop_assert_eq!(came.len(), expected.len());
            prop_assert!(came.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", came);
            came.sort_by_key(|&(_, number)| number);
            prop_assert_eq!(came, expected);
        }
    }
}
