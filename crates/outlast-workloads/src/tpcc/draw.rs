//! Requests of terminals (clauses 2.1.6 and 2.4 to 2.8).

use super::shape::{LINES_MAX, Shape};
use crate::Random;

/// Transactions of each kind in a hundred.
pub(crate) const MIX: [(Kind, u64); 5] = [
    (Kind::NewOrder, 45),
    (Kind::Payment, 43),
    (Kind::OrderStatus, 4),
    (Kind::Delivery, 4),
    (Kind::StockLevel, 4),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

/// One request. `w` is a warehouse, `d` a district of it; both count from 1.
#[derive(Clone, Debug)]
pub enum Request {
    /// Clause 2.4.
    NewOrder(Basket),
    /// Clause 2.5.
    Payment(Paying),
    /// Clause 2.6.
    #[allow(missing_docs)]
    OrderStatus { w: u64, d: u64, who: Who },
    /// Clause 2.7.
    #[allow(missing_docs)]
    Delivery { w: u64, carrier: u8 },
    /// Clause 2.8.
    #[allow(missing_docs)]
    StockLevel { w: u64, d: u64, threshold: i32 },
}

/// A customer's order.
#[derive(Clone, Debug)]
pub struct Basket {
    /// The warehouse.
    pub w: u64,
    /// The district.
    pub d: u64,
    /// The customer's number in the district.
    pub customer: u64,
    /// 5 to 15 lines.
    pub lines: Vec<Wanted>,
}

/// A line of an order.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// One above all items where the order is to be cancelled.
    pub item: u64,
    /// The warehouse that it comes from.
    pub supplier: u64,
    /// How many of it.
    pub quantity: u8,
}

/// A payment, and whose.
#[derive(Clone, Copy, Debug)]
pub struct Paying {
    /// The warehouse that is paid.
    pub w: u64,
    /// The district that is paid.
    pub d: u64,
    /// The customer's warehouse.
    pub customer_w: u64,
    /// The customer's district.
    pub customer_d: u64,
    /// The customer.
    pub who: Who,
    /// Cents.
    pub amount: i64,
}

/// A customer of a district.
#[derive(Clone, Copy, Debug)]
pub enum Who {
    /// Their number.
    Number(u64),
    /// The number of the last name.
    Name(u64),
}

/// The uneven distribution of clause 2.1.6 over `n` values from `first` on. `a` is the
/// specification's constant for `of` values; fewer or more values scale it to the nearest below
/// that is all ones.
fn uneven(random: &mut Random, (a, of): (u64, u64), c: u64, (first, n): (u64, u64)) -> u64 {
    let a = (1 << ((a * n / of).max(1) + 1).ilog2()) - 1;
    let either = random.below(a + 1) | (first + random.below(n));
    (either + c % (a + 1)) % n + first
}

// The constants `C`: those for last names must differ between load and run by 65 to 119, but
// not by 96 or 112 (clause 2.1.6.1).
const NAMES: (u64, u64) = (255, 1_000);
const NAME_AT_LOAD: u64 = 123;
const NAME_AT_RUN: u64 = 208;
const CUSTOMERS: (u64, u64, u64) = (1_023, 3_000, 259);
const ITEMS: (u64, u64, u64) = (8_191, 100_000, 7_911);

/// The last name of a customer behind the first thousand.
pub fn name_at_load(random: &mut Random, names: u64) -> u64 {
    uneven(random, NAMES, NAME_AT_LOAD, (0, names))
}

fn customer(random: &mut Random, shape: &Shape) -> u64 {
    uneven(random, (CUSTOMERS.0, CUSTOMERS.1), CUSTOMERS.2, (1, shape.customers))
}

fn item(random: &mut Random, shape: &Shape) -> u64 {
    uneven(random, (ITEMS.0, ITEMS.1), ITEMS.2, (1, shape.items))
}

