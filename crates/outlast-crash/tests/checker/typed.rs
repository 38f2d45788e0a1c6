//! Typed collections, crashed: transactions over all of them at once, on a recorder; images drawn
//! from all that a crash may leave, crashes of the recovery included; recovered by production code
//! and compared with what standard collections hold after the same transactions.
#![cfg(not(miri))]

use std::collections::{BTreeMap, HashMap, VecDeque};

use outlast::lab::Plant;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::{RecoveredPool, UnrecoveredPool};
use outlast::typed::{
    PBTreeMap, PBox, PHashMap, PPtr, PQueue, PRbMap, PString, PVec, Persist, TypedTx,
};
use outlast::{Abort, Pool, Scheme, Transact};
use outlast_crash::{Broken, Crash, Exhaustive, ImageMedium, Judge, Model, Violation};
use outlast_pmem::{Mark, Medium, Recorder};
use outlast_trace::{OpLog, Random, TxId};

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Shop<'id> {
    name: PString<'id>,
    sold: PVec<'id, Sale>,
    stock: PHashMap<'id, str, u64>,
    by_price: PBTreeMap<'id, i64, PString<'id>>,
    by_number: PRbMap<'id, u16, Sale>,
    orders: PQueue<'id, PBox<'id, Sale>>,
    transactions: u64,
}

#[derive(Clone, Copy, PartialEq, Debug, Default, Persist)]
#[repr(C)]
struct Sale {
    number: u64,
    price: i64,
    buyer: [u8; 16],
}

/// What a shop is on the other side of the mirror.
#[derive(Clone, PartialEq, Debug, Default)]
struct Mirror {
    name: String,
    sold: Vec<Sale>,
    stock: HashMap<String, u64>,
    by_price: BTreeMap<i64, String>,
    by_number: BTreeMap<u16, Sale>,
    orders: VecDeque<Sale>,
    transactions: u64,
}

fn empty_shop<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Shop<'id>, Abort> {
    Ok(Shop {
        name: PString::new(tx, "")?,
        sold: PVec::new(tx)?,
        stock: PHashMap::new(tx)?,
        by_price: PBTreeMap::new(tx)?,
        by_number: PRbMap::new(tx)?,
        orders: PQueue::new(tx)?,
        transactions: 0,
    })
}

fn load<'id>(
    tx: &mut TypedTx<'id, '_, impl Transact>,
    root: PPtr<'id, Shop<'id>>,
) -> Result<Mirror, Abort> {
    let shop = root.get(tx)?;
    let orders: Vec<_> = shop.orders.iter(tx).collect::<Result<_, _>>()?;
    let by_price: Vec<_> = shop.by_price.iter(tx).collect::<Result<_, _>>()?;
    Ok(Mirror {
        name: shop.name.to_string(tx)?,
        sold: shop.sold.to_vec(tx)?,
        stock: shop.stock.iter(tx).collect::<Result<_, _>>()?,
        by_price: by_price
            .into_iter()
            .map(|(price, text)| Ok((price, text.to_string(tx)?)))
            .collect::<Result<_, Abort>>()?,
        by_number: shop.by_number.iter(tx).collect::<Result<_, _>>()?,
        orders: orders.into_iter().map(|order| order.get(tx)).collect::<Result<_, _>>()?,
        transactions: shop.transactions,
    })
}

