//! Commands that concern clients and the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlast::{Abort, Pool, Runner};

use super::blocked::wish_of;
use super::client::{Answers, Blocked, Multi, Wish};
use super::clients::{BAD_NAME, is_name};
use super::group::{Own, PoolLane, is_fatal, refusal, run_data};
use super::info::VERSION;
use super::state::{Saving, State};
use crate::commands::{
    self, Command, Ctx, Fail, Run, SYNTAX, SessionRun, Side, encoding, is, parse_multi_pop,
    zset_side,
};
use crate::number::{parse_double, parse_int};
use crate::resp::{Args, OwnedArgs, Reply};
use crate::store::mem::Mem;
use crate::store::{DATABASES, Keys};

impl State {
    /// Does what is no command of data.
    pub fn run_own(&mut self, lane: &mut PoolLane<'_>, slot: usize, own: Own) -> Result<(), Abort> {
        let Some(client) = self.client(slot) else { return Ok(()) };
        let before = client.reply.bytes.len();
        if !matches!(own, Own::Empty | Own::Http) {
            self.counts.commands += 1;
        }
        let Some(client) = self.client(slot) else { return Ok(()) };
        match own {
            Own::Http => {
                let request = std::mem::take(&mut client.input);
                client.start = 0;
                let answer = self.run_together(lane, |state, tx| state.metrics(tx, &request))?;
                if let Some(client) = self.client(slot) {
                    client.reply.bytes.extend_from_slice(answer.as_bytes());
                    client.is_closing = true;
                }
                self.list(slot);
            }
            Own::Session(command, run) => {
                let args = super::group::args_of(client).to_owned();
                client.last_command = command.name;
                client.consume();
                if run == SessionRun::Exec {
                    self.exec(lane, slot)?;
                } else {
                    self.run_session(lane, slot, run, &args, before)?;
                }
                self.answered(slot, before);
            }
            own => self.answer_own(slot, own),
        }
        Ok(())
    }

    /// Answers what needs the client and nothing else.
    pub fn answer_own(&mut self, slot: usize, own: Own) {
        let Some(client) = self.client(slot) else { return };
        let before = client.reply.bytes.len();
        match own {
            Own::Empty => client.consume(),
            Own::Refused(what) => {
                if let Some(multi) = &mut client.multi {
                    multi.is_refused = true;
                }
                client.reply.error(&what);
                client.consume();
                self.answered(slot, before);
            }
            Own::Broken(what) => {
                client.reply.error(&format!("ERR {what}"));
                client.is_closing = true;
                self.list(slot);
            }
            Own::Queued(command) => {
                let args = super::group::args_of(client).to_owned();
                client.multi.get_or_insert_with(Multi::default).commands.push((command, args));
                client.reply.simple("QUEUED");
                client.consume();
                self.answered(slot, before);
            }
            Own::Http | Own::Session(..) => {}
        }
    }

    fn run_session(
        &mut self,
        lane: &mut PoolLane<'_>,
        slot: usize,
        run: SessionRun,
        args: &OwnedArgs,
        before: usize,
    ) -> Result<(), Abort> {
        if matches!(run, SessionRun::Save) {
            // Not within a transaction: the copy is of one moment.
            match lane.sync() {
                Err(abort) if !is_fatal(&abort) => {
                    self.say(slot, |out| out.error(&refusal(&abort)));
                }
                synced => {
                    synced?;
                    self.save(slot, args.view());
                }
            }
            return Ok(());
        }
        let outcome = self.run_or_free(lane, |state, tx| {
            state.changes.forget();
            if let Some(client) = state.client(slot) {
                client.reply.truncate(before);
            }
            state.session(tx, slot, run, args.view(), true)
        });
        match outcome {
            Ok(()) => Ok(()),
            Err(abort) if is_fatal(&abort) => Err(abort),
            Err(abort) => {
                self.changes.forget();
                if let Some(client) = self.client(slot) {
                    client.reply.truncate(before);
                    client.reply.error(&refusal(&abort));
                }
                Ok(())
            }
        }
    }

