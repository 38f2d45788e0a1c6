//! A whole program of one's own: a ledger whose accounts move to a larger array when it is full,
//! with a log for transfers. A hundred operations are checked as they are, and with each of seven
//! mistakes in them.
#![cfg(not(miri))]

use outlast_check::memory::{Check, Class, Crash, ImageMedium, Report, Violation};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{PoolOffset, Random, TxId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    /// The copy is flushed and not fenced before the array is switched.
    SwitchUnfenced,
    /// The last line of the copy is not flushed.
    LastLineUnflushed,
    /// Space is taken without a flush, and given out again after a crash.
    SpaceUnflushed,
    /// The count goes up before the account is there.
    CountFirst,
    /// The log is cleared in the same batch as the balances that it protects.
    LogClearedEarly,
    /// The transfer is acknowledged when it is logged, before the log is flushed.
    PromisedEarly,
    /// Recovery clears the log before it has finished the transfer.
    RecoveryClearsFirst,
}

const BUGS: [(Bug, Class); 7] = [
    (Bug::SwitchUnfenced, Class::MissingFence),
    (Bug::LastLineUnflushed, Class::MissingFlush),
    (Bug::SpaceUnflushed, Class::MissingFlush),
    (Bug::CountFirst, Class::Atomicity),
    (Bug::LogClearedEarly, Class::MissingFence),
    (Bug::PromisedEarly, Class::AcknowledgedEarly),
    (Bug::RecoveryClearsFirst, Class::Atomicity),
];

/// {checksum, account, balance, account, balance} of a transfer that may be under way.
const LOG: PoolOffset = PoolOffset(0);
/// Where the array begins.
const ROOT: PoolOffset = PoolOffset(64);
/// Up to where space is taken.
const TAKEN: PoolOffset = PoolOffset(128);
const HEAP: u64 = 192;
const LEN: u64 = 16 << 10;

struct Ledger<'m, M> {
    medium: &'m M,
    bug: Bug,
}

fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(7, |sum: u64, word| (sum ^ word).wrapping_mul(0x100_0000_01b3)) | 1
}

/// An array is a line {capacity, accounts in use}, then a line for each account.
impl<M: Medium> Ledger<'_, M> {
    fn create(&self) {
        self.set(TAKEN, HEAP);
        let array = self.take(2);
        self.medium.store_u64(array, 2);
        self.set(ROOT, array.0);
    }

    fn set(&self, at: PoolOffset, value: u64) {
        self.medium.store_u64(at, value);
        self.persist(at);
    }

    fn persist(&self, at: PoolOffset) {
        self.medium.flush(at.line());
        self.medium.fence();
    }

    fn array(&self) -> PoolOffset {
        PoolOffset(self.medium.load_u64(ROOT))
    }

    fn account(array: PoolOffset, number: u64) -> PoolOffset {
        array.plus((number + 1) * 64)
    }

    fn balances(&self) -> Vec<u64> {
        let array = self.array();
        let count = self.medium.load_u64(array.plus(8));
        (0..count).map(|n| self.medium.load_u64(Self::account(array, n))).collect()
    }

    fn take(&self, capacity: u64) -> PoolOffset {
        let from = self.medium.load_u64(TAKEN);
        self.medium.store_u64(TAKEN, from + (capacity + 1) * 64);
        if self.bug != Bug::SpaceUnflushed {
            self.persist(TAKEN);
        }
        PoolOffset(from)
    }

    fn open(&self, balance: u64) {
        let array = self.array();
        let (capacity, count) = (self.medium.load_u64(array), self.medium.load_u64(array.plus(8)));
        if count == capacity {
            self.grow(array, capacity);
            return self.open(balance);
        }
        if self.bug == Bug::CountFirst {
            self.set(array.plus(8), count + 1);
        }
        self.set(Self::account(array, count), balance);
        self.set(array.plus(8), count + 1);
    }

    fn grow(&self, array: PoolOffset, capacity: u64) {
        let balances = self.balances();
        let larger = self.take(capacity * 2);
        for (number, balance) in (0..).zip(&balances) {
            let account = Self::account(larger, number);
            self.medium.store_u64(account, *balance);
            if self.bug != Bug::LastLineUnflushed || number + 1 < capacity {
                self.medium.flush(account.line());
            }
        }
        self.medium.store(larger, &[capacity * 2, capacity].map(u64::to_le_bytes).concat());
        self.medium.flush(larger.line());
        if self.bug != Bug::SwitchUnfenced {
            self.medium.fence();
        }
        assert_ne!(larger, array);
        self.set(ROOT, larger.0);
    }

    fn transfer(&self, from: u64, to: u64, amount: u64, promise: impl Fn()) {
        let balances = self.balances();
        let amount = amount.min(balances[from as usize]);
        let new = [from, balances[from as usize] - amount, to, balances[to as usize] + amount];
        let record = [checksum(&new), new[0], new[1], new[2], new[3]];
        self.medium.store(LOG, &record.map(u64::to_le_bytes).concat());
        if self.bug == Bug::PromisedEarly {
            promise();
        }
        self.persist(LOG);
        self.apply(new);
    }

    fn apply(&self, [from, less, to, more]: [u64; 4]) {
        let array = self.array();
        for (number, balance) in [(from, less), (to, more)] {
            let account = Self::account(array, number);
            self.medium.store_u64(account, balance);
            self.medium.flush(account.line());
        }
        if self.bug != Bug::LogClearedEarly {
            self.medium.fence();
        }
        self.set(LOG, 0);
    }

    fn recover(&self) -> Result<Vec<u64>, String> {
        let words: [u64; 5] = std::array::from_fn(|n| self.medium.load_u64(LOG.plus(n as u64 * 8)));
        let transfer = [words[1], words[2], words[3], words[4]];
        if words[0] != 0 && words[0] == checksum(&transfer) {
            if self.bug == Bug::RecoveryClearsFirst {
                self.set(LOG, 0);
            }
            self.apply(transfer);
        }
        let array = self.array();
        let end = array.0 + (self.medium.load_u64(array) + 1) * 64;
        match self.medium.load_u64(TAKEN) {
            taken if taken < end => Err(format!("{end:#x} is in use and {taken:#x} is taken")),
            _ => Ok(self.balances()),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u64),
    Transfer(u64, u64, u64),
}

