//! The initial population (clause 4.3.3).

use outlast::collections::Dictionary;
use outlast::{Abort, Runner};

use super::columns::{Customer, District, Item, Stock, Warehouse};
use super::grown::{History, NewOrder, Order, OrderLine};
use super::index;
use super::schema::{Row, Table, Tables};
use super::session::head;
use super::shape::{LINES_MAX, Shape, key};
use super::text::{PERSON_BYTES, first_name, last_name};
use crate::rows::{STAMP_BYTES, digest};
use crate::{Random, Version};

/// Value bytes that one transaction stores.
const BATCH_BYTES: usize = 16 << 10;
/// Rows that one transaction inserts, at most.
const BATCH_ROWS: usize = 64;
/// The first payment of every customer, in cents.
const FIRST_PAYMENT: i64 = 1_000;

/// Collects rows and inserts some in each transaction.
struct Loader<'l, R> {
    runner: &'l mut R,
    tables: Tables,
    shape: Shape,
    rows: Vec<(Table, Vec<u8>, Vec<u8>)>,
    bytes: usize,
    done: u64,
    total: u64,
    progress: &'l mut dyn FnMut(u64, u64),
}

/// Fills the tables.
///
/// # Errors
/// Whatever a transaction fails with.
pub(crate) fn load<R: Runner>(
    runner: &mut R,
    tables: Tables,
    shape: Shape,
    seed: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Abort> {
    // Not counted are the lines of orders, which the seed draws.
    let districts = shape.all_districts();
    let total = shape.items
        + shape.warehouses * (1 + shape.items)
        + districts * (1 + 5 * shape.customers + shape.first_new_orders());
    let (rows, bytes, done) = (Vec::new(), 0, 0);
    let mut loader = Loader { runner, tables, shape, rows, bytes, done, total, progress };
    for n in 1..=shape.items {
        loader.item(key::stock(0, n))?;
    }
    for w in 1..=shape.warehouses {
        loader.warehouse(w)?;
        for d in 1..=shape.districts {
            let nth = (w - 1) * shape.districts + d;
            loader.district((w, d), &mut Random::stream(seed, u64::MAX - nth))?;
        }
    }
    loader.flush()
}

impl<R: Runner> Loader<'_, R> {
    fn put(&mut self, table: Table, key: &[u8], value: Vec<u8>) -> Result<(), Abort> {
        self.bytes += value.len();
        self.done += u64::from(table != Table::OrderLine);
        self.rows.push((table, key.to_vec(), value));
        let is_full = self.bytes >= BATCH_BYTES || self.rows.len() >= BATCH_ROWS;
        if is_full { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Abort> {
        let (tables, rows) = (self.tables, &self.rows);
        self.runner.run(|tx| {
            let mut rows = rows.iter();
            rows.try_for_each(|(table, key, value)| {
                tables.of(*table).insert(tx, key, value).map(drop)
            })
        })?;
        self.rows.clear();
        self.bytes = 0;
        (self.progress)(self.done, self.total);
        Ok(())
    }

    fn row<Of: Row>(&mut self, key: u64, row: &Of) -> Result<(), Abort> {
        let mut value = vec![0; Of::VALUE];
        let (start, text) = value.split_at_mut(STAMP_BYTES + Of::NUMBERS);
        row.text(&self.shape, key, text);
        let head = head(row, Of::fact(&self.shape, key), Version::LOADED);
        start.copy_from_slice(&head[..start.len()]);
        self.put(Of::TABLE, &key.to_be_bytes(), value)
    }

    fn item(&mut self, key: u64) -> Result<(), Abort> {
        let mut random = Random::stream(0x4954_454D, key);
        let image = 1 + random.below(10_000) as u32;
        self.row(key, &Item { image, price: 100 + random.below(9_901) as u32 })
    }

    fn warehouse(&mut self, w: u64) -> Result<(), Abort> {
        let key = key::warehouse(w);
        let paid = (self.shape.districts * self.shape.customers) as i64 * FIRST_PAYMENT;
        self.row(key, &Warehouse { ytd: paid, tax: tax(key) })?;
        for n in 1..=self.shape.items {
            let key = key::stock(w, n);
            let quantity = Stock::first_quantity(key);
            self.row(key, &Stock { quantity, ytd: 0, orders: 0, remotes: 0 })?;
        }
        Ok(())
    }

    fn district(&mut self, (w, d): (u64, u64), random: &mut Random) -> Result<(), Abort> {
        let (key, count) = (key::district(w, d), self.shape.customers);
        let (ytd, next_order) = (count as i64 * FIRST_PAYMENT, count as u32 + 1);
        self.row(key, &District { ytd, next_order, tax: tax(key) })?;
        for n in 1..=count {
            self.customer(key::of_district(w, d, n))?;
        }
        for n in 1..=count {
            let (warehouse, district) = (w as u16, d as u8);
            let paid = History { amount: FIRST_PAYMENT, date: 0, warehouse, district };
            self.row(key::history(w, d, n, 1), &paid)?;
        }
        let mut customers: Vec<u64> = (1..=count).collect();
        for i in (1..customers.len()).rev() {
            customers.swap(i, random.below(i as u64 + 1) as usize);
        }
        let first_new = count - self.shape.first_new_orders() + 1;
        for (number, customer) in (1..).zip(customers) {
            self.order((w, d), number, customer, number >= first_new, random)?;
        }
        Ok(())
    }

    fn customer(&mut self, key: u64) -> Result<(), Abort> {
        let mut random = Random::stream(0x4449_5343, key);
        let mut row = Customer {
            balance: -FIRST_PAYMENT,
            ytd_payment: FIRST_PAYMENT,
            payments: 1,
            deliveries: 0,
            data: 0,
            since: Version::LOADED.0,
            discount: random.below(5_001) as u16,
            credit_limit: 5_000_000,
            has_bad_credit: u8::from(Customer::is_bad(key)),
        };
        let mut text = [0; Customer::TEXT + Customer::REST];
        row.text(&self.shape, key, &mut text);
        row.data = digest(&text[Customer::TEXT..]);
        self.row(key, &row)?;
        self.put(Table::CustomersByName, &name_key(&self.shape, key), Vec::new())
    }

    fn order(
        &mut self,
        (w, d): (u64, u64),
        number: u64,
        customer: u64,
        is_new: bool,
        random: &mut Random,
    ) -> Result<(), Abort> {
        let key = key::of_district(w, d, number);
        let lines = lines_of(key);
        let order = Order {
            carrier: if is_new { 0 } else { 1 + random.below(10) as u8 },
            customer: customer as u32,
            entered: 0,
            lines: lines as u8,
            all_local: 1,
        };
        self.row(key, &order)?;
        self.put(Table::OrdersByCustomer, &index::order(w, d, customer, number), Vec::new())?;
        if is_new {
            self.row(key, &NewOrder)?;
        }
        for nth in 1..=lines {
            let item = 1 + random.below(self.shape.items) as u32;
            let (delivered, amount) = match is_new {
                true => (OrderLine::NOT_DELIVERED, 1 + random.below(999_999) as i64),
                false => (Version::LOADED.0, 0),
            };
            let line = OrderLine { delivered, item, supplier: w as u16, quantity: 5, amount };
            self.row(key::line(w, d, number, nth), &line)?;
        }
        Ok(())
    }
}

/// How many lines an order has that was loaded.
pub(crate) fn lines_of(order: u64) -> u64 {
    5 + Random::stream(0x4C49_4E45, order).below(LINES_MAX - 4)
}

/// The key of a customer in the index of names.
pub(crate) fn name_key(shape: &Shape, key: u64) -> [u8; index::NAME_KEY_BYTES] {
    let last: [u8; PERSON_BYTES] = last_name(Customer::name(shape, key));
    index::name(key, &last, &first_name(key))
}

/// W_TAX and D_TAX: up to 20 %.
fn tax(key: u64) -> u16 {
    Random::stream(0x5441_5800, key).below(2_001) as u16
}
