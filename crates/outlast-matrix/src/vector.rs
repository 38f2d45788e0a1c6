//! Which vectors the sums are computed with. The only file with unsafe code.
//!
//! There is one source for the arithmetic ([`crate::lanes`]), compiled for each kind of vector,
//! so all give the same results. A value of [`Vector`] exists only for vectors that this processor
//! has; that makes the calls sound.

use crate::{Line, LineSet, lanes};

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
}

impl Vector {
    /// What every processor of the compiled architecture has.
    pub const PORTABLE: Self = Self(Kind::Portable);

    /// The widest that this processor has. The standard library asks the processor once and
    /// remembers the answer.
    #[inline]
    pub fn best() -> Self {
        #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
        if is_x86_feature_detected!("avx512f") {
            return Self(Kind::Avx512);
        } else if is_x86_feature_detected!("avx2") {
            return Self(Kind::Avx2);
        }
        Self::PORTABLE
    }

    /// All that this processor has, the narrowest first.
    pub fn all() -> Vec<Self> {
        #[allow(unused_mut)]
        let mut all = vec![Self::PORTABLE];
        #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
        {
            if is_x86_feature_detected!("avx2") {
                all.push(Self(Kind::Avx2));
            }
            if is_x86_feature_detected!("avx512f") {
                all.push(Self(Kind::Avx512));
            }
        }
        all
    }

    /// Changes a line of data from `old` to `new` in the two checksums that cover it.
    #[inline]
    pub fn update(self, consistency: &mut Line, correlation: &mut Line, old: &Line, new: &Line) {
        match self.0 {
            Kind::Portable => lanes::update(consistency, correlation, old, new),
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX2.
            Kind::Avx2 => unsafe { x86::update_avx2(consistency, correlation, old, new) },
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX-512F.
            Kind::Avx512 => unsafe { x86::update_avx512(consistency, correlation, old, new) },
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
            Kind::Portable => create(data, members, consistency, correlation),
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX2.
            Kind::Avx2 => unsafe { x86::create_avx2(data, members, consistency, correlation) },
            #[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
            // SAFETY: this kind is made only where the processor was found to have AVX-512F.
            Kind::Avx512 => unsafe { x86::create_avx512(data, members, consistency, correlation) },
        }
    }
}

/// With a loop of its own for the usual case, in which all lines are members.
#[inline(always)]
fn create(data: &[Line], members: &LineSet, consistency: &mut [Line], correlation: &mut [Line]) {
    if members.is_full() {
        lanes::create(data, |_| true, consistency, correlation);
    } else {
        lanes::create(data, |line| members.contains(line), consistency, correlation);
    }
}

#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
mod x86 {
    use crate::{Line, LineSet, lanes};

    #[target_feature(enable = "avx2")]
    pub(super) fn update_avx2(
        consistency: &mut Line,
        correlation: &mut Line,
        old: &Line,
        new: &Line,
    ) {
        lanes::update(consistency, correlation, old, new);
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn update_avx512(
        consistency: &mut Line,
        correlation: &mut Line,
        old: &Line,
        new: &Line,
    ) {
        lanes::update(consistency, correlation, old, new);
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn create_avx2(
        data: &[Line],
        members: &LineSet,
        consistency: &mut [Line],
        correlation: &mut [Line],
    ) {
        super::create(data, members, consistency, correlation);
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn create_avx512(
        data: &[Line],
        members: &LineSet,
        consistency: &mut [Line],
        correlation: &mut [Line],
    ) {
        super::create(data, members, consistency, correlation);
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
