//! Work of one's own: transactions that a file lists, written by hand or by a program, as a workload
//! under every scheme. `docs/own-work.md` describes the format.
//!
//! [`OwnWork`] is the content of such a file: memory of words, lanes, and transactions in one order.
//! [`Workload::open`] reads a file and gives the workload; its name is the file's path.
//!
//! Keys of its facts are the numbers of words, and the version of a key is the word's value. Values may come
//! back, so only a history that tries sets of transactions judges them.
//!
//! ```
//! use outlast_workloads::own::{OwnStep, OwnWork};
//!
//! let work: OwnWork = "outlast-work 1
//! memory 64
//! tx
//!   store 8 90 110
//! end
//! ".parse()?;
//! assert_eq!(work.transactions()[0].steps, [OwnStep::Store { word: 1, values: vec![90, 110] }]);
//! assert_eq!(work.to_string().parse(), Ok(work));
//! # Ok::<(), outlast_workloads::own::BadWork>(())
//! ```

mod family;
mod parse;
mod print;
mod record;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::Workload;
use crate::family::Kind;

pub(crate) use family::Own;
pub(crate) use record::record;

/// The ending of such files' names.
pub const EXTENSION: &str = "work";

/// Most bytes of a file.
pub const FILE_BYTES_MAX: u64 = 256 << 20;
/// Most bytes of memory: every word is judged at every crash point.
pub const MEMORY_BYTES_MAX: u64 = 32 << 20;
/// Most lanes: every subset of the transactions in flight is tried.
pub const LANES_MAX: u16 = 8;
/// Most transactions: their operations are kept in memory.
pub const TRANSACTIONS_MAX: usize = 1 << 20;
/// Most loads, stores and pauses of a transaction.
pub const STEPS_MAX: usize = 1 << 16;
/// Most words of a load or store.
pub const WORDS_MAX: u64 = 1 << 9;
/// Most instructions of a pause.
pub const INSTRUCTIONS_MAX: u32 = 1_000_000;

const WORD_BYTES: u64 = 8;
const LINE_BYTES: u64 = 64;

/// One step of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OwnStep {
    /// Loads words.
    Load {
        /// The first word.
        word: u64,
        /// Their number.
        words: u64,
    },
    /// Stores words.
    Store {
        /// The first word.
        word: u64,
        /// Their values.
        values: Vec<u64>,
    },
    /// Executes instructions that touch no persistent memory.
    Think(u32),
}

impl OwnStep {
    /// The words that it touches: the first and their number.
    fn touched(&self) -> (u64, u64) {
        match self {
            Self::Load { word, words } => (*word, *words),
            Self::Store { word, values } => (*word, values.len() as u64),
            Self::Think(_) => (0, 0),
        }
    }
}

/// A transaction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnTransaction {
    /// The lane that runs it.
    pub lane: u16,
    /// Its steps in their order.
    pub steps: Vec<OwnStep>,
}

/// Transactions of one's own with the memory on which they run.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnWork {
    words: u64,
    lanes: u16,
    /// Words that are not zero at first.
    initial: BTreeMap<u64, u64>,
    transactions: Vec<OwnTransaction>,
    /// Of each lane, the places of its transactions among all.
    of_lane: Vec<Vec<usize>>,
}

/// Work that cannot be, or a line that is none of the format's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}{why}", line.map(|line| format!("{line}: ")).unwrap_or_default())]
pub struct BadWork {
    /// The line, from 1 on, where there is one.
    pub line: Option<usize>,
    /// What is wrong, and what would be right.
    pub why: String,
}

impl BadWork {
    fn at(line: usize, why: impl Into<String>) -> Self {
        Self { line: Some(line), why: why.into() }
    }

    fn whole(why: impl Into<String>) -> Self {
        Self { line: None, why: why.into() }
    }
}

