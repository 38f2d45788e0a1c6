//! One channel: its queues, its banks, and the choice of the next command.
//!
//! All times in here are cycles of the memory clock. A channel does nothing by itself; it is
//! woken when something arrives, and at the times that it asked for. A wake:
//!
//! 1. lets refreshes happen that are due;
//! 2. decides whether reads or writes are served;
//! 3. finds, for every bank that is wanted, the next command and when it may be given;
//! 4. gives the best one that may be given now (column commands before activates before
//!    precharges, older before younger), and starts again; or asks to be woken when the first
//!    of them may.
//!
//! That is a controller that chooses among all that wait. One with a queue for each bank works
//! otherwise: see [`banked`].

mod banked;
mod commands;
mod refresh;

use super::timing::{Place, Timing};
use crate::timed::config::{PagePolicy, Refresh, Scheduling};
use banked::Banked;
pub(super) use commands::Given;
use outlast_trace::LineAddr;

/// No row is open.
const CLOSED: u32 = u32::MAX;
/// The most banks that a channel can have: one bit each.
const BANKS_MAX: usize = 64;

/// How a request found its bank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RowFound {
    /// With its row open.
    Open,
    /// With no row open.
    Closed,
    /// With another row open.
    Other,
}

impl RowFound {
    /// The row's state, when this command had to be given for the request.
    fn with(self, command: Command) -> Self {
        match (self, command) {
            (_, Command::Precharge) => RowFound::Other,
            (RowFound::Open, Command::Activate) => RowFound::Closed,
            _ => self,
        }
    }
}

/// Something that waits for its column command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) id: u32,
    pub(super) line: LineAddr,
    pub(super) place: Place,
    pub(super) arrived: u64,
    /// The core cycle of its arrival at the controller.
    pub(super) since: u64,
    /// The row's state that it found, so far.
    pub(super) row: RowFound,
    /// From when on a command may be given for it.
    pub(super) ready: u64,
}

impl Request {
    pub(super) fn new(id: u32, line: LineAddr, place: Place, arrived: u64, since: u64) -> Self {
        Self { id, line, place, arrived, since, row: RowFound::Open, ready: arrived }
    }
}

/// A read of a line for which another one waits already.
#[derive(Clone, Copy, Debug)]
struct Follower {
    leader: u32,
    id: u32,
    since: u64,
}

/// A column command was given, and this is what follows from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Served {
    pub(super) id: u32,
    pub(super) write: bool,
    /// Last data on the bus.
    pub(super) data: u64,
    /// The same; of a write, its cells are written then.
    pub(super) done: u64,
    pub(super) since: u64,
    /// The row's state that it found; `None` of a read that another one's command answered.
    pub(super) row: Option<RowFound>,
}

