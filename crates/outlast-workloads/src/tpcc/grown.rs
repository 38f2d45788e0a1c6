//! Rows of the tables that grow: orders, their lines, and payments.

use super::schema::{Row, Table};
use super::shape::{LINES_MAX, Parts, Shape, key};
use super::text::{self, DIST_BYTES, NAME_BYTES, Of};
use crate::rows::{Put, Take};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    /// 0: not delivered.
    pub(crate) carrier: u8,
    pub(crate) customer: u32,
    pub(crate) entered: u64,
    pub(crate) lines: u8,
    pub(crate) all_local: u8,
}

impl Row for Order {
    const TABLE: Table = Table::Order;
    const CHANGING: usize = 1;
    const NUMBERS: usize = 15;
    const TEXT: usize = 0;

    fn put(&self, to: &mut Put<'_>) {
        to.u8(self.carrier);
        to.u32(self.customer);
        to.u64(self.entered);
        to.u8(self.lines);
        to.u8(self.all_local);
    }

    fn take(from: &mut Take<'_>) -> Self {
        Self {
            carrier: from.u8(),
            customer: from.u32(),
            entered: from.u64(),
            lines: from.u8(),
            all_local: from.u8(),
        }
    }

    fn may_have(shape: &Shape, key: u64) -> bool {
        let parts = key::parts(key);
        let possible = (1..=Shape::ORDERS_MAX).contains(&parts.n) && parts.m == 0;
        shape.has_district(parts) && possible
    }

    fn fact(shape: &Shape, key: u64) -> u64 {
        shape.fact_of_order(Self::parts(key), 0)
    }

    fn text(&self, _: &Shape, _: u64, _: &mut [u8]) {}
}

/// An order that waits for its delivery: there is nothing to it but its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NewOrder;

impl Row for NewOrder {
    const TABLE: Table = Table::NewOrder;
    const CHANGING: usize = 0;
    const NUMBERS: usize = 0;
    const TEXT: usize = 0;

    fn put(&self, _: &mut Put<'_>) {}

    fn take(_: &mut Take<'_>) -> Self {
        Self
    }

    fn may_have(shape: &Shape, key: u64) -> bool {
        Order::may_have(shape, key)
    }

    fn fact(shape: &Shape, key: u64) -> u64 {
        shape.fact_of_order(Self::parts(key), 1)
    }

    fn text(&self, _: &Shape, _: u64, _: &mut [u8]) {}
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OrderLine {
    /// [`NOT_DELIVERED`](Self::NOT_DELIVERED), or when.
    pub(crate) delivered: u64,
    pub(crate) item: u32,
    pub(crate) supplier: u16,
    pub(crate) quantity: u8,
    pub(crate) amount: i64,
}

impl OrderLine {
    pub(crate) const NOT_DELIVERED: u64 = u64::MAX;

    /// The stock that the line takes from.
    pub(crate) fn stock(&self) -> u64 {
        key::stock(u64::from(self.supplier), u64::from(self.item))
    }
}

impl Row for OrderLine {
    const TABLE: Table = Table::OrderLine;
    const CHANGING: usize = 8;
    const NUMBERS: usize = 23;
    const TEXT: usize = DIST_BYTES;

    fn put(&self, to: &mut Put<'_>) {
        to.u64(self.delivered);
        to.u32(self.item);
        to.u16(self.supplier);
        to.u8(self.quantity);
        to.i64(self.amount);
    }

    fn take(from: &mut Take<'_>) -> Self {
        Self {
            delivered: from.u64(),
            item: from.u32(),
            supplier: from.u16(),
            quantity: from.u8(),
            amount: from.i64(),
        }
    }

    fn may_have(shape: &Shape, key: u64) -> bool {
        let parts = key::parts(key);
        let is_line = (1..=LINES_MAX).contains(&parts.m);
        is_line && Order::may_have(shape, key & !0xFF)
    }

    fn fact(shape: &Shape, key: u64) -> u64 {
        let parts = Self::parts(key);
        shape.fact_of_order(parts, 1 + parts.m)
    }

    fn text(&self, _: &Shape, key: u64, out: &mut [u8]) {
        text::dist(self.stock(), key::parts(key).d, out);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct History {
    pub(crate) amount: i64,
    pub(crate) date: u64,
    /// Where it was paid.
    pub(crate) warehouse: u16,
    pub(crate) district: u8,
}

impl Row for History {
    const TABLE: Table = Table::History;
    const CHANGING: usize = 0;
    const NUMBERS: usize = 19;
    const TEXT: usize = 24;

    fn parts(key: u64) -> Parts {
        key::history_parts(key)
    }

    fn put(&self, to: &mut Put<'_>) {
        to.i64(self.amount);
        to.u64(self.date);
        to.u16(self.warehouse);
        to.u8(self.district);
    }

    fn take(from: &mut Take<'_>) -> Self {
        Self { amount: from.i64(), date: from.u64(), warehouse: from.u16(), district: from.u8() }
    }

    fn may_have(shape: &Shape, key: u64) -> bool {
        let parts = Self::parts(key);
        shape.has_customer(parts) && parts.m > 0
    }

    fn fact(shape: &Shape, key: u64) -> u64 {
        shape.fact_of_payment(Self::parts(key))
    }

    /// H_DATA: the names of the warehouse and the district, four spaces between.
    fn text(&self, _: &Shape, _: u64, out: &mut [u8]) {
        let (w, d) = (u64::from(self.warehouse), u64::from(self.district));
        text::place(Of::Warehouse, key::warehouse(w), &mut out[..NAME_BYTES]);
        out[NAME_BYTES..NAME_BYTES + 4].fill(b' ');
        text::place(Of::District, key::district(w, d), &mut out[NAME_BYTES + 4..]);
    }
}

const _: () = {
    assert!(Order::VALUE == 23 && NewOrder::VALUE == 8 && OrderLine::VALUE == 55);
    assert!(History::VALUE == 51);
};
