//! The out-of-order core.
//!
//! It ticks only in cycles in which it can retire, drain or dispatch; a tick (1) retires,
//! (2) drains the store buffer, (3) dispatches. Execution needs no ticks: an instruction whose
//! sources are known gets its completion time at dispatch, from their times, the ports that are
//! free, and its latency. One that waits for a load stands in that load's list, and when the
//! load's time becomes known, so do those of all that follow from it.

mod dispatch;

use super::{
    Front,
    lsu::{Load, Lsu},
    ports::Ports,
    store_queue::{Store, StoreKind},
};
use crate::timed::{
    branch::Predictor,
    config::MachineConfig,
    event::Event,
    instr::{Instr, InstrKind, Mark},
    ports::Scheme,
    stats::Lost,
    time::Cycle,
    uncore::Uncore,
};

/// Sources of an instruction, and so waiter nodes of an entry.
const SOURCES: usize = 4;
/// Cycles that an instruction takes that only computes, and the address of a store.
const WORK_CYCLES: u64 = 1;

/// An entry of the reorder buffer.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// When it is complete; [`Cycle::NEVER`] while that is not known.
    done: Cycle,
    /// The latest of its sources' times that are known.
    ready: Cycle,
    /// The first that waits for it: a node, + 1.
    waiters: u32,
    /// Sources that are not known; once there are none, loads and translations that are not.
    missing: u8,
    loads: u8,
    stores: u8,
    /// Retires without conditions and counts as an instruction.
    plain: bool,
    first_load: u32,
    first_store: u64,
}

pub(in crate::timed) struct OutOfOrder {
    id: u8,
    pub(in crate::timed) lsu: Lsu,
    pub(super) front: Front,
    entries: Vec<Entry>,
    /// The kinds of entries that are not plain.
    kinds: Vec<InstrKind>,
    /// The marks of entries that are marks.
    marks: Vec<Mark>,
    mask: u64,
    capacity: u64,
    /// Instructions are numbered from the start: the oldest, and the next.
    head: u64,
    tail: u64,
    load_head: u64,
    load_tail: u64,
    /// For each register the number of its last writer, + 1.
    writers: Box<[u64; 256]>,
    /// Waiter nodes, `SOURCES` for each entry: the next in the list, + 1.
    nodes: Vec<u32>,
    /// Entries whose time became known and whose waiters were not told yet.
    told: Vec<u32>,
    issue: Ports,
    load_ports: Ports,
    pub(super) predictor: Predictor,
    dispatch_width: u32,
    retire_width: u32,
    mispredict_cycles: u64,
    /// Dispatch stands still up to this cycle.
    resume: Cycle,
    /// It does so until the branch with this number has executed.
    wrong_branch: Option<u64>,
    /// It does so until this instruction has retired and the stores before it are visible.
    serialising: Option<u64>,
    /// The oldest instruction waits for something that will be told.
    pub(in crate::timed) head_blocked: bool,
    fence_since: Option<Cycle>,
    /// Cycles before this one are counted as busy or lost.
    accounted: Cycle,
    /// The condition that the oldest instruction waits for, if it has one.
    head_waits: Lost,
    /// Which thread of its core it is, where two share one.
    thread: Option<u8>,
}

