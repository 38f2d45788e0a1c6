//! libpmemobj's functions, found at run time.
//!
//! Signatures are those of `libpmemobj/{pool_base,base,tx_base,ctl}.h`, API version 2.4 (PMDK
//! 1.8 and later). Nothing here needs the headers, or the library, to build.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::sync::OnceLock;

use libloading::Library;

/// The Debian and Ubuntu package that holds the library.
pub const DEBIAN_PACKAGE: &str = "libpmemobj1";

const SONAME: &str = "libpmemobj.so.1";

/// Makes libpmem flush caches on every mapping instead of calling `msync` on those that it does
/// not know to be persistent memory, such as `/dev/shm`. Read once, when the library is loaded.
const FORCE: &str = "PMEM_IS_PMEM_FORCE";

/// The version of libpmemobj's interface, which is not that of the package: PMDK 1.12 has 2.4.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ApiVersion {
    /// Incompatible versions differ here.
    pub major: u32,
    /// Rises with additions.
    pub minor: u32,
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The first version in which every function takes its "do not abort" flag.
const REQUIRED: ApiVersion = ApiVersion { major: 2, minor: 4 };

/// Why libpmemobj cannot be used here, in one line.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Missing {
    /// The library is not installed.
    #[error("{soname} cannot be loaded; on Debian and Ubuntu: apt-get install {DEBIAN_PACKAGE}")]
    Library {
        /// The name that was asked for.
        soname: String,
    },
    /// Something of that name is installed, but lacks a function.
    #[error("{soname} has no function {symbol}: not libpmemobj, or one older than PMDK 1.8")]
    Symbol {
        /// The name that was asked for.
        soname: String,
        /// The function.
        symbol: &'static str,
    },
    /// The library's interface is older than what is needed, or another altogether.
    #[error("libpmemobj does not offer API {REQUIRED}: {reason}")]
    Version {
        /// The library's own words.
        reason: String,
    },
    /// The environment has to change, and other threads may be reading it.
    #[error(
        "libpmemobj needs {FORCE}=1 in the environment before it is loaded: start the program \
         with it, or load libpmemobj before other threads start"
    )]
    Environment,
}

/// An object's identity inside libpmemobj.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Oid {
    pub pool_uuid_lo: u64,
    pub offset: u64,
}

/// `struct pobj_alloc_class_desc`.
#[repr(C)]
pub(crate) struct AllocClass {
    pub unit_size: usize,
    pub alignment: usize,
    pub units_per_block: c_uint,
    pub header_type: c_int,
    pub class_id: c_uint,
}

/// `POBJ_HEADER_NONE`.
pub(crate) const HEADER_NONE: c_int = 2;

/// `POBJ_XADD_NO_ABORT`, `POBJ_XALLOC_NO_ABORT`, `POBJ_XFREE_NO_ABORT`: report a failure and
/// leave the transaction to its owner, instead of a `longjmp` or an abort under its feet.
pub(crate) const NO_ABORT: u64 = 1 << 4;

/// `POBJ_CLASS_ID`.
pub(crate) const fn class_flag(id: u8) -> u64 {
    (id as u64) << 48
}

