//! Some of the images that a crash may leave, by chance: for runs too large to enumerate.

use std::time::{Duration, Instant};

use outlast_trace::OpLog;

use crate::memory::exhaustive::{Exhaustive, Failure, Told};
use crate::memory::history::TooWide;
use crate::memory::history::tracker::Tracker;
use crate::memory::image::{ImageMedium, Mode, State, draw};
use crate::memory::verdict::{Judge, judge};
use crate::memory::witness::{CrashPoint, Witness};

/// The result of a sampling check.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// Crash points of the program at which images were drawn.
    pub crash_points: u64,
    /// Executions of recovery, second crashes included.
    pub verified: u64,
    /// The violations, in the order in which they were met.
    pub failures: Vec<Failure>,
    /// How long it took.
    pub elapsed: Duration,
}

impl Exhaustive {
    /// Draws images by chance, reproducibly: `images` at each of `points` crash points spread
    /// over the run, each with crashes of the recovery as deep as the settings say. Half of what
    /// is open holds nothing or everything, the rest anything between.
    ///
    /// # Errors
    /// When a unit has too many contents to enumerate.
    pub fn sample(
        &self,
        base: &[u8],
        log: &OpLog,
        seed: u64,
        points: usize,
        images: u32,
        mut judge: impl Judge,
    ) -> Result<Sampled, TooWide> {
        let started = Instant::now();
        let mut sampler = Sampler {
            settings: self,
            image: self.image(base),
            judge: &mut judge,
            random: seed,
            sampled: Sampled {
                crash_points: 0,
                verified: 0,
                failures: Vec::new(),
                elapsed: Duration::ZERO,
            },
            path: Vec::new(),
        };
        sampler.run(log, points, images)?;
        sampler.sampled.elapsed = started.elapsed();
        Ok(sampler.sampled)
    }
}

struct Sampler<'a, J> {
    settings: &'a Exhaustive,
    image: ImageMedium,
    judge: &'a mut J,
    random: u64,
    sampled: Sampled,
    path: Vec<CrashPoint>,
}

impl<J: Judge> Sampler<'_, J> {
    fn next(&mut self) -> u64 {
        draw(&mut self.random)
    }

    fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    fn run(&mut self, log: &OpLog, points: usize, images: u32) -> Result<(), TooWide> {
        let mut positions: Vec<usize> = (0..points).map(|_| self.below(log.len() + 1)).collect();
        positions.sort_unstable();
        positions.dedup();
        let told = Told::default().with(log);
        let mut tracker = Tracker::new(self.settings.model());
        let mut played = 0;
        for position in positions {
            self.play(&mut tracker, log, played..position);
            self.image.with(|state| state.memory.clear_journal());
            played = position;
            self.sampled.crash_points += 1;
            for _ in 0..images {
                self.crash(1, &tracker, position, &told)?;
                if self.is_enough() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn is_enough(&self) -> bool {
        self.sampled.failures.len() >= self.settings.failures_max
    }

    fn play(&mut self, tracker: &mut Tracker, log: &OpLog, ops: std::ops::Range<usize>) {
        self.image.with(|state| {
            for index in ops {
                let (lane, op) = log.get(index);
                for part in 0..tracker.parts(&op) {
                    state.play(tracker, index, lane, &op, part);
                }
            }
        });
    }

    /// One image at the position where `tracker` stands, and one crash of its recovery.
    fn crash(
        &mut self,
        level: u32,
        tracker: &Tracker,
        position: usize,
        told: &Told,
    ) -> Result<(), TooWide> {
        let point = CrashPoint { op: position, part: 0, told: position, picks: Vec::new() };
        let crash = told.crash(level, &point);
        let another = level < self.settings.crashes;
        let seed = self.next();
        let frame = self.image.with(|state| {
            let frame = state.open.push(tracker, &state.memory)?;
            state.set_mode(Mode::Sample(seed));
            state.begin(another, self.settings.limits());
            Ok(frame)
        })?;
        let verdict = judge(self.judge, &self.image, &crash, another || level == 1);
        self.sampled.verified += 1;
        let outer = self.path.clone();
        self.path.push(point);
        self.image.with(|state| state.add_picks(&mut self.path));
        match verdict {
            Err(violation) => {
                let witness = Witness { crashes: self.path.clone() };
                self.sampled.failures.push(Failure { violation, witness });
                self.image.with(State::revert);
            }
            Ok(()) if another => self.crash_recovery(level, &crash)?,
            Ok(()) => self.image.with(State::revert),
        }
        self.path = outer;
        self.image.with(|state| {
            state.undecide();
            state.open.forget();
            state.open.pop(frame, Some(&mut state.memory));
        });
        Ok(())
    }

    /// Crashes the recovery that has just run, somewhere.
    fn crash_recovery(
        &mut self,
        level: u32,
        crash: &crate::memory::Crash<'_>,
    ) -> Result<(), TooWide> {
        let mut log = OpLog::default();
        let changed = self.image.with(|state| {
            let changed = state.has_changed();
            state.swap_log(&mut log);
            state.revert();
            changed
        });
        if !changed || log.is_empty() {
            return Ok(());
        }
        let position = self.below(log.len() + 1);
        let told = Told::of(crash.acked, crash.begun).with(&log);
        let settled = self.image.with(State::settle);
        let mut tracker = Tracker::new(self.settings.model());
        self.play(&mut tracker, &log, 0..position);
        self.crash(level + 1, &tracker, position, &told)?;
        self.image.with(|state| state.unsettle(settled));
        Ok(())
    }
}
