//! Finds a crash to be told: the first of a campaign that breaks its guarantee, or one that is named.

use outlast_schemes::{Image, LinesRead, Patch, apply};
use outlast_sim::timed::Cycle;
use outlast_trace::{LineAddr, PoolOffset};
use outlast_workloads::machine::Recorded;

use super::crashes::{Images, Run};
use super::history::{History, There};
use super::states::States;
use super::told::{
    PROGRAM, REST, goes_on, kept, program, ranges, recovery_run, steps, transactions,
};
use super::{Campaign, CrashEntry, Points, work_of};
use crate::explain::{Compared, Explanation, Recovery, run_lines};
use crate::oracle::prefixes::Counts;
use crate::runtime::campaign::NoSuchEntry;
use crate::{Broken, Violation};

/// A crash of the program, or of its rest behind an `earlier` one.
pub(super) struct Crash {
    pub run: Run,
    pub found: Found,
    pub earlier: Option<Earlier>,
}

impl Crash {
    /// Where it is.
    pub fn at(&self) -> CrashEntry {
        match &self.earlier {
            None => CrashEntry { entry: self.found.point, resumed: None },
            Some(earlier) => CrashEntry { entry: earlier.entry, resumed: Some(self.found.point) },
        }
    }
}

/// The image that a crash leaves, and its recovery.
pub(super) struct Found {
    pub point: usize,
    pub now: Cycle,
    pub image: Vec<u8>,
    /// What the first recovery writes.
    patches: Vec<Patch>,
    /// Of these, what was written before it crashed as well; all of them where it did not.
    stop: usize,
    /// What the recovery from that writes.
    second: Vec<Patch>,
    read: Vec<LineAddr>,
    pub reported: There,
    pub there: Option<There>,
    /// How the guarantee is broken, if it is.
    pub violation: Option<Violation>,
    /// Whether recovery gave memory to judge.
    pub is_recovered: bool,
}

