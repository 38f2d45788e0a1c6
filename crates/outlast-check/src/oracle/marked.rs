//! Keys with versions of a program that writes files, from its marks.
//!
//! A mark `I 7 a=3 b=4` begins transaction 7, which will leave version 3 of key `a` and version 4 of key
//! `b`. Versions of a key grow, and each replaces the one before it. A check that prints `key a 3` for each
//! key of a recovered state has it judged by the [`Oracle`]: every acknowledged transaction is there, every
//! other whole or absent. A program that gives a transaction up begins another with the same versions.

use std::fmt;
use std::sync::{Arc, Mutex};

use outlast_trace::TxId;
use rustc_hash::FxHashMap;

use super::{Broken, Fault, Key, Oracle, Transaction, Version, Violation};
use crate::run::{Run, Step};

/// Transactions of a run with the versions that each leaves.
#[derive(Debug, Default)]
pub struct Marked {
    names: Vec<String>,
    keys: FxHashMap<String, Key>,
    /// In the order in which they began.
    transactions: Vec<Begun>,
    /// Marks in order, each with its event: numbers begun, and numbers acknowledged.
    issues: Vec<(usize, u64)>,
    acks: Vec<(usize, u64)>,
    /// Why the marks say nothing, if they contradict each other.
    odd: Option<String>,
    /// The oracle of each number of first transactions that was asked for.
    oracles: Mutex<FxHashMap<usize, Arc<Oracle>>>,
}

#[derive(Debug)]
struct Begun {
    id: u64,
    event: usize,
    acked: Option<usize>,
    writes: Vec<(Key, Version)>,
}

/// Keys of a recovered state, as a check lists them.
#[derive(Clone)]
pub struct Listed {
    marked: Arc<Marked>,
    versions: Vec<(String, u64)>,
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.versions.iter().map(|(name, version)| format!("{name}={version}"));
        f.write_str(&shown.collect::<Vec<_>>().join(" "))
    }
}

impl PartialEq for Listed {
    fn eq(&self, other: &Self) -> bool {
        self.versions == other.versions
    }
}

impl Eq for Listed {}

impl Listed {
    /// The lines `key NAME VERSION` of a check's output; nothing if there are none.
    #[must_use]
    pub fn in_lines(marked: &Arc<Marked>, text: &str) -> Option<Self> {
        let listed = text.lines().filter_map(|line| {
            let (name, version) = line.strip_prefix("key ")?.trim().rsplit_once(' ')?;
            Some((name.to_owned(), version.parse().ok()?))
        });
        Self::of(marked, listed.collect())
    }

    /// The words `NAME=VERSION` of a server's answer; nothing if one of them is something else.
    #[must_use]
    pub fn in_words(marked: &Arc<Marked>, text: &str) -> Option<Self> {
        let words = text.split_whitespace().map(|word| {
            let (name, version) = word.rsplit_once('=')?;
            Some((name.to_owned(), version.parse().ok()?))
        });
        Some(Self { marked: Arc::clone(marked), versions: words.collect::<Option<_>>()? })
    }

    fn of(marked: &Arc<Marked>, mut versions: Vec<(String, u64)>) -> Option<Self> {
        versions.sort_unstable();
        (!versions.is_empty()).then(|| Self { marked: Arc::clone(marked), versions })
    }

    /// The verdict on the state, if a crash left it when these were the highest transactions begun and
    /// acknowledged.
    ///
    /// # Errors
    /// The broken promise.
    pub fn judge(&self, issued: u64, acked: u64) -> Result<(), Violation> {
        self.marked.judge(&self.versions, issued, acked)
    }
}

impl Marked {
    /// The transactions of a run. Marks that contradict each other fail every state whose keys are listed.
    #[must_use]
    pub fn of_run(run: &Run) -> Self {
        Self::of(run).unwrap_or_else(|odd| Self { odd: Some(odd), ..Self::default() })
    }

    fn of(run: &Run) -> Result<Self, String> {
        let mut marked = Self::default();
        for (event, step) in run.events.iter().enumerate() {
            match &step.step {
                Step::Issued(number) => {
                    marked.issues.push((event, *number));
                    marked.begin(event, *number)?;
                }
                Step::Acked(number) => {
                    marked.acks.push((event, *number));
                    let last = marked.transactions.iter_mut().rev().find(|tx| tx.id == *number);
                    if let Some(tx) = last {
                        tx.acked.get_or_insert(event);
                    }
                }
                Step::Writes { key, version } => marked.write(key, Version(*version))?,
                Step::Change(_) | Step::Sync(_) | Step::Unsynced(_) => {}
            }
        }
        Ok(marked)
    }

    fn begin(&mut self, event: usize, id: u64) -> Result<(), String> {
        if let Some(index) = self.transactions.iter().rposition(|tx| tx.id == id) {
            if self.transactions[index].acked.is_some() {
                return Err(format!("transaction {id} begins again after it was acknowledged"));
            }
            self.transactions.remove(index);
        }
        self.transactions.push(Begun { id, event, acked: None, writes: Vec::new() });
        Ok(())
    }

