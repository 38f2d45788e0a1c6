//! Figure 6, the micro-benchmark: flushing objects against keeping checksums of them.
//!
//! Objects of one size lie in matrices, aligned and one behind the other, as many as whole ones
//! fit. Four things are done to each object that was just stored to, so that it is dirty in the
//! cache: its lines are flushed; or checksums of it are created and their lines made durable; or
//! the checksums, which held its content from before, are updated and made durable; or, as the
//! *floor* of both, what they are made of is read and their lines are made durable, and nothing
//! is computed. With the checksums goes the matrix's spare lines, which say what is in them.
//!
//! Each in three groupings:
//!
//! | grouping | objects | fences | checksum lines are written |
//! |---|---|---|---|
//! | one by one | at random | one for each object | for each object |
//! | batched | at random | one for 1,024 objects | once a batch for the objects that share a page |
//! | by page | all of a matrix, matrices at random | as batched | once for the matrix |
//!
//! Matrices are pages of 4096 bytes ([`Shape::PAGE`](outlast_matrix::Shape::PAGE)). By page,
//! objects that do not fit twice into one lie in matrices of 64 KiB, as such blocks of a pool do.
//! Where all of a matrix is new, its checksums are made from it whatever was in them before, and
//! are streamed past the caches; a fence makes both streams and flushes durable.
//!
//! Storing the objects is not timed; the grouping of a batch by page is. A turn does one of the
//! twelve to every object, and its time is that of its median batch, so that a batch in which the
//! processor was given to another thread counts for nothing; turns are interleaved, and savings are
//! formed within a round.

mod objects;

use std::time::Instant;

use outlast_matrix::LINE_BYTES;
use outlast_measure::Rounds;
use outlast_pmem::{Counted, Delayed, Heap, Medium, WriteCost};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use self::objects::{Group, Layout, Objects};
use super::Task;
use crate::native::{NativeError, PoolDirectory, Setup};
use crate::progress::{Listener, Progress, as_part};
use crate::record::{Kind, Metric, Record};
use crate::stats::Spread;

/// Bytes of the objects.
pub const SIZES: [u64; 5] = [128, 256, 512, 1024, 2048];

/// Objects between two fences, where they are batched.
const BATCH: usize = 1024;

/// Bytes of the smallest matrices, and of those of objects that do not fit twice into one.
const PAGE_BYTES: usize = 4096;
const LARGE_BYTES: usize = 64 << 10;

/// Lines of data in a page.
const PAGE_LINES: usize = 49;

/// An action on an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Its lines are flushed.
    Flush,
    /// Checksums are made of it.
    Create,
    /// Its new content takes the place of the old in the checksums.
    Update,
    /// It is read and the lines of its checksums are written, without computing them.
    Floor,
}

/// Which objects follow each other, and when a fence does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grouping {
    /// At random, a fence for each.
    OneByOne,
    /// At random, a fence for many.
    Batched,
    /// Those of a matrix together, a fence for many.
    ByPage,
}

impl Action {
    const ALL: [Self; 4] = [Self::Flush, Self::Create, Self::Update, Self::Floor];

    fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Create => "create",
            Self::Update => "update",
            Self::Floor => "floor",
        }
    }
}

impl Grouping {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::OneByOne, Self::Batched, Self::ByPage];

    fn name(self) -> &'static str {
        match self {
            Self::OneByOne => "one by one",
            Self::Batched => "batched",
            Self::ByPage => "by page",
        }
    }
}

/// The name in place of a scheme in records.
pub fn pattern(action: Action, grouping: Grouping) -> String {
    format!("{}, {}", action.name(), grouping.name())
}

/// The name in place of a workload in records.
pub fn objects_of(bytes: u64) -> String {
    format!("objects of {bytes} B")
}

/// The name in place of a workload where lines of one page are counted.
pub const ONE_MATRIX: &str = "one full matrix";
/// The same with seven objects of a line each.
pub const SEVEN_OBJECTS: &str = "7 objects of one line";

/// The stage of [`measure`] in progress events.
pub(super) const STAGE: &str = "checksums beside flushes";

