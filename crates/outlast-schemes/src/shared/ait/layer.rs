//! Any scheme on address indirection that moves nothing: what lookups cost, and nothing else.

use outlast_sim::timed::{
    Answer, Cycle, Outbox, ReadSeen, ReadTicket, Released, Route, Scheme, StoreSeen, WriteRoute,
    WriteSeen, WriteTicket,
};
use outlast_sim::{Cause, LineBytes};
use outlast_trace::{LaneId, LineAddr};
use rustc_hash::FxHashMap;
use std::marker::PhantomData;

use super::{Ait, Asked, ENTRIES, Lookups};
use crate::shared::SetAssoc;

/// What requests carry: the scheme's own tokens, and those of the layer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Token<T> {
    /// The scheme's.
    Own(T),
    /// A block's entry was not cached, as its lookup says now.
    Missed(u64),
    /// A line of the table with a block's entry.
    Entry(u64),
}

/// The AIT, its cache, and what waits for entries.
#[derive(Clone, Debug)]
struct Indirection {
    ait: Ait,
    /// The table's first line. What lies behind it is not looked up.
    base: LineAddr,
    volatile_from: LineAddr,
    cache: SetAssoc<()>,
    lookups: Lookups,
    looked_up: u64,
    missed: u64,
}

impl Indirection {
    /// Whether a line has an entry.
    #[inline]
    fn maps(&self, line: LineAddr) -> bool {
        line < self.base && line < self.volatile_from
    }

    /// Looks a line up that goes on `cycles` from now; returns when it may, where its entry is
    /// cached.
    #[inline]
    fn look_up<T>(
        &mut self,
        now: Cycle,
        cycles: u64,
        line: LineAddr,
        asked: impl FnOnce(Cycle) -> Asked,
        out: &mut Outbox<Token<T>>,
    ) -> Option<u64> {
        self.looked_up += 1;
        let block = line.0 / self.ait.block_lines;
        let cycles = cycles + self.ait.latency_cycles;
        if let Some(at) = self.cache.find(block) {
            self.cache.touch(at);
            return Some(cycles);
        }
        self.missed += 1;
        let over = now.plus(cycles);
        if self.lookups.wait(block, asked(over)) {
            out.call(over, Token::Missed(block));
        }
        None
    }

    fn route_read<T>(
        &mut self,
        now: Cycle,
        ticket: ReadTicket,
        line: LineAddr,
        cycles: u64,
        out: &mut Outbox<Token<T>>,
    ) -> Route {
        let is_mapped = self.maps(line);
        let asked = |over| Asked::Read(ticket, line, over);
        match is_mapped.then(|| self.look_up(now, cycles, line, asked, out)) {
            Some(None) => Route::Wait,
            Some(Some(cycles)) if cycles > 0 => Route::After { line, cycles },
            None if cycles > 0 => Route::After { line, cycles },
            _ => Route::There(line),
        }
    }

    fn route_write<T>(
        &mut self,
        now: Cycle,
        ticket: WriteTicket,
        line: LineAddr,
        cycles: u64,
        out: &mut Outbox<Token<T>>,
    ) -> WriteRoute {
        let is_mapped = self.maps(line);
        let asked = |over| Asked::Write(ticket, line, over, u8::MAX);
        match is_mapped.then(|| self.look_up(now, cycles, line, asked, out)) {
            Some(None) => WriteRoute::Wait,
            Some(Some(cycles)) if cycles > 0 => WriteRoute::After { line, cycles },
            None if cycles > 0 => WriteRoute::After { line, cycles },
            _ => WriteRoute::There(line),
        }
    }

    /// A block's entry has been read.
    fn has_entry<T>(&mut self, now: Cycle, block: u64, out: &mut Outbox<Token<T>>) {
        if self.cache.find(block).is_none() {
            let at = self.cache.room(block, |()| Some(0)).expect("a set has a way");
            self.cache.put(at, block, ());
        }
        while let Some(asked) = self.lookups.next(block) {
            let (Asked::Read(_, line, _) | Asked::Write(_, line, _, _)) = asked;
            asked.release(now, line, out);
        }
    }
}

/// A scheme on address indirection. It is told all that the machine tells, and its requests are
/// looked up once it has said where they go.
#[derive(Debug)]
pub(crate) struct OnAit<S: Scheme> {
    scheme: S,
    /// What the scheme wants, before it is passed on.
    own: Outbox<S::Token>,
    under: Indirection,
    /// Reads and writes that the scheme lets wait, with their lines.
    held_reads: FxHashMap<ReadTicket, LineAddr>,
    held_writes: FxHashMap<WriteTicket, LineAddr>,
}

