use outlast::typed::Persist;

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Account {
    kind: u8,
    balance: i64,
}

fn main() {}
