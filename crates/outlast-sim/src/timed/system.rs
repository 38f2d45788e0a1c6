//! The machine: it owns time, and passes events to whom they are for.
//!
//! Time goes to the next event or the next tick of a core, whichever comes first; in one cycle
//! events come before ticks, events in the order in which they were scheduled, cores by number.
//! Nothing is done in a cycle in which nothing can happen.

use std::sync::Arc;

use super::{
    config::{CoreKind, MachineConfig, MachineError},
    core::{Core, Front, InOrder, OutOfOrder},
    event::Event,
    instr::{ACCESSES_MAX, Source, SourceError},
    journal::TimedJournal,
    memory_system::{MemorySystem, buffered_until},
    ports::{Alarms, Indirection, Scheme, keeps_bits},
    requests::MemoryRequest,
    stats::RunStats,
    time::Cycle,
    timeline::Timeline,
    uncore::{Latencies, Uncore},
};
use crate::{
    cache::LineBytes,
    hierarchy::{Backing, Hierarchy},
    memory::Base,
};
use outlast_trace::{Domain, LineAddr, derive};

/// Cycles without a retired instruction after which a run is given up.
const PATIENCE: u64 = 20_000_000;

/// Events in one cycle after which time is taken to stand still: no machine has this many parts.
const EVENTS_IN_A_CYCLE_MAX: u64 = 1_000_000;

/// Inputs of a run besides the machine and its instructions.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Feeds the policies that draw numbers.
    pub seed: u64,
    /// The bytes of memory at the start, from address 0; zeroes follow.
    pub base: Vec<u8>,
    /// Whether to keep what became durable, under this domain.
    pub journal: Option<Domain>,
    /// Whether the journal also keeps what cores store.
    pub stores: bool,
    /// The address indirection on which the scheme stands.
    pub indirection: Option<Indirection>,
    /// Breaks coherence on purpose (planted bug H10): a dirty line that another core reads is
    /// taken for clean, and its bytes never reach memory.
    pub transfers_forget_dirt: bool,
    /// Breaks the buffer in front of memory on purpose: what is flushed stays there, and counts as
    /// durable.
    pub flushes_end_in_buffer: bool,
}

/// A run that could not go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RunError {
    /// Nothing moves any more, and not everything is done. That is a defect of the machine, or
    /// of a scheme that made a core wait for ever.
    #[error("nothing moves since {since}: {}", .waiting.join(" | "))]
    Stuck {
        /// The last cycle in which an instruction retired.
        since: Cycle,
        /// The event that each core waits for.
        waiting: Vec<String>,
    },
    /// A core's instructions ended too early.
    #[error("{0}")]
    Source(SourceError),
}

/// How a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// As many instructions retired as were asked for.
    Limit,
    /// The instructions are at their end, and everything that they started is done.
    Finished,
}

/// A timed machine with its scheme, and the instructions that it runs.
pub struct System<S: Scheme> {
    pub(super) cores: Vec<Core>,
    /// When each core's next tick is of use.
    next: Vec<Cycle>,
    pub(super) up: Uncore<S>,
    pub(super) alarms: Alarms,
    events: u64,
    pub(super) retired: u64,
    progress: Cycle,
    /// Ticks of cores since the last one in which an instruction retired.
    silent_ticks: u64,
    counted_from: Cycle,
    counted_events: u64,
}

/// The share of a core that each of two threads has: half of its buffers, queues and registers, all of its
/// TLBs. Ports, widths and caches are not divided but shared.
fn half_core(config: &MachineConfig) -> MachineConfig {
    let mut part = config.clone();
    let core = &mut part.core;
    for divided in [
        &mut core.rob,
        &mut core.load_queue,
        &mut core.store_queue,
        &mut core.flushes,
        &mut part.l1.mshrs,
    ] {
        *divided = (*divided / 2).max(1);
    }
    // One instruction must fit.
    part.core.load_queue = part.core.load_queue.max(ACCESSES_MAX as u32);
    part.core.store_queue = part.core.store_queue.max(ACCESSES_MAX as u32);
    part
}

