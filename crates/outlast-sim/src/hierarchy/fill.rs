//! How a line comes to a lane, and where what it displaces goes.

use super::{Backing, Hierarchy, Want};
use crate::{
    cache::{Contents, Evicted, LineBytes, LineTag, Slot},
    config::Inclusion,
};
use outlast_trace::LineAddr;

impl<T: LineTag> Hierarchy<T> {
    /// Brings a line that missed the lane's first level into it.
    pub(super) fn fill<B: Backing<T>>(
        &mut self,
        lane: usize,
        line: LineAddr,
        want: Want,
        below: &mut B,
    ) -> Slot {
        if self.streaming > 0 {
            self.stop_streaming(line, below); // C4
        }
        let contents = match self.inclusion {
            Inclusion::Inclusive => self.fetch_inclusive(lane, line, want, below),
            Inclusion::Exclusive => self.fetch_exclusive(lane, line, want, below),
        };
        let (slot, evicted) = self.lanes[lane].l1.install(line, &contents);
        if let Some(evicted) = evicted {
            self.leave_l1(lane, evicted, below);
        }
        slot
    }

    /// Finds the line below the first level and sees to it that every level below has it (C3).
    /// The lowest levels are filled first, since making room there may remove lines above.
    fn fetch_inclusive<B: Backing<T>>(
        &mut self,
        lane: usize,
        line: LineAddr,
        want: Want,
        below: &mut B,
    ) -> Contents<T> {
        if let Some(found) = self.find_in_l2(lane, line) {
            if want == Want::Write && !found.owned {
                self.take_from_peers(lane, line);
                self.lanes[lane].set_owned(line, true);
            }
            let owned = found.owned || want == Want::Write;
            return Contents { dirty: false, owned, ..found };
        }
        let peer = self.ask_peers(lane, line, want, below);
        let (data, tag) = match (peer, self.llc_slot(line, peer.is_some())) {
            (Some(peer), _) => (peer.data, peer.tag),
            (None, Some(slot)) => (*self.llc.data(slot), self.llc.tag(slot)),
            (None, None) => self.fill_llc_from_memory(line, below),
        };
        let owned = want == Want::Write || peer.is_none();
        // What another lane had dirty stays dirty, in the lowest private copy (C2).
        let mut dirty = peer.is_some_and(|peer| peer.dirty);
        if let Some(l2) = &mut self.lanes[lane].l2 {
            let (_, evicted) = l2.install(line, &Contents { data, dirty, owned, tag });
            dirty = false;
            if let Some(evicted) = evicted {
                self.leave_l2_inclusive(lane, evicted, below);
            }
        }
        Contents { data, dirty, owned, tag }
    }

    /// Finds the line below the first level and takes it from there, unless it is shared.
    fn fetch_exclusive<B: Backing<T>>(
        &mut self,
        lane: usize,
        line: LineAddr,
        want: Want,
        below: &mut B,
    ) -> Contents<T> {
        if self.find_in_l2(lane, line).is_some() {
            let l2 = self.lanes[lane].l2.as_mut();
            let mut found = l2.and_then(|l2| l2.remove(line)).expect("it was just found there");
            if want == Want::Write && !found.owned {
                self.take_from_peers(lane, line);
                found.dirty |= self.take_duty_from_llc(line);
                found.owned = true;
            }
            return found;
        }
        let peer = self.ask_peers(lane, line, want, below);
        let slot = self.llc_slot(line, peer.is_some());
        let owned = want == Want::Write || peer.is_none();
        match (peer, slot) {
            (Some(peer), _) if !owned => Contents { dirty: false, owned, ..peer },
            (Some(peer), _) => {
                let dirty = peer.dirty | self.take_duty_from_llc(line);
                Contents { dirty, owned, ..peer }
            }
            (None, Some(_)) => {
                let found = self.llc.remove(line).expect("it was just found there");
                Contents { owned, ..found }
            }
            (None, None) => {
                let (data, tag) = self.read_below(line, below);
                Contents { data, dirty: false, owned, tag }
            }
        }
    }

    fn find_in_l2(&mut self, lane: usize, line: LineAddr) -> Option<Contents<T>> {
        let l2 = self.lanes[lane].l2.as_mut()?;
        let slot = l2.access(line)?;
        Some(Contents {
            data: *l2.data(slot),
            dirty: l2.is_dirty(slot),
            owned: l2.is_owned(slot),
            tag: l2.tag(slot),
        })
    }

