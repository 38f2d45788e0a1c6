//! Groups: commands of a round that one transaction runs.

use std::sync::Arc;

use outlast::medium::Mapped;
use outlast::{Abort, Lane, Runner};

use super::client::{Client, Touched};
use super::failed::Reader;
use super::state::State;
use crate::commands::{self, Command, Ctx, Fail, Run, SessionRun};
use crate::resp::{Args, Parsed};
use crate::script::Ended;
use crate::store::mem::Mem;
use crate::store::{Changes, Keys, garbage};

/// Commands of one transaction, and bytes of their requests, about: more of them would only fill a
/// processor's cache.
const GROUP_MAX: (usize, usize) = (64, 64 << 10);
/// The same where a commit waits for a device, which takes longer than anything a cache saves.
const PAGED_GROUP_MAX: (usize, usize) = (16 << 10, 4 << 20);

pub(super) type PoolLane<'p> = Lane<'p, Mapped>;

/// The request of the queue's first client.
pub(super) enum Next {
    /// Nothing is whole.
    Nothing,
    /// A command of data, by a client that is not between `MULTI` and `EXEC`.
    Data(usize, &'static Command),
    /// Something that the server does itself.
    Own(usize, Own),
}

pub(super) enum Own {
    Session(&'static Command, SessionRun),
    /// A command that waits for `EXEC`.
    Queued(&'static Command),
    /// A request that cannot be done.
    Refused(String),
    /// A frame that is none.
    Broken(String),
    /// A request of HTTP.
    Http,
    /// Nothing was said.
    Empty,
}

impl State {
    /// Runs what has arrived, as far as it is whole.
    pub fn run_all(&mut self, lane: &mut PoolLane<'_>) -> Result<(), Abort> {
        loop {
            match self.peek() {
                Next::Nothing => return Ok(()),
                Next::Own(slot, own) if !self.is_groupable(slot, &own) => {
                    self.run_own(lane, slot, own)?;
                }
                _ => self.run_group(lane)?,
            }
            self.after_changes(lane)?;
        }
    }

    /// The next request. Clients without a whole request leave the queue.
    pub fn peek(&mut self) -> Next {
        while let Some(&slot) = self.queue.front() {
            match self.peek_at(slot) {
                Some(next) => return next,
                None => {
                    self.queue.pop_front();
                    if let Some(client) = self.client(slot) {
                        // A group that is taken back needs its requests again.
                        if !client.is_touched {
                            client.tidy();
                        }
                        if client.has_ended {
                            self.list(slot);
                        }
                    }
                }
            }
        }
        Next::Nothing
    }

    fn peek_at(&mut self, slot: usize) -> Option<Next> {
        let limits = self.limits(self.clients.get(slot)?.as_ref()?.is_known);
        let client = self.clients.get_mut(slot)?.as_mut()?;
        if client.blocked.is_some() || client.is_closing || Self::is_held_back(client) {
            return None;
        }
        if client.start == client.input.len() {
            return None;
        }
        if client.is_http {
            let is_whole = client.input.windows(4).any(|end| end == b"\r\n\r\n");
            return (is_whole || client.input.len() > HTTP_BYTES_MAX)
                .then_some(Next::Own(slot, Own::Http));
        }
        if !client.request.is_begun() {
            self.ahead.hand_over(slot, client);
        }
        if client.request.whole().is_none() {
            match client.request.parse(&client.input[client.start..], &limits) {
                Ok(Parsed::Partly) => return None,
                Ok(Parsed::Whole(_)) => {}
                Err(what) => return Some(Next::Own(slot, Own::Broken(what))),
            }
        }
        if self.is_paused(slot) {
            return None;
        }
        Some(self.classify(slot))
    }

    fn classify(&mut self, slot: usize) -> Next {
        let Some(client) = self.clients.get(slot).and_then(Option::as_ref) else {
            return Next::Nothing;
        };
        let args = args_of(client);
        if args.is_empty() {
            return Next::Own(slot, Own::Empty);
        }
        let Some(command) = commands::find(args.at(0)) else {
            return Next::Own(slot, Own::Refused(unknown(args)));
        };
        if !command.takes(args.len()) {
            let what = format!("ERR wrong number of arguments for '{}' command", command.name);
            return Next::Own(slot, Own::Refused(what));
        }
        if let Some(what) = commands::subcommand_refusal(command.name, args) {
            return Next::Own(slot, Own::Refused(what));
        }
        if !client.is_known && !command.has_flag("no_auth") {
            return Next::Own(slot, Own::Refused("NOAUTH Authentication required.".to_owned()));
        }
        if client.subscriptions() > 0 && !client.reply.is_resp3 && !may_run_subscribed(command) {
            let what = format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                command.name
            );
            return Next::Own(slot, Own::Refused(what));
        }
        if client.multi.is_some() && matches!(command.name, "save" | "shutdown") {
            let what = "ERR Command not allowed inside a transaction";
            return Next::Own(slot, Own::Refused(what.to_owned()));
        }
        if client.multi.is_some() && !ends_multi(command) {
            return Next::Own(slot, Own::Queued(command));
        }
        match command.run {
            Run::Data(_) if super::streams::waits(command, args) => {
                Next::Own(slot, Own::Session(command, SessionRun::StreamRead))
            }
            Run::Data(_) => Next::Data(slot, command),
            Run::Session(run) => Next::Own(slot, Own::Session(command, run)),
        }
    }

    /// Runs the commands at the front of the queue in one transaction.
    fn run_group(&mut self, lane: &mut PoolLane<'_>) -> Result<(), Abort> {
        let bounds = if self.is_paged { PAGED_GROUP_MAX } else { GROUP_MAX };
        let most = self.group_max.min(bounds.0);
        let (mut begun, mut ran, mut is_committing) = (0, 0, false);
        let mut body = |state: &mut Self, tx: &mut Mem<'_>| {
            state.rewind();
            (begun, ran, is_committing) = (0, 0, false);
            state.group(tx, (most, bounds.1), &mut begun, &mut ran)?;
            is_committing = true;
            Ok(())
        };
        let outcome = match most {
            1 => self.run_or_free(lane, body),
            _ => self.run_together(lane, |state, tx| body(state, tx)),
        };
        self.counts.groups += 1;
        match outcome {
            Ok(()) => {
                self.counts.commands += ran as u64;
                self.group_max = most.saturating_mul(2);
                for touched in std::mem::take(&mut self.touched) {
                    if let Some(client) = self.client(touched.slot) {
                        client.is_touched = false;
                        client.tidy();
                    }
                }
                Ok(())
            }
            Err(abort) if is_fatal(&abort) => Err(abort),
            // Its last command cannot be done, or all of them not in one record: what comes before runs
            // first, then the one alone.
            Err(abort) if most > 1 => {
                if let Abort::Cancelled(reason) = &abort
                    && reason.downcast_ref::<Ended>().is_some()
                {
                    self.ended = Some((self.running, refusal(&abort)));
                }
                self.rewind();
                self.group_max = match is_committing {
                    true => begun / 2,
                    false => begun.saturating_sub(1),
                }
                .max(1);
                Ok(())
            }
            Err(abort) => {
                let slot = self.touched.first().map(|touched| touched.slot);
                self.rewind();
                if let Some(slot) = slot
                    && let Some(Next::Data(..) | Next::Own(..)) = self.peek_at(slot)
                    && let Some(client) = self.client(slot)
                {
                    client.reply.error(&refusal(&abort));
                    if args_of(client).get(0).is_some_and(|name| commands::is(name, "EXEC")) {
                        client.multi = None;
                    }
                    client.consume();
                    self.list(slot);
                }
                Ok(())
            }
        }
    }

