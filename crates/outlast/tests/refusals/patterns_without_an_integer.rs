use outlast::typed::Pattern;

#[derive(Clone, Copy, Pattern)]
enum Colour {
    Red,
    Green,
}

fn main() {}
