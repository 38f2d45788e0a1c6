use outlast::typed::Persist;

#[derive(Clone, Copy, Persist)]
struct Account {
    number: u64,
    balance: i64,
}

fn main() {}
