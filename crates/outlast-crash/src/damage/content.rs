//! What the pools hold: one structure of each kind, and beside it what must be in it.

use std::collections::BTreeMap;

use outlast::collections::{
    ByteMap, ByteMapOptions, ByteTree, Dictionary, Placement, Queue, RbTree, Words, load_value,
};
use outlast::typed::{PBTreeMap, PHashMap, PPtr, PString, PVec, Persist, TypedTx};
use outlast::{Abort, BlockKind, Pool, PoolOffset, RootKind, Runner, Transact, Tx};
use outlast_pmem::Medium;

use super::draw::Draw;

/// Everything a structure holds, by key. A queue's items are under their numbers, words under their
/// indices, blocks of the program's own under their offsets: big-endian, so that order is order.
pub(super) type State = BTreeMap<Vec<u8>, Vec<u8>>;

const QUEUE_ITEM_BYTES: u64 = 40;
const RB_VALUE_BYTES: u64 = 24;
const WORDS: u64 = 600;

/// A kind of structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    Map,
    Tree,
    RbTree,
    Queue,
    Words,
    /// Blocks that only the program knows.
    Blocks,
    Typed,
}

/// The typed root.
#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Shelf<'id> {
    numbers: PVec<'id, u64>,
    by_key: PBTreeMap<'id, u64, u64>,
    by_name: PHashMap<'id, str, PString<'id>>,
}

impl Content {
    pub const ALL: [Self; 7] =
        [Self::Map, Self::Tree, Self::RbTree, Self::Queue, Self::Words, Self::Blocks, Self::Typed];

    /// Whether `check` can follow the root to every block.
    pub fn is_followed(self) -> bool {
        !matches!(self, Self::Blocks | Self::Typed)
    }

    /// Makes the structure the root of a new pool.
    pub fn create<M: Medium>(self, pool: &Pool<M>) -> Result<State, Abort> {
        if self == Self::Typed {
            return pool.typed(|pool| {
                let mut lane = pool.lane().map_err(|error| Abort::cancelled(error.to_string()))?;
                lane.run(|tx| tx.root_or_insert_with(new_shelf).map(|_| State::new()))
            });
        }
        let mut lane = pool.lane().map_err(|error| Abort::cancelled(error.to_string()))?;
        lane.run(|tx| {
            let (root, kind) = match self {
                Self::Map => {
                    (ByteMap::create(tx, &ByteMapOptions::default())?.root(), RootKind::HashMap)
                }
                Self::Tree => (ByteTree::create(tx, Placement::default())?.root(), RootKind::BTree),
                Self::RbTree => (RbTree::create(tx, RB_VALUE_BYTES)?.root(), RootKind::RbTree),
                Self::Queue => (Queue::create(tx, QUEUE_ITEM_BYTES)?.root(), RootKind::Queue),
                Self::Words => (Words::create(tx, WORDS, |_| 7)?.root(), RootKind::Words),
                Self::Blocks | Self::Typed => {
                    let block = tx.alloc(64, BlockKind::General)?;
                    tx.store(block, &[1; 64])?;
                    tx.set_root(block, RootKind::Opaque)?;
                    return Ok(State::from([(number(block.0), vec![1; 64])]));
                }
            };
            tx.set_root(root, kind)?;
            match self {
                Self::Words => {
                    Ok((0..WORDS).map(|i| (number(i), 7u64.to_le_bytes().to_vec())).collect())
                }
                _ => Ok(State::new()),
            }
        })
    }

    /// One transaction of a few operations, on the lane of that number. Returns what is there then.
    pub fn step<M: Medium>(
        self,
        pool: &Pool<M>,
        lane: usize,
        state: &State,
        draw: Draw,
    ) -> Result<State, Abort> {
        if self == Self::Typed {
            return pool.typed(|pool| {
                let mut lane = pool.lane().map_err(|error| Abort::cancelled(error.to_string()))?;
                lane.run(|tx| {
                    let mut state = state.clone();
                    let root =
                        tx.root()?.ok_or_else(|| Abort::cancelled("the pool has no root"))?;
                    step_typed(tx, root, &mut state, draw.clone())?;
                    Ok(state)
                })
            });
        }
        let mut lane = pool.lane_at(lane).map_err(|error| Abort::cancelled(error.to_string()))?;
        lane.run(|tx| {
            let mut state = state.clone();
            self.operate(tx, &mut state, draw.clone())?;
            Ok(state)
        })
    }

