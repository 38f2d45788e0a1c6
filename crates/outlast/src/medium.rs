//! The memory that pools lie on, and the settings of each step between a file and a pool.
//!
//! A program opens a pool by [`Pool::options`](crate::Pool::options) and needs nothing of this module. It is for
//! pools on another medium than a file, for tests that crash one, and for measurements that set every knob:
//!
//! - [`Medium`] is memory that becomes durable line by line. [`Mapped`] is a mapped file, [`Overlay`] a medium
//!   whose stores stay in volatile memory, and a [`Snapshot`] what a [`PoolReader`](crate::PoolReader) reads. The crate `outlast-pmem` has others, among them a recorder for tests.
//! - [`MapOptions`] map a file, [`CreateOptions`] make a pool of a medium, and [`OpenOptions`] run it.
//!
//! ```
//! use outlast::medium::{CreateOptions, OpenOptions};
//! use outlast::{BlockKind, Pool, Runner, Transact};
//! use outlast_pmem::Heap;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let open = OpenOptions::default();
//! let pool = Pool::create_on(Heap::new(4 << 20), &CreateOptions::default(), &open)?;
//! let block = pool.lane()?.run(|tx| tx.alloc(64, BlockKind::General))?;
//! # let _ = block;
//! # Ok(())
//! # }
//! ```

pub use outlast_pmem::{MapOptions, Mapped, Medium, Overlay};
pub use outlast_trace::{LINE_BYTES, LineAddr};

pub use crate::pool::{CreateOptions, OpenOptions};
pub use crate::versions::Snapshot;
