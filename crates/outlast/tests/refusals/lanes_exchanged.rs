use outlast::Pool;

fn exchange(one: &Pool, other: &Pool) {
    one.typed(|one| {
        other.typed(|other| {
            let (mut one, mut other) = (one.lane().unwrap(), other.lane().unwrap());
            std::mem::swap(&mut one, &mut other);
        });
    });
}

fn main() {}
