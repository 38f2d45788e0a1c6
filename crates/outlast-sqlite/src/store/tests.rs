use outlast::Pool;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast_pmem::{Heap, Medium};

use outlast::recover::UnrecoveredPool;
use outlast_workloads::Random;

use super::*;
use crate::changes::Base;

/// The content of a pool below changes.
#[derive(Clone, Copy)]
struct Below<'t>(&'t Store, &'t Pool<Heap>);

impl Base for Below<'_> {
    fn load_stored(&self, at: u64, out: &mut [u8]) {
        self.0.read(at, out, |at, out| self.load_block(at, out));
    }

    fn load_block(&self, at: PoolOffset, out: &mut [u8]) {
        self.1.medium().load(at, out);
    }
}

/// A file in a pool, and the same bytes beside it.
struct Twin {
    pool: Pool<Heap>,
    store: Store,
    shadow: Vec<u8>,
}

impl Twin {
    fn new() -> Self {
        let create = CreateOptions { lanes: 2, ..CreateOptions::default() };
        let open = OpenOptions { lock_stripes: 1 << 10, ..OpenOptions::default() };
        let pool = Pool::create_on(Heap::new(8 << 20), &create, &open).unwrap();
        let store = pool.lane().unwrap().run(Store::create).unwrap();
        Self { pool, store, shadow: Vec::new() }
    }

    /// One transaction: `Ok` writes bytes, `Err` sets the length.
    fn commit(&mut self, steps: &[Result<(u64, Vec<u8>), u64>]) {
        let mut changes = Changes::default();
        let (store, pool) = (&self.store, &self.pool);
        let load = |at, out: &mut [u8]| store.read(at, out, |at, out| pool.medium().load(at, out));
        for step in steps {
            match step {
                Ok((at, bytes)) => {
                    changes.write(*at, bytes, store.len(), load).unwrap();
                    let end = *at as usize + bytes.len();
                    let len = self.shadow.len().max(end);
                    self.shadow.resize(len, 0);
                    self.shadow[*at as usize..end].copy_from_slice(bytes);
                }
                Err(len) => {
                    changes.set_len(*len, store.len());
                    self.shadow.resize(*len as usize, 0);
                }
            }
            let mut seen = vec![7; self.shadow.len() + 9];
            changes.read(0, &mut seen, store.len(), load);
            assert!(seen[..self.shadow.len()] == self.shadow, "the transaction sees otherwise");
            assert_eq!(seen[self.shadow.len()..], [0; 9]);
        }
        self.store.commit(&mut self.pool.lane().unwrap(), &changes).unwrap();
        self.compare();
    }

    /// Compares the stored file, also after the pool is opened anew.
    fn compare(&self) {
        let mut lane = self.pool.lane().unwrap();
        let found = lane.run(|tx| match Store::open(tx) {
            Err(StoreError::Abort(abort)) => Err(abort),
            other => Ok(other.unwrap().unwrap()),
        });
        for store in [&self.store, &found.unwrap()] {
            assert_eq!(store.len(), self.shadow.len() as u64);
            let mut seen = vec![7; self.shadow.len() + 9];
            store.read(0, &mut seen, |at, out| self.pool.medium().load(at, out));
            assert!(seen[..self.shadow.len()] == self.shadow, "it is stored otherwise");
        }
    }
}

#[test]
fn a_file_grows_shrinks_and_has_holes_as_its_shadow_does() {
    let mut twin = Twin::new();
    let bytes = |seed: u8, len: usize| {
        (0..len).map(|place| (place as u8).wrapping_mul(31) ^ seed | 1).collect::<Vec<u8>>()
    };
    twin.commit(&[Ok((0, bytes(1, 10_000)))]);
    twin.commit(&[Ok((4096, bytes(2, 4096))), Ok((300_000, bytes(3, 5000)))]);
    twin.commit(&[Err(5001)]);
    // What was cut off is zero when the file is longer again.
    twin.commit(&[Ok((9000, bytes(4, 10)))]);
    twin.commit(&[Err(70_000), Ok((69_999, bytes(5, 70_000)))]);
    twin.commit(&[Err(100), Ok((66_000, bytes(6, 512))), Err(66_100), Err(140_000)]);
    twin.commit(&[Err(0)]);
    twin.commit(&[Ok((3_000_000, bytes(7, 1)))]);
    assert_eq!(twin.store.extents.iter().filter(|extent| **extent != 0).count(), 1);
}

