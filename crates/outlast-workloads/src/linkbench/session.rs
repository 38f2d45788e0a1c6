//! A transaction on the graph.

use outlast::collections::{Dictionary, load_value};
use outlast::error::Reason;
use outlast::{Abort, ByteRange, Transact};

use super::graph::{Graph, Link};
use super::tables::{COUNT_BYTES, Listed, MOMENT_MAX, Table, Tables, key};
use super::tables::{moment, stamp, stamp_link, version_of, version_of_link};
use crate::rows::{Put, STAMP_BYTES, Take};
use crate::{State, Version, Witness};

/// Links that a list is asked for, at most.
const LIST_LIMIT: u64 = 10_000;

/// A running transaction on the graph.
pub(super) struct Session<'s, T, W> {
    tx: &'s mut T,
    witness: &'s mut W,
    tables: &'s Tables,
    graph: &'s Graph,
    version: Version,
    /// The value read last.
    seen: &'s mut Vec<u8>,
}

/// How many visible links of a type a node has, and where that stands.
struct Count {
    place: Option<ByteRange>,
    links: u64,
}

impl<'s, T: Transact, W: Witness> Session<'s, T, W> {
    pub(super) fn new(
        tx: &'s mut T,
        witness: &'s mut W,
        (tables, graph): (&'s Tables, &'s Graph),
        version: Version,
        seen: &'s mut Vec<u8>,
    ) -> Self {
        witness.restart();
        Self { tx, witness, tables, graph, version, seen }
    }

    /// Reads a node; whether it is there.
    pub(super) fn get_node(&mut self, node: u64) -> Result<bool, Abort> {
        let there = self.tables.of(Table::Nodes).get(self.tx, &node.to_be_bytes(), self.seen)?;
        if W::WATCHES {
            let fact = self.graph.fact_of_node(node);
            let state = match there {
                true => State::Holds(version_of(fact, self.seen).ok_or_else(|| torn("node"))?),
                false => State::Absent,
            };
            self.witness.read(fact, state);
        }
        Ok(there)
    }

    /// Inserts a node. One that is there already is replaced: where a crash took the
    /// acknowledgement away, its number is drawn again.
    pub(super) fn add_node(&mut self, node: u64, value: &[u8]) -> Result<(), Abort> {
        if W::WATCHES {
            self.get_node(node)?;
        }
        self.tables.of(Table::Nodes).insert(self.tx, &node.to_be_bytes(), value)?;
        self.wrote(self.graph.fact_of_node(node), true);
        Ok(())
    }

    /// Replaces a node, if it is there.
    pub(super) fn update_node(&mut self, node: u64, value: &[u8]) -> Result<(), Abort> {
        if self.get_node(node)? {
            self.tables.of(Table::Nodes).insert(self.tx, &node.to_be_bytes(), value)?;
            self.wrote(self.graph.fact_of_node(node), true);
        }
        Ok(())
    }

    /// Removes a node, if it is there.
    pub(super) fn delete_node(&mut self, node: u64) -> Result<(), Abort> {
        if W::WATCHES {
            self.get_node(node)?;
        }
        if self.tables.of(Table::Nodes).remove(self.tx, &node.to_be_bytes())? {
            self.wrote(self.graph.fact_of_node(node), false);
        }
        Ok(())
    }

    /// Reads a link; whether it is there and visible.
    pub(super) fn get_link(&mut self, link: Link) -> Result<bool, Abort> {
        let Some((_, listed)) = self.listed(link)? else {
            if W::WATCHES {
                self.witness.read(self.graph.fact_of_link(link), State::Absent);
            }
            return Ok(false);
        };
        self.load_link(link, listed)?;
        Ok(!listed.is_hidden)
    }