/// One transaction: a few operations, on both sides. The same draws give the same operations.
fn work<'id>(
    tx: &mut TypedTx<'id, '_, impl Transact>,
    root: PPtr<'id, Shop<'id>>,
    mirror: &mut Mirror,
    mut draw: Random,
) -> Result<(), Abort> {
    let shop = root.get(tx)?;
    for _ in 0..=draw.below(4) {
        let number = draw.below(1000);
        let sale = Sale { number, price: -(number as i64), buyer: [number as u8; 16] };
        match draw.below(13) {
            0 => {
                let name = "n".repeat(number as usize % 70);
                shop.name.set(tx, &name)?;
                mirror.name = name;
            }
            1 | 2 => {
                shop.sold.push(tx, sale)?;
                mirror.sold.push(sale);
            }
            3 => {
                let index = number % (mirror.sold.len() as u64 + 1);
                shop.sold.insert(tx, index, sale)?;
                mirror.sold.insert(index as usize, sale);
            }
            4 if number.is_multiple_of(5) => {
                shop.sold.truncate(tx, 2)?;
                mirror.sold.truncate(2);
            }
            4 => assert_eq!(shop.sold.pop(tx)?, mirror.sold.pop()),
            5 => {
                let key = format!("thing {}", number % 12);
                let new = shop.stock.entry(tx, &key)?.and_modify(|n| n + 1)?.or_insert(1)?;
                assert_eq!(new, *mirror.stock.entry(key).and_modify(|n| *n += 1).or_insert(1));
            }
            6 => {
                let key = format!("thing {}", number % 12);
                assert_eq!(shop.stock.remove(tx, &key)?, mirror.stock.remove(&key));
            }
            7 => {
                let (key, text) = (number as i64 % 20 - 10, format!("text {number}"));
                let value = PString::new(tx, &text)?;
                if let Some(old) = shop.by_price.insert(tx, &key, value)? {
                    old.free(tx)?;
                }
                mirror.by_price.insert(key, text);
            }
            8 => {
                if let Some((key, old)) = shop.by_price.pop_first(tx)? {
                    old.free(tx)?;
                    assert_eq!(mirror.by_price.pop_first().map(|pair| pair.0), Some(key));
                }
            }
            9 | 10 => {
                let (key, old) = (number as u16 % 20, mirror.by_number.get(&(number as u16 % 20)));
                assert_eq!(shop.by_number.insert(tx, &key, sale)?, old.copied());
                mirror.by_number.insert(key, sale);
            }
            11 => {
                let key = number as u16 % 20;
                assert_eq!(shop.by_number.remove(tx, &key)?, mirror.by_number.remove(&key));
            }
            _ => {
                for _ in 0..number % 40 {
                    let order = PBox::new(tx, sale)?;
                    shop.orders.push_back(tx, order)?;
                    mirror.orders.push_back(sale);
                }
                for _ in 0..number % 37 {
                    let order = shop.orders.pop_front(tx)?;
                    let order = order.map(|order| order.into_inner(tx)).transpose()?;
                    assert_eq!(order, mirror.orders.pop_front());
                }
            }
        }
    }
    root.at(Shop::FIELDS.transactions).update(tx, |n| n + 1)?;
    mirror.transactions += 1;
    Ok(())
}

/// A run, and what must be there after each of its transactions: the content, and how many blocks
/// of the allocator it takes.
struct Run {
    base: Vec<u8>,
    log: OpLog,
    states: Vec<(Mirror, usize)>,
    scheme: Scheme,
}

fn options(scheme: Scheme) -> OpenOptions {
    OpenOptions {
        lock_stripes: 64,
        cache_bytes: Some(64 * 64),
        sample_bits: 0,
        step_every: 4,
        ..OpenOptions::with_scheme(scheme)
    }
}

impl Run {
    fn new(scheme: Scheme, transactions: u64, seed: u64, plant: Option<Plant>) -> Self {
        let base = Self::base(scheme);
        let medium = Recorder::from_image(base.clone()).planting(Plant::code_of(plant));
        let unrecovered = UnrecoveredPool::open(&medium).unwrap();
        let recovered = unrecovered.recover().unwrap();
        let pool = recovered.start(&options(scheme)).unwrap();
        let mut states = Vec::new();
        pool.typed(|pool| {
            let mut lane = pool.lane().unwrap();
            let root = lane.run(|tx| Ok(tx.root()?.unwrap())).unwrap();
            let mut mirror = lane.run(|tx| load(tx, root)).unwrap();
            states.push((mirror.clone(), blocks_in(&medium.to_bytes())));
            for number in 1..=transactions {
                let gives_up = number % 6 == 0;
                let result = lane.run(|tx| {
                    let mut changed = mirror.clone();
                    work(tx, root, &mut changed, Random::new(seed ^ number << 20))?;
                    if gives_up { Err(Abort::cancelled("given up")) } else { Ok(changed) }
                });
                match result {
                    Ok(changed) => mirror = changed,
                    Err(Abort::Cancelled(_)) => {}
                    Err(other) => panic!("{other}"),
                }
                medium.mark(Mark::Ack(TxId(number)));
                states.push((mirror.clone(), blocks_in(&medium.to_bytes())));
            }
        });
        drop(pool);
        Self { base, log: medium.take_log(), states, scheme }
    }

    /// An empty shop in a pool, everything durable.
    fn base(scheme: Scheme) -> Vec<u8> {
        let medium = Recorder::new(192 << 10);
        let create = CreateOptions {
            lanes: 1,
            lane_bytes: 2048,
            chunk_bytes: Some(4096),
            uuid: Some(Default::default()),
            ..CreateOptions::default()
        };
        let pool = Pool::create_on(&medium, &create, &options(scheme)).unwrap();
        pool.typed(|pool| {
            let mut lane = pool.lane().unwrap();
            lane.run(|tx| tx.root_or_insert_with(empty_shop).map(|_| ())).unwrap();
        });
        pool.close();
        medium.to_bytes()
    }
}

