//! Looking ahead: what the next commands of a pipeline look for is fetched together.
//!
//! A key's bucket and entry are seldom in the processor's cache. One command after the other, each would wait for
//! both; announced together, the fetches overlap. Announcements change nothing, so a word that is no key does no harm. The
//! requests are parsed for that once: a command whose turn comes takes its own.

use std::collections::VecDeque;

use outlast::Abort;

use super::client::Client;
use super::state::State;
use crate::commands::is;
use crate::resp::{Args, Parsed, Request};
use crate::store::hasher::Hasher;
use crate::store::mem::Mem;
use crate::store::table::FOUND_TOGETHER_MAX;

/// A longer word is taken for a value.
const MEMBER_BYTES_MAX: usize = 64;

/// How far a client's commands were looked at.
#[derive(Default)]
pub(super) struct Ahead {
    /// The client, and how many of its next commands were announced.
    of: Option<(usize, usize)>,
    /// Those requests, with their places in the client's input.
    requests: VecDeque<(usize, Request)>,
    /// Memory of requests that are done.
    spare: Vec<Request>,
    hashes: Vec<u64>,
    /// Whether they have one key, which that is, and the hashes of the words behind it: fields or members.
    has_one_key: bool,
    key: Vec<u8>,
    members: Vec<u64>,
}

impl Ahead {
    /// A new transaction has announced nothing, and the client's input may have moved.
    pub fn forget(&mut self) {
        self.of = None;
        self.spare.extend(self.requests.drain(..).map(|(_, request)| request));
    }

    /// Gives a client its next request, where that was parsed already.
    pub fn hand_over(&mut self, slot: usize, client: &mut Client) {
        let is_next = self.requests.front().is_some_and(|(place, _)| *place == client.start);
        if is_next
            && client.is_known
            && self.of.is_some_and(|(of, _)| of == slot)
            && let Some((_, request)) = self.requests.pop_front()
        {
            self.spare.push(std::mem::replace(&mut client.request, request));
        }
    }

    /// Notes what a command looks for.
    fn note(&mut self, hasher: Hasher, words: Args<'_>) {
        let is_first = self.hashes.is_empty();
        let Some(key) = words.get(1) else {
            self.has_one_key = false;
            return;
        };
        if is_first {
            self.key.extend_from_slice(key);
        }
        let is_same = self.key == key;
        self.has_one_key &= is_same;
        let hash = match self.hashes.first() {
            Some(hash) if is_same => *hash,
            _ => hasher.hash(key),
        };
        self.hashes.push(hash);
        if self.has_one_key {
            // Behind a member's score, where no option comes first.
            let place = if is(words.at(0), "ZADD") { 3 } else { 2 };
            let member = words.get(place).filter(|member| member.len() <= MEMBER_BYTES_MAX);
            self.members.extend(member.map(|member| hasher.hash(member)));
        }
    }
}

impl State {
    /// Announces the keys of a client's next commands, unless that was done.
    pub fn look_ahead(&mut self, tx: &mut Mem<'_>, slot: usize) -> Result<(), Abort> {
        if let Some((of, left @ 1..)) = &mut self.ahead.of
            && *of == slot
        {
            *left -= 1;
            return Ok(());
        }
        let limits = self.limits(true);
        let Some(client) = self.clients.get(slot).and_then(Option::as_ref) else { return Ok(()) };
        let database = client.database;
        let Some(len) = client.request.whole() else { return Ok(()) };
        let mut place = client.start + len;
        if place == client.input.len() {
            // Nothing is behind the command that runs next.
            return Ok(());
        }
        let (ahead, hasher) = (&mut self.ahead, self.root.hasher);
        ahead.forget();
        ahead.hashes.clear();
        ahead.key.clear();
        ahead.members.clear();
        ahead.has_one_key = true;
        ahead.note(hasher, client.request.words(&client.input[client.start..]));
        while ahead.requests.len() + 1 < FOUND_TOGETHER_MAX {
            let mut request = ahead.spare.pop().unwrap_or_default();
            request.clear();
            let input = &client.input[place..];
            let Ok(Parsed::Whole(len)) = request.parse(input, &limits) else {
                ahead.spare.push(request);
                break;
            };
            ahead.note(hasher, request.words(input));
            ahead.requests.push_back((place, request));
            place += len;
        }
        ahead.of = Some((slot, ahead.requests.len()));
        let ahead = std::mem::take(&mut self.ahead);
        let mut keys = self.keys(tx, database);
        let announced = match (ahead.has_one_key, ahead.hashes.first()) {
            (true, Some(hash)) => keys.will_find_members(&ahead.key, *hash, &ahead.members),
            _ => keys.will_find(&ahead.hashes),
        };
        self.ahead = ahead;
        announced
    }
}
