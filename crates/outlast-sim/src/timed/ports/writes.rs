//! Writes at the controller: a write is asked about once, when it has arrived there and nothing older
//! of its line is held back.
//!
//! Until it has its place, loads find a write's bytes in it; from then on, where
//! [`Scheme::locate`] says. Writes of one line get their places in the order in which they were
//! sent, whatever the answers.
//!
//! ```text
//! travels ──arrives──> held back <─Wait─ may_write, or an older write of the line
//!                         │ may_write: Proceed
//!                         v
//!                     route_write ──Wait────> waits ──release_write──> (as answered then)
//!                         │    └────After───> delayed ──its time──┐
//!                 Here, There                                     │
//!                         v                                       v
//!                     in the queue, then durable <────────────────┘
//!                     Taken: the scheme has it ──done──> durable
//! ```
//!
//! A write that is discarded before it has its place ends at the controller, unwritten.

use super::{
    Answer, Scheme,
    own::{Job, Side},
};
use crate::{
    cache::LineBytes,
    hierarchy::Cause,
    timed::{event::Event, memory_system::MemorySystem, time::Cycle, timeline::Kind},
};
use outlast_trace::{LaneId, LineAddr};

/// A write that waits or was taken, to be named when it is released or durable.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WriteTicket(pub(in crate::timed) u32);

/// A write from the caches that has arrived at the controller.
#[derive(Clone, Copy, Debug)]
pub struct WriteSeen<'a, Tag> {
    /// Names it if it has to wait or is taken.
    pub ticket: WriteTicket,
    /// The line that it is of.
    pub line: LineAddr,
    /// The words written, a bit for each.
    pub words: u8,
    /// The line with them.
    pub data: &'a LineBytes,
    /// Why it left the caches.
    pub cause: Cause,
    /// The tag that was kept beside the line; that of a new line for streamed words.
    pub tag: Tag,
    /// The lane that flushed or streamed it; none for what was evicted or forced.
    pub lane: Option<LaneId>,
    /// The transaction that ran on that lane when it left: how many had begun there.
    pub tx: Option<u64>,
    /// When it left the caches.
    pub sent: Cycle,
}

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteRoute {
    /// To the line that it is of.
    Here,
    /// To another line, at once. In volatile memory it counts as durable when it is taken there.
    There(LineAddr),
    /// To a line, which may be its own, some cycles from now.
    After {
        /// The line.
        line: LineAddr,
        /// The cycles.
        cycles: u64,
    },
    /// Nowhere before [`Outbox::release_write`](super::Outbox::release_write) says where. It keeps
    /// its place in the buffer towards memory.
    Wait,
    /// Nowhere: the scheme has its bytes, where [`Scheme::locate`] says from now on, and writes
    /// them itself. A flush or fence that waits for it is told at
    /// [`Outbox::done`](super::Outbox::done).
    Taken,
}

/// Who waits until a write is durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::timed) enum Origin {
    /// No one.
    None,
    /// A core that flushed or streamed it.
    Core(u8),
    /// Every core: a line that left a write-combining buffer because another core wanted it.
    AllCores,
    /// The two threads of a core, from whose write-combining buffer it left.
    Threads(u8),
    /// The scheme, with its token's number.
    Scheme(u32),
    /// An operation of several requests.
    Job(u32),
}

/// How far a write has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It has no place yet, and was not asked about.
    Unasked,
    /// It has no place yet, and the scheme will release it.
    Waits,
    /// It has its place, and enters the queue later.
    Delayed,
    /// It has its place.
    Placed,
    /// The scheme has it.
    Taken,
    /// It has no place, will have none, and has not arrived.
    Discarded,
    /// The scheme's own: it has its place, and an older one of its line is held back.
    OwnUnasked,
    /// The scheme's own: it has its place, and the scheme will release it into the queue.
    OwnWaits,
}

/// Who waits for a write of another's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Waiter {
    /// A core whose flush found nothing to write because this one was on its way.
    Core(u8),
    /// A flush of caches, which began while it was on its way.
    Flush(u32),
}

