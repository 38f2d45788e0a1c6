//! Clients that watch keys, and clients that wait for them.

use outlast::Abort;

use super::client::{Blocked, Client, Wish};
use super::group::{PoolLane, is_fatal, refusal};
use super::state::State;
use crate::commands::{Ctx, Fail, events, pop_list_for, pop_zset_for, streams};
use crate::resp::Args;
use crate::store::Keys;
use crate::store::mem::Mem;

impl State {
    /// Tells those who want to know what has changed. What waiting clients get changes keys again.
    pub fn after_changes(&mut self, lane: &mut PoolLane<'_>) -> Result<(), Abort> {
        self.take_counts();
        let mut next = 0;
        while next < self.changes.keys.len() {
            let key = self.changes.keys[next].clone();
            next += 1;
            self.mark_watchers(&key);
            self.serve(lane, &key)?;
        }
        self.changes.keys.clear();
        self.notify();
        Ok(())
    }

    fn take_counts(&mut self) {
        let (changes, counts) = (&mut self.changes, &mut self.counts);
        counts.changes += std::mem::take(&mut changes.count);
        counts.expired += std::mem::take(&mut changes.expired);
        counts.hits += std::mem::take(&mut changes.hits);
        counts.misses += std::mem::take(&mut changes.misses);
        self.may_have_garbage |= std::mem::take(&mut changes.has_garbage);
    }

    /// Tells watchers only.
    pub fn mark_all_watchers(&mut self) {
        let keys = std::mem::take(&mut self.changes.keys);
        keys.iter().for_each(|key| self.mark_watchers(key));
        self.changes.keys = keys;
    }

    fn mark_watchers(&mut self, key: &(usize, Vec<u8>)) {
        let Some(ids) = self.watchers.get(key) else { return };
        for id in ids.clone() {
            if let Some(client) = self.client_of(id) {
                client.is_dirty = true;
            }
        }
    }

    /// Gives clients that wait for a key what it has.
    fn serve(&mut self, lane: &mut PoolLane<'_>, key: &(usize, Vec<u8>)) -> Result<(), Abort> {
        let Some(ids) = self.waiting.get(key) else { return Ok(()) };
        for id in ids.clone() {
            let Some(slot) = self.slots.get(&id).copied() else { continue };
            let Some(blocked) = self.client(slot).and_then(|client| client.blocked.clone()) else {
                continue;
            };
            let before = self.client(slot).map_or(0, |client| client.reply.bytes.len());
            let outcome = self.run_or_free(lane, |state, tx| {
                if let Some(client) = state.client(slot) {
                    client.reply.truncate(before);
                }
                state.try_wish(tx, slot, &blocked, &key.1)
            });
            let is_served = match outcome {
                Ok(is_served) => is_served,
                Err(abort) if is_fatal(&abort) => return Err(abort),
                Err(abort) => {
                    if let Some(client) = self.client(slot) {
                        client.reply.truncate(before);
                        client.reply.error(&refusal(&abort));
                    }
                    true
                }
            };
            if is_served {
                self.unblock(slot);
            }
        }
        Ok(())
    }

    /// Tries to give a client what it wants of a key. `false` when there is nothing.
    fn try_wish(
        &mut self,
        tx: &mut Mem<'_>,
        slot: usize,
        blocked: &Blocked,
        key: &[u8],
    ) -> Result<bool, Abort> {
        let string_bytes_max = self.options.bulk_bytes_max;
        let Some(client) = self.clients.get_mut(slot).and_then(Option::as_mut) else {
            return Ok(false);
        };
        let before = client.reply.bytes.len();
        let mut ctx = Ctx {
            keys: Keys {
                mem: tx,
                root: self.root,
                database: blocked.database,
                now: self.now,
                changes: &mut self.changes,
                random: &mut self.random,
            },
            args: Args::new(&[], &[]),
            out: &mut client.reply,
            string_bytes_max,
        };
        let served = wish_of(&mut ctx, &blocked.wish, key);
        events::settle(ctx.keys.changes, blocked.wish.command(), ctx.args);
        match served {
            Ok(is_served) => Ok(is_served),
            Err(Fail::Abort(abort)) => Err(abort),
            // The key is of another type now, and may become what is wanted; but a list that cannot
            // take what the client moves is the client's mistake.
            Err(Fail::Reply(text)) => {
                ctx.out.truncate(before);
                let is_mistake = match &blocked.wish {
                    Wish::Move { .. } => {
                        let found = ctx.keys.find(key)?;
                        found.is_some_and(|found| found.kind().type_name() == "list")
                    }
                    _ => false,
                };
                if is_mistake {
                    ctx.out.error(&text);
                }
                Ok(is_mistake)
            }
        }
    }

