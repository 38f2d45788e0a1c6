//! TATP's row in the table of workloads.

use outlast::collections::{Damage, Dictionary, ReadRaw};
use outlast::{Abort, PoolOffset, RootKind, Runner, Transact};

use super::TatpWorker;
use super::tables::{Table, Tables, digits, each_first_row};
use crate::facts::Versions;
use crate::family::{Family, OnMachine, Unfit};
use crate::store::Structure;
use crate::workload::within;
use crate::{Random, Scale, State, Version};

/// Subscribers whose rows one transaction loads.
const BATCH: u64 = 8;
/// The most subscribers: keys have 48 bits for them, and books a few bytes each.
const SUBSCRIBERS_MAX: u64 = 100_000_000;

/// The family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tatp;

impl Family for Tatp {
    type Data = Tables;
    type Worker = TatpWorker;

    fn scale(self, common: Scale) -> Scale {
        let (records, structure) = (100_000, Structure::BTree);
        Scale { records, operations: 1_000_000, structure, ..common }
    }

    fn quick_scale(self, published: Scale) -> Scale {
        Scale { records: 10_000, operations: 100_000, ..published }
    }

    fn scale_of(self, keys: u64, published: Scale) -> Scale {
        // A subscriber is some eleven rows.
        Scale { records: (keys / 11).max(4), ..published }
    }

    fn describe(self, _name: &str, scale: &Scale) -> String {
        format!("TATP: {} subscribers", scale.records)
    }

    fn check(self, scale: &Scale) -> Result<(), Unfit> {
        let possible = 1..=SUBSCRIBERS_MAX;
        within("records", scale.records, possible, "1 to 100,000,000 subscribers are possible")
    }

    fn heap_bytes(self, scale: &Scale) -> u64 {
        // The key and its lengths, up to a quarter lost to size classes, the share of the tree.
        const fn row(value: u64) -> u64 {
            (value + 16 + 64) * 5 / 4 + 48
        }
        // At most four kinds of access, four facilities, twelve forwardings, some of them inserted.
        let fixed = row(61) + row(8 + 15) + 4 * row(18) + 4 * row(16);
        let forwardings = (scale.records * 8 + scale.operations / 50).min(scale.records * 12);
        (1 << 20) + scale.records * fixed + forwardings * row(24)
    }

    fn on_machine(self) -> OnMachine {
        OnMachine { footprint: 64 << 20, key_bytes: 100 }
    }

    fn load<R: Runner>(
        self,
        scale: &Scale,
        _seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Tables, Abort> {
        let tables = runner.run(|tx| Tables::create(tx, scale.placement))?;
        let mut first = 1;
        while first <= scale.records {
            let end = (first + BATCH).min(scale.records + 1);
            runner.run(|tx| {
                for s in first..end {
                    let mut rows = Vec::new();
                    each_first_row(s, |key| rows.push(key));
                    for key in rows {
                        tables.of(key.table).insert(tx, &key.bytes(), key.loaded().value())?;
                    }
                    tables.of(Table::Numbers).insert(tx, &digits(s), &s.to_be_bytes())?;
                }
                Ok(())
            })?;
            first = end;
            progress(end - 1, scale.records);
        }
        Ok(tables)
    }

    fn attach<T: Transact>(
        self,
        _scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        tx: &mut T,
    ) -> Result<Option<Tables>, Abort> {
        if kind != RootKind::Trees {
            return Ok(None);
        }
        Tables::open(tx, root)
    }

    fn worker(self, scale: &Scale, tables: &Tables, seed: u64, id: u8, used: u64) -> TatpWorker {
        let random = Random::stream(seed, u64::from(id));
        TatpWorker::new(*tables, scale.records, random, Versions::new(id, used))
    }

    fn audit<R: ReadRaw>(
        self,
        scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        read: &mut R,
        visit: &mut dyn FnMut(u64, Version),
    ) -> Result<bool, Damage> {
        if kind != RootKind::Trees {
            return Ok(false);
        }
        super::audit(scale.records, root, read, visit).map(|()| true)
    }

    fn initial(self, scale: &Scale, _seed: u64, visit: &mut dyn FnMut(u64, State)) {
        for s in 1..=scale.records {
            each_first_row(s, |key| visit(key.fact(), State::Holds(Version::LOADED)));
        }
    }

    fn check_consistency<T: Transact>(
        self,
        scale: &Scale,
        tables: &Tables,
        tx: &mut T,
    ) -> Result<(), Abort> {
        super::check(scale.records, tables, tx)
    }
}