/// All sizes, on the bare mapping and with writes slowed down.
///
/// # Errors
/// [`NativeError`] where no memory can be mapped.
///
/// # Panics
/// When checksums are wrong afterwards.
pub fn measure(task: &Task, listen: &mut Listener<'_>) -> Result<Vec<Record>, NativeError> {
    let setup =
        Setup { directory: task.directory.clone(), ..Setup::new(Vec::new(), task.size, task.seed) };
    let directory = PoolDirectory::new(&setup)?;
    let mut records = one_matrix();
    let latencies = [0, task.write_latency_ns];
    let distinct = if task.write_latency_ns == 0 { 1 } else { 2 };
    let parts = (SIZES.len() * distinct) as u64;
    let mut number = 0;
    for bytes in SIZES {
        for &line_ns in &latencies[..distinct] {
            let mut listen = as_part(STAGE, (number, parts), listen);
            number += 1;
            let lines = bytes as usize / LINE_BYTES;
            let amount = &task.amount;
            let objects = amount.objects.min(amount.object_bytes / bytes);
            let layouts = Layouts::new(lines, objects as usize);
            let mapped = directory.mapped("objects", layouts.bytes())?;
            let stage = match line_ns {
                0 => objects_of(bytes),
                ns => format!("{}, +{ns} ns", objects_of(bytes)),
            };
            let mut tell = |done, total| listen(Progress::Step { stage: &stage, done, total });
            // Slowed down it takes longer, and spreads less.
            let rounds = if line_ns == 0 { amount.rounds } else { amount.rounds.div_ceil(2) };
            let found = match line_ns {
                0 => Bench::new(mapped, layouts, task.seed).run(rounds, &mut tell),
                ns => {
                    let cost = WriteCost { line_ns: ns, bandwidth_bytes_per_s: None };
                    let medium = Delayed::new(mapped, cost);
                    Bench::new(medium, layouts, task.seed).run(rounds, &mut tell)
                }
            };
            let config = format!(
                "{objects} objects, {} in a page, by page {} in a matrix",
                layouts.at_random.per_matrix(),
                layouts.by_page.per_matrix()
            );
            records.extend(found.iter().flat_map(|turns| turns.records(bytes, &found)).map(
                |record| {
                    let record = record.config(&config).domain(directory.short_description());
                    if line_ns == 0 { record } else { record.write_latency_ns(line_ns) }
                },
            ));
        }
    }
    Ok(records)
}

/// Where objects lie.
#[derive(Clone, Copy, Debug)]
struct Layouts {
    at_random: Layout,
    by_page: Layout,
}

impl Layouts {
    fn new(lines: usize, objects: usize) -> Self {
        let at_random = Layout::new(PAGE_BYTES, lines, objects);
        let large = || Layout::new(LARGE_BYTES, lines, objects);
        let by_page = if at_random.per_matrix() < 2 { large() } else { at_random };
        Self { at_random, by_page }
    }

    fn of(&self, grouping: Grouping) -> Layout {
        match grouping {
            Grouping::OneByOne | Grouping::Batched => self.at_random,
            Grouping::ByPage => self.by_page,
        }
    }

    fn bytes(&self) -> u64 {
        self.at_random.bytes().max(self.by_page.bytes())
    }
}

/// The turns of one pattern.
struct Turns {
    action: Action,
    grouping: Grouping,
    /// Nanoseconds for an object, by round.
    ns: Vec<f64>,
    /// Lines flushed for an object.
    lines: f64,
}

impl Turns {
    fn records(&self, bytes: u64, all: &[Turns]) -> Vec<Record> {
        let name = pattern(self.action, self.grouping);
        let record = |metric, spread| {
            Record::spread(Kind::Native, &objects_of(bytes), &name, metric, spread)
        };
        let mut records = Vec::new();
        records.extend(Spread::of(self.ns.iter().copied()).map(|s| record(Metric::OBJECT_TIME, s)));
        let lines =
            Record::new(Kind::Native, &objects_of(bytes), &name, Metric::OBJECT_LINES, self.lines);
        records.push(lines);
        let flush = all
            .iter()
            .find(|other| other.action == Action::Flush && other.grouping == self.grouping)
            .expect("each grouping has its flushes");
        if self.action != Action::Flush {
            let saved = self.ns.iter().zip(&flush.ns).map(|(own, flush)| 1.0 - own / flush);
            let saved = Spread::of(saved.map(|share| 100.0 * share));
            records.extend(saved.map(|spread| record(Metric::OBJECT_TIME_SAVED, spread)));
        }
        records
    }
}

