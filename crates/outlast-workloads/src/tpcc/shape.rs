//! How much there is of everything, and the numbers by which facts call the rows.

use crate::Scale;

/// Lines of an order, at most.
pub(crate) const LINES_MAX: u64 = 15;
/// Numbers that facts set aside for an order, its entry among the new ones, and its lines.
const FACTS_PER_ORDER: u64 = 2 + LINES_MAX;

/// The sizes of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// All of them.
    pub warehouses: u64,
    /// Of a warehouse.
    pub districts: u64,
    /// Of a district, and as many orders at first.
    pub customers: u64,
    /// All of them, and as many stocks in each warehouse.
    pub items: u64,
}

/// A key of a table, taken apart: what the parts mean depends on the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Parts {
    pub(crate) w: u64,
    pub(crate) d: u64,
    /// A customer, an order or an item.
    pub(crate) n: u64,
    /// A line of an order, or a payment of a customer.
    pub(crate) m: u64,
}

/// Keys are numbers whose big-endian bytes order the trees: warehouse 16 bits, district 8, then
/// customer, order or item 32 and line 8, or customer 20 and payment 20.
pub(crate) mod key {
    use super::Parts;

    pub(crate) const fn district(w: u64, d: u64) -> u64 {
        w << 48 | d << 40
    }

    pub(crate) const fn warehouse(w: u64) -> u64 {
        district(w, 0)
    }

    /// Of a customer or an order.
    pub(crate) const fn of_district(w: u64, d: u64, n: u64) -> u64 {
        district(w, d) | n << 8
    }

    pub(crate) const fn line(w: u64, d: u64, order: u64, line: u64) -> u64 {
        of_district(w, d, order) | line
    }

    /// Of the stock of an item; warehouse 0 is the item itself.
    pub(crate) const fn stock(w: u64, item: u64) -> u64 {
        of_district(w, 0, item)
    }

    pub(crate) const fn history(w: u64, d: u64, customer: u64, payment: u64) -> u64 {
        district(w, d) | customer << 20 | payment
    }

    pub(crate) const fn parts(key: u64) -> Parts {
        Parts { w: key >> 48, d: key >> 40 & 0xFF, n: key >> 8 & 0xFFFF_FFFF, m: key & 0xFF }
    }

    pub(crate) const fn history_parts(key: u64) -> Parts {
        Parts { w: key >> 48, d: key >> 40 & 0xFF, n: key >> 20 & 0xF_FFFF, m: key & 0xF_FFFF }
    }
}

impl Shape {
    pub(crate) const DISTRICTS_MAX: u64 = 10;
    pub(crate) const WAREHOUSES_MAX: u64 = 10_000;
    pub(crate) const CUSTOMERS_MAX: u64 = 65_535;
    pub(crate) const ITEMS_MAX: u64 = 1 << 24;
    /// Orders of a district, at most: an index has 24 bits for them.
    pub(crate) const ORDERS_MAX: u64 = (1 << 24) - 1;
    /// Payments of a customer, at most.
    pub(crate) const PAYMENTS_MAX: u64 = (1 << 20) - 1;

    pub(crate) fn of(scale: &Scale) -> Self {
        let Scale { records, districts, customers, items, .. } = *scale;
        Self { warehouses: records, districts, customers, items }
    }

    /// Whether there can be so much: else what is wrong, its value, and what would be right.
    pub(crate) fn check(&self) -> Result<(), (&'static str, u64, &'static str)> {
        let Self { warehouses, districts, customers, items } = *self;
        let limits = [
            ("records", warehouses, 1..=Self::WAREHOUSES_MAX, "1 to 10,000 are possible"),
            ("districts", districts, 1..=Self::DISTRICTS_MAX, "1 to 10 are possible"),
            ("customers", customers, 3..=Self::CUSTOMERS_MAX, "3 to 65,535 are possible"),
            ("items", items, 10..=Self::ITEMS_MAX, "10 to 16,777,216 are possible"),
        ];
        match limits.into_iter().find(|(_, value, range, _)| !range.contains(value)) {
            Some((what, value, _, wanted)) => Err((what, value, wanted)),
            None => Ok(()),
        }
    }

    /// Districts of all warehouses.
    pub(crate) fn all_districts(&self) -> u64 {
        self.warehouses * self.districts
    }

    /// Customers of all districts.
    pub(crate) fn all_customers(&self) -> u64 {
        self.all_districts() * self.customers
    }

