//! Throughput where writes are slow, on the timed machine.
//!
//! The paper takes plain DRAM for persistent memory. What a line written costs on media that are
//! slow to write shows a machine that has such a memory: one socket of the paper's, with each of
//! [`MEMORIES`] behind it. Delays added to this machine's own flushes ([`super::timing`]) cannot tell
//! a flush that writes a line from one that finds it clean, nor does a queue take them in.
//!
//! One lane runs each workload over the runtime, is recorded once under each scheme, and the recording
//! runs with every memory.

use outlast::Scheme;
use outlast_sim::timed::MachineConfig;

use super::{ReproduceError, Task, WORKLOADS, available, workload};
use crate::parallel::in_parallel;
use crate::progress::Listener;
use crate::record::{Kind, Metric, Record};
use crate::simulated::RuntimeRun;

/// Those of the papers on hardware schemes, and phase-change memory as gem5 has it.
pub const MEMORIES: [&str; 4] = ["hwl-pcm", "ehou-pm", "picl-nvm", "pcm-150-500"];

/// The schemes compared with undo logging; `none` is the bound of them all.
const SCHEMES: [&str; 6] = ["undo", "none", "redo", "undo-archapt", "redo-archapt", "swift"];

/// A lane's log: what a pool has if it is not told otherwise.
const LANE_BYTES: u64 = 256 << 10;

/// Each needs memory for its pool, and for what it recorded.
const AT_ONCE_MAX: usize = 4;

/// The stage of [`measure`] in progress events.
pub(super) const STAGE: &str = "memories that are slow to write, on the timed machine";

/// Throughput and latency of each workload under each scheme with each memory, and what is gained
/// over undo logging.
///
/// # Errors
/// A workload that cannot be run.
pub fn measure(task: &Task, listen: &mut Listener<'_>) -> Result<Vec<Record>, ReproduceError> {
    let schemes = available(&SCHEMES, listen);
    let all: Vec<_> = WORKLOADS
        .iter()
        .flat_map(|name| schemes.iter().map(move |scheme| (*name, *scheme)))
        .collect();
    let stage = STAGE;
    let run = |(name, scheme): &(&'static str, Scheme)| measure_one(task, name, *scheme);
    let measured = in_parallel(&all, AT_ONCE_MAX, stage, listen, run)?;
    let mut records = Vec::new();
    for of_workload in measured.chunks(schemes.len()) {
        let (undo, others) = of_workload.split_first().expect("undo exists");
        for own in others {
            records.extend(own.iter().zip(undo).filter_map(|(own, undo)| gain(own, undo)));
        }
    }
    records.extend(measured.into_iter().flatten());
    Ok(records)
}

/// Throughput and 99th percentile with each memory.
fn measure_one(
    task: &Task,
    name: &'static str,
    scheme: Scheme,
) -> Result<Vec<Record>, ReproduceError> {
    let amount = &task.amount;
    // As many statements as the others have transactions.
    let share = if matches!(name, "tpcc" | "ycsb-e") { 10 } else { 1 };
    let run = |machine| RuntimeRun {
        machine,
        workload: workload(name),
        scheme,
        keys: amount.simulated_keys,
        lanes: 1,
        lane_bytes: LANE_BYTES,
        transactions: (amount.simulated / share) as u32,
        points: None,
        plant: None,
        seed: task.seed,
        work: RuntimeRun::NOT_COUNTED,
        timeline: None,
    };
    let with_memories = MEMORIES.map(|memory| run(machine_with(memory)));
    let runs = RuntimeRun::on_one_recording(&with_memories)?;
    let mut records = Vec::new();
    for (memory, found) in MEMORIES.into_iter().zip(runs) {
        let wanted = |r: &Record| r.is(Metric::THROUGHPUT) || r.is(Metric::LATENCY_P99);
        records.extend(found.into_iter().filter(wanted).map(|record| record.class(memory)));
    }
    Ok(records)
}

/// One socket of the paper's machine with that memory.
fn machine_with(memory: &str) -> MachineConfig {
    let mut machine = MachineConfig::named("archapt").expect("a preset");
    machine.set_option("memory.preset", memory).expect("a preset");
    machine
}

fn gain(own: &Record, undo: &Record) -> Option<Record> {
    debug_assert_eq!((&own.workload, &own.class), (&undo.workload, &undo.class));
    if !own.is(Metric::THROUGHPUT) {
        return None;
    }
    let gain = 100.0 * (own.value? / undo.value? - 1.0);
    let mut record =
        Record::new(Kind::Sim, &own.workload, &own.scheme, Metric::GAIN_OVER_UNDO, gain);
    record.class.clone_from(&own.class);
    record.config.clone_from(&own.config);
    Some(record)
}
