//! The log of fences as recovery meets it: [`read_fences`] says what it holds.
//!
//! Its head is one sealed word, the number with which the entries of this opening begin. Recovery puts the
//! lines of the entries back before it looks at anything else, durably; then it makes the entries old by that word,
//! durably, and only then stores anything else (FENCES-4). A crash in between finds the same entries.

use outlast_pmem::{FoundFences, Medium, Overlay, read_fences};

use crate::error::PoolError;
use crate::io::{Io, Site};
use crate::layout::Geometry;
use crate::plant::Plant;
use crate::pool::load_sealed;
use crate::sealed::seal_at;

/// What a crash has left of the log, if the pool has one, of lines that are not so in place. Nothing is stored.
pub(super) fn found<M: Medium>(medium: &M, geometry: &Geometry) -> Result<FoundFences, PoolError> {
    let Some(region) = geometry.fence_log() else { return Ok(FoundFences::default()) };
    if region.end().0 > medium.len() {
        return Err(PoolError::Truncated { expected: geometry.min_len(), found: medium.len() });
    }
    const HEAD: &str = "the head of the log of fences does not prove itself";
    let first = load_sealed(medium, geometry.fence_log_at(), HEAD)?;
    let what = "an entry of the log of fences is damaged, or one before it";
    let mut found =
        read_fences(medium, region, first).map_err(|at| PoolError::Damaged { at, what })?;
    // Where power has not failed all is in place.
    found.lines.retain(|line, words| {
        (0..).zip(words).any(|(i, word)| *word != medium.load_u64(line.start().plus(8 * i)))
    });
    Ok(found)
}

/// The medium as it is once the entries' lines are put back.
pub(super) fn view<'m, M: Medium>(medium: &'m M, fences: &FoundFences) -> Overlay<&'m M> {
    let view = Overlay::new(medium);
    for (line, words) in &fences.lines {
        view.store_words(*line, !0, words);
    }
    view
}

/// Puts the lines back, and begins the log anew.
pub(super) fn put_back<M: Medium>(io: Io<'_, M>, geometry: &Geometry, fences: &FoundFences) {
    let Some(region) = geometry.fence_log() else { return };
    let put_back = || {
        for (line, words) in &fences.lines {
            io.medium.store_words(*line, !0, words);
            io.flush_line(Site::RecoverData, *line);
        }
        if !fences.lines.is_empty() {
            io.fence(Site::RecoverData);
        }
    };
    let first = io.plants(Plant::FenceNumberFirst);
    if !first && !io.plants(Plant::FencesNotPutBack) {
        put_back();
    }
    let at = geometry.fence_log_at();
    let next = if io.plants(Plant::FenceNumbersAgain) { 1 } else { fences.next };
    io.medium.store_u64(at, seal_at(next, at));
    io.flush(Site::RecoverTail, at, 8);
    io.fence(Site::RecoverTail);
    if first {
        put_back();
    }
    io.medium.begin_fence_log(region, next);
}
