//! From which length on a record of a log is better streamed past the caches than stored, flushed
//! and kept. That differs from one processor to the next, so it is measured.

use std::hint::black_box;
use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use outlast_trace::{LINE_BYTES, LineAddr};

use crate::medium::Medium;

/// Lengths that are tried, in lines.
const TRIED: [usize; 5] = [1, 2, 4, 8, 16];

/// Longer records than were tried are streamed whatever came out: what a cache gains by keeping
/// lines, it loses by fetching them.
const STREAMED_ANYWAY: u64 = 32;

/// Samples of each length, each way.
const SAMPLES: usize = 49;

/// Most lines that are used for each way: more than the first-level cache has.
const LINES_MAX: u64 = 1024;

/// Storing and flushing must be cheaper than streaming by one part in `MARGIN`. Otherwise streaming
/// is preferred: it leaves the caches to others.
const MARGIN: u64 = 16;

/// The shortest length, in lines, from which on streaming is the cheaper. Lines `first` to
/// `first + lines` are the caller's alone meanwhile. Their contents are stored to them again, so
/// that a crash at any moment finds them there. With too few of them everything is streamed.
///
/// A sample ends when its lines are durable, as in [`measure_floor`](crate::measure_floor).
pub(crate) fn stream_from<M: Medium>(medium: &M, first: LineAddr, lines: u64) -> u64 {
    let each = (lines / 2).min(LINES_MAX);
    if each < 2 * TRIED[TRIED.len() - 1] as u64 {
        return 1;
    }
    // A line that is streamed while it is cached costs an eviction that no log would pay: each way
    // has lines of its own, and those that are streamed have left the caches before.
    let mut streamed = Turn::new(medium, first, each, true);
    let mut flushed = Turn::new(medium, LineAddr(first.0 + each), each, false);
    streamed.store(0..each as usize);
    let mut samples = [const { [[0u64; SAMPLES]; 2] }; TRIED.len()];
    for round in 0..SAMPLES {
        for (lines, samples) in TRIED.iter().zip(&mut samples) {
            samples[0][round] = streamed.sample(*lines);
            samples[1][round] = flushed.sample(*lines);
        }
    }
    let is_streamed = samples.each_mut().map(|ways| {
        ways.iter_mut().for_each(|way| way.sort_unstable());
        let [streamed, flushed] = ways.each_ref().map(|way| way[SAMPLES / 2]);
        streamed <= flushed + flushed / MARGIN
    });
    // The shortest from which on all are.
    let from = is_streamed.iter().rposition(|streamed| !streamed).map_or(0, |last| last + 1);
    TRIED.get(from).map_or(STREAMED_ANYWAY, |lines| *lines as u64)
}

/// Lines that are written one way.
struct Turn<'m, M> {
    medium: &'m M,
    first: LineAddr,
    /// What they hold.
    contents: Vec<[u64; 8]>,
    next: usize,
    streams: bool,
}

impl<'m, M: Medium> Turn<'m, M> {
    fn new(medium: &'m M, first: LineAddr, lines: u64, streams: bool) -> Self {
        let mut contents = vec![[0u64; 8]; lines as usize];
        medium.load(first.start(), bytemuck::cast_slice_mut(&mut contents));
        // Words are little-endian on the medium.
        contents.iter_mut().flatten().for_each(|word| *word = u64::from_le(*word));
        Self { medium, first, contents, next: 0, streams }
    }

    fn line(&self, index: usize) -> LineAddr {
        LineAddr(self.first.0 + index as u64)
    }

    fn store(&self, which: std::ops::Range<usize>) {
        let lines = which.clone().map(|index| (self.line(index), &self.contents[index]));
        if self.streams {
            return lines.for_each(|(line, words)| {
                self.medium.store_line_nt(line, &words.map(u64::to_le));
            });
        }
        lines.for_each(|(line, words)| self.medium.store_words(line, !0, words));
        let len = which.len() as u64 * LINE_BYTES;
        self.medium.flush_range(self.line(which.start).start(), len);
    }

    /// Nanoseconds that `lines` lines take until they are durable.
    fn sample(&mut self, lines: usize) -> u64 {
        if self.next + lines > self.contents.len() {
            self.next = 0;
        }
        let which = self.next..self.next + lines;
        self.next += lines;
        if !self.streams {
            // As the log's lines are, between two records.
            which.clone().for_each(|index| self.medium.prefetch_write(self.line(index)));
            which.clone().for_each(|index| {
                black_box(self.medium.load_u64(self.line(index).start()));
            });
        }
        // No store of the sample before may still be under way.
        self.medium.fence();
        fence(Ordering::SeqCst);
        let start = Instant::now();
        self.store(which);
        self.medium.fence();
        fence(Ordering::SeqCst);
        start.elapsed().as_nanos() as u64
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use outlast_trace::PoolOffset;

    use super::*;
    use crate::{Heap, Recorder};

    fn content(at: u64) -> u64 {
        at.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn what_the_lines_held_is_never_gone() {
        let medium = Recorder::new(1 << 20);
        for at in (0..1 << 20).step_by(8) {
            medium.store_u64(PoolOffset(at), content(at));
        }
        let before = medium.to_bytes();
        let recorded = medium.ops();
        let from = stream_from(&medium, LineAddr(64), 4096);
        assert!(TRIED.contains(&(from as usize)) || from == STREAMED_ANYWAY);
        assert!(medium.ops() > recorded, "nothing was tried");
        assert!(medium.to_bytes() == before);
    }

    #[test]
    fn few_lines_are_not_tried() {
        let medium = Heap::new(1 << 16);
        assert_eq!(stream_from(&medium, LineAddr(0), 62), 1);
    }
}
