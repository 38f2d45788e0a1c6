//! Explains the first crash of a campaign that breaks its guarantee.

use std::collections::{BTreeMap, BTreeSet};

use outlast_schemes::{Image, LinesRead, Patch, apply};
use outlast_sim::Cause;
use outlast_sim::timed::Cycle;
use outlast_trace::{LineAddr, PoolOffset};
use outlast_workloads::machine::Recorded;

use super::crashes::{Images, Run};
use super::history::{self, History, There};
use super::{Campaign, CrashEntry, work_of};
use crate::explain::{
    Compared, EVENTS_MAX, Event, Explanation, Line, Recovery, STEPS_MAX, Step, Transaction,
    run_lines,
};
use crate::oracle::prefixes::Counts;
use crate::{Broken, Violation};

/// Words that are compared one by one, at most.
const WORDS_MAX: usize = 8;

/// Transactions that are listed, the last ones before the crash.
const TRANSACTIONS_MAX: usize = 8;

/// A crash that breaks the guarantee.
struct Found {
    point: usize,
    now: Cycle,
    image: Vec<u8>,
    /// What the first recovery writes.
    patches: Vec<Patch>,
    /// Of these, what was written before it crashed as well; all of them where it did not.
    stop: usize,
    /// What the recovery from that writes.
    second: Vec<Patch>,
    read: Vec<LineAddr>,
    reported: There,
    there: Option<There>,
    violation: Violation,
    /// Whether recovery gave memory to judge.
    is_recovered: bool,
}

impl Campaign {
    /// Looks for the first crash point at which the guarantee is broken, and tells it; nothing where none
    /// does. The program alone crashes first, then its recovery too. Then the rest of the program crashes,
    /// which goes on from a recovery.
    ///
    /// # Errors
    /// When the run cannot be made or comes to a stop.
    pub fn explain(&self) -> Result<Option<Explanation>, Box<dyn std::error::Error>> {
        let recorded = self.plan.record()?;
        let work = work_of(&recorded);
        let run = self.start(&recorded, &work, None)?;
        let entries = run.journal().journal().len();
        self.points.check(entries)?;
        let points = self.points.of(entries, &mut self.random(super::POINTS, 0));
        if let Some(found) = self.first_broken(&recorded, &run, &points) {
            return Ok(Some(self.tell(&recorded, &run, &found, None)));
        }
        let mut resumed = self.resumed_at(&points);
        resumed.sort_unstable();
        let mut images = Images::new(&run, self.breaks());
        let mut history = history_of(&recorded, &run);
        for entry in resumed {
            let (now, undo) = images.at(entry);
            let at = (entry, now);
            let earlier = self.recovered_at(&recorded, &run, &mut history, images.bytes(), at);
            images.undo(&undo);
            let Some(earlier) = earlier else { continue };
            let image = earlier.image.clone();
            // A recovery from which nothing can go on is the campaign's to report.
            let Ok(rest) = self.go_on(&recorded, &work, image, earlier.there.clone()) else {
                continue;
            };
            let points: Vec<usize> = (0..=rest.journal().journal().len()).collect();
            if let Some(found) = self.first_broken(&recorded, &rest, &points) {
                return Ok(Some(self.tell(&recorded, &rest, &found, Some(earlier))));
            }
        }
        Ok(None)
    }

    fn first_broken(&self, recorded: &Recorded, run: &Run, points: &[usize]) -> Option<Found> {
        let seconds = if self.second_crash { &[false, true][..] } else { &[false] };
        for second in seconds {
            let mut history = history_of(recorded, run);
            let mut images = Images::new(run, self.breaks());
            for &point in points {
                let (now, undo) = images.at(point);
                let (image, at) = (images.bytes(), (point, now));
                let found = self.recover_at(run, &mut history, image, at, *second);
                if found.is_some() {
                    return found;
                }
                images.undo(&undo);
            }
        }
        None
    }

