//! What is to be measured, and how much of it.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use outlast::scheme::SCHEMES;
use outlast::{Ack, Scheme};
use outlast_peers::Granularity;
use outlast_pmem::Domain;
use outlast_sim::instead_of;
use outlast_workloads::{Keys, Scale, Workload};

use super::{BareLog, NativeError};
use crate::bench::Plan;

/// Asynchronous commits between two times that they are waited for.
const SYNC_EVERY: u64 = 64;

/// How one of our schemes is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Usage {
    /// Each commit waits until it is durable.
    #[default]
    Plain,
    /// The same, on a pool that keeps checksums.
    Summed,
    /// Commits are asynchronous and waited for 64 at a time.
    Later,
    /// On a log so long that no data has to be flushed while it is measured: what is left when
    /// write-back costs nothing.
    Unswept,
    /// Every record goes past the caches, whatever costs less here.
    Streamed,
    /// No record does.
    Flushed,
    /// A lane takes locks and checks versions though it is alone.
    Locking,
}

/// One of our schemes, and how it is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Own {
    /// The scheme.
    pub scheme: Scheme,
    /// How it is used.
    pub usage: Usage,
}

impl Own {
    /// As schemes are used where nothing is said.
    pub fn plain(scheme: Scheme) -> Self {
        Self { scheme, usage: Usage::Plain }
    }

    /// Those that are measured when asked for by name.
    const ON_REQUEST: [(Self, &str); 9] = {
        const fn own(scheme: Scheme, usage: Usage) -> Own {
            Own { scheme, usage }
        }
        [
            (own(Scheme::UndoArchapt, Usage::Summed), "undo-archapt+sums"),
            (own(Scheme::RedoArchapt, Usage::Summed), "redo-archapt+sums"),
            (own(Scheme::Redo, Usage::Later), "redo-async"),
            (own(Scheme::RedoArchapt, Usage::Later), "redo-archapt-async"),
            (own(Scheme::Swift, Usage::Later), "swift-async"),
            (own(Scheme::RedoArchapt, Usage::Unswept), "redo-archapt-unswept"),
            (own(Scheme::Swift, Usage::Streamed), "swift-streamed"),
            (own(Scheme::Swift, Usage::Flushed), "swift-flushed"),
            (own(Scheme::Swift, Usage::Locking), "swift-locking"),
        ]
    };

    /// After how many commits the next wait is, where not each of them waits.
    pub(super) fn sync_every(self) -> Option<u64> {
        (self.usage == Usage::Later).then_some(SYNC_EVERY)
    }

    /// From how many lines on records are streamed, where that is not tried.
    pub(super) fn stream_from(self) -> Option<u64> {
        match self.usage {
            Usage::Streamed => Some(1),
            Usage::Flushed => Some(u64::MAX),
            _ => None,
        }
    }

    /// The name that commands and results use.
    pub fn name(self) -> &'static str {
        let special = Self::ON_REQUEST.iter().find(|row| row.0 == self);
        special.map_or_else(|| self.scheme.name(), |row| row.1)
    }
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Who can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contender {
    /// One of our schemes.
    Own(Own),
    /// libpmemobj.
    Pmdk(Granularity),
    /// A loop without a runtime, which swaps words and nothing else.
    Bare(BareLog),
}

impl Contender {
    /// All contenders, in the order of tables.
    pub fn all() -> Vec<Self> {
        let own = SCHEMES.iter().map(|row| Self::Own(Own::plain(row.scheme)));
        own.chain([Self::Pmdk(Granularity::Range), Self::Pmdk(Granularity::Word)]).collect()
    }

    /// Those that a report measures: all, in the quick scale without the baselines and the
    /// literal variants.
    fn of(size: Size) -> Vec<Self> {
        let is_extra = |scheme: Scheme| scheme.is_baseline() || scheme.is_published();
        let is_left_out = |contender: &Self| match contender {
            Self::Own(own) => size == Size::Quick && is_extra(own.scheme),
            _ => false,
        };
        Self::all().into_iter().filter(|contender| !is_left_out(contender)).collect()
    }

    /// Those that are measured when asked for by name.
    pub(super) fn on_request() -> impl Iterator<Item = Self> {
        let own = Own::ON_REQUEST.iter().map(|row| Self::Own(row.0));
        own.chain(BareLog::ALL.map(Self::Bare))
    }

    /// The name that commands and results use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own(own) => own.name(),
            Self::Pmdk(Granularity::Range) => "pmdk",
            Self::Pmdk(Granularity::Word) => "pmdk-word",
            Self::Bare(BareLog::Flushed) => "bare",
            Self::Bare(BareLog::Streamed) => "bare-nt",
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no scheme has.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no scheme is called '{0}'; {instead}", instead = instead(.0))]
pub struct UnknownContender(String);

fn instead(name: &str) -> String {
    let all = Contender::all().into_iter().chain(Contender::on_request());
    instead_of(name, all.map(Contender::name))
}

impl FromStr for Contender {
    type Err = UnknownContender;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let all = Self::all().into_iter().chain(Self::on_request());
        let found = all.into_iter().find(|contender| contender.name() == name);
        found.ok_or_else(|| UnknownContender(name.to_owned()))
    }
}

