//! Scripts of SQL, crashed wherever the pool can crash.
//!
//! Fault model: `docs/fault-model.md`, as for the runtime. A script runs under plain SQLite, which leaves a file
//! after each statement; these files are the shadow. Their differences are committed to a pool on a recording
//! medium as the VFS commits pages. Each image that a crash may leave is recovered, and its file must be that of the
//! transactions acknowledged, or one more.

use outlast::{CreateOptions, OpenOptions, Pool, Runner, Scheme, UnrecoveredPool};
use outlast_crash::{Broken, Check, Crash, Report, Violation};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_sqlite::changes::Changes;
use outlast_sqlite::client::{ClientError, Sqlite};
use outlast_sqlite::store::{Scratch, Store, StoreError};
use outlast_trace::TxId;

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
            changes.write((page * PAGE) as u64, bytes, stored_len, load);
        }
    }
    if part(0) {
        changes.set_len(after.len() as u64, stored_len);
    }
    changes
}

const LEN: u64 = 2 << 20;

struct Campaign {
    files: Vec<Vec<u8>>,
    scheme: Scheme,
    /// A bug: pages of a transaction are committed in two parts.
    splits: bool,
    images: u64,
}

impl Campaign {
    fn open(&self) -> OpenOptions {
        OpenOptions { lock_stripes: 1 << 8, ..OpenOptions::with_scheme(self.scheme) }
    }

    fn run(&self) -> Report {
        let create = CreateOptions {
            lanes: 2,
            lane_bytes: 8 << 10,
            chunk_bytes: Some(64 << 10),
            ..Default::default()
        };
        let check = Check::new(LEN).prepared(|medium| {
            let pool = Pool::create_on(medium, &create, &self.open()).unwrap();
            pool.lane().unwrap().run(Store::create).unwrap();
            pool.close();
        });
        check.images_max(self.images).run(
            |_, medium| self.program(medium),
            |image| recover(image).map_err(|error| error.to_string()),
            |found, crash| self.judge(found, crash),
        )
    }

    fn program(&self, medium: &Recorder) {
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
            let all = changes(before, after, |page| !self.splits || page % 2 == 0);
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

    fn judge(&self, found: &Found, crash: &Crash<'_>) -> Result<(), Violation> {
        let acked = crash.acked.len();
        let is = |number: usize, file: &[u8]| self.files.get(number).is_some_and(|of| of == file);
        if !is(acked, &found.file) && !is(acked + 1, &found.file) {
            let known = self.files.iter().position(|file| *file == found.file);
            let what = format!("after {acked} transactions the file is that of {known:?}");
            return Err(Violation::new(Broken::Refused, what));
        }
        match &found.prepared {
            Some(prepared) if !is(acked + 1, prepared) => {
                Err("what waits for a super-journal is not the next file".to_owned().into())
            }
            _ => Ok(()),
        }
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

fn recover<M: Medium>(image: &M) -> Result<Found, Box<dyn std::error::Error>> {
    let pool = UnrecoveredPool::open(image)?.recover()?;
    let store = find(&mut pool.reader())?;
    let read = |at: u64, out: &mut [u8]| store.read(at, out, |at, out| pool.medium().load(at, out));
    let mut file = vec![0; store.len() as usize];
    read(0, &mut file);
    let mut prepared = None;
    if store.is_prepared() {
        let (_, changes) = pool.reader().run(|tx| store.prepared(tx))?;
        let mut changed = vec![0; changes.len(store.len()) as usize];
        changes.read(0, &mut changed, store.len(), read);
        prepared = Some(changed);
    }
    Ok(Found { file, prepared })
}

fn campaign(scheme: Scheme, splits: bool, images: u64) -> Option<Report> {
    let sqlite = match Sqlite::load() {
        Ok(sqlite) => sqlite,
        Err(error) => {
            eprintln!("skipped: {error}");
            return None;
        }
    };
    let files = files_of(&sqlite, SCRIPT).unwrap();
    assert!(files.len() > 12, "{}", files.len());
    Some(Campaign { files, scheme, splits, images }.run())
}

#[test]
fn a_script_of_sql_survives_crashes_at_every_fence() {
    let images = std::env::var("OUTLAST_CRASHES").map_or(4_000, |images| images.parse().unwrap());
    for scheme in [Scheme::Swift, Scheme::Undo, Scheme::RedoArchapt] {
        let Some(report) = campaign(scheme, false, images) else { return };
        eprintln!("{scheme}: {report}");
        assert!(!report.has_failures(), "{scheme}: {report}");
        assert!(report.images_verified >= images / 2, "{report}");
    }
}

#[test]
fn a_transaction_in_two_parts_is_found() {
    let Some(report) = campaign(Scheme::Swift, true, 2_000) else { return };
    assert!(report.has_failures(), "{report}");
}
