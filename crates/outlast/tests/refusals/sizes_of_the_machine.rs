use outlast::typed::Persist;

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Table {
    rows: usize,
}

fn main() {}
