//! The writer's side.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{SystemTime, UNIX_EPOCH};

use outlast_pmem::{MapError, Mapped, Medium, Memory, Place, Side};
use outlast_trace::{ByteRange, LineAddr};

use super::head::{
    HEAD, Head, LIVE_PLACE, LaneWord, RING, RING_BYTES, RING_LINES, Ring, State, WRITER_PLACE,
    remove_unused,
};
use super::turns::WISH;
use super::{Mistake, Mistakes};
use crate::barrier::Barrier;
use crate::pool::Header;
use crate::stats::{STATS_WORDS, Stats};

/// Lines that change before statistics are published anew.
const STALE_LINES: u64 = 256;

/// What a running pool shares with processes that read it.
pub(crate) struct Versions<M: Medium> {
    head: Head<M>,
    /// It takes no memory before a reader comes.
    ring: Ring<M>,
    barrier: Barrier,
    /// Of words in side files.
    side: Option<SideFiles>,
    /// How many lines had gone to the ring when statistics were published last.
    published: AtomicU64,
    pub mistakes: Mistakes,
}

pub(super) struct SideFiles {
    side: Side,
    /// Given back by the system when the process ends.
    _places: [Place; 2],
}

/// The place of a process that writes a pool, or is about to: readers without a writer leave the file to it.
pub(crate) struct WritersPlace(Place);

impl WritersPlace {
    /// Takes that of the file of this name, if no other process has it.
    pub fn of_path(path: &Path) -> Option<Self> {
        // Asked before opening, because the opening of a pipe waits for its other end.
        fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        let side = Side::of(&File::open(path).ok()?)?;
        // Others may be looking whether it is taken.
        (0..10).find_map(|_| side.take_place_at(WRITER_PLACE).ok().flatten()).map(Self)
    }
}

impl Versions<Mapped> {
    /// Opens the shared words of a pool that this process has locked for writing, before it changes anything
    /// (VERSION-6). `None` where there is no shared memory, or it cannot be had: no process can read beside this writer then.
    ///
    /// # Errors
    /// [`MapError`] where that is so and there may be readers of the writer before: they would not hear of this one.
    pub fn open(
        pool: &Mapped,
        header: &Header,
        place: Option<WritersPlace>,
    ) -> Result<Option<Self>, MapError> {
        let Some(side) = pool.file().and_then(Side::of) else { return Ok(None) };
        let opened = Self::open_side(&side, header, place);
        match opened {
            Err(_) if !side.has(HEAD) => Ok(None),
            opened => opened.map_err(|error| MapError::Io {
                path: pool.path().to_owned(),
                what: "tell other readers of the opening of",
                source: io::Error::other(error),
            }),
        }
    }

    fn open_side(
        side: &Side,
        header: &Header,
        place: Option<WritersPlace>,
    ) -> Result<Option<Self>, MapError> {
        let path = Path::new("/dev/shm");
        let take = |number| match side.wait_for_place(number) {
            Ok(Some(place)) => Ok(place),
            Ok(None) => Err(MapError::AlreadyOpen { path: path.to_owned() }),
            Err(error) => Err(MapError::io(path, "write", error)),
        };
        let place = match place {
            // A file that has got the name meanwhile has a place of its own.
            Some(WritersPlace(place)) if side.is_of(&place) => place,
            _ => take(WRITER_PLACE)?,
        };
        let barrier = Barrier::between_processes();
        let begin = |head: &Head<&Mapped>| {
            let is_new = head.kept() == 0 && head.readers() == 0;
            head.raise_generation();
            head.set_state(State::Opening);
            head.store_stats(&[0; STATS_WORDS]);
            head.set_one_sided(barrier.is_one_sided());
            (0..header.geometry.lanes as usize)
                .for_each(|lane| head.set_lane(lane, LaneWord::Idle));
            is_new
        };
        let (head, is_new) = Head::open(side, header, begin)?;
        // VERSION-7: the words are no longer those of a writer before.
        let places = [take(LIVE_PLACE)?, place];
        if is_new {
            side.remove_left_over(&[HEAD, RING], LIVE_PLACE + 1);
        }
        match side.open(RING, RING_BYTES, Memory::WhenStored, |_| ()) {
            Ok((ring, ())) => {
                let side = SideFiles { side: side.clone(), _places: places };
                Ok(Some(Self::on(head, Ring(ring), barrier, Some(side))))
            }
            // Those who read are told that they no longer can.
            Err(_) => {
                head.set_state(State::Alone);
                remove_unused(side, &head, || false);
                Ok(None)
            }
        }
    }
}

