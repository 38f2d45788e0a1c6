use outlast::Pool;
use outlast::typed::PBox;

fn keep(pool: &Pool) {
    let kept = pool.typed(|pool| pool.lane().unwrap().run(|tx| PBox::new(tx, 7u64)).unwrap());
    pool.typed(|pool| pool.lane().unwrap().run(|tx| kept.get(tx)).unwrap());
}

fn main() {}
