//! Everything beneath the caches: time itself, the controller with its memory, the bytes, what
//! became durable, and the scheme.

use super::{
    config::{MachineConfig, MemoryConfig},
    controller::{Controller, Outcome},
    event::Event,
    journal::TimedJournal,
    memory::MainMemory,
    memory_stats::{PersistTimes, ReadCause, ReadsByCause},
    scheme::{Answer, Outbox, Scheme, SchemeWrite},
    stats::{MemoryStats, WritesByCause},
    time::Cycle,
    timeline::{Kind, Timeline},
    wheel::Wheel,
};
use crate::{
    cache::{Contents, LineBytes},
    hierarchy::{Backing, Cause},
};
use outlast_trace::{LineAddr, PoolOffset};

/// Who wants to know that a write is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Nobody.
    None,
    /// A core that flushed or streamed it.
    Core(u8),
    /// Every core: a line that left a write-combining buffer because somebody else wanted it.
    Everybody,
    /// The two threads of a core, from whose write-combining buffer it left.
    Threads(u8),
    /// The scheme, with its token.
    Scheme(u32),
}

/// A write on its way to memory.
#[derive(Clone, Debug)]
struct Write {
    line: LineAddr,
    words: u8,
    cause: Cause,
    data: LineBytes,
    origin: Origin,
    sent: Cycle,
}

/// A read on its way to memory and back: for one miss of the last level, or the scheme's, with its
/// token.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    line: LineAddr,
    sent: Cycle,
    scheme: Option<u32>,
}

/// The volatile memory: its channels' numbers follow those of the persistent one.
#[derive(Debug)]
struct Dram {
    controller: Controller,
    path_cycles: u64,
}

pub(crate) struct Below<S: Scheme> {
    pub(crate) wheel: Wheel<Event>,
    pub(crate) controller: Controller,
    pub(crate) memory: MainMemory,
    pub(crate) journal: Option<TimedJournal>,
    pub(crate) scheme: S,
    pub(crate) outbox: Outbox,
    pub(crate) by_cause: WritesByCause,
    pub(crate) reads_by_cause: ReadsByCause,
    pub(crate) persist: PersistTimes,
    dram: Option<Dram>,
    /// Lines from here on are volatile.
    volatile_from: LineAddr,
    /// Channels of the persistent memory.
    channels: usize,
    pub(crate) timeline: Option<Box<Timeline>>,
    adr: bool,
    path_cycles: u64,
    writes: Vec<Write>,
    free_writes: Vec<u32>,
    /// Writes between the caches and the queues.
    travelling: usize,
    write_buffer: usize,
    /// Writes that the scheme holds back, in their order.
    held: Vec<u32>,
    /// Writes that are not durable yet, oldest first, with the lines that they were asked for.
    under_way: Vec<(LineAddr, u32)>,
    /// Cores whose flush found nothing to write because one of these was on its way.
    flush_waits: Vec<(u32, u8)>,
    /// Who the next write is for; set by whoever causes it.
    pub(crate) next_origin: Origin,
    /// Streamed lines that nobody's own count of acknowledgements covers, and whether the last
    /// of them became durable.
    pub(crate) loose_streams: u32,
    /// Streamed lines of each core whose threads share it.
    pub(crate) shared_streams: Vec<u32>,
    pub(crate) streams_done: bool,
    /// Whether room in the write buffer is waited for, and is there now.
    pub(crate) room: bool,
    reads: Vec<Read>,
    free_reads: Vec<u32>,
}

