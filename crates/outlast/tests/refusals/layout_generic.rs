use outlast::typed::Persist;

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Pair<T> {
    one: T,
    other: T,
}

fn main() {}
