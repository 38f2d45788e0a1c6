//! A reservation system, in the manner of STAMP's vacation: three tables of offers and a table of
//! customers, all red-black trees, and a list of reservations for each customer.
//!
//! Of ten transactions eight look at some offers of each table and reserve the dearest that is
//! free, one gives back everything that a customer has, one changes offers.

use outlast::collections::RbTree;
use outlast::{Abort, BlockKind, PoolOffset, RootKind, Runner, Transact};

use crate::Random;

/// An offer's value: how many in all, how many are free, the price.
const FREE_AT: u64 = 8;
const PRICE_AT: u64 = 16;
const OFFER_BYTES: u64 = 24;
const TABLES: usize = 3;
/// Offers that a transaction looks at in each table.
const LOOKS: usize = 4;
/// A reservation: the next, the table, the offer.
const RESERVATION_BYTES: u64 = 24;

/// Bytes of one offer in each table and a customer, about.
pub(super) const OFFER_FOOTPRINT: u64 = 3 * 80 + 64 + 32;

#[derive(Clone, Debug)]
pub(super) struct Vacation {
    tables: [RbTree; TABLES],
    customers: RbTree,
    offers: u64,
    pub(super) random: Random,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Reserve { customer: u64, looks: [[u64; LOOKS]; TABLES] },
    Cancel { customer: u64 },
    Change { table: usize, offer: u64, price: u64 },
}

impl Vacation {
    pub(super) fn load<R: Runner>(
        offers: u64,
        mut random: Random,
        runner: &mut R,
    ) -> Result<Self, Abort> {
        let (tables, customers) = runner.run(|tx| {
            let mut table = || RbTree::create(tx, OFFER_BYTES);
            let tables = [table()?, table()?, table()?];
            let customers = RbTree::create(tx, 8)?;
            tx.set_root(customers.root(), RootKind::RbTree)?;
            Ok((tables, customers))
        })?;
        for number in 0..offers {
            let costs: [u64; TABLES] = std::array::from_fn(|_| 50 + random.below(500));
            for (table, price) in tables.iter().zip(costs) {
                let mut offer = [0; OFFER_BYTES as usize];
                offer[..8].copy_from_slice(&100u64.to_le_bytes());
                offer[8..16].copy_from_slice(&100u64.to_le_bytes());
                offer[16..].copy_from_slice(&price.to_le_bytes());
                runner.run(|tx| table.insert(tx, number, &offer))?;
            }
            runner.run(|tx| customers.insert(tx, number, &[0; 8]))?;
        }
        Ok(Self { tables, customers, offers, random })
    }

    fn draw(&mut self) -> Action {
        let offers = self.offers;
        let random = &mut self.random;
        let customer = random.below(offers);
        match random.below(10) {
            0 => Action::Cancel { customer },
            1 => {
                let table = random.below(TABLES as u64) as usize;
                Action::Change { table, offer: random.below(offers), price: 50 + random.below(500) }
            }
            _ => {
                let mut look = || std::array::from_fn(|_| random.below(offers));
                Action::Reserve { customer, looks: [look(), look(), look()] }
            }
        }
    }

    pub(super) fn step<R: Runner>(&mut self, runner: &mut R) -> Result<(), Abort> {
        let action = self.draw();
        let (tables, customers) = (self.tables, self.customers);
        runner.run(|tx| match action {
            Action::Reserve { customer, looks } => {
                for (number, (table, looks)) in tables.iter().zip(looks).enumerate() {
                    reserve(tx, *table, number as u64, customers, customer, looks)?;
                }
                Ok(())
            }
            Action::Cancel { customer } => cancel(tx, &tables, customers, customer),
            Action::Change { table, offer, price } => match tables[table].find(tx, offer)? {
                Some(place) => tx.store_u64(place.at.plus(PRICE_AT), price),
                None => Ok(()),
            },
        })
    }
}

fn reserve<T: Transact>(
    tx: &mut T,
    table: RbTree,
    number: u64,
    customers: RbTree,
    customer: u64,
    looks: [u64; LOOKS],
) -> Result<(), Abort> {
    let mut dearest = None;
    for offer in looks {
        let Some(place) = table.find(tx, offer)? else { continue };
        let free = tx.load_u64(place.at.plus(FREE_AT))?;
        let price = tx.load_u64(place.at.plus(PRICE_AT))?;
        if free > 0 && dearest.is_none_or(|(most, _, _, _)| price > most) {
            dearest = Some((price, place.at, free, offer));
        }
    }
    let Some((_, at, free, offer)) = dearest else { return Ok(()) };
    let Some(list) = customers.find(tx, customer)? else { return Ok(()) };
    tx.store_u64(at.plus(FREE_AT), free - 1)?;
    let first = tx.load_u64(list.at)?;
    let reservation = tx.alloc(RESERVATION_BYTES, BlockKind::General)?;
    tx.store_u64(reservation, first)?;
    tx.store_u64(reservation.plus(8), number)?;
    tx.store_u64(reservation.plus(16), offer)?;
    tx.store_u64(list.at, reservation.0)
}

fn cancel<T: Transact>(
    tx: &mut T,
    tables: &[RbTree; TABLES],
    customers: RbTree,
    customer: u64,
) -> Result<(), Abort> {
    let Some(list) = customers.find(tx, customer)? else { return Ok(()) };
    let mut reservation = PoolOffset(tx.load_u64(list.at)?);
    while reservation.0 != 0 {
        let number = tx.load_u64(reservation.plus(8))? as usize;
        let offer = tx.load_u64(reservation.plus(16))?;
        if let Some(place) = tables[number % TABLES].find(tx, offer)? {
            let free = tx.load_u64(place.at.plus(FREE_AT))?;
            tx.store_u64(place.at.plus(FREE_AT), free + 1)?;
        }
        let next = tx.load_u64(reservation)?;
        tx.free(reservation)?;
        reservation = PoolOffset(next);
    }
    tx.store_u64(list.at, 0)
}
