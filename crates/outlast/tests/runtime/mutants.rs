//! Damaged collections through every public call: whatever the bytes of a pool are, a call ends, with a
//! value or with an error.
//!
//! A mutant is a pool with one to four words, lines or bytes that are not what was written. It is checked,
//! opened, read, changed, iterated over and emptied. Its number replays it: `OUTLAST_MUTANT=7`. The nightly
//! check sets `OUTLAST_MUTANTS=40000`.

#![cfg(not(miri))]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlast::collections::{
    ByteMap, ByteMapOptions, ByteTree, Dictionary, Named, Names, Placement, Queue, RbTree, Trees,
    Words,
};
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::typed::{
    Checked, PBTreeMap, PBox, PBytes, PHashMap, PQueue, PRbMap, PString, PVec, Persist, TypedTx,
};
use outlast::{Abort, Pool, PoolOffset, RootKind, Runner, Scheme, Transact, Tx};
use outlast_pmem::Heap;

const POOL_BYTES: u64 = 512 << 10;

/// Keys of a collection: enough for trees of three levels.
const KEYS: u64 = 400;

/// Mutants of an ordinary run.
const MUTANTS: u64 = 2000;

/// A mutant that takes longer does not come to an end.
const SECONDS_MAX: u64 = 120;

/// Numbers by a seed.
struct Draw(u64);

impl Draw {
    fn of(seed: u64, index: u64) -> Self {
        let mut draw =
            Self(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d);
        (0..8).for_each(|_| {
            draw.next();
        });
        draw
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end.max(1)
    }
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Shelf<'id> {
    numbers: PVec<'id, u64>,
    texts: PVec<'id, PString<'id>>,
    title: PString<'id>,
    cover: PBytes<'id>,
    by_number: PBTreeMap<'id, u64, u64>,
    by_half: PBTreeMap<'id, u32, u32>,
    by_title: PBTreeMap<'id, str, PString<'id>>,
    hashed: PHashMap<'id, u64, u64>,
    hashed_titles: PHashMap<'id, str, PString<'id>>,
    red_black: PRbMap<'id, u64, PString<'id>>,
    jobs: PQueue<'id, u64>,
    texts_to_do: PQueue<'id, PString<'id>>,
    first: Option<PBox<'id, Note<'id>>>,
    is_open: Checked<bool>,
    rest: [u8; 7],
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Note<'id> {
    number: u64,
    next: Option<PBox<'id, Note<'id>>>,
}

fn title(number: u64) -> String {
    format!("the title that begins alike, number {number}")
}

/// The key of a number, of which neighbours are far apart.
fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn new_shelf<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Shelf<'id>, Abort> {
    let last = PBox::new(tx, Note { number: 2, next: None })?;
    Ok(Shelf {
        numbers: PVec::new(tx)?,
        texts: PVec::new(tx)?,
        title: PString::new(
            tx,
            "a title that does not lie in its header, since it is too long for it",
        )?,
        cover: PBytes::new(tx, &[7; 3000])?,
        by_number: PBTreeMap::new(tx)?,
        by_half: PBTreeMap::new(tx)?,
        by_title: PBTreeMap::new(tx)?,
        hashed: PHashMap::new(tx)?,
        hashed_titles: PHashMap::new(tx)?,
        red_black: PRbMap::new(tx)?,
        jobs: PQueue::new(tx)?,
        texts_to_do: PQueue::new(tx)?,
        first: Some(PBox::new(tx, Note { number: 1, next: Some(last) })?),
        is_open: true.into(),
        rest: [0; 7],
    })
}

