//! Open units of a crash point, each with the contents that it may have.
//!
//! A *unit* is a set of words whose contents depend on each other and on nothing else, so that
//! the allowed images are the product of the units' contents (rule 4). Ordinary stores to a cell
//! tie its words together by their prefix (rule 2), a line store ties its eight; a word that was
//! only streamed to is a unit of its own (rule 10), and so is every word under `Tear::Word`.

use std::ops::Range;

use outlast_trace::{LineAddr, PoolOffset};
use rustc_hash::FxHashSet;

use super::tracker::{Base, Event, Kind, Tracker, imply_older_streams, mark_whole};
use crate::memory::count::Count;
use crate::memory::model::{Model, Tear, Wide};

/// Most contents that one unit may have; a crash point with a wider one is refused.
const WIDTH_MAX: usize = 1 << 20;

/// One unit that has more than one content. Row 0 is what is durable for certain.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// Its words that differ between rows, in [`Units::words`].
    pub words: Range<usize>,
    /// Where its rows begin in [`Units::values`], each as long as `words`.
    pub rows: usize,
    /// How many different contents it has, at least 2.
    pub width: u32,
}

/// The open units of a crash point.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    /// Indexes of words, counted from the start of the medium.
    pub words: Vec<u64>,
    pub values: Vec<u64>,
    pub units: Vec<Unit>,
}

/// A unit could be enumerated in principle and not in practice.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the cell at {at:#x} has more than {WIDTH_MAX} possible contents; fence its streams more often"
)]
pub struct TooWide {
    at: u64,
}

impl TooWide {
    /// The first byte of the cell.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// The first line of the cell.
    pub(crate) fn line(&self) -> LineAddr {
        PoolOffset(self.at).line()
    }
}

impl Units {
    pub(crate) fn row(&self, unit: &Unit, row: u32) -> &[u64] {
        let len = unit.words.len();
        &self.values[unit.rows + row as usize * len..][..len]
    }

    /// Appends the units that are open at the tracker's position. Returns the number of choices
    /// in the sense of rule 4, in which different choices may give the same bytes.
    ///
    /// # Errors
    /// When a unit has too many contents to enumerate.
    pub(crate) fn open(&mut self, tracker: &Tracker, base: &impl Base) -> Result<Count, TooWide> {
        let mut choices = Count::ONE;
        let mut table = Table::default();
        for (cell, events) in tracker.cells() {
            for_each_class(tracker.model(), events, |class| -> Result<(), TooWide> {
                let raw = table.fill(tracker, cell, class, base)?;
                choices = choices.times(raw);
                self.append(&table);
                Ok(())
            })?;
        }
        Ok(choices)
    }

    fn append(&mut self, table: &Table) {
        let width = table.width();
        if width < 2 {
            return;
        }
        let columns = table.words.len();
        let from = self.words.len();
        let rows = self.values.len();
        let differs = |column: usize| {
            let first = table.values[column];
            table.values.iter().skip(column).step_by(columns).any(|&value| value != first)
        };
        let kept: Vec<usize> = (0..columns).filter(|&column| differs(column)).collect();
        self.words.extend(kept.iter().map(|&column| table.words[column]));
        for row in table.values.chunks_exact(columns) {
            self.values.extend(kept.iter().map(|&column| row[column]));
        }
        let words = from..self.words.len();
        self.units.push(Unit { words, rows, width: width as u32 });
    }
}

/// Which events make a unit have the content of a row: those of its class that persisted, as
/// (operation, piece), for the first choice that gives it.
pub(crate) fn explain(
    tracker: &Tracker,
    base: &impl Base,
    unit_first_word: u64,
    row: u32,
) -> Option<Vec<(u32, u32)>> {
    let model = tracker.model();
    let cell = unit_first_word / tracker.cell_words();
    let mut found = None;
    let mut table = Table::default();
    let events = tracker.cell(cell);
    let result = for_each_class(model, events, |class| {
        table.fill(tracker, cell, class, base)?;
        if found.is_some() || table.width() < 2 || !table.words.contains(&unit_first_word) {
            return Ok::<(), TooWide>(());
        }
        let mut rows = Rows::new(&table.words);
        for_each_choice(model, class, |durable| {
            if rows.add(&table.content(cell, class, durable, base))
                && rows.len() == row as usize + 1
            {
                let persisted = class.iter().zip(durable).filter(|(_, durable)| **durable);
                let persisted: Vec<&Event> = persisted.map(|(event, _)| event).collect();
                let hidden = hidden_before(model, events, &persisted);
                let all = persisted.into_iter().chain(hidden);
                found = Some(all.map(|event| (event.op, event.piece)).collect());
            }
            true
        });
        Ok(())
    });
    result.ok().and(found)
}

