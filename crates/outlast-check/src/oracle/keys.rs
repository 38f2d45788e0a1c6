//! Which transactions survived, found by trying sets of them.
//!
//! A transaction is told by the states that it found and left in each key it touched, and when. A writer of a key
//! reads it first, so the writers of a key form a chain, in the order in which they read it; that every
//! one of them found what its predecessor left is checked beforehand. At a crash the acknowledged
//! transactions must all be there; of those in flight each lane's first ones may be. Sets of them are
//! tried, so that it does not matter that *absent* names no version: a key may have been removed more
//! than once.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use outlast_trace::Guarantee;

use super::{Broken, Kept, Violation, check};

/// The state of a key: a version, or that the key is not there.
pub type KeyState = u64;

/// The key is not there.
pub const ABSENT: KeyState = u64::MAX;

/// A read of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// The key.
    pub key: u64,
    /// Its state then.
    pub state: KeyState,
    /// When: numbers that grow with every read of any lane.
    pub time: u64,
}

/// A transaction that was acknowledged, sooner or later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    /// The lane that ran it, one after the other.
    pub lane: u16,
    /// How it is called in messages.
    pub name: String,
    /// Operations before its first.
    pub begun: usize,
    /// The operation that acknowledged it.
    pub acked: usize,
    /// The states that it found, one for each key.
    pub reads: Vec<Seen>,
    /// The states that it left, one for each key.
    pub writes: Vec<(u64, KeyState)>,
}

/// Transactions of one run, with their reads and writes.
pub struct KeyHistory {
    initial: Vec<KeyState>,
    /// In the order of their acknowledgements.
    known: Vec<Known>,
    /// The states of each written key in order, with who left them; the first is the initial.
    chains: FxHashMap<u64, Vec<Link>>,
}

struct Known {
    name: String,
    lane: u16,
    begun: usize,
    acked: usize,
    writes: Vec<Write>,
    /// Whose writes it read.
    sources: Vec<usize>,
    /// The earliest acknowledgement among those who read its writes.
    needed_from: usize,
}

#[derive(Clone, Copy)]
struct Write {
    key: u64,
    state: KeyState,
    /// Its place in the key's chain, from 1 on.
    place: usize,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    state: KeyState,
    writer: Option<usize>,
    read_at: u64,
}

impl KeyHistory {
    /// Orders the writers of each key.
    ///
    /// # Errors
    /// When one did not find its predecessor's state: nothing has crashed, and the
    /// transactions are not serializable.
    pub fn new(
        mut initial: Vec<KeyState>,
        transactions: &[Transaction],
    ) -> Result<Self, Violation> {
        let mut transactions: Vec<&Transaction> = transactions.iter().collect();
        transactions.sort_by_key(|tx| tx.acked);
        let touched = transactions.iter().flat_map(|tx| {
            tx.reads.iter().map(|seen| seen.key).chain(tx.writes.iter().map(|w| w.0))
        });
        let keys = touched.max().map_or(0, |key| key as usize + 1);
        if keys > initial.len() {
            initial.resize(keys, ABSENT);
        }
        let chains = chains(&initial, &transactions)?;
        let mut known = Vec::with_capacity(transactions.len());
        for (index, tx) in transactions.iter().enumerate() {
            let place = |key| {
                let own = chains[&key].iter().position(|link| link.writer == Some(index));
                own.expect("every writer is in the chain")
            };
            let writes = tx.writes.iter();
            let writes = writes.map(|&(key, state)| Write { key, state, place: place(key) });
            known.push(Known {
                name: tx.name.clone(),
                lane: tx.lane,
                begun: tx.begun,
                acked: tx.acked,
                writes: writes.collect(),
                sources: sources(index, &transactions, &chains)?,
                needed_from: usize::MAX,
            });
        }
        for index in 0..known.len() {
            let acked = known[index].acked;
            for source in std::mem::take(&mut known[index].sources) {
                known[source].needed_from = known[source].needed_from.min(acked);
                known[index].sources.push(source);
            }
        }
        Ok(Self { initial, known, chains })
    }