/// What a scheme promises, by its name in records; peers and the bare loop promise what ours do.
pub(super) fn guarantee(scheme: &str) -> String {
    let own = scheme.parse::<Contender>();
    match (scheme.parse::<Scheme>(), own) {
        (Ok(scheme), _) => scheme.guarantee().to_string(),
        (_, Ok(Contender::Own(Own { usage: Usage::Later, .. }))) => "buffered".to_owned(),
        _ => "durable".to_owned(),
    }
}

/// How much of everything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// What [`Workload::quick_scale`] gives: a few minutes in all.
    Quick,
    /// Everything as published; LinkBench with 500,000 nodes.
    Full,
}

impl Size {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// Which keys the threads of one subject draw from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Sharing {
    /// All the same ones.
    #[default]
    Common,
    /// Each its own.
    Apart,
    /// One and the same.
    One,
}

impl FromStr for Sharing {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "common" => Ok(Self::Common),
            "apart" => Ok(Self::Apart),
            "one" => Ok(Self::One),
            other => Err(format!("keys are common, apart or one, not '{other}'")),
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which workloads, in this order.
    pub workloads: Vec<&'static Workload>,
    /// Who competes.
    pub contenders: Vec<Contender>,
    /// The persistence domain; `None` takes the one detected, and emulates `adr` where there is
    /// nothing but volatile memory.
    pub domain: Option<Domain>,
    /// Where the pools are created.
    pub directory: PathBuf,
    /// Threads of each subject.
    pub threads: u32,
    /// How much of each workload.
    pub size: Size,
    /// Records, words or keys instead of those of the size.
    pub records: Option<u64>,
    /// The approximate number of keys of every workload, instead of the usual one: for tests of the
    /// path, not of the speed.
    pub keys: Option<u64>,
    /// Which keys the threads of a subject draw from.
    pub sharing: Sharing,
    /// Rounds of the competition.
    pub rounds: u32,
    /// One subject's turn in a round.
    pub turn: Duration,
    /// Transactions of each lane whose latencies are measured one by one.
    pub latency_transactions: u64,
    /// When transactions are acknowledged.
    pub ack: Ack,
    /// Arrivals per second of an open loop, all threads together, whose latencies are measured
    /// beside those of the closed one.
    pub arrivals_per_s: Option<u64>,
    /// Added to every line that is written back, at the fence that waits for it, in nanoseconds.
    pub write_latency_ns: u64,
    /// Whether to take transactions apart.
    pub parts: bool,
    /// Whether to count flushes and fences.
    pub counting: bool,
    /// Everything random follows from it.
    pub seed: u64,
}

/// Most times that pools are made anew for one workload, and rounds on the same ones at least.
const PLACEMENTS_MAX: u32 = 3;
const ROUNDS_PER_PLACEMENT: u32 = 3;

/// Arrivals closer than this no clock tells apart.
const ARRIVALS_MAX: u64 = 100_000_000;

impl Setup {
    /// All contenders on these workloads, with everything measured.
    pub fn new(workloads: Vec<&'static Workload>, size: Size, seed: u64) -> Self {
        Self {
            workloads,
            contenders: Contender::of(size),
            domain: None,
            directory: super::default_directory(),
            threads: 1,
            size,
            records: None,
            keys: None,
            sharing: Sharing::Common,
            rounds: 9,
            turn: Duration::from_millis(match size {
                Size::Quick => 20,
                Size::Full => 200,
            }),
            latency_transactions: 20_000,
            ack: Ack::default(),
            arrivals_per_s: None,
            write_latency_ns: 0,
            parts: true,
            counting: true,
            seed,
        }
    }

    pub(super) fn check(&self) -> Result<(), NativeError> {
        if self.rounds == 0 {
            return Err(NativeError::Setup("no rounds: there is nothing to measure; 5 or more"));
        }
        if self.threads == 0 || self.threads > 64 {
            return Err(NativeError::Setup("threads: 1 to 64 are possible"));
        }
        if self.turn.is_zero() {
            return Err(NativeError::Setup("a turn of no time measures nothing; 1 ms or more"));
        }
        if self.arrivals_per_s.is_some_and(|rate| !(1..=ARRIVALS_MAX).contains(&rate)) {
            return Err(NativeError::Setup("arrivals: 1 to 100,000,000 a second are possible"));
        }
        for workload in &self.workloads {
            workload.check(&self.scale(workload))?;
        }
        Ok(())
    }