impl<S: Scheme> Below<S> {
    pub(crate) fn new(
        config: &MachineConfig,
        base: &[u8],
        journal: Option<TimedJournal>,
        scheme: S,
    ) -> Self {
        let core_fs = config.core.clock.period_fs();
        let dram = config.dram.memory.as_ref().map(|memory| Dram {
            // Nobody waits for its cells: a write is done when it is taken.
            controller: Controller::new(&MemoryConfig { adr: true, ..memory.clone() }, core_fs),
            path_cycles: memory.path.cycles(core_fs),
        });
        let volatile_from = match &dram {
            Some(_) => PoolOffset(config.dram.from.0).line(),
            None => LineAddr(u64::MAX),
        };
        Self {
            wheel: Wheel::new(),
            controller: Controller::new(&config.memory, core_fs),
            memory: MainMemory::new(base),
            journal,
            scheme,
            outbox: Outbox::default(),
            by_cause: WritesByCause::default(),
            reads_by_cause: ReadsByCause::default(),
            persist: PersistTimes::default(),
            dram,
            volatile_from,
            channels: config.memory.channels as usize,
            timeline: None,
            adr: config.memory.adr,
            path_cycles: config.memory.path.cycles(core_fs),
            writes: Vec::new(),
            free_writes: Vec::new(),
            travelling: 0,
            write_buffer: config.memory.write_buffer as usize,
            held: Vec::new(),
            under_way: Vec::new(),
            flush_waits: Vec::new(),
            next_origin: Origin::None,
            loose_streams: 0,
            shared_streams: vec![0; config.core.count as usize],
            streams_done: false,
            room: false,
            reads: Vec::new(),
            free_reads: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> Cycle {
        self.wheel.now()
    }

    /// Whether a fill, which may evict a dirty line, has to wait for room.
    #[inline]
    pub(crate) fn write_buffer_is_full(&self) -> bool {
        self.travelling >= self.write_buffer
    }

    /// Whether nothing is on its way to memory, and nothing waits there.
    pub(crate) fn is_idle(&self) -> bool {
        self.travelling == 0
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
    fn memory_of(&mut self, line: LineAddr) -> (&mut Controller, usize, u64) {
        match &mut self.dram {
            Some(dram) if line >= self.volatile_from => {
                (&mut dram.controller, self.channels, dram.path_cycles)
            }
            _ => (&mut self.controller, 0, self.path_cycles),
        }
    }

    /// What the volatile memory counted.
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

    /// A write enters its queue, or waits for room there.
    fn enter(&mut self, number: u32) {
        let (now, line) = (self.now(), self.writes[number as usize].line);
        let (controller, first, _) = self.memory_of(line);
        let channel = first + controller.write(now, number, line);
        self.wake_channel(channel);
    }

    /// Sends a read to memory. `Event::ReadDone` with the number that is returned says that its
    /// data is back; `forget_read` ends it.
    pub(crate) fn send_read(&mut self, line: LineAddr, cause: ReadCause) -> u32 {
        let line = self.scheme.route_read(self.wheel.now(), line);
        self.send_read_to(line, cause, None)
    }

    /// Sends a read to where it is said to go.
    fn send_read_to(&mut self, line: LineAddr, cause: ReadCause, scheme: Option<u32>) -> u32 {
        if !self.is_volatile(line) {
            self.reads_by_cause.count(cause);
        }
        let read = match self.free_reads.pop() {
            Some(read) => read,
            None => {
                self.reads.push(Read::default());
                (self.reads.len() - 1) as u32
            }
        };
        self.reads[read as usize] = Read { line, sent: self.now(), scheme };
        let (_, _, path_cycles) = self.memory_of(line);
        self.wheel.schedule(self.now().plus(path_cycles), Event::ReadArrives { read });
        read
    }

    pub(crate) fn forget_read(&mut self, read: u32) {
        self.free_reads.push(read);
        let now = self.now();
        if let Some(timeline) = &mut self.timeline {
            let Read { line, sent, .. } = self.reads[read as usize];
            timeline.slice(Kind::Read, line, sent, now);
            timeline.counter("reads", now, (self.reads.len() - self.free_reads.len()) as u64);
        }
    }

    /// Whether a read whose data is back was the scheme's, which has the line then.
    pub(crate) fn is_schemes_read(&mut self, read: u32) -> bool {
        let Read { line, scheme: Some(token), .. } = self.reads[read as usize] else {
            return false;
        };
        self.forget_read(read);
        let (now, data) = (self.now(), self.memory.read(line));
        self.scheme.read_done(now, token, &data, &mut self.outbox);
        true
    }

    pub(crate) fn read_arrives(&mut self, read: u32) {
        let line = self.reads[read as usize].line;
        let now = self.now();
        let (controller, first, _) = self.memory_of(line);
        let channel = first + controller.read(now, read, line);
        self.wake_channel(channel);
    }

    /// Sends a write to memory. The bytes are visible to whoever reads the line from now on.
    pub(crate) fn send_write(
        &mut self,
        line: LineAddr,
        words: u8,
        data: &LineBytes,
        cause: Cause,
        origin: Origin,
    ) {
        let asked_for = line;
        let line = self.scheme.route_write(self.wheel.now(), line, cause);
        self.memory.write(line, words, data);
        if !self.is_volatile(line) {
            self.by_cause.count(cause);
        }
        let sent = self.now();
        let write = Write { line, words, cause, data: *data, origin, sent };
        let number = match self.free_writes.pop() {
            Some(number) => {
                self.writes[number as usize] = write;
                number
            }
            None => {
                self.writes.push(write);
                (self.writes.len() - 1) as u32
            }
        };
        self.travelling += 1;
        self.under_way.push((asked_for, number));
        self.count_writes();
        let now = self.now();
        let (controller, _, path_cycles) = self.memory_of(line);
        let at = controller.link_to_memory(now.plus(path_cycles));
        self.wheel.schedule(at, Event::WriteArrives { write: number });
    }

    pub(crate) fn write_arrives(&mut self, number: u32) {
        let Write { line, cause, .. } = self.writes[number as usize];
        let free = matches!(cause, Cause::Logged | Cause::Metadata) || self.is_volatile(line);
        if !free && !self.may_enter(line, cause) {
            self.held.push(number);
            return;
        }
        self.enter(number);
    }

    /// Whether a write may enter its queue: nothing older of its line is held back, and the
    /// scheme does not mind.
    fn may_enter(&mut self, line: LineAddr, cause: Cause) -> bool {
        let older = self.held.iter().any(|&held| self.writes[held as usize].line == line);
        let now = self.wheel.now();
        !older && self.scheme.may_write(now, line, cause, &mut self.outbox) == Answer::Proceed
    }

    /// Asks the scheme again about what it held back, oldest first.
    fn retry_held(&mut self) {
        for number in std::mem::take(&mut self.held) {
            let Write { line, cause, .. } = self.writes[number as usize];
            if self.may_enter(line, cause) {
                self.enter(number);
            } else {
                self.held.push(number);
            }
        }
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

    /// As [`outcome`](Self::outcome); nothing becomes durable, and whoever waits for a write
    /// waits for its being taken.
    fn outcome_of_dram(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::ReadDone { id, at } => {
                let path_cycles = self.dram.as_ref().map_or(0, |dram| dram.path_cycles);
                self.wheel.schedule(at.plus(path_cycles), Event::ReadDone { read: id });
            }
            Outcome::Accepted { id } => self.taken_by_dram(id),
            Outcome::Replaced { id, older } => {
                self.taken_by_dram(id);
                self.free_writes.push(older);
            }
            Outcome::Written { id, .. } => self.free_writes.push(id),
        }
    }

    fn taken_by_dram(&mut self, number: u32) {
        self.travelling -= 1;
        self.room = true;
        let path_cycles = self.dram.as_ref().map_or(0, |dram| dram.path_cycles);
        self.tell(self.writes[number as usize].origin, path_cycles);
        self.is_over(number, path_cycles);
    }

    fn outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::ReadDone { id, at } => {
                self.wheel.schedule(at.plus(self.path_cycles), Event::ReadDone { read: id });
            }
            Outcome::Accepted { id } => self.accepted(id),
            Outcome::Replaced { id, older } => {
                self.accepted(id);
                self.free_writes.push(older);
            }
            Outcome::Written { id, at } => {
                if self.adr {
                    self.free_writes.push(id);
                } else {
                    self.wheel.schedule(at, Event::Written { write: id });
                }
            }
        }
    }

    fn count_writes(&mut self) {
        let now = self.now();
        if let Some(timeline) = &mut self.timeline {
            timeline.counter("writes before the queue", now, self.travelling as u64);
        }
    }

    fn accepted(&mut self, number: u32) {
        self.travelling -= 1;
        self.count_writes();
        self.room = true;
        if let Origin::Scheme(token) = self.writes[number as usize].origin {
            self.scheme.write_taken(self.wheel.now(), token, &mut self.outbox);
        }
        if self.adr {
            self.durable(number);
        }
    }

    /// A write's cells are written, which makes it durable where the queue is not.
    pub(crate) fn written(&mut self, number: u32) {
        self.durable(number);
        self.free_writes.push(number);
    }

    fn durable(&mut self, number: u32) {
        let now = self.now();
        let write = &self.writes[number as usize];
        if let Some(journal) = &mut self.journal {
            journal.persist(now, write.line, write.words, &write.data, write.cause);
        }
        let (origin, line, cause, sent) = (write.origin, write.line, write.cause, write.sent);
        self.persist.record(cause, now.since(sent));
        if let Some(timeline) = &mut self.timeline {
            timeline.slice(Kind::Write(WritesByCause::name(cause)), line, sent, now);
        }
        self.scheme.durable(now, line, cause, sent, &mut self.outbox);
        self.tell(origin, self.path_cycles);
        self.is_over(number, self.path_cycles);
    }

    /// A flush found no newer bytes of its line in any cache. They may be on their way to memory
    /// and lost in a crash: whether a write of the line is, whose end is acknowledged then.
    pub(crate) fn waits_for_write(&mut self, core: u8, line: LineAddr) -> bool {
        let newest = self.under_way.iter().rfind(|(of, _)| *of == line);
        self.flush_waits.extend(newest.map(|(_, number)| (*number, core)));
        newest.is_some()
    }

    /// A write is durable, or as good as.
    fn is_over(&mut self, number: u32, path_cycles: u64) {
        if let Some(at) = self.under_way.iter().position(|(_, of)| *of == number) {
            self.under_way.remove(at);
        }
        if self.flush_waits.is_empty() {
            return;
        }
        let at = self.now().plus(path_cycles);
        let mut waits = std::mem::take(&mut self.flush_waits);
        waits.retain(|&(write, core)| {
            if write == number {
                self.wheel.schedule(at, Event::Acknowledged { core });
            }
            write != number
        });
        self.flush_waits = waits;
    }

    fn tell(&mut self, origin: Origin, path_cycles: u64) {
        match origin {
            Origin::None => {}
            Origin::Core(core) => {
                let at = self.now().plus(path_cycles);
                self.wheel.schedule(at, Event::Acknowledged { core });
            }
            Origin::Everybody => {
                self.loose_streams -= 1;
                self.streams_done |= self.loose_streams == 0;
            }
            Origin::Threads(core) => {
                let left = &mut self.shared_streams[usize::from(core)];
                *left -= 1;
                self.streams_done |= *left == 0;
            }
            Origin::Scheme(token) => {
                let now = self.now();
                self.scheme.write_durable(now, token, &mut self.outbox);
            }
        }
    }

    /// Does what the scheme asked for, except what needs the caches or the cores.
    pub(crate) fn serve_outbox(&mut self) {
        for SchemeWrite { line, words, data, cause, .. } in std::mem::take(&mut self.outbox.kept) {
            let now = self.now();
            self.memory.write(line, words, &data);
            if let Some(journal) = &mut self.journal {
                journal.persist(now, line, words, &data, cause);
            }
        }
        for (line, token) in std::mem::take(&mut self.outbox.reads) {
            self.send_read_to(line, ReadCause::Scheme, Some(token));
        }
        let mut writes = std::mem::take(&mut self.outbox.writes);
        for write in writes.drain(..) {
            let origin = Origin::Scheme(write.token);
            self.send_write(write.line, write.words, &write.data, write.cause, origin);
        }
        if self.outbox.writes.is_empty() {
            self.outbox.writes = writes; // Keeps the allocation.
        }
        let mut calls = std::mem::take(&mut self.outbox.calls);
        for (at, token) in calls.drain(..) {
            self.wheel.schedule(at.max(self.now()), Event::Scheme { token });
        }
        if self.outbox.calls.is_empty() {
            self.outbox.calls = calls;
        }
        if self.outbox.wake && !self.held.is_empty() {
            self.retry_held();
        }
    }
}

impl<S: Scheme> Backing<S::Tag> for Below<S> {
    #[inline]
    fn read(&mut self, line: LineAddr) -> LineBytes {
        let line = self.scheme.route_read(self.wheel.now(), line);
        self.memory.read(line)
    }

    #[inline]
    fn write(&mut self, line: LineAddr, words: u8, data: &LineBytes, cause: Cause) {
        let origin = match cause {
            Cause::Flushed => self.next_origin,
            Cause::Streamed => {
                self.loose_streams += 1;
                Origin::Everybody
            }
            _ => Origin::None,
        };
        self.send_write(line, words, data, cause, origin);
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

    #[inline]
    fn tag_of(&mut self, line: LineAddr) -> S::Tag {
        self.scheme.filled(self.wheel.now(), line, &mut self.outbox)
    }
}
