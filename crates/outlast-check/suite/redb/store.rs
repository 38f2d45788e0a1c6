//! redb, each transaction of immediate durability.
use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use crate::{Failure, Pair};

pub const SEVERAL: bool = true;
const TABLE: TableDefinition<&str, &str> = TableDefinition::new("t");

pub struct Store(Database);

impl Store {
    pub fn open(dir: &Path, _: &[String]) -> Result<Self, Failure> {
        Ok(Self(Database::create(dir.join("t.redb"))?))
    }

    pub fn put(&mut self, pairs: &[Pair]) -> Result<(), Failure> {
        let transaction = self.0.begin_write()?;
        for (key, value) in pairs {
            transaction.open_table(TABLE)?.insert(key.as_str(), value.as_str())?;
        }
        Ok(transaction.commit()?)
    }

    pub fn items(&mut self) -> Result<Vec<Pair>, Failure> {
        let transaction = self.0.begin_read()?;
        let table = match transaction.open_table(TABLE) {
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
            table => table?,
        };
        let pairs = table.iter()?.map(|pair| pair.map(|(key, value)| (key.value().to_owned(), value.value().to_owned())));
        Ok(pairs.collect::<Result<_, _>>()?)
    }
}
