//! Readings of parameters that the paper does not give: each on its own, on some programs.

use std::error::Error;

use super::measured::{self, Row, Set};
use super::views::{ASSUMED, mean, slowdowns};
use super::works::{Origin, Works};
use super::{Findings, IDEAL, SCHEMES, Task, runs};
use outlast_schemes::MachineScheme;

use crate::native::Size;
use crate::parallel::in_parallel;
use crate::progress::Listener;
use crate::record::{Kind, Record};

/// Another reading of what the paper leaves open.
struct Assumption {
    name: &'static str,
    /// Its options of the machine.
    machine: &'static [(&'static str, &'static str)],
    /// Its options of the schemes.
    options: &'static [(&'static str, u64)],
}

impl Assumption {
    /// Whether a scheme runs otherwise under it.
    fn changes(&self, scheme: &str) -> bool {
        let has = |name| {
            scheme
                .parse()
                .is_ok_and(|of: MachineScheme| of.keys().iter().any(|key| key.name == name))
        };
        !self.machine.is_empty() || self.options.iter().any(|(name, _)| has(*name))
    }
}

const ASSUMPTIONS: [Assumption; 10] = [
    Assumption { name: "32 banks", machine: &[("memory.banks", "32")], options: &[] },
    Assumption { name: "rows of one line", machine: &[("memory.row", "64 B")], options: &[] },
    Assumption {
        name: "open rows, FR-FCFS",
        machine: &[("memory.page", "open"), ("memory.scheduling", "frfcfs")],
        options: &[],
    },
    Assumption {
        name: "write queue of 256",
        machine: &[
            ("memory.write_queue", "256"),
            ("memory.drain_high", "192"),
            ("memory.drain_low", "64"),
        ],
        options: &[],
    },
    Assumption {
        name: "tables not divided",
        machine: &[],
        options: &[("table_entries", 6144), ("line_entries", 2048), ("page_entries", 4096)],
    },
    Assumption { name: "pages behind one line", machine: &[], options: &[("page_after", 1)] },
    Assumption { name: "lookups of 30 cycles", machine: &[], options: &[("table_latency", 30)] },
    Assumption { name: "one copy home at a time", machine: &[], options: &[("copies", 1)] },
    Assumption { name: "15 lines of registers", machine: &[], options: &[("save_lines", 15)] },
    Assumption {
        name: "one undo buffer, gap 0",
        machine: &[],
        options: &[("double_buffer", 0), ("acs_gap", 0)],
    },
];

/// Programs of these runs, as far as they are there.
const PROGRAMS: [&str; 3] = ["bzip2", "mcf", "gcc"];

/// Those of a scale: the first at the quick one.
fn programs(task: &Task) -> &'static [&'static str] {
    match task.size {
        Size::Quick => &PROGRAMS[..1],
        Size::Full => &PROGRAMS,
    }
}

