//! Traces of real programs: every access with its address and the bytes it stored, the instructions
//! between them, system calls, and what memory held before and afterwards.
//!
//! `docs/trace-format.md` has the layout. Version 3 of our format is of this kind; versions 1 and 2
//! hold operations.

mod about;
mod convert;
mod cut;
mod encode;
mod facts;
mod merge;
mod order;
mod read;
mod section;
mod site;
// The plugin that captures uses all of it.
#[allow(dead_code)]
mod slot;
#[cfg(test)]
mod tests;
mod thread;
mod write;

pub use about::{About, Ending};
pub use convert::{
    Converted, champsim_of_drmemtrace, from_champsim, from_drmemtrace, to_champsim, to_drmemtrace,
};
pub use cut::{Part, cut, cut_parts};
pub use encode::ThreadEncoder;
pub use facts::{Checked, Facts, check};
pub use merge::{Step, in_order};
pub use order::{ThreadOrder, order};
pub use read::{Page, Program};
pub use site::{Site, SiteKind};
pub use thread::{Access, Execution, Happening, Thread};
pub use write::{Event, ProgramWriter};

use std::{
    io,
    path::{Path, PathBuf},
};

/// The version of programs' traces.
pub const PROGRAM_VERSION: u16 = 3;
/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// The last bytes of every such trace, behind the place of its last section.
const END_MAGIC: [u8; 8] = *b"OTREND\r\n";

/// Kinds of sections. Numbers are part of the format.
mod section_kind {
    pub const ABOUT: u8 = 1;
    pub const CODE: u8 = 2;
    pub const PAGES: u8 = 3;
    pub const STRETCH: u8 = 4;
    pub const FINAL: u8 = 5;
    pub const END: u8 = 6;
}

/// Kinds of events. Numbers are part of the format.
mod event_kind {
    pub const BLOCK: u8 = 1;
    pub const ACCESS: u8 = 2;
    pub const APPEND: u8 = 3;
    pub const SWITCH: u8 = 4;
    pub const SHORT: u8 = 5;
    pub const BLOCK_ONCE: u8 = 6;
    pub const SYSTEM_WRITE: u8 = 8;
    pub const CALL: u8 = 9;
    pub const RETURN: u8 = 10;
    pub const PLACE: u8 = 11;
    pub const SEEN: u8 = 12;
    pub const HANDLER: u8 = 13;
    pub const END: u8 = 14;
}

/// A program's trace that cannot be written or read.
#[derive(Debug)]
pub struct ProgramError {
    path: PathBuf,
    kind: ErrorKind,
}

#[derive(Debug)]
enum ErrorKind {
    Io(io::Error),
    NoTrace,
    Version(u16),
    CutOff,
    Damaged(String),
}

impl ProgramError {
    fn new(path: &Path, kind: ErrorKind) -> Self {
        Self { path: path.to_owned(), kind }
    }
}

impl std::fmt::Display for ProgramError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match &self.kind {
            ErrorKind::Io(error) => write!(f, "{path}: {error}"),
            ErrorKind::NoTrace => write!(f, "{path}: no trace of Outlast: it begins otherwise"),
            ErrorKind::Version(version @ 1..=2) => write!(
                f,
                "{path}: a trace of operations (version {version}), where one of a program \
                 (version {PROGRAM_VERSION}) is needed: capture one with `outlast trace`"
            ),
            ErrorKind::Version(version) => write!(
                f,
                "{path}: a trace of version {version}, where this program reads versions 1 to \
                 {PROGRAM_VERSION}: take a newer one"
            ),
            ErrorKind::CutOff => write!(f, "{path}: cut off: copy or capture it again"),
            ErrorKind::Damaged(what) => {
                write!(f, "{path}: damaged ({what}): copy or capture it again")
            }
        }
    }
}

impl std::error::Error for ProgramError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// System calls that write to something outside of the program, as Linux numbers them on x86-64: write,
/// pwrite64, writev, sendfile, sendto, sendmsg, splice, tee, vmsplice, pwritev, sendmmsg,
/// copy_file_range, pwritev2.
const OUTPUT_CALLS: [u32; 13] = [1, 18, 20, 40, 44, 46, 275, 276, 278, 296, 307, 326, 328];

/// Whether a system call is output of its program: what it does cannot be taken back.
pub fn is_output(call: u32) -> bool {
    OUTPUT_CALLS.contains(&call)
}

/// The system call by which a program marks its transactions; no kernel has it. Its first argument says
/// which mark: 1, 2, 3 for those of [`TxMark`].
pub const MARK_CALL: u32 = 20_300;

/// A mark of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxMark {
    /// A transaction begins.
    Begin,
    /// It ends.
    End,
    /// It is acknowledged: the program relies on it from here on.
    Ack,
}

/// The mark that a system call is, if it is one.
pub fn tx_mark(call: u32, arguments: &[u64; 3]) -> Option<TxMark> {
    match (call, arguments[0]) {
        (MARK_CALL, 1) => Some(TxMark::Begin),
        (MARK_CALL, 2) => Some(TxMark::End),
        (MARK_CALL, 3) => Some(TxMark::Ack),
        _ => None,
    }
}

/// Whether a file begins as traces of programs do. Not being readable is no error here.
pub fn is_program_trace(path: &Path) -> bool {
    let mut header = [0; 10];
    std::fs::File::open(path)
        .is_ok_and(|mut file| io::Read::read_exact(&mut file, &mut header).is_ok())
        && header[..8] == crate::otrace::MAGIC
        && u16::from_le_bytes([header[8], header[9]]) == PROGRAM_VERSION
}

/// A number that keeps small distances small: 0, -1, 1, -2 become 0, 1, 2, 3.
fn fold(distance: i64) -> u64 {
    (distance << 1 ^ distance >> 63) as u64
}

/// The distance of which [`fold`] made this.
fn unfold(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
