//! Refreshes: of all banks of a rank at once, or of one bank after the other.
//!
//! Those of banks come so much more often that each bank is refreshed as often as it would be with
//! the others. The other banks go on meanwhile; what the command itself keeps from them (the
//! command bus for a clock, the standards' time from it to another bank's activate) is not
//! modelled.

use super::{CLOSED, Channel};
use crate::timed::config::Refresh;

impl Channel {
    /// Lets every refresh happen that is due: the rows are closed as soon as they may be, and
    /// nothing can be opened until the refresh is over. What was due while the channel was idle
    /// happened then.
    pub(super) fn refresh(&mut self, now: u64) {
        let banks_of_rank = self.banks.len() / self.ranks.len();
        for rank in 0..self.ranks.len() {
            while self.ranks[rank].refresh <= now {
                let due = self.ranks[rank].refresh;
                let first = rank * banks_of_rank;
                let next = match self.refresh_kind {
                    Refresh::AllBank => {
                        self.refresh_banks(due, first..first + banks_of_rank, self.timing.rfc);
                        due + self.timing.refi
                    }
                    Refresh::PerBank => {
                        let bank = self.ranks[rank].refresh_bank;
                        let at = first + bank;
                        self.refresh_banks(due, at..at + 1, self.timing.rfc_pb);
                        self.ranks[rank].refresh_bank = (bank + 1) % banks_of_rank;
                        // Whole rounds take whole intervals, however they divide.
                        let (refi, count) = (self.timing.refi, banks_of_rank as u64);
                        let share = |number: u64| refi * number / count;
                        due + share(bank as u64 + 1) - share(bank as u64)
                    }
                };
                self.ranks[rank].refresh = next;
                self.refreshes += 1;
            }
        }
    }

    /// Closes the banks' rows, and keeps them closed for `cycles`.
    fn refresh_banks(&mut self, due: u64, banks: std::ops::Range<usize>, cycles: u64) {
        let t = self.timing;
        let start = self.banks[banks.clone()].iter().fold(due, |start, bank| {
            let idle = match bank.open {
                CLOSED => bank.activate,
                _ => bank.precharge.max(due) + t.rp,
            };
            start.max(idle)
        });
        for number in banks {
            self.banks[number].open = CLOSED;
            self.banks[number].activate = start + cycles;
            self.note_refresh(number, start, cycles);
        }
    }
}
