//! Runs one named image again, and makes a failure smaller.

use outlast_pmem::Site;
use outlast_trace::{LaneId, OpLog, PoolOffset, TxId};
use rustc_hash::FxHashMap;

use super::trail::{Told, log_print};
use super::{Exhaustive, Failure};
use crate::memory::history::TooWide;
use crate::memory::history::tracker::Tracker;
use crate::memory::history::units::explain;
use crate::memory::image::{ImageMedium, Mode, State};
use crate::memory::verdict::{Broken, Judge, Violation, judge};
use crate::memory::witness::{CrashPoint, Pick, Witness};

/// How many variants of a failing image are tried to make it smaller.
const TRIES_MAX: u32 = 5_000;

/// The same where each failing one takes as long as a recovery may.
const TRIES_MAX_STUCK: u32 = 100;

/// As a pick's row: the unit's last content, in which everything persisted.
pub(crate) const LAST_ROW: u32 = u32::MAX;

/// The result of running a named image again.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The judgement of the last recovery, or of the first one that was not in order.
    pub verdict: Result<(), Violation>,
    /// The crashes, as far as they came.
    pub crashes: Vec<ReplayedCrash>,
    /// The operations of the last recovery, and the place of each in the source.
    pub recovery: (OpLog, Vec<Site>),
    /// Why the image cannot exist here, if it cannot: the witness belongs to another run. Then
    /// the verdict says nothing, and the crashes are those before the impossible one.
    pub impossible: Option<String>,
}

/// One crash of a replay.
#[derive(Clone, Debug)]
pub struct ReplayedCrash {
    /// The run that crashed: the program's, or a recovery's.
    pub log: OpLog,
    /// Where in the source each operation of a recovery stands; empty for the program's run.
    pub sites: Vec<Site>,
    /// The medium before that run.
    pub before: Vec<u8>,
    /// The image, with everything that the witness does not name at its floor.
    pub image: Vec<u8>,
    /// For each pick of the witness, the stores of its unit that had persisted beyond the floor:
    /// operation, and which of its words.
    pub persisted: Vec<Vec<(u32, u32)>>,
    /// The open units, those that the witness picks included.
    pub open: Vec<OpenUnit>,
    /// The transactions acknowledged before.
    pub acked: Vec<TxId>,
    /// The lanes of the transactions that had begun.
    pub begun: Vec<LaneId>,
}

/// A unit that could have had several contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenUnit {
    /// Its first open word, by which picks name it.
    pub at: PoolOffset,
    /// Stores to its words that had not persisted: operation, and which of its words.
    pub missing: Vec<(u32, u32)>,
}

impl Exhaustive {
    /// Runs the image that `witness` names, on the same run that it was found with.
    ///
    /// # Errors
    /// When a unit has too many contents to enumerate.
    pub fn replay(
        &self,
        base: &[u8],
        log: &OpLog,
        witness: &Witness,
        judge: impl Judge,
    ) -> Result<Replay, TooWide> {
        self.replay_with(base, log, witness, &mut { judge })
    }

    fn replay_with(
        &self,
        base: &[u8],
        log: &OpLog,
        witness: &Witness,
        judge: &mut dyn Judge,
    ) -> Result<Replay, TooWide> {
        let image = self.image(base);
        let mut replay = Replay {
            verdict: Ok(()),
            crashes: Vec::new(),
            recovery: Default::default(),
            impossible: None,
        };
        let (mut log, mut sites) = (log.clone(), Vec::new());
        let mut told = Told::default();
        for (level, point) in (1..).zip(&witness.crashes) {
            told = told.with(&log);
            let before = image.with(|state| state.memory_bytes());
            let left = match image.with(|state| state.crash_at(self, level, &log, point))? {
                Ok(left) => left,
                Err(impossible) => {
                    replay.impossible = Some(impossible);
                    break;
                }
            };
            let (verdict, recovery) = self.recover(&image, judge, &told, level, point);
            replay.verdict = verdict;
            let crash = told.crash(level, point);
            let (acked, begun) = (crash.acked.to_vec(), crash.begun.to_vec());
            told = Told::of(&acked, &begun);
            let Left { image: left, persisted, open } = left;
            let image = left;
            replay.crashes.push(ReplayedCrash {
                log,
                sites,
                before,
                image,
                persisted,
                open,
                acked,
                begun,
            });
            replay.recovery.clone_from(&recovery);
            if replay.verdict.is_err() {
                break;
            }
            (log, sites) = recovery;
        }
        Ok(replay)
    }

