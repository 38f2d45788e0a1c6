//! Walks from the roots of collections, of typed programs, and of unknown ones: a sound pool has no findings, every block
//! of it is reached, and a planted leak or a block with two owners is found.

use outlast::collections::{ByteMap, ByteMapOptions, Dictionary, Queue, ReadRaw};
use outlast::inspect::walk::{OFFSETS, TYPED, Walker};
use outlast::inspect::{CheckReport, Finding};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::{RecoveredPool, UnrecoveredPool};
use outlast::typed::{
    Checked, PBTreeMap, PBox, PBytes, PHashMap, PPtr, PQueue, PRbMap, PString, PVec, Pattern,
    Persist, TypedTx, described_root, set_described_root,
};
use outlast::{Abort, BlockKind, Pool, PoolOffset, RootKind, Runner, Transact};
use outlast_pmem::{Heap, Medium};

fn new_pool() -> Pool<Heap> {
    let create = CreateOptions { lanes: 2, ..CreateOptions::default() };
    let open = OpenOptions { lock_stripes: 1024, ..OpenOptions::default() };
    Pool::create_on(Heap::new(4 << 20), &create, &open).unwrap()
}

fn recovered(pool: Pool<Heap>) -> RecoveredPool<Heap> {
    UnrecoveredPool::open(pool.close()).unwrap().read_only().unwrap()
}

fn check(pool: &RecoveredPool<Heap>) -> CheckReport {
    pool.check_by(&[OFFSETS], &mut |_| {})
}

/// The block whose path is this one.
fn block_of(pool: &RecoveredPool<Heap>, path: &str) -> (PoolOffset, u64) {
    let all = pool.blocks_by(&[OFFSETS], &mut CheckReport::default());
    let found = all.iter().find(|block| block.path.as_deref() == Some(path));
    let paths = || all.iter().filter_map(|block| block.path.as_deref()).collect::<Vec<_>>();
    found.map(|block| (block.at, block.bytes)).unwrap_or_else(|| panic!("{path} in {:?}", paths()))
}

/// Whatever holds the one offset holds the other from here on.
fn redirect(pool: &RecoveredPool<Heap>, from: PoolOffset, to: PoolOffset) {
    let blocks = pool.allocated_blocks(&mut CheckReport::default());
    let mut changed = 0;
    for (at, bytes) in blocks {
        for word in (0..bytes / 8).map(|word| at.plus(8 * word)) {
            if pool.medium().load_u64(word) == from.0 {
                pool.medium().store_u64(word, to.0);
                changed += 1;
            }
        }
    }
    assert!(changed > 0, "nothing led to {from}");
}

/// Sound: no findings, and every block reached. Then leaks are planted, and each is found.
fn sound_then_leaking(pool: Pool<Heap>, kind: &str) -> RecoveredPool<Heap> {
    let sound = recovered(pool);
    let report = check(&sound);
    assert_eq!(report.findings, []);
    assert_eq!(report.suspected, []);
    assert_eq!(report.reachable, Some(report.blocks));
    assert_eq!(report.root.as_ref().map(|root| root.0), Some(kind));
    let all = sound.blocks_by(&[OFFSETS], &mut CheckReport::default());
    assert!(all.iter().all(|block| block.path.is_some()), "{all:?}");

    let pool = UnrecoveredPool::open(sound.into_medium()).unwrap().recover().unwrap();
    let pool = pool.start(&OpenOptions { lock_stripes: 1024, ..OpenOptions::default() }).unwrap();
    let leaks = [64, 400, 100_000]
        .map(|bytes| pool.lane().unwrap().run(|tx| tx.alloc(bytes, BlockKind::General)).unwrap());
    let leaking = recovered(pool);
    let report = check(&leaking);
    let found = if kind == OFFSETS.name() { &report.suspected } else { &report.findings };
    let mut found: Vec<_> = found
        .iter()
        .map(|finding| match finding {
            Finding::Leaked { at, .. } => *at,
            other => panic!("{other}"),
        })
        .collect();
    found.sort_unstable();
    let mut planted = leaks.to_vec();
    planted.sort_unstable();
    assert_eq!(found, planted);
    leaking
}

/// Leads what leads to the block of one path to that of another, which then has two owners.
fn sharing(pool: &RecoveredPool<Heap>, one: &str, other: &str) {
    let (from, to) = (block_of(pool, one).0, block_of(pool, other).0);
    redirect(pool, from, to);
    let report = check(pool);
    let twice = Finding::ReachedTwice { at: to };
    assert!(report.findings.contains(&twice), "{one} as {other}: {:?}", report.findings);
    let path = &report.paths[&to];
    assert!(path == one || path == other, "{path}");
}

