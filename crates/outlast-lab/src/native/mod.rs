//! Our schemes and the peers on this machine's memory, workload by workload.
//!
//! For each workload three passes, each with pools of its own that are gone before the next:
//! the competition ([`bench`](crate::bench)) of all schemes on the bare mapping, with its pools
//! made anew several times in an order drawn by the seed, the parts of a
//! transaction ([`parts`]) and what a transaction asks of its medium ([`counting`]). Pools lie
//! in a directory that is removed again however the run ends.

mod bare;
pub mod counting;
mod directory;
mod error;
pub mod floor;
mod flush_kinds;
mod lane_runner;
pub mod parts;
pub mod recovery;
pub mod scaling;
mod scratch;
mod setup;

pub use bare::BareLog;
pub use directory::default_directory;
pub use error::NativeError;
pub use flush_kinds::run as run_flush_kinds;
pub use setup::{Contender, Own, Setup, Sharing, Size, UnknownContender, Usage};

use outlast::Ack;
use outlast_measure::Rounds;
use outlast_peers::{Granularity, Pmdk};
use outlast_pmem::{Counted, Delayed, Mapped, Medium, WriteCost};
use outlast_workloads::{Scale, Workload};

use crate::bench::{Outcome, Subject, compete};
use crate::parallel::in_parallel;
use crate::progress::{Listener, Progress};
use crate::record::Record;
pub(crate) use directory::PoolDirectory;
use parts::Muted;
pub(crate) use scratch::ScratchDirectory;

/// The medium of all runs but those on the plain mapping: delayed, counted and muted as each asks. The
/// runtime and all workloads are compiled for each type of medium, hence one for all three.
type Probed = Muted<Delayed<Counted<Mapped>>>;

/// How a pool's medium is made of its file.
type Wrap<'w, M> = &'w (dyn Fn(Mapped) -> M + Sync);

/// The subject that all others' cost is measured from.
const BOUND: &str = "none";

/// The subjects that costs are related to, whichever is better.
pub(crate) const PEERS: [&str; 2] = ["pmdk", "pmdk-word"];

/// Those whose speed all others' are related to.
pub(crate) const YARDSTICKS: [&str; 4] = ["pmdk-word", "pmdk", "bare", "bare-nt"];

/// Measures every workload of the setup under every scheme.
///
/// Peers that this machine cannot run are left out, with a note.
///
/// # Errors
/// [`NativeError`]: a scale that a workload cannot have, a pool that cannot be made, a
/// transaction that fails. Nothing is left behind.
pub fn run(setup: &Setup, listen: &mut Listener<'_>) -> Result<Vec<Record>, NativeError> {
    setup.check()?;
    let directory = PoolDirectory::new(setup)?;
    let domain = directory.domain();
    listen(Progress::Note(&format!("domain {}: {}", directory.description(), domain.promise())));
    let peers = available_peers(setup, listen);
    tell_of_ack(setup, listen);
    let mut records = Vec::new();
    for workload in &setup.workloads {
        let scale = setup.scale(workload);
        let bare = bare_loops(setup, workload, listen);
        let session =
            Session { setup, directory: &directory, workload, scale, peers: &peers, bare };
        let own = session.measure(listen)?;
        records.extend(own.into_iter().map(|record| session.with_conditions(record)));
    }
    Ok(records)
}

/// Says whose commits are physical anyway.
fn tell_of_ack(setup: &Setup, listen: &mut Listener<'_>) {
    let is_same = |contender: &&Contender| match contender {
        Contender::Own(own) => own.scheme.commits_physically(),
        Contender::Pmdk(_) => true,
        Contender::Bare(_) => false,
    };
    let same: Vec<_> =
        setup.contenders.iter().filter(is_same).map(|contender| contender.name()).collect();
    if setup.ack == Ack::Physical && !same.is_empty() {
        let same = same.join(", ");
        listen(Progress::Note(&format!(
            "physical when they commit, so nothing to wait for: {same}"
        )));
    }
}

/// The peers that were asked for and can run.
fn available_peers(setup: &Setup, listen: &mut Listener<'_>) -> Vec<(Pmdk, Granularity)> {
    let wanted = setup.peers();
    if wanted.is_empty() {
        return Vec::new();
    }
    let why = match Pmdk::load() {
        Err(missing) => missing.to_string(),
        Ok(_) if setup.threads > 1 => "libpmemobj promises no isolation between threads".into(),
        Ok(_) if setup.write_latency_ns > 0 => "its writes cannot be delayed".into(),
        Ok(pmdk) => match pmdk.prefault_new_pools() {
            Ok(()) => return wanted.into_iter().map(|granularity| (pmdk, granularity)).collect(),
            Err(missing) => missing.to_string(),
        },
    };
    listen(Progress::Note(&format!("pmdk is left out: {why}")));
    Vec::new()
}

/// The bare loops that were asked for and can run this workload.
fn bare_loops(setup: &Setup, workload: &Workload, listen: &mut Listener<'_>) -> Vec<BareLog> {
    let wanted = setup.bare_loops();
    if wanted.is_empty() {
        return wanted;
    }
    let why = match workload.swaps() {
        None => "it swaps words and nothing else",
        Some(_) if setup.threads > 1 => "it has one thread",
        Some(_) if setup.ack == Ack::Physical => "it acknowledges what its log holds",
        Some(_) => return wanted,
    };
    listen(Progress::Note(&format!("bare is left out of {}: {why}", workload.name)));
    Vec::new()
}

