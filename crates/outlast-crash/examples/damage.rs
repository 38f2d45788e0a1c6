//! Damaged pools, by the hundred thousand: see `outlast_crash::damage`.
//!
//! `cargo run --release -p outlast-crash --example damage -- --pools 200000 --seed 1`
//! `cargo run --release -p outlast-crash --example damage -- --replay SEED:INDEX [--save FILE]`

use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use outlast_crash::damage::{Fuzz, Tally};

/// Failures that are printed in full.
const SHOWN_MAX: usize = 40;

/// A line on standard output. A closed one ends the program.
macro_rules! say {
    ($($part:tt)*) => {
        if writeln!(std::io::stdout(), $($part)*).is_err() {
            std::process::exit(1);
        }
    };
}

struct Args {
    pools: u64,
    from: u64,
    seed: u64,
    threads: usize,
    replay: Option<u64>,
    save: Option<String>,
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args { pools: 10_000, from: 0, seed: 1, threads: 2, replay: None, save: None };
    while let Some(flag) = words.next() {
        let value = words.next().ok_or(format!("{flag} wants a value"))?;
        let number = |text: &str| {
            text.parse::<u64>().map_err(|_| format!("{flag} wants a number, not `{text}`"))
        };
        match flag.as_str() {
            "--pools" => args.pools = number(&value)?,
            "--from" => args.from = number(&value)?,
            "--seed" => args.seed = number(&value)?,
            "--threads" => args.threads = number(&value)?.clamp(1, 64) as usize,
            "--replay" => {
                let (seed, index) = value.split_once(':').ok_or("--replay wants SEED:INDEX")?;
                (args.seed, args.replay) = (number(seed)?, Some(number(index)?));
            }
            "--save" => args.save = Some(value),
            _ => {
                let all = "--pools, --from, --seed, --threads, --replay, --save";
                return Err(format!("no flag `{flag}`; there are {all}"));
            }
        }
    }
    Ok(args)
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("damage: {error}");
            return ExitCode::from(2);
        }
    };
    let seed = args.seed;
    let fuzz = Fuzz::new(seed);
    let started = Instant::now();
    let tally = match args.replay {
        Some(index) => {
            say!("{}", fuzz.describe(index));
            if let Some(path) = &args.save
                && let Err(error) = std::fs::write(path, fuzz.image(index))
            {
                eprintln!("damage: {path}: {error}");
                return ExitCode::from(2);
            }
            fuzz.case(index)
        }
        None => {
            // A message for each panic would hide the summary.
            std::panic::set_hook(Box::new(|info| {
                if let Some(at) = info.location() {
                    eprintln!("panic at {}:{}", at.file(), at.line());
                }
            }));
            let cases = args.from..args.from + args.pools;
            let progress = |done: u64, outcome: &Tally| {
                for broken in &outcome.broken {
                    let index = broken.index;
                    eprintln!("{:?}: --replay {seed}:{index}: {}", broken.wrong, broken.detail);
                }
                if done.is_multiple_of(10_000) {
                    eprintln!("{done} pools, {} s", started.elapsed().as_secs());
                }
            };
            let endless = |index: u64| {
                say!("does not end: --replay {seed}:{index}");
                std::process::exit(1);
            };
            fuzz.run(cases, args.threads, progress, endless)
        }
    };
    for broken in tally.broken.iter().take(SHOWN_MAX) {
        say!("{:?}: --replay {seed}:{}: {}", broken.wrong, broken.index, broken.detail);
    }
    for (exempt, _, first) in &tally.exempt {
        say!(
            "exempt, {exempt:?}: --replay {seed}:{}: {:?}: {}",
            first.index,
            first.wrong,
            first.detail
        );
    }
    say!("seed {seed}: {tally}; {} s", started.elapsed().as_secs());
    if tally.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
