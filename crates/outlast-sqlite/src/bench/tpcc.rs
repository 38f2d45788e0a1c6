//! TPC-C (revision 5.11) in SQL: nine tables with the specification's columns, and the indexes by
//! name and by customer.
//!
//! Requests are drawn as `outlast_workloads` draws them. Money is in cents, a moment is a
//! number, a cancelled order is rolled back when all its other work is done.

use outlast_workloads::Random;
use outlast_workloads::tpcc_terminals::{Basket, Paying, Request, Shape, Who, last_name, request};

use super::{Plan, statements};
use crate::client::{Client, ClientError, Value};

mod load;

pub(super) use load::load;

statements! {
    /// The statements of the five transactions.
    struct Statements {
        begin: "begin immediate",
        begin_reading: "begin",
        commit: "commit",
        rollback: "rollback",
        warehouse: "select w_tax, w_name from warehouse where w_id = ?",
        pay_warehouse: "update warehouse set w_ytd = w_ytd + ?2 where w_id = ?1",
        district: "select d_next_o_id, d_tax, d_name from district where d_w_id = ? and d_id = ?",
        pay_district: "update district set d_ytd = d_ytd + ?3 where d_w_id = ?1 and d_id = ?2",
        next_order: "update district set d_next_o_id = d_next_o_id + 1 where d_w_id = ? and d_id = ?",
        customer: "select c_balance, c_credit, c_discount, c_last, c_data from customer
            where c_w_id = ? and c_d_id = ? and c_id = ?",
        customers_named: "select c_id from customer where c_w_id = ? and c_d_id = ? and c_last = ?
            order by c_first",
        pay_customer: "update customer set c_balance = c_balance - ?4, c_ytd_payment = c_ytd_payment + ?4,
            c_payment_cnt = c_payment_cnt + 1 where c_w_id = ?1 and c_d_id = ?2 and c_id = ?3",
        note_customer: "update customer set c_data = substr(?4 || c_data, 1, 500)
            where c_w_id = ?1 and c_d_id = ?2 and c_id = ?3",
        deliver_customer: "update customer set c_balance = c_balance + ?4, c_delivery_cnt = c_delivery_cnt + 1
            where c_w_id = ?1 and c_d_id = ?2 and c_id = ?3",
        history: "insert into history values (?, ?, ?, ?, ?, ?, ?, ?)",
        order: "insert into orders values (?, ?, ?, ?, ?, null, ?, ?)",
        new_order: "insert into new_order values (?, ?, ?)",
        order_line: "insert into order_line values (?, ?, ?, ?, ?, ?, null, ?, ?, ?)",
        item: "select i_price, i_name, i_data from item where i_id = ?",
        stock: "select s_quantity, s_data, s_dist from stock where s_w_id = ? and s_i_id = ?",
        take: "update stock set s_quantity = ?3, s_ytd = s_ytd + ?4, s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + ?5 where s_w_id = ?1 and s_i_id = ?2",
        newest_order: "select o_id, o_carrier_id, o_entry_d from orders
            where o_w_id = ? and o_d_id = ? and o_c_id = ? order by o_id desc limit 1",
        lines: "select ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d from order_line
            where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?",
        oldest_new: "select no_o_id from new_order where no_w_id = ? and no_d_id = ?
            order by no_o_id limit 1",
        delete_new: "delete from new_order where no_w_id = ? and no_d_id = ? and no_o_id = ?",
        customer_of: "select o_c_id from orders where o_w_id = ? and o_d_id = ? and o_id = ?",
        carry: "update orders set o_carrier_id = ?4 where o_w_id = ?1 and o_d_id = ?2 and o_id = ?3",
        deliver_lines: "update order_line set ol_delivery_d = ?4
            where ol_w_id = ?1 and ol_d_id = ?2 and ol_o_id = ?3",
        amount: "select sum(ol_amount) from order_line where ol_w_id = ? and ol_d_id = ? and ol_o_id = ?",
        short: "select count(distinct s_i_id) from order_line join stock
            on s_w_id = ol_w_id and s_i_id = ol_i_id
            where ol_w_id = ?1 and ol_d_id = ?2 and ol_o_id >= ?3 - 20 and ol_o_id < ?3 and s_quantity < ?4",
    }
}

/// Terminals of all districts, one after the other.
pub(super) struct Terminal<'c> {
    statements: Statements<'c>,
    shape: Shape,
    random: Random,
    request: Request,
    now: i64,
}

