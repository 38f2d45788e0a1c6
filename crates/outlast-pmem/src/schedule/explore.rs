//! Every schedule up to a bound of preemptions, each once.

use super::{Plan, Run, ScheduleError, Scheduler, Switch};

/// Walks through all schedules that interrupt a lane at most `preemptions` times, each once.
///
/// Handing over because a lane ended or paused is free, and every lane that could take over is
/// tried. Most bugs of concurrency need one or two preemptions (Musuvathi and Qadeer, "Iterative
/// context bounding", PLDI 2007), so small bounds find much while the number of schedules stays
/// polynomial in the length of the run.
///
/// ```
/// use outlast_pmem::schedule::Explorer;
/// use outlast_pmem::{Medium, Recorder};
/// use outlast_trace::PoolOffset;
///
/// let mut results = std::collections::BTreeSet::new();
/// let mut explorer = Explorer::new(1);
/// while let Some(scheduler) = explorer.next() {
///     let medium = Recorder::new(64);
///     let add = || {
///         let seen = medium.load_u64(PoolOffset(0));
///         medium.store_u64(PoolOffset(0), seen + 1);
///     };
///     explorer.ran(&scheduler.run(vec![add, add]).unwrap());
///     results.insert(medium.load_u64(PoolOffset(0)));
/// }
/// assert_eq!(results.into_iter().collect::<Vec<_>>(), [1, 2]); // the lost update was found
/// ```
///
/// The program must be a function of its schedule; where it is not, a run ends in
/// [`ScheduleError::Diverged`] or schedules are missed.
#[derive(Clone, Debug)]
pub struct Explorer {
    preemptions: u32,
    /// Plans not run yet, each with the preemptions that it has left: in ascending order by that
    /// number, else all in one stack.
    open: Vec<Vec<(Vec<Switch>, u32)>>,
    ascending: bool,
    running: Option<(Vec<Switch>, u32)>,
    schedules: u64,
}

impl Explorer {
    /// All schedules with at most `preemptions` preemptions.
    pub fn new(preemptions: u32) -> Self {
        Self {
            preemptions,
            open: vec![vec![(Vec::new(), preemptions)]],
            ascending: false,
            running: None,
            schedules: 0,
        }
    }

    /// Schedules with fewer preemptions come first, so that what one shows is not found with two.
    /// All plans that are put off until then are kept in memory.
    pub fn ascending(mut self) -> Self {
        self.ascending = true;
        self
    }

    fn put(&mut self, switches: Vec<Switch>, left: u32) {
        let stack = if self.ascending { left as usize } else { 0 };
        if self.open.len() <= stack {
            self.open.resize(stack + 1, Vec::new());
        }
        self.open[stack].push((switches, left));
    }

    fn take(&mut self) -> Option<(Vec<Switch>, u32)> {
        self.open.iter_mut().rev().find_map(Vec::pop)
    }

    /// The next schedule, ready to run; none when all have been run. Tell the explorer of the
    /// run through [`ran`](Self::ran) before asking again, else what follows from it is missed.
    #[expect(clippy::should_implement_trait, reason = "between two calls the run is reported")]
    pub fn next(&mut self) -> Option<Scheduler> {
        let (switches, left) = self.take()?;
        self.schedules += 1;
        let scheduler = Scheduler::new(&Plan::Explicit(switches.clone())).branches();
        self.running = Some((switches, left));
        Some(scheduler)
    }

    /// Learns from the last schedule's run where other schedules branch off.
    pub fn ran<R>(&mut self, run: &Run<R>) {
        let Some((switches, left)) = self.running.take() else { return };
        // A child's last switch lies behind its parent's: every list of switches has one parent,
        // so each schedule is met exactly once.
        let from = switches.last().map_or(0, |last| last.step + 1);
        for branch in run.branches.iter().rev().filter(|branch| branch.step >= from) {
            if branch.preempts && left == 0 {
                continue;
            }
            let mut alternatives = branch.alternatives;
            while alternatives != 0 {
                let lane = outlast_trace::LaneId(alternatives.trailing_zeros() as u16);
                alternatives &= alternatives - 1;
                let mut child = Vec::with_capacity(switches.len() + 1);
                child.extend_from_slice(&switches);
                child.push(Switch { step: branch.step, lane });
                self.put(child, left - u32::from(branch.preempts));
            }
        }
    }

    /// How many schedules were handed out so far.
    pub fn schedules(&self) -> u64 {
        self.schedules
    }

    /// The bound that this explorer keeps.
    pub fn preemptions(&self) -> u32 {
        self.preemptions
    }

    /// Runs all schedules: `make` builds a program's lanes afresh, `judge` sees each run with the
    /// plan that made it. Ends early when `judge` returns an error.
    ///
    /// # Errors
    /// What `judge` returned, or the schedule's own error.
    pub fn run_all<R, F, E>(
        mut self,
        mut make: impl FnMut() -> Vec<F>,
        mut judge: impl FnMut(&Plan, Run<R>) -> Result<(), E>,
    ) -> Result<u64, E>
    where
        R: Send,
        F: FnOnce() -> R + Send,
        E: From<ScheduleError>,
    {
        while let Some(scheduler) = self.next() {
            let plan = scheduler.plan.clone();
            let run = scheduler.run(make())?;
            self.ran(&run);
            judge(&plan, run)?;
        }
        Ok(self.schedules)
    }
}
