//! SQLite with a write-ahead log, which is synced at each commit.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, Error, OptionalExtension};

use super::{Engine, EngineError, Files, Pair, Session, process_syncs};

pub(super) const NAME: &str = "sqlite";

pub(super) struct Sqlite {
    path: PathBuf,
    files: Files,
}

impl Sqlite {
    /// Opens the database in a folder, or makes one.
    pub fn open(folder: &Path) -> Result<Self, EngineError> {
        let engine = Self { path: folder.join("pairs.db"), files: Files(folder.to_owned()) };
        let made = engine.connect().and_then(|connection| {
            connection.execute_batch(
                "CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
            )
        });
        made.map_err(EngineError::of(NAME))?;
        Ok(engine)
    }

    fn connect(&self) -> Result<Connection, Error> {
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")?;
        Ok(connection)
    }
}

impl Engine for Sqlite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn settings(&self) -> String {
        "journal_mode WAL, synchronous FULL, table WITHOUT ROWID".to_owned()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, EngineError> {
        Ok(Box::new(Connected(self.connect().map_err(EngineError::of(NAME))?)))
    }

    fn syncs(&self) -> Option<u64> {
        process_syncs()
    }

    fn bytes_on_disk(&self) -> u64 {
        self.files.bytes()
    }
}

struct Connected(Connection);

impl Connected {
    fn put_all(&mut self, pairs: &[Pair<'_>]) -> Result<(), Error> {
        let write = self.0.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        {
            let mut put = write.prepare_cached("INSERT OR REPLACE INTO pairs VALUES (?1, ?2)")?;
            for (key, value) in pairs {
                put.execute((key, value))?;
            }
        }
        write.commit()
    }

    fn get_all(&mut self, keys: &[&[u8]]) -> Result<Option<u64>, Error> {
        let read = self.0.transaction()?;
        let mut get = read.prepare_cached("SELECT value FROM pairs WHERE key = ?1")?;
        let mut bytes = 0;
        for key in keys {
            let len = |row: &rusqlite::Row<'_>| Ok(row.get::<_, Vec<u8>>(0)?.len() as u64);
            let Some(len) = get.query_row((key,), len).optional()? else { return Ok(None) };
            bytes += len;
        }
        Ok(Some(bytes))
    }

    fn scan_all(&mut self, from: &[u8], limit: usize) -> Result<u64, Error> {
        let query = "SELECT key, value FROM pairs WHERE key >= ?1 ORDER BY key LIMIT ?2";
        let mut scan = self.0.prepare_cached(query)?;
        let mut rows = scan.query((from, limit as i64))?;
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            bytes += row.get::<_, Vec<u8>>(0)?.len() + row.get::<_, Vec<u8>>(1)?.len();
        }
        Ok(bytes as u64)
    }
}

impl Session for Connected {
    fn put(&mut self, pairs: &[Pair<'_>]) -> Result<(), EngineError> {
        self.put_all(pairs).map_err(EngineError::of(NAME))
    }

    fn get(&mut self, keys: &[&[u8]]) -> Result<u64, EngineError> {
        let found = self.get_all(keys).map_err(EngineError::of(NAME))?;
        found.ok_or_else(|| EngineError::new(NAME, "a key is not there"))
    }

    fn scan(&mut self, from: &[u8], limit: usize) -> Result<u64, EngineError> {
        self.scan_all(from, limit).map_err(EngineError::of(NAME))
    }
}
