//! Functions of Python on a thread's stack, read from the interpreter's own structures.
//!
//! Versions 3.11 and 3.12 have their offsets here, as their headers give them; 3.13 tells its own at the beginning of
//! `_PyRuntime`. Others are shown by the functions of the interpreter alone.

use crate::sys::{self, Tid};

/// Frames of which more are not looked for: a chain that is read while it is wrong may be endless.
const FRAMES_MAX: usize = 64;
/// Threads of an interpreter that are looked at.
const THREADS_MAX: usize = 1024;
/// Bytes of a name.
const NAME_MAX: u64 = 512;
/// Bytes of a table of lines.
const TABLE_MAX: u64 = 1 << 16;

/// Where the fields of an interpreter's structures lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Offsets {
    interpreters: u64,
    threads: u64,
    next_thread: u64,
    thread_id: u64,
    /// The current frame, or where its address is kept.
    frame: u64,
    /// The place of the current frame behind that address, where there is one more step.
    through: Option<u64>,
    previous: u64,
    code: u64,
    instruction: u64,
    owner: u64,
    file: u64,
    name: u64,
    first_line: u64,
    lines: u64,
    instructions: u64,
    /// The characters of a text of ASCII.
    ascii: u64,
}

const V3_11: Offsets = Offsets {
    interpreters: 40,
    threads: 16,
    next_thread: 8,
    thread_id: 160,
    frame: 56,
    through: Some(8),
    previous: 48,
    code: 32,
    instruction: 56,
    owner: 69,
    file: 112,
    name: 128,
    first_line: 72,
    lines: 136,
    instructions: 184,
    ascii: 48,
};

const V3_12: Offsets = Offsets {
    interpreters: 40,
    threads: 72,
    next_thread: 8,
    thread_id: 144,
    frame: 56,
    through: Some(0),
    previous: 8,
    code: 0,
    instruction: 56,
    owner: 70,
    file: 112,
    name: 128,
    first_line: 68,
    lines: 136,
    instructions: 192,
    ascii: 40,
};

/// The owner of a frame that stands for C code.
const OWNER_C: u8 = 3;

/// An interpreter in a process.
#[derive(Clone, Copy, Debug)]
pub struct Python {
    runtime: u64,
    offsets: Offsets,
}

/// A function on the stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Frame {
    /// Its code object, and where its name and file are.
    code: u64,
    name: u64,
    file: u64,
    first_line: u32,
    /// Bytes of its instructions before the one that runs.
    offset: u64,
    lines: u64,
}

fn word(tid: Tid, address: u64) -> Option<u64> {
    Some(u64::from_ne_bytes(sys::read_memory(tid, address, 8).try_into().ok()?))
}

impl Python {
    /// The interpreter whose symbols `_PyRuntime` and `Py_Version` lie at these addresses of a process.
    pub fn new(tid: Tid, runtime: u64, version: u64) -> Option<Self> {
        let version = word(tid, version)? as u32 >> 16;
        let offsets = match version {
            0x030b => V3_11,
            0x030c => V3_12,
            0x030d => told(tid, runtime)?,
            _ => return None,
        };
        Some(Self { runtime, offsets })
    }

    /// The functions on a thread's stack, from the innermost one.
    pub fn frames(&self, tid: Tid) -> Vec<Frame> {
        let Offsets { previous, code, instruction, owner, .. } = self.offsets;
        let mut frames = Vec::new();
        let mut at = self.current(tid).unwrap_or(0);
        while at != 0 && frames.len() < FRAMES_MAX {
            let bytes = sys::read_memory(tid, at, 80);
            let word = |offset: u64| {
                let bytes = bytes.get(offset as usize..offset as usize + 8)?;
                Some(u64::from_ne_bytes(bytes.try_into().ok()?))
            };
            let (Some(code), Some(runs), Some(next)) =
                (word(code), word(instruction), word(previous))
            else {
                break;
            };
            if bytes.get(owner as usize) != Some(&OWNER_C) && code != 0 {
                frames.extend(self.frame(tid, code, runs));
            }
            at = next;
        }
        frames
    }

    fn current(&self, tid: Tid) -> Option<u64> {
        let interpreter = word(tid, self.runtime + self.offsets.interpreters)?;
        let mut thread = word(tid, interpreter + self.offsets.threads)?;
        for _ in 0..THREADS_MAX {
            if thread == 0 {
                return None;
            }
            if word(tid, thread + self.offsets.thread_id)? == tid as u64 {
                let frame = word(tid, thread + self.offsets.frame)?;
                return match self.offsets.through {
                    Some(through) => word(tid, frame + through),
                    None => Some(frame),
                };
            }
            thread = word(tid, thread + self.offsets.next_thread)?;
        }
        None
    }

