//! The parts that all cores share: the caches in their stages of time, and everything beneath.
//!
//! A miss passes these stages, each an event: the second level's lookup; the last level's, which
//! also knows who else has the line; the read from memory; the line's arrival. The state of the
//! caches changes only at the arrival, all levels at once. A line may be gone from where it was
//! seen by then: it is looked for again.

use super::scan::{Scan, ScanShape};
use super::{
    causes::ReadCause,
    config::{CoreConfig, MachineConfig},
    core::{PAGE_TABLE, Ports},
    event::Event,
    instr::Mark,
    memory_system::MemorySystem,
    miss::SharedMisses,
    ports::{Answer, Origin, Scheme, StoreSeen, keeps_bits},
    time::Cycle,
};
use crate::{
    cache::{LineBytes, Slot},
    hierarchy::{Cause, Found, Hierarchy, Nearest, Want},
    wc::Leaving,
};
use outlast_trace::{FlushKind, LaneId, LineAddr, PoolOffset};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A core's miss that waits somewhere, and whether its line comes from memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) core: u8,
    pub(crate) miss: u8,
    pub(crate) line: LineAddr,
    pub(crate) want: Want,
    pub(crate) from_memory: bool,
}

/// Lock tickets and signals, by which lanes keep the order of a recorded run.
#[derive(Debug, Default)]
struct Order {
    released: FxHashMap<u64, u64>,
    signals: FxHashMap<u64, u64>,
}

/// The parts that two threads of a core share, besides its caches.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) issue: Ports,
    pub(crate) load_ports: Ports,
    /// Which threads had something to dispatch when they were last asked.
    wants: [bool; 2],
    /// Instructions retired in a cycle.
    retired: (Cycle, u32),
}

/// Threads and the cores that they run on.
#[derive(Debug)]
pub(crate) struct Threads {
    /// The core of each thread.
    core_of: [u8; 256],
    /// Threads that have a core to themselves come before those that share one.
    streams: usize,
    /// One for each core that two threads share; else none.
    shared: Vec<Shared>,
}

impl Threads {
    /// Threads on `cores` cores: thread `n` runs on core `n` modulo their number.
    pub(crate) fn new(config: &CoreConfig, streams: usize) -> Self {
        let mut core_of = [0; 256];
        for (thread, core) in core_of.iter_mut().enumerate() {
            *core = (thread % config.count as usize) as u8;
        }
        let shared = || Shared {
            issue: Ports::new(config.issue_width),
            load_ports: Ports::new(config.load_ports),
            wants: [false; 2],
            retired: (Cycle(0), 0),
        };
        let count = if config.threads > 1 { config.count } else { 0 };
        Self { core_of, streams, shared: (0..count).map(|_| shared()).collect() }
    }

    /// Whether another thread runs on this one's core.
    fn share_a_core(&self, thread: u8) -> bool {
        let (thread, cores) = (usize::from(thread), self.shared.len());
        cores > 0 && (thread >= cores || thread + cores < self.streams)
    }
}

/// When each core's transaction began, and what those acknowledged took.
#[derive(Debug, Default)]
struct Transactions {
    begun: Vec<Option<Cycle>>,
    cycles: Vec<u64>,
}

/// Lookup times, in core cycles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latencies {
    pub(crate) l1: u64,
    pub(crate) l2: u64,
    pub(crate) llc: u64,
    pub(crate) snoop: u64,
}

pub(crate) struct Uncore<S: Scheme> {
    pub(crate) caches: Hierarchy<S::Tag>,
    pub(crate) below: MemorySystem<S>,
    pub(crate) latencies: Latencies,
    pub(super) has_l2: bool,
    misses: SharedMisses,
    /// Misses that found no register of the last level free.
    parked: VecDeque<Waiting>,
    /// Lines that have arrived and cannot be filled in before there is room for what they evict.
    stalled: VecDeque<Waiting>,
    order: Order,
    transactions: Transactions,
    threads: Threads,
    /// Banks of the last level: when each is free, and how long an access keeps it.
    llc_banks: Vec<Cycle>,
    llc_bank_busy: u64,
    /// The last scan of each level, and how it goes through one.
    pub(super) scans: [Scan; 3],
    pub(super) scan_shape: [ScanShape; 3],
    /// Something happened for which a core may be waiting that no event of its own tells of.
    pub(crate) wake_all: bool,
    /// Instructions that an in-order core may run ahead at most, for calls that are due by then.
    pub(crate) ahead_max: u64,
}

