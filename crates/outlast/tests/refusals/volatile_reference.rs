use outlast::typed::Persist;

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Person<'a> {
    born: u64,
    name: &'a u64,
}

fn main() {}
