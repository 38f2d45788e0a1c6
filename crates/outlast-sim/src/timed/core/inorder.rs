//! The in-order core: one instruction a cycle outside memory. Loads are waited for; stores go
//! to the store buffer, which drains beside.
//!
//! As long as nothing else happens, it runs ahead of the event queue: one tick executes all
//! instructions up to the next event or the next tick of another core.

use super::{
    Front,
    lsu::{Load, Lsu},
    store_queue::{Store, StoreKind},
};
use crate::timed::{
    branch::Predictor,
    config::MachineConfig,
    instr::{Instr, InstrKind, Mark},
    ports::Scheme,
    stats::Lost,
    time::Cycle,
    uncore::Uncore,
};

/// Instructions in one tick at most, so that limits are kept closely.
const AHEAD_MAX: u64 = 4096;

/// How far the present instruction has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Its loads from this one on.
    Loads(u8),
    /// The translation of its stores' addresses from this one on.
    Translate(u8),
    /// Its effect.
    Act,
}

/// The result of executing the present instruction.
enum Step {
    /// It is done, and the next may begin at this time.
    Done(Cycle),
    /// It goes on at this time.
    At(Cycle),
    /// It goes on when something is told.
    Waits,
}

pub(in crate::timed) struct InOrder {
    id: u8,
    pub(in crate::timed) lsu: Lsu,
    pub(super) front: Front,
    stage: Stage,
    /// When the present instruction began: its own cycle passes beside its loads.
    began: Cycle,
    pub(super) predictor: Predictor,
    mispredict_cycles: u64,
    /// Before this it begins nothing and goes on with nothing, whatever wakes it.
    free_at: Cycle,
    /// A load or a walk is under way; its end is told.
    waits: bool,
    /// Waits for something that will be told to all cores.
    pub(in crate::timed) blocked: bool,
    fence_since: Option<Cycle>,
    /// Cycles before this one are counted as busy or lost.
    accounted: Cycle,
    /// The last condition that the present instruction waited for.
    waits_for: Lost,
}

impl InOrder {
    pub(in crate::timed) fn new(
        id: u8,
        config: &MachineConfig,
        front: Front,
        keeps_bits: bool,
    ) -> Self {
        let period = config.core.clock.period_fs();
        Self {
            id,
            lsu: Lsu::new(id, config, keeps_bits),
            front,
            stage: Stage::Loads(0),
            began: Cycle(0),
            predictor: Predictor::new(config.core.predictor_counters),
            mispredict_cycles: config.core.mispredict_penalty.cycles(period),
            free_at: Cycle(0),
            waits: false,
            blocked: false,
            fence_since: None,
            accounted: Cycle(0),
            waits_for: Lost::Work,
        }
    }

    pub(super) fn tick<S: Scheme>(
        &mut self,
        now: Cycle,
        until: Cycle,
        up: &mut Uncore<S>,
    ) -> Cycle {
        let mut at = now;
        for _ in 0..AHEAD_MAX.min(up.ahead_max) {
            if at > up.now() {
                if at >= until || at > up.below.wheel.next() {
                    return at;
                }
                up.below.wheel.advance(at);
                if up.below.wheel.next() == at {
                    return at; // What happens in this cycle comes first.
                }
            }
            self.lsu.drain(up);
            let step = match self.waits {
                true => Step::Waits,
                // Woken for its stores.
                false if at < self.free_at => Step::At(self.free_at),
                false => self.step(at, up),
            };
            if let Step::Done(next) = step {
                self.account(next, up);
                self.front.advance();
                self.stage = Stage::Loads(0);
            }
            at = match step {
                Step::Done(next) | Step::At(next) => {
                    self.free_at = next;
                    if self.lsu.can_drain() { next.min(at.next()) } else { next }
                }
                Step::Waits if self.lsu.can_drain() => at.next(),
                Step::Waits => return Cycle::NEVER,
            };
            if up.needs_attention() {
                return at;
            }
        }
        at
    }

    /// Counts the cycles up to `next`, at which the present instruction is done: one is its own.
    #[inline]
    fn account<S: Scheme>(&mut self, next: Cycle, up: &mut Uncore<S>) {
        let passed = next.since(self.accounted);
        let own = u64::from(passed > 0);
        self.lsu.stats.busy_cycles += own;
        if passed > own {
            self.lose(next.0 - own, up);
        }
        self.accounted = self.accounted.max(next);
        self.waits_for = Lost::Work;
    }

