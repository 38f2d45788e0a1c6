//! The short set of damaged pools. The long one: `cargo run --release -p outlast-crash --example
//! damage -- --pools 200000`.

use outlast_crash::damage::Fuzz;

#[test]
fn damage_is_named_or_repaired_and_nothing_panics() {
    let seed = 1;
    let fuzz = Fuzz::new(seed);
    let endless = |index| {
        eprintln!("does not end: --example damage -- --replay {seed}:{index}");
        std::process::abort();
    };
    let tally = fuzz.run(0..1500, 2, |_, _| {}, endless);
    let broken = tally.broken.iter().map(|broken| {
        format!("{:?}, --replay {seed}:{}: {}", broken.wrong, broken.index, broken.detail)
    });
    let broken: Vec<String> = broken.collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    // A judge that calls everything sound, or damaged, would see nothing.
    assert!(tally.sound > 100 && tally.found > 100 && tally.refused > 100, "{tally}");
    assert!(tally.repaired > 50, "{tally}");
}

/// Cases in which a recovery or a repair was once wrong, or the mild verdict of `check`.
#[test]
fn what_the_fuzzer_found_stays_mended() {
    let found: [(u64, &[u64]); 4] = [
        (3, &[24399, 27476, 55164, 109398, 169501, 174739]),
        (11, &[7566, 36337, 74920, 127200]),
        (12, &[38400, 133351]),
        (51, &[53968, 160477]),
    ];
    for (seed, cases) in found {
        let fuzz = Fuzz::new(seed);
        for case in cases {
            let tally = fuzz.case(*case);
            assert!(tally.broken.is_empty(), "--replay {seed}:{case}: {:?}", tally.broken);
        }
    }
}
