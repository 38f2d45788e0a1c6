//! A channel with a queue for each bank.
//!
//! A request arrives in the channel's read or write queue, moves from there to its bank's queue,
//! one in a clock, and waits there for its commands; in a bank's queue reads and writes mix.
//! In a clock:
//!
//! 1. refreshes happen that are due;
//! 2. banks take turns: from the bank behind the last that got a command, the first bank that has
//!    a request whose next command may be given now gets it, for the oldest such request;
//! 3. the oldest request moves whose bank's queue has room: a read, or, while writes are drained,
//!    a write. All writes beyond the low mark are drained from when the high mark is reached, or
//!    when no bank has anything to do and the idle mark is reached, before reads that just came.
//!    A write whose line a read waits for ends that: the reads that can move do so first.
//!
//! A row is closed for the oldest request of its bank only, and not while others of the queue
//! want it, unless it has served `row_hits_max` of them.

use super::{Bank, CLOSED, Channel, Command, Request, Served, bits};
use crate::timed::config::Scheduling;
use outlast_trace::LineAddr;

#[derive(Debug)]
pub(super) struct Banked {
    queues: Vec<Vec<Waiting>>,
    /// Which banks have something in their queues.
    wanted: u64,
    reads: usize,
    writes: usize,
    capacity: usize,
    /// The bank whose turn comes last.
    last: usize,
    /// Writes that are still to be moved before reads are again.
    draining: usize,
    /// Draining met a write whose line a read waits for: first the reads that can move do.
    reads_first: bool,
    /// The next request may move from here on.
    move_free: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: Request,
    write: bool,
}

impl Banked {
    pub(super) fn new(banks: usize, capacity: usize) -> Self {
        Self {
            queues: (0..banks).map(|_| Vec::with_capacity(capacity)).collect(),
            wanted: 0,
            reads: 0,
            writes: 0,
            capacity,
            last: banks - 1,
            draining: 0,
            reads_first: false,
            move_free: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.wanted == 0
    }

    /// Reads and writes in all queues.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.reads, self.writes)
    }

    pub(super) fn of(&self, bank: u8) -> impl Iterator<Item = &Request> {
        self.queues[usize::from(bank)].iter().map(|waiting| &waiting.request)
    }

    /// The read of this line that waits in its bank's queue.
    pub(super) fn read_of(&self, bank: u8, line: LineAddr) -> Option<u32> {
        let reads = self.queues[usize::from(bank)].iter().filter(|waiting| !waiting.write);
        reads.map(|waiting| waiting.request).find(|read| read.line == line).map(|read| read.id)
    }

    pub(super) fn writes_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        let waiting = self.queues.iter_mut().flatten();
        waiting.filter(|waiting| waiting.write).map(|waiting| &mut waiting.request)
    }

    fn has_room(&self, request: &Request) -> bool {
        self.queues[usize::from(request.place.bank)].len() < self.capacity
    }

    /// The banks with requests, in the order of their turns.
    fn turns(&self) -> impl Iterator<Item = usize> + use<> {
        let behind = match self.last + 1 {
            64 => 0,
            first => u64::MAX << first,
        };
        bits(self.wanted & behind).chain(bits(self.wanted & !behind))
    }
}

/// A command for one of a bank's requests.
#[derive(Clone, Copy)]
struct Next {
    at: u64,
    command: Command,
    bank: usize,
    index: usize,
}

impl Channel {
    pub(super) fn wake_banked(&mut self, now: u64, served: &mut Vec<Served>) -> Option<u64> {
        if self.is_idle() {
            return None;
        }
        self.refresh(now);
        let mut next = self.next_in_turn(now);
        if let Some(given) = next.filter(|next| next.at == now) {
            self.give_banked(now, given, served);
            next = self.next_in_turn(now);
        }
        if self.move_one(now) {
            next = self.next_in_turn(now);
        }
        self.let_writes_go_on(now);
        let move_at = self.moving().map(|(_, arrived)| arrived.max(now + 1));
        let again = self.banked.as_ref().filter(|banked| banked.reads_first).map(|_| now + 1);
        next.map(|next| next.at).into_iter().chain(move_at).chain(again).min()
    }

    /// The first command that may be given, from `now` on.
    fn next_in_turn(&self, now: u64) -> Option<Next> {
        let banked = self.banked.as_ref()?;
        let from = now.max(self.command_free);
        let mut first: Option<Next> = None;
        for bank in banked.turns() {
            for next in self.commands_of(bank, &banked.queues[bank]) {
                let next = Next { at: next.at.max(from), ..next };
                if next.at == from {
                    return Some(next);
                }
                if first.is_none_or(|first| next.at < first.at) {
                    first = Some(next);
                }
            }
        }
        first
    }

