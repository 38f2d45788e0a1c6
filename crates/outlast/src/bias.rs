//! Regions that one lane has to itself until another wants something there.
//!
//! A lock for each line costs most of what threads lose that never meet: locked instructions, lock
//! words that are not in the cache, reads looked at twice. Therefore the pool is cut into *regions*,
//! as long as a chunk of the heap, each *biased* towards the lane that comes to it first: that lane
//! takes no locks there and remembers no reads. When another lane comes the bias is *revoked*, once
//! and for good: from then on the region is *shared*, and its lines are locked one by one.
//!
//! * **X1** Who relies on a bias looks at the region's word inside the [gate](crate::gate). Who
//!   revokes it says so in that word, and then waits until the lane has been outside once. A full
//!   fence lies between the two steps on both sides, so either the lane sees the revocation or its
//!   transaction is waited for.
//! * **X2** What the lane has pending from before (D1) holds no locks there: the region becomes
//!   shared when that is durable and in place.
//! * **X3** Lock words do not know what was stored under a bias. The region's word says since when
//!   it is shared: the clock, raised to the lane's last number. No line of it counts as older, so a
//!   view from before is renewed, and a number is above it (N1).
//! * **X4** Nobody waits for a revocation inside a transaction: it gives up, revokes, and runs again.
//!   Two lanes that want each other's regions get both.
//! * **X5** A lane that is given back leaves its regions to whoever comes first, with what X3 says.
//!   When the first lane is taken while there are no others, all are nobody's again.
//!
//! Only where lanes draw their numbers by themselves and lock what they have stored when they commit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, LineAddr};

use crate::ack::AsyncTicket;
use crate::layout::Geometry;
use crate::plant::Plant;
use crate::pool::Pool;

/// Most regions that are told apart. Those of larger pools share words.
const REGIONS_MAX: u64 = 1 << 20;

/// Which lane has which region to itself.
pub(crate) struct Bias {
    words: Box<[AtomicU64]>,
    /// Of the number of lines in a region.
    shift: u32,
    is_used: AtomicBool,
}

/// A region's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Region(u32);

/// Who has a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// Whoever comes first, if its view is not older than that.
    Nobody { since: u64 },
    /// One lane, to itself.
    Lane(usize),
    /// That lane no longer, if it has looked since.
    Revoked(usize),
    /// All, by locks, since the clock said that.
    Shared { since: u64 },
}

const KIND_BITS: u32 = 2;

impl Holder {
    #[inline]
    fn to_word(self) -> u64 {
        match self {
            Self::Nobody { since } => since << KIND_BITS,
            Self::Lane(id) => (id as u64) << KIND_BITS | 1,
            Self::Revoked(id) => (id as u64) << KIND_BITS | 2,
            Self::Shared { since } => since << KIND_BITS | 3,
        }
    }

    #[inline]
    fn of_word(word: u64) -> Self {
        let rest = word >> KIND_BITS;
        match word & 3 {
            0 => Self::Nobody { since: rest },
            1 => Self::Lane(rest as usize),
            2 => Self::Revoked(rest as usize),
            _ => Self::Shared { since: rest },
        }
    }
}

impl Bias {
    /// For a pool of that geometry and length. Where there is none, everything is shared.
    pub fn new(is_there: bool, geometry: &Geometry, len: u64) -> Self {
        let lines = geometry.chunk_bytes / LINE_BYTES;
        let regions = len.div_ceil(geometry.chunk_bytes).next_power_of_two().min(REGIONS_MAX);
        let words = match is_there {
            true => bytemuck::zeroed_slice_box(regions as usize),
            false => Box::new([AtomicU64::new(Holder::Shared { since: 0 }.to_word())]) as Box<[_]>,
        };
        Self { words, shift: lines.ilog2(), is_used: AtomicBool::new(false) }
    }

    #[inline]
    pub fn region(&self, line: LineAddr) -> Region {
        Region((line.0 >> self.shift) as u32 & (self.words.len() - 1) as u32)
    }

    #[inline]
    fn word(&self, region: Region) -> &AtomicU64 {
        &self.words[region.0 as usize & (self.words.len() - 1)]
    }

    #[inline]
    pub fn holder(&self, region: Region) -> Holder {
        Holder::of_word(self.word(region).load(Ordering::SeqCst))
    }

    /// X1: whether the lane has the line's region to itself.
    #[inline]
    pub fn is_of(&self, line: LineAddr, lane: usize) -> bool {
        self.word(self.region(line)).load(Ordering::SeqCst) == Holder::Lane(lane).to_word()
    }

    /// Whether another lane than this has the line's region to itself.
    pub fn is_anothers(&self, line: LineAddr, lane: usize) -> bool {
        matches!(self.holder(self.region(line)), Holder::Lane(id) if id != lane)
    }

    /// Nobody's region becomes that lane's.
    pub fn take(&self, region: Region, since: u64, lane: usize) -> bool {
        self.is_used.store(true, Ordering::Relaxed);
        self.swap(region, Holder::Nobody { since }, Holder::Lane(lane))
    }

    /// X1: the region is no longer that lane's, when that has looked.
    pub fn revoke(&self, region: Region, lane: usize) -> bool {
        self.swap(region, Holder::Lane(lane), Holder::Revoked(lane))
    }

    fn swap(&self, region: Region, from: Holder, to: Holder) -> bool {
        let (from, to) = (from.to_word(), to.to_word());
        let word = self.word(region);
        word.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// X5: lane `id` is given back, and the clock says that.
    pub fn given_back(&self, lane: usize, since: u64) {
        if self.is_used.load(Ordering::Relaxed) {
            for region in (0..self.words.len() as u32).map(Region) {
                if self.holder(region) == Holder::Lane(lane) {
                    self.swap(region, Holder::Lane(lane), Holder::Nobody { since });
                }
            }
        }
    }

    /// X5: there are no lanes.
    pub fn forget(&self) {
        if self.is_used.swap(false, Ordering::Relaxed) {
            self.words.iter().for_each(|word| word.store(0, Ordering::SeqCst));
        }
    }
}

impl<M: Medium> Pool<M> {
    /// X1 to X3: a region whose bias was revoked becomes shared. The caller's lane has no transaction.
    /// Where this thread has one on another lane, that could be waited for by whoever is waited for
    /// here: then this only looks, and whoever comes to the region again does so again.
    #[cold]
    pub(crate) fn share(&self, region: Region) {
        let Holder::Revoked(owner) = self.bias.holder(region) else { return };
        if !self.io().plants(Plant::BiasBelieved) {
            if self.gate.is_inside() {
                if !self.gate.is_outside(owner) {
                    return;
                }
            } else {
                self.gate.await_outside(&self.medium, owner);
            }
        }
        let lane = &self.lanes[owner];
        let batch = lane.parked.pending();
        if batch != 0 && !self.io().plants(Plant::BiasStaysPending) {
            self.await_durable(AsyncTicket { lane: owner as u32, batch });
        }
        self.raise_clock(lane.shared.last_installed.load(Ordering::Acquire));
        let since = match self.io().plants(Plant::BiasNotCounted) {
            true => 0,
            false => self.clock.load(Ordering::SeqCst),
        };
        self.bias.swap(region, Holder::Revoked(owner), Holder::Shared { since });
    }
}