    fn lose<S: Scheme>(&mut self, until: u64, up: &mut Uncore<S>) {
        let until = Cycle(until);
        self.lsu.stats.lost.add(self.waits_for, until.since(self.accounted));
        if let Some(timeline) = &mut up.below.timeline {
            timeline.lost(self.id, self.accounted, until, self.waits_for);
        }
    }

    /// Counts the cycles up to now.
    pub(super) fn settle<S: Scheme>(&mut self, now: Cycle, up: &mut Uncore<S>) {
        if self.front.is_exhausted() {
            self.waits_for = Lost::Idle;
        }
        self.lose(now.0, up);
        self.accounted = self.accounted.max(now);
    }

    fn step<S: Scheme>(&mut self, now: Cycle, up: &mut Uncore<S>) -> Step {
        let Some(instr) = self.front.peek() else { return Step::Waits };
        if self.stage == Stage::Loads(0) {
            if up.below.stop.is_on && instr.kind != InstrKind::Injected {
                self.waits_for = Lost::Stop;
                return Step::Waits;
            }
            self.began = now;
            if instr.kind == InstrKind::Plain && instr.loads == 0 && instr.stores == 0 {
                self.lsu.stats.instructions += 1;
                return Step::Done(now.next());
            }
        }
        let instr = *instr;
        while let Stage::Loads(k) = self.stage {
            if k == instr.loads {
                self.stage = Stage::Translate(0);
                break;
            }
            self.stage = Stage::Loads(k + 1);
            let before = self.lsu.stores.tail;
            self.lsu.loads[0] = Load::new(instr.at[usize::from(k)], 0, before);
            match self.lsu.load(0, now, up) {
                Some(done) if done > now => {
                    self.waits_for = Lost::Load;
                    return Step::At(done);
                }
                Some(_) => {}
                None => {
                    let walks = self.lsu.loads[0].walked;
                    self.waits_for = if walks { Lost::Walk } else { Lost::Load };
                    self.waits = true;
                    return Step::Waits;
                }
            }
        }
        while let Stage::Translate(k) = self.stage {
            if k == instr.stores {
                self.stage = Stage::Act;
                break;
            }
            self.stage = Stage::Translate(k + 1);
            let at = instr.at[usize::from(instr.loads + k)];
            match self.lsu.translate_store(at, 0, up) {
                Some(0) => {}
                Some(cycles) => return Step::At(now.plus(cycles)),
                None => {
                    self.waits_for = Lost::Walk;
                    self.waits = true;
                    return Step::Waits;
                }
            }
        }
        self.act(&instr, now, up)
    }

    fn act<S: Scheme>(&mut self, instr: &Instr, now: Cycle, up: &mut Uncore<S>) -> Step {
        let mut next = now.max(self.began.next());
        match instr.kind {
            InstrKind::Plain => {}
            InstrKind::Branch(taken) => {
                self.lsu.stats.branches += 1;
                if !self.predictor.predict(instr.pc, taken) {
                    self.lsu.stats.mispredicted += 1;
                    self.waits_for = Lost::Branch;
                    next = next.plus(self.mispredict_cycles);
                }
            }
            InstrKind::Sfence | InstrKind::Mfence | InstrKind::Rmw => {
                if !self.lsu.all_done(up) {
                    self.waits_for = self.lsu.fence_waits_for();
                    self.fence_since.get_or_insert(now);
                    return self.block();
                }
                let since = self.fence_since.take().unwrap_or(now);
                self.lsu.stats.fence_cycles += now.since(since);
                self.lsu.stats.fences += 1;
            }
            InstrKind::Mark => return self.mark(self.front.batch.mark(instr), now, up),
            InstrKind::StoreNt | InstrKind::Store64 | InstrKind::Flush(_) | InstrKind::Injected => {
            }
        }
        if instr.stores > 0 {
            if self.lsu.stores.room() < u64::from(instr.stores) {
                self.waits_for = if self.lsu.stuck { self.lsu.stuck_on } else { Lost::StoreBuffer };
                return self.block();
            }
            self.push_stores(instr);
            self.lsu.drain(up);
        }
        let injected = u64::from(instr.kind == InstrKind::Injected);
        self.lsu.stats.instructions += 1 - injected;
        self.lsu.stats.injected += injected;
        Step::Done(next)
    }

