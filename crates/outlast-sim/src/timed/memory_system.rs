//! Everything beneath the caches: time itself, the controller with its memory, the bytes, what
//! became durable, and the scheme.

use super::{
    causes::{ReadsByCause, WritesByCause},
    config::{MachineConfig, MemoryConfig},
    controller::{Controller, INSIDE, Outcome},
    core::PAGE_TABLE,
    event::Event,
    journal::TimedJournal,
    memory_stats::PersistTimes,
    ports::{
        Entries, Indirection, Job, KeptLines, Origin, Outbox, Pages, Reads, Scheme, Side, Stop,
        Writes,
    },
    slab::Slab,
    stats::{Counter, MemoryStats},
    time::Cycle,
    timeline::Timeline,
    wheel::Wheel,
};
use crate::{
    cache::{Contents, LineBytes},
    hierarchy::{Backing, Cause},
    memory::{Base, SparseMemory},
};
use outlast_trace::{LaneId, LineAddr, PoolOffset};

/// The volatile memory: its channels' numbers follow those of the persistent one.
#[derive(Debug)]
struct Dram {
    controller: Controller,
    path_cycles: u64,
}

/// Lines from here on pass by the buffer in front of memory.
pub(super) fn buffered_until(config: &MachineConfig) -> LineAddr {
    match config.dram.from.0 {
        0 => PAGE_TABLE,
        from => PAGE_TABLE.min(PoolOffset(from).line()),
    }
}

/// Where the volatile memory has the buffer's places: behind all addresses.
const BUFFER_AT: LineAddr = LineAddr(1 << 34);
/// Set in the number of a request of the volatile memory that nothing waits for.
const UNWAITED: u32 = 1 << 30;

pub(crate) struct MemorySystem<S: Scheme> {
    pub(crate) wheel: Wheel<Event>,
    pub(crate) controller: Controller,
    pub(crate) memory: SparseMemory<'static>,
    pub(crate) journal: Option<TimedJournal>,
    pub(crate) scheme: S,
    pub(crate) outbox: Outbox<S::Token>,
    pub(crate) by_cause: WritesByCause,
    pub(crate) reads_by_cause: ReadsByCause,
    pub(crate) persist: PersistTimes,
    dram: Option<Dram>,
    /// Lines below this one have places in the buffer in front of memory, and cycles of a lookup there.
    buffered_until: LineAddr,
    buffer_lookup: u64,
    /// The last request that nothing waits for.
    unwaited: u32,
    /// Lines from here on are volatile.
    pub(super) volatile_from: LineAddr,
    /// Channels of the persistent memory.
    channels: usize,
    pub(crate) timeline: Option<Box<Timeline>>,
    pub(super) adr: bool,
    pub(super) path_cycles: u64,
    write_buffer: usize,
    /// Writes beside which those of a flush that yields wait.
    quiet: usize,
    pub(super) reads: Reads,
    pub(super) writes: Writes<S::Tag>,
    /// Of the address indirection, if the scheme stands on one.
    pub(super) entries: Option<Entries>,
    /// Tokens of the scheme's reads, writes and calls on their way.
    pub(super) tokens: Slab<S::Token>,
    pub(super) jobs: Slab<Job<S::Token>>,
    pub(super) pages: Pages<S::Page>,
    pub(super) transactions: Running,
    /// Who the next write is for; set by its cause.
    pub(super) next_origin: Origin,
    /// Streamed lines that no core's own count of acknowledgements covers, and whether the last
    /// of them became durable.
    pub(super) loose_streams: u32,
    /// Streamed lines of each core whose threads share it.
    pub(super) shared_streams: Vec<u32>,
    pub(super) streams_done: bool,
    /// Whether room in the write buffer is waited for, and is there now.
    pub(super) room: bool,
    /// Flushes of caches that wait for such room, or for memory to have fewer writes to do.
    pub(super) flush_stalled: Vec<u32>,
    pub(super) kept: KeptLines,
    pub(super) stop: Stop<S::Token>,
    /// When something became durable last while the cores were stopped: no instruction retires then.
    pub(super) moved: Cycle,
}

/// The transactions that run on each lane, as its store buffer has it.
#[derive(Debug, Default)]
pub(super) struct Running {
    lanes: Vec<(u64, Vec<u64>)>,
}

