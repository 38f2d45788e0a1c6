//! The one vocabulary between software and machine: addresses, lines and operations.
//!
//! Everything that Outlast runs, be it the runtime on a [recorder](https://docs.rs/outlast-pmem), a
//! bare transaction or the trace of a real program, becomes a stream of [`Op`]s; caches, the
//! history, the crash emulator and the timed machine read nothing else. A [`Sink`] receives the
//! stream as it happens, an [`OpLog`] keeps it in memory so that one functional run can be played
//! through many caches.
//!
//! ```
//! use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, FlushKind, Sink};
//!
//! let mut log = OpLog::default();
//! let lane = LaneId(0);
//! log.op(lane, Op::Store { at: PoolOffset(72), bytes: &7u64.to_le_bytes() });
//! log.op(lane, Op::Flush { kind: FlushKind::Clwb, line: PoolOffset(72).line() });
//! log.op(lane, Op::Sfence);
//! assert_eq!(PoolOffset(72).line(), LineAddr(1));
//! assert_eq!(log.len(), 3);
//! ```
#![forbid(unsafe_code)]

mod addr;
#[cfg(feature = "champsim")]
mod champsim;
mod domain;
#[cfg(feature = "champsim")]
mod drmemtrace;
mod guarantee;
mod log;
#[cfg(feature = "names")]
mod nearest;
mod op;
#[cfg(feature = "champsim")]
mod otrace;
#[cfg(feature = "champsim")]
mod program;
mod random;
#[cfg(feature = "champsim")]
mod requests;
#[cfg(feature = "champsim")]
mod whole;

pub use addr::{ByteRange, LINE_BYTES, LineAddr, PoolOffset, line_pieces, word_pieces};
#[cfg(feature = "champsim")]
pub use champsim::{CHAMPSIM_INSTR_BYTES, ChampSimError, ChampSimInstr, ChampSimReader};
pub use domain::{Domain, DomainRow, UnknownDomain};
#[cfg(feature = "champsim")]
pub use drmemtrace::{DrmemtraceCounts, DrmemtraceError, is_drmemtrace, read_drmemtrace};
pub use guarantee::Guarantee;
pub use log::OpLog;
#[cfg(feature = "names")]
pub use nearest::{instead_of, nearest};
pub use op::{FlushKind, LaneId, Op, Sink, TxId};
#[cfg(feature = "champsim")]
pub use otrace::{TraceError, TraceWriter, is_trace, read_trace, write_trace};
#[cfg(feature = "champsim")]
pub use program::{
    About, Access, Checked, Converted, Ending, Event, Execution, Facts, Happening, MARK_CALL,
    PAGE_BYTES, PROGRAM_VERSION, Page, Part, Program, ProgramError, ProgramWriter, Site, SiteKind,
    Step, Thread, ThreadEncoder, ThreadOrder, TxMark, champsim_of_drmemtrace,
    check as check_program, cut as cut_program, cut_parts, from_champsim, from_drmemtrace,
    in_order, is_output, is_program_trace, order as order_of_threads, to_champsim, to_drmemtrace,
    tx_mark,
};
pub use random::{Random, derive, mix};
#[cfg(feature = "champsim")]
pub use requests::{Loss, MemoryAccess, RequestFormat, RequestList, RequestOptions, RequestsError};
#[cfg(feature = "champsim")]
pub use whole::{Scratch, WholeFile, write_whole};
