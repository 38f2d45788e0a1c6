use outlast::typed::Persist;

#[derive(Clone, Copy, Persist)]
#[repr(C)]
struct Callback {
    context: *const u8,
    call: fn(*const u8),
}

fn main() {}
