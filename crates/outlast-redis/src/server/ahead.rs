//! Looking ahead: what the next commands of a pipeline look for is fetched together.
//!
//! A key's bucket and entry are seldom in the processor's cache. One command after the other, each would wait for
//! both; announced together, the fetches overlap. Announcements change nothing, so a word that is no key does no harm.

use outlast::Abort;

use super::state::State;
use crate::commands::is;
use crate::resp::{Parsed, Request};
use crate::store::mem::Mem;
use crate::store::table::FOUND_TOGETHER_MAX;

/// A longer word is taken for a value.
const MEMBER_BYTES_MAX: usize = 64;

/// How far a client's commands were looked at.
#[derive(Default)]
pub(super) struct Ahead {
    /// The client, and how many of its next commands were announced.
    of: Option<(usize, usize)>,
    request: Request,
    hashes: Vec<u64>,
    /// Their common key, and the hashes of what follows it: fields or members.
    key: Vec<u8>,
    members: Vec<u64>,
}

impl Ahead {
    /// A new transaction has announced nothing.
    pub fn forget(&mut self) {
        self.of = None;
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
        let mut input = &client.input[client.start..];
        if client.request.whole() == Some(input.len()) {
            // Nothing is behind the command that runs next.
            return Ok(());
        }
        let Ahead { request, hashes, key, members, .. } = &mut self.ahead;
        hashes.clear();
        key.clear();
        members.clear();
        let (mut commands, mut have_one_key) = (0, true);
        while commands < FOUND_TOGETHER_MAX {
            request.clear();
            let Ok(Parsed::Whole(len)) = request.parse(input, &limits) else { break };
            let words = request.words(input);
            hashes.extend(words.get(1).map(|key| self.root.hasher.hash(key)));
            if commands == 0 {
                key.extend_from_slice(words.at(1));
            }
            have_one_key &= words.at(1) == key;
            if have_one_key {
                // Behind a member's score, where no option comes first.
                let place = if is(words.at(0), "ZADD") { 3 } else { 2 };
                let member = words.get(place).filter(|member| member.len() <= MEMBER_BYTES_MAX);
                members.extend(member.map(|member| self.root.hasher.hash(member)));
            }
            input = &input[len..];
            commands += 1;
        }
        self.ahead.of = Some((slot, commands.saturating_sub(1)));
        let ahead = std::mem::take(&mut self.ahead);
        let mut keys = self.keys(tx, database);
        let announced = match (have_one_key, ahead.hashes.first()) {
            (true, Some(hash)) => keys.will_find_members(&ahead.key, *hash, &ahead.members),
            _ => keys.will_find(&ahead.hashes),
        };
        self.ahead = ahead;
        announced
    }
}
