//! Programs that a process becomes by `execve`.
//!
//! QEMU's user mode hands the call to the system, which would run the new program on the bare
//! processor. The plugin makes the call itself, before QEMU does, and names QEMU with this plugin as
//! the program and the guest's program as its argument. The new program's trace is a file of its own.
//! The calls that the system refuses are left to QEMU, so that the guest gets its error.

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::{Options, PAGE, pages};

unsafe extern "C" {
    fn access(path: *const c_char, mode: c_int) -> c_int;
    fn execve(
        path: *const c_char,
        arguments: *const *const c_char,
        environment: *const *const c_char,
    ) -> c_int;
    fn getegid() -> u32;
    fn geteuid() -> u32;
    fn getxattr(path: *const c_char, name: *const c_char, into: *mut c_void, bytes: usize)
    -> isize;
}

/// Interpreters of interpreters that the system goes through.
const INTERPRETERS_MAX: usize = 4;
/// The bytes of a file that say of which kind it is.
const START_BYTES: usize = 256;
/// The most words of a command or an environment, and bytes of each: as the system has it.
const WORDS_MAX: u64 = 1 << 16;
const WORD_BYTES_MAX: usize = 128 << 10;

/// What a process runs, as the driver or [`become_program`] has started it.
#[derive(Clone)]
pub struct Running {
    /// QEMU's own words, up to the plugin's.
    qemu: Vec<Vec<u8>>,
    /// The plugin with its options.
    plugin: Vec<u8>,
    /// The program's file, then its arguments from its name on.
    pub program: Vec<Vec<u8>>,
}

impl Running {
    /// Reads QEMU's command line; none if the driver has not made it.
    pub fn find() -> Option<Self> {
        let line = std::fs::read("/proc/self/cmdline").ok()?;
        let words: Vec<Vec<u8>> = line.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        let at = |word: &[u8]| words.iter().position(|found| found == word);
        let (plugin, name) = (at(b"-plugin")?, at(b"-0")?);
        // Behind the name the file, its arguments, and the empty word after the last zero.
        let rest = words.get(name + 1..words.len() - 1)?;
        let (name, rest) = rest.split_first()?;
        let (file, arguments) = rest.split_first()?;
        // The driver may run in another directory.
        let file = std::path::absolute(OsStr::from_bytes(file)).ok()?;
        let mut program = vec![file.as_os_str().as_bytes().to_vec(), name.clone()];
        program.extend_from_slice(arguments);
        let qemu = words[..plugin].to_vec();
        Some(Self { qemu, plugin: words.get(plugin + 1)?.clone(), program })
    }

    /// The plugin's file, as QEMU's `-plugin` names it.
    pub fn plugin(&self) -> String {
        let options = String::from_utf8_lossy(&self.plugin);
        options.split(',').next().unwrap_or_default().to_owned()
    }
}

/// A program that a process is about to become.
pub struct Next {
    /// Its file, or its interpreter's.
    pub file: Vec<u8>,
    /// Its name and arguments.
    arguments: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
}

