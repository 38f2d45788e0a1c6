//! Instructions of a transaction stay within a tenth of the recorded ones.
//!
//! A child process is stepped through, so it has a `main` of its own. Counts belong to a compiler and
//! a profile: `recorded.txt` names the compiler, and has a column for tests and one for releases
//! (`cargo test --release`). Another compiler's code is held by an upper bound alone. Flushes and fences
//! are those of `tests/workloads/persistence.rs`, which no compiler changes.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[path = "../../examples/instructions/steps.rs"]
mod steps;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn main() {
    println!("single steps are made on Linux on x86-64: skipped");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod linux {
    use std::error::Error;
    use std::process::Command;

    use crate::steps;

    /// The compiler; then a workload, a scheme, and the instructions in tests and in a release.
    const RECORDED: &str = include_str!("recorded.txt");

    /// Deviation that other processors' copies and write-back may cause.
    const TOLERANCE: f64 = 0.1;

    /// Excess over the recorded count that another compiler may cause.
    const OTHER_COMPILER: f64 = 0.25;

    /// Transactions that are counted.
    const TRANSACTIONS: u64 = 64;

    pub fn main() -> Result<(), Box<dyn Error>> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        match &args[..] {
            [flag, workload, scheme] if flag == "--child" => {
                steps::child(workload, scheme.parse()?, TRANSACTIONS)
            }
            _ => check(),
        }
    }

    fn check() -> Result<(), Box<dyn Error>> {
        let mut lines = RECORDED.lines();
        let compiler = lines.next().unwrap_or_default();
        // A compiler says in a program which it is.
        let code = std::fs::read(std::env::current_exe()?)?;
        let is_of_it = code.windows(compiler.len()).any(|bytes| bytes == compiler.as_bytes());
        let least = if is_of_it { 1.0 - TOLERANCE } else { 0.0 };
        let most = 1.0 + if is_of_it { TOLERANCE } else { OTHER_COMPILER };
        let mut others = Vec::new();
        for line in lines {
            let [workload, scheme, in_tests, in_release] = line.split(' ').collect::<Vec<_>>()[..]
            else {
                return Err(format!(
                    "recorded.txt: two names and two counts are right, not {line}"
                )
                .into());
            };
            let recorded = if cfg!(debug_assertions) { in_tests } else { in_release };
            let mut child = Command::new(std::env::current_exe()?);
            child.args(["--child", workload, scheme]);
            let Some(counted) = steps::count(child, TRANSACTIONS)? else {
                println!("this process may not step through another: skipped");
                return Ok(());
            };
            let each = counted.each();
            println!("{workload} under {scheme}: {each:.0} instructions, {recorded} recorded");
            if !(least..=most).contains(&(each / recorded.parse::<f64>()?)) {
                others.push(format!("{workload} under {scheme}"));
            }
        }
        match others.is_empty() {
            true => Ok(()),
            false => Err(format!("other counts than recorded: {}", others.join(", ")).into()),
        }
    }
}
