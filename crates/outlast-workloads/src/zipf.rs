//! The distributions of YCSB 0.17, number for number.
//!
//! Sources: Cooper, Silberstein, Tam, Ramakrishnan, Sears, "Benchmarking cloud serving systems
//! with YCSB" (SoCC 2010), and the `generator` package of YCSB 0.17.0; the method of drawing is
//! that of Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994).

use crate::Random;

/// The skew of all of YCSB's zipfian distributions.
pub const THETA: f64 = 0.99;
/// The number of items over which `ScrambledZipfianGenerator` draws before it scatters.
pub const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// The zeta of that many items, as YCSB has it precomputed.
pub const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

const FNV_OFFSET_BASIS: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// The FNV-1a hash of a number's eight bytes, lowest first, without its sign as a Java `long`.
#[inline]
pub fn fnv_hash(number: u64) -> u64 {
    let hash = number
        .to_le_bytes()
        .into_iter()
        .fold(FNV_OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    (hash as i64).unsigned_abs()
}

/// The sum of `1 / i^theta` for `i` from `from + 1` to `to`.
pub fn zeta(from: u64, to: u64, theta: f64) -> f64 {
    (from + 1..=to).map(|i| 1.0 / (i as f64).powf(theta)).sum()
}

/// Draws `0, 1, 2, …` with probability proportional to `1 / (i + 1)^θ`.
#[derive(Clone, Debug)]
pub struct Zipfian {
    theta: f64,
    items: u64,
    zeta_items: u64,
    zeta: f64,
    zeta2: f64,
    alpha: f64,
    eta: f64,
    second: f64,
}

impl Zipfian {
    /// Over `items` items; sums up their zeta, which takes a second for 50 million of them.
    pub fn new(items: u64) -> Self {
        Self::with_zeta(items, zeta(0, items, THETA))
    }

    /// Over `items` items, whose zeta is known.
    pub fn with_zeta(items: u64, zeta_items: f64) -> Self {
        Self::with_theta(items, zeta_items, THETA)
    }

    /// Over `items` items with another skew θ below 1, whose zeta is known.
    pub fn with_theta(items: u64, zeta_items: f64, theta: f64) -> Self {
        let mut zipfian = Self {
            theta,
            items,
            zeta_items: items,
            zeta: zeta_items,
            zeta2: zeta(0, 2, theta),
            alpha: 1.0 / (1.0 - theta),
            eta: 0.0,
            second: 1.0 + 0.5f64.powf(theta),
        };
        zipfian.set_eta();
        zipfian
    }

    /// YCSB keeps the original number of items here when the distribution grows.
    fn set_eta(&mut self) {
        let tail = (2.0 / self.items as f64).powf(1.0 - self.theta);
        self.eta = (1.0 - tail) / (1.0 - self.zeta2 / self.zeta);
    }

    /// Draws from the items that it was made for.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        self.place(self.items, random.unit())
    }

    /// Draws from `items` items, which may become more from one draw to the next; the zeta
    /// follows. Fewer items than before are drawn with the zeta of more.
    #[inline]
    pub fn draw_of(&mut self, items: u64, random: &mut Random) -> u64 {
        if items > self.zeta_items {
            self.zeta += zeta(self.zeta_items, items, self.theta);
            self.zeta_items = items;
            self.set_eta();
        }
        self.place(items, random.unit())
    }

    #[inline]
    fn place(&self, items: u64, unit: f64) -> u64 {
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.second {
            return 1;
        }
        (items as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha)) as u64
    }
}

/// Zipfian numbers below `items`, the popular ones scattered.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    zipfian: Zipfian,
    items: u64,
}

impl ScrambledZipfian {
    /// Over the numbers below `items`.
    pub fn new(items: u64) -> Self {
        // `ZipfianGenerator(0, ITEM_COUNT, …)` has one item more than its zeta knows of.
        Self { zipfian: Zipfian::with_zeta(SCRAMBLED_ITEMS + 1, SCRAMBLED_ZETA), items }
    }

    /// Draws one.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        fnv_hash(self.zipfian.draw(random)) % self.items
    }
}

/// Zipfian numbers that favour the latest.
#[derive(Clone, Debug)]
pub struct Latest {
    zipfian: Zipfian,
}

impl Latest {
    /// For a sequence that has come to `last`.
    pub fn new(last: u64) -> Self {
        Self { zipfian: Zipfian::new(last) }
    }

    /// Draws one of `1..=last`, `last` being the likeliest.
    #[inline]
    pub fn draw(&mut self, last: u64, random: &mut Random) -> u64 {
        last - self.zipfian.draw_of(last, random).min(last)
    }
}

#[cfg(test)]
#[path = "zipf_tests.rs"]
mod tests;
