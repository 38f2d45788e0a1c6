//! The memory controller and the devices behind it.
//!
//! A read or write *arrives*; it is *accepted* once its channel's queue has room, in the order
//! of arrival; it is *served* by a column command, and *done* when its data is there. A read of
//! a line whose write still waits gets that write's data at once, and a write to such a line
//! replaces it. Data is not in here: requests are numbers, and the owner knows what they mean.

mod channel;
mod timing;

use super::{
    config::MemoryConfig,
    requests::MemoryRequest,
    stats::MemoryStats,
    time::{ClockRatio, Cycle},
};
use channel::{Channel, ChannelShape, Given, Request, RowFound, Served};
use outlast_trace::{LINE_BYTES, LineAddr};
use std::collections::VecDeque;
use timing::{Decoder, Timing};

/// The outcome of a request. Times are core cycles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// A read's data is at the controller's side of the link at this time.
    ReadDone { id: u32, at: Cycle },
    /// A write is in its queue.
    Accepted { id: u32 },
    /// A write replaced an older one of its line, which waited in the queue and is gone.
    Replaced { id: u32, older: u32 },
    /// A write's cells are written at this time; its row has it, where that is durable.
    Written { id: u32, at: Cycle },
}

/// A request that found its queue full.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: u32,
    line: LineAddr,
    since: Cycle,
}

#[derive(Debug)]
struct Port {
    channel: Channel,
    /// Lines of the writes in the queue, by request, to find them again.
    lines: Vec<(u32, LineAddr)>,
    waiting_reads: VecDeque<Waiting>,
    waiting_writes: VecDeque<Waiting>,
    /// When the channel asked to be woken; later wakes are stale.
    wake_at: Cycle,
    /// Its queues' lengths are counted up to here.
    counted: Cycle,
}

/// All channels of one memory.
#[derive(Debug)]
pub(crate) struct Controller {
    ports: Vec<Port>,
    decoder: Decoder,
    clock: ClockRatio,
    read_queue: usize,
    write_queue: usize,
    /// Femtoseconds that a line takes on the link, and when it is free in each direction.
    link_line_fs: u64,
    link_free_fs: [u128; 2],
    core_fs: u64,
    /// Whether a write may take the place of an older one of its line: where the queue is
    /// durable, no core waits for the older one any more.
    replaces: bool,
    /// Whether a write is reported as written when its row has it; else when its cells have.
    row_durable: bool,
    served: Vec<Served>,
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) stats: MemoryStats,
    /// Every request that arrived, in clocks of the memory, if they are asked for.
    pub(crate) exported: Option<Vec<MemoryRequest>>,
}

/// Set in the number of a read whose data stays on the memory's side: it takes no link.
pub(crate) const INSIDE: u32 = 1 << 31;

const TO_MEMORY: usize = 0;
const FROM_MEMORY: usize = 1;

impl Controller {
    pub(crate) fn new(config: &MemoryConfig, core_fs: u64) -> Self {
        let shape = ChannelShape {
            ranks: config.ranks as usize,
            groups: config.groups as usize,
            banks: config.banks as usize,
            scheduling: config.scheduling,
            page: config.page,
            refresh: config.refresh,
            drain_high: config.drain_high as usize,
            drain_low: config.drain_low as usize,
            drain_idle: config.drain_idle as usize,
            row_hits: config.row_hits,
            bank_queue: config.bank_queue as usize,
        };
        let port = |_| Port {
            channel: Channel::new(Timing::new(config), &shape),
            lines: Vec::new(),
            waiting_reads: VecDeque::new(),
            waiting_writes: VecDeque::new(),
            wake_at: Cycle::NEVER,
            counted: Cycle(0),
        };
        Self {
            ports: (0..config.channels).map(port).collect(),
            decoder: Decoder::new(config),
            clock: ClockRatio::new(core_fs, config.clock.period_fs()),
            read_queue: config.read_queue as usize,
            write_queue: config.write_queue as usize,
            link_line_fs: config.link.0.map_or(0, |rate| {
                (u128::from(LINE_BYTES) * 1_000_000_000_000_000 / u128::from(rate)) as u64
            }),
            link_free_fs: [0; 2],
            core_fs,
            replaces: config.adr,
            row_durable: config.row_durable,
            served: Vec::new(),
            outcomes: Vec::new(),
            stats: MemoryStats::default(),
            exported: None,
        }
    }

    /// A read arrives. Its outcome stands in `outcomes`, now or after a later call.
    pub(crate) fn read(&mut self, now: Cycle, id: u32, line: LineAddr) -> usize {
        let place = self.decoder.place(line);
        let number = usize::from(place.channel);
        self.stats.reads += 1;
        self.export(now, line, false);
        self.count_queues(now, number);
        let port = &mut self.ports[number];
        let pending = port.lines.iter().any(|(_, held)| *held == line)
            || port.waiting_writes.iter().any(|waiting| waiting.line == line);
        if pending {
            self.stats.forwarded_reads += 1;
            let at = self.read_leaves(id, now);
            self.outcomes.push(Outcome::ReadDone { id, at });
        } else if port.channel.follow(id, line, place, now.0) {
            self.stats.joined_reads += 1;
        } else if port.channel.reads.len() >= self.read_queue {
            self.stats.reads_delayed += 1;
            port.waiting_reads.push_back(Waiting { id, line, since: now });
        } else {
            let arrived = self.clock.edge_at(now);
            port.channel.reads.push(Request::new(id, line, place, arrived, now.0));
            self.note_length(number);
        }
        number
    }

