//! Whether a machine can be built, and the caches of one that can.

use super::{CoreKind, LevelConfig, MachineConfig, MachineError, MemoryConfig, Refresh};
use crate::config::{CacheConfig, HierarchyConfig};

impl MachineConfig {
    /// The caches, as both drivers take them.
    pub fn caches(&self) -> HierarchyConfig {
        let level = |level: &LevelConfig| CacheConfig {
            size_bytes: level.size.0,
            ways: level.ways,
            policy: level.policy,
        };
        HierarchyConfig {
            lanes: self.core.count as u16,
            l1: level(&self.l1),
            l2: (self.l2.size.0 > 0).then(|| level(&self.l2)),
            llc: level(&self.llc),
            inclusion: self.inclusion,
            wc_lines: self.wc_lines as u16,
            l1_write_through: self.extras.write_through,
        }
    }

    /// Whether such a machine can be built.
    ///
    /// # Errors
    /// Names the first value that cannot be, and what would be right.
    pub fn validate(&self) -> Result<(), MachineError> {
        let caches = self.caches().validate();
        caches.map_err(|source| MachineError::Caches { name: self.name.clone(), source })?;
        let ranges: &[(&str, u64, u64, u64)] = &[
            ("core.count", self.core.count.into(), 1, 64),
            ("core.threads", self.core.threads.into(), 1, 2),
            ("l1.prefetch", self.extras.prefetch.into(), 0, 32),
            ("caches.scan_tags", self.extras.scan_tags.into(), 0, 1024),
            ("l1.banks", self.extras.l1_banks.into(), 0, 64),
            ("llc.banks", self.extras.llc_banks.into(), 0, 1024),
            ("core.dispatch_width", self.core.dispatch_width.into(), 1, 16),
            ("core.issue_width", self.core.issue_width.into(), 1, 16),
            ("core.retire_width", self.core.retire_width.into(), 1, 16),
            ("core.load_ports", self.core.load_ports.into(), 1, 16),
            ("core.store_ports", self.core.store_ports.into(), 1, 16),
            ("core.rob", self.core.rob.into(), 1, 4096),
            ("core.load_queue", self.core.load_queue.into(), 4, 1024),
            ("core.store_queue", self.core.store_queue.into(), 2, 1024),
            ("core.flushes", self.core.flushes.into(), 1, 256),
            ("tlb.l1_sets", self.tlb.l1_sets.into(), 1, 1 << 16),
            ("tlb.l1_ways", self.tlb.l1_ways.into(), 1, 64),
            ("tlb.l2_sets", self.tlb.l2_sets.into(), 1, 1 << 20),
            ("tlb.l2_ways", self.tlb.l2_ways.into(), 1, 64),
            ("tlb.walkers", self.tlb.walkers.into(), 1, 16),
            ("l1.mshrs", self.l1.mshrs.into(), 1, 64),
            ("llc.mshrs", self.llc.mshrs.into(), 1, 1024),
        ];
        self.check(
            "",
            ranges,
            &[("core.predictor_counters", self.core.predictor_counters.into())],
        )?;
        if self.core.threads > 1 && self.core.kind == CoreKind::InOrder {
            let message =
                "core.threads is 2 on cores that are in order: take 1, or core.kind = ooo";
            return Err(self.impossible(message.to_owned()));
        }
        if ![0, 4096, 2 << 20].contains(&self.tlb.page.0) {
            return Err(self.impossible("tlb.page: take 4 KiB, 2 MiB, or 0 B for none".to_owned()));
        }
        self.validate_memory("memory", &self.memory)?;
        match (&self.dram.memory, self.dram.from.0) {
            (None, 0) => Ok(()),
            (Some(dram), from) if from > 0 && from.is_multiple_of(64) => {
                self.validate_memory("dram", dram)
            }
            (Some(_), _) => {
                let message = "dram.preset needs dram.from, a multiple of 64 B above 0 B";
                Err(self.impossible(message.to_owned()))
            }
            (None, _) => Err(self.impossible("dram.from needs dram.preset".to_owned())),
        }
    }

    /// Whether each value lies in its range, and those of `powers` are powers of two.
    fn check(
        &self,
        memory: &str,
        ranges: &[(&str, u64, u64, u64)],
        powers: &[(&str, u64)],
    ) -> Result<(), MachineError> {
        for &(key, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                let message = format!("{memory}{key} is {value}: take {low} to {high}");
                return Err(self.impossible(message));
            }
        }
        for &(key, value) in powers {
            if !value.is_power_of_two() {
                let message = format!("{memory}{key} is {value}: take a power of two");
                return Err(self.impossible(message));
            }
        }
        Ok(())
    }

    fn validate_memory(&self, name: &str, m: &MemoryConfig) -> Result<(), MachineError> {
        let ranges: &[(&str, u64, u64, u64)] = &[
            ("read_queue", m.read_queue.into(), 1, 1024),
            ("bank_queue", m.bank_queue.into(), 0, 64),
            ("write_queue", m.write_queue.into(), 1, 1024),
            ("drain_high", m.drain_high.into(), 1, m.write_queue.into()),
            ("drain_low", m.drain_low.into(), 0, u64::from(m.drain_high) - 1),
            ("drain_idle", m.drain_idle.into(), 1, m.write_queue.into()),
            ("write_buffer", m.write_buffer.into(), 1, 1 << 16),
            ("row", m.row.0, 64, 1 << 20),
        ];
        let powers: &[(&str, u64)] = &[
            ("channels", m.channels.into()),
            ("ranks", m.ranks.into()),
            ("groups", m.groups.into()),
            ("banks", m.banks.into()),
            ("row", m.row.0),
        ];
        self.check(&format!("{name}."), ranges, powers)?;
        let banks = u64::from(m.ranks) * u64::from(m.groups) * u64::from(m.banks);
        if banks > 64 {
            return Err(
                self.impossible(format!("{name}: {banks} banks in a channel: take at most 64"))
            );
        }
        let period = m.clock.period_fs();
        if m.refresh == Refresh::PerBank
            && m.t_refi.cycles(period) > 0
            && m.t_rfc_pb.cycles(period) == 0
        {
            let message = format!("{name}.refresh is per-bank: {name}.tRFCpb has to be above 0 ns");
            return Err(self.impossible(message));
        }
        if !m.adr && m.drain_idle > 1 {
            let message = "without memory.adr fences wait for every write: memory.drain_idle is 1";
            return Err(self.impossible(message.to_owned()));
        }
        Ok(())
    }

    fn impossible(&self, message: String) -> MachineError {
        MachineError::Impossible { name: self.name.clone(), message }
    }
}
