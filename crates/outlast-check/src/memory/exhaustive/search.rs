//! The walk through all crash points and their images.
//!
//! Without a limit, or with one that simply ends the walk, each crash point is enumerated depth
//! first. Where crash points [share](Exhaustive::sharing_images) their images, the walk is made
//! several times. In the first, with half of all images, each crash point gets an equal part of
//! what is left; three quarters of it go into enumeration, and if that does not finish, one
//! quarter into samples. Crash points that did not finish are then enumerated again, with larger
//! shares, as long as images are left for that.

use outlast_trace::{LaneId, Op, OpLog, PoolOffset};
use rustc_hash::FxHashSet;

use super::coverage::{Coverage, Unfinished, UnfinishedPoints};
use super::seen::Seen;
use super::trail::{self, Told, window_end};
use super::{Exhaustive, Failure, LAST_ROW, Level, Unchecked};
use crate::memory::count::Count;
use crate::memory::history::tracker::{Raise, Tracker};
use crate::memory::image::{Frame, ImageMedium, Looked, Mode, State, mix};
use crate::memory::verdict::{Broken, Crash, Judge, Violation, judge};
use crate::memory::witness::{CrashPoint, Pick, Witness};
use crate::strata::{self, Choice};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    On,
    Stop,
}

pub(super) struct Search<'a> {
    settings: &'a Exhaustive,
    base: &'a [u8],
    image: ImageMedium,
    judge: &'a mut dyn Judge,
    levels: Vec<Level>,
    distinct: Vec<FxHashSet<u128>>,
    seen: &'a mut Seen,
    /// The crashes that led to the recovery being crashed now.
    path: Vec<CrashPoint>,
    failures: Vec<Failure>,
    unchecked: Vec<Unchecked>,
    verified: u64,
    logs: Vec<OpLog>,
    coverage: Coverage,
    unfinished: UnfinishedPoints,
    /// Whether this is the first walk, which visits every crash point and draws samples.
    first_walk: bool,
    /// Whether images were left out at the program's crash point at hand.
    left_out: bool,
    /// Whether a walk before this one took images for refused without their check.
    guessed: bool,
}

/// The result of a search.
pub(super) struct Found {
    pub levels: Vec<Level>,
    pub failures: Vec<Failure>,
    pub unchecked: Vec<Unchecked>,
    pub coverage: Coverage,
    /// Whether some images were taken for refused without their check.
    pub guessed: bool,
    /// The lines that some recovery has loaded from.
    pub looked: Looked,
}

impl Found {
    pub fn is_complete(&self) -> bool {
        let is_whole = self.unchecked.is_empty() && self.coverage.is_exhaustive();
        is_whole && self.failures.is_empty() && !self.guessed
    }
}

impl<'a> Search<'a> {
    pub fn new(
        settings: &'a Exhaustive,
        base: &'a [u8],
        judge: &'a mut dyn Judge,
        seen: &'a mut Seen,
    ) -> Self {
        let levels = settings.crashes as usize;
        Self {
            settings,
            base,
            image: settings.image(base),
            judge,
            levels: vec![Level::default(); levels],
            distinct: vec![FxHashSet::default(); levels],
            seen,
            path: Vec::new(),
            failures: Vec::new(),
            unchecked: Vec::new(),
            verified: 0,
            logs: Vec::new(),
            coverage: Coverage::default(),
            unfinished: UnfinishedPoints::new(),
            first_walk: true,
            left_out: false,
            guessed: false,
        }
    }

    /// Returns whether nothing ended the search before its time.
    pub fn run(&mut self, log: &OpLog) -> bool {
        let images = self.settings.images_max;
        let told = Told::default();
        if !self.is_sharing() {
            return self.explore(1, log, &told, u64::MAX) == Flow::On;
        }
        let mut flow = self.explore(1, log, &told, images / 2);
        self.first_walk = false;
        while flow == Flow::On && !self.unfinished.is_empty() {
            let before = self.verified;
            self.guessed |= self.has_guessed();
            let looked = self.image.with(|state| std::mem::take(&mut state.looked));
            self.image = self.settings.image(self.base);
            self.image.with(|state| state.looked = looked);
            flow = self.explore(1, log, &told, images);
            if self.verified == before {
                break;
            }
        }
        flow == Flow::On
    }

    fn has_guessed(&self) -> bool {
        self.image.with(|state| state.open.has_guessed())
    }

    pub fn finish(mut self) -> Found {
        let guessed = self.guessed || self.has_guessed();
        self.coverage.add_unfinished(&self.unfinished);
        for point in self.unfinished.values() {
            let stats = &mut self.levels[0];
            stats.covered = stats.covered.plus(point.covered);
        }
        let looked = self.image.with(|state| std::mem::take(&mut state.looked));
        let Self { levels, failures, unchecked, coverage, .. } = self;
        Found { levels, failures, unchecked, coverage, guessed, looked }
    }

