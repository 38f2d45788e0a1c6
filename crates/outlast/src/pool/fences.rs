//! The log of fences as recovery meets it: [`read_fences`] says what it holds.
//!
//! Its head is one sealed word, the number with which the entries of this opening begin. Recovery puts the
//! lines of the entries back before it looks at anything else, durably; then it makes the entries old by that word,
//! durably, and only then stores anything else (FENCES-4). A crash in between finds the same entries.

use outlast_pmem::{FenceRegion, FoundFences, Medium, Overlay, read_fences};
use outlast_trace::LineAddr;

use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::plant::Plant;
use crate::pool::{Header, load_sealed};
use crate::sealed::seal_at;

/// What the log holds, if the pool has one.
pub(super) struct Fences {
    found: FoundFences,
    /// Lines that are not so in the medium. None where the process has died and no power has failed, or where the
    /// pool was closed.
    newer: usize,
}

impl Fences {
    /// Reads the log. Nothing is stored.
    pub fn read<M: Medium>(medium: &M, header: &Header) -> Result<Self, PoolError> {
        let geometry = &header.geometry;
        let Some(region) = region(header) else {
            return Ok(Self { found: FoundFences::default(), newer: 0 });
        };
        if region.halves.end().0 > medium.len() {
            return Err(PoolError::Truncated { expected: geometry.min_len(), found: medium.len() });
        }
        const HEAD: &str = "the head of the log of fences does not prove itself";
        let first = load_sealed(medium, geometry.fence_log_at(), HEAD)?;
        let what = "an entry of the log of fences is damaged, or one before it";
        let found =
            read_fences(medium, region, first).map_err(|at| PoolError::Damaged { at, what })?;
        let newer = found.lines.iter().filter(|line| is_newer(medium, *line)).count();
        Ok(Self { found, newer })
    }

    /// Lines that recovery will change.
    pub fn newer(&self) -> usize {
        self.newer
    }

    /// The medium as it is once the entries' lines are put back.
    pub fn view<'m, M: Medium>(&self, medium: &'m M) -> Overlay<&'m M> {
        let view = Overlay::new(medium);
        for (line, words) in &self.found.lines {
            view.store_words(*line, !0, words);
        }
        view
    }

    /// Puts the lines back, and begins the log anew.
    pub fn put_back<M: Medium>(&self, io: Io<'_, M>, header: &Header) -> Result<(), PoolError> {
        // A page cache outlives its process, and shows what no disk has.
        let is_believed = io.plants(Plant::PageCacheBelieved);
        let has_lines = !self.found.lines.is_empty();
        if (io.medium.is_paged() || has_lines) && !is_believed {
            io.medium.write_in_place()?;
        }
        let Some(region) = region(header) else { return Ok(()) };
        let put_back = || {
            let lines = self.found.lines.iter();
            for (line, words) in lines.filter(|line| !is_believed || is_newer(io.medium, *line)) {
                io.medium.store_words(*line, !0, words);
                io.flush_line(Site::RecoverData, *line);
            }
            if has_lines {
                io.fence(Site::RecoverData);
            }
        };
        let first = io.plants(Plant::FenceNumberFirst);
        if !first && !io.plants(Plant::FencesNotPutBack) {
            put_back();
        }
        if has_lines && !io.medium.is_paged() {
            // Its domain may ask for less than the one before.
            io.medium.write_in_place()?;
        }
        let at = header.geometry.fence_log_at();
        let next = if io.plants(Plant::FenceNumbersAgain) { 1 } else { self.found.next };
        io.medium.store_u64(at, seal_at(next, at));
        io.flush(Site::RecoverTail, at, 8);
        io.fence(Site::RecoverTail);
        if first {
            put_back();
        }
        io.medium.begin_fence_log(region, next);
        Ok(())
    }
}

fn is_newer<M: Medium>(medium: &M, (line, words): (&LineAddr, &[u64; 8])) -> bool {
    (0..).zip(words).any(|(i, word)| *word != medium.load_u64(line.start().plus(8 * i)))
}

fn region(header: &Header) -> Option<FenceRegion> {
    let (high, low) = header.uuid.as_u64_pair();
    header.geometry.fence_log_halves().map(|halves| FenceRegion { halves, salt: high ^ low })
}
