//! The words that a writer and its readers share, and the ring of old lines: where each lies.

use outlast_pmem::{MapError, Mapped, Medium, Memory, Place, Side};
use outlast_trace::{LINE_BYTES, LineAddr, PoolOffset};
use uuid::Uuid;

use crate::pool::Header;
use crate::stats::STATS_WORDS;

/// First word of shared words, with the version of what follows.
const MAGIC: u64 = u64::from_le_bytes(*b"OUTLSHM\x01");

// Words of the head. Those that change often have lines of their own.
const UUID: PoolOffset = PoolOffset(8);
/// The light side of the writer's barrier costs nothing: readers pay for it.
const IS_ONE_SIDED: PoolOffset = PoolOffset(24);
const GENERATION: PoolOffset = PoolOffset(64);
const STATE: PoolOffset = PoolOffset(72);
const EPOCH: PoolOffset = PoolOffset(128);
const READERS: PoolOffset = PoolOffset(192);
const KEPT: PoolOffset = PoolOffset(256);
const WANTED: PoolOffset = PoolOffset(320);
const STATS: PoolOffset = PoolOffset(512);
const LANES: u64 = STATS.0 + STATS_WORDS as u64 * 8;

/// Most processes that read at the same time: bits of a word.
pub(crate) const READERS_MAX: usize = 64;

/// Lines that the ring has room for.
pub(crate) const RING_LINES: u64 = if cfg!(test) { 1 << 8 } else { 1 << 16 };
/// Words by which lines are found in it.
const BUCKETS: u64 = if cfg!(test) { 4 } else { RING_LINES / 4 };
const ENTRIES_AT: u64 = (BUCKETS * 8).next_multiple_of(LINE_BYTES);
const ENTRY_BYTES: u64 = 2 * LINE_BYTES;

/// Bytes of the ring.
pub(crate) const RING_BYTES: u64 = ENTRIES_AT + RING_LINES * ENTRY_BYTES;

/// The writer's state, as readers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// None has the pool open, as far as it has said so.
    Closed,
    /// It recovers the pool.
    Opening,
    /// Transactions run.
    Live,
    /// A write to the pool's file has failed.
    Failed,
    /// Its scheme, or its machine, lets no process read beside it.
    Alone,
}

impl State {
    const ALL: [Self; 5] = [Self::Closed, Self::Opening, Self::Live, Self::Failed, Self::Alone];
}

/// The state of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LaneWord {
    /// Nothing is being installed.
    Idle,
    /// Something is, with a tag that is not known yet.
    Begins,
    /// Something is, with that tag.
    Installs(u64),
}

impl LaneWord {
    fn to_word(self) -> u64 {
        match self {
            Self::Idle => 0,
            Self::Begins => 1,
            Self::Installs(tag) => (tag + 1) << 1,
        }
    }

    fn of_word(word: u64) -> Self {
        match word {
            0 => Self::Idle,
            1 => Self::Begins,
            word => Self::Installs((word >> 1) - 1),
        }
    }
}

/// The shared words, on a medium of their own.
pub(crate) struct Head<M>(pub M);

/// The kind of the side file that has them.
pub(crate) const HEAD: &str = "";
/// And of the one with the ring.
pub(crate) const RING: &str = "-ring";
/// The place of the process that writes, or is about to.
pub(crate) const WRITER_PLACE: usize = READERS_MAX;
/// The place of the process whose words these are: taken when they say that it opens the pool (VERSION-7).
pub(crate) const LIVE_PLACE: usize = WRITER_PLACE + 1;

impl Head<Mapped> {
    /// Opens the words of a pool, made new where there are none or those of another pool, and calls `begin` with them
    /// under their lock.
    pub fn open<R>(
        side: &Side,
        header: &Header,
        begin: impl FnOnce(&Head<&Mapped>) -> R,
    ) -> Result<(Self, R), MapError> {
        let bytes = Head::<Mapped>::bytes(header.geometry.lanes);
        let (words, result) = side.open(HEAD, bytes, Memory::AtOnce, |words| {
            let head = Head(words);
            if !head.is_of(header.uuid) {
                // Old lines belong to old words.
                side.remove(RING);
                let before = head.generation();
                head.begin(header.uuid);
                // No number is met again.
                head.add(GENERATION, before + 1);
            }
            begin(&head)
        })?;
        Ok((Self(words), result))
    }

