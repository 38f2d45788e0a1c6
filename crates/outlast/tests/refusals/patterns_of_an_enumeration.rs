use outlast::typed::Persist;

#[derive(Clone, Copy, Persist)]
#[repr(u8)]
enum Colour {
    Red,
    Green,
}

fn main() {}