fn steps(count: u64) -> Vec<Step> {
    let mut random = Random::new(5);
    let mut draw = |limit| random.below(limit);
    let mut accounts = 0;
    let mut step = || {
        if accounts < 2 || draw(4) == 0 {
            accounts += 1;
            return Step::Open(100 + accounts);
        }
        let from = draw(accounts);
        Step::Transfer(from, (from + 1 + draw(accounts - 1)) % accounts, 1 + draw(50))
    };
    (0..count).map(|_| step()).collect()
}

/// The balances after 0, 1, 2 … steps.
fn states(steps: &[Step]) -> Vec<Vec<u64>> {
    let mut balances = Vec::new();
    let mut all = vec![balances.clone()];
    for step in steps {
        match *step {
            Step::Open(balance) => balances.push(balance),
            Step::Transfer(from, to, amount) => {
                let amount = amount.min(balances[from as usize]);
                balances[from as usize] -= amount;
                balances[to as usize] += amount;
            }
        }
        all.push(balances.clone());
    }
    all
}

fn check(bug: Bug, images_max: u64) -> Report {
    let steps = steps(100);
    let states = states(&steps);
    let check = Check::new(LEN)
        .prepared(|medium| Ledger { medium, bug: Bug::None }.create())
        .images_max(images_max);
    check.run(
        |_, medium: &Recorder| {
            let ledger = Ledger { medium, bug };
            for (number, step) in (1..).zip(&steps) {
                let promise = || medium.mark(Mark::Ack(TxId(number)));
                match *step {
                    Step::Open(balance) => ledger.open(balance),
                    Step::Transfer(from, to, amount) => ledger.transfer(from, to, amount, promise),
                }
                promise();
            }
        },
        |image: &ImageMedium| Ledger { medium: image, bug }.recover(),
        |found: &Vec<u64>, crash: &Crash<'_>| {
            let promised = crash.acked.last().map_or(0, |tx| tx.0 as usize);
            let legal = &states[promised..states.len().min(promised + 2)];
            let wrong = || Violation::from(format!("{found:?} after {promised} steps"));
            legal.contains(found).then_some(()).ok_or_else(wrong)
        },
    )
}

#[test]
fn a_sound_ledger_is_checked_completely() {
    let report = check(Bug::None, 100_000);
    assert!(!report.has_failures() && report.complete, "{report}");
    assert!(report.coverage.is_exhaustive());
    // Few images stand for all, for recovery looks at little of what is open.
    assert!(report.images_verified < 20_000, "{report}");
}

#[test]
fn each_mistake_is_found_and_named_within_few_images() {
    for images_max in [100_000, 5_000] {
        for (bug, class) in BUGS {
            let report = check(bug, images_max);
            let Some(finding) = report.failures().next() else { panic!("{bug:?} was not found") };
            println!("{bug:?}, {} images: {finding}\n", report.images_verified);
            assert_eq!(finding.class, class, "{bug:?}: {finding}");
            assert!(finding.place.site.is_some(), "{bug:?}: {finding}");
            let is_lost = !finding.lost.is_empty();
            assert!(is_lost || bug != Bug::PromisedEarly, "{finding}");
        }
    }
}

#[test]
fn a_mistake_in_recovery_points_into_recovery() {
    let report = check(Bug::RecoveryClearsFirst, 100_000);
    let finding = report.failures().next().unwrap();
    assert_eq!(finding.place.level, 2, "{finding}");
    assert!(finding.place.site.unwrap().location.file().ends_with("ledger.rs"), "{finding}");
    assert!(!finding.lines.is_empty(), "{finding}");
}
