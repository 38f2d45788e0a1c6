//! `linkbench` and `linkbench-archapt`: LinkBench, a social graph, over B+trees.
//!
//! Armstrong, Ponnekanti, Borthakur, Callaghan, "LinkBench: a database benchmark based on the
//! Facebook social graph" (SIGMOD 2013), with its published configuration (`FBWorkload.properties`):
//!
//! - The shares of ten operations have seven decimals, and sum to 100.
//! - Popularity is zipfian with a skew of 0.8 for reads of links, 0.741 for writes, 0.625 and 0.606
//!   for nodes.
//! - Data of nodes and links is log-normal with medians of 128 and 8 bytes.
//! - There are two types of links, and lists of at most 10,000.
//!
//! Read differently: out-degrees follow a Pareto distribution
//! instead of measured ones, all operations on links take the popularity that is uncorrelated
//! with out-degrees, and no list is asked for by its history.
//!
//! Nodes are inserted, replaced and removed. Links are never removed but hidden, as LinkBench
//! deletes them; updating one inserts it where it is missing. The count of a node's links of a
//! type changes in the same transaction as the links.
//!
//! `linkbench-archapt` has the shares that the paper on Archapt gives for LinkBench (Table III):
//! 64 % reads, 16 updates, 12 insertions, 4 scans, 4 deletions. That is not LinkBench's own mix,
//! of which half are scans. We read it so: reads are GetNode, GetLink and CountLinks; updates
//! UpdateNode and UpdateLink; insertions AddNode and AddLink; scans GetLinkList; deletions
//! DeleteLink and DeleteNode; within each in the proportion that LinkBench has them in.

mod books;
mod draw;
mod family;
mod graph;
mod load;
mod mix;
mod session;
mod tables;

use std::sync::Arc;

use outlast::collections::{Damage, Dictionary, ReadRaw, Trees, load_value};
use outlast::{Abort, ByteRange, PoolOffset, Runner, Transact};

pub(crate) use self::family::Linkbench;
pub(crate) use self::mix::Mix;

use self::books::Books;
use self::draw::{Drawer, LINK_DATA, NODE_DATA, Request, extend_with_data};
use self::graph::{Graph, Link, TYPES};
use self::load::node_value;
use self::session::Session;
use self::tables::{LINK_DATA_AT, NODE_DATA_AT, Table, Tables};
use crate::facts::Versions;
use crate::family::Thread;
use crate::{InsertSequence, OpKind, Random, Version, Witness};

/// Longest value: a node's.
const VALUE_BYTES_MAX: u64 = (NODE_DATA_AT + NODE_DATA.most()) as u64;

/// One client of LinkBench.
pub(crate) struct LinkbenchWorker {
    tables: Tables,
    graph: Arc<Graph>,
    drawer: Drawer,
    sequence: Arc<InsertSequence>,
    random: Random,
    versions: Versions,
    request: Request,
    version: Version,
    /// The bytes that the request stores: a node's value, a link's data.
    new: Vec<u8>,
    seen: Vec<u8>,
}

impl LinkbenchWorker {
    pub(crate) fn new(
        mix: Mix,
        tables: Tables,
        graph: Arc<Graph>,
        sequence: Arc<InsertSequence>,
        random: Random,
        versions: Versions,
    ) -> Self {
        let mut worker = Self {
            tables,
            drawer: Drawer::new(mix, &graph),
            graph,
            sequence,
            random,
            versions,
            request: Request::GetNode { node: 1 },
            version: Version::LOADED,
            new: Vec::new(),
            seen: Vec::new(),
        };
        worker.draw();
        worker
    }
}

impl Thread for LinkbenchWorker {
    fn draw(&mut self) {
        let Self { graph, sequence, random, new, .. } = self;
        self.request = self.drawer.draw(graph, random, || sequence.take());
        self.version = self.versions.next();
        match self.request {
            Request::AddNode { node } | Request::UpdateNode { node } => {
                node_value(graph.fact_of_node(node), self.version, random, new);
            }
            Request::PutLink { .. } => {
                new.clear();
                extend_with_data(random, LINK_DATA, new);
            }
            _ => {}
        }
    }

    fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        let Self { tables, graph, request, version, new, seen, .. } = self;
        let kind = runner.run(|tx| {
            let mut session = Session::new(tx, witness, (&*tables, &**graph), *version, seen);
            perform(&mut session, graph, request, new)
        })?;
        if let Request::AddNode { node } = self.request {
            self.sequence.acknowledge(node);
        }
        Ok(kind)
    }

    fn versions(&self) -> Option<&Versions> {
        Some(&self.versions)
    }
}

