//! `none`: nothing is logged durably and nothing is flushed. An upper bound of speed.
//!
//! An abort needs what stood in place. Each store appends the old content of its words to a list in
//! volatile memory, without a look at what the list has already:
//!
//! * **NONE-1** A word's old content joins the list before the word is stored to. An abort puts the list
//!   back from its end, so the first content of a word that was stored to twice is the last one put back.

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, PoolOffset};

use crate::ack::Ticket;
use crate::plant::Plant;
use crate::scheme::{Discipline, Facts};
use crate::transact::Abort;
use crate::tx::Tx;

pub(crate) struct None;

impl Discipline for None {
    const FACTS: Facts = Facts { is_volatile: true, logs_old_bits: false, ..Facts::IN_PLACE };

    fn commit<M: Medium>(tx: &mut Tx<'_, M>) -> Result<Ticket, Abort> {
        let number = tx.draw_number()?;
        tx.store_allocations();
        tx.release_locks(Some(number));
        tx.end_blocks();
        Ok(Ticket::of(tx.pool.seq(number)))
    }

    fn end_aborted<M: Medium>(_: &mut Tx<'_, M>, _: bool) {}
}

impl<M: Medium> Tx<'_, M> {
    /// Stores a word of a transaction that runs alone.
    #[inline]
    pub(crate) fn exchange_word(&mut self, at: PoolOffset, value: u64) {
        let medium = &self.pool.medium;
        // NONE-1.
        self.lane.buffers.old_words.push((at, medium.load_u64(at)));
        medium.store_u64(at, value);
    }

    /// Stores bytes to what is no new block, and locks their lines beside others.
    pub(crate) fn exchange(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        let range = ByteRange::new(at, bytes.len() as u64);
        if !self.lane.buffers.is_alone {
            range.lines().try_for_each(|line| self.lock_line(line))?;
        }
        let medium = &self.pool.medium;
        let words = (at.0 & !7..range.end().0).step_by(8).map(PoolOffset);
        // NONE-1.
        self.lane.buffers.old_words.extend(words.map(|word| (word, medium.load_u64(word))));
        medium.store(at, bytes);
        Ok(())
    }

    /// The old content of all words is in place again.
    pub(crate) fn put_back_exchanged(&self) {
        let skip = usize::from(self.io().plants(Plant::AbortIncomplete));
        for (at, old) in self.lane.buffers.old_words.iter().skip(skip).rev() {
            self.pool.medium.store_u64(*at, *old);
        }
    }
}

#[cfg(all(test, not(outlast_loom)))]
mod tests {
    use outlast_pmem::Heap;

    use crate::medium::{CreateOptions, OpenOptions};
    use crate::pool::Pool;
    use crate::{Abort, BlockKind, Runner, Scheme, Transact};

    /// NONE-1, alone and beside another lane.
    #[test]
    fn an_abort_puts_back_the_first_content_of_each_word() {
        let (create, open) = (CreateOptions::default(), OpenOptions::with_scheme(Scheme::None));
        let pool = Pool::create_on(Heap::new(4 << 20), &create, &open).unwrap();
        let (mut lane, mut other) = (pool.lane().unwrap(), pool.lane().unwrap());
        let before: Vec<u8> = (0..=255).collect();
        let block = lane.run(|tx| {
            let block = tx.alloc(256, BlockKind::General)?;
            tx.store(block, &before).map(|()| block)
        });
        let block = block.unwrap();
        for is_alone in [true, false] {
            if !is_alone {
                other.run(|tx| tx.load_u64(block)).unwrap();
            }
            let aborted = lane.run(|tx| -> Result<(), Abort> {
                assert_eq!(tx.is_alone(), is_alone);
                tx.store_u64(block.plus(8), 1)?;
                tx.store(block.plus(5), &[2; 100])?;
                tx.store_u64(block.plus(8), 3)?;
                tx.store(block.plus(62), &[4; 3])?;
                tx.store_u64(block.plus(64), 5)?;
                assert_eq!(tx.load_u64(block.plus(8))?, 3);
                let new = tx.alloc(64, BlockKind::General)?;
                tx.store_u64(new, 6)?;
                tx.store_u64(block.plus(72), 7)?;
                Err(Abort::cancelled("to put back"))
            });
            assert!(matches!(aborted, Err(Abort::Cancelled(_))));
            let mut after = vec![0; 256];
            other.run(|tx| tx.load(block, &mut after)).unwrap();
            assert_eq!(after, before);
        }
    }
}
