use outlast::Pool;
use outlast::typed::PBox;

fn cross(one: &Pool, other: &Pool) {
    one.typed(|one| {
        other.typed(|other| {
            let here = one.lane().unwrap().run(|tx| PBox::new(tx, 7u64)).unwrap();
            other.lane().unwrap().run(|tx| here.get(tx)).unwrap();
        });
    });
}

fn main() {}
