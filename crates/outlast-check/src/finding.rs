//! A failing state made small: the smallest loss that fails, its class by experiment, and the change that
//! would mend it.

use std::collections::BTreeSet;
use std::io;
use std::slice::SliceIndex;

use crate::judge::Judge;
use crate::models::{ALL, Model};
use crate::order::{Grain, Moment, Ordered};
use crate::run::{Call, Change, Event, NodeId, Run, Step, Sync};
use crate::search::{Base, Failure, Search, State, bases};
use crate::tree::Tree;

/// The class of a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Data that is acknowledged or built upon was never synced.
    FileNotSynced,
    /// A name that is acknowledged or built upon was never synced.
    DirectoryNotSynced,
    /// A sync that would have kept it comes after the acknowledgement.
    AcknowledgedTooEarly,
    /// A file replaces another, or gets its name, before its data is durable.
    RenameBeforeSync,
    /// A file has grown, and its new part is not there: the program refuses zeros.
    SizeWithoutContent,
    /// The mark that makes data valid is under the same sync as the data.
    MarkWithData,
    /// The program stops between two calls of one change, and nothing is lost: the state is neither old nor new.
    HalfApplied,
    /// A call has failed, and the program went on as if it had not.
    ErrorNotHeeded,
    /// A crash while the program recovers from one leaves a state that it cannot recover from.
    RecoveryNotRepeatable,
    /// A crash while the directory is made leaves something that cannot be opened.
    CreationNotRestartable,
}

impl Class {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::FileNotSynced => "file not synced",
            Self::DirectoryNotSynced => "directory not synced",
            Self::AcknowledgedTooEarly => "acknowledged too early",
            Self::RenameBeforeSync => "rename before sync",
            Self::SizeWithoutContent => "size without content",
            Self::MarkWithData => "data and commit mark under one sync",
            Self::HalfApplied => "half applied",
            Self::ErrorNotHeeded => "error not heeded",
            Self::RecoveryNotRepeatable => "recovery not repeatable",
            Self::CreationNotRestartable => "creation not restartable",
        }
    }

    /// The remedy, in a sentence.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::FileNotSynced => {
                "fsync the file before what depends on it is written or acknowledged"
            }
            Self::DirectoryNotSynced => {
                "fsync the directory after the create, rename or unlink and before what depends on it"
            }
            Self::AcknowledgedTooEarly => "acknowledge only after the sync has returned",
            Self::RenameBeforeSync => "fsync the new file before it gets its name",
            Self::SizeWithoutContent => {
                "treat zeros behind the last whole record as its end, or sync data before it counts"
            }
            Self::MarkWithData => "sync the data before the mark is written, or give it a checksum",
            Self::HalfApplied => {
                "write the change to a new file and rename it, or to a log first: it fails wherever the program stops between two of its calls"
            }
            Self::ErrorNotHeeded => {
                "after a failed sync acknowledge nothing more and recover from the log: its pages are clean, and no later sync writes them"
            }
            Self::RecoveryNotRepeatable => {
                "sync what recovery repairs before it removes what it repairs from"
            }
            Self::CreationNotRestartable => {
                "make the directory under another name, sync it, and rename it; or start anew where nothing was acknowledged"
            }
        }
    }
}

/// A fault with its smallest example.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The class.
    pub class: Class,
    /// The check's verdict.
    pub wrong: String,
    /// Models that allow the state.
    pub models: Vec<&'static str>,
    /// The first call of which something is lost.
    pub lost: Call,
    /// All lost units for people.
    pub lost_units: Vec<String>,
    /// The first call after it that is kept, or acknowledges.
    pub kept: Option<Call>,
    /// Transactions begun and acknowledged.
    pub issued: u64,
    /// See `issued`.
    pub acked: u64,
    /// The state, for replay: model, event before which power fails, and units lost.
    pub state: String,
    /// Failing states of this kind.
    pub count: usize,
    /// The state.
    pub example: State,
    /// The first crash, if this is one in the recovery from it.
    pub first_crash: Option<String>,
    /// The call that was made to fail.
    pub fault: Option<String>,
}

/// Reduces failures to findings.
pub struct Reducer<'a, 'r> {
    /// The run.
    pub run: &'r Run,
    /// The models searched.
    pub models: &'a [Ordered],
    /// The grain of units.
    pub grain: Grain,
}

/// The first thing after a loss at which the check fails.
#[derive(Clone, Copy, Debug)]
enum Turn {
    /// The step that acknowledges.
    Acked(usize),
    /// A unit that is kept.
    Kept(usize),
}

