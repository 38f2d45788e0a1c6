//! Which transactions survived, told by versions alone.
//!
//! Each transaction reports its reads and writes: for every key that it read the version it saw, for every
//! key that it wrote the version it left. After recovery the caller reads which version every key
//! has, and the [`Oracle`] says whether a set of whole transactions explains that: all that were
//! acknowledged, each in full, closed under what they depended on, and in some serial order.
//!
//! The versions of a key form a *chain*, since a writer of a key has read it before: a write
//! replaces the version that its transaction saw. The version found at the end therefore tells
//! for each key exactly which writes survived, and no search is needed.
//!
//! ```
//! use outlast_check::oracle::{Fault, Key, Oracle, Transaction, Version};
//! use outlast_trace::{Guarantee, TxId};
//!
//! // Two words are increased together; a version is the word's value.
//! let (x, y) = (Key(0), Key(1));
//! let step = |tx: u64| Transaction {
//!     id: TxId(tx),
//!     reads: vec![(x, Version(tx - 1)), (y, Version(tx - 1))],
//!     writes: vec![(x, Version(tx)), (y, Version(tx))],
//! };
//! let oracle = Oracle::new(2, vec![step(1), step(2)])?;
//! let found = |x, y, acked: &[TxId]| oracle.judge(&[Version(x), Version(y)], acked);
//! assert!(found(1, 1, &[TxId(1)]).is_ok());
//! assert!(found(2, 2, &[TxId(1)]).is_ok()); // not yet acknowledged, and whole
//! assert!(matches!(found(2, 1, &[]), Err(Fault::Torn { .. })));
//! assert!(matches!(found(0, 0, &[TxId(1)]), Err(Fault::Lost { .. })));
//! # Ok::<(), outlast_check::oracle::OddHistory>(())
//! ```

use std::fmt;

use outlast_trace::{Guarantee, TxId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Broken, Kept, Violation, check};

mod order;
#[cfg(test)]
mod tests;

/// A key, by its place in the list of observed versions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key(pub u32);

/// The value of a key at some time. No two transactions leave the same version of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u64);

impl Version {
    /// The version of every key before the first transaction.
    pub const INITIAL: Self = Self(0);
}

/// A transaction's report of its reads and writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// Its number.
    pub id: TxId,
    /// Keys it read and the version it saw, its own writes left out. Every key that it wrote is
    /// among them.
    pub reads: Vec<(Key, Version)>,
    /// Keys it wrote and the version it left.
    pub writes: Vec<(Key, Version)>,
}

/// Reports from which no oracle can be made: a mistake of the harness, not of the code under test.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OddHistory {
    /// Two transactions have one number.
    #[error("two transactions are called {0:?}")]
    SameId(TxId),
    /// A key lies outside the list of observed versions.
    #[error("{0:?} uses {1:?}, and there are fewer keys")]
    NoSuchKey(TxId, Key),
    /// A version was written twice, or is the initial one.
    #[error("{0:?} wrote {2:?} of {1:?}, which is not new")]
    NotNew(TxId, Key, Version),
    /// A key was written without being read.
    #[error("{0:?} wrote {1:?} without reading it")]
    BlindWrite(TxId, Key),
    /// A key was read or written twice by one transaction.
    #[error("{0:?} names {1:?} twice")]
    Twice(TxId, Key),
}

/// Why a recovered state must not be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// A key holds a version that no transaction wrote.
    #[error("{key:?} holds {found:?}, which no transaction wrote")]
    Garbage {
        /// Which key.
        key: Key,
        /// The version found.
        found: Version,
    },
    /// Some writes of a transaction are there and others are not.
    #[error("transaction {} is there in part: in {}, missing in {}", tx.0, Keys(there), Keys(missing))]
    Torn {
        /// Which transaction.
        tx: TxId,
        /// Keys with its write, or with a later one that saw it.
        there: Vec<Key>,
        /// Keys without.
        missing: Vec<Key>,
    },
    /// An acknowledged transaction is not there.
    #[error("transaction {} was acknowledged and is missing in {}", tx.0, Keys(keys))]
    Lost {
        /// Which transaction.
        tx: TxId,
        /// The keys that it wrote.
        keys: Vec<Key>,
    },
    /// A transaction that survived saw a version whose writer did not.
    #[error("transaction {} survived; it saw {seen:?} of {key:?}, whose writer is not there", tx.0)]
    NotClosed {
        /// Which transaction.
        tx: TxId,
        /// The key it depended on.
        key: Key,
        /// The version of it.
        seen: Version,
    },
    /// The surviving transactions have no serial order.
    #[error("{transactions:?} depend on each other in a circle")]
    Cycle {
        /// The transactions, each depending on the one before.
        transactions: Vec<TxId>,
    },
}

struct Keys<'a>(&'a [Key]);

impl fmt::Display for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, key) in self.0.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { ", " } else { "" }, key.0)?;
        }
        Ok(())
    }
}

