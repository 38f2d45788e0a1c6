//! Representative windows of a trace in place of all of it.

use outlast_sim::timed::Batch;
use outlast_trace::{Part, Program, cut_parts};

use super::*;
use crate::points::{Points, Window};

/// Runs each window of a file, and adds what the whole trace would come to: of each count that which a
/// window has in an instruction, by its weight. An instruction of a program is one or two of the
/// machine's; how many, a window and its warm-up tell before they run.
///
/// # Errors
/// When a file cannot be read, or as [`run`].
pub(super) fn run(
    simulation: &Simulation,
    file: &Path,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    let points = Points::open(file)?;
    let mut all: Vec<Record> = Vec::new();
    let mut whole: Vec<Record> = Vec::new();
    for window in &points.windows {
        let path = file.with_file_name(&window.file);
        let warm_up = warm_up_on_machine(&path, window)?;
        let instructions = on_machine(&path)?.saturating_sub(warm_up);
        let work = Work::Trace(path);
        let of_window = Simulation { work, warm_up, instructions, ..simulation.clone() };
        let found = run_with(&of_window, None, listen)?;
        let of = |metric| found.iter().find(|record| record.is(metric)).and_then(|it| it.value);
        let ran = of(Metric::INSTRUCTIONS).unwrap_or(0.0).max(1.0);
        let of_each = instructions as f64 / window.instructions as f64;
        let share = window.weight * points.instructions as f64 * of_each / ran;
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

/// Instructions of the machine in a window's warm-up.
fn warm_up_on_machine(path: &Path, window: &Window) -> Result<u64, Box<dyn std::error::Error>> {
    if window.warm_up == 0 {
        return Ok(0);
    }
    let place = tempfile::tempdir()?;
    let out = place.path().join("warm-up.otrace");
    let part = Part { skip: 0, count: window.warm_up, out: out.clone() };
    cut_parts(&Program::open(path)?, &[part])?;
    on_machine(&out)
}

/// Instructions of the machine in a trace.
fn on_machine(path: &Path) -> Result<u64, Box<dyn std::error::Error>> {
    let mut batch = Batch::default();
    let mut count = 0;
    for mut source in RealPrograms::open(&[path.to_owned()], false)?.sources() {
        loop {
            source.fill(&mut batch)?;
            if batch.instrs.is_empty() {
                break;
            }
            count += batch.instrs.len() as u64;
            batch.instrs.clear();
            batch.lines.clear();
        }
    }
    Ok(count)
}
