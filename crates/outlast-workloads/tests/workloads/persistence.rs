//! Lines flushed, lines streamed and fences of a transaction: exact, at every level of optimisation.
//!
//! A medium counts them as the runtime asks for them. Operations are drawn from one seed, so a run
//! repeats, and one fence or line too many is seen.

use outlast::medium::{CreateOptions, OpenOptions};
use outlast::{Pool, Scheme};
use outlast_pmem::{Counted, Counters, Heap};
use outlast_workloads::Workload;

/// Transactions before those that count: the log has gone round, and the write-back with it.
const BEFORE: u64 = 8_000;

/// Transactions that are counted.
const COUNTED: u64 = 2_000;

/// Workload and scheme; lines flushed, lines streamed and fences of all counted transactions.
const EXPECTED: &[(&str, Scheme, [u64; 3])] = &[
    ("sps1", Scheme::Swift, [4004, 2000, 2006]),
    ("sps8", Scheme::Swift, [32012, 10000, 2030]),
    ("hash", Scheme::Swift, [1253, 1129, 1004]),
    ("queue", Scheme::Swift, [131, 2000, 2006]),
    ("sps1", Scheme::Redo, [6002, 0, 2003]),
    ("sps8", Scheme::Redo, [42005, 0, 2009]),
    ("hash", Scheme::Redo, [2353, 0, 1001]),
    ("queue", Scheme::Redo, [5001, 0, 2003]),
    ("sps1", Scheme::Undo, [8000, 0, 4000]),
    ("sps8", Scheme::Undo, [43999, 0, 6000]),
    ("hash", Scheme::Undo, [3500, 0, 2002]),
    ("queue", Scheme::Undo, [6999, 0, 4000]),
];

fn count(workload: &Workload, scheme: Scheme) -> Counters {
    let scale = workload.quick_scale();
    let bytes = (16 << 20) + 2 * workload.heap_bytes(&scale);
    // Not tried at opening, so that it is the same in each run.
    let open = OpenOptions { stream_from: Some(1), ..OpenOptions::with_scheme(scheme) };
    let medium = Counted::new(Heap::new(bytes));
    let pool = Pool::create_on(medium, &CreateOptions::default(), &open).unwrap();
    let mut lane = pool.lane().unwrap();
    let loaded = workload.load(&scale, 1, &mut lane, &mut |_, _| {}).unwrap();
    let mut worker = workload.worker(&scale, &loaded, 1, 1, 0);
    let mut run = |transactions| {
        for _ in 0..transactions {
            worker.draw();
            worker.step(&mut lane).unwrap();
        }
        pool.medium().counters()
    };
    let before = run(BEFORE);
    run(COUNTED) - before
}

#[test]
fn a_transaction_flushes_streams_and_fences_as_often_as_recorded() {
    let counted = EXPECTED.iter().map(|(name, scheme, _)| {
        let of = count(Workload::named(name).unwrap(), *scheme);
        (*name, *scheme, [of.flushed_lines, of.streamed_lines, of.fences])
    });
    let counted: Vec<_> = counted.collect();
    assert_eq!(counted, EXPECTED, "workload, scheme, lines flushed, lines streamed, fences");
}
