//! The pages that wait to be written back, in the domain `page`.
//!
//! A flush notes bytes, a fence writes back what is noted. Each write-back costs a flush of the
//! device, which takes far longer than the transfer of a few pages. Two rules follow, and where the pages
//! have a [log of fences](crate::fence_log) a third: what is noted goes there.
//!
//! * **One device flush a fence.** What is noted is one span of pages, from the first to the last,
//!   and one call writes all dirty pages of it. Pages that were not noted may go along: a page may
//!   reach the medium at any time anyway.
//! * **One device flush a group.** The notes of all threads share the span. Fences come in *rounds*:
//!   the leader of a round takes what is noted and writes it back; threads that noted before that
//!   follow, and their fences end with the round. What is noted during a round belongs to the next.
//!
//! A leader holds its round back for those that fenced in the two rounds before, up to half of the
//! time that the last write-back took, and a millisecond at most. Without it a thread that has just been served leads the next
//! round by itself, and groups are half as large as they could be. A lone thread never waits.
//!
//! * **PAGES-1** A fence returns when a round has ended that began after this thread's last note.
//! * **PAGES-2** After a write-back has failed no fence succeeds: the system may have dropped the bytes
//!   and called the pages clean. A fence that failed returns only when later stores reach no file
//!   ([`Pages::fail`]): its thread believes durable what is not, and may store over it.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use outlast_trace::{LINE_BYTES, PoolOffset};

use crate::error::PAGE_BYTES;
use crate::fence_log::{FenceLog, Pages, join, tidy};

/// Which part of the last write-back's time a leader waits at most.
const HELD_BACK: u32 = 2;
/// And for how long, however long that took: a leader that waits keeps a processor, which a slow
/// write-back may be waiting for.
const HELD_BACK_MAX: Duration = Duration::from_millis(1);

/// Ranges of lines that are noted one by one; beyond, only pages are.
const RANGES_MAX: usize = 1 << 16;

/// Pages noted by flushes and not yet written back.
#[derive(Default)]
pub(crate) struct PageNotes {
    state: Mutex<State>,
    /// A round has ended.
    ended: Condvar,
    /// Flushes of the device.
    syncs: AtomicU64,
    /// Where fences go, if they do not go to the pages themselves. Held by the leader of a round.
    log: Mutex<Option<FenceLog>>,
    /// Bytes of that log that are in use, as of the last round.
    log_used_bytes: AtomicU64,
}

/// What waits for the next round.
#[derive(Default)]
struct Noted {
    /// Page numbers, from the first to the last; `None` for nothing.
    pages: Option<Range<u64>>,
    /// The ranges of lines on them, where there is a log of fences.
    lines: Vec<Range<u64>>,
    /// There are more than `lines` has.
    are_many: bool,
}

/// The rounds are numbered; at most one has begun and not ended.
#[derive(Default)]
struct State {
    noted: Noted,
    /// There is a log of fences.
    has_log: bool,
    begun: u64,
    ended: u64,
    /// A thread leads the next round, or the one that has begun.
    has_leader: bool,
    has_failed: bool,
    /// Threads that wait for the end of a round.
    waiting: usize,
    /// Threads that fence in the next round, and those of the two before.
    threads: [Threads; 3],
    /// The time that the last write-back took.
    took: Duration,
}

/// A set of threads, by a bit of 64; two threads may share one.
#[derive(Clone, Copy, Default)]
struct Threads(u64);

impl Threads {
    fn this_one() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static BIT: u64 = 1 << (NEXT.fetch_add(1, Ordering::Relaxed) % 64);
        }
        Self(BIT.with(|bit| *bit))
    }
}

impl PageNotes {
    /// Notes that `len` bytes from `at` on are to be durable after this thread's next fence.
    pub fn note(&self, at: u64, len: u64) {
        if len == 0 {
            return;
        }
        let pages = at / PAGE_BYTES..(at + len).div_ceil(PAGE_BYTES);
        let lines = at / LINE_BYTES..(at + len).div_ceil(LINE_BYTES);
        let mut state = self.state();
        if state.has_failed {
            return;
        }
        let has_log = state.has_log;
        state.noted.add(pages, has_log.then_some(lines));
    }

    /// From now on fences go to this log.
    pub fn begin_log(&self, log: FenceLog) {
        *self.log() = Some(log);
        let mut state = self.state();
        state.has_log = true;
        // What is noted already is so by pages.
        state.noted.are_many |= state.noted.pages.is_some();
    }

    /// From now on fences go to the pages.
    pub fn end_log(&self) {
        *self.log() = None;
        self.log_used_bytes.store(0, Ordering::Relaxed);
        self.state().has_log = false;
    }

