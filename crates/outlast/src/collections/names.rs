//! Names that lead to structures: what a pool with several of them has as its root object.
//!
//! A B+tree from names to entries. An entry is 8 bytes with the structure's kind in the lowest, 8 bytes with its place,
//! and a note, bytes of the program's own.

use super::layout::word;
use super::raw::{Damage, Places, Reach, ReadRaw, walk_root};
use super::{ByteTree, Dictionary, Placement, damaged};
use crate::{Abort, ByteRange, PoolOffset, RootKind, Transact};

/// Bytes of an entry before its note.
const ENTRY_BYTES: usize = 16;

/// What a walk calls with a key and the place of its value.
type Visit<'v, R> = dyn FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage> + 'v;

/// A directory of structures by their names, as many as there is room for.
///
/// ```
/// use outlast::collections::{ByteTree, Dictionary, Named, Names, Placement, Words};
/// use outlast::{Pool, RootKind};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("names.pool");
/// let pool = Pool::open_or_create(&path)?;
/// pool.run(|tx| {
///     let names = Names::of_pool(tx)?;
///     let users = ByteTree::create(tx, Placement::Together)?;
///     users.insert(tx, b"ada", b"1815")?;
///     names.set(tx, "users", &Named::new(RootKind::BTree, users.root()))?;
///     let visits = Words::create(tx, 1, |_| 0)?;
///     names.set(tx, "visits", &Named::new(RootKind::Words, visits.root()))
/// })?;
/// let born = pool.run(|tx| {
///     let named = Names::of_pool(tx)?.get(tx, "users")?.expect("it was set");
///     let mut born = Vec::new();
///     ByteTree::open(tx, named.at)?.get(tx, b"ada", &mut born)?;
///     Ok(born)
/// })?;
/// assert_eq!(born, b"1815");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Names {
    tree: ByteTree,
}

/// A structure that a name leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Named {
    /// The kind of structure. One that is [opaque](RootKind::Opaque) is the program's own: a check does not follow it.
    pub kind: RootKind,
    /// Where it is.
    pub at: PoolOffset,
    /// Bytes that the program keeps with the name.
    pub note: Vec<u8>,
}

impl Named {
    /// A structure without a note.
    pub fn new(kind: RootKind, at: PoolOffset) -> Self {
        Self { kind, at, note: Vec::new() }
    }

    /// The same with a note.
    #[must_use]
    pub fn with_note(self, note: impl Into<Vec<u8>>) -> Self {
        Self { note: note.into(), ..self }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = u64::from(self.kind as u8).to_le_bytes().to_vec();
        bytes.extend(self.at.0.to_le_bytes());
        bytes.extend(&self.note);
        bytes
    }

    /// The kind and the place that an entry begins with.
    fn decode(entry: &[u8; ENTRY_BYTES]) -> Option<(RootKind, PoolOffset)> {
        let kind = u8::try_from(word(entry, 0)).ok().and_then(RootKind::from_bits)?;
        (kind != RootKind::Names).then_some((kind, PoolOffset(word(entry, 8))))
    }
}