fn perform<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    graph: &Graph,
    request: &Request,
    new: &[u8],
) -> Result<OpKind, Abort> {
    match *request {
        Request::GetNode { node } => session.get_node(node).map(|_| OpKind::GetNode),
        Request::AddNode { node } => session.add_node(node, new).map(|()| OpKind::AddNode),
        Request::UpdateNode { node } => session.update_node(node, new).map(|()| OpKind::UpdateNode),
        Request::DeleteNode { node } => session.delete_node(node).map(|()| OpKind::DeleteNode),
        Request::GetLinks { first: Link { from, nth }, count } => {
            let all = (nth..graph.possible(from)).step_by(TYPES as usize);
            for nth in all.take(count as usize) {
                session.get_link(Link { from, nth })?;
            }
            Ok(OpKind::GetLink)
        }
        Request::GetLinkList { from, kind } => {
            session.get_links(from, kind).map(|_| OpKind::GetLinkList)
        }
        Request::CountLinks { from, kind } => {
            session.count_links(from, kind).map(|_| OpKind::CountLinks)
        }
        Request::PutLink { link, is_update } => {
            session.put_link(link, new)?;
            Ok(if is_update { OpKind::UpdateLink } else { OpKind::AddLink })
        }
        Request::DeleteLink { link } => session.delete_link(link).map(|()| OpKind::DeleteLink),
    }
}

/// The number after the last node's.
///
/// # Errors
/// Those of the transaction.
fn next_node<T: Transact>(tables: &Tables, tx: &mut T) -> Result<u64, Abort> {
    let mut last = 0;
    tables.of(Table::Nodes).for_each(tx, |_, key, _| {
        last = key.try_into().map_or(0, u64::from_be_bytes);
        Ok(())
    })?;
    Ok(last + 1)
}

/// Checks every row and what must hold of them together, and calls `visit` with each row's
/// number among the facts and its version.
///
/// # Errors
/// The first thing that is wrong.
fn audit<R: ReadRaw>(
    graph: &Graph,
    root: PoolOffset,
    read: &mut R,
    visit: &mut dyn FnMut(u64, Version),
) -> Result<(), Damage> {
    let mut books = Books::open(graph);
    let mut value = Vec::new();
    Trees::walk(
        root,
        read,
        |_, _| {},
        |read, tree, key, place: ByteRange| {
            let damage = |what| Damage { at: place.at, what };
            let table = Table::ALL.get(tree).ok_or_else(|| damage("a table too many"))?;
            crate::audit::load_up_to(read, place, VALUE_BYTES_MAX, &mut value)?;
            if let Some((fact, version)) = books.enter(*table, key, &value).map_err(damage)? {
                visit(fact, version);
            }
            Ok(())
        },
    )?;
    books.close().map_err(|what| Damage { at: root, what })
}

/// Checks the same from inside a transaction.
///
/// # Errors
/// [`Abort::Damaged`] with the first thing that is wrong.
fn check<T: Transact>(graph: &Graph, tables: &Tables, tx: &mut T) -> Result<(), Abort> {
    let mut books = Books::open(graph);
    let wrong = |what: &str| Abort::damaged(what.to_owned());
    let mut value = Vec::new();
    for table in Table::ALL {
        tables.of(table).for_each(tx, |tx, key, place| {
            value.clear();
            load_value(tx, place, &mut value)?;
            books.enter(table, key, &value).map(drop).map_err(wrong)
        })?;
    }
    books.close().map_err(wrong)
}

/// Bytes that the blocks need at most after `transactions` transactions.
fn heap_bytes(graph: &Graph, transactions: u64) -> u64 {
    const FIXED: u64 = 1 << 20;
    // The means of log-normal sizes are 1.65 times their medians. A node that is replaced lies
    // beside the old one until its transaction ends.
    const NODE: u64 = (NODE_DATA_AT as u64 + 230 + 80) * 5 / 4 + 48;
    const LINK: u64 = (LINK_DATA_AT as u64 + 20 + 80) * 5 / 4 + 48 + 160;
    let loaded: u64 = (1..=graph.nodes()).map(|node| graph.degree(node)).sum();
    let links = graph.all_possible().min(loaded + transactions / 8);
    FIXED + graph.nodes() * (NODE + 2 * 140) + links * LINK + transactions / 30 * NODE
}

#[cfg(test)]
mod tests;
