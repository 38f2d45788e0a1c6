//! The YCSB core workloads A to F, as YCSB 0.17 publishes them, and the mix of all operations
//! that OLTP-Bench runs against SQLite.
//!
//! Records of 10 fields × 100 bytes under keys `user…` in hashed insertion order; reads and scans
//! take all fields, updates write one, insertions all. A record is one value, so an update
//! stores 100 of its 1000 bytes. Every field carries its version ([`content`](crate::content)),
//! whose key is `record × fields + field`.
//!
//! | | read | update | insert | scan | read-modify-write | delete | keys |
//! |---|---|---|---|---|---|---|---|
//! | A | 50 | 50 | | | | | zipfian |
//! | B | 95 | 5 | | | | | zipfian |
//! | C | 100 | | | | | | zipfian |
//! | D | 95 | | 5 | | | | latest |
//! | E | | | 5 | 95 | | | zipfian, 1 to 100 records |
//! | F | 50 | | | | 50 | | zipfian |
//! | `oltp-ycsb` | 50 | 10 | 5 | 15 | 10 | 10 | zipfian, 1 to 100 records |
//!
//! The last has the shares that the paper on Archapt gives (Table III, SQLite, YCSB). Deletions
//! are zipfian as well and insertions take new keys, as in OLTP-Bench, so a popular record is
//! soon gone and requests for it find nothing, which is no error. OLTP-Bench updates all fields
//! of a record; here it is one, as in the other workloads.

mod mix;
mod record;

pub(crate) use mix::{Letter, Mix};
pub(crate) use record::{KeyName, fill_record, record_of};

use std::ops::Range;
use std::sync::Arc;

use outlast::collections::{Dictionary, load_value};
use outlast::{Abort, ByteRange, PoolOffset, Runner, Transact};

use crate::content::{fill, version_of};
use crate::facts::Versions;
use crate::store::Store;
use crate::zipf::{Latest, ScrambledZipfian};
use crate::{InsertSequence, OpKind, Random, Scale, State, Version, Witness};

/// Records that a scan reads at most.
const SCAN_RECORDS_MAX: u64 = 100;

/// How keys are drawn.
#[derive(Clone, Debug)]
enum Chooser {
    Zipfian(ScrambledZipfian),
    Latest(Latest),
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Read,
    Update { field: u64, version: Version },
    Insert { version: Version },
    Scan { records: u64 },
    ReadModifyWrite { field: u64, version: Version },
    Delete,
}

/// One client of a YCSB workload.
pub(crate) struct YcsbWorker {
    store: Store,
    scale: Scale,
    mix: Mix,
    chooser: Chooser,
    sequence: Arc<InsertSequence>,
    random: Random,
    versions: Versions,
    operation: Operation,
    record: u64,
    key: KeyName,
    /// What an insertion stores.
    new_record: Vec<u8>,
    /// What an update stores.
    new_field: Vec<u8>,
    /// What was read last.
    seen: Vec<u8>,
}

impl YcsbWorker {
    pub(crate) fn new(
        letter: Letter,
        scale: &Scale,
        store: Store,
        sequence: Arc<InsertSequence>,
        random: Random,
        versions: Versions,
    ) -> Self {
        let mix = letter.mix();
        // YCSB leaves room for twice the insertions it expects and skips what is not there yet.
        let new = scale.operations * mix.insert / 100 * 2;
        let chooser = match letter {
            Letter::D => Chooser::Latest(Latest::new(sequence.last())),
            _ => Chooser::Zipfian(ScrambledZipfian::new(scale.records + new + 1)),
        };
        let record_bytes = scale.record_bytes();
        let mut worker = Self {
            store,
            scale: *scale,
            mix,
            chooser,
            sequence,
            random,
            versions,
            operation: Operation::Read,
            record: 0,
            key: KeyName::of(0),
            new_record: vec![0; record_bytes],
            new_field: vec![0; scale.field_bytes as usize],
            seen: vec![0; record_bytes],
        };
        worker.draw();
        worker
    }

    fn draw_record(&mut self) -> u64 {
        loop {
            let last = self.sequence.last();
            let record = match &mut self.chooser {
                Chooser::Zipfian(zipfian) => zipfian.draw(&mut self.random),
                Chooser::Latest(latest) => latest.draw(last, &mut self.random),
            };
            if record <= last {
                return record;
            }
        }
    }

