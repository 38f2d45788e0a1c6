//! Events, packed into a few words without allocation.

/// Something that the queue delivers. Numbers are indices into the tables of its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// A load may ask the caches.
    Load { core: u8, load: u16 },
    /// A miss has been looked up in the second level.
    SecondLevel { core: u8, miss: u8 },
    /// A miss has been looked up in the last level.
    LastLevel { core: u8, miss: u8 },
    /// A miss's line arrives at its core.
    Arrival { core: u8, miss: u8 },
    /// A walk asks for its page table entry.
    WalkRead { core: u8, walk: u8 },
    /// A walk's page table entry is here.
    WalkDone { core: u8, walk: u8 },
    /// A flush has passed all levels.
    Flush { core: u8, flush: u16 },
    /// A flush's or a stream's acknowledgement is back.
    Acknowledged { core: u8 },
    /// A flush of caches goes on.
    FlushStep { job: u32 },
    /// A write of a flush of caches is acknowledged.
    FlushAcknowledged { job: u32 },
    /// A read request arrives at the controller.
    ReadArrives { read: u32 },
    /// A read's data is back at the last level.
    ReadDone { read: u32 },
    /// A scheme has a read's bytes at the controller.
    ReadAnswered { read: u32 },
    /// A read that a scheme delayed enters its queue.
    ReadEnters { read: u32 },
    /// A place of the buffer in front of memory is read or written, which nothing waits for.
    BufferAccess { place: u32, write: bool },
    /// A write arrives at the controller.
    WriteArrives { write: u32 },
    /// A write that a scheme delayed enters its queue.
    WriteEnters { write: u32 },
    /// A write's cells are written.
    Written { write: u32 },
    /// A channel asked to be woken.
    Channel { channel: u8 },
    /// The entry of a block was not cached when it was looked up.
    EntryMissed { miss: u32 },
    /// A scheme asked to be called, with this token's number.
    Scheme { token: u32 },
}

const _: () = assert!(size_of::<Event>() <= 8, "events are copied into and out of the queue");
