//! What the traces ask of memory, beside what was published of the originals.

use std::fmt::Write;

use outlast_schemes::MachineScheme;
use outlast_sim::timed::MachineConfig;
use serde_json::{Value, json};

use super::{Scale, Suite, program};
use crate::progress::{Listener, Progress};
use crate::record::{Metric, Record};
use crate::simulated::{Simulation, Work, run_listening};

/// The machine: PiCL's, Table IV, with one core.
pub const MACHINE: &str = crate::papers::MACHINE_OF_CHECKPOINTS;

/// One trace on the machine, in thousands of instructions.
#[derive(Clone, PartialEq, Debug)]
pub struct Behaviour {
    /// The program that it stands for.
    pub name: &'static str,
    /// Misses at the last level.
    pub misses: f64,
    /// Dirty lines that left it.
    pub write_backs: f64,
    /// Instructions a cycle.
    pub ipc: f64,
    /// Misses of the original at a last level of 512 KiB a core, where they are known.
    pub published: Option<f64>,
}

/// Where the published figures come from.
pub const SOURCE: &str = "Kim, Papamichael, Mutlu, Harchol-Balter: Thread Cluster Memory Scheduling, \
                          MICRO'10, Table 4: 512 KiB of second and last level a core, out of order";

/// Misses of the benchmark's programs in a thousand instructions, after [`SOURCE`].
const PUBLISHED: [(&str, f64); 18] = [
    ("mcf", 97.38),
    ("libquantum", 50.00),
    ("leslie3d", 49.35),
    ("soplex", 46.70),
    ("lbm", 43.52),
    ("GemsFDTD", 31.79),
    ("sphinx3", 24.94),
    ("xalancbmk", 22.95),
    ("omnetpp", 21.63),
    ("cactusADM", 12.01),
    ("astar", 9.26),
    ("hmmer", 5.66),
    ("bzip2", 3.98),
    ("h264ref", 2.30),
    ("gromacs", 0.98),
    ("gobmk", 0.77),
    ("sjeng", 0.39),
    ("gcc", 0.34),
];

/// Runs the trace of each program, the first half as a warm-up. Traces that are not there are captured;
/// those that cannot be had are told and left out.
///
/// # Errors
/// When the machine comes to a stop.
pub fn measure(
    suite: &Suite,
    names: &[&'static str],
    scale: Scale,
    listen: &mut Listener<'_>,
) -> Result<Vec<Behaviour>, Box<dyn std::error::Error>> {
    let mut all = Vec::new();
    for name in names {
        let trace = match suite.trace(name, scale, listen) {
            Ok(trace) => trace,
            Err(missing) => {
                listen(Progress::Note(&missing.to_string()));
                continue;
            }
        };
        let counterpart = program(name)?.counterpart.as_ref();
        let count = counterpart.map_or(0, |counterpart| counterpart.window(scale).count);
        let simulation = Simulation {
            machine: MachineConfig::named(MACHINE)?,
            work: Work::Programs(vec![trace]),
            warm_up: count / 2,
            instructions: count / 2,
            seed: 1,
            timeline: None,
            scheme: MachineScheme::plain(),
            options: Default::default(),
        };
        all.push(behaviour(name, &run_listening(&simulation, listen)?));
    }
    Ok(all)
}

fn behaviour(name: &'static str, records: &[Record]) -> Behaviour {
    let sum = |metric, class: Option<&str>| -> f64 {
        let is_it = |record: &&Record| record.is(metric) && record.class.as_deref() == class;
        records.iter().filter(is_it).filter_map(|record| record.value).sum()
    };
    let thousands = sum(Metric::INSTRUCTIONS, None) / 1000.0;
    let writes = records.iter().filter(|record| record.is(Metric::MEMORY_WRITES));
    Behaviour {
        name,
        misses: sum(Metric::CACHE_MISSES, Some("llc")) / thousands,
        // The sum of no numbers is -0.0.
        write_backs: 0.0 + writes.filter_map(|record| record.value).sum::<f64>() / thousands,
        ipc: sum(Metric::IPC, None),
        published: PUBLISHED.iter().find(|row| row.0 == name).map(|row| row.1),
    }
}

impl Behaviour {
    /// As a record of a JSON document.
    pub fn to_json(&self) -> Value {
        let Self { name, misses, write_backs, ipc, published } = self;
        json!({
            "kind": "behaviour",
            "name": name,
            "machine": MACHINE,
            "misses_per_1000": misses,
            "write_backs_per_1000": write_backs,
            "ipc": ipc,
            "published_misses_per_1000": published,
            "published_source": published.map(|_| SOURCE),
        })
    }
}

/// The behaviour of some programs as a table in Markdown.
pub fn behaviour_table(all: &[Behaviour]) -> String {
    let mut text = String::from(
        "| program | counterpart | misses | write-backs | IPC | published misses |\n\
         |---|---|---|---|---|---|\n",
    );
    for Behaviour { name, misses, write_backs, ipc, published } in all {
        let about = program(name).ok().and_then(|entry| entry.counterpart.as_ref().ok());
        let about = about.map_or("", |counterpart| counterpart.about);
        let published = published.map_or(String::new(), |misses| format!("{misses:.2}"));
        let _ = writeln!(
            text,
            "| {name} | {about} | {misses:.2} | {write_backs:.2} | {ipc:.3} | {published} |"
        );
    }
    text
}