    /// Reads the visible links of a type, the newest first; how many there are.
    pub(super) fn get_links(&mut self, from: u64, kind: u64) -> Result<u64, Abort> {
        let list = key::list(from, kind);
        let Self { tx, witness, tables, graph, seen, .. } = self;
        let (mut links, mut stopped) = (0, false);
        let scan = tables.of(Table::Links).scan(*tx, &list, LIST_LIMIT, |tx, key, place| {
            let parts = key.try_into().map(key::link_parts);
            let parts = parts.map_err(|_| torn("link"))?;
            let (of, of_kind, listed, to) = parts;
            if (of, of_kind, listed.is_hidden) != (from, kind, false) {
                stopped = true;
                return Err(Abort::Cancelled(Reason::default()));
            }
            load_value(tx, place, seen)?;
            links += 1;
            if W::WATCHES {
                let link = graph.link(from, kind, to).ok_or_else(|| torn("link"))?;
                let fact = graph.fact_of_link(link);
                let version = version_of_link(fact, listed, seen).ok_or_else(|| torn("link"))?;
                witness.read(fact, State::Holds(version));
            }
            Ok(())
        });
        match stopped {
            true => Ok(links),
            false => scan.map(|()| links),
        }
    }

    /// Reads how many visible links of a type there are.
    pub(super) fn count_links(&mut self, from: u64, kind: u64) -> Result<u64, Abort> {
        Ok(self.count(from, kind)?.links)
    }

    /// Makes a link what `data` says and visible; its count follows.
    pub(super) fn put_link(&mut self, link: Link, data: &[u8]) -> Result<(), Abort> {
        let listed = Listed { moment: moment(self.version), is_hidden: false };
        let (from, kind, to) = (link.from, link.kind(), self.graph.target(link));
        let fact = self.graph.fact_of_link(link);
        let old = self.listed(link)?;
        let was_visible = old.is_some_and(|(_, old)| !old.is_hidden);
        let mut revision = 0;
        match old {
            Some((_, old)) => {
                self.load_link(link, old)?;
                revision = Take(&self.seen[STAMP_BYTES..]).u32() + 1;
            }
            None if W::WATCHES => self.witness.read(fact, State::Absent),
            None => {}
        }
        let count = if was_visible { None } else { Some(self.count(from, kind)?) };
        let places = [old.map(|old| old.0), count.as_ref().and_then(|count| count.place)];
        self.announce(places)?;

        let mut value = vec![0; STAMP_BYTES];
        value.extend_from_slice(&u32::to_le_bytes(revision));
        value.extend_from_slice(data);
        stamp_link(fact, listed, self.version, &mut value);
        let links = self.tables.of(Table::Links);
        match old {
            Some((place, old)) => {
                links.remove(self.tx, &key::link(from, kind, old, to))?;
                self.tx.store(place.at, &listed.to_bytes())?;
            }
            None => {
                let moments = self.tables.of(Table::Moments);
                moments.add(self.tx, &key::pair(from, kind, to), &listed.to_bytes())?;
            }
        }
        links.add(self.tx, &key::link(from, kind, listed, to), &value)?;
        self.wrote(fact, true);
        count.map_or(Ok(()), |count| self.set_count((from, kind), &count, count.links + 1))
    }

    /// Hides a link, if it is there and visible; its count follows.
    pub(super) fn delete_link(&mut self, link: Link) -> Result<(), Abort> {
        if !self.get_link(link)? {
            return Ok(());
        }
        let (from, kind, to) = (link.from, link.kind(), self.graph.target(link));
        let fact = self.graph.fact_of_link(link);
        let (place, old) = self.listed(link)?.ok_or_else(|| torn("link"))?;
        let hidden = Listed { is_hidden: true, ..old };
        let mut value = std::mem::take(self.seen);
        let count = self.count(from, kind)?;
        self.announce([Some(place), count.place])?;

        stamp_link(fact, hidden, self.version, &mut value);
        let links = self.tables.of(Table::Links);
        links.remove(self.tx, &key::link(from, kind, old, to))?;
        links.add(self.tx, &key::link(from, kind, hidden, to), &value)?;
        self.tx.store(place.at, &hidden.to_bytes())?;
        self.wrote(fact, true);
        let fewer = count.links.checked_sub(1).ok_or_else(|| torn("count"))?;
        self.set_count((from, kind), &count, fewer)
    }