    /// The same words mapped once more.
    pub fn clone_of(&self, side: &Side, header: &Header) -> Result<Self, MapError> {
        Ok(Self::open(side, header, |_| ())?.0)
    }
}

impl<M: Medium> Head<M> {
    /// Bytes of the words of a pool with `lanes` lanes.
    pub fn bytes(lanes: u32) -> u64 {
        LANES + u64::from(lanes) * LINE_BYTES
    }

    fn is_of(&self, uuid: Uuid) -> bool {
        let (high, low) = uuid.as_u64_pair();
        let load = |at| self.0.load_u64(at);
        load(PoolOffset(0)) == MAGIC && load(UUID) == high && load(UUID.plus(8)) == low
    }

    /// Makes the words those of a pool, all zero.
    pub fn begin(&self, uuid: Uuid) {
        self.0.store(PoolOffset(0), &vec![0; self.0.len() as usize]);
        let (high, low) = uuid.as_u64_pair();
        self.0.store_u64(UUID, high);
        self.0.store_u64(UUID.plus(8), low);
        self.0.store_u64(PoolOffset(0), MAGIC);
    }

    pub fn state(&self) -> State {
        State::ALL.get(self.0.load_u64(STATE) as usize).copied().unwrap_or(State::Alone)
    }

    pub fn set_state(&self, state: State) {
        self.0.store_u64(STATE, state as u64);
    }

    #[inline]
    pub fn generation(&self) -> u64 {
        self.0.load_u64(GENERATION)
    }

    /// VERSION-6.
    pub fn raise_generation(&self) {
        self.add(GENERATION, 1);
    }

    pub fn is_one_sided(&self) -> bool {
        self.0.load_u64(IS_ONE_SIDED) != 0
    }

    pub fn set_one_sided(&self, is_one_sided: bool) {
        self.0.store_u64(IS_ONE_SIDED, u64::from(is_one_sided));
    }

    #[inline]
    pub fn epoch(&self) -> u64 {
        self.0.load_u64(EPOCH)
    }

    /// Returns the epoch as it was.
    pub fn raise_epoch(&self) -> u64 {
        self.add(EPOCH, 1)
    }

    /// A bit for each process that reads.
    #[inline]
    pub fn readers(&self) -> u64 {
        self.0.load_u64(READERS)
    }

    pub fn add_reader(&self, number: usize) {
        self.update(READERS, |readers| readers | 1 << number);
    }

    pub fn remove_reader(&self, number: usize) {
        self.update(READERS, |readers| readers & !(1 << number));
    }

    /// How many lines have gone to the ring.
    #[inline]
    pub fn kept(&self) -> u64 {
        self.0.load_u64(KEPT)
    }

    /// Takes the next entry of the ring.
    pub fn keep_one(&self) -> u64 {
        self.add(KEPT, 1)
    }

    #[inline]
    pub fn lane(&self, lane: usize) -> LaneWord {
        LaneWord::of_word(self.0.load_u64(lane_at(lane)))
    }

    #[inline]
    pub fn set_lane(&self, lane: usize, word: LaneWord) {
        self.0.store_u64(lane_at(lane), word.to_word());
    }

    /// Until when, in milliseconds since 1970, another process waits to write.
    pub fn wanted_until(&self) -> u64 {
        self.0.load_u64(WANTED)
    }

    pub fn want_until(&self, milliseconds: u64) {
        self.update(WANTED, |until| until.max(milliseconds));
    }

    pub fn load_stats(&self) -> [u64; STATS_WORDS] {
        std::array::from_fn(|index| self.0.load_u64(STATS.plus(index as u64 * 8)))
    }

    pub fn store_stats(&self, words: &[u64; STATS_WORDS]) {
        for (index, word) in words.iter().enumerate() {
            self.0.store_u64(STATS.plus(index as u64 * 8), *word);
        }
    }

