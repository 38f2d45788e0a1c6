//! The YCSB core workloads A to F, as YCSB 0.17 publishes them, and the mix of all operations
//! that OLTP-Bench runs against SQLite.
//!
//! Records of 10 fields × 100 bytes under keys `user…` in hashed insertion order; reads and scans
//! take all fields, updates write one, insertions all. A record is one value, so an update
//! stores 100 of its 1000 bytes; laid out with names and marks beside its fields
//! ([`Layout`](crate::Layout)), also the mark. Every field carries its version ([`content`](crate::content)),
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

mod family;
mod mix;
mod record;

pub(crate) use family::Ycsb;
pub(crate) use mix::Letter;

use std::ops::Range;
use std::sync::Arc;

use outlast::collections::Dictionary;
use outlast::{Abort, ByteRange, PoolOffset, Runner, Transact};

use self::mix::Mix;
use self::record::{KeyName, fill_record, load_record, mark_of, pack, record_of};
use crate::content::{fill, version_of};
use crate::facts::Versions;
use crate::family::Thread;
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
    /// The record that an insertion stores.
    new_record: Vec<u8>,
    /// The field that an update stores.
    new_field: Vec<u8>,
    /// The value read last.
    seen: Vec<u8>,
    /// A record as it is stored, where that is more than its values.
    stored: Vec<u8>,
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
            stored: Vec::new(),
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
    // What is read is told while the transaction runs: an oracle orders reads by when it hears
    // of them.

    fn read<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<(), Abort> {
        let (store, key, record) = (self.store, self.key, self.record);
        let (scale, seen, stored) = (&self.scale, &mut self.seen, &mut self.stored);
        let there = runner.run(|tx| {
            witness.restart();
            let there = get(tx, store, key, scale, stored, seen)?;
            witness_record(witness, record, scale, there.then_some(seen))?;
            Ok(there)
        })?;
        self.require(there)
    }

    /// Only where records are removed may one be missing.
    fn require(&self, there: bool) -> Result<(), Abort> {
        let is_right = there || self.mix.delete > 0;
        if is_right { Ok(()) } else { Err(missing(self.record)) }
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
        let fields = self.scale.record_fields();
        let seen = &mut self.seen;
        let new = &self.new_field;
        let there = runner.run(|tx| {
            witness.restart();
            if let Some(fields) = fields {
                let Some(place) = store.find(tx, key.bytes())? else {
                    witness.read(field_key, State::Absent);
                    return Ok(false);
                };
                if W::WATCHES {
                    let seen = &mut seen[..new.len()];
                    let mark = fields.load(tx, place, field, seen)?;
                    let found = judge(field_key, seen)?;
                    if mark != mark_of(seen) {
                        return Err(torn(place.at));
                    }
                    witness.read(field_key, State::Holds(found));
                    witness.write(field_key, State::Holds(version));
                }
                fields.update(tx, place, field, mark_of(new), new)?;
                return Ok(true);
            }
            if W::WATCHES {
                let seen = &mut seen[..new.len()];
                if store.read_value(tx, key.bytes(), offset, seen)? {
                    witness.read(field_key, State::Holds(judge(field_key, seen)?));
                    witness.write(field_key, State::Holds(version));
                } else {
                    witness.read(field_key, State::Absent);
                }
            }
            store.update_value(tx, key.bytes(), offset, new)
        })?;
        self.require(there)
    }

    fn read_modify_write<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
        field: u64,
        version: Version,
    ) -> Result<(), Abort> {
        let (store, key, record) = (self.store, self.key, self.record);
        let offset = field * self.scale.field_bytes;
        let field_key = self.field_key(field);
        let new = &self.new_field;
        let (scale, seen, stored) = (&self.scale, &mut self.seen, &mut self.stored);
        let there = runner.run(|tx| {
            witness.restart();
            let Some(value) = store.find(tx, key.bytes())? else {
                witness_record(witness, record, scale, None)?;
                return Ok(false);
            };
            load_record(tx, scale, value, stored, seen)?;
            witness_record(witness, record, scale, Some(seen))?;
            witness.write(field_key, State::Holds(version));
            if let Some(fields) = scale.record_fields() {
                fields.update(tx, value, field, mark_of(new), new)?;
                return Ok(true);
            }
            let place = ByteRange::new(value.at.plus(offset), new.len() as u64);
            tx.will_write(&[place])?;
            tx.store(place.at, new)?;
            Ok(true)
        })?;
        self.require(there)
    }

    fn insert<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
        version: Version,
    ) -> Result<(), Abort> {
        let (store, key, record) = (self.store, self.key, self.record);
        let scale = &self.scale;
        let (seen, stored) = (&mut self.seen, &mut self.stored);
        let mut packed = Vec::new();
        let new = pack(scale, &self.new_record, &mut packed);
        runner.run(|tx| {
            witness.restart();
            if W::WATCHES {
                // Where a crash took the acknowledgement away, the record may be there already.
                let there = get(tx, store, key, scale, stored, seen)?;
                witness_record(witness, record, scale, there.then_some(seen))?;
                fields_of(record, scale).for_each(|key| witness.write(key, State::Holds(version)));
            }
            store.insert(tx, key.bytes(), new)
        })?;
        self.sequence.acknowledge(record);
        Ok(())
    }

    fn delete<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<(), Abort> {
        let (store, key, record) = (self.store, self.key, self.record);
        let (scale, seen, stored) = (&self.scale, &mut self.seen, &mut self.stored);
        let there = runner.run(|tx| {
            witness.restart();
            if W::WATCHES {
                let there = get(tx, store, key, scale, stored, seen)?;
                witness_record(witness, record, scale, there.then_some(seen))?;
                if there {
                    fields_of(record, scale).for_each(|key| witness.write(key, State::Absent));
                }
            }
            store.remove(tx, key.bytes())
        })?;
        self.require(there)
    }

    fn scan<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
        records: u64,
    ) -> Result<(), Abort> {
        let (tree, key) = (self.store.tree()?, self.key);
        let (scale, seen, stored) = (&self.scale, &mut self.seen, &mut self.stored);
        runner.run(|tx| {
            witness.restart();
            tree.scan(tx, key.bytes(), records, |tx, _, value| {
                load_record(tx, scale, value, stored, seen)?;
                if W::WATCHES {
                    let record = record_of(seen, scale).ok_or_else(|| torn(value.at))?;
                    witness_record(witness, record, scale, Some(seen))?;
                }
                Ok(())
            })
        })
    }
}

