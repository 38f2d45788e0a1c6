//! A run under a model: the units of persistence, their prerequisites, and the syncs that force them.

use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::capture::SECTOR;
use crate::models::{Forces, Model, Order};
use crate::run::{CallId, Change, Growth, NodeId, Run, Step, Sync};
use crate::tree::{Content, PAGE};

/// A unit of persistence under a model.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The change: all of it or nothing.
    pub change: Change,
    /// Its call.
    pub call: CallId,
    /// Its step in [`Run::events`].
    pub event: usize,
    /// Units, all before it, without which it cannot be kept.
    pub needs: Vec<usize>,
    /// Whether the file system's journal has it, as the call is made.
    pub journaled: bool,
}

/// A moment at which power may fail. All that could survive earlier, after the sync before, could
/// survive now as well, with no more acknowledged: so moments just before syncs and the end are enough.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The step before which power fails.
    pub event: usize,
    /// Units so far: the first `units` of [`Ordered::units`].
    pub units: usize,
    /// The number of first units that are durable and in every state: sets of units leave them out.
    pub below: usize,
    /// Durable units behind those.
    pub forced: BTreeSet<usize>,
    /// The highest transaction begun; 0 for none.
    pub issued: u64,
    /// The highest transaction acknowledged; 0 for none.
    pub acked: u64,
}

impl Moment {
    /// Whether a unit is durable.
    #[must_use]
    pub fn is_forced(&self, unit: usize) -> bool {
        unit < self.below || self.forced.contains(&unit)
    }

    /// Whether everything is durable here that is so at `other`.
    #[must_use]
    pub fn forces_all_of(&self, other: &Self) -> bool {
        (self.below..other.below).all(|unit| self.forced.contains(&unit))
            && other.forced.iter().all(|&unit| self.is_forced(unit))
    }
}

/// A run under a model.
#[derive(Debug)]
pub struct Ordered {
    /// The model.
    pub model: &'static Model,
    /// All units in program order.
    pub units: Vec<Unit>,
    /// Moments of failure, in order.
    pub moments: Vec<Moment>,
}

/// How runs are cut into units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grain {
    /// Bytes that are written whole: 4096, or 512 for disks that tear pages.
    pub bytes: usize,
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    Chunk(NodeId, u64),
    Size(NodeId),
    Name(NodeId, Vec<u8>),
}

struct Builder<'a> {
    run: &'a Run,
    model: &'static Model,
    chunk: u64,
    units: Vec<Unit>,
    /// The last unit of each key.
    last: FxHashMap<Key, usize>,
    /// The last unit of the journal.
    journal: Option<usize>,
    /// Units of each file, data and sizes, of which the first ones may be durable.
    of_file: FxHashMap<NodeId, Vec<usize>>,
    /// Pages of files that have a block on the disk.
    on_disk: FxHashSet<(NodeId, u64)>,
    /// The last cut of each file.
    cuts: FxHashMap<NodeId, usize>,
    /// Units that named each node last.
    names: FxHashMap<NodeId, usize>,
    /// The number of first units that are durable.
    below: usize,
    /// Durable units behind those.
    forced: BTreeSet<usize>,
    /// Units whose pages were written out, for the next sync to flush.
    started: BTreeSet<usize>,
    /// Units of pages that a failed sync has left clean.
    abandoned: FxHashSet<usize>,
    moments: Vec<Moment>,
    issued: u64,
    acked: u64,
}

impl Ordered {
    /// The run under `model`; step `skipped`, a sync, is left out if there is one.
    #[must_use]
    pub fn new(run: &Run, model: &'static Model, grain: Grain, skipped: Option<usize>) -> Self {
        let chunk = if model.torn { grain.bytes } else { PAGE };
        let mut builder = Builder {
            run,
            model,
            chunk: chunk.clamp(SECTOR, PAGE) as u64,
            units: Vec::new(),
            last: FxHashMap::default(),
            journal: None,
            of_file: FxHashMap::default(),
            on_disk: FxHashSet::default(),
            below: 0,
            cuts: FxHashMap::default(),
            names: FxHashMap::default(),
            forced: BTreeSet::new(),
            started: BTreeSet::new(),
            abandoned: FxHashSet::default(),
            moments: Vec::new(),
            issued: run.promised.0,
            acked: run.promised.1,
        };
        for (event, step) in run.events.iter().enumerate() {
            match &step.step {
                Step::Change(change) => builder.change(event, step.call, change),
                Step::Sync(_) if skipped == Some(event) => {}
                Step::Sync(sync) => builder.sync(event, sync),
                Step::Unsynced(node) => builder.unsynced(*node),
                Step::Issued(number) => builder.issued = builder.issued.max(*number),
                Step::Acked(number) => builder.acked = builder.acked.max(*number),
                Step::Writes { .. } => {}
            }
        }
        builder.moment(run.events.len());
        Self { model, units: builder.units, moments: builder.moments }
    }

