//! `none`: nothing is logged durably and nothing is flushed. An upper bound of speed.
//!
//! Old words are kept in volatile memory, to be able to abort.

use outlast_pmem::Medium;
use outlast_trace::PoolOffset;

use crate::ack::Ticket;
use crate::lines::word_mask;
use crate::scheme::{Discipline, Facts};
use crate::transact::Abort;
use crate::tx::Tx;
use crate::tx::commit_record::ITEM_WORDS_MAX;

pub(crate) struct None;

impl Discipline for None {
    const FACTS: Facts = Facts::IN_PLACE;

    fn commit<M: Medium>(tx: &mut Tx<'_, M>) -> Result<Ticket, Abort> {
        let number = tx.draw_number()?;
        tx.store_allocations();
        tx.release_locks(Some(number));
        tx.end_blocks();
        Ok(Ticket::of(tx.pool.seq(number)))
    }

    fn log_old<M: Medium>(tx: &mut Tx<'_, M>) -> Result<(), Abort> {
        tx.lane.buffers.undo.logged = tx.lane.buffers.payload.as_words().len();
        Ok(())
    }

    fn end_aborted<M: Medium>(_: &mut Tx<'_, M>, _: bool) {}
}

impl<M: Medium> Tx<'_, M> {
    /// Stores a word of a transaction that runs alone, and keeps the old one if it does not have that yet.
    pub(crate) fn exchange_word(&mut self, at: PoolOffset, value: u64) {
        let buffers = &mut self.lane.buffers;
        let (index, _) = buffers.lines.find_or_add(at.line());
        let entry = buffers.lines.entry_mut(index);
        let mask = word_mask(at.in_line(), at.in_line() + 8);
        if entry.words & mask == 0 {
            entry.words |= mask;
            buffers.payload.append_words(at, &[self.pool.medium.load_u64(at)], ITEM_WORDS_MAX);
            buffers.undo.logged = buffers.payload.as_words().len();
        }
        entry.note_store(mask);
        buffers.undo.stored = true;
        self.pool.medium.store_u64(at, value);
    }
}
