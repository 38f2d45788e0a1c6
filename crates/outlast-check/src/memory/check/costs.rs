//! Operations that only cost time: flushes that write back nothing, fences that order nothing, lines that
//! are persisted for no reader.
//!
//! An operation is needless only if it is so in every schedule that was run: a lane that flushes
//! what it has read, before it acknowledges, finds it flushed already in most of them.

use std::collections::{BTreeMap, BTreeSet};

use outlast_pmem::Site;
use outlast_pmem::schedule::Plan;
use outlast_trace::{ByteRange, LaneId, LineAddr, Op};
use rustc_hash::{FxHashMap, FxHashSet};

use super::callers::{Caller, callers};
use super::finding::{Class, Finding, Place};
use super::program::Program;
use super::run::{Ran, lines_of};
use super::{Check, Report};
use crate::memory::image::Looked;
use crate::memory::model::Model;

/// The most needless operations that are looked at more closely.
const CANDIDATES_MAX: usize = 256;

/// Which operation of the program it is, whatever the schedule: the `nth` of its lane that stands
/// there in the source and is about this line.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    lane: LaneId,
    file: &'static str,
    source_line: u32,
    column: u32,
    line: Option<LineAddr>,
    nth: u32,
}

/// An operation that was needless in the schedules so far.
#[derive(Clone, Debug)]
struct Candidate {
    class: Class,
    key: Key,
    plan: Plan,
    place: Place,
}

/// The costs that the runs of one check show.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// The plan of the first run.
    first: Option<Plan>,
    candidates: Vec<Candidate>,
    seen: FxHashSet<Key>,
    needed: FxHashSet<Key>,
    /// The lines that each call of the first run persists.
    persisted: Vec<(Place, Vec<LineAddr>)>,
    /// The lines that some recovery has loaded from.
    pub looked: Looked,
}