#[test]
fn collections_are_followed() {
    let pool = new_pool();
    pool.lane()
        .unwrap()
        .run(|tx| {
            let map = ByteMap::create(tx, &ByteMapOptions::default())?;
            tx.set_root(map.root(), RootKind::HashMap)?;
            (0..300u64).try_for_each(|n| map.insert(tx, &n.to_le_bytes(), &[7; 50]).map(drop))
        })
        .unwrap();
    sound_then_leaking(pool, "collection");
    let pool = new_pool();
    pool.lane()
        .unwrap()
        .run(|tx| {
            let queue = Queue::create(tx, 48)?;
            tx.set_root(queue.root(), RootKind::Queue)?;
            (0..100).try_for_each(|n| queue.enqueue(tx, &[n; 48]).map(drop))
        })
        .unwrap();
    sound_then_leaking(pool, "collection");
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Shop<'id> {
    name: PString<'id>,
    raw: PBytes<'id>,
    items: PVec<'id, Item<'id>>,
    by_name: PHashMap<'id, str, PBox<'id, Item<'id>>>,
    by_day: PBTreeMap<'id, (u32, u64), PString<'id>>,
    by_number: PRbMap<'id, i32, PVec<'id, u16>>,
    jobs: PQueue<'id, Option<PBox<'id, Node<'id>>>>,
    first: Option<PBox<'id, Node<'id>>>,
    pairs: [PBytes<'id>; 2],
    kind: Checked<Kind>,
    is_open: Checked<bool>,
    rest: [u8; 6],
}

#[derive(Clone, Copy, PartialEq, Debug, Pattern)]
#[repr(u8)]
enum Kind {
    Small = 2,
    Large = 9,
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Item<'id> {
    number: u64,
    text: PString<'id>,
    of: Option<PPtr<'id, Node<'id>>>,
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Node<'id> {
    number: u64,
    next: Option<PBox<'id, Node<'id>>>,
    before: Option<PPtr<'id, Node<'id>>>,
}

/// A chain of boxes, longer than calls may nest.
fn chain<'id>(
    tx: &mut TypedTx<'id, '_, impl Transact>,
    len: u64,
) -> Result<PBox<'id, Node<'id>>, Abort> {
    let mut next = None;
    for number in 0..len {
        let node = PBox::new(tx, Node { number, next, before: None })?;
        if let Some(next) = next {
            next.at(Node::FIELDS.before).set(tx, Some(node.ptr()))?;
        }
        next = Some(node);
    }
    Ok(next.expect("some nodes"))
}

fn shop<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Shop<'id>, Abort> {
    let first = chain(tx, 3000)?;
    let shop = Shop {
        name: PString::new(tx, "short")?,
        raw: PBytes::new(tx, &[200; 5000])?,
        items: PVec::new(tx)?,
        by_name: PHashMap::new(tx)?,
        by_day: PBTreeMap::new(tx)?,
        by_number: PRbMap::new(tx)?,
        jobs: PQueue::new(tx)?,
        first: Some(first),
        pairs: [PBytes::new(tx, b"one")?, PBytes::new(tx, &[1; 99])?],
        kind: Kind::Large.into(),
        is_open: true.into(),
        rest: [0; 6],
    };
    for number in 0..120u64 {
        let text =
            PString::new(tx, &format!("item number {number}, with a name that takes a block"))?;
        let of = (number % 3 == 0).then(|| first.ptr());
        shop.items.push(tx, Item { number, text, of })?;
        let text = PString::new(tx, "named")?;
        let named = PBox::new(tx, Item { number, text, of: None })?;
        shop.by_name.insert(tx, &format!("name {number}"), named)?;
        let text = PString::new(tx, "of a day")?;
        shop.by_day.insert(tx, &(number as u32 / 7, number), text)?;
        let numbers = PVec::new(tx)?;
        numbers.extend(tx, (0..number as u16).map(|n| n * 2))?;
        shop.by_number.insert(tx, &(number as i32 - 60), numbers)?;
        let job = PBox::new(tx, Node { number, next: None, before: Some(first.ptr()) })?;
        shop.jobs.push_back(tx, (number % 2 == 0).then_some(job))?;
        if number % 2 == 1 {
            job.free(tx)?;
        }
    }
    for _ in 0..70 {
        if let Some(Some(job)) = shop.jobs.pop_front(tx)? {
            job.free(tx)?;
        }
        if let Some(item) = shop.items.pop(tx)? {
            item.text.free(tx)?;
        }
    }
    Ok(shop)
}

