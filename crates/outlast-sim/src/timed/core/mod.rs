//! The cores: one load-store unit for both kinds, in order and out of order.

mod inorder;
mod lsu;
mod ooo;
mod ports;
mod store_queue;

pub(super) use inorder::InOrder;
pub(super) use lsu::Lsu;
pub use lsu::PAGE_TABLE;
pub(super) use ooo::OutOfOrder;
pub(super) use ports::Ports;

use super::{
    instr::{Batch, Instr, InstrKind, Mark, Source, SourceError},
    ports::Scheme,
    stats::CoreStats,
    time::Cycle,
    uncore::Uncore,
};
use crate::cache::LineBytes;

/// Where instructions wait before they are dispatched.
pub(super) struct Front {
    source: Box<dyn Source>,
    batch: Batch,
    next: usize,
    /// Instructions of the batches before this one.
    before: u64,
    /// Instructions of this batch that no program has.
    inserted: u64,
    exhausted: bool,
    failed: Option<SourceError>,
}

impl Front {
    pub(super) fn new(source: Box<dyn Source>) -> Self {
        Self {
            source,
            batch: Batch::default(),
            next: 0,
            before: 0,
            inserted: 0,
            exhausted: false,
            failed: None,
        }
    }

    /// The next instruction, which stays the next until `advance`.
    #[inline]
    fn peek(&mut self) -> Option<&Instr> {
        if self.next == self.batch.instrs.len() {
            self.refill();
        }
        self.batch.instrs.get(self.next)
    }

    #[inline]
    fn advance(&mut self) {
        self.next += 1;
    }

    /// Puts instructions before the one that is `ahead` of the next.
    fn insert(&mut self, ahead: usize, instrs: impl Iterator<Item = Instr>) {
        let at = (self.next + ahead).min(self.batch.instrs.len());
        let before = self.batch.instrs.len();
        self.batch.instrs.splice(at..at, instrs);
        self.inserted += (self.batch.instrs.len() - before) as u64;
    }

    /// Instructions of the program before the next one, marks included. Nothing that was inserted
    /// is ahead.
    fn position(&self) -> u64 {
        self.before + self.next as u64 - self.inserted
    }

    #[cold]
    fn refill(&mut self) {
        if self.exhausted {
            return;
        }
        self.before += self.batch.instrs.len() as u64 - std::mem::take(&mut self.inserted);
        self.batch.clear();
        self.next = 0;
        self.failed = self.source.fill(&mut self.batch).err();
        self.exhausted = self.batch.instrs.is_empty() || self.failed.is_some();
    }

    /// Instructions that the source has given so far, as it counts them.
    fn passed(&self) -> u64 {
        self.source.passed().unwrap_or(self.before + self.batch.instrs.len() as u64)
    }

    /// Whether there is nothing more.
    fn is_exhausted(&self) -> bool {
        self.exhausted && self.next >= self.batch.instrs.len()
    }
}

/// A core of either kind.
#[expect(clippy::large_enum_variant, reason = "a machine has a handful of them")]
pub(super) enum Core {
    InOrder(InOrder),
    OutOfOrder(OutOfOrder),
}

impl Core {
    /// The next instruction, with its mark or its line if it has one, where time does not pass. Behind
    /// `any` others only one of their batch.
    pub(super) fn next_untimed(&mut self, any: bool) -> Option<(Instr, Option<Mark>, LineBytes)> {
        let front = self.front_mut();
        if any && front.next == front.batch.instrs.len() {
            return None;
        }
        let instr = *front.peek()?;
        let mark = (instr.kind == InstrKind::Mark).then(|| front.batch.mark(&instr));
        let line = match instr.kind {
            InstrKind::Store64 => *front.batch.line(&instr),
            _ => [0; 64],
        };
        Some((instr, mark, line))
    }

    /// Leaves that one behind.
    pub(super) fn pass_untimed(&mut self) {
        self.front_mut().advance();
    }

    /// Instructions that its source has given so far, as that counts them.
    pub(super) fn passed(&self) -> u64 {
        self.front().passed()
    }

    /// The predictor sees a branch. Returns whether it was right.
    pub(super) fn learn_branch(&mut self, pc: u64, taken: bool) -> bool {
        match self {
            Core::InOrder(core) => core.predictor.predict(pc, taken),
            Core::OutOfOrder(core) => core.predictor.predict(pc, taken),
        }
    }

