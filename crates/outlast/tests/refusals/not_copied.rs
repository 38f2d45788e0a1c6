use outlast::typed::Persist;

#[derive(Persist)]
#[repr(C)]
struct Account {
    balance: i64,
}

fn main() {}