/// An `execve` that is not followed.
pub enum Left {
    /// The system refuses it.
    Refused,
    /// The system runs a program that cannot be captured: its file, and the reason.
    Bare(Vec<u8>, &'static str),
}

/// The program that the arguments of an `execve` name.
pub fn next(arguments: &[u64; 6], base: u64, running: &Running) -> Result<Next, Left> {
    let [file, words, environment, ..] = *arguments;
    let mut file = text(file, base).ok_or(Left::Refused)?;
    if file == b"/proc/self/exe" {
        // The host's link leads to QEMU.
        file.clone_from(&running.program[0]);
    }
    let environment = texts(environment, base).ok_or(Left::Refused)?;
    let mut next = Next { file, arguments: texts(words, base).ok_or(Left::Refused)?, environment };
    for _ in 0..=INTERPRETERS_MAX {
        match kind(&next.file)? {
            None => return Ok(next),
            Some((interpreter, option)) => {
                let rest = next.arguments.split_off(next.arguments.len().min(1));
                next.arguments = vec![interpreter.clone()];
                next.arguments.extend(option);
                next.arguments.push(std::mem::replace(&mut next.file, interpreter));
                next.arguments.extend(rest);
            }
        }
    }
    Err(Left::Refused)
}

/// An interpreter and the one word that it may get.
type Interpreter = (Vec<u8>, Option<Vec<u8>>);

/// A program's interpreter; none if the program runs by itself.
fn kind(file: &[u8]) -> Result<Option<Interpreter>, Left> {
    let bare = |why| Err(Left::Bare(file.to_vec(), why));
    let path = Path::new(OsStr::from_bytes(file));
    let named = CString::new(file).map_err(|_| Left::Refused)?;
    let data = std::fs::metadata(path).map_err(|_| Left::Refused)?;
    // SAFETY: a string that ends with a zero; 1 asks for the right to execute.
    if !data.is_file() || unsafe { access(named.as_ptr(), 1) } != 0 {
        return Err(Left::Refused);
    }
    let mut start = Vec::new();
    let Ok(opened) = File::open(path) else { return bare("it cannot be read") };
    opened.take(START_BYTES as u64).read_to_end(&mut start).map_err(|_| Left::Refused)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        return interpreter(line).map(Some).ok_or(Left::Refused);
    }
    if !start.starts_with(b"\x7fELF") {
        return Err(Left::Refused);
    }
    if start.get(4) != Some(&2) || start.get(18..20) != Some(&[62, 0]) {
        return bare("it is no program for x86-64");
    }
    // SAFETY: both ask about the process alone.
    let (user, group) = unsafe { (geteuid(), getegid()) };
    let takes = |bit, own: bool| data.mode() & bit != 0 && !own;
    // SAFETY: two strings that end with zeros, and no room for the answer but for its length.
    let rights = unsafe {
        getxattr(named.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
    };
    if takes(0o4000, data.uid() == user) || takes(0o2000, data.gid() == group) || rights > 0 {
        return bare("the system gives it rights that QEMU has not");
    }
    Ok(None)
}

/// The words of a script's first line.
fn interpreter(line: &[u8]) -> Option<Interpreter> {
    let line = line.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let name =
        line.split(|byte| matches!(byte, b' ' | b'\t')).next().filter(|it| !it.is_empty())?;
    let option = line[name.len()..].trim_ascii();
    Some((name.to_vec(), (!option.is_empty()).then(|| option.to_vec())))
}

/// Becomes a program under QEMU, with what is left of the window. Returns where the system refuses.
pub fn become_program(next: Next, running: &Running, options: &Options) -> std::io::Error {
    let mut words = running.qemu.clone();
    words.extend([b"-plugin".to_vec(), options.text().into_bytes()]);
    // Else the loader of QEMU would take the variables that are for the program's.
    let (loaders, environment): (Vec<_>, Vec<_>) =
        next.environment.into_iter().partition(|word| word.starts_with(b"LD_"));
    words.extend(loaders.into_iter().flat_map(|word| [b"-E".to_vec(), word]));
    let mut arguments = next.arguments.into_iter();
    words.extend([b"-0".to_vec(), arguments.next().unwrap_or_default()]);
    // A name that begins with a dash would be an option of QEMU's.
    let here: &[u8] = if next.file.starts_with(b"-") { b"./" } else { b"" };
    words.push([here, &next.file].concat());
    words.extend(arguments);
    let (words, environment) = (strings(words), strings(environment));
    let (words, environment) = (pointers(&words), pointers(&environment));
    // SAFETY: a string and two lists of strings, each with its end.
    unsafe { execve(c"/proc/self/exe".as_ptr(), words.as_ptr(), environment.as_ptr()) };
    std::io::Error::last_os_error()
}

fn strings(words: Vec<Vec<u8>>) -> Vec<CString> {
    words.into_iter().filter_map(|word| CString::new(word).ok()).collect()
}

fn pointers(words: &[CString]) -> Vec<*const c_char> {
    words.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect()
}

/// A string of the guest's.
fn text(at: u64, base: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let mut at = at;
    while text.len() < WORD_BYTES_MAX {
        let page = pages::read(at / PAGE, base)?;
        let here = &page[(at % PAGE) as usize..];
        if let Some(end) = here.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&here[..end]);
            return Some(text);
        }
        text.extend_from_slice(here);
        at += here.len() as u64;
    }
    None
}

/// A list of strings of the guest's; empty where there is none.
fn texts(at: u64, base: u64) -> Option<Vec<Vec<u8>>> {
    let mut texts = Vec::new();
    for number in 0..if at == 0 { 0 } else { WORDS_MAX } {
        match crate::word(at + 8 * number)? {
            0 => break,
            at => texts.push(text(at, base)?),
        }
    }
    Some(texts)
}
