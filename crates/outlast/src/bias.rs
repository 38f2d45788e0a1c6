//! Pages that one lane has to itself until another wants something there.
//!
//! A lock for each line costs most of what threads lose that never meet: locked instructions, lock
//! words that are not in the cache, reads looked at twice. Therefore each page of the pool is *biased*
//! towards the lane that comes to it first: that lane takes no locks there and remembers no reads. When
//! another lane comes the bias is *revoked*, once and for good: from then on the page is *shared*, and
//! its lines are locked one by one.
//!
//! A revocation costs more than a thousand locks: it interrupts the other core. So a lane that has lost
//! more than a few of its pages, or loses them faster than its commits save locks, loses all, at the
//! price of one, and gets no others: what it works on is not its own.
//!
//! * **BIAS-1** Who relies on a bias looks at the page's word inside the [gate](crate::gate). Who
//!   revokes it says so in that word, and then waits until the lane has been outside once, or has put
//!   a commit in place. A full fence lies between the two steps on both sides, so either the lane sees
//!   the revocation or its transaction is waited for.
//! * **BIAS-2** What the lane has pending from before (PENDING-1) holds no locks there: the page becomes
//!   shared when that is durable and in place.
//! * **BIAS-3** Lock words do not know what was stored under a bias. The page's word says since when
//!   it is shared: the clock, raised to the lane's last number. No line of it counts as older, so a
//!   view from before is renewed, and a number is above it (NUMBER-1).
//! * **BIAS-4** No lane waits for a revocation inside a transaction: where it would have to, it gives up,
//!   and waits before it runs again. Two lanes that want each other's pages get both. And no lane waits
//!   long: a transaction without a closure, which ends when its caller likes, relies on no bias.
//! * **BIAS-5** A lane that is given back leaves its pages to the first lane that comes, with what BIAS-3 says.
//!   When the first lane is taken while there are no others, all are free again.
//!
//! Only where lanes draw their numbers by themselves and lock what they have stored when they commit.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LINE_BYTES, LineAddr};

use crate::ack::AsyncTicket;
use crate::plant::Plant;
use crate::pool::Pool;
use crate::spin::SpinLock;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64};

/// Lines in a page, as a power of two.
const LINES_SHIFT: u32 = 6;

/// Most pages that are told apart. Those of larger pools share words.
const PAGES_MAX: u64 = 1 << 20;

/// A lane loses all its pages when it has lost more than this many, and more than one in
/// [`LOST_ONE_IN`] of those it took.
const LOST_MIN: u32 = 32;
const LOST_ONE_IN: u32 = 8;

/// And when it has lost more than the first, and one for each of the second in lines of its log: on a large pool, most
/// of which each lane comes to first somewhere, the share of what was taken stays small for long.
const LOST_AT_ONCE: u64 = 128;
const LINES_FOR_ONE: u64 = 256;

/// Which lane has which page to itself.
pub(crate) struct Bias {
    words: Box<[AtomicU64]>,
    lanes: Box<[LanePages]>,
    /// Pages of lanes that were given back, which are not free.
    left: SpinLock<Vec<Page>>,
}

/// The fate of a lane's pages.
#[derive(Default)]
struct LanePages {
    taken: AtomicU32,
    lost: AtomicU32,
    /// Where its log ended when it took the first.
    from: AtomicU64,
    /// It takes no more.
    shares_all: AtomicBool,
    /// Its transaction relies on no bias, and need not be waited for.
    relies_on_none: AtomicBool,
}

/// A page's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Page(u32);

/// Who has a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// The first lane that comes, if its view is not older than that.
    Free { since: u64 },
    /// One lane, to itself.
    Lane(usize),
    /// That lane no longer, if it has looked since.
    Revoked(usize),
    /// All, by locks, since the clock said that.
    Shared { since: u64 },
}

/// Of a page's word: which of these, below everything else.
const KIND_BITS: u32 = 2;

/// Whose bias a transaction relies on that relies on none.
pub(crate) const NO_LANE: usize = usize::MAX >> KIND_BITS;