impl OwnWork {
    /// Work on `memory_bytes` bytes, of which words at these addresses hold these values and all others zero.
    ///
    /// # Errors
    /// Limits that it exceeds, and addresses outside of the memory.
    pub fn new(
        memory_bytes: u64,
        lanes: u16,
        initial: BTreeMap<u64, u64>,
        transactions: Vec<OwnTransaction>,
    ) -> Result<Self, BadWork> {
        let words = check_memory(memory_bytes)?;
        check_lanes(lanes)?;
        if let Some((word, _)) = initial.last_key_value() {
            check_place(words, *word, 1)?;
        }
        if transactions.len() > TRANSACTIONS_MAX {
            return Err(BadWork::whole(format!("at most {TRANSACTIONS_MAX} transactions")));
        }
        let mut of_lane = vec![Vec::new(); usize::from(lanes)];
        for (place, tx) in transactions.iter().enumerate() {
            let own =
                of_lane.get_mut(usize::from(tx.lane)).ok_or_else(|| no_lane(tx.lane, lanes))?;
            own.push(place);
            tx.steps.iter().try_for_each(|step| check_step(words, step))?;
            if tx.steps.len() > STEPS_MAX {
                return Err(too_many_steps());
            }
        }
        if let Some(lane) = of_lane.iter().position(Vec::is_empty) {
            let why =
                format!("lane {lane} has no transaction: each of the {lanes} lanes needs one");
            return Err(BadWork::whole(why));
        }
        let initial = initial.into_iter().filter(|(_, value)| *value != 0).collect();
        Ok(Self { words, lanes, initial, transactions, of_lane })
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The path with the line, and what would be right.
    pub fn read(path: &Path) -> Result<Self, WorkError> {
        let failed = |source| WorkError::Io { path: path.to_owned(), source };
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        let bad = |bad| WorkError::Bad { path: path.to_owned(), bad };
        if bytes > FILE_BYTES_MAX {
            let why = format!("the file has {bytes} bytes, and {FILE_BYTES_MAX} are possible");
            return Err(bad(BadWork::whole(why)));
        }
        parse::parse(&std::fs::read(path).map_err(failed)?).map_err(bad)
    }

    /// Reads a file's content.
    ///
    /// # Errors
    /// The line, and what would be right.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadWork> {
        parse::parse(bytes)
    }

    /// Bytes of its memory.
    pub fn memory_bytes(&self) -> u64 {
        self.words * WORD_BYTES
    }

    /// Words of its memory.
    pub fn words(&self) -> u64 {
        self.words
    }

    /// Lanes that run transactions.
    pub fn lanes(&self) -> u16 {
        self.lanes
    }

    /// The words that are not zero at first, with their values.
    pub fn initial(&self) -> impl Iterator<Item = (u64, u64)> {
        self.initial.iter().map(|(word, value)| (*word, *value))
    }

    /// The value of a word at first.
    pub fn initial_of(&self, word: u64) -> u64 {
        self.initial.get(&word).copied().unwrap_or(0)
    }

    /// The transactions in their order.
    pub fn transactions(&self) -> &[OwnTransaction] {
        &self.transactions
    }

    /// The transactions of a lane.
    pub fn of_lane(&self, lane: u16) -> impl ExactSizeIterator<Item = &OwnTransaction> {
        self.of_lane[usize::from(lane)].iter().map(|place| &self.transactions[*place])
    }

    /// The lanes of the first `count` transactions, when all begin again behind the last.
    pub fn lanes_in_order(&self, count: u64) -> impl Iterator<Item = u16> {
        let all = self.transactions.iter().cycle();
        all.map(|tx| tx.lane).take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// How many of the first `count` transactions a lane runs, when all begin again behind the last.
    pub fn count_of_lane(&self, lane: u16, count: u64) -> u64 {
        let own = &self.of_lane[usize::from(lane)];
        let (passes, rest) = (count / self.len(), count % self.len());
        passes * own.len() as u64
            + own.iter().filter(|place| (**place as u64) < rest).count() as u64
    }

    /// The number of transactions.
    #[expect(clippy::len_without_is_empty, reason = "each lane has one at least")]
    pub fn len(&self) -> u64 {
        self.transactions.len() as u64
    }

    /// The words of memory when all transactions have run one after the other.
    pub fn memory_at_end(&self) -> Vec<u64> {
        let mut memory: Vec<u64> = (0..self.words).map(|word| self.initial_of(word)).collect();
        for step in self.transactions.iter().flat_map(|tx| &tx.steps) {
            if let OwnStep::Store { word, values } = step {
                memory[*word as usize..][..values.len()].copy_from_slice(values);
            }
        }
        memory
    }

    /// Whether a part of memory of `bytes` bytes, a power of two, has stores of one lane and anything of another,
    /// when address 0 is at the begin of such a part.
    pub fn lanes_meet_within(&self, bytes: u64) -> bool {
        let words_each = (bytes / WORD_BYTES).max(1);
        let mut seen: BTreeMap<u64, (u16, bool)> = BTreeMap::new();
        for tx in &self.transactions {
            for step in &tx.steps {
                let (first, count) = step.touched();
                let stores = matches!(step, OwnStep::Store { .. });
                if count == 0 {
                    continue;
                }
                for part in first / words_each..=(first + count - 1) / words_each {
                    let (lane, is_stored) = seen.entry(part).or_insert((tx.lane, stores));
                    match *lane == tx.lane {
                        true => *is_stored |= stores,
                        // Lanes that only load may share a part; the store of any of them ends that.
                        false if stores || *is_stored => return true,
                        false => *lane = SHARED,
                    }
                }
            }
        }
        false
    }
}

/// A part that several lanes load.
const SHARED: u16 = u16::MAX;

impl fmt::Debug for OwnWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, lanes, transactions) = (self.words, self.lanes, self.transactions.len());
        write!(f, "OwnWork({words} words, {lanes} lanes, {transactions} transactions)")
    }
}