/// A write on its way to memory.
#[derive(Clone, Debug)]
struct Write<Tag> {
    /// The line that it is of, and the one that it goes to.
    of: LineAddr,
    line: LineAddr,
    words: u8,
    cause: Cause,
    state: State,
    side: Side,
    data: LineBytes,
    origin: Origin,
    sent: Cycle,
    /// Its place among all that schemes have kept and written.
    order: u64,
    tag: Tag,
    lane: Option<LaneId>,
    tx: Option<u64>,
}

/// All writes on their way.
#[derive(Debug)]
pub(in crate::timed) struct Writes<Tag> {
    writes: Vec<Write<Tag>>,
    free: Vec<u32>,
    /// Writes from the processor's side that are not in their queues.
    pub(in crate::timed) travelling: usize,
    /// Those of them that the scheme will release.
    pub(in crate::timed) waiting: usize,
    /// Writes that have arrived and not entered, in their order.
    held: Vec<u32>,
    /// Writes that are not durable yet, oldest first, with the lines that they are of.
    under_way: Vec<(LineAddr, u32)>,
    /// Who waits for one of these, which others have sent.
    flush_waits: Vec<(u32, Waiter)>,
}

impl<Tag> Default for Writes<Tag> {
    fn default() -> Self {
        Self {
            writes: Vec::new(),
            free: Vec::new(),
            travelling: 0,
            waiting: 0,
            held: Vec::new(),
            under_way: Vec::new(),
            flush_waits: Vec::new(),
        }
    }
}

impl<Tag> Writes<Tag> {
    /// Whether all are durable.
    pub(in crate::timed) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Whether one has not arrived at the controller.
    pub(in crate::timed) fn has_travelling(&self) -> bool {
        let travels = |number: &u32| {
            matches!(self.writes[*number as usize].state, State::Unasked | State::Discarded)
        };
        let mut under_way = self.under_way.iter().map(|(_, number)| *number);
        under_way.any(|number| travels(&number) && !self.held.contains(&number))
    }

    fn put(&mut self, write: Write<Tag>) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.writes[number as usize] = write;
                number
            }
            None => {
                self.writes.push(write);
                (self.writes.len() - 1) as u32
            }
        }
    }

    /// Puts the words of those that have no place yet over what memory has of their line.
    #[inline]
    pub(in crate::timed) fn overlay(&self, line: LineAddr, data: &mut LineBytes) {
        for &(of, number) in &self.under_way {
            let write = &self.writes[number as usize];
            if of == line && matches!(write.state, State::Unasked | State::Waits) {
                let (into, from) = (data.as_chunks_mut::<8>().0, write.data.as_chunks::<8>().0);
                for word in (0..8).filter(|word| write.words >> word & 1 == 1) {
                    into[word] = from[word];
                }
            }
        }
    }
}

impl<S: Scheme> MemorySystem<S> {
    /// Sends a write from the caches to memory. Loads find its bytes from now on.
    pub(in crate::timed) fn send_write(
        &mut self,
        line: LineAddr,
        words: u8,
        data: &LineBytes,
        cause: Cause,
        origin: Origin,
        tag: S::Tag,
    ) {
        let (state, side) = match self.is_volatile(line) {
            true => (State::Placed, Side::Processor),
            false => (State::Unasked, Side::Processor),
        };
        if cause == Cause::Streamed && state == State::Unasked {
            self.scheme.streams(self.wheel.now(), line, &mut self.outbox);
        }
        let lane = match origin {
            Origin::Core(core) => Some(LaneId(core.into())),
            _ => None,
        };
        let tx = lane.and_then(|lane| self.transactions.running(lane));
        let (of, data, sent, order) = (line, *data, self.now(), self.outbox.asked);
        let write =
            Write { of, line, words, cause, state, side, data, origin, sent, order, tag, lane, tx };
        self.send(write);
    }

