//! A client and its connection.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use crate::commands::streams::StreamWish;
use crate::commands::{Command, Side};
use crate::resp::{OwnedArgs, Reply, Request};

/// A connection of either kind.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => registry.register(stream, token, Interest::READABLE),
            Self::Unix(stream) => registry.register(stream, token, Interest::READABLE),
        }
    }

    /// Asks to be told when there is room to write, or only of what arrives.
    pub fn watch_writing(
        &mut self,
        registry: &Registry,
        token: Token,
        writes: bool,
    ) -> io::Result<()> {
        let interest = match writes {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        };
        match self {
            Self::Tcp(stream) => registry.reregister(stream, token, interest),
            Self::Unix(stream) => registry.reregister(stream, token, interest),
        }
    }

    pub fn deregister(&mut self, registry: &Registry) {
        // It may be gone already.
        let _ = match self {
            Self::Tcp(stream) => registry.deregister(stream),
            Self::Unix(stream) => registry.deregister(stream),
        };
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }

    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }
}

/// Commands that wait for `EXEC`.
#[derive(Clone, Default)]
pub(super) struct Multi {
    pub commands: Vec<(&'static Command, OwnedArgs)>,
    /// One of them was refused.
    pub is_refused: bool,
}

/// The event that a client waits for.
#[derive(Clone, Debug)]
pub(super) enum Wish {
    /// An item of a list, or up to `count`.
    List { side: Side, count: Option<u64> },
    /// A member of a sorted set, or up to `count`.
    Zset { side: Side, count: Option<u64> },
    /// An item of a list, to go to another.
    Move { to: Vec<u8>, out_of: Side, into: Side },
    /// Entries of streams.
    Streams(StreamWish),
}

/// A client that waits.
#[derive(Clone, Debug)]
pub(super) struct Blocked {
    pub database: usize,
    pub keys: Vec<Vec<u8>>,
    pub wish: Wish,
    /// In ms since 1970.
    pub deadline: Option<u64>,
}

/// Whether a client wants answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Answers {
    On,
    Off,
    /// Not the next one.
    Skip,
    /// Not this one.
    Skipping,
}

/// A client before the running group: as it was unless the group commits.
pub(super) struct Touched {
    pub slot: usize,
    pub reply_len: usize,
    pub start: usize,
    pub requests: u64,
    pub answers: Answers,
    pub database: usize,
    pub multi: Option<Multi>,
}

pub(super) struct Client {
    pub id: u64,
    pub stream: Stream,
    pub peer: Option<SocketAddr>,
    /// It asks for metrics.
    pub is_http: bool,
    /// Bytes that have arrived, from `start` on not yet done.
    pub input: Vec<u8>,
    pub start: usize,
    /// How many requests are done.
    pub requests: u64,
    /// The request at `start`, with its outcome once that is known.
    pub request: Request,
    /// The stream may have more.
    pub may_read: bool,
    pub will_end: bool,
    pub has_ended: bool,
    pub reply: Reply,
    pub sent: usize,
    /// Bytes of `reply` that speak of durable things; the rest waits for the round's sync.
    pub acknowledged: usize,
    /// It is told when there is room to write.
    pub watches_writing: bool,
    /// Nothing more is read, and it is closed when its replies are written.
    pub is_closing: bool,
    /// The running group has commands of it.
    pub is_touched: bool,
    /// It is listed among those with something to write.
    pub is_listed: bool,
    pub answers: Answers,
    pub database: usize,
    pub name: Vec<u8>,
    pub is_known: bool,
    pub multi: Option<Multi>,
    pub watching: Vec<(usize, Vec<u8>)>,
    /// A key that it watches has changed.
    pub is_dirty: bool,
    pub channels: BTreeSet<Vec<u8>>,
    pub patterns: BTreeSet<Vec<u8>>,
    pub blocked: Option<Blocked>,
    pub since: u64,
    pub last_command: &'static str,
}

impl Client {
    pub fn new(id: u64, stream: Stream, peer: Option<SocketAddr>, since: u64) -> Self {
        Self {
            id,
            stream,
            peer,
            is_http: false,
            input: Vec::new(),
            start: 0,
            requests: 0,
            request: Request::default(),
            may_read: true,
            will_end: false,
            has_ended: false,
            reply: Reply::default(),
            sent: 0,
            acknowledged: 0,
            watches_writing: false,
            is_closing: false,
            is_touched: false,
            is_listed: false,
            answers: Answers::On,
            database: 0,
            name: Vec::new(),
            is_known: false,
            multi: None,
            watching: Vec::new(),
            is_dirty: false,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            blocked: None,
            since,
            last_command: "NULL",
        }
    }

    /// How many channels and patterns it listens to.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Bytes of replies that are still to be written.
    pub fn unsent(&self) -> usize {
        self.reply.bytes.len() - self.sent
    }

    /// The request at the front is done.
    pub fn consume(&mut self) {
        self.requests += 1;
        self.start += self.request.whole().unwrap_or(0);
        self.request.clear();
    }

    /// Lets go of the bytes that were done.
    pub fn tidy(&mut self) {
        const KEPT_BYTES_MAX: usize = 64 << 10;
        if self.start == self.input.len() {
            self.input.clear();
            self.start = 0;
            if self.input.capacity() > KEPT_BYTES_MAX {
                self.input = Vec::new();
            }
        } else if self.start > KEPT_BYTES_MAX {
            self.input.drain(..self.start);
            self.start = 0;
        }
    }
}
