//! Where a record stands, and where recovery begins to read.

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LINE_BYTES};

use crate::io::{Io, Site};
use crate::log::item::{self, Payload};
use crate::log::record::{self, Found, Head, Peeked, Record, RecordKind, Region};
use crate::log::streamed::{self, At, LAPS, Lap};
use crate::seq::Seq;

/// The first line of a record, and how its lines prove themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub region: Region,
    pub line: u64,
    /// Where the record is streamed: the lap of its words. Else each line has its tag.
    pub lap: Option<Lap>,
}

impl Place {
    /// Of a record whose lines have tags.
    pub fn sealed(region: Region, line: u64) -> Self {
        Self { region, line, lap: None }
    }

    fn at(self, lap: Lap) -> At {
        At { ring: self.region, line: self.line, lap }
    }

    /// The place `lines` further in a ring, from the start of a record.
    #[inline]
    pub fn further(self, lines: u64) -> Self {
        let line = self.line + lines;
        let lap = self.lap.map(|lap| lap.after(line / self.region.lines));
        Self { line: line % self.region.lines, lap, ..self }
    }

    /// The start of the ring's next lap.
    pub fn next_lap(self) -> Self {
        Self { line: 0, lap: self.lap.map(|lap| lap.after(1)), ..self }
    }

    /// Where the lane's first record goes in the opening after one whose tail is here, and whether the
    /// ring is made blank before. Half a ring further lie lines that the crash has most likely not torn:
    /// a checker that enumerates its images need not decide about those that it has.
    ///
    /// On media that tear lines (`tears`), a ring of lines with tags is made blank in any case (LOG-10).
    pub fn of_next_opening(self, streams: bool, tears: bool) -> (Self, bool) {
        let Self { region, line, lap } = self;
        match lap {
            Some(lap) if streams => {
                let (lap, is_blanked) = lap.of_next_opening();
                let line = (line + region.lines / 2) % region.lines;
                (Self { region, line, lap: Some(lap) }, is_blanked)
            }
            // A ring of the other form, or one in which nothing was ever logged.
            _ => {
                let first = streams.then(|| Lap::numbered(0));
                (Self { region, line: 0, lap: first }, streams || lap.is_some() || tears)
            }
        }
    }

    /// Lines that a record with `words` words of payload takes here.
    #[inline]
    pub fn lines_for(self, words: usize) -> u64 {
        match self.lap {
            None => record::lines_for(words),
            Some(_) => streamed::lines_for(words),
        }
    }

    /// Writes a record that is all of a payload and starts its write-back; where records are streamed
    /// such as are shorter than `stream_from` lines are flushed all the same. The fence is the
    /// caller's. It takes `lines` lines.
    #[inline(always)]
    pub fn append<M: Medium>(
        self,
        io: Io<'_, M>,
        site: Site,
        (kind, seq, lines): (RecordKind, Seq, u64),
        payload: &mut Payload,
        stream_from: u64,
    ) {
        match self.lap {
            None => {
                let record = Record::of_all(kind, seq, payload);
                let taken = record::append(io, site, self.region, self.line, record);
                debug_assert!(taken == lines);
            }
            Some(lap) => {
                let record = (kind, seq, lines);
                streamed::append(io, site, self.at(lap), record, payload, stream_from);
            }
        }
    }

    /// The same of some words.
    pub fn append_words<M: Medium>(
        self,
        io: Io<'_, M>,
        site: Site,
        (kind, seq): (RecordKind, Seq),
        words: &[u64],
        stream_from: u64,
    ) -> u64 {
        match self.lap {
            None => {
                let record = Record::new(kind, seq, words);
                record::append(io, site, self.region, self.line, record)
            }
            Some(lap) => {
                streamed::append_words(io, site, self.at(lap), kind, seq, words, stream_from)
            }
        }
    }

    /// The record that says that the next one is at the ring's start.
    pub fn append_wrap<M: Medium>(self, io: Io<'_, M>, site: Site, seq: Seq) {
        match self.lap {
            None => {
                let wrap = Record::new(RecordKind::Wrap, seq, &[]);
                record::append(io, site, self.region, self.line, wrap);
            }
            Some(lap) => streamed::append_wrap(io, site, self.at(lap), seq),
        }
    }

    /// Reads the record, if a live one is complete there.
    pub fn read<M: Medium>(
        self,
        io: Io<'_, M>,
        is_live: &dyn Fn(Seq) -> bool,
        payload: &mut Vec<u64>,
    ) -> Found {
        match self.lap {
            None => record::read(io, self.region, self.line, is_live, payload),
            Some(lap) => streamed::read(io, self.at(lap), is_live, payload),
        }
    }

