//! A core's load-store unit: translation, forwarding, the first level's misses, the store
//! buffer, flushes under way.

use super::store_queue::{Store, StoreKind, StoreQueue};
use crate::{
    hierarchy::Want,
    timed::{
        config::MachineConfig,
        event::Event,
        miss::{Misses, Opened},
        prefetch::Prefetcher,
        scheme::Scheme,
        stats::{CoreStats, Lost},
        time::Cycle,
        tlb::{Tlb, Translation},
        uncore::{Uncore, Waiting},
    },
};
use outlast_trace::{FlushKind, LaneId, LineAddr, PoolOffset};
use std::collections::VecDeque;

/// Page table entries lie above all memory that programs use: 8 bytes a page.
pub(in crate::timed) const PAGE_TABLE: LineAddr = LineAddr(1 << 50);

/// A load in the load queue.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::timed) struct Load {
    pub(in crate::timed) at: u64,
    /// Its instruction's place in the reorder buffer.
    pub(in crate::timed) owner: u16,
    /// Stores from this number on are younger.
    pub(in crate::timed) before: u64,
    translated: bool,
    /// A walk translated it; it found no miss register free; it waited for a bank.
    pub(super) walked: bool,
    pub(super) queued: bool,
    banked: bool,
    /// The caches were asked once, which is counted.
    asked: bool,
}

impl Load {
    pub(in crate::timed) fn new(at: u64, owner: u16, before: u64) -> Self {
        Self { at, owner, before, ..Self::default() }
    }
}

/// The bank of a word.
fn bank(at: u64, banks: usize) -> usize {
    (at / 8) as usize % banks
}

/// Who waits for a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::timed) enum Walker {
    Load(u16),
    Store(u16),
}

#[derive(Clone, Debug, Default)]
struct Walk {
    page: Option<u64>,
    waiters: Vec<Walker>,
}

/// What the oldest store needs before it can be drained.
enum Step {
    Drained,
    Stuck,
    /// The next cycle will do.
    Later,
}

pub(in crate::timed) struct Lsu {
    core: u8,
    tlb: Tlb,
    translate: bool,
    l2_tlb_cycles: u64,
    walk_cycles: u64,
    flush_cycles: u64,
    walks: Vec<Walk>,
    waiting_walks: VecDeque<(u64, Walker)>,
    pub(in crate::timed) misses: Misses,
    /// Loads and walks that found no miss register free.
    parked: VecDeque<u16>,
    pub(in crate::timed) loads: Vec<Load>,
    /// Loads that wait for the data of a store, by its number.
    wait_for_store: Vec<(u16, u64)>,
    pub(super) stores: StoreQueue,
    store_ports: u32,
    /// The oldest store waits for something that will be told.
    pub(in crate::timed) stuck: bool,
    /// Why it does or did last.
    pub(super) stuck_on: Lost,
    /// When each bank of the first level is free; none where they are not modelled.
    banks: Vec<Cycle>,
    prefetcher: Option<Box<Prefetcher>>,
    prefetch_depth: u64,
    prefetched: u64,
    flushes: Vec<Option<(FlushKind, LineAddr)>>,
    /// Flushes and streamed lines that are not acknowledged.
    pub(in crate::timed) pending: u32,
    pub(in crate::timed) stats: CoreStats,
}

impl Lsu {
    pub(in crate::timed) fn new(core: u8, config: &MachineConfig) -> Self {
        let period = config.core.clock.period_fs();
        let loads = config.core.load_queue as usize;
        let levels = [config.l1.latency, config.l2.latency, config.llc.latency];
        let used = if config.l2.size.0 > 0 { [0, 1, 2].as_slice() } else { &[0, 2] };
        Self {
            core,
            tlb: Tlb::new(&config.tlb),
            translate: config.tlb.page.0 > 0,
            l2_tlb_cycles: config.tlb.l2_latency.cycles(period),
            walk_cycles: config.tlb.walk_latency.cycles(period),
            flush_cycles: used.iter().map(|&level| levels[level].cycles(period)).sum(),
            walks: vec![Walk::default(); config.tlb.walkers as usize],
            waiting_walks: VecDeque::new(),
            misses: Misses::new(config.l1.mshrs, loads + config.tlb.walkers as usize),
            parked: VecDeque::new(),
            loads: vec![Load::default(); loads],
            wait_for_store: Vec::new(),
            stores: StoreQueue::new(config.core.store_queue),
            store_ports: config.core.store_ports,
            stuck: false,
            stuck_on: Lost::StoreBuffer,
            banks: vec![Cycle(0); config.extras.l1_banks as usize],
            prefetcher: Prefetcher::new(config.extras.prefetch),
            prefetch_depth: config.core.store_prefetch.into(),
            prefetched: 0,
            flushes: vec![None; config.core.flushes as usize],
            pending: 0,
            stats: CoreStats::default(),
        }
    }

