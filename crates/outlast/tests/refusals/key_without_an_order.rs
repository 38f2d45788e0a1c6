use outlast::typed::{PHashMap, TypedTx};
use outlast::{Abort, Transact};

fn make<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<PHashMap<'id, f64, u64>, Abort> {
    PHashMap::new(tx)
}

fn main() {}
