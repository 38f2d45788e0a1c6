use outlast::typed::{PVec, TypedTx};
use outlast::{Abort, Transact};

fn double<'id>(
    tx: &mut TypedTx<'id, '_, impl Transact>,
    numbers: PVec<'id, u64>,
) -> Result<(), Abort> {
    for number in numbers.iter(tx) {
        numbers.push(tx, number?)?;
    }
    Ok(())
}

fn main() {}