impl Holder {
    #[inline]
    fn to_word(self) -> u64 {
        match self {
            Self::Free { since } => since << KIND_BITS,
            Self::Lane(id) => (id as u64) << KIND_BITS | 1,
            Self::Revoked(id) => (id as u64) << KIND_BITS | 2,
            Self::Shared { since } => since << KIND_BITS | 3,
        }
    }

    #[inline]
    fn of_word(word: u64) -> Self {
        let rest = word >> KIND_BITS;
        match word & 3 {
            0 => Self::Free { since: rest },
            1 => Self::Lane(rest as usize),
            2 => Self::Revoked(rest as usize),
            _ => Self::Shared { since: rest },
        }
    }
}

impl Bias {
    /// For a pool of that length. Where there is none, everything is shared.
    pub fn new(is_there: bool, lanes: usize, len: u64) -> Self {
        let pages = len.div_ceil(LINE_BYTES << LINES_SHIFT).next_power_of_two().min(PAGES_MAX);
        let words = match is_there {
            #[cfg(not(all(test, outlast_loom)))]
            true => bytemuck::zeroed_slice_box(pages as usize),
            #[cfg(all(test, outlast_loom))]
            true => (0..pages).map(|_| AtomicU64::new(0)).collect(),
            false => Box::new([AtomicU64::new(Holder::Shared { since: 0 }.to_word())]) as Box<[_]>,
        };
        let lanes = (0..lanes).map(|_| LanePages::default()).collect();
        Self { words, lanes, left: SpinLock::default() }
    }

    /// Whether lanes can have anything to themselves.
    #[inline]
    pub fn is_there(&self) -> bool {
        self.words.len() > 1
    }

    #[inline]
    pub fn page(&self, line: LineAddr) -> Page {
        Page((line.0 >> LINES_SHIFT) as u32 & (self.words.len() - 1) as u32)
    }

    #[inline]
    fn word(&self, page: Page) -> &AtomicU64 {
        &self.words[page.0 as usize & (self.words.len() - 1)]
    }

    #[inline]
    pub fn holder(&self, page: Page) -> Holder {
        Holder::of_word(self.word(page).load(Ordering::SeqCst))
    }

    /// BIAS-1: whether the lane has the line's page to itself.
    #[inline]
    pub fn is_of(&self, line: LineAddr, lane: usize) -> bool {
        self.word(self.page(line)).load(Ordering::SeqCst) == Holder::Lane(lane).to_word()
    }

    /// The range's first line in each of its pages.
    #[inline]
    pub fn first_in_pages(range: ByteRange) -> impl Iterator<Item = LineAddr> {
        let mut next = range.at.line().0;
        let end = range.end().0.div_ceil(LINE_BYTES);
        std::iter::from_fn(move || {
            let line = (next < end).then_some(LineAddr(next))?;
            next = ((next >> LINES_SHIFT) + 1) << LINES_SHIFT;
            Some(line)
        })
    }

    /// Whether another lane than this has a page of the range to itself.
    pub fn is_anothers(&self, range: ByteRange, lane: usize) -> bool {
        let mut pages = Self::first_in_pages(range).map(|line| self.page(line));
        pages.any(|page| matches!(self.holder(page), Holder::Lane(id) if id != lane))
    }

    /// A free page becomes that lane's, whose log ends at `head`, or shared. `None` when it is
    /// taken by now.
    pub fn take(&self, page: Page, since: u64, lane: usize, head: u64) -> Option<Holder> {
        let of_lane = self.lanes.get(lane).filter(|of| !of.shares_all.load(Ordering::Relaxed));
        let holder = match of_lane {
            Some(_) => Holder::Lane(lane),
            None => Holder::Shared { since },
        };
        if !self.swap(page, Holder::Free { since }, holder) {
            return None;
        }
        if let Some(of_lane) = of_lane
            && of_lane.taken.fetch_add(1, Ordering::Relaxed) == 0
        {
            of_lane.from.store(head, Ordering::Relaxed);
        }
        Some(holder)
    }