/// One workload's measurements.
pub(crate) struct Session<'s> {
    setup: &'s Setup,
    directory: &'s PoolDirectory,
    workload: &'static Workload,
    scale: Scale,
    peers: &'s [(Pmdk, Granularity)],
    /// The bare loops that compete.
    bare: Vec<BareLog>,
}

impl Session<'_> {
    fn measure(&self, listen: &mut Listener<'_>) -> Result<Vec<Record>, NativeError> {
        let cost = WriteCost { line_ns: self.setup.write_latency_ns, bandwidth_bytes_per_s: None };
        let delayed = |mapped| Muted::new(Delayed::new(Counted::idle(mapped), cost));
        let mut records = match cost.line_ns {
            0 => self.compete(&|mapped| mapped, listen)?,
            _ => self.compete(&delayed, listen)?,
        };
        if self.setup.parts {
            records.extend(parts::measure(self, &delayed, listen)?);
        }
        if self.setup.counting {
            records.extend(counting::measure(self, listen)?);
        }
        Ok(records)
    }

    /// All schemes against each other, on fresh pools again and again: which memory a pool
    /// happens to get makes it faster or slower for as long as it lives.
    fn compete<M: Medium + Send + Sync + 'static>(
        &self,
        wrap: Wrap<'_, M>,
        listen: &mut Listener<'_>,
    ) -> Result<Vec<Record>, NativeError> {
        let schemes = self.setup.own_schemes();
        let names: Vec<&str> = schemes
            .iter()
            .map(|scheme| scheme.name())
            .chain(self.peers.iter().map(|peer| Contender::Pmdk(peer.1).name()))
            .chain(self.bare.iter().map(|log| Contender::Bare(*log).name()))
            .collect();
        let mut all: Option<Outcome> = None;
        let rounds = if names.is_empty() { 0 } else { self.setup.placements() };
        for order in Rounds::new(rounds, self.setup.seed).orders(names.len()) {
            let outcome = self.compete_once(&schemes, &order, wrap, listen)?;
            match &mut all {
                Some(all) => all.extend(outcome),
                None => all = Some(outcome.in_order_of(&names)),
            }
        }
        Ok(all.map_or_else(Vec::new, |all| {
            let mut records = all.records(self.workload.name, BOUND, &PEERS);
            for yardstick in YARDSTICKS {
                records.extend(all.speeds(self.workload.name, yardstick));
            }
            records
        }))
    }

    /// One such competition, its pools made in this order: numbers below the count of our own
    /// schemes are theirs, then come the peers' and the bare loops'.
    fn compete_once<M: Medium + Send + Sync + 'static>(
        &self,
        schemes: &[Own],
        order: &[usize],
        wrap: Wrap<'_, M>,
        listen: &mut Listener<'_>,
    ) -> Result<Outcome, NativeError> {
        let stage = format!("{}: load", self.workload.name);
        let own: Vec<Own> = order.iter().filter_map(|n| schemes.get(*n).copied()).collect();
        let pools = in_parallel(&own, usize::MAX, &stage, listen, |scheme| {
            self.directory.pool(self, *scheme, self.setup.threads, wrap)
        })?;
        let others: Vec<usize> =
            order.iter().filter_map(|number| number.checked_sub(schemes.len())).collect();
        let others = in_parallel(&others, usize::MAX, &stage, listen, |other| {
            match self.peers.get(*other) {
                Some(&(pmdk, granularity)) => self.directory.peer(self, pmdk, granularity),
                None => self.directory.bare(self, self.bare[other - self.peers.len()], wrap),
            }
        })?;
        let subject = |(name, lane): (&str, _)| Subject::new(name, vec![lane]);
        let mut subjects: Vec<_> = others.into_iter().map(subject).collect();
        for pool in &pools {
            let lane_runners = pool.lanes(self, 0)?;
            subjects.push(Subject::new(pool.own.name(), lane_runners));
        }
        self.race(&mut subjects, 1, listen)
    }

    /// Lets the subjects compete, `sharing` of them on one pool.
    fn race(
        &self,
        subjects: &mut [Subject<'_>],
        sharing: u64,
        listen: &mut Listener<'_>,
    ) -> Result<Outcome, NativeError> {
        let workload = self.workload.name;
        let stage = format!("{workload}: {}", if sharing > 1 { "parts" } else { "run" });
        let plan = self.setup.plan(self.workload, &self.scale, sharing);
        compete(subjects, &plan, |turn| {
            listen(Progress::Step { stage: &stage, done: turn.done, total: turn.total });
        })
        .map_err(|source| NativeError::Bench { workload, source })
    }

    /// Says under what conditions a value was measured.
    fn with_conditions(&self, record: Record) -> Record {
        let mut config = self.workload.describe(&self.scale);
        if self.setup.write_latency_ns > 0 {
            config += &format!(", {} ns added per line written", self.setup.write_latency_ns);
        }
        if let Some(own) = &record.config {
            config = format!("{own}; {config}");
        }
        let guarantee = setup::guarantee(&record.scheme);
        let record = match self.setup.write_latency_ns {
            0 => record,
            ns => record.write_latency_ns(ns),
        };
        record
            .ack(self.setup.ack.name())
            .config(&config)
            .domain(self.directory.short_description())
            .guarantee(&guarantee)
    }
}

#[cfg(test)]
mod tests;