    /// The recovery after a crash from which a campaign goes on, where it leaves something whole.
    fn recovered_at(
        &self,
        recorded: &Recorded,
        run: &Run,
        history: &mut History,
        image: &mut [u8],
        (point, now): (usize, Cycle),
    ) -> Option<Earlier> {
        let reported = history.reported(run.journal(), now, &run.recovered);
        let patches = run.prepared.recover(Image::new(image)).ok()?;
        let stop = self.stops(point, patches.len()).drawn;
        let undo_first = apply(&patches[..stop], image);
        let again = match stop < patches.len() {
            true => run.prepared.recover(Image::new(image)).unwrap_or_default(),
            false => Vec::new(),
        };
        let undo = apply(&again, image);
        let (guarantee, told) = (self.judged_by(&run.recovered), (&reported, &run.recovered));
        let judged = history.judge(guarantee, run.prepared.as_ref(), Image::new(image), told, None);
        let recovered = image.to_vec();
        apply(&undo, image);
        apply(&undo_first, image);
        let there = judged.there?;
        let states = States::of(recorded);
        let place = |at: PoolOffset| states.place(at);
        let mut runs = vec![program(PROGRAM, run, (point, now), image, &place)];
        if stop < patches.len() {
            runs.push(recovery_run(&patches, stop, image, &place));
        }
        Some(Earlier { entry: point, image: recovered, there, runs })
    }

    /// Recovers an image, after each of the writes of a recovery before it if a `second` crash is asked
    /// for.
    fn recover_at(
        &self,
        run: &Run,
        history: &mut History,
        image: &mut [u8],
        (point, now): (usize, Cycle),
        second: bool,
    ) -> Option<Found> {
        let reported = history.reported(run.journal(), now, &run.recovered);
        let guarantee = self.judged_by(&run.recovered);
        let read = LinesRead::default();
        let first = run.prepared.recover(Image::noting(image, &read));
        let read = read.into_lines();
        let found =
            |patches: &[Patch], stop, second: Vec<Patch>, there, violation, is_recovered| {
                let (image, patches) = (Vec::new(), patches.to_vec());
                let (reported, read) = (reported.clone(), read.clone());
                Found {
                    point,
                    now,
                    image,
                    patches,
                    stop,
                    second,
                    read,
                    reported,
                    there,
                    violation,
                    is_recovered,
                }
            };
        let refused = |why: String| Violation::new(Broken::Refused, why);
        let patches = match first {
            Ok(patches) => patches,
            Err(why) => {
                let found = found(&[], 0, Vec::new(), None, refused(why.to_string()), false);
                return Some(Found { image: image.to_vec(), ..found });
            }
        };
        let stops = if second { 0..patches.len() } else { patches.len()..patches.len() + 1 };
        for stop in stops {
            let undo_first = apply(&patches[..stop], image);
            let again = match stop < patches.len() {
                true => run.prepared.recover(Image::new(image)),
                false => Ok(Vec::new()),
            };
            let wrong = match again {
                Err(why) => {
                    Some(found(&patches, stop, Vec::new(), None, refused(why.to_string()), false))
                }
                Ok(again) => {
                    let undo = apply(&again, image);
                    let told = (&reported, &run.recovered);
                    let prepared = run.prepared.as_ref();
                    let judged = history.judge(guarantee, prepared, Image::new(image), told, None);
                    apply(&undo, image);
                    let there = judged.there;
                    let wrong = judged.verdict.err();
                    wrong.map(|wrong| found(&patches, stop, again, there, wrong, true))
                }
            };
            apply(&undo_first, image);
            if let Some(wrong) = wrong {
                return Some(Found { image: image.to_vec(), ..wrong });
            }
        }
        None
    }