/// A granule of which parts are kept is written again, cut, made longer, and beside a hole.
#[test]
fn parts_of_a_granule_are_seen_and_stored_as_the_whole_would_be() {
    let mut twin = Twin::new();
    let granule = |seed: u8| vec![seed; GRANULE_BYTES];
    let with = |places: &[usize]| {
        let mut bytes = granule(1);
        places.iter().for_each(|place| bytes[*place] = 9);
        bytes
    };
    twin.commit(&[Ok((0, [granule(1), granule(1), granule(1)].concat()))]);
    twin.commit(&[Ok((4096, with(&[0, 700, 4095])))]);
    let parted = (4096, with(&[3, 2000, 2008, 4000]));
    twin.commit(&[Ok(parted.clone()), Ok((4100, vec![5; 90]))]);
    twin.commit(&[Ok(parted.clone()), Ok((4096, with(&[64])))]);
    // The cut goes through a part, leaves others, and takes the rest.
    twin.commit(&[Ok((8192, with(&[8, 1000]))), Ok(parted.clone()), Err(4096 + 2004)]);
    twin.commit(&[Ok((0, with(&[40, 50, 3000]))), Err(45), Err(9000), Ok((30, vec![6; 10]))]);
    twin.commit(&[Ok((0, with(&[44]))), Err(0), Ok((0, with(&[45])))]);
    // Parts over a hole are parts over zeros.
    twin.commit(&[Err(5 * EXTENT_BYTES)]);
    twin.commit(&[Ok((EXTENT_BYTES, with(&[7]))), Ok((EXTENT_BYTES + 8192, granule(0)))]);
}

/// The directory grows when a file has more tables than it has entries for.
#[test]
fn a_directory_gets_longer() {
    let mut twin = Twin::new();
    let far = DIRECTORY_ENTRIES_MIN as u64 * TABLE_ENTRIES as u64 * EXTENT_BYTES;
    let mut changes = Changes::default();
    changes.write(100, &[1; 9], 0, |_: u64, _: &mut [u8]| ()).unwrap();
    changes.write(5 * far, &[2; 9], 0, |_: u64, _: &mut [u8]| ()).unwrap();
    twin.store.commit(&mut twin.pool.lane().unwrap(), &changes).unwrap();
    let mut lane = twin.pool.lane().unwrap();
    let found = lane.run(|tx| Ok(Store::open(tx).unwrap().unwrap())).unwrap();
    for store in [&twin.store, &found] {
        assert_eq!(store.len(), 5 * far + 9);
        for (at, wanted) in [(100, 1), (4000, 0), (far, 0), (5 * far, 2)] {
            let mut byte = [7];
            store.read(at, &mut byte, |at, out| twin.pool.medium().load(at, out));
            assert_eq!(byte, [wanted], "at {at}");
        }
    }
}

/// Transactions by chance that spill now and then, end in a commit or are given up, and pass through an opening. In
/// the end no extent is left but the file's.
#[test]
fn spilled_changes_are_the_transaction_s_until_it_commits() {
    const FILE: u64 = 6 * EXTENT_BYTES;
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let mut twin = Twin::new();
        for _ in 0..6 {
            let (mut changes, mut shadow) = (Changes::default(), twin.shadow.clone());
            for _ in 0..14 {
                let stored_len = twin.store.len();
                match random.below(6) {
                    0 => {
                        let len = random.below(FILE);
                        changes.set_len(len, stored_len);
                        shadow.resize(len as usize, 0);
                    }
                    1 | 2 => {
                        let mut lane = twin.pool.lane().unwrap();
                        twin.store.spill(&mut lane, &mut changes).unwrap();
                        assert_eq!(changes.bytes(), 0);
                        assert!(twin.store.has_spilled() || changes.all_spilled().is_empty());
                    }
                    kind => {
                        let granule = GRANULE_BYTES as u64;
                        let (at, len) = match kind {
                            3 => (random.below(FILE), random.below(9_000) + 1),
                            _ => (
                                random.below(FILE / granule) * granule,
                                granule * (1 + random.below(4)),
                            ),
                        };
                        let bytes: Vec<u8> = (0..len).map(|_| random.below(4) as u8).collect();
                        let below = Below(&twin.store, &twin.pool);
                        changes.write(at, &bytes, stored_len, below).unwrap();
                        let (at, end) = (at as usize, at as usize + bytes.len());
                        shadow.resize(shadow.len().max(end), 0);
                        shadow[at..end].copy_from_slice(&bytes);
                    }
                }
                let mut seen = vec![7; shadow.len() + 9];
                changes.read(0, &mut seen, stored_len, Below(&twin.store, &twin.pool));
                assert!(
                    seen[..shadow.len()] == shadow,
                    "seed {seed}: the transaction sees otherwise"
                );
                assert_eq!(seen[shadow.len()..], [0; 9]);
                // What is spilled is not seen.
                twin.compare();
            }
            let mut lane = twin.pool.lane().unwrap();
            if random.below(3) == 0 {
                twin.store.free_spilled(&mut lane).unwrap();
            } else {
                twin.store.commit(&mut lane, &changes).unwrap();
                twin.shadow = shadow;
            }
            drop(lane);
            assert!(!twin.store.has_spilled());
            twin.compare();
        }
        let extents = twin.store.extents.iter().filter(|extent| **extent != 0).count();
        let tables = twin.store.tables.iter().filter(|table| **table != 0).count();
        let pool = UnrecoveredPool::open(twin.pool.close()).unwrap().recover().unwrap();
        let allocated = pool.allocated_blocks(&mut Default::default());
        assert_eq!(allocated.len(), 2 + tables + extents, "seed {seed}: blocks are left");
    }
}
