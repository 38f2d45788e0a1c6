//! A loop without a runtime that does what a transaction of `sps` needs: the floor of the work.
//!
//! It draws, reads, logs, fences, stores in place, and sweeps its own log before it uses that
//! again. It has one thread, one vector and one kind of transaction, so it has no locks, no
//! allocator, no write set, no dispatch; what it leaves on the medium is as safe as a pool under
//! `swift`, and a test lets the exhaustive checker crash it. Its draws are the workload's own.
//!
//! ```text
//! medium   0  64  floor: the number below which records are dead
//!         64   …  ring of records, all of one size
//!          …   …  the vector
//!
//! record   header line                 further lines
//!  0   8  number of words               0  56  words
//!  8  48  words                        56   8  tag
//! 56   8  tag
//!
//! words: for each swap two places, 32 bits each, and what the words there become
//! tag: the record's number, bit 63 set in the header line
//! ```
//!
//! Rules, those of `docs/swift.md` in small:
//! 1. A line's tag is stored last, so a line with a tag is whole; a record whose lines all have
//!    its number is whole. Numbers grow by one and are never used again.
//! 2. A record is durable, with one fence, before any of its words is stored in place.
//! 3. Before a segment of the ring is used again the lines of all its records are flushed and
//!    fenced, and then the floor is moved past them, flushed and fenced.

use std::time::Instant;

use outlast::{Abort, LINE_BYTES, LineAddr, PoolOffset};
use outlast_pmem::{Counted, Counters, Medium};
use outlast_workloads::{SWAPS_MAX, Scale, SwapDraw, Workload};

use crate::bench::Lane;
use crate::bench::open::{Arrivals, Server, Wall, serve_all};
use crate::stats::Latencies;

/// Bytes of the ring: as many as a lane of a pool has for its log by default.
pub(super) const RING_BYTES: u64 = 256 << 10;
/// Parts of the ring that are swept at once.
const SEGMENTS: u64 = 4;

const RING_AT: PoolOffset = PoolOffset(LINE_BYTES);
const TAG_AT: u64 = 56;
const HEADER_TAG: u64 = 1 << 63;
/// Words of a swap in a record.
const SWAP_WORDS: usize = 3;
/// Words in a record's header line, and in each further line.
const HEADER_WORDS: usize = 6;
const LINE_WORDS: usize = 7;

/// How many swaps a transaction of the workload makes, where it makes any.
pub(super) fn swaps(workload: &Workload) -> Option<usize> {
    SwapDraw::of(workload, &workload.scale(), 0, 1).map(|draw| draw.pairs().len())
}

/// Bytes of the medium that the loop needs.
pub(super) fn bytes(scale: &Scale) -> u64 {
    LINE_BYTES + RING_BYTES + 8 * scale.records
}

/// The loop for a workload that swaps, on a medium of zeros.
///
/// # Panics
/// When the workload does something else.
pub(super) fn lane<M: Medium + Send + 'static>(
    medium: M,
    workload: &Workload,
    scale: &Scale,
    seed: u64,
) -> Box<dyn Lane> {
    let draw = SwapDraw::of(workload, scale, seed, 1).expect("the workload swaps");
    match draw.pairs().len() {
        1 => Box::new(Bare::<M, 1>::new(medium, scale.records, draw)),
        8 => Box::new(Bare::<M, 8>::new(medium, scale.records, draw)),
        other => unreachable!("no workload makes {other} swaps"),
    }
}

/// What so many transactions ask of the medium.
///
/// # Panics
/// As [`lane`].
pub(super) fn count<M: Medium>(
    medium: Counted<M>,
    workload: &Workload,
    scale: &Scale,
    seed: u64,
    transactions: u64,
) -> Counters {
    fn run<M: Medium, const SWAPS: usize>(
        mut bare: Bare<Counted<M>, SWAPS>,
        transactions: u64,
    ) -> Counters {
        let before = bare.medium.counters();
        for _ in 0..transactions {
            bare.step();
            bare.draw();
        }
        bare.medium.counters() - before
    }
    let draw = SwapDraw::of(workload, scale, seed, 1).expect("the workload swaps");
    match draw.pairs().len() {
        1 => run(Bare::<_, 1>::new(medium, scale.records, draw), transactions),
        8 => run(Bare::<_, 8>::new(medium, scale.records, draw), transactions),
        other => unreachable!("no workload makes {other} swaps"),
    }
}

