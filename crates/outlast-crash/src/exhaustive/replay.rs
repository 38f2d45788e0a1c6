//! Runs one named image again, and makes a failure smaller.

use outlast_trace::{LaneId, OpLog, PoolOffset, TxId};

use super::trail::Told;
use super::{Exhaustive, Failure};
use crate::history::TooWide;
use crate::history::tracker::Tracker;
use crate::history::units::explain;
use crate::image::{ImageMedium, Mode, State};
use crate::verdict::{Judge, Violation, judge};
use crate::witness::{CrashPoint, Pick, Witness};

/// How many variants of a failing image are tried to make it smaller.
const TRIES_MAX: u32 = 5_000;

/// What came of running a named image again.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The judgement of the last recovery, or of the first one that was not in order.
    pub verdict: Result<(), Violation>,
    /// The crashes, as far as they came.
    pub crashes: Vec<ReplayedCrash>,
    /// Whether everything that the witness picks could be picked there. If not, the image is some
    /// other one.
    pub exists: bool,
}

/// One crash of a replay.
#[derive(Clone, Debug)]
pub struct ReplayedCrash {
    /// The run that crashed: the program's, or a recovery's.
    pub log: OpLog,
    /// The medium before that run.
    pub before: Vec<u8>,
    /// What the crash left, with everything that the witness does not name at its floor.
    pub image: Vec<u8>,
    /// For each pick of the witness, the stores of its unit that had persisted beyond the floor:
    /// operation, and which of its words.
    pub persisted: Vec<Vec<(u32, u32)>>,
    /// What was open.
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
    ///
    /// # Panics
    /// When the run is shorter than the witness says: it belongs to another one.
    pub fn replay(
        &self,
        base: &[u8],
        log: &OpLog,
        witness: &Witness,
        mut judge: impl Judge,
    ) -> Result<Replay, TooWide> {
        self.replay_with(base, log, witness, &mut judge)
    }

    fn replay_with(
        &self,
        base: &[u8],
        log: &OpLog,
        witness: &Witness,
        judge: &mut impl Judge,
    ) -> Result<Replay, TooWide> {
        let image = self.image(base);
        let mut replay = Replay { verdict: Ok(()), crashes: Vec::new(), exists: true };
        let mut log = log.clone();
        let mut told = Told::default();
        for (level, point) in (1..).zip(&witness.crashes) {
            assert!(point.op <= log.len(), "the witness belongs to a longer run");
            told = told.with(&log);
            let before = image.with(|state| state.memory_bytes());
            let left = image.with(|state| state.crash_at(self, &log, point))?;
            let mut recovery = OpLog::default();
            replay.verdict = self.recover(&image, judge, &told, level, point, &mut recovery);
            let crash = told.crash(level, point);
            let (acked, begun) = (crash.acked.to_vec(), crash.begun.to_vec());
            told = Told::of(&acked, &begun);
            let Left { image: left, persisted, open, exists } = left;
            replay.exists &= exists;
            let crash = ReplayedCrash { log, before, image: left, persisted, open, acked, begun };
            replay.crashes.push(crash);
            if replay.verdict.is_err() {
                break;
            }
            log = recovery;
        }
        Ok(replay)
    }

    fn recover(
        &self,
        image: &ImageMedium,
        judge_: &mut impl Judge,
        told: &Told,
        level: u32,
        point: &CrashPoint,
        log: &mut OpLog,
    ) -> Result<(), Violation> {
        image.with(|state| state.begin(true, self.ops_max));
        let go_on = level < self.crashes || level == 1;
        let verdict = judge(judge_, image, &told.crash(level, point), go_on);
        image.with(|state| {
            state.swap_log(log);
            state.revert();
            state.settle();
        });
        verdict
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
        let mut tries = TRIES_MAX;
        let mut best = failure.clone();
        let mut fails = |witness: &Witness| -> Result<Option<Failure>, TooWide> {
            if tries == 0 {
                return Ok(None);
            }
            tries -= 1;
            if witness.crashes[0].op > log.len() {
                return Ok(None);
            }
            let replay = self.replay_with(base, log, witness, &mut judge)?;
            let same = replay.exists && replay.crashes.len() == witness.crashes.len();
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
        let point = &witness.crashes[0];
        if point.part != 0 || point.told != point.op || witness.crashes.len() > 1 {
            return Vec::new();
        }
        let mut tracker = Tracker::new(self.model);
        let mut nowhere = crate::history::Bytes::new(&[]);
        nowhere.bytes.resize(largest(log), 0);
        let mut since = 0;
        for index in 0..point.op {
            let (lane, op) = log.get(index);
            for part in 0..tracker.parts(&op) {
                if tracker.raises(lane, &op, part).is_some() {
                    since = index + 1;
                }
                tracker.apply(index, lane, &op, part, &mut nowhere);
            }
        }
        let at = |op| {
            let mut earlier = witness.clone();
            (earlier.crashes[0].op, earlier.crashes[0].told) = (op, op);
            earlier
        };
        (since..point.op).map(at).collect()
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

/// What a crash leaves: the image, what persisted in each picked unit, and what was open.
struct Left {
    image: Vec<u8>,
    persisted: Vec<Vec<(u32, u32)>>,
    open: Vec<OpenUnit>,
    /// Whether every pick named something that could be there.
    exists: bool,
}

impl State {
    /// Lets a run crash: plays it up to the point and opens what is open there.
    fn crash_at(
        &mut self,
        settings: &Exhaustive,
        log: &OpLog,
        point: &CrashPoint,
    ) -> Result<Left, TooWide> {
        let mut tracker = Tracker::new(settings.model);
        for index in 0..log.len().min(point.op + 1) {
            let (lane, op) = log.get(index);
            let parts = if index < point.op { tracker.parts(&op) } else { point.part };
            for part in 0..parts {
                self.play(&mut tracker, index, lane, &op, part);
            }
        }
        let persisted =
            point.picks.iter().map(|pick| explain(&tracker, &self.memory, pick.at.0 / 8, pick.row));
        let persisted: Vec<Option<Vec<(u32, u32)>>> = persisted.collect();
        let exists = persisted.iter().all(Option::is_some);
        let persisted: Vec<Vec<(u32, u32)>> =
            persisted.into_iter().map(Option::unwrap_or_default).collect();
        self.open.push(&tracker, &self.memory)?;
        let rows = point.picks.iter().map(|pick| (pick.at.0 / 8, pick.row)).collect();
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
        Ok(Left { image, persisted, open, exists })
    }

    fn memory_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.memory.len() as usize];
        self.memory.get(PoolOffset(0), &mut bytes);
        bytes
    }
}
