//! Work of one's own leaves the same memory wherever it runs: by the file's order, in a pool on real memory, and
//! on the timed machine, under software and as bare transactions. Planted bugs show with it, controls do not.
#![cfg(not(miri))]

use std::sync::Arc;

use outlast::Runner;
use outlast::Scheme;
use outlast::medium::{CreateOptions, OpenOptions};
use outlast::recover::UnrecoveredPool;
use outlast::scheme::SCHEMES;
use outlast::{Pool, PoolOffset};
use outlast_crash::machine;
use outlast_crash::runtime::campaign::{Caches, Campaign, Points, TimedCampaign};
use outlast_crash::runtime::scopes::own::scope_of;
use outlast_crash::runtime::scopes::{ScopeConfig, Tally};
use outlast_lab::simulated::RuntimeRun;
use outlast_pmem::{Domain, Heap, MapOptions, Mapped, Medium};
use outlast_schemes::{MachineScheme, plants};
use outlast_sim::timed::{LaneOps, MachineConfig, NonPers, Setup, Source, System};
use outlast_trace::{LaneId, LineAddr};
use outlast_workloads::machine::Plan;
use outlast_workloads::own::{OwnStep, OwnTransaction, OwnWork};
use outlast_workloads::{Random, Workload};

/// Three lanes over memory of their own each, with values that come back, pauses and stores of many words.
fn apart() -> &'static Workload {
    drawn("apart.work", 3, 8192, |lane, random| 1024 * u64::from(lane) + random.below(40))
}

/// Two lanes whose transactions read and write the same words: which order they took shows in no value.
fn meeting() -> &'static Workload {
    let text = "outlast-work 1\nmemory 128\nlanes 2\ninit 0 7 7\n".to_owned();
    let both = |lane| format!("tx {lane}\nload 0 2\nthink 8\nstore 0 9\nstore 64 9\nend\n");
    let back = |lane| format!("tx {lane}\nload 64\nstore 64 3 4\nstore 0 7\nend\n");
    let passes: String = (0..6).map(|_| both(0) + &back(1) + &back(0) + &both(1)).collect();
    Workload::of_work("meeting.work", (text + &passes).parse().unwrap())
}

fn drawn(
    name: &str,
    lanes: u16,
    words: u64,
    place: impl Fn(u16, &mut Random) -> u64,
) -> &'static Workload {
    let mut random = Random::stream(7, 7);
    let mut transactions = Vec::new();
    for number in 0..40 * u64::from(lanes) {
        // Lanes have different numbers of transactions.
        let lane = random.below(number % u64::from(lanes) + 1) as u16;
        let mut steps = Vec::new();
        for _ in 0..random.below(5) {
            let word = place(lane, &mut random);
            steps.push(match random.below(4) {
                0 => OwnStep::Load { word, words: 1 + random.below(9) },
                1 => OwnStep::Think(random.below(200) as u32),
                2 => OwnStep::Store { word, values: vec![random.below(3)] },
                _ => {
                    let values = (0..1 + random.below(12)).map(|_| random.below(4)).collect();
                    OwnStep::Store { word, values }
                }
            });
        }
        transactions.push(OwnTransaction { lane, steps });
    }
    let initial = (0..30).map(|n| (place((n % u64::from(lanes)) as u16, &mut random), n)).collect();
    Workload::of_work(name, OwnWork::new(8 * words, lanes, initial, transactions).unwrap())
}

fn work(workload: &Workload) -> &'static OwnWork {
    workload.own().unwrap()
}

/// The words in a pool of these bytes.
fn words_in(workload: &Workload, bytes: &[u8]) -> Vec<u64> {
    let heap = Heap::from_bytes(bytes);
    let recovered = UnrecoveredPool::open(heap).unwrap().recover().unwrap();
    let root = recovered.root().unwrap().unwrap();
    let pool = recovered.start(&OpenOptions::default()).unwrap();
    let medium = pool.medium();
    let mut read = |at: PoolOffset, out: &mut [u8]| {
        let is_inside = at.0.checked_add(out.len() as u64).is_some_and(|end| end <= medium.len());
        if is_inside {
            medium.load(at, out);
        }
        is_inside
    };
    let mut words = Vec::new();
    let visit = |_, version: outlast_workloads::Version| words.push(version.0);
    workload.audit(&workload.scale(), root, &mut read, visit).unwrap();
    words
}