    /// How many keys there are room for in a state.
    pub fn keys(&self) -> usize {
        self.initial.len()
    }

    /// The beginning of the run.
    pub fn beginning(&self) -> Moment<'_> {
        Moment {
            history: self,
            expected: self.initial.clone(),
            places: FxHashMap::default(),
            ops: 0,
            acked: 0,
        }
    }
}

fn chains(
    initial: &[KeyState],
    transactions: &[&Transaction],
) -> Result<FxHashMap<u64, Vec<Link>>, Violation> {
    let mut chains: FxHashMap<u64, Vec<Link>> = FxHashMap::default();
    for (index, tx) in transactions.iter().enumerate() {
        let read_at: HashMap<u64, u64> = tx.reads.iter().map(|s| (s.key, s.time)).collect();
        for &(key, state) in &tx.writes {
            let read_at = *read_at.get(&key).ok_or_else(|| {
                let detail = format!("{} wrote key {key} without reading it", tx.name);
                Violation::new(Broken::Other, detail)
            })?;
            let first = Link { state: initial[key as usize], writer: None, read_at: 0 };
            let chain = chains.entry(key).or_insert_with(|| vec![first]);
            chain.push(Link { state, writer: Some(index), read_at });
        }
    }
    for (key, chain) in &mut chains {
        chain[1..].sort_by_key(|link| link.read_at);
        for pair in chain.windows(2) {
            let writer = &transactions[pair[1].writer.expect("only the first has none")];
            let seen = writer.reads.iter().find(|seen| seen.key == *key).expect("found above");
            if seen.state != pair[0].state {
                let detail = format!(
                    "nothing had crashed, and {} found key {key} {} where {} was left",
                    writer.name,
                    shown(seen.state),
                    shown(pair[0].state)
                );
                return Err(Violation::new(Broken::Cycle, detail));
            }
        }
    }
    Ok(chains)
}

/// Whose writes a transaction read.
fn sources(
    index: usize,
    transactions: &[&Transaction],
    chains: &FxHashMap<u64, Vec<Link>>,
) -> Result<Vec<usize>, Violation> {
    let tx = transactions[index];
    let mut sources = Vec::new();
    for seen in &tx.reads {
        let Some(chain) = chains.get(&seen.key) else { continue };
        // A version has one writer. Of several removals it is the first that had not certainly
        // ended when this transaction began: the mildest reading of what it saw.
        let could_be_seen = |place: &usize| {
            let next = chain.get(place + 1).and_then(|link| link.writer);
            let is_over = next.is_some_and(|next| transactions[next].acked < tx.begun);
            let link = chain[*place];
            link.state == seen.state && link.writer != Some(index) && !is_over
        };
        let link = (0..chain.len()).find(could_be_seen).map(|place| chain[place]);
        let link = link.ok_or_else(|| {
            let (name, key, state) = (&tx.name, seen.key, shown(seen.state));
            let detail = format!("nothing had crashed, and {name} found key {key} {state}");
            Violation::new(Broken::Cycle, detail)
        })?;
        sources.extend(link.writer);
    }
    sources.sort_unstable();
    sources.dedup();
    Ok(sources)
}

fn shown(state: KeyState) -> String {
    if state == ABSENT { "absent".to_owned() } else { format!("at version {state:#x}") }
}

/// A moment of the run: the state after the transactions acknowledged so far.
pub struct Moment<'c> {
    history: &'c KeyHistory,
    expected: Vec<KeyState>,
    /// Places in their chains of the keys that acknowledged transactions wrote.
    places: FxHashMap<u64, usize>,
    ops: usize,
    /// How many transactions are acknowledged.
    acked: usize,
}

