//! Frequencies against the closed form, constants against their definition.

use super::*;

/// Chi-square of counts against probabilities, as standard deviations from its mean.
fn deviation(counts: &[u64], probabilities: &[f64]) -> f64 {
    let n = counts.iter().sum::<u64>() as f64;
    let cells = counts.iter().zip(probabilities);
    let chi_square: f64 = cells.map(|(&count, p)| (count as f64 - n * p).powi(2) / (n * p)).sum();
    let freedom = counts.len() as f64 - 1.0;
    (chi_square - freedom) / (2.0 * freedom).sqrt()
}

#[test]
fn fnv_has_the_published_constants_and_values() {
    // The published 64-bit FNV-1a of the bytes "foobar\0\0" continues that of "foobar".
    let foobar = b"foobar"
        .iter()
        .fold(FNV_OFFSET_BASIS, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
    assert_eq!(foobar, 0x8594_4171_F739_67E8);
    let padded = foobar.wrapping_mul(FNV_PRIME).wrapping_mul(FNV_PRIME);
    let number = u64::from_le_bytes(*b"foobar\0\0");
    assert_eq!(fnv_hash(number), (padded as i64).unsigned_abs());
    // "user" + this is the first key of every YCSB data set.
    assert_eq!(fnv_hash(0), 6_284_781_860_667_377_211);
    assert_eq!(fnv_hash(1), 8_517_097_267_634_966_620);
}

/// ζ(n, θ) by the Euler-Maclaurin formula from `m` on.
fn zeta_by_euler_maclaurin(n: u64, m: u64, theta: f64) -> f64 {
    let (from, to) = (m as f64, n as f64);
    let f = |x: f64| x.powf(-theta);
    let integral = (to.powf(1.0 - theta) - from.powf(1.0 - theta)) / (1.0 - theta);
    let slope = |x: f64| -theta * x.powf(-theta - 1.0);
    zeta(0, m, theta) + integral + (f(to) - f(from)) / 2.0 + (slope(to) - slope(from)) / 12.0
}

#[test]
fn the_zeta_constant_is_the_sum_it_stands_for() {
    let small = (zeta_by_euler_maclaurin(200_000, 1000, THETA), zeta(0, 200_000, THETA));
    assert!((small.0 - small.1).abs() < 1e-9, "the formula itself: {small:?}");
    let computed = zeta_by_euler_maclaurin(SCRAMBLED_ITEMS, 10_000, THETA);
    assert!((computed - SCRAMBLED_ZETA).abs() < 1e-6, "{computed}");
}

/// The probabilities of Gray's method: exact for the first two items, and for the others the difference of
/// its inverse of the distribution function.
fn probability(zipfian: &Zipfian, items: u64, i: u64) -> f64 {
    let unit_of = |x: f64| ((x / items as f64).powf(1.0 - THETA) - 1.0) / zipfian.eta + 1.0;
    let low = if i == 2 { zipfian.second / zipfian.zeta } else { unit_of(i as f64) };
    match i {
        0 => 1.0 / zipfian.zeta,
        1 => (zipfian.second - 1.0) / zipfian.zeta,
        _ => unit_of(i as f64 + 1.0) - low,
    }
}

#[test]
fn zipfian_draws_have_the_closed_form() {
    const ITEMS: u64 = 1000;
    let zipfian = Zipfian::new(ITEMS);
    let mut random = Random::new(11);
    let mut counts = vec![0; ITEMS as usize];
    for _ in 0..2_000_000 {
        counts[zipfian.draw(&mut random) as usize] += 1;
    }
    let method: Vec<_> = (0..ITEMS).map(|i| probability(&zipfian, ITEMS, i)).collect();
    assert!((method.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    let off = deviation(&counts, &method);
    assert!(off.abs() < 4.0, "{off} standard deviations off the method's own distribution");
    // The method approximates the law itself: exact at the head, a few per cent behind it.
    for i in [0, 1, 10, 50, 100, 500] {
        let law = 1.0 / ((i + 1) as f64).powf(THETA) / zipfian.zeta;
        let drawn = counts[i] as f64 / 2e6;
        let tolerance = if i < 2 { 0.02 } else { 0.15 };
        assert!((drawn / law - 1.0).abs() < tolerance, "item {i}: {drawn}, the law says {law}");
    }
}

#[test]
fn scrambled_draws_put_the_popular_items_where_fnv_says() {
    const ITEMS: u64 = 10_001;
    const DRAWS: u64 = 2_000_000;
    let scrambled = ScrambledZipfian::new(ITEMS);
    let mut random = Random::new(12);
    let mut counts = vec![0u64; ITEMS as usize];
    for _ in 0..DRAWS {
        counts[scrambled.draw(&mut random) as usize] += 1;
    }
    // The mass of the items below 2^19 is placed exactly, the rest taken as spread evenly.
    let zipfian = &scrambled.zipfian;
    let mut expected = vec![0.0; ITEMS as usize];
    for i in 0..1 << 19 {
        expected[(fnv_hash(i) % ITEMS) as usize] += probability(zipfian, SCRAMBLED_ITEMS + 1, i);
    }
    let rest = (1.0 - expected.iter().sum::<f64>()) / ITEMS as f64;
    expected.iter_mut().for_each(|p| *p += rest);
    let off = deviation(&counts, &expected);
    assert!(off.abs() < 5.0, "{off} standard deviations");
    let top = (fnv_hash(0) % ITEMS) as usize;
    let share = counts[top] as f64 / DRAWS as f64;
    let wanted = 1.0 / SCRAMBLED_ZETA + rest;
    assert!((share / wanted - 1.0).abs() < 0.02, "the top item: {share}, not {wanted}");
}

#[test]
fn the_latest_are_the_likeliest_and_the_zeta_follows_growth() {
    let mut latest = Latest::new(1000);
    let mut random = Random::new(13);
    let mut counts = vec![0u64; 2001];
    for _ in 0..200_000 {
        counts[latest.draw(2000, &mut random) as usize] += 1;
    }
    assert!((latest.zipfian.zeta - zeta(0, 2000, THETA)).abs() < 1e-9);
    assert_eq!(counts[0], 0, "YCSB never draws the very first key here");
    for (back, &count) in counts.iter().rev().take(2).enumerate() {
        let law = 1.0 / ((back + 1) as f64).powf(THETA) / latest.zipfian.zeta;
        let share = count as f64 / 2e5;
        assert!((share / law - 1.0).abs() < 0.05, "{back} back: {share}, not {law}");
    }
    // The law puts 10.8 times as much into the later half as into the earlier; YCSB's habit of
    // keeping the first number of items in one of its constants makes that a little less.
    let halves = counts.split_at(1001);
    let ratio = halves.1.iter().sum::<u64>() as f64 / halves.0.iter().sum::<u64>() as f64;
    assert!((8.0..12.0).contains(&ratio), "{ratio}");
}
