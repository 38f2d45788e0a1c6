use outlast::Pool;
use outlast::typed::{PBox, PPtr, PVec};

fn cross(one: &Pool, other: &Pool) {
    one.typed(|one| {
        other.typed(|other| {
            let here = one.lane().unwrap().run(|tx| PBox::new(tx, 7u64)).unwrap();
            other
                .lane()
                .unwrap()
                .run(|tx| {
                    let pointers: PVec<'_, PPtr<'_, u64>> = PVec::new(tx)?;
                    pointers.push(tx, here.ptr())
                })
                .unwrap();
        });
    });
}

fn main() {}
