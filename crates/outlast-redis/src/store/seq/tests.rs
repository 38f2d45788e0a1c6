//! Sequences, lists with open ends and orders of scores beside vectors and ordered sets, by seed, with items short and long.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use outlast::medium::{CreateOptions, MapOptions, OpenOptions};
use outlast::{Pool, Runner, Scheme};

use super::node::LEAF_BYTES;
use super::*;
use crate::store::entry::{Entry, Kind};
use crate::store::hasher::Hasher;
use crate::store::table::{Content, Table};
use outlast_workloads::Random;

/// Runs a body in transactions of a new pool, and checks the tree behind each.
fn in_pool(is_sorted: bool, mut step: impl FnMut(&mut Mem<'_>, Seq, u64) -> Result<u64, Abort>) {
    let folder = tempfile::tempdir().unwrap();
    let open = OpenOptions::with_scheme(Scheme::Swift);
    let (create, map) = (CreateOptions::default(), MapOptions::default());
    let pool =
        Pool::create_with(folder.path().join("pool"), 32 << 20, &create, &open, &map).unwrap();
    let mut lane = pool.lane().unwrap();
    let seq = lane.run(|tx| Seq::create(tx, is_sorted)).unwrap();
    for number in 0..400 {
        let len = lane.run(|tx| step(tx, seq, number)).unwrap();
        lane.run(|tx| {
            assert_eq!(seq.len(tx)?, len);
            let header = Header::load(tx, seq.at)?;
            let bounds = is_sorted.then_some((0, u64::MAX));
            assert_eq!(items_below(tx, header.root, header.levels, bounds)?, len);
            Ok(())
        })
        .unwrap();
    }
    while !lane.run(|tx| seq.drain(tx, 500)).unwrap() {}
    lane.run(|tx| seq.free_empty(tx)).unwrap();
}

fn new_pool(folder: &std::path::Path) -> Pool {
    let open = OpenOptions::with_scheme(Scheme::Swift);
    let (create, map) = (CreateOptions::default(), MapOptions::default());
    Pool::create_with(folder.join("pool"), 32 << 20, &create, &open, &map).unwrap()
}

/// All items of a list.
fn items_of(mem: &mut Mem<'_>, list: &Ends) -> Result<Vec<Vec<u8>>, Abort> {
    let mut items = Vec::new();
    list.scan(mem, 0, u64::MAX, &mut |item| {
        items.push(item.to_vec());
        true
    })?;
    Ok(items)
}

/// One step of a list with open ends and its model.
fn list_step(
    mem: &mut Mem<'_>,
    list: &mut Ends,
    model: &mut VecDeque<Vec<u8>>,
    random: &mut Random,
    (grows, reaches_in): (bool, bool),
) -> Result<(), Abort> {
    let len = model.len() as u64;
    let index = match random.below(if reaches_in { 3 } else { 2 }) {
        0 => 0,
        1 => len,
        _ => random.below(len + 1),
    };
    if random.below(10) < if grows { 8 } else { 2 } {
        let item = item(random);
        list.insert(mem, index, &item)?;
        model.insert(index as usize, item);
    } else if len > 0 {
        let index = index.min(len - 1);
        assert_eq!(Some(list.remove(mem, index)?), model.remove(index as usize));
    }
    Ok(())
}

#[test]
fn lists_with_open_ends_are_as_a_deque() {
    let folder = tempfile::tempdir().unwrap();
    let pool = new_pool(folder.path());
    let mut lane = pool.lane().unwrap();
    let before = lane.run(|tx| Seq::create(tx, false)).unwrap();
    let mut random = Random::from_state(17);
    let mut model = VecDeque::new();
    // It begins as a sequence without ends.
    let first: Vec<Vec<u8>> = (0..200).map(|_| item(&mut random)).collect();
    lane.run(|tx| first.iter().try_for_each(|item| before.push(tx, item))).unwrap();
    model.extend(first);
    let mut list = lane.run(|tx| Ends::of_seq(tx, before)).unwrap();
    for number in 0..600_u64 {
        let how = (number % 200 < 100, number % 20 >= 15);
        let (start, at_start) = (random.clone(), model.clone());
        lane.run(|tx| {
            (random, model) = (start.clone(), at_start.clone());
            list = Ends::load(tx, list.at)?;
            for _ in 0..40 {
                list_step(tx, &mut list, &mut model, &mut random, how)?;
            }
            Ok(())
        })
        .unwrap();
        lane.run(|tx| {
            let list = Ends::load(tx, list.at)?;
            assert_eq!(list.len(), model.len() as u64, "{number}");
            let (at, len) = (random.below(list.len() + 1), list.len());
            assert_eq!(list.get(tx, at)?.as_ref(), model.get(at as usize), "{at} of {len}");
            assert!(items_of(tx, &list)?.iter().eq(&model), "{number}");
            let header = Header::load(tx, list.at)?;
            if header.root.0 != 0 {
                assert_eq!(items_below(tx, header.root, header.levels, None)?, header.len);
            }
            list.open_leaves(tx).map(drop)
        })
        .unwrap();
    }
    while !model.is_empty() {
        let end = if random.below(2) == 0 { End::First } else { End::Last };
        let popped = lane.run(|tx| Ends::load(tx, list.at)?.pop(tx, end)).unwrap();
        let right = if end == End::First { model.pop_front() } else { model.pop_back() };
        assert_eq!(Some(popped), right);
    }
    lane.run(|tx| Ends::load(tx, list.at)?.free_ends(tx)?.free_empty(tx)).unwrap();
}

/// A list that grows at an end has leaves as full as they can be, and a push into one does not move its items.
#[test]
fn pushes_leave_full_leaves_and_move_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pool = new_pool(folder.path());
    let mut lane = pool.lane().unwrap();
    for end in [End::First, End::Last] {
        let mut list = lane.run(|tx| Ends::create(tx)).unwrap();
        for _ in 0..1000 {
            lane.run(|tx| {
                list = Ends::load(tx, list.at)?;
                list.push(tx, end, b"ten bytes.")
            })
            .unwrap();
        }
        lane.run(|tx| {
            let header = Header::load(tx, list.at)?;
            let leaf = header.find_index(tx, header.len / 2, true)?.leaf;
            assert_eq!(leaf.items, LEAF_BYTES / 11, "{end:?}");
            Ok(())
        })
        .unwrap();
    }
}

