//! One crash of a campaign laid open: the run's operations, the lines that became durable, the image that the
//! crash leaves, and the pool that recovery makes of it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use outlast::inspect::Geometry;
use outlast::recover::UnrecoveredPool;
use outlast_sim::{Cause, Journal};
use outlast_trace::{LINE_BYTES, LineAddr, Op, OpLog, PoolOffset};

use super::crash_points::{Machine, Shared};
use super::record::{Base, Recording};
use super::report::Failure;
use super::{Campaign, CampaignError, Stage};
use crate::explain::{
    Explanation, Fate, Run, Transaction, events_until, place_in, recovery_of, run_lines, state_of,
};
use crate::live;
use crate::oracle::keys::{ABSENT, KeyHistory, KeyState, Transaction as Facts};

/// Transactions that are told: those under way at the crash, and the last ones before it.
const TRANSACTIONS_TOLD: usize = 8;

/// One crash point, with everything about it.
pub struct Look {
    /// The campaign that replays it: one policy, one kind of caches, one point.
    pub campaign: Campaign,
    /// The run's operations, in order.
    pub log: OpLog,
    /// The writes that entered the persistence domain, in order.
    pub journal: Journal,
    /// The number of its entries that are in the image.
    pub entries: usize,
    /// The pool before the run.
    pub base: Vec<u8>,
    /// The bytes that the crash leaves.
    pub image: Vec<u8>,
    /// The bytes after recovery, as far as that came.
    pub recovered: Vec<u8>,
    /// Operations of the recovery.
    pub recovery: OpLog,
    /// The mistake, if there is one.
    pub failure: Option<Failure>,
    facts: Vec<Facts>,
    geometry: Option<Geometry>,
}

/// A transaction of the run.
#[derive(Clone, Copy, Debug)]
pub struct Ran<'l> {
    /// Its number on its lane, from 0.
    pub number: u64,
    /// Its lane.
    pub lane: u16,
    /// Operations before its first.
    pub begun: usize,
    /// The operation that acknowledges it.
    pub acked: usize,
    /// The keys that it wrote, each with the version that it left: `u64::MAX` for none.
    pub writes: &'l [(u64, KeyState)],
}

/// The number on its lane, by which messages call a transaction.
fn number_of(tx: &Facts) -> u64 {
    tx.name.split(' ').find_map(|word| word.parse().ok()).unwrap_or_default()
}

impl Campaign {
    /// Looks at the crash point [`crash_at`](Self::crash_at), under the first policy and caches; without
    /// one, at the first that fails.
    ///
    /// # Errors
    /// The campaign cannot be run, and [`CampaignError::NothingFails`].
    pub fn look(&self) -> Result<Look, CampaignError> {
        self.check()?;
        let campaign = match self.crash_at {
            Some(_) => self.clone(),
            None => {
                let report = Self { until_failure: true, ..self.clone() }.run(&|_| {})?;
                let operations = report.operations;
                report.replay().ok_or(CampaignError::NothingFails { operations })?
            }
        };
        let (Some(at), Some(&policy), Some(&caches)) =
            (campaign.crash_at, campaign.policies.first(), campaign.caches.first())
        else {
            return Err(CampaignError::NothingFails { operations: 0 });
        };
        let campaign = Self { policies: vec![policy], caches: vec![caches], ..campaign };
        let base = Base::load(&campaign)?;
        let recording = Recording::make(&campaign, &base).map_err(CampaignError::Uncrashed)?;
        let history = KeyHistory::new(base.initial.clone(), &recording.transactions);
        let history = history.map_err(CampaignError::Uncrashed)?;
        let (done, last_job) = (AtomicU64::new(0), AtomicUsize::new(usize::MAX));
        let shared = Shared {
            campaign: &campaign,
            base: &base,
            recording: &recording,
            history: &history,
            done: &done,
            last_job: &last_job,
        };
        let seen = shared.look(Machine { policy, caches }, at)?;
        let pool = UnrecoveredPool::open(live(&base.bytes)).and_then(|pool| pool.recover());
        let geometry = pool.ok().map(|pool| pool.header().geometry);
        Ok(Look {
            log: recording.log,
            journal: seen.journal,
            entries: seen.entries,
            base: base.bytes,
            image: seen.image,
            recovered: seen.recovered,
            recovery: seen.recovery,
            failure: seen.failure,
            facts: recording.transactions,
            geometry,
            campaign,
        })
    }
}

impl Look {
    /// The object at an offset.
    pub fn place(&self, at: PoolOffset) -> String {
        place_in(self.geometry.as_ref(), at)
    }

    /// Complete operations before the crash.
    pub fn crash_op(&self) -> usize {
        self.campaign.crash_at.map_or(0, |at| at.ops)
    }