impl Names {
    /// An empty directory.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn create<T: Transact>(tx: &mut T) -> Result<Self, Abort> {
        Ok(Self { tree: ByteTree::create(tx, Placement::Together)? })
    }

    /// The directory whose tree is at `root`.
    ///
    /// # Errors
    /// [`Abort::Damaged`] when there is none.
    pub fn open<T: Transact>(tx: &mut T, root: PoolOffset) -> Result<Self, Abort> {
        Ok(Self { tree: ByteTree::open(tx, root)? })
    }

    /// The directory that is the pool's root; a pool without a root gets an empty one.
    ///
    /// # Errors
    /// [`Abort::Cancelled`] when the root is something else.
    pub fn of_pool<T: Transact>(tx: &mut T) -> Result<Self, Abort> {
        match tx.root()? {
            Some((root, RootKind::Names)) => Self::open(tx, root),
            Some(_) => Err(Abort::cancelled("the pool's root is no directory of names")),
            None => {
                let names = Self::create(tx)?;
                tx.set_root(names.root(), RootKind::Names)?;
                Ok(names)
            }
        }
    }

    /// Where the directory is, for [`Transact::set_root`] with [`RootKind::Names`].
    pub fn root(self) -> PoolOffset {
        self.tree.root()
    }

    /// The structure of a name.
    ///
    /// # Errors
    /// Those of the transaction, and [`Abort::Damaged`].
    pub fn get<T: Transact>(self, tx: &mut T, name: &str) -> Result<Option<Named>, Abort> {
        let mut bytes = Vec::new();
        match self.tree.get(tx, name.as_bytes(), &mut bytes)? {
            true => named(self.root(), &bytes).map(Some),
            false => Ok(None),
        }
    }

    /// Sets the structure of a name; whether it had one before. The one before stays as it is, without a name.
    ///
    /// # Errors
    /// Those of [`Dictionary::insert`].
    ///
    /// # Panics
    /// When the structure is a directory of names itself.
    pub fn set<T: Transact>(self, tx: &mut T, name: &str, named: &Named) -> Result<bool, Abort> {
        assert!(named.kind != RootKind::Names, "'{name}' would lead to other names");
        self.tree.insert(tx, name.as_bytes(), &named.bytes())
    }

    /// Takes a name away and gives all blocks of its structure back; whether there was such a name.
    ///
    /// # Errors
    /// Those of the transaction, [`Abort::Damaged`], and [`Abort::Cancelled`] for a structure of the program's own,
    /// whose blocks only the program knows: [`forget`](Self::forget) takes its name.
    pub fn free<T: Transact>(self, tx: &mut T, name: &str) -> Result<bool, Abort> {
        let Some(Named { kind, at, .. }) = self.get(tx, name)? else { return Ok(false) };
        let mut blocks = Vec::new();
        let mut failed = None;
        let mut read = |at, out: &mut [u8]| match tx.load(at, out) {
            Ok(()) => true,
            Err(abort) => {
                failed.get_or_insert(abort);
                false
            }
        };
        let walked = walk_root(kind, at, &mut read, |at, _| blocks.push(at), |_, _, _| Ok(()));
        match (walked, failed) {
            (Ok(Reach::Whole), _) => {}
            (Ok(Reach::Unknown), _) => {
                return Err(Abort::cancelled("a structure whose blocks are not known"));
            }
            (Err(_), Some(abort)) => return Err(abort),
            (Err(damage), None) => return Err(Abort::damaged(damage.to_string())),
        }
        blocks.into_iter().try_for_each(|block| tx.free(block))?;
        self.forget(tx, name)
    }

    /// Takes a name away and leaves its structure as it is; whether there was such a name.
    ///
    /// # Errors
    /// Those of the transaction, and [`Abort::Damaged`].
    pub fn forget<T: Transact>(self, tx: &mut T, name: &str) -> Result<bool, Abort> {
        self.tree.remove(tx, name.as_bytes())
    }

    /// Calls `visit` with every name, in their order, and its structure.
    ///
    /// # Errors
    /// Those of the transaction, [`Abort::Damaged`], and those of `visit`.
    pub fn for_each<T: Transact>(
        self,
        tx: &mut T,
        mut visit: impl FnMut(&mut T, &str, Named) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let root = self.root();
        self.tree.for_each(tx, |tx, name, entry| {
            let mut bytes = Vec::new();
            super::load_value(tx, entry, &mut bytes)?;
            let name = std::str::from_utf8(name).map_err(|_| damaged(root, "a name of no text"))?;
            visit(tx, name, named(root, &bytes)?)
        })
    }

    /// Follows the directory and each structure through raw memory; `entry` gets names with their entries, and
    /// what [`walk_root`] gives of the structures. No block is reached twice, not even from two names.
    ///
    /// # Errors
    /// The first damage, or what `entry` reports.
    pub fn walk<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        block: &mut dyn FnMut(PoolOffset, u64),
        entry: &mut Visit<'_, R>,
    ) -> Result<Reach, Damage> {
        let (mut seen, mut twice) = (Places::default(), None);
        let mut once = |at, bytes| match seen.insert(at) {
            true => block(at, bytes),
            false => twice = twice.or(Some(at)),
        };
        let mut structures = Vec::new();
        ByteTree::walk(root, read, &mut once, |read: &mut R, name: &[u8], value| {
            let mut start = [0; ENTRY_BYTES];
            let is_there = value.len >= ENTRY_BYTES as u64 && read.read(value.at, &mut start);
            let structure = is_there.then(|| Named::decode(&start)).flatten();
            structures.push(structure.ok_or(Damage::new(value.at, "a name's entry of no kind"))?);
            match std::str::from_utf8(name) {
                Ok(_) => entry(read, name, value),
                Err(_) => Err(Damage::new(value.at, "a name of no text")),
            }
        })?;
        let mut reach = Reach::Whole;
        for (kind, at) in structures {
            if walk_root(kind, at, read, &mut once, &mut *entry)? == Reach::Unknown {
                reach = Reach::Unknown;
            }
        }
        match twice {
            Some(at) => Err(Damage::new(at, "a block reached twice")),
            None => Ok(reach),
        }
    }
}

fn named(root: PoolOffset, bytes: &[u8]) -> Result<Named, Abort> {
    let entry = bytes.first_chunk().and_then(|start| Some((Named::decode(start)?, start.len())));
    let Some(((kind, at), len)) = entry else {
        return Err(damaged(root, "a name's entry of no kind"));
    };
    Ok(Named { kind, at, note: bytes[len..].to_vec() })
}