    /// Our schemes among the contenders.
    pub(super) fn own_schemes(&self) -> Vec<Own> {
        let own = |contender: &Contender| match *contender {
            Contender::Own(own) => Some(own),
            Contender::Pmdk(_) | Contender::Bare(_) => None,
        };
        self.contenders.iter().filter_map(own).collect()
    }

    /// The peers among the contenders.
    pub(super) fn peers(&self) -> Vec<Granularity> {
        let peer = |contender: &Contender| match contender {
            Contender::Own(_) | Contender::Bare(_) => None,
            Contender::Pmdk(granularity) => Some(*granularity),
        };
        self.contenders.iter().filter_map(peer).collect()
    }

    /// The bare loops among the contenders.
    pub(super) fn bare_loops(&self) -> Vec<BareLog> {
        let log = |contender: &Contender| match *contender {
            Contender::Bare(log) => Some(log),
            _ => None,
        };
        self.contenders.iter().filter_map(log).collect()
    }

    /// How much of a workload.
    pub fn scale(&self, workload: &Workload) -> Scale {
        let scale = match (self.keys, self.size) {
            (Some(keys), _) => workload.scale_of(keys),
            (None, Size::Quick) => workload.quick_scale(),
            (None, Size::Full) => workload.full_scale(),
        };
        let records = self.records.unwrap_or(scale.records);
        let keys = match self.sharing {
            Sharing::Common => Keys::Common,
            Sharing::Apart => Keys::Apart(self.threads),
            Sharing::One => Keys::One,
        };
        Scale { records, keys, operations: self.operations(workload), ..scale }
    }

    /// How many times the competition's pools are made anew.
    pub(super) fn placements(&self) -> u32 {
        self.rounds.div_ceil(ROUNDS_PER_PLACEMENT).clamp(1, PLACEMENTS_MAX)
    }

    /// Rounds on the same pools.
    fn rounds_each(&self) -> u32 {
        self.rounds.div_ceil(self.placements())
    }

    /// Transactions that one pool has to have room for, all threads together.
    fn operations(&self, workload: &Workload) -> u64 {
        let turns = u64::from(self.rounds) + 2;
        let timed = self.turn.as_nanos() as u64 / workload.tx_ns_min() * turns;
        let passes = 1 + u64::from(self.arrivals_per_s.is_some());
        (timed + passes * self.latency_transactions) * u64::from(self.threads) + 10_000
    }

    /// The plan of a competition in which `sharing` subjects share a pool.
    pub(super) fn plan(&self, workload: &Workload, scale: &Scale, sharing: u64) -> Plan {
        let more = Scale { operations: scale.operations * 2, ..*scale };
        let inserts = workload.heap_bytes(&more) > workload.heap_bytes(scale);
        let lane_runners = sharing * u64::from(self.threads);
        let turns = u64::from(self.rounds) + 2;
        Plan {
            // Parts are not made anew.
            rounds: if sharing > 1 { self.rounds } else { self.rounds_each() },
            turn: self.turn,
            // Parts are differences of times; single calls say nothing about them.
            latency_transactions: if sharing > 1 { 0 } else { self.latency_transactions },
            arrivals_per_s: self.arrivals_per_s.filter(|_| sharing == 1),
            transactions_max: if inserts {
                scale.operations / turns / lane_runners
            } else {
                u64::MAX
            },
            seed: self.seed,
        }
    }

    /// Bytes of all pools that exist at the same time.
    pub fn pool_bytes(&self) -> u64 {
        let competing = self.contenders.len() as u64;
        let largest = self.workloads.iter().map(|w| w.heap_bytes(&self.scale(w))).max();
        super::directory::room(largest.unwrap_or(0)) * competing
    }

    /// How long all this will take, about. Turns are as long as the setup says; loading takes
    /// what it took per byte on the machine on which this was written.
    pub fn estimate(&self) -> Duration {
        const LOAD_NS_PER_BYTE: u64 = 3;
        let (own, peers) = (self.own_schemes().len() as u64, self.peers().len() as u64);
        let parted = own.saturating_sub(1) * 3 + 1;
        let (passes, turns) = (1 + u64::from(self.parts), u64::from(self.rounds) + 1);
        let subjects = own + peers + if self.parts { parted } else { 0 };
        let again = u64::from(self.placements()) - 1;
        let runs = self.turn * (turns * subjects) as u32 * self.workloads.len() as u32;
        let bytes: u64 = self.workloads.iter().map(|w| w.heap_bytes(&self.scale(w))).sum();
        let pools = again * (peers + own) + peers + own * (passes + u64::from(self.counting));
        runs + Duration::from_nanos(bytes * pools * LOAD_NS_PER_BYTE)
    }
}