/// The earliest times of a bank's next commands.
#[derive(Clone, Copy, Debug)]
struct Bank {
    open: u32,
    activate: u64,
    precharge: u64,
    column: u64,
    /// Column commands since the row was opened.
    columns: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Group {
    activate: u64,
    read: u64,
    write: u64,
}

#[derive(Clone, Copy, Debug)]
struct Rank {
    activate: u64,
    read: u64,
    write: u64,
    /// The last four activates, oldest next; a value is the activate's time + 1.
    activates: [u64; 4],
    oldest: usize,
    refresh: u64,
    /// The bank that is refreshed next, where refreshes are of banks.
    refresh_bank: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Command {
    Column,
    Activate,
    Precharge,
}

/// A command that may be given, and when.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    at: u64,
    command: Command,
    index: usize,
}

#[derive(Debug)]
pub(super) struct Channel {
    timing: Timing,
    scheduling: Scheduling,
    page: PagePolicy,
    drain_high: usize,
    drain_low: usize,
    drain_idle: usize,
    /// Column commands of a row after which it may be closed for an older request.
    row_hits_max: u32,
    banks: Vec<Bank>,
    groups: Vec<Group>,
    ranks: Vec<Rank>,
    pub(super) reads: Vec<Request>,
    pub(super) writes: Vec<Request>,
    draining: bool,
    /// Queues of the banks, behind `reads` and `writes`, where there are such.
    banked: Option<Banked>,
    /// Reads that wait for another one of their line.
    followers: Vec<Follower>,
    /// The command bus is free from here on.
    command_free: u64,
    pub(super) activates: u64,
    pub(super) refreshes: u64,
    refresh_kind: Refresh,
    /// Commands as they are given, if they are asked for.
    pub(super) given: Option<Vec<Given>>,
}

pub(super) struct ChannelShape {
    pub(super) ranks: usize,
    pub(super) groups: usize,
    pub(super) banks: usize,
    pub(super) scheduling: Scheduling,
    pub(super) page: PagePolicy,
    pub(super) refresh: Refresh,
    pub(super) drain_high: usize,
    pub(super) drain_low: usize,
    pub(super) drain_idle: usize,
    /// 0 for no limit.
    pub(super) row_hits: u32,
    /// Requests that each bank's own queue holds; 0 for none.
    pub(super) bank_queue: usize,
}

impl Channel {
    pub(super) fn new(timing: Timing, shape: &ChannelShape) -> Self {
        let groups = shape.ranks * shape.groups;
        let rank = |number: usize| Rank {
            activate: 0,
            read: 0,
            write: 0,
            activates: [0; 4],
            oldest: 0,
            // Staggered, so that the ranks of a channel never all stand still.
            refresh: match timing.refi {
                0 => u64::MAX,
                refi => refi * (number as u64 + 1) / shape.ranks as u64,
            },
            refresh_bank: 0,
        };
        Self {
            timing,
            scheduling: shape.scheduling,
            page: shape.page,
            drain_high: shape.drain_high,
            drain_low: shape.drain_low,
            drain_idle: shape.drain_idle,
            row_hits_max: match shape.row_hits {
                0 => u32::MAX,
                hits => hits,
            },
            banked: (shape.bank_queue > 0)
                .then(|| Banked::new(groups * shape.banks, shape.bank_queue)),
            banks: vec![
                Bank { open: CLOSED, activate: 0, precharge: 0, column: 0, columns: 0 };
                groups * shape.banks
            ],
            groups: vec![Group::default(); groups],
            ranks: (0..shape.ranks).map(rank).collect(),
            reads: Vec::new(),
            writes: Vec::new(),
            draining: false,
            followers: Vec::new(),
            command_free: 0,
            activates: 0,
            refreshes: 0,
            refresh_kind: shape.refresh,
            given: None,
        }
    }

    /// Lets a newer write of its line take the place of one that waits.
    pub(super) fn rename_write(&mut self, older: u32, newer: u32) {
        let banked = self.banked.iter_mut().flat_map(Banked::writes_mut);
        let mut all = self.writes.iter_mut().chain(banked);
        let request = all.find(|request| request.id == older);
        request.expect("a line that is held has its request").id = newer;
    }

    /// Lets a read wait for an older one of its line and be answered with it, if one waits: where
    /// banks have queues of their own.
    pub(super) fn follow(&mut self, id: u32, line: LineAddr, place: Place, since: u64) -> bool {
        let Some(banked) = &self.banked else { return false };
        let Some(leader) = banked.read_of(place.bank, line).or_else(|| {
            self.reads.iter().find(|request| request.line == line).map(|request| request.id)
        }) else {
            return false;
        };
        self.followers.push(Follower { leader, id, since });
        true
    }

    /// Reads and writes that wait for their column command.
    pub(super) fn waiting(&self) -> (usize, usize) {
        let (reads, writes) = self.banked.as_ref().map_or((0, 0), Banked::waiting);
        (self.reads.len() + reads, self.writes.len() + writes)
    }

    /// Whether nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.reads.is_empty()
            && self.writes.is_empty()
            && self.banked.as_ref().is_none_or(Banked::is_empty)
    }

    /// Gives every command that may be given by `now`, and returns when to be woken again.
    pub(super) fn wake(&mut self, now: u64, served: &mut Vec<Served>) -> Option<u64> {
        if self.banked.is_some() {
            return self.wake_banked(now, served);
        }
        loop {
            if self.reads.is_empty() && self.writes.is_empty() {
                return None;
            }
            self.refresh(now);
            let write = self.choose_direction()?;
            let next = self.choose_command(now, write)?;
            if next.at > now {
                return Some(next.at);
            }
            self.give(now, write, next, served);
        }
    }

