//! The runtime's schemes on the same work: the program in a pool, the runtime's calls as instructions.
//!
//! A program draws the same operations in a pool as on bare memory, as long as one thread runs it and no
//! transaction is made to abort. What it does beside its loads and stores counts as it does there
//! ([`WorkInstructions`]).

use std::sync::Arc;

use outlast::Scheme;
use outlast_crash::runtime::campaign::Points;
use outlast_schemes::{MachineScheme, Streams, Work};
use outlast_sim::timed::MachineConfig;
use outlast_trace::LineAddr;
use outlast_workloads::WorkInstructions;
use outlast_workloads::machine::Plan;

use super::equal;
use super::measure::Subject;
use crate::record::{Kind, Metric, Record};
use crate::simulated::{RuntimeRun, Setting};

/// Bytes of the lane's log.
const LANE_BYTES: u64 = 256 << 10;

/// The campaign that says what the oracle saw: its machine, keys, transactions and crash points.
const CRASHED_ON: &str = "tiny";
const CRASHED_KEYS: u64 = 200;
const CRASHED_TRANSACTIONS: u32 = 120;
const CRASH_POINTS: usize = 200;

/// Why the runtime's schemes cannot take that work; `None` where they can.
pub(super) fn refusal(plan: &Plan) -> Option<String> {
    let why = match plan {
        Plan { threads: 2.., workload, .. } if workload.own().is_none() => {
            "each thread of a program has data of its own"
        }
        Plan { switch_every: 1.., .. } => "a lane has one transaction at a time",
        Plan { abort_every: 1.., .. } => "the machine chooses which transactions abort",
        Plan { batch: 1.., .. } => "its programs take no batch",
        Plan { workload, .. } if workload.stands_alone().is_some() => "it is no workload of a pool",
        _ => return None,
    };
    Some(format!("the runtime's schemes: {why}"))
}

/// Times a scheme: its recorded operations on the machine that the others had, on address indirection
/// or not as they are.
///
/// # Errors
/// What it failed with, in one line.
pub(super) fn measure(
    subject: &Subject,
    plan: &Plan,
    (setting, has_ait): (&Setting, bool),
    scheme: Scheme,
) -> Result<Vec<Record>, String> {
    let failed = |error: String| format!("{scheme}: {error}");
    let machine = &setting.machine;
    let run = RuntimeRun {
        keys: plan.workload.keys_in(plan.footprint).unwrap_or_default(),
        transactions: u32::try_from(plan.transactions).unwrap_or(u32::MAX),
        work: WorkInstructions::default(),
        ..run(plan, machine.clone(), scheme)
    };
    let mut campaign = run.campaign();
    campaign.warm_up = u32::try_from(plan.warm_up).unwrap_or(u32::MAX);
    let recording = campaign.recording().map_err(|error| failed(error.to_string()))?;
    let recording = recording.map_err(|violation| failed(violation.to_string()))?;
    let image = Arc::new(recording.image);
    let work = Work {
        streams: Streams::Recorded(vec![recording.log]),
        end: LineAddr(image.len() as u64 / 64),
        image: Arc::clone(&image),
        lanes: plan.threads,
        is_nested: false,
        whole: None,
    };
    let plain = MachineScheme::plain();
    let options = equal::options(setting, plain, has_ait, subject);
    let options = options.map_err(|error| failed(error.to_string()))?;
    let prepared = plain.prepare(&work, &options, None);
    let prepared = prepared.map_err(|error| failed(error.to_string()))?;
    let config = subject.config(machine, has_ait);
    let as_named = (scheme.name(), scheme.guarantee());
    let record = |metric, value| subject.record(Kind::Sim, &config, as_named, metric, value);
    let timed = subject.timed(machine, (prepared.as_ref(), &image, plan.threads), record);
    let (mut records, _) = timed.map_err(|error| failed(error.to_string()))?;
    setting.mark(plain, &mut records);
    Ok(records)
}

/// Crashes a small run of the workload.
///
/// # Errors
/// Why that cannot be, in one line.
pub(super) fn crash(subject: &Subject, plan: &Plan, scheme: Scheme) -> Result<Vec<Record>, String> {
    let failed = |error: String| format!("{scheme} was not crashed: {error}");
    let machine = MachineConfig::named(CRASHED_ON).map_err(|error| failed(error.to_string()))?;
    let (keys, transactions) = match plan.workload.own() {
        None => (CRASHED_KEYS, CRASHED_TRANSACTIONS),
        Some(work) => (work.words(), u32::try_from(plan.transactions).unwrap_or(u32::MAX)),
    };
    let run = RuntimeRun {
        keys,
        transactions,
        points: Some(Points::Some(CRASH_POINTS)),
        ..run(plan, machine, scheme)
    };
    let report = run.campaign().run().map_err(|error| failed(error.to_string()))?;
    let counts = report.counts;
    let torn = counts.torn + counts.not_closed + counts.garbage;
    let as_named = (scheme.name(), scheme.guarantee());
    let record = |metric, count: u64| {
        subject.record(Kind::Crash, &run.machine.name, as_named, metric, count as f64)
    };
    Ok(vec![
        record(Metric::IMAGES_VERIFIED, counts.crash_points),
        record(Metric::LOST, counts.lost),
        record(Metric::TORN, torn + counts.refused + counts.unsound),
    ])
}

fn run(plan: &Plan, machine: MachineConfig, scheme: Scheme) -> RuntimeRun {
    RuntimeRun {
        machine,
        workload: plan.workload,
        scheme,
        keys: 0,
        lanes: plan.threads,
        lane_bytes: LANE_BYTES,
        transactions: 0,
        points: None,
        plant: None,
        seed: plan.seed,
        work: RuntimeRun::NOT_COUNTED,
        timeline: None,
    }
}
