//! Traces of DynamoRIO's drmemtrace, as its post-processing leaves them: a file of one thread, raw, in a gzip
//! file, or divided among the members of a zip file.
//!
//! An entry has 12 bytes, little-endian: a kind (2), a size (2), an address (8). Entries of these kinds count,
//! all others are passed over:
//!
//! | kind | what | address |
//! |---|---|---|
//! | 0, 1 | load, store of the instruction before it | of the data |
//! | 10 | instruction | of the instruction |
//! | 11 to 16 | jump, indirect jump, conditional jump, call, indirect call, return | the same |
//! | 22 | thread from here on | its number |
//! | 25 | begin of a file | version |
//! | 29, 31 | instruction that repeats, `sysenter` | of the instruction |
//! | 48, 49 | conditional jump that was taken, that was not | the same |
//!
//! Registers are not in it. Branches get those by which ChampSim tells their kinds.
//!
//! A trace is written in version 1, which has no encodings, does not say whether conditional jumps were taken, and has
//! no markers for the file's kind. It begins with version, thread, process (24) and a time (a marker, 28, of kind 2).
//! Instructions follow, each with its accesses, then the thread's end (23) and the file's (26).

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::ChampSimInstr;
use crate::champsim::read_full;
use crate::program::{Site, SiteKind};

/// Bytes of an entry.
const ENTRY_BYTES: usize = 12;

const LOAD: u16 = 0;
const STORE: u16 = 1;
const INSTRUCTION: u16 = 10;
const JUMP: u16 = 11;
const INDIRECT_JUMP: u16 = 12;
const CONDITIONAL: u16 = 13;
const CALL: u16 = 14;
const INDIRECT_CALL: u16 = 15;
const RETURN: u16 = 16;
const THREAD: u16 = 22;
const THREAD_END: u16 = 23;
const PROCESS: u16 = 24;
const HEADER: u16 = 25;
const FOOTER: u16 = 26;
const MARKER: u16 = 28;
const NOT_FETCHED: u16 = 29;
const SYSENTER: u16 = 31;
const TAKEN: u16 = 48;
const UNTAKEN: u16 = 49;

/// The last kind that is known.
const KIND_MAX: u16 = UNTAKEN;
/// The marker of a time.
const TIME: u16 = 2;
/// The version that is written.
const VERSION: u64 = 1;
/// Versions of the format are small numbers.
const VERSION_MAX: u64 = 64;

/// A register that is neither the stack pointer nor one of ChampSim's special ones.
const OTHER_REGISTER: u8 = 1;

/// A trace that cannot be read.
#[derive(Debug)]
pub struct DrmemtraceError {
    path: PathBuf,
    why: String,
}

impl fmt::Display for DrmemtraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for DrmemtraceError {}

/// The counts of a trace that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DrmemtraceCounts {
    /// Instructions.
    pub instructions: u64,
    /// Accesses for which an instruction of ChampSim's has no place: more than four loads or two stores.
    pub lost_accesses: u64,
}

/// Whether a file begins as such a trace.
pub fn is_drmemtrace(path: &Path) -> bool {
    let mut entry = [0; ENTRY_BYTES];
    let read = input(path).and_then(|mut input| input.read_exact(&mut entry));
    let (kind, _, version) = parts(&entry);
    read.is_ok() && kind == HEADER && version <= VERSION_MAX
}

