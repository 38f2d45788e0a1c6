//! jammdb, a transaction each.
use std::path::Path;

use jammdb::{DB, Data};

use crate::{Failure, Pair};

pub const SEVERAL: bool = true;

pub struct Store(DB);

impl Store {
    pub fn open(dir: &Path, _: &[String]) -> Result<Self, Failure> {
        Ok(Self(DB::open(dir.join("t.db"))?))
    }

    pub fn put(&mut self, pairs: &[Pair]) -> Result<(), Failure> {
        let transaction = self.0.tx(true)?;
        let bucket = transaction.get_or_create_bucket("t")?;
        for (key, value) in pairs {
            bucket.put(key.clone(), value.clone())?;
        }
        Ok(transaction.commit()?)
    }

    pub fn items(&mut self) -> Result<Vec<Pair>, Failure> {
        let transaction = self.0.tx(false)?;
        let Ok(bucket) = transaction.get_bucket("t") else { return Ok(Vec::new()) };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pair = |data: Data| match data {
            Data::KeyValue(pair) => (text(pair.key()), text(pair.value())),
            Data::Bucket(_) => ("a bucket".to_owned(), String::new()),
        };
        Ok(bucket.cursor().map(pair).collect())
    }
}
