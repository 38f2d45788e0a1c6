//! The stacks of calls: unwound while the thread is stopped, named once the program has ended.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::Loader;
use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module,
    UnwindRegsNative, Unwinder, UnwinderNative,
};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol};
use rustc_hash::{FxHashMap, FxHashSet};

use super::python::{Frame, Python};
use crate::sys::{self, Here, Tid};

/// Frames of a stack, from the innermost one, of which more are not looked for.
const FRAMES_MAX: usize = 64;
/// Named frames that a call is shown with.
const FRAMES_SHOWN: usize = 8;
/// Bytes of a stack that are read at once.
const STACK_PAGE: u64 = 4096;

/// An instruction: a file of code by its number, and the address that the file itself gives it.
type Place = (u32, u64);

/// The file of functions of Python: their addresses are indices into their names.
const PYTHON: u32 = u32::MAX;

/// A number of a stack: equal ones share it.
pub type StackId = u32;

/// A part of a file of code: its name, its addresses and its bytes.
type Section = (&'static str, Range<u64>, Arc<[u8]>);

/// A file of code with its unwinding tables.
#[derive(Debug)]
struct Code {
    path: PathBuf,
    /// Its segments that run: bytes of the file, and the address of the first.
    segments: Vec<(Range<u64>, u64)>,
    sections: Vec<Section>,
    /// The addresses of `_PyRuntime` and `Py_Version`, of a file that has an interpreter of Python.
    python: Option<(u64, u64)>,
}

/// The code in a process's memory.
struct Space {
    unwinder: UnwinderNative<Arc<[u8]>, MayAllocateDuringUnwind>,
    /// Addresses in order: a file of code each, with the distance from its own addresses.
    modules: Vec<(Range<u64>, u32, u64)>,
    /// Pages without a known file: looked up once.
    unknown: FxHashSet<u64>,
    python: Option<Python>,
}

/// All stacks of a run.
#[derive(Default)]
pub struct Stacks {
    spaces: FxHashMap<Tid, Space>,
    cache: CacheNative<MayAllocateDuringUnwind>,
    codes: Vec<Code>,
    by_path: FxHashMap<PathBuf, Option<u32>>,
    ids: FxHashMap<Vec<Place>, StackId>,
    /// Functions of Python, each with the index of its name.
    of_python: FxHashMap<(Tid, Frame), u64>,
    python_names: Vec<String>,
}

impl std::fmt::Debug for Stacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stacks").field("stacks", &self.ids.len()).finish_non_exhaustive()
    }
}

const SECTIONS: [&str; 5] = [".text", ".eh_frame", ".eh_frame_hdr", ".debug_frame", ".got"];

impl Code {
    fn read(path: &Path) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let segments = file
            .segments()
            .filter(|segment| segment.permissions().executable())
            .map(|segment| {
                let (offset, length) = segment.file_range();
                (offset..offset + length, segment.address())
            })
            .collect();
        let mut sections = Vec::new();
        for name in SECTIONS {
            let Some(section) = file.section_by_name(name) else { continue };
            let range = section.address()..section.address() + section.size();
            // Code itself is not looked at: every place in it has its rule.
            let data = match name {
                ".text" | ".got" => Arc::default(),
                _ => Arc::from(section.uncompressed_data().ok()?.as_ref()),
            };
            sections.push((name, range, data));
        }
        let symbol = |name: &str| {
            let mut found = file.dynamic_symbols().filter(|symbol| symbol.address() != 0);
            found.find(|symbol| symbol.name() == Ok(name)).map(|symbol| symbol.address())
        };
        let python = symbol("_PyRuntime").zip(symbol("Py_Version"));
        Some(Self { path: path.to_owned(), segments, sections, python })
    }

    fn module(&self, range: Range<u64>, bias: u64) -> Module<Arc<[u8]>> {
        let find = |wanted: &str| self.sections.iter().find(|(name, ..)| *name == wanted);
        let place = |name| find(name).map(|(_, range, _)| range.clone());
        let data = |name| find(name).map(|(_, _, data)| Arc::clone(data));
        Module::new(
            self.path.display().to_string(),
            range,
            bias,
            ExplicitModuleSectionInfo {
                base_svma: 0,
                text_svma: place(".text"),
                got_svma: place(".got"),
                eh_frame_svma: place(".eh_frame"),
                eh_frame: data(".eh_frame"),
                eh_frame_hdr_svma: place(".eh_frame_hdr"),
                eh_frame_hdr: data(".eh_frame_hdr"),
                debug_frame: data(".debug_frame"),
                ..ExplicitModuleSectionInfo::default()
            },
        )
    }
}

