//! YCSB's row in the table of workloads.

use std::sync::Arc;

use outlast::collections::{Damage, Dictionary, FieldPlacement, ReadRaw, walk_root};
use outlast::{Abort, ByteRange, PoolOffset, RootKind, Runner, Transact};

use super::record::{record_of, unpack};
use super::{KeyName, Letter, YcsbWorker, fill_record, pack};
use crate::audit::{TORN, damage, is_dictionary};
use crate::content::version_of;
use crate::facts::Versions;
use crate::family::{Family, OnMachine, Unfit};
use crate::load::{create_store, load_pairs, open_store};
use crate::store::{Store, Structure};
use crate::workload::within;
use crate::{InsertSequence, Random, Scale, State, Version};

/// The family: which of the workloads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ycsb(pub(crate) Letter);

/// The records, and the numbers of those to come.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    store: Store,
    sequence: Arc<InsertSequence>,
}

impl Records {
    fn new(store: Store, next: u64) -> Self {
        Self { store, sequence: Arc::new(InsertSequence::new(next)) }
    }
}

impl Family for Ycsb {
    type Data = Records;
    type Worker = YcsbWorker;

    fn scale(self, common: Scale) -> Scale {
        let structure = match self.0 {
            Letter::E | Letter::Oltp => Structure::BTree,
            _ => Structure::HashMap,
        };
        Scale { records: 1_000_000, operations: 1_000_000, structure, ..common }
    }

    fn quick_scale(self, published: Scale) -> Scale {
        Scale { records: 50_000, ..published }
    }

    fn describe(self, _name: &str, scale: &Scale) -> String {
        let (records, bytes) = (scale.records, scale.record_bytes());
        let fields = match scale.fields_placed {
            None => "",
            Some(FieldPlacement::Together) => ", each field with its value",
            Some(FieldPlacement::Apart) => ", fields and values apart",
        };
        format!("YCSB: {records} records of {bytes} bytes{fields}")
    }

    fn check(self, scale: &Scale) -> Result<(), Unfit> {
        within("records", scale.records, 1..=1 << 32, "1 to 4,294,967,296 are possible")?;
        within("fields", scale.fields, 1..=256, "1 to 256 are possible")?;
        let bytes = scale.field_bytes;
        within("field bytes", bytes, 16..=1 << 16, "16 to 65,536 are possible")?;
        if scale.structure == Structure::RbTree {
            return Err(("structure", 0, "its keys are longer than a red-black tree's"));
        }
        if scale.structure == Structure::ClrsTree {
            return Err(("structure", 0, "its keys are longer than a B-tree's"));
        }
        if self.0.mix().scan > 0 && scale.structure != Structure::BTree {
            return Err(("structure", 0, "scans need the B+tree"));
        }
        Ok(())
    }

    fn has_fields(self) -> bool {
        self.0 != Letter::Oltp
    }

    fn heap_bytes(self, scale: &Scale) -> u64 {
        let records = scale.records + scale.operations * self.0.mix().insert / 100 * 2;
        // A key of 23 bytes and its lengths, up to a quarter lost to size classes, and the share of a
        // segment or of a leaf and its ancestors.
        (1 << 20) + records * ((scale.stored_bytes() + 64) * 5 / 4 + 64)
    }

    fn on_machine(self) -> OnMachine {
        OnMachine { footprint: 256 << 20, key_bytes: 1_100 }
    }

    fn load<R: Runner>(
        self,
        scale: &Scale,
        _seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Records, Abort> {
        let store = create_store(runner, scale.structure, scale.records, scale)?;
        let bytes = scale.stored_bytes() as usize;
        let mut values = vec![0; scale.record_bytes()];
        let mut stored = Vec::new();
        load_pairs(runner, store, 0..scale.records, bytes, progress, |n, value| {
            fill_record(n, Version::LOADED, scale, &mut values);
            value.copy_from_slice(pack(scale, &values, &mut stored));
            KeyName::of(n)
        })?;
        Ok(Records::new(store, scale.records.max(1)))
    }

    fn attach<T: Transact>(
        self,
        scale: &Scale,
        root: (PoolOffset, RootKind),
        tx: &mut T,
    ) -> Result<Option<Records>, Abort> {
        let Some(store) = open_store(tx, scale.structure, root)? else { return Ok(None) };
        let mut next = scale.records.max(1);
        while store.find(tx, KeyName::of(next).bytes())?.is_some() {
            next += 1;
        }
        Ok(Some(Records::new(store, next)))
    }

    fn worker(self, scale: &Scale, data: &Records, seed: u64, id: u8, used: u64) -> YcsbWorker {
        let random = Random::stream(seed, u64::from(id));
        let sequence = Arc::clone(&data.sequence);
        YcsbWorker::new(self.0, scale, data.store, sequence, random, Versions::new(id, used))
    }

    fn audit<R: ReadRaw>(
        self,
        scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        read: &mut R,
        visit: &mut dyn FnMut(u64, Version),
    ) -> Result<bool, Damage> {
        if !is_dictionary(kind) {
            return Ok(false);
        }
        let (mut value, mut stored) = (Vec::new(), Vec::new());
        let entry = |read: &mut R, key: &[u8], place: ByteRange| {
            crate::audit::load(read, place, scale.stored_bytes(), &mut stored)?;
            if !unpack(scale, &stored, &mut value) {
                return Err(damage(place.at, TORN));
            }
            audit_record(scale, key, place.at, &value, visit)
        };
        walk_root(kind, root, read, |_, _| {}, entry)?;
        Ok(true)
    }

    fn initial(self, scale: &Scale, _seed: u64, visit: &mut dyn FnMut(u64, State)) {
        let fields = 0..scale.records * scale.fields;
        fields.for_each(|key| visit(key, State::Holds(Version::LOADED)));
    }
}

fn audit_record(
    scale: &Scale,
    key: &[u8],
    at: PoolOffset,
    value: &[u8],
    visit: &mut dyn FnMut(u64, Version),
) -> Result<(), Damage> {
    let record = record_of(value, scale).ok_or_else(|| damage(at, TORN))?;
    if KeyName::of(record).bytes() != key {
        return Err(damage(at, "a record under another's key"));
    }
    let first = record.saturating_mul(scale.fields);
    for (key, field) in (first..).zip(value.chunks(scale.field_bytes as usize)) {
        visit(key, version_of(key, field).ok_or_else(|| damage(at, TORN))?);
    }
    Ok(())
}