    /// Removes readers that have died: each while its place is this process's, so that no other one takes it.
    pub fn remove_dead(&self, side: &Side) {
        let readers = self.readers();
        for number in (0..READERS_MAX).filter(|number| readers >> number & 1 == 1) {
            if let Ok(Some(_place)) = side.take_place_at(number) {
                self.remove_reader(number);
            }
        }
    }

    fn add(&self, at: PoolOffset, more: u64) -> u64 {
        self.update(at, |word| word + more)
    }

    /// Returns the word as it was.
    fn update(&self, at: PoolOffset, change: impl Fn(u64) -> u64) -> u64 {
        let mut seen = self.0.load_u64(at);
        loop {
            match self.0.compare_exchange_u64(at, seen, change(seen)) {
                Ok(was) => return was,
                Err(now) => seen = now,
            }
        }
    }
}

fn lane_at(lane: usize) -> PoolOffset {
    PoolOffset(LANES + lane as u64 * LINE_BYTES)
}

/// Removes the side files of a pool that no process uses: no reader, and no writer. The caller has the head.
pub(crate) fn remove_unused<M: Medium>(side: &Side, head: &Head<M>, is_written: impl Fn() -> bool) {
    let _ = side.under_lock(HEAD, &head.0, || {
        head.remove_dead(side);
        if head.readers() == 0 && !is_written() {
            // What was left by those that were killed before they had marked themselves.
            (0..READERS_MAX).chain([LIVE_PLACE]).for_each(|number| _ = side.is_taken(number));
            side.remove(RING);
            side.remove(HEAD);
        }
    });
}

/// The ring of old lines.
pub(crate) struct Ring<M>(pub M);

/// An old line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub line: LineAddr,
    pub tag: u64,
    /// The entry before it of lines in the same bucket, plus one; 0 without.
    pub before: u64,
}

impl<M: Medium> Ring<M> {
    /// Lines at equal places of chunks spread over all buckets.
    fn bucket_at(line: LineAddr) -> PoolOffset {
        let mixed = line.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - BUCKETS.ilog2());
        PoolOffset(mixed * 8)
    }

    fn entry_at(number: u64) -> PoolOffset {
        PoolOffset(ENTRIES_AT + number % RING_LINES * ENTRY_BYTES)
    }

    /// The newest entry of lines in this one's bucket, plus one.
    #[inline]
    pub fn newest(&self, line: LineAddr) -> u64 {
        self.0.load_u64(Self::bucket_at(line))
    }

    /// Stores an entry and makes it the newest of its bucket, in which numbers rise. `false` when that has a newer one:
    /// the line wants another number. Only a mistake does not keep that order.
    #[must_use]
    pub fn push(
        &self,
        number: u64,
        line: LineAddr,
        tag: u64,
        content: &[u64; 8],
        keeps_order: bool,
    ) -> bool {
        let (at, bucket) = (Self::entry_at(number), Self::bucket_at(line));
        self.0.store_u64(at, line.0);
        self.0.store_u64(at.plus(8), tag);
        self.0.store_words(at.plus(LINE_BYTES).line(), !0, &content.map(u64::to_le));
        let mut newest = self.0.load_u64(bucket);
        while newest <= number || !keeps_order {
            self.0.store_u64(at.plus(16), newest);
            match self.0.compare_exchange_u64(bucket, newest, number + 1) {
                Ok(_) => return true,
                Err(now) => newest = now,
            }
        }
        false
    }

    pub fn entry(&self, number: u64) -> Kept {
        let at = Self::entry_at(number);
        let [line, tag, before] = [0, 8, 16].map(|word| self.0.load_u64(at.plus(word)));
        Kept { line: LineAddr(line), tag, before }
    }

    pub fn content(&self, number: u64) -> [u64; 8] {
        let at = Self::entry_at(number).plus(LINE_BYTES);
        std::array::from_fn(|word| self.0.load_u64(at.plus(word as u64 * 8)))
    }
}

/// A process that reads: its place, and what it needs to give that back.
pub(crate) struct Joined {
    pub side: Side,
    pub head: Head<Mapped>,
    pub place: Place,
}