/// A pool that libpmemobj has opened. Its address is that of the pool's first byte.
#[repr(C)]
pub(crate) struct RawPool {
    _opaque: [u8; 0],
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal: fn($($arg:ty),* $(,)?) $(-> $ret:ty)?;)*) => {
        /// One pointer per function. Callers keep the C contract of each.
        pub(crate) struct Api {
            $($(#[$doc])* pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
            /// Variadic: after the jump buffer follow lock parameters, ended by a zero.
            pub tx_begin: unsafe extern "C" fn(*mut RawPool, *mut c_void, ...) -> c_int,
        }

        impl Api {
            fn resolve(library: &Library, soname: &str) -> Result<Self, Missing> {
                let missing = |symbol| Missing::Symbol { soname: soname.to_owned(), symbol };
                Ok(Self {
                    $($name: {
                        // SAFETY: the signature is the one that libpmemobj's header declares
                        // for this name, and the library is never unloaded.
                        *unsafe { library.get($symbol) }.map_err(|_| missing($symbol))?
                    },)*
                    tx_begin: {
                        // SAFETY: as above.
                        *unsafe { library.get("pmemobj_tx_begin") }
                            .map_err(|_| missing("pmemobj_tx_begin"))?
                    },
                })
            }
        }
    };
}

functions! {
    check_version = "pmemobj_check_version": fn(c_uint, c_uint) -> *const c_char;
    errormsg = "pmemobj_errormsg": fn() -> *const c_char;
    create = "pmemobj_create": fn(*const c_char, *const c_char, usize, c_uint) -> *mut RawPool;
    open = "pmemobj_open": fn(*const c_char, *const c_char) -> *mut RawPool;
    close = "pmemobj_close": fn(*mut RawPool);
    check = "pmemobj_check": fn(*const c_char, *const c_char) -> c_int;
    ctl_set = "pmemobj_ctl_set": fn(*mut RawPool, *const c_char, *mut c_void) -> c_int;
    root = "pmemobj_root": fn(*mut RawPool, usize) -> Oid;
    tx_commit = "pmemobj_tx_commit": fn();
    tx_abort = "pmemobj_tx_abort": fn(c_int);
    tx_end = "pmemobj_tx_end": fn() -> c_int;
    tx_add_range = "pmemobj_tx_xadd_range_direct": fn(*const c_void, usize, u64) -> c_int;
    tx_alloc = "pmemobj_tx_xalloc": fn(usize, u64, u64) -> Oid;
    tx_free = "pmemobj_tx_xfree": fn(Oid, u64) -> c_int;
}

/// libpmemobj, loaded into this process, where it stays.
#[derive(Clone, Copy)]
pub struct Pmdk {
    api: &'static Api,
    version: ApiVersion,
}

impl Pmdk {
    /// Loads the library, once per process.
    ///
    /// `PMEM_IS_PMEM_FORCE=1` must be in the environment before. If it is not, it is put there,
    /// which is only safe while no other thread exists: call this early in `main`.
    ///
    /// # Errors
    /// [`Missing`], whose text tells what to do. The answer does not change later.
    pub fn load() -> Result<Self, Missing> {
        static LOADED: OnceLock<Result<Pmdk, Missing>> = OnceLock::new();
        LOADED.get_or_init(|| force_flushing().and_then(|()| Self::load_as(SONAME))).clone()
    }

    /// Which libpmemobj would be used.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn available() -> Result<ApiVersion, Missing> {
        Self::load().map(|pmdk| pmdk.version)
    }

    /// The version of the library's interface.
    pub fn version(&self) -> ApiVersion {
        self.version
    }

    /// Makes the library touch every page of a pool when it creates one, so that no measured
    /// access waits for the kernel.
    ///
    /// # Errors
    /// [`Missing::Version`] when the library has no such setting.
    pub fn prefault_new_pools(&self) -> Result<(), Missing> {
        set_global(self.api, c"prefault.at_create", 1)
    }

    fn load_as(soname: &str) -> Result<Self, Missing> {
        // SAFETY: libpmemobj's constructors only read the environment and set up its own state;
        // no other library of this name exists.
        let library = unsafe { Library::new(soname) }
            .map_err(|_| Missing::Library { soname: soname.to_owned() })?;
        // It has thread-local state with destructors, so it is never unloaded.
        let library: &'static Library = Box::leak(Box::new(library));
        let api = Api::resolve(library, soname)?;
        let version = newest_version(&api)?;
        switch_off_shutdown_state(&api)?;
        Ok(Self { api: Box::leak(Box::new(api)), version })
    }

    #[inline]
    pub(crate) fn api(&self) -> &'static Api {
        self.api
    }

    /// The library's message about its last failure on this thread.
    pub(crate) fn last_error(&self) -> String {
        // SAFETY: takes nothing, returns a null pointer or a string that lives until this
        // thread's next call into the library; it is copied at once.
        unsafe { text((self.api.errormsg)()) }.unwrap_or_else(|| "unknown error".to_owned())
    }
}

