use outlast::typed::Persist;

#[derive(Clone, Copy, Persist)]
#[repr(C)]
union Either {
    integer: u64,
    float: f64,
}

fn main() {}