impl From<Fault> for Violation {
    fn from(fault: Fault) -> Self {
        let broken = match fault {
            Fault::Garbage { .. } => Broken::Garbage,
            Fault::Torn { .. } => Broken::Torn,
            Fault::Lost { .. } => Broken::Lost,
            Fault::NotClosed { .. } => Broken::NotClosed,
            Fault::Cycle { .. } => Broken::Cycle,
        };
        Self::new(broken, fault.to_string())
    }
}

/// Judges recovered states of one history of transactions.
#[derive(Clone, Debug)]
pub struct Oracle {
    transactions: Vec<Transaction>,
    by_id: FxHashMap<TxId, usize>,
    keys: Vec<Chain>,
    /// Whether all transactions together have a serial order. Then every part of them has.
    has_order: bool,
}

/// The versions of one key.
#[derive(Clone, Debug, Default)]
struct Chain {
    /// Who wrote a version, over which, and how far it is from the initial one.
    links: FxHashMap<Version, Link>,
    /// The versions that replaced one; more than one only where isolation failed.
    replaced_by: FxHashMap<Version, Vec<Version>>,
    /// Whether two transactions replaced one version.
    forks: bool,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    writer: usize,
    replaced: Version,
    /// 0 where no chain leads back to the initial version.
    depth: usize,
}

/// The surviving part of a key's chain.
enum Survived {
    /// All versions up to this depth.
    UpTo(usize),
    /// These.
    Only(FxHashSet<Version>),
}

impl Oracle {
    /// An oracle for these transactions on this number of keys.
    ///
    /// # Errors
    /// When the reports contradict each other in a way that no scheme could bring about.
    pub fn new(keys: u32, transactions: Vec<Transaction>) -> Result<Self, OddHistory> {
        let mut oracle = Self {
            by_id: FxHashMap::default(),
            keys: vec![Chain::default(); keys as usize],
            has_order: false,
            transactions,
        };
        for (number, tx) in oracle.transactions.iter().enumerate() {
            if oracle.by_id.insert(tx.id, number).is_some() {
                return Err(OddHistory::SameId(tx.id));
            }
            check_report(tx, keys)?;
            for &(key, version) in &tx.writes {
                let replaced = seen_by(tx, key).ok_or(OddHistory::BlindWrite(tx.id, key))?;
                let chain = &mut oracle.keys[key.0 as usize];
                let link = Link { writer: number, replaced, depth: 0 };
                let rivals = chain.replaced_by.entry(replaced).or_default();
                rivals.push(version);
                chain.forks |= rivals.len() > 1;
                if version == Version::INITIAL || chain.links.insert(version, link).is_some() {
                    return Err(OddHistory::NotNew(tx.id, key, version));
                }
            }
        }
        oracle.keys.iter_mut().for_each(Chain::measure);
        let all: Vec<bool> = vec![true; oracle.transactions.len()];
        oracle.has_order = oracle.find_cycle(&all).is_none();
        Ok(oracle)
    }

    /// The transactions, as they were reported.
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }

    /// Judges a state: `observed` has the version of every key, in the order of keys; `acked` is
    /// what must have survived.
    ///
    /// # Errors
    /// The first fault: garbage, then torn, lost, not closed, in a circle.
    ///
    /// # Panics
    /// When a version is missing in `observed`, or `acked` names an unknown transaction.
    pub fn judge(&self, observed: &[Version], acked: &[TxId]) -> Result<(), Fault> {
        assert_eq!(observed.len(), self.keys.len(), "every key was observed");
        let mut survived = Vec::with_capacity(self.keys.len());
        for ((chain, &found), key) in self.keys.iter().zip(observed).zip(0..) {
            let of = chain.survived(found);
            survived.push(of.ok_or(Fault::Garbage { key: Key(key), found })?);
        }
        let is_there = |&(key, version): &(Key, Version)| {
            self.keys[key.0 as usize].is_among(version, &survived[key.0 as usize])
        };
        let mut there = Vec::with_capacity(self.transactions.len());
        for tx in &self.transactions {
            let count = tx.writes.iter().filter(|write| is_there(write)).count();
            if count != 0 && count != tx.writes.len() {
                return Err(torn(tx, is_there));
            }
            there.push(count != 0);
        }
        for id in acked {
            let number = *self.by_id.get(id).expect("only known transactions are acknowledged");
            // Where it wrote nothing, nothing tells whether it happened; the client knows it did.
            there[number] |= self.transactions[number].writes.is_empty();
        }
        check(Guarantee::Durable, &Survivors { oracle: self, there, acked })
    }

    /// Two transactions that replaced the same version of a key, if there are such.
    pub fn lost_update(&self) -> Option<Fault> {
        let chain = self.keys.iter().find(|chain| chain.forks)?;
        let rivals = chain.replaced_by.values().find(|versions| versions.len() > 1)?;
        let writers = rivals.iter().filter_map(|version| chain.writer(*version));
        let transactions = writers.map(|writer| self.transactions[writer].id).collect();
        Some(Fault::Cycle { transactions })
    }

    /// A version that a transaction saw and none left, if there is one.
    pub fn unwritten(&self) -> Option<Fault> {
        let reads = self.transactions.iter().flat_map(|tx| &tx.reads);
        let is_unwritten = |&&(key, seen): &&(Key, Version)| {
            seen != Version::INITIAL && self.keys[key.0 as usize].writer(seen).is_none()
        };
        let &(key, found) = { reads }.find(is_unwritten)?;
        Some(Fault::Garbage { key, found })
    }
}