impl Running {
    /// One begins.
    pub(super) fn begin(&mut self, lane: LaneId) {
        let lane = usize::from(lane.0);
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, Default::default);
        }
        let (begun, running) = &mut self.lanes[lane];
        *begun += 1;
        running.push(*begun);
    }

    /// The last that has begun ends.
    pub(super) fn end(&mut self, lane: LaneId) {
        if let Some((_, running)) = self.lanes.get_mut(usize::from(lane.0)) {
            running.pop();
        }
    }

    /// How many had begun on a lane when the one began that runs there.
    pub(super) fn running(&self, lane: LaneId) -> Option<u64> {
        self.lanes.get(usize::from(lane.0)).and_then(|(_, running)| running.last().copied())
    }
}

impl<S: Scheme> MemorySystem<S> {
    pub(crate) fn new(
        config: &MachineConfig,
        base: Base<'static>,
        journal: Option<TimedJournal>,
        scheme: S,
        indirection: Option<Indirection>,
    ) -> Self {
        let core_fs = config.core.clock.period_fs();
        let dram = config.dram.memory.as_ref().map(|memory| Dram {
            // No core waits for its cells: a write is done when it is taken.
            controller: Controller::new(&MemoryConfig { adr: true, ..memory.clone() }, core_fs),
            path_cycles: memory.path.cycles(core_fs),
        });
        let volatile_from = match config.dram.from.0 {
            0 => LineAddr(u64::MAX),
            from => PoolOffset(from).line(),
        };
        let causes = [S::CAUSES, if indirection.is_some() { &["ait"] } else { &[] }].concat();
        let buffered_until = config.buffer_shape().map_or(LineAddr(0), |_| buffered_until(config));
        Self {
            wheel: Wheel::new(),
            controller: Controller::new(&config.memory, core_fs),
            memory: SparseMemory::new(base),
            journal,
            scheme,
            outbox: Outbox::default(),
            by_cause: WritesByCause::new(&causes),
            reads_by_cause: ReadsByCause::new(&causes),
            persist: PersistTimes::default(),
            dram,
            buffered_until,
            buffer_lookup: config.buffer.lookup.cycles(core_fs),
            unwaited: 0,
            volatile_from,
            channels: config.memory.channels as usize,
            timeline: None,
            adr: config.memory.adr,
            path_cycles: config.memory.path.cycles(core_fs),
            write_buffer: config.memory.write_buffer as usize,
            quiet: config.memory.drain_low.max(config.memory.drain_idle) as usize,
            reads: Reads::default(),
            writes: Writes::default(),
            entries: indirection.map(Entries::new),
            tokens: Slab::default(),
            jobs: Slab::default(),
            pages: Pages::new(config.tlb.page.0),
            transactions: Running::default(),
            next_origin: Origin::None,
            loose_streams: 0,
            shared_streams: vec![0; config.core.count as usize],
            streams_done: false,
            room: false,
            flush_stalled: Vec::new(),
            kept: KeptLines::default(),
            stop: Stop::default(),
            moved: Cycle(0),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Cycle {
        self.wheel.now()
    }

    /// Whether a fill, which may evict a dirty line, has to wait for room.
    #[inline]
    pub(crate) fn write_buffer_is_full(&self) -> bool {
        let Writes { travelling, waiting, .. } = self.writes;
        let spared = if self.stop.is_on { waiting } else { 0 };
        travelling - spared >= self.write_buffer
    }

    /// Whether cores run, and memory has at least `quiet` writes to do: writes that can wait should
    /// not be added.
    pub(crate) fn has_writes_to_do(&self) -> bool {
        let writes = self.writes.travelling + self.controller.waiting_writes();
        !self.stop.is_on && writes >= self.quiet
    }

    /// Whether nothing is on its way to memory, and nothing waits there.
    pub(crate) fn is_idle(&self) -> bool {
        self.writes.is_empty()
            && self.jobs.is_empty()
            && self.controller.is_idle()
            && self.dram.as_ref().is_none_or(|dram| dram.controller.is_idle())
    }

    /// Whether a line is lost in a crash because of where it lies.
    #[inline]
    pub(crate) fn is_volatile(&self, line: LineAddr) -> bool {
        line >= self.volatile_from
    }

    /// The memory of a line: its controller, the number of its first channel, its path.
    #[inline]
    pub(super) fn memory_of(&mut self, line: LineAddr) -> (&mut Controller, usize, u64) {
        match &mut self.dram {
            Some(dram) if line >= self.volatile_from => {
                (&mut dram.controller, self.channels, dram.path_cycles)
            }
            _ => (&mut self.controller, 0, self.path_cycles),
        }
    }

    /// The volatile memory as a buffer: its controller, the number of its first channel, and where a
    /// place of the buffer is.
    pub(super) fn memory_of_buffer(&mut self, place: u32) -> (&mut Controller, usize, LineAddr) {
        let dram = self.dram.as_mut().expect("a buffer lies in volatile memory");
        (&mut dram.controller, self.channels, BUFFER_AT.plus(place.into()))
    }

    /// The way of a core's read to the controller, by way of the buffer if the line may be there.
    pub(super) fn path_of_miss(&mut self, line: LineAddr, buffered: Option<u32>) -> u64 {
        let path = match buffered {
            Some(_) => self.dram_path_cycles(),
            None => self.path_of(line, Side::Processor),
        };
        if line < self.buffered_until { path + self.buffer_lookup } else { path }
    }

    /// A place of the buffer is accessed, and nothing waits for it.
    pub(super) fn buffer_is_accessed(&mut self, place: u32, write: bool) {
        self.unwaited = (self.unwaited + 1) % UNWAITED;
        let (now, id) = (self.now(), self.unwaited | UNWAITED);
        let (controller, first, line) = self.memory_of_buffer(place);
        let channel = match write {
            true => controller.write(now, id, line),
            // Its line goes to the persistent memory beside it.
            false => controller.read(now, id | INSIDE, line),
        };
        self.wake_channel(first + channel);
    }

    /// The counts of the volatile memory.
    pub(crate) fn take_dram_stats(&mut self) -> Option<MemoryStats> {
        let now = self.now();
        self.dram.as_mut().map(|dram| dram.controller.take_stats(now))
    }

    /// From now on keeps a timeline, commands of the memories included.
    pub(crate) fn keep_timeline(&mut self, timeline: Timeline) {
        self.controller.keep_commands();
        if let Some(dram) = &mut self.dram {
            dram.controller.keep_commands();
        }
        self.timeline = Some(Box::new(timeline));
    }

    /// The path between a side and a line's memory.
    pub(super) fn path_of(&mut self, line: LineAddr, side: Side) -> u64 {
        match side {
            Side::Processor => self.memory_of(line).2,
            Side::Memory => 0,
        }
    }

    pub(super) fn dram_path_cycles(&self) -> u64 {
        self.dram.as_ref().map_or(0, |dram| dram.path_cycles)
    }

    pub(crate) fn wake_channel(&mut self, channel: usize) {
        let now = self.now();
        let volatile = channel >= self.channels;
        let (number, controller) = match &mut self.dram {
            Some(dram) if volatile => (channel - self.channels, &mut dram.controller),
            _ => (channel, &mut self.controller),
        };
        if let Some(at) = controller.wake(now, number) {
            self.wheel.schedule(at, Event::Channel { channel: channel as u8 });
        }
        if controller.keeps_commands(number)
            && let Some(timeline) = &mut self.timeline
        {
            for (name, bank, from, to) in controller.take_commands(number) {
                timeline.command(channel as u8, bank, name, from, to);
            }
        }
        if controller.outcomes.is_empty() {
            return;
        }
        let mut outcomes = std::mem::take(&mut controller.outcomes);
        for outcome in outcomes.drain(..) {
            if volatile { self.outcome_of_dram(outcome) } else { self.outcome(outcome) }
        }
        match &mut self.dram {
            Some(dram) if volatile => dram.controller.outcomes = outcomes,
            _ => self.controller.outcomes = outcomes,
        }
    }

    /// As [`outcome`](Self::outcome), of the volatile memory.
    fn outcome_of_dram(&mut self, outcome: Outcome) {
        let (Outcome::ReadDone { id, .. }
        | Outcome::Accepted { id }
        | Outcome::Replaced { id, .. }
        | Outcome::Written { id, .. }) = outcome;
        if id & UNWAITED != 0 {
            return;
        }
        match outcome {
            Outcome::ReadDone { id, at } => self.read_is_served(id, at, self.dram_path_cycles()),
            Outcome::Accepted { id } => self.taken_by_dram(id),
            Outcome::Replaced { id, older } => {
                self.taken_by_dram(id);
                self.forget_write(older);
            }
            Outcome::Written { id, .. } => self.forget_write(id),
        }
    }

    fn outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::ReadDone { id, at } => self.read_is_served(id, at, self.path_cycles),
            Outcome::Accepted { id } => self.accepted(id),
            Outcome::Replaced { id, older } => {
                self.accepted(id);
                self.forget_write(older);
            }
            Outcome::Written { id, at } => {
                self.room |= !self.flush_stalled.is_empty();
                if self.adr {
                    self.forget_write(id);
                } else {
                    self.wheel.schedule(at, Event::Written { write: id });
                }
            }
        }
    }