impl<S: Scheme> Uncore<S> {
    pub(crate) fn new(
        caches: Hierarchy<S::Tag>,
        below: MemorySystem<S>,
        latencies: Latencies,
        config: &MachineConfig,
        streams: usize,
    ) -> Self {
        let buffer = config.buffer_shape();
        Self {
            caches,
            below,
            latencies,
            has_l2: config.l2.size.0 > 0,
            misses: SharedMisses::new(config.llc.mshrs),
            parked: VecDeque::new(),
            stalled: VecDeque::new(),
            order: Order::default(),
            transactions: Transactions::default(),
            threads: Threads::new(&config.core, streams),
            llc_banks: vec![Cycle(0); config.extras.llc_banks as usize],
            llc_bank_busy: config.extras.llc_bank_busy.cycles(config.core.clock.period_fs()),
            scans: [Scan::default(); 3],
            scan_shape: [(&config.l1, None), (&config.l2, None), (&config.llc, buffer)]
                .map(|(level, behind)| ScanShape::new(level, behind, config.extras.scan_tags)),
            wake_all: false,
            ahead_max: u64::MAX,
        }
    }

    /// When a lookup of a level (0, 1, 2 for the last) may begin that wants to at `at`.
    #[inline]
    pub(crate) fn look_up_at(&self, level: usize, at: Cycle) -> Cycle {
        self.scans[level].between_sets(at)
    }

    /// The caches that a thread uses: those of its core.
    #[inline]
    pub(super) fn lane(&self, core: u8) -> usize {
        usize::from(self.threads.core_of[usize::from(core)])
    }

    /// The parts that the two threads of a core share. Only for threads that do.
    #[inline]
    pub(crate) fn shared(&mut self, core: u8) -> &mut Shared {
        let core = self.lane(core);
        &mut self.threads.shared[core]
    }

    /// Whether a thread may dispatch in this cycle: threads take turns, and one has the other's
    /// turn where that had nothing to dispatch.
    pub(crate) fn has_turn(&mut self, core: u8, thread: u8, now: Cycle) -> bool {
        let other_wants = self.shared(core).wants[usize::from(1 - thread)];
        now.0 % 2 == u64::from(thread) || !other_wants
    }

    pub(crate) fn wants_turn(&mut self, core: u8, thread: u8, wants: bool) {
        self.shared(core).wants[usize::from(thread)] = wants;
    }

    /// How many instructions a thread may retire in this cycle, of `width` for its core.
    pub(crate) fn retire_slots(&mut self, core: u8, now: Cycle, width: u32) -> u32 {
        let retired = &mut self.shared(core).retired;
        if retired.0 != now {
            *retired = (now, 0);
        }
        width - retired.1
    }

    pub(crate) fn retired(&mut self, core: u8, count: u32) {
        self.shared(core).retired.1 += count;
    }

    /// When a lookup in the last level may begin that wants to at `at`.
    #[inline]
    fn bank_of_llc(&mut self, line: LineAddr, at: Cycle) -> Cycle {
        let at = self.look_up_at(2, at);
        if self.llc_banks.is_empty() {
            return at;
        }
        let bank = (line.0 % self.llc_banks.len() as u64) as usize;
        let begins = at.max(self.llc_banks[bank]);
        self.llc_banks[bank] = begins.plus(self.llc_bank_busy);
        begins
    }

    #[inline]
    pub(crate) fn now(&self) -> Cycle {
        self.below.wheel.now()
    }

    #[inline]
    pub(crate) fn schedule(&mut self, at: Cycle, event: Event) {
        self.below.wheel.schedule(at, event);
    }

    /// Starts a miss of a core's first level on its way.
    #[inline]
    pub(crate) fn start_miss(&mut self, core: u8, miss: u8, line: LineAddr) {
        let Latencies { l1, l2, llc, .. } = self.latencies;
        let now = self.now();
        if self.has_l2 {
            let at = self.look_up_at(1, now.plus(l1)).plus(l2);
            self.schedule(at, Event::SecondLevel { core, miss });
        } else {
            let at = self.bank_of_llc(line, now.plus(l1)).plus(llc);
            self.schedule(at, Event::LastLevel { core, miss });
        }
    }

    /// The second level was looked up: whether the line is here now.
    pub(crate) fn second_level(&mut self, waiting: Waiting) -> bool {
        let Waiting { core, miss, line, want, .. } = waiting;
        if self.caches.second_level_serves(self.lane(core), line, want) {
            return self.arrive(waiting);
        }
        let at = self.bank_of_llc(line, self.now()).plus(self.latencies.llc);
        self.schedule(at, Event::LastLevel { core, miss });
        false
    }

