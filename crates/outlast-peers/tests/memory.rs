//! Our DDR4-3200 and DRAMsim3's: the same requests, the same latency and throughput.

#![cfg(feature = "dramsim3")]

use outlast_peers::memory::{Compared, MemoryStream, Streams, compare};
use outlast_sim::timed::MachineConfig;

/// How far the two may be apart.
const DIFFERENCE_MAX: f64 = 0.1;

#[test]
fn latency_and_throughput_are_those_of_an_independent_simulator() {
    let memory = MachineConfig::named("server").unwrap().memory;
    let streams = Streams::coarse(20_000, 1);
    let compare_all = |streams: &[MemoryStream]| -> Vec<Compared> {
        streams.iter().map(|stream| compare(&memory, stream).unwrap()).collect()
    };
    // Half of them beside the other half.
    let (some, others) = streams.split_at(streams.len() / 2);
    let compared = std::thread::scope(|scope| {
        let others = scope.spawn(|| compare_all(others));
        let mut compared = compare_all(some);
        compared.extend(others.join().unwrap());
        compared
    });
    let apart: Vec<_> =
        compared.iter().filter(|compared| compared.difference() > DIFFERENCE_MAX).collect();
    let lines: Vec<_> = apart.iter().map(ToString::to_string).collect();
    assert!(apart.is_empty(), "{}\n{}", Compared::HEAD, lines.join("\n"));
}

#[test]
fn a_lone_request_takes_the_same_time_to_the_clock() {
    use outlast_sim::timed::MemoryRequest;
    let memory = MachineConfig::named("server").unwrap().memory;
    for at in [0, 1, 100] {
        let request = MemoryRequest { line: outlast_trace::LineAddr(12_345), write: false, at };
        let stream = MemoryStream { name: format!("one read at {at}"), requests: vec![request] };
        let compared = compare(&memory, &stream).unwrap();
        // A clock to the bank's queue, tRCD, CL, four clocks of data.
        assert_eq!(compared.ours.read_latency, 49.0, "{compared}");
        assert_eq!(compared.theirs.read_latency, 49.0, "{compared}");
    }
}

#[test]
fn what_it_has_not_is_said() {
    let mut machine = MachineConfig::named("server").unwrap();
    machine.set_option("memory.scheduling", "fcfs").unwrap();
    let error = compare(&machine.memory, &Streams::coarse(1, 1)[0]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "DRAMsim3 has no memory like this: memory.scheduling is not frfcfs"
    );
}