impl Stacks {
    /// The stack of a stopped thread; none if nothing of it is known.
    pub fn of(&mut self, tid: Tid, process: Tid) -> Option<StackId> {
        let Here { instruction, stack, frame, link } = sys::here(tid).ok()?;
        let mut places = self.unwind(tid, process, instruction, (link, stack, frame));
        if places.is_empty() {
            return None;
        }
        places.truncate(FRAMES_MAX);
        if let Some(python) = self.spaces.get(&process).and_then(|space| space.python) {
            for frame in python.frames(tid) {
                let known = self.of_python.get(&(process, frame)).copied();
                let index = known.or_else(|| {
                    self.python_names.push(python.named(tid, &frame)?);
                    let index = self.python_names.len() as u64 - 1;
                    self.of_python.insert((process, frame), index);
                    Some(index)
                });
                places.extend(index.map(|index| (PYTHON, index)));
            }
        }
        let next = self.ids.len() as StackId;
        Some(*self.ids.entry(places).or_insert(next))
    }

    /// Another program runs in the process, or it has ended.
    pub fn forget(&mut self, process: Tid) {
        self.spaces.remove(&process);
    }

    fn unwind(
        &mut self,
        tid: Tid,
        process: Tid,
        instruction: u64,
        (link, stack, frame): (u64, u64, u64),
    ) -> Vec<Place> {
        let mut pages: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut read = |address: u64| {
            let page = address & !(STACK_PAGE - 1);
            let known = pages.iter().position(|&(at, _)| at == page);
            let index = known.unwrap_or_else(|| {
                pages.push((page, sys::read_memory(tid, page, STACK_PAGE as usize)));
                pages.len() - 1
            });
            let from = (address - page) as usize;
            let word = pages[index].1.get(from..from + 8).ok_or(())?;
            Ok(u64::from_ne_bytes(word.try_into().map_err(|_| ())?))
        };
        self.spaces.entry(process).or_insert_with(|| Space {
            unwinder: UnwinderNative::new(),
            modules: Vec::new(),
            unknown: FxHashSet::default(),
            python: None,
        });
        // Once more if a library has come in the meantime.
        for _ in 0..2 {
            let space = &self.spaces[&process];
            let mut registers = registers(instruction, link, stack, frame);
            let mut places = Vec::new();
            let mut address = FrameAddress::from_instruction_pointer(instruction);
            let mut stranger = None;
            while places.len() < FRAMES_MAX {
                let at = address.address_for_lookup();
                match space.place(at) {
                    Some(place) => places.push(place),
                    None if !space.unknown.contains(&(at / STACK_PAGE)) => {
                        stranger = Some(at);
                        break;
                    }
                    None => {}
                }
                let next = space.unwinder.unwind_frame(
                    address,
                    &mut registers,
                    &mut self.cache,
                    &mut read,
                );
                let Ok(Some(next)) = next else { break };
                let Some(next) = FrameAddress::from_return_address(next) else { break };
                address = next;
            }
            match stranger {
                Some(at) => self.look(process, at),
                None => return places,
            }
        }
        Vec::new()
    }