/// Verdicts of states that the search did not come to.
struct Asker<'s, 'a> {
    search: &'s mut Search<'a>,
    judge: Judge<'a>,
}

impl Asker<'_, '_> {
    fn verdict(&mut self, tree: &Tree, moment: &Moment) -> io::Result<Option<String>> {
        self.search.verdict(&mut self.judge, tree, moment)
    }
}

/// Failures of each kind that are reduced: more of a kind say nothing new.
const REDUCED_OF_A_KIND: usize = 3;

impl Reducer<'_, '_> {
    /// The distinct faults behind `failures`, those with the fewest lost units first.
    ///
    /// # Errors
    /// The checker cannot be run.
    pub fn findings(
        &self,
        search: &mut Search<'_>,
        failures: &[Failure],
    ) -> io::Result<Vec<Finding>> {
        let judge = search.judge()?;
        let mut ask = Asker { search, judge };
        let bases: Vec<Vec<Base>> =
            self.models.iter().map(|model| bases(self.run, model)).collect();
        let mut findings: Vec<Finding> = Vec::new();
        let mut kinds: Vec<(String, usize)> = Vec::new();
        for failure in failures {
            let kind = self.rough_kind(failure);
            let seen = match kinds.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => count,
                None => {
                    kinds.push((kind, 0));
                    let last = kinds.len() - 1;
                    &mut kinds[last].1
                }
            };
            *seen += 1;
            if *seen > REDUCED_OF_A_KIND {
                continue;
            }
            let finding = self.reduce(&mut ask, &bases, failure)?;
            match findings.iter_mut().find(|known| same_fault(known, &finding)) {
                Some(known) => {
                    known.count += 1;
                    for model in finding.models {
                        if !known.models.contains(&model) {
                            known.models.push(model);
                        }
                    }
                }
                None => findings.push(finding),
            }
        }
        findings.sort_by_key(|finding| (finding.class, finding.lost_units.len()));
        Ok(without_repeated(findings))
    }

    /// The loss without numbers, and the check's verdict.
    fn rough_kind(&self, failure: &Failure) -> String {
        let model = &self.models[failure.state.model];
        let moment = &model.moments[failure.state.moment];
        let pending = model.pending(moment);
        let lost = pending.iter().find(|unit| !failure.state.kept.contains(unit));
        let call = lost.map_or("", |&unit| self.call(model.units[unit].call).text.as_str());
        let wrong = failure.wrong.split(':').next().unwrap_or_default();
        format!(
            "{}|{}|{}|{}",
            model.model.name,
            without_numbers(call),
            without_numbers(wrong),
            moment.acked == 0
        )
    }

    fn call(&self, id: u32) -> &Call {
        &self.run.calls[id as usize]
    }

    fn reduce(
        &self,
        ask: &mut Asker<'_, '_>,
        bases: &[Vec<Base>],
        failure: &Failure,
    ) -> io::Result<Finding> {
        let model = &self.models[failure.state.model];
        let base = &bases[failure.state.model];
        let mut state = failure.state.clone();
        let mut wrong = failure.wrong.clone();
        // Each lost unit comes back, with what it needs, unless the check passes then, or fails otherwise: a torn file is
        // not to become a lost one.
        let moment = &model.moments[state.moment];
        for unit in model.pending(moment).into_iter().rev() {
            if state.kept.contains(&unit) {
                continue;
            }
            let mut kept = model.with_needs(moment, &BTreeSet::from([unit]));
            kept.extend(&state.kept);
            let tree = base[state.moment].tree(model, &kept);
            let still = ask.verdict(&tree, moment)?;
            if let Some(still) = still.filter(|still| is_same_kind(still, &wrong)) {
                state.kept = kept;
                wrong = still;
            }
        }
        let (moment, earlier) = self.earliest(ask, &base[state.moment], model, &state, &wrong)?;
        let moment = &moment;
        if let Some((kept, still)) = earlier {
            state.kept = kept;
            wrong = still;
        }
        let lost: Vec<usize> =
            model.pending(moment).into_iter().filter(|unit| !state.kept.contains(unit)).collect();
        let first = lost.first().copied();
        let turn = match first {
            Some(first) => self.turn(ask, &base[state.moment], model, &state, moment, first)?,
            None => None,
        };
        let class = self.class(ask, &base[state.moment], model, &state, moment, &lost, turn)?;
        let kept = match (turn, first) {
            (Some(Turn::Acked(event)), _) => Some(self.call(self.run.events[event].call).clone()),
            (Some(Turn::Kept(unit)), _) => Some(self.call(model.units[unit].call).clone()),
            (None, Some(first)) => self.first_kept(model, &state, moment, first),
            (None, None) => None,
        };
        // With nothing kept behind the loss, the change before it.
        let end = first.map_or(moment.event, |first| model.units[first].event);
        let kept = kept.or_else(|| self.changes(..end).next_back());
        let names = self.allowed_by(model, moment, &state.kept);
        let mut lost_units: Vec<String> =
            lost.iter().map(|&unit| self.unit_text(model, unit)).collect();
        let numbers: Vec<String> = lost.iter().map(ToString::to_string).collect();
        let text = format!("{}@{}-{}", model.model.name, moment.event, numbers.join(","));
        let lost = match first {
            Some(first) => self.call(model.units[first].call).clone(),
            // A prefix of the run fails: its end is lost.
            None => match self.changes(moment.event..).next() {
                Some(call) => {
                    lost_units.push(format!("everything from: {}", call.text));
                    call
                }
                None => Call { tid: 0, text: "nothing is lost".to_owned(), place: String::new() },
            },
        };
        Ok(Finding {
            class,
            wrong,
            models: names,
            lost,
            lost_units,
            kept,
            issued: moment.issued,
            acked: moment.acked,
            state: text,
            count: 1,
            example: state,
            first_crash: None,
            fault: None,
        })
    }

    /// The earliest failure behind an acknowledgement since the last sync, with what is kept then: what
    /// comes later needs not be told.
    #[allow(clippy::type_complexity)]
    fn earliest(
        &self,
        ask: &mut Asker<'_, '_>,
        base: &Base,
        model: &Ordered,
        state: &State,
        wrong: &str,
    ) -> io::Result<(Moment, Option<(BTreeSet<usize>, String)>)> {
        let moment = &model.moments[state.moment];
        let since = state.moment.checked_sub(1).map_or(0, |before| model.moments[before].event);
        let lost = model.pending(moment).into_iter().find(|unit| !state.kept.contains(unit));
        let since = lost.map_or(since, |unit| since.max(model.units[unit].event));
        let from = since + 1;
        for event in (from..moment.event).filter(|&event| self.is_ack(event)) {
            let then = model.until(self.run, moment, event + 1);
            let kept: BTreeSet<usize> = state.kept.range(..then.units).copied().collect();
            let tree = base.tree(model, &kept);
            let still = ask.verdict(&tree, &then)?;
            if let Some(still) = still.filter(|still| is_same_kind(still, wrong)) {
                return Ok((then, Some((kept, still))));
            }
        }
        Ok((moment.clone(), None))
    }

    fn is_ack(&self, event: usize) -> bool {
        matches!(self.run.events[event].step, Step::Acked(_))
    }

    /// The calls of changes among these steps.
    fn changes(
        &self,
        steps: impl SliceIndex<[Event], Output = [Event]>,
    ) -> impl DoubleEndedIterator<Item = Call> + '_ {
        let changes =
            self.run.events[steps].iter().filter(|step| matches!(step.step, Step::Change(_)));
        changes.map(|step| self.call(step.call).clone())
    }

    fn unit_text(&self, model: &Ordered, unit: usize) -> String {
        let unit = &model.units[unit];
        let call = &self.call(unit.call).text;
        match &unit.change {
            Change::Data { offset, bytes, .. } => {
                format!("{} bytes at {offset} of: {call}", bytes.len())
            }
            Change::Size { from, to, .. } => format!("the size {from} to {to} of: {call}"),
            Change::Cut { .. } | Change::Name { .. } | Change::Move { .. } => call.clone(),
        }
    }

    /// The first call after a lost unit of which something is kept, or that acknowledges.
    fn first_kept(
        &self,
        model: &Ordered,
        state: &State,
        moment: &Moment,
        lost: usize,
    ) -> Option<Call> {
        let after = model.units[lost].event;
        let unit = state.kept.range(lost + 1..).next().map(|&unit| &model.units[unit]);
        let unit = unit.filter(|unit| unit.call != model.units[lost].call || unit.event != after);
        let acked = self.run.events[after..moment.event]
            .iter()
            .position(|event| matches!(event.step, Step::Acked(_)))
            .map(|index| after + index);
        match (unit, acked) {
            (Some(unit), Some(acked)) if acked < unit.event => {
                Some(self.call(self.run.events[acked].call).clone())
            }
            (Some(unit), _) => Some(self.call(unit.call).clone()),
            (None, Some(acked)) => Some(self.call(self.run.events[acked].call).clone()),
            (None, None) => None,
        }
    }

    /// Models of file systems that allow the state, among those with the same units.
    fn allowed_by(
        &self,
        model: &Ordered,
        moment: &Moment,
        kept: &BTreeSet<usize>,
    ) -> Vec<&'static str> {
        let same_units =
            |other: &Model| other.torn == model.model.torn || self.grain.bytes == crate::tree::PAGE;
        let allows = |other: &'static Model| {
            if other.name == model.model.name {
                return true;
            }
            let ordered = Ordered::new(self.run, other, self.grain, None);
            // At the same step: behind the last sync before it.
            let next = ordered.moments.iter().find(|candidate| candidate.event >= moment.event);
            next.is_some_and(|next| {
                let then = ordered.until(self.run, next, moment.event);
                ordered.allows(&then, moment.below, kept)
            })
        };
        ALL.iter()
            .filter(|other| same_units(other) && allows(other))
            .map(|other| other.name)
            .collect()
    }

    /// The moment with no more acknowledged than before `event`.
    fn acked_before(&self, moment: &Moment, event: usize) -> Moment {
        let acks = self.run.events[..event].iter().filter_map(|event| match event.step {
            Step::Acked(number) => Some(number),
            _ => None,
        });
        Moment { acked: acks.fold(self.run.promised.1, u64::max), ..moment.clone() }
    }

    /// The first thing after the loss at which the check fails: an acknowledgement, or a change that is kept. Found by
    /// experiment: the same state with nothing acknowledged since, then with less and less kept behind the loss.
    fn turn(
        &self,
        ask: &mut Asker<'_, '_>,
        base: &Base,
        model: &Ordered,
        state: &State,
        moment: &Moment,
        first: usize,
    ) -> io::Result<Option<Turn>> {
        let event = model.units[first].event;
        let before = self.acked_before(moment, event);
        let tree = base.tree(model, &state.kept);
        if ask.verdict(&tree, &before)?.is_none() {
            for event in (event..moment.event).filter(|&event| self.is_ack(event)) {
                let then = self.acked_before(moment, event + 1);
                if ask.verdict(&tree, &then)?.is_some() {
                    return Ok(Some(Turn::Acked(event)));
                }
            }
            return Ok(None);
        }
        let kept: Vec<usize> = state.kept.range(first + 1..).copied().collect();
        let mut fails = |count: usize| {
            let until = kept.get(count).copied().unwrap_or(usize::MAX);
            let some = state.kept.range(..until).copied().collect();
            ask.verdict(&base.tree(model, &some), &before).map(|wrong| wrong.is_some())
        };
        if kept.is_empty() || fails(0)? {
            return Ok(None);
        }
        let (mut passing, mut failing) = (0, kept.len());
        while passing + 1 < failing {
            let middle = passing.midpoint(failing);
            *(if fails(middle)? { &mut failing } else { &mut passing }) = middle;
        }
        Ok(Some(Turn::Kept(kept[passing])))
    }

    /// The class, by the states that pass when something else is lost or acknowledged as well.
    #[allow(clippy::too_many_arguments)]
    fn class(
        &self,
        ask: &mut Asker<'_, '_>,
        base: &Base,
        model: &Ordered,
        state: &State,
        moment: &Moment,
        lost: &[usize],
        turn: Option<Turn>,
    ) -> io::Result<Class> {
        if moment.acked == 0 {
            return Ok(Class::CreationNotRestartable);
        }
        if lost.is_empty() {
            return Ok(Class::HalfApplied);
        }
        let change = |unit: usize| &model.units[unit].change;
        let files: BTreeSet<NodeId> = lost.iter().filter_map(|&unit| change(unit).file()).collect();
        if let Some(Turn::Acked(_)) = turn {
            let synced_later = lost.iter().all(|&unit| self.is_synced_after(model, moment, unit));
            return Ok(match (synced_later, files.is_empty()) {
                (true, _) => Class::AcknowledgedTooEarly,
                (false, false) => Class::FileNotSynced,
                (false, true) => Class::DirectoryNotSynced,
            });
        }
        let Some(&first) = lost.first().filter(|_| !files.is_empty()) else {
            return Ok(Class::DirectoryNotSynced);
        };
        let is_named = |unit: &usize| match change(*unit) {
            Change::Move { node, .. } => files.contains(node),
            _ => false,
        };
        if state.kept.range(first..).any(is_named) {
            return Ok(Class::RenameBeforeSync);
        }
        // Experiment: the rest of the lost call's data is lost as well. If the check passes then, a part was taken for
        // the whole.
        let rest: BTreeSet<usize> = state
            .kept
            .iter()
            .copied()
            .filter(|&unit| {
                let data = matches!(change(unit), Change::Data { .. });
                let same_call = model.units[unit].call == model.units[first].call;
                data && same_call && !moment.is_forced(unit)
            })
            .collect();
        let is_whole = |ask: &mut Asker<'_, '_>| {
            let dropped = rest.iter().chain(lost).copied().collect();
            let kept = model.without(moment, &dropped);
            let kept = kept.intersection(&state.kept).copied().collect();
            let before = self.acked_before(moment, model.units[first].event);
            ask.verdict(&base.tree(model, &kept), &before).map(|wrong| wrong.is_none())
        };
        let of_lost_file =
            |unit: usize| change(unit).file().is_some_and(|node| files.contains(&node));
        Ok(match turn {
            Some(Turn::Kept(turn)) if of_lost_file(turn) => match change(turn) {
                Change::Size { .. } if !is_whole(ask)? => Class::SizeWithoutContent,
                _ => Class::MarkWithData,
            },
            None if !rest.is_empty() && is_whole(ask)? => Class::MarkWithData,
            _ => Class::FileNotSynced,
        })
    }

    /// Whether a sync after the moment, and before the next transaction begins, keeps a unit: then the
    /// acknowledgement came too early.
    fn is_synced_after(&self, model: &Ordered, moment: &Moment, unit: usize) -> bool {
        let later = model.moments.iter().filter(|later| later.event >= moment.event);
        let steps: Vec<&Moment> = later.collect();
        let Some(sync) = steps.windows(2).find(|pair| pair[1].is_forced(unit)) else {
            return false;
        };
        let event = sync[0].event;
        let own = match (&self.run.events[event].step, model.units[unit].change.file()) {
            (Step::Sync(Sync::File(node) | Sync::Data(node, _)), Some(file)) => *node == file,
            (Step::Sync(Sync::Dir(_) | Sync::All), _) => true,
            _ => false,
        };
        own && self.next_issue(model.units[unit].event) > event
    }

    /// The event that begins the second transaction after `event`, past which a sync serves others.
    fn next_issue(&self, event: usize) -> usize {
        let mut begun = self.run.events[event..]
            .iter()
            .enumerate()
            .filter(|(_, event)| matches!(event.step, Step::Issued(_)))
            .map(|(index, _)| event + index);
        begun.next().unwrap_or(usize::MAX)
    }
}

