use outlast::typed::Persist;

type Name = &'static str;

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Person {
    name: Name,
}

fn main() {}
