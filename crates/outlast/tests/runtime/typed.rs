//! The typed API: roots and their schemas, fields, pointers, what owns what.

use std::cell::RefCell;
use std::ops::Bound;
use std::rc::Rc;

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::typed::{
    Checked, PBTreeMap, PBox, PHashMap, PPtr, PQueue, PRbMap, PString, PVec, Pattern, Persist,
    Schema, SchemaMismatch, TypedTx, with_runner,
};
use outlast::{
    Abort, BlockKind, ByteRange, Lane, Pool, PoolOffset, RootKind, Runner, Scheme, Transact,
};
use outlast_pmem::Heap;

#[derive(Clone, Copy, PartialEq, Debug, Persist)]
#[repr(C)]
struct Account {
    number: u64,
    balance: i64,
    kind: Checked<Kind>,
    is_open: Checked<bool>,
    branch: [u8; 6],
}

#[derive(Clone, Copy, PartialEq, Debug, Pattern)]
#[repr(u8)]
enum Kind {
    Current = 1,
    Savings = 7,
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Bank<'id> {
    name: PString<'id>,
    accounts: PVec<'id, Account>,
    by_owner: PHashMap<'id, str, PVec<'id, u64>>,
    by_day: PBTreeMap<'id, (u32, u64), PString<'id>>,
    jobs: PQueue<'id, Option<PBox<'id, Node<'id>>>>,
    first: Option<PBox<'id, Node<'id>>>,
    opened: u64,
}

#[derive(Clone, Copy, PartialEq, Debug, Persist)]
#[repr(C)]
struct Node<'id> {
    number: u64,
    next: Option<PBox<'id, Node<'id>>>,
    before: Option<PPtr<'id, Node<'id>>>,
}

#[derive(Clone, Copy, PartialEq, Debug, Persist)]
#[repr(transparent)]
struct Cents(i64);

fn account(number: u64) -> Account {
    let (kind, is_open) = (Kind::Savings.into(), true.into());
    Account { number, balance: -5, kind, is_open, branch: *b"branch" }
}

fn small_pool(scheme: Scheme) -> Pool<Heap> {
    let create = CreateOptions { lanes: 4, lane_bytes: 16 << 10, ..CreateOptions::default() };
    Pool::create_on(Heap::new(2 << 20), &create, &open_options(scheme)).unwrap()
}

fn open_options(scheme: Scheme) -> OpenOptions {
    OpenOptions { lock_stripes: 1024, ..OpenOptions::with_scheme(scheme) }
}

/// As a process leaves it that dies now.
fn crashed(pool: Pool<Heap>, scheme: Scheme) -> Pool<Heap> {
    let image = Heap::from_bytes(&pool.into_medium().to_bytes());
    let recovered = UnrecoveredPool::open(image).unwrap().recover().unwrap();
    recovered.start(&open_options(scheme)).unwrap()
}

/// How many blocks are taken.
fn blocks(pool: &Pool<Heap>) -> usize {
    let image = Heap::from_bytes(&pool.medium().to_bytes());
    let recovered = UnrecoveredPool::open(image).unwrap().recover().unwrap();
    let (report, blocks) = recovered.check_metadata();
    assert_eq!(report.findings, []);
    blocks.len()
}

fn new_bank<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Bank<'id>, Abort> {
    Ok(Bank {
        name: PString::new(tx, "The Bank of Outlast, founded to be still there afterwards")?,
        accounts: PVec::new(tx)?,
        by_owner: PHashMap::new(tx)?,
        by_day: PBTreeMap::new(tx)?,
        jobs: PQueue::new(tx)?,
        first: None,
        opened: 1694,
    })
}

fn fill<'id>(tx: &mut TypedTx<'id, '_, impl Transact>, bank: Bank<'id>) -> Result<(), Abort> {
    for number in 0..50 {
        bank.accounts.push(tx, account(number))?;
        let owner = format!("owner {}", number % 7);
        let numbers = bank.by_owner.entry(tx, &owner)?.or_insert_with(PVec::new)?;
        numbers.push(tx, number)?;
        let text = PString::new(tx, "opened")?;
        bank.by_day.insert(tx, &(number as u32 / 10, number), text)?;
        let node = Node { number, next: None, before: None };
        let node = (number % 2 == 0).then(|| PBox::new(tx, node)).transpose()?;
        bank.jobs.push_back(tx, node)?;
    }
    Ok(())
}

