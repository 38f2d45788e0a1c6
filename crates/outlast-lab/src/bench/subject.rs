//! Who competes: a scheme with a workload loaded, on one or several threads.

use std::ops::Sub;
use std::time::Instant;

use outlast::{Abort, Runner};

use super::open::{Arrivals, Server, Wall, serve_all};
use crate::stats::Latencies;

/// What one thread runs: able to run transactions, one after the other.
pub trait Lane: Send {
    /// Runs `count` transactions.
    ///
    /// # Errors
    /// The first abort.
    fn run(&mut self, count: u64) -> Result<(), Abort>;

    /// Runs `count` transactions and notes how long each took.
    ///
    /// # Errors
    /// The first abort.
    fn run_timed(&mut self, count: u64, latencies: &mut Latencies) -> Result<(), Abort>;

    /// Runs `count` transactions that arrive at these moments and notes how long each took from
    /// its arrival to its answer.
    ///
    /// # Errors
    /// The first abort.
    fn run_open(
        &mut self,
        arrivals: &mut Arrivals,
        count: u64,
        latencies: &mut Latencies,
    ) -> Result<(), Abort>;
}

/// A lane from a runner and a `step` that runs one transaction of a workload on it. The loop
/// over transactions is compiled for this very pair, so that no scheme pays for being compared.
pub fn lane<'a, R, S>(runner: R, step: S) -> Box<dyn Lane + 'a>
where
    R: Runner + Send + 'a,
    S: FnMut(&mut R) -> Result<(), Abort> + Send + 'a,
{
    Box::new(LaneRunner { runner, step })
}

struct LaneRunner<R, S> {
    runner: R,
    step: S,
}

impl<R, S> Server for LaneRunner<R, S>
where
    R: Runner,
    S: FnMut(&mut R) -> Result<(), Abort>,
{
    type Ticket = ();

    fn serve(&mut self) -> Result<(), Abort> {
        (self.step)(&mut self.runner)
    }

    fn is_answered(&mut self, (): ()) -> bool {
        true
    }

    fn answer(&mut self, (): ()) {}
}

impl<R, S> Lane for LaneRunner<R, S>
where
    R: Runner + Send,
    S: FnMut(&mut R) -> Result<(), Abort> + Send,
{
    fn run(&mut self, count: u64) -> Result<(), Abort> {
        (0..count).try_for_each(|_| (self.step)(&mut self.runner))
    }

    fn run_timed(&mut self, count: u64, latencies: &mut Latencies) -> Result<(), Abort> {
        // One reading of the clock per transaction: the end of one is the start of the next.
        let mut start = Instant::now();
        for _ in 0..count {
            (self.step)(&mut self.runner)?;
            let end = Instant::now();
            latencies.add(end - start);
            start = end;
        }
        Ok(())
    }

    fn run_open(
        &mut self,
        arrivals: &mut Arrivals,
        count: u64,
        latencies: &mut Latencies,
    ) -> Result<(), Abort> {
        serve_all(self, &mut Wall::new(), arrivals, count, latencies)
    }
}

/// What a subject has done to its medium so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Lines flushed.
    pub flushed_lines: u64,
    /// Fences.
    pub fences: u64,
    /// Lines streamed past the caches.
    pub streamed_lines: u64,
}

impl Sub for Counters {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            flushed_lines: self.flushed_lines - earlier.flushed_lines,
            fences: self.fences - earlier.fences,
            streamed_lines: self.streamed_lines - earlier.streamed_lines,
        }
    }
}

/// A scheme, ready to run its workload.
pub struct Subject<'a> {
    pub(crate) scheme: String,
    pub(crate) lanes: Vec<Box<dyn Lane + 'a>>,
    pub(crate) counters: Option<Box<dyn Fn() -> Counters + 'a>>,
}

impl<'a> Subject<'a> {
    /// A subject with one lane per thread.
    ///
    /// # Panics
    /// When there are no lanes.
    pub fn new(scheme: &str, lanes: Vec<Box<dyn Lane + 'a>>) -> Self {
        assert!(!lanes.is_empty(), "{scheme} has no lanes");
        Self { scheme: scheme.to_owned(), lanes, counters: None }
    }

    /// Adds a way to read what the scheme has done to its medium.
    #[must_use]
    pub fn counted(mut self, counters: impl Fn() -> Counters + 'a) -> Self {
        self.counters = Some(Box::new(counters));
        self
    }

    pub(crate) fn count(&self) -> Option<Counters> {
        self.counters.as_ref().map(|read| read())
    }
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject")
            .field("scheme", &self.scheme)
            .field("lanes", &self.lanes.len())
            .finish_non_exhaustive()
    }
}
