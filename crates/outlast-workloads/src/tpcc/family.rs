//! TPC-C's row in the table of workloads.

use outlast::collections::{Damage, ReadRaw};
use outlast::{Abort, PoolOffset, RootKind, Runner, Transact};

use super::TpccWorker;
use super::schema::Tables;
use super::shape::Shape;
use crate::facts::Versions;
use crate::family::{Family, OnMachine, Unfit};
use crate::store::Structure;
use crate::{Random, Scale, State, Version};

/// The family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tpcc;

impl Family for Tpcc {
    type Data = Tables;
    type Worker = TpccWorker;

    fn scale(self, common: Scale) -> Scale {
        Scale { records: 1, operations: 100_000, structure: Structure::BTree, ..common }
    }

    fn quick_scale(self, published: Scale) -> Scale {
        Scale { customers: 300, items: 10_000, ..published }
    }

    fn tx_ns_min(self) -> u64 {
        4_000
    }

    fn scale_of(self, keys: u64, published: Scale) -> Scale {
        // A customer is some 15 rows with the first order; a fifth are items and stocks.
        let districts = (keys / 500).clamp(1, Shape::DISTRICTS_MAX);
        let customers = (keys * 4 / 5 / 15 / districts).clamp(3, Shape::CUSTOMERS_MAX);
        let items = (keys / 10).clamp(10, Shape::ITEMS_MAX);
        Scale { records: 1, districts, customers, items, ..published }
    }

    fn describe(self, _name: &str, scale: &Scale) -> String {
        let Scale { records, districts, customers, items, .. } = scale;
        format!(
            "TPC-C: {records} warehouses of {districts} districts with {customers} customers each, \
             {items} items"
        )
    }

    fn check(self, scale: &Scale) -> Result<(), Unfit> {
        Shape::of(scale).check()
    }

    fn heap_bytes(self, scale: &Scale) -> u64 {
        super::heap_bytes(Shape::of(scale), scale.operations)
    }

    fn on_machine(self) -> OnMachine {
        OnMachine { footprint: 256 << 20, key_bytes: 1_000 }
    }

    fn load<R: Runner>(
        self,
        scale: &Scale,
        seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Tables, Abort> {
        let tables = runner.run(|tx| Tables::create(tx, scale.placement))?;
        super::load::load(runner, tables, Shape::of(scale), seed, progress)?;
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

    fn worker(self, scale: &Scale, tables: &Tables, seed: u64, id: u8, used: u64) -> TpccWorker {
        let random = Random::stream(seed, u64::from(id));
        TpccWorker::new(*tables, Shape::of(scale), random, Versions::new(id, used))
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
        super::audit(Shape::of(scale), root, read, visit).map(|()| true)
    }

    fn initial(self, scale: &Scale, _seed: u64, visit: &mut dyn FnMut(u64, State)) {
        super::initial(Shape::of(scale), |key| visit(key, State::Holds(Version::LOADED)));
    }

    fn check_consistency<T: Transact>(
        self,
        scale: &Scale,
        tables: &Tables,
        tx: &mut T,
    ) -> Result<(), Abort> {
        super::check(Shape::of(scale), tables, tx)
    }
}
