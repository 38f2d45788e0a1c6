//! Which vectors the sums are computed with. The only module with unsafe code.
//!
//! The sums are written once, over lines in registers of any width ([`registers`]). A value of
//! [`Vector`] exists only for vectors that this processor has; that makes its calls sound. Left
//! to itself, the compiler finds slower vectors than these.

#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
mod gfni;
mod packed;
mod registers;
#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
mod x86;

use crate::crc8::by_tables;
use crate::{Line, LineSet};

/// A kind of vectors that this processor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vector(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Portable,
    #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
    Avx2,
    #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
    Avx512,
    #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
    Avx512Gfni,
}

impl Vector {
    /// What every processor of the compiled architecture has.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The best that this processor has. The standard library asks the processor once and
    /// remembers the answer.
    #[inline]
    pub fn best() -> Self {
        #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx2") {
            let gfni = is_x86_feature_detected!("gfni");
            return Self(if gfni { Kind::Avx512Gfni } else { Kind::Avx512 });
        } else if is_x86_feature_detected!("avx2") {
            return Self(Kind::Avx2);
        }
        Self::PORTABLE
    }

    /// All that this processor has, the best last.
    pub fn all() -> Vec<Self> {
        match Self::best().0 {
            Kind::Portable => vec![Self::PORTABLE],
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            Kind::Avx2 => vec![Self::PORTABLE, Self(Kind::Avx2)],
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            Kind::Avx512 => vec![Self::PORTABLE, Self(Kind::Avx2), Self(Kind::Avx512)],
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            Kind::Avx512Gfni => {
                let lesser = [Kind::Portable, Kind::Avx2, Kind::Avx512];
                lesser.map(Self).into_iter().chain([Self(Kind::Avx512Gfni)]).collect()
            }
        }
    }

    /// Changes a line of data from `old` to `new` in the two checksums that cover it.
    #[inline]
    pub fn update(self, consistency: &mut Line, correlation: &mut Line, old: &Line, new: &Line) {
        match self.0 {
            // SAFETY: every processor has these registers.
            Kind::Portable => unsafe {
                registers::update::<Line>(consistency, correlation, old, new);
            },
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX2.
            Kind::Avx2 => unsafe { x86::update_avx2(consistency, correlation, old, new) },
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: these kinds are made only where the processor was found to have AVX-512F.
            Kind::Avx512 | Kind::Avx512Gfni => unsafe {
                x86::update_avx512(consistency, correlation, old, new)
            },
        }
    }

    /// The change of a line whose words of `mask` become those of `new`. The growth of each word that
    /// differs goes into `growth`, one behind the other from the first; words behind them are stale.
    /// Returns the mask of these words, and the [CRC-8](crate::crc8()) of the flipped bits.
    #[inline]
    pub fn difference(self, old: &Line, new: &Line, mask: u8, growth: &mut Line) -> (u8, u8) {
        match self.0 {
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX-512F.
            Kind::Avx512 => unsafe { packed::difference_avx512(old, new, mask, growth) },
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX-512F, AVX2
            // and GFNI.
            Kind::Avx512Gfni => unsafe { packed::difference_gfni(old, new, mask, growth) },
            _ => packed::difference(old, new, mask, growth),
        }
    }

    /// The same for each line; its head has the mask in its lowest 8 bits. Writes to `out`, for each
    /// line of which something changes, its head with the mask of what changes and the CRC-8 above it
    /// in the place of the lowest 16 bits, and then the growth. Returns how many words that are.
    ///
    /// # Panics
    /// When `out` has not room for nine words for each line.
    #[inline]
    pub fn pack_each(self, heads: &[u64], old: &[Line], new: &[Line], out: &mut [u64]) -> usize {
        match self.0 {
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX-512F, AVX2
            // and GFNI, and every one with AVX2 has POPCNT.
            Kind::Avx512Gfni => unsafe { packed::each_gfni(heads, old, new, out) },
            _ => packed::each(heads, old, new, out, |old, new, mask, growth| {
                self.difference(old, new, mask, growth)
            }),
        }
    }

    /// Adds such growth of the words of `mask` to both sums that cover the line.
    #[inline]
    pub fn add_packed(self, sums: [&mut Line; 2], mask: u8, growth: &Line) {
        match self.0 {
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: these kinds are made only where the processor was found to have AVX-512F.
            Kind::Avx512 | Kind::Avx512Gfni => unsafe { packed::add_avx512(sums, mask, growth) },
            _ => packed::add(sums, mask, growth),
        }
    }

    /// Changes a run of lines from number `first` on from `old` to `new`, or adds `new` where there
    /// is no old one, in a matrix whose sides are the numbers of checksums.
    #[inline]
    pub(crate) fn update_run(
        self,
        first: usize,
        old: &[Line],
        new: &[Line],
        consistency: &mut [Line],
        correlation: &mut [Line],
    ) {
        match self.0 {
            // SAFETY: every processor has these registers.
            Kind::Portable => unsafe {
                registers::update_run::<Line>(first, old, new, consistency, correlation);
            },
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX2.
            Kind::Avx2 => unsafe {
                x86::update_run_avx2(first, old, new, consistency, correlation);
            },
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: these kinds are made only where the processor was found to have AVX-512F.
            Kind::Avx512 | Kind::Avx512Gfni => unsafe {
                x86::update_run_avx512(first, old, new, consistency, correlation);
            },
        }
    }

    /// Sums the members among `data`: its columns into `consistency`, its rows into `correlation`,
    /// which say by their lengths how many of them there are.
    #[inline]
    pub(crate) fn create(
        self,
        data: &[Line],
        members: &LineSet,
        consistency: &mut [Line],
        correlation: &mut [Line],
    ) {
        match self.0 {
            // SAFETY: every processor has these registers.
            Kind::Portable => unsafe {
                registers::create::<Line>(data, members, consistency, correlation);
            },
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX2.
            Kind::Avx2 => unsafe { x86::create_avx2(data, members, consistency, correlation) },
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: these kinds are made only where the processor was found to have AVX-512F.
            Kind::Avx512 | Kind::Avx512Gfni => unsafe {
                x86::create_avx512(data, members, consistency, correlation)
            },
        }
    }

    /// The [CRC-8](crate::crc8()) of a line.
    #[inline]
    pub fn crc8(self, line: &Line) -> u8 {
        match self.0 {
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX-512F, AVX2
            // and GFNI.
            Kind::Avx512Gfni => unsafe { gfni::crc8(line) },
            _ => by_tables(line),
        }
    }

    /// The [CRC-8](crate::crc8()) of each line.
    ///
    /// # Panics
    /// When `lines` and `crcs` differ in length.
    pub fn crc8_each(self, lines: &[Line], crcs: &mut [u8]) {
        assert_eq!(lines.len(), crcs.len(), "lines and CRCs differ in number");
        match self.0 {
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX-512F, AVX2
            // and GFNI.
            Kind::Avx512Gfni => unsafe { gfni::crc8_each(lines, crcs) },
            _ => lines.iter().zip(crcs).for_each(|(line, crc)| *crc = by_tables(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Shape;

    #[test]
    fn the_best_vectors_are_the_last_of_all() {
        assert_eq!(Vector::all().last(), Some(&Vector::best()));
        assert_eq!(Vector::all()[0], Vector::PORTABLE);
    }

    fn cases() -> ProptestConfig {
        let cases = if cfg!(miri) { 4 } else { 256 };
        ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
    }

    fn matrix() -> impl Strategy<Value = (Shape, Vec<Line>, Vec<bool>)> {
        (1usize..12, 1usize..12).prop_flat_map(|(rows, columns)| {
            let shape = Shape::new(rows, columns).expect("small sides");
            let lines = proptest::collection::vec(any::<Line>(), shape.lines());
            let members = proptest::collection::vec(any::<bool>(), shape.lines());
            (Just(shape), lines, members)
        })
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn a_page_that_lacks_a_line_is_not_summed_as_a_full_one() {
        let data: Vec<Line> = (1..=49).map(|line| [line; 8]).collect();
        for vector in Vector::all() {
            for lacking in 0..49 {
                let mut members = LineSet::all(49);
                members.remove(lacking);
                let (mut consistency, mut correlation) = ([[0; 8]; 7], [[0; 8]; 7]);
                vector.create(&data, &members, &mut consistency, &mut correlation);
                let total = |sums: &[Line]| sums.iter().map(|sum| sum[7]).sum::<u64>();
                let right = 49 * 50 / 2 - (lacking as u64 + 1);
                assert_eq!((total(&consistency), total(&correlation)), (right, right));
            }
        }
    }

    proptest! {
        #![proptest_config(cases())]

        #[test]
        fn all_vectors_sum_alike((shape, data, bits) in matrix(), full: bool) {
            let mut members = LineSet::none(shape.lines());
            (0..shape.lines()).filter(|at| full || bits[*at]).for_each(|at| members.insert(at));
            let sums = |vector: Vector| {
                let mut consistency = vec![[1; 8]; shape.columns()];
                let mut correlation = vec![[1; 8]; shape.rows()];
                vector.create(&data, &members, &mut consistency, &mut correlation);
                (consistency, correlation)
            };
            let right = sums(Vector::PORTABLE);
            for vector in Vector::all() {
                prop_assert_eq!(sums(vector), right.clone(), "{:?}", vector);
            }
        }

        #[test]
        fn all_vectors_have_the_same_crcs(lines in proptest::collection::vec(any::<Line>(), 0..27)) {
            let right: Vec<u8> = lines.iter().map(by_tables).collect();
            for vector in Vector::all() {
                let single: Vec<u8> = lines.iter().map(|line| vector.crc8(line)).collect();
                prop_assert_eq!(&single, &right, "{:?}", vector);
                let mut each = vec![0; lines.len()];
                vector.crc8_each(&lines, &mut each);
                prop_assert_eq!(&each, &right, "{:?}", vector);
            }
        }

        #[test]
        fn a_run_is_updated_as_its_lines_are_one_by_one(
            (shape, old, _) in matrix(),
            seed: Line,
            ends: (prop::sample::Index, prop::sample::Index),
            adds: bool,
        ) {
            let (one, other) = (ends.0.index(shape.lines()), ends.1.index(shape.lines() + 1));
            let (from, to) = (one.min(other), one.max(other));
            let new: Vec<Line> =
                old[from..to].iter().map(|line| std::array::from_fn(|i| line[i] ^ seed[i])).collect();
            let old: &[Line] = if adds { &[] } else { &old[from..to] };
            let start = || (vec![seed; shape.columns()], vec![seed; shape.rows()]);
            let (mut consistency, mut correlation) = start();
            for (nth, new) in new.iter().enumerate() {
                let before = old.get(nth).copied().unwrap_or_default();
                let place = shape.place(from + nth);
                let sums = (&mut consistency[place.column], &mut correlation[place.row]);
                Vector::PORTABLE.update(sums.0, sums.1, &before, new);
            }
            for vector in Vector::all() {
                let mut sums = start();
                vector.update_run(from, old, &new, &mut sums.0, &mut sums.1);
                prop_assert_eq!(&sums, &(consistency.clone(), correlation.clone()), "{:?}", vector);
            }
        }

        #[test]
        fn all_vectors_pack_alike(sums: [Line; 2], old: Line, seed: Line, mask: u8, kept: u8) {
            let new: Line = std::array::from_fn(|i| old[i] ^ if kept >> i & 1 == 0 { seed[i] } else { 0 });
            let counts = |word: usize| mask >> word & 1 == 1;
            let flipped: Line = std::array::from_fn(|i| if counts(i) { old[i] ^ new[i] } else { 0 });
            let changed = (0..8).filter(|i| flipped[*i] != 0);
            let growth: Vec<u64> = changed.clone().map(|i| new[i].wrapping_sub(old[i])).collect();
            let changed_mask = changed.fold(0, |mask, word| mask | 1 << word);
            let grown = sums.map(|sum| {
                std::array::from_fn(|i| match counts(i) {
                    true => sum[i].wrapping_add(new[i]).wrapping_sub(old[i]),
                    false => sum[i],
                })
            });
            for vector in Vector::all() {
                let mut packed = [7; 8];
                let found = vector.difference(&old, &new, mask, &mut packed);
                prop_assert_eq!(found, (changed_mask, by_tables(&flipped)), "{:?}", vector);
                prop_assert_eq!(&packed[..growth.len()], &growth, "{:?}", vector);
                let heads = [1 << 20 | u64::from(mask), 2 << 20, 3 << 20 | 0xff00 | u64::from(mask)];
                let mut out = [0; 27];
                let len = vector.pack_each(&heads, &[old; 3], &[new; 3], &mut out);
                let entry = |number: u64| {
                    let head = number << 20 | u64::from(found.1) << 8 | u64::from(found.0);
                    std::iter::once(head).chain(growth.iter().copied())
                };
                let entries: Vec<u64> = match found.0 {
                    0 => Vec::new(),
                    _ => entry(1).chain(entry(3)).collect(),
                };
                prop_assert_eq!(&out[..len], entries, "{:?}", vector);
                let [mut first, mut second] = sums;
                vector.add_packed([&mut first, &mut second], changed_mask, &packed);
                prop_assert_eq!([first, second], grown, "{:?}", vector);
            }
        }

        #[test]
        fn all_vectors_update_alike(sums: [Line; 2], old: Line, new: Line) {
            let updated = |vector: Vector| {
                let [mut consistency, mut correlation] = sums;
                vector.update(&mut consistency, &mut correlation, &old, &new);
                (consistency, correlation)
            };
            let right = updated(Vector::PORTABLE);
            for lane in 0..8 {
                let change = new[lane].wrapping_sub(old[lane]);
                prop_assert_eq!(right.0[lane], sums[0][lane].wrapping_add(change));
                prop_assert_eq!(right.1[lane], sums[1][lane].wrapping_add(change));
            }
            for vector in Vector::all() {
                prop_assert_eq!(updated(vector), right, "{:?}", vector);
            }
        }
    }
}
