//! Steps of tests that several structures share.

use std::collections::BTreeMap;

use outlast::collections::{Damage, Reach, walk_root};
use outlast::{Abort, ByteRange, PoolOffset, RootKind};
use outlast_workloads::Volatile;
use proptest::test_runner::{Config, FileFailurePersistence};

/// The entries that a walk through raw memory finds.
#[derive(Default, PartialEq, Debug)]
pub struct Walked {
    pub blocks: BTreeMap<PoolOffset, u64>,
    /// Keys and values, in the order of the walk.
    pub entries: Vec<(Vec<u8>, Vec<u8>)>,
}

pub fn walk(memory: &[u8], (root, kind): (PoolOffset, RootKind)) -> Result<Walked, Damage> {
    let mut read = |at: PoolOffset, out: &mut [u8]| {
        let from = at.0 as usize;
        let bytes = memory.get(from..).and_then(|bytes| bytes.get(..out.len()));
        bytes.map(|bytes| out.copy_from_slice(bytes)).is_some()
    };
    let mut walked = Walked::default();
    let Walked { blocks, entries } = &mut walked;
    let reach = walk_root(
        kind,
        root,
        &mut read,
        |at, bytes| assert!(blocks.insert(at, bytes).is_none(), "{at} visited twice"),
        |read, key, value: ByteRange| {
            let mut bytes = vec![0; value.len as usize];
            assert!(bytes.is_empty() || read(value.at, &mut bytes), "a value is inside the pool");
            entries.push((key.to_vec(), bytes));
            Ok(())
        },
    )?;
    assert_eq!(reach, Reach::Whole);
    Ok(walked)
}

/// Adds `count` pairs one by one, before each of which the pool gets room for up to six times
/// `more` bytes, often too few. Returns what was added; at least `refused_min` were refused.
pub fn add_in_little_room<K: Ord>(
    pool: &mut Volatile,
    count: u64,
    more: u64,
    refused_min: usize,
    mut add: impl FnMut(&mut Volatile, u64) -> Result<(K, Vec<u8>), Abort>,
) -> BTreeMap<K, Vec<u8>> {
    let mut added = BTreeMap::new();
    let mut refused = 0;
    for n in 0..count {
        pool.set_capacity(pool.len() + (n % 7) * more);
        match add(pool, n) {
            Ok((key, value)) => drop(added.insert(key, value)),
            Err(Abort::OutOfSpace { .. }) => refused += 1,
            Err(abort) => panic!("{abort}"),
        }
    }
    assert!(refused > refused_min && added.len() > 100, "{refused} refused, {} kept", added.len());
    added
}

/// A configuration of `cases` cases; failures stay beside the tests.
pub fn cases(cases: u32) -> Config {
    let failure_persistence =
        Some(Box::new(FileFailurePersistence::WithSource("regressions")) as _);
    Config { cases, failure_persistence, ..Config::default() }
}
