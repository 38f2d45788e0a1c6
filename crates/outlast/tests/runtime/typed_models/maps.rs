//! Maps: hashed, and ordered as a B+tree and as a red-black tree.

use super::*;

/// Values are texts of their own, so that what a map drops has something to free.
#[derive(Clone, Debug)]
enum HashOp {
    Insert(u16, u64),
    InsertMany(u16, u16),
    Remove(u16),
    RemoveMany(u16, u16),
    Get(u16),
    Count(u16),
    Clear,
}

#[derive(Clone, PartialEq, Debug, Default)]
struct HashModel(HashMap<String, u64>);

/// Short keys and keys of more than a head, some of them alike up to there.
fn name(number: u16) -> String {
    match number % 3 {
        0 => format!("{number}"),
        1 => format!("a long name that differs behind its head: {number}"),
        _ => format!("{number} is a name, which is long behind its number"),
    }
}

impl Model for HashModel {
    type Op = HashOp;
    type Persistent<'id> = PHashMap<'id, str, u64>;

    fn op() -> BoxedStrategy<HashOp> {
        let key = || 0..400u16;
        prop_oneof![
            6 => (key(), any::<u64>()).prop_map(|(key, value)| HashOp::Insert(key, value)),
            2 => (key(), 0..200u16).prop_map(|(key, n)| HashOp::InsertMany(key, n)),
            4 => key().prop_map(HashOp::Remove),
            2 => (key(), 0..200u16).prop_map(|(key, n)| HashOp::RemoveMany(key, n)),
            3 => key().prop_map(HashOp::Get),
            3 => key().prop_map(HashOp::Count),
            1 => Just(HashOp::Clear),
        ]
        .boxed()
    }

    fn create<'id>(
        tx: &mut TypedTx<'id, '_, impl Transact>,
    ) -> Result<PHashMap<'id, str, u64>, Abort> {
        PHashMap::new(tx)
    }

    fn apply<'id>(
        &mut self,
        it: PHashMap<'id, str, u64>,
        tx: &mut TypedTx<'id, '_, impl Transact>,
        op: &HashOp,
    ) -> Result<(), Abort> {
        let model = &mut self.0;
        match op {
            HashOp::Insert(key, value) => {
                assert_eq!(it.insert(tx, &name(*key), *value)?, model.insert(name(*key), *value));
            }
            HashOp::InsertMany(first, n) => {
                let names: Vec<_> = (*first..first + n).map(name).collect();
                it.extend(tx, names.iter().map(|name| (name.as_str(), u64::from(*n))))?;
                model.extend(names.into_iter().map(|name| (name, u64::from(*n))));
            }
            HashOp::Remove(key) => {
                assert_eq!(it.remove(tx, &name(*key))?, model.remove(&name(*key)));
            }
            HashOp::RemoveMany(first, n) => {
                for key in *first..first + n {
                    assert_eq!(it.remove(tx, &name(key))?, model.remove(&name(key)));
                }
            }
            HashOp::Get(key) => {
                assert_eq!(it.get(tx, &name(*key))?, model.get(&name(*key)).copied());
                assert_eq!(it.contains_key(tx, &name(*key))?, model.contains_key(&name(*key)));
            }
            HashOp::Count(key) => {
                let n =
                    it.entry(tx, &name(*key))?.and_modify(|n| n.wrapping_add(1))?.or_insert(1)?;
                let expected =
                    model.entry(name(*key)).and_modify(|n| *n = n.wrapping_add(1)).or_insert(1);
                assert_eq!(n, *expected);
            }
            HashOp::Clear => {
                it.clear(tx)?;
                model.clear();
            }
        }
        assert_eq!(it.is_empty(tx)?, model.is_empty());
        Ok(())
    }

    fn load<'id>(
        it: PHashMap<'id, str, u64>,
        tx: &mut TypedTx<'id, '_, impl Transact>,
    ) -> Result<Self, Abort> {
        let len = it.len(tx)?;
        let pairs: Vec<_> = it.iter(tx).collect::<Result<_, _>>()?;
        assert_eq!(pairs.len() as u64, len, "each pair once");
        let [mut these, mut those] = [pairs.clone(), it.to_vec(tx)?];
        these.sort();
        those.sort();
        assert_eq!(these, those);
        Ok(Self(pairs.into_iter().collect()))
    }
}

