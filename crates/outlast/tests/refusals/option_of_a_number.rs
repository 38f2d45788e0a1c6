use outlast::typed::{PVec, Persist, TypedTx};
use outlast::{Abort, Transact};

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Account {
    limit: Option<u64>,
}

fn make<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<PVec<'id, Option<u64>>, Abort> {
    PVec::new(tx)
}

fn main() {}