#[cfg(test)]
mod tests {
    use outlast_pmem::{Heap, Medium};

    use super::*;
    use crate::collections::{ByteMap, ByteMapOptions, Queue, RbTree, Words};
    use crate::pool::{CreateOptions, OpenOptions, Pool};
    use crate::{Runner, Scheme};

    fn with_pool(test: impl FnOnce(&Pool<Heap>)) {
        let open = OpenOptions { lock_stripes: 64, ..OpenOptions::with_scheme(Scheme::Swift) };
        let heap = Heap::new(4 << 20);
        test(&Pool::create_on(heap, &CreateOptions::default(), &open).unwrap());
    }

    fn used(pool: &Pool<Heap>) -> u64 {
        pool.space().used_bytes
    }

    #[test]
    #[cfg_attr(miri, ignore = "whole pools of every kind take minutes there")]
    fn each_kind_is_named_walked_and_freed() {
        with_pool(|pool| {
            let mut lane = pool.lane().unwrap();
            lane.run(|tx| Names::of_pool(tx).map(drop)).unwrap();
            let empty = used(pool);
            let made = lane.run(|tx| {
                let names = Names::of_pool(tx)?;
                let tree = ByteTree::create(tx, Placement::Together)?;
                for number in 0..200_u64 {
                    tree.insert(tx, &number.to_be_bytes(), &[7; 50])?;
                }
                let map = ByteMap::create(tx, &ByteMapOptions::default())?;
                map.insert(tx, b"key", &[1; 300])?;
                let red = RbTree::create(tx, 16)?;
                red.insert(tx, 1, &[2; 16])?;
                let queue = Queue::create(tx, 24)?;
                queue.enqueue(tx, &[3; 24])?;
                let words = Words::create(tx, 100, |i| i)?;
                let all = [
                    Named::new(RootKind::BTree, tree.root()),
                    Named::new(RootKind::HashMap, map.root()).with_note("of mine"),
                    Named::new(RootKind::RbTree, red.root()),
                    Named::new(RootKind::Queue, queue.root()),
                    Named::new(RootKind::Words, words.root()),
                ];
                for named in &all {
                    assert!(!names.set(tx, &format!("{:?}", named.kind), named)?);
                }
                Ok(all)
            });
            let made = made.unwrap();
            let found = lane.run(|tx| {
                let mut found = Vec::new();
                Names::of_pool(tx)?.for_each(tx, |_, name, named| {
                    assert_eq!(name, format!("{:?}", named.kind));
                    found.push(named);
                    Ok(())
                })?;
                Ok(found)
            });
            let mut found = found.unwrap();
            found.sort_by_key(|named| made.iter().position(|one| one == named));
            assert_eq!(found, made);
            lane.run(|tx| {
                let names = Names::of_pool(tx)?;
                for named in &made {
                    assert!(names.free(tx, &format!("{:?}", named.kind))?);
                }
                assert_eq!(names.get(tx, "BTree")?, None);
                names.free(tx, "BTree").map(|was_there| assert!(!was_there))
            })
            .unwrap();
            drop(lane);
            pool.sync().unwrap();
            assert_eq!(used(pool), empty, "all blocks are given back");
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "whole pools of every kind take minutes there")]
    fn what_a_walk_refuses() {
        with_pool(|pool| {
            let (root, words) = pool
                .run(|tx| {
                    let (names, words) = (Names::of_pool(tx)?, Words::create(tx, 9, |_| 0)?.root());
                    names.set(tx, "one", &Named::new(RootKind::Words, words))?;
                    Ok((names.root(), words))
                })
                .unwrap();
            let walk = || {
                let read = &mut |at, out: &mut [u8]| {
                    pool.medium.load(at, out);
                    true
                };
                let mut blocks = 0;
                walk_root(RootKind::Names, root, read, |_, _| blocks += 1, |_, _, _| Ok(()))
                    .map(|reach| (reach, blocks))
            };
            let set = |name, named| {
                pool.run(|tx| Names::of_pool(tx)?.set(tx, name, &named)).unwrap();
            };
            assert_eq!(walk(), Ok((Reach::Whole, 4)), "a header, a leaf, an entry, the words");
            set("two", Named::new(RootKind::Opaque, words));
            assert_eq!(walk().unwrap().0, Reach::Unknown);
            set("two", Named::new(RootKind::Words, words));
            assert_eq!(walk(), Err(Damage::new(words, "a block reached twice")));
            set("two", Named::new(RootKind::BTree, words));
            assert!(walk().is_err(), "another kind than the name says");
        });
    }
}
