use outlast::typed::Persist;

#[derive(Clone, Copy)]
#[repr(u8)]
enum Colour {
    Red,
    Green,
}

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Lamp {
    colour: Colour,
}

fn main() {
    let _ = (Colour::Red, Colour::Green);
}