/// Findings under each assumption, by its name; and records of all, those as taken too.
type Assumed = (Vec<(&'static str, Findings)>, Vec<Record>);

/// The stage of [`run`] in progress events.
pub(super) const STAGE: &str = "assumptions";

/// Measures some programs under each assumption; `taken` is what was measured without any.
///
/// # Errors
/// When a run cannot be made or comes to a stop.
pub(super) fn run(
    task: &Task,
    works: &Works,
    taken: &Findings,
    listen: &mut Listener<'_>,
) -> Result<Assumed, Box<dyn Error>> {
    let jobs = jobs(task, works);
    let rows = in_parallel(&jobs, usize::MAX, STAGE, listen, |(assumption, job)| {
        under(task, works, assumption, job).map_err(|error| format!("{}: {error}", assumption.name))
    })?;
    let empty = |assumption: &Assumption| {
        (
            assumption.name,
            Findings { divisor: task.divisor, epochs: task.single.1, ..Findings::default() },
        )
    };
    let mut found: Vec<(&'static str, Findings)> = ASSUMPTIONS.iter().map(empty).collect();
    for ((assumption, _), row) in jobs.iter().zip(rows) {
        let of = found.iter_mut().find(|of| of.0 == assumption.name);
        of.expect("all are there").1.rows.push(row);
    }
    let is_one = |row: &&Row| programs(task).contains(&row.work) && row.origin == Origin::Program;
    let is_taken = |row: &&Row| is_one(row) && row.set == Set::Taken;
    for (assumption, of) in ASSUMPTIONS.iter().zip(&mut found) {
        let same = taken.rows.iter().filter(|row| is_taken(row) && !assumption.changes(row.scheme));
        of.1.rows.extend(same.cloned());
    }
    let same = Findings {
        rows: taken.rows.iter().filter(is_one).cloned().collect(),
        divisor: task.divisor,
        epochs: task.single.1,
        ..Findings::default()
    };
    let all = std::iter::once(("as taken", &same));
    let all = all.chain(found.iter().map(|(name, findings)| (*name, findings)));
    let records = all.flat_map(|(name, findings)| records(name, &findings.rows)).collect();
    found.retain(|(_, findings)| !findings.rows.is_empty());
    Ok((found, records))
}

/// The runs: those of schemes that an assumption changes. The others ran as taken.
fn jobs<'a>(task: &Task, works: &'a Works) -> Vec<(&'static Assumption, runs::Job<'a>)> {
    let programs = programs(task).iter().filter_map(|name| works.single(name));
    let programs: Vec<_> = programs.filter(|work| work.origin == Origin::Program).collect();
    let window = task.window(task.single);
    let mut jobs = Vec::new();
    for assumption in &ASSUMPTIONS {
        let changed: Vec<_> = SCHEMES.iter().filter(|scheme| assumption.changes(scheme)).collect();
        for &work in &programs {
            let job = |&&scheme: &&_| runs::Job { work, scheme, set: Set::Taken, window };
            jobs.extend(changed.iter().map(|scheme| (assumption, job(scheme))));
        }
    }
    jobs
}

/// Instructions that the runs simulate.
pub(super) fn instructions(task: &Task, works: &Works) -> u64 {
    jobs(task, works).iter().map(|(_, job)| job.instructions()).sum()
}

fn under(
    task: &Task,
    works: &Works,
    assumption: &Assumption,
    job: &runs::Job<'_>,
) -> Result<Row, Box<dyn Error>> {
    let ready = works.ready(task, job.work, job.window.0 + job.window.1)?;
    let mut machine = task.machine(ready.cores(), job.set)?;
    for (key, value) in assumption.machine {
        machine.set_option(key, value)?;
    }
    let options = task.options(job.scheme, job.set);
    let options = assumption.options.iter().fold(options, |options, (key, value)| {
        if job.scheme == IDEAL { options } else { options.with(key, *value) }
    });
    let chosen = measured::Chosen {
        scheme: job.scheme,
        machine: &machine,
        options: &options,
        window: job.window,
        until_all: false,
    };
    Ok(runs::row(job, measured::measure(task, &ready, &chosen)?))
}

fn records(name: &str, rows: &[Row]) -> Vec<Record> {
    let of = |scheme: &&'static str| {
        let mean = mean(&slowdowns(rows, Origin::Program, scheme, Set::Taken))?;
        Some(Record::new(Kind::Sim, "some programs", scheme, ASSUMED, mean).class(name))
    };
    SCHEMES.iter().filter(|scheme| **scheme != IDEAL).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that changed nothing would be reported as what was taken.
    #[test]
    fn every_option_of_a_reading_is_one_of_some_scheme() {
        for Assumption { name, machine, options } in &ASSUMPTIONS {
            for option in *options {
                let alone =
                    Assumption { name, machine: &[], options: std::slice::from_ref(option) };
                assert!(SCHEMES.iter().any(|scheme| alone.changes(scheme)), "{name}: {option:?}");
                assert!(!alone.changes(IDEAL), "{name}");
            }
            assert!(!machine.is_empty() || !options.is_empty(), "{name}");
        }
    }
}
