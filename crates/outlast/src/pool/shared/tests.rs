//! Two lanes that commit, sweep and use their lines again, under a model checker.
//!
//! A record is one line; what it puts in place is one word with its number. Words are durable when
//! the thread that flushed them has fenced, or when a sweep has flushed and fenced them. A sweep
//! must find every word below its floor in place (SWEEP-1, SWEEP-4) and durable (SWEEP-1), and no line may be stored
//! over while another thread may read it (SWEEP-2, SWEEP-3): accesses that nothing orders are failures.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::sync::{Arc, Mutex};

use super::*;

/// A ring is one line, so the second record already needs a sweep.
const RING_LINES: u64 = 1;
const COMMITS: usize = 2;
const LANES: usize = 2;

/// What is done wrong, if anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// SWEEP-4: bounds are read, and then the clock.
    ClockReadLast,
    /// SWEEP-4: the bound is shown when the number is drawn already.
    BoundShownLate,
    /// SWEEP-4: no bound is shown any more while data is still to be stored.
    IdleBeforeInstalled,
    /// SWEEP-1: what a lane has flushed counts as fenced.
    FencedAtOnce,
    /// SWEEP-1: what another lane has flushed is trusted.
    OthersFlushesTrusted,
    /// SWEEP-3: lines are free before the sweep has read them.
    FreeBeforeRead,
    /// The position moves before the counter that speaks of its record.
    PositionBeforeNumber,
    /// The position moves before the record is written.
    PositionBeforeRecord,
    /// SWEEP-4: a sweep does not raise the clock.
    ClockNotRaised,
    /// SWEEP-4: a sweep has no full fence between the clock and the bounds.
    SweepUnfenced,
    /// SWEEP-4: a commit has none between its bound and the clock.
    CommitUnfenced,
}

/// A place that is stored to and read, never both at a time.
struct Place {
    access: UnsafeCell<()>,
    value: AtomicU64,
}

impl Place {
    fn new() -> Self {
        Self { access: UnsafeCell::new(()), value: AtomicU64::new(0) }
    }

    fn set(&self, value: u64) {
        self.access.with_mut(|_| self.value.store(value, Ordering::Relaxed));
    }

    fn get(&self) -> u64 {
        self.access.with(|_| self.value.load(Ordering::Relaxed))
    }
}

/// A clock that commits move.
trait Clock: Word {
    /// Moves it and returns what it shows.
    fn tick(&self) -> u64;
}

impl Clock for AtomicU64 {
    fn tick(&self) -> u64 {
        self.fetch_add(1, Ordering::SeqCst) + 1
    }
}

/// Where numbers come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Numbers {
    Clock,
    /// Each lane draws them by itself; those of two lanes may be the same (NUMBER-1).
    Lane,
}

/// A word whose loads and stores order nothing.
struct Unordered(AtomicU64);

impl Word for Unordered {
    fn new(value: u64) -> Self {
        Self(AtomicU64::new(value))
    }