/// Reads a trace, and passes its instructions on as ChampSim has them.
///
/// # Errors
/// When the file cannot be read, is damaged, or has several threads.
pub fn read_drmemtrace(
    path: &Path,
    mut to: impl FnMut(&ChampSimInstr),
) -> Result<DrmemtraceCounts, DrmemtraceError> {
    let failed = |why: String| DrmemtraceError { path: path.to_owned(), why };
    let mut input = input(path).map_err(|error| failed(error.to_string()))?;
    let mut counts = DrmemtraceCounts::default();
    let mut held: Option<Held> = None;
    let (mut thread, mut number) = (None, 0u64);
    let mut entry = [0; ENTRY_BYTES];
    loop {
        let read = read_full(&mut input, &mut entry);
        let length = read.map_err(|error| failed(format!("entry {}: {error}", number + 1)))?;
        if length == 0 {
            break;
        }
        number += 1;
        let (kind, bytes, address) = parts(&entry);
        let wrong = match kind {
            _ if length < ENTRY_BYTES => Some(format!("entry {number} is cut off")),
            HEADER if address > VERSION_MAX => Some(format!("entry {number} is no version")),
            _ if number == 1 && kind != HEADER => Some("no trace of drmemtrace".to_owned()),
            _ if kind > KIND_MAX => Some(format!("entry {number} has kind {kind}: it is damaged")),
            THREAD if thread.replace(address).is_some_and(|known| known != address) => {
                Some("it has several threads: convert the file of each by itself".to_owned())
            }
            LOAD | STORE if held.is_none() => {
                Some(format!("entry {number} is an access before any instruction"))
            }
            _ => None,
        };
        if let Some(why) = wrong {
            return Err(failed(why));
        }
        if is_instruction(kind) {
            counts.instructions += 1;
            let now = Held { kind, bytes, instr: instruction(kind, address) };
            if let Some(before) = held.replace(now) {
                to(&before.settled(Some(address)));
            }
        } else if let (LOAD | STORE, Some(Held { instr, .. })) = (kind, &mut held) {
            let places = match kind {
                STORE => &mut instr.destination_memory[..],
                _ => &mut instr.source_memory[..],
            };
            match places.iter_mut().find(|place| **place == 0) {
                Some(place) => *place = address,
                None => counts.lost_accesses += 1,
            }
        }
    }
    match held {
        Some(last) => to(&last.settled(None)),
        None => return Err(failed("no instructions in it".to_owned())),
    }
    Ok(counts)
}

fn parts(entry: &[u8; ENTRY_BYTES]) -> (u16, u16, u64) {
    let half = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
    let address = u64::from_le_bytes(*entry.last_chunk().expect("an entry has more bytes"));
    (half(0), half(2), address)
}

/// An entry of a trace.
pub(crate) type Entry = [u8; ENTRY_BYTES];

fn entry(kind: u16, size: u16, address: u64) -> Entry {
    let mut entry = [0; ENTRY_BYTES];
    entry[..2].copy_from_slice(&kind.to_le_bytes());
    entry[2..4].copy_from_slice(&size.to_le_bytes());
    entry[4..].copy_from_slice(&address.to_le_bytes());
    entry
}

/// The entries that a thread's trace begins with.
pub(crate) fn head(thread: u16) -> [Entry; 4] {
    let number = 1 + u64::from(thread);
    [
        entry(HEADER, 0, VERSION),
        entry(THREAD, 4, number),
        entry(PROCESS, 4, 1),
        entry(MARKER, TIME, 1),
    ]
}

/// The entries that it ends with.
pub(crate) fn foot(thread: u16) -> [Entry; 2] {
    [entry(THREAD_END, 4, 1 + u64::from(thread)), entry(FOOTER, 0, 0)]
}

/// The entry of an instruction; `repeats` says that it is the one before once more, as those of strings are.
pub(crate) fn instruction_at(site: &Site, repeats: bool) -> Entry {
    let kind = match site.kind {
        SiteKind::Conditional => CONDITIONAL,
        SiteKind::Jump => JUMP,
        SiteKind::IndirectJump => INDIRECT_JUMP,
        SiteKind::Call => CALL,
        SiteKind::IndirectCall => INDIRECT_CALL,
        SiteKind::Return => RETURN,
        _ if repeats => NOT_FETCHED,
        _ => INSTRUCTION,
    };
    entry(kind, site.len.into(), site.at)
}

/// The entry of an access.
pub(crate) fn access(stores: bool, bytes: u16, at: u64) -> Entry {
    entry(if stores { STORE } else { LOAD }, bytes, at)
}

fn is_instruction(kind: u16) -> bool {
    matches!(kind, INSTRUCTION..=RETURN | NOT_FETCHED | SYSENTER | TAKEN | UNTAKEN)
}

