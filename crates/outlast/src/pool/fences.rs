//! The log of fences as recovery meets it: [`read_fences`] says what it holds.
//!
//! Its head is one sealed word, the number with which the entries of this opening begin. Recovery puts the
//! lines of the entries back before it looks at anything else, durably; then it makes the entries old by that word,
//! durably, and only then stores anything else (FENCES-4). A crash in between finds the same entries.
//!
//! The word has a copy on the next line of the head; either counts, and of two the greater one.
//!
//! * **FENCES-6** A pool that was closed needs nothing of the log. Closing writes everything in place, makes the
//!   entries old, makes the log blank, and then says so in the head's third line, by the same number; each
//!   step is durable before the next. Under that line nothing of the log is read, and a word of it that is
//!   not blank is damage by which nothing is lost.

use outlast_pmem::{FenceRegion, FoundFences, MapError, Medium, Overlay, read_fences};
use outlast_trace::{ByteRange, LINE_BYTES, LineAddr, PoolOffset};

use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::layout::{Geometry, PAGE_BYTES_MAX};
use crate::log::{self, BLANK, Region};
use crate::plant::Plant;
use crate::pool::check::NOTHING_LOST;
use crate::pool::{Finding, Header};
use crate::sealed::{seal_at, unseal_at};

/// Where the copy of the number stands with which this opening's entries begin.
pub(super) fn copy_at(geometry: &Geometry) -> PoolOffset {
    geometry.fence_log_at().plus(LINE_BYTES)
}

/// Where the number stands under which the pool was closed.
fn closed_at(geometry: &Geometry) -> PoolOffset {
    geometry.fence_log_at().plus(2 * LINE_BYTES)
}

/// The head of the log.
struct LogHead {
    first: u64,
    /// FENCES-6.
    is_closed: bool,
}

impl LogHead {
    fn read<M: Medium>(medium: &M, geometry: &Geometry) -> Result<Self, PoolError> {
        const WHAT: &str = "the head of the log of fences does not prove itself, nor does its copy";
        let at = geometry.fence_log_at();
        let load = |at| unseal_at(medium.load_u64(at), at);
        let first = load(at).max(load(copy_at(geometry)));
        let first = first.ok_or(PoolError::Damaged { at, what: WHAT })?;
        Ok(Self { first, is_closed: load(closed_at(geometry)) == Some(first) })
    }

    /// Stores that the entries begin with that number. The fence is the caller's.
    fn store<M: Medium>(io: Io<'_, M>, geometry: &Geometry, first: u64) {
        for at in [geometry.fence_log_at(), copy_at(geometry)] {
            io.medium.store_u64(at, seal_at(first, at));
            io.flush(Site::RecoverTail, at, 8);
        }
    }
}

/// Ends the log of a pool of which everything is durable in place (FENCES-6).
pub(super) fn end<M: Medium>(io: Io<'_, M>, header: &Header) -> Result<(), PoolError> {
    let Some(region) = region(header) else { return Ok(()) };
    let geometry = &header.geometry;
    let LogHead { first, .. } = LogHead::read(io.medium, geometry)?;
    let what = "an entry of the log of fences is damaged, or one before it";
    let found =
        read_fences(io.medium, region, first).map_err(|at| PoolError::Damaged { at, what })?;
    LogHead::store(io, geometry, found.next);
    for at in wrong_in_head(io.medium, geometry) {
        io.medium.store_u64(at, BLANK);
        io.flush(Site::RecoverTail, at, 8);
    }
    io.fence(Site::RecoverTail);
    let lines = region.halves.len / LINE_BYTES;
    log::blank(io, Site::Ring, Region { at: region.halves.at, lines, is_elsewhere: false });
    io.fence(Site::Ring);
    let at = closed_at(geometry);
    io.medium.store_u64(at, seal_at(found.next, at));
    io.flush(Site::RecoverTail, at, 8);
    io.fence(Site::RecoverTail);
    Ok(())
}