fn fill_shelf<'id>(
    tx: &mut TypedTx<'id, '_, impl Transact>,
    shelf: &Shelf<'id>,
    numbers: Range<u64>,
) -> Result<(), Abort> {
    for number in numbers {
        shelf.numbers.push(tx, number)?;
        shelf.by_number.insert(tx, &key(number), number)?;
        shelf.by_half.insert(tx, &(key(number) as u32), number as u32)?;
        shelf.hashed.insert(tx, &key(number), number)?;
        shelf.jobs.push_back(tx, number)?;
        if number % 4 == 0 {
            let text = PString::new(tx, &title(number))?;
            shelf.texts.push(tx, text)?;
            for map in 0..2 {
                let text = PString::new(tx, "short")?;
                let old = match map {
                    0 => shelf.by_title.insert(tx, &title(number), text)?,
                    _ => shelf.hashed_titles.insert(tx, &title(number), text)?,
                };
                old.map_or(Ok(()), |old| old.free(tx))?;
            }
            let text = PString::new(tx, &title(number))?;
            shelf.red_black.insert(tx, &key(number), text)?;
            let text = PString::new(tx, &title(number))?;
            shelf.texts_to_do.push_back(tx, text)?;
        }
    }
    Ok(())
}

/// Runs one call in a transaction of its own: whether it succeeds is its own affair.
macro_rules! calls {
    ($lane:ident, $draw:ident, |$tx:ident, $shelf:ident, $n:ident| { $($call:expr;)* }) => {
        $(
            let $n = $draw.below(KEYS + 50);
            let _ = $n;
            let _ = $lane.run(|$tx| {
                let Some(root) = $tx.root::<Shelf<'_>>()? else { return Ok(()) };
                let $shelf = root.get($tx)?;
                let _ = $call;
                Ok(())
            });
        )*
    };
}