/// The transactions that survived, of which these were acknowledged.
struct Survivors<'a> {
    oracle: &'a Oracle,
    there: Vec<bool>,
    acked: &'a [TxId],
}

impl Kept for Survivors<'_> {
    type Fault = Fault;

    fn acknowledged_missing(&self) -> Option<Fault> {
        let Self { oracle, there, acked } = self;
        let missing = acked.iter().map(|id| oracle.by_id[id]).find(|number| !there[*number]);
        let tx = &oracle.transactions[missing?];
        Some(Fault::Lost { tx: tx.id, keys: tx.writes.iter().map(|(key, _)| *key).collect() })
    }

    fn not_closed(&self) -> Option<Fault> {
        let Self { oracle, there, .. } = self;
        let survivors = oracle.transactions.iter().zip(there).filter(|(_, there)| **there);
        let mut reads =
            survivors.flat_map(|(tx, _)| tx.reads.iter().map(|&(key, seen)| (tx.id, key, seen)));
        let is_open = |&(_, key, seen): &(TxId, Key, Version)| {
            let writer = || oracle.keys[key.0 as usize].writer(seen);
            seen != Version::INITIAL && !writer().is_some_and(|writer| there[writer])
        };
        reads.find(is_open).map(|(tx, key, seen)| Fault::NotClosed { tx, key, seen })
    }

    fn without_order(&self) -> Option<Fault> {
        if self.oracle.has_order { None } else { self.oracle.find_cycle(&self.there) }
    }
}

impl Chain {
    /// Fills in the depths, from the initial version on.
    fn measure(&mut self) {
        let mut reached = vec![(Version::INITIAL, 0)];
        while let Some((version, depth)) = reached.pop() {
            for next in self.replaced_by.get(&version).into_iter().flatten() {
                let link = self.links.get_mut(next).expect("every version has its link");
                // A version that was reached already replaces itself in a circle.
                if link.depth == 0 {
                    link.depth = depth + 1;
                    reached.push((*next, depth + 1));
                }
            }
        }
    }

    /// The versions from this one back to the initial one, which is left out. None if they do
    /// not lead there.
    fn path(&self, mut version: Version) -> Option<Vec<Version>> {
        let mut path = Vec::new();
        while version != Version::INITIAL {
            path.push(version);
            version = self.links.get(&version)?.replaced;
            if path.len() > self.links.len() {
                return None;
            }
        }
        Some(path)
    }

    fn writer(&self, version: Version) -> Option<usize> {
        self.links.get(&version).map(|link| link.writer)
    }

    /// The part that survived when this version was found; none if no transaction wrote it.
    fn survived(&self, found: Version) -> Option<Survived> {
        if found == Version::INITIAL {
            return Some(Survived::UpTo(0));
        }
        let link = self.links.get(&found)?;
        if link.depth > 0 && !self.forks {
            return Some(Survived::UpTo(link.depth));
        }
        // Versions that replaced unknown ones: what is found stands for itself at least, and the
        // oracle goes on to find its reader not closed.
        let path = self.path(found).unwrap_or_else(|| vec![found]);
        Some(Survived::Only(path.into_iter().collect()))
    }

    fn is_among(&self, version: Version, survived: &Survived) -> bool {
        match survived {
            Survived::UpTo(depth) => (1..=*depth).contains(&self.links[&version].depth),
            Survived::Only(versions) => versions.contains(&version),
        }
    }
}

fn torn(tx: &Transaction, is_there: impl Fn(&(Key, Version)) -> bool) -> Fault {
    let (there, missing): (Vec<_>, Vec<_>) = tx.writes.iter().partition(|write| is_there(write));
    let keys = |writes: Vec<&(Key, Version)>| writes.into_iter().map(|(key, _)| *key).collect();
    Fault::Torn { tx: tx.id, there: keys(there), missing: keys(missing) }
}

fn seen_by(tx: &Transaction, key: Key) -> Option<Version> {
    tx.reads.iter().find(|(read, _)| *read == key).map(|(_, version)| *version)
}

fn check_report(tx: &Transaction, keys: u32) -> Result<(), OddHistory> {
    for list in [&tx.reads, &tx.writes] {
        for (i, &(key, _)) in list.iter().enumerate() {
            if key.0 >= keys {
                return Err(OddHistory::NoSuchKey(tx.id, key));
            }
            if list[..i].iter().any(|(other, _)| *other == key) {
                return Err(OddHistory::Twice(tx.id, key));
            }
        }
    }
    Ok(())
}
