//! `CLIENT`: what clients tell of themselves, and of each other.

use super::client::{Answers, Client, Wish};
use super::state::State;
use crate::commands::{self, is};
use crate::number::parse_int;
use crate::resp::{Args, Reply};

pub(super) const BAD_NAME: &str =
    "ERR Client names cannot contain spaces, newlines or special characters.";

/// Whether a client may have that name.
pub(super) fn is_name(name: &[u8]) -> bool {
    name.iter().all(|byte| (b'!'..=b'~').contains(byte))
}

impl State {
    /// Answers a client.
    pub fn say(&mut self, slot: usize, what: impl FnOnce(&mut Reply)) {
        if let Some(client) = self.client(slot) {
            what(&mut client.reply);
        }
    }
}

impl State {
    pub fn client_command(&mut self, slot: usize, args: Args<'_>) {
        let sub = args.at(1);
        let now = self.now;
        if is(sub, "LIST") {
            let lines: String =
                self.clients.iter().flatten().map(|client| line(client, now)).collect();
            return self.say(slot, |out| out.verbatim(&lines));
        }
        if is(sub, "KILL") {
            return self.kill(slot, args);
        }
        if is(sub, "UNBLOCK") && args.len() >= 3 {
            let Some(id) = parse_int(args.at(2)) else {
                return self.say(slot, |out| out.error(commands::NOT_AN_INTEGER));
            };
            let id = u64::try_from(id).ok();
            let target = id.and_then(|id| self.slots.get(&id).copied());
            let with_error = args.get(3).is_some_and(|word| is(word, "ERROR"));
            let mut done = false;
            if let Some(target) = target
                && let Some(client) = self.client(target)
                && let Some(blocked) = &client.blocked
            {
                match (with_error, &blocked.wish) {
                    (true, _) => {
                        client.reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK")
                    }
                    (false, Wish::Move { .. }) => client.reply.null(),
                    (false, _) => client.reply.null_array(),
                }
                self.unblock(target);
                done = true;
            }
            return self.say(slot, |out| out.int(done.into()));
        }
        if is(sub, "PAUSE") || is(sub, "UNPAUSE") {
            return self.pause(slot, args);
        }
        let Some(client) = self.client(slot) else { return };
        let info = line(client, now);
        let Client { id, name, reply: out, answers, .. } = client;
        match () {
            () if is(sub, "ID") => out.int(*id as i64),
            () if is(sub, "GETNAME") => match name.is_empty() {
                true => out.null(),
                false => out.bulk(name),
            },
            () if is(sub, "SETNAME") && args.len() == 3 => match is_name(args.at(2)) {
                true => {
                    *name = args.at(2).to_vec();
                    out.ok();
                }
                false => out.error(BAD_NAME),
            },
            () if is(sub, "SETINFO") => out.ok(),
            () if is(sub, "INFO") => out.verbatim(&info),
            () if is(sub, "REPLY") && is(args.at(2), "ON") => {
                *answers = Answers::On;
                out.ok();
            }
            () if is(sub, "REPLY") && is(args.at(2), "OFF") => *answers = Answers::Off,
            () if is(sub, "REPLY") && is(args.at(2), "SKIP") => {
                if *answers == Answers::On {
                    *answers = Answers::Skip;
                }
            }
            () if is(sub, "NO-EVICT") || is(sub, "NO-TOUCH") => match args.get(2) {
                // Nothing is evicted, and no time of use is kept.
                Some(word) if args.len() == 3 && (is(word, "ON") || is(word, "OFF")) => out.ok(),
                _ => out.error(commands::SYNTAX),
            },
            () if is(sub, "TRACKING") => match args.get(2) {
                // A client that never had it may switch it off.
                Some(word) if args.len() == 3 && is(word, "OFF") => out.ok(),
                Some(word) if is(word, "ON") => {
                    out.error("ERR Client tracking is not supported: cache without it");
                }
                _ => out.error(commands::SYNTAX),
            },
            () if is(sub, "TRACKINGINFO") => {
                out.map(3);
                out.bulk(b"flags");
                out.set(1);
                out.bulk(b"off");
                out.bulk(b"redirect");
                out.int(-1);
                out.bulk(b"prefixes");
                out.array(0);
            }
            () if is(sub, "CACHING") => out.error("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"),
            () if is(sub, "GETREDIR") => out.int(-1),
            () => {
                let sub = String::from_utf8_lossy(sub);
                out.error(&format!("ERR unknown subcommand '{sub}'. Try CLIENT HELP."));
            }
        }
    }

    fn kill(&mut self, slot: usize, args: Args<'_>) {
        let is_old = args.len() == 3;
        let wanted = |client: &Client| -> bool {
            let address = client.peer.map_or_else(String::new, |peer| peer.to_string());
            if is_old {
                return args.at(2) == address.as_bytes();
            }
            (2..args.len()).step_by(2).all(|index| {
                let value = args.at(index + 1);
                match () {
                    () if is(args.at(index), "ID") => value == client.id.to_string().as_bytes(),
                    () if is(args.at(index), "ADDR") => value == address.as_bytes(),
                    () if is(args.at(index), "TYPE") => {
                        is(value, "normal") == (client.subscriptions() == 0)
                    }
                    () if is(args.at(index), "SKIPME") => true,
                    () => false,
                }
            })
        };
        let skips_me = !is_old
            && !(2..args.len())
                .step_by(2)
                .any(|index| is(args.at(index), "SKIPME") && is(args.at(index + 1), "no"));
        let slots: Vec<usize> = (0..self.clients.len())
            .filter(|at| self.clients[*at].as_ref().is_some_and(wanted))
            .filter(|at| !(skips_me && *at == slot))
            .collect();
        let count = slots.len();
        for at in slots {
            if at == slot {
                if let Some(client) = self.client(slot) {
                    client.is_closing = true;
                }
            } else {
                self.close(at);
            }
        }
        self.say(slot, |out| match (is_old, count) {
            (true, 0) => out.error("ERR No such client"),
            (true, _) => out.ok(),
            (false, count) => out.len(count),
        });
    }
}

/// A client, as `CLIENT LIST` shows it.
fn line(client: &Client, now: u64) -> String {
    let address = client.peer.map_or_else(|| "unix:0".to_owned(), |peer| peer.to_string());
    format!(
        "id={} addr={address} fd=0 name={} age={} idle=0 flags={} db={} sub={} psub={} multi={} cmd={} user=default resp={}\n",
        client.id,
        String::from_utf8_lossy(&client.name),
        now.saturating_sub(client.since) / 1000,
        if client.blocked.is_some() { "b" } else { "N" },
        client.database,
        client.channels.len(),
        client.patterns.len(),
        client.multi.as_ref().map_or(-1, |multi| multi.commands.len() as i64),
        client.last_command,
        if client.reply.is_resp3 { 3 } else { 2 },
    )
}
