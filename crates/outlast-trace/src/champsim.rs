//! Traces of real programs as ChampSim reads them: 64 bytes an instruction, raw or compressed.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | address of the instruction |
//! | 8 | 1 for a branch |
//! | 9 | 1 for a branch that was taken |
//! | 10..12 | registers written, 0 for none |
//! | 12..16 | registers read, 0 for none |
//! | 16..32 | two addresses stored to, 0 for none |
//! | 32..64 | four addresses loaded from, 0 for none |
//!
//! All numbers are little-endian. The format says neither how many bytes an access has nor what
//! was stored.
//!
//! The format has no magic either, so every instruction is looked at: flags are 0 or 1, and
//! addresses are canonical, which text, archives and images soon are not.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

/// Bytes of one instruction.
pub const CHAMPSIM_INSTR_BYTES: usize = 64;
/// Instructions that are read at once.
const CHUNK: usize = 4096;

/// One instruction of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ChampSimInstr {
    /// Its address.
    pub ip: u64,
    /// Whether it is a branch.
    pub is_branch: bool,
    /// Whether that branch was taken.
    pub taken: bool,
    /// Registers it writes; 0 is none.
    pub destination_registers: [u8; 2],
    /// Registers it reads; 0 is none.
    pub source_registers: [u8; 4],
    /// Virtual addresses it stores to; 0 is none.
    pub destination_memory: [u64; 2],
    /// Virtual addresses it loads from; 0 is none.
    pub source_memory: [u64; 4],
}

impl ChampSimInstr {
    /// Register number of the stack pointer.
    pub const STACK_POINTER: u8 = 6;
    /// Register number of the flags.
    pub const FLAGS: u8 = 25;
    /// Register number of the instruction pointer.
    pub const INSTRUCTION_POINTER: u8 = 26;

    /// The instruction in 64 bytes of a trace.
    pub fn decode(bytes: &[u8; CHAMPSIM_INSTR_BYTES]) -> Self {
        let word = |at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes were taken"))
        };
        Self {
            ip: word(0),
            is_branch: bytes[8] != 0,
            taken: bytes[9] != 0,
            destination_registers: [bytes[10], bytes[11]],
            source_registers: [bytes[12], bytes[13], bytes[14], bytes[15]],
            destination_memory: [word(16), word(24)],
            source_memory: [word(32), word(40), word(48), word(56)],
        }
    }

    /// The impossible part of 64 bytes, if there is one: flags other than 0 and 1, or
    /// an address that no processor takes.
    fn implausible(bytes: &[u8; CHAMPSIM_INSTR_BYTES]) -> Option<String> {
        let instr = Self::decode(bytes);
        if bytes[8] > 1 || bytes[9] > 1 {
            return Some(format!("its branch flags are {} and {}", bytes[8], bytes[9]));
        }
        if instr.ip == 0 {
            return Some("its address is 0".to_owned());
        }
        let memory = instr.destination_memory.iter().chain(&instr.source_memory);
        let strange = std::iter::once(&instr.ip).chain(memory).find(|at| !is_canonical(**at));
        strange.map(|at| format!("{at:#x} is no address"))
    }

    /// The 64 bytes that say so.
    pub fn encode(&self) -> [u8; CHAMPSIM_INSTR_BYTES] {
        let mut bytes = [0; CHAMPSIM_INSTR_BYTES];
        bytes[..8].copy_from_slice(&self.ip.to_le_bytes());
        bytes[8] = self.is_branch.into();
        bytes[9] = self.taken.into();
        bytes[10..12].copy_from_slice(&self.destination_registers);
        bytes[12..16].copy_from_slice(&self.source_registers);
        let memory = self.destination_memory.iter().chain(&self.source_memory);
        for (at, address) in memory.enumerate() {
            bytes[16 + 8 * at..][..8].copy_from_slice(&address.to_le_bytes());
        }
        bytes
    }
}

/// Whether an address is one of 57 bits, as processors with five levels of page tables have them.
fn is_canonical(at: u64) -> bool {
    let above = at as i64 >> 56;
    above == 0 || above == -1
}

