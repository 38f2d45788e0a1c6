//! Figure 6, the micro-benchmark: flushing objects against keeping checksums of them.
//!
//! Objects of one size lie in matrix pages of 4096 bytes ([`Shape::PAGE`]), aligned and one behind
//! the other, as many as whole ones fit. Three things are done to each object that was just stored
//! to, so that it is dirty in the cache: its lines are flushed; or checksums of it are created and
//! their lines flushed; or the checksums, which held its content from before, are updated and
//! flushed. With the checksums goes the page's spare line, which says what is in them.
//!
//! Each in three groupings:
//!
//! | grouping | objects | fences | checksum lines are written |
//! |---|---|---|---|
//! | one by one | at random | one for each object | for each object |
//! | batched | at random | one for 1,024 objects | once a batch for the objects that share a page |
//! | by page | all of a page, pages at random | as batched | once for the page |
//!
//! Storing the objects is not timed; the grouping of a batch by page is. A turn does one of the
//! nine to every object; turns are interleaved, and savings are formed within a round.

use std::array;
use std::time::{Duration, Instant};

use outlast_matrix::{
    LINE_BYTES, Line, LineSet, Locate, Matrix, Outcome, Shape, Spare, Sums, line_from_bytes,
    line_to_bytes,
};
use outlast_pmem::{Counted, Delayed, Heap, Medium, WriteCost};
use outlast_trace::{LineAddr, PoolOffset};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::Request;
use crate::native::{Arena, NativeError, Setup};
use crate::news::{Listener, News};
use crate::record::{Kind, Metric, Record};
use crate::stats::Spread;

/// Bytes of the objects.
pub const SIZES: [u64; 5] = [128, 256, 512, 1024, 2048];

/// Objects between two fences, where they are batched.
const BATCH: usize = 1024;

const PAGE_BYTES: u64 = 4096;
const PAGE_LINES: usize = 49;
const SUMS: usize = 14;
const _: () = assert!(Shape::PAGE.lines() == PAGE_LINES && Shape::PAGE.checksum_lines() == SUMS);
const _: () = assert!(Shape::PAGE.total_bytes() as u64 == PAGE_BYTES);

/// What is done to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Its lines are flushed.
    Flush,
    /// Checksums are made of it.
    Create,
    /// Its new content takes the place of the old in the checksums.
    Update,
}

/// Which objects follow each other, and when a fence does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grouping {
    /// At random, a fence for each.
    OneByOne,
    /// At random, a fence for many.
    Batched,
    /// Those of a page together, a fence for many.
    ByPage,
}

impl Action {
    const ALL: [Self; 3] = [Self::Flush, Self::Create, Self::Update];

    fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Create => "create",
            Self::Update => "update",
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

/// What stands for the scheme in records.
pub fn pattern(action: Action, grouping: Grouping) -> String {
    format!("{}, {}", action.name(), grouping.name())
}

/// What stands for the workload in records.
pub fn objects_of(bytes: u64) -> String {
    format!("objects of {bytes} B")
}

/// What stands for the workload where lines of one page are counted.
pub const ONE_MATRIX: &str = "one full matrix";
/// The same with seven objects of a line each.
pub const SEVEN_OBJECTS: &str = "7 objects of one line";

/// All sizes, on the bare mapping and with writes slowed down.
///
/// # Errors
/// [`NativeError`] where no memory can be mapped.
///
/// # Panics
/// When checksums are wrong afterwards.
pub fn measure(request: &Request, listen: &mut Listener<'_>) -> Result<Vec<Record>, NativeError> {
    let setup = Setup {
        directory: request.directory.clone(),
        ..Setup::new(Vec::new(), request.size, request.seed)
    };
    let arena = Arena::new(&setup)?;
    let mut records = one_matrix();
    let latencies = [0, request.write_latency_ns];
    let distinct = if request.write_latency_ns == 0 { 1 } else { 2 };
    for bytes in SIZES {
        for &line_ns in &latencies[..distinct] {
            let lines = bytes as usize / LINE_BYTES;
            let amount = &request.amount;
            let objects = amount.objects.min(amount.object_bytes / bytes);
            let layout = Layout::new(lines, objects as usize);
            let mapped = arena.mapped("objects", layout.bytes())?;
            let stage = match line_ns {
                0 => objects_of(bytes),
                ns => format!("{}, +{ns} ns", objects_of(bytes)),
            };
            let mut tell = |done, total| listen(News::Step { stage: &stage, done, total });
            // Slowed down it takes longer, and spreads less.
            let rounds = if line_ns == 0 { amount.rounds } else { amount.rounds.div_ceil(2) };
            let found = match line_ns {
                0 => Bench::new(mapped, layout, request.seed).run(rounds, &mut tell),
                ns => {
                    let cost = WriteCost { line_ns: ns, bandwidth_bytes_per_s: None };
                    let medium = Delayed::new(mapped, cost);
                    Bench::new(medium, layout, request.seed).run(rounds, &mut tell)
                }
            };
            let config = format!("{objects} objects, {} in a page", layout.per_page);
            records.extend(found.iter().flat_map(|turns| turns.records(bytes, &found)).map(
                |record| {
                    let record = record.config(&config).domain(arena.short_description());
                    if line_ns == 0 { record } else { record.write_latency_ns(line_ns) }
                },
            ));
        }
    }
    Ok(records)
}

/// Where objects lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Layout {
    /// Lines of an object.
    lines: usize,
    /// Objects in a page.
    per_page: usize,
    objects: usize,
}

