//! The loaded graph: every node, its links, and their counts.

use outlast::collections::Dictionary;
use outlast::{Abort, Runner};

use super::draw::{LINK_DATA, NODE_DATA, extend_with_data};
use super::graph::{Graph, Link, TYPES};
use super::session::count_value;
use super::tables::{Listed, Table, Tables, key, moment, stamp, stamp_link};
use crate::rows::STAMP_BYTES;
use crate::{Random, Version};

/// Value bytes that one transaction stores.
const BATCH_BYTES: usize = 16 << 10;
/// Rows that one transaction inserts, at most.
const BATCH_ROWS: usize = 64;

/// The value of a node, in one version.
pub(super) fn node_value(fact: u64, version: Version, random: &mut Random, value: &mut Vec<u8>) {
    const TYPE: u32 = 2048;
    value.clear();
    value.resize(STAMP_BYTES, 0);
    value.extend_from_slice(&TYPE.to_le_bytes());
    value.extend_from_slice(&moment(version).to_le_bytes());
    extend_with_data(random, NODE_DATA, value);
    stamp(fact, version, value);
}

type Pending = Vec<(Table, Vec<u8>, Vec<u8>)>;

/// Fills the tables.
///
/// # Errors
/// Whatever a transaction fails with.
pub(crate) fn load<R: Runner>(
    runner: &mut R,
    tables: Tables,
    graph: &Graph,
    seed: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Abort> {
    let mut random = Random::stream(seed, u64::MAX);
    let mut rows = Pending::new();
    let mut bytes = 0;
    for node in 1..=graph.nodes() {
        let before = rows.len();
        load_node(graph, node, &mut random, &mut rows);
        bytes += rows[before..].iter().map(|row| row.2.len()).sum::<usize>();
        let is_last = node == graph.nodes();
        if is_last || bytes >= BATCH_BYTES || rows.len() >= BATCH_ROWS {
            insert(runner, tables, &mut rows)?;
            bytes = 0;
            progress(node, graph.nodes());
        }
    }
    Ok(())
}

fn insert<R: Runner>(runner: &mut R, tables: Tables, rows: &mut Pending) -> Result<(), Abort> {
    // A node may have thousands of links: no transaction takes more than a batch.
    for batch in rows.chunks(BATCH_ROWS) {
        runner.run(|tx| {
            batch.iter().try_for_each(|(table, key, value)| {
                tables.of(*table).insert(tx, key, value).map(drop)
            })
        })?;
    }
    rows.clear();
    Ok(())
}

fn load_node(graph: &Graph, node: u64, random: &mut Random, rows: &mut Pending) {
    let version = Version::LOADED;
    let mut value = Vec::new();
    node_value(graph.fact_of_node(node), version, random, &mut value);
    rows.push((Table::Nodes, node.to_be_bytes().into(), value));
    let listed = Listed { moment: moment(version), is_hidden: false };
    let mut counts = [0; TYPES as usize];
    for nth in 0..graph.degree(node) {
        let link = Link { from: node, nth };
        let (kind, to) = (link.kind(), graph.target(link));
        counts[kind as usize] += 1;
        let mut value = vec![0; STAMP_BYTES + 4];
        extend_with_data(random, LINK_DATA, &mut value);
        stamp_link(graph.fact_of_link(link), listed, version, &mut value);
        rows.push((Table::Links, key::link(node, kind, listed, to).into(), value));
        let place = key::pair(node, kind, to).into();
        rows.push((Table::Moments, place, listed.to_bytes().into()));
    }
    for (kind, links) in (0..).zip(counts).filter(|count| count.1 > 0) {
        let value = count_value(graph.fact_of_count(node, kind), version, links);
        rows.push((Table::Counts, key::pair(node, kind, 0).into(), value.into()));
    }
}

/// Calls `visit` with the number among the facts of everything that is loaded.
pub(crate) fn initial(graph: &Graph, mut visit: impl FnMut(u64)) {
    for node in 1..=graph.nodes() {
        visit(graph.fact_of_node(node));
        let links = graph.degree(node);
        (0..links).for_each(|nth| visit(graph.fact_of_link(Link { from: node, nth })));
        (0..links.min(TYPES)).for_each(|kind| visit(graph.fact_of_count(node, kind)));
    }
}