#[test]
fn a_root_and_all_it_leads_to_are_there_after_a_crash() {
    for scheme in [Scheme::Undo, Scheme::Redo, Scheme::Swift] {
        let pool = small_pool(scheme);
        pool.typed(|pool| {
            let mut lane = pool.lane().unwrap();
            lane.run(|tx| {
                assert!(tx.root::<Bank<'_>>()?.is_none());
                let bank = tx.root_or_insert_with(new_bank)?.get(tx)?;
                fill(tx, bank)
            })
            .unwrap();
        });
        let pool = crashed(pool, scheme);
        pool.typed(|pool| {
            let mut lane = pool.lane().unwrap();
            lane.run(|tx| {
                let bank = tx.root::<Bank<'_>>()?.expect("it was set").get(tx)?;
                assert_eq!(bank.opened, 1694);
                assert!(bank.name.to_string(tx)?.starts_with("The Bank"));
                assert_eq!(bank.accounts.len(tx)?, 50);
                assert_eq!(bank.accounts.get(tx, 49)?, Some(account(49)));
                let numbers = bank.by_owner.get(tx, "owner 3")?.expect("it was inserted");
                assert_eq!(numbers.to_vec(tx)?, [3, 10, 17, 24, 31, 38, 45]);
                let days: Vec<_> =
                    bank.by_day.range(tx, (1, 0)..(2, 0)).collect::<Result<_, _>>()?;
                assert_eq!(days.len(), 10);
                assert_eq!(days[0].0, (1, 10));
                assert_eq!(bank.jobs.len(tx)?, 50);
                Ok(())
            })
            .unwrap();
        });
    }
}

#[test]
fn freeing_the_root_frees_all_it_owns_and_nothing_twice() {
    let pool = small_pool(Scheme::Undo);
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        lane.run(|tx| {
            let root = tx.root_or_insert_with(new_bank)?;
            let bank = root.get(tx)?;
            fill(tx, bank)?;
            // A list that owns forwards and points backwards.
            let mut first = None;
            for number in 0..20 {
                let node = PBox::new(tx, Node { number, next: first, before: None })?;
                if let Some(next) = first {
                    next.at(Node::FIELDS.before).set(tx, Some(node.ptr()))?;
                }
                first = Some(node);
            }
            root.at(Bank::FIELDS.first).set(tx, first)
        })
        .unwrap();
        assert!(blocks(pool.pool()) > 150);
        lane.run(|tx| {
            let root = tx.root::<Bank<'_>>()?.expect("it was set");
            root.get(tx)?.free_owned(tx)
        })
        .unwrap();
    });
    assert_eq!(blocks(&pool), 2, "the root and its schema");
}

#[test]
fn another_schema_is_refused_with_both_and_can_be_migrated() {
    #[derive(Clone, Copy, Persist)]
    #[repr(C)]
    #[persist(name = "Counter")]
    struct Old {
        hits: u64,
    }

    #[derive(Clone, Copy, Persist)]
    #[repr(C)]
    #[persist(version = 2)]
    struct Counter {
        hits: u64,
        misses: u64,
    }

    let pool = small_pool(Scheme::Redo);
    pool.typed(|pool| pool.lane().unwrap().run(|tx| tx.set_root(Old { hits: 7 }).map(|_| ())))
        .unwrap();
    let pool = crashed(pool, Scheme::Redo);
    let before = blocks(&pool);
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        let refused = lane.run(|tx| tx.root::<Counter>()).unwrap_err();
        let Abort::Schema(mismatch) = &refused else { panic!("{refused}") };
        let [old, new] = [
            "Counter v1; Counter v1 { 0 hits: u64 }",
            "Counter v2; Counter v2 { 0 hits: u64, 8 misses: u64 }",
        ];
        let SchemaMismatch { found, expected, found_fingerprint, expected_fingerprint } =
            &**mismatch;
        assert_eq!((found.as_str(), expected.as_str()), (old, new));
        assert_ne!(found_fingerprint, expected_fingerprint);
        let text = refused.to_string();
        assert!(text.contains(old) && text.contains(new), "{text}");

        lane.run(|tx| {
            let old = tx.root::<Old>()?.expect("it was set").get(tx)?;
            tx.set_root(Counter { hits: old.hits, misses: 0 }).map(|_| ())
        })
        .unwrap();
        assert!(matches!(lane.run(|tx| tx.root::<Old>()), Err(Abort::Schema(_))));
        let hits = lane.run(|tx| tx.root::<Counter>()?.unwrap().at(Counter::FIELDS.hits).get(tx));
        assert_eq!(hits.unwrap(), 7);
    });
    assert_eq!(blocks(&pool), before, "the old root is gone");
}

