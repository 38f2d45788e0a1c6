//! Translation: the TLB, and walks for what it does not hold.

use super::{Lsu, PAGE_TABLE, Walker};
use crate::{
    hierarchy::Want,
    timed::{
        event::Event,
        miss::Opened,
        ports::{Scheme, keeps_bits},
        tlb::Translation,
        uncore::Uncore,
    },
};
use outlast_trace::LaneId;

impl Lsu {
    /// Translates a store's address: how many cycles that takes, or the walk's end will tell.
    #[inline]
    pub(in crate::timed::core) fn translate_store<S: Scheme>(
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

    /// The TLB sees an access, without time. Returns the page if a walk had to find it.
    pub(in crate::timed) fn learn_page(&mut self, at: u64) -> Option<u64> {
        if !self.translate {
            return None;
        }
        let page = self.tlb.page(at);
        if self.tlb.look_up(page) != Translation::Missing {
            return None;
        }
        self.tlb.install(page);
        while self.tlb.take_left().is_some() {}
        Some(page)
    }

    pub(super) fn walk<S: Scheme>(&mut self, page: u64, waiter: Walker, up: &mut Uncore<S>) {
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
        let now = up.now();
        let page = self.walks[usize::from(walk)].page.expect("only a walk under way ends");
        if keeps_bits::<S>()
            && let Some(leaving) = self.tlb.leaves_for(page)
            && !up.below.page_may_leave(now, leaving)
        {
            self.delayed_walks.push(walk);
            return Vec::new();
        }
        let walk = &mut self.walks[usize::from(walk)];
        walk.page = None;
        let waiters = std::mem::take(&mut walk.waiters);
        self.tlb.install(page);
        let mut bits = match keeps_bits::<S>() {
            true => up.below.page_enters(page),
            false => S::Page::default(),
        };
        let (scheme, outbox) = (&mut up.below.scheme, &mut up.below.outbox);
        scheme.translated(now, LaneId(self.core.into()), page, &mut bits, outbox);
        if keeps_bits::<S>() {
            up.below.set_page(page, bits);
        }
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

    /// Walks whose page the scheme did not let in ask again.
    pub(in crate::timed) fn retry_walks<S: Scheme>(&mut self, up: &mut Uncore<S>) {
        let (core, now) = (self.core, up.now());
        for walk in self.delayed_walks.drain(..) {
            up.schedule(now, Event::WalkDone { core, walk });
        }
    }

    /// Tells the scheme of pages that left the TLB.
    pub(super) fn tell_of_pages<S: Scheme>(&mut self, up: &mut Uncore<S>) {
        let (now, lane) = (up.now(), LaneId(self.core.into()));
        while let Some(page) = self.tlb.take_left() {
            let (scheme, outbox) = (&mut up.below.scheme, &mut up.below.outbox);
            scheme.untranslated(now, lane, page, outbox);
            if keeps_bits::<S>() {
                up.below.page_left(page);
            }
        }
    }

    /// Whether a waiter of a miss is a walk, and which.
    #[inline]
    pub(in crate::timed) fn as_walk(&self, waiter: u16) -> Option<u8> {
        usize::from(waiter).checked_sub(self.loads.len()).map(|walk| walk as u8)
    }
}