    /// Has what is noted written to the medium through `pages`, by this thread or by another. When this
    /// returns `true`, everything that this thread noted before is durable (PAGES-1); `false` when a
    /// write has failed, now or ever before (PAGES-2).
    pub fn drain(&self, pages: &impl Pages) -> bool {
        let mut state = self.state();
        // Nothing noted: what this thread did note is in a round that has begun, if not durable.
        let round = state.begun + u64::from(state.noted.pages.is_some());
        state.threads[0].0 |= Threads::this_one().0;
        while state.ended < round && !state.has_failed {
            if state.begun < round && !state.has_leader {
                return self.lead(state, pages);
            }
            state.waiting += 1;
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        !state.has_failed
    }

    /// After a failure that was no fence's: no fence succeeds.
    pub fn fail(&self) {
        let mut state = self.state();
        (state.has_failed, state.noted) = (true, Noted::default());
    }

    /// The next round: waits for a group, takes what is noted, writes it back, serves the followers.
    fn lead<'a>(&'a self, mut state: MutexGuard<'a, State>, pages: &impl Pages) -> bool {
        state.has_leader = true;
        let until = Instant::now() + (state.took / HELD_BACK).min(HELD_BACK_MAX);
        while state.is_group_expected() && Instant::now() < until {
            drop(state);
            thread::yield_now();
            state = self.state();
        }
        let noted = std::mem::take(&mut state.noted);
        state.begun += 1;
        state.threads.rotate_right(1);
        state.threads[0] = Threads::default();
        drop(state);

        let start = Instant::now();
        let unwound = Unwound(self, pages);
        let result = self.write(noted, &Counting { pages, syncs: &self.syncs });
        if let Err(error) = &result {
            pages.fail(error);
        }
        std::mem::forget(unwound);

        let mut state = self.state();
        state.took = start.elapsed();
        state.has_leader = false;
        if result.is_err() {
            (state.has_failed, state.noted) = (true, Noted::default());
        }
        let is_durable = !state.has_failed;
        state.ended += 1;
        let has_followers = state.waiting > 0;
        drop(state);
        if has_followers {
            self.ended.notify_all();
        }
        is_durable
    }

    fn write(&self, mut noted: Noted, pages: &impl Pages) -> io::Result<()> {
        let span = noted.pages.expect("a round has a leader only if something is noted");
        match &mut *self.log() {
            None => pages.write_back(span.start * PAGE_BYTES..span.end * PAGE_BYTES),
            Some(log) => {
                tidy(&mut noted.lines);
                let are_known = !noted.are_many && !noted.lines.is_empty();
                let lines = are_known.then_some(noted.lines.as_slice());
                let fenced = log.fence(lines, span, pages);
                self.log_used_bytes.store(log.used_bytes(), Ordering::Relaxed);
                fenced
            }
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.state().noted.pages.is_none()
    }

    /// How often something was written back: flushes of the device.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    /// Bytes of the log of fences that are in use.
    pub fn log_used_bytes(&self) -> u64 {
        self.log_used_bytes.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in here leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Option<FenceLog>> {
        // After a panic in here no fence comes (PAGES-2).
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the round of a leader that panics: no fence succeeds, and none waits for it.
struct Unwound<'a, P: Pages>(&'a PageNotes, &'a P);

impl<P: Pages> Drop for Unwound<'_, P> {
    fn drop(&mut self) {
        self.1.fail(&io::Error::other("the thread that wrote for all has panicked"));
        let mut state = self.0.state();
        (state.has_leader, state.has_failed) = (false, true);
        state.ended += 1;
        self.0.ended.notify_all();
    }
}

impl Noted {
    fn add(&mut self, pages: Range<u64>, lines: Option<Range<u64>>) {
        self.pages = Some(self.pages.take().map_or(pages.clone(), |noted| join(noted, pages)));
        let Some(lines) = lines.filter(|_| !self.are_many) else { return };
        let ranges = self.lines.len();
        match self.lines.last_mut() {
            Some(last) if last.end == lines.start => last.end = lines.end,
            _ if ranges < RANGES_MAX => self.lines.push(lines),
            _ => self.are_many = true,
        }
    }
}

/// Pages whose device's flushes are counted.
struct Counting<'a, P> {
    pages: &'a P,
    syncs: &'a AtomicU64,
}

impl<P: Pages> Pages for Counting<'_, P> {
    fn load_word(&self, at: PoolOffset) -> u64 {
        self.pages.load_word(at)
    }

    fn write_back(&self, bytes: Range<u64>) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.pages.write_back(bytes)
    }

    fn write_through(&self, at: PoolOffset, bytes: &[u8]) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.pages.write_through(at, bytes)
    }
}