    /// `kept` and all that it needs among the units of `moment`.
    #[must_use]
    pub fn with_needs(&self, moment: &Moment, kept: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut closed = moment.forced.clone();
        let mut open: Vec<usize> = kept.iter().copied().collect();
        while let Some(unit) = open.pop() {
            if unit >= moment.below && closed.insert(unit) {
                open.extend(&self.units[unit].needs);
            }
        }
        closed
    }

    /// Everything before `moment` but `dropped` and all that needs it. Forced units stay.
    #[must_use]
    pub fn without(&self, moment: &Moment, dropped: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut kept = BTreeSet::new();
        for unit in moment.below..moment.units {
            let is_kept = |need: &usize| *need < moment.below || kept.contains(need);
            let allowed = !dropped.contains(&unit) && self.units[unit].needs.iter().all(is_kept);
            if allowed || moment.forced.contains(&unit) {
                kept.insert(unit);
            }
        }
        kept
    }

    /// `moment` as it was before step `event`, which comes after the sync before it.
    #[must_use]
    pub fn until(&self, run: &Run, moment: &Moment, event: usize) -> Moment {
        let event = event.min(moment.event);
        let (mut issued, mut acked) = run.promised;
        for step in &run.events[..event] {
            match step.step {
                Step::Issued(number) => issued = issued.max(number),
                Step::Acked(number) => acked = acked.max(number),
                _ => {}
            }
        }
        let units = self.units.partition_point(|unit| unit.event < event);
        Moment { event, units, issued, acked, ..moment.clone() }
    }

    /// Units that are not durable at `moment`.
    #[must_use]
    pub fn pending(&self, moment: &Moment) -> Vec<usize> {
        (moment.below..moment.units).filter(|unit| !moment.forced.contains(unit)).collect()
    }

    /// Whether a crash at `moment` may leave the first `below` units and `kept`, and nothing else.
    #[must_use]
    pub fn allows(&self, moment: &Moment, below: usize, kept: &BTreeSet<usize>) -> bool {
        let is_kept = |unit: &usize| *unit < below || kept.contains(unit);
        let whole = (below..moment.below).all(|unit| kept.contains(&unit));
        whole
            && below <= moment.units
            && moment.forced.iter().all(is_kept)
            && kept.iter().all(|&unit| {
                unit < moment.units
                    && (moment.is_forced(unit) || self.units[unit].needs.iter().all(is_kept))
            })
    }
}