    /// A write arrives; see [`read`](Self::read).
    pub(crate) fn write(&mut self, now: Cycle, id: u32, line: LineAddr) -> usize {
        let number = usize::from(self.decoder.place(line).channel);
        self.stats.writes += 1;
        self.export(now, line, true);
        self.count_queues(now, number);
        let port = &mut self.ports[number];
        if !port.waiting_writes.is_empty()
            || (port.channel.writes.len() >= self.write_queue
                && !(self.replaces && port.holds(line)))
        {
            self.stats.writes_delayed += 1;
            port.waiting_writes.push_back(Waiting { id, line, since: now });
        } else {
            self.accept(number, now, Waiting { id, line, since: now });
        }
        number
    }

    /// Keeps the writes that wait, and every request that arrives from now on.
    pub(crate) fn start_export(&mut self, now: Cycle) {
        let at = self.clock.edge_at(now);
        let waiting = self.ports.iter().flat_map(|port| &port.lines);
        let waiting = waiting.map(|&(_, line)| MemoryRequest { line, write: true, at });
        self.exported = Some(waiting.collect());
    }

    #[inline]
    fn export(&mut self, now: Cycle, line: LineAddr, write: bool) {
        if let Some(exported) = &mut self.exported {
            let at = self.clock.edge_at(now);
            exported.push(MemoryRequest { line, write, at });
        }
    }

    /// Whether a request of this line would find its queue full.
    pub(crate) fn is_blocked(&self, line: LineAddr, write: bool) -> bool {
        let port = &self.ports[usize::from(self.decoder.place(line).channel)];
        if write {
            port.channel.writes.len() >= self.write_queue && !(self.replaces && port.holds(line))
        } else {
            port.channel.reads.len() >= self.read_queue
        }
    }

    /// Writes that wait, in the queues of all channels and before them.
    pub(crate) fn waiting_writes(&self) -> usize {
        self.ports.iter().map(|port| port.channel.writes.len() + port.waiting_writes.len()).sum()
    }

    /// Whether nothing waits or is being served.
    pub(crate) fn is_idle(&self) -> bool {
        self.ports.iter().all(|port| {
            port.channel.is_idle()
                && port.waiting_reads.is_empty()
                && port.waiting_writes.is_empty()
        })
    }

    /// Lets a channel go on. Returns when it has to be woken again, if that is progress: the owner
    /// then calls again at that time, and may call in between.
    pub(crate) fn wake(&mut self, now: Cycle, number: usize) -> Option<Cycle> {
        let edge = self.clock.edge_by(now);
        self.count_queues(now, number);
        loop {
            let next = self.ports[number].channel.wake(edge, &mut self.served);
            if !self.served.is_empty() {
                self.report(number);
            } else if !self.let_in(now, number) {
                let port = &mut self.ports[number];
                let at = next.map_or(Cycle::NEVER, |edge| self.clock.cycle_at(edge));
                // An edge may lie between `now` and the next cycle; it is that cycle's then.
                let at = if at == Cycle::NEVER { at } else { at.max(now.next()) };
                if at >= port.wake_at && port.wake_at > now {
                    return None;
                }
                port.wake_at = at;
                return (at != Cycle::NEVER).then_some(at);
            }
        }
    }

    /// Passes on what was served.
    fn report(&mut self, number: usize) {
        let mut served = std::mem::take(&mut self.served);
        for served in served.drain(..) {
            let Served { id, write, data, done, since, row } = served;
            match row {
                Some(RowFound::Open) => self.stats.row_hits += 1,
                Some(RowFound::Closed) => self.stats.row_misses += 1,
                Some(RowFound::Other) => self.stats.row_conflicts += 1,
                None => {}
            }
            let done = self.clock.cycle_at(done);
            let waited = done.since(Cycle(since));
            if write {
                self.stats.write_times.record(waited);
                self.stats.row_hit_writes += u64::from(row == Some(RowFound::Open));
                let port = &mut self.ports[number];
                port.lines.retain(|(held, _)| *held != id);
                let at = if self.row_durable { self.clock.cycle_at(data) } else { done };
                self.outcomes.push(Outcome::Written { id, at });
            } else {
                self.stats.read_times.record(waited);
                let at = self.read_leaves(id, done);
                self.outcomes.push(Outcome::ReadDone { id, at });
            }
        }
        self.served = served;
    }

