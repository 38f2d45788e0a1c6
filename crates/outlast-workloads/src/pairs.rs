//! `hash`, `btree` and `rbtree`: a dictionary of u64 keys under nothing but additions and
//! removals.
//!
//! Keys are drawn evenly from `records`, of which half are there at first; an addition of a key
//! that is there and a removal of one that is not change nothing and count all the same. Keys
//! are big-endian, so that a B+tree has them in the order of their numbers.

use outlast::collections::{Dictionary, load_value};
use outlast::{Abort, Runner};

use crate::content::fill;
use crate::facts::Versions;
use crate::store::Store;
use crate::ycsb::judge;
use crate::{OpKind, Random, Scale, State, Version, Witness};

/// One thread of additions and removals.
pub(crate) struct PairsWorker {
    store: Store,
    first: u64,
    keys: u64,
    random: Random,
    versions: Versions,
    key: u64,
    /// The version of the value to add; `None` removes.
    adds: Option<Version>,
    value: Vec<u8>,
    seen: Vec<u8>,
}

impl PairsWorker {
    /// `drawn` are the first key to draw and how many there are.
    pub(crate) fn new(
        scale: &Scale,
        drawn: (u64, u64),
        store: Store,
        random: Random,
        versions: Versions,
    ) -> Self {
        let (first, keys) = drawn;
        let value = vec![0; scale.value_bytes as usize];
        let mut worker = Self {
            store,
            first,
            keys,
            random,
            versions,
            key: 0,
            adds: None,
            seen: value.clone(),
            value,
        };
        worker.draw();
        worker
    }

    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    pub(crate) fn draw(&mut self) {
        self.key = self.first + self.random.below(self.keys);
        let adds = self.random.next_u64() >> 63 == 0;
        self.adds = adds.then(|| self.versions.next());
        if let Some(version) = self.adds {
            fill(self.key, version, &mut self.value);
        }
    }

    pub(crate) fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        let (store, key, adds) = (self.store, self.key, self.adds);
        let key_bytes = key.to_be_bytes();
        let (value, seen) = (&self.value, &mut self.seen);
        runner.run(|tx| {
            witness.restart();
            if W::WATCHES {
                let found = store.find(tx, &key_bytes)?;
                let state = match found {
                    Some(place) => {
                        load_value(tx, place, seen)?;
                        State::Holds(judge(key, seen)?)
                    }
                    None => State::Absent,
                };
                witness.read(key, state);
                match (adds, found) {
                    (Some(version), None) => witness.write(key, State::Holds(version)),
                    (None, Some(_)) => witness.write(key, State::Absent),
                    _ => {}
                }
            }
            match adds {
                Some(_) => store.add(tx, &key_bytes, value),
                None => store.remove(tx, &key_bytes),
            }
        })?;
        Ok(if adds.is_some() { OpKind::Add } else { OpKind::Remove })
    }
}

/// The keys that are there at first, in the order in which they are added: half of all, chosen
/// and shuffled by `seed`.
pub(crate) fn initial_keys(keys: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::stream(seed, u64::MAX);
    let mut wanted = keys / 2;
    let mut chosen = Vec::with_capacity(wanted as usize);
    for key in 0..keys {
        if random.below(keys - key) < wanted {
            chosen.push(key);
            wanted -= 1;
        }
    }
    for i in (1..chosen.len()).rev() {
        chosen.swap(i, random.below(i as u64 + 1) as usize);
    }
    chosen
}