    /// Recovers the image that a witness of one crash names. Returns the verdict, and a
    /// fingerprint of what recovery stored; nothing where there is no such image.
    pub(crate) fn recover_once(
        &self,
        base: &[u8],
        log: &OpLog,
        point: &CrashPoint,
        judge: &mut dyn Judge,
    ) -> Option<(Result<(), Violation>, u128)> {
        let image = self.image(base);
        let told = Told::default().with(log);
        image.with(|state| state.crash_at(self, 1, log, point)).ok()?.ok()?;
        let (verdict, (recovery, _)) = self.recover(&image, judge, &told, 1, point);
        Some((verdict, log_print(&recovery)))
    }

    fn recover(
        &self,
        image: &ImageMedium,
        judge_: &mut dyn Judge,
        told: &Told,
        level: u32,
        point: &CrashPoint,
    ) -> (Result<(), Violation>, (OpLog, Vec<Site>)) {
        image.with(|state| {
            state.begin(true, self.limits());
            state.record_sites();
        });
        let go_on = level < self.crashes || level == 1;
        let verdict = judge(judge_, image, &told.crash(level, point), go_on);
        let recovery = image.with(|state| {
            let recovery = state.take_log();
            state.revert();
            state.settle();
            recovery
        });
        (verdict, recovery)
    }

    /// Looks for a smaller image with the same kind of violation: fewer things persisted beyond
    /// the floor, and an earlier crash.
    ///
    /// # Errors
    /// When a unit has too many contents to enumerate.
    pub fn shrink(
        &self,
        base: &[u8],
        log: &OpLog,
        failure: &Failure,
        mut judge: impl Judge,
    ) -> Result<Failure, TooWide> {
        self.shrink_with(base, log, failure, &mut judge)
    }

    fn shrink_with(
        &self,
        base: &[u8],
        log: &OpLog,
        failure: &Failure,
        judge: &mut dyn Judge,
    ) -> Result<Failure, TooWide> {
        let is_stuck = failure.violation.broken == Broken::Stuck;
        let mut tries = if is_stuck { TRIES_MAX_STUCK } else { TRIES_MAX };
        let mut best = failure.clone();
        let mut fails = |witness: &Witness| -> Result<Option<Failure>, TooWide> {
            if tries == 0 {
                return Ok(None);
            }
            tries -= 1;
            let replay = self.replay_with(base, log, witness, judge)?;
            let same = replay.impossible.is_none() && replay.crashes.len() == witness.crashes.len();
            let violation = replay.verdict.err().filter(|_| same);
            Ok(violation
                .filter(|violation| violation.broken == failure.violation.broken)
                .map(|violation| Failure { violation, witness: witness.clone() }))
        };
        loop {
            let mut smaller = None;
            for candidate in smaller_witnesses(&best.witness) {
                smaller = fails(&candidate)?;
                if smaller.is_some() {
                    break;
                }
            }
            match smaller {
                Some(smaller) => best = smaller,
                None => break,
            }
        }
        for earlier in self.earlier_witnesses(log, &best.witness) {
            if let Some(smaller) = fails(&earlier)? {
                return Ok(smaller);
            }
        }
        Ok(best)
    }

    /// The same image, as far as it exists there, at every crash point since the last key point.
    fn earlier_witnesses(&self, log: &OpLog, witness: &Witness) -> Vec<Witness> {
        let Some(point) = witness.crashes.first() else { return Vec::new() };
        if point.part != 0 || point.told != point.op || witness.crashes.len() > 1 {
            return Vec::new();
        }
        let since = self.last_point_before(log, point.op);
        let at = |op| {
            let mut earlier = witness.clone();
            (earlier.crashes[0].op, earlier.crashes[0].told) = (op, op);
            earlier
        };
        (since..point.op).map(at).collect()
    }
}

impl Exhaustive {
    /// The operation after the last one before `op` that raises a floor: a crash from there on
    /// leaves what no earlier crash point had to show.
    pub(crate) fn last_point_before(&self, log: &OpLog, op: usize) -> usize {
        let mut tracker = Tracker::new(self.model);
        let mut nowhere = crate::memory::history::Bytes::new(&[]);
        nowhere.bytes.resize(largest(log), 0);
        let mut since = 0;
        for index in 0..op.min(log.len()) {
            let (lane, op) = log.get(index);
            for part in 0..tracker.parts(&op) {
                if tracker.raises(lane, &op, part).is_some() {
                    since = index + 1;
                }
                tracker.apply(index, lane, &op, part, &mut nowhere);
            }
        }
        since
    }
}

/// A size that every access of the log fits in.
fn largest(log: &OpLog) -> usize {
    use outlast_trace::Op;
    let end = |op: Op<'_>| match op {
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
            at.0 + bytes.len() as u64
        }
        Op::Store64 { line, .. } | Op::Flush { line, .. } => line.plus(1).start().0,
        Op::Grow { len } => len,
        _ => 0,
    };
    log.iter().map(|(_, op)| end(op)).max().unwrap_or(0).next_multiple_of(512) as usize
}

