//! Lists of memory requests over a range of localities, shares of reads, and rates.

use outlast_sim::timed::MemoryRequest;
use outlast_trace::LineAddr;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Where the next request goes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Locality {
    /// Anywhere in 8 GiB.
    Random,
    /// The next line.
    Sequential,
    /// Runs of this many lines from anywhere.
    Runs(u64),
    /// This many sequential streams, one after the other.
    Interleaved(u64),
    /// Every so-many-th line.
    Stride(u64),
    /// The next line, or anywhere, one as likely as the other.
    Mixed,
    /// Anywhere in this many lines.
    Near(u64),
}

/// When requests come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arrivals {
    /// As soon as the memory takes them.
    Saturating,
    /// At random, this many in a hundred clocks on average; 25 fill the bus.
    Poisson(u32),
    /// At even distances, this many in a hundred clocks.
    Even(u32),
}

/// A list with a name.
#[derive(Clone, PartialEq, Debug)]
pub struct MemoryStream {
    /// Locality, reads, rate and seed in words.
    pub name: String,
    /// The requests.
    pub requests: Vec<MemoryRequest>,
}

impl MemoryStream {
    /// Draws a list. `reads` is in percent.
    pub fn new(
        locality: Locality,
        reads: u32,
        arrivals: Arrivals,
        requests: usize,
        seed: u64,
    ) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut lines = Lines { locality, at: 0, left: 0, heads: Vec::new(), number: 0 };
        let mut clock = 0.0;
        let list = (0..requests).map(|_| {
            match arrivals {
                Arrivals::Saturating => {}
                Arrivals::Even(rate) => clock += 100.0 / f64::from(rate),
                Arrivals::Poisson(rate) => {
                    clock -= 100.0 / f64::from(rate) * (1.0 - rng.random::<f64>()).ln();
                }
            }
            let line = LineAddr(lines.next(&mut rng));
            MemoryRequest { line, write: rng.random_range(0..100) >= reads, at: clock as u64 }
        });
        Self {
            requests: list.collect(),
            name: format!("{locality:?}, {reads} % reads, {arrivals:?}, {seed}"),
        }
    }
}

/// Lines of 8 GiB.
const LINES: u64 = 1 << 27;

struct Lines {
    locality: Locality,
    at: u64,
    left: u64,
    heads: Vec<u64>,
    number: usize,
}

impl Lines {
    fn next(&mut self, rng: &mut ChaCha8Rng) -> u64 {
        let line = match self.locality {
            Locality::Random => rng.random_range(0..LINES),
            Locality::Sequential => self.at + 1,
            Locality::Stride(lines) => self.at + lines,
            Locality::Near(lines) => rng.random_range(0..lines),
            Locality::Mixed if rng.random() => rng.random_range(0..LINES),
            Locality::Mixed => self.at + 1,
            Locality::Runs(lines) if self.left == 0 => {
                self.left = lines - 1;
                rng.random_range(0..LINES)
            }
            Locality::Runs(_) => {
                self.left -= 1;
                self.at + 1
            }
            Locality::Interleaved(streams) => {
                if self.heads.is_empty() {
                    self.heads = (0..streams).map(|_| rng.random_range(0..LINES)).collect();
                }
                self.number = (self.number + 1) % self.heads.len();
                self.heads[self.number] += 1;
                self.heads[self.number]
            }
        };
        self.at = line % LINES;
        self.at
    }
}

/// Sets of lists.
pub struct Streams;

impl Streams {
    /// Random, sequential and mixed lists, reads only and with writes, from idle to saturation.
    pub fn coarse(requests: usize, seed: u64) -> Vec<MemoryStream> {
        let localities = [Locality::Random, Locality::Sequential, Locality::Mixed];
        let arrivals = [
            Arrivals::Poisson(1),
            Arrivals::Poisson(5),
            Arrivals::Poisson(10),
            Arrivals::Saturating,
        ];
        Self::product(&localities, &[100, 70, 50], &arrivals, requests, seed)
    }

    /// More of everything.
    pub fn fine(requests: usize, seed: u64) -> Vec<MemoryStream> {
        let localities = [
            Locality::Random,
            Locality::Sequential,
            Locality::Mixed,
            Locality::Runs(4),
            Locality::Runs(16),
            Locality::Runs(64),
            Locality::Interleaved(4),
            Locality::Interleaved(16),
            Locality::Stride(2),
            Locality::Stride(128),
            Locality::Stride(512),
            Locality::Stride(4099),
            Locality::Near(1 << 10),
            Locality::Near(1 << 16),
        ];
        let arrivals = [
            Arrivals::Poisson(1),
            Arrivals::Poisson(2),
            Arrivals::Poisson(4),
            Arrivals::Poisson(8),
            Arrivals::Poisson(12),
            Arrivals::Poisson(16),
            Arrivals::Poisson(20),
            Arrivals::Even(6),
            Arrivals::Even(12),
            Arrivals::Saturating,
        ];
        Self::product(&localities, &[100, 90, 70, 50, 30, 0], &arrivals, requests, seed)
    }

    fn product(
        localities: &[Locality],
        reads: &[u32],
        arrivals: &[Arrivals],
        requests: usize,
        seed: u64,
    ) -> Vec<MemoryStream> {
        let mut all = Vec::new();
        for &locality in localities {
            for &reads in reads {
                for &arrivals in arrivals {
                    all.push(MemoryStream::new(locality, reads, arrivals, requests, seed));
                }
            }
        }
        all
    }
}
