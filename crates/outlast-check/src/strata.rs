//! The pending units of a moment that a crash keeps, in the order that finds faults soonest.
//!
//! Both searches lay out their states by these strata: changes of files that no sync has forced, and lines
//! of memory that no fence has made durable. Units are known by their numbers alone. A [`Choice`] names some
//! of them; the search that lays a state out closes it under the order of its units, so that a kept unit has all
//! that it needs and a lost one takes with it all that needs it.
//!
//! A search without bounds over the product of all units is exhaustive; strata are for those that have
//! bounds, and make certain that the likeliest faults are met first.

use rand::RngExt;
use rand::rngs::StdRng;

/// Units that a crash keeps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// These, with all that they need.
    Only(Vec<usize>),
    /// All but these, and but those that need one of them.
    AllBut(Vec<usize>),
}

/// Kinds of choices, in the order in which files try them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stratum {
    /// Everything, and nothing.
    Ends,
    /// One unit lost.
    Drops,
    /// One unit kept.
    Alone,
    /// All up to one.
    Prefixes,
    /// All sets, where few units are pending.
    All,
    /// Two units lost.
    Pairs,
    /// Sets drawn by chance.
    Random,
}

impl Stratum {
    /// Every stratum.
    pub const ALL: [Self; 7] = [
        Self::Ends,
        Self::Drops,
        Self::Alone,
        Self::Prefixes,
        Self::All,
        Self::Pairs,
        Self::Random,
    ];
}

/// How far strata go whose size grows faster than the number of units.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most units of which all sets are tried; pairs and drawn sets add nothing to them.
    pub exhaustive: usize,
    /// The most units of which all pairs are tried.
    pub pairs: usize,
    /// Sets that are drawn.
    pub drawn: usize,
}

/// The choices of one stratum among `count` units.
pub fn choices(
    stratum: Stratum,
    count: usize,
    bounds: Bounds,
    random: &mut StdRng,
) -> Box<dyn Iterator<Item = Choice> + '_> {
    let few = count <= bounds.exhaustive;
    match stratum {
        Stratum::Ends => {
            Box::new([Choice::AllBut(Vec::new()), Choice::Only(Vec::new())].into_iter())
        }
        Stratum::Drops => Box::new(drops(count)),
        Stratum::Alone => Box::new(alone(count)),
        Stratum::Prefixes => Box::new((1..count).map(|length| Choice::Only((0..length).collect()))),
        Stratum::All if few => Box::new((0_u64..1 << count).map(move |bits| {
            Choice::Only((0..count).filter(|index| bits & (1 << index) != 0).collect())
        })),
        Stratum::Pairs if !few && count <= bounds.pairs => {
            Box::new((0..count).flat_map(move |first| {
                (first + 1..count).map(move |second| Choice::AllBut(vec![first, second]))
            }))
        }
        Stratum::Random if !few => Box::new((0..bounds.drawn).map(move |_| {
            let share = random.random_range(0.05..0.95);
            Choice::AllBut((0..count).filter(|_| random.random_bool(share)).collect())
        })),
        Stratum::All | Stratum::Pairs | Stratum::Random => Box::new(std::iter::empty()),
    }
}

/// The first choices of a search that is cut short: nothing, everything, and each unit alone and left out.
pub fn extremes(count: usize) -> impl Iterator<Item = Choice> {
    let ends = [Choice::Only(Vec::new()), Choice::AllBut(Vec::new())];
    ends.into_iter().chain(alone(count).zip(drops(count)).flat_map(<[Choice; 2]>::from))
}

fn drops(count: usize) -> impl Iterator<Item = Choice> {
    (0..count).map(|unit| Choice::AllBut(vec![unit]))
}

fn alone(count: usize) -> impl Iterator<Item = Choice> {
    (0..count).map(|unit| Choice::Only(vec![unit]))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng;

    use super::*;

    const BOUNDS: Bounds = Bounds { exhaustive: 4, pairs: 6, drawn: 5 };

    /// The sets of units kept, where none needs another.
    fn kept(stratum: Stratum, count: usize) -> Vec<Vec<usize>> {
        let mut random = StdRng::seed_from_u64(7);
        let set = |choice| match choice {
            Choice::Only(units) => units,
            Choice::AllBut(units) => (0..count).filter(|unit| !units.contains(unit)).collect(),
        };
        choices(stratum, count, BOUNDS, &mut random).map(set).collect()
    }

    #[test]
    fn strata_are_what_they_are_called() {
        assert_eq!(kept(Stratum::Ends, 3), [vec![0, 1, 2], Vec::new()]);
        assert_eq!(kept(Stratum::Drops, 3), [[1, 2], [0, 2], [0, 1]]);
        assert_eq!(kept(Stratum::Alone, 3), [[0], [1], [2]]);
        assert_eq!(kept(Stratum::Prefixes, 4), [vec![0], vec![0, 1], vec![0, 1, 2]]);
        let all: BTreeSet<Vec<usize>> = kept(Stratum::All, 4).into_iter().collect();
        assert_eq!(all.len(), 16);
        assert_eq!(kept(Stratum::Pairs, 5).len(), 10);
        assert_eq!(kept(Stratum::Random, 5).len(), 5);
        assert_eq!(kept(Stratum::Random, 5), kept(Stratum::Random, 5));
    }

    #[test]
    fn few_units_are_exhausted_and_many_are_not() {
        for stratum in [Stratum::Pairs, Stratum::Random] {
            assert_eq!(kept(stratum, 4).len(), 0, "all sets are tried");
        }
        assert_eq!((kept(Stratum::All, 5).len(), kept(Stratum::Pairs, 7).len()), (0, 0));
        assert_eq!(kept(Stratum::All, 0), [Vec::<usize>::new()]);
    }

    #[test]
    fn a_search_that_is_cut_short_begins_with_the_ends() {
        let first: Vec<Choice> = extremes(2).collect();
        let (only, all_but) = (
            |units: &[usize]| Choice::Only(units.into()),
            |units: &[usize]| Choice::AllBut(units.into()),
        );
        let expected =
            [only(&[]), all_but(&[]), only(&[0]), all_but(&[0]), only(&[1]), all_but(&[1])];
        assert_eq!(first, expected);
    }
}
