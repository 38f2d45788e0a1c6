//! `outlast-check`: the command `outlast check` on its own, for those who want nothing else.
#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;

use clap::Parser;
use outlast_check::cli::{self, CheckArgs, Ending};

#[derive(Parser)]
#[command(name = "outlast-check", version)]
struct Cli {
    #[command(flatten)]
    check: CheckArgs,
    /// Print one JSON document on standard output, and nothing else there.
    #[arg(long)]
    json: bool,
    /// Everything drawn at random follows from this number.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut progress = |text: String| eprintln!("{text}");
    match cli::run(&cli.check, cli.json, cli.seed, &mut io::stdout().lock(), &mut progress) {
        Ok(Ending::Silent) => ExitCode::SUCCESS,
        Ok(Ending::Found) => ExitCode::from(1),
        Ok(Ending::Blind) => ExitCode::from(2),
        Err(error) => {
            eprintln!("outlast-check: {error}");
            ExitCode::from(2)
        }
    }
}
