use outlast::typed::Pattern;

#[derive(Clone, Copy, Pattern)]
#[repr(u8)]
enum Colour {
    Red,
    Other(u8),
}

fn main() {}