    /// Runs the commands that wait, as one transaction of the pool.
    fn exec(&mut self, lane: &mut PoolLane<'_>, slot: usize) -> Result<(), Abort> {
        let Some(client) = self.client(slot) else { return Ok(()) };
        let Some(multi) = client.multi.take() else {
            client.reply.error("ERR EXEC without MULTI");
            return Ok(());
        };
        // A watched key whose deadline has passed has changed.
        let watching = client.watching.clone();
        if !watching.is_empty() {
            let looked = self.run_or_free(lane, |state, tx| {
                for (database, key) in &watching {
                    state.keys(tx, *database).find(key)?;
                }
                Ok(())
            });
            match looked {
                Err(abort) if !is_fatal(&abort) => {
                    self.stop_watching(slot);
                    self.say(slot, |out| out.error(&refusal(&abort)));
                    return Ok(());
                }
                looked => looked?,
            }
            self.mark_all_watchers();
        }
        let Some(client) = self.client(slot) else { return Ok(()) };
        let is_dirty = client.is_dirty;
        self.stop_watching(slot);
        let Some(client) = self.client(slot) else { return Ok(()) };
        if multi.is_refused {
            client.reply.error("EXECABORT Transaction discarded because of previous errors.");
            return Ok(());
        }
        if is_dirty {
            client.reply.null_array();
            return Ok(());
        }
        let before = client.reply.bytes.len();
        let outcome = self.run_or_free(lane, |state, tx| {
            state.changes.forget();
            if let Some(client) = state.client(slot) {
                client.reply.truncate(before);
            }
            state.exec_in(tx, slot, &multi)
        });
        match outcome {
            Ok(()) => {}
            Err(abort) if is_fatal(&abort) => return Err(abort),
            Err(abort) => {
                self.changes.forget();
                if let Some(client) = self.client(slot) {
                    client.reply.truncate(before);
                    client.reply.error(&refusal(&abort));
                }
            }
        }
        Ok(())
    }

    /// Runs commands that have waited in a transaction that has begun.
    pub fn exec_in(&mut self, tx: &mut Mem<'_>, slot: usize, multi: &Multi) -> Result<(), Abort> {
        let Some(client) = self.client(slot) else { return Ok(()) };
        if multi.is_refused {
            client.reply.error("EXECABORT Transaction discarded because of previous errors.");
            return Ok(());
        }
        client.reply.array(multi.commands.len());
        for (command, args) in &multi.commands {
            self.counts.commands += 1;
            match command.run {
                Run::Session(SessionRun::Save) => {
                    self.say(slot, |out| out.error("ERR SAVE is not allowed in a transaction"));
                }
                Run::Session(run) => self.session(tx, slot, run, args.view(), false)?,
                Run::Data(_) => self.one(tx, slot, command, args.view())?,
            }
        }
        Ok(())
    }