    fn push_stores(&mut self, instr: &Instr) {
        let kind = match instr.kind {
            InstrKind::Rmw => self.lsu.locked_store(),
            InstrKind::StoreNt => StoreKind::StoreNt,
            InstrKind::Store64 => StoreKind::Store64,
            InstrKind::Flush(kind) => StoreKind::Flush(kind),
            _ => StoreKind::Store,
        };
        for &at in instr.store_at() {
            let number = self.push_store(Store {
                at,
                value: instr.value,
                len: instr.store_len,
                kind,
                asked: false,
                ready: Cycle(0),
            });
            if kind == StoreKind::Store64 {
                self.lsu.stores.set_line(number, self.front.batch.line(instr));
            }
        }
    }

    /// Puts a store, which has retired, into the store buffer.
    fn push_store(&mut self, store: Store) -> u64 {
        let number = self.lsu.stores.push(store);
        self.lsu.stores.senior = self.lsu.stores.tail;
        number
    }

    /// A mark takes no time. Those that a scheme hears of travel with the stores, the others
    /// wait for them.
    fn mark<S: Scheme>(&mut self, mark: Mark, now: Cycle, up: &mut Uncore<S>) -> Step {
        match mark {
            Mark::TxBegin | Mark::TxEnd | Mark::Epoch => {
                if self.lsu.stores.room() == 0 {
                    return self.block();
                }
                if mark == Mark::TxBegin {
                    up.transaction_begins(self.id);
                }
                self.push_store(Store {
                    at: 0,
                    value: 0,
                    len: 0,
                    kind: StoreKind::Mark(mark),
                    asked: false,
                    ready: Cycle(0),
                });
                self.lsu.drain(up);
            }
            Mark::TxAbort => {
                if !self.lsu.stores.is_empty() {
                    self.waits_for = self.lsu.fence_waits_for();
                    return self.block();
                }
                if !up.transaction_aborts(self.id) {
                    self.waits_for = Lost::Log;
                    return self.block();
                }
            }
            Mark::Lock { .. } | Mark::Wait { .. } => {
                if !up.pass(self.id, mark) {
                    self.waits_for = Lost::Order;
                    return self.block();
                }
            }
            Mark::Ack(_) | Mark::Unlock { .. } | Mark::Signal { .. } => {
                if !self.lsu.stores.is_empty() || !up.pass(self.id, mark) {
                    self.waits_for = self.lsu.fence_waits_for();
                    return self.block();
                }
            }
        }
        Step::Done(now)
    }

    /// Whether no instruction has begun; one that waits for another core goes back.
    pub(super) fn goes_back(&mut self) -> bool {
        if self.stage == Stage::Act
            && self.blocked
            && let Some(&instr) = self.front.peek()
            && instr.kind == InstrKind::Mark
            && matches!(self.front.batch.mark(&instr), Mark::Lock { .. } | Mark::Wait { .. })
        {
            self.stage = Stage::Loads(0);
            self.blocked = false;
        }
        self.stage == Stage::Loads(0)
    }

    /// Puts instructions before the next one that begins.
    pub(super) fn inject(&mut self, instrs: impl Iterator<Item = Instr>) {
        let begun = usize::from(self.stage != Stage::Loads(0));
        self.front.insert(begun, instrs);
    }

    fn block(&mut self) -> Step {
        self.blocked = true;
        Step::Waits
    }

    /// The data that the core waited for is there from `at` on.
    pub(super) fn loaded(&mut self, at: Cycle) -> Cycle {
        self.waits = false;
        self.free_at = at;
        at
    }

    pub(super) fn is_finished(&self) -> bool {
        self.front.is_exhausted() && self.lsu.is_idle()
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "in-order core {}: stage {:?}, waits {}, blocked {}; {}",
            self.id,
            self.stage,
            self.waits,
            self.blocked,
            self.lsu.describe()
        )
    }
}
