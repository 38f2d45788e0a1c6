//! `tpcc`: TPC-C (revision 5.11), the transactions of a wholesale supplier, over B+trees.
//!
//! Nine tables and two indices, each a tree of its own; the five transactions in the shares
//! 45, 43, 4, 4 and 4 %. Read differently than written there:
//!
//! - A worker stands for terminals of all warehouses and does not think or key in.
//! - A moment is the version of a transaction.
//! - A payment's key is its customer and its number among that customer's payments.
//! - A delivery is one transaction for all districts of a warehouse and is not queued.
//! - Sums that only a terminal would show are not formed.
//!
//! One order in a hundred names an item that does not exist. It is cancelled when all its other
//! work is done, with [`Abort::Cancelled`], and leaves nothing.
//!
//! The paper on Archapt (Table III) gives TPC-C's shares of reads, updates and insertions as 8,
//! 47 and 45 %, for Redis and for SQLite. These are the transactions, not the statements: of a
//! hundred, 4 + 4 only read (OrderStatus, StockLevel), 43 + 4 update (Payment, Delivery) and 45
//! insert (NewOrder). The statements are quite different; [`Statements`] counts them.

mod books;
mod columns;
mod delivery;
mod draw;
mod family;
mod grown;
mod index;
mod load;
mod new_order;
mod order_status;
mod payment;
mod schema;
mod session;
mod shape;
mod stock_level;
mod text;

pub use session::Statements;

/// Requests of TPC-C's terminals, for programs that keep its tables elsewhere: in SQL, in a Redis.
pub mod terminals {
    pub use super::draw::{Basket, Paying, Request, Wanted, Who, name_at_load, request};
    pub use super::shape::Shape;
    pub use super::text::{PERSON_BYTES, last_name, letters};
}

pub(crate) use family::Tpcc;
pub(crate) use text::letters;

use outlast::collections::{Damage, Dictionary, ReadRaw, Trees, load_value};
use outlast::{Abort, ByteRange, PoolOffset, Runner, Transact};

use self::books::Books;
use self::draw::Request;
use self::schema::{Row, Table, Tables};
use self::session::Session;
use self::shape::{Shape, key};
use crate::facts::Versions;
use crate::family::Thread;
use crate::{OpKind, Random, Version, Witness};

/// Longest value of a row: a customer's.
const VALUE_BYTES_MAX: u64 = 1_024;

/// One thread of TPC-C.
pub(crate) struct TpccWorker {
    tables: Tables,
    shape: Shape,
    random: Random,
    versions: Versions,
    request: Request,
    version: Version,
    statements: Statements,
}

impl TpccWorker {
    pub(crate) fn new(tables: Tables, shape: Shape, random: Random, versions: Versions) -> Self {
        let request = Request::Delivery { w: 1, carrier: 1 };
        let (version, statements) = (Version::LOADED, Statements::default());
        let mut worker = Self { tables, shape, random, versions, request, version, statements };
        worker.draw();
        worker
    }
}

impl Thread for TpccWorker {
    fn draw(&mut self) {
        self.request = draw::request(&mut self.random, &self.shape);
        self.version = self.versions.next();
    }

    fn step<R: Runner, W: Witness>(
        &mut self,
        runner: &mut R,
        witness: &mut W,
    ) -> Result<OpKind, Abort> {
        let Self { tables, shape, request, version, .. } = self;
        let done = runner.run(|tx| {
            let mut session = Session::new(tx, witness, tables, shape, *version);
            perform(&mut session, request)?;
            Ok(session.finish())
        });
        match (done, self.request.kind()) {
            (Err(Abort::Cancelled(_)), OpKind::NewOrder) => {
                // It did nothing, so there is nothing to judge it by.
                witness.restart();
                Ok(OpKind::NewOrderCancelled)
            }
            (done, kind) => {
                self.statements += done?;
                Ok(kind)
            }
        }
    }

    fn versions(&self) -> Option<&Versions> {
        Some(&self.versions)
    }

    fn statements(&self) -> Option<Statements> {
        Some(self.statements)
    }
}

fn perform<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    request: &Request,
) -> Result<(), Abort> {
    match request {
        Request::NewOrder(basket) => new_order::run(session, basket),
        Request::Payment(paying) => payment::run(session, paying),
        Request::OrderStatus { w, d, who } => order_status::run(session, (*w, *d), *who),
        Request::Delivery { w, carrier } => delivery::run(session, *w, *carrier),
        Request::StockLevel { w, d, threshold } => {
            stock_level::run(session, (*w, *d), *threshold).map(drop)
        }
    }
}

