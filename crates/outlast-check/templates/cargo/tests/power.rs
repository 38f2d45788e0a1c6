//! Losses of power at every moment, under the default models of file systems.

use std::path::Path;

use my_engine::{get, put};
use outlast_check::{closure, marks};

/// What runs: transactions, each marked when it begins and once it is acknowledged.
fn five(dir: &Path) -> std::io::Result<()> {
    for number in 1..=5 {
        marks::issued(number);
        put(dir, number)?;
        marks::acked(number);
    }
    Ok(())
}

#[test]
fn a_loss_of_power_loses_nothing_acknowledged() {
    let report = closure(five, |state| get(&state.dir)).with(|program| program.mutate()).check();
    let report = report.unwrap();
    report.assert_sound();
    report.assert_every_sync_is_needed();
}