impl<S: Scheme> System<S> {
    /// A machine with empty caches. Each source is a core's instructions.
    ///
    /// # Errors
    /// When no such machine can be built, or there are more sources than cores.
    pub fn new(
        config: &MachineConfig,
        scheme: S,
        setup: Setup,
        sources: Vec<Box<dyn Source>>,
    ) -> Result<Self, MachineError> {
        config.validate()?;
        let cores = config.core.count as usize;
        if sources.len() > cores * config.core.threads as usize {
            return Err(MachineError::Impossible {
                name: config.name.clone(),
                message: format!(
                    "{} instruction streams on {cores} cores of {} threads: set core.count",
                    sources.len(),
                    config.core.threads
                ),
            });
        }
        let mut caches = Hierarchy::new(&config.caches(), derive(setup.seed, 0))
            .map_err(|source| MachineError::Caches { name: config.name.clone(), source })?;
        caches.transfers_forget_dirt = setup.transfers_forget_dirt;
        caches.flushes_end_in_buffer = setup.flushes_end_in_buffer;
        if let Some(buffer) = config.buffer_shape() {
            let (writes_back, until) = (config.buffer.writes_back(), buffered_until(config));
            caches
                .set_buffer(buffer, writes_back, until, derive(setup.seed, 0))
                .map_err(|source| MachineError::Caches { name: config.name.clone(), source })?;
        }
        let base = Base::Shared(Arc::new(setup.base));
        let journal = |domain| TimedJournal::new(base.clone(), domain).with_drain(config);
        let journal = setup.journal.map(journal);
        let journal = journal.map(|kept| if setup.stores { kept.with_stores() } else { kept });
        let below = MemorySystem::new(config, base, journal, scheme, setup.indirection);
        let period = config.core.clock.period_fs();
        let latencies = Latencies {
            l1: config.l1.latency.cycles(period),
            l2: config.l2.latency.cycles(period),
            llc: config.llc.latency.cycles(period),
            snoop: config.snoop.cycles(period),
        };
        let streams = sources.len();
        let part = half_core(config);
        let bits = keeps_bits::<S>();
        let cores: Vec<Core> = sources
            .into_iter()
            .enumerate()
            .map(|(id, source)| {
                // A core whose second thread has nothing to run is whole.
                let is_shared = id >= cores || id + cores < streams;
                let thread = is_shared.then_some((id / cores) as u8);
                let config = if is_shared { &part } else { config };
                let (id, front) = (id as u8, Front::new(source));
                match config.core.kind {
                    CoreKind::InOrder => Core::InOrder(InOrder::new(id, config, front, bits)),
                    CoreKind::OutOfOrder => {
                        Core::OutOfOrder(OutOfOrder::new(id, thread, config, front, bits))
                    }
                }
            })
            .collect();
        let mut system = Self {
            next: vec![Cycle(0); cores.len()],
            cores,
            up: Uncore::new(caches, below, latencies, config, streams),
            alarms: Alarms::default(),
            events: 0,
            retired: 0,
            progress: Cycle(0),
            silent_ticks: 0,
            counted_from: Cycle(0),
            counted_events: 0,
        };
        let below = &mut system.up.below;
        below.scheme.started(&mut below.outbox);
        system.attend();
        Ok(system)
    }

