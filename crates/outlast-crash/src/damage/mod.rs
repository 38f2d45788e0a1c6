//! Damaged pools: results of media faults and stray stores, checked, opened, repaired and used.
//!
//! A crash leaves what a right program wrote; damage leaves anything. The model: one to six places
//! of a pool (a sealed word, a line, a sector, a page) lose their content. They get flipped bits,
//! zeros, noise, a stray store, the content of another place, or their own older content; some keep
//! the CRC-8 that covers them. Nothing else is wrong, and the damage is there before the pool is opened.
//!
//! - **F1** Nothing panics, loops or takes memory without bound, whatever the bytes are.
//! - **F2** With checksums, a pool that `check` finds sound opens and holds what it must, now and
//!   after more transactions.
//! - **F3** Where `repair` leaves nothing, the pool holds what it must, and `check` finds it sound.
//! - **F4** More damage elsewhere gets no milder verdict: sound, repaired, left or refused.
//!
//! Exempt from F2 to F4 is what no checksum in the pool can see, as `docs/recovery.md` names it
//! ([`Exempt`]). Such cases are counted apart, and judged again without the damage that is exempt.
//! Without checksums only F1 is demanded.
//!
//! [`Fuzz::run`] judges a range of cases. A case is a function of (seed, index), so either number of
//! a failure replays it.

mod bases;
mod content;
mod draw;
mod inflict;
mod judge;

use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bases::Base;
use draw::Draw;
use inflict::{Damage, damages};

/// A case that takes longer does not come to an end.
const CASE_SECONDS_MAX: u64 = 60;

/// Sound pools of one seed, to be damaged.
pub struct Fuzz {
    seed: u64,
    bases: Vec<Base>,
}

/// What must not be.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wrong {
    /// F1: something panicked.
    Panicked,
    /// F2: `check` found nothing, and the content is wrong.
    Silent,
    /// F3: `repair` left nothing, and the content is wrong or `check` finds more.
    Overstated,
    /// F4: with more damage the verdict is milder.
    Milder,
    /// F2 or F3, later: what further transactions did is wrong or not sound.
    Later,
}

/// Damage that looks like what a right program leaves, so that nothing in the pool can tell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Exempt {
    /// A whole page with its checksums went back to what it was before.
    StalePage,
    /// Lines of a live log look as if the crash had come before they were written.
    UnwrittenLog,
    /// A sealed word outside all matrices is wrong together with its seal.
    Resealed,
    /// A line of the directory is as it was before, under a root that `check` cannot follow.
    StaleDirectory,
}

/// A case that broke one of the rules.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Which case.
    pub index: u64,
    /// Which rule.
    pub wrong: Wrong,
    /// The pool, the damage, and what came of it.
    pub detail: String,
}

/// What became of many cases.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cases judged.
    pub pools: u64,
    /// `check` found nothing, and rightly.
    pub sound: u64,
    /// `check` named what is wrong.
    pub found: u64,
    /// The pool was refused.
    pub refused: u64,
    /// `repair` put everything right.
    pub repaired: u64,
    /// Without checksums: damaged data that nothing sees.
    pub unchecked: u64,
    /// Exempt cases that would have broken a rule, by their kind: how many, and the first of them.
    pub exempt: Vec<(Exempt, u64, Broken)>,
    /// Broken rules.
    pub broken: Vec<Broken>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.pools += other.pools;
        self.sound += other.sound;
        self.found += other.found;
        self.refused += other.refused;
        self.repaired += other.repaired;
        self.unchecked += other.unchecked;
        for (exempt, count, first) in other.exempt {
            self.exempted(exempt, count, first);
        }
        self.broken.extend(other.broken);
    }

    fn exempted(&mut self, exempt: Exempt, count: u64, first: Broken) {
        match self.exempt.iter_mut().find(|row| row.0 == exempt) {
            Some(row) => {
                row.1 += count;
                if first.index < row.2.index {
                    row.2 = first;
                }
            }
            None => self.exempt.push((exempt, count, first)),
        }
        self.exempt.sort_by_key(|row| row.0);
    }

    /// How many cases broke a rule.
    pub fn count(&self, wrong: Wrong) -> usize {
        self.broken.iter().filter(|broken| broken.wrong == wrong).count()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} pools: {} sound, {} found damaged, {} refused, {} repaired, \
             {} damaged unseen without checksums; ",
            self.pools, self.sound, self.found, self.refused, self.repaired, self.unchecked
        )?;
        write!(
            f,
            "{} panics, {} silently wrong, {} repairs overstated, {} milder, {} wrong later; exempt:",
            self.count(Wrong::Panicked),
            self.count(Wrong::Silent),
            self.count(Wrong::Overstated),
            self.count(Wrong::Milder),
            self.count(Wrong::Later)
        )?;
        if self.exempt.is_empty() {
            return f.write_str(" none");
        }
        let mut rows = self.exempt.iter();
        rows.try_for_each(|(exempt, count, first)| {
            write!(f, " {exempt:?} {count} (first {})", first.index)
        })
    }
}