/// Reads, changes and empties everything that a typed root leads to.
fn use_shelf(pool: &Pool<Heap>, draw: &mut Draw) {
    pool.typed(|pool| {
        let Ok(mut lane) = pool.lane() else { return };
        calls!(lane, draw, |tx, shelf, n| {
            shelf.is_open.get();
            shelf.title.to_string(tx);
            shelf.title.push_str(tx, "more");
            shelf.title.set(tx, "other");
            shelf.cover.to_vec(tx);
            shelf.cover.read(tx, n, &mut [0; 100]);
            shelf.cover.write(tx, n, &[1; 100]);
            shelf.cover.extend(tx, &[2; 500]);
            shelf.cover.truncate(tx, 10 * n);
            shelf.numbers.len(tx);
            shelf.numbers.get(tx, n);
            shelf.numbers.to_vec(tx);
            shelf.numbers.iter(tx).rev().take(10_000).count();
            shelf.numbers.range(tx, n..).nth(n as usize);
            shelf.numbers.retain(tx, |_, number| Ok(number != n));
            shelf.numbers.last(tx);
            shelf.numbers.push(tx, n);
            shelf.numbers.extend(tx, 0..n);
            match shelf.numbers.len(tx)? {
                len if n < len => shelf.numbers.swap_remove(tx, n).map(drop),
                _ => Ok(()),
            };
            match shelf.numbers.len(tx)? {
                len if n < len => shelf.numbers.swap(tx, n, len - 1),
                _ => Ok(()),
            };
            match shelf.numbers.len(tx)? {
                len if n < len => shelf.numbers.insert(tx, n, 1),
                _ => Ok(()),
            };
            match shelf.numbers.len(tx)? {
                len if n < len => shelf.numbers.remove(tx, n).map(drop),
                _ => Ok(()),
            };
            shelf.numbers.pop(tx);
            shelf.numbers.truncate(tx, n);
            shelf.texts.get(tx, n / 4)?.map(|text| text.to_string(tx));
            shelf.texts.truncate(tx, n / 4);
            shelf.by_number.get(tx, &key(n));
            shelf.by_number.iter(tx).take(10_000).count();
            shelf.by_number.iter(tx).rev().take(10_000).count();
            shelf.by_number.range(tx, key(n)..).take(10_000).count();
            shelf.by_number.first(tx);
            shelf.by_number.last(tx);
            shelf.by_number.to_vec(tx);
            shelf.by_half.iter(tx).take(10_000).count();
            shelf.by_title.prefix(tx, "the title").take(10_000).count();
            shelf.by_title.get(tx, &title(n));
            shelf.by_title.iter(tx).take(10_000).count();
            shelf.by_title.iter(tx).rev().take(10_000).count();
            shelf.hashed.get(tx, &key(n));
            shelf.hashed.iter(tx).take(10_000).count();
            shelf.hashed.len(tx);
            shelf.hashed.to_vec(tx);
            shelf.hashed_titles.retain(tx, |_, key, _| Ok(key != title(n)));
            shelf.hashed_titles.get(tx, &title(n));
            shelf.hashed_titles.iter(tx).take(10_000).count();
            shelf.red_black.get(tx, &key(n));
            shelf.red_black.iter(tx).take(10_000).count();
            shelf.red_black.iter(tx).rev().take(10_000).count();
            shelf.red_black.delete(tx, &key(n));
            shelf.texts_to_do.retain(tx, |tx, text| Ok(text.len(tx)? != n % 50));
            shelf.jobs.len(tx);
            shelf.jobs.front(tx);
            shelf.jobs.iter(tx).take(10_000).count();
            shelf.texts_to_do.iter(tx).take(10_000).count();
            fill_shelf(tx, &shelf, n..n + 20);
        });
        for _ in 0..120 {
            calls!(lane, draw, |tx, shelf, n| {
                shelf.by_number.insert(tx, &key(n).wrapping_add(1), n);
                shelf.by_number.remove(tx, &key(n));
                shelf.by_half.insert(tx, &((key(n) as u32).wrapping_add(1)), 5);
                shelf.by_half.remove(tx, &(key(n) as u32));
            });
        }
        for _ in 0..30 {
            calls!(lane, draw, |tx, shelf, n| {
                shelf.by_number.entry(tx, &n)?.or_insert(n);
                shelf.by_number.pop_first(tx);
                shelf.by_number.pop_last(tx);
                shelf.by_title.remove(tx, &title(n))?.map(|text| text.free(tx));
                {
                    let text = PString::new(tx, "new")?;
                    shelf.by_title.insert(tx, &title(n), text)
                };
                shelf.hashed.insert(tx, &n, n);
                shelf.hashed.remove(tx, &key(n));
                shelf.hashed_titles.remove(tx, &title(n))?.map(|text| text.free(tx));
                shelf.red_black.remove(tx, &key(n))?.map(|text| text.free(tx));
                {
                    let text = PString::new(tx, "new")?;
                    shelf.red_black.insert(tx, &n, text)
                };
                shelf.jobs.pop_front(tx);
                shelf.jobs.push_back(tx, n);
                shelf.texts_to_do.pop_front(tx)?.map(|text| text.free(tx));
            });
        }
        calls!(lane, draw, |tx, shelf, _n| {
            shelf.first.map(|first| first.free(tx));
            shelf.numbers.clear(tx);
            shelf.texts.free(tx);
            shelf.by_number.clear(tx);
            shelf.by_half.free(tx);
            shelf.by_title.clear(tx);
            shelf.hashed.clear(tx);
            shelf.hashed_titles.free(tx);
            shelf.red_black.clear(tx);
            shelf.jobs.clear(tx);
            shelf.texts_to_do.free(tx);
            shelf.title.free(tx);
            fill_shelf(tx, &shelf, 0..20);
        });
    });
}

/// Runs one call on a root without types.
macro_rules! untyped {
    ($lane:ident, $draw:ident, |$tx:ident, $root:ident, $n:ident| { $($call:expr;)* }) => {
        $(
            let $n = $draw.below(KEYS + 50);
            let _ = $n;
            let _ = $lane.run(|$tx: &mut Tx<'_, Heap>| {
                let Some(($root, _)) = $tx.root()? else { return Ok(()) };
                let _ = $call;
                Ok(())
            });
        )*
    };
}