    /// Runs until `instructions` more have retired on all cores together, or to the end.
    ///
    /// # Errors
    /// When nothing moves any more, or a source fails.
    pub fn run(&mut self, instructions: u64) -> Result<Ended, RunError> {
        let limit = self.retired.saturating_add(instructions);
        while self.retired < limit {
            let event_at = self.up.below.wheel.next();
            let (core, core_at, until) = self.earliest();
            if event_at <= core_at {
                if event_at == Cycle::NEVER {
                    return self.ended();
                }
                if event_at.since(self.progress) > PATIENCE && self.is_under_way() {
                    // Caches that are flushed while the cores stand take long.
                    if event_at.since(self.up.below.moved) > PATIENCE {
                        return Err(self.stuck());
                    }
                    self.progress = self.up.below.moved;
                }
                self.up.below.wheel.advance(event_at);
                let before = self.events;
                while let Some(event) = self.up.below.wheel.pop() {
                    self.events += 1;
                    self.handle(event);
                    if self.events - before > EVENTS_IN_A_CYCLE_MAX {
                        return Err(self.stuck());
                    }
                }
            } else {
                if self.silent_ticks > PATIENCE && self.is_under_way() {
                    return Err(self.stuck());
                }
                self.up.below.wheel.advance(core_at);
                self.tick(core, core_at, until, limit);
            }
        }
        Ok(Ended::Limit)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// When nothing moves any more, or a source fails.
    pub fn run_to_end(&mut self) -> Result<(), RunError> {
        while self.run(u64::MAX)? != Ended::Finished {}
        Ok(())
    }

    /// The core whose tick comes first, when, and when the next of the others comes.
    #[inline]
    fn earliest(&self) -> (usize, Cycle, Cycle) {
        let (mut core, mut first, mut second) = (0, Cycle::NEVER, Cycle::NEVER);
        for (number, &at) in self.next.iter().enumerate() {
            if at < first {
                (core, second, first) = (number, first, at);
            } else {
                second = second.min(at);
            }
        }
        (core, first, second)
    }

    fn tick(&mut self, core: usize, at: Cycle, until: Cycle, limit: u64) {
        let before = self.cores[core].stats().instructions;
        self.next[core] = Cycle::NEVER;
        // An in-order core runs ahead no further than the run goes, nor past the next alarm.
        self.up.ahead_max = self.alarms.next.min(limit).saturating_sub(self.retired);
        let next = self.cores[core].tick(at, until, &mut self.up);
        self.next[core] = self.next[core].min(next);
        let retired = self.cores[core].stats().instructions - before;
        if retired > 0 {
            self.retired += retired;
            self.progress = self.up.now();
            self.silent_ticks = 0;
            if self.retired >= self.alarms.next {
                self.ring_alarms(self.progress);
            }
        } else {
            self.silent_ticks += 1;
        }
        if self.up.needs_attention() {
            self.attend();
        }
    }

    fn is_under_way(&self) -> bool {
        !self.cores.iter().all(Core::is_finished)
    }

    fn ended(&self) -> Result<Ended, RunError> {
        if self.is_under_way() {
            return Err(self.stuck());
        }
        match self.cores.iter().find_map(Core::source_error) {
            Some(error) => Err(RunError::Source(error.clone())),
            None => Ok(Ended::Finished),
        }
    }

    fn stuck(&self) -> RunError {
        RunError::Stuck {
            since: self.progress,
            waiting: self.cores.iter().map(Core::describe).collect(),
        }
    }

    #[inline]
    pub(super) fn wake(&mut self, core: u8, at: Cycle) {
        let next = &mut self.next[usize::from(core)];
        *next = (*next).min(at);
    }

    fn handle(&mut self, event: Event) {
        let up = &mut self.up;
        match event {
            Event::Load { core, load } => {
                let at = self.cores[usize::from(core)].load(load, up);
                self.wake(core, at);
            }
            Event::SecondLevel { core, miss } => {
                let waiting = self.cores[usize::from(core)].lsu().waiting(miss, false);
                if up.second_level(waiting) {
                    self.arrived(core, miss);
                }
            }
            Event::LastLevel { core, miss } => {
                let waiting = self.cores[usize::from(core)].lsu().waiting(miss, false);
                if up.last_level(waiting) {
                    self.arrived(core, miss);
                }
            }
            Event::Arrival { core, miss } => {
                let waiting = self.cores[usize::from(core)].lsu().waiting(miss, false);
                if up.arrive(waiting) {
                    self.arrived(core, miss);
                }
            }
            Event::WalkRead { core, walk } => {
                self.cores[usize::from(core)].lsu().walk_read(walk, up);
            }
            Event::WalkDone { core, walk } => self.walk_done(core, walk),
            Event::Flush { core, flush } => {
                self.cores[usize::from(core)].lsu().flush_passes(flush, up);
            }
            Event::Acknowledged { core } => {
                let now = up.now();
                let of = &mut self.cores[usize::from(core)];
                of.lsu().pending -= 1;
                of.unblock();
                self.wake(core, now);
            }
            Event::FlushStep { job } => up.flush_step(job),
            Event::FlushAcknowledged { job } => up.flush_acknowledged(job),
            Event::ReadArrives { read } => up.below.read_arrives(read),
            Event::ReadAnswered { read } => up.below.read_is_answered(read),
            Event::ReadEnters { read } => up.below.read_enters(read),
            Event::ReadDone { read } => self.read_done(read),
            Event::BufferAccess { place, write } => up.below.buffer_is_accessed(place, write),
            Event::WriteArrives { write } => up.below.write_arrives(write),
            Event::WriteEnters { write } => up.below.delayed_write_enters(write),
            Event::Written { write } => up.below.written(write),
            Event::Channel { channel } => up.below.wake_channel(channel.into()),
            Event::EntryMissed { miss } => up.below.entry_missed(miss),
            Event::Scheme { token } => up.below.step(token),
        }
        if self.up.needs_attention() {
            self.attend();
        }
    }

    fn read_done(&mut self, read: u32) {
        if self.up.below.is_schemes_read(read) {
            return;
        }
        let waiters = self.up.read_done(read);
        for &(core, miss) in &waiters {
            let waiting = self.cores[usize::from(core)].lsu().waiting(miss, true);
            if self.up.arrive(waiting) {
                self.arrived(core, miss);
            }
        }
        self.up.recycle(waiters);
    }

    /// A miss's line is in its core's first level: all who waited for it go on.
    fn arrived(&mut self, core: u8, miss: u8) {
        let now = self.up.now();
        let of = &mut self.cores[usize::from(core)];
        let mut next = Cycle::NEVER;
        let mut waiter = of.lsu().misses.close(miss);
        while let Some(number) = waiter {
            let lsu = of.lsu();
            waiter = lsu.misses.next_waiter(number);
            match lsu.as_walk(number) {
                Some(walk) => self.up.schedule(now, Event::WalkDone { core, walk }),
                None => next = next.min(of.loaded(number, now, &mut self.up)),
            }
        }
        let lsu = of.lsu();
        lsu.unpark(&mut self.up);
        if lsu.stuck {
            lsu.stuck = false;
            next = now;
        }
        self.wake(core, next);
    }

    fn walk_done(&mut self, core: u8, walk: u8) {
        let of = &mut self.cores[usize::from(core)];
        let mut next = Cycle::NEVER;
        for owner in of.lsu().walk_done(walk, &mut self.up) {
            next = next.min(of.store_translated(owner, &mut self.up));
        }
        self.wake(core, next);
    }

    /// Sees to what came up beside the events: the scheme's wishes, room for stalled fills,
    /// cores that may wait for something of which no event tells them alone.
    #[cold]
    fn attend(&mut self) {
        loop {
            if !self.up.has_work() {
                if self.tell_of_stop() {
                    continue;
                }
                return;
            }
            self.up.serve_outbox();
            self.serve_cores();
            if std::mem::take(&mut self.up.below.room) {
                while let Some(waiting) = self.up.next_unstalled() {
                    if self.up.arrive(waiting) {
                        self.arrived(waiting.core, waiting.miss);
                    }
                }
                for job in std::mem::take(&mut self.up.below.flush_stalled) {
                    self.up.flush_step(job);
                }
            }
            self.up.wake_all |= std::mem::take(&mut self.up.below.streams_done);
            if std::mem::take(&mut self.up.wake_all) {
                let now = self.up.now();
                for core in 0..self.cores.len() {
                    self.cores[core].unblock();
                    self.cores[core].lsu().retry_walks(&mut self.up);
                    self.wake(core as u8, now);
                }
            }
        }
    }

    /// The present cycle.
    pub fn now(&self) -> Cycle {
        self.up.now()
    }

    /// Instructions of each core since statistics were last taken.
    pub fn retired(&mut self) -> Vec<u64> {
        self.cores.iter_mut().map(|core| core.stats().instructions).collect()
    }

    /// The counts since the last call, or the start; caches and queues keep their contents.
    pub fn take_stats(&mut self) -> RunStats {
        let now = self.up.now();
        for core in &mut self.cores {
            core.settle(now, &mut self.up);
        }
        let stats = RunStats {
            cycles: now.since(self.counted_from),
            events: self.events - self.counted_events,
            cores: self.cores.iter_mut().map(|core| std::mem::take(core.stats())).collect(),
            caches: self.up.caches.take_stats(),
            memory: self.up.below.controller.take_stats(now),
            dram: self.up.below.take_dram_stats(),
            reads: self.up.below.reads_by_cause.take(),
            persist: std::mem::take(&mut self.up.below.persist),
            writes: self.up.below.by_cause.take(),
            tx_cycles: self.up.take_tx_cycles(),
            kept: self.up.below.kept.take_stats(now),
            counters: self.up.below.take_counters(),
        };
        self.counted_from = now;
        self.counted_events = self.events;
        stats
    }

    /// Keeps every request that arrives at the memory from now on, behind those writes that wait
    /// there now.
    pub fn export_requests(&mut self) {
        let now = self.up.now();
        self.up.below.controller.start_export(now);
    }

    /// The requests that arrived since the last call, with the cycles of the memory clock at
    /// which they did; none when they are not kept.
    pub fn take_requests(&mut self) -> Vec<MemoryRequest> {
        self.up.below.controller.exported.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// From now on keeps a timeline of these cycles. It changes nothing else.
    pub fn keep_timeline(&mut self, from: Cycle, to: Cycle) {
        let now = self.up.now();
        for core in &mut self.cores {
            core.settle(now, &mut self.up);
        }
        let timeline = Timeline::new(from, to, self.cores.len());
        self.up.below.keep_timeline(timeline);
    }

    /// The timeline that was kept.
    pub fn take_timeline(&mut self) -> Option<Timeline> {
        let now = self.up.now();
        for core in &mut self.cores {
            core.settle(now, &mut self.up);
        }
        self.up.below.timeline.take().map(|timeline| *timeline)
    }

    /// A line as the program sees it: from the caches, or from memory and what is streamed there.
    pub fn line(&mut self, line: LineAddr) -> LineBytes {
        if let Some((data, _)) = self.up.caches.newest(line) {
            return data;
        }
        let mut data = self.up.below.read(line);
        if let Some((words, streamed)) = self.up.caches.streamed(line) {
            for word in (0..8).filter(|word| words >> word & 1 == 1) {
                data[8 * word..][..8].copy_from_slice(&streamed[8 * word..][..8]);
            }
        }
        data
    }

    /// The journal of durable writes, if it was asked for.
    pub fn journal(&self) -> Option<&TimedJournal> {
        self.up.below.journal.as_ref()
    }

    /// The scheme, with its state.
    pub fn scheme(&self) -> &S {
        &self.up.below.scheme
    }

    /// Whether nothing is on its way below the cores.
    pub fn is_idle(&self) -> bool {
        self.up.is_idle()
    }
}
