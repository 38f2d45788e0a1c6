//! Payment (clause 2.5).

use std::io::Write;

use outlast::{Abort, Transact};

use super::columns::{Customer, District, Warehouse};
use super::draw::Paying;
use super::grown::History;
use super::index;
use super::schema::Row;
use super::session::{Held, Session};
use super::shape::{Shape, key};
use super::text::{DATA_BYTES, NAME_BYTES};
use crate::Witness;
use crate::rows::digest;

pub(super) fn run<T: Transact, W: Witness>(
    session: &mut Session<'_, T, W>,
    paying: &Paying,
) -> Result<(), Abort> {
    let Paying { w, d, amount, .. } = *paying;
    let mut h_data = [b' '; History::TEXT];
    let mut warehouse = session.get::<Warehouse>(key::warehouse(w))?;
    h_data[..NAME_BYTES].copy_from_slice(&session.text::<Warehouse>()[..NAME_BYTES]);
    let mut district = session.get::<District>(key::district(w, d))?;
    h_data[NAME_BYTES + 4..].copy_from_slice(&session.text::<District>()[..NAME_BYTES]);
    let place = (paying.customer_w, paying.customer_d);
    let mut customer = index::customer(session, place, paying.who)?;
    let data_at = customer.part(Customer::DATA_AT, DATA_BYTES);
    let is_bad = customer.row.has_bad_credit != 0;

    let ranges = [warehouse.range(), district.range(), customer.range(), data_at];
    session.announce(&ranges[..if is_bad { 4 } else { 3 }])?;

    warehouse.row.ytd += amount;
    session.change(&warehouse)?;
    district.row.ytd += amount;
    session.change(&district)?;
    customer.row.balance -= amount;
    customer.row.ytd_payment += amount;
    customer.row.payments += 1;
    if is_bad {
        let mut data = [0; DATA_BYTES];
        session.tx.load(data_at.at, &mut data)?;
        let data = noted(&customer, paying, &data);
        customer.row.data = digest(&data);
        session.tx.store(data_at.at, &data)?;
    }
    session.change(&customer)?;
    let payment = u64::from(customer.row.payments);
    let parts = key::parts(customer.key);
    if payment > Shape::PAYMENTS_MAX {
        return Err(Abort::damaged(format!("customer {} paid too often", parts.n)));
    }
    let (warehouse, district) = (w as u16, d as u8);
    let row = History { amount, date: session.version.0, warehouse, district };
    session.insert(key::history(parts.w, parts.d, parts.n, payment), &row, &h_data)
}

/// C_DATA with the payment noted before what was there, of which the end is lost.
fn noted(customer: &Held<Customer>, paying: &Paying, old: &[u8; DATA_BYTES]) -> [u8; DATA_BYTES] {
    let parts = key::parts(customer.key);
    let Paying { w, d, amount, .. } = *paying;
    let mut new = [0; DATA_BYTES];
    let mut rest = &mut new[..];
    let (whole, cents) = (amount / 100, amount % 100);
    write!(rest, "{} {} {} {d} {w} {whole}.{cents:02} ", parts.n, parts.d, parts.w)
        .expect("a note is shorter than the column");
    let room = rest.len();
    rest.copy_from_slice(&old[..room]);
    new
}