    /// Sends one of the scheme's own writes, which has its place.
    pub(super) fn send_own_write(
        &mut self,
        line: LineAddr,
        words: u8,
        data: &LineBytes,
        cause: Cause,
        origin: Origin,
        (order, side): (u64, Side),
    ) {
        let (of, data, sent, state) = (line, *data, self.now(), State::Placed);
        let (tag, lane, tx) = (S::Tag::default(), None, None);
        let write =
            Write { of, line, words, cause, state, side, data, origin, sent, order, tag, lane, tx };
        self.send(write);
    }

    fn send(&mut self, write: Write<S::Tag>) {
        let Write { line, words, cause, state, side, .. } = write;
        if state == State::Placed {
            self.memory.write(line, words, &write.data);
        }
        if !self.is_volatile(line) {
            self.by_cause.count(cause);
        }
        let number = self.writes.put(write);
        self.writes.under_way.push((line, number));
        let now = self.now();
        let at = match side {
            Side::Processor => {
                self.writes.travelling += 1;
                self.count_writes();
                let (controller, _, path_cycles) = self.memory_of(line);
                controller.link_to_memory(now.plus(path_cycles))
            }
            Side::Memory => now,
        };
        self.wheel.schedule(at, Event::WriteArrives { write: number });
    }

    pub(in crate::timed) fn write_arrives(&mut self, number: u32) {
        let Write { of, cause, state, .. } = self.writes.writes[number as usize];
        if state == State::Placed {
            self.placed_write_arrives(number, of);
        } else if state == State::Discarded {
            self.write_ends(number);
        } else if self.may_pass(of, cause) {
            self.route(number);
        } else {
            self.writes.held.push(number);
        }
    }

    /// A write that has its place arrives: the scheme's own, or one of a volatile line.
    #[inline]
    fn placed_write_arrives(&mut self, number: u32, line: LineAddr) {
        let is_own =
            |write: &Write<S::Tag>| matches!(write.origin, Origin::Scheme(_) | Origin::Job(_));
        let Writes { held, writes, .. } = &mut self.writes;
        if self.entries.is_none() || line >= self.volatile_from || !is_own(&writes[number as usize])
        {
            return self.write_enters(number);
        }
        // One that the scheme holds back may wait for this one.
        let is_older = |write: &Write<S::Tag>| write.of == line && is_own(write);
        if held.iter().any(|&held| is_older(&writes[held as usize])) {
            writes[number as usize].state = State::OwnUnasked;
            held.push(number);
            return;
        }
        let route = self.write_is_looked_up(number, line, WriteRoute::Here);
        self.own_write_goes(number, route);
    }

    /// One of the scheme's own writes enters its queue, now or later.
    fn own_write_goes(&mut self, number: u32, route: WriteRoute) {
        let write = &mut self.writes.writes[number as usize];
        match route {
            WriteRoute::After { line, cycles } if cycles > 0 => {
                debug_assert_eq!(line, write.line, "a scheme's own write goes where it says");
                write.state = State::Delayed;
                self.writes.held.push(number);
                let at = self.now().plus(cycles);
                self.wheel.schedule(at, Event::WriteEnters { write: number });
            }
            WriteRoute::Wait => {
                write.state = State::OwnWaits;
                // One from the memory's side takes no room towards memory.
                let takes_room = write.side == Side::Processor;
                self.writes.held.push(number);
                self.writes.waiting += usize::from(takes_room);
                self.room |= self.stop.is_on; // It takes none while cores stop.
            }
            _ => {
                write.state = State::Placed;
                self.write_enters(number);
            }
        }
    }

    /// Whether a write may pass: nothing older of its line is held back, and the scheme does not
    /// mind.
    fn may_pass(&mut self, line: LineAddr, cause: Cause) -> bool {
        let Writes { held, writes, .. } = &self.writes;
        let older = held.iter().any(|&held| writes[held as usize].of == line);
        let now = self.wheel.now();
        !older && self.scheme.may_write(now, line, cause, &mut self.outbox) == Answer::Proceed
    }

