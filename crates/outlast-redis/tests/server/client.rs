//! A server in a thread of its own, and a client that speaks its protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use outlast::Pool;
use outlast::medium::{CreateOptions, MapOptions, OpenOptions};
use outlast_redis::{Options, ServeError, Server, Stopper};

/// An answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    Text(String),
    Error(String),
    Int(i64),
    Bulk(String),
    Null,
    List(Vec<Answer>),
}

impl From<&str> for Answer {
    fn from(text: &str) -> Self {
        Self::Bulk(text.to_owned())
    }
}

impl From<i64> for Answer {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl<const N: usize> From<[&str; N]> for Answer {
    fn from(words: [&str; N]) -> Self {
        Self::List(words.map(Self::from).to_vec())
    }
}

pub fn ok() -> Answer {
    Answer::Text("OK".to_owned())
}

/// A connection.
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    pub fn connect(path: &Path) -> std::io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// A connection to a server that is starting.
    pub fn wait_for(path: &Path) -> Self {
        let began = Instant::now();
        loop {
            match Self::connect(path) {
                Ok(client) => return client,
                Err(error) => {
                    assert!(began.elapsed() < Duration::from_secs(20), "no server: {error}");
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends a command whose words are separated by blanks.
    pub fn send(&mut self, line: &str) -> std::io::Result<()> {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.send_words(&words)
    }

    pub fn send_words(&mut self, words: &[&[u8]]) -> std::io::Result<()> {
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            bytes.extend_from_slice(word);
            bytes.extend_from_slice(b"\r\n");
        }
        self.send_bytes(&bytes)
    }

    pub fn answer(&mut self) -> std::io::Result<Answer> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().unwrap_or(-1);
        Ok(match kind {
            "+" => Answer::Text(rest.to_owned()),
            "-" => Answer::Error(rest.to_owned()),
            ":" => Answer::Int(number()),
            "_" => Answer::Null,
            "," => Answer::Bulk(rest.to_owned()),
            "$" | "=" if number() < 0 => Answer::Null,
            "$" | "=" => {
                let mut bytes = vec![0; number() as usize + 2];
                self.stream.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Answer::Bulk(String::from_utf8_lossy(&bytes).into_owned())
            }
            "*" | "~" | ">" | "%" if number() < 0 => Answer::Null,
            "*" | "~" | ">" | "%" => {
                let count = number() * if kind == "%" { 2 } else { 1 };
                let items = (0..count).map(|_| self.answer());
                Answer::List(items.collect::<std::io::Result<_>>()?)
            }
            _ => panic!("no answer: {line}"),
        })
    }

    /// The bytes that words are answered with.
    pub fn ask_bytes(&mut self, words: &[&[u8]]) -> Vec<u8> {
        self.send_words(words).expect("the server listens");
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("the server answers");
        let len: usize = line[1..].trim_end().parse().unwrap_or_else(|_| panic!("{line}"));
        let mut bytes = vec![0; len + 2];
        self.stream.read_exact(&mut bytes).expect("the server answers");
        bytes.truncate(len);
        bytes
    }

    /// The answer to words.
    pub fn ask_words(&mut self, words: &[&[u8]]) -> Answer {
        self.send_words(words).expect("the server listens");
        self.answer().expect("the server answers")
    }

    pub fn ask(&mut self, line: &str) -> Answer {
        self.send(line).expect("the server listens");
        self.answer().expect("the server answers")
    }

    /// Asks and compares.
    #[track_caller]
    pub fn gets(&mut self, line: &str, answer: impl Into<Answer>) {
        assert_eq!(self.ask(line), answer.into(), "{line}");
    }

    /// Asks for something that is refused.
    #[track_caller]
    pub fn is_refused(&mut self, line: &str, part: &str) {
        match self.ask(line) {
            Answer::Error(text) if text.contains(part) => {}
            other => panic!("{line}: {other:?} and not an error with '{part}'"),
        }
    }
}

/// A folder for a pool, in memory where there is such a file system.
pub fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a folder")
}

pub fn open_pool(path: &Path, bytes: u64, open: &OpenOptions) -> Pool {
    let map = MapOptions::default();
    let pool = match path.exists() {
        true => Pool::open_with(path, open, &map),
        false => Pool::create_with(path, bytes, &CreateOptions::default(), open, &map),
    };
    pool.expect("a pool")
}

/// A server that is stopped when it is dropped.
pub struct Served {
    stopper: Stopper,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    pub socket: PathBuf,
    pub folder: tempfile::TempDir,
}

impl Served {
    pub fn new() -> Self {
        Self::with(32 << 20, |_| {})
    }

    pub fn with(bytes: u64, change: impl FnOnce(&mut Options)) -> Self {
        let folder = folder();
        let path = folder.path().join("pool");
        Self::open(folder, &path, bytes, change)
    }

    /// A server on that pool.
    pub fn on(folder: tempfile::TempDir, path: &Path, bytes: u64) -> Self {
        Self::open(folder, path, bytes, |_| {})
    }

    /// Ends the server and starts another one on its pool.
    pub fn again(mut self, path: &Path) -> Self {
        let folder = std::mem::replace(&mut self.folder, folder());
        drop(self);
        Self::on(folder, path, 0)
    }

    fn open(
        folder: tempfile::TempDir,
        path: &Path,
        bytes: u64,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let pool = open_pool(path, bytes, &OpenOptions::default());
        Self::of(folder, Arc::new(pool), change)
    }

    /// A server of an open pool.
    pub fn of(
        folder: tempfile::TempDir,
        pool: Arc<Pool>,
        change: impl FnOnce(&mut Options),
    ) -> Self {
        let socket = folder.path().join("socket");
        let mut options = Options {
            unix: Some(socket.clone()),
            checkpoint: folder.path().join("checkpoint"),
            ..Options::default()
        };
        change(&mut options);
        let mut server = Server::bind(pool, options).expect("it listens");
        let stopper = server.stopper();
        let thread = Some(std::thread::spawn(move || server.run()));
        Self { stopper, thread, socket, folder }
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket).expect("the server listens")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !std::thread::panicking() {
                ended.expect("the server does not panic").expect("it ends in peace");
            }
        }
    }
}
