//! The runtime in front of the crash checker: every scope under every scheme, every planted bug.
//!
//! Jobs are dealt to all cores. Rates are per second of CPU time of the thread that verifies.

pub mod campaigns;
mod planted;

pub use planted::{able_schemes, planted_in};

use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use outlast::{Plant, Scheme};
use outlast_crash::runtime::campaign::CampaignError;
use outlast_crash::runtime::plants::{Hunted, hunt};
use outlast_crash::runtime::scopes::{Scope, ScopeConfig, ScopeFailure, Tally, lifecycle, table};
use outlast_crash::{Broken, TooWide};

use crate::clock::ThreadStopwatch;
use crate::native::Size;
use crate::progress::{Listener, Progress};
use crate::record::{Kind, Metric, Record};

/// Schedules of a scope of `undo-archapt` in the quick scale. Its lanes log twice for each
/// transaction, which multiplies schedules and images.
const QUICK_SCHEDULES_MAX: u64 = 24;

/// Recoveries in a scope in the quick scale where data waits in the cache, which leaves a crash far
/// more choices.
const QUICK_IMAGES_MAX: u64 = 500_000;

/// And of those whose images are compared with their checksums.
const QUICK_SUMS_IMAGES_MAX: u64 = 40_000;

/// The workload on which the rate of verification is judged.
pub const RATE_SCOPE: &str = "words";