    /// BIAS-1: the page is no longer that lane's, when that has looked.
    pub fn revoke(&self, page: Page, lane: usize) -> bool {
        let is_revoked = self.swap(page, Holder::Lane(lane), Holder::Revoked(lane));
        if is_revoked {
            self.lanes[lane].lost.fetch_add(1, Ordering::Relaxed);
        }
        is_revoked
    }

    fn swap(&self, page: Page, from: Holder, to: Holder) -> bool {
        let (from, to) = (from.to_word(), to.to_word());
        let word = self.word(page);
        word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Whether the lane, whose log ends at `head`, has lost enough pages to lose all, and has
    /// them still.
    fn has_lost_too_many(&self, lane: usize, head: u64) -> bool {
        let LanePages { taken, lost, from, shares_all, .. } = &self.lanes[lane];
        let lost = lost.load(Ordering::Relaxed);
        let lines = head.saturating_sub(from.load(Ordering::Relaxed));
        let are_many = lost > LOST_MIN && lost > taken.load(Ordering::Relaxed) / LOST_ONE_IN;
        let come_fast = u64::from(lost) > LOST_AT_ONCE + lines / LINES_FOR_ONE;
        (are_many || come_fast) && !shares_all.load(Ordering::Relaxed)
    }

    /// Whether the lane is to lose all its pages; true once.
    fn loses_all(&self, lane: usize, head: u64) -> bool {
        let shares_all = &self.lanes[lane].shares_all;
        self.has_lost_too_many(lane, head) && !shares_all.swap(true, Ordering::Relaxed)
    }

    /// BIAS-1: no page is that lane's any longer, when it has looked. Returns which it had.
    fn revoke_all(&self, lane: usize) -> impl Iterator<Item = Page> + '_ {
        let pages = (0..self.words.len() as u32).map(Page);
        pages.filter(move |page| {
            self.holder(*page) == Holder::Lane(lane) && self.revoke(*page, lane)
        })
    }

    /// BIAS-5: a lane is given back that came to these pages first, and the clock says that.
    pub fn given_back<M: Medium>(
        &self,
        medium: &M,
        lane: usize,
        pages: impl Iterator<Item = Page>,
        since: u64,
    ) {
        let is_left = |page: &Page| !self.swap(*page, Holder::Lane(lane), Holder::Free { since });
        self.left.lock(medium).extend(pages.filter(is_left));
        let LanePages { taken, lost, from: _, shares_all, relies_on_none } = &self.lanes[lane];
        taken.store(0, Ordering::Relaxed);
        lost.store(0, Ordering::Relaxed);
        shares_all.store(false, Ordering::Relaxed);
        relies_on_none.store(false, Ordering::SeqCst);
    }

    /// BIAS-4: whether the lane's transaction relies on no bias. Said by the lane itself, outside the gate.
    pub fn rely_on_none(&self, lane: usize, on_none: bool) {
        self.lanes[lane].relies_on_none.store(on_none, Ordering::SeqCst);
    }

    /// Whether it does. These words and the pages' are all sequentially consistent: who has revoked a page
    /// and then sees this need not be told more, since a transaction that relies on something begins behind
    /// the lane's word that it does and looks at the page afterwards.
    pub fn relies_on_none(&self, lane: usize) -> bool {
        self.lanes[lane].relies_on_none.load(Ordering::SeqCst)
    }

    /// BIAS-5: there are no lanes.
    pub fn forget<M: Medium>(&self, medium: &M) {
        let free = Holder::Free { since: 0 }.to_word();
        for page in self.left.lock(medium).drain(..) {
            self.word(page).store(free, Ordering::SeqCst);
        }
    }
}