    fn operate(
        self,
        tx: &mut impl Transact,
        state: &mut State,
        mut draw: Draw,
    ) -> Result<(), Abort> {
        let root = tx.root()?.ok_or_else(|| Abort::cancelled("the pool has no root"))?.0;
        for _ in 0..=draw.below(3) {
            match self {
                Self::Map => operate_dictionary(ByteMap::open(tx, root)?, tx, state, &mut draw)?,
                Self::Tree => operate_dictionary(ByteTree::open(tx, root)?, tx, state, &mut draw)?,
                Self::RbTree => {
                    let tree = RbTree::open(tx, root)?;
                    let key = draw.below(120);
                    if draw.below(4) == 0 {
                        tree.remove(tx, key)?;
                        state.remove(&number(key));
                    } else {
                        let value = draw.bytes(RB_VALUE_BYTES as usize);
                        tree.insert(tx, key, &value)?;
                        state.insert(number(key), value);
                    }
                }
                Self::Queue => {
                    let queue = Queue::open(tx, root)?;
                    if draw.below(3) == 0 {
                        let mut item = [0; QUEUE_ITEM_BYTES as usize];
                        queue.dequeue(tx, &mut item)?;
                        state.pop_first();
                    } else {
                        let item = draw.bytes(QUEUE_ITEM_BYTES as usize);
                        let nth = queue.enqueue(tx, &item)?;
                        state.insert(number(nth), item);
                    }
                }
                Self::Words => {
                    let (index, word) = (draw.below(WORDS), draw.next());
                    Words::open(tx, root)?.set(tx, index, word)?;
                    state.insert(number(index), word.to_le_bytes().to_vec());
                }
                Self::Blocks | Self::Typed => operate_blocks(tx, state, &mut draw)?,
            }
        }
        Ok(())
    }

    /// Everything that is there; of blocks those that `known` names.
    pub fn read<M: Medium>(self, pool: &Pool<M>, known: &State) -> Result<State, Abort> {
        if self == Self::Typed {
            return pool.typed(|pool| {
                let mut lane = pool.lane().map_err(|error| Abort::cancelled(error.to_string()))?;
                lane.run(|tx| match tx.root()? {
                    Some(root) => read_typed(tx, root),
                    None => Ok(State::new()),
                })
            });
        }
        let mut lane = pool.lane().map_err(|error| Abort::cancelled(error.to_string()))?;
        lane.run(|tx| match tx.root()? {
            Some((root, _)) => self.load(tx, root, known),
            None => Ok(State::new()),
        })
    }

    fn load<M: Medium>(
        self,
        tx: &mut Tx<'_, M>,
        root: PoolOffset,
        known: &State,
    ) -> Result<State, Abort> {
        let mut state = State::new();
        match self {
            Self::Map => load_dictionary(ByteMap::open(tx, root)?, tx, &mut state)?,
            Self::Tree => load_dictionary(ByteTree::open(tx, root)?, tx, &mut state)?,
            Self::RbTree => RbTree::open(tx, root)?.for_each(tx, |tx, key, place| {
                let mut value = Vec::new();
                load_value(tx, place, &mut value)?;
                state.insert(number(key), value);
                Ok(())
            })?,
            Self::Queue => Queue::open(tx, root)?.for_each(tx, |tx, nth, place| {
                let mut item = Vec::new();
                load_value(tx, place, &mut item)?;
                state.insert(number(nth), item);
                bounded(&state)
            })?,
            Self::Words => {
                let words = Words::open(tx, root)?;
                for index in 0..words.len().min(2 * WORDS) {
                    let word = words.get(tx, index)?;
                    state.insert(number(index), word.to_le_bytes().to_vec());
                }
            }
            Self::Blocks | Self::Typed => {
                for (at, content) in known {
                    let mut bytes = vec![0; content.len()];
                    let offset = u64::from_be_bytes(at.as_slice().try_into().expect("an offset"));
                    // A block that was given back holds what it held, and may not be stored to.
                    match tx.block_at(PoolOffset(offset)) {
                        Ok(_) => tx.load(PoolOffset(offset), &mut bytes)?,
                        Err(Abort::BadAddress(_)) => continue,
                        Err(abort) => return Err(abort),
                    }
                    state.insert(at.clone(), bytes);
                }
            }
        }
        Ok(state)
    }
}

fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// No pool here holds as much: what a damaged one leads to need not all be read.
fn bounded(state: &State) -> Result<(), Abort> {
    if state.len() > 100_000 {
        Err(Abort::cancelled("more than any pool here holds"))
    } else {
        Ok(())
    }
}

fn operate_dictionary(
    dictionary: impl Dictionary,
    tx: &mut impl Transact,
    state: &mut State,
    draw: &mut Draw,
) -> Result<(), Abort> {
    let key = format!("key {}", draw.below(90)).into_bytes();
    match draw.below(5) {
        0 => {
            dictionary.remove(tx, &key)?;
            state.remove(&key);
        }
        1 if state.contains_key(&key) => {
            let value = state.get_mut(&key).expect("it is there");
            let at = draw.below(value.len() as u64) as usize;
            let len = (draw.below(16) as usize + 1).min(value.len() - at);
            let part = draw.bytes(len);
            dictionary.update_value(tx, &key, at as u64, &part)?;
            value[at..at + len].copy_from_slice(&part);
        }
        _ => {
            let len = [8, 24, 100, 300, 1500][draw.below(5) as usize];
            let value = draw.bytes(len);
            dictionary.insert(tx, &key, &value)?;
            state.insert(key, value);
        }
    }
    Ok(())
}

