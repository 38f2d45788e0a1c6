//! LMDB: a copy-on-write B+tree in a mapped file.

use std::ops::Bound;
use std::path::Path;

use heed::types::Bytes;
use heed::{Database, Env, EnvOpenOptions};

use super::{Engine, EngineError, Files, Pair, Session, process_syncs};

pub(super) const NAME: &str = "lmdb";

pub(super) struct Lmdb {
    env: Env,
    pairs: Database<Bytes, Bytes>,
    files: Files,
}

impl Lmdb {
    /// Opens the database in a folder, or makes one.
    pub fn open(folder: &Path, data_bytes: u64) -> Result<Self, EngineError> {
        let map_bytes = (data_bytes * 16).next_multiple_of(1 << 20) + (256 << 20);
        let mut options = EnvOpenOptions::new();
        options.map_size(map_bytes as usize);
        // SAFETY: the folder is a run's own, whose processes open it one after the other, so that the file is
        // neither opened twice nor changed by others while it is mapped.
        let env = unsafe { options.open(folder) }.map_err(EngineError::of(NAME))?;
        let mut write = env.write_txn().map_err(EngineError::of(NAME))?;
        let pairs = env.create_database(&mut write, None).map_err(EngineError::of(NAME))?;
        write.commit().map_err(EngineError::of(NAME))?;
        Ok(Self { env, pairs, files: Files(folder.to_owned()) })
    }
}

impl Engine for Lmdb {
    fn name(&self) -> &'static str {
        NAME
    }

    fn settings(&self) -> String {
        "defaults: a sync for data, a synchronous write for the meta page, which is not counted"
            .to_owned()
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

impl Session for &Lmdb {
    fn put(&mut self, pairs: &[Pair<'_>]) -> Result<(), EngineError> {
        let mut write = self.env.write_txn().map_err(EngineError::of(NAME))?;
        for (key, value) in pairs {
            self.pairs.put(&mut write, key, value).map_err(EngineError::of(NAME))?;
        }
        write.commit().map_err(EngineError::of(NAME))
    }

    fn get(&mut self, keys: &[&[u8]]) -> Result<u64, EngineError> {
        let read = self.env.read_txn().map_err(EngineError::of(NAME))?;
        let mut bytes = 0;
        for key in keys {
            let value = self.pairs.get(&read, key).map_err(EngineError::of(NAME))?;
            let value = value.ok_or_else(|| EngineError::new(NAME, "a key is not there"))?;
            bytes += value.to_vec().len() as u64;
        }
        Ok(bytes)
    }

    fn scan(&mut self, from: &[u8], limit: usize) -> Result<u64, EngineError> {
        let read = self.env.read_txn().map_err(EngineError::of(NAME))?;
        let range = (Bound::Included(from), Bound::Unbounded);
        let mut bytes = 0;
        let pairs = self.pairs.range(&read, &range).map_err(EngineError::of(NAME))?;
        for pair in pairs.take(limit) {
            let (key, value) = pair.map_err(EngineError::of(NAME))?;
            bytes += (key.len() + value.to_vec().len()) as u64;
        }
        Ok(bytes)
    }
}
