use outlast::{CreateOptions, OpenOptions, Pool};
use outlast_pmem::{Heap, Medium};

use super::*;

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
