//! The states that a crash may leave, in the order that finds faults soonest, and their verdicts.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::capture::{self, CaptureError, marks::Marks};
use crate::judge::{Asked, Checker, Judge, Outcome, Reopened};
use crate::oracle::marked::Marked;
use crate::order::{Moment, Ordered};
use crate::part::Part;
use crate::run::Run;
use crate::run::{Change, NodeId};
use crate::strata::{self, Bounds, Choice, Stratum};
use crate::tree::{Node, ROOT, Read, Tree};

/// A state: the units of a run that a crash has kept.
#[derive(Clone, Debug)]
pub struct State {
    /// The index of its model among those searched.
    pub model: usize,
    /// The index of the moment.
    pub moment: usize,
    /// The units kept, besides those that are durable before all others are.
    pub kept: BTreeSet<usize>,
}

/// How far each moment is searched.
const BOUNDS: Bounds = Bounds { exhaustive: 10, pairs: 40, drawn: 40 };

/// How a search goes about its states.
#[derive(Clone, Debug)]
pub struct Limits {
    /// No new states are checked after it.
    pub time: Duration,
    /// One run of a check.
    pub check_time: Duration,
    /// Checks at a time.
    pub jobs: usize,
    /// The seed of everything drawn.
    pub seed: u64,
    /// A command of the shell that writes to a recovered state, which is then checked once more.
    pub write: Option<String>,
}

/// A failing state.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The state.
    pub state: State,
    /// The check's verdict.
    pub wrong: String,
}

/// How much was tried.
#[derive(Clone, Copy, Default, Debug)]
pub struct Coverage {
    /// Moments at which power may fail, over all models.
    pub moments: usize,
    /// Moments all of whose states were tried.
    pub exhausted: usize,
    /// States looked at.
    pub states: usize,
    /// Of different content or acknowledgements, each checked.
    pub distinct: usize,
    /// Whether the time was over before all planned states were tried.
    pub cut_short: bool,
}

/// Verdicts by content, which hold for every run that leads to it.
#[derive(Default)]
struct Verdicts {
    /// By content, and by the numbers begun and acknowledged.
    told: FxHashMap<(u128, u64, u64), Outcome>,
    /// Of checks that name the state they recovered.
    of_state: FxHashMap<u128, Outcome>,
}

/// The contents that a search has seen under each model, and the failures of each kind that it has kept.
#[derive(Default)]
struct Listed {
    contents: FxHashSet<(usize, u128, u64, u64)>,
    kinds: FxHashMap<(usize, String), usize>,
    enough: usize,
}

impl Listed {
    /// Adds a failure, unless those of its kind are a quarter of all that are wanted: one kind, however frequent, hides no
    /// other.
    fn add(&mut self, failures: &mut Vec<Failure>, state: State, wrong: String) {
        let kind = wrong.split(':').next().unwrap_or_default().to_owned();
        let count = self.kinds.entry((state.model, kind)).or_default();
        if *count < self.enough.div_ceil(4) {
            *count += 1;
            failures.push(Failure { state, wrong });
        }
    }
}

/// Searches a run under models, and keeps all verdicts.
pub struct Search<'a> {
    run: &'a Run,
    checker: &'a Checker,
    dir: &'a Path,
    limits: Limits,
    /// Only states of this part of all contents.
    part: Option<Part>,
    verdicts: Verdicts,
    reopened: Arc<Reopened>,
    marked: Arc<Marked>,
    read: Read,
    began: Instant,
    /// States that passed, one of each content.
    passed: Vec<State>,
    /// So much was tried by now.
    pub coverage: Coverage,
}

impl<'a> Search<'a> {
    /// A search of `run` by `checker`, to which the directory is known as `dir`.
    #[must_use]
    pub fn new(run: &'a Run, checker: &'a Checker, dir: &'a Path, limits: Limits) -> Self {
        Self {
            run,
            checker,
            dir,
            limits,
            part: None,
            verdicts: Verdicts::default(),
            reopened: Arc::default(),
            marked: Arc::new(Marked::of_run(run)),
            read: Read::default(),
            began: Instant::now(),
            passed: Vec::new(),
            coverage: Coverage::default(),
        }
    }

    /// Checks one part of all contents alone. Parts of one run, with the same seed and the same data read, are
    /// together the whole.
    #[must_use]
    pub fn part(self, part: Option<Part>) -> Self {
        Self { part, ..self }
    }

