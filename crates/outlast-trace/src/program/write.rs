//! Writing a program's trace.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use super::section::{Worth, put, put_bytes, put_stream};
use super::site::put_block;
use super::{
    About, END_MAGIC, Ending, ErrorKind, PAGE_BYTES, PROGRAM_VERSION, ProgramError, Site,
    event_kind, fold, section_kind,
};
use crate::WholeFile;

/// An event that was not predicted, or is no access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event<'a> {
    /// A block begins.
    Block {
        /// Its number.
        block: u32,
        /// It is not expected in this place from now on.
        once: bool,
    },
    /// An access.
    Access {
        /// Its address is as expected from the access before it.
        is_beside: bool,
        /// The distance of its address from the slot's last.
        far: Option<i64>,
        /// The distance of its value from the slot's last.
        value: Option<i64>,
    },
    /// The new path has one more access.
    Append {
        /// Its instruction, counted from the block's first.
        insn: u16,
        /// Whether it stores.
        stores: bool,
        /// Its bytes: 1, 2, 4 or 8.
        len: u8,
    },
    /// The accesses from here on are those of another path of the block, or of a new one.
    Switch(Option<u32>),
    /// The block ends before its path.
    Short,
    /// The system wrote bytes.
    SystemWrite {
        /// Where.
        at: u64,
        /// Which.
        bytes: &'a [u8],
    },
    /// A system call begins.
    Call {
        /// Its number.
        number: u32,
        /// Its first arguments.
        arguments: [u64; 3],
    },
    /// A system call returned.
    Return {
        /// Its number.
        number: u32,
        /// Its result.
        result: i64,
    },
    /// The next store has this place in the order of all threads.
    Place(u64),
    /// The next events happened when this number of places had been given out.
    Seen(u64),
    /// A signal's handler begins.
    Handler,
}

/// Streams of a thread, up to the next section.
#[derive(Default)]
struct Stretch {
    /// Kinds and flags.
    heads: Vec<u8>,
    /// Where events stand.
    places: Vec<u8>,
    /// Distances of addresses.
    far: Vec<u8>,
    /// Distances of values.
    values: Vec<u8>,
    /// All else.
    rest: Vec<u8>,
    worth: [Worth; 5],
    /// The place of the last event.
    index: u16,
    events: u64,
    /// Blocks whose beginning was reported with an event that is not written.
    blocks: u64,
}

/// Bytes of a thread's events in a section, about.
const STRETCH_BYTES: usize = 1 << 20;

/// Of the zlib levels the fastest: what is expected was left out before.
const LEVEL_FAST: u32 = 1;
/// For pages.
const LEVEL: u32 = 6;

/// Writes a trace. The file is there as soon as [`finish`](Self::finish) ends it, and without that
/// never.
pub struct ProgramWriter {
    path: PathBuf,
    file: WholeFile,
    written: u64,
    threads: Vec<Stretch>,
    code: Vec<u8>,
    blocks: u64,
    pages: Vec<u8>,
    finals: Vec<u8>,
    /// Kind, thread, place, length and checksum of each section.
    index: Vec<(u8, [u64; 4])>,
    section: Vec<u8>,
    failed: Option<io::Error>,
}