    /// Reads which files of code the process has in memory, and notes `at` as unknown if it is in none.
    fn look(&mut self, process: Tid, at: u64) {
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
        let mut modules = Vec::new();
        let mut unwinder = UnwinderNative::new();
        let mut python = None;
        for line in maps.lines() {
            let Some((range, offset, path)) = code_of(line) else { continue };
            let code = *self.by_path.entry(path.to_owned()).or_insert_with(|| {
                self.codes.push(Code::read(path)?);
                Some(self.codes.len() as u32 - 1)
            });
            let Some(number) = code else { continue };
            let code = &self.codes[number as usize];
            let page = sys::page_bytes();
            let segment = code.segments.iter().find(|(bytes, _)| is_mapped(bytes, offset, page));
            let Some((bytes, address)) = segment else { continue };
            let own = address.wrapping_add(offset).wrapping_sub(bytes.start);
            let bias = range.start.wrapping_sub(own);
            unwinder.add_module(code.module(range.clone(), bias));
            if let Some((runtime, version)) = code.python {
                let at = |address: u64| bias.wrapping_add(address);
                python = python.or_else(|| Python::new(process, at(runtime), at(version)));
            }
            modules.push((range, number, bias));
        }
        if let Some(space) = self.spaces.get_mut(&process) {
            let unknown = std::mem::take(&mut space.unknown);
            *space = Space { unwinder, modules, unknown, python };
            if space.place(at).is_none() {
                space.unknown.insert(at / STACK_PAGE);
            }
        }
    }

    /// Each stack in words, from the innermost function with a name.
    #[must_use]
    pub fn named(&self) -> Vec<String> {
        let mut loaders: Vec<Option<Loader>> = Vec::new();
        loaders.resize_with(self.codes.len(), || None);
        let mut names: FxHashMap<Place, Vec<String>> = FxHashMap::default();
        let mut stacks = vec![String::new(); self.ids.len()];
        for (places, &id) in &self.ids {
            let mut shown: Vec<String> = Vec::new();
            let by_python = places.iter().any(|&(code, _)| code == PYTHON);
            for &place in places {
                if place.0 == PYTHON {
                    shown.push(self.python_names[place.1 as usize].clone());
                    continue;
                }
                // The interpreter's own functions stand for those of Python.
                if by_python && self.codes[place.0 as usize].python.is_some() {
                    continue;
                }
                let named = names.entry(place).or_insert_with(|| {
                    let code = &self.codes[place.0 as usize];
                    let loader = &mut loaders[place.0 as usize];
                    if loader.is_none() {
                        *loader = Loader::new(&code.path).ok();
                    }
                    loader.as_ref().map(|loader| name(loader, place.1)).unwrap_or_default()
                });
                shown.extend(named.iter().cloned());
            }
            stacks[id as usize] = the_programs(shown).join(" < ");
        }
        stacks
    }
}

impl Space {
    fn place(&self, address: u64) -> Option<Place> {
        let index = self.modules.partition_point(|(range, ..)| range.end <= address);
        let (range, code, bias) = self.modules.get(index)?;
        range.contains(&address).then(|| (*code, address.wrapping_sub(*bias)))
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(instruction: u64, _: u64, stack: u64, frame: u64) -> UnwindRegsNative {
    UnwindRegsNative::new(instruction, stack, frame)
}

#[cfg(target_arch = "aarch64")]
fn registers(_: u64, link: u64, stack: u64, frame: u64) -> UnwindRegsNative {
    let mask = framehop::aarch64::PtrAuthMask::new_24_40();
    UnwindRegsNative::new_with_ptr_auth_mask(mask, link, stack, frame)
}

/// A mapping of code: its addresses, where in the file it begins, and the file.
fn code_of(line: &str) -> Option<(Range<u64>, u64, &Path)> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
    let runs = words.next()?.as_bytes().get(2) == Some(&b'x');
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let path = words.nth(2)?.trim_start();
    (runs && path.starts_with('/')).then(|| (range, offset, Path::new(path)))
}

/// Functions at an address, inlined ones first: 'append (log.c:41)'.
fn name(loader: &Loader, address: u64) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(mut frames) = loader.find_frames(address) {
        while let Ok(Some(frame)) = frames.next() {
            let Some(function) = frame.function else { continue };
            let Ok(function) = function.demangle() else { continue };
            let function = without_hash(&function);
            names.push(match frame.location {
                Some(addr2line::Location { file: Some(file), line: Some(line), .. }) => {
                    let file = Path::new(file).file_name().unwrap_or_default();
                    format!("{function} ({}:{line})", file.to_string_lossy())
                }
                _ => function.to_owned(),
            });
        }
    }
    if names.is_empty()
        && let Some(symbol) = loader.find_symbol(address)
    {
        let symbol = addr2line::demangle_auto(symbol.into(), None);
        names.push(without_hash(&symbol).to_owned());
    }
    names
}

