//! A worker of a workload at a runner: what a subject's thread does.

use std::time::Instant;

use outlast::{Abort, Ack, Lane as PoolLane, Runner, Ticket};
use outlast_peers::PmdkPool;
use outlast_pmem::Medium;
use outlast_workloads::Worker;

use crate::bench::Lane;
use crate::bench::open::{Arrivals, Server, Wall, serve_all};
use crate::stats::Latencies;

/// A thread's runner and its worker.
pub(super) struct LaneRunner<R> {
    pub runner: R,
    pub worker: Worker,
}

/// A runner whose commits have tickets.
pub(super) trait Ticketed: Runner {
    type Ticket: Copy;
    /// Runs the worker's transaction without waiting for its answer.
    fn take(&mut self, worker: &mut Worker) -> Result<Self::Ticket, Abort>;
    fn is_answered(&self, ticket: Self::Ticket) -> bool;
    fn answer(&mut self, ticket: Self::Ticket);
    /// Whether everything that has returned is answered.
    fn has_answered(&self) -> bool {
        true
    }
}

/// A worker at a lane of ours. With `sync_every`, commits are asynchronous and that many are waited for
/// together; `ack` is when others count as answered.
pub(super) fn lane_runner<'p, M: Medium + Sync>(
    lane: PoolLane<'p, M>,
    ack: Ack,
    sync_every: Option<u64>,
    worker: Worker,
) -> Box<dyn Lane + 'p> {
    match sync_every {
        None => {
            let runner = AckLane { lane, ack, last: None, is_open: false };
            Box::new(LaneRunner { runner, worker })
        }
        Some(most) => {
            let runner = AsyncLane { lane, most, unanswered: 0 };
            Box::new(LaneRunner { runner, worker })
        }
    }
}

/// A lane of ours, acknowledged here and not by its pool: an open loop takes tickets and comes
/// back for the answer.
struct AckLane<'p, M: Medium> {
    lane: PoolLane<'p, M>,
    ack: Ack,
    last: Option<Ticket>,
    /// Whether [`run`](Runner::run) leaves the waiting to the caller.
    is_open: bool,
}

impl<'p, M: Medium> Runner for AckLane<'p, M> {
    type Tx = <PoolLane<'p, M> as Runner>::Tx;

    #[inline]
    fn run<R, F>(&mut self, body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut Self::Tx) -> Result<R, Abort>,
    {
        let (result, ticket) = self.lane.run_ticketed(body)?;
        if self.is_open {
            self.last = Some(ticket);
        } else if self.ack == Ack::Physical {
            self.lane.await_physical(ticket)?;
        }
        Ok(result)
    }
}

impl<M: Medium> Ticketed for AckLane<'_, M> {
    /// `None` of a transaction that its program cancelled: that is answered.
    type Ticket = Option<Ticket>;

    fn take(&mut self, worker: &mut Worker) -> Result<Option<Ticket>, Abort> {
        self.is_open = true;
        self.last = None;
        let done = worker.step(self);
        self.is_open = false;
        done.map(|_| self.last)
    }

    fn is_answered(&self, ticket: Option<Ticket>) -> bool {
        match (self.ack, ticket) {
            (Ack::Physical, Some(ticket)) => self.lane.pool().is_physical(ticket),
            _ => true,
        }
    }

    fn answer(&mut self, ticket: Option<Ticket>) {
        if let (Ack::Physical, Some(ticket)) = (self.ack, ticket) {
            self.lane.await_physical(ticket).expect(OURS);
        }
    }
}

const OURS: &str = "the pool was opened by this process";

/// A lane of ours whose commits are asynchronous. Up to `most` are waited for together.
struct AsyncLane<'p, M: Medium> {
    lane: PoolLane<'p, M>,
    most: u64,
    unanswered: u64,
}

impl<'p, M: Medium> Runner for AsyncLane<'p, M> {
    type Tx = <PoolLane<'p, M> as Runner>::Tx;

    #[inline]
    fn run<R, F>(&mut self, body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut Self::Tx) -> Result<R, Abort>,
    {
        let (result, _) = self.lane.run_async(body)?;
        self.unanswered += 1;
        if self.unanswered == self.most {
            self.sync()?;
        }
        Ok(result)
    }

    fn sync(&mut self) -> Result<(), Abort> {
        self.unanswered = 0;
        self.lane.sync()
    }
}

impl<M: Medium> Ticketed for AsyncLane<'_, M> {
    type Ticket = ();

    fn take(&mut self, worker: &mut Worker) -> Result<(), Abort> {
        worker.step(self).map(drop)
    }

    fn is_answered(&self, (): ()) -> bool {
        true
    }

    fn answer(&mut self, (): ()) {}

    fn has_answered(&self) -> bool {
        self.unanswered == 0
    }
}

/// Its commits are physical when they return.
impl Ticketed for PmdkPool {
    type Ticket = ();

    fn take(&mut self, worker: &mut Worker) -> Result<(), Abort> {
        worker.step(self).map(drop)
    }

    fn is_answered(&self, (): ()) -> bool {
        true
    }

    fn answer(&mut self, (): ()) {}
}

impl<R: Ticketed> Server for LaneRunner<R> {
    type Ticket = R::Ticket;

    fn serve(&mut self) -> Result<R::Ticket, Abort> {
        let ticket = self.runner.take(&mut self.worker)?;
        self.worker.draw();
        Ok(ticket)
    }

    fn is_answered(&mut self, ticket: R::Ticket) -> bool {
        self.runner.is_answered(ticket)
    }

    fn answer(&mut self, ticket: R::Ticket) {
        self.runner.answer(ticket);
    }
}

impl<R: Ticketed + Send> Lane for LaneRunner<R> {
    fn run(&mut self, count: u64) -> Result<(), Abort> {
        for _ in 0..count {
            self.worker.step(&mut self.runner)?;
            self.worker.draw();
        }
        Ok(())
    }

    fn run_timed(&mut self, count: u64, latencies: &mut Latencies) -> Result<(), Abort> {
        let mut unanswered = Vec::new();
        for number in 1..=count {
            // Drawing the next operation is not part of the call.
            let start = Instant::now();
            self.worker.step(&mut self.runner)?;
            if number == count && !self.runner.has_answered() {
                self.runner.sync()?;
            }
            if self.runner.has_answered() {
                latencies.add(start.elapsed());
                unanswered.drain(..).for_each(|start: Instant| latencies.add(start.elapsed()));
            } else {
                unanswered.push(start);
            }
            self.worker.draw();
        }
        Ok(())
    }

    fn run_open(
        &mut self,
        arrivals: &mut Arrivals,
        count: u64,
        latencies: &mut Latencies,
    ) -> Result<(), Abort> {
        serve_all(self, &mut Wall::new(), arrivals, count, latencies)
    }
}