/// Ordinary stores that show nowhere, because a durable stream came after them, and that
/// persisted all the same, since a later one of their unit did (rule 2).
fn hidden_before<'e>(
    model: Model,
    events: &'e [Event],
    persisted: &[&Event],
) -> impl Iterator<Item = &'e Event> + use<'e> {
    let last = persisted.iter().filter(|event| event.is_ordinary()).max_by_key(|event| event.seq);
    let last = last.map(|event| (event.seq, event.word));
    events.iter().filter(move |event| {
        let is_before =
            |(seq, word)| event.seq < seq && (model.tear == Tear::Line || event.word == word);
        event.is_ordinary() && event.mask == 0 && last.is_some_and(is_before)
    })
}

/// The different contents of one class of events.
#[derive(Default)]
struct Table {
    cell_words: u64,
    words: Vec<u64>,
    values: Vec<u64>,
}

impl Table {
    fn width(&self) -> usize {
        if self.words.is_empty() { 1 } else { self.values.len() / self.words.len() }
    }

    /// Enumerates a class. Returns how many choices it has.
    fn fill(
        &mut self,
        tracker: &Tracker,
        cell: u64,
        class: &[Event],
        base: &impl Base,
    ) -> Result<u64, TooWide> {
        let model = tracker.model();
        self.cell_words = tracker.cell_words();
        self.words.clear();
        self.words.extend(class.iter().map(|event| cell * self.cell_words + u64::from(event.word)));
        self.words.sort_unstable();
        self.words.dedup();
        let too_wide = TooWide { at: cell * tracker.cell_words() * 8 };
        if self.least_width(cell, class, base) > WIDTH_MAX as u64 {
            return Err(too_wide);
        }
        let mut rows = Rows::new(&self.words);
        let mut choices = 0;
        let simple = model.wide == Wide::Ascending && class.iter().all(Event::is_ordinary);
        if simple {
            // The common case, and a long one in the page domain: each prefix adds one store.
            let mut content = self.start(base);
            rows.add(&content);
            for event in class {
                let column = self.column(cell, event);
                content[column] = event.over(content[column]);
                rows.add(&content);
            }
            choices = class.len() as u64 + 1;
        } else {
            for_each_choice(model, class, |durable| {
                choices += 1;
                rows.add(&self.content(cell, class, durable, base));
                rows.len() <= WIDTH_MAX && choices <= 8 * WIDTH_MAX as u64
            });
        }
        if rows.len() > WIDTH_MAX || choices > 8 * WIDTH_MAX as u64 {
            return Err(too_wide);
        }
        self.values = rows.values;
        Ok(choices)
    }

    /// No more contents than the class has: those that its streams alone give. A word has the
    /// value of any of its streams, whatever the other words have (rule 10).
    fn least_width(&self, cell: u64, class: &[Event], base: &impl Base) -> u64 {
        let width = |word: &u64| {
            let streams = class.iter().filter(|event| {
                event.kind == Kind::Stream
                    && cell * self.cell_words + u64::from(event.word) == *word
            });
            let values = streams.map(|event| event.over(base.word(*word)));
            values.chain([base.word(*word)]).collect::<FxHashSet<u64>>().len() as u64
        };
        // A line store ties words together.
        let has = |kind| class.iter().any(|event| event.kind == kind);
        if has(Kind::LineStore) || !has(Kind::Stream) {
            return 1;
        }
        self.words.iter().map(width).fold(1, u64::saturating_mul)
    }

    fn start(&self, base: &impl Base) -> Vec<u64> {
        self.words.iter().map(|&word| base.word(word)).collect()
    }

    fn column(&self, cell: u64, event: &Event) -> usize {
        let word = cell * self.cell_words + u64::from(event.word);
        self.words.binary_search(&word).expect("every event's word was listed")
    }

    fn content(&self, cell: u64, class: &[Event], durable: &[bool], base: &impl Base) -> Vec<u64> {
        let mut content = self.start(base);
        for (event, _) in class.iter().zip(durable).filter(|(_, durable)| **durable) {
            let column = self.column(cell, event);
            content[column] = event.over(content[column]);
        }
        content
    }
}

/// Rows without repetition, in the order in which they came.
struct Rows {
    columns: usize,
    values: Vec<u64>,
    seen: FxHashSet<Box<[u64]>>,
}

/// The most rows that are compared one by one.
const FEW: usize = 16;

impl Rows {
    fn new(words: &[u64]) -> Self {
        Self { columns: words.len(), values: Vec::new(), seen: FxHashSet::default() }
    }

    fn len(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(1)
    }

