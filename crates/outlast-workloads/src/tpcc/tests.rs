//! The books notice whatever does not add up: each condition, contradicted by rows that are
//! sound by themselves.

use super::columns::{Customer, District, Item, Stock, Warehouse};
use super::grown::{History, NewOrder, Order, OrderLine};
use super::session::head;
use super::*;
use crate::rows::{STAMP_BYTES, Take};
use crate::{Scale, Volatile, VolatileTx, Workload};

/// A pool that has been at work, with its tables.
fn at_work() -> (Volatile, Tables, Shape) {
    let workload = Workload::named("tpcc").unwrap();
    let scale = Scale { operations: 500, ..workload.scale_of(1_000) };
    let shape = Shape::of(&scale);
    assert_eq!(shape.districts, 2);
    let mut pool = Volatile::new();
    let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).unwrap();
    let mut worker = workload.worker(&scale, &loaded, 1, 1, 0);
    for _ in 0..200 {
        worker.step(&mut pool).unwrap();
        worker.draw();
    }
    let (root, _) = pool.root().unwrap();
    let tables = pool.run(|tx| Tables::open(tx, root)).unwrap().unwrap();
    (pool, tables, shape)
}

/// Changes by hand.
struct Hand<'t> {
    tx: &'t mut VolatileTx,
    tables: &'t Tables,
    shape: &'t Shape,
}

impl Hand<'_> {
    /// Changes a row and stamps it anew.
    fn change<R: Row>(&mut self, key: u64, change: impl FnOnce(&mut R)) {
        let place = self.tables.of(R::TABLE).find(self.tx, &key.to_be_bytes()).unwrap();
        let place = place.expect("the row is there");
        let mut bytes = vec![0; STAMP_BYTES + R::NUMBERS];
        self.tx.load(place.at, &mut bytes).unwrap();
        let mut row = R::take(&mut Take(&bytes[STAMP_BYTES..]));
        change(&mut row);
        let head = head(&row, R::fact(self.shape, key), Version(77));
        self.tx.store(place.at, &head[..bytes.len()]).unwrap();
    }

    fn remove(&mut self, table: Table, key: &[u8]) {
        assert!(self.tables.of(table).remove(self.tx, key).unwrap());
    }

    /// Inverts a byte of a row.
    fn flip<R: Row>(&mut self, key: u64, at: usize) {
        let place = self.tables.of(R::TABLE).find(self.tx, &key.to_be_bytes()).unwrap();
        let at = place.expect("the row is there").at.plus(at as u64);
        let mut byte = [0];
        self.tx.load(at, &mut byte).unwrap();
        self.tx.store(at, &[!byte[0]]).unwrap();
    }

    fn first_new_order(&mut self) -> u64 {
        let mut first = 0;
        let mut visit = |_: &mut VolatileTx, key: &[u8], _| {
            first = u64::from_be_bytes(key.try_into().unwrap());
            Ok(())
        };
        self.tables.of(Table::NewOrder).scan(self.tx, &[], 1, &mut visit).unwrap();
        first
    }
}

