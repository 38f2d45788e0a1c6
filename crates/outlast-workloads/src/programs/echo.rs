//! A key-value store that keeps versions, in the manner of WHISPER's echo: a hash map from keys
//! to the newest of a chain of versions, each with its time. A transaction is one client's batch
//! of puts; a chain that is long enough loses its oldest version.

use outlast::collections::{ByteMap, ByteMapOptions, Dictionary};
use outlast::{Abort, BlockKind, PoolOffset, RootKind, Runner, Transact};

use super::fill;
use crate::Random;

/// Puts of a batch.
const BATCH: usize = 4;
/// Versions that a chain keeps.
const VERSIONS: u64 = 3;
/// A version: the older one, its time, its depth, its value.
const HEAD_BYTES: u64 = 24;

/// Bytes of a key with its versions, about.
pub(super) fn key_footprint(value_bytes: u64) -> u64 {
    64 + VERSIONS * (HEAD_BYTES + value_bytes)
}

#[derive(Clone, Debug)]
pub(super) struct Echo {
    map: ByteMap,
    clock: PoolOffset,
    keys: u64,
    value: Vec<u8>,
    pub(super) random: Random,
    steps: u64,
}

impl Echo {
    pub(super) fn load<R: Runner>(
        keys: u64,
        value_bytes: u64,
        random: Random,
        runner: &mut R,
    ) -> Result<Self, Abort> {
        let (map, clock) = runner.run(|tx| {
            let options = ByteMapOptions { expected_keys: keys, ..ByteMapOptions::default() };
            let map = ByteMap::create(tx, &options)?;
            tx.set_root(map.root(), RootKind::HashMap)?;
            let clock = tx.alloc(16, BlockKind::General)?;
            tx.store_u64(clock, 1)?;
            Ok((map, clock))
        })?;
        let value = vec![0; value_bytes as usize];
        let mut echo = Self { map, clock, keys, value, random, steps: 0 };
        for key in 0..keys {
            fill(&mut echo.value, key);
            runner.run(|tx| put(tx, map, key, 0, &echo.value))?;
        }
        Ok(echo)
    }

    pub(super) fn step<R: Runner>(&mut self, runner: &mut R) -> Result<(), Abort> {
        let keys: [u64; BATCH] = std::array::from_fn(|_| self.random.below(self.keys));
        self.steps += 1;
        fill(&mut self.value, self.steps << 32);
        let (map, clock, value) = (self.map, self.clock, &self.value);
        runner.run(|tx| {
            let time = tx.load_u64(clock)?;
            tx.store_u64(clock, time + 1)?;
            keys.iter().try_for_each(|key| put(tx, map, *key, time, value))
        })
    }
}

fn put<T: Transact>(
    tx: &mut T,
    map: ByteMap,
    key: u64,
    time: u64,
    value: &[u8],
) -> Result<(), Abort> {
    let key = key.to_be_bytes();
    let place = map.find(tx, &key)?;
    let newest = match place {
        Some(place) => tx.load_u64(place.at)?,
        None => 0,
    };
    let depth = if newest == 0 { 0 } else { tx.load_u64(PoolOffset(newest + 16))? };
    let version = tx.alloc(HEAD_BYTES + value.len() as u64, BlockKind::Value)?;
    tx.store_u64(version, newest)?;
    tx.store_u64(version.plus(8), time)?;
    tx.store_u64(version.plus(16), (depth + 1).min(VERSIONS))?;
    tx.store(version.plus(HEAD_BYTES), value)?;
    if depth == VERSIONS {
        let mut above = PoolOffset(newest);
        for _ in 2..VERSIONS {
            above = PoolOffset(tx.load_u64(above)?);
        }
        let oldest = tx.load_u64(above)?;
        tx.store_u64(above, 0)?;
        tx.free(PoolOffset(oldest))?;
    }
    match place {
        Some(place) => tx.store_u64(place.at, version.0),
        None => map.add(tx, &key, &version.0.to_le_bytes()).map(drop),
    }
}