/// What a fingerprint is made of is part of the durable format.
#[test]
fn a_schema_spells_out_every_type_once() {
    let node = "Node v1; Node v1 { 0 number: u64, 8 next: optional box of Node v1, \
                16 before: optional pointer to Node v1 }";
    let node_schema = Schema::of::<Node<'_>>();
    assert_eq!(node_schema.to_string(), node);
    assert_eq!(node_schema.fingerprint(), 15_499_099_810_931_431_749);
    assert_eq!(
        Schema::of::<PHashMap<'_, (u8, i16), [Account; 2]>>().to_string(),
        "hash map of (u8, i16) to [Account v1; 2]; Account v1 { 0 number: u64, 8 balance: i64, \
         16 kind: Kind as u8 (1 Current, 7 Savings), 17 is_open: bool as u8, 18 branch: [u8; 6] }"
    );
    assert_eq!(Schema::of::<Cents>().to_string(), "Cents v1; Cents v1 { 0 0: i64 }");
}

#[test]
fn types_of_one_name_are_told_apart() {
    mod other {
        use outlast::typed::Persist;

        #[derive(Clone, Copy, Persist)]
        #[repr(C)]
        pub struct Cents {
            pub all: u32,
        }
    }

    #[derive(Clone, Copy, Persist)]
    #[repr(C)]
    struct Both {
        here: Cents,
        there: [other::Cents; 2],
    }

    assert_eq!(
        Schema::of::<Both>().to_string(),
        "Both v1; Both v1 { 0 here: Cents v1, 8 there: [Cents v1#2; 2] }; Cents v1 { 0 0: i64 }; \
         Cents v1#2 { 0 all: u32 }"
    );
}

#[test]
fn a_root_without_types_is_refused() {
    let pool = small_pool(Scheme::Undo);
    let mut lane = pool.lane().unwrap();
    lane.run(|tx| {
        let block = tx.alloc(16, BlockKind::General)?;
        tx.store(block, &[1; 16])?;
        tx.set_root(block, RootKind::Opaque)
    })
    .unwrap();
    drop(lane);
    pool.typed(|pool| {
        let refused = pool.lane().unwrap().run(|tx| tx.root::<u64>());
        assert!(matches!(refused, Err(Abort::Schema(_))), "{refused:?}");
        let refused = pool.lane().unwrap().run(|tx| tx.set_root(7u64));
        assert!(matches!(refused, Err(Abort::Schema(_))), "{refused:?}");
    });
}

