use outlast::typed::{PRbMap, TypedTx};
use outlast::{Abort, Transact};

fn make<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<PRbMap<'id, str, u64>, Abort> {
    PRbMap::new(tx)
}

fn main() {}