    /// Asks where a write goes.
    #[inline]
    fn route(&mut self, number: u32) {
        let Write { of: line, words, ref data, cause, sent, tag, lane, tx, .. } =
            self.writes.writes[number as usize];
        let ticket = WriteTicket(number);
        let seen = WriteSeen { ticket, line, words, data, cause, tag, lane, tx, sent };
        let route = self.scheme.route_write(self.wheel.now(), &seen, &mut self.outbox);
        match self.write_is_looked_up(number, line, route) {
            WriteRoute::Here => {
                self.write_is_placed(number, line);
                self.write_enters(number);
            }
            route => self.write_goes(number, route),
        }
    }

    #[cold]
    fn write_goes(&mut self, number: u32, route: WriteRoute) {
        let of = self.writes.writes[number as usize].of;
        match route {
            WriteRoute::Here => {
                self.write_is_placed(number, of);
                self.write_enters(number);
            }
            WriteRoute::There(line) => {
                self.write_is_placed(number, line);
                self.write_enters(number);
            }
            WriteRoute::After { line, cycles } => {
                self.write_is_placed(number, line);
                self.writes.writes[number as usize].state = State::Delayed;
                self.writes.held.push(number);
                let at = self.now().plus(cycles);
                self.wheel.schedule(at, Event::WriteEnters { write: number });
            }
            WriteRoute::Wait => {
                self.writes.writes[number as usize].state = State::Waits;
                self.writes.held.push(number);
                self.writes.waiting += 1;
                self.room |= self.stop.is_on; // It takes none while cores stop.
            }
            WriteRoute::Taken => {
                let write = &mut self.writes.writes[number as usize];
                write.state = State::Taken;
                self.by_cause.uncount(write.cause);
                self.leaves_buffer(number);
            }
        }
    }

    /// A write has its place: its bytes are there.
    #[inline]
    fn write_is_placed(&mut self, number: u32, line: LineAddr) {
        let volatile = self.is_volatile(line);
        let write = &mut self.writes.writes[number as usize];
        (write.state, write.line) = (State::Placed, line);
        self.memory.write(line, write.words, &write.data);
        if volatile {
            self.by_cause.uncount(write.cause);
        }
    }

    /// A write enters its queue, or waits for room there.
    fn write_enters(&mut self, number: u32) {
        let (now, line) = (self.now(), self.writes.writes[number as usize].line);
        let (controller, first, _) = self.memory_of(line);
        let channel = first + controller.write(now, number, line);
        self.wake_channel(channel);
    }

    /// A delayed write enters its queue, and those behind it pass.
    pub(in crate::timed) fn delayed_write_enters(&mut self, number: u32) {
        let write = &mut self.writes.writes[number as usize];
        write.state = State::Placed;
        let of = write.of;
        self.writes.held.retain(|held| *held != number);
        self.write_enters(number);
        self.retry_held(Some(of));
    }

    /// Lets writes go on that the scheme releases, and ends those that it took.
    pub(in crate::timed) fn release_writes(&mut self) {
        for (write, route) in std::mem::take(&mut self.outbox.write_routes) {
            let of = self.writes.writes[write.0 as usize].of;
            let route = self.write_is_looked_up(write.0, of, route);
            self.release_write(write, route);
        }
        for WriteTicket(number) in std::mem::take(&mut self.outbox.done) {
            let Write { of, state, cause, sent, origin, .. } = self.writes.writes[number as usize];
            assert!(state == State::Taken, "a write of {of} is done and was not taken");
            let now = self.now();
            self.persist.record(cause, now.since(sent));
            self.tell(origin, self.path_cycles);
            self.is_over(number, self.path_cycles);
            self.writes.free.push(number);
        }
    }

    /// Lets a write go on that waits, unless it is to wait longer.
    pub(super) fn release_write(&mut self, WriteTicket(number): WriteTicket, route: WriteRoute) {
        let write = &self.writes.writes[number as usize];
        let (of, state, side) = (write.of, write.state, write.side);
        let waits = matches!(state, State::Waits | State::OwnWaits);
        assert!(waits, "a write of {of} is released and does not wait");
        if route == WriteRoute::Wait {
            return;
        }
        self.writes.held.retain(|held| *held != number);
        self.writes.waiting -= usize::from(side == Side::Processor);
        match state {
            State::OwnWaits => self.own_write_goes(number, route),
            _ => self.write_goes(number, route),
        }
        self.retry_held(Some(of));
    }

