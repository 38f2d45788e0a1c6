use outlast::FilePool;

fn close(pool: FilePool) {
    pool.typed(|typed| {
        drop(pool);
        typed.lane().unwrap();
    });
}

fn main() {}