impl Layout {
    fn new(lines: usize, objects: usize) -> Self {
        Self { lines, per_page: PAGE_LINES / lines, objects: objects.max(1) }
    }

    fn pages(&self) -> usize {
        self.objects.div_ceil(self.per_page)
    }

    fn bytes(&self) -> u64 {
        self.pages() as u64 * PAGE_BYTES
    }

    fn page_of(&self, object: usize) -> usize {
        object / self.per_page
    }

    /// The object's lines, as its page numbers them.
    fn lines_of(&self, object: usize) -> std::ops::Range<usize> {
        let first = object % self.per_page * self.lines;
        first..first + self.lines
    }

    fn objects_in(&self, page: usize) -> std::ops::Range<usize> {
        page * self.per_page..((page + 1) * self.per_page).min(self.objects)
    }
}

/// A line of a page.
fn line_at(page: usize, line: usize) -> PoolOffset {
    PoolOffset(page as u64 * PAGE_BYTES + (line * LINE_BYTES) as u64)
}

/// Behind the data come the checksums, then the spare line.
const SUMS_FROM: usize = PAGE_LINES;
const SPARE_LINE: usize = PAGE_LINES + SUMS;

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
            let layout = Layout::new(1, objects);
            let medium = Counted::new(Heap::new(layout.bytes()));
            let mut bench = Bench::new(medium, layout, 1);
            bench.turn(action, Grouping::ByPage);
            let lines = bench.medium.counters().flushed_lines as f64;
            // The spare line is ours and no checksum.
            let lines = if action == Action::Create { lines - 1.0 } else { lines };
            let metric = Metric::OBJECT_LINES;
            records.push(Record::new(Kind::Sim, name, action.name(), metric, lines));
        }
    }
    records
}

/// Objects on a medium.
struct Bench<M> {
    medium: M,
    layout: Layout,
    /// Objects in the order in which they are used.
    at_random: Vec<u32>,
    by_page: Vec<u32>,
    /// Counts how often objects were stored to: every content is new.
    version: u64,
    flushed: u64,
    seed: u64,
}

impl<M: Medium> Bench<M> {
    fn new(medium: M, layout: Layout, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut at_random: Vec<u32> = (0..layout.objects as u32).collect();
        at_random.shuffle(&mut rng);
        let mut pages: Vec<usize> = (0..layout.pages()).collect();
        pages.shuffle(&mut rng);
        let by_page =
            pages.into_iter().flat_map(|page| layout.objects_in(page)).map(|o| o as u32).collect();
        Self { medium, layout, at_random, by_page, version: 0, flushed: 0, seed }
    }