#[test]
fn structs_have_the_layout_of_c_and_survive_their_bytes() {
    let account = Account { number: 0x0102, ..account(0) };
    let mut bytes = [0; 24];
    account.encode(&mut bytes);
    assert_eq!(bytes[..2], [2, 1]);
    assert_eq!(bytes[8..16], (-5i64).to_le_bytes());
    assert_eq!(bytes[16..], *b"\x07\x01branch");
    assert_eq!(Account::decode(&bytes), account);
    assert_eq!(Account::FIELDS.branch.offset(), 18);
    assert_eq!(<Account as Persist<'_>>::SIZE, size_of::<Account>());
    assert_eq!(Cents::decode(&[1, 0, 0, 0, 0, 0, 0, 0]), Cents(1));
}

#[test]
fn bits_that_are_no_value_are_an_error_and_not_a_value() {
    let mut bytes = [0; 24];
    account(1).encode(&mut bytes);
    (bytes[16], bytes[17]) = (2, 2);
    let account = Account::decode(&bytes);
    assert!(matches!(account.kind.get(), Err(Abort::Damaged(_))));
    assert!(matches!(account.is_open.get(), Err(Abort::Damaged(_))));
    let mut bits = [0; 4];
    Checked::new('é').encode(&mut bits);
    assert_eq!(Checked::<char>::decode(&bits).get().unwrap(), 'é');
    assert!(Checked::<char>::decode(&0xD800u32.to_le_bytes()).get().is_err());
}

#[test]
fn a_pointer_that_never_was_one_leads_nowhere() {
    let pool = small_pool(Scheme::Undo);
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        let wild = PPtr::<'_, u64>::decode(&[0; 8]);
        let refused = lane.run(|tx| wild.get(tx));
        assert!(matches!(refused, Err(Abort::BadAddress(_))), "{refused:?}");
        assert_eq!(Option::<PPtr<'_, u64>>::decode(&[0; 8]), None);
        let twice = lane.run(|tx| {
            let number = PBox::new(tx, 7u64)?;
            number.free(tx)?;
            number.free(tx)
        });
        assert!(matches!(twice, Err(Abort::BadAddress(_))), "{twice:?}");
        let value = lane.run(|tx| PBox::new(tx, 7u64)?.into_inner(tx)).unwrap();
        assert_eq!(value, 7);
    });
    assert_eq!(blocks(&pool), 0);
}

#[test]
fn a_handle_finds_no_collection_where_it_was_freed() {
    let pool = small_pool(Scheme::Redo);
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        let bank = lane.run(new_bank).unwrap();
        lane.run(|tx| {
            fill(tx, bank)?;
            bank.free_owned(tx)
        })
        .unwrap();
        let refused = [
            lane.run(|tx| bank.name.len(tx)),
            lane.run(|tx| bank.accounts.len(tx)),
            lane.run(|tx| bank.by_owner.len(tx)),
            lane.run(|tx| bank.by_day.len(tx)),
            lane.run(|tx| bank.jobs.len(tx)),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(Abort::Damaged(_))), "{refused:?}");
        }
    });
    assert_eq!(blocks(&pool), 0);
}

/// Writes down what reaches the transaction underneath.
struct Noting<'p> {
    lane: Lane<'p, Heap>,
    tx: NotingTx,
}

/// What a `Noting` lends to its closure: the operations of one transaction, on memory of its own.
struct NotingTx {
    memory: Vec<u8>,
    seen: Rc<RefCell<Vec<String>>>,
}

impl Runner for Noting<'_> {
    type Tx = NotingTx;

    fn run<R, F>(&mut self, mut body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut NotingTx) -> Result<R, Abort>,
    {
        let tx = &mut self.tx;
        self.lane.run(|_| body(tx))
    }
}

impl NotingTx {
    fn note(&self, what: &str, bytes: usize) {
        self.seen.borrow_mut().push(format!("{what} {bytes}"));
    }
}