impl OutOfOrder {
    /// `thread` says which of two threads of its core it is, if there are two; `config` is that of
    /// its part then.
    pub(in crate::timed) fn new(
        id: u8,
        thread: Option<u8>,
        config: &MachineConfig,
        front: Front,
        keeps_bits: bool,
    ) -> Self {
        let slots = (config.core.rob as usize).next_power_of_two();
        let empty = Entry {
            done: Cycle::NEVER,
            ready: Cycle(0),
            waiters: 0,
            missing: 0,
            loads: 0,
            stores: 0,
            plain: true,
            first_load: 0,
            first_store: 0,
        };
        Self {
            id,
            lsu: Lsu::new(id, config, keeps_bits),
            front,
            entries: vec![empty; slots],
            kinds: vec![InstrKind::Plain; slots],
            marks: vec![Mark::Epoch; slots],
            mask: slots as u64 - 1,
            capacity: config.core.rob.into(),
            head: 0,
            tail: 0,
            load_head: 0,
            load_tail: 0,
            writers: Box::new([0; 256]),
            nodes: vec![0; slots * SOURCES],
            told: Vec::new(),
            issue: Ports::new(config.core.issue_width),
            load_ports: Ports::new(config.core.load_ports),
            predictor: Predictor::new(config.core.predictor_counters),
            dispatch_width: config.core.dispatch_width,
            retire_width: config.core.retire_width,
            mispredict_cycles: config.core.mispredict_penalty.cycles(config.core.clock.period_fs()),
            resume: Cycle(0),
            wrong_branch: None,
            serialising: None,
            head_blocked: false,
            fence_since: None,
            accounted: Cycle(0),
            head_waits: Lost::Work,
            thread,
        }
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        (number & self.mask) as usize
    }

    pub(super) fn tick<S: Scheme>(&mut self, now: Cycle, up: &mut Uncore<S>) -> Cycle {
        if self.accounted < now {
            self.settle(now, up);
        }
        let before = self.head;
        self.retire(now, up);
        if self.head != before && self.accounted == now {
            self.lsu.stats.busy_cycles += 1;
            self.accounted = now.next();
        }
        if self.lsu.stores.head < self.lsu.stores.senior {
            self.lsu.drain(up);
            // What waits for stores to be visible waits for no event.
            self.head_blocked &= self.lsu.stores.head < self.lsu.stores.senior;
        }
        let more = match self.thread {
            Some(thread) => {
                let mine = up.has_turn(self.id, thread, now);
                let more = !mine || self.dispatch(now, up);
                up.wants_turn(self.id, thread, more);
                more
            }
            None => self.dispatch(now, up),
        };
        self.next(now, more)
    }

    /// Counts the cycles up to now in which nothing retired, by what stood in the way.
    pub(super) fn settle<S: Scheme>(&mut self, now: Cycle, up: &mut Uncore<S>) {
        let lost = now.since(self.accounted);
        if lost == 0 {
            return;
        }
        let cause = self.standstill(up.below.stop.is_on);
        self.lsu.stats.lost.add(cause, lost);
        if let Some(timeline) = &mut up.below.timeline {
            timeline.lost(self.id, self.accounted, now, cause);
            timeline.counter("store queue", now, self.lsu.stores.tail - self.lsu.stores.head);
        }
        self.accounted = now;
    }

    /// Why nothing has retired since the last time.
    fn standstill(&self, stopped: bool) -> Lost {
        if self.head == self.tail {
            return match () {
                () if self.front.is_exhausted() => Lost::Idle,
                () if stopped => Lost::Stop,
                () if self.serialising.is_some() => Lost::Fence,
                () if self.wrong_branch.is_some() || self.resume > self.accounted => Lost::Branch,
                () if self.lsu.stores.room() > 0 => Lost::Work,
                () if self.lsu.stuck => self.lsu.stuck_on,
                () => Lost::StoreBuffer,
            };
        }
        let slot = self.slot(self.head);
        let Entry { plain, loads, stores, done, first_load, .. } = self.entries[slot];
        if !plain
            && !matches!(self.kinds[slot], InstrKind::Branch(_))
            && self.head_waits != Lost::Work
        {
            return self.head_waits;
        }
        if loads > 0 {
            let load = &self.lsu.loads[first_load as usize];
            return match load {
                Load { walked: true, .. } => Lost::Walk,
                Load { queued: true, .. } => Lost::QueueFull,
                _ => Lost::Load,
            };
        }
        // Its sources are there, so it is its address that is not.
        if stores > 0 && (done == Cycle::NEVER || done > self.accounted.plus(WORK_CYCLES)) {
            return Lost::Walk;
        }
        Lost::Work
    }