/// Counts what is below a node of an order, and compares it with what its parents say (SEQ-1, SEQ-2, SCORES-1).
fn scores_below(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    levels: usize,
    (least, most): (u64, u64),
) -> Result<u64, Abort> {
    if levels == 0 {
        let items = leaf_items(mem, node)?;
        assert!(items.iter().all(|item| (least..=most).contains(&item.0)));
        return Ok(items.len() as u64);
    }
    let children = load_children(mem, node)?;
    for (number, child) in children.iter().enumerate() {
        let least = if number == 0 { least } else { child.bound };
        let most = children.get(number + 1).map_or(most, |next| next.bound);
        let found = scores_below(mem, child.at, levels - 1, (least, most))?;
        assert!(found == child.items && found > 0, "{found} of {}", child.items);
    }
    Ok(sum(&children))
}

#[test]
fn orders_of_scores_are_as_an_ordered_set() {
    let folder = tempfile::tempdir().unwrap();
    let pool = new_pool(folder.path());
    let mut lane = pool.lane().unwrap();
    let mut random = Random::from_state(23);
    let hasher = Hasher { secret: (1, 2) };
    let (table, scores) = lane.run(|tx| Ok((Table::create(tx)?, Scores::create(tx)?))).unwrap();
    let mut entries = BTreeMap::new();
    for number in 0..400_u64 {
        let name =
            format!("member {}{}", number % 7, "x".repeat(number as usize % 90)).into_bytes();
        let name = [name, number.to_be_bytes().to_vec()].concat();
        let content = Content { kind: Kind::String, value: &[0; 8], deadline: None };
        let hash = hasher.hash(&name);
        let place = lane.run(|tx| table.write(tx, hasher, None, &name, hash, &content)).unwrap();
        entries.insert(name, place.entry.at);
    }
    let names: Vec<Vec<u8>> = entries.keys().cloned().collect();
    let mut model: BTreeSet<(u64, Vec<u8>)> = BTreeSet::new();
    let mut of: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    let mut most = 0;
    for step in 0..6000_u64 {
        let name = &names[random.below(names.len() as u64) as usize];
        let entry = entries[name];
        // Few scores, so that many members share one; ascending and descending ones.
        let bits = match step / 750 % 4 {
            0 => random.below(6),
            1 => step,
            2 => 100_000 - step,
            _ => random.next_u64() >> 8,
        };
        let grows = step % 1500 < 1000;
        let before = of.get(name).copied();
        lane.run(|tx| {
            let old = before.map(|bits| Wanted { bits, member: name });
            let new = Wanted { bits, member: name };
            match old {
                Some(old) if grows => scores.shift(tx, old, entry, bits),
                Some(old) => scores.remove(tx, old, entry),
                None if grows => scores.insert(tx, new, entry),
                None => Ok(()),
            }
        })
        .unwrap();
        if let Some(before) = before {
            model.remove(&(before, name.clone()));
            of.remove(name);
        }
        if grows {
            model.insert((bits, name.clone()));
            of.insert(name.clone(), bits);
        }
        most = most.max(model.len());
        if step % 40 != 39 {
            continue;
        }
        lane.run(|tx| {
            let header = Header::load(tx, scores.at)?;
            assert_eq!(header.len, model.len() as u64);
            assert_eq!(scores_below(tx, header.root, header.levels, (0, u64::MAX))?, header.len);
            let mut all = Vec::new();
            scores.scan(tx, 0, u64::MAX, &mut |mem, (bits, at)| {
                all.push((bits, Entry::load(mem, at)?.key(mem)?));
                Ok(true)
            })?;
            assert!(all.iter().eq(&model), "{step}");
            let wanted = Wanted { bits, member: name };
            for or_equal in [false, true] {
                let before = model.range(..(bits, name.clone())).count() as u64;
                let equal = u64::from(or_equal && model.contains(&(bits, name.clone())));
                assert_eq!(scores.rank(tx, wanted, or_equal)?, before + equal);
            }
            Ok(())
        })
        .unwrap();
    }
    assert!(most > 250, "{most}");
    for end in [End::First, End::Last, End::Last, End::First] {
        let popped = lane.run(|tx| scores.pop(tx, end)).unwrap().unwrap();
        let right = if end == End::First { model.pop_first() } else { model.pop_last() };
        let (bits, name) = right.unwrap();
        assert_eq!(popped, (bits, entries[&name]));
    }
    while !lane.run(|tx| scores.drop_leaves(tx, 3)).unwrap() {}
}