fn shop_pool() -> Pool<Heap> {
    let pool = new_pool();
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        lane.run(|tx| tx.root_or_insert_with(shop).map(drop)).unwrap();
    });
    pool
}

#[test]
fn typed_roots_are_followed_by_their_schema() {
    let pool = sound_then_leaking(shop_pool(), "typed");
    let (walker, about) = pool.describe_root(&[]).unwrap();
    assert_eq!(walker, TYPED.name());
    assert!(about.starts_with("Shop v1 (schema "), "{about}");
}

#[test]
fn typed_blocks_with_two_owners_are_found() {
    for (one, other) in [
        ("items[3].text", "items[4].text"),
        ("by_name[\"name 7\"]", "by_name[\"name 8\"]"),
        ("by_name[\"name 7\"].text", "name"),
        ("by_day[0x000000010000000000000008]", "name"),
        ("by_number[-3]", "by_number[4]"),
        ("pairs[0]", "raw"),
        ("items", "by_number[9]"),
        ("jobs", "name"),
    ] {
        sharing(&recovered(shop_pool()), one, other);
    }
}

/// Values of other bits than their types have are told with their places.
#[test]
fn typed_values_that_are_none_are_found() {
    let pool = recovered(shop_pool());
    let root = pool.root().unwrap().unwrap().0;
    let at = root.plus(64 + Shop::FIELDS.kind.offset());
    let mut bytes = [0; 8];
    pool.medium().load(at, &mut bytes);
    assert_eq!(bytes[..2], [9, 1]);
    pool.medium().store(at, &[8, 2]);
    let (text, _) = block_of(&pool, "items[5].text");
    pool.medium().store_u64(text.plus(32), u64::MAX);
    let report = check(&pool);
    let told = |at: PoolOffset| {
        let of = |finding: &&Finding| matches!(finding, Finding::Damaged { at: found, .. } if *found == at);
        (report.findings.iter().find(of).map(ToString::to_string), report.paths[&at].as_str())
    };
    let no_kind = format!("damaged at {at}: no value of `Kind`");
    assert_eq!(told(at), (Some(no_kind), "kind"));
    assert_eq!(told(at.plus(1)).1, "is_open");
    assert_eq!(report.findings.count(), 2, "{:?}: longer text lies in a block", report.findings);
}

/// A graph of pointers without an owner has no leaks: what nothing leads to has.
#[test]
fn pointers_alone_keep_blocks_reached() {
    #[derive(Clone, Copy, Persist)]
    #[repr(C)]
    struct Graph<'id> {
        entry: Option<PPtr<'id, Vertex<'id>>>,
        field: Option<PPtr<'id, u64>>,
    }

    #[derive(Clone, Copy, Persist)]
    #[repr(C)]
    struct Vertex<'id> {
        number: u64,
        label: PString<'id>,
        to: [Option<PPtr<'id, Vertex<'id>>>; 2],
    }

    let pool = new_pool();
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        lane.run(|tx| {
            let mut all = Vec::new();
            for number in 0..50 {
                let text = "a label that is long enough to take a block of its own";
                let label = PString::new(tx, text)?;
                all.push(PBox::new(tx, Vertex { number, label, to: [None; 2] })?.ptr());
            }
            for (n, vertex) in all.iter().enumerate() {
                let to = [Some(all[(n * 7 + 1) % 50]), Some(all[(n + 1) % 50])];
                vertex.at(Vertex::FIELDS.to).set(tx, to)?;
            }
            // One is pointed into before it is pointed to.
            let field = Some(all[30].at(Vertex::FIELDS.number));
            tx.set_root(Graph { entry: Some(all[0]), field }).map(drop)
        })
        .unwrap();
    });
    sound_then_leaking(pool, "typed");
}

/// A pointer to memory that was freed is no finding.
#[test]
fn stale_pointers_are_no_findings() {
    let pool = new_pool();
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        lane.run(|tx| {
            let freed = PBox::new(tx, 7u64)?;
            freed.free(tx)?;
            tx.set_root([Some(freed.ptr()), None]).map(drop)
        })
        .unwrap();
    });
    sound_then_leaking(pool, "typed");
}

const LEDGER: &str = "ledger v1; ledger v1 { 0 entries: u64, 8 first: optional box of entry v1, \
    16 last: optional pointer to entry v1 }; entry v1 { 0 next: optional box of entry v1, 8 number: u64 }";