fn load_dictionary<T: Transact>(
    dictionary: impl Dictionary,
    tx: &mut T,
    state: &mut State,
) -> Result<(), Abort> {
    dictionary.for_each(tx, |tx, key, place| {
        let mut value = Vec::new();
        load_value(tx, place, &mut value)?;
        state.insert(key.to_vec(), value);
        bounded(state)
    })
}

fn operate_blocks(tx: &mut impl Transact, state: &mut State, draw: &mut Draw) -> Result<(), Abort> {
    // The first one is the root; a damaged pool may have none.
    if state.is_empty() {
        return Err(Abort::cancelled("the pool has no root"));
    }
    let nth = draw.below(state.len() as u64) as usize;
    let at = state.keys().nth(nth).expect("fewer than there are").clone();
    let offset = u64::from_be_bytes(at.as_slice().try_into().expect("an offset"));
    match draw.below(4) {
        0 if offset != tx.root()?.map_or(0, |root| root.0.0) => {
            tx.free(PoolOffset(offset))?;
            state.remove(&at);
        }
        1 if state.len() < 60 => {
            let len = [16, 24, 64, 200, 800, 3000, 9000][draw.below(7) as usize];
            let block = tx.alloc(len as u64, BlockKind::Value)?;
            let content = draw.bytes(len);
            tx.store(block, &content)?;
            state.insert(number(block.0), content);
        }
        _ => {
            let content = state.get_mut(&at).expect("it is there");
            let from = draw.below(content.len() as u64) as usize;
            let len = (draw.below(100) as usize + 1).min(content.len() - from);
            let part = draw.bytes(len);
            tx.store(PoolOffset(offset + from as u64), &part)?;
            content[from..from + len].copy_from_slice(&part);
        }
    }
    Ok(())
}

fn new_shelf<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Shelf<'id>, Abort> {
    Ok(Shelf { numbers: PVec::new(tx)?, by_key: PBTreeMap::new(tx)?, by_name: PHashMap::new(tx)? })
}

fn step_typed<'id>(
    tx: &mut TypedTx<'id, '_, impl Transact>,
    root: PPtr<'id, Shelf<'id>>,
    state: &mut State,
    mut draw: Draw,
) -> Result<(), Abort> {
    let shelf = root.get(tx)?;
    let key_of = |kind: u8, key: &[u8]| [&[kind], key].concat();
    for _ in 0..=draw.below(3) {
        match draw.below(5) {
            0 | 1 => {
                let (index, word) = (shelf.numbers.len(tx)?, draw.next());
                shelf.numbers.push(tx, word)?;
                state.insert(key_of(0, &number(index)), word.to_le_bytes().to_vec());
            }
            2 => {
                let (key, word) = (draw.below(60), draw.next());
                shelf.by_key.insert(tx, &key, word)?;
                state.insert(key_of(1, &number(key)), word.to_le_bytes().to_vec());
            }
            3 => {
                let key = draw.below(60);
                shelf.by_key.remove(tx, &key)?;
                state.remove(&key_of(1, &number(key)));
            }
            _ => {
                let name = format!("name {}", draw.below(20));
                let text = "x".repeat(draw.below(150) as usize) + &name;
                let new = PString::new(tx, &text)?;
                if let Some(old) = shelf.by_name.insert(tx, name.as_str(), new)? {
                    old.free(tx)?;
                }
                state.insert(key_of(2, name.as_bytes()), text.into_bytes());
            }
        }
    }
    Ok(())
}

fn read_typed<'id>(
    tx: &mut TypedTx<'id, '_, impl Transact>,
    root: PPtr<'id, Shelf<'id>>,
) -> Result<State, Abort> {
    let shelf = root.get(tx)?;
    let key_of = |kind: u8, key: &[u8]| [&[kind], key].concat();
    let mut state = State::new();
    for (index, word) in (0..).zip(shelf.numbers.to_vec(tx)?) {
        state.insert(key_of(0, &number(index)), word.to_le_bytes().to_vec());
    }
    let by_key: Vec<(u64, u64)> = shelf.by_key.iter(tx).collect::<Result<_, _>>()?;
    for (key, word) in by_key {
        state.insert(key_of(1, &number(key)), word.to_le_bytes().to_vec());
    }
    let by_name: Vec<(String, PString<'id>)> = shelf.by_name.iter(tx).collect::<Result<_, _>>()?;
    for (name, text) in by_name {
        state.insert(key_of(2, name.as_bytes()), text.to_string(tx)?.into_bytes());
    }
    Ok(state)
}