    /// Whether writes are served now; `None` when neither reads nor enough writes wait.
    fn choose_direction(&mut self) -> Option<bool> {
        let (reads, writes) = (self.reads.len(), self.writes.len());
        if writes >= self.drain_high {
            self.draining = true;
        } else if writes <= self.drain_low {
            self.draining = false;
        }
        let write = self.draining || (reads == 0 && writes >= self.drain_idle);
        (write || reads > 0).then_some(write)
    }

    /// The best command for the requests of one queue: the first in order of time from `now`
    /// on, then of kind, then of age.
    fn choose_command(&self, now: u64, write: bool) -> Option<Candidate> {
        let queue = if write { &self.writes } else { &self.reads };
        let (mut wanted, mut hit) = (0u64, 0u64);
        let (mut oldest, mut oldest_hit) = ([0u16; BANKS_MAX], [0u16; BANKS_MAX]);
        for (index, request) in queue.iter().enumerate() {
            let bank = usize::from(request.place.bank);
            let bit = 1 << bank;
            if wanted & bit == 0 {
                wanted |= bit;
                oldest[bank] = index as u16;
            }
            if hit & bit == 0 && self.banks[bank].open == request.place.row {
                hit |= bit;
                oldest_hit[bank] = index as u16;
            }
        }
        if self.scheduling == Scheduling::Fcfs {
            // Only what a bank's oldest request wants may be done there.
            hit = bits(wanted & hit)
                .fold(0, |kept, bank| kept | u64::from(oldest[bank] == oldest_hit[bank]) << bank);
        }
        let mut best: Option<Candidate> = None;
        let mut consider = |at: u64, command, index: u16| {
            let index = usize::from(index);
            // A request that arrived between two edges is seen at the second.
            let at = at.max(now).max(self.command_free).max(queue[index].arrived);
            let new = (at, command, index);
            if best.is_none_or(|best| new < (best.at, best.command, best.index)) {
                best = Some(Candidate { at, command, index });
            }
        };
        for bank in bits(wanted) {
            let place = queue[usize::from(oldest[bank])].place;
            let state = &self.banks[bank];
            let older_waits = state.columns >= self.row_hits_max && place.row != state.open;
            let hits = hit >> bank & 1 == 1;
            if hits && (self.scheduling == Scheduling::FrFcfs || oldest_hit[bank] == 0) {
                consider(self.column_at(place, write), Command::Column, oldest_hit[bank]);
            }
            if state.open == CLOSED {
                consider(self.activate_at(place), Command::Activate, oldest[bank]);
            } else if !hits || older_waits {
                consider(state.precharge, Command::Precharge, oldest[bank]);
            }
        }
        best
    }

    /// When this place's bank may be opened.
    fn activate_at(&self, place: Place) -> u64 {
        let (bank, group) =
            (&self.banks[usize::from(place.bank)], &self.groups[usize::from(place.group)]);
        let rank = &self.ranks[usize::from(place.rank)];
        let faw = match rank.activates[rank.oldest] {
            0 => 0,
            activate => activate - 1 + self.timing.faw,
        };
        bank.activate.max(group.activate).max(rank.activate).max(faw)
    }

    /// When a column command may be given there; its row is open.
    fn column_at(&self, place: Place, write: bool) -> u64 {
        let (bank, group) =
            (&self.banks[usize::from(place.bank)], &self.groups[usize::from(place.group)]);
        let rank = &self.ranks[usize::from(place.rank)];
        let (group, rank) = if write { (group.write, rank.write) } else { (group.read, rank.read) };
        bank.column.max(group).max(rank)
    }

    fn give(&mut self, now: u64, write: bool, next: Candidate, served: &mut Vec<Served>) {
        self.command_free = now + 1;
        let queue = if write { &mut self.writes } else { &mut self.reads };
        let place = queue[next.index].place;
        queue[next.index].row = queue[next.index].row.with(next.command);
        match next.command {
            Command::Precharge => self.precharge(now, place),
            Command::Activate => self.activate(now, place),
            Command::Column => {
                let request = queue.remove(next.index);
                self.column(now, write, request, served);
            }
        }
    }

