//! Delivery (clause 2.7): the oldest order of every district that waits, all in one transaction.

use outlast::{Abort, Transact};

use super::columns::Customer;
use super::grown::{NewOrder, Order, OrderLine};
use super::order_status::lines_of;
use super::session::{Held, Session};
use super::shape::key;
use crate::Witness;

/// A district's oldest new order, and all that its delivery changes.
struct Due {
    new_order: Held<NewOrder>,
    order: Held<Order>,
    lines: Vec<Held<OrderLine>>,
    customer: Held<Customer>,
}

pub(super) fn run<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    w: u64,
    carrier: u8,
) -> Result<(), Abort> {
    let mut all_due = Vec::with_capacity(session.shape.districts as usize);
    for d in 1..=session.shape.districts {
        // A district without new orders is passed over.
        all_due.extend(due(session, w, d)?);
    }
    let ranges = all_due.iter().flat_map(|due| {
        let lines = due.lines.iter().map(Held::range);
        [due.order.range(), due.customer.range()].into_iter().chain(lines)
    });
    session.announce(&ranges.collect::<Vec<_>>())?;
    let now = session.version.0;
    for Due { new_order, mut order, lines, mut customer } in all_due {
        session.remove(&new_order)?;
        order.row.carrier = carrier;
        session.change(&order)?;
        for mut line in lines {
            line.row.delivered = now;
            session.change(&line)?;
            customer.row.balance += line.row.amount;
        }
        customer.row.deliveries += 1;
        session.change(&customer)?;
    }
    Ok(())
}

fn due<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    w: u64,
    d: u64,
) -> Result<Option<Due>, Abort> {
    let keys = (key::of_district(w, d, 1), key::district(w, d + 1));
    let Some(new_order) = session.range::<NewOrder>(keys, 1)?.pop() else { return Ok(None) };
    let order = session.get::<Order>(new_order.key)?;
    let lines = lines_of(session, (w, d), key::parts(new_order.key).n)?;
    let customer = key::of_district(w, d, u64::from(order.row.customer));
    let customer = session.get::<Customer>(customer)?;
    Ok(Some(Due { new_order, order, lines, customer }))
}