impl Judge for &Run {
    /// Whether an image is what some of the transactions left: all that were acknowledged, and at
    /// most the one under way.
    fn verify(&mut self, image: &ImageMedium, crash: &Crash<'_>) -> Result<(), Violation> {
        let refused =
            |error: outlast::PoolError| Violation::new(Broken::Refused, error.to_string());
        let recovered = UnrecoveredPool::open(image).and_then(|pool| pool.recover());
        let recovered = recovered.map_err(refused)?;
        let blocks = blocks_of(&recovered)?;
        let pool = recovered.start(&options(self.scheme)).map_err(refused)?;
        let found = pool.typed(|pool| {
            let mut lane = pool.lane().map_err(|error| error.to_string())?;
            lane.run(|tx| {
                let root = tx.root()?.ok_or_else(|| Abort::cancelled("no root"))?;
                load(tx, root)
            })
            .map_err(|abort| abort.to_string())
        })?;
        let acked = crash.acked.len();
        let under_way = self.states.len().min(acked + 2);
        match self.states[acked..under_way].iter().find(|state| state.0 == found) {
            Some((_, expected)) if *expected == blocks => Ok(()),
            Some((_, expected)) => Err(Violation::new(
                Broken::Other,
                format!("{blocks} blocks are taken and {expected} used: a leak or a loss"),
            )),
            None if self.states.iter().any(|state| state.0 == found) => {
                let detail = format!("after {acked} transactions: {found:?}");
                Err(Violation::new(Broken::Lost, detail))
            }
            None => Err(Violation::new(Broken::Torn, format!("after {acked}: {found:?}"))),
        }
    }
}

/// How many blocks are taken; every finding of the allocator is a violation.
fn blocks_of<M: Medium>(pool: &RecoveredPool<M>) -> Result<usize, Violation> {
    let (report, blocks) = pool.check_metadata();
    match report.findings.first() {
        Some(finding) => Err(Violation::new(Broken::Garbage, format!("{finding:?}"))),
        None => Ok(blocks.len()),
    }
}

fn blocks_in(image: &[u8]) -> usize {
    let recovered = UnrecoveredPool::open(ImageMedium::new(image)).unwrap().recover().unwrap();
    blocks_of(&recovered).unwrap()
}

const SCHEMES: [Scheme; 5] =
    [Scheme::Undo, Scheme::Redo, Scheme::Swift, Scheme::UndoArchapt, Scheme::RedoArchapt];

#[test]
fn every_image_drawn_is_what_whole_transactions_left() {
    for scheme in SCHEMES {
        for seed in 0..6 {
            let run = Run::new(scheme, 60, seed, None);
            let settings = Exhaustive::new(Model::default()).crashes(2);
            let sampled = settings.sample(&run.base, &run.log, seed, 80, 8, &run).unwrap();
            if let Some(failure) = sampled.failures.first() {
                panic!("{scheme}, seed {seed}: {failure:?}");
            }
            assert!(sampled.verified >= 300, "{scheme}: {}", sampled.verified);
        }
    }
}

/// The first transactions, with every image and no luck, as far as a bound.
#[test]
fn every_image_of_the_first_transactions_is_what_whole_ones_left() {
    for scheme in [Scheme::Undo, Scheme::Redo, Scheme::Swift] {
        for seed in 3..6 {
            let run = Run::new(scheme, 2, seed, None);
            let settings = Exhaustive::new(Model::default()).crashes(2).images_max(4_000);
            let outcome = settings.run(&run.base, &run.log, &run).unwrap();
            if let Some(failure) = outcome.failures.first() {
                panic!("{scheme}, seed {seed}: {failure:?}");
            }
            assert!(outcome.images_verified() > 100, "{scheme}, seed {seed}");
        }
    }
}

/// The same check sees what the runtime must not do: otherwise its silence says nothing.
#[test]
fn a_runtime_that_forgets_is_found_out() {
    for (scheme, plant) in [
        (Scheme::Undo, Plant::FreshUnflushed),
        (Scheme::Undo, Plant::StoreBeforeLog),
        (Scheme::Redo, Plant::FreshUnflushed),
        (Scheme::Redo, Plant::InstallBeforeFence),
        (Scheme::Swift, Plant::FreshUnflushed),
        (Scheme::Swift, Plant::InstallBeforeFence),
    ] {
        let is_found = (0..3).any(|seed| {
            let run = Run::new(scheme, 40, seed, Some(plant));
            let settings = Exhaustive::new(Model::default()).crashes(1);
            let sampled = settings.sample(&run.base, &run.log, seed, 200, 8, &run);
            !sampled.unwrap().failures.is_empty()
        });
        assert!(is_found, "{scheme} with {plant} looks sound");
    }
}