impl<S: Scheme> OnAit<S> {
    pub(crate) fn new(scheme: S, ait: Ait, base: LineAddr, volatile_from: LineAddr) -> Self {
        let under = Indirection {
            ait,
            base,
            volatile_from,
            cache: SetAssoc::new(ait.sets, ait.ways),
            lookups: Lookups::default(),
            looked_up: 0,
            missed: 0,
        };
        Self {
            scheme,
            own: Outbox::default(),
            under,
            held_reads: FxHashMap::default(),
            held_writes: FxHashMap::default(),
        }
    }

    /// Calls the scheme and passes on what it wants; what it lets go is looked up.
    #[inline]
    fn tell<R>(
        &mut self,
        now: Cycle,
        out: &mut Outbox<Token<S::Token>>,
        call: impl FnOnce(&mut S, &mut Outbox<S::Token>) -> R,
    ) -> R {
        let told = call(&mut self.scheme, &mut self.own);
        if !self.own.is_empty() {
            self.pass_on(now, out);
        }
        told
    }

    fn pass_on(&mut self, now: Cycle, out: &mut Outbox<Token<S::Token>>) {
        let Self { own, under, held_reads, held_writes, .. } = self;
        own.pass_to(out, Token::Own, |out, released| match released {
            Released::Read(_, Route::Wait) | Released::Write(_, WriteRoute::Wait) => {}
            Released::Read(ticket, route) => {
                let line = held_reads.remove(&ticket).expect("it waits");
                let route = read_goes(under, now, ticket, line, route, out);
                out.release(ticket, route);
            }
            Released::Write(ticket, route) => {
                let line = held_writes.remove(&ticket).expect("it waits");
                let route = write_goes(under, now, ticket, line, route, out);
                out.release_write(ticket, route);
            }
        });
    }
}

/// Looks up where a scheme sends a read of a line.
#[inline]
fn read_goes<T>(
    under: &mut Indirection,
    now: Cycle,
    ticket: ReadTicket,
    line: LineAddr,
    route: Route,
    out: &mut Outbox<Token<T>>,
) -> Route {
    match route {
        Route::Here => under.route_read(now, ticket, line, 0, out),
        Route::There(to) => under.route_read(now, ticket, to, 0, out),
        Route::After { line: to, cycles } => under.route_read(now, ticket, to, cycles, out),
        Route::Answered { .. } | Route::Wait => route,
    }
}

/// The same for a write.
#[inline]
fn write_goes<T>(
    under: &mut Indirection,
    now: Cycle,
    ticket: WriteTicket,
    line: LineAddr,
    route: WriteRoute,
    out: &mut Outbox<Token<T>>,
) -> WriteRoute {
    match route {
        WriteRoute::Here => under.route_write(now, ticket, line, 0, out),
        WriteRoute::There(to) => under.route_write(now, ticket, to, 0, out),
        WriteRoute::After { line: to, cycles } => under.route_write(now, ticket, to, cycles, out),
        WriteRoute::Taken | WriteRoute::Wait => route,
    }
}

/// Causes of a scheme's traffic, and behind them the table's.
struct Causes<S>(PhantomData<S>);

/// Causes that a scheme names, at most.
const CAUSES_MAX: usize = 15;

impl<S: Scheme> Causes<S> {
    const AIT: Cause = Cause::Scheme(S::CAUSES.len() as u8);

    const ALL: [&'static str; CAUSES_MAX + 1] = {
        assert!(S::CAUSES.len() <= CAUSES_MAX, "a scheme names 15 causes at most");
        let mut all = ["ait"; CAUSES_MAX + 1];
        let mut k = 0;
        while k < S::CAUSES.len() {
            all[k] = S::CAUSES[k];
            k += 1;
        }
        all
    };

    const NAMES: &'static [&'static str] = Self::ALL.split_at(S::CAUSES.len() + 1).0;
}

type Out<S> = Outbox<Token<<S as Scheme>::Token>>;

impl<S: Scheme> Scheme for OnAit<S> {
    type Tag = S::Tag;
    type Page = S::Page;
    type Token = Token<S::Token>;