    /// Interleaved turns; `tell` hears how many are done.
    fn run(&mut self, rounds: u32, tell: &mut dyn FnMut(u64, u64)) -> Vec<Turns> {
        let mut all: Vec<Turns> = Vec::new();
        for grouping in Grouping::ALL {
            let turns = |action| Turns { action, grouping, ns: Vec::new(), lines: 0.0 };
            all.extend(Action::ALL.map(turns));
        }
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut order: Vec<usize> = (0..all.len()).collect();
        let total = u64::from(rounds) * all.len() as u64;
        let mut done = 0;
        for round in 0..rounds {
            order.shuffle(&mut rng);
            for &index in &order {
                let turns = &mut all[index];
                self.flushed = 0;
                let took = self.turn(turns.action, turns.grouping);
                turns.ns.push(took.as_nanos() as f64 / self.layout.objects as f64);
                turns.lines = self.flushed as f64 / self.layout.objects as f64;
                if round == 0 && turns.action != Action::Flush {
                    self.verify();
                }
                done += 1;
                tell(done, total);
            }
        }
        all
    }

    /// Does this to every object; returns how long it took.
    fn turn(&mut self, action: Action, grouping: Grouping) -> Duration {
        match action {
            Action::Flush => {}
            Action::Create => self.forget_all(),
            Action::Update => self.create_all(),
        }
        self.version += 1;
        let order = match grouping {
            Grouping::ByPage => std::mem::take(&mut self.by_page),
            _ => std::mem::take(&mut self.at_random),
        };
        let mut old = Vec::new();
        let mut took = Duration::ZERO;
        for batch in self.batches(&order, grouping) {
            old.clear();
            for &object in batch {
                if action == Action::Update {
                    self.load_object(object as usize, &mut old);
                }
                self.store_object(object as usize);
            }
            let start = Instant::now();
            match (action, grouping) {
                (Action::Flush, Grouping::OneByOne) => self.flush_each(batch, true),
                (Action::Flush, _) => self.flush_each(batch, false),
                (_, Grouping::OneByOne) => self.sum_each(batch, &old),
                (_, Grouping::Batched | Grouping::ByPage) => {
                    self.sum_batch(batch, &old, grouping);
                }
            }
            took += start.elapsed();
        }
        match grouping {
            Grouping::ByPage => self.by_page = order,
            _ => self.at_random = order,
        }
        took
    }