    /// The last level was looked up: whether the line is here now.
    pub(crate) fn last_level(&mut self, waiting: Waiting) -> bool {
        let Waiting { core, miss, line, want, .. } = waiting;
        match self.caches.nearest(self.lane(core), line, want) {
            Nearest::Private | Nearest::Shared => self.arrive(waiting),
            Nearest::Peer if self.latencies.snoop == 0 => self.arrive(waiting),
            Nearest::Peer => {
                let at = self.now().plus(self.latencies.snoop);
                self.schedule(at, Event::Arrival { core, miss });
                false
            }
            Nearest::Memory => {
                self.ask_memory(waiting);
                false
            }
        }
    }

    fn ask_memory(&mut self, waiting: Waiting) {
        let Waiting { core, miss, line, want, .. } = waiting;
        if self.misses.join(line, (core, miss)) {
            return;
        }
        let cause = match want {
            _ if line >= PAGE_TABLE => ReadCause::Walk,
            Want::Read => ReadCause::Load,
            Want::Write => ReadCause::Store,
        };
        let buffered = self.caches.place_in_buffer(line);
        let below = &mut self.below;
        if !self.misses.open(line, (core, miss), || below.send_read(line, cause, core, buffered)) {
            self.parked.push_back(waiting);
        }
    }

    /// A read's data is back. Returns the misses that waited for it; give the list back to
    /// [`recycle`](Self::recycle).
    pub(crate) fn read_done(&mut self, read: u32) -> Vec<(u8, u8)> {
        let waiters = self.misses.close(read);
        self.below.forget_read(read);
        if let Some(parked) = self.parked.pop_front() {
            self.ask_memory(parked);
        }
        waiters
    }

    pub(crate) fn recycle(&mut self, waiters: Vec<(u8, u8)>) {
        self.misses.recycle(waiters);
    }

    /// A line arrives at its core: whether it could be filled in now.
    pub(crate) fn arrive(&mut self, waiting: Waiting) -> bool {
        let Waiting { core, line, want, from_memory, .. } = waiting;
        if !from_memory && self.caches.nearest(self.lane(core), line, want) == Nearest::Memory {
            self.ask_memory(waiting); // It was evicted meanwhile.
            return false;
        }
        if self.below.write_buffer_is_full() {
            self.stalled.push_back(waiting);
            return false;
        }
        self.caches.bring(self.lane(core), line, want, &mut self.below);
        true
    }

    /// A line that was stalled and can be filled in now.
    pub(crate) fn next_unstalled(&mut self) -> Option<Waiting> {
        if self.below.write_buffer_is_full() {
            return None;
        }
        self.stalled.pop_front()
    }

    /// Performs a store to a line that the core owns. False when the scheme wants it to wait.
    #[inline]
    pub(crate) fn store(&mut self, core: u8, slot: Slot, at: PoolOffset, bytes: &[u8]) -> bool {
        let lane = self.lane(core);
        let now = self.below.wheel.now();
        let (old, before, dirty) = self.caches.first_level(lane, slot);
        let mut tag = before;
        if self.below.is_volatile(at.line()) {
            self.caches.store_here(lane, slot, at, bytes, &mut self.below);
            return true;
        }
        let newer = dirty || S::SEES_BELOW && self.caches.is_dirty_below(lane, at.line());
        let seen = StoreSeen { at, old, new: bytes, dirty, newer };
        let MemorySystem { scheme, outbox, pages, .. } = &mut self.below;
        let page = if keeps_bits::<S>() { pages.of(at.0) } else { None };
        if scheme.store(now, LaneId(core.into()), &seen, &mut tag, page, outbox) == Answer::Wait {
            return false;
        }
        if tag != before {
            self.caches.set_first_level_tag(lane, slot, tag);
            if S::SEES_BELOW {
                self.caches.set_tags_below(lane, at.line(), tag);
            }
        }
        self.caches.store_here(lane, slot, at, bytes, &mut self.below);
        true
    }

    /// A line leaves a core's private levels: what is done to it is done in the last one.
    pub(crate) fn hand_down(&mut self, core: u8, line: LineAddr) {
        self.caches.hand_down(self.lane(core), line, &mut self.below);
    }

