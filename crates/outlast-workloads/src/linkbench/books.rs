//! Consistency of the tables: the count of a node's links of a type is the number of
//! those that are visible; every link is listed once, where its moment says.

use super::graph::{Graph, TYPES};
use super::tables::{COUNT_BYTES, LINK_DATA_AT, Listed, NODE_DATA_AT, Table, key};
use super::tables::{MOMENT_MAX, version_of, version_of_link};
use crate::Version;
use crate::rows::{STAMP_BYTES, Take};

/// Why tables are not consistent.
pub(super) type Wrong = &'static str;

/// Rows as they come by, in the order of the tables.
pub(super) struct Books<'g> {
    graph: &'g Graph,
    /// How each link is listed, if it is.
    listed: Vec<Option<Listed>>,
    /// How many links have a place among the moments.
    moments: u64,
    links: u64,
    /// Visible links by node and type, less what their counts say.
    visible: Vec<i64>,
}

impl<'g> Books<'g> {
    pub(super) fn open(graph: &'g Graph) -> Self {
        let listed = vec![None; graph.all_possible() as usize];
        let visible = vec![0; (graph.nodes() * TYPES) as usize];
        Self { graph, listed, moments: 0, links: 0, visible }
    }

    /// Enters what a tree has under a key. Returns what facts call it, and its version; nothing
    /// for an entry of an index.
    ///
    /// # Errors
    /// Enters a row. An error if it contradicts the rows before it, or itself.
    pub(super) fn enter(
        &mut self,
        table: Table,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<(u64, Version)>, Wrong> {
        const LENGTH: Wrong = "a key of another length";
        match table {
            Table::Nodes => {
                let node = key.try_into().map(u64::from_be_bytes).map_err(|_| LENGTH)?;
                self.node(node, value).map(Some)
            }
            Table::Links => self.link(key.try_into().map_err(|_| LENGTH)?, value).map(Some),
            Table::Moments => {
                self.moment(key.try_into().map_err(|_| LENGTH)?, value).map(|()| None)
            }
            Table::Counts => self.count(key.try_into().map_err(|_| LENGTH)?, value).map(Some),
        }
    }

    fn node(&mut self, node: u64, value: &[u8]) -> Result<(u64, Version), Wrong> {
        if node == 0 || node > super::graph::NODES_MAX || value.len() < NODE_DATA_AT {
            return Err("a node that cannot be");
        }
        let fact = self.graph.fact_of_node(node);
        Ok((fact, version_of(fact, value).ok_or("a node that is no version of it")?))
    }

    fn link(&mut self, key: [u8; 16], value: &[u8]) -> Result<(u64, Version), Wrong> {
        let (from, kind, listed, to) = key::link_parts(key);
        let link = self.graph.link(from, kind, to).ok_or("a link that cannot be")?;
        if key != key::link(from, kind, listed, to) || value.len() < LINK_DATA_AT {
            return Err("a link that cannot be");
        }
        let place = &mut self.listed[self.graph.nth_link(link) as usize];
        if place.replace(listed).is_some() {
            return Err("a link is listed twice");
        }
        self.links += 1;
        if !listed.is_hidden {
            self.visible[self.graph.nth_count(from, kind) as usize] += 1;
        }
        let fact = self.graph.fact_of_link(link);
        let version = version_of_link(fact, listed, value);
        Ok((fact, version.ok_or("a link that is no version of it")?))
    }

    fn moment(&mut self, key: [u8; 16], value: &[u8]) -> Result<(), Wrong> {
        let (from, kind, to) = key::pair_parts(key);
        let link = self.graph.link(from, kind, to).ok_or("a moment of no link")?;
        let listed = Listed::from_bytes(value).ok_or("a moment that cannot be")?;
        self.moments += 1;
        match self.listed[self.graph.nth_link(link) as usize] == Some(listed) {
            true => Ok(()),
            false => Err("a link is not listed where its moment says"),
        }
    }

    fn count(&mut self, key: [u8; 16], value: &[u8]) -> Result<(u64, Version), Wrong> {
        let (from, kind, to) = key::pair_parts(key);
        let is_possible = (1..=self.graph.nodes()).contains(&from) && kind < TYPES && to == 0;
        if !is_possible || value.len() != COUNT_BYTES {
            return Err("a count that cannot be");
        }
        let mut numbers = Take(&value[STAMP_BYTES..]);
        let (links, moment) = (numbers.u64(), numbers.u64());
        if moment > MOMENT_MAX || links > self.links {
            return Err("a count that cannot be");
        }
        self.visible[self.graph.nth_count(from, kind) as usize] -= links as i64;
        let fact = self.graph.fact_of_count(from, kind);
        Ok((fact, version_of(fact, value).ok_or("a count that is no version of it")?))
    }

    /// Compares the sums, when everything was entered.
    ///
    /// # Errors
    /// A condition that is broken.
    pub(super) fn close(&self) -> Result<(), Wrong> {
        if self.moments != self.links {
            return Err("links have no moment");
        }
        match self.visible.iter().all(|&left| left == 0) {
            true => Ok(()),
            false => Err("a count is not the number of visible links"),
        }
    }
}
