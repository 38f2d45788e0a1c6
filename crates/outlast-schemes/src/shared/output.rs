//! Output of programs under checkpoints: it is held until its epoch has persisted, for what a crash
//! undoes must not have been seen.

use std::collections::VecDeque;

use outlast_sim::timed::Cycle;

use crate::Key;

pub(crate) const PERSIST_OUTPUT: Key = Key::flag(
    "persist_output",
    false,
    "a program's output (system calls that write, marks of an epoch) ends the epoch and has it persist \
     at once",
);

/// Output that is held.
#[derive(Clone, Copy, Debug)]
struct Held {
    epoch: u64,
    since: Cycle,
}

/// What is held, and how long the rest was.
#[derive(Clone, Debug, Default)]
pub(super) struct Outputs {
    held: VecDeque<Held>,
    delays: Vec<u64>,
    count: u64,
}

impl Outputs {
    /// A program writes something. It does not wait.
    pub(super) fn hold(&mut self, epoch: u64, since: Cycle) {
        self.held.push_back(Held { epoch, since });
        self.count += 1;
    }

    /// All up to this epoch have persisted: their output may go.
    pub(super) fn let_go(&mut self, epoch: u64, now: Cycle) {
        while let Some(held) = self.held.front()
            && held.epoch <= epoch
        {
            self.delays.push(now.since(held.since));
            self.held.pop_front();
        }
    }

    /// How much there was, and how long what could go was held.
    pub(super) fn take_counters(&mut self, each: &mut dyn FnMut(&'static str, &'static str, f64)) {
        each("outputs", "count", std::mem::take(&mut self.count) as f64);
        let mut delays = std::mem::take(&mut self.delays);
        delays.sort_unstable();
        let sum: u64 = delays.iter().sum();
        let at = |share: f64| {
            let rank = (delays.len() as f64 * share).ceil() as usize;
            delays.get(rank.max(1) - 1).copied().unwrap_or(0)
        };
        let mean = sum as f64 / delays.len().max(1) as f64;
        each("output_cycles", "cycles", sum as f64);
        each("output_cycles_mean", "cycles", mean);
        each("output_cycles_p99", "cycles", at(0.99) as f64);
        each("output_cycles_max", "cycles", at(1.0) as f64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn delays_are_told_by_mean_and_rank_and_what_is_held_is_not_among_them() {
        let mut outputs = Outputs::default();
        (0..200).for_each(|number| outputs.hold(number / 100, Cycle(number)));
        outputs.hold(2, Cycle(900));
        outputs.let_go(1, Cycle(1000));
        let mut counters = BTreeMap::new();
        outputs.take_counters(&mut |name, _, value| {
            counters.insert(name, value);
        });
        let (mean, p99) = (counters["output_cycles_mean"], counters["output_cycles_p99"]);
        assert_eq!((mean, p99), (1000.0 - 99.5, 998.0));
        assert_eq!((counters["output_cycles_max"], counters["outputs"]), (1000.0, 201.0));
    }
}