    /// The line in the core's first level, ready for a store; counts the first time.
    #[inline]
    pub(crate) fn look_up(
        &mut self,
        core: u8,
        line: LineAddr,
        want: Want,
        first_time: bool,
    ) -> Option<Slot> {
        if !first_time {
            return self.caches.find(self.lane(core), line, want);
        }
        match self.caches.look_up(self.lane(core), line, want) {
            Found::Here(slot) => Some(slot),
            Found::NotHere => None,
        }
    }

    /// A flush has passed all levels. An acknowledgement follows in any case.
    pub(crate) fn flush(&mut self, core: u8, kind: FlushKind, line: LineAddr) {
        self.below.next_origin = Origin::Core(core);
        let dirty = self.caches.flush(kind, line, &mut self.below);
        self.below.next_origin = Origin::None;
        if !dirty && !self.below.waits_for_write(core, line) {
            let now = self.now();
            self.schedule(now, Event::Acknowledged { core });
        }
    }

    /// Whether nothing is under way that left the core's write-combining buffer for its threads,
    /// or any buffer for no particular core.
    pub(crate) fn streams_are_done(&self, core: u8) -> bool {
        self.below.loose_streams == 0 && self.below.shared_streams[self.lane(core)] == 0
    }

    /// A non-temporal word enters the core's write-combining buffer. Returns how many lines left
    /// it: each will be acknowledged.
    pub(crate) fn stream(&mut self, core: u8, at: PoolOffset, word: &[u8; 8]) -> u32 {
        let mut data: LineBytes = [0; 64];
        data[at.in_line() & !7..][..8].copy_from_slice(word);
        self.note_streamed(at.line(), 1 << (at.in_line() / 8), &data);
        let (displaced, complete) = self.caches.combine(self.lane(core), at, word, &mut self.below);
        let mut sent = 0;
        for leaving in [displaced, complete].into_iter().flatten() {
            sent += self.send_stream(core, &leaving);
        }
        sent
    }

    /// Empties the core's write-combining buffer; see [`stream`](Self::stream).
    pub(crate) fn drain_streams(&mut self, core: u8) -> u32 {
        let mut sent = 0;
        while let Some(leaving) = self.caches.take_oldest_stream(self.lane(core)) {
            sent += self.send_stream(core, &leaving);
        }
        sent
    }

    /// A direct store of a whole line; it will be acknowledged.
    pub(crate) fn stream_line(&mut self, core: u8, line: LineAddr, data: &LineBytes) {
        self.note_streamed(line, u8::MAX, data);
        self.caches.displace_for_direct_store(self.lane(core), line, &mut self.below);
        self.send_streamed(line, u8::MAX, data, Origin::Core(core));
    }

    fn note_streamed(&mut self, line: LineAddr, words: u8, data: &LineBytes) {
        let is_volatile = self.below.is_volatile(line);
        if let Some(journal) = self.below.journal.as_mut().filter(|_| !is_volatile) {
            journal.streamed(line, words, data);
        }
    }

    fn send_streamed(&mut self, line: LineAddr, words: u8, data: &LineBytes, origin: Origin) {
        self.below.send_write(line, words, data, Cause::Streamed, origin, S::Tag::default());
    }

    /// Threads of a core share its write-combining buffer, and so the wait for what leaves it.
    /// Returns how many acknowledgements the sender gets.
    fn send_stream(&mut self, core: u8, leaving: &Leaving) -> u32 {
        let Leaving { line, words, data, .. } = leaving;
        if self.threads.share_a_core(core) {
            let core = self.lane(core);
            self.below.shared_streams[core] += 1;
            let origin = Origin::Threads(core as u8);
            self.send_streamed(*line, *words, data, origin);
            return 0;
        }
        self.send_streamed(*line, *words, data, Origin::Core(core));
        1
    }

    /// Tells the scheme of a mark that travels with the stores. False when it has to wait.
    pub(crate) fn scheme_mark(&mut self, core: u8, mark: Mark) -> bool {
        let (now, lane) = (self.now(), LaneId(core.into()));
        let (scheme, outbox) = (&mut self.below.scheme, &mut self.below.outbox);
        let answer = match mark {
            Mark::TxBegin => scheme.begin(now, lane, outbox),
            Mark::TxEnd => scheme.end(now, lane, outbox),
            Mark::Epoch => scheme.epoch(now, lane, outbox),
            _ => Answer::Proceed,
        };
        match (mark, answer) {
            (_, Answer::Wait) => return false,
            (Mark::TxBegin, _) => self.below.transactions.begin(lane),
            (Mark::TxEnd, _) => self.below.transactions.end(lane),
            _ => {}
        }
        true
    }

