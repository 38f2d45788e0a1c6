use outlast::typed::Persist;

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Account {
    balance: i64,
    branch: u32,
}

fn main() {}
