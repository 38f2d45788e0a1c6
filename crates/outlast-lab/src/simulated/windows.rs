//! Representative windows of a trace in place of all of it.

use super::*;
use crate::points::{Points, Window};

/// Instructions of the machine after which is looked how far its program is.
const STEP: u64 = 256;

/// Runs each window of a file, and adds what the whole trace would come to: of each count that which a
/// window has in an instruction of its program, by its weight.
///
/// The whole trace is run for each window, up to its warm-up without time: caches, TLBs and branch
/// predictors hold what they would hold there.
///
/// # Errors
/// When a file cannot be read, or as [`run`].
pub(super) fn run(
    simulation: &Simulation,
    file: &Path,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let points = Points::open(file)?;
    let trace = points.trace_of(file)?;
    let mut all: Vec<Record> = Vec::new();
    let mut whole: Vec<Record> = Vec::new();
    let stage = format!("{} under {}, windows", file.display(), simulation.scheme.name());
    let mut estimate = Estimate::new(&stage, points.windows.len() as u64);
    for (number, window) in points.windows.iter().enumerate() {
        let name = file.with_file_name(&window.file).display().to_string();
        let (found, passed) = run_window(simulation, &trace, window, &name)?;
        let share = window.weight * points.instructions as f64 / passed.max(1) as f64;
        for record in found.iter().filter(|record| record.unit == "count") {
            let value = share * record.value.unwrap_or(0.0);
            let is_it = |it: &&mut Record| it.metric == record.metric && it.class == record.class;
            match whole.iter_mut().find(is_it) {
                Some(sum) => sum.value = sum.value.map(|sum| sum + value),
                None => {
                    let workload = file.display().to_string();
                    whole.push(Record { workload, value: Some(value), ..record.clone() });
                }
            }
        }
        all.extend(found);
        estimate.tell(number as u64 + 1, listen);
    }
    let of = |metric| whole.iter().find(|record| record.is(metric));
    if let (Some(instructions), Some(cycles)) = (of(Metric::INSTRUCTIONS), of(Metric::CYCLES)) {
        let ipc = instructions.value.unwrap_or(0.0) / cycles.value.unwrap_or(0.0).max(1.0);
        let Metric { name, unit } = Metric::IPC;
        let (metric, unit, value) = (name.to_owned(), unit.to_owned(), Some(ipc));
        let record = Record { metric, unit, value, ..instructions.clone() };
        whole.insert(0, record);
    }
    all.extend(whole);
    Ok(all)
}

/// Runs one window of a trace. Returns what was counted, and the program's instructions in it.
fn run_window(
    simulation: &Simulation,
    trace: &Path,
    window: &Window,
    name: &str,
) -> Result<(Vec<Record>, u64), Box<dyn std::error::Error>> {
    let Simulation { machine, seed, scheme, options, .. } = simulation;
    let is_plain = *scheme == MachineScheme::plain();
    let work = Work::Trace(trace.to_owned());
    let real = RealPrograms::open(&[trace.to_owned()], false)?;
    let of_schemes = work.for_schemes(is_plain, Some(&real))?;
    let prepared = scheme.prepare(&of_schemes, options, None);
    let prepared = prepared.map_err(|error| format!("{name}: {error}"))?;
    let sources = real.sources();
    let machine = &with_cores(machine, sources.len() as u16);
    let threads = sources.len() as u32;
    let journal = (!is_plain).then_some(Domain::Adr);
    let setup = Setup { seed: *seed, journal, base: real.base(), ..Setup::default() };
    let mut system = prepared.machine(machine, setup, sources)?;
    let system = system.as_mut();
    system.warm(window.begins_at - window.warm_up, is_plain)?;
    run_until(system, window.begins_at)?;
    system.take_stats();
    let (from, watch) = (system.passed(), Stopwatch::new());
    run_until(system, window.begins_at + window.instructions)?;
    let elapsed = watch.elapsed();
    let seconds = elapsed.cpu.unwrap_or(elapsed.wall).as_secs_f64();
    let passed = system.passed() - from;
    let stats = system.take_stats();
    Ok((records::records(name, *scheme, machine, threads, &stats, seconds), passed))
}

/// Runs until the program is at this instruction, or at its end.
fn run_until(system: &mut dyn Machine, until: u64) -> Result<(), Box<dyn std::error::Error>> {
    while system.passed() < until && system.run(STEP)? == Ended::Limit {}
    Ok(())
}