    fn tell(
        &self,
        recorded: &Recorded,
        run: &Run,
        found: &Found,
        earlier: Option<Earlier>,
    ) -> Explanation {
        let states = States::of(recorded);
        let place = |at: PoolOffset| states.place(at);
        let acknowledged = match &found.reported {
            There::Transactions(counts) => counts.clone(),
            There::Epoch { .. } => Counts::new(),
        };
        let mut recovered = found.image.clone();
        apply(&found.patches[..found.stop], &mut recovered);
        apply(&found.second, &mut recovered);
        let at = match &earlier {
            None => CrashEntry { entry: found.point, resumed: None },
            Some(earlier) => CrashEntry { entry: earlier.entry, resumed: Some(found.point) },
        };
        let name = if earlier.is_some() { REST } else { PROGRAM };
        let mut crashed = program(name, run, (found.point, found.now), &found.image, &place);
        if matches!(found.reported, There::Transactions(_)) && earlier.is_none() {
            let lines = states.lines(run, &found.image, &acknowledged, &place);
            if !lines.is_empty() {
                (crashed.lines, crashed.lines_left_out) = run_lines(lines);
            }
        }
        if let Some(earlier) = &earlier {
            crashed.events.insert(0, goes_on(earlier));
        }
        let mut runs = earlier.map_or_else(Vec::new, |earlier| earlier.runs);
        runs.push(crashed);
        let steps = |patches: &[Patch], image: &[u8]| steps(patches, image, &place);
        let mut recovery = Recovery::default();
        let is_second = found.stop < found.patches.len();
        let (last, before) = match is_second {
            false => (&found.patches, found.image.clone()),
            true => {
                runs.push(recovery_run(&found.patches, found.stop, &found.image, &place));
                let mut before = found.image.clone();
                apply(&found.patches[..found.stop], &mut before);
                (&found.second, before)
            }
        };
        (recovery.steps, recovery.left_out) = steps(last, &before);
        recovery.read = ranges(&found.read);
        recovery.outcome = match (&found.is_recovered, &found.there) {
            (false, _) => found.violation.to_string(),
            (true, Some(there)) => kept(there),
            (true, None) => format!("{} words written", last.len()),
        };
        Explanation {
            flaw: self.plant.map_or(String::new(), |plant| plant.name.to_owned()),
            about: self.plant.map_or(self.scheme.about(), |plant| plant.about).to_owned(),
            scheme: self.scheme.to_string(),
            guarantee: self.scheme.guarantee().to_string(),
            program: format!(
                "{}: {} transactions on {} threads, {} bytes of data",
                self.plan.workload.name,
                self.plan.transactions,
                self.plan.threads,
                self.plan.footprint
            ),
            transactions: transactions(run, found.now),
            schedule: String::new(),
            runs,
            recovery,
            compared: self.compared(run, found, &states, &acknowledged, &recovered),
            verdict: found.violation.to_string(),
            replay: self.command(Some(at)),
        }
    }

    fn compared(
        &self,
        run: &Run,
        found: &Found,
        states: &States,
        acknowledged: &Counts,
        recovered: &[u8],
    ) -> Vec<Compared> {
        let image = Image::new(recovered);
        match &found.reported {
            _ if !found.is_recovered => vec![Compared {
                what: "memory after recovery".to_owned(),
                expected: "any that the guarantee allows".to_owned(),
                found: "recovery refused".to_owned(),
                is_allowed: false,
            }],
            There::Epoch { epoch: reported, .. } => {
                let named = run.prepared.epoch(image);
                let is_allowed = named.is_some_and(|named| named >= *reported);
                vec![
                    Compared {
                        what: "the epoch that recovery names".to_owned(),
                        expected: format!("{reported} or later: {reported} was reported persisted"),
                        found: named.map_or_else(|| "none".to_owned(), |named| named.to_string()),
                        is_allowed,
                    },
                    Compared {
                        what: "memory".to_owned(),
                        expected: "every byte as at the end of that epoch".to_owned(),
                        found: match is_allowed {
                            true => found.violation.detail.clone(),
                            false => "not compared".to_owned(),
                        },
                        is_allowed: false,
                    },
                ]
            }
            There::Transactions(_) => {
                let word = |at: u64| {
                    let line = image.line(run.prepared.locate(image, PoolOffset(at).line()));
                    line.as_chunks::<8>().0[(at % 64 / 8) as usize]
                };
                states.compared(acknowledged, found.there.as_ref(), &word)
            }
        }
    }
}