#[test]
fn a_hash_map_is_a_hash_map() {
    check::<HashModel>(6);
}

#[derive(Clone, Debug)]
enum TreeOp {
    Insert(i32, String),
    InsertMany(i32, u8),
    Remove(i32),
    RemoveMany(i32, u8),
    Put(i32, String),
    PutBack(i32),
    Delete(i32),
    Retain(i32),
    Entry(i32),
    Range(i32, i32, Vec<bool>),
    PopFirst,
    PopLast,
    Clear,
}

/// What an ordered map stands on.
trait Under: Default + Clone + PartialEq + Debug {
    type Tree: Structure<i32> + Ordered;
}

#[derive(Clone, PartialEq, Debug, Default)]
struct BTree;

impl Under for BTree {
    type Tree = ByteTree;
}

#[derive(Clone, PartialEq, Debug, Default)]
struct RedBlack;

impl Under for RedBlack {
    type Tree = RbWords<i32>;
}

#[derive(Clone, PartialEq, Debug, Default)]
struct TreeModel<U>(BTreeMap<i32, String>, U);

impl<U: Under> Model for TreeModel<U> {
    type Op = TreeOp;
    type Persistent<'id> = PMap<'id, U::Tree, i32, PString<'id>>;

    fn op() -> BoxedStrategy<TreeOp> {
        let key = || -150..150i32;
        let text = "[a-z]{0,50}";
        prop_oneof![
            6 => (key(), text).prop_map(|(key, value)| TreeOp::Insert(key, value)),
            3 => (key(), 0..80u8).prop_map(|(key, n)| TreeOp::InsertMany(key, n)),
            4 => key().prop_map(TreeOp::Remove),
            3 => (key(), 0..80u8).prop_map(|(key, n)| TreeOp::RemoveMany(key, n)),
            3 => (key(), text).prop_map(|(key, value)| TreeOp::Put(key, value)),
            1 => key().prop_map(TreeOp::PutBack),
            2 => key().prop_map(TreeOp::Delete),
            1 => (2..5).prop_map(TreeOp::Retain),
            2 => key().prop_map(TreeOp::Entry),
            6 => (key(), key(), vec(any::<bool>(), 0..90))
                .prop_map(|(from, to, turns)| TreeOp::Range(from, to, turns)),
            2 => Just(TreeOp::PopFirst),
            2 => Just(TreeOp::PopLast),
            1 => Just(TreeOp::Clear),
        ]
        .boxed()
    }

