//! NewOrder (clause 2.4).

use outlast::{Abort, Transact};

use super::columns::{Customer, District, Item, Stock, Warehouse};
use super::draw::{Basket, Wanted};
use super::grown::{NewOrder, Order, OrderLine};
use super::index;
use super::schema::Table;
use super::session::{Held, Session};
use super::shape::{Shape, key};
use super::text::DIST_BYTES;
use crate::Witness;

/// A line before it is written.
struct Line<'b> {
    wanted: &'b Wanted,
    /// The price of a piece; `None` when there is no such item.
    price: Option<i64>,
    /// Which of the stocks.
    stock: usize,
}

/// A stock that lines take from.
struct Shelf {
    stock: Held<Stock>,
    dist: [u8; DIST_BYTES],
}

/// Enters an order. The rows that change are announced at once; so are the lines, as far as they
/// come to lie together.
///
/// # Errors
/// [`Abort::Cancelled`] at an item that does not exist, when all else is done.
pub(super) fn run<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    basket: &Basket,
) -> Result<(), Abort> {
    let Basket { w, d, customer, ref lines } = *basket;
    session.get::<Warehouse>(key::warehouse(w))?;
    session.get::<Customer>(key::of_district(w, d, customer))?;
    let mut district = session.get::<District>(key::district(w, d))?;
    let (lines, mut shelves) = gather(session, d, lines)?;

    let ranges = shelves.iter().map(|shelf| shelf.stock.range());
    let ranges: Vec<_> = std::iter::once(district.range()).chain(ranges).collect();
    session.announce(&ranges)?;

    let number = u64::from(district.row.next_order);
    if number > Shape::ORDERS_MAX {
        return Err(Abort::damaged(format!("district {d} of {w} has no number left")));
    }
    district.row.next_order += 1;
    session.change(&district)?;
    let order = Order {
        carrier: 0,
        customer: customer as u32,
        entered: session.version.0,
        lines: lines.len() as u8,
        all_local: u8::from(lines.iter().all(|line| line.wanted.supplier == w)),
    };
    let order_key = key::of_district(w, d, number);
    session.insert(order_key, &order, &[])?;
    session.insert(order_key, &NewOrder, &[])?;
    session.index(Table::OrdersByCustomer, &index::order(w, d, customer, number))?;
    let mut rows = Vec::with_capacity(lines.len());
    for (nth, line) in (1..).zip(&lines) {
        let Some(price) = line.price else { break };
        let shelf = &mut shelves[line.stock];
        take(&mut shelf.stock.row, line.wanted, w);
        session.change(&shelf.stock)?;
        let row = OrderLine {
            delivered: OrderLine::NOT_DELIVERED,
            item: line.wanted.item as u32,
            supplier: line.wanted.supplier as u16,
            quantity: line.wanted.quantity,
            amount: price * i64::from(line.wanted.quantity),
        };
        rows.push((key::line(w, d, number, nth), row, shelf.dist));
    }
    session.insert_ascending(&rows)?;
    if rows.len() == lines.len() { Ok(()) } else { Err(Abort::cancelled("an item does not exist")) }
}

/// Reads the items and the stocks of all lines, each once.
fn gather<'b, T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    d: u64,
    wanted: &'b [Wanted],
) -> Result<(Vec<Line<'b>>, Vec<Shelf>), Abort> {
    let mut lines: Vec<Line<'b>> = Vec::with_capacity(wanted.len());
    let mut shelves: Vec<Shelf> = Vec::with_capacity(wanted.len());
    for wanted in wanted {
        let price = match lines.iter().find(|line| line.wanted.item == wanted.item) {
            Some(line) => line.price,
            None => price(session, wanted.item)?,
        };
        let stock_key = key::stock(wanted.supplier, wanted.item);
        let known = shelves.iter().position(|shelf| shelf.stock.key == stock_key);
        let stock = match known {
            Some(known) => known,
            None if price.is_none() => usize::MAX,
            None => {
                let stock = session.get::<Stock>(stock_key)?;
                let text = session.text::<Stock>();
                let mut dist = [0; DIST_BYTES];
                dist.copy_from_slice(&text[(d as usize - 1) * DIST_BYTES..][..DIST_BYTES]);
                shelves.push(Shelf { stock, dist });
                shelves.len() - 1
            }
        };
        lines.push(Line { wanted, price, stock });
    }
    Ok((lines, shelves))
}

/// The price of an item, if there is one.
fn price<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    item: u64,
) -> Result<Option<i64>, Abort> {
    let found = session.find::<Item>(key::stock(0, item))?;
    Ok(found.map(|item| i64::from(item.row.price)))
}

/// Takes a line's quantity from a stock.
fn take(stock: &mut Stock, wanted: &Wanted, w: u64) {
    let quantity = i32::from(wanted.quantity);
    let enough = stock.quantity - quantity >= 10;
    stock.quantity += if enough { -quantity } else { 91 - quantity };
    stock.ytd += u64::from(wanted.quantity);
    stock.orders += 1;
    stock.remotes += u32::from(wanted.supplier != w);
}