    /// A transaction, durable once the round is synced.
    pub fn run_together<R>(
        &mut self,
        lane: &mut PoolLane<'_>,
        mut body: impl FnMut(&mut Self, &mut Mem<'_>) -> Result<R, Abort>,
    ) -> Result<R, Abort> {
        let pool = Arc::clone(&self.pool);
        if let Some(mut reader) = Reader::of(&pool) {
            return body(self, &mut reader);
        }
        match self.is_paged {
            true => lane.run_later(|tx| body(self, tx)),
            false => lane.run(|tx| body(self, tx)),
        }
    }

    /// Runs a transaction. Where the pool is full, what was discarded is freed first; then it runs with the
    /// room that is held back for commands that free, and those that need room are refused.
    pub fn run_or_free<R>(
        &mut self,
        lane: &mut PoolLane<'_>,
        mut body: impl FnMut(&mut Self, &mut Mem<'_>) -> Result<R, Abort>,
    ) -> Result<R, Abort> {
        let sent = self.channels.sent;
        let full = loop {
            match self.run_together(lane, &mut body) {
                // A message cannot be taken back, nor is it to be sent twice.
                Err(abort) if is_full(&abort) && self.channels.sent == sent => {
                    if !self.free_garbage(lane)? {
                        break abort;
                    }
                }
                done => return done,
            }
        };
        let again = self.run_held_back(lane, &mut body);
        again.map_err(|abort| if is_full(&abort) { full } else { abort })
    }

    /// Runs a transaction that may use the room that is held back.
    fn run_held_back<R>(
        &mut self,
        lane: &mut PoolLane<'_>,
        body: impl FnMut(&mut Self, &mut Mem<'_>) -> Result<R, Abort>,
    ) -> Result<R, Abort> {
        self.pool.hold_back(0);
        self.changes.is_tight = true;
        let done = self.run_together(lane, body);
        self.changes.is_tight = false;
        self.hold_room_back();
        done
    }

    /// Frees some of what commands have discarded. `false` when nothing was left of it.
    pub fn free_garbage(&mut self, lane: &mut PoolLane<'_>) -> Result<bool, Abort> {
        let mut has_freed = false;
        for _ in 0..GARBAGE_STEPS {
            if !self.may_have_garbage {
                break;
            }
            let root = self.root;
            match self.run_held_back(lane, |_, tx| garbage::step(tx, &root)) {
                Ok(is_left) => {
                    self.may_have_garbage = is_left;
                    has_freed |= is_left;
                }
                Err(abort @ Abort::Damaged(_)) => return Err(abort),
                Err(_) => {
                    // A step that fails is tried again by a later tick.
                    (self.may_have_garbage, self.has_garbage_left) = (false, true);
                    return Ok(has_freed);
                }
            }
        }
        Ok(has_freed)
    }

    /// Commands that need room leave some to those that free.
    pub fn hold_room_back(&self) {
        self.pool.hold_back(HELD_BACK_BYTES);
    }

    /// The group has not happened.
    fn rewind(&mut self) {
        self.changes.forget();
        self.ahead.forget();
        while let Some(touched) = self.touched.pop() {
            let slot = touched.slot;
            let Some(mut client) = self.clients.get_mut(slot).and_then(Option::take) else {
                continue;
            };
            self.forget_wait(&mut client);
            client.is_touched = false;
            client.reply.truncate(touched.reply_len);
            client.start = touched.start;
            client.requests = touched.requests;
            client.answers = touched.answers;
            client.database = touched.database;
            client.multi = touched.multi;
            client.request.clear();
            self.clients[slot] = Some(client);
            self.queue.push_front(slot);
        }
    }

    /// The running group has a command of the client.
    fn touch(&mut self, slot: usize) {
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else { return };
        if !client.is_touched {
            client.is_touched = true;
            self.touched.push(Touched {
                slot,
                reply_len: client.reply.bytes.len(),
                start: client.start,
                requests: client.requests,
                answers: client.answers,
                database: client.database,
                multi: client.multi.clone(),
            });
        }
    }

    /// Whether a group may have it: all its effects are the pool's, or its client's that
    /// [`rewind`](Self::rewind) undoes.
    fn is_groupable(&self, slot: usize, own: &Own) -> bool {
        let Some(client) = self.clients.get(slot).and_then(Option::as_ref) else { return false };
        match own {
            Own::Queued(_) | Own::Refused(_) | Own::Empty => true,
            Own::Broken(_) | Own::Http => false,
            Own::Session(_, run) => match run {
                SessionRun::Ping
                | SessionRun::Echo
                | SessionRun::Time
                | SessionRun::Select
                | SessionRun::Multi
                | SessionRun::BlockingPop
                | SessionRun::BlockingMove => true,
                // A message cannot be taken back.
                SessionRun::Eval => self.channels.is_empty(),
                // Watched keys may be changed by the group.
                SessionRun::Exec => {
                    client.watching.is_empty()
                        && client.multi.as_ref().is_some_and(|multi| {
                            multi.commands.iter().all(|(row, _)| matches!(row.run, Run::Data(_)))
                        })
                }
                _ => false,
            },
        }
    }

    fn group(
        &mut self,
        tx: &mut Mem<'_>,
        (commands_max, bytes_max): (usize, usize),
        begun: &mut usize,
        ran: &mut usize,
    ) -> Result<(), Abort> {
        let mut bytes = 0;
        self.ahead.forget();
        while *ran < commands_max && bytes < bytes_max {
            let next = self.peek();
            let slot = match &next {
                Next::Data(slot, _) => *slot,
                Next::Own(slot, own) if self.is_groupable(*slot, own) => *slot,
                _ => break,
            };
            self.touch(slot);
            *begun += 1;
            let changed_before = self.changes.keys.len();
            let Some(client) = self.client(slot) else { break };
            bytes += client.request.whole().unwrap_or(0);
            self.running = (client.id, client.requests);
            match next {
                Next::Data(_, command) => {
                    self.look_ahead(tx, slot)?;
                    self.data(tx, slot, command)?;
                }
                Next::Own(_, own) => self.own_in_group(tx, slot, own)?,
                Next::Nothing => break,
            }
            *ran += 1;
            // A client that waits for one of these keys comes before the next command.
            if !self.waiting.is_empty()
                && self.changes.keys[changed_before..]
                    .iter()
                    .any(|key| self.waiting.contains_key(key))
            {
                break;
            }
        }
        self.ahead.forget();
        Ok(())
    }

    /// The command of data at the front of a client's input.
    fn data(
        &mut self,
        tx: &mut Mem<'_>,
        slot: usize,
        command: &'static Command,
    ) -> Result<(), Abort> {
        let string_bytes_max = self.options.bulk_bytes_max;
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else {
            return Ok(());
        };
        let before = client.reply.bytes.len();
        let Client { input, start, request, reply, database, .. } = client;
        let mut ctx = Ctx {
            keys: Keys {
                mem: tx,
                root: self.root,
                database: *database,
                now: self.now,
                changes: &mut self.changes,
                random: &mut self.random,
            },
            args: request.words(&input[*start..]),
            out: reply,
            string_bytes_max,
        };
        run_data(command, &mut ctx, before)?;
        client.last_command = command.name;
        client.consume();
        self.answered(slot, before);
        Ok(())
    }

    /// A request at the front of a client's input that is no command of data.
    fn own_in_group(&mut self, tx: &mut Mem<'_>, slot: usize, own: Own) -> Result<(), Abort> {
        let Some(client) = self.client(slot) else { return Ok(()) };
        let before = client.reply.bytes.len();
        match own {
            Own::Session(command, run) => {
                let args = args_of(client).to_owned();
                client.last_command = command.name;
                match run {
                    SessionRun::Eval
                        if self.ended.as_ref().is_some_and(|ended| ended.0 == self.running) =>
                    {
                        let what = self.ended.take().map(|ended| ended.1).unwrap_or_default();
                        self.say(slot, |out| out.error(&what));
                    }
                    SessionRun::Exec => {
                        let multi = self.client(slot).and_then(|client| client.multi.take());
                        let multi = multi.unwrap_or_default();
                        self.exec_in(tx, slot, &multi)?;
                    }
                    _ => self.session(tx, slot, run, args.view(), true)?,
                }
                if let Some(client) = self.client(slot) {
                    client.consume();
                }
                self.answered(slot, before);
            }
            own => self.answer_own(slot, own),
        }
        Ok(())
    }
}

/// Held back of a pool of any size: enough for the log record of a `DEL` of some ten thousand keys. It
/// does not depend on the size, so that a pool that has grown is not refused what it had.
const HELD_BACK_BYTES: u64 = 1 << 20;

/// Steps of freeing before a command that has found no room is tried again.
const GARBAGE_STEPS: usize = 256;

/// Bytes of a request for metrics.
const HTTP_BYTES_MAX: usize = 8 << 10;

/// The words of the request at the front of a client's input.
pub(super) fn args_of(client: &Client) -> Args<'_> {
    client.request.words(&client.input[client.start..])
}

/// Runs a command of data. A mistake of the client's becomes its answer.
pub(crate) fn run_data(
    command: &'static Command,
    ctx: &mut Ctx<'_>,
    before: usize,
) -> Result<(), Abort> {
    let Run::Data(run) = command.run else { return Ok(()) };
    if ctx.keys.changes.is_tight && command.has_flag("denyoom") {
        return Err(Abort::OutOfSpace { bytes: 0 });
    }
    let done = run(ctx);
    commands::events::settle(ctx.keys.changes, command.name, ctx.args);
    match done {
        Ok(()) => Ok(()),
        Err(Fail::Reply(text)) => {
            ctx.out.truncate(before);
            ctx.out.error(&text);
            Ok(())
        }
        Err(Fail::Abort(abort)) => Err(abort),
    }
}

fn unknown(args: Args<'_>) -> String {
    let text = |word: &[u8]| String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
    let mut what =
        format!("ERR unknown command '{}', with args beginning with: ", text(args.at(0)));
    for word in args.from(1).iter() {
        if what.len() > 256 {
            break;
        }
        what.push_str(&format!("'{}' ", text(word)));
    }
    what
}

fn may_run_subscribed(command: &Command) -> bool {
    matches!(
        command.name,
        "subscribe" | "psubscribe" | "unsubscribe" | "punsubscribe" | "ping" | "quit" | "reset"
    )
}

fn ends_multi(command: &Command) -> bool {
    matches!(command.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}

/// Whether the server cannot go on.
pub(super) fn is_fatal(abort: &Abort) -> bool {
    matches!(abort, Abort::Forked | Abort::NumbersUsedUp | Abort::ReadOnly)
}

/// Whether the pool had no room.
fn is_full(abort: &Abort) -> bool {
    matches!(abort, Abort::OutOfSpace { .. } | Abort::LogFull { .. })
}

/// The error of a command that the pool could not do.
pub(super) fn refusal(abort: &Abort) -> String {
    match abort {
        Abort::OutOfSpace { .. } | Abort::LogFull { .. } => {
            format!("OOM command not allowed when used memory > 'maxmemory'. ({abort})")
        }
        Abort::Medium(failure) => format!("MISCONF Nothing can be made durable: {failure}"),
        Abort::Cancelled(reason) => match reason.downcast_ref::<Ended>() {
            Some(ended) => ended.to_string(),
            None => format!("ERR {abort}"),
        },
        other => format!("ERR {other}"),
    }
}

impl Changes {
    /// Nothing of it has happened.
    pub fn forget(&mut self) {
        self.keys.clear();
        self.facts.clear();
        self.events.clear();
        (self.count, self.expired, self.hits, self.misses) = (0, 0, 0, 0);
    }
}
