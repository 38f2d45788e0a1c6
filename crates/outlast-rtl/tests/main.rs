//! The hardware in simulation. Without Verilator or a C++ compiler each test says so and is over.

use std::path::Path;
use std::sync::LazyLock;
use std::thread;

use outlast_rtl::program::{self, Inst};
use outlast_rtl::{Bench, Config, Hardware, Judge, Lockstep};
use outlast_workloads::Random;

type Error = Box<dyn std::error::Error>;
type Programs = [Vec<Inst>; 2];

fn hardware(config: Config) -> Option<Hardware> {
    match Hardware::build(config, Path::new(env!("CARGO_TARGET_TMPDIR"))) {
        Ok(hardware) => Some(hardware),
        Err(missing @ outlast_rtl::BuildError::Missing { .. }) => {
            println!("left out: {missing}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Hardware with lines of 16 and of 64 bytes.
fn both() -> Vec<Hardware> {
    static BOTH: LazyLock<Vec<Hardware>> = LazyLock::new(|| {
        thread::scope(|scope| {
            let builds = [16, 64].map(|of| scope.spawn(move || hardware(Config::small(of))));
            builds.into_iter().filter_map(|build| build.join().unwrap()).collect()
        })
    });
    BOTH.clone()
}

/// What cores run: shared words at random, counters that never meet, sweeps with flushes.
fn programs(seed: u64) -> Programs {
    match seed % 3 {
        0 => program::transfers(seed, 192, 80),
        1 => program::counters(11, 60),
        _ => program::sweeps(192, 2),
    }
}

/// Runs to the end with the model beside it, and cuts `of` cycles in 1,000. Returns cuts.
fn run(hardware: &Hardware, seed: u64, of: u64, bug: u8) -> Result<u64, Error> {
    let mut judge = Judge::new(hardware.config())?;
    let mut model = Lockstep::new(hardware.config())?;
    let mut bench = Bench::new(hardware, programs(seed), seed).with_bug(bug);
    let (mut random, mut cuts) = (Random::new(seed), 0);
    bench.run::<Error>(200_000, |bench| {
        model.follow(bench)?;
        if random.below(1000) < of {
            cuts += 1;
            let image = bench.crash();
            let recovered = judge.check(bench, &image)?;
            let in_model = model.recovered()?;
            let header = recovered.image.len().min(64 * bench.home_lines() as usize);
            if in_model.epoch == recovered.epoch
                && in_model.image[..header] != recovered.image[..header]
            {
                return Err(format!("cycle {}: memory is not the model's", bench.cycle()).into());
            }
        }
        match bench.violated() {
            0 => Ok(()),
            broken => Err(format!("cycle {}: invariants {broken:b}", bench.cycle()).into()),
        }
    })?;
    assert!(bench.is_over(), "seed {seed} ends");
    assert!(model.is_even(), "seed {seed}: all entries have come");
    let (entries, tags) = model.compared();
    assert!(entries > 20 && tags > 200, "seed {seed}: {entries} entries, {tags} tags");
    Ok(cuts)
}

#[test]
fn every_cycle_of_a_short_run_is_cut() -> Result<(), Error> {
    for hardware in both() {
        for seed in 0..3 {
            let cuts = run(&hardware, seed, 1000, 0)?;
            println!("{} bytes, seed {seed}: {cuts} cuts", hardware.config().granule);
        }
    }
    Ok(())
}

#[test]
fn random_cuts_recover_as_the_model_has_it() -> Result<(), Error> {
    let mut cuts = 0;
    for hardware in both() {
        for seed in 3..23 {
            cuts += run(&hardware, seed, 20, 0)?;
        }
        println!("{} bytes: {cuts} cuts", hardware.config().granule);
        assert!(cuts > 1000);
    }
    Ok(())
}

/// A power cut, recovery, the rest of the programs from the registers that it has left, and so on.
#[test]
fn programs_go_on_after_each_of_many_cuts_and_end_as_without() -> Result<(), Error> {
    for hardware in both() {
        let expected = {
            let mut bench = Bench::new(&hardware, program::counters(11, 150), 1);
            bench.run::<Error>(500_000, |_| Ok(()))?;
            assert!(bench.is_over());
            bench.home()
        };
        for seed in 0..4 {
            let mut random = Random::stream(seed, 9);
            let mut bench = Bench::new(&hardware, program::counters(11, 150), seed);
            let mut lives = 1;
            loop {
                let mut judge = Judge::new(hardware.config())?;
                let until = if lives < 12 { 1500 + random.below(3000) } else { 500_000 };
                bench.run::<Error>(until, |_| Ok(()))?;
                if bench.is_over() {
                    break;
                }
                let image = bench.crash();
                let recovered = judge.check(&bench, &image)?;
                bench = Bench::resumed(
                    &hardware,
                    program::counters(11, 150),
                    seed + 100 * lives,
                    &recovered.image,
                );
                lives += 1;
            }
            assert!(lives > 3, "{lives}");
            assert_eq!(bench.home(), expected, "seed {seed}");
        }
    }
    Ok(())
}

/// Epochs so long that the log is full before they end: it grows, and then they end early.
#[test]
fn a_log_that_is_full_interrupts() -> Result<(), Error> {
    for hardware in both() {
        let mut judge = Judge::new(hardware.config())?;
        let programs = program::transfers(5, 192, 400);
        let mut bench = Bench::new(&hardware, programs, 5).with_epochs_of(8_000);
        let mut random = Random::new(5);
        bench.run::<Error>(400_000, |bench| {
            if random.below(100) == 0 {
                let image = bench.crash();
                judge.check(bench, &image)?;
            }
            Ok(())
        })?;
        assert!(bench.is_over() && bench.growths() > 0);
        println!("{} chunks added, {} epochs", bench.growths(), bench.persisted());
    }
    Ok(())
}

/// Each of the planted defects of `rtl/top.sv` is found by cuts alone, and by the model or an invariant.
#[test]
fn planted_defects_are_found() {
    const PLANTS: [&str; 6] = [
        "the filter is ignored",
        "forwarded entries are dropped",
        "ACS ends early",
        "the LLC's EID is not updated",
        "the buffer is overwritten while it is flushed",
        "PersistedEID is early",
    ];
    for hardware in both() {
        for (bug, plant) in (1..).zip(PLANTS) {
            let by_cuts = (0..12).find_map(|seed| cuts_alone(&hardware, seed, bug).err());
            let by_model = (0..6).find_map(|seed| run(&hardware, seed, 0, bug).err());
            println!("{plant}: {by_cuts:?}; {by_model:?}");
            assert!(by_cuts.is_some(), "{plant}: no cut shows it");
            // Behind the buffer's door neither the model nor an invariant looks.
            let is_behind = plant.starts_with("the buffer");
            assert!(by_model.is_some() || is_behind, "{plant}: no model and no invariant shows it");
        }
        for seed in 0..6 {
            cuts_alone(&hardware, seed, 0).unwrap();
        }
    }
}

/// Cuts in every fourth cycle, judged by the oracle and nothing else.
fn cuts_alone(hardware: &Hardware, seed: u64, bug: u8) -> Result<(), Error> {
    let mut judge = Judge::new(hardware.config())?;
    let mut bench = Bench::new(hardware, programs(seed), seed).with_bug(bug);
    bench.run::<Error>(60_000, |bench| {
        if bench.cycle() % 4 == 0 {
            let image = bench.crash();
            judge.check(bench, &image)?;
        }
        Ok(())
    })
}

/// Where SystemEID does not wait for entries on their way, a younger entry overtakes an older one, and
/// `ValidTill` falls along the log (PICL-9). That takes short epochs over slow memory, in which entries wait.
#[test]
fn an_epoch_that_leaves_an_entry_behind_is_found() {
    let run = |hardware: &Hardware, seed: u64, bug| {
        let mut model = Lockstep::new(hardware.config())?;
        let mut bench = Bench::new(hardware, programs(seed), seed)
            .with_bug(bug)
            .with_memory_of(5 + seed % 20)
            .with_epochs_of(40 + 10 * (seed % 7));
        bench.run::<Error>(60_000, |bench| model.follow(bench))
    };
    let hardware = both();
    for seed in 0..40 {
        hardware.iter().for_each(|hardware| run(hardware, seed, 0).unwrap());
    }
    let found = (0..40).find_map(|seed| hardware.iter().find_map(|of| run(of, seed, 7).err()));
    println!("an entry is left behind: {found:?}");
    assert!(hardware.is_empty() || found.is_some_and(|of| of.to_string().contains("ValidTill")));
}

/// The same source without PiCL runs the same programs to the same end.
#[test]
fn without_picl_the_caches_are_the_same() -> Result<(), Error> {
    let Some(plain) = hardware(Config { picl: false, ..Config::small(64) }) else { return Ok(()) };
    let mut homes = Vec::new();
    for hardware in both().iter().chain([&plain]) {
        let mut bench = Bench::new(hardware, program::counters(11, 60), 2);
        bench.run::<Error>(200_000, |_| Ok(()))?;
        assert!(bench.is_over());
        homes.push(bench.home());
    }
    assert_eq!(homes[0], homes[1]);
    assert_eq!(homes[0], homes[2]);
    Ok(())
}

/// All short runs of a small undo log, by a solver; with the filter ignored it finds one that is wrong.
#[test]
fn no_short_run_lets_a_line_go_before_its_entry() {
    use outlast_rtl::BuildError;
    use outlast_rtl::formal::{Bounded, check};
    match [check(0, 18), check(1, 18)] {
        [Err(missing @ BuildError::Missing { .. }), _] => println!("left out: {missing}"),
        [sound, ignored] => {
            assert_eq!(sound.unwrap(), Bounded::Holds);
            assert_eq!(ignored.unwrap(), Bounded::Broken);
        }
    }
}
