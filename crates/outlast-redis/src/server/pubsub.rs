//! Publish and subscribe.

use std::collections::HashMap;

use super::client::Client;
use super::io::UNSENT_PUSHES_MAX;
use super::state::State;
use crate::commands::is;
use crate::glob;
use crate::resp::{Args, Reply};

/// Who listens to what.
#[derive(Default)]
pub(super) struct Channels {
    pub channels: HashMap<Vec<u8>, Vec<u64>>,
    pub patterns: HashMap<Vec<u8>, Vec<u64>>,
    /// How many messages were published.
    pub sent: u64,
}

fn add(to: &mut HashMap<Vec<u8>, Vec<u64>>, name: &[u8], id: u64) {
    to.entry(name.to_vec()).or_default().push(id);
}

fn take(from: &mut HashMap<Vec<u8>, Vec<u64>>, name: &[u8], id: u64) {
    if let Some(ids) = from.get_mut(name) {
        ids.retain(|listener| *listener != id);
        if ids.is_empty() {
            from.remove(name);
        }
    }
}

impl Channels {
    /// Whether no client listens.
    pub fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty()
    }

    pub fn forget(&mut self, client: &Client) {
        client.channels.iter().for_each(|name| take(&mut self.channels, name, client.id));
        client.patterns.iter().for_each(|name| take(&mut self.patterns, name, client.id));
    }
}

impl State {
    pub fn subscribe(&mut self, slot: usize, args: Args<'_>) {
        let is_pattern = is(args.at(0), "PSUBSCRIBE");
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else { return };
        for name in args.from(1).iter() {
            let (own, all) = match is_pattern {
                true => (&mut client.patterns, &mut self.channels.patterns),
                false => (&mut client.channels, &mut self.channels.channels),
            };
            if own.insert(name.to_vec()) {
                add(all, name, client.id);
            }
            let count = client.subscriptions();
            client.reply.push(3);
            client.reply.bulk(if is_pattern { b"psubscribe" } else { b"subscribe" });
            client.reply.bulk(name);
            client.reply.len(count);
        }
    }

    pub fn unsubscribe(&mut self, slot: usize, args: Args<'_>) {
        let is_pattern = is(args.at(0), "PUNSUBSCRIBE");
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else { return };
        let own = if is_pattern { &client.patterns } else { &client.channels };
        let names: Vec<Vec<u8>> = match args.len() {
            1 => own.iter().cloned().collect(),
            _ => args.from(1).iter().map(<[u8]>::to_vec).collect(),
        };
        let what: &[u8] = if is_pattern { b"punsubscribe" } else { b"unsubscribe" };
        if names.is_empty() {
            let count = client.subscriptions();
            client.reply.push(3);
            client.reply.bulk(what);
            client.reply.null();
            client.reply.len(count);
        }
        for name in names {
            let (own, all) = match is_pattern {
                true => (&mut client.patterns, &mut self.channels.patterns),
                false => (&mut client.channels, &mut self.channels.channels),
            };
            if own.remove(&name) {
                take(all, &name, client.id);
            }
            let count = client.subscriptions();
            client.reply.push(3);
            client.reply.bulk(what);
            client.reply.bulk(&name);
            client.reply.len(count);
        }
    }

    /// Hands a message on. Returns how many clients got it.
    pub fn publish(&mut self, channel: &[u8], message: &[u8]) -> usize {
        let mut sent = 0;
        self.channels.sent += 1;
        for id in self.channels.channels.get(channel).cloned().unwrap_or_default() {
            sent += 1;
            self.push(id, |reply| {
                reply.push(3);
                reply.bulk(b"message");
                reply.bulk(channel);
                reply.bulk(message);
            });
        }
        let patterns = self.channels.patterns.iter();
        let matching: Vec<(Vec<u8>, Vec<u64>)> = patterns
            .filter(|(pattern, _)| glob::matches(pattern, channel, false))
            .map(|(pattern, ids)| (pattern.clone(), ids.clone()))
            .collect();
        for (pattern, ids) in matching {
            for id in ids {
                sent += 1;
                self.push(id, |reply| {
                    reply.push(4);
                    reply.bulk(b"pmessage");
                    reply.bulk(&pattern);
                    reply.bulk(channel);
                    reply.bulk(message);
                });
            }
        }
        sent
    }

    fn push(&mut self, id: u64, fill: impl FnOnce(&mut Reply)) {
        let Some(slot) = self.slots.get(&id).copied() else { return };
        let Some(client) = self.client(slot) else { return };
        if client.unsent() > UNSENT_PUSHES_MAX {
            // It does not read what it has asked for.
            client.is_closing = true;
        } else {
            fill(&mut client.reply);
        }
        self.list(slot);
    }

    pub fn pubsub(&mut self, slot: usize, args: Args<'_>) {
        let sub = args.at(1);
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else { return };
        let (channels, out) = (&self.channels, &mut client.reply);
        if is(sub, "CHANNELS") && args.len() <= 3 {
            let names = channels.channels.keys();
            let wanted = |name: &&Vec<u8>| {
                args.get(2).is_none_or(|pattern| glob::matches(pattern, name, false))
            };
            let names: Vec<&Vec<u8>> = names.filter(wanted).collect();
            out.bulks(&names);
        } else if is(sub, "NUMSUB") {
            out.array((args.len() - 2) * 2);
            for name in args.from(2).iter() {
                out.bulk(name);
                out.len(channels.channels.get(name).map_or(0, Vec::len));
            }
        } else if is(sub, "NUMPAT") && args.len() == 2 {
            out.len(channels.patterns.len());
        } else {
            let sub = String::from_utf8_lossy(sub);
            out.error(&format!("ERR unknown subcommand '{sub}'. Try PUBSUB HELP."));
        }
    }
}