impl State {
    /// Whether a thread that fenced in one of the last two rounds has not come to the next one.
    fn is_group_expected(&self) -> bool {
        let [now, last, before] = self.threads.map(|threads| threads.0);
        (last | before) & !now != 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// Pages without a log, of which this is done to write a span back.
    struct WrittenBack<F>(F);

    impl<F: Fn(Range<u64>) -> io::Result<()>> Pages for WrittenBack<F> {
        fn load_word(&self, _: PoolOffset) -> u64 {
            unreachable!("there is no log")
        }

        fn write_back(&self, bytes: Range<u64>) -> io::Result<()> {
            (self.0)(bytes)
        }

        fn write_through(&self, _: PoolOffset, _: &[u8]) -> io::Result<()> {
            unreachable!("there is no log")
        }
    }

    fn drain(notes: &PageNotes, write_back: impl Fn(Range<u64>) -> io::Result<()>) -> bool {
        notes.drain(&WrittenBack(write_back))
    }

    fn drained(notes: &PageNotes) -> Vec<Range<u64>> {
        let ranges = Mutex::new(Vec::new());
        drain(notes, |range| {
            ranges.lock().unwrap().push(range);
            Ok(())
        });
        ranges.into_inner().unwrap()
    }

    #[test]
    fn whatever_is_noted_is_written_back_at_once() {
        let notes = PageNotes::default();
        for at in [64, 5000, 4096 * 100, 4096 * 40, 4095] {
            notes.note(at, 64);
        }
        notes.note(123_456_789, 0);
        let page = PAGE_BYTES;
        assert_eq!(drained(&notes), [Range { start: 0, end: 101 * page }]);
        assert!(notes.is_empty());
        assert_eq!(drained(&notes), []);
        notes.note(7 * page, 2 * page + 1);
        assert_eq!(drained(&notes), [Range { start: 7 * page, end: 10 * page }]);
        assert_eq!(notes.syncs(), 2);
    }

    /// Thread A notes; B's fence takes the note and is still writing when A fences. A's fence
    /// must not return before B's write has ended.
    #[test]
    fn a_fence_waits_for_the_fence_that_took_its_notes() {
        let notes = PageNotes::default();
        let written = AtomicBool::new(false);
        let taken = Barrier::new(2);
        notes.note(0, 64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                drain(&notes, |_| {
                    taken.wait();
                    // Long enough for the other thread to get into its fence.
                    std::thread::sleep(Duration::from_millis(50));
                    written.store(true, Ordering::SeqCst);
                    Ok(())
                });
            });
            taken.wait();
            drain(&notes, |_| panic!("nothing is left to write"));
            assert!(written.load(Ordering::SeqCst), "returned before the bytes were durable");
        });
    }

    /// What is noted while a round writes belongs to the next, which one of its threads leads.
    #[test]
    fn threads_that_wait_together_are_served_by_one_round() {
        const THREADS: u64 = if cfg!(miri) { 3 } else { 8 };
        let notes = PageNotes::default();
        let written: Mutex<Vec<Range<u64>>> = Mutex::default();
        let noted = Barrier::new(THREADS as usize + 1);
        notes.note(0, 1);
        std::thread::scope(|scope| {
            for thread in 1..=THREADS {
                let (notes, noted, written) = (&notes, &noted, &written);
                scope.spawn(move || {
                    // The first round has begun.
                    while !notes.is_empty() || notes.state().begun == 0 {
                        std::thread::yield_now();
                    }
                    notes.state().threads = [Threads::default(); 3];
                    noted.wait();
                    notes.note(thread * PAGE_BYTES, 1);
                    noted.wait();
                    drain(notes, |range| {
                        written.lock().unwrap().push(range);
                        Ok(())
                    });
                    let covers = |range: &Range<u64>| range.contains(&(thread * PAGE_BYTES));
                    assert!(written.lock().unwrap().iter().any(covers));
                });
            }
            drain(&notes, |_| {
                noted.wait();
                noted.wait();
                Ok(())
            });
        });
        let all = Range { start: PAGE_BYTES, end: (THREADS + 1) * PAGE_BYTES };
        assert_eq!(*written.lock().unwrap(), [all]);
        assert_eq!(notes.syncs(), 2);
    }

    /// A leader that waits for the others gives up when they do not come.
    #[test]
    fn a_group_is_expected_for_two_rounds() {
        let notes = PageNotes::default();
        let round = || {
            notes.note(0, 1);
            drained(&notes);
        };
        std::thread::scope(|scope| scope.spawn(round).join().unwrap());
        assert!(notes.state().is_group_expected());
        round();
        assert!(notes.state().is_group_expected());
        round();
        notes.state().threads[0] = Threads::this_one();
        assert!(!notes.state().is_group_expected());
    }

    #[test]
    fn after_a_failed_write_no_fence_succeeds() {
        let notes = PageNotes::default();
        notes.note(0, 64);
        assert!(!drain(&notes, |_| Err(io::ErrorKind::Other.into())));
        assert!(!drain(&notes, |_| Ok(())), "nothing is noted");
        notes.note(0, 64);
        assert!(!drain(&notes, |_| Ok(())), "something is");
        // Nor after a panic on the way to the medium, and nothing waits for it.
        let notes = PageNotes::default();
        notes.note(0, 64);
        let lost = std::panic::AssertUnwindSafe(|| drain(&notes, |_| panic!("lost")));
        assert!(std::panic::catch_unwind(lost).is_err());
        assert!(!drain(&notes, |_| Ok(())));
    }
}
