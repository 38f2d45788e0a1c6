//! Energy of the processor: a simple activity model, and no more.
//!
//! Every retired instruction costs a fixed amount, and so does every access of a cache, by level;
//! each core costs something in each cycle. The amounts of the presets are those of M. Horowitz,
//! "Computing's energy problem (and what we can do about it)", ISSCC 2014, for 45 nm at 0.9 V. An
//! instruction with its fetch, registers and control takes 70 pJ. Eight bytes take 20 pJ from a cache
//! of 32 KiB and 100 pJ from one of 1 MiB, the amount of the second and the last level for each eight
//! bytes of a line. The source gives nothing for a cycle's leakage, so that is 0 unless set. The cost of
//! a level does not depend on its size here, nor that of an instruction on its kind. Differences between
//! schemes come from the instructions and accesses alone.

use super::{config::MachineConfig, stats::RunStats};

/// Words that an access of a level below the first moves.
const WORDS_OF_A_LINE: u64 = 8;

impl RunStats {
    /// Energy that the processor took for this part of the run, in picojoule.
    pub fn processor_energy_pj(&self, machine: &MachineConfig) -> u64 {
        let energy = &machine.energy;
        let cores = self.cores.len() as u64;
        let accesses = |level: crate::CacheStats| level.hits + level.misses;
        let lines = |level| accesses(level) * WORDS_OF_A_LINE;
        let injected: u64 = self.cores.iter().map(|core| core.injected).sum();
        (self.instructions() + injected) * u64::from(energy.instr_pj)
            + self.cycles * cores * u64::from(energy.static_pj)
            + accesses(self.caches.l1) * u64::from(energy.l1_pj)
            + lines(self.caches.l2) * u64::from(energy.l2_pj)
            + lines(self.caches.llc) * u64::from(energy.llc_pj)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timed::CoreStats;

    #[test]
    fn each_activity_costs_its_amount() {
        let mut machine = MachineConfig::named("server").unwrap();
        machine.set_option("core.static_pj", "3").unwrap();
        let mut stats = RunStats {
            cycles: 10,
            cores: vec![CoreStats { instructions: 7, ..CoreStats::default() }; 2],
            ..RunStats::default()
        };
        assert_eq!(stats.processor_energy_pj(&machine), 14 * 70 + 2 * 10 * 3);
        (stats.caches.l1.hits, stats.caches.l1.misses) = (5, 1);
        (stats.caches.l2.hits, stats.caches.llc.misses) = (1, 2);
        let caches = 6 * 20 + 8 * 100 + 16 * 100;
        assert_eq!(stats.processor_energy_pj(&machine), 14 * 70 + 60 + caches);
    }
}
