//! The driver without time: every operation is complete before the next begins.
//!
//! It plays a stream of operations through the caches in the order in which they were recorded
//! and writes down what became durable when. All that is uncertain about persistence (what is
//! evicted, when a flush completes, when a streamed word leaves) is drawn from one seed.

use crate::{
    cache::LineBytes,
    config::{ConfigError, HierarchyConfig},
    domain::{DurableMemory, FlushCompletion},
    hierarchy::Hierarchy,
    journal::Journal,
    memory::Base,
    stats::HierarchyStats,
    wc::word_mask,
};
use outlast_trace::{
    ByteRange, Domain, FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Random, Sink, derive,
    line_pieces,
};

/// One in how many stores and flushes some flush under way completes early.
const EARLY_COMPLETION_ONE_IN: u64 = 8;

/// The machine that an [`AtomicDriver`] drives, and what a crash of it spares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AtomicConfig {
    /// The caches.
    pub caches: HierarchyConfig,
    /// The persistence domain.
    pub domain: Domain,
    /// When flushed lines become durable.
    pub completion: FlushCompletion,
}

impl From<HierarchyConfig> for AtomicConfig {
    /// These caches over `adr`, with flushes that complete by their fence.
    fn from(caches: HierarchyConfig) -> Self {
        Self { caches, domain: Domain::default(), completion: FlushCompletion::default() }
    }
}

/// Plays operations through caches, without time, and keeps the [`Journal`].
///
/// The same configuration, seed, base image and operations give the same journal, bit for bit.
#[derive(Clone, Debug)]
pub struct AtomicDriver<'b> {
    caches: Hierarchy,
    memory: DurableMemory<'b>,
    completion: FlushCompletion,
    /// For each lane, the lines that it flushed since its last fence, while
    /// [`DurableMemory`] may hold bytes taken from them.
    flushed: Vec<Vec<LineAddr>>,
    rng: Random,
}

impl<'b> AtomicDriver<'b> {
    /// Empty caches over `base`, the durable bytes at the start; its length is rounded up to
    /// whole lines. Operations behind its end find zeroes, as in a pool that grew, up to the
    /// 256 GiB that a journal covers.
    ///
    /// # Errors
    /// When the configuration describes no possible machine.
    pub fn new(config: &AtomicConfig, seed: u64, base: &'b [u8]) -> Result<Self, ConfigError> {
        let caches = Hierarchy::new(&config.caches, derive(seed, 0))?;
        Ok(Self {
            flushed: vec![Vec::new(); caches.lanes()],
            caches,
            memory: DurableMemory::new(Base::Borrowed(base), config.domain),
            completion: config.completion,
            rng: Random::from_state(derive(seed, 1)),
        })
    }

    /// Plays a whole recording and returns what became durable.
    ///
    /// # Panics
    /// When an operation names a lane that the machine has not; see also [`Journal`]'s limits of
    /// 2^32 operations and 256 GiB.
    pub fn play(mut self, log: &OpLog) -> Journal {
        for (lane, op) in log.iter() {
            self.op(lane, op);
        }
        self.into_journal()
    }

    /// Copies what `lane` would load from `at` on. It goes through the caches as a load does.
    pub fn load(&mut self, lane: LaneId, at: PoolOffset, out: &mut [u8]) {
        self.caches.load(lane, at, out, &mut self.memory);
    }

    /// An orderly end: everything under way completes and all caches are written back. What
    /// this makes durable is journalled behind the last operation.
    pub fn write_back_all(&mut self) {
        for lane in 0..self.caches.lanes() {
            self.fence(LaneId(lane as u16));
        }
        for line in self.caches.dirty_lines() {
            self.caches.flush(FlushKind::Clwb, line, &mut self.memory);
        }
    }

    /// The counts of the caches so far.
    pub fn stats(&self) -> HierarchyStats {
        self.caches.stats()
    }

    /// The counts of the caches so far; counting starts again, as after a warm-up.
    pub fn take_stats(&mut self) -> HierarchyStats {
        self.caches.take_stats()
    }

    /// The writes that became durable so far.
    pub fn journal(&self) -> &Journal {
        &self.memory.journal
    }

    /// The writes that became durable.
    pub fn into_journal(self) -> Journal {
        self.memory.journal
    }