    /// The next command of each of a bank's requests, oldest first.
    fn commands_of(&self, bank: usize, queue: &[Waiting]) -> impl Iterator<Item = Next> {
        let state: &Bank = &self.banks[bank];
        let seen = if self.scheduling == Scheduling::Fcfs { 1 } else { queue.len() };
        let wanted = |waiting: &Waiting| waiting.request.place.row == state.open;
        queue[..seen].iter().enumerate().filter_map(move |(index, waiting)| {
            let Waiting { request, write } = waiting;
            let (command, at) = if state.open == CLOSED {
                (Command::Activate, self.activate_at(request.place))
            } else if wanted(waiting) {
                (Command::Column, self.column_at(request.place, *write))
            } else if index == 0
                && (state.columns >= self.row_hits_max || !queue[..seen].iter().any(wanted))
            {
                (Command::Precharge, state.precharge)
            } else {
                return None;
            };
            Some(Next { at: at.max(request.ready), command, bank, index })
        })
    }

    fn give_banked(&mut self, now: u64, next: Next, served: &mut Vec<Served>) {
        self.command_free = now + 1;
        let banked = self.banked.as_mut().expect("only such channels come here");
        banked.last = next.bank;
        let queue = &mut banked.queues[next.bank];
        let place = queue[next.index].request.place;
        let row = &mut queue[next.index].request.row;
        *row = row.with(next.command);
        match next.command {
            Command::Precharge => self.precharge(now, place),
            Command::Activate => self.activate(now, place),
            Command::Column => {
                let Waiting { request, write } = queue.remove(next.index);
                *if write { &mut banked.writes } else { &mut banked.reads } -= 1;
                if queue.is_empty() {
                    banked.wanted &= !(1 << next.bank);
                }
                self.column(now, write, request, served);
            }
        }
    }

    /// Moves a request to its bank's queue if one may move now.
    fn move_one(&mut self, now: u64) -> bool {
        self.begin_draining();
        let banked = self.banked.as_ref().expect("only such channels come here");
        if banked.move_free > now {
            return false;
        }
        let write = banked.draining > 0;
        let Some((index, arrived)) = self.moving() else { return false };
        if arrived > now {
            return false;
        }
        if write && self.is_read_for(&self.writes[index]) {
            let banked = self.banked.as_mut().expect("it was there");
            (banked.draining, banked.reads_first) = (0, true);
            banked.move_free = now + 1;
            return false;
        }
        let queue = if write { &mut self.writes } else { &mut self.reads };
        let request = Request { ready: now + 1, ..queue.remove(index) };
        let banked = self.banked.as_mut().expect("it was there");
        banked.move_free = now + 1;
        banked.draining -= usize::from(write);
        let bank = usize::from(request.place.bank);
        banked.wanted |= 1 << bank;
        *if write { &mut banked.writes } else { &mut banked.reads } += 1;
        banked.queues[bank].push(Waiting { request, write });
        self.begin_draining();
        true
    }

    /// Whether a read of a write's line waits, which has to have what was there before.
    fn is_read_for(&self, write: &Request) -> bool {
        let banked = self.banked.as_ref().expect("only such channels come here");
        self.reads.iter().any(|read| read.line == write.line)
            || banked.read_of(write.place.bank, write.line).is_some()
    }

    /// Where reads came first: writes are drained again once none can move.
    fn let_writes_go_on(&mut self, now: u64) {
        let banked = self.banked.as_ref().expect("only such channels come here");
        let moves = self.moving().is_some_and(|(_, arrived)| arrived <= now);
        if banked.reads_first && banked.move_free <= now && !moves {
            self.banked.as_mut().expect("it was there").reads_first = false;
            self.begin_draining();
        }
    }

    fn begin_draining(&mut self) {
        let banked = self.banked.as_mut().expect("only such channels come here");
        let writes = self.writes.len();
        if banked.draining > 0 || banked.reads_first {
            return;
        }
        if writes >= self.drain_high {
            banked.draining = writes - self.drain_low;
        } else if writes >= self.drain_idle && banked.wanted == 0 {
            banked.draining = writes;
        }
    }

    /// Which request of the queue that is served moves next, and when it arrived.
    fn moving(&self) -> Option<(usize, u64)> {
        let banked = self.banked.as_ref()?;
        let queue = if banked.draining > 0 { &self.writes } else { &self.reads };
        let index = queue.iter().position(|request| banked.has_room(request))?;
        Some((index, queue[index].arrived))
    }
}
