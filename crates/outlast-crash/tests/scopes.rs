//! The runtime in exhaustive scopes: silent as it is, noticed whenever it is broken.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use outlast::lab::Plant;
use outlast::scheme::Site;
use outlast::{Ack, Scheme};
use outlast_crash::runtime::plants;
use outlast_crash::runtime::scopes::{ScopeConfig, lifecycle, table};
use outlast_crash::{Broken, Domain, Model, Tear};

/// Where data waits in the cache there is far more that a crash can leave: then a scope is cut
/// short, and more so where whole pages are compared with their checksums, and for baselines, whose
/// commits are long. `outlast crash all --policy any` goes through all of it.
fn bounded(scheme: Scheme, checksums: bool) -> ScopeConfig {
    match scheme {
        _ if checksums || scheme.is_baseline() => {
            ScopeConfig { schedules_max: 16, images_max: 6_000, ..ScopeConfig::of(scheme) }
        }
        Scheme::UndoArchapt => {
            ScopeConfig { schedules_max: 16, images_max: 15_000, ..ScopeConfig::of(scheme) }
        }
        Scheme::RedoArchapt | Scheme::Swift => {
            ScopeConfig { images_max: 15_000, ..ScopeConfig::of(scheme) }
        }
        _ => ScopeConfig::of(scheme),
    }
}

/// Judges each case, as many at once as there are cores, on threads of that name.
fn judge_each<T: Sync>(name: &str, cases: &[T], judge: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let judge_rest = || {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            judge(case);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().unwrap().get() {
            let named = thread::Builder::new().name(name.into());
            named.spawn_scoped(scope, judge_rest).unwrap();
        }
    });
}

/// Every schedule, every image, every second crash of every scope: nothing is ever wrong, and
/// nothing was left out.
#[test]
fn the_runtime_survives_every_scope_whole() {
    let mut cases = Vec::new();
    for scheme in Scheme::durable() {
        let born = lifecycle::run(&ScopeConfig::of(scheme)).unwrap();
        assert!(born.failure.is_none() && born.complete, "{:?}", born.failure);
        let words = [true, false].map(|packed| table::words(3, 4, 2, packed));
        cases.extend(table::of(scheme).chain(words).map(|scope| (scheme, scope)));
    }
    judge_each("judge", &cases, |(scheme, scope)| {
        let config = bounded(*scheme, scope.checksums);
        let tally = scope.run(&config, |_| ()).unwrap();
        if let Some(guilt) = tally.failure {
            panic!("{scheme}, scope {}: {guilt}", scope.name);
        }
        let at_bound = tally.schedules == scope.schedules_max.min(config.schedules_max)
            || tally.counted() >= config.images_max;
        assert!(tally.complete || at_bound, "{scheme}, scope {}", scope.name);
        if tally.counted() < config.images_max {
            assert_eq!(tally.allowed, tally.covered, "{scheme}, scope {}", scope.name);
        }
        assert!(tally.verified > 0 && tally.distinct > 0);
    });
}

/// Records that are flushed, all of them or only short ones, beside such as go past the caches.
#[test]
fn records_that_are_flushed_lose_nothing() {
    let mut cases = Vec::new();
    for (scheme, stream_from, images_max) in [
        (Scheme::Swift, 2, 6_000),
        (Scheme::Swift, u64::MAX, 6_000),
        (Scheme::RedoArchapt, u64::MAX, 4_000),
        (Scheme::UndoArchapt, 2, 4_000),
        (Scheme::UndoArchapt, u64::MAX, 4_000),
    ] {
        let config = ScopeConfig { stream_from, images_max, ..ScopeConfig::of(scheme) };
        let scopes = table::of(scheme).filter(|scope| !scope.checksums);
        cases.extend(scopes.map(|scope| (config, scope)));
    }
    judge_each("flushed", &cases, |(config, scope)| {
        let ScopeConfig { scheme, stream_from, .. } = *config;
        let tally = scope.run(config, |_| ()).unwrap();
        if let Some(guilt) = tally.failure {
            panic!("{scheme} from {stream_from} lines on, scope {}: {guilt}", scope.name);
        }
        assert!(tally.verified > 0, "scope {}", scope.name);
    });
}

