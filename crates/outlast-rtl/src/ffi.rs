//! The Verilated model as a shared object: the one file of this crate with unsafe code.

use std::path::Path;

use libloading::Library;

/// What the test bench drives in one cycle. Fields are named as the ports of `rtl/top.sv`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct In {
    pub req_data: [u64; 2],
    pub read_data: u64,
    pub boot_sequence: u64,
    pub req_addr: [u32; 2],
    pub boot_persisted: u32,
    pub header_addr: u32,
    pub rst: u8,
    pub bug: u8,
    pub advance: u8,
    pub bulk: u8,
    pub log_grow: u8,
    pub mem_ready: u8,
    pub read_valid: u8,
    pub ack_valid: u8,
    pub ack_kind: u8,
    pub boot_chunks: u8,
    pub req_valid: u8,
    pub req_op: [u8; 2],
    pub(crate) pad: [u8; 3],
}

/// What the model answers, before the cycle's edge.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Out {
    pub resp_data: [u64; 2],
    pub mem_data: u64,
    pub undo_data: [u64; 8],
    pub system_eid: u32,
    pub persisted_eid: u32,
    pub mem_addr: u32,
    pub undo_line: u32,
    pub home_line: u32,
    pub seen_line: u32,
    pub seen_eids: u16,
    pub resp_valid: u8,
    pub may_advance: u8,
    pub log_low: u8,
    pub mem_valid: u8,
    pub mem_write: u8,
    pub mem_kind: u8,
    pub undo_valid: u8,
    pub undo_modified: u8,
    pub undo_from: u8,
    pub undo_till: u8,
    pub home_valid: u8,
    pub home_mask: u8,
    pub block_starts: u8,
    pub block_durable: u8,
    pub scans: u8,
    pub violated: u8,
    pub seen: u8,
    pub seen_modified: u8,
    pub(crate) pad: [u8; 6],
}

/// The C++ object.
#[repr(C)]
struct Opaque([u8; 0]);

/// The functions of `shim.cpp`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Api {
    new: unsafe extern "C" fn() -> *mut Opaque,
    free: unsafe extern "C" fn(*mut Opaque),
    step: unsafe extern "C" fn(*mut Opaque, *const In, *mut Out),
}

impl Api {
    /// Loads a shared object that `verilate` has built. It stays loaded.
    pub(crate) fn load(path: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: the object was built from this crate's own sources; what it runs when it is loaded is
        // the initialisation of C++ statics.
        let library: &'static Library = Box::leak(Box::new(unsafe { Library::new(path) }?));
        // SAFETY: `shim.cpp` defines the four symbols with these signatures, and the library is never
        // unloaded, so the pointers stay valid.
        let (api, sizes) = unsafe {
            let sizes = library.get::<unsafe extern "C" fn() -> u32>(b"rtl_sizes")?;
            let api = Self {
                new: *library.get(b"rtl_new")?,
                free: *library.get(b"rtl_free")?,
                step: *library.get(b"rtl_step")?,
            };
            (api, sizes())
        };
        let ours = size_of::<In>() << 16 | size_of::<Out>();
        assert_eq!(sizes as usize, ours, "shim.cpp has structs of other sizes");
        Ok(api)
    }
}

/// One instance of the hardware.
#[derive(Debug)]
pub(crate) struct Model {
    api: Api,
    object: *mut Opaque,
}

impl Model {
    pub(crate) fn new(api: Api) -> Self {
        // SAFETY: takes nothing; returns an object that is this value's alone.
        Self { api, object: unsafe { (api.new)() } }
    }

    /// One cycle.
    pub(crate) fn step(&mut self, input: &In) -> Out {
        let mut out = Out::default();
        // SAFETY: the object is alive until `drop`; both structs have the layout of `shim.cpp`, whose
        // sizes `load` has compared, and are borrowed for the call.
        unsafe { (self.api.step)(self.object, input, &mut out) };
        out
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: `new` made it, and nothing uses it any more.
        unsafe { (self.api.free)(self.object) };
    }
}