/// Witnesses with one thing less: a crash, a pick, or a step of a pick.
fn smaller_witnesses(witness: &Witness) -> Vec<Witness> {
    let mut all = Vec::new();
    if witness.crashes.len() > 1 {
        let fewer = witness.crashes[..witness.crashes.len() - 1].to_vec();
        all.push(Witness { crashes: fewer });
    }
    for crash in (0..witness.crashes.len()).rev() {
        let picks = &witness.crashes[crash].picks;
        for pick in 0..picks.len() {
            let mut without = witness.clone();
            without.crashes[crash].picks.remove(pick);
            all.push(without);
        }
        for (number, pick) in picks.iter().enumerate() {
            for row in 1..pick.row {
                let mut lower = witness.clone();
                lower.crashes[crash].picks[number] = Pick { row, ..*pick };
                all.push(lower);
            }
        }
    }
    all
}

/// The result of a crash: the image, the stores that persisted in each picked unit, and the open units.
struct Left {
    image: Vec<u8>,
    persisted: Vec<Vec<(u32, u32)>>,
    open: Vec<OpenUnit>,
}

impl State {
    /// Lets a run crash: plays it up to the point and opens what is open there. Says why when
    /// there is no such point, or nothing that the point's picks name.
    fn crash_at(
        &mut self,
        settings: &Exhaustive,
        level: u32,
        log: &OpLog,
        point: &CrashPoint,
    ) -> Result<Result<Left, String>, TooWide> {
        if let Err(beyond) = check_point(settings, level, log, point) {
            return Ok(Err(beyond));
        }
        let mut tracker = Tracker::new(settings.model);
        for index in 0..log.len().min(point.op + 1) {
            let (lane, op) = log.get(index);
            let parts = if index < point.op { tracker.parts(&op) } else { point.part };
            for part in 0..parts {
                self.play(&mut tracker, index, lane, &op, part);
            }
        }
        self.open.push(&tracker, &self.memory)?;
        let mut persisted = Vec::new();
        let mut rows = FxHashMap::default();
        for pick in &point.picks {
            let word = pick.at.0 / 8;
            let width = self.open.width_of(word);
            let row = if pick.row == LAST_ROW { width.saturating_sub(1) } else { pick.row };
            let events = explain(&tracker, &self.memory, word, row).filter(|_| row < width);
            let Some(events) = events else {
                let run = name_of(level);
                return Ok(Err(format!(
                    "before operation {} of {run} the line at {} has no content number {row} that \
                     a crash could leave",
                    point.op,
                    pick.at.line().start(),
                )));
            };
            persisted.push(events);
            rows.insert(word, row);
        }
        self.set_mode(Mode::Fixed(rows));
        let unit = |words: &[u64]| {
            let cell = words[0] / tracker.cell_words();
            let missing = tracker.cell(cell).iter().filter(|event| {
                words.contains(&(cell * tracker.cell_words() + u64::from(event.word)))
                    && !persisted.iter().flatten().any(|&id| id == (event.op, event.piece))
            });
            let missing = missing.map(|event| (event.op, event.piece)).collect();
            OpenUnit { at: PoolOffset(words[0] * 8), missing }
        };
        let open = self.open.undecided_words().map(unit).collect();
        // Decided beforehand, so that a later recovery may be the first to look.
        self.open.begin();
        for pick in &point.picks {
            let word = pick.at.0 / 8;
            self.open.touch(word, word, &mut self.memory);
        }
        self.settle();
        let image = self.memory_bytes();
        Ok(Ok(Left { image, persisted, open }))
    }

    fn memory_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.memory.len() as usize];
        self.memory.get(PoolOffset(0), &mut bytes);
        bytes
    }
}

/// Whether the run comes to this point.
fn check_point(
    settings: &Exhaustive,
    level: u32,
    log: &OpLog,
    point: &CrashPoint,
) -> Result<(), String> {
    let (run, len) = (name_of(level), log.len());
    if point.op > len {
        return Err(format!("{run} has {len} operations and none is number {}", point.op));
    }
    let parts =
        if point.op < len { Tracker::new(settings.model).parts(&log.get(point.op).1) } else { 1 };
    if point.part > 0 && point.part >= parts {
        return Err(format!("operation {} of {run} takes effect in {parts} steps", point.op));
    }
    Ok(())
}

/// The run that the crash of this level interrupts.
fn name_of(level: u32) -> String {
    match level {
        1 => "the program".to_owned(),
        2 => "the recovery".to_owned(),
        _ => format!("the recovery from crash {}", level - 1),
    }
}
