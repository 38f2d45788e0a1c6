//! Our own traces: operations with their sizes, values, lanes and marks, compressed.
//!
//! `docs/trace-format.md` has the layout. A file ends with how many operations it holds, so one
//! that was cut off is recognised; the compression's checksum finds damage.

use crate::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, TxId};
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use std::{
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

/// What every trace begins with.
const MAGIC: [u8; 8] = *b"OTRACE\r\n";
/// The version that is written, and the only one that is read.
const VERSION: u16 = 1;
/// Bytes in front of the compressed records.
const HEADER_BYTES: usize = 16;
/// The longest store: more is damage.
const STORE_BYTES_MAX: u64 = 1 << 24;

/// Records. Numbers are part of the format.
mod code {
    pub const END: u8 = 0;
    pub const LANE: u8 = 1;
    pub const COMPUTE: u8 = 2;
    pub const LOAD: u8 = 3;
    pub const LOAD_DEPENDENT: u8 = 4;
    pub const STORE: u8 = 5;
    pub const STORE_NT: u8 = 6;
    pub const STORE_64: u8 = 7;
    pub const RMW: u8 = 8;
    pub const CLWB: u8 = 9;
    pub const CLFLUSHOPT: u8 = 10;
    pub const CLFLUSH: u8 = 11;
    pub const SFENCE: u8 = 12;
    pub const MFENCE: u8 = 13;
    pub const TX_BEGIN: u8 = 14;
    pub const TX_END: u8 = 15;
    pub const ACK: u8 = 16;
    pub const LOCK: u8 = 17;
    pub const UNLOCK: u8 = 18;
    pub const SIGNAL: u8 = 19;
    pub const WAIT: u8 = 20;
    pub const EPOCH: u8 = 21;
    pub const GROW: u8 = 22;
}

/// A trace that cannot be written or read.
#[derive(Debug)]
pub struct TraceError {
    path: PathBuf,
    kind: ErrorKind,
}

#[derive(Debug)]
enum ErrorKind {
    Io(io::Error),
    NoTrace,
    Version(u16),
    CutOff(u64),
    Damaged(u64),
}

impl std::fmt::Display for TraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match &self.kind {
            ErrorKind::Io(error) => write!(f, "{path}: {error}"),
            ErrorKind::NoTrace => write!(f, "{path}: no trace of Outlast: it begins otherwise"),
            ErrorKind::Version(version) => write!(
                f,
                "{path}: a trace of version {version}, where this program reads version \
                 {VERSION}: take a newer one"
            ),
            ErrorKind::CutOff(ops) => {
                write!(f, "{path}: cut off after {ops} operations: copy or record it again")
            }
            ErrorKind::Damaged(ops) => {
                write!(f, "{path}: damaged after {ops} operations: copy or record it again")
            }
        }
    }
}

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// Whether a file begins as our traces do. Not being readable is no error here.
pub fn is_trace(path: &Path) -> bool {
    let mut magic = [0; 8];
    File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok()) && magic == MAGIC
}

/// Writes operations as they happen. [`finish`](Self::finish) ends the file; without it readers
/// take it for one that was cut off.
pub struct TraceWriter {
    path: PathBuf,
    records: ZlibEncoder<BufWriter<File>>,
    buffer: Vec<u8>,
    state: State,
    ops: u64,
    failed: Option<io::Error>,
}

/// What records leave out because it follows from those before.
#[derive(Default)]
struct State {
    lane: LaneId,
    /// The last address of any lane, from which the next counts.
    at: u64,
}

impl TraceWriter {
    /// Begins a file; one that exists is replaced.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path) -> Result<Self, TraceError> {
        let failed = |error| TraceError { path: path.to_owned(), kind: ErrorKind::Io(error) };
        let mut file = BufWriter::new(File::create(path).map_err(failed)?);
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
                let end = self.records.finish().and_then(|mut file| file.flush());
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