    /// Parts of the order: so many objects, but whole pages where they come by page.
    fn batches<'o>(&self, order: &'o [u32], grouping: Grouping) -> Vec<&'o [u32]> {
        match grouping {
            Grouping::ByPage => {
                // Only the last page may be short, and it may stand anywhere.
                let (mut batches, mut from) = (Vec::new(), 0);
                for to in 1..=order.len() {
                    let page = |at: usize| self.layout.page_of(order[at] as usize);
                    let ends = to == order.len() || page(to) != page(to - 1);
                    if ends && (to - from >= BATCH || to == order.len()) {
                        batches.push(&order[from..to]);
                        from = to;
                    }
                }
                batches
            }
            _ => order.chunks(BATCH).collect(),
        }
    }

    fn flush_each(&mut self, batch: &[u32], fence_each: bool) {
        for &object in batch {
            let (page, lines) = self.place(object);
            for line in lines {
                self.flush(line_at(page, line).line());
            }
            if fence_each {
                self.medium.fence();
            }
        }
        if !fence_each {
            self.medium.fence();
        }
    }

    fn sum_each(&mut self, batch: &[u32], old: &[Line]) {
        for (nth, &object) in batch.iter().enumerate() {
            let page = self.layout.page_of(object as usize);
            self.sum_page(page, &[(object, nth as u32)], old);
            self.medium.fence();
        }
    }

    fn sum_batch(&mut self, batch: &[u32], old: &[Line], grouping: Grouping) {
        let mut objects: Vec<(u32, u32)> = batch.iter().copied().zip(0..).collect();
        if grouping == Grouping::Batched {
            objects.sort_unstable();
        }
        let per_page = self.layout.per_page;
        let page_of = |object: &(u32, u32)| object.0 as usize / per_page;
        let mut rest = &objects[..];
        while let Some(first) = rest.first() {
            let page = page_of(first);
            let count = rest.iter().take_while(|object| page_of(object) == page).count();
            let (group, behind) = rest.split_at(count);
            if let Some(next) = behind.first() {
                self.prefetch(page_of(next), self.layout.lines_of(next.0 as usize));
            }
            let whole = self.layout.objects_in(page).len() == group.len();
            if whole && old.is_empty() {
                self.create_page(page);
            } else {
                self.sum_page(page, group, old);
            }
            rest = behind;
        }
        self.medium.fence();
    }

    /// Puts these objects of a page into its checksums, in place of their old content if there is
    /// any, and flushes the checksums that change.
    fn sum_page(&mut self, page: usize, group: &[(u32, u32)], old: &[Line]) {
        let shape = Shape::PAGE;
        let mut touched = [false; SUMS];
        for (object, _) in group {
            touch(&mut touched, self.layout.lines_of(*object as usize));
        }
        let mut lines = [[0; 8]; SUMS];
        for (at, line) in lines.iter_mut().enumerate().filter(|(at, _)| touched[*at]) {
            *line = self.load_line(page, SUMS_FROM + at);
        }
        let mut sums = Sums::new(shape, lines);
        let mut spare = self.load_spare(page);
        for &(object, nth) in group {
            let before = old.get(nth as usize * self.layout.lines..);
            for (i, line) in self.layout.lines_of(object as usize).enumerate() {
                let content = self.load_line(page, line);
                match before.and_then(|before| before.get(i)) {
                    Some(before) => sums.update(line, before, &content),
                    None => sums.add(line, &content),
                }
                spare.insert(line, &content);
            }
        }
        for (at, line) in sums.lines().iter().enumerate().filter(|(at, _)| touched[*at]) {
            self.store_line(page, SUMS_FROM + at, line);
            self.flush(line_at(page, SUMS_FROM + at).line());
        }
        self.store_spare(page, &mut spare);
    }

    /// Makes the checksums of a page whose every object is new.
    fn create_page(&mut self, page: usize) {
        let members = self.layout.objects_in(page).len() * self.layout.lines;
        let data: [Line; PAGE_LINES] =
            array::from_fn(|line| if line < members { self.load_line(page, line) } else { [0; 8] });
        let set = LineSet::of(PAGE_LINES, 0..members);
        let mut sums = Sums::new(Shape::PAGE, [[0; 8]; SUMS]);
        sums.create(&data, &set);
        let mut spare = Spare::empty(Shape::PAGE, [0; LINE_BYTES]);
        data[..members].iter().enumerate().for_each(|(at, line)| spare.insert(at, line));
        let mut touched = [false; SUMS];
        touch(&mut touched, 0..members);
        for (at, line) in sums.lines().iter().enumerate().filter(|(at, _)| touched[*at]) {
            self.store_line(page, SUMS_FROM + at, line);
            self.flush(line_at(page, SUMS_FROM + at).line());
        }
        self.store_spare(page, &mut spare);
    }

    /// No page has anything in its checksums.
    fn forget_all(&mut self) {
        for page in 0..self.layout.pages() {
            for at in 0..SUMS {
                self.store_line(page, SUMS_FROM + at, &[0; 8]);
            }
            let mut spare = Spare::empty(Shape::PAGE, [0; LINE_BYTES]);
            self.medium.store(line_at(page, SPARE_LINE), &spare.to_bytes(page as u64));
        }
    }

    /// Every page has all its objects in its checksums.
    fn create_all(&mut self) {
        for page in 0..self.layout.pages() {
            self.create_page(page);
        }
        self.medium.fence();
        self.flushed = 0;
    }

    /// Every page's checksums and CRCs agree with its data.
    fn verify(&self) {
        for page in 0..self.layout.pages() {
            let data: [Line; PAGE_LINES] = array::from_fn(|line| self.load_line(page, line));
            let sums: [Line; SUMS] = array::from_fn(|at| self.load_line(page, SUMS_FROM + at));
            let spare = self.load_spare(page);
            let members = spare.members();
            let lines = self.layout.objects_in(page).len() * self.layout.lines;
            assert_eq!(members.len(), lines, "page {page} has other members");
            let matrix = Matrix::new(&data, Sums::new(Shape::PAGE, &sums[..]), &members);
            let outcome = matrix.with_crcs(spare.crcs()).decode(Locate::Crcs);
            assert_eq!(outcome, Outcome::Clean, "page {page}");
        }
    }

    fn place(&self, object: u32) -> (usize, std::ops::Range<usize>) {
        (self.layout.page_of(object as usize), self.layout.lines_of(object as usize))
    }

    fn prefetch(&self, page: usize, lines: std::ops::Range<usize>) {
        let mut touched = [false; SUMS];
        touch(&mut touched, lines);
        for at in (0..SUMS).filter(|at| touched[*at]) {
            self.medium.prefetch_write(line_at(page, SUMS_FROM + at).line());
        }
        self.medium.prefetch_write(line_at(page, SPARE_LINE).line());
    }

    fn flush(&mut self, line: LineAddr) {
        self.medium.flush(line);
        self.flushed += 1;
    }

    fn load_line(&self, page: usize, line: usize) -> Line {
        let mut bytes = [0; LINE_BYTES];
        self.medium.load(line_at(page, line), &mut bytes);
        line_from_bytes(&bytes)
    }

    fn store_line(&self, page: usize, line: usize, content: &Line) {
        self.medium.store(line_at(page, line), &line_to_bytes(content));
    }

    fn load_spare(&self, page: usize) -> Spare<[u8; LINE_BYTES]> {
        let mut bytes = [0; LINE_BYTES];
        self.medium.load(line_at(page, SPARE_LINE), &mut bytes);
        Spare::parse(Shape::PAGE, bytes, page as u64).expect("the spare line was written whole")
    }

    fn store_spare(&mut self, page: usize, spare: &mut Spare<[u8; LINE_BYTES]>) {
        self.medium.store(line_at(page, SPARE_LINE), spare.seal(page as u64));
        self.flush(line_at(page, SPARE_LINE).line());
    }

    fn load_object(&self, object: usize, out: &mut Vec<Line>) {
        let page = self.layout.page_of(object);
        out.extend(self.layout.lines_of(object).map(|line| self.load_line(page, line)));
    }

    /// Gives the object a content that it never had before.
    fn store_object(&self, object: usize) {
        let page = self.layout.page_of(object);
        for line in self.layout.lines_of(object) {
            let number = (page * PAGE_LINES + line) as u64 + (self.version << 32);
            let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let content = array::from_fn(|lane| mixed.rotate_left(8 * lane as u32));
            self.store_line(page, line, &content);
        }
    }
}

