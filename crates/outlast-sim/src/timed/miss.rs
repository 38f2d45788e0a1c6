//! Miss-status holding registers: one per line that is on its way, with all who wait for it.

use crate::hierarchy::Want;
use outlast_trace::LineAddr;

/// No waiter.
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy, Debug)]
struct Miss {
    line: LineAddr,
    want: Want,
    first: u16,
    last: u16,
}

/// A core's registers. Who waits is a number below the capacity given to [`new`](Self::new).
#[derive(Debug)]
pub(crate) struct Misses {
    slots: Vec<Miss>,
    free: u64,
    /// Each waiter's successor.
    next: Vec<u16>,
}

/// The outcome of a miss.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opened {
    /// A new one: the line has to be asked for.
    New(u8),
    /// The line is on its way already.
    Merged,
    /// All registers are taken.
    Full,
}

impl Misses {
    pub(crate) fn new(registers: u32, waiters: usize) -> Self {
        let empty = Miss { line: LineAddr(u64::MAX), want: Want::Read, first: NONE, last: NONE };
        Self {
            slots: vec![empty; registers as usize],
            free: if registers == 64 { u64::MAX } else { (1 << registers) - 1 },
            next: vec![NONE; waiters],
        }
    }

    /// Joins the miss of a line, or opens one; `waiter` is told when the line is here. A store's
    /// miss has no waiter: the store asks again by itself.
    #[inline]
    pub(crate) fn open(&mut self, line: LineAddr, want: Want, waiter: Option<u16>) -> Opened {
        if let Some(at) = self.slots.iter().position(|miss| miss.line == line) {
            if let Some(waiter) = waiter {
                self.append(at, waiter);
            }
            return Opened::Merged;
        }
        if self.free == 0 {
            return Opened::Full;
        }
        let at = self.free.trailing_zeros() as usize;
        self.free &= self.free - 1;
        let first = waiter.unwrap_or(NONE);
        self.slots[at] = Miss { line, want, first, last: first };
        if let Some(waiter) = waiter {
            self.next[usize::from(waiter)] = NONE;
        }
        Opened::New(at as u8)
    }

    fn append(&mut self, at: usize, waiter: u16) {
        self.next[usize::from(waiter)] = NONE;
        let miss = &mut self.slots[at];
        if miss.first == NONE {
            miss.first = waiter;
        } else {
            self.next[usize::from(miss.last)] = waiter;
        }
        miss.last = waiter;
    }

    #[inline]
    pub(crate) fn line(&self, miss: u8) -> (LineAddr, Want) {
        let miss = &self.slots[usize::from(miss)];
        (miss.line, miss.want)
    }

    /// Whether a register is free.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.free != 0
    }

    /// Whether no line is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.iter().all(|miss| miss.line == LineAddr(u64::MAX))
    }

    /// Ends a miss and returns the first who waited for it; `next_waiter` gives the others.
    #[inline]
    pub(crate) fn close(&mut self, miss: u8) -> Option<u16> {
        let slot = &mut self.slots[usize::from(miss)];
        slot.line = LineAddr(u64::MAX);
        self.free |= 1 << miss;
        (slot.first != NONE).then_some(slot.first)
    }

    #[inline]
    pub(crate) fn next_waiter(&self, waiter: u16) -> Option<u16> {
        let next = self.next[usize::from(waiter)];
        (next != NONE).then_some(next)
    }
}

/// The last level's registers: lines on their way from memory, and which cores' misses wait.
#[derive(Debug)]
pub(crate) struct SharedMisses {
    slots: Vec<SharedMiss>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SharedMiss {
    line: Option<LineAddr>,
    pub(crate) read: u32,
    /// Cores and their misses, oldest first.
    pub(crate) waiters: Vec<(u8, u8)>,
}

impl SharedMisses {
    pub(crate) fn new(registers: u32) -> Self {
        Self { slots: vec![SharedMiss::default(); registers as usize] }
    }

    pub(crate) fn join(&mut self, line: LineAddr, waiter: (u8, u8)) -> bool {
        match self.slots.iter_mut().find(|miss| miss.line == Some(line)) {
            Some(miss) => {
                miss.waiters.push(waiter);
                true
            }
            None => false,
        }
    }

    /// Opens a miss if a register is free; `read` is asked for its read's number then.
    pub(crate) fn open(
        &mut self,
        line: LineAddr,
        waiter: (u8, u8),
        read: impl FnOnce() -> u32,
    ) -> bool {
        let Some(miss) = self.slots.iter_mut().find(|miss| miss.line.is_none()) else {
            return false;
        };
        miss.line = Some(line);
        miss.read = read();
        miss.waiters.clear();
        miss.waiters.push(waiter);
        true
    }

    /// Ends the miss whose read this is, and returns who waited for it.
    pub(crate) fn close(&mut self, read: u32) -> Vec<(u8, u8)> {
        let open = |miss: &&mut SharedMiss| miss.line.is_some() && miss.read == read;
        let miss = self.slots.iter_mut().find(open).expect("every read has its miss");
        miss.line = None;
        std::mem::take(&mut miss.waiters)
    }

    /// Gives the list of waiters back, to be used again.
    pub(crate) fn recycle(&mut self, mut waiters: Vec<(u8, u8)>) {
        if let Some(miss) =
            self.slots.iter_mut().find(|m| m.line.is_none() && m.waiters.capacity() == 0)
        {
            waiters.clear();
            miss.waiters = waiters;
        }
    }
}