    /// Discards those writes of a line that have no place and that the scheme names. One that has
    /// not arrived ends when it does.
    pub(super) fn discard_writes(&mut self, line: LineAddr) {
        let now = self.wheel.now();
        let mut discarded = Vec::new();
        for &(of, number) in &self.writes.under_way {
            let Write { words, ref data, cause, state, tag, lane, tx, sent, .. } =
                self.writes.writes[number as usize];
            let ticket = WriteTicket(number);
            let seen = WriteSeen { ticket, line, words, data, cause, tag, lane, tx, sent };
            if of == line
                && matches!(state, State::Unasked | State::Waits)
                && cause != Cause::Streamed
                && self.scheme.is_discarded(now, &seen)
            {
                discarded.push((number, state));
            }
        }
        for (number, state) in discarded {
            if let Some(entries) = &mut self.entries {
                entries.lookups.forget(WriteTicket(number));
            }
            let before = self.writes.held.len();
            self.writes.held.retain(|held| *held != number);
            if self.writes.held.len() == before {
                self.writes.writes[number as usize].state = State::Discarded;
            } else {
                self.writes.waiting -= usize::from(state == State::Waits);
                self.write_ends(number);
                self.retry_held(Some(line));
            }
        }
    }

    /// A write that has arrived is over, and nothing was written.
    fn write_ends(&mut self, number: u32) {
        let Write { cause, origin, .. } = self.writes.writes[number as usize];
        self.by_cause.uncount(cause);
        self.leaves_buffer(number);
        self.tell(origin, self.path_cycles);
        self.is_over(number, self.path_cycles);
        self.writes.free.push(number);
    }

    /// Lets writes pass that were held back and may now, oldest first: those of a line, or all that
    /// [`Scheme::may_write`] refused.
    pub(in crate::timed) fn retry_held(&mut self, line: Option<LineAddr>) {
        if self.writes.held.is_empty() {
            return;
        }
        for number in std::mem::take(&mut self.writes.held) {
            let Write { of, cause, state, .. } = self.writes.writes[number as usize];
            let is_asked = state == State::Unasked && line.is_none_or(|line| line == of);
            if is_asked && self.may_pass(of, cause) {
                self.route(number);
            } else if state == State::OwnUnasked {
                self.placed_write_arrives(number, of);
            } else {
                self.writes.held.push(number);
            }
        }
    }

    /// A write is in its queue, or the scheme's.
    fn leaves_buffer(&mut self, number: u32) {
        if self.writes.writes[number as usize].side == Side::Processor {
            self.writes.travelling -= 1;
            self.count_writes();
            self.room = true;
        }
    }

    fn count_writes(&mut self) {
        let now = self.now();
        if let Some(timeline) = &mut self.timeline {
            timeline.counter("writes before the queue", now, self.writes.travelling as u64);
        }
    }

    /// The persistent memory's queue has taken a write.
    pub(in crate::timed) fn accepted(&mut self, number: u32) {
        self.leaves_buffer(number);
        let now = self.now();
        match self.writes.writes[number as usize].origin {
            Origin::Scheme(token) => {
                let token = *self.tokens.get(token);
                self.scheme.write_taken(now, token, &mut self.outbox);
            }
            Origin::Job(job) => self.job_taken(job),
            _ => {}
        }
        if self.adr {
            self.durable(number);
        }
    }

    /// The volatile memory's queue has taken a write. Nothing becomes durable, and what waits for it
    /// waits for no more than that.
    pub(in crate::timed) fn taken_by_dram(&mut self, number: u32) {
        self.leaves_buffer(number);
        let path_cycles = self.dram_path_cycles();
        self.tell(self.writes.writes[number as usize].origin, path_cycles);
        self.is_over(number, path_cycles);
    }

    /// A write's cells are written, which makes it durable where the queue is not.
    pub(in crate::timed) fn written(&mut self, number: u32) {
        self.durable(number);
        self.writes.free.push(number);
    }

