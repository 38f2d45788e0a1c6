//! TPC-C's tables as they are before the first transaction (clause 4.3.3).

use outlast_workloads::Random;
use outlast_workloads::tpcc_terminals::{Shape, letters, name_at_load};

use super::{ints, name_of};
use crate::client::{Client, ClientError, Value};

/// Bytes of `S_DIST_xx`, of which the ten columns are one here.
pub(super) const DIST_BYTES: usize = 24;
/// `C_CREDIT` of one customer in ten.
pub(super) const BAD_CREDIT: &str = "BC";

const TABLES: &str = "
    create table warehouse(w_id integer primary key, w_name, w_address, w_tax, w_ytd);
    create table district(d_w_id int, d_id int, d_name, d_address, d_tax, d_ytd, d_next_o_id int,
        primary key (d_w_id, d_id));
    create table customer(c_w_id int, c_d_id int, c_id int, c_first, c_last, c_address, c_credit, c_discount,
        c_balance, c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data, primary key (c_w_id, c_d_id, c_id));
    create table history(h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date, h_amount, h_data);
    create table orders(o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d, o_carrier_id, o_ol_cnt,
        o_all_local, primary key (o_w_id, o_d_id, o_id));
    create table new_order(no_w_id int, no_d_id int, no_o_id int, primary key (no_w_id, no_d_id, no_o_id));
    create table order_line(ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_supply_w_id int,
        ol_delivery_d, ol_quantity, ol_amount, ol_dist_info, primary key (ol_w_id, ol_d_id, ol_o_id, ol_number));
    create table item(i_id integer primary key, i_name, i_price, i_data);
    create table stock(s_w_id int, s_i_id int, s_quantity, s_dist, s_ytd, s_order_cnt, s_remote_cnt, s_data,
        primary key (s_w_id, s_i_id));
    create index customer_by_name on customer(c_w_id, c_d_id, c_last, c_first);
    create index orders_by_customer on orders(o_w_id, o_d_id, o_c_id, o_id);";

/// The first payment of every customer.
const FIRST_PAYMENT: i64 = 1_000;

/// A text of `min` to `max` bytes.
fn text(random: &mut Random, min: usize, max: usize) -> String {
    let mut bytes = vec![0; min + random.below((max - min) as u64 + 1) as usize];
    letters(random, &mut bytes);
    String::from_utf8(bytes).expect("letters and digits")
}

pub fn load(client: &Client<'_>, shape: &Shape) -> Result<(), ClientError> {
    client.run(TABLES)?;
    let mut random = Random::new(shape.items);
    items(client, shape, &mut random)?;
    for w in 1..=shape.warehouses {
        stock(client, shape, w, &mut random)?;
        let paid = (shape.districts * shape.customers) as i64 * FIRST_PAYMENT;
        let (name, address) = (text(&mut random, 6, 10), text(&mut random, 60, 71));
        let [id, tax, paid] = ints![w, random.below(2_001), paid];
        let mut insert = client.prepare("insert into warehouse values (?, ?, ?, ?, ?)")?;
        insert.execute(&[id, Value::Text(&name), Value::Text(&address), tax, paid])?;
        for d in 1..=shape.districts {
            district(client, shape, (w, d), &mut random)?;
            customers(client, shape, (w, d), &mut random)?;
            orders(client, shape, (w, d), &mut random)?;
        }
    }
    Ok(())
}

fn items(client: &Client<'_>, shape: &Shape, random: &mut Random) -> Result<(), ClientError> {
    let mut insert = client.prepare("insert into item values (?, ?, ?, ?)")?;
    for id in 1..=shape.items {
        let (name, data) = (text(random, 14, 24), text(random, 26, 50));
        let [id, price] = ints![id, 100 + random.below(9_901)];
        insert.execute(&[id, Value::Text(&name), price, Value::Text(&data)])?;
    }
    Ok(())
}

fn stock(
    client: &Client<'_>,
    shape: &Shape,
    w: u64,
    random: &mut Random,
) -> Result<(), ClientError> {
    let mut insert = client.prepare("insert into stock values (?, ?, ?, ?, 0, 0, 0, ?)")?;
    for id in 1..=shape.items {
        let bytes = 10 * DIST_BYTES;
        let (dist, data) = (text(random, bytes, bytes), text(random, 26, 50));
        let [w, id, quantity] = ints![w, id, 10 + random.below(91)];
        insert.execute(&[w, id, quantity, Value::Text(&dist), Value::Text(&data)])?;
    }
    Ok(())
}

