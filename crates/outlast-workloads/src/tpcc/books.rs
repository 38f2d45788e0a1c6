//! Consistency of the tables: the conditions of clause 3.3.2, and every
//! byte of every row.
//!
//! All twelve conditions are checked; a row is rejected as soon as it contradicts those before
//! it, and [`Books::close`] compares the sums. Beyond the specification: orders and payments are
//! numbered without gaps, customers count their deliveries (which is condition 11 for a database
//! that has been at work), stocks have lost what orders took, and the indices name every customer
//! and every order once.

use super::columns::{Customer, District, Item, Stock, Warehouse};
use super::grown::{History, NewOrder, Order, OrderLine};
use super::index::order_parts;
use super::load::name_key;
use super::schema::{Row, Table};
use super::shape::{Parts, Shape, key};
use crate::Version;
use crate::rows::{STAMP_BYTES, Take, digest, unseal};

/// Why tables are not consistent.
pub(crate) type Wrong = &'static str;

/// Longest text of a row that follows from its key and numbers.
const TEXT_BYTES_MAX: usize = 320;

/// Rows as they come by, in the order of the tables and of the keys in each.
pub(crate) struct Books {
    shape: Shape,
    warehouses: Vec<Account>,
    districts: Vec<DistrictBook>,
    customers: Vec<CustomerBook>,
    stocks: Vec<Taken>,
    items: u64,
    stocks_seen: u64,
}

#[derive(Clone, Copy, Default)]
struct Account {
    ytd: i64,
    paid: i64,
}

#[derive(Clone, Default)]
struct DistrictBook {
    account: Account,
    next_order: u32,
    orders: Vec<OrderBook>,
}

#[derive(Clone, Copy)]
struct OrderBook {
    order: Order,
    lines: u8,
    waits: bool,
    is_indexed: bool,
}

#[derive(Clone, Copy, Default)]
struct CustomerBook {
    row: Option<Customer>,
    delivered: i64,
    deliveries: u32,
    paid: i64,
    payments: u32,
    is_indexed: bool,
}

/// The amounts that lines took from a stock.
#[derive(Clone, Copy, Default)]
struct Taken {
    quantity: u64,
    orders: u32,
    remotes: u32,
}

impl Books {
    pub(crate) fn open(shape: Shape) -> Self {
        let count = |n: u64| n as usize;
        Self {
            shape,
            warehouses: vec![Account::default(); count(shape.warehouses)],
            districts: vec![DistrictBook::default(); count(shape.all_districts())],
            customers: vec![CustomerBook::default(); count(shape.all_customers())],
            stocks: vec![Taken::default(); count(shape.warehouses * shape.items)],
            items: 0,
            stocks_seen: 0,
        }
    }