    fn write(&mut self, name: &str, version: Version) -> Result<(), String> {
        let next = Key(self.names.len() as u32);
        let key = *self.keys.entry(name.to_owned()).or_insert_with(|| {
            self.names.push(name.to_owned());
            next
        });
        let Some(tx) = self.transactions.last_mut() else {
            return Err(format!("key {name} is written before any transaction begins"));
        };
        if version == Version::INITIAL || tx.writes.iter().any(|(known, _)| *known == key) {
            return Err(format!(
                "transaction {}: '{name}={}'; one version from 1 on would be right",
                tx.id, version.0
            ));
        }
        tx.writes.push((key, version));
        Ok(())
    }

    /// Whether a transaction names a key.
    #[must_use]
    pub fn has_keys(&self) -> bool {
        !self.names.is_empty()
    }

    fn judge(&self, listed: &[(String, u64)], issued: u64, acked: u64) -> Result<(), Violation> {
        if let Some(odd) = &self.odd {
            return Err(Violation::new(Broken::Other, odd.clone()));
        }
        let mut observed = vec![Version::INITIAL; self.names.len()];
        for (name, version) in listed {
            match self.keys.get(name) {
                Some(key) => observed[key.0 as usize] = Version(*version),
                None if *version == 0 => {}
                None => {
                    let detail = format!("{name} holds version {version}, and no mark names it");
                    return Err(Violation::new(Broken::Garbage, detail));
                }
            }
        }
        let end = self.issues.iter().find(|(_, number)| *number > issued);
        let end = end.map_or(usize::MAX, |(event, _)| *event);
        let begun = self.transactions.partition_point(|tx| tx.event < end);
        let told = self.acks.iter().find(|(_, number)| acked > 0 && *number >= acked);
        let told = told.map(|(event, _)| *event);
        let is_told =
            |tx: &&Begun| tx.acked.is_some_and(|event| told.is_some_and(|told| event <= told));
        let acked: Vec<TxId> =
            self.transactions[..begun].iter().filter(is_told).map(|tx| TxId(tx.id)).collect();
        let oracle = self.oracle(begun).map_err(|why| Violation::new(Broken::Other, why))?;
        oracle.judge(&observed, &acked).map_err(|fault| self.told(fault))
    }

    /// The oracle of the first `begun` transactions.
    fn oracle(&self, begun: usize) -> Result<Arc<Oracle>, String> {
        let mut oracles = self.oracles.lock().map_err(|error| error.to_string())?;
        if let Some(known) = oracles.get(&begun) {
            return Ok(Arc::clone(known));
        }
        let mut owners: FxHashMap<(Key, Version), usize> = FxHashMap::default();
        let mut given_up = vec![false; begun];
        for (index, tx) in self.transactions[..begun].iter().enumerate() {
            for &(key, version) in &tx.writes {
                let Some(earlier) = owners.insert((key, version), index) else { continue };
                if self.transactions[earlier].acked.is_some() {
                    let name = &self.names[key.0 as usize];
                    let (one, other) = (self.transactions[earlier].id, tx.id);
                    return Err(format!(
                        "transactions {one} and {other} both leave version {} of {name}",
                        version.0
                    ));
                }
                given_up[earlier] = true;
            }
        }
        let kept =
            || self.transactions[..begun].iter().zip(&given_up).filter(|(_, given)| !**given);
        let mut chains = vec![vec![Version::INITIAL]; self.names.len()];
        for (tx, _) in kept() {
            for &(key, version) in &tx.writes {
                chains[key.0 as usize].push(version);
            }
        }
        chains.iter_mut().for_each(|chain| chain.sort_unstable());
        let before = |&(key, version): &(Key, Version)| {
            let chain = &chains[key.0 as usize];
            (key, chain[chain.partition_point(|known| *known < version) - 1])
        };
        let transactions = kept().map(|(tx, _)| Transaction {
            id: TxId(tx.id),
            reads: tx.writes.iter().map(before).collect(),
            writes: tx.writes.clone(),
        });
        let oracle = Oracle::new(self.names.len() as u32, transactions.collect());
        let oracle = Arc::new(oracle.map_err(|odd| odd.to_string())?);
        oracles.insert(begun, Arc::clone(&oracle));
        Ok(oracle)
    }

    /// A fault in the words of the marks.
    fn told(&self, fault: Fault) -> Violation {
        let list = |keys: &[Key]| {
            let names = keys.iter().map(|key| self.names[key.0 as usize].as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let detail = match &fault {
            Fault::Garbage { key, found } => {
                format!("{} holds version {}, which no transaction wrote", list(&[*key]), found.0)
            }
            Fault::Torn { tx, there, missing } => format!(
                "transaction {} is there in part: in {}, missing in {}",
                tx.0,
                list(there),
                list(missing)
            ),
            Fault::Lost { tx, keys } => {
                format!("transaction {} was acknowledged and is missing in {}", tx.0, list(keys))
            }
            Fault::NotClosed { tx, key, seen } => format!(
                "transaction {} survived; version {} of {}, which it replaced, did not",
                tx.0,
                seen.0,
                list(&[*key])
            ),
            Fault::Cycle { transactions } => {
                let numbers: Vec<String> = transactions.iter().map(|tx| tx.0.to_string()).collect();
                format!("transactions {} replace each other's versions", numbers.join(", "))
            }
        };
        Violation { detail, ..fault.into() }
    }
}

#[cfg(test)]
mod tests;
