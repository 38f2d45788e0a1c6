//! What a failing state comes down to: the smallest loss that fails, its class by experiment, and what
//! would mend it.

use std::collections::BTreeSet;
use std::io;

use crate::judge::Judge;
use crate::models::{ALL, Model};
use crate::order::{Grain, Moment, Ordered};
use crate::run::{Call, Change, NodeId, Run, Step, Sync};
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
    /// What makes data valid is under the same sync as the data.
    MarkWithData,
    /// A call has failed, and the program went on as if it had not.
    ErrorNotHeeded,
    /// A crash while the program recovers from one leaves what it cannot recover from.
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
            Self::ErrorNotHeeded => "error not heeded",
            Self::RecoveryNotRepeatable => "recovery not repeatable",
            Self::CreationNotRestartable => "creation not restartable",
        }
    }

    /// What mends it, in a sentence.
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
    /// What the check says.
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
        Ok(findings)
    }

    /// What is lost, without numbers, and what the check says.
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
        // Each lost unit comes back, with what it needs, unless the check passes then.
        let moment = &model.moments[state.moment];
        for unit in model.pending(moment).into_iter().rev() {
            if state.kept.contains(&unit) {
                continue;
            }
            let mut kept = model.with_needs(moment, &BTreeSet::from([unit]));
            kept.extend(&state.kept);
            let tree = base[state.moment].tree(model, &kept);
            if let Some(still) = ask.verdict(&tree, moment)? {
                state.kept = kept;
                wrong = still;
            }
        }
        let (moment, earlier) = self.earliest(ask, &base[state.moment], model, &state)?;
        let moment = &moment;
        if let Some((kept, still)) = earlier {
            state.kept = kept;
            wrong = still;
        }
        let lost: Vec<usize> =
            model.pending(moment).into_iter().filter(|unit| !state.kept.contains(unit)).collect();
        let class = self.class(ask, base, model, &state, moment, &lost)?;
        let first = lost.first().copied();
        let kept = first.and_then(|first| self.first_kept(model, &state, moment, first));
        let names = self.allowed_by(model, moment, &state.kept);
        let lost_units = lost.iter().map(|&unit| self.unit_text(model, unit)).collect();
        let numbers: Vec<String> = lost.iter().map(ToString::to_string).collect();
        let text = format!("{}@{}-{}", model.model.name, moment.event, numbers.join(","));
        let lost = match first {
            Some(first) => self.call(model.units[first].call).clone(),
            None => Call { tid: 0, text: "nothing is lost".to_owned(), place: String::new() },
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
            if let Some(wrong) = ask.verdict(&tree, &then)? {
                return Ok((then, Some((kept, wrong))));
            }
        }
        Ok((moment.clone(), None))
    }

    fn is_ack(&self, event: usize) -> bool {
        matches!(self.run.events[event].step, Step::Acked(_))
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

    /// The class, by what passes when something else is lost or acknowledged as well.
    fn class(
        &self,
        ask: &mut Asker<'_, '_>,
        base: &[Base],
        model: &Ordered,
        state: &State,
        moment: &Moment,
        lost: &[usize],
    ) -> io::Result<Class> {
        let is_data = |unit: &usize| model.units[*unit].change.file().is_some();
        let data_lost = lost.iter().any(is_data);
        if moment.acked == 0 {
            return Ok(Class::CreationNotRestartable);
        }
        // Experiment: the same state with nothing acknowledged.
        let unacked = Moment { acked: 0, ..moment.clone() };
        let tree = base[state.moment].tree(model, &state.kept);
        if ask.verdict(&tree, &unacked)?.is_none() {
            let synced_later = lost.iter().all(|&unit| self.is_synced_after(model, moment, unit));
            return Ok(match (synced_later, data_lost) {
                (true, _) => Class::AcknowledgedTooEarly,
                (false, true) => Class::FileNotSynced,
                (false, false) => Class::DirectoryNotSynced,
            });
        }
        if !data_lost {
            return Ok(Class::DirectoryNotSynced);
        }
        let files: BTreeSet<NodeId> =
            lost.iter().filter_map(|&unit| model.units[unit].change.file()).collect();
        let first = lost.first().copied().unwrap_or_default();
        let renamed = state.kept.range(first..).any(|&unit| match &model.units[unit].change {
            Change::Move { node, .. } => files.contains(node),
            _ => false,
        });
        if renamed {
            return Ok(Class::RenameBeforeSync);
        }
        // Experiment: sizes that cover lost data are lost as well.
        let covering: BTreeSet<usize> = model
            .pending(moment)
            .into_iter()
            .filter(|&unit| match &model.units[unit].change {
                Change::Size { node, from, to, .. } => lost.iter().any(|&lost| {
                    matches!(&model.units[lost].change, Change::Data { node: of, offset, bytes }
                        if of == node && *offset < *to && offset + bytes.len() as u64 > *from)
                }),
                _ => false,
            })
            .collect();
        if !covering.is_empty() {
            let mut dropped = covering;
            dropped.extend(lost);
            let kept = model.without(moment, &dropped);
            let tree = base[state.moment].tree(model, &kept);
            if ask.verdict(&tree, &unacked)?.is_none() {
                return Ok(Class::SizeWithoutContent);
            }
        }
        // The next sync after the loss covers the first that is kept: both are under one sync.
        let next_kept =
            state.kept.range(first + 1..).find(|&&unit| is_data(&unit) && !moment.is_forced(unit));
        if let Some(&kept) = next_kept
            && model.units[kept].change.file() == model.units[first].change.file()
        {
            return Ok(Class::MarkWithData);
        }
        Ok(Class::FileNotSynced)
    }

    /// Whether a sync after the moment keeps a unit: then the acknowledgement came too early.
    fn is_synced_after(&self, model: &Ordered, moment: &Moment, unit: usize) -> bool {
        let later = model.moments.iter().find(|later| later.event > moment.event);
        let covered = later.is_some_and(|later| later.is_forced(unit));
        let sync = self.run.events.get(moment.event).map(|event| &event.step);
        let own = match (sync, model.units[unit].change.file()) {
            (Some(Step::Sync(Sync::File(node) | Sync::Data(node, _))), Some(file)) => *node == file,
            (Some(Step::Sync(Sync::Dir(_) | Sync::All)), _) => true,
            _ => false,
        };
        covered && own && self.next_issue(model.units[unit].event) > moment.event
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

/// Whether both tell the same fault: the same calls but for numbers, and the same class.
#[must_use]
pub fn same_fault(one: &Finding, other: &Finding) -> bool {
    let kept = |finding: &Finding| {
        finding.kept.as_ref().map_or_else(String::new, |call| without_numbers(&call.text))
    };
    one.class == other.class
        && without_numbers(&one.lost.text) == without_numbers(&other.lost.text)
        && kept(one) == kept(other)
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