fn use_dictionary<D: Dictionary>(
    pool: &Pool<Heap>,
    draw: &mut Draw,
    open: impl Fn(&mut Tx<'_, Heap>, PoolOffset) -> Result<D, Abort>,
    key_of: impl Fn(u64) -> Vec<u8>,
) {
    let Ok(mut lane) = pool.lane() else { return };
    let out = &mut Vec::new();
    untyped!(lane, draw, |tx, root, n| {
        open(tx, root)?.get(tx, &key_of(n), out);
        open(tx, root)?.len(tx);
        open(tx, root)?.for_each(tx, |tx, _, value| tx.load(value.at, &mut [0; 1]));
        open(tx, root)?.read_value(tx, &key_of(n), 0, &mut [0; 4]);
        open(tx, root)?.update_value(tx, &key_of(n), 0, &[1; 4]);
    });
    for _ in 0..200 {
        untyped!(lane, draw, |tx, root, n| {
            open(tx, root)?.insert(tx, &key_of(n ^ 1), &[3; 8]);
            open(tx, root)?.add(tx, &key_of(n), &[4; 8]);
            open(tx, root)?.remove(tx, &key_of(n));
        });
    }
}

/// What a pool holds.
#[derive(Clone, Copy, Debug)]
enum Content {
    Shelf,
    Map(Placement),
    Tree(Placement),
    Trees,
    RbTree,
    Queue,
    Words,
    Names,
}

const INLINE: Placement = Placement::Inline { key_bytes: 8, value_bytes: 8 };

const CONTENTS: [Content; 13] = [
    Content::Shelf,
    Content::Shelf,
    Content::Shelf,
    Content::Map(Placement::Together),
    Content::Map(INLINE),
    Content::Tree(Placement::Together),
    Content::Tree(Placement::Apart),
    Content::Tree(INLINE),
    Content::Trees,
    Content::RbTree,
    Content::Queue,
    Content::Words,
    Content::Names,
];

impl Content {
    fn key(self, number: u64) -> Vec<u8> {
        match self {
            Self::Map(INLINE) | Self::Tree(INLINE) => key(number).to_be_bytes().to_vec(),
            _ => title(number).into_bytes(),
        }
    }

    fn create(self, tx: &mut impl Transact) -> Result<(), Abort> {
        let numbers = 0..KEYS;
        let pairs = |tx: &mut _, map: &dyn Fn(&mut _, &[u8]) -> Result<bool, Abort>| {
            numbers.clone().try_for_each(|number| map(tx, &self.key(number)).map(drop))
        };
        let (root, kind) = match self {
            Self::Shelf => unreachable!("it has types"),
            Self::Map(placement) => {
                let options = ByteMapOptions { placement, ..ByteMapOptions::default() };
                let map = ByteMap::create(tx, &options)?;
                pairs(tx, &|tx, key| map.insert(tx, key, &[1; 8]))?;
                (map.root(), RootKind::HashMap)
            }
            Self::Tree(placement) => {
                let tree = ByteTree::create(tx, placement)?;
                pairs(tx, &|tx, key| tree.insert(tx, key, &[1; 8]))?;
                (tree.root(), RootKind::BTree)
            }
            Self::Trees => {
                let trees = [ByteTree::create(tx, INLINE)?, ByteTree::create(tx, INLINE)?];
                for number in numbers {
                    trees[1].insert(tx, &key(number).to_be_bytes(), &[1; 8])?;
                }
                (Trees::create(tx, &trees)?.root(), RootKind::Trees)
            }
            Self::RbTree => {
                let tree = RbTree::create(tx, 24)?;
                for number in numbers {
                    tree.insert(tx, key(number), &[1; 24])?;
                }
                (tree.root(), RootKind::RbTree)
            }
            Self::Queue => {
                let queue = Queue::create(tx, 40)?;
                for _ in numbers {
                    queue.enqueue(tx, &[1; 40])?;
                }
                (queue.root(), RootKind::Queue)
            }
            Self::Words => (Words::create(tx, 600, |_| 7)?.root(), RootKind::Words),
            Self::Names => {
                let names = Names::create(tx)?;
                for number in numbers {
                    let words = Words::create(tx, 9, |_| number)?.root();
                    let named = Named::new(RootKind::Words, words).with_note(title(number));
                    names.set(tx, &title(key(number)), &named)?;
                }
                (names.root(), RootKind::Names)
            }
        };
        tx.set_root(root, kind)
    }

    fn use_all(self, pool: &Pool<Heap>, draw: &mut Draw) {
        let Ok(mut lane) = pool.lane() else { return };
        match self {
            Self::Shelf => {
                drop(lane);
                use_shelf(pool, draw);
            }
            Self::Map(_) => {
                drop(lane);
                use_dictionary(
                    pool,
                    draw,
                    |tx, root| ByteMap::open(tx, root),
                    |number| self.key(number),
                );
            }
            Self::Tree(_) => {
                for _ in 0..10 {
                    untyped!(lane, draw, |tx, root, n| {
                        ByteTree::open(tx, root)?.scan(tx, &self.key(n), n, |_, _, _| Ok(()));
                        ByteTree::open(tx, root)?.add_ascending(
                            tx,
                            [
                                (&[n as u8; 8][..], &[1; 8][..]),
                                (&[(n as u8).wrapping_add(1); 8], &[1; 8]),
                            ],
                        );
                    });
                }
                drop(lane);
                use_dictionary(
                    pool,
                    draw,
                    |tx, root| ByteTree::open(tx, root),
                    |number| self.key(number),
                );
            }
            Self::Trees => {
                drop(lane);
                let second = |tx: &mut Tx<'_, Heap>, root| {
                    let trees = Trees::open(tx, root)?;
                    trees.get(1).copied().ok_or_else(|| Abort::cancelled("one tree"))
                };
                use_dictionary(pool, draw, second, |number| key(number).to_be_bytes().to_vec());
            }
            Self::RbTree => {
                untyped!(lane, draw, |tx, root, n| {
                    RbTree::open(tx, root)?.len(tx);
                    RbTree::open(tx, root)?.scan(tx, key(n), n, |_, _, _| Ok(()));
                });
                for _ in 0..200 {
                    untyped!(lane, draw, |tx, root, n| {
                        RbTree::open(tx, root)?.insert(tx, key(n) ^ 1, &[1; 24]);
                        RbTree::open(tx, root)?.get(tx, key(n), &mut Vec::new());
                        RbTree::open(tx, root)?.remove(tx, key(n));
                    });
                }
            }
            Self::Queue => {
                untyped!(lane, draw, |tx, root, _n| {
                    Queue::open(tx, root)?.len(tx);
                    Queue::open(tx, root)?.peek(tx, &mut [0; 40]);
                    Queue::open(tx, root)?.for_each(tx, |_, _, _| Ok(()));
                });
                for _ in 0..300 {
                    untyped!(lane, draw, |tx, root, _n| {
                        Queue::open(tx, root)?.enqueue(tx, &[2; 40]);
                        Queue::open(tx, root)?.dequeue(tx, &mut [0; 40]);
                        Queue::open(tx, root)?.dequeue_numbered(tx, &mut [0; 40]);
                    });
                }
            }
            Self::Names => {
                untyped!(lane, draw, |tx, root, n| {
                    Names::open(tx, root)?.get(tx, &title(key(n)));
                    Names::open(tx, root)?.for_each(tx, |_, _, _| Ok(()));
                });
                for _ in 0..50 {
                    untyped!(lane, draw, |tx, root, n| {
                        Names::open(tx, root)?.free(tx, &title(key(n)));
                        Names::open(tx, root)?.forget(tx, &title(key(n)));
                        Names::open(tx, root)?.set(
                            tx,
                            &title(n),
                            &Named::new(RootKind::Opaque, root),
                        );
                    });
                }
            }
            Self::Words => {
                for _ in 0..50 {
                    untyped!(lane, draw, |tx, root, n| {
                        {
                            let words = Words::open(tx, root)?;
                            words.get(tx, n.min(words.len().saturating_sub(1)))
                        };
                        {
                            let words = Words::open(tx, root)?;
                            words.set(tx, n.min(words.len().saturating_sub(1)), 1)
                        };
                    });
                }
            }
        }
    }
}