    /// The client waits for keys.
    pub fn block(&mut self, slot: usize, blocked: Blocked) {
        let Some(client) = self.client(slot) else { return };
        let id = client.id;
        client.blocked = Some(blocked.clone());
        for key in &blocked.keys {
            let waiting = self.waiting.entry((blocked.database, key.clone())).or_default();
            if !waiting.contains(&id) {
                waiting.push_back(id);
            }
        }
        if let Some(deadline) = blocked.deadline {
            self.timeouts.insert((deadline, id));
        }
        self.look_who_wants_changes();
    }

    /// The client waits no more: what it has sent meanwhile is its turn.
    pub fn unblock(&mut self, slot: usize) {
        let Some(mut client) = self.clients.get_mut(slot).and_then(Option::take) else { return };
        self.forget_wait(&mut client);
        self.clients[slot] = Some(client);
        self.queue.push_back(slot);
        self.list(slot);
    }

    pub fn forget_wait(&mut self, client: &mut Client) {
        let Some(blocked) = client.blocked.take() else { return };
        for key in blocked.keys {
            let key = (blocked.database, key);
            if let Some(waiting) = self.waiting.get_mut(&key) {
                waiting.retain(|id| *id != client.id);
                if waiting.is_empty() {
                    self.waiting.remove(&key);
                }
            }
        }
        if let Some(deadline) = blocked.deadline {
            self.timeouts.remove(&(deadline, client.id));
        }
        self.look_who_wants_changes();
    }

    pub fn forget_watches(&mut self, client: &mut Client) {
        client.is_dirty = false;
        if client.watching.is_empty() {
            return;
        }
        for key in client.watching.drain(..) {
            if let Some(ids) = self.watchers.get_mut(&key) {
                ids.retain(|id| *id != client.id);
                if ids.is_empty() {
                    self.watchers.remove(&key);
                }
            }
        }
        self.look_who_wants_changes();
    }

    /// Clients whose time is over get nothing.
    pub fn end_waits(&mut self) {
        while let Some(&(deadline, id)) = self.timeouts.first() {
            if deadline > self.now {
                return;
            }
            self.timeouts.pop_first();
            let Some(slot) = self.slots.get(&id).copied() else { continue };
            if let Some(client) = self.client(slot)
                && let Some(blocked) = &client.blocked
            {
                match blocked.wish {
                    Wish::Move { .. } => client.reply.null(),
                    _ => client.reply.null_array(),
                }
            }
            self.unblock(slot);
        }
    }
}

/// Gives a client what it wants of a key. `false` when there is nothing.
pub(super) fn wish_of(ctx: &mut Ctx<'_>, wish: &Wish, key: &[u8]) -> Result<bool, Fail> {
    match wish {
        Wish::Streams(wish) => streams::serve(ctx, wish, key),
        Wish::List { side, count } => pop_list_for(ctx, key, *side, *count),
        Wish::Zset { side, count } => pop_zset_for(ctx, key, *side, *count),
        Wish::Move { to, out_of, into } => {
            let sides = (*out_of, *into);
            match crate::commands::move_item(ctx, (key, to), sides)? {
                Some(item) => {
                    ctx.out.bulk(&item);
                    Ok(true)
                }
                None => Ok(false),
            }
        }
    }
}