    /// Lets a load ask for its value. Returns when it is known, or an event will tell.
    #[inline]
    pub(super) fn load<S: Scheme>(
        &mut self,
        number: u16,
        now: Cycle,
        up: &mut Uncore<S>,
    ) -> Option<Cycle> {
        let load = self.loads[usize::from(number)];
        if self.translate && !load.translated {
            let page = self.tlb.page(load.at);
            match self.tlb.look_up(page) {
                Translation::First => {}
                Translation::Second => {
                    self.stats.tlb_misses += 1;
                    self.loads[usize::from(number)].translated = true;
                    self.tell_of_pages(up);
                    let event = Event::Load { core: self.core, load: number };
                    up.schedule(now.plus(self.l2_tlb_cycles), event);
                    return None;
                }
                Translation::Missing => {
                    self.stats.tlb_misses += 1;
                    self.loads[usize::from(number)].walked = true;
                    self.walk(page, Walker::Load(number), up);
                    return None;
                }
            }
            self.loads[usize::from(number)].translated = true;
        }
        if let Some((store, ready)) = self.stores.youngest_to(load.at, load.before) {
            if ready == Cycle::NEVER {
                self.wait_for_store.push((number, store));
                return None;
            }
            self.stats.loads += 1;
            self.stats.forwarded += 1;
            return Some(now.max(ready).plus(up.latencies.l1));
        }
        self.ask_caches(number, now, up)
    }

    #[inline]
    fn ask_caches<S: Scheme>(
        &mut self,
        number: u16,
        now: Cycle,
        up: &mut Uncore<S>,
    ) -> Option<Cycle> {
        let scanned_until = up.look_up_at(0, now);
        if scanned_until > now {
            up.schedule(scanned_until, Event::Load { core: self.core, load: number });
            return None;
        }
        if !self.banks.is_empty()
            && let Some(at) = self.waits_for_bank(number, now)
        {
            up.schedule(at, Event::Load { core: self.core, load: number });
            return None;
        }
        let load = &mut self.loads[usize::from(number)];
        let line = PoolOffset(load.at).line();
        let first_time = !std::mem::replace(&mut load.asked, true);
        self.stats.loads += u64::from(first_time);
        if first_time && self.prefetcher.is_some() {
            let known = up.look_up(self.core, line, Want::Read, true);
            let done = match known {
                Some(_) => Some(now.plus(up.latencies.l1)),
                None => self.open_miss(number, line, up),
            };
            self.prefetch_stride(line, up);
            return done;
        }
        if up.look_up(self.core, line, Want::Read, first_time).is_some() {
            self.pass_on(up);
            return Some(now.plus(up.latencies.l1));
        }
        self.open_miss(number, line, up)
    }

    #[inline]
    fn open_miss<S: Scheme>(
        &mut self,
        number: u16,
        line: LineAddr,
        up: &mut Uncore<S>,
    ) -> Option<Cycle> {
        match self.misses.open(line, Want::Read, Some(number)) {
            Opened::New(miss) => up.start_miss(self.core, miss, line),
            Opened::Merged => {
                self.stats.merged_misses += 1;
                self.pass_on(up);
            }
            Opened::Full => {
                self.loads[usize::from(number)].queued = true;
                self.parked.push_back(number);
            }
        }
        None
    }

    /// When a load that has not had its bank may have it, unless that is now.
    fn waits_for_bank(&mut self, number: u16, now: Cycle) -> Option<Cycle> {
        let load = &mut self.loads[usize::from(number)];
        if load.banked || load.asked {
            return None;
        }
        load.banked = true;
        let bank = bank(load.at, self.banks.len());
        let at = self.banks[bank].max(now);
        self.banks[bank] = at.next();
        self.stats.bank_conflicts += u64::from(at > now);
        (at > now).then_some(at)
    }