    /// Does what the scheme asked for, except what needs the caches or the cores.
    pub(super) fn serve_outbox(&mut self) {
        self.outbox.any = false;
        self.serve_kept();
        self.serve_own();
        let mut calls = std::mem::take(&mut self.outbox.calls);
        for (at, token) in calls.drain(..) {
            let token = self.tokens.put(token);
            self.wheel.schedule(at.max(self.now()), Event::Scheme { token });
        }
        if self.outbox.calls.is_empty() {
            self.outbox.calls = calls; // Keeps the allocation.
        }
        self.release_reads();
        self.release_writes();
        if self.outbox.wake {
            self.retry_held(None);
        }
    }

    /// A call that the scheme asked for.
    pub(super) fn step(&mut self, token: u32) {
        let (now, token) = (self.now(), self.tokens.take(token));
        self.scheme.step(now, token, &mut self.outbox);
    }

    /// The scheme's own counts.
    pub(super) fn take_counters(&mut self) -> Vec<Counter> {
        let mut counters = Vec::new();
        let mut count = |name, unit, value| counters.push(Counter { name, unit, value });
        self.scheme.take_counters(&mut count);
        if let Some(entries) = &mut self.entries {
            count("ait_lookups", "count", std::mem::take(&mut entries.looked_up) as f64);
            count("ait_misses", "count", std::mem::take(&mut entries.missed) as f64);
        }
        counters
    }