/// Lines flushed for a page, counted.
fn one_matrix() -> Vec<Record> {
    let mut records = Vec::new();
    for (name, objects) in [(ONE_MATRIX, PAGE_LINES), (SEVEN_OBJECTS, 7)] {
        for action in [Action::Flush, Action::Create] {
            let layouts = Layouts::new(1, objects);
            let medium = Counted::new(Heap::new(layouts.bytes()));
            let mut bench = Bench::new(medium, layouts, 1);
            bench.start(action, Grouping::ByPage);
            let before = bench.objects.medium.counters();
            bench.go_over(action, Grouping::ByPage);
            let counted = bench.objects.medium.counters() - before;
            let lines = (counted.flushed_lines + counted.streamed_lines) as f64;
            // The spare line is ours and no checksum.
            let lines = if action == Action::Create { lines - 1.0 } else { lines };
            let metric = Metric::OBJECT_LINES;
            records.push(Record::new(Kind::Sim, name, action.name(), metric, lines));
        }
    }
    records
}

/// Objects on a medium, and the orders in which they are used.
struct Bench<M> {
    objects: Objects<M>,
    layouts: Layouts,
    at_random: Vec<u32>,
    by_page: Vec<u32>,
    seed: u64,
}

impl<M: Medium> Bench<M> {
    fn new(medium: M, layouts: Layouts, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut at_random: Vec<u32> = (0..layouts.at_random.objects() as u32).collect();
        at_random.shuffle(&mut rng);
        let layout = layouts.by_page;
        let mut matrices: Vec<usize> = (0..layout.matrices()).collect();
        matrices.shuffle(&mut rng);
        let by_page =
            matrices.into_iter().flat_map(|m| layout.objects_in(m)).map(|o| o as u32).collect();
        Self { objects: Objects::new(medium, layout, BATCH), layouts, at_random, by_page, seed }
    }

    /// Interleaved turns; `tell` hears how many are done.
    fn run(&mut self, rounds: u32, tell: &mut dyn FnMut(u64, u64)) -> Vec<Turns> {
        let mut all: Vec<Turns> = Vec::new();
        for grouping in Grouping::ALL {
            let turns = |action| Turns { action, grouping, ns: Vec::new(), lines: 0.0 };
            all.extend(Action::ALL.map(turns));
        }
        let total = u64::from(rounds) * all.len() as u64;
        let objects = self.at_random.len() as f64;
        let mut done = 0;
        let turns = Rounds::new(rounds, self.seed).run(all.len(), |index, round| {
            let turns = &mut all[index];
            let took = self.turn(turns.action, turns.grouping);
            turns.lines = self.objects.flushed as f64 / objects;
            if round == 0 && matches!(turns.action, Action::Create | Action::Update) {
                self.objects.verify();
            }
            done += 1;
            tell(done, total);
            Ok::<_, std::convert::Infallible>(took)
        });
        let Ok(turns) = turns;
        for (all, ns) in all.iter_mut().zip(turns) {
            all.ns = ns;
        }
        all
    }

    /// Does this to every object; returns nanoseconds for each of the median batch.
    fn turn(&mut self, action: Action, grouping: Grouping) -> f64 {
        self.start(action, grouping);
        self.go_over(action, grouping)
    }

    /// Before a turn, checksums are as it expects to find them.
    fn start(&mut self, action: Action, grouping: Grouping) {
        self.objects.lay_out(self.layouts.of(grouping));
        // Turns before may have had other matrices here.
        if action != Action::Flush {
            self.objects.forget_all();
        }
        if matches!(action, Action::Update | Action::Floor) {
            self.objects.create_all();
        }
        self.objects.version += 1;
        self.objects.flushed = 0;
    }

    fn go_over(&mut self, action: Action, grouping: Grouping) -> f64 {
        let order = match grouping {
            Grouping::ByPage => &self.by_page,
            _ => &self.at_random,
        };
        let layout = self.layouts.of(grouping);
        let mut took = Vec::new();
        let mut members = Vec::new();
        for batch in batches(order, grouping, &layout) {
            members.clear();
            members.extend(batch.iter().enumerate().map(|(nth, o)| layout.member(*o, nth)));
            for member in &members {
                if action == Action::Update {
                    self.objects.keep_old(*member);
                }
                self.objects.store_object(*member);
            }
            let start = Instant::now();
            match (grouping, action) {
                (Grouping::OneByOne, _) => {
                    for member in &members {
                        self.objects.treat(action, &[std::slice::from_ref(member)]);
                        self.objects.medium.fence();
                    }
                }
                // A flush needs no groups.
                (_, Action::Flush) => {
                    self.objects.treat(action, &[&members]);
                    self.objects.medium.fence();
                }
                (Grouping::Batched | Grouping::ByPage, _) => {
                    if grouping == Grouping::Batched {
                        members.sort_unstable();
                    }
                    let groups: Vec<Group<'_>> =
                        members.chunk_by(|a, b| a.matrix == b.matrix).collect();
                    self.objects.treat(action, &groups);
                    self.objects.medium.fence();
                }
            }
            took.push(start.elapsed().as_nanos() as f64 / batch.len() as f64);
        }
        Spread::of(took).expect("an object at least").median
    }
}

