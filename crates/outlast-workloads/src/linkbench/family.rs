//! LinkBench's row in the table of workloads.

use std::sync::Arc;

use outlast::collections::{Damage, ReadRaw};
use outlast::{Abort, PoolOffset, RootKind, Runner, Transact};

use super::graph::{Graph, NODES_MAX};
use super::load::{initial, load};
use super::tables::Tables;
use super::{LinkbenchWorker, Mix};
use crate::facts::Versions;
use crate::family::{Family, OnMachine, Unfit};
use crate::store::Structure;
use crate::workload::within;
use crate::{InsertSequence, Random, Scale, State, Version};

/// The family: its shares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Linkbench(pub(crate) Mix);

/// The tables, the graph that they hold, and the numbers of nodes to come.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    tables: Tables,
    graph: Arc<Graph>,
    sequence: Arc<InsertSequence>,
}

impl Held {
    fn new(tables: Tables, graph: Graph, next: u64) -> Self {
        Self { tables, graph: Arc::new(graph), sequence: Arc::new(InsertSequence::new(next)) }
    }
}

impl Family for Linkbench {
    type Data = Held;
    type Worker = LinkbenchWorker;

    fn scale(self, common: Scale) -> Scale {
        let (records, structure) = (10_000_000, Structure::BTree);
        Scale { records, operations: records, structure, ..common }
    }

    fn quick_scale(self, published: Scale) -> Scale {
        Scale { records: 50_000, ..published }
    }

    fn full_scale(self, published: Scale) -> Scale {
        Scale { records: 500_000, ..published }
    }

    fn scale_of(self, keys: u64, published: Scale) -> Scale {
        Scale { records: (keys / 5).max(8), ..published }
    }

    fn describe(self, _name: &str, scale: &Scale) -> String {
        format!("LinkBench: {} nodes", scale.records)
    }

    fn check(self, scale: &Scale) -> Result<(), Unfit> {
        let possible = 8..=NODES_MAX / 2;
        within("records", scale.records, possible, "8 to 134,217,727 nodes are possible")
    }

    fn heap_bytes(self, scale: &Scale) -> u64 {
        super::heap_bytes(&Graph::new(scale.records), scale.operations)
    }

    fn on_machine(self) -> OnMachine {
        OnMachine { footprint: 256 << 20, key_bytes: 300 }
    }

    fn load<R: Runner>(
        self,
        scale: &Scale,
        seed: u64,
        runner: &mut R,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Held, Abort> {
        let graph = Graph::new(scale.records);
        let tables = runner.run(|tx| Tables::create(tx, scale.placement))?;
        load(runner, tables, &graph, seed, progress)?;
        let next = graph.nodes() + 1;
        Ok(Held::new(tables, graph, next))
    }

    fn attach<T: Transact>(
        self,
        scale: &Scale,
        (root, kind): (PoolOffset, RootKind),
        tx: &mut T,
    ) -> Result<Option<Held>, Abort> {
        if kind != RootKind::Trees {
            return Ok(None);
        }
        let Some(tables) = Tables::open(tx, root)? else { return Ok(None) };
        let next = super::next_node(&tables, tx)?.max(scale.records.max(1) + 1);
        Ok(Some(Held::new(tables, Graph::new(scale.records), next)))
    }

    fn worker(self, _scale: &Scale, data: &Held, seed: u64, id: u8, used: u64) -> LinkbenchWorker {
        let random = Random::stream(seed, u64::from(id));
        let Held { tables, graph, sequence } = data.clone();
        LinkbenchWorker::new(self.0, tables, graph, sequence, random, Versions::new(id, used))
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
        super::audit(&Graph::new(scale.records), root, read, visit).map(|()| true)
    }

    fn initial(self, scale: &Scale, _seed: u64, visit: &mut dyn FnMut(u64, State)) {
        let graph = Graph::new(scale.records);
        initial(&graph, |key| visit(key, State::Holds(Version::LOADED)));
    }

    fn check_consistency<T: Transact>(
        self,
        _scale: &Scale,
        data: &Held,
        tx: &mut T,
    ) -> Result<(), Abort> {
        super::check(&data.graph, &data.tables, tx)
    }
}
