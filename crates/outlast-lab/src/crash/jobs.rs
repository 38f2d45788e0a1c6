//! What is to be done about crashes, cut into pieces that one processor does.

use outlast::Scheme;
use outlast::lab::Plant;
use outlast_crash::TooWide;
use outlast_crash::runtime::campaign::{Campaign, CampaignReport};
use outlast_crash::runtime::plants::{Hunted, hunt, look};
use outlast_crash::runtime::scopes::{Scope, ScopeConfig, Tally, lifecycle, table};

use super::{CrashError, Work, campaigns, on_trial};
use crate::clock::ThreadStopwatch;
use crate::native::Size;

/// Schedules of a scope of `undo-archapt` in the quick scale. Its lanes log twice for each
/// transaction, which multiplies schedules and images.
const QUICK_SCHEDULES_MAX: u64 = 24;

/// Recoveries in a scope in the quick scale where data waits in the cache, which leaves a crash far
/// more choices.
const QUICK_IMAGES_MAX: u64 = 8_000;

/// And of those whose images are compared with their checksums.
const QUICK_SUMS_IMAGES_MAX: u64 = 3_000;

/// Recoveries in any scope in the quick scale. The page says which scopes end there.
const QUICK_SEARCH_IMAGES_MAX: u64 = 10_000;

/// Recoveries in each scope that looks at a control in the quick scale.
const QUICK_CONTROL_IMAGES_MAX: u64 = 1_000;

/// Scopes in which the search of `swift` takes longest.
const LONG: [&str; 4] = ["rings uneven", "unstepped", "blocks two", "blocks"];

/// One piece.
pub(super) struct Job {
    size: Size,
    pub task: Task,
}

/// What a piece is about. Scopes that are not named are a pool's lifecycle.
#[derive(Debug)]
pub(super) enum Task {
    Campaign(Box<Campaign>),
    Scope(Scheme, Option<Box<Scope>>),
    Planted(Scheme, Plant),
    Control(Scheme, Plant, Option<Box<Scope>>),
}

/// What came of a piece.
pub(super) enum Found {
    Campaign(Box<CampaignReport>),
    Searched { cpu_s: f64, tally: Box<Tally> },
    Hunted(Hunted),
}

/// Every piece, in the order of the report's tables.
pub(super) fn all(size: Size, seed: u64) -> Vec<Job> {
    let mut tasks = Vec::new();
    for campaign in campaigns::all(on_trial(size), size, seed) {
        // Others are judged at the same time.
        tasks.push(Task::Campaign(Box::new(Campaign { threads: 1, ..campaign })));
    }
    for scheme in on_trial(size) {
        let words = [true, false].map(|packed| table::words(3, 4, 2, packed));
        let scopes = words.into_iter().chain(table::of(scheme)).map(|scope| Some(Box::new(scope)));
        tasks.extend([None].into_iter().chain(scopes).map(|scope| Task::Scope(scheme, scope)));
    }
    for scheme in on_trial(size) {
        let plants = Plant::all().filter(|plant| plant.applies_to(scheme));
        tasks.extend(plants.map(|plant| Task::Planted(scheme, plant)));
    }
    for scheme in on_trial(size) {
        for control in Plant::controls() {
            let scopes = table::of(scheme).map(|scope| Some(Box::new(scope)));
            let all = [None].into_iter().chain(scopes);
            tasks.extend(all.map(|scope| Task::Control(scheme, control, scope)));
        }
    }
    tasks.into_iter().map(|task| Job { size, task }).collect()
}

fn name_of(scope: Option<&Scope>) -> &'static str {
    scope.map_or("lifecycle", |scope| scope.name)
}

impl Job {
    /// What limits the search of a scope.
    fn bounds(&self, scheme: Scheme, scope: Option<&Scope>) -> ScopeConfig {
        let (schedules_max, images_max) = match (self.size, scheme) {
            (Size::Full, _) => (u64::MAX, 100_000_000),
            (Size::Quick, Scheme::UndoArchapt) => (QUICK_SCHEDULES_MAX, QUICK_IMAGES_MAX),
            (Size::Quick, Scheme::RedoArchapt) => (u64::MAX, QUICK_IMAGES_MAX),
            (Size::Quick, _) => (u64::MAX, QUICK_SEARCH_IMAGES_MAX),
        };
        let is_summed = scope.is_some_and(|scope| scope.checksums);
        let images_max = match self.size {
            Size::Quick if is_summed => images_max.min(QUICK_SUMS_IMAGES_MAX),
            _ => images_max,
        };
        ScopeConfig { images_max, schedules_max, ..ScopeConfig::of(scheme) }
    }

    fn search(&self, scheme: Scheme, scope: Option<&Scope>) -> Result<Found, TooWide> {
        let config = self.bounds(scheme, scope);
        let watch = ThreadStopwatch::new();
        let tally = match scope {
            None => lifecycle::run(&config)?,
            Some(scope) => scope.run(&config, |_| ())?,
        };
        // Where threads have no clock of their own, the time spent verifying has to do.
        let cpu_s = watch.elapsed().unwrap_or(tally.elapsed).as_secs_f64();
        Ok(Found::Searched { cpu_s, tally: Box::new(tally) })
    }

    /// Recoveries in each scope.
    fn hunt_images_max(&self) -> u64 {
        match (self.size, &self.task) {
            (Size::Full, _) => 10_000_000,
            (Size::Quick, Task::Control(..)) => QUICK_CONTROL_IMAGES_MAX,
            (Size::Quick, _) => 300_000,
        }
    }
}

impl Work for Job {
    type Result = Found;

    fn name(&self) -> String {
        match &self.task {
            Task::Campaign(campaign) => format!("{} {}", campaign.scheme, campaign.workload.name),
            Task::Scope(scheme, scope) => format!("{scheme} {}", name_of(scope.as_deref())),
            Task::Planted(scheme, plant) => format!("{plant} in {scheme}"),
            Task::Control(scheme, plant, scope) => {
                format!("{plant} in {scheme} {}", name_of(scope.as_deref()))
            }
        }
    }

    fn expected_ms(&self) -> u64 {
        let full = |quick, full| if self.size == Size::Full { full } else { quick };
        match &self.task {
            Task::Campaign(_) => full(1_500, 50_000),
            Task::Scope(Scheme::Swift, Some(scope)) if LONG.contains(&scope.name) => {
                full(600, 30_000)
            }
            Task::Scope(..) => full(85, 10_000),
            Task::Planted(..) => full(105, 5_000),
            Task::Control(..) => full(14, 500),
        }
    }

    fn run(&self) -> Result<Found, CrashError> {
        let images_max = self.hunt_images_max();
        let found = match &self.task {
            Task::Campaign(campaign) => {
                return Ok(Found::Campaign(Box::new(campaign.run(&|_| ())?)));
            }
            Task::Scope(scheme, scope) => self.search(*scheme, scope.as_deref()),
            Task::Planted(scheme, plant) => {
                hunt(*plant, *scheme, images_max, |_, _| ()).map(Found::Hunted)
            }
            Task::Control(scheme, control, scope) => {
                look(*control, *scheme, scope.as_deref(), images_max).map(Found::Hunted)
            }
        };
        found.map_err(|source| CrashError::TooWide { what: self.name(), source })
    }
}
