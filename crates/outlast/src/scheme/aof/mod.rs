//! An append-only command log, from which the data is rebuilt (the AOF of Redis, kept in the pool).
//!
//! A commit appends what the transaction did to the lane's log and fences it; what is stored in
//! place after that is never flushed and never trusted. The commands are those of
//! [`Transact`](crate::Transact): words stored, blocks taken and given back. The log begins at the
//! start of the lane's ring and grows through the heap, region by region, until the pool is
//! closed or opened again: then everything is repeated in the order of its numbers, flushed, and
//! the log begins anew. Until then nothing shortens it.
//!
//! * **AOF-1** The commands are fenced before anything is stored in place, a lock released or
//!   anything acknowledged: the commit point.
//! * **AOF-2** Every store is logged, those to new blocks too, with the values stored. So repeating
//!   all commands in order gives every word its last value, whichever of the stores in place the
//!   cache has evicted.
//! * **AOF-3** As long as the log stands no chunk changes its use: one of a class stays that class's,
//!   one of a large block or of the log is not handed out again. Repeating an old command would
//!   store over what had become another class's bitmap, or the log itself. Small blocks are used
//!   again at once, since whatever the next owner stores is repeated later.

use outlast_pmem::Medium;

use crate::ack::Ticket;
use crate::alloc::Reserved;
use crate::io::Site;
use crate::log::{self, Record, RecordKind};
use crate::plant::Plant;
use crate::pool::Pool;
use crate::recover::LiveLog;
use crate::scheme::parts::Part;
use crate::scheme::redo::LONG;
use crate::scheme::{Discipline, Facts, Role};
use crate::seq::Seq;
use crate::transact::Abort;
use crate::tx::Tx;

/// Lines that stay free at the end of a region: for the name of the next, and for the word that a
/// final part has more.
const SPARE_LINES: u64 = 2;

pub(crate) struct Aof;

impl Discipline for Aof {
    const FACTS: Facts = Facts {
        role: Role::Baseline,
        commits_at: &[Site::Command],
        keeps_chunks: true,
        ..Facts::WRITE_SET
    };

    fn commit<M: Medium>(tx: &mut Tx<'_, M>) -> Result<Ticket, Abort> {
        let io = tx.io();
        tx.gather_new::<LONG>();
        let (region, line) = tx.lane.log.commands.unwrap_or_else(|| (tx.ring(), 0));
        let more = |tx: &mut Tx<'_, M>, lines| tx.reserve_log_region(lines);
        let parts = tx.place_parts(region, line, SPARE_LINES, more)?;
        tx.lock_write_set()?;
        let number = tx.draw_number()?;
        let seq = tx.pool.seq(number);
        tx.append_commands(&parts, seq);
        if io.plants(Plant::EarlyRelease) {
            tx.release_locks(Some(number));
        }
        if io.plants(Plant::InstallBeforeFence) {
            tx.install();
            tx.store_allocations();
        }
        tx.fence_or_fail(Site::Command)?; // AOF-1
        tx.install();
        tx.store_allocations();
        tx.release_locks(Some(number));
        tx.end_commands(seq);
        Ok(Ticket::of(seq))
    }

    /// A damaged word stays as it is: opening will say so.
    fn close<M: Medium>(pool: &Pool<M>) -> bool {
        let (io, geometry) = (pool.io(), &pool.header().geometry);
        LiveLog::read(io, geometry).and_then(|log| log.apply(io, geometry)).is_ok()
    }
}

impl<M: Medium> Tx<'_, M> {
    /// Stores and flushes the record, or its parts, and where the log goes on.
    fn append_commands(&mut self, parts: &[Part], seq: Seq) {
        let io = self.io();
        let site = Site::Command;
        let payload = self.lane.buffers.payload.as_words();
        let last = parts.len() - 1;
        let before = parts[..last].iter().filter(|part| !part.words.is_empty()).count();
        for (index, part) in parts.iter().enumerate() {
            let mut line = part.line;
            let words = &payload[part.words.clone()];
            let counted: Vec<u64>;
            let (kind, words) = match index == last {
                true if before > 0 => {
                    counted = [&[before as u64], words].concat();
                    (RecordKind::RedoFinal, &counted[..])
                }
                true => (RecordKind::Redo, words),
                false => (RecordKind::RedoPart, words),
            };
            if !words.is_empty() {
                let record = Record::new(kind, seq, words);
                line += log::append(io, site, part.region, line, record);
            }
            if let Some(next) = part.next {
                let named = [next.at.0, next.lines];
                let record = Record::new(RecordKind::Onward, seq, &named);
                log::append(io, site, part.region, line, record);
            }
            debug_assert!(line < part.region.lines, "a line stays free: {}", words.len());
            self.lane.log.commands = Some((part.region, line));
        }
    }

    /// AOF-3. The log's regions are not used until the pool is opened again.
    fn end_commands(&mut self, seq: Seq) {
        let reuse = self.io().plants(Plant::ChunksReused);
        let freed_already = self.io().plants(Plant::FreedAtOnce);
        let buffers = &mut self.lane.buffers;
        if buffers.freed.is_empty() && buffers.regions.is_empty() {
            return;
        }
        let mut heap = self.pool.heap.lock(&self.pool.medium);
        for block in buffers.freed.drain(..).filter(|_| !freed_already) {
            match block.reserved {
                Reserved::Run { .. } if !reuse => heap.release_after(seq, block),
                _ => heap.release(block),
            }
        }
        if self.pool.io().plants(Plant::LogRegionFreed) {
            buffers.regions.iter().for_each(|region| heap.release_region(*region));
        }
        buffers.regions.clear();
    }
}