    /// The transactions, lane after lane.
    pub fn transactions(&self) -> impl Iterator<Item = Ran<'_>> {
        self.facts.iter().map(|tx| Ran {
            number: number_of(tx),
            lane: tx.lane,
            begun: tx.begun,
            acked: tx.acked,
            writes: &tx.writes,
        })
    }

    /// The crash, told as [`Scope::explain`](crate::runtime::scopes::Scope::explain) tells one.
    pub fn explain(&self) -> Explanation {
        let campaign = &self.campaign;
        let places = |at: PoolOffset| self.place(at);
        let crash = self.crash_op();
        let fate = |op: usize, what: &Op<'_>| self.fate(op, what);
        let (events, left_out) = events_until(&self.log, crash, &places, fate);
        let (lines, lines_left_out) = self.lines();
        let mut recovery = recovery_of(&(self.recovery.clone(), Vec::new()), &self.image, &places);
        recovery.outcome = match &self.failure {
            Some(failure) if failure.stage == Stage::Run => failure.violation.to_string(),
            _ => "a pool in which every key is as it must be".to_owned(),
        };
        let flaw = campaign.plant.map(|plant| plant.to_string()).unwrap_or_default();
        let about = match campaign.plant {
            Some(plant) => plant.describe(),
            None => format!(
                "{} on {} caches, {}",
                campaign.workload.name, campaign.caches[0], campaign.policies[0]
            ),
        };
        Explanation {
            flaw,
            about,
            scheme: campaign.scheme.name().to_owned(),
            guarantee: campaign.scheme.guarantee().to_string(),
            program: format!(
                "{}, {} transactions on {} lanes, {} keys",
                campaign.workload.name,
                self.facts.len(),
                campaign.lanes,
                campaign.keys
            ),
            transactions: self.told_transactions(crash),
            schedule: String::new(),
            runs: vec![Run {
                name: "the program".to_owned(),
                unit: "operation".to_owned(),
                crash_at: crash as u64,
                left_out,
                events,
                lines,
                lines_left_out,
            }],
            recovery,
            compared: Vec::new(),
            verdict: match &self.failure {
                Some(failure) => failure.to_string(),
                None => "nothing is wrong after this crash".to_owned(),
            },
            replay: campaign.command(),
        }
    }

    fn told_transactions(&self, crash: usize) -> Vec<Transaction> {
        let mut begun: Vec<&Facts> = self.facts.iter().filter(|tx| tx.begun < crash).collect();
        begun.sort_by_key(|tx| tx.acked);
        let from = begun.iter().position(|tx| tx.acked >= crash).unwrap_or(begun.len());
        let shown = begun.into_iter().skip(from.saturating_sub(TRANSACTIONS_TOLD / 2));
        let state = |state: KeyState| match state {
            ABSENT => "removed".to_owned(),
            version => format!("version {version}"),
        };
        let told = |tx: &Facts| {
            let writes: Vec<String> = tx
                .writes
                .iter()
                .map(|&(key, left)| format!("key {key}: {}", state(left)))
                .collect();
            let does = if writes.is_empty() { "reads".to_owned() } else { writes.join(", ") };
            let id = number_of(tx);
            Transaction { id, lane: tx.lane, does, acknowledged: tx.acked < crash }
        };
        shown.take(TRANSACTIONS_TOLD).map(told).collect()
    }

    /// Whether an operation's bytes are in the image, and by which cause.
    fn fate(&self, op: usize, what: &Op<'_>) -> Option<Fate> {
        let lines = stored_lines(what)?;
        let of_line = |line: LineAddr| {
            let mut entries = (0..self.entries).map(|entry| self.journal.get(entry));
            let by = entries.find(|entry| entry.line == line && entry.op >= op);
            by.map(|entry| is_asked(entry.cause))
        };
        let fates: Vec<Option<bool>> = lines.map(of_line).collect();
        let reached = fates.iter().flatten().count();
        Some(match reached {
            0 => Fate::Missing,
            some if some < fates.len() => Fate::Part,
            _ if fates.iter().flatten().all(|asked| *asked) => Fate::Durable,
            _ => Fate::Reached,
        })
    }

    /// The lines that the run stored to, those that the crash decided first.
    fn lines(&self) -> (Vec<crate::explain::Line>, u64) {
        let size = self.image.len();
        let mut newest = self.base.clone();
        newest.resize(size, 0);
        let mut floor = newest.clone();
        let mut touched = BTreeSet::new();
        for op in 0..self.crash_op().min(self.log.len()) {
            let what = self.log.get(op).1;
            if let Some((at, bytes)) = stored(&what) {
                newest[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
                touched.extend(stored_lines(&what).into_iter().flatten());
            }
        }
        for entry in (0..self.entries).map(|entry| self.journal.get(entry)) {
            if is_asked(entry.cause) {
                let at = entry.line.start().0 as usize + 8 * entry.first_word;
                let words = entry.words.as_flattened();
                floor[at..at + words.len()].copy_from_slice(words);
            }
        }
        let mut base = self.base.clone();
        base.resize(size, 0);
        let of = |bytes: &[u8], at: usize| bytes[at..at + LINE_BYTES as usize].to_vec();
        let line = |line: &LineAddr| {
            let at = line.start();
            let states = [&base, &floor, &self.image, &newest];
            state_of(at.0, self.place(at), states.map(|bytes| of(bytes, at.0 as usize)))
        };
        run_lines(touched.iter().filter_map(line).collect())
    }
}

/// Whether the program asked for the write-back, so that it does not happen by chance.
fn is_asked(cause: Cause) -> bool {
    matches!(cause, Cause::Flushed | Cause::Streamed | Cause::Stored)
}

/// An operation's stored bytes, and where they go.
pub fn stored<'o>(op: &Op<'o>) -> Option<(PoolOffset, &'o [u8])> {
    match *op {
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
            Some((at, bytes))
        }
        Op::Store64 { line, bytes } => Some((line.start(), bytes)),
        _ => None,
    }
}

fn stored_lines(op: &Op<'_>) -> Option<impl Iterator<Item = LineAddr> + use<>> {
    let (at, bytes) = stored(op)?;
    let lines = at.0 / LINE_BYTES..(at.0 + bytes.len() as u64).div_ceil(LINE_BYTES);
    Some(lines.map(LineAddr))
}