    /// Where a link is listed, and where that stands.
    fn listed(&mut self, link: Link) -> Result<Option<(ByteRange, Listed)>, Abort> {
        let key = key::pair(link.from, link.kind(), self.graph.target(link));
        let Some(place) = self.tables.of(Table::Moments).find(self.tx, &key)? else {
            return Ok(None);
        };
        let mut bytes = [0; Listed::BYTES];
        if place.len != bytes.len() as u64 {
            return Err(torn("moment"));
        }
        self.tx.load(place.at, &mut bytes)?;
        let listed = Listed::from_bytes(&bytes).ok_or_else(|| torn("moment"))?;
        debug_assert!(listed.moment <= MOMENT_MAX);
        Ok(Some((place, listed)))
    }

    /// Reads a link's value.
    fn load_link(&mut self, link: Link, listed: Listed) -> Result<(), Abort> {
        let key = key::link(link.from, link.kind(), listed, self.graph.target(link));
        if !self.tables.of(Table::Links).get(self.tx, &key, self.seen)? || self.seen.len() < 12 {
            return Err(torn("link"));
        }
        if W::WATCHES {
            let fact = self.graph.fact_of_link(link);
            let version = version_of_link(fact, listed, self.seen).ok_or_else(|| torn("link"))?;
            self.witness.read(fact, State::Holds(version));
        }
        Ok(())
    }

    fn count(&mut self, from: u64, kind: u64) -> Result<Count, Abort> {
        let key = key::pair(from, kind, 0);
        let fact = self.graph.fact_of_count(from, kind);
        let place = self.tables.of(Table::Counts).find(self.tx, &key)?;
        let Some(place) = place else {
            if W::WATCHES {
                self.witness.read(fact, State::Absent);
            }
            return Ok(Count { place: None, links: 0 });
        };
        let mut value = [0; COUNT_BYTES];
        if place.len != value.len() as u64 {
            return Err(torn("count"));
        }
        self.tx.load(place.at, &mut value)?;
        if W::WATCHES {
            let version = version_of(fact, &value).ok_or_else(|| torn("count"))?;
            self.witness.read(fact, State::Holds(version));
        }
        let links = Take(&value[STAMP_BYTES..]).u64();
        Ok(Count { place: Some(place), links })
    }

    fn set_count(
        &mut self,
        (from, kind): (u64, u64),
        count: &Count,
        links: u64,
    ) -> Result<(), Abort> {
        let fact = self.graph.fact_of_count(from, kind);
        let value = count_value(fact, self.version, links);
        match count.place {
            Some(place) => self.tx.store(place.at, &value)?,
            None => {
                let counts = self.tables.of(Table::Counts);
                counts.add(self.tx, &key::pair(from, kind, 0), &value)?;
            }
        }
        self.wrote(fact, true);
        Ok(())
    }

    fn announce(&mut self, places: [Option<ByteRange>; 2]) -> Result<(), Abort> {
        match places {
            [Some(a), Some(b)] => self.tx.will_write(&[a, b]),
            [Some(place), None] | [None, Some(place)] => self.tx.will_write(&[place]),
            [None, None] => Ok(()),
        }
    }

    fn wrote(&mut self, fact: u64, is_there: bool) {
        let state = if is_there { State::Holds(self.version) } else { State::Absent };
        self.witness.write(fact, state);
    }
}

/// The value of a count.
pub(super) fn count_value(fact: u64, version: Version, links: u64) -> [u8; COUNT_BYTES] {
    let mut value = [0; COUNT_BYTES];
    let mut put = Put(&mut value[STAMP_BYTES..]);
    put.u64(links);
    put.u64(moment(version));
    stamp(fact, version, &mut value);
    value
}

#[cold]
fn torn(what: &str) -> Abort {
    Abort::damaged(format!("a {what} is no version of it"))
}