/// Findings without those that tell another one's fault once more, by the same calls: before the first acknowledgement, under
/// no other models, which is no fault of creation; or where a sync came by chance, at a close, before the next
/// transaction.
fn without_repeated(findings: Vec<Finding>) -> Vec<Finding> {
    let repeats = [Class::CreationNotRestartable, Class::AcknowledgedTooEarly];
    let (repeated, mut others): (Vec<Finding>, Vec<Finding>) =
        findings.into_iter().partition(|found| repeats.contains(&found.class));
    for finding in repeated {
        let again = others.iter_mut().find(|other| {
            let known = finding.models.iter().all(|model| other.models.contains(model));
            let by_chance = finding.class == Class::AcknowledgedTooEarly;
            same_calls(other, &finding) && (known || by_chance)
        });
        let Some(other) = again else {
            others.push(finding);
            continue;
        };
        other.count += finding.count;
        for model in finding.models {
            if !other.models.contains(&model) {
                other.models.push(model);
            }
        }
    }
    others
}

/// Whether both lose and keep the same calls but for numbers.
fn same_calls(one: &Finding, other: &Finding) -> bool {
    let kept = |finding: &Finding| {
        finding.kept.as_ref().map_or_else(String::new, |call| without_numbers(&call.text))
    };
    without_numbers(&one.lost.text) == without_numbers(&other.lost.text) && kept(one) == kept(other)
}

/// Whether both tell the same fault: the same calls but for numbers, and the same class.
#[must_use]
pub fn same_fault(one: &Finding, other: &Finding) -> bool {
    one.class == other.class && same_calls(one, other)
}

/// Whether two verdicts of the check are of one kind: the same words before the first colon, but for numbers.
fn is_same_kind(one: &str, other: &str) -> bool {
    let kind = |text: &str| without_numbers(text.split(':').next().unwrap_or_default());
    kind(one) == kind(other)
}

/// A text with every number as `#`.
fn without_numbers(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '0'..='9' if shown.ends_with('#') => {}
            '0'..='9' => shown.push('#'),
            letter => shown.push(letter),
        }
    }
    shown
}
