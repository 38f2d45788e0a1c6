//! Pages: a scheme's bits in TLB entries, and the moment when a page leaves the last of them.
//!
//! Entries of one page in several TLBs have the same bits, as if a store's change went to all of them
//! at once. Where a scheme keeps bits, the second level of each TLB is inclusive, so that a page
//! leaves a TLB at the end of a walk and at no other time. The walk then waits with its entry in
//! hand until the scheme lets the page go.

use super::{Answer, Scheme};
use crate::timed::{memory_system::MemorySystem, time::Cycle};
use rustc_hash::FxHashMap;

/// Whether a scheme keeps something in TLB entries.
pub(in crate::timed) const fn keeps_bits<S: Scheme>() -> bool {
    size_of::<S::Page>() > 0
}

/// Pages that some TLB holds: how many do, and the bits beside them.
#[derive(Debug)]
pub(in crate::timed) struct Pages<P> {
    held: FxHashMap<u64, (u32, P)>,
    shift: u32,
}

impl<P: Default> Pages<P> {
    /// No TLB holds any. `bytes` is the size of a page; 0 where nothing is translated.
    pub(in crate::timed) fn new(bytes: u64) -> Self {
        Self { held: FxHashMap::default(), shift: bytes.max(1).trailing_zeros() }
    }

    /// The bits of the page that holds a byte, where a TLB holds it.
    #[inline]
    pub(in crate::timed) fn of(&mut self, at: u64) -> Option<&mut P> {
        self.held.get_mut(&(at >> self.shift)).map(|(_, bits)| bits)
    }
}

impl<S: Scheme> MemorySystem<S> {
    /// Whether a page that is about to leave a TLB may do so.
    pub(in crate::timed) fn page_may_leave(&mut self, now: Cycle, page: u64) -> bool {
        match self.pages.held.get_mut(&page) {
            Some((1, bits)) => {
                self.scheme.page_leaves(now, page, bits, &mut self.outbox) == Answer::Proceed
            }
            _ => true,
        }
    }

    /// The bits of a page that a TLB takes in.
    pub(in crate::timed) fn page_enters(&mut self, page: u64) -> S::Page {
        let (tlbs, bits) = self.pages.held.entry(page).or_default();
        *tlbs += 1;
        *bits
    }

    /// The bits of a page as the scheme has changed them.
    pub(in crate::timed) fn set_page(&mut self, page: u64, new: S::Page) {
        if let Some((_, bits)) = self.pages.held.get_mut(&page) {
            *bits = new;
        }
    }

    /// A page has left a TLB.
    pub(in crate::timed) fn page_left(&mut self, page: u64) {
        if let Some((tlbs, _)) = self.pages.held.get_mut(&page) {
            *tlbs -= 1;
            if *tlbs == 0 {
                self.pages.held.remove(&page);
            }
        }
    }
}