impl<M: Medium> Pool<M> {
    /// BIAS-1 to BIAS-3: a page whose bias was revoked becomes shared. The caller's lane has no transaction.
    /// Where this thread has one on another lane, that could be waited for by the lane that is waited for
    /// here: then this only looks, and the next one that comes to the page does so again.
    #[cold]
    pub(crate) fn share(&self, page: Page) {
        let Holder::Revoked(owner) = self.bias.holder(page) else { return };
        let mut pages = vec![page];
        if self.bias.loses_all(owner, self.log_end(owner)) {
            pages.extend(self.bias.revoke_all(owner));
        }
        let has_let_go = self.io().plants(Plant::BiasBelieved) || self.has_let_go(owner);
        let lane = &self.lanes[owner];
        if self.gate.is_inside() {
            if has_let_go && lane.parked.pending() == 0 {
                self.become_shared(owner, &pages);
            } else {
                self.make_way();
            }
            return;
        }
        if !has_let_go {
            // The number is stored when a commit has put everything in place.
            let last = &lane.shared.last_installed;
            let count = || (last.load(Ordering::Acquire), self.bias.relies_on_none(owner));
            self.gate.await_outside_since(&self.medium, owner, count);
        }
        let batch = lane.parked.pending();
        if batch != 0 && !self.io().plants(Plant::BiasStaysPending) {
            // On a medium that has failed the batch is dropped, and no transaction follows.
            let _ = self.make_durable(AsyncTicket { lane: owner as u32, batch });
        }
        self.become_shared(owner, &pages);
    }

    /// The same inside a transaction of lane `own`, which does not rely on its own bias there if that
    /// is whose it was. `false` where it would have to wait.
    pub(crate) fn share_at_once(&self, page: Page, own: usize) -> bool {
        let Holder::Revoked(owner) = self.bias.holder(page) else { return true };
        if self.bias.has_lost_too_many(owner, self.log_end(owner)) {
            return false;
        }
        let is_over =
            owner == own || self.io().plants(Plant::BiasBelieved) || self.has_let_go(owner);
        let is_at_once = is_over && self.lanes[owner].parked.pending() == 0;
        if is_at_once {
            self.become_shared(owner, &[page]);
        }
        is_at_once
    }

    /// Where a lane's log ends that is in place: how much it has committed.
    fn log_end(&self, lane: usize) -> u64 {
        self.lanes[lane].shared.installed.load(Ordering::Relaxed)
    }

    /// Whether the lane has no transaction now that could rely on what was revoked before.
    fn has_let_go(&self, owner: usize) -> bool {
        self.gate.is_outside(owner) || self.bias.relies_on_none(owner)
    }

    /// Whether this thread has a transaction of the lane open that relies on its bias.
    pub(crate) fn is_relied_on_here(&self, owner: usize) -> bool {
        self.gate.is_this_thread_in(owner) && !self.bias.relies_on_none(owner)
    }

    /// BIAS-3: the clock, which counts what the lane has stored under its biases.
    pub(crate) fn clock_behind(&self, lane: usize) -> u64 {
        self.raise_clock(self.lanes[lane].shared.last_installed.load(Ordering::Acquire));
        match self.io().plants(Plant::BiasNotCounted) {
            true => 0,
            false => self.clock.load(Ordering::SeqCst),
        }
    }

    fn become_shared(&self, owner: usize, pages: &[Page]) {
        let since = self.clock_behind(owner);
        for page in pages {
            self.bias.swap(*page, Holder::Revoked(owner), Holder::Shared { since });
        }
    }
}

#[cfg(all(test, outlast_loom))]
mod modelled {
    use loom::cell::UnsafeCell;
    use loom::sync::{Arc, Mutex};
    use outlast_pmem::Heap;

    use super::*;
    use crate::gate::Gate;

    const LINE: LineAddr = LineAddr(1 << LINES_SHIFT);

