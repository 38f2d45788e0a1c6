//! The store buffer: stores, streams, flushes and marks leave it in their order.

use super::{Lsu, Store, StoreKind};
use crate::{
    hierarchy::Want,
    timed::{event::Event, miss::Opened, ports::Scheme, stats::Lost, uncore::Uncore},
};
use outlast_trace::{FlushKind, LineAddr, PoolOffset};

/// The step that the oldest store needs before it can be drained.
enum Step {
    Drained,
    Stuck,
    /// The next cycle will do.
    Later,
}

impl Lsu {
    /// Whether the store buffer has something to drain and waits for nothing.
    #[inline]
    pub(in crate::timed::core) fn can_drain(&self) -> bool {
        !self.stuck && self.stores.head < self.stores.senior
    }

    /// The condition for which a fence cannot retire yet.
    pub(in crate::timed::core) fn fence_waits_for(&self) -> Lost {
        if self.stores.head == self.stores.senior {
            Lost::Flush
        } else if self.stuck && self.stuck_on != Lost::StoreBuffer {
            self.stuck_on
        } else {
            Lost::Fence
        }
    }

    /// Whether all retired stores are visible, and all flushes and streams acknowledged. What
    /// still sits in the write-combining buffer is sent off.
    pub(in crate::timed::core) fn all_done<S: Scheme>(&mut self, up: &mut Uncore<S>) -> bool {
        if self.stores.head < self.stores.senior {
            return false;
        }
        self.pending += up.drain_streams(self.core);
        self.pending == 0 && up.streams_are_done(self.core)
    }

    /// Drains what the ports allow in this cycle, oldest first.
    #[inline]
    pub(in crate::timed::core) fn drain<S: Scheme>(&mut self, up: &mut Uncore<S>) {
        for _ in 0..self.store_ports {
            if !self.can_drain() {
                break;
            }
            match self.drain_one(up) {
                Step::Drained => {}
                Step::Stuck => self.stuck = true,
                Step::Later => break,
            }
        }
        if self.stuck && self.prefetch_depth > 0 {
            self.prefetch(up);
        }
    }

    fn drain_one<S: Scheme>(&mut self, up: &mut Uncore<S>) -> Step {
        let number = self.stores.head;
        let store = *self.stores.get(number);
        let line = PoolOffset(store.at).line();
        let now = up.now();
        if store.kind == StoreKind::Store
            && !store.asked
            && (up.look_up_at(0, now) > now || !self.takes_bank(store.at, now))
        {
            return Step::Later;
        }
        let done = match store.kind {
            StoreKind::Store => self.drain_store(number, &store, up),
            StoreKind::Atomic => self.drain_atomic(number, &store, up),
            StoreKind::StoreNt => {
                let sent = up.stream(self.core, PoolOffset(store.at), &store.value.to_le_bytes());
                self.pending += sent;
                true
            }
            StoreKind::Store64 => {
                up.stream_line(self.core, line, self.stores.line(number));
                self.pending += 1;
                true
            }
            StoreKind::Flush(kind) => self.drain_flush(number, kind, line, up),
            StoreKind::Mark(mark) => {
                self.stuck_on = Lost::Log;
                up.scheme_mark(self.core, mark)
            }
        };
        if !done {
            return Step::Stuck;
        }
        self.stores.pop();
        Step::Drained
    }

    #[inline]
    fn drain_store<S: Scheme>(&mut self, number: u64, store: &Store, up: &mut Uncore<S>) -> bool {
        let at = PoolOffset(store.at);
        let first_time = !std::mem::replace(&mut self.stores.get(number).asked, true);
        self.stats.stores += u64::from(first_time);
        match up.look_up(self.core, at.line(), Want::Write, first_time) {
            Some(slot) => {
                self.stuck_on = Lost::Log;
                up.store(self.core, slot, at, &store.value.to_le_bytes()[..store.len.into()])
            }
            None => {
                self.stuck_on = Lost::StoreBuffer;
                match self.misses.open(at.line(), Want::Write, None) {
                    Opened::New(miss) => up.start_miss(self.core, miss, at.line()),
                    Opened::Merged => self.stats.merged_misses += u64::from(first_time),
                    Opened::Full => self.stuck_on = Lost::QueueFull,
                }
                false
            }
        }
    }

    /// A store that the last level performs: the line has left the private levels before, and leaves
    /// them again with what was stored.
    fn drain_atomic<S: Scheme>(&mut self, number: u64, store: &Store, up: &mut Uncore<S>) -> bool {
        let line = PoolOffset(store.at).line();
        if !store.asked {
            up.hand_down(self.core, line);
        }
        let done = self.drain_store(number, store, up);
        if done {
            up.hand_down(self.core, line);
        }
        done
    }

    fn drain_flush<S: Scheme>(
        &mut self,
        number: u64,
        kind: FlushKind,
        line: LineAddr,
        up: &mut Uncore<S>,
    ) -> bool {
        // `clflush` is ordered with all writes: it starts and ends alone.
        let alone = kind == FlushKind::Clflush;
        self.stuck_on = Lost::Flush;
        if self.stores.get(number).asked {
            return self.pending == 0;
        }
        if alone && self.pending > 0 {
            return false;
        }
        if self.pending as usize >= self.flushes.len() {
            return false;
        }
        let Some(free) = self.flushes.iter().position(Option::is_none) else { return false };
        self.stats.flushes += 1;
        self.flushes[free] = Some((kind, line));
        let now = up.now();
        if let Some(timeline) = &mut up.below.timeline {
            timeline.flush_begins(self.core, free as u16, line, now);
        }
        self.pending += 1;
        let at = up.now().plus(self.flush_cycles);
        up.schedule(at, Event::Flush { core: self.core, flush: free as u16 });
        self.stores.get(number).asked = alone;
        !alone
    }

    /// A flush has passed all levels.
    pub(in crate::timed) fn flush_passes<S: Scheme>(&mut self, flush: u16, up: &mut Uncore<S>) {
        let slot = self.flushes[usize::from(flush)].take();
        let (kind, line) = slot.expect("only a flush under way passes");
        let now = up.now();
        if let Some(timeline) = &mut up.below.timeline {
            timeline.flush_passes(self.core, flush, now);
        }
        up.flush(self.core, kind, line);
    }

    pub(super) fn prefetch_stride<S: Scheme>(&mut self, line: LineAddr, up: &mut Uncore<S>) {
        let Some(prefetcher) = &mut self.prefetcher else { return };
        for target in prefetcher.touch(line) {
            if self.misses.has_room()
                && up.look_up(self.core, target, Want::Read, false).is_none()
                && let Opened::New(miss) = self.misses.open(target, Want::Read, None)
            {
                self.stats.prefetches += 1;
                up.start_miss(self.core, miss, target);
            }
        }
    }
}
