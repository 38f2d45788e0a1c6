//! One process that is captured: its words become a trace.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use iced_x86::InstructionInfoFactory;
use outlast_trace::{About, Ending, Event, PAGE_BYTES, ProgramError, ProgramWriter, Site};

use crate::words::{
    BESIDE, BLOCKS_AT, CHUNK_WORDS, CHUNKS, FAR, INLINE, INLINE_AT, KIND_AT, LOW, Message, ONCE,
    SIZE_AT, SLOT_AT, STORES, VALUE, head, kind,
};

/// What a process was.
#[derive(Debug)]
pub struct Recorded {
    /// Bytes of its file.
    pub bytes: u64,
    /// How it ended.
    pub ending: Ending,
    /// What the plugin had to say.
    pub notes: Vec<String>,
    /// The reason why its trace holds nothing, if so.
    pub nothing: Option<String>,
}

/// A process cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The trace cannot be written.
    #[error("{0}")]
    Trace(#[from] ProgramError),
    /// The plugin cannot be heard.
    #[error("the plugin: {0}")]
    Plugin(#[from] io::Error),
    /// The plugin says what it should not.
    #[error("the plugin said what it never says ({0})")]
    Word(String),
}

/// Records one process to its end, or until it becomes another program. `about` gets the program's
/// file, and its name and arguments.
pub fn record(
    mut socket: UnixStream,
    directory: &Path,
    file: &Path,
    about: impl FnOnce(&Path, Vec<String>) -> About,
    words: &AtomicU64,
) -> Result<Recorded, RecordError> {
    let Some((what, _, _, hello)) = message(&mut socket)? else {
        return Err(RecordError::Word("nothing".into()));
    };
    let mut said = hello.split(|byte| *byte == 0).map(OsStr::from_bytes);
    let (Some(chunks), Some(program), true) =
        (said.next(), said.next(), what == Message::Hello as u32)
    else {
        return Err(RecordError::Word(format!("message {what} first")));
    };
    let command = said.map(|word| word.to_string_lossy().into_owned()).collect();
    let writer = ProgramWriter::create(file, &about(Path::new(program), command))?;
    let path = directory.join(chunks);
    let chunks = File::options().read(true).write(true).open(&path)?;
    std::fs::remove_file(path)?;
    let process = Process {
        socket,
        chunks,
        writer,
        threads: HashMap::new(),
        silent: Vec::new(),
        facts: InstructionInfoFactory::new(),
        words: Vec::new(),
        is_done: false,
        notes: Vec::new(),
        nothing: None,
    };
    process.record(words)
}

/// The next message; none when the plugin is gone.
fn message(socket: &mut UnixStream) -> io::Result<Option<Said>> {
    let mut header = [0; 24];
    if !read(socket, &mut header)? {
        return Ok(None);
    }
    let small = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight"));
    let mut bytes = vec![0; word(16) as usize];
    if !read(socket, &mut bytes)? {
        return Ok(None);
    }
    Ok(Some((small(0), small(4), word(8), bytes)))
}

/// Reads all of it; false when the plugin went away.
fn read(socket: &mut UnixStream, into: &mut [u8]) -> io::Result<bool> {
    match socket.read_exact(into) {
        Ok(()) => Ok(true),
        // The process has ended without reading the messages of some free chunks.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
            ) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// A message of the plugin: which, its numbers, and its bytes.
type Said = (u32, u32, u64, Vec<u8>);

struct Process {
    socket: UnixStream,
    chunks: File,
    writer: ProgramWriter,
    /// The number in the trace of each thread.
    threads: HashMap<u32, u16>,
    /// Where each thread stands in its path if its last word only counted blocks, which no event of the
    /// trace reports then.
    silent: Vec<Option<u16>>,
    facts: InstructionInfoFactory,
    words: Vec<u8>,
    is_done: bool,
    notes: Vec<String>,
    nothing: Option<String>,
}

impl Process {
    fn record(mut self, words: &AtomicU64) -> Result<Recorded, RecordError> {
        let mut sites = Vec::new();
        while let Some((what, a, b, bytes)) = message(&mut self.socket)? {
            match what {
                what if what == Message::Block as u32 => self.block(&bytes, &mut sites),
                what if what == Message::Chunk as u32 => {
                    self.chunk(a, Some(b as usize))?;
                    words.fetch_add(b, Ordering::Relaxed);
                }
                what if what == Message::Done as u32 => self.is_done = true,
                what if what == Message::Note as u32 => {
                    self.nothing = Some(String::from_utf8_lossy(&bytes).into_owned());
                }
                what if what == Message::Bare as u32 => {
                    self.notes.push(String::from_utf8_lossy(&bytes).into_owned());
                }
                what => return Err(RecordError::Word(format!("message {what}"))),
            }
        }
        let ending = if self.is_done { Ending::Whole } else { Ending::Killed };
        if !self.is_done {
            for number in 0..CHUNKS as u32 {
                self.chunk(number, None)?;
            }
            for (thread, index) in (0u16..).zip(std::mem::take(&mut self.silent)) {
                if let Some(index) = index {
                    self.writer.thread_ends(thread, index, 0);
                }
            }
        }
        let (bytes, notes) = (self.writer.finish(ending)?, self.notes);
        Ok(Recorded { bytes, ending, notes, nothing: self.nothing })
    }

    fn block(&mut self, bytes: &[u8], sites: &mut Vec<Site>) {
        sites.clear();
        let mut rest = bytes;
        while let Some((start, tail)) = rest.split_first_chunk::<9>() {
            let at = u64::from_le_bytes(start[..8].try_into().expect("eight bytes"));
            let (insn, tail) = tail.split_at(usize::from(start[8]).min(tail.len()));
            sites.push(crate::code::site(at, insn, &mut self.facts));
            rest = tail;
        }
        self.writer.block(sites);
    }

    /// Takes what stands in a chunk: as many words, or up to the zero behind the last event, and gives it
    /// back.
    fn chunk(&mut self, number: u32, words: Option<usize>) -> Result<(), RecordError> {
        let chunks = &self.chunks;
        let (words_max, at) = (CHUNK_WORDS, u64::from(number) * CHUNK_WORDS as u64 * 8);
        let len = words.unwrap_or(words_max).min(words_max) * 8;
        let mut bytes = std::mem::take(&mut self.words);
        bytes.resize(len, 0);
        chunks.read_exact_at(&mut bytes, at)?;
        // It is free: what stands behind its first word is old.
        chunks.write_all_at(&[0; 8], at)?;
        if words.is_some() {
            // The plugin may have ended already.
            let _ = self.socket.write_all(&number.to_le_bytes());
        }
        let taken = self.words_of(bytes.as_chunks().0, words.is_some());
        self.words = bytes;
        taken
    }

    fn words_of(&mut self, words: &[[u8; 8]], is_whole: bool) -> Result<(), RecordError> {
        let word = |at: usize| words.get(at).map_or(0, |word| u64::from_le_bytes(*word));
        let first = word(0);
        if first == 0 {
            return Ok(());
        }
        if first >> KIND_AT != kind::HEAD {
            return Err(RecordError::Word(format!("{first:#x} at a chunk's begin")));
        }
        let next = self.threads.len() as u16;
        let thread = *self.threads.entry((first & !head(0)) as u32).or_insert(next);
        let mut silent = self.silent.get(usize::from(thread)).copied().flatten();
        let mut at = 1;
        while at < words.len() {
            let event = word(at);
            at += 1;
            let (what, index) = (event >> KIND_AT, (event >> SLOT_AT & 0xfff) as u16);
            let (blocks, low) = ((event >> BLOCKS_AT & 0xf_ffff) as u32, event & LOW);
            if what == kind::ACCESS {
                let is_inline = low & INLINE != 0;
                let short = (low << (64 - BLOCKS_AT)) as i64 >> (64 - BLOCKS_AT + INLINE_AT);
                let mut next = |is_inline: bool| {
                    if is_inline {
                        return short;
                    }
                    at += 1;
                    word(at - 1) as i64
                };
                let has_far = low & FAR != 0;
                let far = has_far.then(|| next(is_inline));
                let value = (low & VALUE != 0).then(|| next(is_inline && !has_far));
                let is_beside = low & BESIDE != 0;
                let access = Event::Access { is_beside, far, value };
                self.writer.event(thread, index, blocks, access);
                silent = None;
                continue;
            }
            let event = match what {
                0 if !is_whole => break,
                kind::BLOCK => Event::Block { block: (low & !ONCE) as u32, once: low & ONCE != 0 },
                kind::APPEND => Event::Append {
                    insn: (low & (STORES - 1)) as u16,
                    stores: low & STORES != 0,
                    len: 1 << (low >> SIZE_AT & 3),
                },
                kind::SWITCH => Event::Switch((low as u32).checked_sub(1)),
                kind::SHORT => Event::Short,
                kind::SKIP => {
                    self.writer.skip(thread, blocks);
                    silent = Some(index);
                    continue;
                }
                kind::PAGE | kind::FINAL => {
                    self.writer.skip(thread, blocks);
                    silent = silent.or((blocks > 0).then_some(index)).map(|_| index);
                    let Some(page) = words.get(at + 1..at + 1 + PAGE_BYTES / 8) else { break };
                    let page: &[u8; PAGE_BYTES] =
                        page.as_flattened().try_into().expect("a page's bytes");
                    match what {
                        kind::PAGE => self.writer.page(word(at), page),
                        _ => self.writer.final_page(word(at), page),
                    }
                    at += 1 + PAGE_BYTES / 8;
                    continue;
                }
                kind::SYSTEM_WRITE => {
                    let (to, len) = (word(at), word(at + 1) as usize);
                    let count = len.div_ceil(8);
                    let Some(bytes) = words.get(at + 2..at + 2 + count) else { break };
                    at += 2 + count;
                    let bytes = &bytes.as_flattened()[..len];
                    self.writer.event(thread, index, blocks, Event::SystemWrite { at: to, bytes });
                    continue;
                }
                kind::CALL => {
                    let arguments = [word(at), word(at + 1), word(at + 2)];
                    at += 3;
                    Event::Call { number: low as u32, arguments }
                }
                kind::RETURN => {
                    at += 1;
                    Event::Return { number: low as u32, result: word(at - 1) as i64 }
                }
                kind::PLACE => {
                    at += 1;
                    Event::Place(word(at - 1))
                }
                kind::SEEN => {
                    at += 1;
                    Event::Seen(word(at - 1))
                }
                kind::THREAD if low == 0 => Event::Handler,
                kind::THREAD => {
                    self.writer.thread_ends(thread, index, blocks);
                    silent = None;
                    continue;
                }
                _ => return Err(RecordError::Word(format!("{event:#x}"))),
            };
            self.writer.event(thread, index, blocks, event);
            silent = None;
        }
        let thread = usize::from(thread);
        if self.silent.len() <= thread {
            self.silent.resize(thread + 1, None);
        }
        self.silent[thread] = silent;
        Ok(())
    }
}
