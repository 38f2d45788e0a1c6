//! Typed pools.

use outlast::typed::*;
use outlast::*;
use outlast_pmem::Heap;

#[derive(Clone, Copy, PartialEq, Debug, Persist)]
#[repr(C)]
struct Account {
    number: u64,
    balance: i64,
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Bank<'id> {
    accounts: PVec<'id, Account>,
    first: Option<PBox<'id, Node<'id>>>,
    opened: u64,
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Node<'id> {
    next: Option<PBox<'id, Node<'id>>>,
    bank: Option<PPtr<'id, Bank<'id>>>,
}

#[test]
fn thin() {
    let pool = Pool::create_on(Heap::new(1 << 20), &CreateOptions::default(), &OpenOptions::default()).unwrap();
    pool.typed(|pool| {
        let mut lane = pool.lane().unwrap();
        let bank = lane.run(|tx| tx.root_or_insert_with(|tx| Ok(Bank { accounts: PVec::new(tx)?, first: None, opened: 7 }))).unwrap();
        lane.run(|tx| {
            let accounts = bank.at(Bank::FIELDS.accounts).get(tx)?;
            for number in 0..100 { accounts.push(tx, Account { number, balance: 0 })?; }
            let third = accounts.item(tx, 3)?.unwrap();
            third.at(Account::FIELDS.balance).set(tx, -5)?;
            Ok(())
        }).unwrap();
        let all = lane.run(|tx| bank.get(tx)?.accounts.to_vec(tx)).unwrap();
        assert_eq!(all[3], Account { number: 3, balance: -5 });
        assert_eq!(all.len(), 100);
        println!("{}", Schema::of::<Bank<'_>>());
    });
}
