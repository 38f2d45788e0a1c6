//! QEMU's plugin interface, version 1, and the few of its own symbols that are used where they are
//! there. Debian does not package the header; `qemu-plugin.h` of QEMU 7.2 has the prototypes.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

/// A block of translated code, while it is translated.
#[repr(C)]
pub struct Tb {
    _opaque: [u8; 0],
}

/// An instruction of a block, while it is translated.
#[repr(C)]
pub struct Insn {
    _opaque: [u8; 0],
}

pub type PluginId = u64;
type VcpuCallback = extern "C" fn(PluginId, c_uint);
type TranslationCallback = extern "C" fn(PluginId, *mut Tb);
type ExecCallback = extern "C" fn(c_uint, *mut c_void);
type MemCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);
type SyscallCallback = extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
type SyscallReturnCallback = extern "C" fn(PluginId, c_uint, i64, i64);
type EndCallback = extern "C" fn(PluginId, *mut c_void);

/// Callbacks that touch no registers.
pub const NO_REGISTERS: c_int = 0;
/// Loads and stores.
pub const READS_AND_WRITES: c_int = 3;

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: PluginId, callback: VcpuCallback);
    pub fn qemu_plugin_register_vcpu_exit_cb(id: PluginId, callback: VcpuCallback);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, callback: TranslationCallback);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        callback: ExecCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        callback: MemCallback,
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: PluginId, callback: SyscallCallback);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: PluginId, callback: SyscallReturnCallback);
    pub fn qemu_plugin_register_atexit_cb(id: PluginId, callback: EndCallback, data: *mut c_void);
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, number: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_data(insn: *const Insn) -> *const c_void;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_insn_haddr(insn: *const Insn) -> *const c_void;
    pub fn qemu_plugin_insn_symbol(insn: *const Insn) -> *const c_char;
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: u32) -> bool;

    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Where the facts about an access stand in QEMU's word about it: found by asking its own functions,
/// which would cost two calls an access.
#[derive(Clone, Copy)]
pub struct InfoBits {
    /// Set for stores.
    pub store: u32,
    /// Lowest bit of the size's logarithm.
    pub size_at: u32,
}

impl InfoBits {
    /// Finds them; none if the functions answer in no such way.
    pub fn find() -> Option<Self> {
        // SAFETY: both are functions of any number.
        let is_store = |info| unsafe { qemu_plugin_mem_is_store(info) };
        // SAFETY: as above.
        let shift = |info| unsafe { qemu_plugin_mem_size_shift(info) };
        let store = (0..32).map(|bit| 1 << bit).filter(|info| is_store(*info));
        let store = store.fold(0, |all, bit: u32| all | bit);
        let size_at = (0..30)
            .find(|at| (0..8).all(|size| shift(size << at) == size))
            .or_else(|| (0..30).find(|at| (0..4).all(|size| shift(size << at) == size)))?;
        (store != 0).then_some(Self { store, size_at })
    }
}

/// Symbols of the program `qemu-x86_64` that are no part of the interface. A build may hide them.
struct Inside {
    page_flags: Option<extern "C" fn(u64) -> c_int>,
    cpu: Option<extern "C" fn(c_int) -> *mut c_void>,
    register: Option<extern "C" fn(*mut c_void, *mut GByteArray, c_int) -> c_int>,
    new_array: Option<extern "C" fn() -> *mut GByteArray>,
    free_array: Option<extern "C" fn(*mut GByteArray, c_int) -> *mut u8>,
}

/// GLib's growing array of bytes.
#[repr(C)]
struct GByteArray {
    data: *mut u8,
    len: c_uint,
}

fn inside() -> &'static Inside {
    static INSIDE: OnceLock<Inside> = OnceLock::new();
    INSIDE.get_or_init(|| {
        // SAFETY: the name ends with a zero, and null asks for all that is loaded.
        let find = |name: &std::ffi::CStr| unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
        // SAFETY: these are the functions' types in QEMU 7.2 and GLib 2; null becomes none.
        unsafe {
            Inside {
                page_flags: std::mem::transmute::<*mut c_void, Option<extern "C" fn(u64) -> c_int>>(
                    find(c"page_get_flags"),
                ),
                cpu: std::mem::transmute::<
                    *mut c_void,
                    Option<extern "C" fn(c_int) -> *mut c_void>,
                >(find(c"qemu_get_cpu")),
                register: std::mem::transmute::<
                    *mut c_void,
                    Option<extern "C" fn(*mut c_void, *mut GByteArray, c_int) -> c_int>,
                >(find(c"x86_cpu_gdb_read_register")),
                new_array: std::mem::transmute::<
                    *mut c_void,
                    Option<extern "C" fn() -> *mut GByteArray>,
                >(find(c"g_byte_array_new")),
                free_array: std::mem::transmute::<
                    *mut c_void,
                    Option<extern "C" fn(*mut GByteArray, c_int) -> *mut u8>,
                >(find(c"g_byte_array_free")),
            }
        }
    })
}

/// What the guest may do with the page at this address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// It has no such page.
    None,
    /// A page that it may not store to.
    Read,
    /// A page that it may store to.
    Write,
    /// This build does not tell.
    Unknown,
}

/// The guest's rights to a page.
pub fn rights(at: u64) -> Rights {
    /// `PAGE_VALID` of QEMU 7.2.
    const VALID: c_int = 8;
    /// `PAGE_WRITE` and `PAGE_WRITE_ORG`: the first is off where the page holds translated code.
    const WRITE: c_int = 0x12;
    match inside().page_flags {
        None => Rights::Unknown,
        Some(flags) => match flags(at) {
            flags if flags & VALID == 0 => Rights::None,
            flags if flags & WRITE == 0 => Rights::Read,
            _ => Rights::Write,
        },
    }
}

/// The stack pointer's number among GDB's registers of x86-64.
const STACK_POINTER: c_int = 7;

/// The stack pointer of a vCPU, which is in its place at the begin of a block; none if this build
/// does not tell.
pub fn stack_pointer(vcpu: c_uint) -> Option<u64> {
    let Inside { cpu, register, new_array, free_array, .. } = inside();
    let (cpu, register) = ((*cpu)?, (*register)?);
    let (new_array, free_array) = ((*new_array)?, (*free_array)?);
    let cpu = cpu(vcpu as c_int);
    if cpu.is_null() {
        return None;
    }
    let array = new_array();
    let bytes = register(cpu, array, STACK_POINTER);
    let value = (bytes == 8).then(|| {
        // SAFETY: the function has appended eight bytes.
        unsafe { (*array).data.cast::<u64>().read_unaligned() }
    });
    free_array(array, 1);
    value
}