impl fmt::Debug for Pmdk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pmdk").field("version", &self.version).finish_non_exhaustive()
    }
}

/// The library only answers whether it is at least some version, so ask for ever more.
fn newest_version(api: &Api) -> Result<ApiVersion, Missing> {
    let refusal = |minor| {
        // SAFETY: takes two numbers, returns null or a string that lives until this thread's
        // next call into the library; it is copied at once.
        unsafe { text((api.check_version)(REQUIRED.major, minor)) }
    };
    if let Some(reason) = refusal(REQUIRED.minor) {
        return Err(Missing::Version { reason });
    }
    let mut version = REQUIRED;
    while version.minor < 1000 && refusal(version.minor + 1).is_none() {
        version.minor += 1;
    }
    Ok(version)
}

/// Makes new pools keep no count of unsafe shutdowns. The count tells, when a pool is opened,
/// that an NVDIMM's energy store failed; it costs transactions nothing, but memory that is no
/// NVDIMM does not keep it, and creating a pool there fails.
fn switch_off_shutdown_state(api: &Api) -> Result<(), Missing> {
    set_global(api, c"sds.at_create", 0)
}

/// Changes one of the library's global settings that take an `int`.
fn set_global(api: &Api, name: &CStr, value: c_int) -> Result<(), Missing> {
    let mut value = value;
    // SAFETY: a null pool addresses global settings; the name is a C string; the entry points
    // that callers name read one int.
    let result = unsafe {
        (api.ctl_set)(std::ptr::null_mut(), name.as_ptr(), (&raw mut value).cast::<c_void>())
    };
    if result == 0 {
        return Ok(());
    }
    let reason = format!("it has no setting {}", name.to_string_lossy());
    Err(Missing::Version { reason })
}

/// # Safety
/// `message` is null or a C string that no other thread changes meanwhile.
unsafe fn text(message: *const c_char) -> Option<String> {
    if message.is_null() {
        return None;
    }
    // SAFETY: not null, so by the caller's promise a C string.
    Some(unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned())
}

/// Puts the variable into the environment, unless it is set already.
fn force_flushing() -> Result<(), Missing> {
    if std::env::var_os(FORCE).is_some() {
        return Ok(());
    }
    if !single_threaded() {
        return Err(Missing::Environment);
    }
    // SAFETY: no other thread exists, so none reads or writes the environment.
    unsafe { std::env::set_var(FORCE, "1") };
    Ok(())
}

/// Whether this is known to be the process's only thread.
fn single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() == 1)
}

/// Whether libpmem takes every mapping for persistent memory in this process.
pub(crate) fn flushing_is_forced() -> bool {
    std::env::var_os(FORCE).is_some_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_named_with_its_package() {
        let missing = Pmdk::load_as("libpmemobj-of-another-world.so.9").unwrap_err();
        let line = missing.to_string();
        assert!(line.contains("libpmemobj-of-another-world.so.9"), "{line}");
        assert!(line.contains("apt-get install libpmemobj1"), "{line}");
        assert!(!line.contains('\n'), "{line}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn another_library_is_not_taken_for_libpmemobj() {
        let missing = Pmdk::load_as("libc.so.6").unwrap_err();
        assert!(matches!(missing, Missing::Symbol { .. }), "{missing}");
    }

    #[test]
    fn the_version_found_is_at_least_the_one_required() {
        match Pmdk::available() {
            Ok(version) => assert!(version >= REQUIRED, "{version}"),
            Err(missing) => eprintln!("not tested: {missing}"),
        }
    }
}
