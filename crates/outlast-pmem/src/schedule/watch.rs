//! Notices a lane that stands still outside the medium, where no scheduling point can interrupt
//! it: it waits for a lock of std that a suspended lane holds, or it never ends.

use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use outlast_trace::LaneId;

use super::{Baton, NOBODY, ScheduleError};

/// For how long a lane may stand still.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Asleep in the kernel, while lanes that it may wait for are held back.
    pub asleep: Duration,
    /// Asleep in the kernel, as the only lane that is left: a thread of its own may work for it.
    pub asleep_alone: Duration,
    /// Running without a scheduling point, as time of a processor.
    pub spinning: Duration,
    /// Where the system does not tell which of these it is.
    pub unknown: Duration,
    /// On its way to its end, after the run was given up.
    pub ending: Duration,
    /// Between two looks.
    pub period: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            asleep: Duration::from_secs(1),
            asleep_alone: Duration::from_secs(30),
            spinning: Duration::from_secs(60),
            unknown: Duration::from_secs(10),
            ending: Duration::from_secs(10),
            period: Duration::from_millis(50),
        }
    }
}

/// The name under which the system knows a lane's thread.
#[derive(Debug, Default)]
pub(super) struct Task(OnceLock<String>);

/// What a thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Doing {
    asleep: bool,
    /// Time of a processor that it has used.
    used: Duration,
}

impl Task {
    /// Notes the calling thread.
    pub fn note(&self) {
        if cfg!(all(target_os = "linux", not(miri)))
            && let Ok(path) = std::fs::read_link("/proc/thread-self")
        {
            self.0.get_or_init(|| format!("/proc/{}/stat", path.display()));
        }
    }

    fn doing(&self) -> Option<Doing> {
        let stat = std::fs::read_to_string(self.0.get()?).ok()?;
        // The name before the last parenthesis may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
        // Linux counts these in hundredths of a second on every machine.
        let used = Duration::from_millis(10 * (ticks(11)? + ticks(12)?));
        Some(Doing { asleep: *fields.first()? == "S", used })
    }
}

/// A lane that has not come to a scheduling point since it was first looked at.
#[derive(Clone, Copy, Debug)]
struct Standing {
    lane: usize,
    tick: u64,
    since: Instant,
    first: Option<Doing>,
    /// Since when it sleeps, and the time that it had used by then.
    asleep: Option<(Instant, Duration)>,
}

impl Standing {
    /// Whether it has stood still for too long.
    fn look(&mut self, doing: Option<Doing>, alone: bool, limits: &Limits) -> bool {
        let Some(now) = doing else { return self.since.elapsed() >= limits.unknown };
        let first = *self.first.get_or_insert(now);
        self.asleep = match self.asleep {
            _ if !now.asleep => None,
            Some((since, used)) if used == now.used => Some((since, used)),
            _ => Some((Instant::now(), now.used)),
        };
        let limit = if alone { limits.asleep_alone } else { limits.asleep };
        self.asleep.is_some_and(|(since, _)| since.elapsed() >= limit)
            || now.used.saturating_sub(first.used) >= limits.spinning
    }
}

impl Baton {
    /// Watches the run until every lane has ended. The last one to end unparks this thread.
    pub fn watch(&self, limits: &Limits) {
        let mut standing: Option<Standing> = None;
        let mut given_up: Option<Instant> = None;
        while self.live.load(Ordering::Acquire) != 0 {
            std::thread::park_timeout(limits.period);
            if let Some(since) = given_up {
                if since.elapsed() >= limits.ending && self.live.load(Ordering::Acquire) != 0 {
                    self.abort();
                }
                continue;
            }
            let (lane, tick) =
                (self.busy.load(Ordering::Acquire), self.ticks.load(Ordering::Relaxed));
            if lane == NOBODY {
                standing = None;
                continue;
            }
            let same = standing.filter(|standing| (standing.lane, standing.tick) == (lane, tick));
            let mut now = same.unwrap_or(Standing {
                lane,
                tick,
                since: Instant::now(),
                first: None,
                asleep: None,
            });
            let alone = self.live.load(Ordering::Acquire).count_ones() < 2;
            if now.look(self.tasks[lane].doing(), alone, limits)
                && self.busy.load(Ordering::Acquire) == lane
                && self.ticks.load(Ordering::Relaxed) == tick
            {
                self.give_up(lane);
                given_up = Some(Instant::now());
            }
            standing = Some(now);
        }
    }

    /// Ends the run: every suspended lane unwinds, which may release what the lane waits for.
    fn give_up(&self, lane: usize) {
        let mut state = self.state();
        let plan = state.plan.clone();
        state.fail(ScheduleError::Blocked { lane: LaneId(lane as u16), plan });
        drop(state);
        self.stopped.store(true, Ordering::Release);
        self.threads.get().into_iter().flatten().for_each(std::thread::Thread::unpark);
    }

    /// A thread cannot be ended from outside, and what it borrows may not be left before it ends.
    fn abort(&self) -> ! {
        if let Some(error) = &self.state().error {
            eprintln!("{error}\nIt cannot be stopped; the process ends here.");
        }
        std::process::abort();
    }
}