/// A file behind the page cache: sectors persist in any order, and redo logging flushes no data until
/// its ring is full.
fn in_sectors(scheme: Scheme, tear: Tear, plant: Option<Plant>) -> ScopeConfig {
    let model = Model::default().in_domain(Domain::Page).tearing(tear);
    ScopeConfig { model, plant, images_max: 2_500, schedules_max: 8, ..ScopeConfig::of(scheme) }
}

#[test]
fn sectors_in_any_order_lose_nothing() {
    let mut cases = Vec::new();
    for scheme in Scheme::durable() {
        let born = lifecycle::run(&in_sectors(scheme, Tear::Line, None)).unwrap();
        assert!(born.failure.is_none(), "{:?}", born.failure);
        cases.extend(table::of(scheme).map(|scope| (scheme, scope)));
    }
    judge_each("sectors", &cases, |(scheme, scope)| {
        let tally = scope.run(&in_sectors(*scheme, Tear::Line, None), |_| ()).unwrap();
        if let Some(guilt) = tally.failure {
            panic!("{scheme}, scope {}: {guilt}", scope.name);
        }
        assert!(tally.verified > 0, "scope {}", scope.name);
    });
}

/// Sectors that are written while they change tear between words. Each word of `swift`'s ring says itself
/// whether it is there. A record beside the ring has its tag in a line's last word: torn, it is refused
/// as damage, and nothing is lost or torn in silence.
#[test]
fn sectors_torn_between_words_lose_nothing_in_silence() {
    let broken = [Broken::Lost, Broken::Torn].map(Some);
    let cases: Vec<_> = table::of(Scheme::Swift)
        .flat_map(|scope| broken.map(|wanted| (wanted, scope.clone())))
        .collect();
    judge_each("words", &cases, |(wanted, scope)| {
        let config = ScopeConfig { wanted: *wanted, ..in_sectors(Scheme::Swift, Tear::Word, None) };
        let tally = scope.run(&config, |_| ()).unwrap();
        if let Some(guilt) = tally.failure {
            panic!("scope {}: {guilt}", scope.name);
        }
    });
    // Where records are in the ring nothing is refused either.
    let words = table::words(3, 4, 2, true);
    let tally = words.run(&in_sectors(Scheme::Swift, Tear::Word, None), |_| ()).unwrap();
    assert!(tally.failure.is_none() && tally.verified > 0, "{:?}", tally.failure);
}

/// The same, where that is done badly.
#[test]
fn sectors_that_are_not_synced_are_noticed() {
    for plant in [
        Plant::SkipFlush(Site::SweepData),
        Plant::SkipFence(Site::SweepData),
        Plant::SkipFence(Site::RedoRecord),
        Plant::SkipFence(Site::Floor),
    ] {
        for scheme in [Scheme::Swift, Scheme::Redo] {
            let config = in_sectors(scheme, Tear::Line, Some(plant));
            let config = ScopeConfig { images_max: 100_000, schedules_max: u64::MAX, ..config };
            let is_noticed = table::of(scheme)
                .any(|scope| scope.run(&config, |_| ()).unwrap().failure.is_some());
            assert!(is_noticed, "{plant:?} in {scheme}");
        }
    }
}

/// Chunks that become a class's before their bitmaps are durable.
#[test]
fn chunks_that_are_not_empty_yet_are_noticed() {
    for scheme in [Scheme::Swift, Scheme::Redo] {
        let config = in_sectors(scheme, Tear::Line, Some(Plant::SkipFence(Site::ChunkBitmap)));
        let scope = table::of(scheme).find(|scope| scope.name == "chunks ahead").unwrap();
        assert!(scope.run(&config, |_| ()).unwrap().failure.is_some(), "{scheme}");
    }
}