    fn is_sharing(&self) -> bool {
        self.settings.sharing.is_some() && self.settings.images_max != u64::MAX
    }

    /// Crashes a run, or a recovery, at all its key points. After `end` executions of recovery,
    /// counted from the start of the search, nothing is left for any of them.
    fn explore(&mut self, level: u32, log: &OpLog, before: &Told, end: u64) -> Flow {
        let mut tracker = self.settings.assume.tracker(self.settings.model);
        let log = &*self.settings.assume.rewrite(log);
        let told = before.with(log);
        let mut points = self.points_max(level, log, end);
        for index in 0..log.len() {
            let (lane, op) = log.get(index);
            let is_tried = level > 1 || index >= self.settings.from_op;
            for part in 0..tracker.parts(&op) {
                if let Some(raise) = tracker.raises(lane, &op, part).filter(|_| is_tried) {
                    let until = match raise {
                        Raise::Issued => index,
                        Raise::Drained => window_end(log, index),
                    };
                    let point = CrashPoint { op: index, part, told: until, picks: Vec::new() };
                    if self.crash_point(level, &tracker, point, &told, &mut points, end)
                        == Flow::Stop
                    {
                        return Flow::Stop;
                    }
                }
                self.image.with(|state| state.play(&mut tracker, index, lane, &op, part));
            }
        }
        let point = CrashPoint { op: log.len(), part: 0, told: log.len(), picks: Vec::new() };
        self.crash_point(level, &tracker, point, &told, &mut points, end)
    }

    /// No fewer crash points than a walk through this log visits. Not counted where nothing is to
    /// be shared.
    fn points_max(&self, level: u32, log: &OpLog, end: u64) -> u64 {
        match (level, self.first_walk) {
            _ if end == u64::MAX => 1,
            (1, false) => self.unfinished.len() as u64,
            (1, true) => trail::points_max(self.settings.model, log, self.settings.from_op),
            _ => trail::points_max(self.settings.model, log, 0),
        }
    }

    /// Visits a crash point with its share of what is left for `points` of them.
    fn crash_point(
        &mut self,
        level: u32,
        tracker: &Tracker,
        point: CrashPoint,
        told: &Told,
        points: &mut u64,
        end: u64,
    ) -> Flow {
        let name = (point.op, point.part);
        let old = self.unfinished.get(&name).copied();
        if level == 1 && !self.first_walk && old.is_none() {
            return Flow::On;
        }
        let left = end.saturating_sub(self.verified);
        let share = if end == u64::MAX { u64::MAX } else { left.div_ceil((*points).max(1)) };
        *points = points.saturating_sub(1);
        if level > 1 {
            return self.key_point(level, tracker, point, told, share).flow;
        }
        // What did not finish with some images does not with a few more.
        if old.is_some_and(|old| share < 2 * old.share) {
            return Flow::On;
        }
        let before = self.verified;
        self.left_out = false;
        let passed = self.key_point(level, tracker, point, told, share);
        let stats = &mut self.levels[0];
        if passed.flow == Flow::Stop || !self.left_out {
            self.unfinished.remove(&name);
            stats.covered = stats.covered.plus(passed.covered);
            self.coverage.exhaustive += u64::from(passed.flow == Flow::On);
        } else {
            let verified = self.verified - before + old.map_or(0, |old| old.verified);
            let Passed { allowed, covered, .. } = passed;
            self.unfinished.insert(name, Unfinished { allowed, covered, share, verified });
        }
        passed.flow
    }