    /// When the next tick is of use; events may make it earlier.
    #[inline]
    fn next(&self, now: Cycle, more_to_dispatch: bool) -> Cycle {
        let mut next = Cycle::NEVER;
        if more_to_dispatch {
            next = self.resume;
        }
        if self.lsu.can_drain() {
            next = now;
        }
        if self.head < self.tail && !self.head_blocked {
            next = next.min(self.entries[self.slot(self.head)].done);
        }
        next.max(now.next())
    }

    #[inline]
    fn retire<S: Scheme>(&mut self, now: Cycle, up: &mut Uncore<S>) {
        let mut left = self.retire_width;
        if self.thread.is_some() {
            left = up.retire_slots(self.id, now, left);
        }
        let granted = left;
        while left > 0 && self.head < self.tail {
            let slot = self.slot(self.head);
            let Entry { done, loads, stores, plain, .. } = self.entries[slot];
            if done > now {
                break;
            }
            if plain || matches!(self.kinds[slot], InstrKind::Branch(_)) {
                self.lsu.stats.instructions += 1;
                left -= 1;
            } else {
                if !self.may_retire(slot, now, up) {
                    break;
                }
                let is_mark = self.kinds[slot] == InstrKind::Mark;
                let injected = self.kinds[slot] == InstrKind::Injected;
                self.lsu.stats.instructions += u64::from(!is_mark && !injected);
                self.lsu.stats.injected += u64::from(injected);
                left -= u32::from(!is_mark);
            }
            self.lsu.stores.senior += u64::from(stores);
            self.load_head += u64::from(loads);
            self.head += 1;
        }
        if self.thread.is_some() {
            up.retired(self.id, granted - left);
        }
    }

    /// Whether an instruction with conditions may retire as the oldest.
    fn may_retire<S: Scheme>(&mut self, slot: usize, now: Cycle, up: &mut Uncore<S>) -> bool {
        let kind = self.kinds[slot];
        let mark = (kind == InstrKind::Mark).then(|| self.marks[slot]);
        let drained = self.lsu.stores.head == self.lsu.stores.senior;
        let may = match mark {
            None if is_fence(kind) => self.lsu.all_done(up),
            None => true,
            Some(Mark::TxBegin) => {
                up.transaction_begins(self.id);
                true
            }
            Some(Mark::TxEnd | Mark::Epoch) => true,
            Some(Mark::TxAbort) => drained && up.transaction_aborts(self.id),
            Some(mark @ (Mark::Lock { .. } | Mark::Wait { .. })) => up.pass(self.id, mark),
            Some(mark) => drained && up.pass(self.id, mark),
        };
        let fence = is_fence(kind);
        if fence && may {
            self.lsu.stats.fences += 1;
            let since = self.fence_since.take().unwrap_or(now);
            self.lsu.stats.fence_cycles += now.since(since);
        } else if fence {
            self.fence_since.get_or_insert(now);
        }
        self.head_waits = match mark {
            _ if may => Lost::Work,
            Some(Mark::Lock { .. } | Mark::Wait { .. }) => Lost::Order,
            Some(Mark::TxAbort) if self.lsu.stores.head == self.lsu.stores.senior => Lost::Log,
            _ => self.lsu.fence_waits_for(),
        };
        self.head_blocked = !may;
        may
    }

    /// One load or translation of an entry is done at `at`.
    #[inline]
    fn part_known(&mut self, slot: usize, at: Cycle) {
        let entry = &mut self.entries[slot];
        entry.ready = entry.ready.max(at);
        entry.missing -= 1;
    }

    #[inline]
    fn complete_if_known<S: Scheme>(&mut self, slot: usize, up: &mut Uncore<S>) {
        let Entry { missing, ready, loads, stores, .. } = self.entries[slot];
        if missing == 0 {
            // What loads and stores computes in between.
            let work = if loads > 0 && stores > 0 { WORK_CYCLES } else { 0 };
            self.complete(slot, ready.plus(work), up);
        }
    }

