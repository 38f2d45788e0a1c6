//! The tables, and what all rows have in common.

use outlast::collections::{ByteTree, Placement, Trees};
use outlast::{Abort, PoolOffset, Transact};

use super::shape::{Parts, Shape, key};
use crate::rows::{Put, STAMP_BYTES, Take};

/// The trees, in the order in which an audit follows them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Table {
    Warehouse,
    District,
    Customer,
    Order,
    NewOrder,
    OrderLine,
    History,
    Item,
    Stock,
    /// Warehouse, district, C_LAST, C_FIRST, customer; no values.
    CustomersByName,
    /// Warehouse, district, customer, the complement of the order; no values.
    OrdersByCustomer,
}

impl Table {
    pub(crate) const ALL: [Self; 11] = [
        Self::Warehouse,
        Self::District,
        Self::Customer,
        Self::Order,
        Self::NewOrder,
        Self::OrderLine,
        Self::History,
        Self::Item,
        Self::Stock,
        Self::CustomersByName,
        Self::OrdersByCustomer,
    ];
}

/// The trees of all tables.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Tables([ByteTree; Table::ALL.len()]);

impl Tables {
    /// Empty tables, as the pool's root object.
    pub(crate) fn create<T: Transact>(tx: &mut T, placement: Placement) -> Result<Self, Abort> {
        let trees: Result<Vec<_>, _> =
            Table::ALL.iter().map(|_| ByteTree::create(tx, placement)).collect();
        let trees = trees?;
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

/// A row's numbers, and what belongs to them.
pub(crate) trait Row: Copy {
    const TABLE: Table;
    /// Bytes of the numbers that may change.
    const CHANGING: usize;
    /// Bytes of all numbers.
    const NUMBERS: usize;
    /// Bytes of the text that transactions read with them.
    const TEXT: usize;
    /// Bytes behind that, which only some transactions read.
    const REST: usize = 0;
    const VALUE: usize = STAMP_BYTES + Self::NUMBERS + Self::TEXT + Self::REST;

    /// Writes the numbers.
    fn put(&self, to: &mut Put<'_>);
    /// Reads them.
    fn take(from: &mut Take<'_>) -> Self;
    /// The parts of a key of this table.
    fn parts(key: u64) -> Parts {
        key::parts(key)
    }
    /// Whether the table can have the key.
    fn may_have(shape: &Shape, key: u64) -> bool;
    /// The row's key in facts.
    fn fact(shape: &Shape, key: u64) -> u64;
    /// The text of the row, and the rest as it was loaded. `out` is as long as the text, or both.
    fn text(&self, shape: &Shape, key: u64, out: &mut [u8]);
}
