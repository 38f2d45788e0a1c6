use outlast::FilePool;
use outlast::typed::PBox;

fn keep(pool: &FilePool) {
    let kept = pool.typed(|pool| pool.lane().unwrap().run(|tx| PBox::new(tx, 7u64)).unwrap());
    pool.typed(|pool| pool.lane().unwrap().run(|tx| kept.get(tx)).unwrap());
}

fn main() {}