impl Transact for NotingTx {
    fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        self.note("load", out.len());
        out.copy_from_slice(&self.memory[at.0 as usize..][..out.len()]);
        Ok(())
    }

    fn will_write(&mut self, ranges: &[ByteRange]) -> Result<(), Abort> {
        self.note("announce", ranges.iter().map(|range| range.len as usize).sum());
        Ok(())
    }

    fn will_read(&mut self, ranges: &[ByteRange]) {
        self.note("fetch", ranges.iter().map(|range| range.len as usize).sum());
    }

    fn store(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        self.note("store", bytes.len());
        self.memory[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn alloc(&mut self, bytes: u64, _: BlockKind) -> Result<PoolOffset, Abort> {
        self.note("alloc", bytes as usize);
        let at = self.memory.len() as u64;
        self.memory.resize((at + bytes).next_multiple_of(64) as usize, 0);
        Ok(PoolOffset(at))
    }

    fn free(&mut self, _: PoolOffset) -> Result<(), Abort> {
        self.note("free", 0);
        Ok(())
    }

    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort> {
        Ok(None)
    }

    fn set_root(&mut self, _: PoolOffset, _: RootKind) -> Result<(), Abort> {
        Ok(())
    }

    fn load_u64(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        self.note("load word", 8);
        let (bytes, _) = self.memory[at.0 as usize..].split_first_chunk().unwrap();
        Ok(u64::from_le_bytes(*bytes))
    }

    fn store_u64(&mut self, at: PoolOffset, value: u64) -> Result<(), Abort> {
        self.note("store word", 8);
        self.memory[at.0 as usize..][..8].copy_from_slice(&value.to_le_bytes());
        Ok(())
    }
}

/// Typed access costs the transaction what untyped access does; and operations announce all that
/// they store over, at once and before the first store.
#[test]
fn what_reaches_the_transaction() {
    let pool = small_pool(Scheme::None);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let tx = NotingTx { memory: vec![0; 64], seen: Rc::clone(&seen) };
    let noted = |what: &str, expected: &[&str]| {
        assert_eq!(seen.take(), expected, "{what}");
    };
    with_runner(Noting { lane: pool.lane().unwrap(), tx }, |mut lane| {
        lane.run(|tx| {
            let account = PBox::new(tx, account(1))?;
            noted("a box", &["alloc 24", "store 24"]);
            account.at(Account::FIELDS.balance).get(tx)?;
            noted("loading a word", &["load word 8"]);
            account.at(Account::FIELDS.balance).update(tx, |balance| balance + 1)?;
            noted("changing a word", &["load word 8", "store word 8"]);
            account.get(tx)?;
            noted("loading a struct", &["load 24"]);
            let vec = PVec::new(tx)?;
            noted("a vector", &["alloc 256", "store 256"]);
            vec.push(tx, 1u64)?;
            noted(
                "the first push",
                &[
                    "load 16",
                    "load word 8",
                    "alloc 64",
                    "announce 16",
                    "store word 8",
                    "store word 8",
                    "store word 8",
                ],
            );
            vec.push(tx, 2u64)?;
            noted(
                "another push",
                &["load 16", "load word 8", "announce 16", "store word 8", "store word 8"],
            );
            vec.get(tx, 1)?;
            noted("an item", &["load 16", "load word 8", "load word 8"]);
            vec.pop(tx)?;
            noted("a pop", &["load 16", "load word 8", "load word 8", "store word 8"]);
            vec.extend(tx, 0..9_999u64)?;
            seen.take();
            assert_eq!(vec.iter(tx).nth(9_999).transpose()?, Some(9_998));
            // The header; the byte behind which nothing is loaded; the item.
            noted("an item far behind", &["load 256", "load 1", "load 8"]);
            let queue = PQueue::new(tx)?;
            queue.push_back(tx, 1u64)?;
            seen.take();
            queue.push_back(tx, 2u64)?;
            noted("a queue's push", &["load 40", "announce 16", "store word 8", "store word 8"]);
            queue.pop_front(tx)?;
            noted("a queue's pop", &["load 40", "load word 8", "store word 8"]);
            let map = PBTreeMap::new(tx)?;
            (0..3).try_for_each(|key: u64| map.insert(tx, &key, [key; 3]).map(drop))?;
            seen.take();
            map.iter(tx).take(3).try_for_each(|pair| pair.map(drop))?;
            // The entries' first lines, then each whole behind the first one, which tells how long they are.
            let first = ["load 16", "load 8", "fetch 40", "fetch 40", "load 24"];
            let entry = ["load 16", "load 8", "load 24"];
            let start = ["load 24", "load 256", "fetch 64", "fetch 64", "fetch 64"];
            noted("a scan", &[&start[..], &first, &entry, &entry].concat());
            Ok(())
        })
    })
    .unwrap();
}

/// Four threads share one brand, and what their transactions do to one vector and one counter
/// adds up.
#[test]
fn threads_share_a_pool_under_one_brand() {
    const EACH: u64 = 200;
    for scheme in [Scheme::Undo, Scheme::Redo, Scheme::Swift] {
        let pool = small_pool(scheme);
        pool.typed(|pool| {
            let root = pool.lane().unwrap().run(|tx| tx.root_or_insert_with(new_bank)).unwrap();
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(move || {
                        let mut lane = pool.lane().unwrap();
                        for number in 0..EACH {
                            lane.run(|tx| {
                                root.at(Bank::FIELDS.opened).update(tx, |opened| opened + 1)?;
                                root.at(Bank::FIELDS.accounts).get(tx)?.push(tx, account(number))
                            })
                            .unwrap();
                        }
                    });
                }
            });
            let mut numbers: Vec<u64> = pool
                .lane()
                .unwrap()
                .run(|tx| {
                    assert_eq!(root.at(Bank::FIELDS.opened).get(tx)?, 1694 + 4 * EACH);
                    let accounts = root.get(tx)?.accounts;
                    accounts.iter(tx).map(|account| Ok(account?.number)).collect()
                })
                .unwrap();
            numbers.sort_unstable();
            let expected: Vec<u64> = (0..4 * EACH).map(|i| i / 4).collect();
            assert_eq!(numbers, expected, "{scheme}");
        });
    }
}