/// Records that are to be flushed, where that is done badly.
#[test]
fn records_that_are_not_flushed_are_noticed() {
    for plant in [
        Plant::SkipFlush(Site::RedoRecord),
        Plant::SkipFence(Site::RedoRecord),
        Plant::FlushBeforeStore,
        Plant::RecordFirstLineUnflushed,
        Plant::RecordLastLineUnflushed,
    ] {
        for scheme in [Scheme::Swift, Scheme::UndoArchapt] {
            let (plant, stream_from) = (Some(plant), u64::MAX);
            let config =
                ScopeConfig { plant, stream_from, images_max: 20_000, ..ScopeConfig::of(scheme) };
            let is_noticed = table::of(scheme)
                .any(|scope| scope.run(&config, |_| ()).unwrap().failure.is_some());
            assert!(is_noticed, "{plant:?} in {scheme}");
        }
    }
}

/// With physical acknowledgement: lanes that sweep until they are answered, beside one that runs
/// alone until another begins, beside one that gives up, over rings used again and again.
#[test]
fn physical_acknowledgement_loses_nothing_and_ends() {
    let names = ["alone", "abort", "pair", "abort two", "joined", "ring"];
    let all: Vec<_> = table::all().into_iter().filter(|s| names.contains(&s.name)).collect();
    assert_eq!(all.len(), names.len());
    for scheme in Scheme::durable() {
        for scope in &all {
            let config =
                if scheme.is_baseline() { bounded(scheme, false) } else { ScopeConfig::of(scheme) };
            let config = ScopeConfig { ack: Ack::Physical, ..config };
            let tally = scope.run(&config, |_| ()).unwrap();
            if let Some(guilt) = tally.failure {
                panic!("{scheme}, scope {}: {guilt}", scope.name);
            }
            let whole = tally.complete && tally.allowed == tally.covered;
            assert!(whole || scheme.is_baseline(), "{scheme}, scope {}", scope.name);
            assert!(tally.verified > 0, "{scheme}, scope {}", scope.name);
        }
    }
}

/// What is unusual and sound is flagged by no scope.
#[test]
fn every_control_is_left_alone() {
    let cases: Vec<_> = Scheme::durable()
        .flat_map(|scheme| Plant::controls().map(move |control| (scheme, control)))
        .collect();
    judge_each("judge", &cases, |(scheme, control)| {
        let images_max = if scheme.is_baseline() { 400 } else { 1_000 };
        let hunted = plants::hunt(*control, *scheme, images_max, |_, _| ()).unwrap();
        if let Some((scope, guilt)) = hunted.killed {
            panic!("{control} in {scheme}, scope {scope}: {guilt}");
        }
    });
}

/// Every planted bug that a scheme's code can have is noticed by some scope.
#[test]
fn every_planted_bug_is_killed() {
    let cases: Vec<(Scheme, Plant)> = Scheme::durable()
        .flat_map(|scheme| Plant::all().map(move |plant| (scheme, plant)))
        .filter(|(scheme, plant)| plant.applies_to(*scheme))
        .collect();
    assert!(cases.len() > 90);
    // Broken runtimes panic; the checker takes that for the verdict it is.
    const HUNTER: &str = "hunter";
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if thread::current().name() != Some(HUNTER) {
            hook(panic);
        }
    }));
    let survivors = Mutex::new(Vec::new());
    judge_each(HUNTER, &cases, |(scheme, plant)| {
        let hunted = plants::hunt(*plant, *scheme, 300_000, |_, _| ()).unwrap();
        if hunted.killed.is_none() {
            survivors.lock().unwrap().push(format!("{scheme} {plant}"));
        }
    });
    assert_eq!(*survivors.lock().unwrap(), Vec::<String>::new());
}
