use outlast::typed::PBox;
use outlast::{Pool, Runner};

fn change(pool: &Pool) {
    pool.typed(|typed| {
        let number = typed.lane().unwrap().run(|tx| PBox::new(tx, 7u64)).unwrap();
        pool.lane().unwrap().run(|tx| number.set(tx, 8)).unwrap();
    });
}

fn main() {}