/// A call of the program into the medium: its needless cost, its place, and by which
/// calls the program came there.
type Call = (Class, Option<(&'static str, u32, u32)>, Vec<Caller>);

/// The operations of a lane since some moment.
#[derive(Default)]
struct Lane {
    /// It has flushed or streamed since its last fence.
    pending: bool,
    /// Flushes of one call, one line after the other, as far as they are needless.
    range: Vec<(Key, usize)>,
    /// Where that call stands.
    range_site: Option<(&'static str, u32, u32)>,
    /// Some flush of it was needed.
    range_needed: bool,
}

/// Follows one run.
#[derive(Default)]
struct Walk {
    lanes: FxHashMap<LaneId, Lane>,
    /// Lines with stores that were not flushed since.
    dirty: FxHashSet<LineAddr>,
    /// The lane that stored to a line last.
    stored_by: FxHashMap<LineAddr, LaneId>,
    /// Lines that a lane has flushed and not fenced.
    unfenced: FxHashMap<LineAddr, LaneId>,
    counts: FxHashMap<Key, u32>,
    needed: Vec<Key>,
    needless: Vec<(Class, Key, usize)>,
}

impl Walk {
    fn key(&mut self, ran: &Ran, op: usize, line: Option<LineAddr>) -> Option<Key> {
        let location = ran.sites.get(op)?.location;
        let mut key = Key {
            lane: ran.log.get(op).0,
            file: location.file(),
            source_line: location.line(),
            column: location.column(),
            line,
            nth: 0,
        };
        let count = self.counts.entry(key).or_default();
        *count += 1;
        key.nth = *count;
        Some(key)
    }

    fn lane(&mut self, lane: LaneId) -> &mut Lane {
        self.lanes.entry(lane).or_default()
    }

    /// A call that flushed several lines is needed if one of them is.
    fn end_range(&mut self, lane: LaneId) {
        let lane = self.lane(lane);
        lane.range_site = None;
        let needed = std::mem::take(&mut lane.range_needed);
        let range = std::mem::take(&mut lane.range);
        if needed {
            self.needed.extend(range.into_iter().map(|(key, _)| key));
        } else {
            let flush = |(key, op)| (Class::RedundantFlush, key, op);
            self.needless.extend(range.into_iter().map(flush));
        }
    }

    fn flush(&mut self, ran: &Ran, op: usize, lane: LaneId, line: LineAddr) {
        let Some(key) = self.key(ran, op, Some(line)) else { return };
        let site = Some((key.file, key.source_line, key.column));
        if self.lane(lane).range_site != site {
            self.end_range(lane);
            self.lane(lane).range_site = site;
        }
        // What another lane has stored, or flushed and not fenced, a reader makes durable before
        // it relies on it.
        let of_others = |by: Option<&LaneId>| by.is_some_and(|by| *by != lane);
        let is_needed = self.dirty.remove(&line)
            || of_others(self.unfenced.get(&line))
            || of_others(self.stored_by.get(&line));
        self.lane(lane).pending = true;
        if is_needed {
            self.unfenced.insert(line, lane);
            self.needed.push(key);
            self.lane(lane).range_needed = true;
        } else {
            self.lane(lane).range.push((key, op));
        }
    }

    fn fence(&mut self, ran: &Ran, op: usize, lane: LaneId) {
        let Some(key) = self.key(ran, op, None) else { return };
        if self.lane(lane).pending {
            self.needed.push(key);
        } else {
            self.needless.push((Class::NeedlessFence, key, op));
        }
        self.fenced(lane);
    }

    fn fenced(&mut self, lane: LaneId) {
        self.lane(lane).pending = false;
        self.unfenced.retain(|_, by| *by != lane);
    }

    fn walk(&mut self, ran: &Ran) {
        for (index, (lane, op)) in ran.log.iter().enumerate() {
            if !matches!(op, Op::Flush { .. }) {
                self.end_range(lane);
            }
            match op {
                Op::Store { at, bytes } | Op::Rmw { at, bytes } => {
                    for line in ByteRange::new(at, bytes.len() as u64).lines() {
                        self.dirty.insert(line);
                        self.stored_by.insert(line, lane);
                    }
                    if matches!(op, Op::Rmw { .. }) {
                        self.fenced(lane);
                    }
                }
                Op::StoreNt { .. } | Op::Store64 { .. } => self.lane(lane).pending = true,
                Op::Flush { line, .. } => self.flush(ran, index, lane, line),
                Op::Sfence | Op::Mfence => self.fence(ran, index, lane),
                _ => {}
            }
        }
        let lanes: Vec<LaneId> = self.lanes.keys().copied().collect();
        lanes.into_iter().for_each(|lane| self.end_range(lane));
    }
}

impl Costs {
    /// Learns from one more run.
    pub fn note(&mut self, ran: &Ran, model: Model) {
        let mut walk = Walk::default();
        walk.walk(ran);
        if self.first.is_none() {
            self.first = Some(ran.plan.clone());
            self.persisted = persisted(ran);
        }
        self.needed.extend(walk.needed);
        // Where caches are durable, a fence holds back what the program says to the outside.
        let has_fences = !model.domain.row().has_durable_stores;
        for (class, key, op) in walk.needless {
            let is_asked = has_fences || class != Class::NeedlessFence;
            if is_asked && self.seen.insert(key) && self.candidates.len() < CANDIDATES_MAX {
                let (plan, place) = (ran.plan.clone(), ran.place(op));
                self.candidates.push(Candidate { class, key, plan, place });
            }
        }
    }

    /// The operations that were needless in every run: each with the plan of a run that it stands
    /// in; and the lines that are persisted for no reader, where every image was recovered.
    fn findings(&self, complete: bool) -> Vec<(Plan, Finding)> {
        let needless = self.candidates.iter().filter(|one| !self.needed.contains(&one.key));
        let mut all: Vec<(Plan, Finding)> =
            needless.map(|one| (one.plan.clone(), Finding::at(one.class, one.place))).collect();
        let Some(first) = self.first.as_ref().filter(|_| complete) else { return all };
        let is_unread = |(_, lines): &&(Place, Vec<LineAddr>)| {
            !lines.iter().any(|line| self.looked.contains(*line))
        };
        for (place, _) in self.persisted.iter().filter(is_unread).take(CANDIDATES_MAX) {
            // What writes back nothing is no waste twice.
            if !all.iter().any(|(plan, finding)| plan == first && finding.place == *place) {
                all.push((first.clone(), Finding::at(Class::NeverRead, *place)));
            }
        }
        all
    }
}

/// The lines that a run persists: the first operation of each call, with the lines of all.
fn persisted(ran: &Ran) -> Vec<(Place, Vec<LineAddr>)> {
    let mut all: Vec<(Place, Vec<LineAddr>)> = Vec::new();
    let mut last: BTreeMap<LaneId, usize> = BTreeMap::new();
    for (index, (lane, op)) in ran.log.iter().enumerate() {
        if !matches!(op, Op::Flush { .. } | Op::StoreNt { .. } | Op::Store64 { .. }) {
            last.remove(&lane);
            continue;
        }
        let place = ran.place(index);
        let same_call = last.get(&lane).filter(|at| {
            let before: &Place = &all[**at].0;
            matches!(op, Op::Flush { .. }) && before.site == place.site
        });
        match same_call {
            Some(&at) => all[at].1.extend(lines_of(&op)),
            None => {
                last.insert(lane, all.len());
                all.push((place, lines_of(&op).collect()));
            }
        }
    }
    all
}

impl Check {
    /// Reports needless costs, each call of the program once.
    pub(super) fn add_costs(&self, costs: &Costs, program: &dyn Program, report: &mut Report) {
        let failed = report.has_failures();
        // The schedules that were left out may need what those that were run did not.
        if failed && self.lanes > 1 {
            return;
        }
        let findings = costs.findings(report.complete && !failed);
        let mut by_plan: Vec<(Plan, Vec<Finding>)> = Vec::new();
        for (plan, finding) in findings {
            match by_plan.iter_mut().find(|(other, _)| *other == plan) {
                Some((_, findings)) => findings.push(finding),
                None => by_plan.push((plan, vec![finding])),
            }
        }
        let mut told: BTreeSet<Call> = BTreeSet::new();
        for (plan, mut findings) in by_plan {
            self.find_callers(&plan, program, &mut findings);
            for finding in findings {
                let site = finding.place.site.map(|site| site.location);
                let site = site.map(|at| (at.file(), at.line(), at.column()));
                if told.insert((finding.class, site, finding.callers.clone())) {
                    report.findings.push(finding);
                }
            }
        }
    }

    /// Reports the calls by which the program came to its mistake.
    pub(super) fn add_callers(&self, program: &dyn Program, report: &mut Report) {
        for finding in &mut report.findings {
            let is_of_program = finding.place.level == 1 && finding.class != Class::Endless;
            let plan = finding.reproduction.as_ref().map(|how| how.plan.clone());
            if let Some(plan) = plan.filter(|_| is_of_program) {
                self.find_callers(&plan, program, std::slice::from_mut(finding));
            }
        }
    }

    fn find_callers(&self, plan: &Plan, program: &dyn Program, findings: &mut [Finding]) {
        let ops = findings.iter().map(|finding| finding.place.op);
        let traces = self.traces(plan, program, ops);
        for finding in findings {
            let is_there = |site: &Site| finding.place.site == Some(*site);
            if let Some((site, trace)) = traces.get(&finding.place.op).filter(|(s, _)| is_there(s))
            {
                finding.callers = callers(trace, site);
            }
        }
    }
}