    fn column(&mut self, now: u64, write: bool, request: Request, served: &mut Vec<Served>) {
        let Request { id, place, since, row, .. } = request;
        let data = if write { self.write(now, place) } else { self.read(now, place) };
        let done = if write { data + self.timing.wr } else { data };
        self.note_column(now, write, place);
        self.banks[usize::from(place.bank)].columns += 1;
        served.push(Served { id, write, data, done, since, row: Some(row) });
        if !write && !self.followers.is_empty() {
            let answered = self.followers.extract_if(.., |follower| follower.leader == id);
            served.extend(answered.map(|Follower { id, since, .. }| Served {
                id,
                write,
                data,
                done,
                since,
                row: None,
            }));
        }
        if self.page == PagePolicy::Closed && !self.wanted_again(place) {
            let at = self.banks[usize::from(place.bank)].precharge;
            self.precharge(at, place); // Auto-precharge: no command of its own.
        }
    }

    fn wanted_again(&self, place: Place) -> bool {
        let wants =
            |request: &Request| (request.place.bank, request.place.row) == (place.bank, place.row);
        self.reads.iter().any(wants)
            || self.writes.iter().any(wants)
            || self.banked.as_ref().is_some_and(|banked| banked.of(place.bank).any(wants))
    }

    fn precharge(&mut self, now: u64, place: Place) {
        let bank = &mut self.banks[usize::from(place.bank)];
        bank.open = CLOSED;
        bank.activate = bank.activate.max(now + self.timing.rp);
        self.note_precharge(now, place);
    }

    fn activate(&mut self, now: u64, place: Place) {
        let t = &self.timing;
        self.activates += 1;
        let bank = &mut self.banks[usize::from(place.bank)];
        bank.open = place.row;
        bank.columns = 0;
        bank.column = now + t.rcd;
        bank.precharge = now + t.ras;
        bank.activate = now + t.ras + t.rp;
        let group = &mut self.groups[usize::from(place.group)];
        group.activate = now + t.rrd_l;
        let rank = &mut self.ranks[usize::from(place.rank)];
        rank.activate = now + t.rrd_s;
        rank.activates[rank.oldest] = now + 1;
        rank.oldest = (rank.oldest + 1) % 4;
        self.note_activate(now, place);
    }

    /// Returns when the last data is on the bus.
    fn read(&mut self, now: u64, place: Place) -> u64 {
        let t = &self.timing;
        let bank = &mut self.banks[usize::from(place.bank)];
        bank.precharge = bank.precharge.max(now + t.rtp);
        let group = &mut self.groups[usize::from(place.group)];
        group.read = group.read.max(now + t.ccd_l);
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            let same = number == usize::from(place.rank);
            let next = if same { t.ccd_s } else { t.burst + t.rtrs };
            rank.read = rank.read.max(now + next);
            rank.write = rank.write.max(now + t.read_to_write());
        }
        now + t.cl + t.burst
    }

    /// Returns when the last data is on the bus.
    fn write(&mut self, now: u64, place: Place) -> u64 {
        let t = &self.timing;
        let data = now + t.cwl + t.burst;
        let bank = &mut self.banks[usize::from(place.bank)];
        bank.precharge = bank.precharge.max(data + t.wr);
        let group = &mut self.groups[usize::from(place.group)];
        group.write = group.write.max(now + t.ccd_l);
        group.read = group.read.max(now + t.write_to_read(t.wtr_l));
        for (number, rank) in self.ranks.iter_mut().enumerate() {
            let same = number == usize::from(place.rank);
            let (write, read) = if same {
                (t.ccd_s, t.write_to_read(t.wtr_s))
            } else {
                // The controller drives the strobe of both writes: it is not handed over.
                (t.burst, t.write_to_read_elsewhere())
            };
            rank.write = rank.write.max(now + write);
            rank.read = rank.read.max(now + read);
        }
        data
    }
}

/// The set bits of a mask, lowest first.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests;
