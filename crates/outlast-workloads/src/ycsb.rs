//! The YCSB core workloads A to F, as YCSB 0.17 publishes them.
//!
//! Records of 10 fields × 100 bytes under keys `user…` in hashed insertion order; reads and scans
//! take all fields, updates write one, insertions all. A record is one value, so an update
//! stores 100 of its 1000 bytes. Every field carries its version ([`content`](crate::content)),
//! whose key is `record × fields + field`.
//!
//! | | read | update | insert | scan | read-modify-write | keys |
//! |---|---|---|---|---|---|---|
//! | A | 50 | 50 | | | | zipfian |
//! | B | 95 | 5 | | | | zipfian |
//! | C | 100 | | | | | zipfian |
//! | D | 95 | | 5 | | | latest |
//! | E | | | 5 | 95 | | zipfian, 1 to 100 records |
//! | F | 50 | | | | 50 | zipfian |

use std::sync::Arc;

use outlast::collections::{Dictionary, load_value};
use outlast::{Abort, ByteRange, PoolOffset, Runner, Transact};

use crate::content::{fill, version_of};
use crate::facts::Versions;
use crate::store::Store;
use crate::zipf::{Latest, ScrambledZipfian, fnv_hash};
use crate::{InsertSequence, OpKind, Random, Scale, State, Version, Witness};

/// Records that a scan reads at most.
const SCAN_RECORDS_MAX: u64 = 100;

/// One of the six.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Letter {
    A,
    B,
    C,
    D,
    E,
    F,
}

/// Operations of each kind in a hundred.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mix {
    pub(crate) read: u64,
    pub(crate) update: u64,
    pub(crate) insert: u64,
    pub(crate) scan: u64,
    pub(crate) read_modify_write: u64,
}

impl Letter {
    pub(crate) fn mix(self) -> Mix {
        let mix = |read, update, insert, scan, read_modify_write| Mix {
            read,
            update,
            insert,
            scan,
            read_modify_write,
        };
        match self {
            Self::A => mix(50, 50, 0, 0, 0),
            Self::B => mix(95, 5, 0, 0, 0),
            Self::C => mix(100, 0, 0, 0, 0),
            Self::D => mix(95, 0, 5, 0, 0),
            Self::E => mix(0, 0, 5, 95, 0),
            Self::F => mix(50, 0, 0, 0, 50),
        }
    }
}

/// The key of a record: `user` and the hash of its number, in decimal.
#[derive(Clone, Copy)]
pub(crate) struct KeyName {
    bytes: [u8; Self::BYTES_MAX],
    start: usize,
}

impl KeyName {
    const PREFIX: &'static [u8; 4] = b"user";
    const DIGITS_MAX: usize = 20;
    const BYTES_MAX: usize = Self::PREFIX.len() + Self::DIGITS_MAX;

    #[inline]
    pub(crate) fn of(record: u64) -> Self {
        let mut bytes = [0; Self::BYTES_MAX];
        let hash = fnv_hash(record);
        // Three chains of divisions that do not wait for each other.
        let (high, low) = (hash / 100_000_000, hash % 100_000_000);
        let (top, middle) = (high / 100_000_000, high % 100_000_000);
        write_digits(top as u32, &mut bytes[4..8]);
        write_digits(middle as u32, &mut bytes[8..16]);
        write_digits(low as u32, &mut bytes[16..24]);
        let zeros = bytes[4..23].iter().take_while(|&&digit| digit == b'0').count();
        bytes[zeros..zeros + 4].copy_from_slice(Self::PREFIX);
        Self { bytes, start: zeros }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Fills `out` with the decimal digits of a number that has no more than fit.
#[inline]
fn write_digits(mut number: u32, out: &mut [u8]) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Writes all fields of a record in one version.
pub(crate) fn fill_record(record: u64, version: Version, scale: &Scale, out: &mut [u8]) {
    let first = record * scale.fields;
    for (key, field) in (first..).zip(out.chunks_exact_mut(scale.field_bytes as usize)) {
        fill(key, version, field);
    }
}

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
        } else {
            OpKind::ReadModifyWrite
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
        }
        Ok(self.operation.kind())
    }

    fn read<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<(), Abort> {
        let (store, key) = (self.store, self.key);
        let seen = &mut self.seen;
        runner.run(|tx| {
            witness.restart();
            let there = store.get(tx, key.bytes(), seen)?;
            if there { Ok(()) } else { Err(missing(self.record)) }
        })?;
        witness_record(witness, self.record, &self.scale, &self.seen)
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
        runner.run(|tx| {
            witness.restart();
            if W::WATCHES {
                let seen = &mut seen[..new.len()];
                if store.read_value(tx, key.bytes(), offset, seen)? {
                    witness.read(field_key, State::Holds(judge(field_key, seen)?));
                    witness.write(field_key, State::Holds(version));
                }
            }
            let there = store.update_value(tx, key.bytes(), offset, new)?;
            if there { Ok(()) } else { Err(missing(self.record)) }
        })
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
        runner.run(|tx| {
            witness.restart();
            let value = store.find(tx, key.bytes())?.ok_or_else(|| missing(self.record))?;
            load_value(tx, value, seen)?;
            let place = ByteRange::new(value.at.plus(offset), new.len() as u64);
            tx.will_write(&[place])?;
            tx.store(place.at, new)
        })?;
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
        let (seen, new) = (&mut self.seen, &self.new_record);
        let keys = record * scale.fields..(record + 1) * scale.fields;
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
        }
    }
}

/// The number of the record that a value says it is.
pub(crate) fn record_of(value: &[u8], scale: &Scale) -> Option<u64> {
    crate::content::key_of(value).map(|key| key / scale.fields)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_named_as_ycsb_names_them() {
        for record in (0..2_000).chain([u64::MAX, 1 << 40]) {
            let name = format!("user{}", fnv_hash(record));
            assert_eq!(KeyName::of(record).bytes(), name.as_bytes());
        }
        assert_eq!(KeyName::of(0).bytes(), b"user6284781860667377211");
    }

    #[test]
    fn short_hashes_lose_their_leading_zeros() {
        let mut digits = [0; 8];
        write_digits(1_234, &mut digits);
        assert_eq!(&digits, b"00001234");
        // Some of the first million hashes have 17 digits or fewer.
        let short = (0..1_000_000).filter(|&n| fnv_hash(n) < 10u64.pow(17)).collect::<Vec<_>>();
        assert!(short.len() > 1_000);
        for record in short {
            let name = format!("user{}", fnv_hash(record));
            assert_eq!(KeyName::of(record).bytes(), name.as_bytes());
        }
    }
}
