use outlast::{CreateOptions, OpenOptions, Pool};
use outlast_pmem::{Heap, Medium};

use super::*;

/// The runs of two texts, as the word-by-word definition has them.
fn runs(new: &[u8], old: &[u8]) -> Vec<(usize, usize)> {
    let mut runs = Vec::new();
    runs_that_differ(new, old, |from, to| runs.push((from, to)));
    runs
}

#[test]
fn runs_are_whole_words_and_small_gaps_are_stored_with_them() {
    let old = [0; 84];
    let with = |places: &[usize]| {
        let mut new = old;
        places.iter().for_each(|place| new[*place] = 1);
        runs(&new, &old)
    };
    assert_eq!(with(&[]), []);
    assert_eq!(with(&[0]), [(0, 8)]);
    assert_eq!(with(&[15, 16]), [(8, 24)]);
    assert_eq!(with(&[0, 24]), [(0, 32)], "two equal words between");
    assert_eq!(with(&[0, 32]), [(0, 8), (32, 40)], "three");
    assert_eq!(with(&[83]), [(80, 84)], "the last word is short");
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

    /// What is stored, also for one that opens the pool anew.
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

/// The directory grows when a file has more tables than it has entries for.
#[test]
fn a_directory_gets_longer() {
    let mut twin = Twin::new();
    let far = DIRECTORY_ENTRIES_MIN as u64 * TABLE_ENTRIES as u64 * EXTENT_BYTES;
    let mut changes = Changes::default();
    changes.write(100, &[1; 9], 0, |_, _| ()).unwrap();
    changes.write(5 * far, &[2; 9], 0, |_, _| ()).unwrap();
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
