//! The typed API's shorter calls: roots in their empty form, sets, ranges of text, values that are put and deleted,
//! readers, errors of the program's own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use outlast::medium::CreateOptions;
use outlast::medium::OpenOptions;
use outlast::recover::UnrecoveredPool;
use outlast::typed::{
    Checked, PBTreeMap, PBox, PBytes, PHashMap, PQueue, PRbMap, PString, PVec, Persist, TypedTx,
};
use outlast::{Abort, Pool, PoolError, Scheme, Transact};
use outlast_pmem::Heap;

fn small_pool() -> Pool<Heap> {
    let create = CreateOptions { lanes: 2, lane_bytes: 16 << 10, ..CreateOptions::default() };
    let open = OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(Scheme::Swift) };
    Pool::create_on(Heap::new(2 << 20), &create, &open).unwrap()
}

/// The blocks taken, which the walk from the root must find all, and no other.
fn blocks(pool: &Pool<Heap>) -> usize {
    let image = Heap::from_bytes(&pool.medium().to_bytes());
    let recovered = UnrecoveredPool::open(image).unwrap().recover().unwrap();
    let report = recovered.check();
    assert_eq!(report.findings, []);
    recovered.check_metadata().1.len()
}

#[derive(Clone, Copy, PartialEq, Debug, Persist)]
#[repr(C)]
struct Link<'id> {
    url: PString<'id>,
    notes: [PString<'id>; 2],
    hits: u64,
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct All<'id> {
    links: PHashMap<'id, str, Link<'id>>,
    by_day: PBTreeMap<'id, (u32, u64), ()>,
    by_number: PRbMap<'id, u64, ()>,
    names: PHashMap<'id, str, ()>,
    jobs: PQueue<'id, PString<'id>>,
    cover: PBytes<'id>,
    title: PString<'id>,
    first: Option<PBox<'id, u64>>,
    levels: [PVec<'id, u32>; 3],
    mark: (),
    weight: f64,
    is_open: Checked<bool>,
    rest: [u8; 7],
}

fn link<'id>(tx: &mut TypedTx<'id, '_, impl Transact>, url: &str) -> Result<Link<'id>, Abort> {
    let notes = [PString::new(tx, "first")?, PString::new(tx, "second")?];
    Ok(Link { url: PString::new(tx, url)?, notes, hits: 0 })
}

#[test]
fn a_new_root_is_empty_and_an_old_one_is_found() {
    let pool = small_pool();
    for round in 0..2 {
        pool.run_typed(|tx| {
            let all = tx.root_or_new::<All<'_>>()?.get(tx)?;
            assert_eq!(all.by_number.contains_key(tx, &9)?, round == 1);
            all.by_number.put(tx, &9, ())?;
            assert!(all.links.is_empty(tx)? && all.jobs.is_empty(tx)? && all.cover.is_empty(tx)?);
            assert_eq!((all.title.to_string(tx)?.as_str(), all.first, all.weight), ("", None, 0.0));
            assert!(!all.is_open.get()?);
            let levels = all.levels.map(|level| level.to_vec(tx));
            assert!(levels.into_iter().all(|level| level.unwrap().is_empty()));
            assert_ne!(all.levels[0], all.levels[1]);
            Ok(())
        })
        .unwrap();
        blocks(&pool);
    }
    // Of a collection, too, and of a number.
    let words = small_pool();
    let root = words.run_typed(|tx| {
        let root = tx.root_or_new::<PHashMap<'_, str, PVec<'_, u64>>>()?.get(tx)?;
        root.len(tx)
    });
    assert_eq!(root.unwrap(), 0);
    assert_eq!(small_pool().run_typed(|tx| tx.root_or_new::<u64>()?.get(tx)).unwrap(), 0);
}

#[test]
fn what_is_put_or_deleted_leaves_nothing_behind_and_keeps_what_stays() {
    let pool = small_pool();
    pool.run_typed(|tx| tx.root_or_new::<All<'_>>().map(drop)).unwrap();
    let before = blocks(&pool);
    pool.run_typed(|tx| {
        let all = tx.root_or_new::<All<'_>>()?.get(tx)?;
        for url in ["short", "long enough to take a block of its own beside its header"] {
            let link = link(tx, url)?;
            all.links.put(tx, "home", link)?;
        }
        Ok(())
    })
    .unwrap();
    let one = blocks(&pool);
    pool.run_typed(|tx| {
        let all = tx.root_or_new::<All<'_>>()?.get(tx)?;
        // One number changes, and one note: the text that stays is not freed.
        let old = all.links.get(tx, "home")?.expect("it was put");
        let notes = [old.notes[0], PString::new(tx, "other")?];
        all.links.put(tx, "home", Link { hits: 5, notes, ..old })?;
        let new = all.links.get(tx, "home")?.expect("it was put");
        assert_eq!((new.url, new.notes[0], new.hits), (old.url, old.notes[0], 5));
        assert!(new.url.to_string(tx)?.starts_with("long enough"));
        assert!(matches!(old.notes[1].len(tx), Err(Abort::Damaged(_))));
        Err::<(), _>(Abort::cancelled("a failed operation has ended it"))
    })
    .unwrap_err();
    for _ in 0..3 {
        pool.run_typed(|tx| {
            let all = tx.root_or_new::<All<'_>>()?.get(tx)?;
            let place = all.links.value(tx, "home")?.expect("it was put");
            let old = place.get(tx)?;
            let notes = [old.notes[0], PString::new(tx, "other")?];
            place.put(tx, Link { hits: old.hits + 1, notes, ..old })
        })
        .unwrap();
        assert_eq!(blocks(&pool), one);
    }
    pool.run_typed(|tx| {
        let all = tx.root_or_new::<All<'_>>()?.get(tx)?;
        let link = link(tx, "another")?;
        all.links.extend(tx, [("home", link)])?;
        assert!(all.links.delete(tx, "home")?);
        assert!(!all.links.delete(tx, "home")?);
        Ok(())
    })
    .unwrap();
    // The map keeps its first segment.
    pool.run_typed(|tx| tx.root_or_new::<All<'_>>()?.get(tx)?.links.clear(tx)).unwrap();
    assert_eq!(blocks(&pool), before);
}

#[test]
fn retaining_frees_what_goes() {
    let pool = small_pool();
    pool.run_typed(|tx| tx.root_or_new::<All<'_>>().map(drop)).unwrap();
    let fill = |tx: &mut TypedTx<'_, '_, _>| {
        let all = tx.root_or_new::<All<'_>>()?.get(tx)?;
        for number in 0..40 {
            let text = format!("a job whose text takes a block of its own: number {number}");
            let text = PString::new(tx, &text)?;
            all.jobs.push_back(tx, text)?;
        }
        Ok(())
    };
    let before = blocks(&pool);
    pool.run_typed(fill).unwrap();
    pool.run_typed(|tx| {
        let all = tx.root_or_new::<All<'_>>()?.get(tx)?;
        all.jobs.retain(tx, |tx, text| Ok(text.to_string(tx)?.ends_with('7')))?;
        let left = all.jobs.to_vec(tx)?;
        let left =
            left.into_iter().map(|text| text.to_string(tx)).collect::<Result<Vec<_>, _>>()?;
        assert_eq!(left.len(), 4);
        assert!(left[3].ends_with("37"));
        all.jobs.retain(tx, |_, _| Ok(false))
    })
    .unwrap();
    blocks(&pool);
    pool.run_typed(|tx| tx.root_or_new::<All<'_>>()?.get(tx)?.jobs.clear(tx)).unwrap();
    assert_eq!(blocks(&pool), before);
}

#[test]
fn a_map_without_values_is_a_set() {
    let pool = small_pool();
    pool.run_typed(|tx| {
        let all = tx.root_or_new::<All<'_>>()?.get(tx)?;
        assert_eq!(all.names.insert(tx, "Ada", ())?, None);
        assert_eq!(all.names.insert(tx, "Ada", ())?, Some(()));
        assert_eq!(all.names.get(tx, "Ada")?, Some(()));
        for number in (0..200).rev() {
            all.by_day.put(tx, &(number as u32 % 7, number), ())?;
            assert_eq!(all.by_number.insert(tx, &number, ())?, None);
            all.names.put(tx, &format!("name {number}"), ())?;
        }
        assert_eq!(all.names.len(tx)?, 201);
        assert_eq!(all.by_number.first(tx)?, Some((0, ())));
        let of_day: Vec<_> = all.by_day.range(tx, (3, 0)..(4, 0)).collect::<Result<_, _>>()?;
        assert_eq!(of_day.len(), 29);
        assert_eq!(all.by_number.remove(tx, &100)?, Some(()));
        assert!(!all.by_number.contains_key(tx, &100)?);
        assert!(all.names.delete(tx, "name 3")?);
        Ok(())
    })
    .unwrap();
    blocks(&pool);
    let pool = {
        let image = Heap::from_bytes(&pool.into_medium().to_bytes());
        let recovered = UnrecoveredPool::open(image).unwrap().recover().unwrap();
        recovered.start(&OpenOptions::with_scheme(Scheme::Swift)).unwrap()
    };
    let names =
        pool.run_typed(|tx| tx.root_or_new::<All<'_>>()?.get(tx)?.names.to_vec(tx)).unwrap();
    assert_eq!(names.len(), 200);
}

#[test]
fn prefixes_and_ranges_of_text_are_those_of_the_standard_library() {
    let pool = small_pool();
    let keys: BTreeSet<String> = (0..300u32)
        .map(|n| n.wrapping_mul(0x9E37_79B9))
        .map(|n| {
            ["a", "b", "ab", "ba", "\u{FF}", "b\u{10FFFF}"][n as usize % 6]
                .repeat((n >> 8) as usize % 6)
        })
        .collect();
    pool.run_typed(|tx| {
        let tree = PBTreeMap::<str, u64>::new(tx)?;
        let bytes = PBTreeMap::<[u8], u64>::new(tx)?;
        for key in &keys {
            tree.put(tx, key, key.len() as u64)?;
            bytes.put(tx, key.as_bytes(), 0)?;
        }
        bytes.put(tx, &[0xFF, 0xFF, 1], 0)?;
        for prefix in ["", "a", "ab", "b", "bb", "\u{FF}", "b\u{10FFFF}", "none"] {
            let found: Vec<_> = tree.prefix(tx, prefix).collect::<Result<_, _>>()?;
            let expected = keys.iter().filter(|key| key.starts_with(prefix));
            let expected: Vec<_> = expected.map(|key| (key.clone(), key.len() as u64)).collect();
            assert_eq!(found, expected, "{prefix}");
            let last = tree.prefix(tx, prefix).next_back().transpose()?;
            assert_eq!(last.as_ref(), expected.last());
        }
        assert_eq!(bytes.prefix(tx, [0xFF]).count(), 1, "no byte of it can be raised");
        assert_eq!(bytes.prefix(tx, []).count(), keys.len() + 1);
        // Of fixed keys, shorter than they are.
        let fixed = PBTreeMap::<[u8; 4], u64>::new(tx)?;
        fixed.extend(tx, [(b"abcd", 1), (b"abce", 2), (b"abd\0", 3)])?;
        assert_eq!(fixed.prefix(tx, b"abc").count(), 2);

        let model: BTreeMap<&str, ()> = keys.iter().map(|key| (key.as_str(), ())).collect();
        for (from, to) in [("a", "b"), ("ab", "b\u{10FFFF}"), ("", "\u{FF}"), ("a", "a")] {
            let there = |found: Vec<(String, u64)>| found.into_iter().map(|(key, _)| key).collect();
            let found: Vec<String> =
                tree.range(tx, from..to).collect::<Result<_, _>>().map(there)?;
            assert_eq!(found, model.range(from..to).map(|(key, _)| *key).collect::<Vec<_>>());
            let found: Vec<String> =
                tree.range(tx, from..=to).collect::<Result<_, _>>().map(there)?;
            assert_eq!(found, model.range(from..=to).map(|(key, _)| *key).collect::<Vec<_>>());
            assert_eq!(tree.range(tx, from..).count(), model.range(from..).count());
            assert_eq!(tree.range(tx, ..to).count(), model.range(..to).count());
            assert_eq!(tree.range(tx, ..=to).count(), model.range(..=to).count());
            let behind = (Bound::Excluded(from), Bound::Unbounded);
            assert_eq!(tree.range(tx, behind).count(), model.range::<str, _>(behind).count());
        }
        assert_eq!(tree.range(tx, ..).count(), keys.len());
        Ok(())
    })
    .unwrap();
}

#[test]
fn an_iterator_over_nothing_any_more_gives_its_error_once() {
    let pool = small_pool();
    let freed = |iterate: &dyn Fn(&mut Vec<String>)| {
        let mut said = Vec::new();
        iterate(&mut said);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("damaged"), "{said:?}");
    };
    macro_rules! told {
        (|$tx:ident, $it:ident: $kind:ty| $iter:expr) => {
            freed(&|said| {
                let _ = pool.run_typed(|$tx| {
                    let $it = <$kind>::new($tx)?;
                    $it.free($tx)?;
                    for item in $iter {
                        said.push(item.map(drop).unwrap_err().to_string());
                    }
                    Ok(())
                });
            });
        };
    }
    told!(|tx, it: PVec<'_, u64>| it.iter(tx));
    told!(|tx, it: PVec<'_, u64>| it.iter(tx).rev());
    told!(|tx, it: PVec<'_, u64>| it.range(tx, 5..9));
    told!(|tx, it: PVec<'_, u64>| it.iter(tx).skip(7));
    told!(|tx, it: PQueue<'_, u64>| it.iter(tx));
    told!(|tx, it: PHashMap<'_, u64, u64>| it.iter(tx));
    told!(|tx, it: PBTreeMap<'_, u64, u64>| it.iter(tx));
    told!(|tx, it: PRbMap<'_, u64, u64>| it.iter(tx));
}

#[derive(Debug)]
enum OwnError {
    Short,
    Pool(PoolError),
}

impl From<PoolError> for OwnError {
    fn from(error: PoolError) -> Self {
        Self::Pool(error)
    }
}

impl From<Abort> for OwnError {
    fn from(abort: Abort) -> Self {
        Self::Pool(abort.into())
    }
}

#[test]
fn an_own_error_comes_back_from_later_commits() {
    let pool = small_pool();
    let done = pool.typed(|pool| {
        let counter = pool.run(|tx| tx.root_or_new::<u64>())?;
        let mut lane = pool.lane()?;
        let mut take = |n: u64| {
            lane.try_run_async(|tx| {
                let count = counter.get(tx)?;
                counter.set(tx, count + 1)?;
                if count >= n { Err(OwnError::Short) } else { Ok(count) }
            })
        };
        assert_eq!(take(5)?.0, 0);
        assert_eq!(take(5)?.0, 1);
        assert!(matches!(take(2), Err(OwnError::Short)));
        let (count, ticket) = take(5)?;
        assert_eq!(count, 2, "the third was undone");
        drop(lane);
        pool.pool().await_durable(ticket)?;
        Ok::<_, OwnError>(pool.run(|tx| counter.get(tx))?)
    });
    assert_eq!(done.unwrap(), 3);
}

#[cfg(not(miri))]
#[test]
fn a_reader_runs_typed_transactions_and_takes_own_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("beside.pool");
    let pool = Pool::options().scheme(Scheme::Swift).create(&path).unwrap();
    let push = |number: u64| {
        pool.run_typed(|tx| tx.root_or_new::<PVec<'_, u64>>()?.get(tx)?.push(tx, number)).unwrap();
    };
    push(4);
    let mut reader = Pool::read(&path).unwrap();
    push(5);
    let sum = reader.run_typed(|tx| {
        let numbers = tx.root::<PVec<'_, u64>>()?.expect("it was made").get(tx)?;
        numbers.iter(tx).sum::<Result<u64, _>>()
    });
    assert_eq!(sum.unwrap(), 9);
    let own = reader.try_run_typed(|tx| {
        let numbers = tx.root::<PVec<'_, u64>>()?.expect("it was made").get(tx)?;
        if numbers.len(tx)? < 3 { Err(OwnError::Short) } else { Ok(numbers) }.map(drop)
    });
    assert!(matches!(own, Err(OwnError::Short)), "{own:?}");
    let changed = reader.try_run_typed(|tx| {
        Ok::<_, OwnError>(tx.root_or_new::<PVec<'_, u64>>()?.get(tx)?.push(tx, 6)?)
    });
    assert!(
        matches!(changed, Err(OwnError::Pool(PoolError::Abort(Abort::ReadOnly)))),
        "{changed:?}"
    );
    let untyped = reader.try_run(|tx| match tx.root()? {
        Some((at, _)) => Ok(tx.load_u64(at)?),
        None => Err(OwnError::Short),
    });
    assert!(untyped.is_ok(), "{untyped:?}");
}
