use outlast::Pool;

fn close(pool: Pool) {
    pool.typed(|typed| {
        drop(pool);
        typed.lane().unwrap();
    });
}

fn main() {}