/// A sound pool.
struct Base {
    content: Content,
    scheme: Scheme,
    image: Vec<u8>,
    /// Words that hold something: of the header page and the lanes, and of the heap.
    before_heap: Vec<usize>,
    of_heap: Vec<usize>,
}

fn options(scheme: Scheme) -> OpenOptions {
    OpenOptions {
        lock_stripes: 64,
        cache_bytes: Some(64 << 10),
        ..OpenOptions::with_scheme(scheme)
    }
}

impl Base {
    fn new(content: Content, scheme: Scheme, checksums: bool, is_closed: bool) -> Self {
        let create = CreateOptions {
            lanes: 2,
            lane_bytes: 8192,
            chunk_bytes: Some(4096),
            checksums,
            uuid: Some(Default::default()),
            ..CreateOptions::default()
        };
        let pool = Pool::create_on(Heap::new(POOL_BYTES), &create, &options(scheme)).unwrap();
        match content {
            Content::Shelf => pool.typed(|pool| {
                let mut lane = pool.lane().unwrap();
                let root = lane.run(|tx| tx.root_or_insert_with(new_shelf)).unwrap();
                for from in (0..KEYS).step_by(20) {
                    lane.run(|tx| {
                        let shelf = root.get(tx)?;
                        fill_shelf(tx, &shelf, from..from + 20)
                    })
                    .unwrap();
                }
            }),
            content => pool.lane().unwrap().run(|tx| content.create(tx)).unwrap(),
        }
        let heap_at = pool.header().geometry.heap_at as usize;
        let medium = if is_closed { pool.close() } else { pool.into_medium() };
        let image = medium.to_bytes();
        let used = (0..image.len()).step_by(8).filter(|at| image[*at..*at + 8] != [0; 8]);
        let (before_heap, of_heap) = used.partition(|at| *at < heap_at);
        Self { content, scheme, image, before_heap, of_heap }
    }

    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for (nth, content) in CONTENTS.into_iter().enumerate() {
            let schemes = [
                (Scheme::Swift, false),
                (Scheme::Undo, false),
                (Scheme::RedoArchapt, true),
                (Scheme::UndoArchapt, true),
            ];
            let (scheme, checksums) = schemes[nth % 2];
            all.push(Self::new(content, scheme, checksums, nth % 3 != 0));
            let (scheme, checksums) = schemes[2 + nth % 2];
            all.push(Self::new(content, scheme, checksums, nth % 3 != 1));
        }
        all
    }

    /// The mutant of that number.
    fn mutant(&self, draw: &mut Draw) -> Vec<u8> {
        let mut image = self.image.clone();
        let pick = |draw: &mut Draw| {
            let words = if draw.below(16) == 0 { &self.before_heap } else { &self.of_heap };
            words[draw.below(words.len() as u64) as usize]
        };
        for _ in 0..1 + draw.below(4) * draw.below(2) {
            let at = pick(draw);
            let old = u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
            let other = pick(draw);
            let new = match draw.below(16) {
                0 | 1 => u64::MAX,
                2 => 0,
                3 => 1,
                4 => old.wrapping_add(1),
                5 => old.wrapping_sub(1),
                6..8 => old ^ 1 << draw.below(64),
                8 => old ^ 0xff << (8 * draw.below(8)),
                9 | 10 => u64::from_le_bytes(image[other..other + 8].try_into().unwrap()),
                11 => at as u64 & !63,
                12 => (1 << draw.below(64)) - 1,
                13 => old.wrapping_add(16 << draw.below(8)),
                14 => {
                    let (from, to) = (other & !63, at & !63);
                    image.copy_within(from..from + 64, to);
                    continue;
                }
                _ => draw.next(),
            };
            image[at..at + 8].copy_from_slice(&new.to_le_bytes());
        }
        image
    }

    fn try_mutant(&self, draw: &mut Draw) -> Outcome {
        let image = self.mutant(draw);
        let open = || UnrecoveredPool::open(Heap::from_bytes(&image));
        let Ok(recovered) = open().and_then(|pool| pool.recover()) else {
            return Outcome::Refused;
        };
        let is_found = !recovered.check().findings.is_empty();
        let Ok(pool) = recovered.start(&options(self.scheme)) else { return Outcome::Refused };
        self.content.use_all(&pool, draw);
        let closed = UnrecoveredPool::open(pool.close()).and_then(|pool| pool.recover());
        if let Ok(recovered) = closed {
            let _ = recovered.repair();
        }
        if is_found { Outcome::Found } else { Outcome::Unseen }
    }
}