    pub fn keys<'a>(&'a mut self, tx: &'a mut Mem<'_>, database: usize) -> Keys<'a> {
        Keys {
            mem: tx,
            root: self.root,
            database,
            now: self.now,
            changes: &mut self.changes,
            random: &mut self.random,
        }
    }

    /// A command of data in a transaction that has begun.
    pub fn one(
        &mut self,
        tx: &mut Mem<'_>,
        slot: usize,
        command: &'static Command,
        args: Args<'_>,
    ) -> Result<(), Abort> {
        let Some(mut reply) = self.client(slot).map(|client| std::mem::take(&mut client.reply))
        else {
            return Ok(());
        };
        let database = self.client(slot).map_or(0, |client| client.database);
        let string_bytes_max = self.options.bulk_bytes_max;
        let before = reply.bytes.len();
        let mut ctx =
            Ctx { keys: self.keys(tx, database), args, out: &mut reply, string_bytes_max };
        let done = run_data(command, &mut ctx, before);
        if let Some(client) = self.client(slot) {
            client.reply = reply;
        }
        done
    }

    /// Forgets what the client watches.
    fn stop_watching(&mut self, slot: usize) {
        let Some(mut client) = self.clients.get_mut(slot).and_then(Option::take) else { return };
        self.forget_watches(&mut client);
        self.clients[slot] = Some(client);
    }

    pub fn session(
        &mut self,
        tx: &mut Mem<'_>,
        slot: usize,
        run: SessionRun,
        args: Args<'_>,
        may_block: bool,
    ) -> Result<(), Abort> {
        match run {
            SessionRun::BlockingPop | SessionRun::BlockingMove | SessionRun::StreamRead => {
                return self.pop_or_block(tx, slot, args, may_block);
            }
            SessionRun::Info => {
                let wanted: Vec<String> = args
                    .from(1)
                    .iter()
                    .map(|name| String::from_utf8_lossy(name).to_lowercase())
                    .collect();
                let text = self.info(tx, &wanted)?;
                if let Some(client) = self.client(slot) {
                    client.reply.verbatim(&text);
                }
                return Ok(());
            }
            SessionRun::Watch => return self.watch(tx, slot, args, may_block),
            SessionRun::Debug => return self.debug(tx, slot, args),
            SessionRun::Eval => return self.eval(tx, slot, args),
            SessionRun::Script => {
                let mut reply = Reply::default();
                self.scripts.script(args, &mut reply);
                self.say(slot, |out| out.append(reply));
            }
            SessionRun::Subscribe => self.subscribe(slot, args),
            SessionRun::Unsubscribe => self.unsubscribe(slot, args),
            SessionRun::PubSub => self.pubsub(slot, args),
            SessionRun::Publish => {
                let sent = self.publish(args.at(1), args.at(2));
                if let Some(client) = self.client(slot) {
                    client.reply.len(sent);
                }
            }
            SessionRun::Unwatch => {
                self.stop_watching(slot);
                self.say(slot, Reply::ok);
            }
            SessionRun::Discard => {
                let had = self.client(slot).and_then(|client| client.multi.take()).is_some();
                if had {
                    self.stop_watching(slot);
                }
                self.say(slot, |out| match had {
                    true => out.ok(),
                    false => out.error("ERR DISCARD without MULTI"),
                });
            }
            SessionRun::Reset => self.reset(slot),
            SessionRun::Config => self.config(slot, args),
            SessionRun::Client => self.client_command(slot, args),
            SessionRun::BgSave => self.bgsave(slot),
            SessionRun::Shutdown => self.is_asked_to_end = true,
            SessionRun::Hello => self.hello(slot, args),
            SessionRun::Auth => self.auth(slot, args),
            _ => self.plain(slot, run, args),
        }
        Ok(())
    }

    /// Commands that need a client and nothing else.
    fn plain(&mut self, slot: usize, run: SessionRun, args: Args<'_>) {
        let now = self.now;
        let last_save = self.saving.last.load(Ordering::Acquire);
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else { return };
        let is_subscribed = client.subscriptions() > 0 && !client.reply.is_resp3;
        let out = &mut client.reply;
        match run {
            SessionRun::Ping => match (args.len(), is_subscribed) {
                (1, false) => out.simple("PONG"),
                (2, false) => out.bulk(args.at(1)),
                (1 | 2, true) => {
                    out.array(2);
                    out.bulk(b"pong");
                    out.bulk(args.at(1));
                }
                _ => out.error("ERR wrong number of arguments for 'ping' command"),
            },
            SessionRun::Echo => out.bulk(args.at(1)),
            SessionRun::Quit => {
                out.ok();
                client.is_closing = true;
            }
            SessionRun::Select => match parse_int(args.at(1)) {
                None => out.error(commands::NOT_AN_INTEGER),
                Some(index) if i32::try_from(index).is_err() => out.error(
                    "ERR value is out of range, value must between -2147483648 and 2147483647",
                ),
                Some(index) => match usize::try_from(index).ok().filter(|i| *i < DATABASES) {
                    Some(index) => {
                        client.database = index;
                        out.ok();
                    }
                    None => out.error("ERR DB index is out of range"),
                },
            },
            SessionRun::Multi => {
                if client.multi.is_some() {
                    out.error("ERR MULTI calls can not be nested");
                } else {
                    client.multi = Some(Multi::default());
                    out.ok();
                }
            }
            SessionRun::Time => {
                out.array(2);
                out.bulk((now / 1000).to_string().as_bytes());
                out.bulk((now % 1000 * 1000).to_string().as_bytes());
            }
            SessionRun::LastSave => out.int(last_save as i64),
            // No replica has what this server has.
            SessionRun::Wait => match (parse_int(args.at(1)), parse_int(args.at(2))) {
                (Some(_), Some(timeout)) if timeout >= 0 => out.int(0),
                (Some(_), Some(_)) => out.error("ERR timeout is negative"),
                _ => out.error(commands::NOT_AN_INTEGER),
            },
            SessionRun::Role => {
                out.array(3);
                out.bulk(b"master");
                out.int(0);
                out.array(0);
            }
            SessionRun::SlowLog => match () {
                () if is(args.at(1), "LEN") => out.int(0),
                () if is(args.at(1), "RESET") => out.ok(),
                () => out.array(0),
            },
            SessionRun::Latency => match () {
                () if is(args.at(1), "RESET") => out.int(0),
                () => out.array(0),
            },
            SessionRun::Acl => match () {
                () if is(args.at(1), "WHOAMI") => out.bulk(b"default"),
                () if is(args.at(1), "USERS") => out.bulks(&["default"]),
                () => out.error("ERR there is one user, 'default': ACL WHOAMI and ACL USERS tell"),
            },
            SessionRun::Lolwut => {
                out.verbatim(&format!("Outlast {}\n", env!("CARGO_PKG_VERSION")));
            }
            SessionRun::Command => super::describe::command(out, args),
            // There are no functions to remove or to list.
            SessionRun::Function => match () {
                () if is(args.at(1), "FLUSH") => out.ok(),
                () if is(args.at(1), "LIST") => out.array(0),
                () => out.error("ERR scripts are not supported"),
            },
            _ => out.error("ERR not here"),
        }
    }

    fn watch(
        &mut self,
        tx: &mut Mem<'_>,
        slot: usize,
        args: Args<'_>,
        is_outside: bool,
    ) -> Result<(), Abort> {
        let Some(client) = self.client(slot) else { return Ok(()) };
        if client.multi.is_some() || !is_outside {
            client.reply.error("ERR WATCH inside MULTI is not allowed");
            return Ok(());
        }
        let (id, database) = (client.id, client.database);
        for key in args.from(1).iter() {
            // A key that has expired is gone before it is watched.
            self.keys(tx, database).find(key)?;
        }
        self.mark_all_watchers();
        for key in args.from(1).iter() {
            let key = (database, key.to_vec());
            let Some(client) = self.client(slot) else { continue };
            if !client.watching.contains(&key) {
                client.watching.push(key.clone());
                self.watchers.entry(key).or_default().push(id);
            }
        }
        // Those marks are of what the others watch.
        self.changes.keys.retain(|key| self.waiting.contains_key(key));
        self.look_who_wants_changes();
        self.say(slot, Reply::ok);
        Ok(())
    }

    fn reset(&mut self, slot: usize) {
        let is_known = self.options.password.is_none();
        self.stop_watching(slot);
        let Some(mut client) = self.clients.get_mut(slot).and_then(Option::take) else { return };
        self.channels.forget(&client);
        client.channels.clear();
        client.patterns.clear();
        client.multi = None;
        client.database = 0;
        client.name.clear();
        client.is_known = is_known;
        client.answers = Answers::On;
        client.reply.is_resp3 = false;
        client.reply.simple("RESET");
        self.clients[slot] = Some(client);
    }

    fn check_password(&self, user: &[u8], given: &[u8]) -> Result<(), &'static str> {
        let wrong = "WRONGPASS invalid username-password pair or user is disabled.";
        match &self.options.password {
            Some(password) if user == b"default" && is_same(password.as_bytes(), given) => Ok(()),
            None if user == b"default" => Ok(()),
            _ => Err(wrong),
        }
    }

    fn auth(&mut self, slot: usize, args: Args<'_>) {
        let outcome = match args.len() {
            2 if self.options.password.is_none() => Err(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
            ),
            2 => self.check_password(b"default", args.at(1)),
            3 => self.check_password(args.at(1), args.at(2)),
            _ => Err(SYNTAX),
        };
        let Some(client) = self.client(slot) else { return };
        match outcome {
            Ok(()) => {
                client.is_known = true;
                client.reply.ok();
            }
            Err(what) => client.reply.error(what),
        }
    }

    fn hello(&mut self, slot: usize, args: Args<'_>) {
        let version = match args.get(1).map(parse_int) {
            None => None,
            Some(Some(version @ (2 | 3))) => Some(version),
            Some(Some(_)) => {
                return self.say(slot, |out| out.error("NOPROTO unsupported protocol version"));
            }
            Some(None) => {
                let what = "ERR Protocol version is not an integer or out of range";
                return self.say(slot, |out| out.error(what));
            }
        };
        let (mut known, mut name) = (false, None);
        let mut index = 2;
        while index < args.len() {
            let left = args.len() - index - 1;
            if is(args.at(index), "AUTH") && left >= 2 {
                if let Err(what) = self.check_password(args.at(index + 1), args.at(index + 2)) {
                    return self.say(slot, |out| out.error(what));
                }
                known = true;
                index += 3;
            } else if is(args.at(index), "SETNAME") && left >= 1 {
                name = Some(args.at(index + 1).to_vec());
                index += 2;
            } else {
                let option = String::from_utf8_lossy(args.at(index)).into_owned();
                let what = format!("ERR Syntax error in HELLO option '{option}'");
                return self.say(slot, |out| out.error(&what));
            }
        }
        let Some(client) = self.client(slot) else { return };
        client.is_known |= known;
        if !client.is_known {
            return client.reply.error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time");
        }
        if let Some(name) = name {
            if !is_name(&name) {
                return client.reply.error(BAD_NAME);
            }
            client.name = name;
        }
        if let Some(version) = version {
            client.reply.is_resp3 = version == 3;
        }
        let (id, out) = (client.id, &mut client.reply);
        out.map(7);
        for (name, value) in [("server", "redis"), ("version", VERSION)] {
            out.bulk(name.as_bytes());
            out.bulk(value.as_bytes());
        }
        out.bulk(b"proto");
        out.int(if out.is_resp3 { 3 } else { 2 });
        out.bulk(b"id");
        out.int(id as i64);
        for (name, value) in [("mode", "standalone"), ("role", "master")] {
            out.bulk(name.as_bytes());
            out.bulk(value.as_bytes());
        }
        out.bulk(b"modules");
        out.array(0);
    }

    fn config(&mut self, slot: usize, args: Args<'_>) {
        let sub = args.at(1);
        if is(sub, "GET") && args.len() > 2 {
            let mut found = std::collections::BTreeMap::new();
            for pattern in args.from(2).iter() {
                found.extend(
                    self.config.matching(pattern).map(|(name, value)| (name, value.to_owned())),
                );
            }
            self.say(slot, |out| {
                out.map(found.len());
                for (name, value) in found {
                    out.bulk(name.as_bytes());
                    out.bulk(value.as_bytes());
                }
            });
        } else if is(sub, "SET") && args.len() > 2 && args.len().is_multiple_of(2) {
            for index in (2..args.len()).step_by(2) {
                let (name, value) = (args.at(index), args.at(index + 1));
                if let Err(what) = self.config.set(name, value, &mut self.options) {
                    return self.say(slot, |out| out.error(&what));
                }
            }
            self.apply_parameters();
            self.say(slot, Reply::ok);
        } else if is(sub, "RESETSTAT") {
            self.counts = Default::default();
            self.say(slot, Reply::ok);
        } else if is(sub, "REWRITE") {
            let what = "ERR The server is running without a config file";
            self.say(slot, |out| out.error(what));
        } else {
            let sub = String::from_utf8_lossy(sub).into_owned();
            let what = format!(
                "ERR Unknown subcommand or wrong number of arguments for '{sub}'. Try CONFIG HELP."
            );
            self.say(slot, |out| out.error(&what));
        }
    }

    /// Pops for a client, or has it wait.
    fn pop_or_block(
        &mut self,
        tx: &mut Mem<'_>,
        slot: usize,
        args: Args<'_>,
        may_block: bool,
    ) -> Result<(), Abort> {
        let Some(mut reply) = self.client(slot).map(|client| std::mem::take(&mut client.reply))
        else {
            return Ok(());
        };
        let database = self.client(slot).map_or(0, |client| client.database);
        let before = reply.bytes.len();
        let string_bytes_max = self.options.bulk_bytes_max;
        let now = self.now;
        let mut ctx =
            Ctx { keys: self.keys(tx, database), args, out: &mut reply, string_bytes_max };
        let outcome = try_now(&mut ctx, now);
        let name = commands::find(args.at(0)).map_or("", |command| command.name);
        commands::events::settle(ctx.keys.changes, name, args);
        let (mut blocks, mut failure) = (None, None);
        match outcome {
            Ok(None) => {}
            Ok(Some(blocked)) if may_block => blocks = Some(blocked),
            Ok(Some(blocked)) => match blocked.wish {
                Wish::Move { .. } => reply.null(),
                _ => reply.null_array(),
            },
            Err(Fail::Reply(text)) => {
                reply.truncate(before);
                reply.error(&text);
            }
            Err(Fail::Abort(abort)) => failure = Some(abort),
        }
        if let Some(client) = self.client(slot) {
            client.reply = reply;
        }
        if let Some(abort) = failure {
            return Err(abort);
        }
        if let Some(blocked) = blocks {
            self.block(slot, blocked);
        }
        Ok(())
    }

    fn bgsave(&mut self, slot: usize) {
        if self.saving.runs.swap(true, Ordering::AcqRel) {
            let what = "ERR Background save already in progress";
            return self.say(slot, |out| out.error(what));
        }
        let (pool, saving) = (Arc::clone(&self.pool), Arc::clone(&self.saving));
        let target = self.options.checkpoint.clone();
        let thread = std::thread::Builder::new().name("checkpoint".to_owned());
        let spawned = thread.spawn(move || {
            // `INFO` tells how it went.
            let _ = checkpoint(&pool, &target, &saving);
            saving.runs.store(false, Ordering::Release);
        });
        if spawned.is_err() {
            self.saving.runs.store(false, Ordering::Release);
            self.saving.has_failed.store(true, Ordering::Release);
        }
        self.counts.changes = 0;
        self.say(slot, |out| out.simple("Background saving started"));
    }

    fn save(&mut self, slot: usize, _args: Args<'_>) {
        if self.saving.runs.load(Ordering::Acquire) {
            let what = "ERR Background save already in progress";
            return self.say(slot, |out| out.error(what));
        }
        let outcome = checkpoint(&self.pool, &self.options.checkpoint, &self.saving);
        self.counts.changes = 0;
        self.say(slot, |out| match outcome {
            Ok(()) => out.ok(),
            Err(what) => out.error(&format!("ERR {what}")),
        });
    }

    fn debug(&mut self, tx: &mut Mem<'_>, slot: usize, args: Args<'_>) -> Result<(), Abort> {
        let sub = args.at(1);
        if is(sub, "SLEEP") {
            let seconds = parse_double(args.at(2)).unwrap_or(0.0).clamp(0.0, 60.0);
            std::thread::sleep(Duration::from_secs_f64(seconds));
            self.say(slot, Reply::ok);
        } else if is(sub, "SET-ACTIVE-EXPIRE") {
            self.expires_actively = args.at(2) != b"0";
            self.say(slot, Reply::ok);
        } else if is(sub, "OBJECT") {
            let database = self.client(slot).map_or(0, |client| client.database);
            let mut keys = self.keys(tx, database);
            let text = match keys.find(args.at(2))? {
                Some(found) => {
                    let encoding = encoding(keys.mem, found.entry())?;
                    let (at, len) = (found.entry().at.0, found.entry().value_len);
                    Some(format!(
                        "Value at:{at:#x} refcount:1 encoding:{encoding} serializedlength:{len} lru:0 lru_seconds_idle:0"
                    ))
                }
                None => None,
            };
            self.say(slot, |out| match text {
                Some(text) => out.simple(&text),
                None => out.error(commands::NO_SUCH_KEY),
            });
        } else {
            let what = "ERR there are DEBUG SLEEP, DEBUG OBJECT and DEBUG SET-ACTIVE-EXPIRE";
            self.say(slot, |out| out.error(what));
        }
        Ok(())
    }
}