/// Six in ten are asked for by their names.
fn who(random: &mut Random, shape: &Shape) -> Who {
    match random.below(100) < 60 {
        true => Who::Name(uneven(random, NAMES, NAME_AT_RUN, (0, shape.names()))),
        false => Who::Number(customer(random, shape)),
    }
}

/// Any warehouse but this one, if there is one.
fn other_warehouse(random: &mut Random, shape: &Shape, w: u64) -> u64 {
    match shape.warehouses {
        1 => w,
        n => (w + random.below(n - 1)) % n + 1,
    }
}

/// The next request. A worker stands for terminals of all warehouses.
pub fn request(random: &mut Random, shape: &Shape) -> Request {
    let mut choice = random.below(100);
    let falls_in = |&(_, share): &(Kind, u64)| {
        let inside = choice < share;
        choice = choice.wrapping_sub(share);
        inside
    };
    let kind = MIX.into_iter().find(falls_in).expect("the shares are a hundred").0;
    let w = 1 + random.below(shape.warehouses);
    let d = 1 + random.below(shape.districts);
    match kind {
        Kind::NewOrder => Request::NewOrder(basket(random, shape, w, d)),
        Kind::Payment => Request::Payment(paying(random, shape, w, d)),
        Kind::OrderStatus => Request::OrderStatus { w, d, who: who(random, shape) },
        Kind::Delivery => Request::Delivery { w, carrier: 1 + random.below(10) as u8 },
        Kind::StockLevel => Request::StockLevel { w, d, threshold: 10 + random.below(11) as i32 },
    }
}

fn basket(random: &mut Random, shape: &Shape, w: u64, d: u64) -> Basket {
    let customer = customer(random, shape);
    let count = 5 + random.below(LINES_MAX - 4);
    let cancels = random.below(100) == 0;
    let mut line = |nth| {
        let item = match cancels && nth + 1 == count {
            true => shape.items + 1,
            false => item(random, shape),
        };
        let is_remote = random.below(100) == 0;
        let supplier = if is_remote { other_warehouse(random, shape, w) } else { w };
        Wanted { item, supplier, quantity: 1 + random.below(10) as u8 }
    };
    Basket { w, d, customer, lines: (0..count).map(&mut line).collect() }
}

fn paying(random: &mut Random, shape: &Shape, w: u64, d: u64) -> Paying {
    let is_local = shape.warehouses == 1 || random.below(100) < 85;
    let (customer_w, customer_d) = match is_local {
        true => (w, d),
        false => (other_warehouse(random, shape, w), 1 + random.below(shape.districts)),
    };
    let who = who(random, shape);
    let amount = 100 + random.below(499_901) as i64;
    Paying { w, d, customer_w, customer_d, who, amount }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uneven_numbers_reach_all_values_and_prefer_some() {
        for n in [3, 9, 30, 3_000] {
            let mut random = Random::new(n);
            let mut counts = vec![0u64; n as usize];
            let draws = 200 * n;
            for _ in 0..draws {
                let drawn = uneven(&mut random, (1_023, 3_000), 259, (1, n));
                counts[drawn as usize - 1] += 1;
            }
            let never = counts.iter().filter(|&&count| count == 0).count() as u64;
            assert!(never <= n / 50, "{n}: {never} were never drawn");
            let most = counts.iter().max().unwrap();
            assert!(n < 9 || *most > 2 * draws / n, "{n}: {most} of {draws}");
        }
    }

    #[test]
    fn other_warehouses_are_any_but_this_one() {
        let mut random = Random::new(1);
        let shape = Shape { warehouses: 3, districts: 1, customers: 3, items: 10 };
        let mut seen = [0; 4];
        (0..300).for_each(|_| seen[other_warehouse(&mut random, &shape, 2) as usize] += 1);
        assert!(seen[0] == 0 && seen[2] == 0 && seen[1] > 100 && seen[3] > 100, "{seen:?}");
    }
}