    /// BIAS-1: a lane relies on its bias inside the gate; another revokes it, waits, and takes locks.
    fn revoke_beside_the_lane(gate: fn(usize) -> Gate) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || {
            let bias = Bias::new(true, 2, 4 * LINE_BYTES << LINES_SHIFT);
            let page = bias.page(LINE);
            bias.take(page, 0, 0, 0).unwrap();
            let shared = Arc::new((bias, gate(2), Mutex::new(()), UnsafeCell::new(0)));
            let owner = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let (bias, gate, lock, memory) = &*shared;
                    gate.enter(&Heap::new(64), 0);
                    match bias.holder(page) {
                        Holder::Lane(0) => memory.with_mut(|_| ()),
                        Holder::Shared { .. } => {
                            let _locked = lock.lock().unwrap();
                            memory.with_mut(|_| ());
                        }
                        // It gives up.
                        _ => {}
                    }
                    gate.leave(0);
                })
            };
            let (bias, gate, lock, memory) = &*shared;
            assert!(bias.revoke(page, 0));
            gate.await_outside(&Heap::new(64), 0);
            assert!(bias.swap(page, Holder::Revoked(0), Holder::Shared { since: 1 }));
            {
                let _locked = lock.lock().unwrap();
                memory.with_mut(|_| ());
            }
            owner.join().unwrap();
        });
    }

    #[test]
    fn loom_a_lane_whose_bias_is_revoked_is_waited_for() {
        revoke_beside_the_lane(Gate::new);
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn loom_a_bias_without_its_fence_is_found() {
        revoke_beside_the_lane(Gate::without_fences);
    }
}

#[cfg(all(test, not(outlast_loom)))]
mod tests {
    use outlast_pmem::Heap;
    use outlast_trace::PoolOffset;

    use super::*;
    use crate::medium::{CreateOptions, OpenOptions};
    use crate::pool::Lane;
    use crate::{BlockKind, Runner, Scheme, Transact};

    const PAGE_BYTES: u64 = LINE_BYTES << LINES_SHIFT;

    /// A pool of two lanes, and a block of `pages` pages.
    fn pool_of(pages: u64) -> (Pool<Heap>, PoolOffset) {
        let create = CreateOptions { lanes: 2, ..CreateOptions::default() };
        let heap_bytes = if cfg!(miri) { 512 << 10 } else { 8 << 20 };
        let open = OpenOptions { lock_stripes: 1 << 10, ..OpenOptions::with_scheme(Scheme::Swift) };
        let pool = Pool::create_on(Heap::new(heap_bytes + 4 * pages * PAGE_BYTES), &create, &open)
            .unwrap();
        let block = pool.lane().unwrap().run(|tx| {
            let block = tx.alloc(pages * PAGE_BYTES, BlockKind::General)?;
            tx.store(block, &vec![0; (pages * PAGE_BYTES) as usize])?;
            Ok(block)
        });
        (pool, block.unwrap())
    }

    #[test]
    fn a_range_has_a_line_in_each_of_its_pages() {
        let first_in_pages = |line, lines: u64| {
            let range = ByteRange::new(LineAddr(line).start(), lines * LINE_BYTES);
            Bias::first_in_pages(range).map(|line| line.0).collect::<Vec<_>>()
        };
        assert_eq!(first_in_pages(60, 10), [60, 64]);
        assert_eq!(first_in_pages(64, 64), [64]);
        assert_eq!(first_in_pages(63, 130), [63, 64, 128, 192]);
        assert_eq!(first_in_pages(5, 0), [0; 0]);
    }

    fn touch(lane: &mut Lane<'_, Heap>, block: PoolOffset, page: u64) {
        let at = block.plus(page * PAGE_BYTES);
        lane.run(|tx| tx.load_u64(at).and_then(|value| tx.store_u64(at, value + 1))).unwrap();
    }

    fn holders(pool: &Pool<Heap>, block: PoolOffset, pages: u64) -> Vec<Holder> {
        let lines = (0..pages).map(|page| block.plus(page * PAGE_BYTES).line());
        lines.map(|line| pool.bias.holder(pool.bias.page(line))).collect()
    }

