//! Persy, a transaction each.
use std::path::Path;

use persy::{Config, OpenOptions, Persy, ValueMode};

use crate::{Failure, Pair};

pub const SEVERAL: bool = true;

pub struct Store(Persy);

impl Store {
    pub fn open(dir: &Path, _: &[String]) -> Result<Self, Failure> {
        let prepare = |persy: &Persy| -> Result<(), Box<dyn std::error::Error>> {
            let mut transaction = persy.begin()?;
            transaction.create_index::<String, String>("t", ValueMode::Replace)?;
            transaction.prepare()?.commit()?;
            Ok(())
        };
        let mut options = OpenOptions::new();
        let persy = options.create(true).prepare_with(prepare).config(Config::new()).open(dir.join("t.persy"))?;
        if !persy.exists_index("t")? {
            prepare(&persy)?;
        }
        Ok(Self(persy))
    }

    pub fn put(&mut self, pairs: &[Pair]) -> Result<(), Failure> {
        let mut transaction = self.0.begin()?;
        for (key, value) in pairs {
            transaction.put::<String, String>("t", key.clone(), value.clone())?;
        }
        Ok(transaction.prepare()?.commit()?)
    }

    pub fn items(&mut self) -> Result<Vec<Pair>, Failure> {
        let pairs = self.0.range::<String, String, _>("t", ..)?;
        Ok(pairs.map(|(key, values)| (key, values.into_iter().next().unwrap_or_default())).collect())
    }
}