fn check_memory(bytes: u64) -> Result<u64, BadWork> {
    if !(LINE_BYTES..=MEMORY_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(LINE_BYTES) {
        return Err(BadWork::whole(format!(
            "memory is {bytes}: expected a multiple of {LINE_BYTES} bytes, up to {MEMORY_BYTES_MAX}"
        )));
    }
    Ok(bytes / WORD_BYTES)
}

fn check_lanes(lanes: u16) -> Result<(), BadWork> {
    match lanes {
        1..=LANES_MAX => Ok(()),
        _ => Err(BadWork::whole(format!("lanes is {lanes}: expected 1 to {LANES_MAX}"))),
    }
}

fn check_place(words: u64, word: u64, count: u64) -> Result<(), BadWork> {
    if !(1..=WORDS_MAX).contains(&count) {
        let why = format!("{count} words at once: expected 1 to {WORDS_MAX}");
        return Err(BadWork::whole(why));
    }
    if word.checked_add(count).is_none_or(|end| end > words) {
        let (at, end) = (word.saturating_mul(WORD_BYTES), words * WORD_BYTES);
        return Err(BadWork::whole(format!(
            "{count} words at {at:#x} end outside of the memory of {end} bytes"
        )));
    }
    Ok(())
}

fn check_step(words: u64, step: &OwnStep) -> Result<(), BadWork> {
    match step {
        OwnStep::Think(instructions) if *instructions > INSTRUCTIONS_MAX => {
            let why = format!(
                "think is {instructions}: expected at most {INSTRUCTIONS_MAX} instructions"
            );
            Err(BadWork::whole(why))
        }
        OwnStep::Think(_) => Ok(()),
        OwnStep::Load { .. } | OwnStep::Store { .. } => {
            let (word, count) = step.touched();
            check_place(words, word, count)
        }
    }
}

fn no_lane(lane: u16, lanes: u16) -> BadWork {
    let last = lanes.saturating_sub(1);
    BadWork::whole(format!("there is no lane {lane}: expected 0 to {last}, or more `lanes`"))
}

fn too_many_steps() -> BadWork {
    BadWork::whole(format!("more than {STEPS_MAX} steps in one transaction"))
}

/// A file that is no work.
#[derive(Debug, thiserror::Error)]
pub enum WorkError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// It is none.
    #[error("{}{}{bad}", path.display(), if bad.line.is_some() { ":" } else { ": " })]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        bad: BadWork,
    },
}

/// Files that were opened. They stay until the process ends, as the rows of the table do.
static OPENED: Mutex<Vec<&'static Workload>> = Mutex::new(Vec::new());

/// The workload of that name, if such a file was opened.
pub(crate) fn opened(name: &str) -> Option<&'static Workload> {
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    opened.iter().find(|workload| workload.name == name).copied()
}

impl Workload {
    /// Whether a name is that of a file and of no row of the table: a path, or `NAME.work`.
    pub fn is_file_name(name: &str) -> bool {
        name.contains(std::path::is_separator)
            || Path::new(name).extension().is_some_and(|extension| extension == EXTENSION)
    }

    /// The workload that a file lists. [`named`](Self::named) finds it by this name from then on.
    ///
    /// # Errors
    /// [`WorkError`], in one line.
    pub fn open(name: &str) -> Result<&'static Self, WorkError> {
        let work = OwnWork::read(Path::new(name))?;
        Ok(Self::of_work(name, work))
    }

    /// The workload of these transactions under this name.
    pub fn of_work(name: &str, work: OwnWork) -> &'static Self {
        let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |known: &&&Self| known.name == name && known.own() == Some(&work);
        if let Some(known) = opened.iter().find(is_same) {
            return known;
        }
        let (lanes, transactions) = (work.lanes(), work.len());
        let about = format!("work of one's own: {transactions} transactions on {lanes} lanes");
        let workload: &'static Self = Box::leak(Box::new(Self {
            name: String::leak(name.to_owned()),
            about: String::leak(about),
            kind: Kind::Own(Own(Box::leak(Box::new(work)))),
        }));
        opened.retain(|known| known.name != name);
        opened.push(workload);
        workload
    }

    /// The transactions of a file, where it is such a workload.
    pub fn own(&self) -> Option<&'static OwnWork> {
        match self.kind {
            Kind::Own(Own(work)) => Some(work),
            _ => None,
        }
    }
}
