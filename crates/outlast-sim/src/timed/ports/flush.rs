//! A level, or all, scanned and flushed.
//!
//! The tags of each level are read set after set, at the speed of any scan, all levels at the same
//! time. A dirty line that is not volatile, or one that [`Scheme::is_flushed`] picks, leaves when the
//! tags of its set have been read and the buffer towards memory has room, or, where the flush yields,
//! memory has little else to write. The flush is over when all
//! tags were read and all its lines are durable, and so are those that had left before it began, but
//! for those that the scheme itself holds back or has taken; each acknowledgement takes the path.
//! Newer bytes of a line do not pass older ones that the scheme holds back, so it lets those go
//! before it waits for a flush.

use super::{Origin, Scheme, own::Job};
use crate::{
    hierarchy::Cause,
    timed::{event::Event, time::Cycle, uncore::Uncore},
};
use outlast_trace::LineAddr;
use std::collections::VecDeque;

/// A flush of caches that a scheme wants.
#[derive(Clone, Copy, Debug)]
pub struct LevelFlush<T = ()> {
    /// The level: 1, 2, or 3 for the last; none for all of them.
    pub level: Option<u8>,
    /// The cause of the writes.
    pub cause: Cause,
    /// Whether the lines of these levels leave all caches; else they stay, clean.
    pub invalidate: bool,
    /// Whether its lines let all else go first: one leaves while memory has fewer writes to do than
    /// `memory.drain_low`, at which it goes back to reads. While the cores are stopped, it does not wait.
    pub yields: bool,
    /// Comes back with [`Scheme::flushed`].
    pub token: T,
}

/// A flush under way.
#[derive(Clone, Debug)]
pub(in crate::timed) struct Flushing<T> {
    what: LevelFlush<T>,
    /// Lines that have not left, with the time at which their tags have been read.
    lines: VecDeque<(Cycle, LineAddr)>,
    /// When all tags have been read.
    until: Cycle,
    /// Writes that are not acknowledged yet.
    undurable: u32,
    is_over: bool,
}

impl<S: Scheme> Uncore<S> {
    /// Begins the flushes that the scheme asks for.
    pub(in crate::timed) fn serve_flushes(&mut self) {
        for what in std::mem::take(&mut self.below.outbox.flushes) {
            let now = self.now();
            let levels = match what.level {
                Some(level) => level.clamp(1, 3)..=level.clamp(1, 3),
                None => 1..=3,
            };
            let (mut lines, mut until) = (Vec::new(), now);
            for level in levels {
                let index = usize::from(level) - 1;
                if index == 1 && !self.has_l2 {
                    continue;
                }
                let shape = self.scan_shape[index];
                self.scans[index] = shape.begin(now);
                until = until.max(shape.read_by(now, None));
                let volatile_from = self.below.volatile_from;
                let scheme = &mut self.below.scheme;
                self.caches.scan_sets(level, |set, line, dirty, tag| {
                    let goes = line < volatile_from
                        && scheme.is_flushed(now, what.token, level, line, dirty, tag);
                    if goes || what.invalidate {
                        lines.push((shape.read_by(now, Some(set)), line));
                    }
                });
            }
            lines.sort_by_key(|(at, _)| *at);
            let flushing =
                Flushing { what, lines: lines.into(), until, undurable: 0, is_over: false };
            let job = self.below.jobs.put(Job::Flush(Box::new(flushing)));
            let earlier = self.below.wait_for_earlier(job);
            self.flushing(job).undurable = earlier;
            self.flush_step(job);
        }
        // As a flush that has no lines.
        for token in std::mem::take(&mut self.below.outbox.barriers) {
            let (level, cause) = (None, Cause::Forced);
            let what = LevelFlush { level, cause, invalidate: false, yields: false, token };
            let (lines, until) = (VecDeque::new(), self.now());
            let waits = Flushing { what, lines, until, undurable: 0, is_over: false };
            let job = self.below.jobs.put(Job::Flush(Box::new(waits)));
            let earlier = self.below.wait_for_earlier(job);
            self.flushing(job).undurable = earlier;
            self.flush_step(job);
        }
    }

    fn flushing(&mut self, job: u32) -> &mut Flushing<S::Token> {
        match self.below.jobs.get(job) {
            Job::Flush(flushing) => flushing,
            other => unreachable!("{other:?} is no flush"),
        }
    }

    /// Sends what has been read of a flush's tags, as far as there is room.
    pub(in crate::timed) fn flush_step(&mut self, job: u32) {
        let now = self.now();
        loop {
            let full = self.below.write_buffer_is_full();
            let busy = self.below.has_writes_to_do();
            let flushing = self.flushing(job);
            let LevelFlush { cause, invalidate, yields, .. } = flushing.what;
            match flushing.lines.front() {
                Some((at, _)) if *at > now => {
                    let at = *at;
                    return self.schedule(at, Event::FlushStep { job });
                }
                Some(_) if full || (yields && busy) => return self.below.flush_stalled.push(job),
                Some(_) => {}
                None if flushing.until > now => {
                    let until = flushing.until;
                    return self.schedule(until, Event::FlushStep { job });
                }
                None => break,
            }
            let Some((_, line)) = flushing.lines.pop_front() else { break };
            self.below.next_origin = Origin::Job(job);
            let was_dirty = self.caches.force(line, cause, &mut self.below);
            self.below.next_origin = Origin::None;
            if invalidate {
                self.caches.invalidate(line);
            }
            if was_dirty {
                self.flushing(job).undurable += 1;
            }
        }
        let flushing = self.flushing(job);
        flushing.is_over = true;
        if flushing.undurable == 0 {
            self.flush_ends(job); // Else the last acknowledgement does.
        }
    }

    /// A write of a flush is acknowledged.
    pub(in crate::timed) fn flush_acknowledged(&mut self, job: u32) {
        let flushing = self.flushing(job);
        flushing.undurable -= 1;
        if flushing.is_over && flushing.undurable == 0 {
            self.flush_ends(job);
        }
    }

    fn flush_ends(&mut self, job: u32) {
        let Job::Flush(flushing) = self.below.jobs.take(job) else { return };
        let now = self.now();
        let (scheme, outbox) = (&mut self.below.scheme, &mut self.below.outbox);
        scheme.flushed(now, flushing.what.token, outbox);
    }
}
