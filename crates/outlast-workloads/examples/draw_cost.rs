//! The cost of drawing an operation beside running it on plain memory, and of an audit per key (a
//! field, for YCSB); in nanoseconds.
//!
//! `cargo run --release -p outlast-workloads --example draw_cost [RECORDS]`

use std::time::Instant;

use outlast::PoolOffset;
use outlast_workloads::{Scale, Volatile, judged_workloads};

fn main() {
    let records = std::env::args().nth(1).map(|n| n.parse().expect("RECORDS is a number"));
    println!("{:8} {:>9} {:>9} {:>9}", "workload", "draw", "step", "audit/key");
    for workload in judged_workloads() {
        let mut scale = workload.scale();
        if !matches!(workload.name, "words" | "sps1" | "sps8") {
            let scale_of = workload.scale_of(records.unwrap_or(100_000));
            scale = Scale { operations: 1_000_000, ..scale_of };
        }
        let mut pool = Volatile::new();
        let loaded = workload.load(&scale, 1, &mut pool, &mut |_, _| {}).expect("memory");
        let mut worker = workload.worker(&scale, &loaded, 1, 1, 0);
        let (rounds, steps) = if workload.name == "ycsb-e" { (5, 1_000) } else { (50, 4_000) };
        // The fastest round is the one that nothing else disturbed.
        let fastest = |body: &mut dyn FnMut()| {
            let round = |_| {
                let start = Instant::now();
                (0..steps).for_each(|_| body());
                start.elapsed().as_nanos() as f64 / f64::from(steps)
            };
            (0..rounds).map(round).fold(f64::INFINITY, f64::min)
        };
        let both = fastest(&mut || {
            worker.draw();
            worker.step(&mut pool).expect("nothing fails in memory");
        });
        // Drawing alone takes numbers for insertions that never come; few enough here.
        let draw = fastest(&mut || worker.draw());
        let root = pool.root().expect("the data is loaded");
        let mut read = |at: PoolOffset, out: &mut [u8]| pool.read(at, out);
        let audit = (0..10).map(|_| {
            let mut keys = 0u64;
            let start = Instant::now();
            workload.audit(&scale, root, &mut read, |_, _| keys += 1).expect("the data is sound");
            start.elapsed().as_nanos() as f64 / keys as f64
        });
        let audit = audit.fold(f64::INFINITY, f64::min);
        println!("{:8} {draw:9.1} {:9.1} {audit:9.1}", workload.name, both - draw);
    }
}