/// The names of runs.
const PROGRAM: &str = "the program";
const REST: &str = "the rest of the program";

/// A recovery from which the rest of the program went on.
struct Earlier {
    /// Entries before the crash that it followed.
    entry: usize,
    /// What it left.
    image: Vec<u8>,
    there: There,
    /// What had run up to it.
    runs: Vec<crate::explain::Run>,
}

fn history_of(recorded: &Recorded, run: &Run) -> History {
    match run.recovered {
        There::Epoch { .. } => History::of_epochs(run),
        There::Transactions(_) => History::of_transactions(recorded),
    }
}

/// A run of the program up to its crash, with the lines that its last entries brought to memory.
fn program(
    name: &str,
    run: &Run,
    (point, now): (usize, Cycle),
    image: &[u8],
    place: &dyn Fn(PoolOffset) -> String,
) -> crate::explain::Run {
    let journal = run.journal().journal();
    let from = point.saturating_sub(EVENTS_MAX);
    let touched: BTreeSet<u64> =
        (from..point).map(|index| journal.get(index).line.start().0).collect();
    let of = |bytes: &[u8], at: u64| {
        bytes.get(at as usize..at as usize + 64).map_or_else(|| vec![0; 64], <[u8]>::to_vec)
    };
    let state = |at: &u64| {
        let (before, now) = (of(&run.base, *at), of(image, *at));
        let name = place(PoolOffset(*at));
        crate::explain::state_of(*at, name, [before, now.clone(), now.clone(), now])
    };
    let (lines, lines_left_out) = run_lines(touched.iter().filter_map(state).collect());
    crate::explain::Run {
        name: name.to_owned(),
        unit: "entry of the journal".to_owned(),
        crash_at: point as u64,
        left_out: from as u64,
        events: events(run, (point, now), place),
        lines,
        lines_left_out,
    }
}

/// A recovery up to its crash.
fn recovery_run(
    patches: &[Patch],
    stop: usize,
    image: &[u8],
    place: &dyn Fn(PoolOffset) -> String,
) -> crate::explain::Run {
    let event = |(at, step): (usize, Step)| Event {
        at: at as u64,
        lane: None,
        what: step.what,
        place: step.place,
        fate: Some(crate::explain::Fate::Durable),
    };
    crate::explain::Run {
        name: "the recovery from that".to_owned(),
        unit: "write".to_owned(),
        crash_at: stop as u64,
        left_out: stop.saturating_sub(STEPS_MAX) as u64,
        events: steps(&patches[..stop], image, place)
            .0
            .into_iter()
            .enumerate()
            .map(event)
            .collect(),
        lines: Vec::new(),
        lines_left_out: 0,
    }
}

/// What a recovery kept.
fn kept(there: &There) -> String {
    match there {
        There::Epoch { epoch, .. } => format!("memory as of epoch {epoch}"),
        There::Transactions(counts) => {
            let told =
                counts.iter().map(|(data, count)| format!("{count} transactions of data {data}"));
            match told.collect::<Vec<_>>() {
                none if none.is_empty() => "memory without any transaction".to_owned(),
                some => some.join(", "),
            }
        }
    }
}

/// How the rest of a program begins.
fn goes_on(earlier: &Earlier) -> Event {
    Event {
        at: 0,
        lane: None,
        what: format!("goes on: recovery kept {}", kept(&earlier.there)),
        place: String::new(),
        fate: None,
    }
}

