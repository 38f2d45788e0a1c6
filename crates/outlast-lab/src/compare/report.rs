//! The comparison that a report makes: every sound scheme of the machine on one small program.

use outlast_schemes::{MachineScheme, Reading};
use outlast_sim::timed::DEFAULT_MACHINE;
use outlast_workloads::Workload;
use outlast_workloads::machine::Plan;

use super::{Compared, Comparison, Indirection, REPORTED as PROGRAM};
use crate::native::Size;
use crate::progress::Listener;
use crate::record::Record;
use crate::simulated;

/// Transactions that count.
pub(super) const fn transactions(size: Size) -> u64 {
    match size {
        Size::Quick => 1_000,
        Size::Full => 20_000,
    }
}

/// The command that makes the same comparison on a page of its own.
pub(crate) fn command(size: Size, seed: u64) -> String {
    format!("outlast compare {PROGRAM} --transactions {} --seed {seed}", transactions(size))
}

/// Runs it.
///
/// # Errors
/// As [`Comparison::run`].
pub(crate) fn for_report(
    size: Size,
    seed: u64,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let sound = MachineScheme::all().filter(|scheme| scheme.reading() != Reading::AsPublished);
    let plain = MachineScheme::plain();
    let schemes: Vec<MachineScheme> =
        [plain].into_iter().chain(sound.filter(|scheme| *scheme != plain)).collect();
    let workload = Workload::named(PROGRAM).expect("a workload of the table");
    let transactions = transactions(size);
    let plan = Plan {
        workload,
        footprint: workload.footprint() / 8,
        threads: 1,
        warm_up: transactions / 4,
        transactions,
        shared: false,
        switch_every: 0,
        abort_every: 0,
        batch: 0,
        seed,
    };
    let settings = simulated::settings(DEFAULT_MACHINE, None, &[], &schemes)?;
    let work = Compared::Program(plan);
    let indirection = Indirection::default();
    let comparison =
        Comparison { work, settings, schemes, software: Vec::new(), indirection, seed };
    Ok(comparison.run(listen)?.records)
}