    fn stream(&mut self, lane: LaneId, at: PoolOffset, bytes: &[u8]) {
        if self.memory.domain().row().has_durable_streams {
            let mut rest = bytes;
            for (at, len) in line_pieces(at, bytes.len()) {
                let (piece, tail) = rest.split_at(len);
                rest = tail;
                let mut data: LineBytes = [0; 64];
                data[at.in_line()..][..len].copy_from_slice(piece);
                self.memory.execute(at.line(), word_mask(at.in_line(), len), &data);
            }
        }
        self.caches.stream(lane, at, bytes, &mut self.memory);
    }

    fn stream_line(&mut self, lane: LaneId, line: LineAddr, data: &LineBytes) {
        if self.memory.domain().row().has_durable_streams {
            self.memory.execute(line, u8::MAX, data);
        }
        self.caches.stream_line(lane, line, data, &mut self.memory);
    }

    fn flush(&mut self, lane: LaneId, kind: FlushKind, line: LineAddr) {
        let at_once = kind == FlushKind::Clflush || self.completion == FlushCompletion::AtFlush;
        match self.caches.newest(line) {
            Some((data, true)) if !at_once => {
                self.memory.take(lane, kind, line, data);
                self.flushed[usize::from(lane.0)].push(line);
            }
            _ => {
                self.caches.flush(kind, line, &mut self.memory);
            }
        }
    }

    /// The effect of a fence or a locked instruction: streams and flushes of this lane are durable
    /// when it is over, in no particular order while it runs.
    fn fence(&mut self, lane: LaneId) {
        self.caches.drain_streams(lane, &mut self.memory);
        while self.complete_any(lane) {}
    }

    /// Now and then, flushes complete before their fence.
    #[inline]
    fn perhaps_complete(&mut self, lane: LaneId) {
        if !self.flushed[usize::from(lane.0)].is_empty() && self.rng.one_in(EARLY_COMPLETION_ONE_IN)
        {
            self.complete_any(lane);
        }
    }

    /// Completes one of the lane's flushes under way, if there is one.
    fn complete_any(&mut self, lane: LaneId) -> bool {
        let flushed = &mut self.flushed[usize::from(lane.0)];
        if flushed.is_empty() {
            return false;
        }
        let line = flushed.swap_remove(self.rng.below(flushed.len() as u64) as usize);
        if let Some((taken, later)) = self.memory.taken_by(lane, line) {
            let (kind, data) = (taken.kind, &taken.data);
            if !self.caches.complete_flush(kind, line, data, &mut self.memory) {
                self.memory.keep_taken(line, later);
            }
        }
        true
    }
}

impl Sink for AtomicDriver<'_> {
    /// # Panics
    /// When the machine has no such lane.
    #[inline]
    fn op(&mut self, lane: LaneId, op: Op<'_>) {
        match op {
            Op::Load { at, len, .. } => {
                for line in ByteRange::new(at, u64::from(len)).lines() {
                    self.caches.read(lane, line, &mut self.memory);
                }
            }
            Op::Store { at, bytes } => {
                self.caches.store(lane, at, bytes, &mut self.memory);
                self.perhaps_complete(lane);
            }
            Op::StoreNt { at, bytes } => {
                self.stream(lane, at, bytes);
                self.perhaps_complete(lane);
            }
            Op::Store64 { line, bytes } => {
                self.stream_line(lane, line, bytes);
                self.perhaps_complete(lane);
            }
            Op::Rmw { at, bytes } => {
                self.fence(lane);
                self.caches.store(lane, at, bytes, &mut self.memory);
            }
            Op::Flush { kind, line } => {
                self.flush(lane, kind, line);
                self.perhaps_complete(lane);
            }
            Op::Sfence | Op::Mfence => self.fence(lane),
            Op::Grow { len } => self.memory.grow(len),
            Op::Compute(_)
            | Op::TxBegin
            | Op::TxEnd
            | Op::TxAbort
            | Op::Ack(_)
            | Op::Lock { .. }
            | Op::Unlock { .. }
            | Op::Signal { .. }
            | Op::Wait { .. }
            | Op::Epoch => {}
        }
        self.memory.journal.next_op();
    }
}