/// The journal's last entries before the crash, with what was acknowledged meanwhile.
fn events(
    run: &Run,
    (point, now): (usize, Cycle),
    place: &dyn Fn(PoolOffset) -> String,
) -> Vec<Event> {
    let journal = run.journal();
    let from = point.saturating_sub(EVENTS_MAX);
    let mut events = Vec::new();
    let since = if from == 0 { Cycle(0) } else { journal.at(from) };
    let mut acknowledged = journal
        .acknowledged_by(now)
        .iter()
        .filter(|(at, _)| *at >= since)
        .map(|(at, tx)| (*at, *tx))
        .peekable();
    for index in from..point {
        let at = journal.at(index);
        while let Some((_, tx)) = acknowledged.next_if(|(told, _)| *told < at) {
            events.push(ack(index, tx));
        }
        let entry = journal.journal().get(index);
        events.push(Event {
            at: index as u64,
            lane: None,
            what: format!("cycle {}: {}", at.0, told(entry.cause, entry.words.len())),
            place: place(entry.line.start()),
            fate: Some(crate::explain::Fate::Durable),
        });
    }
    events.extend(acknowledged.map(|(_, tx)| ack(point, tx)));
    events
}

fn ack(at: usize, tx: outlast_trace::TxId) -> Event {
    Event {
        at: at as u64,
        lane: None,
        what: format!(
            "acknowledges transaction {} of data {}",
            history::number_of(tx),
            history::data_of(tx)
        ),
        place: String::new(),
        fate: None,
    }
}

/// Why words came to memory.
fn told(cause: Cause, words: usize) -> String {
    let why = match cause {
        Cause::Evicted => "evicted",
        Cause::Unasked => "written back by the adversary",
        Cause::Flushed => "flushed",
        Cause::Streamed => "streamed",
        Cause::Stored => "stored",
        Cause::Logged => "logged",
        Cause::Forced => "forced out",
        Cause::Metadata => "written as metadata",
        Cause::Scheme(_) => "written by the scheme",
    };
    let plural = if words == 1 { "" } else { "s" };
    format!("{words} word{plural} {why}")
}

/// A recovery's writes in words, and how many are left out.
fn steps(
    patches: &[Patch],
    image: &[u8],
    place: &dyn Fn(PoolOffset) -> String,
) -> (Vec<Step>, u64) {
    let mut memory: BTreeMap<u64, u64> = BTreeMap::new();
    let mut all = Vec::new();
    for patch in patches {
        let stored = || word_of(image, patch.at.0).unwrap_or(0);
        let old = memory.get(&patch.at.0).copied().unwrap_or_else(stored);
        let new = u64::from_le_bytes(patch.word);
        memory.insert(patch.at.0, new);
        if all.len() < STEPS_MAX {
            let what = format!("writes {new:#x} at {:#x}, where {old:#x} was", patch.at.0);
            all.push(Step { what, place: place(patch.at) });
        }
    }
    (all, patches.len().saturating_sub(STEPS_MAX) as u64)
}

fn word_of(bytes: &[u8], at: u64) -> Option<u64> {
    let word = bytes.get(at as usize..at as usize + 8)?;
    Some(u64::from_le_bytes(word.try_into().expect("eight bytes were taken")))
}

/// Lines in the order in which they were read, neighbours together.
fn ranges(lines: &[LineAddr]) -> Vec<String> {
    let mut all: Vec<(u64, u64)> = Vec::new();
    for line in lines {
        match all.last_mut().filter(|last| last.1 == line.0) {
            Some(last) => last.1 += 1,
            None => all.push((line.0, line.0 + 1)),
        }
    }
    let left_out = all.len().saturating_sub(WORDS_MAX);
    let told = |&(from, to): &(u64, u64)| match to - from {
        1 => format!("line {:#x}", from * 64),
        count => format!("{count} lines from {:#x}", from * 64),
    };
    let mut told: Vec<String> = all.iter().take(WORDS_MAX).map(told).collect();
    if left_out > 0 {
        told.push(format!("{left_out} more places"));
    }
    told
}

