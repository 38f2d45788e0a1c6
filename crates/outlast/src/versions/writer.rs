//! The writer's side.

use std::fs::{self, File};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{Ordering, fence};
use std::time::{SystemTime, UNIX_EPOCH};

use outlast_pmem::{MapError, Mapped, Medium, Place, Side};
use outlast_trace::{ByteRange, LineAddr};

use super::Mistake;
use super::head::{
    Head, LaneWord, RING, RING_BYTES, RING_LINES, Ring, State, WRITER_PLACE, remove_unused,
};
use crate::barrier::Barrier;
use crate::pool::Header;

/// What a running pool shares with processes that read it.
pub(crate) struct Versions<M: Medium> {
    head: Head<M>,
    /// Opened when the first reader has come; `None` where that failed.
    ring: OnceLock<Option<Ring<M>>>,
    barrier: Barrier,
    /// Where the words lie, of a pool in a file.
    files: Option<Box<dyn Files<M>>>,
    #[cfg(test)]
    pub mistake: Option<Mistake>,
}

/// Of words in side files: what only files can do.
trait Files<M>: Send + Sync {
    /// The ring, which a reader has made.
    fn ring(&self) -> Option<M>;
    /// Whether that place's owner lives.
    fn is_taken(&self, number: usize) -> bool;
    /// The writer goes.
    fn leave(&self, head: &Head<M>);
}

struct SideFiles {
    side: Side,
    /// Given back by the system when the process ends.
    _place: Place,
}

impl Files<Mapped> for SideFiles {
    fn ring(&self) -> Option<Mapped> {
        self.side.open(RING, RING_BYTES, |_| ()).ok().map(|(ring, ())| ring)
    }

    fn is_taken(&self, number: usize) -> bool {
        self.side.is_taken(number)
    }

    fn leave(&self, head: &Head<Mapped>) {
        head.set_state(State::Closed);
        remove_unused(&self.side, head, || false);
    }
}

/// The place of a process that writes a pool, or is about to: readers without a writer leave the file to it.
pub(crate) struct WritersPlace(Side, Place);

impl WritersPlace {
    /// Takes it, if no other process has it.
    pub fn take(file: &File) -> Option<Self> {
        let side = Side::of(file)?;
        let place = side.take_place_at(WRITER_PLACE).ok().flatten()?;
        Some(Self(side, place))
    }

    /// That of the file of this name.
    pub fn of_path(path: &Path) -> Option<Self> {
        // Asked before opening, because the opening of a pipe waits for its other end.
        fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        Self::take(&File::open(path).ok()?)
    }
}

impl Versions<Mapped> {
    /// Opens the shared words of a pool that this process has locked for writing, before it changes anything
    /// (VERSION-6). `None` where there is no shared memory, or it cannot be had: no process can read beside this writer then.
    pub fn open(pool: &Mapped, header: &Header, place: Option<WritersPlace>) -> Option<Self> {
        let WritersPlace(side, place) = place.or_else(|| WritersPlace::take(pool.file()?))?;
        let barrier = Barrier::between_processes();
        let begin = |head: &Head<&Mapped>| {
            head.raise_generation();
            head.set_state(State::Opening);
            head.set_one_sided(barrier.is_one_sided());
            (0..header.geometry.lanes as usize)
                .for_each(|lane| head.set_lane(lane, LaneWord::Idle));
        };
        let opened: Result<_, MapError> = Head::open(&side, header, begin);
        let (head, ()) = opened.ok()?;
        let files: Box<dyn Files<Mapped>> = Box::new(SideFiles { side, _place: place });
        Some(Self {
            head,
            ring: OnceLock::new(),
            barrier,
            files: Some(files),
            #[cfg(test)]
            mistake: None,
        })
    }
}

impl<M: Medium> Versions<M> {
    /// Those on given media, where an explorer runs both sides.
    #[cfg(test)]
    pub fn on(head: M, ring: M) -> Self {
        let barrier = Barrier::between_processes();
        Self {
            head: Head(head),
            ring: OnceLock::from(Some(Ring(ring))),
            barrier,
            files: None,
            mistake: None,
        }
    }

    /// Whether the step is left out. Only tests make mistakes.
    #[inline(always)]
    pub fn makes(&self, mistake: Mistake) -> bool {
        #[cfg(test)]
        return self.mistake == Some(mistake);
        #[cfg(not(test))]
        {
            let _ = mistake;
            false
        }
    }

    /// Transactions begin. Others may read beside them, or may not.
    pub fn start(&self, others_may_read: bool) {
        self.head.set_state(if others_may_read { State::Live } else { State::Alone });
    }

    /// VERSION-1: the lane is about to store in place. `true` when there are readers.
    #[inline(always)]
    pub fn begin(&self, lane: usize) -> bool {
        if !self.makes(Mistake::TagBeforeWord) {
            self.head.set_lane(lane, LaneWord::Begins);
        }
        self.barrier.light();
        self.is_read()
    }

    /// The lane has stored all. Where the medium has failed meanwhile, a part may not have reached the file
    /// (VERSION-6).
    #[inline(always)]
    pub fn end(&self, lane: usize, pool: &M) {
        if !pool.is_usable() {
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
        let word = if self.makes(Mistake::DoneTooEarly) {
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
        if self.makes(Mistake::NotKept) {
            return;
        }
        let Some(ring) = self.ring() else { return };
        for line in lines {
            let at = line.start();
            let content = std::array::from_fn(|word| pool.load_u64(at.plus(word as u64 * 8)));
            let number = self.head.keep_one();
            ring.push(number, line, tag, &content);
            if number % RING_LINES == 0
                && let Some(files) = &self.files
            {
                self.head.remove_dead(|number| files.is_taken(number));
            }
        }
        fence(Ordering::SeqCst);
    }

    /// VERSION-3: these bytes of the pool, which belong to no commit yet, will be changed.
    #[cold]
    pub fn keep_before_commit(&self, pool: &M, range: ByteRange) {
        if self.makes(Mistake::FreshNotKept) {
            return;
        }
        self.keep(pool, range.lines(), self.head.epoch());
    }

    /// The ring. Where it cannot be had, all snapshots are over.
    fn ring(&self) -> Option<&Ring<M>> {
        let open = || {
            let ring = self.files.as_ref().and_then(|files| files.ring());
            if ring.is_none() {
                self.head.set_state(State::Alone);
                self.head.raise_generation();
            }
            ring.map(Ring)
        };
        self.ring.get_or_init(open).as_ref()
    }

    /// Whether another process waits to write.
    pub fn is_wanted(&self) -> bool {
        self.head.wanted_until() > milliseconds_now()
    }

    pub fn store_stats(&self, words: &[u64; super::STATS_WORDS]) {
        self.head.store_stats(words);
    }
}

impl<M: Medium> Drop for Versions<M> {
    /// The writer goes. What a forked child has is its parent's.
    fn drop(&mut self) {
        if let Some(files) = &self.files
            && !self.head.0.is_forked()
        {
            files.leave(&self.head);
        }
    }
}

/// Milliseconds since 1970.
pub(super) fn milliseconds_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
