//! Sequences beside a vector and an ordered set, by seed, with items short and long.

use std::collections::BTreeSet;

use outlast::medium::{CreateOptions, MapOptions, OpenOptions};
use outlast::{Pool, Runner, Scheme};

use super::*;
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