/// Marks the checksums that cover these lines.
fn touch(touched: &mut [bool; SUMS], lines: std::ops::Range<usize>) {
    let shape = Shape::PAGE;
    for line in lines {
        let place = shape.place(line);
        touched[place.column] = true;
        touched[shape.columns() + place.row] = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_leaves_checksums_that_decode_clean() {
        for lines in [1, 2, 8, 32] {
            let layout = Layout::new(lines, 3 * (PAGE_LINES / lines) + 1);
            let mut bench = Bench::new(Heap::new(layout.bytes()), layout, 3);
            let found = bench.run(2, &mut |_, _| ());
            assert_eq!(found.len(), 9);
            for grouping in Grouping::ALL {
                for action in [Action::Create, Action::Update] {
                    bench.turn(action, grouping);
                    bench.verify();
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "page 0")]
    fn verification_finds_an_object_that_is_in_no_checksum() {
        let layout = Layout::new(2, 24);
        let mut bench = Bench::new(Heap::new(layout.bytes()), layout, 3);
        bench.turn(Action::Create, Grouping::ByPage);
        bench.turn(Action::Flush, Grouping::ByPage);
        bench.verify();
    }

    #[test]
    fn lines_are_counted_as_the_layout_says() {
        let layout = Layout::new(32, 40);
        let mut bench = Bench::new(Heap::new(layout.bytes()), layout, 3);
        let found = bench.run(1, &mut |_, _| ());
        let lines = |action, grouping| {
            let same = |turns: &&Turns| turns.action == action && turns.grouping == grouping;
            found.iter().find(same).unwrap().lines
        };
        for grouping in Grouping::ALL {
            assert_eq!(lines(Action::Flush, grouping), 32.0);
            // 32 lines run down five columns and through all seven rows.
            assert_eq!(lines(Action::Create, grouping), 5.0 + 7.0 + 1.0);
            assert_eq!(lines(Action::Update, grouping), 13.0);
        }
        let counted: Vec<_> = one_matrix().iter().map(|record| record.value).collect();
        assert_eq!(counted, [49.0, 14.0, 7.0, 8.0].map(Some));
    }
}
