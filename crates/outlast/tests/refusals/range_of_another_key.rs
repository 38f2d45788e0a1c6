use outlast::typed::{PBTreeMap, TypedTx};
use outlast::{Abort, Transact};

fn count<'id>(
    tx: &mut TypedTx<'id, '_, impl Transact>,
    by_key: PBTreeMap<'id, str, u64>,
) -> Result<usize, Abort> {
    Ok(by_key.range(tx, 1..9).count())
}

fn main() {}
