use outlast::Pool;

fn exchange(one: &Pool, other: &Pool) {
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
