//! Scripts of SQL, crashed wherever the pool can crash.
//!
//! Fault model: `docs/fault-model.md`, as for the runtime. A script runs under plain SQLite, which leaves a file
//! after each statement; these files are the shadow. Their differences are committed to a pool on a recording
//! medium as the VFS commits pages. Each image that a crash may leave is recovered, and its file must be that of the
//! transactions acknowledged, or one more. Recoveries are crashed, too, those that settle a transaction over several
//! databases among them. Every file of the shadow has passed `PRAGMA integrity_check`.

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::{Pool, PoolOffset, Runner, Scheme};
use outlast_crash::front::{Program, by_chance, steps_ahead};
use outlast_crash::{Broken, ImageMedium, Violation};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_sqlite::changes::{Base, Changes};
use outlast_sqlite::client::{ClientError, Sqlite};
use outlast_sqlite::store::{Scratch, Store, StoreError};
use outlast_trace::TxId;
use outlast_workloads::Random;

const SCRIPT: &str = "pragma page_size=512; pragma auto_vacuum=incremental; create table t(a integer primary key, b, c);
    create index i on t(b);
    insert into t values (1, 'one', 'x'), (2, 'two', 'y'), (3, 'three', 'z');
    with recursive n(x) as (select 10 union all select x + 1 from n where x < 40)
        insert into t select x, hex(x * x * 7919), hex(zeroblob(x * 7)) from n;
    update t set b = b || 'new' where a % 3 = 0;
    update t set c = 'changed' where a = 17;
    create table u as select b, a from t order by b;
    delete from t where a between 12 and 30;
    pragma incremental_vacuum(5);
    drop table u;
    vacuum;
    replace into t values (3, 'other', hex(zeroblob(3000)));
    reindex;
    delete from t;
    pragma page_size=1024; vacuum;
    insert into t values (7, 'seven', hex(zeroblob(900)));";

/// A script that a seed draws: rows come, change and go, in transactions of one statement and of several.
fn script(seed: u64) -> String {
    let mut random = Random::stream(0x5351_4c00, seed);
    let mut script = format!(
        "pragma page_size={}; pragma auto_vacuum={}; create table t(a integer primary key, b, c);
        create index i on t(b)",
        512 << random.below(3),
        random.below(3)
    );
    let mut is_in = false;
    for _ in 0..24 {
        let (a, b) = (random.below(50), random.below(50));
        // Most values are short, some take overflow pages.
        let bytes_max = if random.below(4) == 0 { 3_000 } else { 200 };
        let bytes = random.below(bytes_max);
        let statement = match random.below(12) {
            0..=2 => format!("replace into t values ({a}, hex({b} * 7919), hex(zeroblob({bytes})))"),
            3 => format!(
                "with recursive n(x) as (select {a} union all select x + 1 from n where x < {a} + {b} / 4)
                replace into t select x, hex(x * {b}), hex(zeroblob(x * 3)) from n"
            ),
            4 | 5 => format!("update t set b = b || 'n{a}' where a % 7 = {b} % 7"),
            6 => format!("update t set c = c || 'c' where a = {a}"),
            7 => format!("delete from t where a between {a} and {a} + 5"),
            8 if !is_in => "vacuum".to_owned(),
            8 => format!("savepoint s; delete from t where a > {a}; rollback to s; release s"),
            9 => "drop table if exists u; create table u as select b, a from t order by b".to_owned(),
            10 => "reindex".to_owned(),
            _ if is_in => {
                is_in = false;
                "commit".to_owned()
            }
            _ => {
                is_in = true;
                "begin".to_owned()
            }
        };
        script += "; ";
        script += &statement;
    }
    if is_in { script + "; commit" } else { script }
}

/// The file after each statement that has changed it.
fn files_of(sqlite: &Sqlite, script: &str) -> Result<Vec<Vec<u8>>, ClientError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shadow.db");
    let client = sqlite.open(&path.display().to_string())?;
    let mut files = vec![Vec::new()];
    for statement in script.split(';') {
        client.run(statement)?;
        let file = std::fs::read(&path).unwrap();
        if files.last() != Some(&file) {
            assert_eq!(client.run("pragma integrity_check")?, ["ok"]);
            files.push(file);
        }
    }
    Ok(files)
}

