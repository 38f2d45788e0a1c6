//! Open loops: transactions that arrive when they arrive, whether or not earlier ones are done.
//!
//! A closed loop asks for the next transaction when it has its answer, so that a server that stops
//! for a moment delays one call. In an open loop it delays all that arrive meanwhile, and each of
//! them counts from its arrival. Answers do not come in the call either: a commit gives a ticket,
//! and the server asks for the answer when no new transaction has arrived.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use outlast::Abort;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::stats::Latencies;

/// Clients that wait for an answer while others are served, at most.
const WAITING_MAX: usize = 1024;

/// Waits longer than this sleep for the most of it; the rest is spent looking at the clock.
const SLEEPS_FROM: Duration = Duration::from_micros(300);

/// The moments at which transactions arrive: a Poisson process, so that gaps are exponential.
#[derive(Clone, Debug)]
pub struct Arrivals {
    rng: ChaCha8Rng,
    mean_gap_s: f64,
    now_s: f64,
}

impl Arrivals {
    /// On average `per_s` arrivals a second. Streams of one seed are independent of each other.
    ///
    /// # Panics
    /// When nothing ever arrives.
    pub fn new(per_s: f64, seed: u64, stream: u64) -> Self {
        assert!(per_s > 0.0, "{per_s} arrivals a second");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self { rng, mean_gap_s: 1.0 / per_s, now_s: 0.0 }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    /// When the next one arrives, since the beginning.
    fn next(&mut self) -> Option<Duration> {
        // In (0, 1]: its logarithm is finite.
        let share: f64 = 1.0 - self.rng.random::<f64>();
        self.now_s -= self.mean_gap_s * share.ln();
        Some(Duration::from_secs_f64(self.now_s))
    }
}

/// Who serves the clients of an open loop.
pub trait Server {
    /// Names a commit whose client waits for its answer.
    type Ticket: Copy;

    /// Runs the next transaction.
    ///
    /// # Errors
    /// The transaction's abort.
    fn serve(&mut self) -> Result<Self::Ticket, Abort>;

    /// Whether the commit is acknowledged.
    fn is_answered(&mut self, ticket: Self::Ticket) -> bool;