type Place = (u64, u64);

fn district(
    client: &Client<'_>,
    shape: &Shape,
    (w, d): Place,
    random: &mut Random,
) -> Result<(), ClientError> {
    let mut insert = client.prepare("insert into district values (?, ?, ?, ?, ?, ?, ?)")?;
    let (name, address) = (text(random, 6, 10), text(random, 60, 71));
    let (paid, next) = (shape.customers as i64 * FIRST_PAYMENT, shape.customers + 1);
    let [w, d, tax, paid, next] = ints![w, d, random.below(2_001), paid, next];
    insert.execute(&[w, d, Value::Text(&name), Value::Text(&address), tax, paid, next])
}

fn customers(
    client: &Client<'_>,
    shape: &Shape,
    (w, d): Place,
    random: &mut Random,
) -> Result<(), ClientError> {
    let mut insert =
        client.prepare("insert into customer values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 0, ?)")?;
    let mut history = client.prepare("insert into history values (?, ?, ?, ?, ?, 0, ?, ?)")?;
    for id in 1..=shape.customers {
        let last = match id <= shape.names() {
            true => id - 1,
            false => name_at_load(random, shape.names()),
        };
        let texts = [
            text(random, 8, 16),
            name_of(last),
            text(random, 60, 90),
            (if random.below(10) == 0 { BAD_CREDIT } else { "GC" }).to_owned(),
            text(random, 300, 500),
            text(random, 12, 24),
        ];
        let [first, last, address, credit, data, note] = texts.each_ref().map(|t| Value::Text(t));
        let discount = random.below(5_001);
        let [w, d, id, discount, balance, paid] =
            ints![w, d, id, discount, -FIRST_PAYMENT, FIRST_PAYMENT];
        insert.execute(&[w, d, id, first, last, address, credit, discount, balance, paid, data])?;
        history.execute(&[id, d, w, d, w, paid, note])?;
    }
    Ok(())
}

fn orders(
    client: &Client<'_>,
    shape: &Shape,
    (w, d): Place,
    random: &mut Random,
) -> Result<(), ClientError> {
    let mut order = client.prepare("insert into orders values (?, ?, ?, ?, 0, ?, ?, 1)")?;
    let mut carried = client.prepare(
        "update orders set o_carrier_id = null where o_w_id = ? and o_d_id = ? and o_id >= ?",
    )?;
    let mut new = client.prepare("insert into new_order values (?, ?, ?)")?;
    let mut line =
        client.prepare("insert into order_line values (?, ?, ?, ?, ?, ?, ?, 5, ?, ?)")?;
    let mut undelivered = client.prepare(
        "update order_line set ol_delivery_d = null where ol_w_id = ? and ol_d_id = ? and ol_o_id >= ?",
    )?;
    let mut customers: Vec<u64> = (1..=shape.customers).collect();
    for i in (1..customers.len()).rev() {
        customers.swap(i, random.below(i as u64 + 1) as usize);
    }
    let first_new = shape.customers - shape.first_new_orders() + 1;
    for (number, customer) in (1..).zip(customers) {
        let is_new = number >= first_new;
        let lines = 5 + random.below(11);
        order.execute(&ints![w, d, number, customer, 1 + random.below(10), lines])?;
        if is_new {
            new.execute(&ints![w, d, number])?;
        }
        for nth in 1..=lines {
            let (item, dist) =
                (1 + random.below(shape.items), text(random, DIST_BYTES, DIST_BYTES));
            let amount = if is_new { 1 + random.below(999_999) } else { 0 };
            let [w, d, number, nth, item, from, moment, amount] =
                ints![w, d, number, nth, item, w, 0, amount];
            let dist = Value::Text(&dist);
            line.execute(&[w, d, number, nth, item, from, moment, amount, dist])?;
        }
    }
    carried.execute(&ints![w, d, first_new])?;
    undelivered.execute(&ints![w, d, first_new])
}
