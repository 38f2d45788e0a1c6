//! StockLevel (clause 2.8).

use outlast::{Abort, Transact};

use super::columns::{District, Stock};
use super::grown::OrderLine;
use super::session::Session;
use super::shape::{LINES_MAX, key};
use crate::Witness;

/// Orders that are looked at.
const ORDERS: u64 = 20;

/// How many items of the district's last twenty orders are short in stock.
pub(super) fn run<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    (w, d): (u64, u64),
    threshold: i32,
) -> Result<usize, Abort> {
    let district = session.get::<District>(key::district(w, d))?;
    let next = u64::from(district.row.next_order);
    let first = next.saturating_sub(ORDERS).max(1);
    let keys = (key::of_district(w, d, first), key::of_district(w, d, next));
    let lines = session.range::<OrderLine>(keys, ORDERS * LINES_MAX)?;
    let mut items: Vec<u64> = lines.iter().map(|line| u64::from(line.row.item)).collect();
    items.sort_unstable();
    items.dedup();
    let mut short = 0;
    for item in items {
        let stock = session.get::<Stock>(key::stock(w, item))?;
        short += usize::from(stock.row.quantity < threshold);
    }
    Ok(short)
}