    /// Enters what a tree has under a key. Returns what facts call the row, and its version;
    /// nothing for an entry of an index.
    ///
    /// # Errors
    /// Enters a row. An error if it contradicts the rows before it, or itself.
    pub(crate) fn enter(
        &mut self,
        table: Table,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<(u64, Version)>, Wrong> {
        if table == Table::CustomersByName {
            return self.customer_by_name(key, value).map(|()| None);
        }
        let key = key.try_into().map(u64::from_be_bytes).map_err(|_| "a key of another length")?;
        let fact = match table {
            Table::Warehouse => self.row(key, value, Self::warehouse)?,
            Table::District => self.row(key, value, Self::district)?,
            Table::Customer => self.row(key, value, Self::customer)?,
            Table::Order => self.row(key, value, Self::order)?,
            Table::NewOrder => self.row(key, value, Self::new_order)?,
            Table::OrderLine => self.row(key, value, Self::order_line)?,
            Table::History => self.row(key, value, Self::history)?,
            Table::Item => self.row(key, value, Self::item)?,
            Table::Stock => self.row(key, value, Self::stock)?,
            Table::CustomersByName | Table::OrdersByCustomer => {
                self.order_by_customer(key, value)?;
                return Ok(None);
            }
        };
        Ok(Some(fact))
    }

    /// Checks a row by itself, then enters it.
    fn row<R: Row>(
        &mut self,
        key: u64,
        value: &[u8],
        enter: impl FnOnce(&mut Self, Parts, R) -> Result<(), Wrong>,
    ) -> Result<(u64, Version), Wrong> {
        if !R::may_have(&self.shape, key) {
            return Err("a key that the table cannot have");
        }
        if value.len() != R::VALUE {
            return Err("a row of another length");
        }
        let (numbers, text) = value[STAMP_BYTES..].split_at(R::NUMBERS);
        let fact = R::fact(&self.shape, key);
        let version = unseal(fact, value, numbers).ok_or("a row that is no version of it")?;
        let row = R::take(&mut Take(numbers));
        let mut expected = [0; TEXT_BYTES_MAX];
        row.text(&self.shape, key, &mut expected[..R::TEXT]);
        if expected[..R::TEXT] != text[..R::TEXT] {
            return Err("a row with another's text");
        }
        enter(self, R::parts(key), row)?;
        if R::REST > 0 {
            self.customer_data(R::parts(key), &text[R::TEXT..])?;
        }
        Ok((fact, version))
    }

    fn warehouse(&mut self, parts: Parts, row: Warehouse) -> Result<(), Wrong> {
        self.warehouses[parts.w as usize - 1].ytd = row.ytd;
        Ok(())
    }

    fn district(&mut self, parts: Parts, row: District) -> Result<(), Wrong> {
        let book = self.district_of(parts);
        book.account.ytd = row.ytd;
        book.next_order = row.next_order;
        Ok(())
    }

    fn customer(&mut self, parts: Parts, row: Customer) -> Result<(), Wrong> {
        self.customer_of(parts).row = Some(row);
        Ok(())
    }

    fn customer_data(&mut self, parts: Parts, data: &[u8]) -> Result<(), Wrong> {
        let digested = self.customer_of(parts).row.map(|row| row.data);
        (digested == Some(digest(data))).then_some(()).ok_or("C_DATA is torn")
    }

    fn order(&mut self, parts: Parts, order: Order) -> Result<(), Wrong> {
        let first_new = self.shape.customers - self.shape.first_new_orders() + 1;
        let customer = Parts { n: u64::from(order.customer), ..parts };
        if !self.shape.has_customer(customer) {
            return Err("an order of no customer");
        }
        let orders = &mut self.district_of(parts).orders;
        if parts.n != orders.len() as u64 + 1 {
            return Err("orders are not numbered without gaps");
        }
        orders.push(OrderBook { order, lines: 0, waits: false, is_indexed: false });
        let is_delivered = order.carrier > 0 && parts.n >= first_new;
        self.customer_of(customer).deliveries += u32::from(is_delivered);
        Ok(())
    }

    fn new_order(&mut self, parts: Parts, _: NewOrder) -> Result<(), Wrong> {
        let book = self.order_of(parts).ok_or("a new order that is no order")?;
        book.waits = true;
        match book.order.carrier {
            0 => Ok(()),
            _ => Err("condition 5: a new order has O_CARRIER_ID"),
        }
    }

    fn order_line(&mut self, parts: Parts, line: OrderLine) -> Result<(), Wrong> {
        let is_loaded = parts.n <= self.shape.customers;
        let book = self.order_of(parts).ok_or("a line of no order")?;
        book.lines += 1;
        if parts.m != u64::from(book.lines) {
            return Err("condition 6: lines are not numbered without gaps");
        }
        let order = book.order;
        let is_delivered = line.delivered != OrderLine::NOT_DELIVERED;
        if is_delivered != (order.carrier > 0) {
            return Err("condition 7: OL_DELIVERY_D and O_CARRIER_ID contradict each other");
        }
        if is_delivered {
            let customer = Parts { n: u64::from(order.customer), ..parts };
            self.customer_of(customer).delivered += line.amount;
        }
        if !Stock::may_have(&self.shape, line.stock()) {
            return Err("a line that takes from no stock");
        }
        if !is_loaded {
            let nth = self.shape.nth_stock(key::parts(line.stock()));
            let taken = &mut self.stocks[nth as usize];
            taken.quantity += u64::from(line.quantity);
            taken.orders += 1;
            taken.remotes += u32::from(u64::from(line.supplier) != parts.w);
        }
        Ok(())
    }

    fn history(&mut self, parts: Parts, row: History) -> Result<(), Wrong> {
        let place = key::parts(key::district(u64::from(row.warehouse), u64::from(row.district)));
        if !self.shape.has_district(place) {
            return Err("a payment in no district");
        }
        self.warehouses[place.w as usize - 1].paid += row.amount;
        self.district_of(place).account.paid += row.amount;
        let book = self.customer_of(parts);
        book.paid += row.amount;
        book.payments += 1;
        match parts.m == u64::from(book.payments) {
            true => Ok(()),
            false => Err("payments are not numbered without gaps"),
        }
    }

    fn item(&mut self, _: Parts, _: Item) -> Result<(), Wrong> {
        self.items += 1;
        Ok(())
    }

    fn stock(&mut self, parts: Parts, row: Stock) -> Result<(), Wrong> {
        self.stocks_seen += 1;
        let taken = self.stocks[self.shape.nth_stock(parts) as usize];
        if (row.ytd, row.orders, row.remotes) != (taken.quantity, taken.orders, taken.remotes) {
            return Err("a stock has not lost what orders took");
        }
        // Refills are of 91 pieces.
        let first = Stock::first_quantity(key::stock(parts.w, parts.n));
        let refilled = i64::from(row.quantity) + row.ytd as i64 - i64::from(first);
        match row.quantity >= 10 && refilled >= 0 && refilled % 91 == 0 {
            true => Ok(()),
            false => Err("S_QUANTITY is not what orders left"),
        }
    }

    fn customer_by_name(&mut self, entry: &[u8], value: &[u8]) -> Result<(), Wrong> {
        let number = entry.last_chunk().map(|bytes| u64::from(u32::from_be_bytes(*bytes)));
        let mut start = [0; 8];
        start[..3].copy_from_slice(entry.get(..3).ok_or("a name in the index is too short")?);
        let key = u64::from_be_bytes(start) | number.unwrap_or(0) << 8;
        let is_right = Customer::may_have(&self.shape, key)
            && entry == name_key(&self.shape, key)
            && value.is_empty();
        if !is_right {
            return Err("the index of names has an entry of no customer");
        }
        self.customer_of(Customer::parts(key)).is_indexed = true;
        Ok(())
    }

    fn order_by_customer(&mut self, key: u64, value: &[u8]) -> Result<(), Wrong> {
        let (customer, n) = order_parts(key);
        let parts = Parts { n, ..key::parts(key) };
        let order = if self.shape.has_district(parts) { self.order_of(parts) } else { None };
        match order.filter(|book| u64::from(book.order.customer) == customer && value.is_empty()) {
            None => Err("the index of orders has an entry of none"),
            Some(book) => {
                book.is_indexed = true;
                Ok(())
            }
        }
    }

    fn district_of(&mut self, parts: Parts) -> &mut DistrictBook {
        &mut self.districts[self.shape.nth_district(parts) as usize]
    }

    fn customer_of(&mut self, parts: Parts) -> &mut CustomerBook {
        &mut self.customers[self.shape.nth_customer(parts) as usize]
    }

    fn order_of(&mut self, parts: Parts) -> Option<&mut OrderBook> {
        self.district_of(parts).orders.get_mut(parts.n.checked_sub(1)? as usize)
    }

    /// Compares the sums, when all rows were entered.
    ///
    /// # Errors
    /// The first condition that does not hold.
    pub(crate) fn close(&self) -> Result<(), Wrong> {
        let per_warehouse = self.shape.districts as usize;
        let districts = self.districts.chunks(per_warehouse);
        for (warehouse, districts) in self.warehouses.iter().zip(districts) {
            let ytd: i64 = districts.iter().map(|district| district.account.ytd).sum();
            require(warehouse.ytd == ytd, "condition 1: W_YTD is not the sum of D_YTD")?;
            require(warehouse.ytd == warehouse.paid, "condition 8: W_YTD is not what was paid")?;
        }
        self.districts.iter().try_for_each(DistrictBook::close)?;
        self.customers.iter().try_for_each(CustomerBook::close)?;
        let is_whole = self.items == self.shape.items
            && self.stocks_seen == self.shape.warehouses * self.shape.items;
        require(is_whole, "items or stocks are missing")
    }
}

impl DistrictBook {
    fn close(&self) -> Result<(), Wrong> {
        let Account { ytd, paid } = self.account;
        require(ytd == paid, "condition 9: D_YTD is not what was paid")?;
        require(
            u64::from(self.next_order) == self.orders.len() as u64 + 1,
            "condition 2: D_NEXT_O_ID is not behind the last order",
        )?;
        // Delivered are the oldest, so those that wait are without a gap and the last order is
        // among them.
        let waiting = self.orders.iter().map(|book| book.waits);
        require(waiting.is_sorted(), "conditions 2 and 3: the new orders are not the last ones")?;
        for OrderBook { order, lines, waits, is_indexed } in &self.orders {
            require(*waits == (order.carrier == 0), "condition 5: O_CARRIER_ID of a new order")?;
            require(*lines == order.lines, "conditions 4 and 6: O_OL_CNT is not the lines")?;
            require(*is_indexed, "the index of orders lacks one")?;
        }
        Ok(())
    }
}

impl CustomerBook {
    fn close(&self) -> Result<(), Wrong> {
        let row = self.row.ok_or("a customer is missing")?;
        let owed = self.delivered - self.paid;
        require(row.balance == owed, "condition 10: C_BALANCE is not the sum")?;
        require(row.deliveries == self.deliveries, "condition 11: C_DELIVERY_CNT")?;
        let spent = row.balance + row.ytd_payment;
        require(spent == self.delivered, "condition 12: C_BALANCE and C_YTD_PAYMENT")?;
        require(row.payments == self.payments, "C_PAYMENT_CNT is not the payments")?;
        require(self.is_indexed, "the index of names lacks a customer")
    }
}

fn require(holds: bool, else_wrong: Wrong) -> Result<(), Wrong> {
    if holds { Ok(()) } else { Err(else_wrong) }
}