impl ProgramWriter {
    /// Begins a file; one that exists is replaced.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn create(path: &Path, about: &About) -> Result<Self, ProgramError> {
        let failed = |error| ProgramError::new(path, ErrorKind::Io(error));
        let mut file = WholeFile::create(path).map_err(failed)?;
        let mut header = [0; 16];
        header[..8].copy_from_slice(&crate::otrace::MAGIC);
        header[8..10].copy_from_slice(&PROGRAM_VERSION.to_le_bytes());
        file.write_all(&header).map_err(failed)?;
        let mut writer = Self {
            path: path.to_owned(),
            file,
            written: 16,
            threads: Vec::new(),
            code: Vec::new(),
            blocks: 0,
            pages: Vec::new(),
            finals: Vec::new(),
            index: Vec::new(),
            section: Vec::new(),
            failed: None,
        };
        about.put(&mut writer.section);
        writer.end_section(section_kind::ABOUT, 0);
        Ok(writer)
    }

    /// A block of instructions, which has the next number.
    pub fn block(&mut self, sites: &[Site]) {
        put_block(&mut self.code, sites);
        self.blocks += 1;
    }

    /// The contents of a page before it was touched first.
    pub fn page(&mut self, number: u64, bytes: &[u8; PAGE_BYTES]) {
        put(&mut self.pages, number);
        self.pages.extend_from_slice(bytes);
        if self.pages.len() > STRETCH_BYTES {
            self.write_pages(section_kind::PAGES);
        }
    }

    /// The final contents of a page.
    pub fn final_page(&mut self, number: u64, bytes: &[u8; PAGE_BYTES]) {
        put(&mut self.finals, number);
        self.finals.extend_from_slice(bytes);
        if self.finals.len() > STRETCH_BYTES {
            self.write_pages(section_kind::FINAL);
        }
    }

    /// In a thread `blocks` blocks began as expected, as an event that is not written has reported.
    pub fn skip(&mut self, thread: u16, blocks: u32) {
        self.thread(thread).blocks += u64::from(blocks);
    }

    /// An event of a thread: in front of the access with the place `index` in its path, after
    /// `blocks` blocks that began as expected since the event before.
    #[inline(always)]
    pub fn event(&mut self, thread: u16, index: u16, blocks: u32, event: Event<'_>) {
        let to = self.thread(thread);
        to.events += 1;
        let blocks = u64::from(blocks) + std::mem::take(&mut to.blocks);
        let head = |kind: u8, flags: u8| kind | flags << 4 | u8::from(blocks > 0) << 7;
        match event {
            Event::Access { is_beside, far, value } => {
                let flags = u8::from(is_beside)
                    | u8::from(far.is_some()) << 1
                    | u8::from(value.is_some()) << 2;
                to.heads.push(head(event_kind::ACCESS, flags));
                if let Some(far) = far {
                    put(&mut to.far, fold(far));
                }
                if let Some(value) = value {
                    put(&mut to.values, fold(value));
                }
            }
            Event::Block { block, once } => {
                let kind = if once { event_kind::BLOCK_ONCE } else { event_kind::BLOCK };
                to.heads.push(head(kind, 0));
                put(&mut to.rest, block.into());
            }
            Event::Append { insn, stores, len } => {
                to.heads.push(head(event_kind::APPEND, 0));
                let key = u64::from(insn) << 3 | u64::from(stores) << 2 | u64::from(len.ilog2());
                put(&mut to.rest, key);
            }
            Event::Switch(path) => {
                to.heads.push(head(event_kind::SWITCH, 0));
                put(&mut to.rest, path.map_or(0, |path| u64::from(path) + 1));
            }
            Event::Short => to.heads.push(head(event_kind::SHORT, 0)),
            Event::SystemWrite { at, bytes } => {
                to.heads.push(head(event_kind::SYSTEM_WRITE, 0));
                put(&mut to.rest, at);
                put_bytes(&mut to.rest, bytes);
            }
            Event::Call { number, arguments } => {
                to.heads.push(head(event_kind::CALL, 0));
                put(&mut to.rest, number.into());
                arguments.iter().for_each(|argument| put(&mut to.rest, *argument));
            }
            Event::Return { number, result } => {
                to.heads.push(head(event_kind::RETURN, 0));
                put(&mut to.rest, number.into());
                put(&mut to.rest, fold(result));
            }
            Event::Place(place) => {
                to.heads.push(head(event_kind::PLACE, 0));
                put(&mut to.rest, place);
            }
            Event::Seen(places) => {
                to.heads.push(head(event_kind::SEEN, 0));
                put(&mut to.rest, places);
            }
            Event::Handler => to.heads.push(head(event_kind::HANDLER, 0)),
        }
        to.stand(index, blocks);
        if to.heads.len() + to.far.len() + to.values.len() + to.rest.len() > STRETCH_BYTES {
            self.write_stretch(thread);
        }
    }

    fn thread(&mut self, thread: u16) -> &mut Stretch {
        let thread = usize::from(thread);
        if thread >= self.threads.len() {
            self.threads.resize_with(thread + 1, Stretch::default);
        }
        &mut self.threads[thread]
    }

    /// Where a thread ends, if that is known.
    pub fn thread_ends(&mut self, thread: u16, index: u16, blocks: u32) {
        let to = self.thread(thread);
        let blocks = u64::from(blocks) + std::mem::take(&mut to.blocks);
        to.heads.push(event_kind::END | u8::from(blocks > 0) << 7);
        to.stand(index, blocks);
    }

    #[cold]
    #[inline(never)]
    fn write_stretch(&mut self, thread: u16) {
        self.write_code();
        let to = &mut self.threads[usize::from(thread)];
        if to.heads.is_empty() {
            return;
        }
        let streams = [&mut to.heads, &mut to.places, &mut to.far, &mut to.values, &mut to.rest];
        for (stream, worth) in streams.into_iter().zip(&mut to.worth) {
            put_stream(&mut self.section, stream, worth, LEVEL_FAST);
            stream.clear();
        }
        self.end_section(section_kind::STRETCH, thread);
    }

    fn write_code(&mut self) {
        if !self.code.is_empty() {
            put_stream(&mut self.section, &self.code, &mut Worth::default(), LEVEL);
            self.code.clear();
            self.end_section(section_kind::CODE, 0);
        }
    }

    fn write_pages(&mut self, kind: u8) {
        let pages = if kind == section_kind::PAGES { &mut self.pages } else { &mut self.finals };
        if !pages.is_empty() {
            put_stream(&mut self.section, pages, &mut Worth::default(), LEVEL);
            pages.clear();
            self.end_section(kind, 0);
        }
    }

    fn end_section(&mut self, kind: u8, thread: u16) {
        let len = self.section.len() as u64;
        self.index.push((kind, [thread.into(), self.written, len, crc(&self.section).into()]));
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.section).err();
        }
        self.written += self.section.len() as u64;
        self.section.clear();
    }

    /// Ends the file. Returns its bytes.
    ///
    /// # Errors
    /// When something could not be written, now or before.
    pub fn finish(mut self, ending: Ending) -> Result<u64, ProgramError> {
        for thread in 0..self.threads.len() {
            self.write_stretch(thread as u16);
        }
        self.write_code();
        self.write_pages(section_kind::PAGES);
        self.write_pages(section_kind::FINAL);
        let mut end = vec![ending as u8];
        put(&mut end, self.threads.len() as u64);
        self.threads.iter().for_each(|thread| put(&mut end, thread.events));
        put(&mut end, self.index.len() as u64);
        for (kind, numbers) in &self.index {
            end.push(*kind);
            numbers.iter().for_each(|number| put(&mut end, *number));
        }
        let at = self.written;
        self.section = end;
        let checksum = crc(&self.section);
        self.section.extend(checksum.to_le_bytes());
        self.section.extend(at.to_le_bytes());
        self.section.extend(END_MAGIC);
        self.end_section(section_kind::END, 0);
        let failed = |error| ProgramError::new(&self.path, ErrorKind::Io(error));
        match self.failed {
            Some(error) => Err(failed(error)),
            None => self.file.finish().map(|()| self.written).map_err(failed),
        }
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.written
    }
}

impl Stretch {
    /// Writes where the event stands.
    #[inline(always)]
    fn stand(&mut self, index: u16, blocks: u64) {
        if blocks > 0 {
            put(&mut self.places, blocks);
            put(&mut self.places, index.into());
        } else {
            // Places in a path only grow, but where a switch comes between.
            put(&mut self.places, fold(i64::from(index) - i64::from(self.index)));
        }
        self.index = index;
    }
}

/// The checksum of some bytes.
pub(super) fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