    /// A judge for states apart from the search.
    ///
    /// # Errors
    /// Those of making its folder.
    pub fn judge(&self) -> io::Result<Judge<'a>> {
        let reopened = Arc::clone(&self.reopened);
        let judge = Judge::new(self.checker, self.dir, &self.limits, reopened)?;
        Ok(judge.by(&self.marked))
    }

    /// A search of another run by the same check, within the same time, with all verdicts so far: those
    /// come back by [`Search::end`].
    #[must_use]
    pub fn within<'b>(&mut self, run: &'b Run) -> Search<'b>
    where
        'a: 'b,
    {
        Search {
            run,
            checker: self.checker,
            dir: self.dir,
            limits: self.limits.clone(),
            // All states of a run that belongs to one of this part's.
            part: None,
            verdicts: std::mem::take(&mut self.verdicts),
            reopened: Arc::clone(&self.reopened),
            marked: Arc::clone(&self.marked),
            read: Read::default(),
            began: self.began,
            passed: Vec::new(),
            coverage: Coverage { distinct: self.coverage.distinct, ..Coverage::default() },
        }
    }

    /// Takes back the verdicts of a search within this one.
    pub fn end(&mut self, within: Search<'_>) {
        self.verdicts = within.verdicts;
        self.coverage.distinct = within.coverage.distinct;
        self.coverage.cut_short |= within.coverage.cut_short;
    }

    /// Captures the recovery from states all over the run, and leaves out of all states from now on what
    /// none of them reads: logs for people, locks, memory that is shared and built anew.
    ///
    /// # Errors
    /// A recovery cannot be captured.
    pub fn learn_reads(&mut self, model: &Ordered) -> Result<(), CaptureError> {
        const STATES: usize = 6;
        let judge = self.judge()?;
        let bases = bases(self.run, model);
        let last = model.moments.len() - 1;
        let mut seen: Read = Read::default();
        for step in 0..STATES {
            let index = last * step / (STATES - 1);
            let moment = &model.moments[index];
            for kept in [model.without(moment, &BTreeSet::new()), moment.forced.clone()] {
                let tree = bases[index].tree(model, &kept);
                judge.lay_out(&tree)?;
                let (command, folder) = judge.words(moment.issued, moment.acked);
                let recovery = capture::capture(&capture::Options {
                    dir: judge.place().to_owned(),
                    command,
                    folder: Some(folder.to_owned()),
                    marks: Marks::default(),
                    time: self.limits.check_time,
                    reads: true,
                    exact: false,
                    fault: None,
                })?;
                let mut there = Vec::new();
                same_places(&tree, &recovery.base, (ROOT, ROOT), &mut there);
                for (node, of_recovery) in there {
                    // Of an empty file nothing can be told.
                    if tree.content(node).is_none_or(|content| content.size == 0) {
                        continue;
                    }
                    let end = recovery.read.get(&of_recovery).copied().unwrap_or(0);
                    let known = seen.entry(node).or_insert(0);
                    *known = (*known).max(end);
                }
            }
        }
        self.read = seen;
        Ok(())
    }

    /// States that passed, one of each content, in the order tried.
    #[must_use]
    pub fn passed(&self) -> &[State] {
        &self.passed
    }

    /// Whether the time for checks is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.began.elapsed() >= self.limits.time
    }

    /// The verdict of one state.
    ///
    /// # Errors
    /// The state cannot be laid out, or the checker cannot be started.
    pub fn verdict(
        &mut self,
        judge: &mut Judge<'_>,
        tree: &Tree,
        moment: &Moment,
    ) -> io::Result<Option<String>> {
        let hash = tree.hash(&self.read);
        if let Some(outcome) = self.known(hash, moment) {
            return Ok(outcome.wrong(moment.issued, moment.acked));
        }
        let outcome = judge.judge(tree, moment.issued, moment.acked)?;
        let wrong = outcome.wrong(moment.issued, moment.acked);
        self.keep(hash, moment.issued, moment.acked, outcome);
        Ok(wrong)
    }

    /// Whether a content belongs to the part that is searched.
    fn has(&self, hash: u128) -> bool {
        self.part.is_none_or(|part| part.has(hash))
    }

    /// Takes a content out of the count that another part checks as well.
    pub(crate) fn discount(&mut self, tree: &Tree) {
        let is_counted_here = self.has(tree.hash(&self.read));
        let twice = usize::from(!is_counted_here);
        self.coverage.distinct = self.coverage.distinct.saturating_sub(twice);
    }

    /// Data that recoveries read, as [`learn_reads`](Self::learn_reads) has found it.
    #[must_use]
    pub fn reads(&self) -> &Read {
        &self.read
    }

    /// Takes what was learned before.
    pub fn set_reads(&mut self, read: Read) {
        self.read = read;
    }

    fn known(&self, hash: u128, moment: &Moment) -> Option<&Outcome> {
        let Verdicts { told, of_state } = &self.verdicts;
        of_state.get(&hash).or_else(|| told.get(&(hash, moment.issued, moment.acked)))
    }

    fn keep(&mut self, hash: u128, issued: u64, acked: u64, outcome: Outcome) {
        self.coverage.distinct += 1;
        if outcome.is_of_state() {
            self.verdicts.of_state.insert(hash, outcome);
        } else {
            self.verdicts.told.insert((hash, issued, acked), outcome);
        }
    }

    /// Tries states of all models, those of `wanted` moments, until the time is over. Failures come in
    /// the order found; `enough` ends the search early.
    ///
    /// # Errors
    /// A state cannot be laid out, or the checker cannot be started.
    pub fn search(
        &mut self,
        models: &[Ordered],
        wanted: &dyn Fn(usize, &Moment) -> bool,
        news: &mut dyn FnMut(&Coverage, usize),
        enough: usize,
    ) -> io::Result<Vec<Failure>> {
        let mut failures: Vec<Failure> = Vec::new();
        let bases: Vec<Vec<Base>> = models.iter().map(|model| bases(self.run, model)).collect();
        let visible: Vec<Vec<bool>> =
            models.iter().map(|model| visible(self.run, model, &self.read)).collect();
        let mut rng = StdRng::seed_from_u64(self.limits.seed);
        self.coverage.moments = models.iter().map(|model| model.moments.len()).sum();
        let mut listed = Listed { enough, ..Listed::default() };
        for stratum in Stratum::ALL {
            // States of this stratum, checked side by side.
            let mut of_models = Vec::new();
            for (number, model) in models.iter().enumerate() {
                let mut states = Vec::new();
                for (index, moment) in model.moments.iter().enumerate() {
                    if !wanted(number, moment) {
                        continue;
                    }
                    let (sets, all) = sets(stratum, model, moment, &visible[number], &mut rng);
                    self.coverage.exhausted += usize::from(all);
                    states.extend(sets.into_iter().map(|kept| State {
                        model: number,
                        moment: index,
                        kept,
                    }));
                }
                of_models.push(states.into_iter());
            }
            // In turn, so that failures under one model leave room for those under the next.
            let mut states = Vec::new();
            while of_models.iter().any(|states| states.len() > 0) {
                states.extend(of_models.iter_mut().filter_map(Iterator::next));
            }
            self.check_all(models, &bases, states, &mut listed, &mut failures, news)?;
            if failures.len() >= enough || self.coverage.cut_short {
                break;
            }
        }
        Ok(failures)
    }

    /// Checks `states`. A content that fails is a failure of each model that has it; `listed` are those that were seen.
    #[allow(clippy::too_many_arguments)]
    fn check_all(
        &mut self,
        models: &[Ordered],
        bases: &[Vec<Base>],
        states: Vec<State>,
        listed: &mut Listed,
        failures: &mut Vec<Failure>,
        news: &mut dyn FnMut(&Coverage, usize),
    ) -> io::Result<()> {
        type Job = (State, u128, Tree, u64, u64);
        let (jobs_in, jobs) = sync_channel::<Job>(4 * self.limits.jobs);
        let jobs = Mutex::new(jobs);
        let (results_in, results) = channel::<(State, u128, u64, u64, io::Result<Outcome>)>();
        let (checker, dir, limits) = (self.checker, self.dir, self.limits.clone());
        let (reopened, marked) = (Arc::clone(&self.reopened), Arc::clone(&self.marked));
        let mut fault = None;
        // States of a content that is being checked.
        let mut later: Vec<(State, u128)> = Vec::new();
        thread::scope(|scope| {
            for _ in 0..self.limits.jobs {
                let results = results_in.clone();
                let (jobs, reopened) = (&jobs, Arc::clone(&reopened));
                let (limits, marked) = (&limits, &marked);
                scope.spawn(move || {
                    let mut judge = match Judge::new(checker, dir, limits, reopened) {
                        Ok(judge) => judge.by(marked),
                        Err(error) => {
                            // The first job tells.
                            let job = jobs.lock().map(|jobs| jobs.recv());
                            if let Ok(Ok((state, hash, _, issued, acked))) = job {
                                let _ = results.send((state, hash, issued, acked, Err(error)));
                            }
                            return;
                        }
                    };
                    // The state at the checker's, while the next one is laid out.
                    let mut earlier = None;
                    loop {
                        let job = jobs.lock().ok().and_then(|jobs| jobs.recv().ok());
                        let (next, asked) = match job {
                            Some((state, hash, tree, issued, acked)) => (
                                Some((state, hash, issued, acked)),
                                Some(Asked { tree, issued, acked }),
                            ),
                            None => (None, None),
                        };
                        let outcome = judge.judge_in_turn(asked);
                        let is_last = next.is_none() || outcome.is_err();
                        // What fails before a state is checked is told with it.
                        let job = match (&outcome, std::mem::replace(&mut earlier, next)) {
                            (Err(_), None) => earlier.take(),
                            (_, job) => job,
                        };
                        if let (Some((state, hash, issued, acked)), Some(outcome)) =
                            (job, outcome.transpose())
                            && results.send((state, hash, issued, acked, outcome)).is_err()
                        {
                            return;
                        }
                        if is_last {
                            return;
                        }
                    }
                });
            }
            drop(results_in);
            let mut asked: FxHashSet<(u128, u64, u64)> = FxHashSet::default();
            let mut take = |this: &mut Self,
                            listed: &mut Listed,
                            failures: &mut Vec<Failure>,
                            (state, hash, issued, acked, outcome): (
                State,
                u128,
                u64,
                u64,
                io::Result<Outcome>,
            )| {
                match outcome {
                    Ok(outcome) => {
                        match outcome.wrong(issued, acked) {
                            Some(wrong) => listed.add(failures, state, wrong),
                            None => this.passed.push(state),
                        }
                        this.keep(hash, issued, acked, outcome);
                        news(&this.coverage, failures.len());
                    }
                    Err(error) => fault = fault.take().or(Some(error)),
                }
            };
            for state in states {
                while let Ok(result) = results.try_recv() {
                    take(self, listed, failures, result);
                }
                if self.is_over() {
                    self.coverage.cut_short = true;
                }
                if self.coverage.cut_short || failures.len() >= listed.enough {
                    break;
                }
                let model = &models[state.model];
                let moment = &model.moments[state.moment];
                let tree = bases[state.model][state.moment].tree(model, &state.kept);
                let hash = tree.hash(&self.read);
                if !self.has(hash) {
                    continue;
                }
                self.coverage.states += 1;
                let (issued, acked) = (moment.issued, moment.acked);
                if !listed.contents.insert((state.model, hash, issued, acked)) {
                    continue;
                }
                if let Some(outcome) = self.known(hash, moment) {
                    if let Some(wrong) = outcome.wrong(issued, acked) {
                        listed.add(failures, state, wrong);
                    }
                    continue;
                }
                if !asked.insert((hash, issued, acked)) {
                    later.push((state, hash));
                    continue;
                }
                if jobs_in.send((state, hash, tree, issued, acked)).is_err() {
                    break;
                }
            }
            drop(jobs_in);
            while let Ok(result) = results.recv() {
                take(self, listed, failures, result);
            }
        });
        for (state, hash) in later {
            let moment = &models[state.model].moments[state.moment];
            let outcome = self.known(hash, moment);
            if let Some(wrong) = outcome.and_then(|known| known.wrong(moment.issued, moment.acked))
            {
                listed.add(failures, state, wrong);
            }
        }
        match fault {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// The durable tree at a moment.
#[derive(Clone)]
pub struct Base {
    tree: Tree,
    /// Of the first units alone.
    low: Tree,
    /// The number of first units that are durable.
    below: usize,
    /// Durable units behind those.
    forced: BTreeSet<usize>,
    /// Those among them that cut a file.
    cuts: Vec<(usize, NodeId, u64)>,
}

impl Base {
    /// The directory with `kept`, in addition to the first units. Sets that hold all that is durable are quick.
    #[must_use]
    pub fn tree(&self, model: &Ordered, kept: &BTreeSet<usize>) -> Tree {
        if !self.forced.is_subset(kept) {
            // What an experiment asks for, not a crash.
            let mut tree = self.low.clone();
            for &unit in kept.range(self.below..) {
                tree.apply(&model.units[unit].change);
            }
            return tree;
        }
        let mut tree = self.tree.clone();
        for &unit in kept.range(self.below..).filter(|unit| !self.forced.contains(unit)) {
            self.apply(&mut tree, model, unit);
        }
        tree
    }

    /// Adds a unit to a tree in which later ones may be already. Those of its page, name or size are not: they
    /// need it. A later cut of its file has taken what lies behind.
    fn apply(&self, tree: &mut Tree, model: &Ordered, unit: usize) {
        let change = &model.units[unit].change;
        if let Change::Data { node, offset, bytes } = change
            && let Some(end) = self
                .cuts
                .iter()
                .filter(|(cut, of, _)| *cut > unit && of == node)
                .map(|&(_, _, to)| to)
                .min()
            && offset + bytes.len() as u64 > end
        {
            let left = end.saturating_sub(*offset) as usize;
            if left != 0 {
                let bytes = bytes[..left].to_vec();
                tree.apply(&Change::Data { node: *node, offset: *offset, bytes });
            }
            return;
        }
        tree.apply(change);
    }

    /// The base at `moment`, which comes behind.
    fn advance(&mut self, model: &Ordered, moment: &Moment) {
        let new: Vec<usize> = (self.below..moment.below)
            .chain(moment.forced.iter().copied())
            .filter(|unit| *unit >= self.below && !self.forced.contains(unit))
            .collect();
        for unit in new {
            let mut tree = std::mem::take(&mut self.tree);
            self.apply(&mut tree, model, unit);
            self.tree = tree;
            if let Change::Cut { node, to } = model.units[unit].change {
                self.cuts.push((unit, node, to));
            }
        }
        for unit in self.below..moment.below {
            self.low.apply(&model.units[unit].change);
        }
        self.below = moment.below;
        self.forced.clone_from(&moment.forced);
        // All before a cut within the first units is in the tree already.
        self.cuts.retain(|&(cut, ..)| cut >= moment.below);
    }
}

/// The bases of all moments.
#[must_use]
pub fn bases(run: &Run, model: &Ordered) -> Vec<Base> {
    let mut base = Base {
        tree: run.base.clone(),
        low: run.base.clone(),
        below: 0,
        forced: BTreeSet::new(),
        cuts: Vec::new(),
    };
    model
        .moments
        .iter()
        .map(|moment| {
            base.advance(model, moment);
            base.clone()
        })
        .collect()
}

/// Whether each unit changes anything that a recovery may see: not data that no recovery reads, and not data that
/// was there already. What a page needs before it is kept with it, so that the content before is known.
fn visible(run: &Run, model: &Ordered, read: &Read) -> Vec<bool> {
    let mut tree = run.base.clone();
    let mut there = Vec::new();
    let mut seen = Vec::with_capacity(model.units.len());
    for unit in &model.units {
        seen.push(match &unit.change {
            Change::Data { node, offset, bytes } => {
                let end = read.get(node).copied().unwrap_or(u64::MAX);
                let length = (bytes.len() as u64).min(end.saturating_sub(*offset)) as usize;
                there.resize(length, 0);
                tree.content(*node).is_none_or(|content| {
                    content.read(*offset, &mut there);
                    there != bytes[..length]
                })
            }
            _ => true,
        });
        tree.apply(&unit.change);
    }
    seen
}

/// The sets of units that a stratum tries at a moment, and whether they are all that there are.
fn sets(
    stratum: Stratum,
    model: &Ordered,
    moment: &Moment,
    visible: &[bool],
    rng: &mut StdRng,
) -> (Vec<BTreeSet<usize>>, bool) {
    let mut pending = model.pending(moment);
    pending.retain(|&unit| visible[unit]);
    if stratum == Stratum::Drops {
        // Names and sizes first.
        pending.sort_by_key(|&unit| matches!(model.units[unit].change, Change::Data { .. }));
    }
    let units = |chosen: Vec<usize>| chosen.into_iter().map(|index| pending[index]).collect();
    let sets = strata::choices(stratum, pending.len(), BOUNDS, rng).map(|choice| match choice {
        Choice::Only(kept) => model.with_needs(moment, &units(kept)),
        Choice::AllBut(lost) => model.without(moment, &units(lost)),
    });
    if stratum == Stratum::All && pending.len() <= BOUNDS.exhaustive {
        let sets: BTreeSet<BTreeSet<usize>> = sets.collect();
        return (sets.into_iter().collect(), true);
    }
    (sets.collect(), false)
}

/// Files at the same places of two trees.
fn same_places(
    one: &Tree,
    other: &Tree,
    dirs: (NodeId, NodeId),
    found: &mut Vec<(NodeId, NodeId)>,
) {
    let (Node::Dir(names), Node::Dir(_)) = (one.node(dirs.0), other.node(dirs.1)) else { return };
    for (name, &node) in names {
        let Some(there) = other.lookup(dirs.1, name) else { continue };
        match one.node(node) {
            Node::File(_) => found.push((node, there)),
            Node::Dir(_) if node != dirs.0 => same_places(one, other, (node, there), found),
            _ => {}
        }
    }
}
