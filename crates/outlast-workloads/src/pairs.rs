//! `hash`, `btree`, `rbtree` and `b-tree-zipf`: a dictionary of u64 keys under nothing but additions and
//! removals.
//!
//! Keys are drawn from `records`, evenly or (rows that end in `-zipf`) with YCSB's skew, the
//! popular ones scattered over all. Half of them are there at first; an addition of a key
//! that is there and a removal of one that is not change nothing and count all the same. Keys
//! are big-endian, so that a B+tree has them in the order of their numbers.

use outlast::collections::{
    Damage, Dictionary, Placement, RB_VALUE_BYTES_MAX, ReadRaw, load_value, walk_root,
};
use outlast::{Abort, ByteRange, PoolOffset, RootKind, Runner, Transact};

use crate::audit::{TORN, damage, is_dictionary};
use crate::clrs::{self, ClrsTree};
use crate::content::{VALUE_BYTES_MIN, fill, version_of};
use crate::facts::Versions;
use crate::family::{Family, OnMachine, Thread, Unfit};
use crate::load::{create_store, load_pairs, open_store};
use crate::store::{Store, Structure};
use crate::workload::{keys_in_words, within};
use crate::ycsb::judge;
use crate::zipf::{Zipfian, fnv_hash};
use crate::{OpKind, Random, Scale, State, Version, Witness};

/// An audit's finding of a key that no worker draws.
const STRANGE: &str = "a key that no worker added";

/// The family: the dictionary that keeps the pairs, and how keys are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pairs {
    pub(crate) structure: Structure,
    pub(crate) draws: Draws,
    /// Whether the published scale has them in the nodes, where they are small.
    pub(crate) is_inline: bool,
}

/// How keys are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Draws {
    /// Each as often as the others.
    Evenly,
    /// With YCSB's skew, the popular ones scattered over all.
    Zipfian,
}

impl Family for Pairs {
    type Data = Store;
    type Worker = PairsWorker;

    fn scale(self, common: Scale) -> Scale {
        let placement = match self.is_inline {
            true => self.inline_placement(&common),
            false => Placement::Together,
        };
        let structure = self.structure;
        Scale { records: 200_000, operations: 200_000, structure, placement, ..common }
    }

    fn scale_of(self, keys: u64, published: Scale) -> Scale {
        Scale { records: 2 * keys, ..published }
    }

    fn describe(self, name: &str, scale: &Scale) -> String {
        let Scale { records, value_bytes, .. } = scale;
        let half = records / 2;
        let keys = keys_in_words(scale.keys);
        let placed = match placement_of(scale) {
            Placement::Inline { .. } => ", in the nodes",
            _ => "",
        };
        format!("{name}: {half} of {records} keys, {value_bytes} bytes each{placed}{keys}")
    }

    fn check(self, scale: &Scale) -> Result<(), Unfit> {
        let value_bytes = scale.value_bytes;
        within("records", scale.records, 1..=1 << 32, "1 to 4,294,967,296 are possible")?;
        let possible = VALUE_BYTES_MIN as u64..=1 << 20;
        within("value bytes", value_bytes, possible, "8 to 1,048,576 are possible")?;
        if self.structure == Structure::RbTree {
            let possible = 0..=RB_VALUE_BYTES_MAX;
            within("value bytes", value_bytes, possible, "8 to 65,536 are possible")?;
        }
        if self.structure == Structure::ClrsTree {
            let possible = 0..=clrs::VALUE_BYTES_MAX;
            within("value bytes", value_bytes, possible, "8 to 1,024 are possible")?;
        }
        Ok(())
    }

    fn keys_apart(self) -> Option<u64> {
        (self.draws == Draws::Evenly).then_some(1)
    }

    fn inline_placement(self, scale: &Scale) -> Placement {
        match self.structure {
            Structure::HashMap | Structure::BTree => {
                Placement::of_lengths(KEY_BYTES, scale.value_bytes as usize)
            }
            Structure::RbTree | Structure::ClrsTree => Placement::Together,
        }
    }

    fn heap_bytes(self, scale: &Scale) -> u64 {
        (1 << 20) + scale.records * ((scale.value_bytes + 32) * 5 / 4 + 64)
    }

