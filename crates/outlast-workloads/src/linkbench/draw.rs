//! Requests of clients: the operation, its node or link, the size of its data.
//!
//! Popularity is zipfian with the skews of LinkBench's configuration, scattered over the nodes
//! by a hash, since LinkBench leaves 99.5 % of link reads and 95 % of link writes uncorrelated
//! with out-degrees. Nodes are deleted evenly. Only loaded nodes are asked for, as there.

use super::graph::{Graph, Link, TYPES};
use super::mix::{Chooser, Kind, Mix};
use crate::Random;
use crate::tpcc::letters;
use crate::zipf::{Zipfian, fnv_hash, zeta};

/// Skews of LinkBench's `read`, `write`, `node_read` and `node_update` distributions.
const SKEWS: [f64; 4] = [0.8, 0.741, 0.625, 0.606];
/// Median sizes of data in bytes, and most that there are.
pub(crate) const NODE_DATA: DataSize = DataSize { median: 128.0, most: 4_096 };
pub(crate) const LINK_DATA: DataSize = DataSize { median: 8.0, most: 255 };
/// The parameter of the geometric distribution of links that one request gets.
const MULTIGET: f64 = 0.382;
/// The most links that one request gets.
const MULTIGET_MAX: u64 = 128;

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    GetNode {
        node: u64,
    },
    /// The node's number is taken when it is drawn.
    AddNode {
        node: u64,
    },
    UpdateNode {
        node: u64,
    },
    DeleteNode {
        node: u64,
    },
    GetLinks {
        first: Link,
        count: u64,
    },
    GetLinkList {
        from: u64,
        kind: u64,
    },
    CountLinks {
        from: u64,
        kind: u64,
    },
    /// Also an update: it makes the link what it says, there or not.
    PutLink {
        link: Link,
        is_update: bool,
    },
    DeleteLink {
        link: Link,
    },
}

/// How long data is: log-normal with a deviation of 1, as LinkBench draws it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DataSize {
    median: f64,
    most: u64,
}

impl DataSize {
    pub(crate) fn draw(self, random: &mut Random) -> usize {
        let (a, b) = (1.0 - random.unit(), random.unit());
        let normal = (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos();
        ((self.median * normal.exp()).round() as u64).min(self.most) as usize
    }

    pub(crate) const fn most(self) -> usize {
        self.most as usize
    }
}

/// Fills `data` with a length and content of its own, behind what it holds.
pub(crate) fn extend_with_data(random: &mut Random, size: DataSize, value: &mut Vec<u8>) {
    let start = value.len();
    value.resize(start + size.draw(random), 0);
    letters(random, &mut value[start..]);
}

/// Draws requests.
pub(crate) struct Drawer {
    chooser: Chooser,
    reads: Zipfian,
    writes: Zipfian,
    node_reads: Zipfian,
    node_updates: Zipfian,
}

impl Drawer {
    pub(crate) fn new(mix: Mix, graph: &Graph) -> Self {
        let nodes = graph.nodes();
        let [reads, writes, node_reads, node_updates] =
            SKEWS.map(|skew| Zipfian::with_theta(nodes, zeta_of(nodes, skew), skew));
        Self { chooser: Chooser::new(mix), reads, writes, node_reads, node_updates }
    }

    /// The next request; `take` gives the number of a node to be added.
    pub(crate) fn draw(
        &self,
        graph: &Graph,
        random: &mut Random,
        take: impl FnOnce() -> u64,
    ) -> Request {
        let nodes = graph.nodes();
        let scattered =
            |zipfian: &Zipfian, random: &mut Random| 1 + fnv_hash(zipfian.draw(random)) % nodes;
        match self.chooser.draw(random) {
            Kind::GetNode => Request::GetNode { node: scattered(&self.node_reads, random) },
            Kind::AddNode => Request::AddNode { node: take() },
            Kind::UpdateNode => Request::UpdateNode { node: scattered(&self.node_updates, random) },
            Kind::DeleteNode => Request::DeleteNode { node: 1 + random.below(nodes) },
            Kind::GetLink => {
                let from = scattered(&self.reads, random);
                let first = Link { from, nth: random.below(graph.degree(from).max(1)) };
                Request::GetLinks { first, count: geometric(random) }
            }
            Kind::GetLinkList => {
                let from = scattered(&self.reads, random);
                Request::GetLinkList { from, kind: random.below(TYPES) }
            }
            Kind::CountLinks => {
                let from = scattered(&self.reads, random);
                Request::CountLinks { from, kind: random.below(TYPES) }
            }
            // What is added was not loaded, what is updated or deleted was.
            Kind::AddLink => {
                let from = scattered(&self.writes, random);
                let loaded = graph.degree(from);
                let nth = loaded + random.below(graph.possible(from) - loaded);
                Request::PutLink { link: Link { from, nth }, is_update: false }
            }
            Kind::UpdateLink => {
                let link = self.loaded_link(graph, random, scattered);
                Request::PutLink { link, is_update: true }
            }
            Kind::DeleteLink => {
                Request::DeleteLink { link: self.loaded_link(graph, random, scattered) }
            }
        }
    }

    fn loaded_link(
        &self,
        graph: &Graph,
        random: &mut Random,
        scattered: impl Fn(&Zipfian, &mut Random) -> u64,
    ) -> Link {
        let from = scattered(&self.writes, random);
        Link { from, nth: random.below(graph.degree(from).max(1)) }
    }
}

fn geometric(random: &mut Random) -> u64 {
    let even = 1.0 - random.unit();
    1 + ((even.ln() / (1.0 - MULTIGET).ln()) as u64).min(MULTIGET_MAX - 1)
}

/// The zeta of `items`, for a skew below 1: what is behind the first ten thousand items is their
/// integral, to within a hundred-thousandth of one item.
fn zeta_of(items: u64, skew: f64) -> f64 {
    let first = items.min(10_000);
    let at = |i: u64| (i as f64).powf(-skew);
    let up_to = |i: u64| (i as f64).powf(1.0 - skew) / (1.0 - skew);
    zeta(0, first, skew) + up_to(items) - up_to(first) + (at(items) - at(first)) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_has_the_median_that_is_published() {
        let mut random = Random::new(3);
        for size in [NODE_DATA, LINK_DATA] {
            let mut drawn: Vec<_> = (0..20_001).map(|_| size.draw(&mut random) as f64).collect();
            drawn.sort_by(f64::total_cmp);
            let median = drawn[10_000];
            assert!((median / size.median - 1.0).abs() < 0.08, "{median} of {size:?}");
            assert!(drawn[20_000] <= size.most as f64);
        }
    }

    #[test]
    fn one_request_gets_two_to_three_links() {
        let mut random = Random::new(3);
        let sum: u64 = (0..20_000).map(|_| geometric(&mut random)).sum();
        let mean = sum as f64 / 20_000.0;
        assert!((2.5..2.75).contains(&mean), "{mean}");
    }

    #[test]
    fn sums_over_many_items_are_what_they_would_be() {
        for skew in SKEWS {
            assert!((zeta_of(200_000, skew) - zeta(0, 200_000, skew)).abs() < 1e-3);
            assert!((zeta_of(100, skew) - zeta(0, 100, skew)).abs() < 1e-9);
        }
    }
}