impl Found {
    /// The image after recovery, as far as that came.
    pub fn recovered(&self) -> Vec<u8> {
        let mut recovered = self.image.clone();
        apply(&self.patches[..self.stop], &mut recovered);
        apply(&self.second, &mut recovered);
        recovered
    }
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
        let broken = self.broken(&recorded)?.ok();
        Ok(broken.map(|crash| self.tell(&recorded, &crash)))
    }

    /// The crash that [`look`](Self::look) shows.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub(super) fn looked_at(
        &self,
        recorded: &Recorded,
    ) -> Result<Crash, Box<dyn std::error::Error>> {
        let run = match self.broken(recorded)? {
            Ok(crash) => return Ok(crash),
            Err(run) => run,
        };
        let Points::One(entry) = self.points else {
            let entries = run.journal().journal().len();
            return Err(format!(
                "no crash point fails here: --crash-entry ENTRY names one to look at, 0 to {entries}"
            )
            .into());
        };
        let nothing = "a crash without a recovery that is cut short has one outcome";
        if !self.is_of_rest() {
            let found = self.first_at(recorded, &run, &[entry], false, true).expect(nothing);
            return Ok(Crash { run, found, earlier: None });
        }
        let mut images = Images::new(&run, self.breaks());
        let at = (entry, images.at(entry).0);
        let mut history = history_of(recorded, &run);
        let earlier = self.recovered_at(recorded, &run, &mut history, images.bytes(), at);
        let earlier = earlier.ok_or("nothing whole is recovered there from which work goes on")?;
        let (image, there) = (earlier.image.clone(), earlier.there.clone());
        let run = self.go_on(recorded, &work_of(recorded), image, there)?;
        let points = self.points_of_rest(&run)?;
        let found = self.first_at(recorded, &run, &points, false, true).expect(nothing);
        Ok(Crash { run, found, earlier: Some(earlier) })
    }

    /// Whether one crash of the rest of the program is asked for.
    fn is_of_rest(&self) -> bool {
        self.resumes > 0 && matches!(self.resumed_points, Points::One(_))
    }

    /// Where the rest of the program crashes: at the point that is asked for, or at every one.
    fn points_of_rest(&self, rest: &Run) -> Result<Vec<usize>, NoSuchEntry> {
        let entries = rest.journal().journal().len();
        match self.resumed_points {
            Points::One(point) => {
                self.resumed_points.check_of("--resume-entry", entries)?;
                Ok(vec![point])
            }
            _ => Ok((0..=entries).collect()),
        }
    }

    /// The first crash that breaks the guarantee; the run of the program where none does.
    fn broken(
        &self,
        recorded: &Recorded,
    ) -> Result<Result<Crash, Run>, Box<dyn std::error::Error>> {
        let work = work_of(recorded);
        let run = self.start(recorded, &work, None)?;
        let entries = run.journal().journal().len();
        self.points.check(entries)?;
        let points = self.points.of(entries, &mut self.random(super::POINTS, 0));
        if !self.is_of_rest()
            && let Some(found) = self.first_broken(recorded, &run, &points)
        {
            return Ok(Ok(Crash { run, found, earlier: None }));
        }
        let mut resumed = self.resumed_at(&points);
        resumed.sort_unstable();
        let mut images = Images::new(&run, self.breaks());
        let mut history = history_of(recorded, &run);
        for entry in resumed {
            let (now, undo) = images.at(entry);
            let at = (entry, now);
            let earlier = self.recovered_at(recorded, &run, &mut history, images.bytes(), at);
            images.undo(&undo);
            let Some(earlier) = earlier else { continue };
            let image = earlier.image.clone();
            // A recovery from which nothing can go on is the campaign's to report.
            let Ok(rest) = self.go_on(recorded, &work, image, earlier.there.clone()) else {
                continue;
            };
            let points = self.points_of_rest(&rest)?;
            if let Some(found) = self.first_broken(recorded, &rest, &points) {
                return Ok(Ok(Crash { run: rest, found, earlier: Some(earlier) }));
            }
        }
        Ok(Err(run))
    }

    fn first_broken(&self, recorded: &Recorded, run: &Run, points: &[usize]) -> Option<Found> {
        let seconds = if self.second_crash { &[false, true][..] } else { &[false] };
        seconds.iter().find_map(|second| self.first_at(recorded, run, points, *second, false))
    }

    /// The first of these crashes, with a `second` one of their recovery if asked for, that breaks the
    /// guarantee or, where `any` will do, that there is.
    fn first_at(
        &self,
        recorded: &Recorded,
        run: &Run,
        points: &[usize],
        second: bool,
        any: bool,
    ) -> Option<Found> {
        let mut history = history_of(recorded, run);
        let mut images = Images::new(run, self.breaks());
        for &point in points {
            let (now, undo) = images.at(point);
            let (image, at) = (images.bytes(), (point, now));
            let found = self.recover_at(run, &mut history, image, at, second, any);
            if found.is_some() {
                return found;
            }
            images.undo(&undo);
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
    /// for: the first outcome that breaks the guarantee, or the first one.
    fn recover_at(
        &self,
        run: &Run,
        history: &mut History,
        image: &mut [u8],
        (point, now): (usize, Cycle),
        second: bool,
        any: bool,
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
                let found = found(&[], 0, Vec::new(), None, Some(refused(why.to_string())), false);
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
                Err(why) => Some(found(
                    &patches,
                    stop,
                    Vec::new(),
                    None,
                    Some(refused(why.to_string())),
                    false,
                )),
                Ok(again) => {
                    let undo = apply(&again, image);
                    let told = (&reported, &run.recovered);
                    let prepared = run.prepared.as_ref();
                    let judged = history.judge(guarantee, prepared, Image::new(image), told, None);
                    apply(&undo, image);
                    let (there, wrong) = (judged.there, judged.verdict.err());
                    (any || wrong.is_some())
                        .then(|| found(&patches, stop, again, there, wrong, true))
                }
            };
            apply(&undo_first, image);
            if let Some(wrong) = wrong {
                return Some(Found { image: image.to_vec(), ..wrong });
            }
        }
        None
    }

    pub(super) fn tell(&self, recorded: &Recorded, crash: &Crash) -> Explanation {
        let Crash { run, found, earlier } = crash;
        let states = States::of(recorded);
        let place = |at: PoolOffset| states.place(at);
        let acknowledged = match &found.reported {
            There::Transactions(counts) => counts.clone(),
            There::Epoch { .. } => Counts::new(),
        };
        let recovered = found.recovered();
        let name = if earlier.is_some() { REST } else { PROGRAM };
        let mut crashed = program(name, run, (found.point, found.now), &found.image, &place);
        if matches!(found.reported, There::Transactions(_)) && earlier.is_none() {
            let lines = states.lines(run, &found.image, &acknowledged, &place);
            if !lines.is_empty() {
                (crashed.lines, crashed.lines_left_out) = run_lines(lines);
            }
        }
        if let Some(earlier) = earlier {
            crashed.events.insert(0, goes_on(earlier));
        }
        let mut runs = earlier.as_ref().map_or_else(Vec::new, |earlier| earlier.runs.clone());
        runs.push(crashed);
        let steps = |patches: &[Patch], image: &[u8]| steps(patches, image, &place);
        let verdict = match &found.violation {
            Some(violation) => violation.to_string(),
            None => "nothing is wrong after this crash".to_owned(),
        };
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
            (false, _) => verdict.clone(),
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
            verdict,
            replay: self.command(Some(crash.at())),
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
                        found: match &found.violation {
                            None => "the same".to_owned(),
                            Some(violation) if is_allowed => violation.detail.clone(),
                            Some(_) => "not compared".to_owned(),
                        },
                        is_allowed: found.violation.is_none(),
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

/// A recovery from which the rest of the program went on.
pub(super) struct Earlier {
    /// Entries before the crash that it followed.
    entry: usize,
    /// What it left.
    image: Vec<u8>,
    pub there: There,
    /// What had run up to it.
    runs: Vec<crate::explain::Run>,
}

fn history_of(recorded: &Recorded, run: &Run) -> History {
    match run.recovered {
        There::Epoch { .. } => History::of_epochs(run),
        There::Transactions(_) => History::of_transactions(recorded),
    }
}
