//! `outlast check`: power failures of any program that writes files.

use outlast_check::cli::{self, CheckArgs, Ending};

use crate::say::{self, noteln};
use crate::{CommandResult, Verdict};

/// Checks a program. What was not measured, where nothing failed, is bad input: the verdict hangs on it.
pub fn run(args: &CheckArgs, json: bool, seed: u64) -> CommandResult {
    let mut told = Vec::new();
    let ending = cli::run(args, json, seed, &mut told, &mut |text| noteln!("{text}"))?;
    let printed = say::put(format_args!("{}", String::from_utf8_lossy(&told)));
    match ending {
        Ending::Silent => Verdict::Good.after(printed),
        Ending::Found => Verdict::Bad.after(printed),
        Ending::Blind => {
            printed?;
            Err("no state fails, but what was not measured may: see above".into())
        }
    }
}
