//! What holds for every matrix: which known places can be repaired, and that nothing wrong is
//! called right.

mod common;

use common::{Rng, Written, is_forest};
use outlast_matrix::{Line, LineSet, Locate, Matrix, Outcome, Shape, Sums};
use proptest::prelude::*;

fn cases(count: u32) -> ProptestConfig {
    let cases = if cfg!(miri) { 3 } else { count };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn shape(side_max: usize) -> impl Strategy<Value = Shape> {
    let shape = |(rows, columns)| Shape::new(rows, columns).expect("sides within bounds");
    (1..=side_max, 1..=side_max).prop_map(shape)
}

/// Stale lines at random, up to about as many as could be repaired.
fn some_lines(shape: Shape, rng: &mut Rng) -> Vec<usize> {
    let most = shape.lines().min(shape.checksum_lines());
    let count = 1 + rng.below(most);
    rng.choose(count, shape.lines())
}

/// Errors as random contents have them, or as counters do: small, equal, of both signs.
fn some_error(rng: &mut Rng) -> Line {
    match rng.below(6) {
        0 => rng.line(),
        1 => std::array::from_fn(|lane| u64::from(lane == 1) << rng.below(64)),
        _ => [[1, 2, 256, u64::MAX][rng.below(4)], 0, 0, 0, 0, 0, 0, 0],
    }
}

fn repairs_exactly_forests(shape: Shape, seed: u64) -> bool {
    let mut rng = Rng::new(seed);
    let written = Written::random(shape, &mut rng);
    let stale = some_lines(shape, &mut rng);
    let read = written.stale_at(&stale, &mut rng);
    let known = written.set(&stale);
    let outcome = written.decode(&read, Locate::Known(&known));
    let forest = is_forest(shape, &stale);
    let right = if forest {
        written.is_right(&read, &outcome)
    } else {
        matches!(outcome, Outcome::Uncorrectable { .. })
    };
    assert!(right, "{shape:?}, {stale:?}, a forest: {forest}, seed {seed}: {outcome:?}");
    if forest {
        assert!(written.is_right(&read, &written.decode_with_crcs(&read, Locate::Known(&known))));
    }
    forest
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn known_places_are_repaired_exactly_when_they_are_a_forest(shape in shape(10), seed: u64) {
        repairs_exactly_forests(shape, seed);
    }

    #[test]
    fn nothing_wrong_is_called_right_where_there_are_crcs(
        shape in shape(8),
        seed: u64,
        damage in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut rng = Rng::new(seed);
        let members = if rng.below(2) == 0 {
            LineSet::all(shape.lines())
        } else {
            LineSet::of(shape.lines(), (0..shape.lines()).filter(|_| rng.below(4) > 0))
        };
        let written = Written::with_members(shape, members, &mut rng);
        let stale = some_lines(shape, &mut rng);
        let errors: Vec<_> = stale.iter().map(|line| (*line, some_error(&mut rng))).collect();
        let read = written.stale(&errors);
        let mut sums = written.sums.lines().to_vec();
        if let Some(at) = &damage {
            let len = sums.len();
            sums[at.index(len)] = rng.line();
        }
        let sums = Sums::new(shape, sums);
        let matrix = Matrix::new(&read, sums.borrowed(), &written.members);
        let matrix = matrix.with_crcs(&written.crcs);
        let guessed = written.set(&some_lines(shape, &mut rng));
        let known = written.set(&stale);
        let rules = [Locate::Membership, Locate::Values, Locate::Crcs];
        for locate in rules.into_iter().chain([&known, &guessed].map(Locate::Known)) {
            let outcome = matrix.decode(locate);
            if matches!(outcome, Outcome::Clean | Outcome::Corrected(_)) {
                prop_assert!(written.is_right(&read, &outcome), "{:?}: {:?}", locate, outcome);
                prop_assert!(damage.is_none(), "{:?} with a damaged checksum", outcome);
            }
        }
    }

    #[test]
    fn crcs_do_as_known_places_where_they_miss_nothing(shape in shape(8), seed: u64) {
        let mut rng = Rng::new(seed);
        let written = Written::random(shape, &mut rng);
        let stale = some_lines(shape, &mut rng);
        let read = written.stale_at(&stale, &mut rng);
        let matrix = Matrix::new(&read, written.sums.borrowed(), &written.members);
        let seen = matrix.with_crcs(&written.crcs).crc_mismatches();
        prop_assume!(seen == written.set(&stale));
        let outcome = written.decode_with_crcs(&read, Locate::Crcs);
        prop_assert_eq!(written.is_right(&read, &outcome), is_forest(shape, &stale));
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow")]
fn the_forest_rule_holds_for_large_matrices_and_both_ways() {
    for (rows, columns) in [(1, 255), (255, 1), (40, 30), (17, 90), (120, 130)] {
        let shape = Shape::new(rows, columns).expect("sides within bounds");
        let forests = (0..60).filter(|seed| repairs_exactly_forests(shape, *seed)).count();
        // A single row or column has no cycles.
        let only_forests = rows == 1 || columns == 1;
        assert!(forests > 5 && (forests < 60 || only_forests), "{forests} of 60 for {shape:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "slow")]
fn crcs_alone_locate_nearly_all_that_known_places_repair() {
    let mut rng = Rng::new(77);
    let written = Written::random(Shape::PAGE, &mut rng);
    for count in 1..=6 {
        let (mut repairable, mut failed) = (0, 0);
        for _ in 0..4000 {
            let stale = rng.choose(count, 49);
            if is_forest(Shape::PAGE, &stale) {
                let read = written.stale_at(&stale, &mut rng);
                let outcome = written.decode_with_crcs(&read, Locate::Crcs);
                repairable += 1;
                failed += usize::from(!written.is_right(&read, &outcome));
            }
        }
        println!("{count} stale lines located by CRC-8: {failed} of {repairable} forests fail");
        // Two missed lines would be 2⁻¹⁶ for each pair: 15 pairs in 4000 sets make one failure.
        assert!(failed <= 8, "{failed} of {repairable} sets of {count}");
    }
}