/// An instruction of this kind, with the registers that tell the kinds of branches.
fn instruction(kind: u16, address: u64) -> ChampSimInstr {
    const SP: u8 = ChampSimInstr::STACK_POINTER;
    const IP: u8 = ChampSimInstr::INSTRUCTION_POINTER;
    const FLAGS: u8 = ChampSimInstr::FLAGS;
    let (source_registers, destination_registers) = match kind {
        JUMP => ([IP, 0, 0, 0], [IP, 0]),
        INDIRECT_JUMP => ([OTHER_REGISTER, 0, 0, 0], [IP, 0]),
        CONDITIONAL | TAKEN | UNTAKEN => ([IP, FLAGS, 0, 0], [IP, 0]),
        CALL => ([IP, SP, 0, 0], [IP, SP]),
        INDIRECT_CALL => ([IP, SP, OTHER_REGISTER, 0], [IP, SP]),
        RETURN => ([SP, 0, 0, 0], [IP, SP]),
        _ => ([0; 4], [0; 2]),
    };
    let is_branch = matches!(kind, JUMP..=RETURN | TAKEN | UNTAKEN);
    ChampSimInstr {
        ip: address,
        is_branch,
        taken: is_branch && kind != UNTAKEN,
        destination_registers,
        source_registers,
        ..ChampSimInstr::default()
    }
}

/// An instruction, its bytes, and its kind.
struct Held {
    kind: u16,
    bytes: u16,
    instr: ChampSimInstr,
}

impl Held {
    /// The instruction, whose successor is known. Older traces do not say whether a conditional jump was taken: it
    /// was not where the next instruction lies right behind it.
    fn settled(mut self, next: Option<u64>) -> ChampSimInstr {
        if self.kind == CONDITIONAL {
            let behind = self.instr.ip.wrapping_add(self.bytes.into());
            self.instr.taken = next.is_some_and(|next| next != behind);
        }
        self.instr
    }
}

/// A file's bytes, unpacked.
fn input(path: &Path) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
    let start = file.fill_buf()?;
    Ok(if start.starts_with(&[0x1f, 0x8b]) {
        Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(file)))
    } else if start.starts_with(ZIP_MEMBER) {
        Box::new(BufReader::new(ZipMembers { file, member: Member::Done, has_descriptor: false }))
    } else {
        Box::new(file)
    })
}

/// The begin of a member of a zip file, and of what stands behind the last.
const ZIP_MEMBER: &[u8; 4] = b"PK\x03\x04";
const ZIP_DESCRIPTOR: &[u8; 4] = b"PK\x07\x08";

/// The members of a zip file, one behind the other.
struct ZipMembers {
    file: BufReader<File>,
    member: Member,
    has_descriptor: bool,
}

enum Member {
    Stored(u64),
    Packed(Box<flate2::Decompress>),
    Done,
    End,
}

impl ZipMembers {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map(|()| bytes)
    }

    /// Goes to the next member.
    fn next(&mut self) -> io::Result<Member> {
        let mut signature: [u8; 4] = self.take()?;
        if std::mem::take(&mut self.has_descriptor) {
            // A checksum and two sizes of 4 bytes, with or without a signature.
            if signature != *ZIP_DESCRIPTOR {
                self.take::<8>()?;
            } else {
                self.take::<12>()?;
            }
            signature = self.take()?;
        }
        if signature != *ZIP_MEMBER {
            return Ok(Member::End);
        }
        let header: [u8; 26] = self.take()?;
        let half = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
        let packed = u32::from_le_bytes([header[14], header[15], header[16], header[17]]);
        self.has_descriptor = half(2) & 8 != 0;
        let skipped = u64::from(half(22)) + u64::from(half(24));
        io::copy(&mut self.file.by_ref().take(skipped), &mut io::sink())?;
        match half(4) {
            0 if !self.has_descriptor => Ok(Member::Stored(packed.into())),
            8 => Ok(Member::Packed(Box::new(flate2::Decompress::new(false)))),
            method => {
                Err(io::Error::other(format!("a zip file packed by method {method}: unpack it")))
            }
        }
    }
}