impl<M: Medium> Versions<M> {
    pub(super) fn on(
        head: Head<M>,
        ring: Ring<M>,
        barrier: Barrier,
        side: Option<SideFiles>,
    ) -> Self {
        Self {
            head,
            ring,
            barrier,
            side,
            published: AtomicU64::new(0),
            mistakes: Mistakes::default(),
        }
    }

    /// Transactions begin. Others may read beside them, or may not.
    pub fn start(&self, others_may_read: bool) {
        self.head.set_state(if others_may_read { State::Live } else { State::Alone });
    }

    /// VERSION-1: the lane is about to store in place. `true` when there are readers.
    #[inline(always)]
    pub fn begin(&self, lane: usize) -> bool {
        if !self.mistakes.has(Mistake::TagBeforeWord) {
            self.head.set_lane(lane, LaneWord::Begins);
        }
        self.barrier.light();
        self.is_read()
    }

    /// The lane has stored all. Where the medium has failed meanwhile, a part may not have reached the file
    /// (VERSION-6).
    #[inline(always)]
    pub fn end(&self, lane: usize, pool: &M) {
        if !pool.is_usable() && !self.mistakes.has(Mistake::FailureUntold) {
            self.fail();
        }
        self.head.set_lane(lane, LaneWord::Idle);
    }

    #[cold]
    fn fail(&self) {
        self.head.set_state(State::Failed);
        self.head.raise_generation();
    }

    /// The tag of a commit that installs.
    pub fn tag(&self, lane: usize) -> u64 {
        // VERSION-5: readers look at the lane's word without one.
        fence(Ordering::SeqCst);
        let tag = self.head.epoch();
        let word = if self.mistakes.has(Mistake::DoneTooEarly) {
            LaneWord::Idle
        } else {
            LaneWord::Installs(tag)
        };
        self.head.set_lane(lane, word);
        tag
    }

    /// Whether there are readers.
    #[inline(always)]
    pub fn is_read(&self) -> bool {
        self.head.readers() != 0
    }

    /// VERSION-2: these lines of the pool will be changed by a commit of that tag.
    #[cold]
    pub fn keep(&self, pool: &M, lines: impl Iterator<Item = LineAddr>, tag: u64) {
        if self.mistakes.has(Mistake::NotKept) {
            return;
        }
        let keeps_order = !self.mistakes.has(Mistake::OrderNotKept);
        for line in lines {
            let at = line.start();
            let content = std::array::from_fn(|word| pool.load_u64(at.plus(word as u64 * 8)));
            loop {
                let number = self.head.keep_one();
                if number.is_multiple_of(RING_LINES)
                    && let Some(SideFiles { side, .. }) = &self.side
                {
                    self.head.remove_dead(side);
                }
                if self.ring.push(number, line, tag, &content, keeps_order) {
                    break;
                }
            }
        }
        fence(Ordering::SeqCst);
    }

    /// VERSION-3: these bytes of the pool, which belong to no commit yet, will be changed.
    #[cold]
    pub fn keep_before_commit(&self, pool: &M, range: ByteRange) {
        if self.mistakes.has(Mistake::FreshNotKept) {
            return;
        }
        self.keep(pool, range.lines(), self.head.epoch());
    }

    /// Whether another process waits to write.
    pub fn is_wanted(&self) -> bool {
        // A clock that was set back makes no wish longer.
        let (until, now) = (self.head.wanted_until(), milliseconds_now());
        (now + 1..=now + WISH.as_millis() as u64).contains(&until)
    }

    /// Tells readers what the pool is doing.
    pub fn publish(&self, stats: &Stats) {
        self.published.store(self.head.kept(), Ordering::Relaxed);
        self.head.store_stats(&stats.to_words());
    }

    /// Whether it was told long ago, in lines that have changed since.
    pub fn is_stale(&self) -> bool {
        self.head.kept() - self.published.load(Ordering::Relaxed) >= STALE_LINES
    }
}

impl<M: Medium> Drop for Versions<M> {
    /// The writer goes. What a forked child has is its parent's.
    fn drop(&mut self) {
        if let Some(SideFiles { side, .. }) = &self.side
            && !self.head.0.is_forked()
        {
            self.head.set_state(State::Closed);
            remove_unused(side, &self.head, || false);
        }
    }
}

/// Milliseconds since 1970.
pub(super) fn milliseconds_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
