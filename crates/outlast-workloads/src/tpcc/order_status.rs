//! OrderStatus (clause 2.6).

use outlast::{Abort, Transact};

use super::draw::Who;
use super::grown::{Order, OrderLine};
use super::index;
use super::session::Session;
use super::shape::{LINES_MAX, key};
use crate::Witness;

/// Reads a customer, their newest order and its lines.
pub(super) fn run<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    (w, d): (u64, u64),
    who: Who,
) -> Result<(), Abort> {
    let customer = index::customer(session, (w, d), who)?;
    let number = index::newest_order(session, (w, d), key::parts(customer.key).n)?;
    let order = session.get::<Order>(key::of_district(w, d, number))?;
    let lines = lines_of(session, (w, d), number)?;
    if lines.len() != usize::from(order.row.lines) {
        return Err(Abort::damaged(format!("order {number} has {} lines", lines.len())));
    }
    Ok(())
}

/// The lines of an order.
pub(super) fn lines_of<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    (w, d): (u64, u64),
    number: u64,
) -> Result<Vec<super::session::Held<OrderLine>>, Abort> {
    let keys = (key::line(w, d, number, 1), key::of_district(w, d, number + 1));
    session.range(keys, LINES_MAX)
}
