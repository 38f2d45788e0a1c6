//! Pages as the controller and TLBs know them, and physical pages that are free.

use outlast_trace::LineAddr;

use super::layout::{Entry, LINES, Layout, NONE};
use crate::image::Image;

/// A page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// Where it lies as far as transactions have committed.
    pub(super) committed: Entry,
    /// Its other physical page, which transactions write to; none where no one has since it was
    /// consolidated.
    pub(super) other: u32,
    /// Lines whose newest bytes are in the other page.
    pub(super) current: u64,
    /// Lines that running transactions have stored to.
    pub(super) open: u64,
    /// TLBs that hold it.
    pub(super) tlbs: u32,
    /// What is left of a consolidation: copies on their way, and one for its journal record.
    pub(super) consolidating: Option<u32>,
    /// Whether a commit with it is on its way.
    pub(super) is_committing: bool,
    /// Whether the table may lack what has committed.
    pub(super) is_dirty: bool,
    /// What the table says, or will when the checkpoint under way is over.
    pub(super) in_table: Entry,
    /// Its place among the active ones.
    active_at: u32,
}

impl Page {
    /// Where a line's newest bytes go and are.
    #[inline]
    pub(super) fn place(&self, line: LineAddr) -> LineAddr {
        let Self { committed, other, current, .. } = *self;
        Entry { other, bitmap: current, ..committed }.place(line)
    }

    /// Whether it could be consolidated now.
    pub(super) fn is_quiet(&self) -> bool {
        self.other != NONE && self.open == 0 && self.consolidating.is_none() && !self.is_committing
    }
}

/// All pages.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    of: Vec<Page>,
    /// Physical pages that are no page's.
    pub(super) free: Vec<u32>,
    /// Pages that have another physical page: the SSP cache's entries.
    active: Vec<u32>,
    /// Where the search for one to consolidate early goes on.
    hand: usize,
}

impl Pages {
    /// The pages of a memory that is zero, or as recovery has left it.
    pub(super) fn new(layout: Layout, image: Image<'_>) -> Self {
        let is_new = image.len() < layout.lines() * 64;
        let mut is_used = vec![false; (layout.pages + layout.shadows) as usize];
        let (mut of, mut active) = (Vec::with_capacity(layout.pages as usize), Vec::new());
        for page in 0..layout.pages as u32 {
            let committed = if is_new { Entry::home(page) } else { layout.entry(image, page) };
            is_used[committed.primary as usize] = true;
            if committed.other != NONE {
                is_used[committed.other as usize] = true;
                active.push(page);
            }
            of.push(Page {
                committed,
                other: committed.other,
                current: committed.bitmap,
                open: 0,
                tlbs: 0,
                consolidating: None,
                is_committing: false,
                is_dirty: false,
                in_table: committed,
                active_at: active.len().saturating_sub(1) as u32,
            });
        }
        let free =
            (0..is_used.len() as u32).rev().filter(|page| !is_used[*page as usize]).collect();
        Self { of, free, active, hand: 0 }
    }

    /// The page of a line, where the program has one there.
    #[inline]
    pub(super) fn number_of(&self, line: LineAddr) -> Option<u32> {
        let page = line.0 / LINES;
        (page < self.of.len() as u64).then_some(page as u32)
    }

    #[inline]
    pub(super) fn get(&self, page: u32) -> &Page {
        &self.of[page as usize]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, page: u32) -> &mut Page {
        &mut self.of[page as usize]
    }

    /// Pages.
    pub(super) fn len(&self) -> u64 {
        self.of.len() as u64
    }

    /// Gives a page another physical page. False where none is free.
    pub(super) fn activate(&mut self, page: u32) -> bool {
        let Some(free) = self.free.pop() else { return false };
        let of = &mut self.of[page as usize];
        (of.other, of.active_at) = (free, self.active.len() as u32);
        self.active.push(page);
        true
    }

    /// Frees a physical page that a page does not need any more.
    pub(super) fn deactivate(&mut self, page: u32, freed: u32) {
        let of = &mut self.of[page as usize];
        (of.other, of.current) = (NONE, 0);
        of.committed.other = NONE;
        of.committed.bitmap = 0;
        let at = of.active_at;
        self.active.swap_remove(at as usize);
        if let Some(&moved) = self.active.get(at as usize) {
            self.of[moved as usize].active_at = at;
        }
        self.free.push(freed);
    }

    /// The next page that could be consolidated though a TLB holds it.
    pub(super) fn victim(&mut self) -> Option<u32> {
        for _ in 0..self.active.len() {
            self.hand = (self.hand + 1) % self.active.len();
            let page = self.active[self.hand];
            if self.of[page as usize].is_quiet() {
                return Some(page);
            }
        }
        None
    }

    /// Whether a consolidation is under way, which will free a page.
    pub(super) fn is_consolidating(&self) -> bool {
        self.active.iter().any(|page| self.of[*page as usize].consolidating.is_some())
    }
}