    fn front_mut(&mut self) -> &mut Front {
        match self {
            Core::InOrder(core) => &mut core.front,
            Core::OutOfOrder(core) => &mut core.front,
        }
    }

    /// Does what can be done at `now`, or, in order, from `now` until before `until`. Returns
    /// when there will be something to do, unless an event tells earlier.
    #[inline]
    pub(super) fn tick<S: Scheme>(
        &mut self,
        now: Cycle,
        until: Cycle,
        up: &mut Uncore<S>,
    ) -> Cycle {
        self.lsu().stats.ticks += 1;
        match self {
            Core::InOrder(core) => core.tick(now, until, up),
            Core::OutOfOrder(core) => core.tick(now, up),
        }
    }

    /// Counts the cycles up to now.
    pub(super) fn settle<S: Scheme>(&mut self, now: Cycle, up: &mut Uncore<S>) {
        match self {
            Core::InOrder(core) => core.settle(now, up),
            Core::OutOfOrder(core) => core.settle(now, up),
        }
    }

    /// A load may ask the caches now.
    pub(super) fn load<S: Scheme>(&mut self, load: u16, up: &mut Uncore<S>) -> Cycle {
        let now = up.now();
        match self.lsu().load(load, now, up) {
            Some(at) => self.loaded(load, at, up),
            None => Cycle::NEVER,
        }
    }

    /// A load's value is known from `at` on. Returns when the core has something to do for it.
    #[inline]
    pub(super) fn loaded<S: Scheme>(&mut self, load: u16, at: Cycle, up: &mut Uncore<S>) -> Cycle {
        match self {
            Core::InOrder(core) => core.loaded(at),
            Core::OutOfOrder(core) => core.loaded(load, at, up),
        }
    }

    /// The address of a store of this owner was translated.
    pub(super) fn store_translated<S: Scheme>(&mut self, owner: u16, up: &mut Uncore<S>) -> Cycle {
        match self {
            Core::InOrder(core) => core.loaded(up.now()),
            Core::OutOfOrder(core) => core.store_translated(owner, up),
        }
    }

    /// Something that the core may have been waiting for has happened.
    pub(super) fn unblock(&mut self) {
        self.lsu().stuck = false;
        match self {
            Core::InOrder(core) => core.blocked = false,
            Core::OutOfOrder(core) => core.head_blocked = false,
        }
    }

    /// Lets it execute these before its next instruction.
    pub(super) fn inject(&mut self, instrs: impl Iterator<Item = Instr>) {
        match self {
            Core::InOrder(core) => core.inject(instrs),
            Core::OutOfOrder(core) => core.front.insert(0, instrs),
        }
    }

    /// Whether all that it began is done. An instruction that waits for another core goes back.
    pub(super) fn is_standing<S: Scheme>(&mut self, up: &mut Uncore<S>) -> bool {
        let began_nothing = match self {
            Core::InOrder(core) => core.goes_back(),
            Core::OutOfOrder(core) => core.goes_back(),
        };
        let front = self.front();
        let injected = front.batch.instrs.get(front.next);
        if injected.is_some_and(|instr| instr.kind == InstrKind::Injected) {
            return false;
        }
        let lsu = self.lsu();
        began_nothing && lsu.all_done(up) && lsu.is_idle()
    }

    fn front(&self) -> &Front {
        match self {
            Core::InOrder(core) => &core.front,
            Core::OutOfOrder(core) => &core.front,
        }
    }

    /// Where a core that stands is in its program: instructions before the next one.
    pub(super) fn position(&self) -> u64 {
        self.front().position()
    }

    /// Why its instructions ended too early, if they did.
    pub(super) fn source_error(&self) -> Option<&SourceError> {
        self.front().failed.as_ref()
    }

    /// Whether there is nothing more to do, ever.
    pub(super) fn is_finished(&self) -> bool {
        match self {
            Core::InOrder(core) => core.is_finished(),
            Core::OutOfOrder(core) => core.is_finished(),
        }
    }

    #[inline]
    pub(super) fn lsu(&mut self) -> &mut Lsu {
        match self {
            Core::InOrder(core) => &mut core.lsu,
            Core::OutOfOrder(core) => &mut core.lsu,
        }
    }

    pub(super) fn stats(&mut self) -> &mut CoreStats {
        &mut self.lsu().stats
    }

    /// The condition that the core waits for, in words.
    pub(super) fn describe(&self) -> String {
        match self {
            Core::InOrder(core) => core.describe(),
            Core::OutOfOrder(core) => core.describe(),
        }
    }
}