    fn create<'id>(
        tx: &mut TypedTx<'id, '_, impl Transact>,
    ) -> Result<Self::Persistent<'id>, Abort> {
        PMap::new(tx)
    }

    fn apply<'id>(
        &mut self,
        it: Self::Persistent<'id>,
        tx: &mut TypedTx<'id, '_, impl Transact>,
        op: &TreeOp,
    ) -> Result<(), Abort> {
        let model = &mut self.0;
        match op {
            TreeOp::Insert(key, value) => {
                let new = PString::new(tx, value)?;
                let old = it.insert(tx, key, new)?;
                assert_eq!(take(old, tx)?, model.insert(*key, value.clone()));
            }
            TreeOp::InsertMany(first, n) => {
                for key in *first..first + i32::from(*n) {
                    let new = PString::new(tx, "many")?;
                    let old = it.insert(tx, &key, new)?;
                    assert_eq!(take(old, tx)?, model.insert(key, "many".to_owned()));
                }
            }
            TreeOp::Remove(key) => {
                let old = it.remove(tx, key)?;
                assert_eq!(take(old, tx)?, model.remove(key));
            }
            TreeOp::RemoveMany(first, n) => {
                for key in *first..first + i32::from(*n) {
                    let old = it.remove(tx, &key)?;
                    assert_eq!(take(old, tx)?, model.remove(&key));
                }
            }
            TreeOp::Put(key, value) => {
                let new = PString::new(tx, value)?;
                it.put(tx, key, new)?;
                model.insert(*key, value.clone());
            }
            // A value that was loaded goes back, with what it owns.
            TreeOp::PutBack(key) => {
                if let Some(value) = it.get(tx, key)? {
                    it.put(tx, key, value)?;
                }
            }
            TreeOp::Delete(key) => {
                assert_eq!(it.delete(tx, key)?, model.remove(key).is_some());
            }
            TreeOp::Retain(n) => {
                it.retain(tx, |tx, key, value| Ok(value.len(tx)? > 0 && key % n != 0))?;
                model.retain(|key, value| !value.is_empty() && key % n != 0);
            }
            TreeOp::Entry(key) => {
                let value = it.entry(tx, key)?.or_insert_with(|tx| PString::new(tx, "default"))?;
                value.push_str(tx, ", seen")?;
                model.entry(*key).or_insert("default".to_owned()).push_str(", seen");
            }
            TreeOp::Range(from, to, turns) => {
                let (from, to) = (from.min(to), from.max(to));
                let mut expected = model.range(from..to);
                let mut found = it.range(tx, *from..*to);
                let mut pairs = Vec::new();
                for is_back in turns {
                    let pair = if *is_back { found.next_back() } else { found.next() };
                    let pair = pair.transpose()?;
                    let want = if *is_back { expected.next_back() } else { expected.next() };
                    assert_eq!(pair.map(|(key, _)| key), want.map(|(key, _)| *key));
                    if pair.is_none() {
                        break;
                    }
                    pairs.extend(pair);
                }
                for (key, value) in pairs {
                    assert_eq!(value.to_string(tx)?, model[&key]);
                }
            }
            TreeOp::PopFirst => {
                let popped = it.pop_first(tx)?;
                assert_eq!(popped.map(|(key, _)| key), model.pop_first().map(|(key, _)| key));
                take(popped.map(|(_, value)| value), tx)?;
            }
            TreeOp::PopLast => {
                let popped = it.pop_last(tx)?;
                assert_eq!(popped.map(|(key, _)| key), model.pop_last().map(|(key, _)| key));
                take(popped.map(|(_, value)| value), tx)?;
            }
            TreeOp::Clear => {
                it.clear(tx)?;
                model.clear();
            }
        }
        assert_eq!(it.first(tx)?.map(|(key, _)| key), model.first_key_value().map(|(k, _)| *k));
        assert_eq!(it.last(tx)?.map(|(key, _)| key), model.last_key_value().map(|(k, _)| *k));
        assert_eq!(it.is_empty(tx)?, model.is_empty());
        Ok(())
    }

    fn load<'id>(
        it: Self::Persistent<'id>,
        tx: &mut TypedTx<'id, '_, impl Transact>,
    ) -> Result<Self, Abort> {
        let pairs: Vec<_> = it.iter(tx).collect::<Result<_, _>>()?;
        assert!(pairs.is_sorted_by_key(|(key, _)| *key));
        let mut backwards: Vec<_> = it.iter(tx).rev().collect::<Result<_, _>>()?;
        backwards.reverse();
        assert_eq!(backwards, pairs);
        assert_eq!(it.to_vec(tx)?, pairs);
        assert_eq!(it.len(tx)?, pairs.len() as u64);
        let texts = pairs.into_iter().map(|(key, value)| Ok((key, value.to_string(tx)?)));
        texts.collect::<Result<_, _>>().map(|pairs| Self(pairs, U::default()))
    }
}

/// A text that a map has handed back: what it says, and it is freed.
fn take<'id>(
    text: Option<PString<'id>>,
    tx: &mut TypedTx<'id, '_, impl Transact>,
) -> Result<Option<String>, Abort> {
    let Some(text) = text else { return Ok(None) };
    let said = text.to_string(tx)?;
    text.free(tx)?;
    Ok(Some(said))
}

#[test]
fn an_ordered_map_is_an_ordered_map() {
    check::<TreeModel<BTree>>(6);
}

#[test]
fn a_red_black_map_is_an_ordered_map() {
    check::<TreeModel<RedBlack>>(6);
}