/// Tries what a blocking command wants. Returns what it has to wait for.
fn try_now(ctx: &mut Ctx<'_>, now: u64) -> Result<Option<Blocked>, Fail> {
    let name = ctx.args.at(0);
    let args = ctx.args;
    let last = args.len() - 1;
    let database = ctx.keys.database;
    if is(name, "XREAD") || is(name, "XREADGROUP") {
        return super::streams::try_now(ctx, now);
    }
    let (keys, wish, deadline) = if is(name, "BLMOVE") || is(name, "BRPOPLPUSH") {
        let (out_of, into) = match is(name, "BLMOVE") {
            true => (Side::parse(args.at(3))?, Side::parse(args.at(4))?),
            false => (Side::Right, Side::Left),
        };
        let to = args.at(2).to_vec();
        (vec![args.at(1).to_vec()], Wish::Move { to, out_of, into }, timeout(args.at(last), now)?)
    } else if is(name, "BLMPOP") || is(name, "BZMPOP") {
        let deadline = timeout(args.at(1), now)?;
        let (keys, side, count) = parse_multi_pop(ctx, 2)?;
        let keys = keys.map(|index| args.at(index).to_vec()).collect();
        let count = Some(count);
        let wish = match is(name, "BLMPOP") {
            true => Wish::List { side: Side::parse(args.at(side))?, count },
            false => Wish::Zset { side: zset_side(args.at(side))?, count },
        };
        (keys, wish, deadline)
    } else {
        let keys = (1..last).map(|index| args.at(index).to_vec()).collect();
        let side = match is(name, "BLPOP") || is(name, "BZPOPMIN") {
            true => Side::Left,
            false => Side::Right,
        };
        let wish = match name.get(1) {
            Some(b'z' | b'Z') => Wish::Zset { side, count: None },
            _ => Wish::List { side, count: None },
        };
        (keys, wish, timeout(args.at(last), now)?)
    };
    for key in &keys {
        if wish_of(ctx, &wish, key)? {
            return Ok(None);
        }
    }
    Ok(Some(Blocked { database, keys, wish, deadline }))
}

