//! A medium with the write latency of a slower one.
//!
//! Emulating persistent memory with DRAM leaves out that its writes take longer. This wrapper
//! adds the difference: each line that a thread flushed or streamed costs that thread some
//! nanoseconds at its next fence, where a real processor waits for it, and all threads together
//! write no faster than a given bandwidth.

use std::cell::RefCell;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlast_trace::{ByteRange, LINE_BYTES, PoolOffset};

use crate::layer::{Access, Layer};
use crate::medium::Medium;

/// What the emulated medium costs beyond the real one. The default costs nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteCost {
    /// Nanoseconds for each line flushed or streamed since the thread's last fence.
    pub line_ns: u64,
    /// Bytes that all threads together can write in a second; `None` for no limit.
    pub bandwidth_bytes_per_s: Option<NonZeroU64>,
}

impl WriteCost {
    /// Nanoseconds for which `lines` occupy the whole medium.
    fn occupied_ns(&self, lines: u64) -> u64 {
        self.bandwidth_bytes_per_s.map_or(0, |bandwidth| {
            let ns = u128::from(lines * LINE_BYTES) * 1_000_000_000 / u128::from(bandwidth.get());
            u64::try_from(ns).unwrap_or(u64::MAX)
        })
    }
}

/// A medium whose fences wait for emulated writes.
pub struct Delayed<M> {
    inner: M,
    cost: WriteCost,
    /// Tells this value's lines from those of other values in a thread's list.
    id: u64,
    start: Instant,
    /// Nanoseconds after `start` at which all writes so far have left room for others.
    busy_until_ns: AtomicU64,
}

thread_local! {
    /// Lines that this thread flushed or streamed and did not fence: `(id, lines)`.
    static PENDING: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

impl<M> Delayed<M> {
    /// Adds `cost` to the writes of `inner`.
    pub fn new(inner: M, cost: WriteCost) -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self { inner, cost, id, start: Instant::now(), busy_until_ns: AtomicU64::new(0) }
    }

    /// The medium below.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// The medium below, at its own speed.
    pub fn into_inner(self) -> M {
        self.inner
    }

    /// What is added.
    pub fn cost(&self) -> WriteCost {
        self.cost
    }

    fn note(&self, lines: u64) {
        if self.cost == WriteCost::default() {
            return;
        }
        PENDING.with_borrow_mut(|pending| {
            match pending.iter_mut().find(|(id, _)| *id == self.id) {
                Some((_, noted)) => *noted += lines,
                None => pending.push((self.id, lines)),
            }
        });
    }

    /// Waits for what this thread wrote.
    fn wait(&self) {
        if self.cost == WriteCost::default() {
            return;
        }
        let lines = PENDING.with_borrow_mut(|pending| {
            let at = pending.iter().position(|(id, _)| *id == self.id)?;
            Some(pending.swap_remove(at).1)
        });
        let Some(lines) = lines else { return };
        let now_ns = self.elapsed_ns();
        let deadline_ns = self.deadline_ns(now_ns, lines);
        while self.elapsed_ns() < deadline_ns {
            std::hint::spin_loop();
        }
    }

    /// When `lines` written at `now_ns` are durable: after their latency, and not before the
    /// medium had the time for them and for everything before them.
    fn deadline_ns(&self, now_ns: u64, lines: u64) -> u64 {
        let latency = now_ns.saturating_add(lines.saturating_mul(self.cost.line_ns));
        let occupied = self.cost.occupied_ns(lines);
        if occupied == 0 {
            return latency;
        }
        let free_at = |busy_until: u64| busy_until.max(now_ns).saturating_add(occupied);
        let before = self
            .busy_until_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |busy| Some(free_at(busy)))
            .expect("the update is unconditional");
        latency.max(free_at(before))
    }

    fn elapsed_ns(&self) -> u64 {
        Duration::as_nanos(&self.start.elapsed()) as u64
    }
}

impl<M: Medium + Sync> Layer for Delayed<M> {
    type Inner = M;

    #[inline]
    fn inner(&self) -> &M {
        &self.inner
    }

    #[inline]
    fn after(&self, access: Access) {
        match access {
            Access::Stream { at, len } | Access::Flush { at, len } => {
                self.note(line_count(at, len))
            }
            // A locked instruction waits for flushes as a fence does (rule 7).
            Access::Fence | Access::Exchange { .. } => self.wait(),
            Access::Store { .. } | Access::Words { .. } => {}
        }
    }

    fn divide(&self, parts: usize, work: &(dyn Fn(&Self, usize) + Sync)) {
        self.share_out_below(parts, work);
    }
}

fn line_count(at: PoolOffset, len: u64) -> u64 {
    ByteRange::new(at, len).lines().count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Heap;
    use outlast_trace::LineAddr;

    fn delayed(line_ns: u64, bandwidth: u64) -> Delayed<Heap> {
        let cost = WriteCost { line_ns, bandwidth_bytes_per_s: NonZeroU64::new(bandwidth) };
        Delayed::new(Heap::new(4096), cost)
    }

    fn pending(medium: &Delayed<Heap>) -> u64 {
        PENDING.with_borrow(|all| all.iter().find(|(id, _)| *id == medium.id).map_or(0, |p| p.1))
    }

    #[test]
    fn flushed_and_streamed_lines_wait_for_the_fence() {
        let medium = delayed(1, 0);
        let other = delayed(1, 0);
        medium.flush(LineAddr(0));
        medium.flush_range(PoolOffset(60), 8);
        medium.store_nt(PoolOffset(128), &[0; 64]);
        medium.store_line(LineAddr(5), &[0; 64]);
        medium.store(PoolOffset(0), &[1; 64]);
        other.flush(LineAddr(0));
        assert_eq!((pending(&medium), pending(&other)), (5, 1));
        medium.fence();
        assert_eq!((pending(&medium), pending(&other)), (0, 1));
        other.compare_exchange_u64(PoolOffset(0), 0, 1).unwrap();
        assert_eq!(pending(&other), 0);
    }

    #[test]
    fn a_fence_takes_at_least_the_latency_of_its_lines() {
        let medium = delayed(200_000, 0);
        medium.flush_range(PoolOffset(0), 640);
        let start = Instant::now();
        medium.fence();
        assert!(start.elapsed() >= Duration::from_millis(2));
    }

    #[test]
    fn without_cost_nothing_is_noted() {
        let medium = delayed(0, 0);
        medium.flush(LineAddr(0));
        assert_eq!(pending(&medium), 0);
    }

    #[test]
    fn deadlines_follow_the_formula() {
        // 64 bytes at 64 MB/s occupy the medium for 1000 ns.
        let medium = delayed(300, 64_000_000);
        // Bandwidth is the limit, not the latency of 3 lines.
        assert_eq!(medium.deadline_ns(10, 3), 3010);
        // The next line, of whichever thread, queues behind them.
        assert_eq!(medium.deadline_ns(2000, 1), 4010);
        // An idle medium starts at once.
        assert_eq!(medium.deadline_ns(10_000, 1), 11_000);
        assert_eq!(delayed(300, 0).deadline_ns(10, 3), 910);
    }
}
