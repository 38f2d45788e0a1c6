use super::*;
use outlast_sim::timed::CoreKind;

fn named(name: &str) -> MachineScheme {
    name.parse().unwrap()
}

#[test]
fn a_stream_and_its_trace_run_alike() {
    let file = tempfile::NamedTempFile::new().unwrap();
    save_trace(Pattern::Friendly, 1, 8000, file.path()).unwrap();
    let ipc = |work| {
        let machine = MachineConfig::named("server").unwrap();
        let simulation = Simulation {
            machine,
            work,
            warm_up: 4000,
            instructions: 4000,
            seed: 1,
            timeline: None,
            scheme: MachineScheme::plain(),
            options: Options::default(),
        };
        let records = run(&simulation).unwrap();
        records.iter().find(|r| r.is(Metric::IPC)).unwrap().value.unwrap()
    };
    let (stream, trace) =
        (ipc(Work::Stream(Pattern::Friendly)), ipc(Work::Trace(file.path().to_owned())));
    assert!((stream / trace - 1.0).abs() < 0.1, "{stream} and {trace}");
}

#[test]
fn exported_requests_take_as_long_on_the_memory_alone() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut machine = MachineConfig::named("server").unwrap();
    machine.set_option("l2.size", "0 B").unwrap();
    machine.set_option("llc.size", "256 KiB").unwrap();
    let value = |records: &[Record], metric, class: Option<&str>| {
        let found = records.iter().find(|r| r.is(metric) && r.class.as_deref() == class);
        found.and_then(|record| record.value).unwrap()
    };
    // From the start the same requests meet the same queues; later, those under way differ.
    for (warm_up, requests_off, latency_off) in [(0, 0.0, 0.01), (20_000, 64.0, 0.1)] {
        let work = Work::Stream(Pattern::Random);
        let machine = machine.clone();
        let simulation = Simulation {
            machine,
            work,
            warm_up,
            instructions: 60_000,
            seed: 1,
            timeline: None,
            scheme: MachineScheme::plain(),
            options: Options::default(),
        };
        let ran = run_exporting(&simulation, file.path()).unwrap();
        let replayed = replay_requests(&simulation.machine, file.path()).unwrap();
        let off = |metric, classes: [Option<&str>; 2]| {
            let (ran, again) =
                (value(&ran, metric, classes[0]), value(&replayed, metric, classes[1]));
            (ran, (again - ran).abs())
        };
        let (reads, reads_off) = off(Metric::MEMORY_READS, [None, None]);
        let (writes, writes_off) = off(Metric::MEMORY_WRITES, [Some("evicted"), None]);
        assert!(reads > 10_000.0 && writes > 1000.0, "{reads} and {writes}");
        let most = requests_off + 16.0; // A read or write may not have arrived at the end.
        assert!(reads_off <= most && writes_off <= most, "{reads_off} and {writes_off}");
        let (latency, apart) = off(Metric::READ_LATENCY, [None, None]);
        assert!(apart <= latency_off * latency, "{warm_up}: {apart} of {latency}");
    }
}

#[test]
fn a_machine_is_said_as_options_that_make_it_again() {
    let set = ["l1.size=4 KiB".to_owned(), "memory.adr=false".to_owned()];
    let machine = settings("hwl", Some(CoreKind::InOrder), &set, &[]).unwrap().remove(0).machine;
    let expected = "--config hwl --core inorder --set l1.size='4 KiB' --set memory.adr='false'";
    assert_eq!(outlast_crash::machine::machine_options(&machine), expected);
}

#[test]
fn a_stream_runs_under_a_scheme_as_transactions() {
    let simulation = |scheme, work| Simulation {
        machine: MachineConfig::named("hwl").unwrap(),
        work,
        warm_up: 2000,
        instructions: 20_000,
        seed: 1,
        timeline: None,
        scheme,
        options: Options::default(),
    };
    let stream = || Work::Stream(Pattern::Friendly);
    let value = |scheme, class| {
        let records = run(&simulation(scheme, stream())).unwrap();
        let of = |r: &&Record| r.is(Metric::MEMORY_WRITES) && r.class.as_deref() == class;
        assert!(records.iter().all(|record| record.scheme == scheme.name()));
        records.iter().find(of).and_then(|record| record.value).unwrap_or(0.0)
    };
    // Eight stores to words of lines of their own, mostly, are three records or more.
    assert!(value(named("fwb"), Some("log")) > 3.0 * 20_000.0 / 80.0);
    assert_eq!(value(MachineScheme::plain(), Some("log")), 0.0);
    let error = run(&simulation(named("redo-clwb"), stream())).unwrap_err().to_string();
    assert!(error.contains("redo-clwb: changes what a program does"), "{error}");
    let trace = Work::Trace("some.trace".into());
    let error = run(&simulation(named("fwb"), trace)).unwrap_err().to_string();
    let right = "some.trace: no transactions in it, and fwb protects nothing else";
    assert!(error.contains(right), "{error}");
}

#[test]
fn a_run_gives_its_records() {
    let simulation = Simulation {
        machine: MachineConfig::named("server").unwrap(),
        work: Work::Stream(Pattern::Friendly),
        warm_up: 2000,
        instructions: 5000,
        seed: 1,
        timeline: None,
        scheme: MachineScheme::plain(),
        options: Options::default(),
    };
    let records = run(&simulation).unwrap();
    let value = |metric: Metric| records.iter().find(|r| r.is(metric)).unwrap().value.unwrap();
    assert!(value(Metric::IPC) > 0.1 && value(Metric::SIM_SPEED) > 0.0);
    assert!(value(Metric::CACHE_HITS) > 1000.0);
    assert!(table(&records).starts_with("friendly on server (ooo)\n  sim_speed"));
}

#[test]
fn a_trace_of_more_lanes_than_a_machine_has_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut log = outlast_trace::OpLog::default();
    outlast_trace::Sink::op(&mut log, outlast_trace::LaneId(u16::MAX), Op::Compute(1));
    outlast_trace::write_trace(file.path(), &log).unwrap();
    let simulation = Simulation {
        machine: MachineConfig::named("server").unwrap(),
        work: Work::Trace(file.path().to_owned()),
        warm_up: 0,
        instructions: 1,
        seed: 1,
        timeline: None,
        scheme: MachineScheme::plain(),
        options: Options::default(),
    };
    let error = run(&simulation).unwrap_err().to_string();
    assert!(error.contains("core.count"), "{error}");
}