/// When a wait ends whose seconds are in `text`; `None` (never) for 0.
fn timeout(text: &[u8], now: u64) -> Result<Option<u64>, Fail> {
    let seconds = parse_double(text).ok_or("ERR timeout is not a float or out of range")?;
    if seconds < 0.0 {
        return Err("ERR timeout is negative".into());
    }
    let millis = seconds * 1000.0;
    if millis > (i64::MAX as u64 - now) as f64 {
        return Err("ERR timeout is out of range".into());
    }
    Ok((seconds > 0.0).then(|| now + millis.ceil() as u64))
}

fn checkpoint(pool: &Pool, target: &std::path::Path, saving: &Saving) -> Result<(), String> {
    let outcome = pool.checkpoint(target);
    saving.has_failed.store(outcome.is_err(), Ordering::Release);
    match outcome {
        Ok(_) => {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            saving.last.store(since.unwrap_or_default().as_secs(), Ordering::Release);
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Compares in a time that does not tell where two words differ.
fn is_same(password: &[u8], given: &[u8]) -> bool {
    let bytes = given.iter().enumerate();
    let differ = bytes.fold(0, |differ, (index, byte)| {
        differ | byte ^ password.get(index % password.len().max(1)).copied().unwrap_or(0)
    });
    differ == 0 && password.len() == given.len()
}