/// Counts what is below a node, and compares it with what its parents say (SEQ-1, SEQ-2).
fn items_below(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    levels: usize,
    bounds: Option<(u64, u64)>,
) -> Result<u64, Abort> {
    if levels == 0 {
        let leaf = Leaf::load(mem, node)?;
        let mut at = 0;
        for _ in 0..leaf.items {
            let stored = leaf.stored(at);
            if let Some((least, most)) = bounds {
                let bound = bound_of(&resolve(mem, stored)?);
                assert!((least..=most).contains(&bound), "{bound} in {least}..={most}");
            }
            at += stored.len();
        }
        assert_eq!(at, leaf.used());
        return Ok(leaf.items as u64);
    }
    let children = load_children(mem, node)?;
    for (number, child) in children.iter().enumerate() {
        let bounds = bounds.map(|(least, most)| {
            let least = if number == 0 { least } else { child.bound };
            (least, children.get(number + 1).map_or(most, |next| next.bound))
        });
        let found = items_below(mem, child.at, levels - 1, bounds)?;
        assert!(found == child.items && found > 0, "{found} of {}", child.items);
    }
    Ok(sum(&children))
}

fn item(random: &mut Random) -> Vec<u8> {
    let len = match random.below(20) {
        0 => 161 + random.below(300),
        1 => 160,
        _ => random.below(40),
    };
    vec![b'a' + random.below(26) as u8; len as usize]
}