    /// The other lanes' copy: shared for a load (and clean then), taken for a store.
    fn ask_peers<B: Backing<T>>(
        &mut self,
        lane: usize,
        line: LineAddr,
        want: Want,
        below: &mut B,
    ) -> Option<Contents<T>> {
        if self.lanes.len() == 1 {
            return None;
        }
        match want {
            Want::Write => self.take_from_peers(lane, line),
            Want::Read => {
                let shared = self.share_with_peers(lane, line, below)?;
                Some(Contents { dirty: false, owned: false, ..shared })
            }
        }
    }

    /// The line in the shared level. It counts as an access only where no other lane supplied
    /// the line.
    fn llc_slot(&mut self, line: LineAddr, supplied: bool) -> Option<Slot> {
        if supplied { self.llc.probe(line) } else { self.llc.access(line) }
    }

    fn fill_llc_from_memory<B: Backing<T>>(
        &mut self,
        line: LineAddr,
        below: &mut B,
    ) -> (LineBytes, T) {
        let (data, tag) = self.read_below(line, below);
        self.install_in_llc(line, &Contents { data, dirty: false, owned: false, tag }, below);
        (data, tag)
    }

    /// A line was displaced from the lane's first level.
    fn leave_l1<B: Backing<T>>(&mut self, lane: usize, evicted: Evicted<T>, below: &mut B) {
        let Evicted { line, contents } = evicted;
        let Self { lanes, llc, inclusion, .. } = self;
        let private = &mut lanes[lane];
        private.l1.stats.write_backs += u64::from(contents.dirty);
        let has_l2 = private.l2.is_some();
        match (inclusion, &mut private.l2) {
            (Inclusion::Inclusive, _) if !contents.dirty => {}
            (Inclusion::Inclusive, l2) => {
                let lower = l2.as_mut().unwrap_or(llc);
                let slot = lower.probe(line).expect("C3: the level below holds it too");
                lower.take_over(slot, &contents);
                let level = if has_l2 { 2 } else { 3 };
                below.moved_down(level, line, &contents);
            }
            (Inclusion::Exclusive, Some(l2)) => {
                let displaced = l2.install(line, &contents).1;
                if contents.dirty {
                    below.moved_down(2, line, &contents);
                }
                if let (Some(evicted), Some(l2)) = (displaced, &mut private.l2) {
                    l2.stats.write_backs += u64::from(evicted.contents.dirty);
                    self.put_into_llc(evicted, below);
                }
            }
            (Inclusion::Exclusive, None) => self.put_into_llc(evicted, below),
        }
    }

    /// A line was displaced from the second level of an inclusive machine, and so leaves the
    /// first as well. The shared level gets what was newer.
    fn leave_l2_inclusive<B: Backing<T>>(
        &mut self,
        lane: usize,
        evicted: Evicted<T>,
        below: &mut B,
    ) {
        let Evicted { line, contents } = self.pull_down(lane, evicted);
        if contents.dirty {
            if let Some(l2) = &mut self.lanes[lane].l2 {
                l2.stats.write_backs += 1;
            }
            let slot = self.llc.probe(line).expect("C3: the shared level holds it too");
            self.llc.take_over(slot, &contents);
            below.moved_down(3, line, &contents);
        }
    }

    /// Puts a line, or newer bytes of it, into the shared level.
    pub(super) fn put_into_llc<B: Backing<T>>(&mut self, arriving: Evicted<T>, below: &mut B) {
        let Evicted { line, contents } = arriving;
        if contents.dirty {
            below.moved_down(3, line, &contents);
        }
        match self.llc.probe(line) {
            Some(slot) if contents.dirty => self.llc.take_over(slot, &contents),
            Some(_) => {}
            None => self.install_in_llc(line, &Contents { owned: false, ..contents }, below),
        }
    }

    /// Installs a line in the shared level; what it displaces goes to memory if it is dirty. In
    /// an inclusive machine the displaced line leaves every lane, and the newest copy counts.
    fn install_in_llc<B: Backing<T>>(
        &mut self,
        line: LineAddr,
        contents: &Contents<T>,
        below: &mut B,
    ) {
        let (_, Some(mut leaving)) = self.llc.install(line, contents) else { return };
        if self.inclusion == Inclusion::Inclusive {
            for lane in 0..self.lanes.len() {
                leaving = self.pull_down(lane, leaving);
            }
        }
        if leaving.contents.dirty {
            self.llc.stats.write_backs += 1;
            self.write_below(leaving.line, &leaving.contents, below);
        }
    }

    /// Removes the lane's copies of a line that leaves a level below. If one of them is newer,
    /// its bytes leave in place of those below.
    fn pull_down(&mut self, lane: usize, leaving: Evicted<T>) -> Evicted<T> {
        match self.lanes[lane].take(leaving.line) {
            Some(upper) if upper.dirty => Evicted { contents: upper, ..leaving },
            _ => leaving,
        }
    }
}
