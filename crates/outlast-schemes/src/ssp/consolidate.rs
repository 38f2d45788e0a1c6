//! Consolidation: a page that no TLB holds any more goes into one physical page, that which has more of
//! it, and the other one comes free.
//!
//! Lines are copied inside the memory, then the journal says where the page lies; only then is the other
//! physical page free. Writes of the page's lines wait meanwhile, and so do transactions that store
//! to it. Reads find its lines where they were.

use outlast_sim::timed::{Copied, Outbox, WriteRoute};
use outlast_trace::LineAddr;

use super::layout::{Entry, LINES, Record};
use super::plants::Fault;
use super::ports::{CONSOLIDATION, SubPages, Token};

/// The runs of bits of a bitmap: where each begins, and its length.
fn runs(mut bits: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let gap = bits.trailing_zeros();
        bits >>= gap;
        let run = bits.trailing_ones();
        bits = bits.checked_shr(run).unwrap_or(0);
        let from = at + u64::from(gap);
        at = from + u64::from(run);
        Some((from, u64::from(run)))
    })
}

impl SubPages {
    /// Begins to consolidate a page, if it has two physical pages and nothing is under way with it.
    pub(super) fn consolidate(&mut self, number: u32, out: &mut Outbox<Token>) {
        let page = self.pages.get(number);
        if !page.is_quiet() {
            return;
        }
        let Entry { primary, bitmap, .. } = page.committed;
        let other = page.other;
        if bitmap == 0 {
            self.pages.deactivate(number, other);
            return;
        }
        self.counts.consolidations += 1;
        let (lines, from, to) = match self.stays_primary(bitmap) {
            true => (bitmap, other, primary),
            false => (!bitmap, primary, other),
        };
        self.counts.consolidated += u64::from(lines.count_ones());
        let mut copies = 0;
        for (at, run) in runs(lines) {
            let place = |physical: u32| LineAddr(u64::from(physical) * LINES + at);
            let (from, to, token) = (place(from), place(to), Token::Copied { page: number });
            out.copy(Copied { from, to, lines: run, cause: CONSOLIDATION, token });
            copies += 1;
        }
        self.pages.get_mut(number).consolidating = Some(copies);
        if copies == 0 || self.has(Fault::FreesEarly) {
            self.unjournaled.push(number);
            self.journal_consolidations(out);
        }
    }

    /// Lines of a page have been copied.
    pub(super) fn copied(&mut self, number: u32, out: &mut Outbox<Token>) {
        let Some(left) = &mut self.pages.get_mut(number).consolidating else { return };
        *left = left.saturating_sub(1);
        if *left == 0 && !self.has(Fault::FreesEarly) {
            self.unjournaled.push(number);
            self.journal_consolidations(out);
        }
    }

    /// Where a page that is consolidated will lie, and what comes free.
    fn outcome(&self, number: u32) -> (u32, u32) {
        let page = self.pages.get(number);
        let (primary, other) = (page.committed.primary, page.other);
        match self.stays_primary(page.committed.bitmap) {
            true => (primary, other),
            false => (other, primary),
        }
    }

    /// Whether a page with this bitmap goes into its first physical page.
    fn stays_primary(&self, bitmap: u64) -> bool {
        self.config.one_way || u64::from(bitmap.count_ones()) <= LINES / 2
    }

    /// Journals where consolidated pages lie, as far as the journal has room.
    pub(super) fn journal_consolidations(&mut self, out: &mut Outbox<Token>) {
        let ring = self.config.layout.background();
        while let Some(&page) = self.unjournaled.last() {
            if self.has(Fault::UnjournaledConsolidation) {
                self.unjournaled.pop();
                self.is_consolidated(page, out);
                continue;
            }
            if !self.journal.has_room(ring) {
                self.counts.journal_full += 1;
                return self.checkpoint(out);
            }
            self.unjournaled.pop();
            let number = self.journal.take(ring);
            let commit = self.journal.commit(ring);
            let record = Record { page, other: self.outcome(page).0, bitmap: 0 };
            let token = Token::Consolidated { page, seq: commit.seq };
            self.send(ring, number, &[record], Some(commit), token, out);
        }
    }

    /// The journal says where a page lies.
    pub(super) fn consolidated(&mut self, page: u32, seq: u64, out: &mut Outbox<Token>) {
        self.journal.committed(seq, 1);
        self.checkpoint.commits.push(seq);
        self.is_consolidated(page, out);
        self.is_dirty(page);
        self.checkpoint_if_crowded(out);
    }

    /// A page lies in one physical page, and what waits for that goes on.
    fn is_consolidated(&mut self, number: u32, out: &mut Outbox<Token>) {
        let (primary, freed) = self.outcome(number);
        let page = self.pages.get_mut(number);
        page.committed.primary = primary;
        page.consolidating = None;
        self.pages.deactivate(number, freed);
        let pages = &self.pages;
        self.waiting.retain(|(ticket, line)| {
            let is_its = line.0 / LINES == u64::from(number);
            if is_its {
                let place = pages.get(number).place(*line);
                out.release_write(*ticket, WriteRoute::There(place));
            }
            !is_its
        });
        self.wake(out);
    }
}

#[cfg(test)]
mod tests {
    use super::runs;

    #[test]
    fn runs_of_bits_are_copied_together() {
        let of = |bits| runs(bits).collect::<Vec<_>>();
        assert_eq!(of(0), []);
        assert_eq!(of(u64::MAX), [(0, 64)]);
        assert_eq!(of(0b1011_0110), [(1, 2), (4, 2), (7, 1)]);
        assert_eq!(of(1 << 63), [(63, 1)]);
        assert_eq!(of(!(1 << 62)), [(0, 62), (63, 1)]);
    }
}
