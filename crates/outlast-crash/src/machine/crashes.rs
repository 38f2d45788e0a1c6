//! Crashes of one run, each recovered and judged.

use std::sync::Arc;

use outlast_schemes::{Breaks, Image, Patch, Prepared, RecoveryError, Work, apply};
use outlast_sim::ImageCursor;
use outlast_sim::timed::{Cycle, DrainCursor, Machine, TimedJournal};
use outlast_trace::PoolOffset;
use outlast_workloads::machine::Recorded;
use rustc_hash::FxHashMap;

use super::history::{History, Judged, There};
use super::plants::{Before, damage};
use super::resume::rest;
use super::{Campaign, CrashEntry, POINTS, Report, STOPS, STOPS_MAX};
use crate::runtime::campaign::NoSuchEntry;
use crate::{Broken, Violation};

/// A machine that ran to its end, with the memory that it started from.
pub(super) struct Run {
    pub prepared: Box<dyn Prepared>,
    pub machine: Box<dyn Machine>,
    pub base: Vec<u8>,
    /// What an earlier recovery has left in the base.
    pub recovered: There,
}

impl Run {
    pub fn journal(&self) -> &TimedJournal {
        self.machine.journal().expect("it was asked for")
    }
}

/// Memory as crashes of one run leave it, at ascending points.
pub(super) struct Images<'r> {
    run: &'r Run,
    breaks: Breaks,
    bytes: Vec<u8>,
    cursor: ImageCursor<'r>,
    drains: DrainCursor<'r>,
}

impl<'r> Images<'r> {
    /// Memory before the run, in which a crash does what is broken.
    pub fn new(run: &'r Run, breaks: Breaks) -> Self {
        let journal = run.journal();
        let (cursor, drains) = (journal.journal().cursor(), journal.drains());
        Self { run, breaks, bytes: run.base.clone(), cursor, drains }
    }

    /// Memory as it is now.
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Moves on to a crash just before entry `point`. Returns the moment, and what puts back what the
    /// crash itself has spoilt.
    pub fn at(&mut self, point: usize) -> (Cycle, Vec<Patch>) {
        let journal = self.run.journal();
        // What the lines of the last few entries held before them.
        let mut before: Vec<Before> = Vec::new();
        while self.cursor.entries() < point {
            let entry = self.cursor.entries();
            if point - entry <= 16 {
                let at = journal.journal().get(entry).line.start();
                let line = self.bytes[at.0 as usize..][..64].try_into().expect("a line was taken");
                before.push((entry, at, line));
            }
            self.cursor.advance_to_entry(entry + 1, &mut self.bytes, |_| {});
        }
        self.drains.advance_to_entry(point);
        // A crash just before the next entry.
        let now = match point < journal.journal().len() {
            true => Cycle(journal.at(point).0.saturating_sub(1)),
            false => Cycle::NEVER,
        };
        let mut lost = left_undrained(&self.drains);
        lost.extend(damage(self.breaks, journal, point, now, &before));
        (now, apply(&lost, &mut self.bytes))
    }

    /// Puts that back, before the next crash.
    pub fn undo(&mut self, undo: &[Patch]) {
        apply(undo, &mut self.bytes);
    }
}

/// After which of its writes a recovery crashes; the last is its end.
pub(super) struct Stops {
    pub all: Vec<usize>,
    /// The one from which work goes on.
    pub drawn: usize,
}

impl Campaign {
    /// The stops of the recovery that follows a crash at this entry and has `writes` writes.
    pub(super) fn stops(&self, entry: usize, writes: usize) -> Stops {
        let first = if self.second_crash { 0 } else { writes };
        let mut all: Vec<usize> = (first..=writes).collect();
        let mut random = self.random(STOPS, entry);
        while all.len() > STOPS_MAX {
            // The first and the last stay.
            all.remove(1 + random.below(all.len() as u64 - 2) as usize);
        }
        let drawn = all[random.below(all.len() as u64) as usize];
        Stops { all, drawn }
    }

    /// Runs the rest of the work from a recovered image on.
    ///
    /// # Errors
    /// When it cannot go on.
    pub(super) fn go_on(
        &self,
        recorded: &Recorded,
        work: &Work,
        image: Vec<u8>,
        there: There,
    ) -> Result<Run, Box<dyn std::error::Error>> {
        let streams = recorded.streams.iter().map(|log| Arc::new(rest(log, &there)));
        let work = work.resumed(streams.collect(), Arc::new(image));
        self.start(recorded, &work, Some(there))
    }
}

/// A campaign's crashes, and what they came to.
pub(super) struct Crashes<'c> {
    pub campaign: &'c Campaign,
    pub recorded: &'c Recorded,
    pub work: &'c Work,
    pub history: History,
    pub report: Report,
}

