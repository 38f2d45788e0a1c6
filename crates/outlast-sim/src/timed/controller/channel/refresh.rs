//! Refreshes: of all banks of a rank at once, or of one bank after the other.
//!
//! Those of banks come so much more often that each bank is refreshed as often as it would be with
//! the others. The other banks go on meanwhile, but for what the command itself keeps from them: it
//! comes tRRD behind an activate of its rank, as if it were one, and keeps other banks from being
//! opened for tRREFD. Open rows are closed one in a clock, and commands that are given now take the
//! command bus.

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
                        self.refresh_banks(now, due, first..first + banks_of_rank, self.timing.rfc);
                        due + self.timing.refi
                    }
                    Refresh::PerBank => {
                        let bank = self.ranks[rank].refresh_bank;
                        let at = first + bank;
                        self.refresh_banks(now, due, at..at + 1, self.timing.rfc_pb);
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
    fn refresh_banks(&mut self, now: u64, due: u64, banks: std::ops::Range<usize>, cycles: u64) {
        let t = self.timing;
        let mut start = due;
        let mut precharges: Vec<u64> = Vec::new();
        for bank in &self.banks[banks.clone()] {
            match bank.open {
                CLOSED => start = start.max(bank.activate),
                _ => precharges.push(bank.precharge.max(due)),
            }
        }
        precharges.sort_unstable();
        let mut free = due;
        for at in precharges {
            let at = at.max(free);
            free = at + 1;
            start = start.max(at + t.rp);
            self.take_command_bus(now, at);
        }
        if self.refresh_kind == Refresh::PerBank {
            let of = banks.start / (self.banks.len() / self.ranks.len());
            let rank = &mut self.ranks[of];
            start = start.max(rank.activate);
            rank.activate = rank.activate.max(start + t.rrefd);
        }
        self.take_command_bus(now, start);
        for number in banks {
            self.banks[number].open = CLOSED;
            self.banks[number].activate = start + cycles;
            self.note_refresh(number, start, cycles);
        }
    }

    /// A command of a refresh that comes at `at`: nothing else may come then.
    fn take_command_bus(&mut self, now: u64, at: u64) {
        if at == now {
            self.command_free = self.command_free.max(now + 1);
        }
    }
}
