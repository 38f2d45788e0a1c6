//! fjall, each batch with PersistMode::SyncAll.
use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::{Failure, Pair};

pub const SEVERAL: bool = true;

pub struct Store(Database, Keyspace);

impl Store {
    pub fn open(dir: &Path, _: &[String]) -> Result<Self, Failure> {
        let database = Database::builder(dir.join("t")).open()?;
        let table = database.keyspace("t", KeyspaceCreateOptions::default)?;
        Ok(Self(database, table))
    }

    pub fn put(&mut self, pairs: &[Pair]) -> Result<(), Failure> {
        let mut batch = self.0.batch();
        for (key, value) in pairs {
            batch.insert(&self.1, key.as_str(), value.as_str());
        }
        batch.commit()?;
        Ok(self.0.persist(PersistMode::SyncAll)?)
    }

    pub fn items(&mut self) -> Result<Vec<Pair>, Failure> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pairs = self.1.iter().map(|guard| guard.into_inner().map(|(key, value)| (text(&key), text(&value))));
        Ok(pairs.collect::<Result<_, _>>()?)
    }
}
