//! Columns of each table.
//!
//! Numbers are fixed in width, money is in cents, rates are in hundredths of a percent, and a
//! moment is the version of the transaction that it belongs to. Texts have their greatest length,
//! zeros behind. Keys are not repeated in rows. So rows are about as long as the specification's
//! (clause 1.4.1) with 8 bytes more for the stamp:
//!
//! | | bytes | there | | bytes | there |
//! |---|---|---|---|---|---|
//! | warehouse | 99 | 89 | order | 23 | 24 |
//! | district | 103 | 95 | order line | 55 | 54 |
//! | customer | 678 | 655 | item | 90 | 82 |
//! | history | 51 | 46 | stock | 318 | 306 |
//! | new order | 8 | 8 | | | |

use super::schema::{Row, Table};
use super::shape::{Shape, key};
use super::text::{self, BRAND_BYTES, DATA_BYTES, DIST_BYTES, ITEM_NAME_BYTES, Of};
use super::text::{NAME_BYTES, PERSON_BYTES, PLACE_BYTES};
use crate::Random;
use crate::rows::{Put, STAMP_BYTES, Take};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Warehouse {
    pub(crate) ytd: i64,
    pub(crate) tax: u16,
}

impl Row for Warehouse {
    const TABLE: Table = Table::Warehouse;
    const CHANGING: usize = 8;
    const NUMBERS: usize = 10;
    const TEXT: usize = PLACE_BYTES;

    fn put(&self, to: &mut Put<'_>) {
        to.i64(self.ytd);
        to.u16(self.tax);
    }

    fn take(from: &mut Take<'_>) -> Self {
        Self { ytd: from.i64(), tax: from.u16() }
    }

    fn may_have(shape: &Shape, key: u64) -> bool {
        let parts = key::parts(key);
        shape.has_warehouse(parts) && key == key::warehouse(parts.w)
    }

    fn fact(shape: &Shape, key: u64) -> u64 {
        shape.fact_of_warehouse(Self::parts(key))
    }

