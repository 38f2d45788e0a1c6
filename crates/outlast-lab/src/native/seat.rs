//! A worker of a workload at a runner: what a contestant's thread does.

use std::time::Instant;

use outlast::{Abort, Runner};
use outlast_workloads::Worker;

use crate::bench::Lane;
use crate::stats::Latencies;

/// A thread's runner and its worker.
pub(super) struct Seat<R> {
    pub runner: R,
    pub worker: Worker,
}

impl<R: Runner + Send> Lane for Seat<R> {
    fn run(&mut self, count: u64) -> Result<(), Abort> {
        for _ in 0..count {
            self.worker.step(&mut self.runner)?;
            self.worker.draw();
        }
        Ok(())
    }

    fn run_timed(&mut self, count: u64, latencies: &mut Latencies) -> Result<(), Abort> {
        for _ in 0..count {
            // Drawing the next operation is not part of the call.
            let start = Instant::now();
            self.worker.step(&mut self.runner)?;
            latencies.add(start.elapsed());
            self.worker.draw();
        }
        Ok(())
    }
}