/// A name of Rust without the hash behind it.
fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((before, hash))
            if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            before
        }
        _ => name,
    }
}

/// Whether a mapping from this offset of the file on is one of a segment with these bytes, which begins within a page.
fn is_mapped(segment: &Range<u64>, offset: u64, page: u64) -> bool {
    segment.start & !(page - 1) <= offset && offset < segment.end
}

/// Beginnings of functions around a program's own, with which calls and threads begin.
const AROUND: &[&str] = &[
    "__libc_",
    "__GI_",
    "_IO_",
    "_start",
    "__start",
    "start_thread",
    "clone",
    "__clone",
    "std::",
    "core::",
    "alloc::",
    "<std::",
    "<core::",
    "<alloc::",
    "<&std::",
    "<&dyn core::",
    "__rust_",
    "runtime.",
    "syscall.",
    "internal/",
];

/// Frames that a reader looks for: those of languages' libraries around calls and threads are left out, as long as
/// others are there.
fn the_programs(frames: Vec<String>) -> Vec<String> {
    let is_around = |frame: &String| AROUND.iter().any(|around| frame.starts_with(around));
    let own: Vec<String> = frames.iter().filter(|frame| !is_around(frame)).cloned().collect();
    let mut shown = if own.is_empty() { frames } else { own };
    shown.truncate(FRAMES_SHOWN);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_mapped_to_run() {
        let line = "7f00-7fff r-xp 00001000 08:01 12    /usr/lib/with space.so";
        let found = code_of(line);
        assert_eq!(found, Some((0x7f00..0x7fff, 0x1000, Path::new("/usr/lib/with space.so"))));
        assert_eq!(code_of("7f00-7fff rw-p 00001000 08:01 12    /usr/lib/a.so"), None);
        assert_eq!(code_of("7f00-7fff r-xp 00000000 00:00 0     [vdso]"), None);
    }

    /// The kernel maps a segment from the page on in which it begins.
    #[test]
    fn a_segment_is_found_by_the_offset_that_its_page_has() {
        let code = 0x1_4e00..0x3_0000;
        assert!(is_mapped(&code, 0x1_4000, 4096) && is_mapped(&code, 0x2_0000, 4096));
        assert!(is_mapped(&code, 0x1_0000, 65536) && !is_mapped(&code, 0x1_0000, 4096));
        assert!(!is_mapped(&code, 0x3_0000, 65536) && !is_mapped(&code, 0, 65536));
    }

    #[test]
    fn names_are_of_the_program() {
        let names = |frames: &[&str]| frames.iter().map(|&name| name.to_owned()).collect();
        let shown =
            the_programs(names(&["write", "std::io::Write", "log::append (log.rs:4)", "_start"]));
        assert_eq!(shown, ["write", "log::append (log.rs:4)"]);
        assert_eq!(the_programs(names(&["_start"])), ["_start"], "better than nothing");
        assert_eq!(without_hash("log::append::h0123456789abcdef"), "log::append");
        assert_eq!(without_hash("log::append::hello"), "log::append::hello");
    }
}
