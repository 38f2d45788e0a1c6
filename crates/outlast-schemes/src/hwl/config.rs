//! What can be chosen of hardware logging: the log's place and size, and what is left out.

use crate::work::largest_transaction;
use outlast_trace::{LaneId, LineAddr, OpLog};

/// Times that a log can grow, at most: its head line has a word for each.
pub const GROWTHS_MAX: u8 = 7;

/// Lines that a log takes, at most, the room to grow included: 1 GiB.
pub const LINES_MAX: u64 = 1 << 24;

/// Where the log lies: a line for its head, then its slots, then room to grow into, each time
/// as much again as there was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogPlace {
    /// The head's line.
    pub base: LineAddr,
    /// Slots of a line each.
    pub slots: u64,
    /// How often it may grow: to twice the slots, four times, and so on.
    pub growths: u8,
}

/// A log that cannot be, or a transaction that does not fit into one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LogError {
    /// Slots for two of the largest transactions are needed, or they wait for each other.
    #[error(
        "a log of {slots} slots cannot hold two transactions of {tx_records_max} records: it \
         needs {needed}"
    )]
    TooFewSlots {
        /// Slots that there are.
        slots: u64,
        /// Records of the largest transaction.
        tx_records_max: u64,
        /// Slots that would do.
        needed: u64,
    },
    /// A log grows so often at most.
    #[error("a log grows at most {GROWTHS_MAX} times, not {0}")]
    TooManyGrowths(u8),
    /// More memory than any log needs.
    #[error(
        "a log of {slots} slots that grows {growths} times takes {lines} lines: {LINES_MAX} are the most"
    )]
    TooManyLines {
        /// Slots at first.
        slots: u64,
        /// How often it may grow.
        growths: u8,
        /// Lines that it takes.
        lines: u64,
    },
    /// Scans that follow each other at once leave no time.
    #[error("a scan every 0 cycles leaves no time to anything else: 1 is the least")]
    NoPeriod,
    /// The log buffer has no entry.
    #[error("a log buffer of 0 entries holds no record: 1 is the least")]
    NoBuffer,
    /// A transaction may need more records than were declared.
    #[error(
        "a transaction on lane {} may need {needed} log records; {max} were declared as the \
         most: declare as many, or let the log grow", .lane.0
    )]
    TransactionTooLarge {
        /// Whose.
        lane: LaneId,
        /// Records that it may need, its commit included.
        needed: u64,
        /// The most that were declared.
        max: u64,
    },
}

impl LogPlace {
    /// `log_create`: a log for transactions of at most `tx_records_max` records. The memory there
    /// is to be zero.
    ///
    /// # Errors
    /// [`LogError`] when two such transactions do not fit.
    pub fn create(
        base: LineAddr,
        slots: u64,
        growths: u8,
        tx_records_max: u64,
    ) -> Result<Self, LogError> {
        let needed = tx_records_max.saturating_mul(2);
        if growths > GROWTHS_MAX {
            return Err(LogError::TooManyGrowths(growths));
        }
        if slots < needed {
            return Err(LogError::TooFewSlots { slots, tx_records_max, needed });
        }
        let lines = slots.saturating_mul((2 << growths) - 1);
        if lines > LINES_MAX {
            return Err(LogError::TooManyLines { slots, growths, lines });
        }
        Ok(Self { base, slots, growths })
    }

    /// Lines that it takes, the room to grow included.
    pub fn lines(self) -> u64 {
        1 + self.slots * ((2 << self.growths) - 1)
    }

    /// The slot of a record, where the regions behind the first start with these records; 0 for
    /// one that is not in use.
    pub(super) fn slot(self, number: u64, starts: &[u64; GROWTHS_MAX as usize]) -> LineAddr {
        let region = Self::region(number, starts);
        let first = self.slots * ((1 << region) - 1);
        self.base.plus(1 + first + number % (self.slots << region))
    }

    /// The region of a record: 0 for the first.
    pub(super) fn region(number: u64, starts: &[u64; GROWTHS_MAX as usize]) -> usize {
        starts.iter().take_while(|start| **start != 0 && **start <= number).count()
    }
}

/// When a transaction has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Commit {
    /// When its commit is durable: guarantee `durable`.
    Durable,
    /// When its commit is in the volatile FIFO, as the paper has it: guarantee `buffered`.
    Buffered,
}

/// Which values records hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Values {
    /// Old and new ones.
    Both,
    /// Old ones: `hw-ulog`.
    Undo,
    /// New ones: `hw-rlog`.
    Redo,
}