impl Request {
    fn kind(&self) -> OpKind {
        match self {
            Self::NewOrder(_) => OpKind::NewOrder,
            Self::Payment(_) => OpKind::Payment,
            Self::OrderStatus { .. } => OpKind::OrderStatus,
            Self::Delivery { .. } => OpKind::Delivery,
            Self::StockLevel { .. } => OpKind::StockLevel,
        }
    }
}

/// Checks every row and the consistency conditions, and calls `visit` with each row's number
/// among the facts and its version.
///
/// # Errors
/// The first thing that is wrong.
fn audit<R: ReadRaw>(
    shape: Shape,
    root: PoolOffset,
    read: &mut R,
    visit: &mut dyn FnMut(u64, Version),
) -> Result<(), Damage> {
    let mut books = Books::open(shape);
    let mut value = Vec::new();
    Trees::walk(
        root,
        read,
        |_, _| {},
        |read, tree, key, place: ByteRange| {
            let damage = |what| Damage { at: place.at, what };
            let table = Table::ALL.get(tree).ok_or_else(|| damage("a table too many"))?;
            crate::audit::load_up_to(read, place, VALUE_BYTES_MAX, &mut value)?;
            let row = books.enter(*table, key, &value).map_err(damage)?;
            if let Some((fact, version)) = row {
                visit(fact, version);
            }
            Ok(())
        },
    )?;
    books.close().map_err(|what| Damage { at: root, what })
}

/// Checks the same from inside a transaction.
///
/// # Errors
/// [`Abort::Damaged`] with the first thing that is wrong.
fn check<T: Transact>(shape: Shape, tables: &Tables, tx: &mut T) -> Result<(), Abort> {
    let mut books = Books::open(shape);
    let wrong = |what: &str| Abort::damaged(what.to_owned());
    let mut value = Vec::new();
    for table in Table::ALL {
        tables.of(table).for_each(tx, |tx, key, place| {
            value.clear();
            load_value(tx, place, &mut value)?;
            books.enter(table, key, &value).map(drop).map_err(wrong)
        })?;
    }
    books.close().map_err(wrong)
}

/// Calls `visit` with the number among the facts of each row that the load phase inserts.
fn initial(shape: Shape, mut visit: impl FnMut(u64)) {
    use columns::{Customer, District, Item, Stock, Warehouse};
    use grown::{History, NewOrder, Order, OrderLine};
    let first_new = shape.customers - shape.first_new_orders() + 1;
    (1..=shape.items).for_each(|n| visit(Item::fact(&shape, key::stock(0, n))));
    for w in 1..=shape.warehouses {
        visit(Warehouse::fact(&shape, key::warehouse(w)));
        (1..=shape.items).for_each(|n| visit(Stock::fact(&shape, key::stock(w, n))));
        for d in 1..=shape.districts {
            visit(District::fact(&shape, key::district(w, d)));
            for n in 1..=shape.customers {
                let key = key::of_district(w, d, n);
                visit(Customer::fact(&shape, key));
                visit(History::fact(&shape, key::history(w, d, n, 1)));
                visit(Order::fact(&shape, key));
                if n >= first_new {
                    visit(NewOrder::fact(&shape, key));
                }
                let lines = 1..=load::lines_of(key);
                lines.for_each(|m| visit(OrderLine::fact(&shape, key::line(w, d, n, m))));
            }
        }
    }
}

/// Bytes that the blocks of a row need at most, its share of the tree's nodes included.
const fn row_bytes(value: usize) -> u64 {
    (value as u64 + 16 + 64) * 5 / 4 + 48
}

/// Bytes that all blocks need at most after `transactions` transactions.
fn heap_bytes(shape: Shape, transactions: u64) -> u64 {
    use columns::{Customer, Item, Stock};
    use grown::{History, NewOrder, Order, OrderLine};
    const FIXED: u64 = 1 << 20;
    let index = row_bytes(index::NAME_KEY_BYTES - 8);
    let payment = row_bytes(History::VALUE);
    // Ten lines on average; a few orders may be longer throughout.
    let lines = row_bytes(OrderLine::VALUE) * 11;
    let order = row_bytes(Order::VALUE) + row_bytes(NewOrder::VALUE) + row_bytes(0) + lines;
    let customer = row_bytes(Customer::VALUE) + index + payment + order;
    let stock = row_bytes(Stock::VALUE);
    FIXED
        + shape.items * row_bytes(Item::VALUE)
        + shape.warehouses * (shape.items * stock + 4_096)
        + shape.all_districts() * 1_024
        + shape.all_customers() * customer
        + transactions * (order + payment) / 2
}

#[cfg(test)]
mod tests;