    fn numbers(&mut self, code: u8, numbers: &[u64]) {
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
    if version != VERSION {
        return Err(error(ErrorKind::Version(version)));
    }
    let mut records = Records {
        input: BufReader::new(ZlibDecoder::new(file)),
        state: State::default(),
        data: Vec::new(),
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

/// A number, seven bits a byte, the lowest first; all but the last byte have their top bit set.
fn put(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_op() -> impl Strategy<Value = (u16, u8, u64, u64, Vec<u8>)> {
        let numbers = (any::<u64>(), any::<u64>(), 0..6u32);
        let bytes = proptest::collection::vec(any::<u8>(), 1..40);
        (0..4u16, 0..21u8, numbers, bytes).prop_map(|(lane, code, (a, b, shift), bytes)| {
            (lane, code, a >> (shift * 12), b >> (shift * 12), bytes)
        })
    }

    fn log_of(ops: &[(u16, u8, u64, u64, Vec<u8>)]) -> OpLog {
        let mut log = OpLog::default();
        for (lane, code, a, b, bytes) in ops {
            let (a, b, at) = (*a, *b, PoolOffset(*a));
            let (aligned, line) = (PoolOffset(a & !7), LineAddr(a >> 6));
            let words: Vec<u8> = bytes.iter().cycle().take(bytes.len() * 8).copied().collect();
            let whole = [bytes[0]; 64];
            let kinds = [FlushKind::Clwb, FlushKind::ClflushOpt, FlushKind::Clflush];
            let op = match code {
                0 => Op::Compute(a as u32),
                1 => Op::Load { at, len: b as u32, depends: None },
                2 => Op::Load { at, len: 8, depends: Some((b as u32) >> 1) },
                3 => Op::Store { at, bytes },
                4 => Op::StoreNt { at: aligned, bytes: &words },
                5 => Op::Store64 { line, bytes: &whole },
                6 => Op::Rmw { at: aligned, bytes: &words[..8] },
                7..10 => Op::Flush { kind: kinds[usize::from(code - 7)], line },
                10 => Op::Sfence,
                11 => Op::Mfence,
                12 => Op::TxBegin,
                13 => Op::TxEnd,
                14 => Op::Ack(TxId(a)),
                15 => Op::Lock { id: a, ticket: b },
                16 => Op::Unlock { id: a, ticket: b },
                17 => Op::Signal { id: a, count: b },
                18 => Op::Wait { id: a, count: b },
                19 => Op::Epoch,
                _ => Op::Grow { len: a },
            };
            log.op(LaneId(*lane), op);
        }
        log
    }

    fn read_bytes(bytes: &[u8]) -> Result<OpLog, TraceError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        read_trace(file.path())
    }

    fn bytes_of(log: &OpLog) -> Vec<u8> {
        let file = tempfile::NamedTempFile::new().unwrap();
        write_trace(file.path(), log).unwrap();
        assert!(is_trace(file.path()));
        std::fs::read(file.path()).unwrap()
    }

    proptest! {
        #[test]
        fn operations_come_back_as_they_were_written(
            ops in proptest::collection::vec(any_op(), 0..200),
        ) {
            let log = log_of(&ops);
            let back = read_bytes(&bytes_of(&log)).unwrap();
            prop_assert_eq!(back.iter().collect::<Vec<_>>(), log.iter().collect::<Vec<_>>());
        }

        #[test]
        fn what_is_cut_off_or_damaged_is_refused_in_one_line(
            ops in proptest::collection::vec(any_op(), 1..60), place in any::<u64>(), bit in 0..8u32,
        ) {
            let log = log_of(&ops);
            let whole = bytes_of(&log);
            let mut cut = whole.clone();
            cut.truncate((place % whole.len() as u64) as usize);
            let message = read_bytes(&cut).unwrap_err().to_string();
            prop_assert!(!message.contains('\n'), "{}", message);
            // Bytes 10 to 15 of the header are not used.
            let mut damaged = whole.clone();
            let at = 16 + (place % (whole.len() as u64 - 16)) as usize;
            damaged[at] ^= 1 << bit;
            match read_bytes(&damaged) {
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
                // A bit of the compression's own header that changes nothing.
                Ok(back) => prop_assert_eq!(
                    back.iter().collect::<Vec<_>>(),
                    log.iter().collect::<Vec<_>>()
                ),
            }
        }
    }

    #[test]
    fn an_end_that_is_not_that_of_the_operations_is_damage() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let written = |change: fn(&mut TraceWriter)| {
            let mut writer = TraceWriter::create(file.path()).unwrap();
            writer.op(LaneId(0), Op::Sfence);
            change(&mut writer);
            writer.finish().unwrap();
            read_trace(file.path()).map(|log| log.len()).map_err(|error| error.to_string())
        };
        assert_eq!(written(|_| ()), Ok(1));
        let message = written(|writer| writer.ops += 1).unwrap_err();
        assert!(message.contains("damaged after 1 operations"), "{message}");
        let message = written(|writer| writer.numbers(code::END, &[1])).unwrap_err();
        assert!(message.contains("damaged after 1 operations"), "{message}");
        let message = written(|writer| writer.buffer.push(200)).unwrap_err();
        assert!(message.contains("damaged after 1 operations"), "{message}");
    }

    #[test]
    fn other_files_and_newer_versions_are_named() {
        let mut newer = bytes_of(&log_of(&[(0, 10, 0, 0, vec![1])]));
        newer[8] = 2;
        let message = read_bytes(&newer).unwrap_err().to_string();
        assert!(message.contains("version 2") && message.contains("reads version 1"), "{message}");
        let message = read_bytes(&[7; 100]).unwrap_err().to_string();
        assert!(message.contains("no trace of Outlast"), "{message}");
        assert!(read_bytes(&[]).unwrap_err().to_string().contains("no trace of Outlast"));
        assert!(read_bytes(b"OTRACE\r\n").unwrap_err().to_string().contains("cut off"));
        assert!(read_trace(Path::new("/nowhere")).unwrap_err().to_string().contains("/nowhere"));
    }

    #[test]
    fn a_run_takes_few_bytes() {
        let mut log = OpLog::default();
        for k in 0..10_000u64 {
            log.op(LaneId(0), Op::Store { at: PoolOffset(8 * k), bytes: &k.to_le_bytes() });
            log.op(LaneId(0), Op::Flush { kind: FlushKind::Clwb, line: PoolOffset(8 * k).line() });
            log.op(LaneId(0), Op::Sfence);
        }
        let bytes = bytes_of(&log).len();
        assert!(bytes < 3 * 30_000, "{bytes} bytes of 30000 operations");
    }
}