    /// Returns whether the row was new.
    fn add(&mut self, row: &[u64]) -> bool {
        if self.columns == 0 {
            return false;
        }
        let new = if self.len() < FEW {
            !self.values.chunks_exact(self.columns).any(|old| old == row)
        } else {
            if self.seen.is_empty() {
                self.seen.extend(self.values.chunks_exact(self.columns).map(Box::from));
            }
            self.seen.insert(Box::from(row))
        };
        if new {
            self.values.extend_from_slice(row);
        }
        new
    }
}

/// Splits a cell's events into classes whose contents are independent of each other.
fn for_each_class<E>(
    model: Model,
    events: &[Event],
    mut body: impl FnMut(&[Event]) -> Result<(), E>,
) -> Result<(), E> {
    if model.tear == Tear::Line && events.iter().all(Event::is_ordinary) {
        return body(events);
    }
    let mut class: [u32; 64] = std::array::from_fn(|word| word as u32);
    if model.tear == Tear::Line {
        tie_words(events, &mut class);
    }
    let present = events.iter().fold(0u64, |set, e| set | 1 << class[e.word as usize]);
    for word in (0..64).filter(|word| present >> word & 1 == 1) {
        // Ordinary stores that show nowhere leave no word to choose for.
        let members: Vec<Event> = events
            .iter()
            .copied()
            .filter(|event| class[event.word as usize] == word && event.mask != 0)
            .collect();
        if !members.is_empty() {
            body(&members)?;
        }
    }
    Ok(())
}

/// Gives tied words the same class number.
fn tie_words(events: &[Event], class: &mut [u32; 64]) {
    let mut tie = |a: u32, b: u32| {
        let (keep, drop) = (class[a as usize], class[b as usize]);
        for entry in class.iter_mut().filter(|entry| **entry == drop) {
            *entry = keep;
        }
    };
    let mut ordinary = None;
    let mut line_store: Option<(u32, u32)> = None;
    for event in events.iter().filter(|event| event.mask != 0) {
        match event.kind {
            Kind::Ordinary => tie(*ordinary.get_or_insert(event.word), event.word),
            Kind::Stream => {}
            Kind::LineStore => match line_store {
                Some((seq, word)) if seq == event.seq => tie(word, event.word),
                _ => line_store = Some((event.seq, event.word)),
            },
        }
    }
}

/// Calls `body` with every allowed choice of a class, as marks on its events, until it returns
/// false. The first choice is that nothing persisted.
fn for_each_choice(model: Model, events: &[Event], mut body: impl FnMut(&[bool]) -> bool) {
    let ordinary: Vec<usize> = (0..events.len()).filter(|&i| events[i].is_ordinary()).collect();
    let mut durable = vec![false; events.len()];
    let mut at = 0;
    loop {
        if !with_streams(events, &durable, &mut body) {
            return;
        }
        let Some(&first) = ordinary.get(at) else { return };
        let group = ordinary[at..].iter().take_while(|&&i| events[i].seq == events[first].seq);
        let group = group.count();
        if model.wide == Wide::Unordered && group > 1 {
            // Rule 5: the words of a vector store persist in any order.
            for subset in 1..(1u32 << group) - 1 {
                let mut partly = durable.clone();
                for (bit, &i) in ordinary[at..at + group].iter().enumerate() {
                    partly[i] = subset >> bit & 1 == 1;
                }
                if !with_streams(events, &partly, &mut body) {
                    return;
                }
            }
        }
        ordinary[at..at + group].iter().for_each(|&i| durable[i] = true);
        at += group;
    }
}

/// Adds every allowed choice of streams to a choice of ordinary stores.
fn with_streams(
    events: &[Event],
    ordinary: &[bool],
    body: &mut impl FnMut(&[bool]) -> bool,
) -> bool {
    let mut least = ordinary.to_vec();
    imply_older_streams(events, &mut least);
    let mut optional: Vec<usize> =
        (0..events.len()).filter(|&i| !least[i] && !events[i].is_ordinary()).collect();
    optional.dedup_by_key(|i| events[*i].seq);
    choose_streams(events, &optional, &mut least, body)
}

fn choose_streams(
    events: &[Event],
    optional: &[usize],
    durable: &mut Vec<bool>,
    body: &mut impl FnMut(&[bool]) -> bool,
) -> bool {
    let Some((&first, rest)) = optional.split_first() else { return body(durable) };
    if !choose_streams(events, rest, durable, body) {
        return false;
    }
    let before = durable.clone();
    mark_whole(events, durable, first);
    let mut implied = durable.clone();
    imply_older_streams(events, &mut implied);
    // A choice that leaves out an older stream to the same word is not allowed.
    let go_on = implied != *durable || choose_streams(events, rest, durable, body);
    *durable = before;
    go_on
}