/// The pages that differ, and the length. `part` takes some of them: all in one transaction, or not.
fn changes(before: &[u8], after: &[u8], part: impl Fn(usize) -> bool) -> Changes {
    const PAGE: usize = 512;
    let mut changes = Changes::default();
    let load = |at: u64, out: &mut [u8]| {
        let there = before.get(at as usize..).unwrap_or_default();
        let len = there.len().min(out.len());
        out[..len].copy_from_slice(&there[..len]);
        out[len..].fill(0);
    };
    let stored_len = before.len() as u64;
    for (page, bytes) in after.chunks(PAGE).enumerate() {
        if part(page) && before.get(page * PAGE..page * PAGE + bytes.len()) != Some(bytes) {
            changes.write((page * PAGE) as u64, bytes, stored_len, load).unwrap();
        }
    }
    if part(0) {
        changes.set_len(after.len() as u64, stored_len);
    }
    changes
}

struct Campaign {
    files: Vec<Vec<u8>>,
    scheme: Scheme,
    /// A bug: pages of a transaction are committed in two parts.
    splits: bool,
    /// Whether a recovery finds the super-journal that changes wait for; `None` does not look for it.
    settles: Option<bool>,
}

impl Campaign {
    fn open(&self) -> OpenOptions {
        OpenOptions { lock_stripes: 1 << 8, ..OpenOptions::with_scheme(self.scheme) }
    }

    /// The file as a crash has left it, or as the next opening leaves it.
    fn found(&self, image: &ImageMedium) -> Result<Found, Box<dyn std::error::Error>> {
        let pool = UnrecoveredPool::open(image)?.recover()?;
        if let Some(is_there) = self.settles {
            let pool = pool.start(&self.open())?;
            let mut lane = pool.lane()?;
            let mut store = find(&mut lane)?;
            store.settle(&mut lane, |_| Ok(is_there))?;
            if store.has_spilled() {
                return Err("spilled extents are left".into());
            }
            return Ok(Found { file: read(&store, pool.medium()), prepared: None });
        }
        let store = find(&mut pool.reader())?;
        let file = read(&store, pool.medium());
        let mut prepared = None;
        if store.is_prepared() {
            let (_, changes) = pool.reader().run(|tx| store.prepared(tx))?;
            let mut changed = vec![0; changes.len(store.len()) as usize];
            changes.read(0, &mut changed, store.len(), Below(&store, pool.medium()));
            prepared = Some(changed);
        }
        Ok(Found { file, prepared })
    }
}

impl Program for Campaign {
    type Found = Found;

    const POOL_BYTES: u64 = 2 << 20;

    fn prepare(&self, medium: &Recorder) {
        let create = CreateOptions {
            lanes: 2,
            lane_bytes: 8 << 10,
            chunk_bytes: Some(64 << 10),
            ..Default::default()
        };
        let pool = Pool::create_on(medium, &create, &self.open()).unwrap();
        pool.lane().unwrap().run(Store::create).unwrap();
        pool.close();
    }

    fn run(&self, medium: &Recorder) {
        let pool = UnrecoveredPool::open(medium).unwrap().recover().unwrap();
        let pool = pool.start(&self.open()).unwrap();
        let mut lane = pool.lane().unwrap();
        let mut store = find(&mut lane).unwrap();
        for (number, pair) in self.files.windows(2).enumerate() {
            let [before, after] = pair else { unreachable!("two of them") };
            if self.splits {
                let half = changes(before, after, |page| page % 2 == 1);
                store.commit(&mut lane, &half).unwrap();
            }
            let mut all = changes(before, after, |page| !self.splits || page % 2 == 0);
            if number % 2 == 1 {
                // As a transaction that is larger than its share of memory.
                store.spill(&mut lane, &mut all).unwrap();
            }
            if number % 3 == 1 {
                // As in a transaction over several databases.
                let next = lane.run(|tx| store.prepare(tx, &all, b"/a/super-journal"));
                store.adopt(next.unwrap());
                let mut scratch = Scratch::default();
                let next = lane.run(|tx| store.apply(tx, &all, &mut scratch));
                store.adopt(next.unwrap());
            } else {
                store.commit(&mut lane, &all).unwrap();
            }
            medium.mark(Mark::Ack(TxId(number as u64 + 1)));
        }
    }

