//! Where the time of a transaction goes.
//!
//! Nothing is measured inside a transaction: reading a clock costs as much as what would be
//! timed. Instead the same scheme runs the same work on the same pool in three modes, interleaved
//! with each other and with `none`, and the parts are differences within a round:
//!
//! | part | difference |
//! |---|---|
//! | rest | `none` |
//! | log | the scheme without its flushes and fences − `none` |
//! | flush | with its flushes, without its fences − without both |
//! | fence | complete − without its fences |
//!
//! What a left-out fence would have waited for may be waited for by the next locked instruction
//! instead; it then counts as flushing. A part that gets lost in the noise would come out
//! negative and is shown as 0.

use std::sync::atomic::{AtomicU8, Ordering};

use outlast::{Abort, Scheme};
use outlast_pmem::{Access, Layer, Medium, Pass};

use super::{BOUND, NativeError, Own, Probed, Session, Wrap};
use crate::bench::open::Arrivals;
use crate::bench::{Lane, Outcome, Subject};
use crate::parallel::in_parallel;
use crate::progress::Listener;
use crate::record::{Kind, Metric, Record};
use crate::stats::{Latencies, Spread};

/// How much of what a scheme does to its medium gets through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Neither flushes nor fences; streams are ordinary stores.
    Silent,
    /// Flushes and streams, no fences.
    Flushing,
    /// Everything.
    Complete,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Silent, Self::Flushing, Self::Complete];
}

/// A medium that can leave out what a scheme asks of it.
pub(super) struct Muted<M> {
    inner: M,
    mode: AtomicU8,
}

impl<M> Muted<M> {
    pub fn new(inner: M) -> Self {
        Self { inner, mode: AtomicU8::new(Mode::Complete as u8) }
    }

    fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Relaxed);
    }

    #[inline(always)]
    fn is(&self, mode: Mode) -> bool {
        self.mode.load(Ordering::Relaxed) == mode as u8
    }
}

impl<M: Medium + Sync> Layer for Muted<M> {
    type Inner = M;

    #[inline]
    fn inner(&self) -> &M {
        &self.inner
    }

    #[inline]
    fn before(&self, access: Access) -> Pass {
        match access {
            Access::Stream { .. } if self.is(Mode::Silent) => Pass::Cached,
            Access::Flush { .. } if self.is(Mode::Silent) => Pass::Off,
            Access::Fence if !self.is(Mode::Complete) => Pass::Off,
            _ => Pass::On,
        }
    }

    fn divide(&self, parts: usize, work: &(dyn Fn(&Self, usize) + Sync)) {
        self.share_out_below(parts, work);
    }
}

/// A lane that sets its medium's mode before it runs. Subjects run one after the other, so
/// that all threads of a medium always agree.
struct ModeLane<'a> {
    medium: &'a Probed,
    mode: Mode,
    lane_runner: Box<dyn Lane + 'a>,
}

impl Lane for ModeLane<'_> {
    fn run(&mut self, count: u64) -> Result<(), Abort> {
        self.medium.set(self.mode);
        self.lane_runner.run(count)
    }

    fn run_timed(&mut self, count: u64, latencies: &mut Latencies) -> Result<(), Abort> {
        self.medium.set(self.mode);
        self.lane_runner.run_timed(count, latencies)
    }

    fn run_open(
        &mut self,
        arrivals: &mut Arrivals,
        count: u64,
        latencies: &mut Latencies,
    ) -> Result<(), Abort> {
        self.medium.set(self.mode);
        self.lane_runner.run_open(arrivals, count, latencies)
    }
}

/// Takes the transactions of each of our schemes apart; nothing if `none` does not compete.
pub(super) fn measure(
    session: &Session<'_>,
    wrap: Wrap<'_, Probed>,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, NativeError> {
    let schemes = session.setup.own_schemes();
    if !schemes.iter().any(|own| own.scheme == Scheme::None) || schemes.len() < 2 {
        return Ok(Vec::new());
    }
    let modes = Mode::ALL.len() as u32;
    let stage = format!("{}: load", session.workload.name);
    let pools = in_parallel(&schemes, usize::MAX, &stage, listen, |own| {
        session.directory.pool(session, *own, session.setup.threads * modes, wrap)
    })?;
    let mut subjects = Vec::new();
    for pool in &pools {
        let modes = if pool.own.scheme == Scheme::None { &Mode::ALL[2..] } else { &Mode::ALL[..] };
        for (group, &mode) in modes.iter().enumerate() {
            let medium = pool.pool.medium();
            let lane_runners = pool.lanes(session, group as u32)?;
            let lane =
                |lane_runner| Box::new(ModeLane { medium, mode, lane_runner }) as Box<dyn Lane>;
            let lanes = lane_runners.into_iter().map(lane).collect();
            subjects.push(Subject::new(&name(pool.own, mode), lanes));
        }
    }
    let outcome = session.race(&mut subjects, u64::from(modes), listen)?;
    let rest = (Metric::TIME_REST, vec![(1.0, BOUND.to_owned())]);
    let mut records = Vec::new();
    for own in schemes {
        let mut add = |metric, terms: &[(f64, String)]| {
            records.extend(part(&outcome, session.workload.name, own, metric, terms));
        };
        add(rest.0, &rest.1);
        if own.scheme != Scheme::None {
            let of = |mode| name(own, mode);
            add(Metric::TIME_LOG, &[(1.0, of(Mode::Silent)), (-1.0, BOUND.to_owned())]);
            add(Metric::TIME_FLUSH, &[(1.0, of(Mode::Flushing)), (-1.0, of(Mode::Silent))]);
            add(Metric::TIME_FENCE, &[(1.0, of(Mode::Complete)), (-1.0, of(Mode::Flushing))]);
        }
    }
    Ok(records)
}

/// What a mode of a scheme is called in the competition.
fn name(own: Own, mode: Mode) -> String {
    match mode {
        Mode::Silent => format!("{own} silent"),
        Mode::Flushing => format!("{own} flushing"),
        Mode::Complete => own.name().to_owned(),
    }
}

/// A sum of subjects' times, formed within each round, never below 0.
fn part(
    outcome: &Outcome,
    workload: &str,
    own: Own,
    metric: Metric,
    terms: &[(f64, String)],
) -> Option<Record> {
    let timings: Option<Vec<_>> =
        terms.iter().map(|(sign, name)| Some((*sign, outcome.of(name)?))).collect();
    let timings = timings?;
    let rounds = timings.first()?.1.rounds.len();
    let by_round = (0..rounds).map(|round| {
        timings.iter().map(|(sign, timing)| sign * timing.rounds[round].tx_ns()).sum()
    });
    let spread = Spread::of(by_round)?;
    let shown = Spread {
        median: spread.median.max(0.0),
        p25: spread.p25.max(0.0),
        p75: spread.p75.max(0.0),
        ..spread
    };
    let record = Record::spread(Kind::Native, workload, own.name(), metric, shown);
    Some(record.threads(outcome.threads))
}
