use outlast::typed::{PHashMap, PVec, Persist, TypedTx};
use outlast::{Abort, Transact};

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Names<'id> {
    by_name: PHashMap<'id, String, u64>,
    of_bytes: PVec<'id, PHashMap<'id, Vec<u8>, u64>>,
}

fn make<'id>(
    tx: &mut TypedTx<'id, '_, impl Transact>,
) -> Result<PHashMap<'id, String, u64>, Abort> {
    PHashMap::new(tx)
}

fn main() {}
