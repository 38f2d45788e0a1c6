//! Opening a program's trace.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::section::{Bad, Bytes, read_stream};
use super::site::read_block;
use super::thread::{Happening, Thread};
use super::write::crc;
use super::{
    About, END_MAGIC, Ending, ErrorKind, PAGE_BYTES, PROGRAM_VERSION, ProgramError, Site,
    section_kind,
};

/// A page of the program's memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page {
    /// Its number: its address divided by [`PAGE_BYTES`].
    pub number: u64,
    /// Its bytes.
    pub bytes: Box<[u8; PAGE_BYTES]>,
}

/// A section of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Section {
    kind: u8,
    thread: u64,
    at: u64,
    len: u64,
    crc: u64,
}

/// Where sections are read from.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    file: File,
}

impl Source {
    pub(super) fn damaged(&self, what: impl Into<String>) -> ProgramError {
        ProgramError::new(&self.path, ErrorKind::Damaged(what.into()))
    }

    /// Reads a section and checks it.
    pub(super) fn section(&self, section: Section) -> Result<Vec<u8>, ProgramError> {
        let mut bytes = vec![0; section.len as usize];
        self.file
            .read_exact_at(&mut bytes, section.at)
            .map_err(|error| ProgramError::new(&self.path, ErrorKind::Io(error)))?;
        if u64::from(crc(&bytes)) != section.crc {
            return Err(self.damaged(format!("the section at byte {}", section.at)));
        }
        Ok(bytes)
    }
}

/// A program's trace, with its code and what memory held at the begin. Threads are read one by one.
#[derive(Clone, Debug)]
pub struct Program {
    about: About,
    ending: Ending,
    source: Arc<Source>,
    sections: Arc<[Section]>,
    /// Events of each thread.
    events: Vec<u64>,
    /// The first instruction of each block, and one past the last's.
    blocks: Arc<[u32]>,
    sites: Arc<[Site]>,
    bytes: u64,
}

impl Program {
    /// Opens a trace.
    ///
    /// # Errors
    /// When the file cannot be read, is no trace of a program, is of another version, or is cut off or
    /// damaged.
    pub fn open(path: &Path) -> Result<Self, ProgramError> {
        let error = |kind| ProgramError::new(path, kind);
        let failed = |e: io::Error| error(ErrorKind::Io(e));
        let file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        let mut header = [0; 16];
        match file.read_exact_at(&mut header, 0) {
            Err(_) if header[..8] == crate::otrace::MAGIC => return Err(error(ErrorKind::CutOff)),
            Err(e) if e.kind() != io::ErrorKind::UnexpectedEof => return Err(failed(e)),
            _ if header[..8] != crate::otrace::MAGIC => return Err(error(ErrorKind::NoTrace)),
            _ => {}
        }
        let version = u16::from_le_bytes([header[8], header[9]]);
        if version != PROGRAM_VERSION {
            return Err(error(ErrorKind::Version(version)));
        }
        let mut trailer = [0; 20];
        let trailer_at = bytes.checked_sub(20).ok_or_else(|| error(ErrorKind::CutOff))?;
        file.read_exact_at(&mut trailer, trailer_at).map_err(failed)?;
        if trailer[12..] != END_MAGIC {
            return Err(error(ErrorKind::CutOff));
        }
        let word = |at: usize| u64::from_le_bytes(trailer[at..at + 8].try_into().expect("eight"));
        let checksum = u32::from_le_bytes(trailer[..4].try_into().expect("four bytes"));
        let (at, source) = (word(4), Arc::new(Source { path: path.to_owned(), file }));
        if at < 16 || at > trailer_at {
            return Err(source.damaged("its end"));
        }
        let (kind, thread, len) = (section_kind::END, 0, trailer_at - at);
        let end = source.section(Section { kind, thread, at, len, crc: checksum.into() })?;
        let (ending, events, sections) =
            read_end(&mut Bytes(&end), at).map_err(|Bad| source.damaged("its end"))?;
        let mut program = Self {
            about: About::default(),
            ending,
            source,
            sections: sections.into(),
            events,
            blocks: Arc::default(),
            sites: Arc::default(),
            bytes,
        };
        program.read_code()?;
        Ok(program)
    }