/// The last transactions that were acknowledged.
fn transactions(run: &Run, now: Cycle) -> Vec<Transaction> {
    let all = run.journal().acknowledged_by(now);
    let last = &all[all.len().saturating_sub(TRANSACTIONS_MAX)..];
    let told = |(at, tx): &(Cycle, outlast_trace::TxId)| Transaction {
        id: history::number_of(*tx) as u64,
        lane: history::data_of(*tx) as u16,
        does: format!("acknowledged in cycle {}", at.0),
        acknowledged: true,
    };
    last.iter().map(told).collect()
}

/// Words by their addresses.
type Words = BTreeMap<u64, u64>;

/// What the words of each set of data hold after each number of its transactions.
struct States {
    initial: BTreeMap<u64, u64>,
    /// The words that each transaction leaves, in order.
    by_data: BTreeMap<u64, Vec<(usize, Words)>>,
}

impl States {
    /// What lies at an address.
    fn place(&self, at: PoolOffset) -> String {
        let line = at.0 & !63;
        let is_data = self.initial.range(line..line + 64).next().is_some();
        match is_data {
            true => format!("data, line {line:#x}"),
            false => format!("line {line:#x}, the scheme's own"),
        }
    }

    fn of(recorded: &Recorded) -> Self {
        let ran = history::ran(recorded);
        let mut states = Self { initial: BTreeMap::new(), by_data: BTreeMap::new() };
        for (data, transactions) in &ran.by_data {
            let mut memory: BTreeMap<u64, [u8; 8]> = BTreeMap::new();
            let mut left = Vec::new();
            for (number, stores) in transactions {
                let mut changed = BTreeMap::new();
                for (at, bytes) in stores {
                    for (byte, offset) in bytes.iter().zip(at.0..) {
                        let word = offset & !7;
                        let initial = word_of(&recorded.image, word).unwrap_or(0);
                        states.initial.insert(word, initial);
                        let held = memory.entry(word).or_insert(initial.to_le_bytes());
                        held[(offset % 8) as usize] = *byte;
                        changed.insert(word, u64::from_le_bytes(*held));
                    }
                }
                left.push((*number, changed));
            }
            states.by_data.insert(*data, left);
        }
        states
    }

    /// What a word may hold when no fewer than this number of transactions survive, and after which
    /// number it does.
    fn allowed(&self, data: u64, at: u64, least: usize) -> Vec<(usize, u64)> {
        let mut allowed = vec![(0, self.initial[&at])];
        for (number, words) in &self.by_data[&data] {
            if let Some(value) = words.get(&at) {
                if *number <= least {
                    allowed.clear();
                }
                allowed.push((*number, *value));
            }
        }
        allowed
    }

    /// The lines of data as all acknowledged transactions leave them, beside the image.
    fn lines(
        &self,
        run: &Run,
        image: &[u8],
        acknowledged: &Counts,
        place: &dyn Fn(PoolOffset) -> String,
    ) -> Vec<Line> {
        let mut newest = self.initial.clone();
        for (data, transactions) in &self.by_data {
            let least = acknowledged.get(data).copied().unwrap_or(0);
            let there = transactions.iter().filter(|(number, _)| *number <= least);
            there.for_each(|(_, words)| newest.extend(words));
        }
        let lines: BTreeSet<u64> = self.initial.keys().map(|at| at & !63).collect();
        let view = Image::new(image);
        let state = |at: u64| {
            let words = |of: &BTreeMap<u64, u64>, bytes: &[u8]| -> Vec<u8> {
                let word = |at: u64| of.get(&at).copied().or_else(|| word_of(bytes, at % 64));
                (0..8).flat_map(|k| word(at + 8 * k).unwrap_or(0).to_le_bytes()).collect()
            };
            let now = view.line(run.prepared.locate(view, PoolOffset(at).line())).to_vec();
            let before = words(&self.initial, &now);
            let newest = words(&newest, &now);
            crate::explain::state_of(
                at,
                place(PoolOffset(at)),
                [before.clone(), before, now, newest],
            )
        };
        lines.into_iter().filter_map(state).collect()
    }