impl Thread for YcsbWorker {
    fn draw(&mut self) {
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

    fn step<R: Runner, W: Witness>(
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

    fn versions(&self) -> Option<&Versions> {
        Some(&self.versions)
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

/// Loads the values of a record, end to end; `false` when it is not there.
#[inline]
fn get<T: Transact>(
    tx: &mut T,
    store: Store,
    key: KeyName,
    scale: &Scale,
    stored: &mut Vec<u8>,
    seen: &mut Vec<u8>,
) -> Result<bool, Abort> {
    let Some(place) = store.find(tx, key.bytes())? else { return Ok(false) };
    load_record(tx, scale, place, stored, seen)?;
    Ok(true)
}

/// The keys of a record's fields.
fn fields_of(record: u64, scale: &Scale) -> Range<u64> {
    record * scale.fields..(record + 1) * scale.fields
}

/// Tells the witness the version of every field; without a value, that none is there.
fn witness_record<W: Witness>(
    witness: &mut W,
    record: u64,
    scale: &Scale,
    value: Option<&mut Vec<u8>>,
) -> Result<(), Abort> {
    if !W::WATCHES {
        return Ok(());
    }
    let keys = fields_of(record, scale);
    let Some(value) = value else {
        keys.for_each(|key| witness.read(key, State::Absent));
        return Ok(());
    };
    for (key, field) in keys.zip(value.chunks(scale.field_bytes as usize)) {
        witness.read(key, State::Holds(judge(key, field)?));
    }
    Ok(())
}

/// The version of a value that a running transaction read.
pub(crate) fn judge(key: u64, value: &[u8]) -> Result<Version, Abort> {
    version_of(key, value)
        .ok_or_else(|| Abort::damaged(format!("the value of key {key} is no version of it")))
}

fn torn(at: PoolOffset) -> Abort {
    Abort::damaged(format!("the value at {at} is of no record"))
}

fn missing(record: u64) -> Abort {
    Abort::damaged(format!("record {record} is missing"))
}