    fn frame(&self, tid: Tid, code: u64, runs: u64) -> Option<Frame> {
        let Offsets { file, name, first_line, lines, instructions, .. } = self.offsets;
        let bytes = sys::read_memory(tid, code, instructions as usize);
        let word = |offset: u64| {
            let bytes = bytes.get(offset as usize..offset as usize + 8)?;
            Some(u64::from_ne_bytes(bytes.try_into().ok()?))
        };
        Some(Frame {
            code,
            name: word(name)?,
            file: word(file)?,
            first_line: word(first_line)? as u32,
            offset: runs.saturating_sub(code + instructions),
            lines: word(lines)?,
        })
    }

    /// A function for people: 'append (log.py:41)'.
    pub fn named(&self, tid: Tid, frame: &Frame) -> Option<String> {
        let name = self.text(tid, frame.name)?;
        let file = self.text(tid, frame.file)?;
        let file = file.rsplit('/').next().unwrap_or(&file);
        // A bytes object: its length, then a hash, then its bytes.
        let length = word(tid, frame.lines + 16)?.min(TABLE_MAX);
        let table = sys::read_memory(tid, frame.lines + 32, length as usize);
        Some(match line(&table, frame.first_line, frame.offset / 2) {
            Some(line) => format!("{name} ({file}:{line})"),
            None => format!("{name} ({file})"),
        })
    }

    /// A text of ASCII; others are not shown.
    fn text(&self, tid: Tid, object: u64) -> Option<String> {
        let length = word(tid, object + 16)?;
        if object == 0 || length > NAME_MAX {
            return None;
        }
        let bytes = sys::read_memory(tid, object + self.offsets.ascii, length as usize);
        let shown = bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
        (shown && !bytes.is_empty()).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// The offsets that 3.13 tells of itself: words behind the cookie `xdebugpy`.
fn told(tid: Tid, runtime: u64) -> Option<Offsets> {
    let bytes = sys::read_memory(tid, runtime, 8 * 50);
    if !bytes.starts_with(b"xdebugpy") {
        return None;
    }
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
        .collect();
    let word = |index: usize| words.get(index).copied();
    // cookie, version, free-threaded; runtime state: size, finalizing, head; interpreter: size, id, next, threads, …
    Some(Offsets {
        interpreters: word(5)?,
        threads: word(9)?,
        next_thread: word(21)?,
        frame: word(23)?,
        through: None,
        thread_id: word(25)?,
        previous: word(29)?,
        code: word(30)?,
        instruction: word(31)?,
        owner: word(33)?,
        file: word(35)?,
        name: word(37)?,
        lines: word(38)?,
        first_line: word(39)?,
        instructions: word(43)?,
        ascii: 40,
    })
}

/// The line of the instruction `units` code units behind the first, by a table of locations (PEP 626, as 3.11 lays it
/// out).
fn line(table: &[u8], first: u32, units: u64) -> Option<i64> {
    let mut bytes = table.iter().copied().peekable();
    let (mut line, mut at) = (i64::from(first), 0);
    while let Some(head) = bytes.next() {
        let length = u64::from(head & 7) + 1;
        let kind = head >> 3 & 15;
        match kind {
            0..=9 => {
                bytes.next()?;
            }
            10..=12 => {
                line += i64::from(kind - 10);
                bytes.next()?;
                bytes.next()?;
            }
            13 => line += signed(&mut bytes)?,
            14 => {
                line += signed(&mut bytes)?;
                for _ in 0..3 {
                    number(&mut bytes)?;
                }
            }
            _ => {}
        }
        if units < at + length {
            return (kind != 15).then_some(line);
        }
        at += length;
    }
    None
}

fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes.next()?;
        value |= u64::from(byte & 63) << shift;
        if byte & 64 == 0 {
            return Some(value);
        }
        shift = (shift + 6).min(58);
    }
}

fn signed(bytes: &mut impl Iterator<Item = u8>) -> Option<i64> {
    let value = number(bytes)?;
    let size = (value >> 1) as i64;
    Some(if value & 1 == 0 { size } else { -size })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_from_the_table() {
        // Two units on the first line, then three a line later, then one without a line.
        let table = [0x80 | 1, 0x12, 0x80 | 11 << 3 | 2, 0, 4, 0x80 | 15 << 3];
        assert_eq!(line(&table, 10, 0), Some(10));
        assert_eq!(line(&table, 10, 1), Some(10));
        assert_eq!(line(&table, 10, 4), Some(11));
        assert_eq!(line(&table, 10, 5), None);
        assert_eq!(line(&table, 10, 6), None);
        // A long form: two lines back.
        let back = [0x80 | 14 << 3, 5, 0, 0, 0];
        assert_eq!(line(&back, 10, 0), Some(8));
        assert_eq!(line(&back[..2], 10, 0), None, "a table that is cut off");
    }
}