    fn text(&self, _: &Shape, key: u64, out: &mut [u8]) {
        text::place(Of::Warehouse, key, out);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct District {
    pub(crate) ytd: i64,
    pub(crate) next_order: u32,
    pub(crate) tax: u16,
}

impl Row for District {
    const TABLE: Table = Table::District;
    const CHANGING: usize = 12;
    const NUMBERS: usize = 14;
    const TEXT: usize = PLACE_BYTES;

    fn put(&self, to: &mut Put<'_>) {
        to.i64(self.ytd);
        to.u32(self.next_order);
        to.u16(self.tax);
    }

    fn take(from: &mut Take<'_>) -> Self {
        Self { ytd: from.i64(), next_order: from.u32(), tax: from.u16() }
    }

    fn may_have(shape: &Shape, key: u64) -> bool {
        let parts = key::parts(key);
        shape.has_district(parts) && key == key::district(parts.w, parts.d)
    }

    fn fact(shape: &Shape, key: u64) -> u64 {
        shape.fact_of_district(Self::parts(key))
    }

    fn text(&self, _: &Shape, key: u64, out: &mut [u8]) {
        text::place(Of::District, key, out);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Customer {
    pub(crate) balance: i64,
    pub(crate) ytd_payment: i64,
    pub(crate) payments: u32,
    pub(crate) deliveries: u32,
    /// The digest of C_DATA, which payments of customers with bad credit change.
    pub(crate) data: u64,
    pub(crate) since: u64,
    pub(crate) discount: u16,
    pub(crate) credit_limit: u32,
    pub(crate) has_bad_credit: u8,
}

/// Where C_LAST starts in a customer's text.
const LAST_AT: usize = PERSON_BYTES + 2;
/// Where the address starts.
const CUSTOMER_ADDRESS_AT: usize = LAST_AT + PERSON_BYTES;
/// Where C_PHONE and C_CREDIT start.
const PHONE_AT: usize = CUSTOMER_ADDRESS_AT + PLACE_BYTES - NAME_BYTES;
const CREDIT_AT: usize = PHONE_AT + 16;

impl Customer {
    /// Where C_DATA starts.
    pub(crate) const DATA_AT: usize = STAMP_BYTES + Self::NUMBERS + Self::TEXT;

    /// The number of a customer's last name. The first ones have every name once.
    pub(crate) fn name(shape: &Shape, key: u64) -> u64 {
        let (n, names) = (key::parts(key).n, shape.names());
        match n <= names {
            true => n - 1,
            false => super::draw::name_at_load(&mut Random::stream(0x4C41_5354, key), names),
        }
    }

    /// One customer in ten has bad credit.
    pub(crate) fn is_bad(key: u64) -> bool {
        Random::stream(0x4352_4544, key).below(10) == 0
    }
}

impl Row for Customer {
    const TABLE: Table = Table::Customer;
    const CHANGING: usize = 32;
    const NUMBERS: usize = 47;
    const TEXT: usize = CREDIT_AT + 2;
    const REST: usize = DATA_BYTES;

    fn put(&self, to: &mut Put<'_>) {
        to.i64(self.balance);
        to.i64(self.ytd_payment);
        to.u32(self.payments);
        to.u32(self.deliveries);
        to.u64(self.data);
        to.u64(self.since);
        to.u16(self.discount);
        to.u32(self.credit_limit);
        to.u8(self.has_bad_credit);
    }

    fn take(from: &mut Take<'_>) -> Self {
        Self {
            balance: from.i64(),
            ytd_payment: from.i64(),
            payments: from.u32(),
            deliveries: from.u32(),
            data: from.u64(),
            since: from.u64(),
            discount: from.u16(),
            credit_limit: from.u32(),
            has_bad_credit: from.u8(),
        }
    }

    fn may_have(shape: &Shape, key: u64) -> bool {
        let parts = key::parts(key);
        shape.has_customer(parts) && parts.m == 0
    }

    fn fact(shape: &Shape, key: u64) -> u64 {
        shape.fact_of_customer(Self::parts(key))
    }

    fn text(&self, shape: &Shape, key: u64, out: &mut [u8]) {
        let (out, rest) = out.split_at_mut(Self::TEXT);
        let mut random = Random::stream(0x4355_5354, key);
        out[..PERSON_BYTES].copy_from_slice(&text::first_name(key));
        out[PERSON_BYTES..LAST_AT].copy_from_slice(b"OE");
        let last = text::last_name(Self::name(shape, key));
        out[LAST_AT..CUSTOMER_ADDRESS_AT].copy_from_slice(&last);
        text::address(&mut random, &mut out[CUSTOMER_ADDRESS_AT..PHONE_AT]);
        text::phone(&mut random, &mut out[PHONE_AT..CREDIT_AT]);
        out[CREDIT_AT..].copy_from_slice(if Self::is_bad(key) { b"BC" } else { b"GC" });
        if !rest.is_empty() {
            text::text(&mut random, 300, rest);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Item {
    pub(crate) image: u32,
    pub(crate) price: u32,
}

impl Row for Item {
    const TABLE: Table = Table::Item;
    const CHANGING: usize = 0;
    const NUMBERS: usize = 8;
    const TEXT: usize = ITEM_NAME_BYTES + BRAND_BYTES;

    fn put(&self, to: &mut Put<'_>) {
        to.u32(self.image);
        to.u32(self.price);
    }

    fn take(from: &mut Take<'_>) -> Self {
        Self { image: from.u32(), price: from.u32() }
    }

    fn may_have(shape: &Shape, key: u64) -> bool {
        let parts = key::parts(key);
        shape.has_item(parts) && key == key::stock(0, parts.n)
    }

    fn fact(shape: &Shape, key: u64) -> u64 {
        shape.fact_of_item(Self::parts(key))
    }

    fn text(&self, _: &Shape, key: u64, out: &mut [u8]) {
        let mut random = text::random(Of::Item, key);
        let (name, brand) = out.split_at_mut(ITEM_NAME_BYTES);
        text::text(&mut random, 14, name);
        text::brand(&mut random, brand);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stock {
    pub(crate) quantity: i32,
    pub(crate) ytd: u64,
    pub(crate) orders: u32,
    pub(crate) remotes: u32,
}

impl Stock {
    /// S_QUANTITY as it was loaded.
    pub(crate) fn first_quantity(key: u64) -> i32 {
        10 + Random::stream(0x5154_5900, key).below(91) as i32
    }
}

impl Row for Stock {
    const TABLE: Table = Table::Stock;
    const CHANGING: usize = 20;
    const NUMBERS: usize = 20;
    const TEXT: usize = 10 * DIST_BYTES + BRAND_BYTES;

    fn put(&self, to: &mut Put<'_>) {
        to.i32(self.quantity);
        to.u64(self.ytd);
        to.u32(self.orders);
        to.u32(self.remotes);
    }

    fn take(from: &mut Take<'_>) -> Self {
        Self { quantity: from.i32(), ytd: from.u64(), orders: from.u32(), remotes: from.u32() }
    }

    fn may_have(shape: &Shape, key: u64) -> bool {
        let parts = key::parts(key);
        let is_stock = shape.has_warehouse(parts) && shape.has_item(parts);
        is_stock && key == key::stock(parts.w, parts.n)
    }

    fn fact(shape: &Shape, key: u64) -> u64 {
        shape.fact_of_stock(Self::parts(key))
    }

    fn text(&self, _: &Shape, key: u64, out: &mut [u8]) {
        let (dists, brand) = out.split_at_mut(10 * DIST_BYTES);
        for (d, dist) in (1..).zip(dists.chunks_mut(DIST_BYTES)) {
            text::dist(key, d, dist);
        }
        text::brand(&mut text::random(Of::Stock, key), brand);
    }
}

const _: () = {
    assert!(Warehouse::VALUE == 99 && District::VALUE == 103 && Customer::VALUE == 678);
    assert!(Item::VALUE == 90 && Stock::VALUE == 318);
};