    /// Tries every combination of contents at one crash point, or as many as the share permits.
    fn key_point(
        &mut self,
        level: u32,
        tracker: &Tracker,
        point: CrashPoint,
        told: &Told,
        share: u64,
    ) -> Passed {
        let frame = self.image.with(|state| {
            if level == 1 {
                // The program's own crash points are never come back to in one walk.
                state.memory.clear_journal();
            }
            state.open.push(tracker, &state.memory)
        });
        let frame = match frame {
            Ok(frame) => frame,
            Err(why) => {
                let op = self.path.first().unwrap_or(&point).op;
                if self.first_walk {
                    self.unchecked.push(Unchecked { op, why });
                }
                self.left_out = true;
                return Passed { flow: Flow::On, allowed: Count::ZERO, covered: Count::ZERO };
            }
        };
        let allowed = self.image.with(|state| state.open.whole());
        let crash = told.crash(level, &point);
        let stats = &mut self.levels[level as usize - 1];
        if level > 1 || self.first_walk {
            stats.key_points += 1;
            stats.allowed = stats.allowed.plus(allowed);
            stats.choices = stats.choices.plus(frame.choices);
        }
        let told_print = told.print(&crash);
        let print = self.image.with(|state| state.open.fingerprint(&state.memory));
        let print = print.wrapping_add(told_print).wrapping_add(u128::from(level));
        if let Some(images) = self.seen.images_at(print) {
            return self.pass_by(level, frame, images, allowed);
        }
        let (verified, failures) = (self.verified, self.failures.len());
        let end = self.verified.saturating_add(share);
        // A share without end needs no samples, and neither does a walk that follows another.
        let samples = if share == u64::MAX || !self.first_walk { 0 } else { share / 4 };
        let mut covered = Count::ZERO;
        let mut flow = Flow::On;
        let mut finished = false;
        while !finished && flow == Flow::On && self.verified < end - samples {
            let leaf = self.leaf(&point, &crash, told_print, &mut flow, end - samples);
            covered = covered.plus(leaf);
            finished = flow == Flow::On && !self.image.with(|state| state.open.advance());
        }
        assert!(
            !finished || covered.agrees_with(allowed),
            "the images verified at {point:?} add up to {covered} and not to {allowed}"
        );
        self.image.with(|state| state.open.forget());
        if finished && self.failures.len() == failures {
            self.seen.note_point(print, self.verified - verified);
        }
        if !finished && flow == Flow::On {
            self.left_out = true;
            flow = self.sample(&point, &crash, told_print, end, frame.first_unit());
        }
        if level > 1 {
            let stats = &mut self.levels[level as usize - 1];
            stats.covered = stats.covered.plus(covered);
        }
        self.image.with(|state| state.open.pop(frame, Some(&mut state.memory)));
        Passed { flow, allowed, covered }
    }

    /// Leaves a crash point that is equal to one whose images were all in order. They count as
    /// executed, so that a limit ends the walk where it would without the memory of them.
    fn pass_by(&mut self, level: u32, frame: Frame, images: u64, allowed: Count) -> Passed {
        self.verified += images;
        let stats = &mut self.levels[level as usize - 1];
        stats.remembered += images;
        if level > 1 {
            stats.covered = stats.covered.plus(allowed);
        }
        self.image.with(|state| state.open.pop(frame, Some(&mut state.memory)));
        let is_over = !self.is_sharing() && self.verified >= self.settings.images_max;
        let flow = if is_over { Flow::Stop } else { Flow::On };
        Passed { flow, allowed, covered: allowed }
    }

    /// Draws images of a crash point until `end`.
    fn sample(
        &mut self,
        point: &CrashPoint,
        crash: &Crash<'_>,
        told_print: u128,
        end: u64,
        first_unit: u32,
    ) -> Flow {
        let seed = self.settings.sharing.unwrap_or_default() ^ mix(point.op as u64);
        let names = self.image.with(|state| state.open.names_from(first_unit));
        let mut modes = sample_modes(names, seed);
        let mut flow = Flow::On;
        while self.verified < end && flow == Flow::On {
            let Some(mode) = modes.next() else { break };
            self.image.with(|state| state.set_mode(mode));
            self.leaf(point, crash, told_print, &mut flow, end);
            self.image.with(|state| state.open.forget());
        }
        self.image.with(|state| state.set_mode(Mode::Search));
        flow
    }

    /// One execution of recovery, and the crashes of this recovery. Returns how many images the
    /// execution stands for.
    fn leaf(
        &mut self,
        point: &CrashPoint,
        crash: &Crash<'_>,
        told_print: u128,
        flow: &mut Flow,
        end: u64,
    ) -> Count {
        let another = crash.level < self.settings.crashes;
        let go_on = another || crash.level == 1;
        self.image.with(|state| state.begin(another, self.settings.limits()));
        let mut verdict = judge(self.judge, &self.image, crash, go_on);
        self.verified += 1;
        let (rest, print, changed) = self.image.with(|state| {
            if state.open.has_strayed() {
                let why = "recovered from the same contents, it looked at other lines than before";
                verdict = Err(Violation::new(Broken::Strayed, why));
            }
            (state.open.rest(), state.open.fingerprint(&state.memory), state.has_changed())
        });
        let print = print.wrapping_add(told_print);
        self.count(crash.level, print);
        match verdict {
            Err(violation) => {
                let strayed = violation.broken == Broken::Strayed;
                self.fail(point, violation);
                if strayed || self.failures.len() >= self.settings.failures_max {
                    *flow = Flow::Stop;
                }
                self.image.with(State::revert);
            }
            Ok(()) if another && changed => *flow = self.nest(point, crash, print, end),
            Ok(()) => self.image.with(State::revert),
        }
        self.image.with(State::undecide);
        if !self.is_sharing() && self.verified >= self.settings.images_max {
            *flow = Flow::Stop;
        }
        rest
    }