    /// Whether a store finds its bank free now; it has it then.
    fn takes_bank(&mut self, at: u64, now: Cycle) -> bool {
        if self.banks.is_empty() {
            return true;
        }
        let bank = bank(at, self.banks.len());
        let free = self.banks[bank] <= now;
        if free {
            self.banks[bank] = now.next();
        } else {
            self.stats.bank_conflicts += 1;
        }
        free
    }

    fn prefetch_stride<S: Scheme>(&mut self, line: LineAddr, up: &mut Uncore<S>) {
        let Some(prefetcher) = &mut self.prefetcher else { return };
        for target in prefetcher.touch(line) {
            if self.misses.has_room()
                && up.look_up(self.core, target, Want::Read, false).is_none()
                && let Opened::New(miss) = self.misses.open(target, Want::Read, None)
            {
                self.stats.prefetches += 1;
                up.start_miss(self.core, miss, target);
            }
        }
    }

    /// Whoever was told of a free miss register and did not need it lets the next one ask.
    #[inline]
    fn pass_on<S: Scheme>(&mut self, up: &mut Uncore<S>) {
        if !self.parked.is_empty() && self.misses.has_room() {
            self.unpark(up);
        }
    }

    /// Translates a store's address: how many cycles that takes, or the walk's end will tell.
    #[inline]
    pub(super) fn translate_store<S: Scheme>(
        &mut self,
        at: u64,
        owner: u16,
        up: &mut Uncore<S>,
    ) -> Option<u64> {
        if !self.translate {
            return Some(0);
        }
        let page = self.tlb.page(at);
        match self.tlb.look_up(page) {
            Translation::First => Some(0),
            Translation::Second => {
                self.stats.tlb_misses += 1;
                self.tell_of_pages(up);
                Some(self.l2_tlb_cycles)
            }
            Translation::Missing => {
                self.stats.tlb_misses += 1;
                self.walk(page, Walker::Store(owner), up);
                None
            }
        }
    }

    fn walk<S: Scheme>(&mut self, page: u64, waiter: Walker, up: &mut Uncore<S>) {
        if let Some(walk) = self.walks.iter_mut().find(|walk| walk.page == Some(page)) {
            walk.waiters.push(waiter);
            return;
        }
        let Some(free) = self.walks.iter().position(|walk| walk.page.is_none()) else {
            self.waiting_walks.push_back((page, waiter));
            return;
        };
        self.stats.walks += 1;
        self.walks[free].page = Some(page);
        self.walks[free].waiters.push(waiter);
        let at = up.now().plus(self.walk_cycles);
        up.schedule(at, Event::WalkRead { core: self.core, walk: free as u8 });
    }

    /// A walk asks for its page table entry.
    pub(in crate::timed) fn walk_read<S: Scheme>(&mut self, walk: u8, up: &mut Uncore<S>) {
        let page = self.walks[usize::from(walk)].page.expect("only a walk under way reads");
        let line = PAGE_TABLE.plus(page / 8);
        if up.look_up(self.core, line, Want::Read, false).is_some() {
            let at = up.now().plus(up.latencies.l1);
            up.schedule(at, Event::WalkDone { core: self.core, walk });
            self.pass_on(up);
            return;
        }
        let waiter = self.loads.len() as u16 + u16::from(walk);
        match self.misses.open(line, Want::Read, Some(waiter)) {
            Opened::New(miss) => up.start_miss(self.core, miss, line),
            Opened::Merged => self.pass_on(up),
            Opened::Full => self.parked.push_back(waiter),
        }
    }

    /// A walk's entry is here. Returns the owners of stores that waited; loads ask again.
    pub(in crate::timed) fn walk_done<S: Scheme>(
        &mut self,
        walk: u8,
        up: &mut Uncore<S>,
    ) -> Vec<u16> {
        let walk = &mut self.walks[usize::from(walk)];
        let page = walk.page.take().expect("only a walk under way ends");
        let waiters = std::mem::take(&mut walk.waiters);
        self.tlb.install(page);
        let now = up.now();
        let (scheme, outbox) = (&mut up.below.scheme, &mut up.below.outbox);
        scheme.translated(now, LaneId(self.core.into()), page, outbox);
        self.tell_of_pages(up);
        let mut owners = Vec::new();
        for waiter in waiters {
            match waiter {
                Walker::Load(load) => {
                    self.loads[usize::from(load)].translated = true;
                    up.schedule(now, Event::Load { core: self.core, load });
                }
                Walker::Store(owner) => owners.push(owner),
            }
        }
        // Of those that waited for a walker, all that want the same page go together.
        if let Some(&(page, _)) = self.waiting_walks.front() {
            let mut waiting = std::mem::take(&mut self.waiting_walks);
            waiting.retain(|&(other, waiter)| {
                let same = other == page;
                if same {
                    self.walk(page, waiter, up);
                }
                !same
            });
            self.waiting_walks = waiting;
        }
        owners
    }