    /// A line's bytes: the scheme's own, or those of memory where it says.
    #[inline]
    fn placed(&self, line: LineAddr) -> LineBytes {
        if self.is_volatile(line) {
            return self.memory.read(line);
        }
        match self.scheme.held(line) {
            Some(held) => *held,
            None => self.memory.read(self.scheme.locate(line)),
        }
    }
}

impl<S: Scheme> Backing<S::Tag> for MemorySystem<S> {
    #[inline]
    fn read(&mut self, line: LineAddr) -> LineBytes {
        let mut data = self.placed(line);
        self.writes.overlay(line, &mut data);
        data
    }

    #[inline]
    fn write(&mut self, line: LineAddr, words: u8, data: &LineBytes, cause: Cause, tag: S::Tag) {
        let origin = match cause {
            Cause::Streamed => {
                self.loose_streams += 1;
                Origin::AllCores
            }
            _ => self.next_origin,
        };
        self.send_write(line, words, data, cause, origin, tag);
    }

    #[inline]
    fn stored(&mut self, line: LineAddr, words: u8, data: &LineBytes) {
        let volatile = self.is_volatile(line);
        if let Some(journal) = self.journal.as_mut().filter(|_| !volatile) {
            journal.stored(self.wheel.now(), line, words, data);
        }
    }

    #[inline]
    fn moved_down(&mut self, level: u8, line: LineAddr, contents: &Contents<S::Tag>) {
        if self.is_volatile(line) {
            return;
        }
        let now = self.wheel.now();
        self.scheme.moved_down(now, level, line, &contents.data, contents.tag, &mut self.outbox);
    }

    fn buffer_accessed(&mut self, place: u32, write: bool) {
        let at = self.now().plus(self.dram_path_cycles());
        self.wheel.schedule(at, Event::BufferAccess { place, write });
    }

    #[inline]
    fn tag_of(&mut self, line: LineAddr) -> S::Tag {
        self.scheme.filled(self.wheel.now(), line, &mut self.outbox)
    }
}
