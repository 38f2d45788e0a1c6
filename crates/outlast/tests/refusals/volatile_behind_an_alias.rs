use outlast::typed::Persist;

type Name = String;

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Person {
    name: Name,
}

fn main() {}