    /// Tells the scheme of pages that left the TLB.
    fn tell_of_pages<S: Scheme>(&mut self, up: &mut Uncore<S>) {
        let (now, lane) = (up.now(), LaneId(self.core.into()));
        while let Some(page) = self.tlb.take_left() {
            let (scheme, outbox) = (&mut up.below.scheme, &mut up.below.outbox);
            scheme.untranslated(now, lane, page, outbox);
        }
    }

    /// What a miss of this core is about.
    #[inline]
    pub(in crate::timed) fn waiting(&self, miss: u8, from_memory: bool) -> Waiting {
        let (line, want) = self.misses.line(miss);
        Waiting { core: self.core, miss, line, want, from_memory }
    }

    /// A miss register is free again: what was parked asks again.
    pub(in crate::timed) fn unpark<S: Scheme>(&mut self, up: &mut Uncore<S>) {
        if let Some(waiter) = self.parked.pop_front() {
            let (core, now) = (self.core, up.now());
            match usize::from(waiter).checked_sub(self.loads.len()) {
                None => up.schedule(now, Event::Load { core, load: waiter }),
                Some(walk) => up.schedule(now, Event::WalkRead { core, walk: walk as u8 }),
            }
        }
    }

    /// Whether a waiter of a miss is a walk, and which.
    #[inline]
    pub(in crate::timed) fn as_walk(&self, waiter: u16) -> Option<u8> {
        usize::from(waiter).checked_sub(self.loads.len()).map(|walk| walk as u8)
    }

    /// A store's address and data are there from `at` on.
    #[inline]
    pub(super) fn store_ready<S: Scheme>(&mut self, number: u64, at: Cycle, up: &mut Uncore<S>) {
        self.stores.get(number).ready = at;
        if self.wait_for_store.is_empty() {
            return;
        }
        let (core, at) = (self.core, at.max(up.now()));
        self.wait_for_store.retain(|&(load, store)| {
            if store == number {
                up.schedule(at, Event::Load { core, load });
            }
            store != number
        });
    }

    /// Whether the store buffer has something to drain and waits for nothing.
    #[inline]
    pub(super) fn can_drain(&self) -> bool {
        !self.stuck && self.stores.head < self.stores.senior
    }

    /// What a fence waits for that cannot retire yet.
    pub(super) fn fence_waits_for(&self) -> Lost {
        if self.stores.head == self.stores.senior {
            Lost::Flush
        } else if self.stuck && self.stuck_on != Lost::StoreBuffer {
            self.stuck_on
        } else {
            Lost::Fence
        }
    }

    /// Whether all retired stores are visible, and all flushes and streams acknowledged. What
    /// still sits in the write-combining buffer is sent off.
    pub(super) fn all_done<S: Scheme>(&mut self, up: &mut Uncore<S>) -> bool {
        if self.stores.head < self.stores.senior {
            return false;
        }
        self.pending += up.drain_streams(self.core);
        self.pending == 0 && up.streams_are_done(self.core)
    }

    /// Drains what the ports allow in this cycle, oldest first.
    #[inline]
    pub(super) fn drain<S: Scheme>(&mut self, up: &mut Uncore<S>) {
        for _ in 0..self.store_ports {
            if !self.can_drain() {
                break;
            }
            match self.drain_one(up) {
                Step::Drained => {}
                Step::Stuck => self.stuck = true,
                Step::Later => break,
            }
        }
        if self.stuck && self.prefetch_depth > 0 {
            self.prefetch(up);
        }
    }

