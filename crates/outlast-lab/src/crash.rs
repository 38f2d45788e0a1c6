//! The runtime in front of the crash checker: every scope under every scheme, every planted bug.
//!
//! Work is dealt to all processors. Rates are per second of CPU time of the thread that verifies.

pub mod campaigns;
mod deal;
mod jobs;
pub mod look;

pub use outlast_crash::runtime::plants::{able_schemes, planted_in};

use outlast::Scheme;
use outlast_crash::runtime::campaign::CampaignError;
use outlast_crash::runtime::plants::Hunted;
use outlast_crash::runtime::scopes::{Scope, Tally};
use outlast_crash::{Broken, TooWide};

use self::deal::Silence;
pub(crate) use self::deal::{Work, deal};
use self::jobs::{Found, Job, Task};
use crate::native::Size;
use crate::progress::Listener;
use crate::record::{Kind, Metric, Record};

/// The workload on which the rate of verification is judged.
pub const RATE_SCOPE: &str = "words";

/// The class of what a search found that a limit has ended.
pub(crate) const CUT_SHORT: &str = "cut short";

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

/// Random campaigns, the exhaustive search of every scope, planted bugs, and controls: all of them from
/// one queue, so that no processor waits for the end of a part. A loss is not an error but a record.
///
/// # Errors
/// What cannot be run.
pub(crate) fn measure(
    size: Size,
    seed: u64,
    listen: &mut Listener<'_>,
) -> Result<Vec<Record>, CrashError> {
    let jobs = jobs::all(size, seed);
    // Some bugs make the runtime panic, which is one way to be caught.
    let silence = Silence::new();
    let found = deal(STAGE, &jobs, listen);
    drop(silence);
    let mut records = Vec::new();
    let (mut planted, mut controls) = (Vec::new(), Vec::new());
    for (job, found) in jobs.iter().zip(found?) {
        match (&job.task, found) {
            (_, Found::Campaign(report)) => records.extend(campaigns::report_records(&report)),
            (Task::Scope(scheme, scope), Found::Searched { cpu_s, tally }) => {
                records.extend(scope_records(*scheme, scope.as_deref(), cpu_s, &tally));
            }
            (Task::Control(..), Found::Hunted(hunted)) => controls.push(hunted),
            (_, Found::Hunted(hunted)) => planted.push(hunted),
            (task, Found::Searched { .. }) => unreachable!("{task:?} searches no scope"),
        }
    }
    records.extend(planted_records(size, &planted));
    records.extend(control_records(&controls));
    Ok(records)
}

/// The name of [`measure`] while it goes on.
pub(crate) const STAGE: &str = "crashes";

/// The milliseconds of processor time that all of it is expected to take.
pub(crate) fn expected_ms(size: Size, seed: u64) -> u64 {
    jobs::all(size, seed).iter().map(Job::expected_ms).sum()
}

/// Who is crashed: in the quick scale not the baselines, which the full one and tests have.
pub(crate) fn on_trial(size: Size) -> impl Iterator<Item = Scheme> + Clone {
    Scheme::durable().filter(move |scheme| size == Size::Full || !scheme.is_baseline())
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
        let record = Record::new(Kind::Crash, &name, scheme.name(), metric, value)
            .policy("any")
            .guarantee(&scheme.guarantee().to_string())
            .config(&config);
        if tally.complete { record } else { record.class(CUT_SHORT) }
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
fn planted_records(size: Size, all: &[Hunted]) -> Vec<Record> {
    let mut records = Vec::new();
    for scheme in on_trial(size) {
        let mut killed = 0.0;
        let mine: Vec<_> = all.iter().filter(|hunted| hunted.scheme == scheme).collect();
        for hunted in &mine {
            let plant = hunted.plant.to_string();
            let record = |metric, value| {
                let record =
                    Record::new(Kind::Crash, shown_in(hunted), scheme.name(), metric, value);
                with_guilt(record.plant(&plant), hunted)
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
    records
}

/// Every control under every scheme: sound, and to be flagged by no scope. Those of one scheme and
/// control follow each other, scope by scope.
fn control_records(all: &[Hunted]) -> Vec<Record> {
    let same = |a: &Hunted, b: &Hunted| (a.scheme, a.plant) == (b.scheme, b.plant);
    let record = |scopes: &[Hunted]| {
        let hunted = scopes.iter().find(|hunted| hunted.killed.is_some()).unwrap_or(&scopes[0]);
        let flagged = f64::from(hunted.killed.is_some());
        let (scheme, metric) = (hunted.scheme.name(), Metric::CONTROL_FLAGGED);
        let record = Record::new(Kind::Crash, shown_in(hunted), scheme, metric, flagged);
        with_guilt(record.plant(&hunted.plant.to_string()), hunted)
    };
    all.chunk_by(same).map(record).collect()
}

/// Where a bug was noticed.
fn shown_in(hunted: &Hunted) -> &'static str {
    hunted.killed.as_ref().map_or("all scopes", |(scope, _)| scope)
}

fn with_guilt(record: Record, hunted: &Hunted) -> Record {
    match &hunted.killed {
        Some((_, guilt)) => record.reason(&guilt.to_string()),
        None => record,
    }
}
