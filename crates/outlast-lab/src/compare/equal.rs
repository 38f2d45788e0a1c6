//! Equal for all: the options that a comparison gives every scheme, and the check that rows of one
//! table had the same machine, the same memory and the same work.

use outlast_schemes::{AIT_ON, EPOCH, MachineScheme, Options};

use super::measure::Subject;
use super::rows::Row;
use crate::record::{Metric, Record};
use crate::simulated::Setting;

/// Which schemes pay for the memory's address indirection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Indirection {
    /// Every scheme, those of the runtime and plain memory included: the memory has it.
    #[default]
    All,
    /// No scheme: the memory has none. A scheme that moves blocks by it is left out.
    None,
}

/// A scheme's options: those chosen, address indirection as every other scheme has it, and epochs by
/// which several end in the run.
pub(super) fn options(
    setting: &Setting,
    scheme: MachineScheme,
    has_ait: bool,
    subject: &Subject,
) -> Result<Options, Box<dyn std::error::Error>> {
    let mut options = setting.options_of(scheme)?;
    options.put(AIT_ON.name, has_ait.into());
    if scheme.keys().contains(&EPOCH) && !options.is_given(&EPOCH) {
        options.put(EPOCH.name, subject.epoch_instructions());
    }
    Ok(options)
}

/// Checks that the rows of each table differ in the scheme alone.
///
/// # Errors
/// The first two rows that differ otherwise, and in which respect.
pub(super) fn check(records: &[Record]) -> Result<(), String> {
    let rows = Row::all(records);
    for row in &rows {
        let first = rows.iter().find(|other| other.machine() == row.machine());
        let first = first.expect("the row itself is one");
        let pays = |row: &Row<'_>| row.value(Metric::AIT_LOOKUPS).is_some();
        let differs = if row.works() != first.works() || row.works().len() != 1 {
            "the work"
        } else if pays(row) != pays(first) {
            "address indirection"
        } else {
            continue;
        };
        let (row, first, machine) = (row.scheme, first.scheme, row.machine());
        return Err(format!(
            "{row} and {first} cannot be compared on {machine}: they differ in {differs}"
        ));
    }
    // A row whose machine no other row has would stand in a table of its own.
    let plain = MachineScheme::plain().name();
    for row in &rows {
        let is_plains =
            |other: &&Row<'_>| other.scheme == plain && other.machine() == row.machine();
        if !rows.iter().any(|other| is_plains(&other)) {
            let (scheme, machine) = (row.scheme, row.machine());
            return Err(format!("{scheme} ran on {machine}, and {plain} did not"));
        }
    }
    Ok(())
}