    #[test]
    fn a_page_is_the_first_lanes_and_then_everybodys() {
        let (pool, block) = pool_of(4);
        let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
        touch(&mut one, block, 0);
        assert_eq!(holders(&pool, block, 1), [Holder::Free { since: 0 }], "it is alone");
        touch(&mut two, block, 1);
        touch(&mut one, block, 2);
        touch(&mut two, block, 3);
        let [free, two_s, one_s, _] = holders(&pool, block, 4)[..] else { unreachable!() };
        assert_eq!(free, Holder::Free { since: 0 });
        assert_eq!((one_s, two_s), (Holder::Lane(0), Holder::Lane(1)));
        touch(&mut one, block, 1);
        let Holder::Shared { since } = holders(&pool, block, 2)[1] else {
            panic!("both have stored to it")
        };
        assert!(since > 0, "something was stored there before");
        drop(two);
        let left = holders(&pool, block, 4)[3];
        assert!(matches!(left, Holder::Free { since: then } if then >= since), "{left:?}");
        drop(one);
        let _one = pool.lane().unwrap();
        let is_free = |holder: &Holder| matches!(holder, Holder::Free { .. });
        assert!(holders(&pool, block, 4).iter().all(is_free), "it is alone again");
    }

    /// Few of those it has: of 1,600 pages up to 150.
    #[test]
    #[cfg_attr(miri, ignore = "hundreds of pages take minutes there")]
    fn a_lane_that_loses_pages_faster_than_it_commits_loses_all() {
        for commits_between in [0, 2 * LINES_FOR_ONE] {
            let (pages, lost) = (1600, LOST_AT_ONCE + 22);
            let (pool, block) = pool_of(pages + 2);
            let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
            touch(&mut two, block, pages + 1);
            (0..pages).for_each(|page| touch(&mut one, block, page));
            let is_ones = || holders(&pool, block, pages)[pages as usize - 1] == Holder::Lane(0);
            for page in 0..lost {
                touch(&mut two, block, page);
                assert!(is_ones() || page > LOST_AT_ONCE, "after {page}");
                (0..commits_between).for_each(|_| touch(&mut one, block, pages - 1));
            }
            assert_eq!(is_ones(), commits_between > 0);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "hundreds of pages take minutes there")]
    fn a_lane_that_loses_many_pages_loses_all_and_takes_no_others() {
        let (pool, block) = pool_of(200);
        let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
        touch(&mut two, block, 199);
        (0..150).for_each(|page| touch(&mut one, block, page));
        let is_ones = |holder: &&Holder| **holder == Holder::Lane(0);
        assert_eq!(holders(&pool, block, 200).iter().filter(is_ones).count(), 150);
        for page in 0..u64::from(LOST_MIN) {
            touch(&mut two, block, page);
            assert_eq!(holders(&pool, block, 200)[149], Holder::Lane(0), "after {page}");
        }
        touch(&mut two, block, u64::from(LOST_MIN));
        assert_eq!(holders(&pool, block, 200).iter().filter(is_ones).count(), 0);
        touch(&mut one, block, 160);
        assert!(matches!(holders(&pool, block, 200)[160], Holder::Shared { .. }));
    }

    #[test]
    fn a_transaction_without_a_closure_has_nothing_to_itself() {
        let (pool, block) = pool_of(2);
        let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
        touch(&mut two, block, 1);
        touch(&mut one, block, 0);
        let mut open = one.begin();
        assert_eq!(open.load_u64(block).unwrap(), 1);
        touch(&mut two, block, 0);
        assert!(matches!(open.load_u64(block), Err(crate::Abort::Conflict)), "it has changed");
        let one = open.abort();
        drop((one, two));

        // Nor does any lane wait for it.
        let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
        touch(&mut two, block, 1);
        touch(&mut one, block, 0);
        assert_eq!(holders(&pool, block, 1), [Holder::Lane(0)]);
        let open = one.begin();
        let mut other = two.begin();
        assert_eq!(other.load_u64(block).unwrap(), 3);
        assert!(matches!(holders(&pool, block, 1)[0], Holder::Shared { .. }));
        one = open.abort();
        touch(&mut one, block, 1);
        assert!(!pool.bias.relies_on_none(0));
    }
}
