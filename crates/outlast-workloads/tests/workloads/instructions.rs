//! A transaction takes as many instructions as it did when they were counted last.
//!
//! `cargo run --release -p outlast-workloads --example instructions` says what they are for.

use std::process::Command;

use super::steps;

/// The compiler by whose code these were counted, and what it says of itself in a program.
const COMPILER: &str = "rustc version 1.95.0";

/// Instructions of a transaction in a test build.
const RECORDED: [(&str, &str, f64); 0] = [];

/// What other processors' instructions for copies and write-back may change.
const TOLERANCE: f64 = 0.04;

const TRANSACTIONS: u64 = 100;
const CHILD: &str = "OUTLAST_STEPS_OF";

#[test]
fn a_transaction_takes_as_many_instructions_as_recorded() {
    let program = std::env::current_exe().unwrap();
    let code = std::fs::read(&program).unwrap();
    let is_recorded = code.windows(COMPILER.len()).any(|bytes| bytes == COMPILER.as_bytes());
    if !is_recorded || !cfg!(debug_assertions) {
        println!("instructions were counted in a test build by {COMPILER}: skipped");
        return;
    }
    for (workload, scheme, recorded) in RECORDED {
        let mut child = Command::new(&program);
        // With one thread the test is run by the one that is stepped through.
        child.args(["--exact", "instructions::child", "--ignored", "--nocapture"]);
        child.arg("--test-threads=1");
        child.env(CHILD, format!("{workload} {scheme}"));
        let Some(counted) = steps::count(child, TRANSACTIONS).unwrap() else {
            println!("this process may not step through another: skipped");
            return;
        };
        let each = counted.each();
        println!("{workload} under {scheme}: {each:.0} instructions, {recorded} recorded");
        assert!(
            (each / recorded - 1.0).abs() <= TOLERANCE,
            "{workload} under {scheme} takes {each:.0} instructions a transaction, not {recorded}"
        );
    }
}

#[test]
#[ignore = "the child of the test above, which says of what"]
fn child() {
    let Ok(of) = std::env::var(CHILD) else { return };
    let (workload, scheme) = of.split_once(' ').unwrap();
    steps::child(workload, scheme.parse().unwrap(), TRANSACTIONS).unwrap();
}