/// One way in which the mechanism is left unsound, to show what that loses. Numbers are those
/// of `docs/hwl.md`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Fault {
    /// HWL-1: a commit makes nothing durable; recovery takes all that is logged for complete.
    NoCommit,
    /// HWL-2: recovery takes for not committed what differs from memory.
    Mismatch,
    /// HWL-5, H1: a line may overtake its records on the way to memory (against G2).
    Unordered,
    /// HWL-7: a line forced out of the first level only goes to the next one, and starts again.
    OneLevel,
    /// HWL-8: the head passes records of running transactions.
    PassesRunning,
    /// HWL-9: slots are used again before the head that passed them is durable, which it becomes
    /// once a round.
    VolatileHead,
    /// HWL-10, H2: the log is simply written round and round, and nothing waits.
    Overwrite,
    /// HWL-11: the head passes a record three scans later, whatever is in memory by then.
    ByTime,
    /// H3: the head passes a record before its line is in memory.
    HeadEarly,
    /// H11: a store joins a record of its line that belongs to another transaction.
    Merge,
}

/// A set of [`Fault`]s.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults(u16);

impl Faults {
    /// None: what is sound.
    pub const NONE: Self = Self(0);

    /// These.
    pub const fn of(faults: &[Fault]) -> Self {
        let (mut bits, mut k) = (0, 0);
        while k < faults.len() {
            bits |= 1 << faults[k] as u16;
            k += 1;
        }
        Self(bits)
    }

    /// All of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether this one is among them.
    #[inline]
    pub const fn has(self, fault: Fault) -> bool {
        self.0 >> fault as u16 & 1 == 1
    }
}

/// What can be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HwlConfig {
    /// Where the log lies.
    pub log: LogPlace,
    /// Records that a transaction may need, its commit included: that many slots are kept for
    /// each that runs. Where one needs more, the log has to grow, or it may wait for ever.
    pub tx_records_max: u64,
    /// Records that the FIFO holds, at least 1.
    pub buffer: usize,
    /// Cycles from one scan to the next; `None` without forced write-back.
    pub scan_period: Option<u64>,
    /// When a transaction has ended.
    pub commit: Commit,
    /// Which values are logged.
    pub values: Values,
    /// Whether a record holds words of one line alone, as the paper's sizes suggest.
    pub one_line: bool,
    /// What is left out.
    pub faults: Faults,
}

impl HwlConfig {
    /// The sound mechanism over this log, with the paper's buffer of 15 entries.
    pub fn new(log: LogPlace, tx_records_max: u64, scan_period: Option<u64>) -> Self {
        Self {
            log,
            tx_records_max,
            buffer: 15,
            scan_period,
            commit: Commit::Durable,
            values: Values::Both,
            one_line: false,
            faults: Faults::NONE,
        }
    }

    /// Whether it can be.
    ///
    /// # Errors
    /// [`LogError`] says what cannot.
    pub fn check(&self) -> Result<(), LogError> {
        if self.buffer == 0 {
            return Err(LogError::NoBuffer);
        }
        if self.scan_period == Some(0) {
            return Err(LogError::NoPeriod);
        }
        let LogPlace { base, slots, growths } = self.log;
        LogPlace::create(base, slots, growths, self.tx_records_max).map(drop)
    }

    /// Whether every transaction of these operations fits into what was declared. A log that may
    /// grow takes any.
    ///
    /// # Errors
    /// [`LogError::TransactionTooLarge`] names the first that does not.
    pub fn check_transactions(&self, bare: &OpLog) -> Result<(), LogError> {
        let max = self.tx_records_max;
        match largest_transaction(bare).map(|(lane, words)| (lane, words + 1)) {
            Some((lane, needed)) if needed > max && self.log.growths == 0 => {
                Err(LogError::TransactionTooLarge { lane, needed, max })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_that_cannot_be_are_refused_with_what_can() {
        let create =
            |slots, growths, records| LogPlace::create(LineAddr(0), slots, growths, records);
        let refused =
            |slots, growths, records| create(slots, growths, records).unwrap_err().to_string();
        assert!(refused(8, 0, 5).contains("it needs 10"));
        assert!(refused(u64::MAX, 0, u64::MAX).contains("lines: 16777216 are the most"));
        assert!(refused(1 << 20, 7, 4).contains("lines: 16777216 are the most"));
        assert!(refused(8, 8, 1).contains("at most 7 times"));
        let log = create(8, 1, 4).unwrap();
        let config = HwlConfig::new(log, 4, Some(1));
        config.check().unwrap();
        let never = HwlConfig { scan_period: Some(0), ..config };
        assert_eq!(never.check(), Err(LogError::NoPeriod));
        assert_eq!(HwlConfig { buffer: 0, ..config }.check(), Err(LogError::NoBuffer));
    }
}
