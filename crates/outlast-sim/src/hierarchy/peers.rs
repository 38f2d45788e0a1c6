//! Coherence: what one lane's access does to the copies of the others.

use super::{Hierarchy, Lane};
use crate::{
    cache::{Contents, Evicted, LineTag, Slot},
    config::Inclusion,
    hierarchy::Backing,
};
use outlast_trace::LineAddr;

impl<T: LineTag> Hierarchy<T> {
    /// A lane that shares a line wants to store to it: every other copy goes. They are clean
    /// (C1), so only the shared level of an exclusive machine can hold something newer than
    /// memory; the lane takes that duty over.
    pub(super) fn upgrade(&mut self, lane: usize, line: LineAddr, slot: Slot) {
        let taken = self.take_from_peers(lane, line);
        debug_assert!(!taken.is_some_and(|peer| peer.dirty), "{line} was dirty beside a sharer");
        if self.take_duty_from_llc(line) {
            self.lanes[lane].l1.set_dirty(slot);
        }
        self.lanes[lane].set_owned(line, true);
    }

    /// In an exclusive machine, takes the line out of the shared level; true when it was dirty
    /// there, and memory therefore still has to get it.
    pub(super) fn take_duty_from_llc(&mut self, line: LineAddr) -> bool {
        match self.inclusion {
            Inclusion::Inclusive => false,
            Inclusion::Exclusive => self.llc.remove(line).is_some_and(|llc| llc.dirty),
        }
    }

    /// Takes the line out of every other lane. What comes back carries the dirty data, if any.
    pub(super) fn take_from_peers(&mut self, lane: usize, line: LineAddr) -> Option<Contents<T>> {
        let mut taken: Option<Contents<T>> = None;
        for peer in peers(&mut self.lanes, lane) {
            if let Some(contents) = peer.take(line) {
                taken = Some(match taken {
                    Some(other) if other.dirty => other,
                    _ => contents,
                });
            }
        }
        self.traffic.transfers += u64::from(taken.is_some());
        taken
    }

    /// Makes every other lane's copy a shared one, and returns it if there is one. Dirty
    /// data goes to the shared level, which is responsible for it from here on.
    pub(super) fn share_with_peers<B: Backing<T>>(
        &mut self,
        lane: usize,
        line: LineAddr,
        below: &mut B,
    ) -> Option<Contents<T>> {
        let mut shared: Option<Contents<T>> = None;
        for peer in peers(&mut self.lanes, lane) {
            if let Some(contents) = peer.newest(line) {
                peer.clean(line, &contents.data);
                peer.set_owned(line, false);
                shared = Some(contents);
                if contents.owned {
                    break; // C1: no other lane has it.
                }
            }
        }
        let contents = shared?;
        self.traffic.transfers += 1;
        if contents.dirty && !self.transfers_forget_dirt {
            self.put_into_llc(Evicted { line, contents }, below);
        }
        Some(contents)
    }
}

/// All lanes but `lane`.
fn peers<T>(lanes: &mut [Lane<T>], lane: usize) -> impl Iterator<Item = &mut Lane<T>> {
    let (before, after) = lanes.split_at_mut(lane);
    before.iter_mut().chain(&mut after[1..])
}
