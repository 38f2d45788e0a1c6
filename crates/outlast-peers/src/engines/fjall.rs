//! fjall: a log-structured merge tree. A batch with a durability is in its journal, and that synced,
//! when it returns.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Engine, EngineError, Files, Pair, Session, process_syncs};

pub(super) const NAME: &str = "fjall";

pub(super) struct Fjall {
    database: Database,
    pairs: Keyspace,
    files: Files,
}

impl Fjall {
    /// Opens the database in a folder, or makes one.
    pub fn open(folder: &Path) -> Result<Self, EngineError> {
        let database = Database::builder(folder).open().map_err(EngineError::of(NAME))?;
        let pairs = database.keyspace("pairs", KeyspaceCreateOptions::default);
        let pairs = pairs.map_err(EngineError::of(NAME))?;
        Ok(Self { database, pairs, files: Files(folder.to_owned()) })
    }
}

impl Engine for Fjall {
    fn name(&self) -> &'static str {
        NAME
    }

    fn settings(&self) -> String {
        "defaults, each batch persisted with SyncData".to_owned()
    }

    fn session(&self) -> Result<Box<dyn Session + '_>, EngineError> {
        Ok(Box::new(self))
    }

    fn syncs(&self) -> Option<u64> {
        process_syncs()
    }

    fn bytes_on_disk(&self) -> u64 {
        self.files.bytes()
    }
}

impl Session for &Fjall {
    fn put(&mut self, pairs: &[Pair<'_>]) -> Result<(), EngineError> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (key, value) in pairs {
            batch.insert(&self.pairs, *key, *value);
        }
        batch.commit().map_err(EngineError::of(NAME))
    }

    fn get(&mut self, keys: &[&[u8]]) -> Result<u64, EngineError> {
        let mut bytes = 0;
        for key in keys {
            let value = self.pairs.get(key).map_err(EngineError::of(NAME))?;
            let value = value.ok_or_else(|| EngineError::new(NAME, "a key is not there"))?;
            bytes += value.to_vec().len() as u64;
        }
        Ok(bytes)
    }

    fn scan(&mut self, from: &[u8], limit: usize) -> Result<u64, EngineError> {
        let mut bytes = 0;
        for pair in self.pairs.range(from..).take(limit) {
            let (key, value) = pair.into_inner().map_err(EngineError::of(NAME))?;
            bytes += (key.len() + value.to_vec().len()) as u64;
        }
        Ok(bytes)
    }
}
