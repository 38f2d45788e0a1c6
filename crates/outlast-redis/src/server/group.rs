//! Groups: commands of a round that one transaction runs.

use outlast::{Abort, Lane, Mapped, Runner};

use super::client::Client;
use super::state::State;
use crate::commands::{self, Command, Ctx, Fail, Run, SessionRun};
use crate::resp::{Args, Parsed};
use crate::script::Ended;
use crate::store::mem::Mem;
use crate::store::{Changes, Keys};

/// Commands of one transaction: more of them would only fill a processor's cache.
const COMMANDS_MAX: usize = 64;
/// Bytes of requests of one transaction, about.
const BYTES_MAX: usize = 64 << 10;

pub(super) type PoolLane<'p> = Lane<'p, Mapped>;

/// What the first client of the queue wants.
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
                Next::Data(..) => self.run_group(lane)?,
                Next::Own(slot, own) => self.run_own(lane, slot, own)?,
            }
            self.after_changes(lane)?;
        }
    }

    /// What comes next. Clients without a whole request leave the queue.
    pub fn peek(&mut self) -> Next {
        while let Some(&slot) = self.queue.front() {
            match self.peek_at(slot) {
                Some(next) => return next,
                None => {
                    self.queue.pop_front();
                    if let Some(client) = self.client(slot) {
                        client.tidy();
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
        if client.start == client.input.len() && client.whole.is_none() {
            return None;
        }
        if client.is_http {
            let is_whole = client.input.windows(4).any(|end| end == b"\r\n\r\n");
            return (is_whole || client.input.len() > HTTP_BYTES_MAX)
                .then_some(Next::Own(slot, Own::Http));
        }
        if client.whole.is_none() {
            match client.request.parse(&client.input[client.start..], &limits) {
                Ok(Parsed::Partly) => return None,
                Ok(Parsed::Whole(len)) => client.whole = Some(len),
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

    /// Runs the commands of data at the front of the queue in one transaction.
    fn run_group(&mut self, lane: &mut PoolLane<'_>) -> Result<(), Abort> {
        let most = if self.alone > 0 { 1 } else { COMMANDS_MAX };
        self.touched.clear();
        let (mut begun, mut ran) = (0, 0);
        let outcome = lane.run(|tx| {
            self.rewind();
            (begun, ran) = (0, 0);
            self.group(tx, most, &mut begun, &mut ran)
        });
        self.alone = self.alone.saturating_sub(1);
        self.counts.groups += 1;
        match outcome {
            Ok(()) => {
                self.counts.commands += ran as u64;
                Ok(())
            }
            Err(abort) if is_fatal(&abort) => Err(abort),
            // One of them cannot be done: which?
            Err(_) if begun > 1 => {
                self.rewind();
                self.alone = begun;
                Ok(())
            }
            Err(abort) => {
                let slot = self.touched.first().map(|(slot, ..)| *slot);
                self.rewind();
                if let Some(slot) = slot
                    && let Next::Data(..) = self.peek_at(slot).unwrap_or(Next::Nothing)
                    && let Some(client) = self.client(slot)
                {
                    client.reply.error(&refusal(&abort));
                    client.consume();
                    self.counts.errors += 1;
                    self.list(slot);
                }
                Ok(())
            }
        }
    }

    /// The group has not happened.
    fn rewind(&mut self) {
        self.changes.forget();
        while let Some((slot, reply_len, start)) = self.touched.pop() {
            if let Some(client) = self.client(slot) {
                client.reply.bytes.truncate(reply_len);
                client.start = start;
                client.whole = None;
                client.request.clear();
                self.queue.push_front(slot);
            }
        }
    }

    fn group(
        &mut self,
        tx: &mut Mem<'_>,
        most: usize,
        begun: &mut usize,
        ran: &mut usize,
    ) -> Result<(), Abort> {
        let mut bytes = 0;
        self.ahead.forget();
        while *ran < most && bytes < BYTES_MAX {
            let Next::Data(slot, command) = self.peek() else { break };
            self.look_ahead(tx, slot)?;
            let string_bytes_max = self.options.bulk_bytes_max;
            let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else { break };
            if self.touched.last().is_none_or(|last| last.0 != slot)
                && !self.touched.iter().any(|(touched, ..)| *touched == slot)
            {
                self.touched.push((slot, client.reply.bytes.len(), client.start));
            }
            *begun += 1;
            bytes += client.whole.unwrap_or(0);
            let before = client.reply.bytes.len();
            let changed_before = self.changes.keys.len();
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
                args: Args::new(&input[*start..], &request.ranges),
                out: reply,
                string_bytes_max,
            };
            let done = run_data(command, &mut ctx, before);
            done?;
            client.last_command = command.name;
            client.consume();
            *ran += 1;
            self.answered(slot, before);
            // A client that waits for one of these keys comes before the next command.
            if !self.waiting.is_empty()
                && self.changes.keys[changed_before..]
                    .iter()
                    .any(|key| self.waiting.contains_key(key))
            {
                break;
            }
        }
        Ok(())
    }
}

/// Bytes of a request for metrics.
const HTTP_BYTES_MAX: usize = 8 << 10;

/// The words of the request at the front of a client's input.
pub(super) fn args_of(client: &Client) -> Args<'_> {
    Args::new(&client.input[client.start..], &client.request.ranges)
}

/// Runs a command of data. A mistake of the client's becomes its answer.
pub(crate) fn run_data(
    command: &'static Command,
    ctx: &mut Ctx<'_>,
    before: usize,
) -> Result<(), Abort> {
    let Run::Data(run) = command.run else { return Ok(()) };
    let done = run(ctx);
    commands::events::settle(ctx.keys.changes, command.name, ctx.args);
    match done {
        Ok(()) => Ok(()),
        Err(Fail::Reply(text)) => {
            ctx.out.bytes.truncate(before);
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

/// The error of a command that the pool could not do.
pub(super) fn refusal(abort: &Abort) -> String {
    match abort {
        Abort::OutOfSpace { .. } | Abort::LogFull { .. } => {
            format!("OOM command not allowed when used memory > 'maxmemory'. ({abort})")
        }
        Abort::Cancelled(reason) if let Some(ended) = reason.downcast_ref::<Ended>() => {
            ended.to_string()
        }
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