    fn draw_field(&mut self) -> (u64, Version) {
        let field = self.random.below(self.scale.fields);
        let version = self.versions.next();
        fill(self.field_key(field), version, &mut self.new_field);
        (field, version)
    }

    fn field_key(&self, field: u64) -> u64 {
        self.record * self.scale.fields + field
    }

    pub(crate) fn versions(&self) -> &Versions {
        &self.versions
    }

    pub(crate) fn draw(&mut self) {
        let mut choice = self.random.below(100);
        let mut falls_in = |share: u64| {
            let inside = choice < share;
            choice = choice.wrapping_sub(share);
            inside
        };
        let mix = self.mix;
        let kind = if falls_in(mix.read) {
            OpKind::Read
        } else if falls_in(mix.update) {
            OpKind::Update
        } else if falls_in(mix.insert) {
            OpKind::Insert
        } else if falls_in(mix.scan) {
            OpKind::Scan
        } else if falls_in(mix.read_modify_write) {
            OpKind::ReadModifyWrite
        } else {
            OpKind::Delete
        };
        self.record = match kind {
            OpKind::Insert => self.sequence.take(),
            _ => self.draw_record(),
        };
        self.key = KeyName::of(self.record);
        self.operation = match kind {
            OpKind::Update => {
                let (field, version) = self.draw_field();
                Operation::Update { field, version }
            }
            OpKind::ReadModifyWrite => {
                let (field, version) = self.draw_field();
                Operation::ReadModifyWrite { field, version }
            }
            OpKind::Insert => {
                let version = self.versions.next();
                fill_record(self.record, version, &self.scale, &mut self.new_record);
                Operation::Insert { version }
            }
            OpKind::Scan => Operation::Scan { records: 1 + self.random.below(SCAN_RECORDS_MAX) },
            OpKind::Delete => Operation::Delete,
            _ => Operation::Read,
        };
    }