    fn on_machine(self) -> OnMachine {
        // Nodes of a B-tree hold keys and values without headers, pointers or hashes of their own.
        let key_bytes = if self.structure == Structure::ClrsTree { 32 } else { 64 };
        OnMachine { footprint: 16 << 20, key_bytes }
    }

    fn load<R: Runner>(
        self,
        scale: &Scale,
        seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Store, Abort> {
        let placed = Scale { placement: placement_of(scale), ..*scale };
        let store = create_store(runner, self.structure, scale.records / 2, &placed)?;
        let mut keys = initial_keys(scale.records, seed);
        // Shares of the keys that never meet are not mixed in memory either.
        keys.sort_by_key(|key| scale.keys.share_of(*key, scale.records));
        let bytes = scale.value_bytes as usize;
        load_pairs(runner, store, keys.into_iter(), bytes, progress, |key, value| {
            fill(key, Version::LOADED, value);
            key.to_be_bytes()
        })?;
        Ok(store)
    }

    fn attach<T: Transact>(
        self,
        _scale: &Scale,
        root: (PoolOffset, RootKind),
        tx: &mut T,
    ) -> Result<Option<Store>, Abort> {
        open_store(tx, self.structure, root)
    }

    fn worker(self, scale: &Scale, store: &Store, seed: u64, id: u8, used: u64) -> PairsWorker {
        let keys = scale.keys.of(id, scale.records, 1);
        let random = Random::stream(seed, u64::from(id));
        let zipfian = (self.draws == Draws::Zipfian).then(|| Zipfian::new(scale.records));
        PairsWorker::new(scale, keys, zipfian, *store, random, Versions::new(id, used))
    }

    fn audit<R: ReadRaw>(
        self,
        scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        read: &mut R,
        visit: &mut dyn FnMut(u64, Version),
    ) -> Result<bool, Damage> {
        let mut value = Vec::new();
        let mut entry = |read: &mut R, key: u64, place: ByteRange| {
            if key >= scale.records {
                return Err(damage(place.at, STRANGE));
            }
            crate::audit::load(read, place, scale.value_bytes, &mut value)?;
            let version = version_of(key, &value);
            visit(key, version.ok_or_else(|| damage(place.at, TORN))?);
            Ok(())
        };
        if self.structure == Structure::ClrsTree {
            return Ok(kind == RootKind::Opaque && ClrsTree::walk(root, read, |_, _| {}, entry)?);
        }
        if !is_dictionary(kind) {
            return Ok(false);
        }
        let of_word = |read: &mut R, key: &[u8], place: ByteRange| {
            let key = key.try_into().map_err(|_| damage(place.at, STRANGE))?;
            entry(read, u64::from_be_bytes(key), place)
        };
        walk_root(kind, root, read, |_, _| {}, of_word)?;
        Ok(true)
    }

    fn initial(self, scale: &Scale, seed: u64, visit: &mut dyn FnMut(u64, State)) {
        let keys = initial_keys(scale.records, seed);
        keys.into_iter().for_each(|key| visit(key, State::Holds(Version::LOADED)));
    }
}

/// Bytes of a key.
const KEY_BYTES: usize = 8;

/// Values that are too long for it lie in no node.
fn placement_of(scale: &Scale) -> Placement {
    match scale.placement {
        Placement::Inline { .. } => Placement::of_lengths(KEY_BYTES, scale.value_bytes as usize),
        placement => placement,
    }
}

/// One thread of additions and removals.
pub(crate) struct PairsWorker {
    store: Store,
    first: u64,
    keys: u64,
    zipfian: Option<Zipfian>,
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
        zipfian: Option<Zipfian>,
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
            zipfian,
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
}

impl Thread for PairsWorker {
    fn draw(&mut self) {
        self.key = match &self.zipfian {
            None => self.first + self.random.below(self.keys),
            Some(zipfian) => fnv_hash(zipfian.draw(&mut self.random)) % self.keys,
        };
        let adds = self.random.next_u64() >> 63 == 0;
        self.adds = adds.then(|| self.versions.next());
        if let Some(version) = self.adds {
            fill(self.key, version, &mut self.value);
        }
    }

    fn step<R: Runner, W: Witness>(
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

    fn versions(&self) -> Option<&Versions> {
        Some(&self.versions)
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