/// A trace that cannot be read on.
#[derive(Debug)]
pub struct ChampSimError {
    path: PathBuf,
    kind: ErrorKind,
}

#[derive(Debug)]
enum ErrorKind {
    Io(io::Error),
    Partial { instructions: u64, bytes: usize },
    Empty,
    NoTrace { instruction: u64, why: String, archive: bool },
}

impl std::fmt::Display for ChampSimError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.display();
        match &self.kind {
            ErrorKind::Io(error) => write!(f, "{path}: {error}"),
            ErrorKind::Partial { instructions, bytes } => write!(
                f,
                "{path}: {bytes} bytes follow instruction {instructions}, where 64 make one: it \
                 is cut off, or no ChampSim trace"
            ),
            ErrorKind::Empty => write!(f, "{path}: empty, where 64 bytes make an instruction"),
            ErrorKind::NoTrace { instruction, why, archive } => {
                write!(f, "{path}: no ChampSim trace: of instruction {instruction} {why}")?;
                f.write_str(if *archive { "; it is a tar archive: unpack it" } else { "" })
            }
        }
    }
}

impl std::error::Error for ChampSimError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io(error) => Some(error),
            ErrorKind::Partial { .. } | ErrorKind::Empty | ErrorKind::NoTrace { .. } => None,
        }
    }
}

/// Reads a trace file, whatever it is compressed with: its first bytes tell (gzip, xz, bzip2, or
/// none of them).
pub struct ChampSimReader {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    instructions: u64,
}

impl std::fmt::Debug for ChampSimReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChampSimReader({}, instruction {})", self.path.display(), self.instructions)
    }
}

impl ChampSimReader {
    /// Opens a trace.
    ///
    /// # Errors
    /// When the file cannot be read or is empty.
    pub fn open(path: &Path) -> Result<Self, ChampSimError> {
        let failed = |error| ChampSimError { path: path.to_owned(), kind: ErrorKind::Io(error) };
        let mut file = File::open(path).map_err(failed)?;
        let mut magic = [0; 6];
        let length = read_full(&mut file, &mut magic).map_err(failed)?;
        if length == 0 {
            return Err(ChampSimError { path: path.to_owned(), kind: ErrorKind::Empty });
        }
        let start = io::Cursor::new(magic).take(length as u64);
        let whole = BufReader::with_capacity(1 << 16, start.chain(file));
        let input: Box<dyn Read + Send> = match magic {
            [0x1f, 0x8b, ..] => Box::new(flate2::bufread::MultiGzDecoder::new(whole)),
            [0xfd, b'7', b'z', b'X', b'Z', 0] => Box::new(lzma_rust2::XzReader::new(whole, true)),
            [b'B', b'Z', b'h', ..] => Box::new(bzip2::bufread::MultiBzDecoder::new(whole)),
            _ => Box::new(whole),
        };
        Ok(Self { path: path.to_owned(), input, buffer: Vec::new(), instructions: 0 })
    }

    /// Instructions read so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// Reads some instructions and passes each on; false at the end of the trace.
    ///
    /// # Errors
    /// When the file cannot be read on, ends inside an instruction, or has one that no trace has.
    /// Those before it were passed on.
    pub fn read(&mut self, mut to: impl FnMut(&ChampSimInstr)) -> Result<bool, ChampSimError> {
        self.buffer.resize(CHUNK * CHAMPSIM_INSTR_BYTES, 0);
        let length = read_full(&mut self.input, &mut self.buffer)
            .map_err(|error| self.error(ErrorKind::Io(error)))?;
        let (whole, rest) = self.buffer[..length].as_chunks::<CHAMPSIM_INSTR_BYTES>();
        for bytes in whole {
            if let Some(why) = ChampSimInstr::implausible(bytes) {
                let instruction = self.instructions + 1;
                let archive = instruction <= 8 && is_tar(&self.buffer);
                return Err(self.error(ErrorKind::NoTrace { instruction, why, archive }));
            }
            self.instructions += 1;
            to(&ChampSimInstr::decode(bytes));
        }
        match rest.len() {
            0 => Ok(length > 0),
            bytes => {
                let instructions = self.instructions;
                Err(self.error(ErrorKind::Partial { instructions, bytes }))
            }
        }
    }