#[test]
fn lists_are_as_a_vector() {
    let mut model: Vec<Vec<u8>> = Vec::new();
    let mut random = Random::from_state(7);
    in_pool(false, |mem, seq, number| {
        // Grows to some thousands from the front, the back, anywhere, then shrinks.
        let grows = number % 200 < 120;
        for _ in 0..40 {
            let len = model.len() as u64;
            let end = match number % 3 {
                0 => 0,
                1 => len,
                _ => random.below(len + 1),
            };
            if random.below(10) < if grows { 8 } else { 1 } {
                let item = item(&mut random);
                seq.insert(mem, end, &item)?;
                model.insert(end as usize, item);
            } else if len > 0 {
                let at = end.min(len - 1);
                assert_eq!(seq.remove(mem, at)?, model.remove(at as usize));
            }
        }
        let from = random.below(model.len() as u64 + 1) as usize;
        let mut shown = Vec::new();
        seq.scan(mem, from as u64, 30, &mut |item| {
            shown.push(item.to_vec());
            true
        })?;
        assert_eq!(shown, model[from..].iter().take(30).cloned().collect::<Vec<_>>());
        if number % 50 == 49 && model.len() > 1 {
            let count = random.below(model.len() as u64);
            let front = seq.cut_front(mem, count)?;
            let cut: Vec<Vec<u8>> = model.drain(..count as usize).collect();
            assert_eq!(front.get(mem, count.saturating_sub(1))?.as_ref(), cut.last());
            assert!(front.drain(mem, count)?);
            front.free_empty(mem)?;
        }
        Ok(model.len() as u64)
    });
}

#[test]
fn sorted_sequences_are_as_an_ordered_set() {
    let mut model: BTreeSet<Vec<u8>> = BTreeSet::new();
    let mut random = Random::from_state(11);
    in_pool(true, |mem, seq, number| {
        let grows = number % 200 < 120;
        for _ in 0..40 {
            // Few bounds, so that many items share one.
            let score = random.below(if number % 2 == 0 { 8 } else { 1 << 40 });
            let wanted = [&score.to_be_bytes()[..], &item(&mut random)].concat();
            let above = model.range(wanted.clone()..).next().cloned();
            if random.below(10) < if grows { 8 } else { 1 } {
                if model.insert(wanted.clone()) {
                    seq.insert_sorted(mem, &wanted)?;
                }
            } else if let Some(found) = above {
                model.remove(&found);
                seq.remove_sorted(mem, &found)?;
            }
        }
        let wanted = [&random.below(8).to_be_bytes()[..], &item(&mut random)].concat();
        for or_equal in [false, true] {
            let before = model.range(..wanted.clone()).count() as u64;
            let equal = u64::from(or_equal && model.contains(&wanted));
            assert_eq!(seq.rank(mem, &wanted, or_equal)?, before + equal);
        }
        let mut all = Vec::new();
        seq.scan(mem, 0, u64::MAX, &mut |item| {
            all.push(item.to_vec());
            true
        })?;
        assert!(all.iter().eq(&model));
        Ok(model.len() as u64)
    });
}

/// A list that grows at one end has full nodes, at either end.
#[test]
fn growing_at_an_end_leaves_full_nodes() {
    let mut heights = Vec::new();
    for at_front in [true, false] {
        let mut len = 0;
        let mut levels = 0;
        in_pool(false, |mem, seq, _| {
            for _ in 0..50 {
                seq.insert(mem, if at_front { 0 } else { len }, &[b'x'; 100])?;
                len += 1;
            }
            let header = Header::load(mem, seq.at)?;
            levels = header.levels;
            let children = if levels > 1 { load_children(mem, header.root)?.len() } else { 0 };
            if len == 20_000 {
                heights.push((levels, children));
            }
            Ok(len)
        });
    }
    assert_eq!(heights[0], heights[1], "levels and children of the root");
}
