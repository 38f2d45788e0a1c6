//! Our own code crashed: the runtime, damaged pools, and schemes of the timed machine.
//!
//! The search over images, its judge and the oracle of keys are [`outlast_check::memory`] and
//! [`outlast_check::oracle`], which know any program over a `Medium`; they are re-exported here. Only
//! [`runtime`] knows our own programs, and [`machine`] schemes of the timed machine. [`damage`] flips bits
//! of pools. [`front`] crashes and kills the front ends, for their tests.
//!
//! What a failing image looks like, and what recovery made of it, an
//! [`Explanation`](explain::Explanation) tells.
#![forbid(unsafe_code)]

pub mod damage;
pub mod explain;
pub mod front;
#[cfg(feature = "machine")]
pub mod machine;
#[cfg(feature = "machine")]
mod oracle;
pub mod runtime;

use outlast_check::caught;
pub use outlast_check::memory::*;
pub use outlast_check::oracle::{
    Anomaly, Call, Cell, Edge, Fault, Key, OddHistory, Oracle, SerialHistory, Transaction, Value,
    Version,
};
pub use outlast_check::shell;
use outlast_pmem::{Either, Heap, Medium, Recorder};
use outlast_trace::PoolOffset;

#[cfg(feature = "machine")]
use runtime::campaign::overlay::Overlay;

/// Media on which lanes run. The runtime and all workloads are compiled for each type of medium, hence one
/// for both.
type Live<'m> = Either<Heap, &'m Recorder>;

/// Media on which recoveries run.
#[cfg(feature = "machine")]
type CrashImage<'m> = Either<&'m Overlay, &'m ImageMedium>;

#[cfg(not(feature = "machine"))]
type CrashImage<'m> = Either<Heap, &'m ImageMedium>;

/// A pool's bytes on a medium of their own.
fn live(image: &[u8]) -> Live<'static> {
    Either::A(Heap::from_bytes(image))
}

/// The content of a medium.
fn bytes_of(medium: &impl Medium) -> Vec<u8> {
    let mut bytes = vec![0; medium.len() as usize];
    medium.load(PoolOffset(0), &mut bytes);
    bytes
}

#[cfg(feature = "machine")]
pub use oracle::epoch::{End as EpochEnd, Epochs as EpochOracle};
