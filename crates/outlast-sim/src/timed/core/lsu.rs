//! A core's load-store unit: translation, forwarding, the first level's misses, the store
//! buffer, flushes under way.

mod drain;
mod walk;

use super::store_queue::{Store, StoreKind, StoreQueue};
use crate::{
    hierarchy::Want,
    timed::{
        config::MachineConfig,
        event::Event,
        miss::{Misses, Opened},
        ports::Scheme,
        prefetch::Prefetcher,
        stats::{CoreStats, Lost},
        time::Cycle,
        tlb::{Tlb, Translation},
        uncore::{Uncore, Waiting},
    },
};
use outlast_trace::{FlushKind, LineAddr, PoolOffset};
use std::collections::VecDeque;

/// Page table entries lie above all memory that programs and schemes use: 8 bytes a page.
pub const PAGE_TABLE: LineAddr = LineAddr(1 << 50);

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

pub(in crate::timed) struct Lsu {
    core: u8,
    tlb: Tlb,
    translate: bool,
    l2_tlb_cycles: u64,
    walk_cycles: u64,
    flush_cycles: u64,
    walks: Vec<Walk>,
    waiting_walks: VecDeque<(u64, Walker)>,
    /// Walks that are at their end and whose page the scheme did not let in.
    delayed_walks: Vec<u8>,
    pub(in crate::timed) misses: Misses,
    /// Loads and walks that found no miss register free.
    parked: VecDeque<u16>,
    pub(in crate::timed) loads: Vec<Load>,
    /// Loads that wait for the data of a store, by its number.
    wait_for_store: Vec<(u16, u64)>,
    pub(super) stores: StoreQueue,
    store_ports: u32,
    /// Locked instructions store in the last level.
    llc_atomics: bool,
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
    pub(in crate::timed) fn new(core: u8, config: &MachineConfig, keeps_bits: bool) -> Self {
        let period = config.core.clock.period_fs();
        let loads = config.core.load_queue as usize;
        let levels = [config.l1.latency, config.l2.latency, config.llc.latency];
        let used = if config.l2.size.0 > 0 { [0, 1, 2].as_slice() } else { &[0, 2] };
        Self {
            core,
            tlb: Tlb::new(&config.tlb, keeps_bits),
            translate: config.tlb.page.0 > 0,
            l2_tlb_cycles: config.tlb.l2_latency.cycles(period),
            walk_cycles: config.tlb.walk_latency.cycles(period),
            flush_cycles: used.iter().map(|&level| levels[level].cycles(period)).sum(),
            walks: vec![Walk::default(); config.tlb.walkers as usize],
            waiting_walks: VecDeque::new(),
            delayed_walks: Vec::new(),
            misses: Misses::new(config.l1.mshrs, loads + config.tlb.walkers as usize),
            parked: VecDeque::new(),
            loads: vec![Load::default(); loads],
            wait_for_store: Vec::new(),
            stores: StoreQueue::new(config.core.store_queue),
            store_ports: config.core.store_ports,
            llc_atomics: config.extras.llc_atomics,
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

    /// How the store of a locked instruction leaves the store buffer.
    #[inline]
    pub(super) fn locked_store(&self) -> StoreKind {
        if self.llc_atomics { StoreKind::Atomic } else { StoreKind::Store }
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

    /// An access that was told of a free miss register and did not need it lets the next one ask.
    #[inline]
    fn pass_on<S: Scheme>(&mut self, up: &mut Uncore<S>) {
        if !self.parked.is_empty() && self.misses.has_room() {
            self.unpark(up);
        }
    }

    /// The subject of a miss of this core.
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