/// What became of a mutant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Refused,
    Found,
    Unseen,
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|value| value.parse().ok())
}

#[test]
fn no_damaged_collection_panics_or_goes_on_for_ever() {
    let bases = Base::all();
    let only = number_of("OUTLAST_MUTANT");
    let mutants = match only {
        Some(one) => one..one + 1,
        None => 0..number_of("OUTLAST_MUTANTS").unwrap_or(MUTANTS),
    };
    let (next, under_way) = (AtomicU64::new(mutants.start), AtomicU64::new(2));
    let at = [(); 2].map(|()| (AtomicU64::new(0), AtomicU64::new(0)));
    let started = Instant::now();
    let results = std::sync::Mutex::new(Vec::new());
    let work = |(index, since): &(AtomicU64, AtomicU64)| {
        loop {
            let mutant = next.fetch_add(1, Ordering::Relaxed);
            if mutant >= mutants.end {
                break;
            }
            index.store(mutant, Ordering::Relaxed);
            since.store(started.elapsed().as_secs() + 1, Ordering::Relaxed);
            let mut draw = Draw::of(50, mutant);
            let base = &bases[draw.below(bases.len() as u64) as usize];
            let outcome = catch_unwind(AssertUnwindSafe(|| base.try_mutant(&mut draw)));
            since.store(0, Ordering::Relaxed);
            results.lock().unwrap().push((mutant, base.content, outcome.ok()));
        }
        under_way.fetch_sub(1, Ordering::Relaxed);
    };
    std::thread::scope(|scope| {
        for worker in &at {
            scope.spawn(|| work(worker));
        }
        while under_way.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(20));
            for (index, since) in &at {
                let since = since.load(Ordering::Relaxed);
                if since != 0 && started.elapsed().as_secs() > since + SECONDS_MAX {
                    eprintln!("does not end: OUTLAST_MUTANT={}", index.load(Ordering::Relaxed));
                    std::process::abort();
                }
            }
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|result| result.0);
    let panics: Vec<String> = results
        .iter()
        .filter(|result| result.2.is_none())
        .map(|(mutant, content, _)| format!("OUTLAST_MUTANT={mutant} ({content:?})"))
        .collect();
    let count = |outcome| results.iter().filter(|result| result.2 == Some(outcome)).count();
    let [refused, found, unseen] = [Outcome::Refused, Outcome::Found, Outcome::Unseen].map(count);
    let total = results.len();
    println!(
        "{total} mutants: {refused} refused, {found} found, {unseen} not seen, {} panics",
        panics.len()
    );
    assert!(panics.is_empty(), "{}", panics.join("\n"));
    // Damage that is always refused, or never seen, would try little.
    assert!(only.is_some() || found > total / 5 && unseen > total / 100, "{found}, {unseen}");
}
