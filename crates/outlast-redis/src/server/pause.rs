//! `CLIENT PAUSE`: commands wait for a while.

use super::group::args_of;
use super::state::State;
use crate::commands::{self, Command, SYNTAX, is};
use crate::number::parse_int;
use crate::resp::{Args, Reply};

/// Commands wait until a time.
pub(super) struct Pause {
    /// In ms since 1970.
    pub until: u64,
    /// Commands that only read do not wait.
    only_writes: bool,
}

fn writes(command: &Command) -> bool {
    command.has_flag("write") || matches!(command.name, "eval" | "evalsha" | "publish")
}

impl State {
    /// Whether the request at the front of a client's input has to wait.
    pub fn is_paused(&self, slot: usize) -> bool {
        let Some(pause) = &self.pause else { return false };
        let Some(client) = self.clients.get(slot).and_then(Option::as_ref) else { return false };
        if !pause.only_writes {
            return true;
        }
        let Some(command) = args_of(client).get(0).and_then(commands::find) else { return false };
        let queued = client.multi.iter().flat_map(|multi| &multi.commands);
        match command.name {
            "exec" => queued.map(|(command, _)| *command).any(writes),
            _ => client.multi.is_none() && writes(command),
        }
    }

    /// `CLIENT PAUSE` and `UNPAUSE`.
    pub fn pause(&mut self, slot: usize, args: Args<'_>) {
        if is(args.at(1), "UNPAUSE") {
            if args.len() != 2 {
                let what = "ERR wrong number of arguments for 'client|unpause' command";
                return self.say(slot, |out| out.error(what));
            }
            self.resume();
            return self.say(slot, Reply::ok);
        }
        let mode = args.get(3);
        let only_writes = mode.is_some_and(|mode| is(mode, "WRITE"));
        let what = match parse_int(args.at(2)) {
            _ if args.len() < 3 || args.len() > 4 => {
                Err("ERR wrong number of arguments for 'client|pause' command")
            }
            _ if mode.is_some_and(|mode| !only_writes && !is(mode, "ALL")) => Err(SYNTAX),
            None => Err("ERR timeout is not an integer or out of range"),
            Some(..0) => Err("ERR timeout is negative"),
            Some(ms) => {
                let until = self.now.saturating_add(ms as u64);
                // A pause that lasts longer or holds more is not cut short.
                let before = self.pause.take().filter(|before| before.until > self.now);
                let until = before.as_ref().map_or(until, |before| before.until.max(until));
                let only_writes = only_writes && before.is_none_or(|before| before.only_writes);
                self.pause = Some(Pause { until, only_writes });
                Ok(())
            }
        };
        self.say(slot, |out| match what {
            Ok(()) => out.ok(),
            Err(what) => out.error(what),
        });
    }

    /// Goes on when the time has come.
    pub fn end_pause(&mut self) {
        if self.pause.as_ref().is_some_and(|pause| pause.until <= self.now) {
            self.resume();
        }
    }

    fn resume(&mut self) {
        if self.pause.take().is_some() {
            let slots = (0..self.clients.len()).filter(|slot| self.clients[*slot].is_some());
            self.queue.extend(slots);
        }
    }
}
