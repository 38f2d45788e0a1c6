//! Any dictionary behind one type.

use outlast::collections::{ByteMap, ByteTree, Dictionary, RbTree};
use outlast::{Abort, ByteRange, Transact};

use crate::clrs::ClrsTree;

/// Which dictionary keeps the pairs of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Structure {
    /// The hash map.
    HashMap,
    /// The B+tree.
    BTree,
    /// The red-black tree, whose keys are words, highest byte first.
    RbTree,
    /// The B-tree, with values in inner nodes too, whose keys are words as well.
    ClrsTree,
}

/// A dictionary of any kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Store {
    Map(ByteMap),
    Tree(ByteTree),
    Red(RbTree),
    Clrs(ClrsTree),
}

impl Store {
    /// The tree, for what only a tree can.
    pub(crate) fn tree(self) -> Result<ByteTree, Abort> {
        match self {
            Self::Tree(tree) => Ok(tree),
            Self::Map(_) | Self::Red(_) | Self::Clrs(_) => {
                Err(Abort::cancelled("only a tree can scan"))
            }
        }
    }
}

impl Dictionary for Store {
    #[inline]
    fn find<T: Transact>(self, tx: &mut T, key: &[u8]) -> Result<Option<ByteRange>, Abort> {
        match self {
            Self::Map(map) => map.find(tx, key),
            Self::Tree(tree) => tree.find(tx, key),
            Self::Red(tree) => tree.find(tx, number(key)),
            Self::Clrs(tree) => tree.find(tx, number(key)),
        }
    }

    fn insert<T: Transact>(self, tx: &mut T, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        match self {
            Self::Map(map) => map.insert(tx, key, value),
            Self::Tree(tree) => tree.insert(tx, key, value),
            Self::Red(tree) => tree.insert(tx, number(key), value),
            Self::Clrs(tree) => tree.insert(tx, number(key), value),
        }
    }

    fn add<T: Transact>(self, tx: &mut T, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        match self {
            Self::Map(map) => map.add(tx, key, value),
            Self::Tree(tree) => tree.add(tx, key, value),
            Self::Red(tree) => tree.add(tx, number(key), value),
            Self::Clrs(tree) => tree.add(tx, number(key), value),
        }
    }

    fn remove<T: Transact>(self, tx: &mut T, key: &[u8]) -> Result<bool, Abort> {
        match self {
            Self::Map(map) => map.remove(tx, key),
            Self::Tree(tree) => tree.remove(tx, key),
            Self::Red(tree) => tree.remove(tx, number(key)),
            Self::Clrs(tree) => tree.remove(tx, number(key)),
        }
    }

    fn for_each<T: Transact>(
        self,
        tx: &mut T,
        mut visit: impl FnMut(&mut T, &[u8], ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        match self {
            Self::Map(map) => map.for_each(tx, visit),
            Self::Tree(tree) => tree.for_each(tx, visit),
            Self::Red(tree) => {
                tree.for_each(tx, |tx, key, place| visit(tx, &key.to_be_bytes(), place))
            }
            Self::Clrs(tree) => {
                tree.for_each(tx, |tx, key, place| visit(tx, &key.to_be_bytes(), place))
            }
        }
    }
}

/// The key of a red-black tree or B-tree: the workloads that can have one have words as keys.
#[inline]
fn number(key: &[u8]) -> u64 {
    u64::from_be_bytes(key.try_into().expect("the key is a word"))
}