    /// A write's number is used no more.
    pub(in crate::timed) fn forget_write(&mut self, number: u32) {
        self.writes.free.push(number);
    }

    fn durable(&mut self, number: u32) {
        let now = self.now();
        if self.stop.is_on {
            self.moved = now;
        }
        let write = &self.writes.writes[number as usize];
        let (origin, line, cause, sent) = (write.origin, write.of, write.cause, write.sent);
        if self.kept.is_empty() {
            if let Some(journal) = &mut self.journal {
                journal.persist(now, write.line, write.words, &write.data, cause);
            }
        } else {
            let (place, words, data, order) = (write.line, write.words, write.data, write.order);
            self.array_has(place, words, &data, cause, order);
        }
        self.persist.record(cause, now.since(sent));
        if let Some(timeline) = &mut self.timeline {
            timeline.slice(Kind::Write(self.by_cause.name(cause)), line, sent, now);
        }
        self.scheme.durable(now, line, cause, sent, &mut self.outbox);
        self.tell(origin, self.path_cycles);
        self.is_over(number, self.path_cycles);
    }

    /// A flush found no newer bytes of its line in any cache. They may be on their way to memory
    /// and lost in a crash: whether a write of the line is, whose end is acknowledged then.
    pub(in crate::timed) fn waits_for_write(&mut self, core: u8, line: LineAddr) -> bool {
        let Writes { under_way, flush_waits, .. } = &mut self.writes;
        let newest = under_way.iter().rfind(|(of, _)| *of == line);
        flush_waits.extend(newest.map(|(_, number)| (*number, Waiter::Core(core))));
        newest.is_some()
    }

    /// A write is durable, or as good as.
    fn is_over(&mut self, number: u32, path_cycles: u64) {
        let Writes { under_way, flush_waits, .. } = &mut self.writes;
        if let Some(at) = under_way.iter().position(|(_, of)| *of == number) {
            under_way.remove(at);
        }
        if flush_waits.is_empty() {
            return;
        }
        let at = self.wheel.now().plus(path_cycles);
        let over: Vec<_> = flush_waits.extract_if(.., |(write, _)| *write == number).collect();
        for (_, waiter) in over {
            match waiter {
                Waiter::Core(core) => self.wheel.schedule(at, Event::Acknowledged { core }),
                Waiter::Flush(job) => self.job_durable(job),
            }
        }
    }

    /// Lets a flush of caches wait for what has left them before, but for what the scheme has in its
    /// hands. Returns how many writes these are.
    pub(super) fn wait_for_earlier(&mut self, job: u32) -> u32 {
        let Self { writes: Writes { under_way, writes, flush_waits, .. }, jobs, .. } = self;
        let before = flush_waits.len();
        for &(_, number) in under_way.iter() {
            let Write { state, origin, .. } = writes[number as usize];
            let is_schemes = match origin {
                Origin::Scheme(_) => true,
                Origin::Job(job) => !matches!(jobs.get(job), Job::Flush(_)),
                _ => matches!(state, State::Waits | State::Taken),
            };
            if !is_schemes {
                flush_waits.push((number, Waiter::Flush(job)));
            }
        }
        (flush_waits.len() - before) as u32
    }

    fn tell(&mut self, origin: Origin, path_cycles: u64) {
        match origin {
            Origin::None => {}
            Origin::Core(core) => {
                let at = self.now().plus(path_cycles);
                self.wheel.schedule(at, Event::Acknowledged { core });
            }
            Origin::AllCores => {
                self.loose_streams -= 1;
                self.streams_done |= self.loose_streams == 0;
            }
            Origin::Threads(core) => {
                let left = &mut self.shared_streams[usize::from(core)];
                *left -= 1;
                self.streams_done |= *left == 0;
            }
            Origin::Scheme(token) => {
                let (now, token) = (self.now(), self.tokens.take(token));
                self.scheme.write_durable(now, token, &mut self.outbox);
            }
            Origin::Job(job) => self.job_durable(job),
        }
    }
}
