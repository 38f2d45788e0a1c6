//! The published history unit: an LRU queue, and for each object whether it is pending and since
//! which transaction. The sound unit has another shape, because nothing depends on its estimate.

use std::collections::{HashMap, VecDeque};

use outlast_pmem::Medium;
use outlast_trace::{LINE_BYTES, LineAddr};

use crate::barrier::before_flushes_of_others;
use crate::io::{Io, Site};
use crate::pool::Pool;
use crate::writeback::{Access, LruQueue, Sample};

/// A transaction that is over, as its lane hands it over.
pub(crate) struct Ended {
    /// The number that its log is dropped under: no record of it has a greater one.
    pub counter: u64,
    /// Position behind its last record.
    pub head: u64,
    /// The lines that are to be flushed, or believed to be written back; none of one that aborted.
    pub lines: Vec<LineAddr>,
}

/// Neighbouring lines that are looked after together: 256 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Object(u64);

impl Object {
    const LINES_SHIFT: u32 = 2;

    fn of(line: LineAddr) -> (Self, u8) {
        (Self(line.0 >> Self::LINES_SHIFT), 1 << (line.0 & ((1 << Self::LINES_SHIFT) - 1)))
    }

    fn lines(self, mask: u8) -> impl Iterator<Item = LineAddr> {
        let first = self.0 << Self::LINES_SHIFT;
        let stored = move |i: &u64| mask >> i & 1 == 1;
        (0..1 << Self::LINES_SHIFT).filter(stored).map(move |i| LineAddr(first + i))
    }
}

/// A pending object.
struct Pending {
    /// The first transaction that stored to it since it was last flushed.
    since: u64,
    /// When it was accessed last, as the queue counts.
    place: u64,
    /// Which of its lines were stored to.
    lines: u8,
}

/// The unit's state of a lane.
#[derive(Default)]
struct LaneObjects {
    /// Its transactions with the objects that they stored to, in order.
    stored: VecDeque<(u64, Object)>,
    /// Its transactions that are logged, each with the position behind it.
    logged: VecDeque<(u64, u64)>,
    /// Position behind the last one that was dropped.
    dropped: u64,
}

/// The queue and the objects.
pub(crate) struct Objects {
    sample: Sample,
    queue: LruQueue,
    pending: HashMap<Object, Pending>,
    /// Accesses to pending objects, in order.
    ageing: VecDeque<(u64, Object)>,
    lanes: Vec<LaneObjects>,
}

impl Objects {
    pub fn new(cache_bytes: u64, sample: Sample, lanes: usize) -> Self {
        let capacity = sample.share_of(cache_bytes / LINE_BYTES);
        Self {
            sample,
            queue: LruQueue::new(capacity.max(1) as usize),
            pending: HashMap::new(),
            ageing: VecDeque::new(),
            lanes: (0..lanes).map(|_| LaneObjects::default()).collect(),
        }
    }

    /// Bytes of memory that queue and objects take.
    pub fn memory_bytes(&self) -> usize {
        let objects = self.pending.capacity() * size_of::<(Object, Pending)>();
        self.queue.memory_bytes() + objects + self.ageing.capacity() * size_of::<(u64, Object)>()
    }

    /// Looks at every transaction that has ended since the last time.
    pub fn drain<M: Medium>(&mut self, pool: &Pool<M>) {
        for (id, lane) in pool.lanes.iter().enumerate() {
            for Ended { counter, head, lines } in lane.ended.lock(&pool.medium).drain(..) {
                lines
                    .iter()
                    .filter(|l| self.sample.has(l.start()))
                    .for_each(|l| self.queue.touch(*l));
                lines.iter().for_each(|line| self.note_store(id, *line, counter));
                self.lanes[id].logged.push_back((counter, head));
            }
        }
    }

    /// An object may be pending since another transaction: bitmaps are, which many share. Then both
    /// wait for it.
    fn note_store(&mut self, lane: usize, line: LineAddr, counter: u64) {
        let (object, mask) = Object::of(line);
        let place = self.queue.now();
        let new = Pending { since: counter, place: 0, lines: 0 };
        let pending = self.pending.entry(object).or_insert(new);
        pending.since = pending.since.min(counter);
        pending.lines |= mask;
        if std::mem::replace(&mut pending.place, place) != place {
            self.ageing.push_back((place, object));
        }
        let stored = &mut self.lanes[lane].stored;
        if stored.back() != Some(&(counter, object)) {
            stored.push_back((counter, object));
        }
    }