    fn read_code(&mut self) -> Result<(), ProgramError> {
        let (mut sites, mut blocks) = (Vec::new(), vec![0]);
        let mut stream = Vec::new();
        for section in self.sections.iter() {
            let is_code = match section.kind {
                section_kind::ABOUT => false,
                section_kind::CODE => true,
                _ => continue,
            };
            let bytes = self.source.section(*section)?;
            let bad = |Bad| self.source.damaged(format!("the section at byte {}", section.at));
            let mut bytes = Bytes(&bytes);
            if !is_code {
                self.about = About::read(&mut bytes).map_err(bad)?;
                continue;
            }
            read_stream(&mut bytes, &mut stream).map_err(bad)?;
            let mut code = Bytes(&stream);
            while !code.0.is_empty() {
                read_block(&mut code, &mut sites).map_err(bad)?;
                blocks.push(sites.len() as u32);
            }
        }
        (self.sites, self.blocks) = (sites.into(), blocks.into());
        Ok(())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.source.path
    }

    /// The trace's description of itself.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// How the capture ended.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Threads that it has.
    pub fn threads(&self) -> u16 {
        self.events.len() as u16
    }

    /// Instructions of all threads. Reads all of the trace.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn instructions(&self) -> Result<u64, ProgramError> {
        let mut instructions = 0;
        for number in 0..self.threads() {
            let mut thread = self.thread(number);
            while let Some(happening) = thread.next()? {
                if let Happening::Execution(execution) = happening {
                    instructions += u64::from(execution.insns.end - execution.insns.start);
                }
            }
        }
        Ok(instructions)
    }

    /// Events of a thread that are written out, as they were not expected.
    pub fn events(&self, thread: u16) -> u64 {
        self.events[usize::from(thread)]
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Blocks of instructions that it has.
    pub fn blocks(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    /// The instructions of a block.
    ///
    /// # Panics
    /// When there is no such block.
    pub fn block(&self, block: u32) -> &[Site] {
        let (from, to) = (self.blocks[block as usize], self.blocks[block as usize + 1]);
        &self.sites[from as usize..to as usize]
    }

    /// The contents of the pages before they were touched first, in the order in which they were.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn pages(&self) -> Result<Vec<Page>, ProgramError> {
        self.pages_of(section_kind::PAGES)
    }

    /// The final contents of the pages that the program still had; none where it was killed.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn final_pages(&self) -> Result<Vec<Page>, ProgramError> {
        self.pages_of(section_kind::FINAL)
    }

    fn pages_of(&self, kind: u8) -> Result<Vec<Page>, ProgramError> {
        let (mut pages, mut stream) = (Vec::new(), Vec::new());
        for section in self.sections.iter().filter(|section| section.kind == kind) {
            let bad = |Bad| self.source.damaged(format!("the section at byte {}", section.at));
            let bytes = self.source.section(*section)?;
            read_stream(&mut Bytes(&bytes), &mut stream).map_err(bad)?;
            let mut from = Bytes(&stream);
            while !from.0.is_empty() {
                let number = from.number().map_err(bad)?;
                let bytes = from.take(PAGE_BYTES).map_err(bad)?;
                if number >= 1 << 52 {
                    return Err(bad(Bad));
                }
                let bytes: Box<[u8]> = bytes.into();
                pages.push(Page { number, bytes: bytes.try_into().expect("a page's bytes") });
            }
        }
        Ok(pages)
    }

    /// Reads a thread from its begin.
    pub fn thread(&self, thread: u16) -> Thread {
        let is_its = |section: &&Section| {
            section.kind == section_kind::STRETCH && section.thread == u64::from(thread)
        };
        let sections = self.sections.iter().filter(is_its).copied().collect();
        Thread::new(Arc::clone(&self.source), sections, Arc::clone(&self.blocks))
    }
}

type End = (Ending, Vec<u64>, Vec<Section>);

fn read_end(from: &mut Bytes<'_>, at: u64) -> Result<End, Bad> {
    let ending = Ending::read(from)?;
    let threads = from.count(1)?;
    if threads > usize::from(u16::MAX) {
        return Err(Bad);
    }
    let events = (0..threads).map(|_| from.number()).collect::<Result<Vec<_>, _>>()?;
    let count = from.count(5)?;
    let section = |_| {
        let kind = from.byte()?;
        let mut number = || from.number();
        let section =
            Section { kind, thread: number()?, at: number()?, len: number()?, crc: number()? };
        let end = section.at.checked_add(section.len).ok_or(Bad)?;
        if end > at { Err(Bad) } else { Ok(section) }
    };
    let sections = (0..count).map(section).collect::<Result<Vec<_>, _>>()?;
    if from.0.is_empty() { Ok((ending, events, sections)) } else { Err(Bad) }
}
