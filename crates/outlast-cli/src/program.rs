//! What a program or workload of the machine is to run: options that several commands have.

use clap::{Args, ValueEnum};
use outlast_sim::timed::CoreKind;
use outlast_workloads::Workload;
use outlast_workloads::machine::Plan;
use outlast_workloads::own::OwnWork;

use crate::{names, size};

/// Most bytes of a program's data: they are in memory here several times.
const FOOTPRINT_MAX: u64 = 2 << 30;

/// Keys of a workload of the runtime where nothing says how many.
const KEYS_DEFAULT: u64 = 100_000;

/// Transactions where nothing says how many.
const TRANSACTIONS_DEFAULT: u64 = 20_000;

#[derive(Clone, Copy, ValueEnum)]
pub enum CoreName {
    /// Out of order.
    Ooo,
    /// In order.
    Inorder,
}

impl CoreName {
    /// The kind that was asked for.
    pub fn kind(name: Option<Self>) -> Option<CoreKind> {
        name.map(|core| match core {
            Self::Ooo => CoreKind::OutOfOrder,
            Self::Inorder => CoreKind::InOrder,
        })
    }
}

#[derive(Args)]
pub struct ProgramArgs {
    /// Threads of a workload or a program, each on a core of its own [default: 1; of a file of one's own
    /// transactions, its lanes].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Option<u32>,
    /// Keys of a workload of the runtime at first [default: 100,000].
    #[arg(long, value_parser = clap::value_parser!(u64).range(4..=1 << 22))]
    pub keys: Option<u64>,
    /// Bytes of a program's data, all threads together [default: an eighth of the published]. For a
    /// workload of the runtime it says how many keys, unless --keys does.
    #[arg(long, value_parser = size::within(64, FOOTPRINT_MAX))]
    pub footprint: Option<u64>,
    /// Transactions of a workload or a program that count, all threads together; a quarter more
    /// runs before [default: 20,000; of a file of one's own, all, and none before].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub transactions: Option<u64>,
    /// All threads of a program on one set of data, under one lock.
    #[arg(long)]
    pub shared: bool,
    /// Another thread runs on the same core in the middle of every N-th transaction.
    #[arg(long, default_value_t = 0, value_name = "N",
        value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    pub switch_every: u64,
    /// Every N-th transaction of a thread aborts when it has made its stores, and is not done again.
    #[arg(long, default_value_t = 0, value_name = "N",
        value_parser = clap::value_parser!(u64).range(..=10_000_000))]
    pub abort_every: u64,
    /// Items that a transaction overwrites, of workloads that have such, instead of the usual number.
    #[arg(long, default_value_t = 0, value_name = "N",
        value_parser = clap::value_parser!(u64).range(..=65_536))]
    pub batch: u64,
}

impl ProgramArgs {
    /// The plan of a workload.
    pub fn plan(&self, workload: &'static Workload, seed: u64) -> Plan {
        let transactions = self.transactions_of(workload);
        Plan {
            workload,
            footprint: workload
                .footprint_of(self.keys_of(workload))
                .unwrap_or_else(|| self.footprint.unwrap_or(workload.footprint() / 8)),
            threads: self.threads_of(workload) as u16,
            warm_up: if workload.own().is_some() { 0 } else { transactions / 4 },
            transactions,
            shared: self.shared,
            switch_every: self.switch_every,
            abort_every: self.abort_every,
            batch: self.batch,
            seed,
        }
    }

    /// Refuses options that a file of one's own transactions says itself.
    pub fn check(&self, workload: &Workload) -> Result<(), String> {
        let Some(work) = workload.own() else { return Ok(()) };
        let given = [
            ("--keys", self.keys.is_some()),
            ("--footprint", self.footprint.is_some()),
            ("--shared", self.shared),
            ("--switch-every", self.switch_every > 0),
            ("--batch", self.batch > 0),
            ("--threads", self.threads.is_some_and(|n| n != u32::from(work.lanes()))),
        ];
        names::check_of_file(workload, &given)
    }

    /// Transactions of all threads together that count.
    pub fn transactions_of(&self, workload: &Workload) -> u64 {
        let of_file = workload.own().map(OwnWork::len);
        self.transactions.or(of_file).unwrap_or(TRANSACTIONS_DEFAULT)
    }

    /// Threads that run it.
    pub fn threads_of(&self, workload: &Workload) -> u32 {
        let of_file = workload.own().map(|work| work.lanes().into());
        self.threads.or(of_file).unwrap_or(1)
    }

    /// Keys of a workload of the runtime: the same under every scheme.
    pub fn keys_of(&self, workload: &Workload) -> u64 {
        if let Some(work) = workload.own() {
            return work.words();
        }
        let in_footprint = || self.footprint.and_then(|bytes| workload.keys_in(bytes));
        self.keys.or_else(in_footprint).unwrap_or(KEYS_DEFAULT)
    }
}