impl<M: Medium> Objects<M> {
    fn treat(&mut self, action: Action, groups: &[Group<'_>]) {
        match action {
            Action::Flush => {
                groups.iter().copied().flatten().for_each(|member| self.flush_object(*member));
            }
            Action::Create => self.sum_groups(groups, false),
            Action::Update => self.sum_groups(groups, true),
            Action::Floor => self.touch_groups(groups),
        }
    }
}

/// Parts of the order: `BATCH` objects each, but whole matrices where they come by page.
fn batches<'o>(order: &'o [u32], grouping: Grouping, layout: &Layout) -> Vec<&'o [u32]> {
    if grouping != Grouping::ByPage {
        return order.chunks(BATCH).collect();
    }
    // Only the last matrix may be short, and it may stand anywhere.
    let (mut batches, mut from) = (Vec::new(), 0);
    for to in 1..=order.len() {
        let matrix = |at: usize| layout.matrix_of(order[at]);
        let ends = to == order.len() || matrix(to) != matrix(to - 1);
        if ends && (to - from >= BATCH || to == order.len()) {
            batches.push(&order[from..to]);
            from = to;
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(lines: usize, objects: usize) -> Bench<Heap> {
        let layouts = Layouts::new(lines, objects);
        Bench::new(Heap::new(layouts.bytes()), layouts, 3)
    }

    #[test]
    fn every_pattern_leaves_checksums_that_decode_clean() {
        for (lines, objects) in [(1, 148), (2, 73), (8, 19), (32, 60)] {
            let mut bench = bench(lines, objects);
            let found = bench.run(2, &mut |_, _| ());
            assert_eq!(found.len(), 12);
            for grouping in Grouping::ALL {
                for action in [Action::Create, Action::Update] {
                    bench.turn(action, grouping);
                    bench.objects.verify();
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "matrix 0")]
    fn verification_finds_an_object_that_is_in_no_checksum() {
        let mut bench = bench(2, 24);
        bench.turn(Action::Create, Grouping::ByPage);
        bench.turn(Action::Flush, Grouping::ByPage);
        bench.objects.verify();
    }

    #[test]
    #[should_panic(expected = "matrix 0")]
    fn the_floor_computes_nothing() {
        let mut bench = bench(2, 24);
        bench.turn(Action::Floor, Grouping::Batched);
        bench.objects.verify();
    }

    #[test]
    fn lines_are_counted_as_the_layout_says() {
        let mut bench = bench(32, 40);
        let found = bench.run(1, &mut |_, _| ());
        let lines = |action, grouping| {
            let same = |turns: &&Turns| turns.action == action && turns.grouping == grouping;
            found.iter().find(same).unwrap().lines
        };
        let sums = [Action::Create, Action::Update, Action::Floor];
        for grouping in Grouping::ALL {
            assert_eq!(lines(Action::Flush, grouping), 32.0);
        }
        for grouping in [Grouping::OneByOne, Grouping::Batched] {
            // 32 lines run down five columns and through all seven rows.
            assert!(sums.iter().all(|action| lines(*action, grouping) == 5.0 + 7.0 + 1.0));
        }
        // Those of a matrix of 64 KiB, and the others in the next.
        let large = outlast_matrix::Shape::within(LARGE_BYTES).unwrap();
        let first = bench.layouts.by_page.per_matrix();
        let columns = |objects: usize| (objects * 32).div_ceil(large.rows());
        let rest = large.rows() + large.spare_lines();
        let all = columns(first) + columns(40 - first) + 2 * rest;
        for action in sums {
            assert_eq!(lines(action, Grouping::ByPage), all as f64 / 40.0, "{action:?}");
        }
        let counted: Vec<_> = one_matrix().iter().map(|record| record.value).collect();
        assert_eq!(counted, [49.0, 14.0, 7.0, 8.0].map(Some));
    }
}