/// The loop, with its vector on a medium, for transactions of `SWAPS` swaps.
pub(super) struct Bare<M, const SWAPS: usize> {
    medium: M,
    draw: SwapDraw,
    ring_lines: u64,
    /// The number of the next record, from 1 on.
    next: u64,
}

impl<M: Medium, const SWAPS: usize> Bare<M, SWAPS> {
    /// Lines of a record.
    const LINES: u64 =
        1 + (SWAPS * SWAP_WORDS).saturating_sub(HEADER_WORDS).div_ceil(LINE_WORDS) as u64;

    /// Writes the vector behind the ring to a medium of zeros, durably.
    pub fn new(medium: M, words: u64, draw: SwapDraw) -> Self {
        Self::with_ring(medium, RING_BYTES, words, draw)
    }

    fn with_ring(medium: M, ring_bytes: u64, words: u64, draw: SwapDraw) -> Self {
        const { assert!(0 < SWAPS && SWAPS <= SWAPS_MAX) };
        let ring_lines = ring_bytes / LINE_BYTES;
        assert!(ring_lines.is_multiple_of(SEGMENTS * Self::LINES), "segments hold whole records");
        let bare = Self { medium, draw, ring_lines, next: 1 };
        for place in 0..words {
            bare.medium.store_u64(bare.place(place), SwapDraw::initial(place));
        }
        bare.medium.flush_range(bare.place(0), 8 * words);
        bare.medium.fence();
        bare
    }

    /// One transaction: durable when it returns. Without a [`draw`](Self::draw) it is repeated.
    #[inline]
    pub fn step(&mut self) {
        let number = self.next;
        self.sweep_before(number);
        // Read.
        let mut words = [[0; SWAP_WORDS]; SWAPS];
        let mut written = 0u64;
        for (i, &(a, b)) in self.draw.pairs()[..SWAPS].iter().enumerate() {
            // A bit for each place: nearly always it shows that no earlier swap wrote there.
            let (bit_a, bit_b) = (1 << (a % 64), 1 << (b % 64));
            let met = written & (bit_a | bit_b) != 0;
            let of = |place| match met {
                true => self.read_own(&words[..i], place),
                false => self.medium.load_u64(self.place(place)),
            };
            let (old_a, old_b) = (of(a), of(b));
            words[i] = [a | b << 32, self.draw.swapped(old_b), self.draw.swapped(old_a)];
            written |= bit_a | bit_b;
        }
        // Log.
        let first = self.record_line(number);
        self.write_record(first, number, words.as_flattened());
        (first.0..first.0 + Self::LINES).for_each(|line| self.medium.flush(LineAddr(line)));
        self.medium.fence(); // rule 2
        // The next record's lines are fetched while the words are stored.
        let ahead = self.record_line(number + 1);
        (ahead.0..ahead.0 + Self::LINES)
            .for_each(|line| self.medium.prefetch_write(LineAddr(line)));
        for &[places, a, b] in &words {
            self.medium.store_u64(self.place(places & 0xFFFF_FFFF), a);
            self.medium.store_u64(self.place(places >> 32), b);
        }
        self.next = number + 1;
    }

    /// Draws the next transaction.
    #[inline]
    pub fn draw(&mut self) {
        self.draw.next();
    }

    /// Reads a word that an earlier swap of the transaction may have written.
    #[cold]
    fn read_own(&self, words: &[[u64; SWAP_WORDS]], place: u64) -> u64 {
        let own = words.iter().rev().find_map(|&[places, a, b]| match place {
            _ if places & 0xFFFF_FFFF == place => Some(a),
            _ if places >> 32 == place => Some(b),
            _ => None,
        });
        own.unwrap_or_else(|| self.medium.load_u64(self.place(place)))
    }