    /// Lets in what waited for room in its queue. False when nothing could enter.
    fn let_in(&mut self, now: Cycle, number: usize) -> bool {
        let mut entered = false;
        loop {
            let port = &mut self.ports[number];
            if port.channel.reads.len() < self.read_queue
                && let Some(Waiting { id, line, since }) = port.waiting_reads.pop_front()
            {
                let (place, arrived) = (self.decoder.place(line), self.clock.edge_at(now));
                port.channel.reads.push(Request::new(id, line, place, arrived, since.0));
                self.note_length(number);
            } else if let Some(next) = port.waiting_writes.front().copied()
                && (port.channel.writes.len() < self.write_queue
                    || (self.replaces && port.holds(next.line)))
            {
                port.waiting_writes.pop_front();
                self.accept(number, now, next);
            } else {
                return entered;
            }
            entered = true;
        }
    }

    /// Puts a write into its queue, in the place of an older one of its line if there is one.
    fn accept(&mut self, number: usize, now: Cycle, write: Waiting) {
        let Waiting { id, line, since } = write;
        let port = &mut self.ports[number];
        if self.replaces
            && let Some(held) = port.lines.iter_mut().find(|(_, held)| *held == line)
        {
            let older = std::mem::replace(&mut held.0, id);
            port.channel.rename_write(older, id);
            self.stats.replaced_writes += 1;
            self.outcomes.push(Outcome::Replaced { id, older });
            return;
        }
        let (place, arrived) = (self.decoder.place(line), self.clock.edge_at(now));
        port.channel.writes.push(Request::new(id, line, place, arrived, since.0));
        port.lines.push((id, line));
        self.note_length(number);
        self.outcomes.push(Outcome::Accepted { id });
    }

    /// Counts how full a channel's queues were up to now.
    #[inline]
    fn count_queues(&mut self, now: Cycle, number: usize) {
        let port = &mut self.ports[number];
        let passed = now.0.saturating_sub(port.counted.0);
        if passed == 0 {
            return;
        }
        port.counted = now;
        let channel = &port.channel;
        let (reads, writes) = channel.waiting();
        self.stats.read_queue.pass(reads, channel.reads.len() >= self.read_queue, passed);
        self.stats.write_queue.pass(writes, channel.writes.len() >= self.write_queue, passed);
    }

    /// Something entered a channel's queues.
    #[inline]
    fn note_length(&mut self, number: usize) {
        let (reads, writes) = self.ports[number].channel.waiting();
        let stats = &mut self.stats;
        stats.read_queue.max = stats.read_queue.max.max(reads as u64);
        stats.write_queue.max = stats.write_queue.max.max(writes as u64);
    }

    /// When a line that leaves for the memory at `at` has passed the link.
    pub(crate) fn link_to_memory(&mut self, at: Cycle) -> Cycle {
        self.over_link(at, TO_MEMORY)
    }

    /// When a line that is ready at the memory at `at` has passed the link.
    pub(crate) fn link_from_memory(&mut self, at: Cycle) -> Cycle {
        self.over_link(at, FROM_MEMORY)
    }

    /// When a read's data that is ready at `at` has left.
    #[inline]
    fn read_leaves(&mut self, id: u32, at: Cycle) -> Cycle {
        if id & INSIDE == 0 { self.over_link(at, FROM_MEMORY) } else { at }
    }

    /// When a line that is ready at `at` has passed the link.
    fn over_link(&mut self, at: Cycle, direction: usize) -> Cycle {
        if self.link_line_fs == 0 {
            return at;
        }
        let ready = u128::from(at.0) * u128::from(self.core_fs);
        let passed = ready.max(self.link_free_fs[direction]) + u128::from(self.link_line_fs);
        self.link_free_fs[direction] = passed;
        Cycle(passed.div_ceil(u128::from(self.core_fs)) as u64)
    }

    /// Keeps the commands that channels give from now on.
    pub(crate) fn keep_commands(&mut self) {
        self.ports.iter_mut().for_each(|port| port.channel.given = Some(Vec::new()));
    }

    /// The commands that a channel gave since the last call: name, bank, from when to when.
    pub(crate) fn take_commands(
        &mut self,
        number: usize,
    ) -> impl Iterator<Item = (&'static str, u8, Cycle, Cycle)> + use<> {
        let given = self.ports[number].channel.given.as_mut().map(std::mem::take);
        let clock = self.clock;
        given.into_iter().flatten().map(move |Given { name, bank, at, clocks }| {
            (name, bank, clock.cycle_at(at), clock.cycle_at(at + clocks))
        })
    }

    /// Whether commands are kept.
    #[inline]
    pub(crate) fn keeps_commands(&self, number: usize) -> bool {
        self.ports[number].channel.given.is_some()
    }

    /// The counts so far; counting starts again.
    pub(crate) fn take_stats(&mut self, now: Cycle) -> MemoryStats {
        for number in 0..self.ports.len() {
            self.count_queues(now, number);
        }
        let mut stats = std::mem::take(&mut self.stats);
        for port in &mut self.ports {
            stats.activates += std::mem::take(&mut port.channel.activates);
            stats.refreshes += std::mem::take(&mut port.channel.refreshes);
        }
        stats
    }
}

impl Port {
    /// Whether a write of this line needs no room of its own.
    fn holds(&self, line: LineAddr) -> bool {
        self.lines.iter().any(|(_, held)| *held == line)
    }
}
