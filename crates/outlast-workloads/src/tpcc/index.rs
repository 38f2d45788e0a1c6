//! The keys of the two indices, and what transactions look up in them.

use outlast::{Abort, Transact};

use super::columns::Customer;
use super::draw::Who;
use super::schema::Table;
use super::session::{Held, Session};
use super::shape::{Shape, key};
use super::text::{PERSON_BYTES, last_name};
use crate::Witness;

/// Bytes of a key in the index of names: district, C_LAST, C_FIRST, customer.
pub(crate) const NAME_KEY_BYTES: usize = DISTRICT_BYTES + 2 * PERSON_BYTES + 4;
const DISTRICT_BYTES: usize = 3;
const LAST_END: usize = DISTRICT_BYTES + PERSON_BYTES;

/// The key of a customer in the index of names.
pub(crate) fn name(
    customer: u64,
    last: &[u8; PERSON_BYTES],
    first: &[u8; PERSON_BYTES],
) -> [u8; NAME_KEY_BYTES] {
    let mut bytes = [0; NAME_KEY_BYTES];
    bytes[..DISTRICT_BYTES].copy_from_slice(&customer.to_be_bytes()[..DISTRICT_BYTES]);
    bytes[DISTRICT_BYTES..LAST_END].copy_from_slice(last);
    bytes[LAST_END..LAST_END + PERSON_BYTES].copy_from_slice(first);
    let number = key::parts(customer).n as u32;
    bytes[LAST_END + PERSON_BYTES..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The key of an order in the index of a customer's orders: the newest comes first.
pub(crate) fn order(w: u64, d: u64, customer: u64, order: u64) -> [u8; 8] {
    (key::district(w, d) | customer << 24 | (Shape::ORDERS_MAX - order)).to_be_bytes()
}

/// The customer and the order of such a key.
pub(crate) fn order_parts(key: u64) -> (u64, u64) {
    (key >> 24 & 0xFFFF, Shape::ORDERS_MAX - (key & 0xFF_FFFF))
}

/// The customer that is asked for: of those with a name the middle one in the order of first
/// names, rounded up.
pub(super) fn customer<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    (w, d): (u64, u64),
    who: Who,
) -> Result<Held<Customer>, Abort> {
    let number = match who {
        Who::Number(number) => number,
        Who::Name(number) => {
            let from = name(key::of_district(w, d, 0), &last_name(number), &[0; PERSON_BYTES]);
            let mut found = Vec::new();
            session.keys(Table::CustomersByName, &from, u64::MAX, |key, _| {
                let matches = key.starts_with(&from[..LAST_END]);
                if let Some(number) = key.last_chunk().filter(|_| matches) {
                    found.push(u64::from(u32::from_be_bytes(*number)));
                }
                matches
            })?;
            let middle = found.get(found.len().saturating_sub(1) / 2).copied();
            middle.ok_or_else(|| Abort::damaged(format!("no customer has last name {number}")))?
        }
    };
    session.get(key::of_district(w, d, number))
}

/// The newest order of a customer.
pub(super) fn newest_order<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    (w, d): (u64, u64),
    customer: u64,
) -> Result<u64, Abort> {
    let from = order(w, d, customer, Shape::ORDERS_MAX);
    let mut newest = None;
    session.keys(Table::OrdersByCustomer, &from, 1, |key, _| {
        newest = key.try_into().ok().map(|key| order_parts(u64::from_be_bytes(key)));
        true
    })?;
    let newest = newest.filter(|found| found.0 == customer).map(|found| found.1);
    newest.ok_or_else(|| Abort::damaged(format!("customer {customer} has no order")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_orders_come_before_older_ones_and_customers_stay_together() {
        assert!(order(1, 2, 3, 8) < order(1, 2, 3, 7));
        assert!(order(1, 2, 3, 1) < order(1, 2, 4, 9));
        assert_eq!(order_parts(u64::from_be_bytes(order(1, 2, 3, 8))), (3, 8));
    }
}
