//! The program of a test, once more.

use std::process::Command;

/// The program that runs this test, to be started again: behind `OUTLAST_RUNNER`, an emulator with its arguments, where it
/// is for another processor than this one.
pub fn own_program() -> Command {
    let own = std::env::current_exe().unwrap();
    let runner = std::env::var("OUTLAST_RUNNER").unwrap_or_default();
    let mut words = runner.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(own) };
    let mut command = Command::new(emulator);
    command.args(words).arg(own);
    command
}
