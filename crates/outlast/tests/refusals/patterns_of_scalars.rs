use std::num::NonZeroU64;

use outlast::typed::Persist;

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Account {
    number: NonZeroU64,
    initial: char,
    flags: [bool; 4],
}

fn main() {}
