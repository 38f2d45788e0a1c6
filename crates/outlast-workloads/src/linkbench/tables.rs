//! The trees, their keys, and what their values hold.
//!
//! ```text
//! nodes   key  8 bytes: the node                   value  stamp, type 4, moment 8, data
//! links   key 16 bytes, as one number:             value  stamp, revision 4, data
//!              0  28  the node it leads to
//!             28  40  the complement of its moment: the newest comes first
//!             68   4  1: hidden
//!             72   8  its type
//!             80  48  the node it comes from
//! moments key 16 bytes: from, type, to             value  moment 8, hidden 1; the link's place
//! counts  key 16 bytes: from, type, 0              value  stamp, visible links 8, moment 8
//! ```
//!
//! So the visible links of a node lie together, in the order in which they are asked for, and
//! are found without touching the hidden ones. Data is of any length. Stamps vouch for all that
//! is behind them and, for links, for the moment and the hiding in their keys.

use outlast::collections::{ByteTree, Placement, Trees};
use outlast::{Abort, PoolOffset, Transact};

use crate::Version;
use crate::rows::{STAMP_BYTES, digest, seal, unseal};

/// The trees, in the order in which an audit follows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    Nodes,
    Links,
    Moments,
    Counts,
}

impl Table {
    pub(crate) const ALL: [Self; 4] = [Self::Nodes, Self::Links, Self::Moments, Self::Counts];
}

/// The trees of all tables.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Tables([ByteTree; Table::ALL.len()]);

impl Tables {
    /// Empty tables, as the pool's root object.
    pub(crate) fn create<T: Transact>(tx: &mut T, placement: Placement) -> Result<Self, Abort> {
        let trees = Table::ALL.iter().map(|_| ByteTree::create(tx, placement));
        let trees = trees.collect::<Result<Vec<_>, _>>()?;
        Trees::create(tx, &trees)?.set_root(tx)?;
        Ok(Self(trees.try_into().expect("a tree for each table")))
    }

    /// The tables at `root`; `None` when there are other ones.
    pub(crate) fn open<T: Transact>(tx: &mut T, root: PoolOffset) -> Result<Option<Self>, Abort> {
        Ok(Trees::open(tx, root)?.try_into().ok().map(Self))
    }

    #[inline]
    pub(crate) fn of(&self, table: Table) -> ByteTree {
        self.0[table as usize]
    }
}

/// Where a link is in the lists, as its place in the moments says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Listed {
    pub(crate) moment: u64,
    pub(crate) is_hidden: bool,
}

impl Listed {
    pub(crate) const BYTES: usize = 9;

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.moment.to_le_bytes());
        bytes[8] = u8::from(self.is_hidden);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (moment, rest) = bytes.split_first_chunk()?;
        let moment = u64::from_le_bytes(*moment);
        match rest {
            [hidden @ (0 | 1)] if moment <= MOMENT_MAX => {
                Some(Self { moment, is_hidden: *hidden == 1 })
            }
            _ => None,
        }
    }

    /// The part of the key that a stamp covers.
    fn mark(self) -> u64 {
        self.moment << 1 | u64::from(self.is_hidden)
    }
}

pub(crate) const MOMENT_MAX: u64 = (1 << 40) - 1;

/// A moment that grows with every transaction of a worker, and from worker to worker about
/// alike: a version with its worker in the lowest places.
pub(crate) fn moment(version: Version) -> u64 {
    (version.0 << 8 | version.0 >> 32) & MOMENT_MAX
}

/// Keys.
pub(crate) mod key {
    use super::{Listed, MOMENT_MAX};

    /// The key of a link in the lists.
    pub(crate) fn link(from: u64, kind: u64, listed: Listed, to: u64) -> [u8; 16] {
        let age = u128::from(MOMENT_MAX - listed.moment);
        let key = list_number(from, kind)
            | u128::from(listed.is_hidden) << 68
            | age << 28
            | u128::from(to);
        key.to_be_bytes()
    }

    /// Where the visible links of that type begin.
    pub(crate) fn list(from: u64, kind: u64) -> [u8; 16] {
        list_number(from, kind).to_be_bytes()
    }

    fn list_number(from: u64, kind: u64) -> u128 {
        u128::from(from) << 80 | u128::from(kind) << 72
    }

    /// From, type, how it is listed, and to.
    pub(crate) fn link_parts(key: [u8; 16]) -> (u64, u64, Listed, u64) {
        let key = u128::from_be_bytes(key);
        let part = |shift: u32, bits: u32| (key >> shift) as u64 & ((1 << bits) - 1);
        let listed = Listed { moment: MOMENT_MAX - part(28, 40), is_hidden: part(68, 4) != 0 };
        (part(80, 48), part(72, 8), listed, part(0, 28))
    }

    /// The key of a link among the moments; with no target that of a count.
    pub(crate) fn pair(from: u64, kind: u64, to: u64) -> [u8; 16] {
        (list_number(from, kind) | u128::from(to)).to_be_bytes()
    }

    /// From, type and to.
    pub(crate) fn pair_parts(key: [u8; 16]) -> (u64, u64, u64) {
        let key = u128::from_be_bytes(key);
        ((key >> 80) as u64, (key >> 72) as u64 & 0xFF, key as u64)
    }
}

/// Where the data of a node starts in its value.
pub(crate) const NODE_DATA_AT: usize = STAMP_BYTES + 12;
/// Where the data of a link starts in its value.
pub(crate) const LINK_DATA_AT: usize = STAMP_BYTES + 4;
/// Bytes of a count.
pub(crate) const COUNT_BYTES: usize = STAMP_BYTES + 16;

/// Fills in the stamp of a node's or a count's value.
pub(crate) fn stamp(fact: u64, version: Version, value: &mut [u8]) {
    let (start, rest) = value.split_at_mut(STAMP_BYTES);
    start.copy_from_slice(&seal(fact, version, rest));
}

/// The version of a node's or a count's value, if it is one.
pub(crate) fn version_of(fact: u64, value: &[u8]) -> Option<Version> {
    unseal(fact, value, value.get(STAMP_BYTES..)?)
}

/// Fills in the stamp of a link's value.
pub(crate) fn stamp_link(fact: u64, listed: Listed, version: Version, value: &mut [u8]) {
    stamp(mark(fact, listed), version, value);
}

/// The version of a link's value, if it is one.
pub(crate) fn version_of_link(fact: u64, listed: Listed, value: &[u8]) -> Option<Version> {
    version_of(mark(fact, listed), value)
}

fn mark(fact: u64, listed: Listed) -> u64 {
    fact ^ digest(&listed.mark().to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_links_come_first_and_hidden_ones_behind_all_visible_ones() {
        let listed = |moment, is_hidden| Listed { moment, is_hidden };
        let key = |moment, is_hidden, to| key::link(3, 1, listed(moment, is_hidden), to);
        assert!(key(9, false, 7) < key(8, false, 1));
        assert!(key(0, false, 7) < key(9, true, 1));
        assert!(key::list(3, 1) < key(9, false, 7) && key(0, true, 7) < key::list(3, 2));
        assert_eq!(key::link_parts(key(9, true, 7)), (3, 1, listed(9, true), 7));
        assert_eq!(key::pair_parts(key::pair(3, 1, 7)), (3, 1, 7));
    }

    #[test]
    fn moments_grow_for_each_worker() {
        let version = |worker: u64, count| Version(worker << 32 | count);
        assert!(moment(version(1, 5)) < moment(version(2, 5)));
        assert!(moment(version(2, 5)) < moment(version(1, 6)));
    }
}