    /// A transaction's first mark retires.
    pub(crate) fn transaction_begins(&mut self, core: u8) {
        let (core, now) = (usize::from(core), self.now());
        let begun = &mut self.transactions.begun;
        if begun.len() <= core {
            begun.resize(core + 1, None);
        }
        // One that runs again after a conflict has begun already.
        begun[core].get_or_insert(now);
    }

    fn transaction_acknowledged(&mut self, core: u8) {
        let now = self.now();
        let begun = self.transactions.begun.get_mut(usize::from(core));
        if let Some(begun) = begun.and_then(Option::take) {
            if let Some(timeline) = &mut self.below.timeline {
                timeline.transaction(core, begun, now);
            }
            self.transactions.cycles.push(now.since(begun));
        }
    }

    /// A core gives up its transaction, whose stores are all in the caches. False when it has to
    /// wait for the scheme.
    pub(crate) fn transaction_aborts(&mut self, core: u8) -> bool {
        let (now, lane) = (self.now(), LaneId(core.into()));
        let (scheme, outbox) = (&mut self.below.scheme, &mut self.below.outbox);
        if scheme.abort(now, lane, outbox) == Answer::Wait {
            return false;
        }
        self.serve_discards(); // The core's next load, in this very cycle, finds nothing of it.
        self.below.transactions.end(lane);
        if let Some(begun) = self.transactions.begun.get_mut(usize::from(core)) {
            *begun = None;
        }
        true
    }

    pub(crate) fn take_tx_cycles(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.transactions.cycles)
    }

    /// Tries to pass a mark that is in order with everything. False when it has to wait.
    pub(crate) fn pass(&mut self, core: u8, mark: Mark) -> bool {
        let reached = |of: &FxHashMap<u64, u64>, id| of.get(&id).copied().unwrap_or(0);
        match mark {
            Mark::Lock { id, ticket } => return reached(&self.order.released, id) + 1 >= ticket,
            Mark::Wait { id, count } => return reached(&self.order.signals, id) >= count,
            Mark::Unlock { id, ticket } => {
                // Where work resumes, marks of what ran before the crash come in any order.
                let released = self.order.released.entry(id).or_default();
                *released = (*released).max(ticket);
                self.wake_all = true;
            }
            Mark::Signal { id, count } => {
                let signal = self.order.signals.entry(id).or_default();
                *signal = (*signal).max(count);
                self.wake_all = true;
            }
            Mark::Ack(tx) => {
                self.transaction_acknowledged(core);
                let now = self.now();
                if let Some(journal) = &mut self.below.journal {
                    journal.acknowledge(now, tx);
                }
            }
            Mark::TxBegin | Mark::TxEnd | Mark::TxAbort | Mark::Epoch => {}
        }
        true
    }

    /// Whether something came up that the owner has to see to before time goes on.
    #[inline]
    pub(crate) fn needs_attention(&self) -> bool {
        self.has_work() | self.below.stop.is_waited_for
    }

    /// Whether that is more than to see whether all cores stand.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        // One test for all, since it is almost always in vain.
        let MemorySystem { room, streams_done, outbox, .. } = &self.below;
        self.wake_all | room | streams_done | !outbox.is_empty()
    }

    /// Does what the scheme asked for.
    #[cold]
    pub(crate) fn serve_outbox(&mut self) {
        while !self.below.outbox.is_empty() {
            self.serve_discards();
            self.below.serve_outbox();
            let now = self.now();
            for line in std::mem::take(&mut self.below.outbox.forced) {
                self.caches.force(line, Cause::Forced, &mut self.below);
            }
            for level in std::mem::take(&mut self.below.outbox.scans) {
                let index = usize::from(level.clamp(1, 3)) - 1;
                self.scans[index] = self.scan_shape[index].begin(now);
                let MemorySystem { scheme, outbox, .. } = &mut self.below;
                self.caches.scan(level, |line, dirty, tag| {
                    scheme.scanned(now, level, line, dirty, tag, outbox);
                });
            }
            self.serve_flushes();
            self.serve_stops();
            self.wake_all |= std::mem::take(&mut self.below.outbox.wake);
        }
    }

    /// Whether nothing is on its way anywhere below the cores.
    pub(crate) fn is_idle(&self) -> bool {
        self.below.is_idle() && self.parked.is_empty() && self.stalled.is_empty()
    }
}