    /// Returns when it is, and all earlier ones.
    fn answer(&mut self, ticket: Self::Ticket);
}

/// What tells the time.
pub(crate) trait Clock {
    fn now(&mut self) -> Duration;
    fn wait_until(&mut self, moment: Duration);
}

/// The machine's, since it was made.
pub(crate) struct Wall(Instant);

impl Wall {
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Wall {
    fn now(&mut self) -> Duration {
        self.0.elapsed()
    }

    fn wait_until(&mut self, moment: Duration) {
        let left = moment.saturating_sub(self.now());
        if left > SLEEPS_FROM {
            std::thread::sleep(left - SLEEPS_FROM / 2);
        }
        while self.now() < moment {
            std::thread::yield_now();
        }
    }
}

/// Serves `count` transactions of an open loop and notes how long each took from its arrival to
/// its answer.
///
/// # Errors
/// The first abort.
pub(crate) fn serve_all<S: Server>(
    server: &mut S,
    clock: &mut impl Clock,
    arrivals: &mut Arrivals,
    count: u64,
    latencies: &mut Latencies,
) -> Result<(), Abort> {
    // Unanswered, in the order of their tickets.
    let mut waiting: VecDeque<(Duration, S::Ticket)> = VecDeque::new();
    let mut arrivals = arrivals.take(count as usize);
    loop {
        let arrival = arrivals.next();
        // No new transaction has arrived, or too many wait: one answer is for all.
        let is_quiet = arrival.is_none_or(|arrival| clock.now() < arrival);
        if (is_quiet || waiting.len() >= WAITING_MAX)
            && let Some((_, last)) = waiting.back().copied()
        {
            server.answer(last);
        }
        while let Some((arrived, ticket)) = waiting.front().copied()
            && server.is_answered(ticket)
        {
            waiting.pop_front();
            latencies.add(clock.now().saturating_sub(arrived));
        }
        let Some(arrival) = arrival else { break };
        clock.wait_until(arrival);
        let ticket = server.serve()?;
        // Reads, and commits answered when they return, wait behind no other commit.
        if server.is_answered(ticket) {
            latencies.add(clock.now().saturating_sub(arrival));
        } else {
            waiting.push_back((arrival, ticket));
        }
    }
    debug_assert!(waiting.is_empty(), "everybody is answered in the end");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_follow_the_seed_and_come_as_often_as_asked() {
        let draw = |seed, stream| Arrivals::new(1e6, seed, stream).take(10_000).collect::<Vec<_>>();
        let arrivals = draw(1, 0);
        assert_eq!(arrivals, draw(1, 0));
        assert!(arrivals != draw(2, 0) && arrivals != draw(1, 1));
        assert!(arrivals.is_sorted());
        let mean_ns = arrivals.last().unwrap().as_nanos() as f64 / 1e4;
        assert!((950.0..1050.0).contains(&mean_ns), "{mean_ns}");
        // Exponential: the spread of gaps is their mean, and 63 % are below it.
        let gaps: Vec<f64> =
            arrivals.windows(2).map(|pair| (pair[1] - pair[0]).as_nanos() as f64).collect();
        let below = gaps.iter().filter(|gap| **gap < 1000.0).count();
        assert!((6_100..6_550).contains(&below), "{below}");
    }

    /// Takes a second for each transaction and answers those before the last only when asked, in
    /// another second.
    struct Slow {
        now: std::rc::Rc<std::cell::Cell<Duration>>,
        served: u64,
        answered: u64,
        asked: Vec<u64>,
    }

    struct Told(std::rc::Rc<std::cell::Cell<Duration>>);

    impl Clock for Told {
        fn now(&mut self) -> Duration {
            self.0.get()
        }
        fn wait_until(&mut self, moment: Duration) {
            self.0.set(self.0.get().max(moment));
        }
    }

    impl Server for Slow {
        type Ticket = u64;
        fn serve(&mut self) -> Result<u64, Abort> {
            self.now.set(self.now.get() + Duration::from_secs(1));
            self.served += 1;
            Ok(self.served)
        }
        fn is_answered(&mut self, ticket: u64) -> bool {
            ticket <= self.answered
        }
        fn answer(&mut self, ticket: u64) {
            self.now.set(self.now.get() + Duration::from_secs(1));
            self.answered = ticket;
            self.asked.push(ticket);
        }
    }

    fn run(per_s: f64, count: u64) -> (Latencies, Slow) {
        let now = std::rc::Rc::new(std::cell::Cell::new(Duration::ZERO));
        let mut server = Slow { now: now.clone(), served: 0, answered: 0, asked: Vec::new() };
        let mut latencies = Latencies::default();
        let mut arrivals = Arrivals::new(per_s, 7, 0);
        serve_all(&mut server, &mut Told(now), &mut arrivals, count, &mut latencies).unwrap();
        (latencies, server)
    }

    #[test]
    fn latency_counts_from_the_arrival_to_the_answer() {
        // A client an hour or so: each is served and answered before the next arrives.
        let (latencies, server) = run(1.0 / 3600.0, 50);
        assert_eq!((latencies.len(), server.served, server.asked.len()), (50, 50, 50));
        assert_eq!(latencies.quantile_ns(1.0) / 1_000_000, 2_000);
        // A thousand a second: the last waits for all before it, and one answer is for all.
        let (latencies, server) = run(1000.0, 50);
        assert_eq!((latencies.len(), server.asked), (50, vec![50]));
        let last_s = latencies.quantile_ns(1.0) as f64 / 1e9;
        assert!((50.9..51.2).contains(&last_s), "{last_s}");
    }

    #[test]
    fn nobody_waits_for_ever_behind_a_queue_without_end() {
        let (latencies, server) = run(1e6, 3 * WAITING_MAX as u64);
        assert_eq!(latencies.len(), 3 * WAITING_MAX as u64);
        let every: Vec<u64> = (1..=3).map(|n| n * WAITING_MAX as u64).collect();
        assert_eq!(server.asked, every);
    }
}