    fn compared(
        &self,
        acknowledged: &Counts,
        there: Option<&There>,
        word: &dyn Fn(u64) -> [u8; 8],
    ) -> Vec<Compared> {
        let mut rows = Vec::new();
        for data in self.by_data.keys() {
            let least = acknowledged.get(data).copied().unwrap_or(0);
            let kept = match there {
                Some(There::Transactions(counts)) => counts.get(data).copied(),
                _ => None,
            };
            let mut odd = Vec::new();
            for at in self.words_of(*data) {
                let (found, allowed) =
                    (u64::from_le_bytes(word(at)), self.allowed(*data, at, least));
                if !allowed.iter().any(|(_, value)| *value == found) {
                    odd.push((at, found, allowed));
                }
            }
            let found = match kept {
                Some(kept) => format!("{kept} transactions"),
                None if odd.is_empty() => "words of different numbers of transactions".to_owned(),
                None => format!("{} words that none of these leaves", odd.len()),
            };
            rows.push(Compared {
                what: format!("data {data}"),
                expected: format!("what {least} or more whole transactions leave"),
                found,
                is_allowed: kept.is_some_and(|kept| kept >= least),
            });
            if kept.is_none() && odd.is_empty() {
                rows.extend(self.half_there(*data, least, word));
            }
            for (at, found, allowed) in odd.into_iter().take(WORDS_MAX) {
                let allowed = allowed.iter().take(3);
                let told: Vec<String> = allowed
                    .map(|(number, value)| format!("{value:#x} of transaction {number}"))
                    .collect();
                rows.push(Compared {
                    what: format!("word {at:#x}"),
                    expected: told.join(" or "),
                    found: self.origin(*data, at, found),
                    is_allowed: false,
                });
            }
        }
        rows.sort_by_key(|row| row.is_allowed);
        rows.truncate(2 * WORDS_MAX);
        rows
    }

    /// The words of the first transaction that is there in part, each as the others found it before or
    /// as that transaction left it.
    fn half_there(&self, data: u64, least: usize, word: &dyn Fn(u64) -> [u8; 8]) -> Vec<Compared> {
        let mut before = self.initial.clone();
        for (number, words) in &self.by_data[&data] {
            let changed = words.iter().filter(|(at, value)| before[*at] != **value);
            let changed: Vec<(u64, u64, u64)> =
                changed.map(|(at, value)| (*at, *value, u64::from_le_bytes(word(*at)))).collect();
            let there = changed.iter().filter(|(_, value, found)| value == found).count();
            if *number > least && there > 0 && there < changed.len() {
                let row = |(at, value, found): &(u64, u64, u64)| Compared {
                    what: format!("word {at:#x} of transaction {number}"),
                    expected: format!(
                        "{value:#x} here and in its {} other words, or in none",
                        changed.len() - 1
                    ),
                    found: match found == value {
                        true => format!("{found:#x}"),
                        false => self.origin(data, *at, *found),
                    },
                    is_allowed: found == value,
                };
                return changed.iter().map(row).take(WORDS_MAX).collect();
            }
            before.extend(words);
        }
        Vec::new()
    }

    fn words_of(&self, data: u64) -> BTreeSet<u64> {
        self.by_data[&data].iter().flat_map(|(_, words)| words.keys().copied()).collect()
    }

    /// A value with the transaction that left it.
    fn origin(&self, data: u64, at: u64, value: u64) -> String {
        let mut writers = self.by_data[&data].iter();
        let left = |(_, words): &&(usize, BTreeMap<u64, u64>)| words.get(&at) == Some(&value);
        match writers.find(left) {
            Some((number, _)) => format!("{value:#x} of transaction {number}"),
            None if self.initial.get(&at) == Some(&value) => format!("{value:#x}, the initial one"),
            None => format!("{value:#x}, which no transaction wrote there"),
        }
    }
}