/// Values of numbers.
macro_rules! ints {
    ($($value:expr),* $(,)?) => { [$(Value::Int($value as i64)),*] };
}
use ints;

impl<'c> Terminal<'c> {
    pub fn new(client: &'c Client<'c>, plan: &Plan, round: u64) -> Result<Self, ClientError> {
        let (shape, mut random) = (plan.shape, Random::stream(plan.seed, round));
        let request = request(&mut random, &shape);
        let now = (round as i64) << 32;
        Ok(Self { statements: Statements::prepare(client)?, shape, random, request, now })
    }
}

impl super::Terminal for Terminal<'_> {
    fn draw(&mut self) {
        self.request = request(&mut self.random, &self.shape);
        self.now += 1;
    }

    fn run(&mut self) -> Result<(), ClientError> {
        let Self { statements, request, now, shape, .. } = self;
        match request {
            Request::NewOrder(basket) => statements.enter_order(basket, *now),
            Request::Payment(paying) => statements.pay(paying, *now),
            Request::OrderStatus { w, d, who } => statements.status(*w, *d, *who),
            Request::Delivery { w, carrier } => statements.deliver(*w, shape, *carrier, *now),
            Request::StockLevel { w, d, threshold } => statements.level(*w, *d, *threshold),
        }
    }
}

impl Statements<'_> {
    /// Clause 2.4.
    fn enter_order(&mut self, basket: &Basket, now: i64) -> Result<(), ClientError> {
        let Basket { w, d, customer, lines } = basket;
        self.begin.execute(&[])?;
        self.warehouse.first(&ints![*w], |row| row.int(0))?;
        let number = self.district.first(&ints![*w, *d], |row| row.int(0))?.unwrap_or_default();
        self.next_order.execute(&ints![*w, *d])?;
        self.customer.first(&ints![*w, *d, *customer], |row| row.int(2))?;
        let is_local = lines.iter().all(|line| line.supplier == *w);
        self.order.execute(&ints![*w, *d, number, *customer, now, lines.len(), is_local])?;
        self.new_order.execute(&ints![*w, *d, number])?;
        for (nth, line) in (1..).zip(lines) {
            let Some(price) = self.item.first(&ints![line.item], |row| row.int(0))? else {
                return self.rollback.execute(&[]);
            };
            let from = (*d as usize - 1) * load::DIST_BYTES;
            let (stock, dist) = self
                .stock
                .first(&ints![line.supplier, line.item], |row| {
                    let dist = row.text(2);
                    let dist = dist.get(from..from + load::DIST_BYTES).unwrap_or_default();
                    (row.int(0), dist.to_owned())
                })?
                .unwrap_or_default();
            let quantity = i64::from(line.quantity);
            let left = stock - quantity + if stock - quantity >= 10 { 0 } else { 91 };
            let is_remote = line.supplier != *w;
            self.take.execute(&ints![line.supplier, line.item, left, quantity, is_remote])?;
            let [w, d, number, nth, item, supplier, quantity, amount] =
                ints![*w, *d, number, nth, line.item, line.supplier, quantity, quantity * price];
            let dist = Value::Text(&dist);
            self.order_line
                .execute(&[w, d, number, nth, item, supplier, quantity, amount, dist])?;
        }
        self.commit.execute(&[])
    }

    /// The number of a customer: by name, the one in the middle.
    fn find(&mut self, w: u64, d: u64, who: Who) -> Result<i64, ClientError> {
        let name = match who {
            Who::Number(number) => return Ok(number as i64),
            Who::Name(name) => name_of(name),
        };
        let mut found = Vec::new();
        let [w, d] = ints![w, d];
        let named = &mut self.customers_named;
        named.each(&[w, d, Value::Text(&name)], |row| found.push(row.int(0)))?;
        Ok(found.get(found.len().div_ceil(2).saturating_sub(1)).copied().unwrap_or(1))
    }

    /// Clause 2.5.
    fn pay(&mut self, paying: &Paying, now: i64) -> Result<(), ClientError> {
        let Paying { w, d, customer_w, customer_d, who, amount } = *paying;
        self.begin.execute(&[])?;
        self.pay_warehouse.execute(&ints![w, amount])?;
        let warehouse = self.warehouse.first(&ints![w], |row| row.text(1))?.unwrap_or_default();
        self.pay_district.execute(&ints![w, d, amount])?;
        let district = self.district.first(&ints![w, d], |row| row.text(2))?.unwrap_or_default();
        let number = self.find(customer_w, customer_d, who)?;
        let key = ints![customer_w, customer_d, number];
        let credit = self.customer.first(&key, |row| row.text(1))?.unwrap_or_default();
        self.pay_customer.execute(&ints![customer_w, customer_d, number, amount])?;
        if credit == load::BAD_CREDIT {
            let note = format!("{number} {customer_d} {customer_w} {d} {w} {amount} ");
            self.note_customer.execute(&[key[0], key[1], key[2], Value::Text(&note)])?;
        }
        let note = format!("{warehouse}    {district}");
        let [number, d_of, w_of, d, w, now, amount] =
            ints![number, customer_d, customer_w, d, w, now, amount];
        self.history.execute(&[number, d_of, w_of, d, w, now, amount, Value::Text(&note)])?;
        self.commit.execute(&[])
    }

    /// Clause 2.6.
    fn status(&mut self, w: u64, d: u64, who: Who) -> Result<(), ClientError> {
        self.begin_reading.execute(&[])?;
        let number = self.find(w, d, who)?;
        self.customer.first(&ints![w, d, number], |row| row.int(0))?;
        let order = self.newest_order.first(&ints![w, d, number], |row| row.int(0))?;
        self.lines.execute(&ints![w, d, order.unwrap_or_default()])?;
        self.commit.execute(&[])
    }

    /// Clause 2.7, for all districts at once.
    fn deliver(&mut self, w: u64, shape: &Shape, by: u8, now: i64) -> Result<(), ClientError> {
        self.begin.execute(&[])?;
        for d in 1..=shape.districts {
            let oldest = self.oldest_new.first(&ints![w, d], |row| row.int(0))?;
            let Some(order) = oldest else { continue };
            self.delete_new.execute(&ints![w, d, order])?;
            let customer = self.customer_of.first(&ints![w, d, order], |row| row.int(0))?;
            self.carry.execute(&ints![w, d, order, by])?;
            self.deliver_lines.execute(&ints![w, d, order, now])?;
            let amount = self.amount.first(&ints![w, d, order], |row| row.int(0))?;
            let (customer, amount) = (customer.unwrap_or_default(), amount.unwrap_or_default());
            self.deliver_customer.execute(&ints![w, d, customer, amount])?;
        }
        self.commit.execute(&[])
    }

    /// Clause 2.8.
    fn level(&mut self, w: u64, d: u64, threshold: i32) -> Result<(), ClientError> {
        self.begin_reading.execute(&[])?;
        let next = self.district.first(&ints![w, d], |row| row.int(0))?.unwrap_or_default();
        self.short.first(&ints![w, d, next, threshold], |row| row.int(0))?;
        self.commit.execute(&[])
    }
}