impl Moment<'_> {
    /// Moves on to a crash during or just before operation `ops`.
    pub fn advance(&mut self, ops: usize) {
        debug_assert!(ops >= self.ops, "crash points ascend");
        self.ops = ops;
        let known = &self.history.known;
        while let Some(tx) = known.get(self.acked).filter(|tx| tx.acked < ops) {
            self.acked += 1;
            for write in &tx.writes {
                let place = self.places.entry(write.key).or_insert(0);
                if write.place > *place {
                    *place = write.place;
                    self.expected[write.key as usize] = write.state;
                }
            }
        }
    }

    /// How many keys there are room for in a state.
    pub fn keys(&self) -> usize {
        self.history.keys()
    }

    /// Whether a crash here may leave `found`, a state for every key.
    ///
    /// # Errors
    /// The violation.
    pub fn judge(&self, found: &[KeyState]) -> Result<(), Violation> {
        let flying = self.in_flight();
        let is_allowed = |there: &[usize]| {
            check(Guarantee::Durable, &Candidate { moment: self, flying: &flying, there }).is_ok()
        };
        if found == self.expected.as_slice() && is_allowed(&[]) {
            return Ok(());
        }
        let written =
            |key: &u64| flying.iter().any(|tx| self.tx(*tx).writes.iter().any(|w| w.key == *key));
        let differing: Vec<u64> = (0..found.len() as u64)
            .filter(|key| found[*key as usize] != self.expected[*key as usize])
            .collect();
        if let Some(key) = differing.iter().find(|key| !written(key)) {
            return Err(self.unexplained(*key, found[*key as usize]));
        }
        let mut whole = false;
        let mut survivors = Survivors::of(self.by_lane(&flying));
        while let Some(there) = survivors.next() {
            if self.leaves(&flying, &there, found) {
                whole = true;
                if is_allowed(&there) {
                    return Ok(());
                }
            }
        }
        let in_flight_left = |key: u64| {
            let writes = flying.iter().flat_map(|tx| &self.tx(*tx).writes);
            writes.filter(|w| w.key == key).any(|w| w.state == found[key as usize])
        };
        if let Some(key) = differing.iter().find(|key| !whole && !in_flight_left(**key)) {
            return Err(self.unexplained(*key, found[*key as usize]));
        }
        let broken = if whole { Broken::NotClosed } else { Broken::Torn };
        Err(self.partial(broken, &flying, &differing, found))
    }

    fn tx(&self, tx: usize) -> &Known {
        &self.history.known[tx]
    }

    /// Transactions that may have done something and are not acknowledged.
    fn in_flight(&self) -> Vec<usize> {
        let known = &self.history.known;
        (self.acked..known.len()).filter(|tx| known[*tx].begun <= self.ops).collect()
    }

    /// Some of them lane by lane, each lane's in its own order.
    fn by_lane(&self, known: &[usize]) -> Vec<Vec<usize>> {
        let mut lanes: Vec<(u16, Vec<usize>)> = Vec::new();
        for tx in known {
            let lane = self.tx(*tx).lane;
            match lanes.iter_mut().find(|(known, _)| *known == lane) {
                Some((_, known)) => known.push(*tx),
                None => lanes.push((lane, vec![*tx])),
            }
        }
        lanes.into_iter().map(|(_, known)| known).collect()
    }

    /// Whether an acknowledged transaction read a write of this one.
    fn is_needed(&self, tx: usize) -> bool {
        self.tx(tx).needed_from < self.ops
    }

    fn sources_are_in(&self, tx: usize, there: &[usize]) -> bool {
        self.tx(tx).sources.iter().all(|source| *source < self.acked || there.contains(source))
    }

    /// Whether those `there`, of those in flight, together with all acknowledged ones leave the state that
    /// was found in the keys that any in flight writes.
    fn leaves(&self, flying: &[usize], there: &[usize], found: &[KeyState]) -> bool {
        let keys = flying.iter().flat_map(|tx| self.tx(*tx).writes.iter().map(|w| w.key));
        let mut keys = keys;
        keys.all(|key| {
            let acked = self.places.get(&key).copied().unwrap_or(0);
            let writes = there.iter().flat_map(|tx| &self.tx(*tx).writes);
            let last = writes.filter(|w| w.key == key && w.place > acked).max_by_key(|w| w.place);
            found[key as usize] == last.map_or(self.expected[key as usize], |w| w.state)
        })
    }

    /// A key that no transaction in flight writes is not as the acknowledged transactions left it.
    fn unexplained(&self, key: u64, found: KeyState) -> Violation {
        let expected = self.expected[key as usize];
        let place = self.places.get(&key).copied().unwrap_or(0);
        let chain = self.history.chains.get(&key).map_or(&[][..], Vec::as_slice);
        let earlier = chain.iter().take(place).any(|link| link.state == found);
        let by = chain.get(place).and_then(|link| link.writer);
        let by = by.map_or("the load phase", |tx| self.tx(tx).name.as_str());
        let (found, expected) = (shown(found), shown(expected));
        if earlier {
            let detail =
                format!("key {key} is {found}, acknowledged is {expected}, which {by} wrote");
            Violation::new(Broken::Lost, detail)
        } else {
            let detail = format!(
                "key {key} is {found} and no transaction wrote that; {by} left it {expected}"
            );
            Violation::new(Broken::Garbage, detail)
        }
    }

    fn partial(
        &self,
        broken: Broken,
        flying: &[usize],
        differing: &[u64],
        found: &[KeyState],
    ) -> Violation {
        let names: Vec<&str> = flying.iter().map(|tx| self.tx(*tx).name.as_str()).collect();
        let mut detail = format!("in flight {};", names.join(", "));
        if broken == Broken::NotClosed {
            detail += " a transaction is there without one whose writes it read;";
        } else {
            detail += " no set of them leaves this whole;";
        }
        for key in differing.iter().take(4) {
            let (old, new) = (shown(self.expected[*key as usize]), shown(found[*key as usize]));
            detail += &format!(" key {key} was {old} and is {new};");
        }
        Violation::new(broken, detail.trim_end_matches(';'))
    }
}

