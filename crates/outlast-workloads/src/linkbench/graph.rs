//! The graph: which links a node can have, which of them are loaded, and the numbers by which
//! facts call nodes, links and counts.
//!
//! LinkBench draws out-degrees from measurements that it ships; here they follow a Pareto
//! distribution of shape 1.25, which LinkBench names for reads of links. The links of a node lead
//! to the nodes behind it, as LinkBench's do, and take turns in their types. Those that a node
//! could have and has not are what insertions choose from.

use crate::zipf::fnv_hash;

/// Types of links, as in LinkBench's configuration.
pub(crate) const TYPES: u64 = 2;
/// Nodes, those to be added included, at most: keys have 28 bits for them.
pub(crate) const NODES_MAX: u64 = (1 << 28) - 1;
const DEGREE_MAX: u64 = 10_000;
const SHAPE: f64 = 1.25;

/// Loaded nodes, and where the numbers of their links start.
#[derive(Debug)]
pub(crate) struct Graph {
    nodes: u64,
    /// For each node the links that all before it can have, and at the end of all.
    first_links: Box<[u64]>,
}

/// A link that a node can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    pub(crate) from: u64,
    pub(crate) nth: u64,
}

impl Graph {
    /// The graph of `nodes` loaded nodes.
    pub(crate) fn new(nodes: u64) -> Self {
        let mut sum = 0;
        let mut first_links = Vec::with_capacity(nodes as usize + 1);
        first_links.push(0);
        for node in 1..=nodes {
            sum += possible(degree(node, nodes), nodes);
            first_links.push(sum);
        }
        Self { nodes, first_links: first_links.into() }
    }

    pub(crate) fn nodes(&self) -> u64 {
        self.nodes
    }

    /// How many links of a node are loaded.
    pub(crate) fn degree(&self, node: u64) -> u64 {
        degree(node, self.nodes)
    }

    /// How many links a node can have.
    pub(crate) fn possible(&self, node: u64) -> u64 {
        self.first_links[node as usize] - self.first_links[node as usize - 1]
    }

    /// How many links all nodes together can have.
    pub(crate) fn all_possible(&self) -> u64 {
        self.first_links[self.nodes as usize]
    }

    /// Where a link leads.
    pub(crate) fn target(&self, link: Link) -> u64 {
        (link.from + link.nth) % self.nodes + 1
    }

    /// The link of that type between two nodes, if there can be one.
    pub(crate) fn link(&self, from: u64, kind: u64, to: u64) -> Option<Link> {
        let is_loaded = |node| (1..=self.nodes).contains(&node);
        if !is_loaded(from) || !is_loaded(to) {
            return None;
        }
        let nth = (to + self.nodes - 1 - from % self.nodes) % self.nodes;
        let is_possible = nth < self.possible(from) && nth % TYPES == kind;
        is_possible.then_some(Link { from, nth })
    }

    /// The place of a link among all that can be.
    pub(crate) fn nth_link(&self, link: Link) -> u64 {
        self.first_links[link.from as usize - 1] + link.nth
    }

    /// The place of a node's count of links of a type among all.
    pub(crate) fn nth_count(&self, from: u64, kind: u64) -> u64 {
        (from - 1) * TYPES + kind
    }

    pub(crate) fn fact_of_count(&self, from: u64, kind: u64) -> u64 {
        self.nth_count(from, kind)
    }

    pub(crate) fn fact_of_link(&self, link: Link) -> u64 {
        self.nodes * TYPES + self.nth_link(link)
    }

    /// Nodes come last: there may be more and more of them.
    pub(crate) fn fact_of_node(&self, node: u64) -> u64 {
        self.nodes * TYPES + self.all_possible() + node
    }
}

impl Link {
    pub(crate) fn kind(self) -> u64 {
        self.nth % TYPES
    }
}

fn degree(node: u64, nodes: u64) -> u64 {
    let even = (fnv_hash(node ^ 0x6465_6772) >> 10) as f64 / (1u64 << 53) as f64;
    let pareto = (1.0 - even).powf(-1.0 / SHAPE);
    (pareto as u64 - 1).min(DEGREE_MAX).min(nodes / 4)
}

/// As many again as are loaded, and some.
fn possible(degree: u64, nodes: u64) -> u64 {
    (2 * degree + 8).min(nodes - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn links_are_found_by_their_ends_and_have_facts_of_their_own() {
        let graph = Graph::new(200);
        let mut seen = HashSet::new();
        for from in 1..=200 {
            assert!(seen.insert(graph.fact_of_node(from)));
            (0..TYPES).for_each(|kind| assert!(seen.insert(graph.fact_of_count(from, kind))));
            for nth in 0..graph.possible(from) {
                let link = Link { from, nth };
                let to = graph.target(link);
                assert_eq!(graph.link(from, link.kind(), to), Some(link));
                assert_eq!(graph.link(from, 1 - link.kind(), to), None);
                assert_ne!(to, from);
                assert!(seen.insert(graph.fact_of_link(link)));
            }
            assert!(graph.degree(from) <= graph.possible(from));
        }
    }

    #[test]
    fn degrees_follow_a_power_law() {
        let nodes = 100_000;
        let degrees: Vec<u64> = (1..=nodes).map(|node| degree(node, nodes)).collect();
        let share = |least: u64| {
            degrees.iter().filter(|&&degree| degree >= least).count() as f64 / nodes as f64
        };
        for least in [1, 3, 9, 99] {
            let expected = (least as f64 + 1.0).powf(-SHAPE);
            assert!((share(least) / expected - 1.0).abs() < 0.15, "{least}: {}", share(least));
        }
        let mean = degrees.iter().sum::<u64>() as f64 / nodes as f64;
        assert!((2.5..6.0).contains(&mean), "{mean}");
    }
}