    fn count(&mut self, level: u32, print: u128) {
        let stats = &mut self.levels[level as usize - 1];
        stats.verified += 1;
        let seen = &mut self.distinct[level as usize - 1];
        if seen.len() < self.settings.distinct_max && seen.insert(print) {
            stats.distinct += 1;
        }
    }

    fn fail(&mut self, point: &CrashPoint, violation: Violation) {
        let mut crashes = self.with_picks(point);
        self.image.with(|state| state.add_representatives(&mut crashes));
        self.failures.push(Failure { violation, witness: Witness { crashes } });
    }

    /// The crashes up to this point, with what the last recovery decided.
    fn with_picks(&self, point: &CrashPoint) -> Vec<CrashPoint> {
        let mut crashes = self.path.clone();
        crashes.push(point.clone());
        self.image.with(|state| state.add_picks(&mut crashes));
        crashes
    }

    /// Crashes the recovery that has just run.
    fn nest(&mut self, point: &CrashPoint, crash: &Crash<'_>, print: u128, end: u64) -> Flow {
        let mut log = self.logs.pop().unwrap_or_default();
        self.image.with(|state| {
            state.swap_log(&mut log);
            state.revert();
        });
        let mut flow = Flow::On;
        let print = print.wrapping_add(trail::log_print(&log));
        if self.seen.is_new_recovery(print) {
            let inner = self.with_picks(point);
            let outer = std::mem::replace(&mut self.path, inner);
            let (settled, mode) =
                self.image.with(|state| (state.settle(), state.set_mode(Mode::Search)));
            let before = Told::of(crash.acked, crash.begun);
            let left_out = std::mem::replace(&mut self.left_out, false);
            let end = self.end_for_one_of_many(end);
            flow = self.explore(crash.level + 1, &log, &before, end);
            if self.left_out {
                self.seen.forget_recovery(print);
            }
            self.left_out |= left_out;
            self.image.with(|state| {
                state.set_mode(mode);
                state.unsettle(settled);
            });
            self.path = outer;
        } else {
            self.levels[crash.level as usize - 1].repeated += 1;
        }
        self.logs.push(log);
        flow
    }

    /// In the first walk one recovery's crashes take no more than a quarter of what is left for
    /// the crash point, for other images of it are to follow.
    fn end_for_one_of_many(&self, end: u64) -> u64 {
        if end == u64::MAX || !self.first_walk {
            return end;
        }
        self.verified + end.saturating_sub(self.verified) / 4
    }
}

/// The result of a crash point.
struct Passed {
    flow: Flow,
    allowed: Count,
    covered: Count,
}

/// Nothing persisted, everything, each unit alone, each unit left out; then by chance, for ever.
fn sample_modes(names: Vec<u64>, seed: u64) -> impl Iterator<Item = Mode> {
    let extremes = strata::extremes(names.len()).map(move |choice| match choice {
        Choice::Only(kept) => {
            Mode::Fixed(kept.iter().map(|&unit| (names[unit], LAST_ROW)).collect())
        }
        Choice::AllBut(lost) => Mode::AllBut(lost.iter().map(|&unit| names[unit]).collect()),
    });
    let by_chance = (0..).map(move |number: u64| Mode::Sample(seed.wrapping_add(mix(number))));
    extremes.chain(by_chance)
}

/// The steps on an image's state that all drivers share.
impl State {
    /// Lets one part of an operation take effect on what is durable.
    pub(crate) fn play(
        &mut self,
        tracker: &mut Tracker,
        index: usize,
        lane: LaneId,
        op: &Op<'_>,
        part: usize,
    ) {
        tracker.apply(index, lane, op, part, &mut self.memory);
        if let Op::Grow { len } = *op {
            self.open.resize(len);
        }
    }

    /// Notes what the running recovery decided otherwise than at its floor, each with the crash
    /// that had left it open: a recovery may be the first to look at what an earlier crash left.
    pub(crate) fn add_picks(&self, crashes: &mut [CrashPoint]) {
        for decision in self.open.decisions().iter().filter(|decision| decision.row != 0) {
            let at = PoolOffset(self.open.name(decision.unit) * 8);
            crashes[self.open.crash_of(decision.unit)].picks.push(Pick { at, row: decision.row });
        }
    }

    /// Notes one content of what is known only to be refused, or to pass.
    fn add_representatives(&self, crashes: &mut [CrashPoint]) {
        for (unit, row) in self.open.representatives() {
            let at = PoolOffset(self.open.name(unit) * 8);
            crashes[self.open.crash_of(unit)].picks.push(Pick { at, row });
        }
    }

    pub(crate) fn set_mode(&mut self, mode: Mode) -> Mode {
        self.open.set_mode(mode)
    }
}