impl Builder<'_> {
    fn change(&mut self, event: usize, call: CallId, change: &Change) {
        let Change::Data { node, offset, bytes } = change else {
            self.unit(event, call, change.clone());
            return;
        };
        // At the borders of what is written whole.
        let (mut offset, mut bytes) = (*offset, bytes.as_slice());
        while !bytes.is_empty() {
            let left = (self.chunk - offset % self.chunk) as usize;
            let (part, rest) = bytes.split_at(bytes.len().min(left));
            self.unit(event, call, Change::Data { node: *node, offset, bytes: part.to_vec() });
            offset += part.len() as u64;
            bytes = rest;
        }
    }

    fn unit(&mut self, event: usize, call: CallId, change: Change) {
        let number = self.units.len();
        let mut needs: BTreeSet<usize> = BTreeSet::new();
        let keys = match &change {
            Change::Data { node, offset, .. } => {
                // Pages behind a cut are new ones.
                needs.extend(self.cuts.get(node));
                vec![Key::Chunk(*node, offset / self.chunk)]
            }
            Change::Size { node, .. } | Change::Cut { node, .. } => vec![Key::Size(*node)],
            Change::Name { dir, name, .. } => vec![Key::Name(*dir, name.clone())],
            Change::Move { from, to, .. } => {
                vec![Key::Name(from.0, from.1.clone()), Key::Name(to.0, to.1.clone())]
            }
        };
        for key in keys {
            needs.extend(self.last.insert(key, number));
        }
        if self.model.order == Order::Everything {
            needs.extend(number.checked_sub(1));
        }
        if let Change::Size { node, from, to, growth } = &change
            && *growth != Growth::Explicit
            && self.model.size_after_data
            && !self.is_zero_tail(*node, *from, *growth)
        {
            needs.extend(self.data_in(*node, *from, *to));
        }
        if self.model.rename_flushes
            && let Change::Move { to, node, .. } = &change
            && self.replaces(to)
        {
            needs.extend(self.pending_of(*node));
        }
        let journaled = self.model.order == Order::Journal && self.is_journaled(&change);
        if journaled {
            needs.extend(self.journal.replace(number));
        }
        match &change {
            Change::Name { node: Some(node), .. } | Change::Move { node, .. } => {
                self.names.insert(*node, number);
            }
            Change::Cut { node, .. } => {
                self.cuts.insert(*node, number);
            }
            _ => {}
        }
        if let Some(node) = change.file() {
            self.of_file.entry(node).or_default().push(number);
        }
        self.units.push(Unit {
            change,
            call,
            event,
            needs: needs.into_iter().collect(),
            journaled,
        });
    }

    /// Whether the size goes into the journal as the call is made: sizes of appends come with their
    /// blocks, when those are allocated, but for zero tails.
    fn is_journaled(&self, change: &Change) -> bool {
        match change {
            Change::Data { .. } => false,
            Change::Size { growth: Growth::Explicit, .. } => true,
            Change::Size { node, from, growth, .. } => self.is_zero_tail(*node, *from, *growth),
            Change::Cut { .. } | Change::Name { .. } | Change::Move { .. } => true,
        }
    }

    /// Whether an append ends within a page that has a block on the disk.
    fn is_zero_tail(&self, node: NodeId, from: u64, growth: Growth) -> bool {
        let before =
            || self.run.base.content(node).is_some_and(|file: &Content| file.has_page_at(from));
        self.model.zero_tail
            && growth == Growth::Tail
            && (self.on_disk.contains(&(node, from / PAGE as u64)) || before())
    }

    fn is_forced(&self, unit: usize) -> bool {
        unit < self.below || self.forced.contains(&unit)
    }

    /// Units of a file that are not durable.
    fn pending_of(&self, node: NodeId) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let units = self.of_file.get(&node).map_or(&[][..], Vec::as_slice);
        let first = units.partition_point(|&unit| unit < self.below);
        units[first..].iter().copied().filter(|&unit| !self.forced.contains(&unit))
    }

    /// Data of a file between two places that is not durable.
    fn data_in(&self, node: NodeId, from: u64, to: u64) -> Vec<usize> {
        let within = |unit: &usize| {
            matches!(&self.units[*unit].change, Change::Data { offset, bytes, .. }
                if *offset < to && *offset + bytes.len() as u64 > from)
        };
        self.pending_of(node).filter(within).collect()
    }

    /// Whether a name stands for a file by now.
    fn replaces(&self, place: &(NodeId, Vec<u8>)) -> bool {
        let before = || self.run.base.lookup(place.0, &place.1).is_some();
        // The rename itself is entered already: the unit before it counts.
        let earlier = self.units.iter().rev().find_map(|unit| match &unit.change {
            Change::Name { dir, name, node } if *dir == place.0 && *name == place.1 => {
                Some(node.is_some())
            }
            Change::Move { to, .. } if to == place => Some(true),
            Change::Move { from, exchanged, .. } if from == place => Some(exchanged.is_some()),
            _ => None,
        });
        earlier.unwrap_or_else(before)
    }

    fn moment(&mut self, event: usize) {
        self.moments.push(Moment {
            event,
            units: self.units.len(),
            below: self.below,
            forced: self.forced.clone(),
            issued: self.issued,
            acked: self.acked,
        });
    }

    fn sync(&mut self, event: usize, sync: &Sync) {
        if let Sync::Started(node, range) = sync {
            self.started.extend(self.data_in(*node, range.start, range.end));
            return;
        }
        let mut forced: BTreeSet<usize> = self.started.clone();
        match sync {
            Sync::All => forced.extend(self.below..self.units.len()),
            Sync::File(node) => self.file(*node, &mut forced),
            Sync::Data(node, range) => {
                if self.is_size_pending(*node) {
                    self.file(*node, &mut forced);
                } else {
                    forced.extend(self.data_in(*node, range.start, range.end));
                }
            }
            Sync::Dir(dir) => self.dir(*dir, &mut forced),
            Sync::Started(..) => {}
        }
        if self.model.fsync == Forces::Everything && !forced.is_empty() {
            forced.extend(self.below..self.units.len());
        }
        forced.retain(|unit| !self.abandoned.contains(unit));
        let forced = self.closed(forced);
        if forced.is_empty() {
            return;
        }
        self.moment(event);
        for &unit in &forced {
            if let Change::Data { node, offset, .. } = &self.units[unit].change {
                self.on_disk.insert((*node, offset / PAGE as u64));
            }
        }
        self.forced.extend(forced);
        while self.forced.remove(&self.below) {
            self.below += 1;
        }
        self.started.clear();
    }

    /// A sync of a file has failed.
    fn unsynced(&mut self, node: NodeId) {
        let is_data = |unit: &usize| matches!(self.units[*unit].change, Change::Data { .. });
        let clean: Vec<usize> = self.pending_of(node).filter(is_data).collect();
        self.abandoned.extend(clean);
    }

    /// Units among `forced` that are not durable yet. What they need is forced with them; the journal before them only where the file system
    /// has no other way to write one.
    fn closed(&self, forced: BTreeSet<usize>) -> BTreeSet<usize> {
        let mut closed = BTreeSet::new();
        let mut open: Vec<usize> = forced.into_iter().collect();
        while let Some(unit) = open.pop() {
            if !self.is_forced(unit) && closed.insert(unit) {
                let journal = self.model.order == Order::Journal && self.model.forced_alone;
                let needs = self.units[unit].needs.iter().filter(|&&need| {
                    !(journal && self.units[need].journaled)
                        || shares_key(&self.units[unit].change, &self.units[need].change)
                });
                open.extend(needs);
            }
        }
        closed
    }

    /// Whether a file's size or its blocks are not durable yet: then `fdatasync` is `fsync`.
    fn is_size_pending(&self, node: NodeId) -> bool {
        self.pending_of(node).any(|unit| !matches!(self.units[unit].change, Change::Data { .. }))
    }

    fn file(&self, node: NodeId, forced: &mut BTreeSet<usize>) {
        forced.extend(self.pending_of(node));
        match self.model.fsync {
            Forces::Own => {}
            Forces::OwnAndName => self.name_of(node, forced),
            Forces::OwnAndJournal => forced.extend(self.journal),
            Forces::OwnAndJournalToIt => {
                forced.extend(self.names.get(&node));
                let journaled = |unit: &usize| self.units[*unit].journaled;
                forced.extend(self.pending_of(node).rev().find(journaled));
            }
            Forces::Everything => forced.extend(self.below..self.units.len()),
        }
    }

    /// The newest name of a node and those of the directories above it.
    fn name_of(&self, node: NodeId, forced: &mut BTreeSet<usize>) {
        let mut node = node;
        while let Some(&unit) = self.names.get(&node) {
            if !forced.insert(unit) && self.is_forced(unit) {
                return;
            }
            node = match &self.units[unit].change {
                Change::Name { dir, .. } => *dir,
                Change::Move { to, .. } => to.0,
                _ => return,
            };
        }
    }

    fn dir(&self, dir: NodeId, forced: &mut BTreeSet<usize>) {
        match self.model.fsync {
            Forces::OwnAndJournal => forced.extend(self.journal),
            Forces::Everything => forced.extend(self.below..self.units.len()),
            Forces::Own | Forces::OwnAndName | Forces::OwnAndJournalToIt => {
                let touches = |change: &Change| match change {
                    Change::Name { dir: changed, .. } => *changed == dir,
                    Change::Move { from, to, .. } => from.0 == dir || to.0 == dir,
                    _ => false,
                };
                let names = (self.below..self.units.len())
                    .filter(|&unit| touches(&self.units[unit].change));
                forced.extend(names);
                if self.model.fsync == Forces::OwnAndName {
                    self.name_of(dir, forced);
                }
            }
        }
    }
}

/// Whether both change the same page, size or name.
fn shares_key(one: &Change, other: &Change) -> bool {
    fn places(change: &Change) -> Vec<(NodeId, &[u8])> {
        match change {
            Change::Name { dir, name, .. } => vec![(*dir, name)],
            Change::Move { from, to, .. } => vec![(from.0, &from.1), (to.0, &to.1)],
            _ => Vec::new(),
        }
    }
    match (one.file(), other.file()) {
        (Some(one), Some(other)) => one == other,
        (None, None) => places(one).iter().any(|place| places(other).contains(place)),
        _ => false,
    }
}