type Change = fn(&mut Hand<'_>);

const WAREHOUSE: u64 = key::warehouse(1);
const DISTRICT: u64 = key::district(1, 1);
const ORDER: u64 = key::of_district(1, 1, 1);
const LINE: u64 = key::line(1, 1, 1, 1);
const STOCK: u64 = key::stock(1, 1);

const CHANGES: [(&str, Change); 25] = [
    ("condition 1", |hand| hand.change::<Warehouse>(WAREHOUSE, |row| row.ytd += 1)),
    ("condition 2", |hand| hand.change::<District>(DISTRICT, |row| row.next_order += 1)),
    ("conditions 2 and 3", |hand| {
        let next = hand.first_new_order() + (1 << 8);
        hand.remove(Table::NewOrder, &next.to_be_bytes());
    }),
    ("conditions 4 and 6", |hand| hand.change::<Order>(ORDER, |row| row.lines += 1)),
    ("condition 5", |hand| {
        let first = hand.first_new_order();
        hand.change::<Order>(first, |row| row.carrier = 1);
    }),
    ("condition 5", |hand| {
        let first = hand.first_new_order();
        hand.remove(Table::NewOrder, &first.to_be_bytes());
    }),
    ("condition 6", |hand| hand.remove(Table::OrderLine, &LINE.to_be_bytes())),
    ("condition 7", |hand| {
        hand.change::<OrderLine>(LINE, |row| row.delivered = OrderLine::NOT_DELIVERED);
    }),
    ("condition 8", |hand| {
        hand.change::<Warehouse>(WAREHOUSE, |row| row.ytd += 1);
        hand.change::<District>(DISTRICT, |row| row.ytd += 1);
    }),
    ("condition 9", |hand| {
        hand.change::<District>(DISTRICT, |row| row.ytd += 1);
        hand.change::<District>(key::district(1, 2), |row| row.ytd -= 1);
    }),
    ("condition 10", |hand| {
        hand.change::<Customer>(ORDER, |row| {
            row.balance += 1;
            row.ytd_payment -= 1;
        });
    }),
    ("condition 11", |hand| hand.change::<Customer>(ORDER, |row| row.deliveries += 1)),
    ("condition 12", |hand| hand.change::<Customer>(ORDER, |row| row.ytd_payment += 1)),
    ("C_PAYMENT_CNT", |hand| hand.change::<Customer>(ORDER, |row| row.payments += 1)),
    ("C_DATA", |hand| hand.flip::<Customer>(ORDER, Customer::DATA_AT + 400)),
    ("another's text", |hand| {
        hand.change::<History>(key::history(1, 1, 1, 1), |row| row.district = 2);
    }),
    ("condition 8", |hand| {
        hand.change::<History>(key::history(1, 1, 1, 1), |row| row.amount += 1);
    }),
    ("payments are not numbered", |hand| {
        hand.remove(Table::History, &key::history(1, 1, 1, 1).to_be_bytes());
    }),
    ("what orders took", |hand| hand.change::<Stock>(STOCK, |row| row.orders += 1)),
    ("S_QUANTITY", |hand| hand.change::<Stock>(STOCK, |row| row.quantity += 1)),
    ("items or stocks are missing", |hand| {
        hand.remove(Table::Item, &key::stock(0, 1).to_be_bytes());
    }),
    ("another's text", |hand| {
        hand.flip::<Item>(key::stock(0, 2), STAMP_BYTES + Item::NUMBERS + 3);
    }),
    ("no version of it", |hand| hand.flip::<District>(DISTRICT, STAMP_BYTES + 2)),
    ("the index of names lacks", |hand| {
        let name = load::name_key(hand.shape, ORDER);
        hand.remove(Table::CustomersByName, &name);
    }),
    ("the index of orders", |hand| {
        let mut customer = 0;
        hand.change::<Order>(ORDER, |row| customer = u64::from(row.customer));
        hand.remove(Table::OrdersByCustomer, &index::order(1, 1, customer, 1));
    }),
];

#[test]
fn every_condition_is_noticed_when_it_does_not_hold() {
    for (what, change) in CHANGES {
        let (mut pool, tables, shape) = at_work();
        pool.run(|tx| check(shape, &tables, tx)).unwrap();
        pool.run(|tx| {
            change(&mut Hand { tx, tables: &tables, shape: &shape });
            Ok(())
        })
        .unwrap();
        let found = pool.run(|tx| check(shape, &tables, tx)).expect_err(what).to_string();
        assert!(found.contains(what), "{found} instead of {what}");
        let mut read = |at: PoolOffset, out: &mut [u8]| pool.read(at, out);
        let (root, _) = pool.root().unwrap();
        assert!(audit(shape, root, &mut read, &mut |_, _| ()).unwrap_err().what.contains(what));
    }
}

#[test]
fn a_new_order_that_is_none_and_a_district_without_any() {
    let (mut pool, tables, shape) = at_work();
    // Twenty deliveries leave no district with an order that waits; the next passes them over.
    for count in 1..=40u64 {
        pool.run(|tx| {
            let witness = &mut ();
            let mut session = Session::new(tx, witness, &tables, &shape, Version(1_000 + count));
            delivery::run(&mut session, 1, 3)?;
            session.finish();
            Ok(())
        })
        .unwrap();
    }
    let left = pool.run(|tx| tables.of(Table::NewOrder).len(tx)).unwrap();
    assert!(left < 200 && pool.run(|tx| check(shape, &tables, tx)).is_ok(), "{left}");
    let nobody = key::of_district(1, 1, 5_000);
    let fact = NewOrder::fact(&shape, nobody);
    pool.run(|tx| {
        let head = head(&NewOrder, fact, Version(5));
        tables.of(Table::NewOrder).add(tx, &nobody.to_be_bytes(), &head[..STAMP_BYTES])
    })
    .unwrap();
    let found = pool.run(|tx| check(shape, &tables, tx)).unwrap_err().to_string();
    assert!(found.contains("a new order that is no order"), "{found}");
}
