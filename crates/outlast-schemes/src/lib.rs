//! Crash-consistency schemes for the timed machine, one mechanism a folder and a line of [`ALL`].
//!
//! A program is a stream of *bare* transactions: `TxBegin`, loads and stores, `TxEnd`, `Ack`. A
//! [`HardwareScheme`] says which variants it has, what can be chosen ([`Key`]) and broken
//! ([`Plant`]), and is put under some [`Work`]; a [`MachineScheme`] is a variant by its name.
//!
//! - [`hwl`] logs in hardware, undo and redo, through the machine's ports ("Steal but no force",
//!   HPCA'18): with flushes behind commits (`hwl`) or with lines forced out by age (`fwb`). Its other
//!   variants log only one kind of values or leave out what makes it sound.
//! - `ehou` writes lines to free blocks and has the DIMM's address indirection say where they are
//!   ("Efficient hardware-assisted out-place update for persistent memory").
//! - `picl` and `frm` checkpoint any program at the end of epochs of instructions ("PiCL: A
//!   Software-Transparent, Persistent Cache Log for Nonvolatile Main Memory").
//! - [`software`] turns bare transactions into streams that log for themselves and flush with
//!   `clwb`, or flush nothing and promise nothing.
//! - `ideal` promises nothing, and the oracle finds it guilty; `skeleton` is the example to copy.
//!
//! Each has a recovery that sees an image and the place of its log and nothing else. It returns
//! its writes in their order, so that a crash during recovery can be tried too.
//!
//! ```
//! use outlast_schemes::Image;
//! use outlast_schemes::software::{Data, Initial, Logging, SoftwareLog, recover};
//! use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};
//!
//! let mut bare = OpLog::default();
//! for op in [Op::TxBegin, Op::Store { at: PoolOffset(8), bytes: &[7; 8] }, Op::TxEnd] {
//!     bare.op(LaneId(0), op);
//! }
//! let log = SoftwareLog { base: LineAddr(16), lines: 64, ring: false };
//! let logged = log.apply(Logging::Redo, Data::Flushed, Initial::default(), &bare)?;
//! assert!(logged.len() > bare.len());
//! assert_eq!(recover(Logging::Redo, log, 1, Image::new(&[0; 80 * 64]))?, []);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod ehou;
mod frm;
pub mod hwl;
mod ideal;
mod image;
mod journaling;
mod options;
mod patch;
pub mod picl;
mod plant;
mod redu;
mod scheme;
mod shadow;
mod shared;
mod skeleton;
pub mod software;
mod ssp;
mod thynvm;
mod work;

pub use image::{Image, LinesRead, whole_image};
pub use options::{Key, Options, PREFIX, Unit};
pub use patch::{Patch, RecoveryError, apply};
pub use plant::{AppliesTo, Breaks, Plant, Shown, UNORDERED};
pub use scheme::{
    HardwareScheme, LogRead, MachineScheme, PrepareError, Prepared, Reading, Variant, plants,
};
pub use shared::ait::{AIT_KEYS, AIT_PREFIX, ON as AIT_ON};
pub use shared::epoch::EPOCH;
pub use work::{Streams, Work, largest_transaction};

/// Every scheme: a folder, and its line here. The first is plain memory.
#[rustfmt::skip]
pub const ALL: &[&dyn HardwareScheme] = &[
    &ideal::Ideal,
    &software::Software,
    &hwl::HardwareLogging,
    &redu::HardwareRedo,
    &ssp::ShadowSubPaging,
    &ehou::OutOfPlace,
    &frm::UndoCheckpoints,
    &picl::CacheLog,
    &journaling::Journaling,
    &shadow::ShadowPaging,
    &thynvm::ThyNvm,
    &skeleton::Skeleton,
];

/// Instructions of a transaction's begin, an estimate: its argument, the call, the write of the
/// transaction's register (in software, of the log's variables), the return.
pub const BEGIN_INSTRUCTIONS: u32 = 4;

/// Instructions of a transaction's commit, an estimate: the call, what waits for the log, the
/// return. Flushes and fences are instructions of their own.
pub const COMMIT_INSTRUCTIONS: u32 = 3;
