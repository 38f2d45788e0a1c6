use std::rc::Rc;

use outlast::typed::{PVec, Persist};

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Person<'id> {
    name: String,
    friends: Vec<u64>,
    house: Box<u64>,
    employer: Option<Rc<u64>>,
    nicknames: PVec<'id, String>,
}

fn main() {}
