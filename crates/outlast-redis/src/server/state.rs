//! All that the server knows beside the pool.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mio::Registry;
use outlast::Pool;
use outlast::inspect::Space;
use outlast::medium::Medium;
use uuid::Uuid;

use super::ahead::Ahead;
use super::client::{Answers, Client, Touched};
use super::config::Config;
use super::latency::Latency;
use super::notify::Notifications;
use super::options::Options;
use super::pause::Pause;
use super::pubsub::Channels;
use crate::resp::{ErrorCode, Limits};
use crate::script::Scripts;
use crate::store::{Changes, Root};
use outlast_workloads::Random;

/// How often things are looked after that no client asks for.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// Counts for `INFO`.
#[derive(Default)]
pub(super) struct Counts {
    pub connections: u64,
    pub refused: u64,
    pub commands: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub groups: u64,
    pub errors: u64,
    /// The errors by their first words.
    pub error_codes: BTreeMap<ErrorCode, u64>,
    pub expired: u64,
    pub hits: u64,
    pub misses: u64,
    pub changes: u64,
}

/// The state of a thread that makes a checkpoint.
#[derive(Default)]
pub(super) struct Saving {
    pub runs: AtomicBool,
    pub has_failed: AtomicBool,
    /// When the last one ended, in seconds since 1970.
    pub last: AtomicU64,
}

pub(super) struct State {
    pub pool: Arc<Pool>,
    pub registry: Registry,
    pub root: Root,
    pub options: Options,
    pub config: Config,
    pub random: Random,
    pub changes: Changes,
    pub counts: Counts,
    pub saving: Arc<Saving>,
    pub started: Instant,
    pub run_id: String,
    /// In ms since 1970, as of this round.
    pub now: u64,
    pub clients: Vec<Option<Client>>,
    pub free_slots: Vec<usize>,
    pub slots: HashMap<u64, usize>,
    pub next_id: u64,
    /// Slots whose streams may have something.
    pub to_read: Vec<usize>,
    /// Slots whose input may have commands.
    pub queue: VecDeque<usize>,
    /// Slots with replies to write.
    pub to_write: Vec<usize>,
    /// Reads go here first.
    pub scratch: Box<[u8]>,
    /// Clients that watch a key.
    pub watchers: HashMap<(usize, Vec<u8>), Vec<u64>>,
    /// Clients that wait for a key, the first to come first.
    pub waiting: HashMap<(usize, Vec<u8>), VecDeque<u64>>,
    /// Deadlines of those that wait.
    pub timeouts: BTreeSet<(u64, u64)>,
    pub channels: Channels,
    pub notifications: Notifications,
    pub pause: Option<Pause>,
    pub latency: Latency,
    /// How full the pool was, and when that was looked up.
    pub space: Option<(Instant, Space)>,
    pub space_peak_bytes: u64,
    pub scripts: Scripts,
    pub ahead: Ahead,
    /// Whether a commit waits for a device: then all commits of a round share one sync.
    pub is_paged: bool,
    /// Most commands of the next group: few after a group that could not be committed.
    pub group_max: usize,
    /// The request of a group that runs or failed: its client, and which of its requests.
    pub running: (u64, u64),
    /// A script that was ended in a group, with its error: it is not run again.
    pub ended: Option<((u64, u64), String)>,
    /// Clients of the running group.
    pub touched: Vec<Touched>,
    pub is_asked_to_end: bool,
    /// A write to the pool's file has failed: the pool is read only.
    pub has_failed: bool,
    pub may_have_garbage: bool,
    /// A step of freeing has failed.
    pub has_garbage_left: bool,
    pub expires_actively: bool,
    /// Where the search for expired keys goes on, and in which database.
    pub expiry_cursor: u64,
    pub expiry_database: usize,
    pub last_tick: Instant,
}

/// Codes of errors that are counted one by one; scripts make their own.
const ERROR_CODES_MAX: usize = 128;

/// Bytes that one read takes at most.
const SCRATCH_BYTES: usize = 64 << 10;

