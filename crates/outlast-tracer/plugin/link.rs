//! The way to the driver: chunks of words in memory that both map, and a socket on which one says
//! that a chunk is full and the other that it is free again.
//!
//! A chunk begins with its thread, or with a zero while it is free, and a zero stands behind the last
//! event: the driver can read one whose writer was killed.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::exec::Running;
use crate::words::{CHUNK_WORDS, CHUNKS, Message, head};

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        len: usize,
        prot: c_int,
        flags: c_int,
        fd: c_int,
        from: i64,
    ) -> *mut c_void;
    fn fcntl(file: c_int, command: c_int, ...) -> c_int;
    fn close(file: c_int) -> c_int;
}

/// Closes a file that this process was started with.
pub fn close_file(file: c_int) {
    // SAFETY: nothing here owns it.
    unsafe { close(file) };
}

/// The connection of one process.
pub struct Link {
    socket: UnixStream,
    base: *mut u64,
    free: Vec<u32>,
}

// SAFETY: the memory is the process's, and chunks are handed out one by one.
unsafe impl Send for Link {}

/// A chunk that a vCPU fills.
#[derive(Clone, Copy)]
pub struct Chunk {
    number: u32,
    pub begin: *mut u64,
    pub end: *mut u64,
}

impl Link {
    /// Connects to the driver that listens in this directory.
    pub fn connect(directory: &Path, running: &Running) -> io::Result<Self> {
        let name = format!("{}.chunks", std::process::id());
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(directory.join(&name))?;
        let bytes = CHUNKS * CHUNK_WORDS * 8;
        file.set_len(bytes as u64)?;
        // PROT_READ | PROT_WRITE, MAP_SHARED.
        // SAFETY: maps a file at a place of the system's choice.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, 3, 1, file.as_raw_fd(), 0) };
        if base as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        let socket = UnixStream::connect(directory.join("socket"))?;
        let mut link = Self { socket, base: base.cast(), free: (0..CHUNKS as u32).collect() };
        let mut hello = name.into_bytes();
        for word in &running.program {
            hello.push(0);
            hello.extend_from_slice(word);
        }
        link.say(Message::Hello, std::process::id(), 0, &hello)?;
        Ok(link)
    }

    /// Has the connection stay open when the process becomes another program; its number.
    pub fn outlives_exec(&self) -> c_int {
        /// Sets a file's flags, of which one closes it then.
        const SET_FLAGS: c_int = 2;
        let file = self.socket.as_raw_fd();
        // SAFETY: the file is the link's own.
        unsafe { fcntl(file, SET_FLAGS, 0) };
        file
    }

    /// Says something, with the bytes that belong to it.
    pub fn say(&mut self, what: Message, a: u32, b: u64, bytes: &[u8]) -> io::Result<()> {
        let mut message = Vec::with_capacity(24 + bytes.len());
        message.extend_from_slice(&(what as u32).to_le_bytes());
        message.extend_from_slice(&a.to_le_bytes());
        message.extend_from_slice(&b.to_le_bytes());
        message.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        message.extend_from_slice(bytes);
        self.socket.write_all(&message)
    }

    /// A free chunk; waits for one.
    pub fn take(&mut self, thread: u32) -> io::Result<Chunk> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                let mut number = [0; 4];
                self.socket.read_exact(&mut number)?;
                u32::from_le_bytes(number)
            }
        };
        assert!((number as usize) < CHUNKS);
        // SAFETY: the chunk lies in the mapping.
        let begin = unsafe { self.base.add(number as usize * CHUNK_WORDS) };
        // SAFETY: as above, one past its last word.
        let end = unsafe { begin.add(CHUNK_WORDS) };
        // SAFETY: the chunk is free, so nothing else writes to it, and it has more than two words.
        unsafe {
            begin.add(1).write_volatile(0);
            begin.write_volatile(head(thread));
        }
        // SAFETY: a chunk has more than one word.
        Ok(Chunk { number, begin: unsafe { begin.add(1) }, end })
    }

    /// Hands a chunk over that was written up to `cursor`.
    pub fn hand_over(&mut self, chunk: Chunk, cursor: *const u64) -> io::Result<()> {
        // SAFETY: both point into the chunk; its head stands before `begin`.
        let words = unsafe { cursor.offset_from(chunk.begin) } as u64 + 1;
        self.say(Message::Chunk, chunk.number, words, &[])
    }
}
