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
//! record: for each swap two places, 32 bits each, and what the words there become
//! ```
//!
//! Rules, those of `docs/swift.md` in small:
//! 1. A record proves itself ([`log`]): recovery sees whether all of it is there. Numbers of records
//!    grow by one.
//! 2. A record is durable, with one fence, before any of its words is stored in place.
//! 3. Before a segment of the ring is used again the lines of all its records are flushed and
//!    fenced, and then the floor is moved past them, flushed and fenced.

mod log;

use std::marker::PhantomData;
use std::time::Instant;

use outlast::medium::{LINE_BYTES, LineAddr};
use outlast::{Abort, PoolOffset};
use outlast_pmem::Medium;
use outlast_workloads::{Scale, SwapDraw, Swaps, Workload, initial_word};

use self::log::{Flushed, Log, Streamed, lines_of};
use crate::bench::Lane;
use crate::bench::open::{Arrivals, Server, Wall, serve_all};
use crate::stats::Latencies;

/// Bytes of the ring: as many as a lane of a pool has for its log by default.
pub(super) const RING_BYTES: u64 = 256 << 10;
/// Parts of the ring that are swept at once.
const SEGMENTS: u64 = 4;

const RING_AT: PoolOffset = PoolOffset(LINE_BYTES);
/// Words of a swap in a record.
const SWAP_WORDS: usize = 3;

/// Bytes of the medium that the loop needs.
pub(super) fn bytes(scale: &Scale) -> u64 {
    LINE_BYTES + RING_BYTES + 8 * scale.records
}

/// How the loop writes its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BareLog {
    /// Into lines that were fetched for ownership, which are then flushed.
    Flushed,
    /// Past the caches.
    Streamed,
}

impl BareLog {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Flushed, Self::Streamed];
}

/// The loop for a workload that swaps, on a medium of zeros.
///
/// # Panics
/// When the workload does something else.
pub(super) fn lane<'m, M: Medium + Send + 'm>(
    medium: M,
    log: BareLog,
    workload: &Workload,
    scale: &Scale,
    seed: u64,
) -> Box<dyn Lane + 'm> {
    match (log, workload.swaps().expect("the workload swaps")) {
        (BareLog::Flushed, Swaps::One) => Bare::<M, Flushed, 1>::lane(medium, scale, seed),
        (BareLog::Flushed, Swaps::Eight) => Bare::<M, Flushed, 8>::lane(medium, scale, seed),
        (BareLog::Streamed, Swaps::One) => Bare::<M, Streamed, 1>::lane(medium, scale, seed),
        (BareLog::Streamed, Swaps::Eight) => Bare::<M, Streamed, 8>::lane(medium, scale, seed),
    }
}

/// The loop, with its vector on a medium, for transactions of `SWAPS` swaps.
struct Bare<M, L, const SWAPS: usize> {
    medium: M,
    draw: SwapDraw<SWAPS>,
    ring_lines: u64,
    /// The number of the next record, from 1 on.
    next: u64,
    /// The places that each record of the ring names, for the sweep: a log that was streamed is
    /// far away.
    swept: Vec<[u64; SWAPS]>,
    log: PhantomData<L>,
}

impl<M: Medium, L: Log, const SWAPS: usize> Bare<M, L, SWAPS> {
    /// Lines of a record.
    const LINES: u64 = lines_of::<L>(SWAPS * SWAP_WORDS);

    fn lane<'m>(medium: M, scale: &Scale, seed: u64) -> Box<dyn Lane + 'm>
    where
        M: Send + 'm,
        L: 'm,
    {
        Box::new(Self::new(medium, scale.records, SwapDraw::of(scale, seed, 1)))
    }

    /// Writes the vector behind the ring to a medium of zeros, durably.
    fn new(medium: M, words: u64, draw: SwapDraw<SWAPS>) -> Self {
        Self::with_ring(medium, RING_BYTES, words, draw)
    }

    fn with_ring(medium: M, ring_bytes: u64, words: u64, draw: SwapDraw<SWAPS>) -> Self {
        let ring_lines = ring_bytes / LINE_BYTES;
        assert!(ring_lines.is_multiple_of(SEGMENTS * Self::LINES), "segments hold whole records");
        let swept = vec![[0; SWAPS]; (ring_lines / Self::LINES) as usize];
        let bare = Self { medium, draw, ring_lines, next: 1, swept, log: PhantomData };
        for place in 0..words {
            bare.medium.store_u64(bare.place(place), initial_word(place));
        }
        bare.medium.flush_range(bare.place(0), 8 * words);
        bare.medium.fence();
        bare
    }

    /// One transaction: durable when it returns. Without a [`draw`](Self::draw) it is repeated.
    #[inline]
    fn step(&mut self) {
        let number = self.next;
        self.sweep_before(number);
        // Read.
        let mut words = [[0; SWAP_WORDS]; SWAPS];
        let mut written = 0u64;
        for (i, &(a, b)) in self.draw.pairs().iter().enumerate() {
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
        L::write(&self.medium, first, number, self.lap(number), words.as_flattened());
        self.medium.fence(); // rule 2
        L::fetch(&self.medium, self.record_line(number + 1), Self::LINES);
        // Store in place.
        let records = self.swept.len() as u64;
        let swept = &mut self.swept[((number - 1) % records) as usize];
        swept.iter_mut().zip(&words).for_each(|(places, swap)| *places = swap[0]);
        for &[places, a, b] in &words {
            self.medium.store_u64(self.place(places & 0xFFFF_FFFF), a);
            self.medium.store_u64(self.place(places >> 32), b);
        }
        self.next = number + 1;
    }

    /// Draws the next transaction.
    #[inline]
    fn draw(&mut self) {
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
            for &places in &self.swept[((number - 1) % self.swept.len() as u64) as usize] {
                self.medium.flush(self.place(places & 0xFFFF_FFFF).line());
                self.medium.flush(self.place(places >> 32).line());
            }
        }
        self.medium.fence();
        self.medium.store_u64(PoolOffset(0), floor);
        self.medium.flush(LineAddr(0));
        self.medium.fence(); // rule 3
    }

    /// How many times the ring had come round before a record: from 1 to 255, and again.
    #[inline]
    fn lap(&self, number: u64) -> u8 {
        ((number - 1) / self.swept.len() as u64 % 255 + 1) as u8
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

impl<M: Medium + Send, L: Log, const SWAPS: usize> Lane for Bare<M, L, SWAPS> {
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

impl<M: Medium, L: Log, const SWAPS: usize> Server for Bare<M, L, SWAPS> {
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