/// A root that is described by text, as C programs make them.
#[test]
fn described_roots_are_followed() {
    let pool = new_pool();
    let mut lane = pool.lane().unwrap();
    lane.run(|tx| {
        let mut next = 0;
        let mut last = 0;
        for number in 0..40 {
            let entry = tx.alloc(64, BlockKind::General)?;
            tx.store_u64(entry, next)?;
            tx.store_u64(entry.plus(8), number)?;
            last = if number == 0 { entry.0 } else { last };
            next = entry.0;
        }
        let ledger = set_described_root(tx, LEDGER, 64)?;
        [40, next, last]
            .iter()
            .zip([0, 8, 16])
            .try_for_each(|(word, at)| tx.store_u64(ledger.plus(at), *word))
    })
    .unwrap();
    lane.run(|tx| {
        let ledger = described_root(tx, LEDGER)?.expect("it was set");
        assert_eq!(tx.load_u64(ledger)?, 40);
        assert!(matches!(described_root(tx, "u64"), Err(Abort::Schema(_))));
        let refused = set_described_root(tx, LEDGER, 16);
        assert!(matches!(refused, Err(Abort::Cancelled(_))), "{refused:?}");
        let refused = described_root(tx, "ledger of entries");
        assert!(matches!(refused, Err(Abort::Cancelled(_))), "{refused:?}");
        Ok(())
    })
    .unwrap();
    drop(lane);
    let pool = sound_then_leaking(pool, "typed");
    sharing(&pool, "first.next.next.next", "first.next");
}

/// A block of the program's own: its blocks are found by the offsets, also those with bits of the program's around
/// them, within a block, and behind half a word.
#[test]
fn unknown_roots_are_followed_by_offsets() {
    let pool = new_pool();
    pool.lane()
        .unwrap()
        .run(|tx| {
            let [root, tagged, inner, packed, large] = [64, 64, 128, 64, 200_000]
                .map(|bytes| tx.alloc(bytes, BlockKind::General).unwrap());
            tx.store(root, &[0; 64])?;
            tx.store_u64(root.plus(8), tagged.0 | 0xFFC0_0000_0000_0003)?;
            tx.store(tagged, &[0; 64])?;
            tx.store_u64(tagged, inner.0 + 100)?;
            tx.store(inner, &[0; 128])?;
            tx.store(inner.plus(4), &packed.0.to_le_bytes())?;
            tx.store(packed, &[0; 64])?;
            tx.store_u64(packed.plus(56), large.0 + 150_000)?;
            (0..25_000).try_for_each(|word| tx.store_u64(large.plus(8 * word), 0))?;
            tx.set_root(root, RootKind::Opaque)
        })
        .unwrap();
    sound_then_leaking(pool, "offsets");
}

/// Whatever stands in a pool, a walk ends and does not panic.
#[test]
fn no_content_keeps_a_walk_from_its_end() {
    let mut random = numbers(7);
    for _ in 0..30 {
        let pool = recovered(shop_pool());
        let blocks = pool.allocated_blocks(&mut CheckReport::default());
        let all: Vec<_> = blocks.iter().map(|(at, bytes)| (*at, *bytes)).collect();
        for _ in 0..40 {
            let (at, bytes) = all[random() as usize % all.len()];
            let word = at.plus(random() % (bytes / 8) * 8);
            let value = match random() % 3 {
                0 => all[random() as usize % all.len()].0.0,
                1 => random(),
                _ => random() % 64,
            };
            pool.medium().store_u64(word, value);
        }
        check(&pool);
        pool.blocks_by(&[OFFSETS], &mut CheckReport::default());
    }
}

/// Numbers by chance (xorshift).
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Walkers that are given are asked first.
#[test]
fn a_program_s_own_walker_goes_first() {
    struct Mine;
    impl Walker for Mine {
        fn name(&self) -> &'static str {
            "mine"
        }

        fn describe(&self, _: outlast::inspect::walk::Root, _: &mut dyn ReadRaw) -> Option<String> {
            Some("all mine".to_owned())
        }

        fn walk(
            &self,
            _: outlast::inspect::walk::Root,
            _: &mut dyn ReadRaw,
            _: &mut dyn outlast::inspect::walk::Visit,
        ) -> outlast::inspect::walk::Coverage {
            outlast::inspect::walk::Coverage::Unknown
        }
    }
    let pool = recovered(shop_pool());
    let report = pool.check_by(&[OFFSETS, &Mine], &mut |_| {});
    assert_eq!(report.root, Some(("mine", "all mine".to_owned())));
    assert_eq!((report.reachable, report.findings.count()), (None, 0));
}