impl Crashes<'_> {
    /// Crashes a run at these points, ascending, and goes on from what is recovered at those of
    /// `resumed`. The run itself may have gone on from a crash behind entry `resumes` of another one.
    ///
    /// # Errors
    /// When a crash point is asked for that the rest of the work does not have.
    pub fn of(
        &mut self,
        run: &Run,
        resumes: Option<usize>,
        points: &[usize],
        resumed: &[usize],
    ) -> Result<(), NoSuchEntry> {
        let mut images = Images::new(run, self.campaign.breaks());
        for (number, &point) in points.iter().enumerate() {
            let (now, undo) = images.at(point);
            // Resumed work belongs to the part of its crash.
            if resumes.is_none() && self.campaign.part.is_some_and(|part| !part.has(number as u128))
            {
                images.undo(&undo);
                continue;
            }
            let at = match resumes {
                None => CrashEntry { entry: point, resumed: None },
                Some(entry) => CrashEntry { entry, resumed: Some(point) },
            };
            let goes_on = resumed.contains(&point);
            if let Some((image, there)) = self.recover(run, at, images.bytes(), now, goes_on) {
                self.resume(point, image, there)?;
            }
            images.undo(&undo);
        }
        Ok(())
    }

    /// Runs the rest of the work from a recovered image on, and crashes that.
    fn resume(&mut self, entry: usize, image: Vec<u8>, there: There) -> Result<(), NoSuchEntry> {
        let Self { campaign, recorded, work, .. } = *self;
        match campaign.go_on(recorded, work, image, there) {
            Ok(run) => {
                let entries = run.journal().journal().len();
                campaign.resumed_points.check_of("--resume-entry", entries)?;
                let mut random = campaign.random(POINTS, entry);
                let points = campaign.resumed_points.of(entries, &mut random);
                self.report.resumed += 1;
                let before = match &self.history {
                    History::Transactions(_) => None,
                    History::Epochs(_) => {
                        let of_rest = History::of_epochs(&run);
                        Some(std::mem::replace(&mut self.history, of_rest))
                    }
                };
                let crashed = self.of(&run, Some(entry), &points, &[]);
                if let Some(before) = before {
                    self.history = before;
                }
                crashed
            }
            Err(why) => {
                let at = CrashEntry { entry, resumed: Some(0) };
                let stuck = Violation::new(Broken::Stuck, format!("cannot go on: {why}"));
                self.report.add(at, Judged::torn(stuck));
                Ok(())
            }
        }
    }

    /// Recovers an image, also after crashes of recovery, and judges what is there. Where work `goes_on`,
    /// returns one of the recovered images if that is whole.
    fn recover(
        &mut self,
        run: &Run,
        at: CrashEntry,
        image: &mut [u8],
        now: Cycle,
        goes_on: bool,
    ) -> Option<(Vec<u8>, There)> {
        let refused =
            |why: RecoveryError| Judged::torn(Violation::new(Broken::Refused, why.to_string()));
        let reported = self.history.reported(run.journal(), now, &run.recovered);
        let guarantee = self.campaign.judged_by(&run.recovered);
        let patches = match run.prepared.recover(Image::new(image)) {
            Ok(patches) => patches,
            Err(why) => {
                self.report.images += 1;
                self.report.add(at, refused(why));
                return None;
            }
        };
        let Stops { all: stops, drawn } = self.campaign.stops(at.entry, patches.len());
        let (mut found, mut whole) = (None, None);
        // First the recovery that nothing cuts short.
        for stop in stops.into_iter().rev() {
            let first = apply(&patches[..stop], image);
            let second = match stop < patches.len() {
                true => run.prepared.recover(Image::new(image)),
                false => Ok(Vec::new()),
            };
            self.report.images += 1;
            match second {
                Err(why) => drop(self.report.add(at, refused(why))),
                Ok(second) => {
                    let undo = apply(&second, image);
                    let judged = match &whole {
                        Some((left, judged)) if is_left(left, &second, image) => {
                            Judged::clone(judged)
                        }
                        _ => {
                            let told = (&reported, &run.recovered);
                            let prepared = run.prepared.as_ref();
                            // All of memory is compared where nothing cuts recovery short, at every
                            // fourth crash, and of runs that have gone on at every 16th; else what
                            // can have changed.
                            let is_due = match at.resumed {
                                None => at.entry.is_multiple_of(4),
                                Some(entry) => entry.is_multiple_of(16),
                            };
                            let all = stop == patches.len() && is_due;
                            let twice = patches[..stop].iter().chain(&second);
                            let written = (!all).then(|| twice.copied().collect());
                            let image = Image::new(image);
                            self.history.judge(guarantee, prepared, image, told, written)
                        }
                    };
                    if stop == patches.len() {
                        let left = patches.iter().map(|patch| (patch.at, patch.word));
                        whole = Some((left.collect(), judged.clone()));
                    }
                    let there = self.report.add(at, judged);
                    if goes_on && stop == drawn {
                        found = there.map(|there| (image.to_vec(), there));
                    }
                    apply(&undo, image);
                }
            }
            apply(&first, image);
        }
        found
    }
}

/// Whether an image has the words that a recovery would have left at once, and a second recovery wrote to
/// none but these: then it is the same image, and judged alike.
fn is_left(left: &FxHashMap<PoolOffset, [u8; 8]>, second: &[Patch], image: &[u8]) -> bool {
    second.iter().all(|patch| left.contains_key(&patch.at))
        && left.iter().all(|(at, word)| image[at.0 as usize..][..8] == *word)
}

/// What the array has in place of the lines for which residual energy did not suffice.
fn left_undrained(drains: &DrainCursor<'_>) -> Vec<Patch> {
    let words = drains.lost().flat_map(|(line, bytes)| {
        let at = (0..8).map(move |word| line.start().plus(8 * word));
        at.zip(bytes.as_chunks::<8>().0)
    });
    words.map(|(at, word)| Patch { at, word: *word }).collect()
}