    fn error(&self, kind: ErrorKind) -> ChampSimError {
        ChampSimError { path: self.path.clone(), kind }
    }
}

/// Whether a file that begins so is a tar archive.
fn is_tar(start: &[u8]) -> bool {
    start.get(257..262) == Some(b"ustar")
}

/// Fills the buffer as far as the input goes.
pub(crate) fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match input.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn some(instructions: u64) -> Vec<ChampSimInstr> {
        let instr = |n: u64| ChampSimInstr {
            ip: 0x40_0000 + n,
            is_branch: n.is_multiple_of(7),
            taken: n.is_multiple_of(14),
            destination_registers: [n as u8, 0],
            source_registers: [1, 2, 0, n as u8],
            destination_memory: [8 * n, 0],
            source_memory: [n << 20, 0, 0, n],
        };
        (0..instructions).map(instr).collect()
    }

    fn bytes(instrs: &[ChampSimInstr]) -> Vec<u8> {
        instrs.iter().flat_map(ChampSimInstr::encode).collect()
    }

    fn read_back(bytes: &[u8]) -> Result<Vec<ChampSimInstr>, ChampSimError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mut reader = ChampSimReader::open(file.path())?;
        let mut instrs = Vec::new();
        while reader.read(|instr| instrs.push(*instr))? {}
        assert_eq!(reader.instructions(), instrs.len() as u64);
        Ok(instrs)
    }

    #[test]
    fn traces_come_back_raw_and_compressed() {
        let instrs = some(10_000);
        let raw = bytes(&instrs);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&raw).unwrap();
        let mut bz = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bz.write_all(&raw).unwrap();
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        xz.write_all(&raw).unwrap();
        let packed = [gz.finish().unwrap(), bz.finish().unwrap(), xz.finish().unwrap()];
        assert!(packed.iter().all(|packed| packed.len() < raw.len() / 2));
        assert_eq!(read_back(&raw).unwrap(), instrs);
        for packed in packed {
            assert_eq!(read_back(&packed).unwrap(), instrs);
        }
    }

    #[test]
    fn what_is_no_trace_is_refused_with_the_instruction() {
        let refused = |bytes: &[u8]| read_back(bytes).unwrap_err().to_string();
        let text = "Outlast runs transactions on persistent memory. ".repeat(40);
        let message = refused(text.as_bytes());
        assert!(message.contains("no ChampSim trace: of instruction 1 its branch"), "{message}");

        let mut tar = vec![0; 10_240];
        tar[..5].copy_from_slice(b"trace");
        tar[100..124].copy_from_slice(b"0000644\x000000000\x000000000\x00");
        tar[257..262].copy_from_slice(b"ustar");
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        xz.write_all(&tar).unwrap();
        let message = refused(&xz.finish().unwrap());
        assert!(message.contains("instruction 2") && message.contains("tar archive"), "{message}");

        let mut late = bytes(&some(10_000));
        late[9_000 * 64 + 47] = b'x';
        let message = refused(&late);
        assert!(message.contains("of instruction 9001 0x7800"), "{message}");
        assert!(refused(&[0; 6400]).contains("of instruction 1 its address is 0"));
        let noise: Vec<u8> =
            (0..6400u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        assert!(refused(&noise).contains("of instruction 1 "));
    }

    #[test]
    fn what_is_no_trace_is_said_in_one_line() {
        let mut cut = bytes(&some(3));
        cut.truncate(150);
        let message = read_back(&cut).unwrap_err().to_string();
        assert!(message.contains("22 bytes follow instruction 2"), "{message}");
        assert!(read_back(&[]).unwrap_err().to_string().contains("empty"));
        let damaged = [[0x1f, 0x8b, 8, 0].as_slice(), &[7; 100]].concat();
        assert_eq!(read_back(&damaged).unwrap_err().to_string().lines().count(), 1);
        assert!(ChampSimReader::open(Path::new("/no/such/trace")).is_err());
    }
}