    pub(crate) fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        match self.operation {
            Operation::Read => self.read(runner, witness)?,
            Operation::Update { field, version } => self.update(runner, witness, field, version)?,
            Operation::ReadModifyWrite { field, version } => {
                self.read_modify_write(runner, witness, field, version)?;
            }
            Operation::Insert { version } => self.insert(runner, witness, version)?,
            Operation::Scan { records } => self.scan(runner, witness, records)?,
            Operation::Delete => self.delete(runner, witness)?,
        }
        Ok(self.operation.kind())
    }

    fn read<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<(), Abort> {
        let (store, key, record) = (self.store, self.key, self.record);
        let seen = &mut self.seen;
        let there = runner.run(|tx| {
            witness.restart();
            store.get(tx, key.bytes(), seen)
        })?;
        match there {
            true => witness_record(witness, record, &self.scale, &self.seen),
            false => self.found_nothing(witness, self.fields_of(record)),
        }
    }

    /// The keys of a record's fields.
    fn fields_of(&self, record: u64) -> Range<u64> {
        record * self.scale.fields..(record + 1) * self.scale.fields
    }

    /// A record is not there; only where records are removed may that be.
    fn found_nothing<W: Witness>(&self, witness: &mut W, fields: Range<u64>) -> Result<(), Abort> {
        if self.mix.delete == 0 {
            return Err(missing(self.record));
        }
        fields.for_each(|key| witness.read(key, State::Absent));
        Ok(())
    }

    fn update<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
        field: u64,
        version: Version,
    ) -> Result<(), Abort> {
        let (store, key) = (self.store, self.key);
        let offset = field * self.scale.field_bytes;
        let field_key = self.field_key(field);
        let seen = &mut self.seen;
        let new = &self.new_field;
        let there = runner.run(|tx| {
            witness.restart();
            if W::WATCHES {
                let seen = &mut seen[..new.len()];
                if store.read_value(tx, key.bytes(), offset, seen)? {
                    witness.read(field_key, State::Holds(judge(field_key, seen)?));
                    witness.write(field_key, State::Holds(version));
                }
            }
            store.update_value(tx, key.bytes(), offset, new)
        })?;
        match there {
            true => Ok(()),
            false => self.found_nothing(witness, field_key..field_key + 1),
        }
    }

    fn read_modify_write<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
        field: u64,
        version: Version,
    ) -> Result<(), Abort> {
        let (store, key) = (self.store, self.key);
        let offset = field * self.scale.field_bytes;
        let new = &self.new_field;
        let seen = &mut self.seen;
        let there = runner.run(|tx| {
            witness.restart();
            let Some(value) = store.find(tx, key.bytes())? else { return Ok(false) };
            load_value(tx, value, seen)?;
            let place = ByteRange::new(value.at.plus(offset), new.len() as u64);
            tx.will_write(&[place])?;
            tx.store(place.at, new)?;
            Ok(true)
        })?;
        if !there {
            return self.found_nothing(witness, self.fields_of(self.record));
        }
        witness_record(witness, self.record, &self.scale, &self.seen)?;
        witness.write(self.field_key(field), State::Holds(version));
        Ok(())
    }

    fn insert<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
        version: Version,
    ) -> Result<(), Abort> {
        let (store, key, record) = (self.store, self.key, self.record);
        let scale = &self.scale;
        let keys = self.fields_of(record);
        let (seen, new) = (&mut self.seen, &self.new_record);
        runner.run(|tx| {
            witness.restart();
            if W::WATCHES {
                // Where a crash took the acknowledgement away, the record may be there already.
                match store.get(tx, key.bytes(), seen)? {
                    true => witness_record(witness, record, scale, seen)?,
                    false => keys.clone().for_each(|key| witness.read(key, State::Absent)),
                }
            }
            store.insert(tx, key.bytes(), new)
        })?;
        if W::WATCHES {
            keys.for_each(|key| witness.write(key, State::Holds(version)));
        }
        self.sequence.acknowledge(record);
        Ok(())
    }

    fn delete<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<(), Abort> {
        let keys = self.fields_of(self.record);
        let (store, key, record, scale) = (self.store, self.key, self.record, &self.scale);
        let seen = &mut self.seen;
        let there = runner.run(|tx| {
            witness.restart();
            if W::WATCHES && store.get(tx, key.bytes(), seen)? {
                witness_record(witness, record, scale, seen)?;
            }
            store.remove(tx, key.bytes())
        })?;
        match there {
            true => keys.for_each(|key| witness.write(key, State::Absent)),
            false => self.found_nothing(witness, keys)?,
        }
        Ok(())
    }

    fn scan<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
        records: u64,
    ) -> Result<(), Abort> {
        let (tree, key) = (self.store.tree()?, self.key);
        let scale = &self.scale;
        let seen = &mut self.seen;
        runner.run(|tx| {
            witness.restart();
            tree.scan(tx, key.bytes(), records, |tx, _, value| {
                load_value(tx, value, seen)?;
                if W::WATCHES {
                    let record = record_of(seen, scale).ok_or_else(|| torn(value.at))?;
                    witness_record(witness, record, scale, seen)?;
                }
                Ok(())
            })
        })
    }
}

impl Operation {
    fn kind(self) -> OpKind {
        match self {
            Self::Read => OpKind::Read,
            Self::Update { .. } => OpKind::Update,
            Self::Insert { .. } => OpKind::Insert,
            Self::Scan { .. } => OpKind::Scan,
            Self::ReadModifyWrite { .. } => OpKind::ReadModifyWrite,
            Self::Delete => OpKind::Delete,
        }
    }
}

/// Tells the witness the version of every field.
fn witness_record<W: Witness>(
    witness: &mut W,
    record: u64,
    scale: &Scale,
    value: &[u8],
) -> Result<(), Abort> {
    if W::WATCHES {
        let first = record * scale.fields;
        for (key, field) in (first..).zip(value.chunks(scale.field_bytes as usize)) {
            witness.read(key, State::Holds(judge(key, field)?));
        }
    }
    Ok(())
}

/// The version of a value that a running transaction read.
pub(crate) fn judge(key: u64, value: &[u8]) -> Result<Version, Abort> {
    version_of(key, value)
        .ok_or_else(|| Abort::Damaged(format!("the value of key {key} is no version of it")))
}

fn torn(at: PoolOffset) -> Abort {
    Abort::Damaged(format!("the value at {at} is of no record"))
}

fn missing(record: u64) -> Abort {
    Abort::Damaged(format!("record {record} is missing"))
}
