//! Persistent memory as software sees it.
//!
//! A [`Medium`] is byte-addressable memory that becomes durable line by line. The runtime is
//! written once against it; which one it runs on decides whether the bytes are real
//! (a mapped file and real flush instructions: [`Mapped`]), on the heap ([`Heap`], also under
//! Miri), or recorded for a crash checker and for the machine. What survives which failure is the
//! [`Domain`]. [`PageCache`] loses in a power cut what was not synced.
//! [`Counted`] and [`Delayed`] are [`Layer`]s over any medium, [`Overlay`] keeps what is stored to one to itself; [`measure_floor`]
//! tells what the hardware allows.
//!
//! ```
//! use outlast_pmem::{Heap, Medium};
//! use outlast_trace::PoolOffset;
//!
//! let medium = Heap::new(4096);
//! medium.store_u64(PoolOffset(64), 7);
//! medium.flush_range(PoolOffset(64), 8);
//! medium.fence(); // only now would it survive a power failure
//! assert_eq!(medium.load_u64(PoolOffset(64)), 7);
//! ```

#![deny(unsafe_code)]

#[cfg_attr(all(target_arch = "x86_64", not(outlast_portable), not(miri)), path = "cpu.rs")]
#[cfg_attr(
    all(target_arch = "aarch64", target_os = "linux", not(outlast_portable), not(miri)),
    path = "cpu_aarch64.rs"
)]
#[cfg_attr(
    any(
        outlast_portable,
        miri,
        not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux")))
    ),
    path = "cpu_portable.rs"
)]
#[allow(unsafe_code)]
mod cpu;
#[cfg(any(not(target_arch = "x86_64"), outlast_portable, miri))]
#[allow(unsafe_code)]
mod cpu_stored;

mod beside;
mod cache;
mod compute;
mod counted;
mod crc;
mod crossover;
mod delayed;
mod detect;
mod either;
mod error;
mod features;
mod fence_log;
mod file;
mod floor;
mod heap;
mod layer;
mod mapped;
mod medium;
mod overlay;
mod page_cache;
#[allow(unsafe_code)]
mod process;
mod recorder;
pub mod schedule;
mod side;
mod tagged;

pub use beside::read_beside;
pub use cache::{last_level_cache_bytes, prefetch_read, prefetch_write};
pub use compute::compute;
pub use counted::{Counted, Counters};
pub use cpu::{cpu_features, has_flush};
pub use crc::crc32c_in_stripes;
pub use delayed::{Delayed, WriteCost};
pub use detect::{Backing, Detection};
pub use either::Either;
pub use error::{MapError, MediumFailure, PAGE_BYTES};
pub use features::CpuFeatures;
pub use fence_log::{FENCE_LOG_BYTES_MIN, FenceLogBug, FenceRegion, FoundFences, read_fences};
pub use file::{file_len_limit, is_named, remove_if_free};
pub use floor::{FLOOR_LINES_MAX, FloorOptions, FloorReport, FloorRow, Pattern, measure_floor};
pub use heap::Heap;
pub use layer::{Access, Layer, Pass};
pub use mapped::{MapOptions, Mapped};
pub use medium::{Call, GrowError, InstructionCosts, Mark, Medium};
pub use outlast_trace::{Domain, UnknownDomain};
pub use overlay::Overlay;
pub use page_cache::PageCache;
pub use process::OwnerProcess;
pub use recorder::{Recorder, Site};
pub use side::{Memory, Place, Side};
pub use tagged::tagged_line;

/// The example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