    fn load(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn store(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    fn raise(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

impl Clock for Unordered {
    fn tick(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

struct Lane<W> {
    shared: LaneShared<W>,
    line: Place,
}

/// All that threads share.
struct Shared<W> {
    clock: W,
    lanes: [Lane<W>; LANES],
    /// By lane and number: the word in place, and whether the thread that stored it has flushed and
    /// fenced it.
    data: [Vec<Place>; LANES],
    fenced: [Vec<Place>; LANES],
    /// The sweeper holds it.
    swept: Mutex<Swept>,
    numbers: Numbers,
    mistake: Option<Mistake>,
}

/// What sweeps have done.
#[derive(Default)]
struct Swept {
    /// Lanes and numbers whose data is durable.
    durable: BTreeSet<(usize, u64)>,
    /// The floors, and what was durable when each was claimed.
    floors: Vec<(u64, BTreeSet<(usize, u64)>)>,
}

/// What a lane's own thread knows.
struct Own {
    id: usize,
    head: u64,
    /// The numbers of its records.
    numbers: Vec<u64>,
}

impl<W: Clock> Shared<W> {
    fn new(numbers: Numbers, mistake: Option<Mistake>) -> Self {
        let lane = || Lane { shared: LaneShared::new(), line: Place::new() };
        let places = || (0..=LANES * COMMITS).map(|_| Place::new()).collect();
        let by_lane = || std::array::from_fn(|_| places());
        Self {
            clock: W::new(0),
            lanes: std::array::from_fn(|_| lane()),
            data: by_lane(),
            fenced: by_lane(),
            swept: Mutex::default(),
            numbers,
            mistake,
        }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    /// A commit as plain redo does it, which starts the write-back of its data at once. `false` when
    /// there is no room, because another lane's commit holds the floor back.
    fn commit(&self, own: &mut Own) -> bool {
        let lane = &self.lanes[own.id];
        let shared = &lane.shared;
        let is_full = || own.head - shared.tail.load() == RING_LINES;
        if is_full() {
            self.sweep(own.id);
            if is_full() {
                return false;
            }
        }
        if !self.makes(Mistake::BoundShownLate) {
            shared.enter(&self.clock);
        }
        let number = self.draw(own);
        if self.makes(Mistake::BoundShownLate) {
            shared.bound.store(number - 1);
        }
        own.numbers.push(number);
        let head = own.head + 1;
        if self.makes(Mistake::PositionBeforeRecord) {
            shared.installed.store(head);
        }
        lane.line.set(number);
        // The record's fence, which finds done what was flushed before.
        let flushed = shared.flushed.load();
        for number in &own.numbers[..flushed as usize] {
            self.fenced[own.id][*number as usize].set(1);
        }
        shared.fenced.store(flushed);
        if self.makes(Mistake::IdleBeforeInstalled) {
            shared.bound.store(IDLE);
        }
        self.data[own.id][number as usize].set(number);
        shared.flushed.store(head);
        if self.makes(Mistake::FencedAtOnce) {
            shared.fenced.store(head);
        }
        own.head = head;
        if self.makes(Mistake::PositionBeforeNumber) {
            shared.installed.store(head);
        }
        shared.last_installed.store(number);
        shared.installed.store(head);
        shared.bound.store(IDLE);
        true
    }

    fn draw(&self, own: &Own) -> u64 {
        if self.numbers == Numbers::Clock {
            return self.clock.tick();
        }
        if !self.makes(Mistake::CommitUnfenced) {
            fence(Ordering::SeqCst);
        }
        let last = own.numbers.last().copied().unwrap_or(0);
        self.clock.load().max(last) + 1
    }

    /// A sweep by the thread of one lane.
    fn sweep(&self, own: usize) {
        let mut swept = self.swept.lock().unwrap();
        let lanes = || self.lanes.iter().map(|lane| &lane.shared);
        let full_fence = || {
            if self.numbers == Numbers::Lane && !self.makes(Mistake::SweepUnfenced) {
                fence(Ordering::SeqCst);
            }
        };
        let limit = if self.makes(Mistake::ClockReadLast) {
            let bound = lanes().map(|lane| lane.bound.load()).fold(IDLE, u64::min);
            bound.min(self.clock.load()) + 1
        } else if self.makes(Mistake::ClockNotRaised) {
            let newest = lanes().map(|lane| lane.last_installed.load()).fold(0, u64::max);
            let bound = lanes().map(|lane| lane.bound.load()).fold(IDLE, u64::min);
            bound.min(self.clock.load().max(newest)) + 1
        } else {
            first_not_installed(&self.clock, lanes(), full_fence)
        };
        let to: Vec<u64> =
            (0..LANES).map(|id| self.walk(id, id == own, limit, &mut swept.durable)).collect();
        let durable = swept.durable.clone();
        swept.floors.push((limit, durable));
        for (lane, to) in self.lanes.iter().zip(to) {
            lane.shared.swept.store(to);
            lane.shared.free_to(to);
        }
    }

    /// The records of a lane below the limit: which are durable, and where the last one ends.
    fn walk(&self, id: usize, own: bool, limit: u64, durable: &mut BTreeSet<(usize, u64)>) -> u64 {
        let Lane { shared, line } = &self.lanes[id];
        let (end, last) = shared.installed_and_last();
        let covered = shared.covered(own || self.makes(Mistake::OthersFlushesTrusted));
        if self.makes(Mistake::FreeBeforeRead) {
            shared.free_to(end);
        }
        for position in shared.swept.load()..end {
            let number = line.get();
            assert!(number < limit || last >= limit, "a counter that speaks of the last record");
            if number >= limit {
                return position;
            }
            assert_eq!(self.data[id][number as usize].get(), number, "in place (SWEEP-1, SWEEP-4)");
            // What is not covered is flushed and fenced here, as are own flushes.
            let is_durable = position >= covered
                || own
                || durable.contains(&(id, number))
                || self.fenced[id][number as usize].get() == 1;
            assert!(is_durable, "covered and not fenced");
            durable.insert((id, number));
        }
        end
    }
}

/// Both lanes commit, twice where there is room, and one sweeps in the end. Whenever a floor was
/// claimed, all below it was durable, of every lane and moment (SWEEP-1, SWEEP-4).
fn check<W: Clock + 'static>(numbers: Numbers, mistake: Option<Mistake>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let shared = Arc::new(Shared::<W>::new(numbers, mistake));
        let commits = |shared: &Shared<W>, id| {
            let mut own = Own { id, head: 0, numbers: Vec::new() };
            for _ in 0..COMMITS {
                if !shared.commit(&mut own) {
                    break;
                }
            }
            own
        };
        let other = shared.clone();
        let other = loom::thread::spawn(move || commits(&other, 1));
        let own = commits(&shared, 0);
        shared.sweep(0);
        let other = other.join().unwrap();
        for (floor, durable) in &shared.swept.lock().unwrap().floors {
            for lane in [&own, &other] {
                let mut below = lane.numbers.iter().filter(|number| *number < floor);
                assert!(below.all(|number| durable.contains(&(lane.id, *number))), "below {floor}");
            }
        }
    });
}

#[test]
fn no_sweep_passes_what_is_not_in_place_and_durable() {
    check::<AtomicU64>(Numbers::Clock, None);
    check::<AtomicU64>(Numbers::Lane, None);
}

#[test]
fn every_mistake_is_found() {
    use Mistake::*;
    let everywhere = [
        BoundShownLate,
        IdleBeforeInstalled,
        FencedAtOnce,
        OthersFlushesTrusted,
        FreeBeforeRead,
        PositionBeforeNumber,
        PositionBeforeRecord,
    ];
    let by_clock = everywhere.iter().chain(&[ClockReadLast]).map(|it| (Numbers::Clock, *it));
    let by_lane = everywhere.iter().chain(&[ClockNotRaised, SweepUnfenced, CommitUnfenced]);
    for (numbers, mistake) in by_clock.chain(by_lane.map(|it| (Numbers::Lane, *it))) {
        let found = catch_unwind(AssertUnwindSafe(|| check::<AtomicU64>(numbers, Some(mistake))));
        assert!(found.is_err(), "{mistake:?} looks sound with numbers by {numbers:?}");
    }
}

#[test]
fn words_that_order_nothing_are_found() {
    assert!(catch_unwind(|| check::<Unordered>(Numbers::Clock, None)).is_err());
}
