//! Walks from the root of a database: extents, changes that wait for a super-journal, spilled extents. A sound pool has no
//! findings; a planted leak and an extent with two owners are found.

use outlast::inspect::{CheckReport, Finding};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::{RecoveredPool, UnrecoveredPool};
use outlast::{BlockKind, Pool, PoolOffset, Runner, Transact};
use outlast_pmem::{Heap, Medium};
use outlast_sqlite::WALKER;
use outlast_sqlite::changes::Changes;
use outlast_sqlite::store::Store;

const EXTENT: u64 = 64 << 10;

struct Database {
    pool: Pool<Heap>,
    store: Store,
}

impl Database {
    fn new() -> Self {
        let create = CreateOptions { lanes: 2, chunk_bytes: Some(64 << 10), ..Default::default() };
        let open = OpenOptions { lock_stripes: 1 << 10, ..OpenOptions::default() };
        let pool = Pool::create_on(Heap::new(16 << 20), &create, &open).unwrap();
        let store = pool.lane().unwrap().run(Store::create).unwrap();
        Self { pool, store }
    }

    /// Changes that write these bytes at these places.
    fn changes(&self, writes: &[(u64, usize)]) -> Changes {
        let mut changes = Changes::default();
        let (store, pool) = (&self.store, &self.pool);
        let load = |at, out: &mut [u8]| store.read(at, out, |at, out| pool.medium().load(at, out));
        for (at, len) in writes {
            changes.write(*at, &vec![7; *len], store.len(), load).unwrap();
        }
        changes
    }

    fn commit(&mut self, writes: &[(u64, usize)]) {
        let changes = self.changes(writes);
        self.store.commit(&mut self.pool.lane().unwrap(), &changes).unwrap();
    }

    fn copy(&self) -> RecoveredPool<Heap> {
        let image = Heap::from_bytes(&self.pool.medium().to_bytes());
        UnrecoveredPool::open(image).unwrap().recover().unwrap()
    }

    fn check(&self, when: &str) {
        let report = check(&self.copy());
        assert_eq!(report.findings, [], "{when}");
        assert_eq!(report.reachable, Some(report.blocks), "{when}");
        assert_eq!(report.root.map(|root| root.0), Some("sqlite"), "{when}");
    }
}

fn check(pool: &RecoveredPool<Heap>) -> CheckReport {
    pool.check_by(&[WALKER], &mut |_| {})
}

fn filled() -> Database {
    let mut database = Database::new();
    database.commit(&[(0, 200_000), (9 * EXTENT, 100), (513 * EXTENT, 9)]);
    database
}

#[test]
fn a_sound_database_is_silent() {
    let mut database = Database::new();
    database.check("empty");
    database.commit(&[(0, 200_000), (9 * EXTENT, 100), (5000 * EXTENT, 9)]);
    database.check("with holes and a longer directory");
    let mut changes = database.changes(&[(0, 3 * EXTENT as usize)]);
    database.store.spill(&mut database.pool.lane().unwrap(), &mut changes).unwrap();
    assert!(database.store.has_spilled());
    database.check("with spilled extents");
    let store = &database.store;
    let prepared = database.pool.lane().unwrap();
    let mut lane = prepared;
    let next = lane.run(|tx| store.prepare(tx, &changes, b"some-journal")).unwrap();
    drop(lane);
    database.store.adopt(next);
    database.check("with changes that wait");
    database.store.settle(&mut database.pool.lane().unwrap(), |_| Ok(false)).unwrap();
    database.check("settled");
    let changes = {
        let mut changes = Changes::default();
        changes.set_len(100, database.store.len());
        changes
    };
    database.store.commit(&mut database.pool.lane().unwrap(), &changes).unwrap();
    database.check("cut off");
}

#[test]
fn planted_leaks_are_found() {
    let database = filled();
    let leaks = [64, 4096, 65_536].map(|bytes| {
        database.pool.lane().unwrap().run(|tx| tx.alloc(bytes, BlockKind::Value)).unwrap()
    });
    let report = check(&database.copy());
    assert_eq!(report.findings.count(), 3);
    for finding in &report.findings {
        assert!(matches!(finding, Finding::Leaked { at, .. } if leaks.contains(at)), "{finding}");
    }
    let len = 513 * EXTENT + 9;
    let about = format!("a SQLite database of {len} bytes");
    assert_eq!(report.root, Some(("sqlite", about)));
}

#[test]
fn extents_with_two_owners_are_found() {
    let database = filled();
    let pool = database.copy();
    let all = pool.blocks_by(&[WALKER], &mut CheckReport::default());
    let of = |path: &str| {
        all.iter().find(|block| block.path.as_deref() == Some(path)).expect("it is there").at
    };
    let (one, other, table) = (of("extents[2]"), of("extents[9]"), of("directory[0]"));
    assert_eq!(pool.medium().load_u64(table.plus(9 * 8)), other.0);
    pool.medium().store_u64(table.plus(9 * 8), one.0);
    let report = check(&pool);
    let expected =
        [Finding::ReachedTwice { at: one }, Finding::Leaked { at: other, bytes: 65_536 }];
    assert_eq!(report.findings, expected);
    assert_eq!(report.paths[&one], "extents[9]");
    // A table that leads out of the pool.
    pool.medium().store_u64(table, 1 << 40);
    let outside = Finding::NotAllocated { at: PoolOffset(1 << 40), bytes: EXTENT };
    assert!(check(&pool).findings.contains(&outside));
}