/// All transactions in a pool on mapped memory, each lane a thread.
fn native(workload: &'static Workload, scheme: Scheme) -> Vec<u64> {
    let folder = tempfile::tempdir().unwrap();
    let (scale, lanes) = (workload.scale(), work(workload).lanes());
    let map = MapOptions { domain: Some(Domain::Adr), ..MapOptions::default() };
    let medium = Mapped::create(folder.path().join("pool"), 32 << 20, &map).unwrap();
    let create = CreateOptions { lanes: lanes.into(), ..CreateOptions::default() };
    let pool = Pool::create_on(medium, &create, &OpenOptions::with_scheme(scheme)).unwrap();
    let mut lane = pool.lane().unwrap();
    let loaded = workload.load(&scale, 1, &mut lane, &mut |_, _| {}).unwrap();
    drop(lane);
    std::thread::scope(|scope| {
        for number in 0..lanes {
            let (pool, loaded) = (&pool, &loaded);
            scope.spawn(move || {
                let mut lane = pool.lane_at(number.into()).unwrap();
                let mut worker = workload.worker(&scale, loaded, 1, number as u8 + 1, 0);
                for _ in work(workload).of_lane(number) {
                    worker.step(&mut lane).unwrap();
                    worker.draw();
                }
                lane.sync().unwrap();
            });
        }
    });
    let medium = pool.close();
    let mut bytes = vec![0; medium.len() as usize];
    medium.load(PoolOffset(0), &mut bytes);
    words_in(workload, &bytes)
}

/// Memory of a machine that has run these lanes.
fn run(image: Vec<u8>, sources: Vec<Box<dyn Source>>) -> Vec<u8> {
    let mut config = MachineConfig::named("tiny").unwrap();
    config.core.count = sources.len() as u32;
    let lines = image.len() as u64 / 64;
    let setup = Setup { base: image, ..Setup::default() };
    let mut system = System::new(&config, NonPers, setup, sources).unwrap();
    system.run_to_end().unwrap();
    (0..lines).flat_map(|line| system.line(LineAddr(line))).collect()
}

/// The same on the machine, under a scheme of the runtime.
fn simulated(workload: &'static Workload, scheme: Scheme) -> Vec<u64> {
    let campaign = Campaign::new(workload, scheme).of_file();
    let lanes = campaign.lanes;
    let timed = TimedCampaign {
        campaign,
        points: None,
        warm_up: 0,
        machine: MachineConfig::named("tiny").unwrap(),
        costs: Default::default(),
        timeline: None,
    };
    let recording = timed.recording().unwrap().unwrap();
    let source = |lane| -> Box<dyn Source> {
        Box::new(LaneOps::new(Arc::clone(&recording.log), LaneId(lane)))
    };
    words_in(workload, &run(recording.image.clone(), (0..lanes).map(source).collect()))
}

fn plan(workload: &'static Workload) -> Plan {
    let plan = Plan {
        workload,
        footprint: 0,
        threads: 1,
        warm_up: 0,
        transactions: 0,
        shared: false,
        switch_every: 0,
        abort_every: 0,
        batch: 0,
        seed: 1,
    };
    plan.of_file()
}

/// The same as bare transactions.
fn bare(workload: &'static Workload) -> Vec<u64> {
    let recorded = plan(workload).record().unwrap();
    let source = |lane: u16| -> Box<dyn Source> {
        let log = Arc::clone(&recorded.streams[recorded.stream_of(lane)]);
        Box::new(LaneOps::new(log, LaneId(lane)))
    };
    let sources = (0..recorded.lanes()).map(source).collect();
    let memory = run(recorded.image.to_vec(), sources);
    let words = memory[4096..].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    words.take(work(workload).words() as usize).collect()
}

#[test]
fn memory_at_the_end_is_the_same_wherever_it_ran() {
    let workload = apart();
    let wanted = work(workload).memory_at_end();
    assert!(bare(workload) == wanted, "bare transactions");
    for row in SCHEMES.iter().filter(|row| row.guarantee.name() == "durable") {
        assert!(native(workload, row.scheme) == wanted, "{}, native", row.name);
        assert!(simulated(workload, row.scheme) == wanted, "{}, simulated", row.name);
    }
    // Lanes that meet take the file's order on the machine.
    let workload = meeting();
    let wanted = work(workload).memory_at_end();
    assert_eq!(bare(workload), wanted);
    for scheme in [Scheme::Undo, Scheme::Swift] {
        assert_eq!(simulated(workload, scheme), wanted, "{scheme}");
    }
}

fn campaign(workload: &'static Workload, scheme: Scheme) -> Campaign {
    let campaign = Campaign::new(workload, scheme).of_file();
    let caches = vec![Caches::Tiny, Caches::TinyExclusive];
    Campaign { caches, points: 120, ..campaign }
}

#[test]
fn crashes_of_sound_schemes_lose_nothing() {
    for workload in [apart(), meeting()] {
        for scheme in [Scheme::Undo, Scheme::Redo, Scheme::Swift] {
            let report = campaign(workload, scheme).run(&|_| {}).unwrap();
            assert!(!report.is_guilty(), "{} {scheme}: {:?}", workload.name, report.failure);
            assert!(report.total().crash_points > 200, "{}", report.total().crash_points);
            assert_eq!(report.transactions as u64, work(workload).len());
        }
        let none = campaign(workload, Scheme::None).run(&|_| {}).unwrap();
        assert!(none.total().losses() > 0, "{} under none", workload.name);
    }
}