    /// Orders of a district that wait for their delivery at first: 900 of 3,000.
    pub fn first_new_orders(&self) -> u64 {
        (self.customers * 3 / 10).max(1)
    }

    /// Last names in use: a thousand, where there are as many customers.
    pub fn names(&self) -> u64 {
        self.customers.min(1_000)
    }

    /// The number of a district among all, from 0 on.
    pub(crate) fn nth_district(&self, parts: Parts) -> u64 {
        (parts.w - 1) * self.districts + parts.d - 1
    }

    /// The number of a customer among all, from 0 on.
    pub(crate) fn nth_customer(&self, parts: Parts) -> u64 {
        self.nth_district(parts) * self.customers + parts.n - 1
    }

    /// The number of a stock among all, from 0 on.
    pub(crate) fn nth_stock(&self, parts: Parts) -> u64 {
        (parts.w - 1) * self.items + parts.n - 1
    }

    pub(crate) fn has_warehouse(&self, parts: Parts) -> bool {
        (1..=self.warehouses).contains(&parts.w)
    }

    pub(crate) fn has_district(&self, parts: Parts) -> bool {
        self.has_warehouse(parts) && (1..=self.districts).contains(&parts.d)
    }

    pub(crate) fn has_customer(&self, parts: Parts) -> bool {
        self.has_district(parts) && (1..=self.customers).contains(&parts.n)
    }

    pub(crate) fn has_item(&self, parts: Parts) -> bool {
        (1..=self.items).contains(&parts.n)
    }

    // Facts call rows by numbers: first those of the tables that never grow, then, alternating,
    // orders with what belongs to them in the order of their numbers, and payments likewise, so
    // that few of the numbers are never used.

    pub(crate) fn fact_of_warehouse(&self, parts: Parts) -> u64 {
        parts.w - 1
    }

    pub(crate) fn fact_of_district(&self, parts: Parts) -> u64 {
        self.warehouses + self.nth_district(parts)
    }

    pub(crate) fn fact_of_customer(&self, parts: Parts) -> u64 {
        self.warehouses + self.all_districts() + self.nth_customer(parts)
    }

    fn first_item(&self) -> u64 {
        self.warehouses + self.all_districts() + self.all_customers()
    }

    /// One item more than there are has a number: the one that orders are cancelled for.
    pub(crate) fn fact_of_item(&self, parts: Parts) -> u64 {
        self.first_item() + parts.n - 1
    }

    pub(crate) fn fact_of_stock(&self, parts: Parts) -> u64 {
        self.first_item() + self.items + 1 + self.nth_stock(parts)
    }

    fn first_grown(&self) -> u64 {
        self.first_item() + self.items + 1 + self.warehouses * self.items
    }

    /// Of an order with place 0, of its entry among the new ones with 1, of a line with 1 more
    /// than its number.
    pub(crate) fn fact_of_order(&self, parts: Parts, place: u64) -> u64 {
        let nth = (parts.n - 1) * self.all_districts() + self.nth_district(parts);
        self.first_grown() + 2 * (nth * FACTS_PER_ORDER + place)
    }

    pub(crate) fn fact_of_payment(&self, parts: Parts) -> u64 {
        let nth = (parts.m - 1) * self.all_customers() + self.nth_customer(parts);
        self.first_grown() + 2 * nth + 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_rows_share_a_fact() {
        let shape = Shape { warehouses: 2, districts: 3, customers: 4, items: 5 };
        let mut seen = HashSet::new();
        let mut fresh = |fact| assert!(seen.insert(fact), "fact {fact} twice");
        (1..=6).for_each(|n| fresh(shape.fact_of_item(key::parts(key::stock(0, n)))));
        for w in 1..=2 {
            fresh(shape.fact_of_warehouse(key::parts(key::warehouse(w))));
            (1..=5).for_each(|n| fresh(shape.fact_of_stock(key::parts(key::stock(w, n)))));
            for d in 1..=3 {
                fresh(shape.fact_of_district(key::parts(key::district(w, d))));
                for n in 1..=4 {
                    let parts = key::parts(key::of_district(w, d, n));
                    fresh(shape.fact_of_customer(parts));
                    (0..17).for_each(|place| fresh(shape.fact_of_order(parts, place)));
                    for m in 1..=3 {
                        let parts = key::history_parts(key::history(w, d, n, m));
                        assert_eq!(parts, Parts { w, d, n, m });
                        fresh(shape.fact_of_payment(parts));
                    }
                }
            }
        }
    }
}