/// Consistency conditions 1 to 5 of clause 3.3.2, the fourth over all districts together; each counts what breaks it.
const CONDITIONS: [(&str, &str); 5] = [
    (
        "W_YTD is not the sum of D_YTD",
        "select count(*) from warehouse where w_ytd <> (select sum(d_ytd) from district where d_w_id = w_id)",
    ),
    (
        "D_NEXT_O_ID does not follow the last order",
        "select count(*) from district where d_next_o_id - 1 <>
            (select max(o_id) from orders where o_w_id = d_w_id and o_d_id = d_id)",
    ),
    (
        "the new orders of a district are not in sequence",
        "select count(*) from (select max(no_o_id) - min(no_o_id) + 1 - count(*) as gap
            from new_order group by no_w_id, no_d_id) where gap <> 0",
    ),
    (
        "O_OL_CNT is not the number of lines",
        "select (select sum(o_ol_cnt) from orders) <> (select count(*) from order_line)",
    ),
    (
        "an order is delivered and new, or neither",
        "select count(*) from orders where (o_carrier_id is null) <> exists (select 1 from new_order
            where no_w_id = o_w_id and no_d_id = o_d_id and no_o_id = o_id)",
    ),
];

/// The consistency condition that the tables break, if they break one.
pub(super) fn inconsistency(client: &Client<'_>) -> Result<Option<String>, ClientError> {
    for (what, sql) in CONDITIONS {
        if client.run(sql)? != ["0"] {
            return Ok(Some(what.to_owned()));
        }
    }
    Ok(None)
}

/// The last name of that number as a text.
fn name_of(number: u64) -> String {
    let name = last_name(number);
    String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
}