impl State {
    pub fn new(pool: Arc<Pool>, registry: Registry, root: Root, options: Options) -> Self {
        let (seed, _) = Uuid::new_v4().as_u64_pair();
        let mut state = Self {
            pool,
            registry,
            root,
            config: Config::new(&options),
            options,
            random: Random::from_state(seed),
            changes: Changes::default(),
            counts: Counts::default(),
            saving: Arc::default(),
            started: Instant::now(),
            run_id: format!("{0}{1:.8}", Uuid::new_v4().simple(), Uuid::new_v4().simple()),
            now: 0,
            clients: Vec::new(),
            free_slots: Vec::new(),
            slots: HashMap::new(),
            next_id: 1,
            to_read: Vec::new(),
            queue: VecDeque::new(),
            to_write: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES].into_boxed_slice(),
            watchers: HashMap::new(),
            waiting: HashMap::new(),
            timeouts: BTreeSet::new(),
            channels: Channels::default(),
            notifications: Notifications::default(),
            pause: None,
            latency: Latency::default(),
            space: None,
            space_peak_bytes: 0,
            scripts: Scripts::default(),
            ahead: Ahead::default(),
            is_paged: false,
            group_max: usize::MAX,
            running: (0, 0),
            ended: None,
            touched: Vec::new(),
            is_asked_to_end: false,
            has_failed: false,
            may_have_garbage: true,
            has_garbage_left: false,
            expires_actively: true,
            expiry_cursor: 0,
            expiry_database: 0,
            last_tick: Instant::now(),
        };
        state.read_clock();
        state.is_paged = state.pool.medium().is_paged();
        state.hold_room_back();
        state
    }

    pub fn read_clock(&mut self) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.now = since.as_millis() as u64;
    }

    /// How long the loop may wait for events.
    pub fn timeout(&self) -> Duration {
        if !self.queue.is_empty() || !self.to_read.is_empty() || self.may_have_garbage {
            return Duration::ZERO;
        }
        let tick = TICK.saturating_sub(self.last_tick.elapsed());
        let resumes = self.pause.as_ref().map(|pause| pause.until);
        match self.timeouts.first().map(|(deadline, _)| *deadline).into_iter().chain(resumes).min()
        {
            Some(deadline) => tick.min(Duration::from_millis(deadline.saturating_sub(self.now))),
            None => tick,
        }
    }

    pub fn client(&mut self, slot: usize) -> Option<&mut Client> {
        self.clients.get_mut(slot)?.as_mut()
    }

    pub fn client_of(&mut self, id: u64) -> Option<&mut Client> {
        let slot = *self.slots.get(&id)?;
        self.client(slot)
    }

    pub fn limits(&self, is_known: bool) -> Limits {
        Limits {
            bulk_bytes_max: self.options.bulk_bytes_max,
            words_max: 1 << 20,
            is_unknown: !is_known && self.options.password.is_some(),
        }
    }

    /// The client has something to be written.
    pub fn list(&mut self, slot: usize) {
        if let Some(client) = self.client(slot)
            && !client.is_listed
        {
            client.is_listed = true;
            self.to_write.push(slot);
        }
    }

    /// Whether some client wants to know which keys change.
    pub fn look_who_wants_changes(&mut self) {
        self.changes.is_wanted = !self.watchers.is_empty() || !self.waiting.is_empty();
        let keys = self.watchers.keys().chain(self.waiting.keys());
        self.changes.watched = keys.cloned().collect();
    }

    /// Counts the errors of a client's replies, which are not taken back any more.
    pub fn count_errors(&mut self, slot: usize) {
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else { return };
        for code in client.reply.take_errors() {
            self.counts.errors += 1;
            let codes = &mut self.counts.error_codes;
            if let Some(count) = codes.get_mut(&code) {
                *count += 1;
            } else if codes.len() < ERROR_CODES_MAX {
                codes.insert(code, 1);
            }
        }
    }

    /// An answer was put behind `before` bytes of others: whether it stays.
    pub fn answered(&mut self, slot: usize, before: usize) {
        if let Some(client) = self.client(slot) {
            match client.answers {
                Answers::On => {}
                Answers::Off | Answers::Skipping => client.reply.truncate(before),
                Answers::Skip => {}
            }
            client.answers = match client.answers {
                Answers::Skip => Answers::Skipping,
                Answers::Skipping => Answers::On,
                other => other,
            };
            if client.reply.bytes.len() > client.sent {
                self.list(slot);
            }
        }
    }
}