    fn recover(&self, image: &ImageMedium) -> Result<Found, String> {
        self.found(image).map_err(|error| error.to_string())
    }

    fn judge(&self, found: &Found, acked: usize) -> Result<(), Violation> {
        if steps_ahead(&self.files, acked, &found.file).is_none() {
            let known = self.files.iter().position(|file| *file == found.file);
            let what = format!("after {acked} transactions the file is that of {known:?}");
            return Err(Violation::new(Broken::Refused, what));
        }
        match &found.prepared {
            Some(prepared) if self.files.get(acked + 1) != Some(prepared) => {
                Err("what waits for a super-journal is not the next file".to_owned().into())
            }
            _ => Ok(()),
        }
    }
}

/// A pool below changes.
struct Below<'p, M>(&'p Store, &'p M);

impl<M: Medium> Base for Below<'_, M> {
    fn load_stored(&self, at: u64, out: &mut [u8]) {
        self.0.read(at, out, |at, out| self.1.load(at, out));
    }

    fn load_block(&self, at: PoolOffset, out: &mut [u8]) {
        self.1.load(at, out);
    }
}

/// A file, and what it becomes with what waits for a super-journal.
struct Found {
    file: Vec<u8>,
    prepared: Option<Vec<u8>>,
}

fn find<R: Runner>(runner: &mut R) -> Result<Store, StoreError> {
    let found = runner.run(|tx| match Store::open(tx) {
        Err(StoreError::Abort(abort)) => Err(abort),
        other => Ok(other),
    })?;
    found?.ok_or(StoreError::NoDatabase)
}

fn read<M: Medium>(store: &Store, medium: &M) -> Vec<u8> {
    let mut file = vec![0; store.len() as usize];
    store.read(0, &mut file, |at, out| medium.load(at, out));
    file
}

fn sqlite() -> Option<Sqlite> {
    Sqlite::load().inspect_err(|error| eprintln!("skipped: {error}")).ok()
}

#[test]
fn a_script_of_sql_survives_crashes_at_every_fence() {
    let Some(sqlite) = sqlite() else { return };
    let files = files_of(&sqlite, SCRIPT).unwrap();
    assert!(files.len() > 12, "{}", files.len());
    for (scheme, settles) in
        [(Scheme::Swift, None), (Scheme::Undo, Some(false)), (Scheme::RedoArchapt, Some(true))]
    {
        let campaign = Campaign { files: files.clone(), scheme, splits: false, settles };
        let report = campaign.every_image(4_000);
        assert!(!report.has_failures(), "{scheme}: {report}");
        assert!(report.images_verified >= 2_000, "{report}");
    }
}

#[test]
fn scripts_by_chance_survive_crashes_and_crashes_of_recoveries() {
    let Some(sqlite) = sqlite() else { return };
    let schemes =
        [Scheme::Swift, Scheme::Undo, Scheme::Redo, Scheme::UndoArchapt, Scheme::RedoArchapt];
    by_chance("scripts", |seed| {
        let files = files_of(&sqlite, &script(seed)).unwrap();
        let settles = [None, Some(false), Some(true)][seed as usize % 3];
        Campaign { files, scheme: schemes[seed as usize % schemes.len()], splits: false, settles }
    });
}

#[test]
fn a_transaction_in_two_parts_is_found() {
    let Some(sqlite) = sqlite() else { return };
    let files = files_of(&sqlite, SCRIPT).unwrap();
    let campaign = Campaign { files, scheme: Scheme::Swift, splits: true, settles: None };
    let report = campaign.every_image(2_000);
    assert!(report.has_failures(), "{report}");
    let sampled = campaign.sample(1, 300);
    assert!(!sampled.failures.is_empty(), "{sampled:?}");
}
