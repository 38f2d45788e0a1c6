//! sled, each batch flushed.
use std::path::Path;

use crate::{Failure, Pair};

pub const SEVERAL: bool = true;

pub struct Store(sled::Db);

impl Store {
    pub fn open(dir: &Path, _: &[String]) -> Result<Self, Failure> {
        Ok(Self(sled::open(dir.join("t"))?))
    }

    pub fn put(&mut self, pairs: &[Pair]) -> Result<(), Failure> {
        let mut batch = sled::Batch::default();
        for (key, value) in pairs {
            batch.insert(key.as_str(), value.as_str());
        }
        self.0.apply_batch(batch)?;
        self.0.flush()?;
        Ok(())
    }

    pub fn items(&mut self) -> Result<Vec<Pair>, Failure> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pairs = self.0.iter().map(|pair| pair.map(|(key, value)| (text(&key), text(&value))));
        Ok(pairs.collect::<Result<_, _>>()?)
    }
}