/// A place is a place, however far inside; its values are as those around it say.
#[test]
fn places_inside_places() {
    #[derive(Clone, Copy, Persist)]
    #[repr(C)]
    struct Branch {
        name: [u8; 8],
        accounts: [Account; 3],
        cents: Cents,
    }

    let pool = small_pool(Scheme::Redo);
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        let (branch, ticket) = lane
            .run_ticketed(|tx| {
                let accounts = [0, 1, 2].map(account);
                PBox::new(tx, Branch { name: *b"Hannover", accounts, cents: Cents(1) })
            })
            .unwrap();
        lane.await_physical(ticket).unwrap();
        assert!(pool.pool().is_physical(ticket) && pool.lane_at(0).is_err());
        let second = branch.at(Branch::FIELDS.accounts).item(1);
        lane.run(|tx| {
            second.at(Account::FIELDS.branch).item(5).set(tx, b'!')?;
            second.at(Account::FIELDS.balance).set(tx, i64::MIN)?;
            let inside = Branch::FIELDS.cents.then(Cents::FIELDS.0);
            branch.at(inside).update(tx, |cents| -cents)?;
            assert_eq!(branch.at(Branch::FIELDS.cents).replace(tx, Cents(9))?, Cents(-1));
            let all = branch.get(tx)?;
            assert_eq!((all.cents, all.name), (Cents(9), *b"Hannover"));
            let changed = Account { balance: i64::MIN, branch: *b"branc!", ..account(1) };
            assert_eq!(all.accounts, [account(0), changed, account(2)]);
            Ok(())
        })
        .unwrap();
    });
}

macro_rules! declared_by_a_macro {
    ($name:ident { $($field:ident: $ty:ty),* }) => {
        #[derive(Clone, Copy, PartialEq, Debug, Persist)]
        #[repr(C)]
        pub(crate) struct $name {
            $(pub(crate) $field: $ty,)*
            bytes: [u8; 8],
        }
    };
}

