//! Reading: record after record, each of which may be damaged or missing.

use super::{ErrorKind, HEADER_BYTES, MAGIC, STORE_BYTES_MAX, State, TraceError, VERSION, code};
use crate::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, TxId};
use flate2::read::ZlibDecoder;
use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
};

/// Reads a whole trace.
///
/// # Errors
/// When the file cannot be read, is no trace, is of another version, ends too early, or is damaged.
pub fn read_trace(path: &Path) -> Result<OpLog, TraceError> {
    let error = |kind| TraceError { path: path.to_owned(), kind };
    let mut file = BufReader::new(File::open(path).map_err(|e| error(ErrorKind::Io(e)))?);
    let mut header = [0; HEADER_BYTES];
    match file.read_exact(&mut header) {
        Err(_) if header[..8] == MAGIC => return Err(error(ErrorKind::CutOff(0))),
        Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => return Err(error(ErrorKind::Io(e))),
        _ if header[..8] != MAGIC => return Err(error(ErrorKind::NoTrace)),
        _ => {}
    }
    let version = u16::from_le_bytes([header[8], header[9]]);
    if !(1..=VERSION).contains(&version) {
        return Err(error(ErrorKind::Version(version)));
    }
    let mut records = Records {
        input: BufReader::new(ZlibDecoder::new(file)),
        state: State::default(),
        data: Vec::new(),
        version,
    };
    let mut log = OpLog::default();
    loop {
        match records.next(&mut log) {
            Ok(true) => {}
            Ok(false) => return Ok(log),
            Err(Broken::CutOff) => return Err(error(ErrorKind::CutOff(log.len() as u64))),
            Err(Broken::Damaged) => return Err(error(ErrorKind::Damaged(log.len() as u64))),
            Err(Broken::Io(e)) => return Err(error(ErrorKind::Io(e))),
        }
    }
}

enum Broken {
    CutOff,
    Damaged,
    Io(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::CutOff,
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => Self::Damaged,
            _ => Self::Io(error),
        }
    }
}

struct Records {
    input: BufReader<ZlibDecoder<BufReader<File>>>,
    state: State,
    data: Vec<u8>,
    version: u16,
}

impl Records {
    /// Appends the next operation; false at the end.
    fn next(&mut self, log: &mut OpLog) -> Result<bool, Broken> {
        let lane = self.state.lane;
        let code = self.byte()?;
        let op = match code {
            code::END => return self.end(log.len() as u64).map(|()| false),
            code::LANE => {
                let lane = u16::try_from(self.number()?).map_err(|_| Broken::Damaged)?;
                self.state.lane = LaneId(lane);
                return Ok(true);
            }
            code::COMPUTE => Op::Compute(self.small()?),
            code::LOAD => Op::Load { at: self.address()?, len: self.small()?, depends: None },
            code::LOAD_DEPENDENT => {
                Op::Load { at: self.address()?, len: self.small()?, depends: Some(self.small()?) }
            }
            code::STORE | code::STORE_NT | code::RMW => {
                let (at, len) = (self.address()?, self.number()?);
                let words = at.is_aligned(8) && len.is_multiple_of(8);
                let is_right = match code {
                    code::STORE => true,
                    code::STORE_NT => words,
                    _ => words && len == 8,
                };
                if len > STORE_BYTES_MAX || !is_right {
                    return Err(Broken::Damaged);
                }
                self.read(len as usize)?;
                let bytes = self.data.as_slice();
                match code {
                    code::STORE => Op::Store { at, bytes },
                    code::STORE_NT => Op::StoreNt { at, bytes },
                    _ => Op::Rmw { at, bytes },
                }
            }
            code::STORE_64 => {
                let line = self.line()?;
                self.read(64)?;
                Op::Store64 { line, bytes: self.data.first_chunk().expect("64 bytes were read") }
            }
            code::CLWB => Op::Flush { kind: FlushKind::Clwb, line: self.line()? },
            code::CLFLUSHOPT => Op::Flush { kind: FlushKind::ClflushOpt, line: self.line()? },
            code::CLFLUSH => Op::Flush { kind: FlushKind::Clflush, line: self.line()? },
            code::SFENCE => Op::Sfence,
            code::MFENCE => Op::Mfence,
            code::TX_BEGIN => Op::TxBegin,
            code::TX_END => Op::TxEnd,
            code::ACK => Op::Ack(TxId(self.number()?)),
            code::LOCK => Op::Lock { id: self.number()?, ticket: self.number()? },
            code::UNLOCK => Op::Unlock { id: self.number()?, ticket: self.number()? },
            code::SIGNAL => Op::Signal { id: self.number()?, count: self.number()? },
            code::WAIT => Op::Wait { id: self.number()?, count: self.number()? },
            code::EPOCH => Op::Epoch,
            code::GROW => Op::Grow { len: self.number()? },
            code::TX_ABORT if self.version > 1 => Op::TxAbort,
            _ => return Err(Broken::Damaged),
        };
        log.op(lane, op);
        Ok(true)
    }

    /// The end names the operations before it, and nothing follows.
    fn end(&mut self, ops: u64) -> Result<(), Broken> {
        if self.number()? != ops {
            return Err(Broken::Damaged);
        }
        // Reading on checks the checksum.
        match self.input.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(Broken::Damaged),
        }
    }

    fn byte(&mut self) -> Result<u8, Broken> {
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn number(&mut self) -> Result<u64, Broken> {
        let (mut number, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift > 63 || (part << shift) >> shift != part {
                return Err(Broken::Damaged);
            }
            number |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
            shift += 7;
        }
    }

    fn small(&mut self) -> Result<u32, Broken> {
        u32::try_from(self.number()?).map_err(|_| Broken::Damaged)
    }

    fn address(&mut self) -> Result<PoolOffset, Broken> {
        let coded = self.number()?;
        let delta = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        self.state.at = self.state.at.wrapping_add_signed(delta);
        Ok(PoolOffset(self.state.at))
    }

    fn line(&mut self) -> Result<LineAddr, Broken> {
        let at = self.address()?;
        if at.in_line() == 0 { Ok(at.line()) } else { Err(Broken::Damaged) }
    }

    fn read(&mut self, len: usize) -> Result<(), Broken> {
        self.data.resize(len, 0);
        Ok(self.input.read_exact(&mut self.data)?)
    }
}
