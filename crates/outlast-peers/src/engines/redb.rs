//! redb: a copy-on-write B+tree. Its default durability waits for the device at each commit.

use std::path::Path;

use redb::{Database, ReadableDatabase, TableDefinition};

use super::{Engine, EngineError, Files, Pair, Session, process_syncs};

pub(super) const NAME: &str = "redb";

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("pairs");

pub(super) struct Redb {
    database: Database,
    files: Files,
}

impl Redb {
    /// Opens the database in a folder, or makes one.
    pub fn open(folder: &Path) -> Result<Self, EngineError> {
        let database =
            Database::create(folder.join("pairs.redb")).map_err(EngineError::of(NAME))?;
        let engine = Self { database, files: Files(folder.to_owned()) };
        engine.session()?.put(&[])?;
        Ok(engine)
    }
}

impl Engine for Redb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn settings(&self) -> String {
        "defaults: durability immediate".to_owned()
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

impl Session for &Redb {
    fn put(&mut self, pairs: &[Pair<'_>]) -> Result<(), EngineError> {
        let write = self.database.begin_write().map_err(EngineError::of(NAME))?;
        {
            let mut table = write.open_table(TABLE).map_err(EngineError::of(NAME))?;
            for (key, value) in pairs {
                table.insert(*key, *value).map_err(EngineError::of(NAME))?;
            }
        }
        write.commit().map_err(EngineError::of(NAME))
    }

    fn get(&mut self, keys: &[&[u8]]) -> Result<u64, EngineError> {
        let read = self.database.begin_read().map_err(EngineError::of(NAME))?;
        let table = read.open_table(TABLE).map_err(EngineError::of(NAME))?;
        let mut bytes = 0;
        for key in keys {
            let value = table.get(*key).map_err(EngineError::of(NAME))?;
            let value = value.ok_or_else(|| EngineError::new(NAME, "a key is not there"))?;
            bytes += value.value().to_vec().len() as u64;
        }
        Ok(bytes)
    }

    fn scan(&mut self, from: &[u8], limit: usize) -> Result<u64, EngineError> {
        let read = self.database.begin_read().map_err(EngineError::of(NAME))?;
        let table = read.open_table(TABLE).map_err(EngineError::of(NAME))?;
        let mut bytes = 0;
        for pair in table.range::<&[u8]>(from..).map_err(EngineError::of(NAME))?.take(limit) {
            let (key, value) = pair.map_err(EngineError::of(NAME))?;
            bytes += (key.value().len() + value.value().to_vec().len()) as u64;
        }
        Ok(bytes)
    }
}