/// The crash part could not be run.
#[derive(Debug, thiserror::Error)]
pub enum CrashError {
    /// A scope is not small enough to be enumerated.
    #[error("{what}: {source}")]
    TooWide {
        /// Which scope or bug.
        what: String,
        /// Why.
        source: TooWide,
    },
    /// A campaign could not be run.
    #[error(transparent)]
    Campaign(#[from] CampaignError),
    /// The checker itself panicked, which is a bug of its own.
    #[error("{0}: the checker panicked")]
    Panicked(String),
}

/// A part of what the report says about crashes. A loss is not an error but a record.
pub(crate) type Part = fn(Size, u64, &mut Listener<'_>) -> Result<Vec<Record>, CrashError>;

/// The parts by their names: the random campaigns, the exhaustive search of every scope, the planted
/// bugs, and the controls.
pub(crate) const PARTS: [(&str, Part); 4] = [
    ("crash campaigns", |size, seed, listen| Ok(campaigns::campaign_records(size, seed, listen)?)),
    ("exhaustive search", |size, _, listen| exhaustive_records(size, listen)),
    ("planted bugs", |size, _, listen| planted_records(size, listen)),
    ("controls", |size, _, listen| control_records(size, listen)),
];

/// Who is crashed: in the quick scale not the baselines, which the full one and tests have.
pub(crate) fn on_trial(size: Size) -> impl Iterator<Item = Scheme> + Clone {
    Scheme::durable().filter(move |scheme| size == Size::Full || !scheme.is_baseline())
}

/// Every scope under every scheme: all schedules, crash points and images within its limits.
fn exhaustive_records(size: Size, listen: &mut Listener<'_>) -> Result<Vec<Record>, CrashError> {
    // Enough for every fixed scope to end by itself.
    let images_max = if size == Size::Quick { 4_000_000 } else { 100_000_000 };
    let bounds = |scheme: Scheme| match (size, scheme) {
        (Size::Quick, Scheme::UndoArchapt) => (QUICK_SCHEDULES_MAX, QUICK_IMAGES_MAX),
        (Size::Quick, Scheme::RedoArchapt) => (u64::MAX, QUICK_IMAGES_MAX),
        _ => (u64::MAX, images_max),
    };
    let mut jobs: Vec<(Scheme, Option<Scope>)> = Vec::new();
    for scheme in on_trial(size) {
        let words = [true, false].map(|packed| table::words(3, 4, 2, packed));
        jobs.push((scheme, None));
        jobs.extend(words.into_iter().chain(table::of(scheme)).map(|scope| (scheme, Some(scope))));
    }
    let what = |(scheme, scope): &(Scheme, Option<Scope>)| {
        format!("{scheme} {}", scope.as_ref().map_or("lifecycle", |scope| scope.name))
    };
    let found = deal("exhaustive search", &jobs, listen, what, |(scheme, scope)| {
        let (schedules_max, mut images_max) = bounds(*scheme);
        if size == Size::Quick && scope.as_ref().is_some_and(|scope| scope.checksums) {
            images_max = images_max.min(QUICK_SUMS_IMAGES_MAX);
        }
        let charge = ScopeConfig { images_max, schedules_max, ..ScopeConfig::of(*scheme) };
        let watch = ThreadStopwatch::new();
        let tally = match scope {
            None => lifecycle::run(&charge)?,
            Some(scope) => scope.run(&charge, |_| ())?,
        };
        // Where threads have no clock of their own, the time spent verifying has to do.
        Ok((watch.elapsed().unwrap_or(tally.elapsed).as_secs_f64(), tally))
    })?;
    let per_job = jobs.iter().zip(found);
    Ok(per_job
        .flat_map(|((scheme, scope), (cpu_s, tally))| {
            scope_records(*scheme, scope.as_ref(), cpu_s, &tally)
        })
        .collect())
}

/// What a scope's search came to. `cpu_s` is the time it took, in seconds.
pub fn scope_records(
    scheme: Scheme,
    scope: Option<&Scope>,
    cpu_s: f64,
    tally: &Tally,
) -> Vec<Record> {
    let name = match scope {
        None => "lifecycle".to_owned(),
        Some(scope) if scope.name == RATE_SCOPE && scope.shape.stride == 8 => {
            format!("{RATE_SCOPE}, sharing a line")
        }
        Some(scope) => scope.name.to_owned(),
    };
    let mut config = scope.map_or("creation, a transaction and growth", |s| s.about).to_owned();
    if !tally.complete {
        config += "; cut short";
    }
    let record = |metric, value| {
        Record::new(Kind::Crash, &name, scheme.name(), metric, value)
            .policy("any")
            .guarantee(&scheme.guarantee().to_string())
            .config(&config)
    };
    let broken = tally.failure.as_ref().map(|guilt| guilt.violation.broken);
    let is = |wanted: &[Broken]| f64::from(broken.is_some_and(|broken| wanted.contains(&broken)));
    let failed = |record: Record| match &tally.failure {
        Some(guilt) => record.reason(&guilt.to_string()),
        None => record,
    };
    let lost = is(&[Broken::Lost]);
    let torn = is(&[Broken::Torn, Broken::NotClosed, Broken::Cycle, Broken::Garbage]);
    let beyond_repair = f64::from(broken.is_some()) - lost - torn;
    vec![
        record(Metric::SCHEDULES, tally.schedules as f64),
        record(Metric::CRASH_POINTS, tally.crash_points as f64),
        record(Metric::IMAGES_VERIFIED, tally.verified as f64),
        record(Metric::IMAGES_DISTINCT, tally.distinct as f64),
        record(Metric::VERIFY_RATE, tally.verified as f64 / cpu_s.max(1e-9)),
        failed(record(Metric::LOST, lost)),
        failed(record(Metric::TORN, torn)),
        failed(record(Metric::UNCORRECTABLE, beyond_repair)),
    ]
}

/// Every planted bug under every scheme that it breaks.
fn planted_records(size: Size, listen: &mut Listener<'_>) -> Result<Vec<Record>, CrashError> {
    let images_max = if size == Size::Quick { 300_000 } else { 10_000_000 };
    let pairs = on_trial(size).flat_map(|s| Plant::all().map(move |plant| (s, plant)));
    let jobs: Vec<_> = pairs.filter(|(scheme, plant)| plant.applies_to(*scheme)).collect();
    let what = |(scheme, plant): &(Scheme, Plant)| format!("{plant} in {scheme}");
    // Some bugs make the runtime panic, which is one way to be caught.
    let silence = Silence::new();
    let sentences = deal("planted bugs", &jobs, listen, what, |(scheme, plant)| {
        hunt(*plant, *scheme, images_max, |_, _| ())
    });
    drop(silence);
    let sentences = sentences?;
    let mut records = Vec::new();
    for scheme in on_trial(size) {
        let mut killed = 0.0;
        let mine: Vec<_> = sentences.iter().filter(|s| s.scheme == scheme).collect();
        for hunted in &mine {
            let plant = hunted.plant.to_string();
            let record = |metric, value| {
                let (workload, reason) = match &hunted.killed {
                    Some((scope, guilt)) => (*scope, Some(guilt)),
                    None => ("all scopes", None),
                };
                let record = Record::new(Kind::Crash, workload, scheme.name(), metric, value);
                with_guilt(record.plant(&plant), reason)
            };
            let dead = f64::from(hunted.killed.is_some());
            killed += dead;
            records.push(record(Metric::PLANTED_KILLED, dead));
            records.push(record(Metric::IMAGES_TO_KILL, hunted.images as f64));
        }
        let total =
            |metric, value| Record::new(Kind::Crash, "planted bugs", scheme.name(), metric, value);
        records.push(total(Metric::PLANTED_KILLED, killed));
        records.push(total(Metric::PLANTED_TOTAL, mine.len() as f64));
    }
    Ok(records)
}

/// Every control under every scheme: sound, and to be flagged by no scope.
fn control_records(size: Size, listen: &mut Listener<'_>) -> Result<Vec<Record>, CrashError> {
    let images_max = if size == Size::Quick { 50_000 } else { 10_000_000 };
    let jobs: Vec<_> =
        on_trial(size).flat_map(|s| Plant::controls().map(move |c| (s, c))).collect();
    let what = |(scheme, control): &(Scheme, Plant)| format!("{control} in {scheme}");
    let sentences = deal("controls", &jobs, listen, what, |(scheme, control)| {
        hunt(*control, *scheme, images_max, |_, _| ())
    })?;
    let record = |hunted: Hunted| {
        let (workload, guilt) = match &hunted.killed {
            Some((scope, guilt)) => (*scope, Some(guilt)),
            None => ("all scopes", None),
        };
        let flagged = f64::from(guilt.is_some());
        let (scheme, metric) = (hunted.scheme.name(), Metric::CONTROL_FLAGGED);
        let record = Record::new(Kind::Crash, workload, scheme, metric, flagged);
        with_guilt(record.plant(&hunted.plant.to_string()), guilt)
    };
    Ok(sentences.into_iter().map(record).collect())
}

fn with_guilt(record: Record, guilt: Option<&ScopeFailure>) -> Record {
    match guilt {
        Some(guilt) => record.reason(&guilt.to_string()),
        None => record,
    }
}

/// Runs a job on every core until none is left; results in the order of the jobs.
pub(crate) fn deal<J: Sync, T: Send>(
    stage: &str,
    jobs: &[J],
    listen: &mut Listener<'_>,
    what: impl Fn(&J) -> String,
    run: impl Fn(&J) -> Result<T, TooWide> + Sync,
) -> Result<Vec<T>, CrashError> {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(jobs.len().max(1));
    let mut results: Vec<Option<T>> = jobs.iter().map(|_| None).collect();
    let total = jobs.len() as u64;
    listen(Progress::Step { stage, done: 0, total });
    thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next, run) = (sender.clone(), &next, &run);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { break };
                    let result = panic::catch_unwind(panic::AssertUnwindSafe(|| run(job)));
                    // The receiver is gone once an error has decided everything.
                    if sender.send((index, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (done, (index, result)) in receiver.into_iter().enumerate() {
            let name = || what(&jobs[index]);
            let result = result.map_err(|_| CrashError::Panicked(name()))?;
            let result = result.map_err(|source| CrashError::TooWide { what: name(), source })?;
            results[index] = Some(result);
            listen(Progress::Step { stage, done: done as u64 + 1, total });
        }
        Ok::<(), CrashError>(())
    })?;
    Ok(results.into_iter().map(|result| result.expect("every job was run")).collect())
}

/// No panic prints anything while this lives.
struct Silence {
    before: Option<Hook>,
}

type Hook = Box<dyn Fn(&panic::PanicHookInfo<'_>) + Sync + Send + 'static>;

impl Silence {
    fn new() -> Self {
        let before = panic::take_hook();
        panic::set_hook(Box::new(|_| ()));
        Self { before: Some(before) }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // A hook cannot be set while unwinding; then the process has other troubles.
        if let Some(before) = self.before.take().filter(|_| !thread::panicking()) {
            panic::set_hook(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_back_in_order_and_are_all_told() {
        let jobs: Vec<u64> = (0..50).collect();
        let mut told = Vec::new();
        let mut listen = |progress: Progress<'_>| {
            if let Progress::Step { done, total, .. } = progress {
                told.push((done, total));
            }
        };
        let doubled = deal("double", &jobs, &mut listen, u64::to_string, |n| Ok(2 * n)).unwrap();
        assert_eq!(doubled, jobs.iter().map(|n| 2 * n).collect::<Vec<_>>());
        assert_eq!(told.last(), Some(&(50, 50)));
    }

    #[test]
    fn a_panicking_job_is_an_error_with_its_name() {
        let silence = Silence::new();
        let result = deal("panic", &[7u64], &mut |_| (), u64::to_string, |n| -> Result<(), _> {
            panic!("job {n}")
        });
        drop(silence);
        assert_eq!(result.unwrap_err().to_string(), "7: the checker panicked");
    }
}