    fn drain_one<S: Scheme>(&mut self, up: &mut Uncore<S>) -> Step {
        let number = self.stores.head;
        let store = *self.stores.get(number);
        let line = PoolOffset(store.at).line();
        let now = up.now();
        if store.kind == StoreKind::Store
            && !store.asked
            && (up.look_up_at(0, now) > now || !self.takes_bank(store.at, now))
        {
            return Step::Later;
        }
        let done = match store.kind {
            StoreKind::Store => self.drain_store(number, &store, up),
            StoreKind::StoreNt => {
                let sent = up.stream(self.core, PoolOffset(store.at), &store.value.to_le_bytes());
                self.pending += sent;
                true
            }
            StoreKind::Store64 => {
                up.stream_line(self.core, line, self.stores.line(number));
                self.pending += 1;
                true
            }
            StoreKind::Flush(kind) => self.drain_flush(number, kind, line, up),
            StoreKind::Mark(mark) => {
                self.stuck_on = Lost::Log;
                up.scheme_mark(self.core, mark)
            }
        };
        if !done {
            return Step::Stuck;
        }
        self.stores.pop();
        Step::Drained
    }

    #[inline]
    fn drain_store<S: Scheme>(&mut self, number: u64, store: &Store, up: &mut Uncore<S>) -> bool {
        let at = PoolOffset(store.at);
        let first_time = !std::mem::replace(&mut self.stores.get(number).asked, true);
        self.stats.stores += u64::from(first_time);
        match up.look_up(self.core, at.line(), Want::Write, first_time) {
            Some(slot) => {
                self.stuck_on = Lost::Log;
                up.store(self.core, slot, at, &store.value.to_le_bytes()[..store.len.into()])
            }
            None => {
                self.stuck_on = Lost::StoreBuffer;
                match self.misses.open(at.line(), Want::Write, None) {
                    Opened::New(miss) => up.start_miss(self.core, miss, at.line()),
                    Opened::Merged => self.stats.merged_misses += u64::from(first_time),
                    Opened::Full => self.stuck_on = Lost::QueueFull,
                }
                false
            }
        }
    }

    fn drain_flush<S: Scheme>(
        &mut self,
        number: u64,
        kind: FlushKind,
        line: LineAddr,
        up: &mut Uncore<S>,
    ) -> bool {
        // `clflush` is ordered with all writes: it starts and ends alone.
        let alone = kind == FlushKind::Clflush;
        self.stuck_on = Lost::Flush;
        if self.stores.get(number).asked {
            return self.pending == 0;
        }
        if alone && self.pending > 0 {
            return false;
        }
        if self.pending as usize >= self.flushes.len() {
            return false;
        }
        let Some(free) = self.flushes.iter().position(Option::is_none) else { return false };
        self.stats.flushes += 1;
        self.flushes[free] = Some((kind, line));
        let now = up.now();
        if let Some(timeline) = &mut up.below.timeline {
            timeline.flush_begins(self.core, free as u16, line, now);
        }
        self.pending += 1;
        let at = up.now().plus(self.flush_cycles);
        up.schedule(at, Event::Flush { core: self.core, flush: free as u16 });
        self.stores.get(number).asked = alone;
        !alone
    }

    /// A flush has passed all levels.
    pub(in crate::timed) fn flush_passes<S: Scheme>(&mut self, flush: u16, up: &mut Uncore<S>) {
        let slot = self.flushes[usize::from(flush)].take();
        let (kind, line) = slot.expect("only a flush under way passes");
        let now = up.now();
        if let Some(timeline) = &mut up.below.timeline {
            timeline.flush_passes(self.core, flush, now);
        }
        up.flush(self.core, kind, line);
    }

    /// Fetches lines for stores behind one that is stuck.
    fn prefetch<S: Scheme>(&mut self, up: &mut Uncore<S>) {
        let end = self.stores.senior.min(self.stores.head + 1 + self.prefetch_depth);
        self.prefetched = self.prefetched.max(self.stores.head + 1);
        while self.prefetched < end && self.misses.has_room() {
            let store = *self.stores.get(self.prefetched);
            let line = PoolOffset(store.at).line();
            self.prefetched += 1;
            if store.kind == StoreKind::Store
                && up.look_up(self.core, line, Want::Write, false).is_none()
                && let Opened::New(miss) = self.misses.open(line, Want::Write, None)
            {
                up.start_miss(self.core, miss, line);
            }
        }
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.stores.is_empty() && self.pending == 0 && self.misses.is_idle()
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "stores {}/{}/{}, stuck {}, pending {}, misses idle {}, parked {}",
            self.stores.head,
            self.stores.senior,
            self.stores.tail,
            self.stuck,
            self.pending,
            self.misses.is_idle(),
            self.parked.len()
        )
    }
}
