//! Readings of parameters that the paper does not give: each on its own, on all works.

use std::error::Error;

use outlast_sim::timed::MachineConfig;

use super::{Findings, Row, Task, WORKS, judge, scheme, views};
use crate::parallel::in_parallel;
use crate::progress::Listener;
use crate::record::{Kind, Record};
use crate::simulated::measure;
use outlast_crash::machine::work_of;
use outlast_workloads::machine::{Plan, Recorded};

/// Another reading of what the paper leaves open.
struct Assumption {
    name: &'static str,
    /// Its options of the machine.
    machine: &'static [(&'static str, &'static str)],
    /// Its options of the schemes.
    options: &'static [(&'static str, Amount)],
    /// Items of an array that a transaction overwrites; 0 for as many as usual.
    items: u64,
}

/// No other reading.
const AS_TAKEN: Assumption = Assumption { name: "as taken", machine: &[], options: &[], items: 0 };

impl Assumption {
    /// Whether a work without items runs the same under both.
    fn is_alike(&self, other: &Self) -> bool {
        self.machine == other.machine && self.options == other.options
    }

    /// A work with as many items as are wanted, going over the same data.
    fn plan(&self, task: &Task, work: (&'static str, u64)) -> Plan {
        let plan = task.plan(work);
        if self.items == 0 || !plan.workload.has_batches() {
            return plan;
        }
        let times = plan.workload.scale().batch / self.items;
        Plan {
            batch: self.items,
            transactions: plan.transactions * times,
            warm_up: plan.warm_up * times,
            ..plan
        }
    }
}

/// A value of an option.
#[derive(Clone, Copy, PartialEq)]
enum Amount {
    Is(u64),
    /// The entries of the AIT cache, divided by this.
    EntriesOver(u64),
}

/// A record of `redu` has seven lines; four lanes have a log each. With an eighth of the
/// entries as records for each lane, the logs take three and a half times what the cache maps.
const BEYOND: Amount = Amount::EntriesOver(8);

const ROWS: (&str, &str) = ("memory.row", "64 B");
const TLB: (&str, &str) = ("tlb.l2_sets", "4096");

const ASSUMPTIONS: [Assumption; 10] = [
    Assumption { name: "no row hits", machine: &[ROWS], ..AS_TAKEN },
    Assumption {
        name: "closed rows, in order",
        machine: &[("memory.page", "closed"), ("memory.scheduling", "fcfs")],
        ..AS_TAKEN
    },
    Assumption {
        name: "redu's log beyond the AIT cache",
        options: &[("log_records", BEYOND)],
        ..AS_TAKEN
    },
    Assumption { name: "ssp's TLB holds every page", machine: &[TLB], ..AS_TAKEN },
    Assumption {
        name: "ssp consolidates one way",
        options: &[("one_way", Amount::Is(1))],
        ..AS_TAKEN
    },
    Assumption {
        name: "AIT lines written whole",
        options: &[("whole_lines", Amount::Is(1))],
        ..AS_TAKEN
    },
    Assumption {
        name: "log beyond, TLB holds every page",
        machine: &[TLB],
        options: &[("log_records", BEYOND)],
        ..AS_TAKEN
    },
    Assumption {
        name: "no row hits, log beyond, one way, lines whole",
        machine: &[ROWS],
        options: &[
            ("log_records", BEYOND),
            ("one_way", Amount::Is(1)),
            ("whole_lines", Amount::Is(1)),
        ],
        ..AS_TAKEN
    },
    Assumption { name: "arrays: an item a transaction", items: 1, ..AS_TAKEN },
    Assumption {
        name: "no row hits, arrays: an item a transaction",
        machine: &[ROWS],
        items: 1,
        ..AS_TAKEN
    },
];

/// The schemes that claims compare.
const COMPARED: [&str; 3] = ["redu", "ssp", "ehou"];

/// Findings under each assumption, by its name; and records of all, those as taken too.
type Assumed = (Vec<(&'static str, Findings)>, Vec<Record>);

/// Measures the works under each assumption; `taken` is what was measured without any.
///
/// # Errors
/// When a run cannot be made or comes to a stop.
pub(super) fn run(
    task: &Task,
    machine: &MachineConfig,
    taken: &Findings,
    listen: &mut Listener<'_>,
) -> Result<Assumed, Box<dyn Error>> {
    let works: Vec<Recorded> =
        WORKS.iter().map(|work| task.plan(*work).record()).collect::<Result<_, _>>()?;
    let has_items = |work: usize| works[work].plan.workload.has_batches();
    let all = |number: usize| (0..WORKS.len()).map(move |work| (number, work));
    let is_new =
        |&(number, work): &(usize, usize)| ASSUMPTIONS[number].items == 0 || has_items(work);
    let jobs: Vec<(usize, usize)> = (0..ASSUMPTIONS.len()).flat_map(all).filter(is_new).collect();
    let done =
        in_parallel(&jobs, usize::MAX, super::ASSUMPTIONS_STAGE, listen, |&(number, work)| {
            let of = &ASSUMPTIONS[number];
            let under = match of.items {
                0 => under(task, machine, of, WORKS[work].0, &works[work]),
                _ => of
                    .plan(task, WORKS[work])
                    .record()
                    .map_err(Into::into)
                    .and_then(|recorded| under(task, machine, of, WORKS[work].0, &recorded)),
            };
            under.map_err(|error| format!("{}: {error}", of.name))
        })?;
    let mut found: Vec<(&'static str, Findings)> =
        ASSUMPTIONS.iter().map(|of| (of.name, Findings::default())).collect();
    for ((number, _), rows) in jobs.iter().zip(done) {
        found[*number].1.rows.extend(rows);
    }
    // Works without items are what they are where nothing else is changed.
    for (number, of) in ASSUMPTIONS.iter().enumerate().filter(|(_, of)| of.items > 0) {
        let twin = ASSUMPTIONS.iter().position(|other| other.items == 0 && of.is_alike(other));
        let of_twin = twin.map_or(taken, |twin| &found[twin].1).rows.clone();
        let without = |row: &Row| {
            WORKS
                .iter()
                .position(|(work, _)| *work == row.work)
                .is_some_and(|work| !has_items(work))
        };
        found[number].1.rows.extend(of_twin.into_iter().filter(without));
    }
    let under = found.iter().map(|(name, findings)| (*name, findings));
    let all = std::iter::once((AS_TAKEN.name, taken)).chain(under);
    let records = all.flat_map(|(name, findings)| records(machine, name, findings)).collect();
    Ok((found, records))
}

/// A work under the compared schemes.
fn under(
    task: &Task,
    machine: &MachineConfig,
    assumption: &Assumption,
    name: &'static str,
    work: &Recorded,
) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut machine = machine.clone();
    for (key, value) in assumption.machine {
        machine.set_option(key, value)?;
    }
    let options = assumption.options.iter().fold(task.options(), |options, (key, amount)| {
        let value = match amount {
            Amount::Is(value) => *value,
            Amount::EntriesOver(by) => task.ait_entries() / by,
        };
        options.with(key, value)
    });
    let mut rows = Vec::new();
    for of in COMPARED.map(scheme) {
        if of.prepare(&work_of(work), &options, None).is_ok() {
            let measured = measure(&machine, of, work, &options)
                .map_err(|error| format!("{name} under {of}: {error}"))?;
            rows.push(Row { work: name, measured });
        }
    }
    Ok(rows)
}

fn records(machine: &MachineConfig, name: &str, findings: &Findings) -> Vec<Record> {
    let mut records = Vec::new();
    let mut put = |metric, value: f64| {
        let config = format!("{} ({})", machine.name, machine.core.kind);
        records.push(
            Record::new(Kind::Sim, "all works", "ehou", metric, value)
                .threads(super::COPIES.into())
                .class(name)
                .config(&config)
                .guarantee(scheme("ehou").guarantee().name()),
        );
    };
    let [over_redu, over_ssp, saved] = views::BY_ASSUMPTION;
    let gain = |against| judge::mean_gain(findings, against);
    for (metric, found) in
        [(over_redu, gain("redu")), (over_ssp, gain("ssp")), (saved, judge::writes_saved(findings))]
    {
        found.into_iter().for_each(|found| put(metric, found.value));
    }
    records
}