    /// Reads just the header, if that of a record whose number is `wanted` is there.
    pub fn peek_if<M: Medium>(self, io: Io<'_, M>, wanted: &dyn Fn(Seq) -> bool) -> Peeked {
        match self.lap {
            None => record::peek_if(io.medium, self.region, self.line, wanted),
            Some(lap) => streamed::peek_if(io, self.at(lap), wanted),
        }
    }

    /// The header of a record whose number is `wanted`, if one is there. What else the line holds is
    /// only refused.
    pub fn head_if<M: Medium>(self, io: Io<'_, M>, wanted: &dyn Fn(Seq) -> bool) -> Option<Head> {
        let begins = |line: &[u8]| match self.lap {
            None => record::begins(line, wanted),
            Some(lap) => streamed::begins(line, lap, wanted),
        };
        if !io.medium.verify(self.region.line(self.line), LINE_BYTES, begins) {
            return None;
        }
        match self.peek_if(io, wanted) {
            Peeked::Head(head) => Some(head),
            Peeked::Header(_) | Peeked::Other => None,
        }
    }

    /// Whether the line of a ring shows that the lane's tail, by which this is its place, is older than
    /// it was: it is of a later lap, or a live record begins there in another lap or another form.
    pub fn is_behind_line<M: Medium>(self, io: Io<'_, M>, is_live: &dyn Fn(Seq) -> bool) -> bool {
        let is_later = |line: &[u8]| self.lap.is_some_and(|lap| streamed::is_ahead(line, lap));
        let other = |line: &[u8]| match streamed::lap_of(line) {
            Some(lap) if self.lap.is_none_or(|own| own.tag() != lap.tag()) => {
                streamed::begins(line, lap, is_live).then_some(Self { lap: Some(lap), ..self })
            }
            _ => (self.lap.is_some() && record::begins(line, is_live))
                .then_some(Self { lap: None, ..self }),
        };
        let at = self.region.line(self.line);
        if !io.medium.verify(at, LINE_BYTES, |line| is_later(line) || other(line).is_some()) {
            return false;
        }
        let mut line = [0; LINE_BYTES as usize];
        io.medium.load(at, &mut line);
        let is_whole =
            |place: Self| matches!(place.read(io, is_live, &mut Vec::new()), Found::Record { .. });
        is_later(&line) || other(&line).is_some_and(is_whole)
    }

    /// The header of a complete record.
    pub fn head<M: Medium>(self, medium: &M) -> Head {
        match self.peek_if(Io::new(medium), &|_| true) {
            Peeked::Head(head) => head,
            Peeked::Header(_) | Peeked::Other => unreachable!("an installed record is complete"),
        }
    }

    /// Word `index` of the payload of a complete record.
    fn word<M: Medium>(self, medium: &M, index: usize) -> u64 {
        match self.lap {
            None => medium.load_u64(record::payload_at(self.region, self.line, index)),
            Some(lap) => streamed::word(medium, self.at(lap), index),
        }
    }

    /// The first two words of the payload of a complete record.
    pub fn first_words<M: Medium>(self, medium: &M) -> [u64; 2] {
        [0, 1].map(|index| self.word(medium, index))
    }

    /// The ranges that the items of a complete record of new words name, behind `skip` words. Their
    /// contents are not looked at.
    pub fn for_each_target<M: Medium>(
        self,
        medium: &M,
        head: &Head,
        skip: usize,
        mut visit: impl FnMut(ByteRange),
    ) {
        let mut index = skip;
        while index < head.words {
            let (range, words) = item::place(self.word(medium, index));
            if range.len > 0 {
                visit(range);
            }
            index += words;
        }
    }
}

const STREAMS: u64 = 1 << 55;
const LAP_SHIFT: u32 = 24;
const LINE_MASK: u64 = (1 << LAP_SHIFT) - 1;

/// The payload of a lane's tail.
#[inline]
pub(crate) fn tail_at(place: Place) -> u64 {
    match place.lap {
        None => place.line,
        Some(lap) => place.line | lap.number() << LAP_SHIFT | STREAMS,
    }
}

/// Where in its ring a lane's tail says that reading begins; `None` where no ring has such a place.
pub(crate) fn place_of_tail(ring: Region, tail: u64) -> Option<Place> {
    let (line, lap) = match tail & STREAMS {
        0 => (tail, None),
        _ => (tail & LINE_MASK, Some((tail ^ STREAMS) >> LAP_SHIFT)),
    };
    let is_place = line < ring.lines && lap.is_none_or(|lap| lap < LAPS);
    is_place.then(|| Place { region: ring, line, lap: lap.map(Lap::numbered) })
}