    const CAUSES: &'static [&'static str] = Causes::<S>::NAMES;
    const OWN_ARE_ASKED: bool = true;
    const SEES_BELOW: bool = S::SEES_BELOW;

    fn started(&mut self, out: &mut Out<S>) {
        self.tell(Cycle(0), out, |scheme, own| scheme.started(own));
    }

    #[inline]
    fn begin(&mut self, now: Cycle, lane: LaneId, out: &mut Out<S>) -> Answer {
        self.tell(now, out, |scheme, own| scheme.begin(now, lane, own))
    }

    #[inline]
    fn end(&mut self, now: Cycle, lane: LaneId, out: &mut Out<S>) -> Answer {
        self.tell(now, out, |scheme, own| scheme.end(now, lane, own))
    }

    #[inline]
    fn abort(&mut self, now: Cycle, lane: LaneId, out: &mut Out<S>) -> Answer {
        self.tell(now, out, |scheme, own| scheme.abort(now, lane, own))
    }

    #[inline]
    fn epoch(&mut self, now: Cycle, lane: LaneId, out: &mut Out<S>) -> Answer {
        self.tell(now, out, |scheme, own| scheme.epoch(now, lane, own))
    }

    #[inline]
    fn store(
        &mut self,
        now: Cycle,
        lane: LaneId,
        store: &StoreSeen<'_>,
        tag: &mut S::Tag,
        page: Option<&mut S::Page>,
        out: &mut Out<S>,
    ) -> Answer {
        self.tell(now, out, |scheme, own| scheme.store(now, lane, store, tag, page, own))
    }

    #[inline]
    fn moved_down(
        &mut self,
        now: Cycle,
        level: u8,
        line: LineAddr,
        data: &LineBytes,
        tag: S::Tag,
        out: &mut Out<S>,
    ) {
        self.tell(now, out, |scheme, own| scheme.moved_down(now, level, line, data, tag, own));
    }

    #[inline]
    fn streams(&mut self, now: Cycle, line: LineAddr, out: &mut Out<S>) {
        self.tell(now, out, |scheme, own| scheme.streams(now, line, own));
    }

    #[inline]
    fn filled(&mut self, now: Cycle, line: LineAddr, out: &mut Out<S>) -> S::Tag {
        self.tell(now, out, |scheme, own| scheme.filled(now, line, own))
    }

    #[inline]
    fn scanned(
        &mut self,
        now: Cycle,
        level: u8,
        line: LineAddr,
        dirty: bool,
        tag: &mut S::Tag,
        out: &mut Out<S>,
    ) {
        self.tell(now, out, |scheme, own| scheme.scanned(now, level, line, dirty, tag, own));
    }

    #[inline]
    fn is_flushed(
        &mut self,
        now: Cycle,
        token: Token<S::Token>,
        level: u8,
        line: LineAddr,
        dirty: bool,
        tag: &mut S::Tag,
    ) -> bool {
        match token {
            Token::Own(token) => self.scheme.is_flushed(now, token, level, line, dirty, tag),
            Token::Missed(_) | Token::Entry(_) => dirty,
        }
    }

    fn is_discarded(&mut self, now: Cycle, write: &WriteSeen<'_, S::Tag>) -> bool {
        let goes = self.scheme.is_discarded(now, write);
        if goes {
            self.held_writes.remove(&write.ticket);
            self.under.lookups.forget(write.ticket);
        }
        goes
    }

    #[inline]
    fn translated(
        &mut self,
        now: Cycle,
        lane: LaneId,
        page: u64,
        bits: &mut S::Page,
        out: &mut Out<S>,
    ) {
        self.tell(now, out, |scheme, own| scheme.translated(now, lane, page, bits, own));
    }

    #[inline]
    fn page_leaves(
        &mut self,
        now: Cycle,
        page: u64,
        bits: &mut S::Page,
        out: &mut Out<S>,
    ) -> Answer {
        self.tell(now, out, |scheme, own| scheme.page_leaves(now, page, bits, own))
    }

    #[inline]
    fn untranslated(&mut self, now: Cycle, lane: LaneId, page: u64, out: &mut Out<S>) {
        self.tell(now, out, |scheme, own| scheme.untranslated(now, lane, page, own));
    }

    #[inline]
    fn locate(&self, line: LineAddr) -> LineAddr {
        self.scheme.locate(line)
    }

    #[inline]
    fn held(&self, line: LineAddr) -> Option<&LineBytes> {
        self.scheme.held(line)
    }

    #[inline]
    fn route_read(&mut self, now: Cycle, read: &ReadSeen, out: &mut Out<S>) -> Route {
        let route = self.tell(now, out, |scheme, own| scheme.route_read(now, read, own));
        if route == Route::Wait {
            self.held_reads.insert(read.ticket, read.line);
        }
        read_goes(&mut self.under, now, read.ticket, read.line, route, out)
    }

    #[inline]
    fn route_write(
        &mut self,
        now: Cycle,
        write: &WriteSeen<'_, S::Tag>,
        out: &mut Out<S>,
    ) -> WriteRoute {
        let route = self.tell(now, out, |scheme, own| scheme.route_write(now, write, own));
        if route == WriteRoute::Wait {
            self.held_writes.insert(write.ticket, write.line);
        }
        write_goes(&mut self.under, now, write.ticket, write.line, route, out)
    }

    fn own_read(
        &mut self,
        now: Cycle,
        read: ReadTicket,
        line: LineAddr,
        out: &mut Out<S>,
    ) -> Route {
        self.under.route_read(now, read, line, 0, out)
    }

    fn own_write(
        &mut self,
        now: Cycle,
        write: WriteTicket,
        line: LineAddr,
        out: &mut Out<S>,
    ) -> WriteRoute {
        self.under.route_write(now, write, line, 0, out)
    }

    #[inline]
    fn may_write(&mut self, now: Cycle, line: LineAddr, cause: Cause, out: &mut Out<S>) -> Answer {
        self.tell(now, out, |scheme, own| scheme.may_write(now, line, cause, own))
    }

    #[inline]
    fn durable(&mut self, now: Cycle, line: LineAddr, cause: Cause, sent: Cycle, out: &mut Out<S>) {
        self.tell(now, out, |scheme, own| scheme.durable(now, line, cause, sent, own));
    }

    fn write_taken(&mut self, now: Cycle, token: Token<S::Token>, out: &mut Out<S>) {
        let Token::Own(token) = token else { return };
        self.tell(now, out, |scheme, own| scheme.write_taken(now, token, own));
    }

    fn write_durable(&mut self, now: Cycle, token: Token<S::Token>, out: &mut Out<S>) {
        let Token::Own(token) = token else { return };
        self.tell(now, out, |scheme, own| scheme.write_durable(now, token, own));
    }

    fn read_done(
        &mut self,
        now: Cycle,
        token: Token<S::Token>,
        data: &LineBytes,
        out: &mut Out<S>,
    ) {
        match token {
            Token::Own(token) => {
                self.tell(now, out, |scheme, own| scheme.read_done(now, token, data, own));
            }
            Token::Entry(block) => self.under.has_entry(now, block, out),
            Token::Missed(_) => {}
        }
    }

    fn step(&mut self, now: Cycle, token: Token<S::Token>, out: &mut Out<S>) {
        match token {
            Token::Own(token) => self.tell(now, out, |scheme, own| scheme.step(now, token, own)),
            Token::Missed(block) => {
                let line = self.under.base.plus(block / ENTRIES);
                out.read_inside(line, Causes::<S>::AIT, Token::Entry(block));
            }
            Token::Entry(_) => {}
        }
    }

    fn stopped(&mut self, now: Cycle, token: Token<S::Token>, out: &mut Out<S>) {
        let Token::Own(token) = token else { return };
        self.tell(now, out, |scheme, own| scheme.stopped(now, token, own));
    }

    fn flushed(&mut self, now: Cycle, token: Token<S::Token>, out: &mut Out<S>) {
        let Token::Own(token) = token else { return };
        self.tell(now, out, |scheme, own| scheme.flushed(now, token, own));
    }

    fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        self.scheme.take_counters(each);
        each("ait_lookups", "count", std::mem::take(&mut self.under.looked_up) as f64);
        each("ait_misses", "count", std::mem::take(&mut self.under.missed) as f64);
    }
}

#[cfg(test)]
mod tests {
    /// A port that is added and not passed on here would leave a scheme without it, silently.
    #[test]
    fn the_layer_passes_on_every_port() {
        let ports = include_str!("../../../../outlast-sim/src/timed/ports/mod.rs");
        let (_, ports) = ports.split_once("pub trait Scheme").expect("it is there");
        let (ports, _) = ports.split_once("\n}\n").expect("it has an end");
        let methods = ports.lines().filter_map(|line| line.trim().strip_prefix("fn "));
        let names: Vec<&str> = methods.filter_map(|line| line.split('(').next()).collect();
        assert!(names.len() > 20 && names.contains(&"held"), "{names:?}");
        for name in names {
            let passes_on = format!("scheme.{name}(");
            let is_here = include_str!("layer.rs").contains(&passes_on);
            assert!(is_here || name.starts_with("own_"), "{name}");
        }
    }
}
