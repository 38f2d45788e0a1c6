//! Writing: each operation becomes a record at once.

use super::{ErrorKind, HEADER_BYTES, MAGIC, State, TraceError, VERSION, code};
use crate::{FlushKind, LaneId, Op, OpLog, PoolOffset, Sink, WholeFile};
use flate2::{Compression, write::ZlibEncoder};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Writes operations as they happen. The file is there as soon as [`finish`](Self::finish) ends
/// it, and without that never.
pub struct TraceWriter {
    path: PathBuf,
    records: ZlibEncoder<WholeFile>,
    pub(super) buffer: Vec<u8>,
    state: State,
    pub(super) ops: u64,
    failed: Option<io::Error>,
}

impl TraceWriter {
    /// Begins a file; one that exists is replaced.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> Result<Self, TraceError> {
        let failed = |error| TraceError { path: path.to_owned(), kind: ErrorKind::Io(error) };
        let mut file = WholeFile::create(path).map_err(failed)?;
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(&MAGIC);
        header[8..10].copy_from_slice(&VERSION.to_le_bytes());
        file.write_all(&header).map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            records: ZlibEncoder::new(file, Compression::default()),
            buffer: Vec::new(),
            state: State::default(),
            ops: 0,
            failed: None,
        })
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When something could not be written, now or before.
    pub fn finish(mut self) -> Result<(), TraceError> {
        self.buffer.push(code::END);
        put(&mut self.buffer, self.ops);
        self.write();
        let path = self.path;
        let failed = |error| TraceError { path: path.clone(), kind: ErrorKind::Io(error) };
        match self.failed {
            Some(error) => Err(failed(error)),
            None => {
                let end = self.records.finish().and_then(WholeFile::finish);
                end.map_err(failed)
            }
        }
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.records.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    fn address(&mut self, code: u8, at: u64) {
        self.buffer.push(code);
        let delta = at.wrapping_sub(self.state.at) as i64;
        put(&mut self.buffer, (delta << 1 ^ delta >> 63) as u64);
        self.state.at = at;
    }

    fn stored(&mut self, code: u8, at: PoolOffset, bytes: &[u8]) {
        self.address(code, at.0);
        put(&mut self.buffer, bytes.len() as u64);
        self.buffer.extend_from_slice(bytes);
    }

    pub(super) fn numbers(&mut self, code: u8, numbers: &[u64]) {
        self.buffer.push(code);
        numbers.iter().for_each(|number| put(&mut self.buffer, *number));
    }
}

impl Sink for TraceWriter {
    fn op(&mut self, lane: LaneId, op: Op<'_>) {
        if lane != self.state.lane {
            self.numbers(code::LANE, &[lane.0.into()]);
            self.state.lane = lane;
        }
        match op {
            Op::Compute(n) => self.numbers(code::COMPUTE, &[n.into()]),
            Op::Load { at, len, depends: None } => {
                self.address(code::LOAD, at.0);
                put(&mut self.buffer, len.into());
            }
            Op::Load { at, len, depends: Some(back) } => {
                self.address(code::LOAD_DEPENDENT, at.0);
                put(&mut self.buffer, len.into());
                put(&mut self.buffer, back.into());
            }
            Op::Store { at, bytes } => self.stored(code::STORE, at, bytes),
            Op::StoreNt { at, bytes } => self.stored(code::STORE_NT, at, bytes),
            Op::Rmw { at, bytes } => self.stored(code::RMW, at, bytes),
            Op::Store64 { line, bytes } => {
                self.address(code::STORE_64, line.start().0);
                self.buffer.extend_from_slice(bytes);
            }
            Op::Flush { kind, line } => {
                let code = match kind {
                    FlushKind::Clwb => code::CLWB,
                    FlushKind::ClflushOpt => code::CLFLUSHOPT,
                    FlushKind::Clflush => code::CLFLUSH,
                };
                self.address(code, line.start().0);
            }
            Op::Sfence => self.numbers(code::SFENCE, &[]),
            Op::Mfence => self.numbers(code::MFENCE, &[]),
            Op::TxBegin => self.numbers(code::TX_BEGIN, &[]),
            Op::TxEnd => self.numbers(code::TX_END, &[]),
            Op::TxAbort => self.numbers(code::TX_ABORT, &[]),
            Op::Ack(tx) => self.numbers(code::ACK, &[tx.0]),
            Op::Lock { id, ticket } => self.numbers(code::LOCK, &[id, ticket]),
            Op::Unlock { id, ticket } => self.numbers(code::UNLOCK, &[id, ticket]),
            Op::Signal { id, count } => self.numbers(code::SIGNAL, &[id, count]),
            Op::Wait { id, count } => self.numbers(code::WAIT, &[id, count]),
            Op::Epoch => self.numbers(code::EPOCH, &[]),
            Op::Grow { len } => self.numbers(code::GROW, &[len]),
        }
        self.ops += 1;
        if self.buffer.len() >= 1 << 16 {
            self.write();
        }
    }
}

/// Writes all operations of a log.
///
/// # Errors
/// When the file cannot be written.
pub fn write_trace(path: &Path, log: &OpLog) -> Result<(), TraceError> {
    let mut writer = TraceWriter::create(path)?;
    log.iter().for_each(|(lane, op)| writer.op(lane, op));
    writer.finish()
}

/// A number, seven bits a byte, the lowest first; all but the last byte have their top bit set.
fn put(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}
