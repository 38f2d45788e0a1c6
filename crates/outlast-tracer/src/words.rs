//! The words between the plugin and the driver. Both compile this file.
//!
//! The first word of each event has its kind in the topmost four bits, then where it stands: the
//! place in the present path, and the blocks that began, as expected, since the event before. Accesses
//! and blocks as expected are no events.

/// Words of a chunk.
pub const CHUNK_WORDS: usize = 1 << 17;
/// Chunks between a process and its driver.
pub const CHUNKS: usize = 24;
/// Where the kind stands.
pub const KIND_AT: u32 = 60;
/// Where the place in the path stands, of twelve bits.
pub const SLOT_AT: u32 = 48;
/// Where the number of blocks stands, of twenty bits.
pub const BLOCKS_AT: u32 = 28;
/// The most blocks between two events.
pub const BLOCKS_MAX: u32 = (1 << 20) - 1;
/// The most accesses of a path.
pub const SLOTS_MAX: usize = (1 << 12) - 2;
/// The bits below.
pub const LOW: u64 = (1 << BLOCKS_AT) - 1;
/// In an access's low bits: its address is as expected from the access before it.
pub const BESIDE: u64 = 1;
/// The same: the distance of its address follows, in this event or in the next word.
pub const FAR: u64 = 2;
/// The same: the distance of its value follows.
pub const VALUE: u64 = 4;
/// The same: the first distance stands in the bits from [`INLINE_AT`] on, of 24 bits.
pub const INLINE: u64 = 8;
/// Where that distance stands.
pub const INLINE_AT: u32 = 4;
/// In a block's low bits: it is not expected in this place from now on.
pub const ONCE: u64 = 1 << 27;
/// In an appended access's low bits, above the instruction: it stores.
pub const STORES: u64 = 1 << 9;
/// Where the logarithm of its size stands.
pub const SIZE_AT: u32 = 10;

/// Kinds of events. Zero is none, and stands behind the last one of a chunk.
pub mod kind {
    /// A block begins that was not expected: its number.
    pub const BLOCK: u64 = 1;
    /// An access is not as expected: what of it, and the distances.
    pub const ACCESS: u64 = 2;
    /// The path has one more access: its instruction, kind and size.
    pub const APPEND: u64 = 3;
    /// The accesses from here on are those of another path: 0 for a new one, or one more than its
    /// number.
    pub const SWITCH: u64 = 4;
    /// The block ends here, before the path does.
    pub const SHORT: u64 = 5;
    /// Many blocks began as expected.
    pub const SKIP: u64 = 6;
    /// A page is touched for the first time: its number, its bytes.
    pub const PAGE: u64 = 7;
    /// The system wrote bytes: address; length; the bytes.
    pub const SYSTEM_WRITE: u64 = 8;
    /// A system call begins: its number; its first three arguments.
    pub const CALL: u64 = 9;
    /// It returned: its number; the result.
    pub const RETURN: u64 = 10;
    /// The next store, or what the system writes next, has this place in the order of all threads.
    pub const PLACE: u64 = 11;
    /// What follows happened when this number of places had been given out.
    pub const SEEN: u64 = 12;
    /// A signal's handler begins (0), or the thread ends (1).
    pub const THREAD: u64 = 13;
    /// The bytes of a page at the end: its number, its bytes.
    pub const FINAL: u64 = 14;
    /// A chunk begins: its thread.
    pub const HEAD: u64 = 15;
}

/// Whether a distance fits into an event's own bits.
pub fn is_short(step: i64) -> bool {
    (-(1 << 23)..1 << 23).contains(&step)
}

/// What is said on the socket: the message, a number of 32 bits, one of 64, and a length of the bytes
/// that follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Message {
    /// A process: its number; with zeros between them the name of its chunks' file, its program's
    /// file, and the program's name and arguments.
    Hello = 1,
    /// A block was translated: its number, and its instructions, each an address of eight bytes, a
    /// length of one, and as many bytes.
    Block = 2,
    /// A chunk is full: its number and its words.
    Chunk = 3,
    /// The end is recorded.
    Done = 4,
    /// Nothing was captured: why.
    Note = 5,
    /// The process becomes a program that is not followed: why.
    Bare = 6,
}

/// The first word of a thread's chunk.
pub const fn head(thread: u32) -> u64 {
    kind::HEAD << KIND_AT | thread as u64
}