    /// An entry's completion is known.
    #[inline]
    fn complete<S: Scheme>(&mut self, slot: usize, done: Cycle, up: &mut Uncore<S>) {
        let Entry { stores, first_store, waiters, .. } = self.entries[slot];
        self.entries[slot].done = done;
        for k in 0..u64::from(stores) {
            self.lsu.store_ready(first_store + k, done, up);
        }
        if waiters != 0 {
            self.told.push(slot as u32);
        }
        if let Some(number) = self.wrong_branch
            && self.slot(number) == slot
        {
            self.wrong_branch = None;
            self.resume = done.plus(self.mispredict_cycles);
        }
    }

    /// Passes completion times on to all that wait for them, and from these on.
    #[inline]
    fn tell_all<S: Scheme>(&mut self, now: Cycle, up: &mut Uncore<S>) {
        while let Some(slot) = self.told.pop() {
            let entry = &mut self.entries[slot as usize];
            let done = entry.done;
            let mut node = std::mem::take(&mut entry.waiters);
            while node != 0 {
                let waiter = (node as usize - 1) / SOURCES;
                node = self.nodes[node as usize - 1];
                let entry = &mut self.entries[waiter];
                entry.ready = entry.ready.max(done);
                entry.missing -= 1;
                if entry.missing == 0 {
                    self.execute(waiter, now, up);
                }
            }
        }
    }

    /// A load's value is there from `at` on.
    #[inline]
    pub(super) fn loaded<S: Scheme>(&mut self, load: u16, at: Cycle, up: &mut Uncore<S>) -> Cycle {
        let slot = usize::from(self.lsu.loads[usize::from(load)].owner);
        self.part_came(slot, at, up)
    }

    /// A store's address was translated.
    pub(super) fn store_translated<S: Scheme>(&mut self, slot: u16, up: &mut Uncore<S>) -> Cycle {
        let at = up.now().plus(WORK_CYCLES);
        self.part_came(slot.into(), at, up)
    }

    #[inline]
    fn part_came<S: Scheme>(&mut self, slot: usize, at: Cycle, up: &mut Uncore<S>) -> Cycle {
        let now = up.now();
        let stood_still = self.wrong_branch.is_some();
        self.part_known(slot, at);
        self.complete_if_known(slot, up);
        self.tell_all(now, up);
        let head = if self.head_blocked || self.head == self.tail {
            Cycle::NEVER
        } else {
            self.entries[self.slot(self.head)].done
        };
        let resume =
            if stood_still && self.wrong_branch.is_none() { self.resume } else { Cycle::NEVER };
        head.min(resume).max(now)
    }

    /// Whether no instruction has begun; one that waits for another core goes back.
    pub(super) fn goes_back(&mut self) -> bool {
        let head = self.slot(self.head);
        let is_order = self.kinds[head] == InstrKind::Mark
            && matches!(self.marks[head], Mark::Lock { .. } | Mark::Wait { .. });
        if self.tail - self.head == 1
            && self.head_blocked
            && self.serialising == Some(self.head)
            && is_order
        {
            // Nothing entered behind it, and the front has not gone on.
            self.tail -= 1;
            self.front.next -= 1;
            self.serialising = None;
            self.head_blocked = false;
        }
        self.head == self.tail
    }

    pub(super) fn is_finished(&self) -> bool {
        self.front.is_exhausted() && self.head == self.tail && self.lsu.is_idle()
    }

    pub(super) fn describe(&self) -> String {
        let head = self.slot(self.head);
        let mark = (self.kinds[head] == InstrKind::Mark).then(|| self.marks[head]);
        let oldest = mark.map_or(format!("{:?}", self.kinds[head]), |mark| format!("{mark:?}"));
        format!(
            "out-of-order core {}: {} in the reorder buffer, oldest {oldest} ({:?}), blocked {}, \
             resume {}, wrong branch {:?}, serialising {:?}; {}",
            self.id,
            self.tail - self.head,
            self.entries[head],
            self.head_blocked,
            self.resume,
            self.wrong_branch,
            self.serialising,
            self.lsu.describe()
        )
    }
}

/// Whether it waits for all older stores and flushes.
fn is_fence(kind: InstrKind) -> bool {
    matches!(kind, InstrKind::Sfence | InstrKind::Mfence | InstrKind::Rmw)
}