#[test]
fn planted_bugs_of_the_runtime_are_found_and_controls_are_not() {
    let is_guilty = |workload, scheme: Scheme, plant: &str| {
        let plant = Some(plant.parse().unwrap());
        let campaign = Campaign { plant, until_failure: true, ..campaign(workload, scheme) };
        campaign.run(&|_| {}).unwrap().is_guilty()
    };
    let bugs = [
        (Scheme::Undo, "skip-flush:UndoData"),
        (Scheme::Undo, "skip-flush:UndoRecord"),
        (Scheme::Swift, "skip-flush:RedoRecord"),
        (Scheme::Swift, "skip-fence:RedoRecord"),
    ];
    for (scheme, plant) in bugs {
        assert!(is_guilty(apart(), scheme, plant), "{plant} in {scheme}");
        assert!(is_guilty(meeting(), scheme, plant), "{plant} in {scheme}, lanes that meet");
    }
    for (scheme, control) in [(Scheme::Undo, "flush-twice"), (Scheme::Swift, "fence-twice")] {
        assert!(!is_guilty(apart(), scheme, control), "{control} in {scheme}");
    }
    let timed = |plant: Option<&str>| {
        let run = RuntimeRun {
            machine: MachineConfig::named("tiny").unwrap(),
            workload: apart(),
            scheme: Scheme::Undo,
            keys: work(apart()).words(),
            lanes: work(apart()).lanes(),
            lane_bytes: 4 << 10,
            transactions: work(apart()).len() as u32,
            points: Some(Points::Some(60)),
            plant: plant.map(|plant| plant.parse().unwrap()),
            seed: 1,
            work: RuntimeRun::NOT_COUNTED,
            timeline: None,
        };
        RuntimeRun::is_guilty(&run.run().unwrap())
    };
    assert!(timed(Some("skip-flush:UndoData")));
    assert!(!timed(Some("flush-twice")) && !timed(None));
}

/// Small enough for every image.
fn small() -> &'static Workload {
    let text = "outlast-work 1\nmemory 8192\nlanes 2\ntx 0\nload 0\nstore 0 1\nstore 4096 1\nend\n\
                tx 1\nstore 4096 2\nend\n";
    Workload::of_work("small.work", text.parse().unwrap())
}

#[test]
fn every_image_of_a_small_file_is_searched() {
    let search = |scheme, plant: Option<&str>| -> Tally {
        let plant = plant.map(|plant| plant.parse().unwrap());
        let config = ScopeConfig { plant, ..ScopeConfig::of(scheme) };
        scope_of(small(), work(small())).unwrap().run(&config, |_| ()).unwrap()
    };
    for scheme in [Scheme::Undo, Scheme::Swift] {
        let tally = search(scheme, None);
        assert!(tally.failure.is_none() && tally.verified > 20, "{scheme}: {tally:?}");
        assert!(tally.schedules > 1, "both orders of the lanes");
    }
    assert!(search(Scheme::Undo, Some("skip-flush:UndoData")).failure.is_some());
    assert!(search(Scheme::Undo, Some("flush-twice")).failure.is_none());
    let why = scope_of(apart(), work(apart())).unwrap_err();
    assert!(why.contains("takes up to 8 transactions, and the file has 120"), "{why}");
}

#[test]
fn schemes_of_the_machine_are_crashed_and_judged() {
    let report = |workload: &Workload, scheme: MachineScheme, plant| {
        let small = machine::Campaign::small(scheme, workload.name, 1);
        let points = machine::Points::Some(40);
        machine::Campaign { plant, points, second_crash: false, ..small }.run().unwrap()
    };
    for workload in [apart(), meeting()] {
        for name in ["fwb", "redu", "ssp", "ehou", "picl", "undo-clwb"] {
            let report = report(workload, name.parse().unwrap(), None);
            assert!(!report.is_guilty(), "{} {name}: {:?}", workload.name, report.first);
            assert!(report.images > 20 && report.resumed > 0, "{name}: {report:?}");
        }
        let unsound = report(workload, "unsafe-redo".parse().unwrap(), None);
        assert!(unsound.broken > 0, "{}: {unsound:?}", workload.name);
    }
    let (mut found, mut tried) = (0, 0);
    for plant in plants().filter(|plant| plant.shown_by.variant == "fwb") {
        let is_guilty = report(apart(), "fwb".parse().unwrap(), Some(plant)).is_guilty();
        assert!(!(plant.is_control() && is_guilty), "{}", plant.name);
        tried += u32::from(!plant.is_control());
        found += u32::from(is_guilty);
    }
    assert!(tried > 0 && found > 0, "{found} of {tried} planted bugs were found");
}