    #[inline]
    fn write_record(&self, first: LineAddr, number: u64, words: &[u64]) {
        let header = HEADER_WORDS.min(words.len());
        let at = first.start();
        self.medium.store_u64(at, words.len() as u64);
        self.store_words(at.plus(8), &words[..header]);
        self.medium.store_u64(at.plus(TAG_AT), number | HEADER_TAG);
        for (line, words) in (first.0 + 1..).zip(words[header..].chunks(LINE_WORDS)) {
            let at = LineAddr(line).start();
            self.store_words(at, words);
            self.medium.store_u64(at.plus(TAG_AT), number);
        }
    }

    #[inline]
    fn store_words(&self, at: PoolOffset, words: &[u64]) {
        for (i, word) in (0..).zip(words) {
            self.medium.store_u64(at.plus(8 * i), *word);
        }
    }

    /// Frees the segment that begins with record `number`, if one does that is in use.
    #[inline]
    fn sweep_before(&mut self, number: u64) {
        let each = self.ring_lines / Self::LINES / SEGMENTS;
        if (number - 1).is_multiple_of(each) && number > SEGMENTS * each {
            let oldest = number - SEGMENTS * each;
            self.sweep(oldest, oldest + each);
        }
    }

    /// Kills the records from `oldest` up to `floor`.
    #[inline(never)]
    fn sweep(&self, oldest: u64, floor: u64) {
        for number in oldest..floor {
            let line = self.record_line(number);
            for swap in 0..SWAPS {
                let places = self.medium.load_u64(Self::word_at(line, SWAP_WORDS * swap));
                self.medium.flush(self.place(places & 0xFFFF_FFFF).line());
                self.medium.flush(self.place(places >> 32).line());
            }
        }
        self.medium.fence();
        self.medium.store_u64(PoolOffset(0), floor);
        self.medium.flush(LineAddr(0));
        self.medium.fence(); // rule 3
    }

    /// Where a record's word lies.
    #[inline]
    fn word_at(first: LineAddr, word: usize) -> PoolOffset {
        let (line, word) = match word.checked_sub(HEADER_WORDS) {
            None => (0, word + 1),
            Some(behind) => (1 + behind / LINE_WORDS, behind % LINE_WORDS),
        };
        LineAddr(first.0 + line as u64).start().plus(8 * word as u64)
    }

    #[inline]
    fn record_line(&self, number: u64) -> LineAddr {
        LineAddr(RING_AT.line().0 + (number - 1) * Self::LINES % self.ring_lines)
    }

    #[inline]
    fn place(&self, place: u64) -> PoolOffset {
        RING_AT.plus(self.ring_lines * LINE_BYTES + 8 * place)
    }
}

impl<M: Medium + Send, const SWAPS: usize> Lane for Bare<M, SWAPS> {
    fn run(&mut self, count: u64) -> Result<(), Abort> {
        for _ in 0..count {
            self.step();
            self.draw();
        }
        Ok(())
    }

    fn run_timed(&mut self, count: u64, latencies: &mut Latencies) -> Result<(), Abort> {
        for _ in 0..count {
            let start = Instant::now();
            self.step();
            latencies.add(start.elapsed());
            self.draw();
        }
        Ok(())
    }

    fn run_open(
        &mut self,
        arrivals: &mut Arrivals,
        count: u64,
        latencies: &mut Latencies,
    ) -> Result<(), Abort> {
        serve_all(self, &mut Wall::new(), arrivals, count, latencies)
    }
}

impl<M: Medium, const SWAPS: usize> Server for Bare<M, SWAPS> {
    type Ticket = ();

    fn serve(&mut self) -> Result<(), Abort> {
        self.step();
        self.draw();
        Ok(())
    }

    fn is_answered(&mut self, (): ()) -> bool {
        true
    }

    fn answer(&mut self, (): ()) {}
}

#[cfg(test)]
mod tests;