impl Read for ZipMembers {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            match &mut self.member {
                Member::End => return Ok(0),
                Member::Done | Member::Stored(0) => self.member = self.next()?,
                Member::Stored(left) => {
                    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(out.len());
                    let read = self.file.read(&mut out[..most])?;
                    if read == 0 && most > 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    *left -= read as u64;
                    return Ok(read);
                }
                Member::Packed(unpack) => {
                    let input = self.file.fill_buf()?;
                    let (was_in, was_out) = (unpack.total_in(), unpack.total_out());
                    let is_at_end = input.is_empty();
                    let status = unpack.decompress(input, out, flate2::FlushDecompress::None);
                    let status = status.map_err(io::Error::from)?;
                    let taken = (unpack.total_in() - was_in) as usize;
                    let made = (unpack.total_out() - was_out) as usize;
                    self.file.consume(taken);
                    if status == flate2::Status::StreamEnd {
                        self.member = Member::Done;
                    } else if made == 0 && (is_at_end || taken == 0) {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    if made > 0 {
                        return Ok(made);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn entry(kind: u16, size: u16, address: u64) -> Vec<u8> {
        super::entry(kind, size, address).to_vec()
    }

    /// A loop of a load, an addition to memory and a conditional jump, then a call.
    fn entries() -> Vec<Vec<u8>> {
        let mut all =
            vec![entry(HEADER, 0, 5), entry(THREAD, 4, 77), entry(24, 4, 77), entry(28, 2, 9)];
        for round in 0..2u64 {
            all.extend([
                entry(47, 3, 0x0102_0304),
                entry(INSTRUCTION, 3, 0x40_1000),
                entry(LOAD, 8, 0x7000 + 8 * round),
                entry(INSTRUCTION, 4, 0x40_1003),
                entry(LOAD, 8, 0x8000),
                entry(STORE, 8, 0x8000),
                entry(if round == 0 { TAKEN } else { UNTAKEN }, 2, 0x40_1007),
            ]);
        }
        all.extend([
            entry(14, 5, 0x40_1009),
            entry(STORE, 8, 0x9ff8),
            entry(23, 4, 77),
            entry(26, 0, 0),
        ]);
        all
    }

    fn read(bytes: &[u8]) -> Result<(DrmemtraceCounts, Vec<ChampSimInstr>), String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mut instrs = Vec::new();
        let counts = read_drmemtrace(file.path(), |instr| instrs.push(*instr));
        let counts = counts.map_err(|error| {
            let line = error.to_string();
            assert_eq!(line.lines().count(), 1, "{line}");
            line
        })?;
        assert!(is_drmemtrace(file.path()));
        Ok((counts, instrs))
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(bytes).unwrap();
        gz.finish().unwrap()
    }

    /// A zip file of these members, with sizes in front of each or behind it.
    fn zip(members: &[&[u8]], is_packed: bool, has_descriptor: bool) -> Vec<u8> {
        let mut file = Vec::new();
        for (number, member) in members.iter().enumerate() {
            let content = if is_packed {
                let mut deflate =
                    flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
                deflate.write_all(member).unwrap();
                deflate.finish().unwrap()
            } else {
                member.to_vec()
            };
            let name = format!("chunk.{number:04}");
            let size = |bytes: &[u8]| if has_descriptor { 0 } else { bytes.len() as u32 };
            file.extend(ZIP_MEMBER);
            file.extend([
                20,
                0,
                if has_descriptor { 8 } else { 0 },
                0,
                if is_packed { 8 } else { 0 },
                0,
            ]);
            file.extend([0; 8]);
            file.extend(size(&content).to_le_bytes());
            file.extend(size(member).to_le_bytes());
            file.extend((name.len() as u16).to_le_bytes());
            file.extend([0; 2]);
            file.extend(name.as_bytes());
            file.extend(&content);
            if has_descriptor {
                file.extend(ZIP_DESCRIPTOR);
                file.extend([0; 4]);
                file.extend((content.len() as u32).to_le_bytes());
                file.extend((member.len() as u32).to_le_bytes());
            }
        }
        file.extend(b"PK\x01\x02");
        file
    }

    #[test]
    fn instructions_come_with_their_accesses_however_they_are_packed() {
        let raw = entries().concat();
        let (counts, instrs) = read(&raw).unwrap();
        assert_eq!(counts, DrmemtraceCounts { instructions: 7, lost_accesses: 0 });
        let accesses = |at: usize| (instrs[at].source_memory[0], instrs[at].destination_memory[0]);
        assert_eq!(
            [0, 1, 3, 6].map(accesses),
            [(0x7000, 0), (0x8000, 0x8000), (0x7008, 0), (0, 0x9ff8)]
        );
        let branches = |at: usize| (instrs[at].ip, instrs[at].is_branch, instrs[at].taken);
        assert_eq!(branches(2), (0x40_1007, true, true));
        assert_eq!(branches(5), (0x40_1007, true, false));
        assert_eq!(branches(6), (0x40_1009, true, true));
        let (first, rest) = raw.split_at(10 * ENTRY_BYTES);
        let packed = [
            gzip(&raw),
            zip(&[first, rest], true, false),
            zip(&[first, rest], true, true),
            zip(&[first, rest], false, false),
            zip(&[first, &[], rest], true, true),
        ];
        for packed in packed {
            assert_eq!(read(&packed).unwrap(), (counts, instrs.clone()));
        }
    }

    #[test]
    fn a_conditional_jump_of_an_older_trace_is_told_by_what_follows() {
        let mut all = entries();
        for entry in &mut all {
            if [TAKEN, UNTAKEN].contains(&u16::from_le_bytes([entry[0], entry[1]])) {
                entry[0] = CONDITIONAL as u8;
            }
        }
        assert_eq!(read(&all.concat()).unwrap(), read(&entries().concat()).unwrap());
    }

    #[test]
    fn what_is_no_trace_or_damaged_is_one_line() {
        let refused = |bytes: &[u8], says: &str| {
            let line = read(bytes).unwrap_err();
            assert!(line.contains(says), "{line}");
        };
        let raw = entries().concat();
        refused(&raw[..raw.len() - 5], "entry 22 is cut off");
        refused(&raw[ENTRY_BYTES..], "no trace of drmemtrace");
        refused(b"", "no instructions in it");
        refused(&[raw.clone(), entry(50, 0, 0)].concat(), "entry 23 has kind 50: it is damaged");
        refused(&[raw.clone(), entry(THREAD, 4, 78)].concat(), "several threads");
        refused(
            &[entry(HEADER, 0, 5), entry(LOAD, 8, 8)].concat(),
            "an access before any instruction",
        );
        refused(&gzip(&raw)[..60], "entry ");
        refused(&zip(&[&raw], true, true)[..60], "entry ");
        let mut stored = zip(&[&raw], false, true);
        refused(&stored, "packed by method 0");
        stored[8] = 93;
        refused(&stored, "packed by method 93: unpack it");
    }

    #[test]
    fn accesses_without_a_place_are_counted() {
        let loads = (0..6).map(|n| entry(LOAD, 8, 8 + n));
        let all = [entry(HEADER, 0, 5), entry(INSTRUCTION, 4, 0x40)].into_iter().chain(loads);
        let (counts, instrs) = read(&all.collect::<Vec<_>>().concat()).unwrap();
        assert_eq!((counts.lost_accesses, instrs[0].source_memory), (2, [8, 9, 10, 11]));
    }

    /// A trace that does not say whether a jump was taken, over an instruction of three bytes, and then not.
    #[test]
    fn a_short_jump_is_told_from_none_by_its_length() {
        let places = [0x10, 0x15, 0x10, 0x12, 0x15];
        let all = places.map(|at| entry(if at == 0x10 { CONDITIONAL } else { INSTRUCTION }, 2, at));
        let bytes = [entry(HEADER, 0, 1), all.concat()].concat();
        let taken: Vec<bool> = read(&bytes).unwrap().1.iter().map(|instr| instr.taken).collect();
        assert_eq!(taken, [true, false, false, false, false]);
    }
}