declared_by_a_macro!(Odd { r#type: u64, tx: u64, at: u64, schema: u64 });

/// Names of fields collide with no name of the derived code.
#[test]
fn names_of_fields_are_nobody_elses() {
    let odd = Odd { r#type: 1, tx: 2, at: 3, schema: 4, bytes: [5; 8] };
    let mut bytes = [0; 40];
    odd.encode(&mut bytes);
    assert_eq!(Odd::decode(&bytes), odd);
    assert_eq!(Odd::FIELDS.r#type.offset(), 0);
    assert!(Schema::of::<Odd>().to_string().contains("0 type: u64, 8 tx: u64"));
}

/// What takes and gives keys by their bytes gets the ends of a type's range right.
#[test]
fn a_red_black_map_knows_the_least_and_the_greatest_keys() {
    let pool = small_pool(Scheme::Swift);
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        lane.run(|tx| {
            let wide = PRbMap::<u64, u8>::new(tx)?;
            wide.extend(tx, [0, 1, u64::MAX - 1, u64::MAX].iter().map(|key| (key, 1)))?;
            let keys = |range: Vec<Result<(u64, u8), Abort>>| -> Result<Vec<u64>, Abort> {
                range.into_iter().map(|pair| pair.map(|(key, _)| key)).collect()
            };
            assert_eq!(keys(wide.range(tx, 1..u64::MAX).collect())?, [1, u64::MAX - 1]);
            let end = (Bound::Excluded(u64::MAX - 1), Bound::Included(u64::MAX));
            assert_eq!(keys(wide.range(tx, end).collect())?, [u64::MAX]);
            let none = (Bound::Excluded(u64::MAX), Bound::Unbounded);
            assert!(keys(wide.range(tx, none).collect())?.is_empty());
            assert!(keys(wide.range(tx, none).rev().collect())?.is_empty());
            assert_eq!(keys(wide.range(tx, ..=u64::MAX).rev().collect())?.len(), 4);

            let narrow = PRbMap::<i8, u64>::new(tx)?;
            for key in i8::MIN..=i8::MAX {
                narrow.insert(tx, &key, key as u64)?;
            }
            let found: Vec<_> = narrow.range(tx, -2..=1).collect::<Result<_, _>>()?;
            assert_eq!(found.iter().map(|pair| pair.0).collect::<Vec<_>>(), [-2, -1, 0, 1]);
            assert_eq!(narrow.first(tx)?, Some((i8::MIN, i8::MIN as u64)));
            assert_eq!(narrow.last(tx)?, Some((i8::MAX, i8::MAX as u64)));

            wide.free(tx)?;
            assert!(matches!(wide.get(tx, &1), Err(Abort::Damaged(_))));
            Ok(())
        })
        .unwrap();
    });
}

/// The places of the first separators of inner nodes: counts and ascending heads.
fn separators(image: &[u8]) -> Vec<usize> {
    let word = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
    let is_inner = |at: &usize| {
        let count = word(*at) as usize;
        let heads: Vec<u64> = (1..=count.min(31)).map(|head| word(at + 8 * head)).collect();
        (4..32).contains(&count) && heads[0] > 0 && heads.windows(2).all(|two| two[0] < two[1])
    };
    (4096..image.len() - 1024).step_by(64).filter(is_inner).map(|at| at + 16).collect()
}

/// A separator above those behind it: two searches for one key part there. `check` follows the trees of a typed
/// root and names the node; insertions and removals fail with an error, and none panics.
#[test]
fn separators_out_of_order_are_an_error_and_a_finding() {
    let scheme = Scheme::Swift;
    let pool = small_pool(scheme);
    let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        let root = lane.run(|tx| tx.root_or_insert_with(PBTreeMap::<u64, u64>::new)).unwrap();
        for number in 0..600 {
            lane.run(|tx| root.get(tx)?.insert(tx, &key(number), number)).unwrap();
        }
    });
    let image = pool.close().to_bytes();
    let mut errors = 0;
    let places = separators(&image);
    assert!(!places.is_empty());
    for at in places {
        let mut damaged = image.clone();
        damaged[at..at + 8].fill(0xff);
        let open = || UnrecoveredPool::open(Heap::from_bytes(&damaged)).unwrap().recover().unwrap();
        let findings = open().check().findings;
        let is_named =
            |finding: &outlast::inspect::Finding| finding.to_string().contains("out of order");
        assert!(findings.iter().any(is_named), "{findings:?}");
        let pool = open().start(&open_options(scheme)).unwrap();
        pool.typed(|pool| {
            let mut lane = pool.lane().unwrap();
            for number in 0..1200 {
                let done = lane.run(|tx| {
                    let Some(root) = tx.root::<PBTreeMap<'_, u64, u64>>()? else { return Ok(()) };
                    let tree = root.get(tx)?;
                    tree.insert(tx, &key(number), number)?;
                    if number % 3 == 0 {
                        tree.remove(tx, &key(number / 2)).map(drop)
                    } else {
                        Ok(())
                    }
                });
                if let Err(abort) = done {
                    assert!(matches!(abort, Abort::Damaged(_)), "{abort}");
                    errors += 1;
                }
            }
        });
    }
    assert!(errors > 0, "no operation met the damage");
}
