use outlast::typed::{PPtr, Persist, TypedTx};
use outlast::{Abort, Transact};

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Account {
    balance: i64,
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Person {
    born: i64,
}

fn read<'id>(
    tx: &mut TypedTx<'id, '_, impl Transact>,
    account: PPtr<'id, Account>,
) -> Result<i64, Abort> {
    account.at(Person::FIELDS.born).get(tx)
}

fn main() {}