    /// Lines of the sample were read.
    pub fn touch(&mut self, accesses: &[Access]) {
        for line in accesses.iter().flat_map(|access| access.lines()) {
            let (object, _) = Object::of(line);
            let place = self.queue.now();
            if let Some(pending) = self.pending.get_mut(&object)
                && std::mem::replace(&mut pending.place, place) != place
            {
                self.ageing.push_back((place, object));
            }
            self.queue.touch(line);
        }
    }

    /// A transaction touches these lines: flushes the objects that are pending of them. `true` when
    /// there is something to be fenced.
    pub fn finish<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        lines: impl Iterator<Item = LineAddr>,
    ) -> bool {
        let mut flushed = false;
        for object in lines.map(|line| Object::of(line).0) {
            if let Some(pending) = self.pending.remove(&object) {
                before_flushes_of_others();
                object.lines(pending.lines).for_each(|line| io.flush_line(Site::AgedOut, line));
                flushed = true;
            }
        }
        flushed
    }

    /// The lines that were pending when their objects left the queue. They are so no more.
    pub fn take_aged(&mut self) -> Vec<LineAddr> {
        let mut aged = Vec::new();
        let horizon = self.queue.horizon();
        while let Some(&(place, object)) = self.ageing.front().filter(|(p, _)| *p < horizon) {
            self.ageing.pop_front();
            if self.pending.get(&object).is_some_and(|pending| pending.place == place) {
                let pending = self.pending.remove(&object).expect("it is there");
                aged.extend(object.lines(pending.lines));
            }
        }
        // Where nothing ever leaves the queue, nothing else would drop old accesses.
        if self.ageing.len() >= 4 * self.pending.len().max(64) {
            let pending = &self.pending;
            let place_of = |object: &Object| pending.get(object).map(|p| p.place);
            self.ageing.retain(|(place, object)| place_of(object) == Some(*place));
        }
        aged
    }

    /// Flushes every object that is pending since a transaction below `limit`. Their fence is the
    /// caller's.
    pub fn flush_below<M: Medium>(&mut self, io: Io<'_, M>, limit: u64) {
        for lane in &mut self.lanes {
            while let Some(&(_, object)) = lane.stored.front().filter(|(since, _)| *since < limit) {
                lane.stored.pop_front();
                if self.pending.get(&object).is_some_and(|pending| pending.since < limit) {
                    let pending = self.pending.remove(&object).expect("it is there");
                    object.lines(pending.lines).for_each(|l| io.flush_line(Site::SweepData, l));
                }
            }
        }
    }

    /// The smallest limit below which `lines` lines of a lane's ring would come free.
    pub fn limit_for(&self, lane: usize, lines: u64) -> Option<u64> {
        let lane = &self.lanes[lane];
        let enough = |(_, end): &&(u64, u64)| end - lane.dropped >= lines;
        lane.logged.iter().find(enough).map(|(last, _)| last + 1)
    }

    /// The floor is at `limit`: up to where each lane's records are below it.
    pub fn dropped_below(&mut self, limit: u64) -> Vec<u64> {
        let ids = 0..self.lanes.len();
        ids.for_each(|id| {
            self.drop_logged(id, limit);
        });
        self.lanes.iter().map(|lane| lane.dropped).collect()
    }

    /// How far a lane's log can be dropped: up to the first transaction with a pending object. The
    /// number and the position behind the last one before it; `None` when there is nothing new.
    pub fn drop_resolved(&mut self, id: usize) -> Option<(u64, u64)> {
        let Self { lanes, pending, .. } = self;
        let stored = &mut lanes[id].stored;
        let is_done = |(since, object): &(u64, Object)| {
            pending.get(object).is_none_or(|pending| pending.since > *since)
        };
        while stored.front().is_some_and(is_done) {
            stored.pop_front();
        }
        let first_pending = stored.front().map_or(u64::MAX, |(since, _)| *since);
        self.drop_logged(id, first_pending)
    }

    fn drop_logged(&mut self, id: usize, limit: u64) -> Option<(u64, u64)> {
        let lane = &mut self.lanes[id];
        let mut last = None;
        while let Some(&dropped) = lane.logged.front().filter(|(counter, _)| *counter < limit) {
            lane.logged.pop_front();
            lane.dropped = dropped.1;
            last = Some(dropped);
        }
        last
    }

    /// Whether the log of that transaction still stands.
    pub fn is_logged(&self, counter: u64) -> bool {
        self.lanes.iter().any(|lane| lane.logged.iter().any(|(logged, _)| *logged == counter))
    }
}
