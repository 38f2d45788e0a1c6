use outlast::typed::{Checked, PVec, Pattern, Persist, TypedTx};
use outlast::{Abort, Transact};

#[derive(Clone, Copy, Pattern)]
#[repr(u64)]
enum State {
    Open,
    Closed,
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Shop<'id> {
    goods: PVec<'id, u64>,
    state: Checked<State>,
}

fn open<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<Shop<'id>, Abort> {
    tx.root_or_new()?.get(tx)
}

fn main() {}