/// All acknowledged transactions, and those `there` of those in flight.
struct Candidate<'m> {
    moment: &'m Moment<'m>,
    flying: &'m [usize],
    there: &'m [usize],
}

impl Kept for Candidate<'_> {
    type Fault = Broken;

    /// Every set that is tried has all of them.
    fn acknowledged_missing(&self) -> Option<Broken> {
        None
    }

    fn not_closed(&self) -> Option<Broken> {
        let Self { moment, flying, there } = self;
        let is_open = |tx: &&usize| match there.contains(tx) {
            true => !moment.sources_are_in(**tx, there),
            false => moment.is_needed(**tx),
        };
        flying.iter().find(is_open).map(|_| Broken::NotClosed)
    }
}

/// Every set of transactions that a crash may leave: of each lane the first ones, since what a lane
/// has committed after something that is lost is lost too.
struct Survivors {
    lanes: Vec<Vec<usize>>,
    /// How many of each lane the next set has; `None` when there is no next one.
    counts: Option<Vec<usize>>,
}

impl Survivors {
    fn of(lanes: Vec<Vec<usize>>) -> Self {
        let counts = Some(vec![0; lanes.len()]);
        Self { lanes, counts }
    }

    fn next(&mut self) -> Option<Vec<usize>> {
        let counts = self.counts.as_mut()?;
        let chosen = self.lanes.iter().zip(&*counts).flat_map(|(lane, count)| &lane[..*count]);
        let set = chosen.copied().collect();
        let full = |place: usize, counts: &[usize]| counts[place] == self.lanes[place].len();
        match (0..counts.len()).find(|place| !full(*place, counts)) {
            Some(place) => {
                counts[..place].fill(0);
                counts[place] += 1;
            }
            None => self.counts = None,
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests;
