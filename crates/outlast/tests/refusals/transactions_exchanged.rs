use outlast::FilePool;

fn exchange(one: &FilePool, other: &FilePool) {
    one.typed(|one| {
        other.typed(|other| {
            let (mut one, mut other) = (one.lane().unwrap(), other.lane().unwrap());
            one.run(|here| {
                other.run(|there| {
                    std::mem::swap(here.untyped(), there.untyped());
                    Ok(())
                })
            })
            .unwrap();
        });
    });
}

fn main() {}