/// What a worker is at, for the watchdog.
#[derive(Default)]
struct At {
    index: AtomicU64,
    /// Milliseconds since the run began; 0 between cases.
    since: AtomicU64,
}

impl Fuzz {
    /// Builds the pools.
    pub fn new(seed: u64) -> Self {
        Self { seed, bases: Base::all(seed) }
    }

    /// Judges the cases of a range on `threads` threads. `progress` hears of each how many are done,
    /// and its outcome; `endless` hears of a case that does not end, and must end the process.
    pub fn run(
        &self,
        cases: Range<u64>,
        threads: usize,
        progress: impl Fn(u64, &Tally) + Sync,
        endless: impl Fn(u64) + Sync,
    ) -> Tally {
        let next = AtomicU64::new(cases.start);
        let running = AtomicU64::new(threads as u64);
        let started = Instant::now();
        let now = || started.elapsed().as_millis() as u64 + 1;
        let at: Vec<At> = (0..threads).map(|_| At::default()).collect();
        let all = Mutex::new(Tally::default());
        let work = |at: &At| {
            let mut tally = Tally::default();
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= cases.end {
                    break;
                }
                at.index.store(index, Ordering::Relaxed);
                at.since.store(now(), Ordering::Relaxed);
                let outcome = self.case(index);
                at.since.store(0, Ordering::Relaxed);
                progress(index + 1 - cases.start, &outcome);
                tally.add(outcome);
            }
            all.lock().expect("no worker panics").add(tally);
            running.fetch_sub(1, Ordering::Relaxed);
        };
        let watch = || {
            while running.load(Ordering::Relaxed) > 0 {
                std::thread::sleep(Duration::from_millis(20));
                for at in &at {
                    let since = at.since.load(Ordering::Relaxed);
                    if since != 0 && now() > since + CASE_SECONDS_MAX * 1000 {
                        endless(at.index.load(Ordering::Relaxed));
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            at.iter().for_each(|at| {
                scope.spawn(|| work(at));
            });
            scope.spawn(watch);
        });
        let mut tally = all.into_inner().expect("no worker panics");
        tally.broken.sort_by_key(|broken| broken.index);
        tally
    }

    /// Judges one case.
    pub fn case(&self, index: u64) -> Tally {
        let (base, damages) = self.drawn(index);
        judge::case(index, base, &damages)
    }

    /// The pool and the damage of a case.
    fn drawn(&self, index: u64) -> (&Base, Vec<Damage>) {
        let mut draw = Draw::of(self.seed, index);
        let base = draw.pick(&self.bases);
        // Pools without checksums are looked at less: only metadata is proven there.
        let base = if base.checksums || draw.below(3) == 0 { base } else { draw.pick(&self.bases) };
        let damages = damages(base, &mut draw);
        (base, damages)
    }

    /// What a case consists of.
    pub fn describe(&self, index: u64) -> String {
        let (base, damages) = self.drawn(index);
        judge::describe(base, &damages)
    }

    /// The bytes of the damaged pool of a case.
    pub fn image(&self, index: u64) -> Vec<u8> {
        let (base, damages) = self.drawn(index);
        judge::damaged(base, &damages)
    }
}