/// Words of the log's first page that are neither blank nor zero nor what belongs there. Pools of before have
/// neither copy nor mark.
fn wrong_in_head<M: Medium>(medium: &M, geometry: &Geometry) -> Vec<PoolOffset> {
    let head = geometry.fence_log_at();
    let sealed = [head, copy_at(geometry), closed_at(geometry)];
    let is_wrong = |at: &PoolOffset| {
        let word = medium.load_u64(*at);
        let is_unused = *at != head && (word == 0 || word == BLANK);
        !(is_unused || sealed.contains(at) && unseal_at(word, *at).is_some())
    };
    let words = (head.0..head.0 + PAGE_BYTES_MAX).step_by(8).map(PoolOffset);
    words.filter(is_wrong).collect()
}

/// Bytes of the log that are damaged, and what about them: nothing is lost by any.
pub(super) fn harmless_damage<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    mut visit: impl FnMut(ByteRange, &'static str),
) {
    let Some(halves) = geometry.fence_log_halves() else { return };
    for at in wrong_in_head(medium, geometry) {
        visit(ByteRange::new(at, 8), "the head of the log of fences, which has a copy");
    }
    if !LogHead::read(medium, geometry).is_ok_and(|head| head.is_closed) {
        return;
    }
    let mut page = [0u64; (PAGE_BYTES_MAX / 8) as usize];
    for at in (halves.at.0..halves.end().0).step_by(PAGE_BYTES_MAX as usize).map(PoolOffset) {
        medium.load(at, bytemuck::cast_slice_mut(&mut page));
        for (word, _) in (0..).zip(page).filter(|(_, word)| u64::from_le(*word) != BLANK) {
            visit(ByteRange::new(at.plus(8 * word), 8), "a word of the log of fences is not blank");
        }
    }
}

/// The same as findings, and a flipped bit at `corrected`, without which the log was read.
pub(super) fn harmless_findings<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    corrected: Option<PoolOffset>,
    mut visit: impl FnMut(Finding),
) {
    let finding = |at, what| Finding::Damaged { at, what: format!("{what}: {NOTHING_LOST}") };
    harmless_damage(medium, geometry, |bytes, what| visit(finding(bytes.at, what)));
    let what = "a flipped bit in the log of fences, which was read without it";
    corrected.into_iter().for_each(|at| visit(finding(at, what)));
}

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
        let LogHead { first, is_closed } = LogHead::read(medium, geometry)?;
        if is_closed {
            let found = FoundFences { next: first + 1, ..FoundFences::default() };
            return Ok(Self { found, newer: 0 });
        }
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

    /// Bytes of the log's entries that hold such lines; 0 where no line is newer.
    pub fn used_bytes(&self) -> u64 {
        if self.newer > 0 { self.found.bytes } else { 0 }
    }

    /// A byte of the log that had a flipped bit, and is read without.
    pub fn corrected(&self) -> Option<PoolOffset> {
        self.found.corrected
    }

    /// The medium as it is once the entries' lines are put back.
    pub fn view<'m, M: Medium>(&self, medium: &'m M) -> Overlay<&'m M> {
        let view = Overlay::new(medium);
        for (line, words) in &self.found.lines {
            view.store_words(*line, !0, words);
        }
        view
    }

    /// Takes space for lines of rings, whose growth may be durable here alone (RING-2).
    fn allocate<M: Medium>(&self, medium: &M, geometry: &Geometry) -> Result<(), MapError> {
        let in_lanes = self.found.lines.range(..geometry.fence_log_at().line());
        let mut pages: Vec<u64> =
            in_lanes.map(|(line, _)| line.start().0 / PAGE_BYTES_MAX).collect();
        pages.dedup();
        let page = |page: &u64| PoolOffset(page * PAGE_BYTES_MAX);
        pages.iter().map(page).try_for_each(|at| medium.allocate(at, PAGE_BYTES_MAX))
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
        self.allocate(io.medium, &header.geometry)?;
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
        let next = if io.plants(Plant::FenceNumbersAgain) { 1 } else { self.found.next };
        LogHead::store(io, &header.geometry, next);
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
