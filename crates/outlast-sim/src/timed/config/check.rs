//! Whether a machine can be built, and the caches of one that can.

use std::ops::RangeInclusive;

use super::{
    BufferConfig, BufferMode, Bytes, CoreKind, LevelConfig, MachineConfig, MachineError,
    MemoryConfig, Refresh, Span, value::Value,
};
use crate::config::{CacheConfig, HierarchyConfig, Inclusion};

/// Most of one level of caches, all cores together: their lines are held in memory here.
const CACHE_BYTES_MAX: u64 = 2 << 30;
/// Most ways of a cache: each is looked at in every lookup.
const WAYS_MAX: u64 = 1024;
/// The highest address of a machine, and what is below it.
const MEMORY_BYTES_MAX: u64 = 1 << 40;
/// The longest time that something takes. A run is given up when nothing retires for a few
/// hundred times as long.
const SPAN_US_MAX: u64 = 100;
/// The longest time between refreshes.
const REFRESH_US_MAX: u64 = 1000;
/// Most energy of one activity.
const ENERGY_PJ_MAX: u64 = 1_000_000;
/// Bandwidths of a link, in bytes per second.
const RATES: RangeInclusive<u64> = 1_000_000..=100_000_000_000_000;

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

    /// The machine with as many cores at least, and the last level that is theirs.
    pub fn with_cores(&self, cores: u32) -> Self {
        let mut machine = self.clone();
        machine.core.count = machine.core.count.max(cores);
        if machine.extras.llc_per_core.0 > 0 {
            let count = u64::from(machine.core.count);
            machine.llc.size = Bytes(machine.extras.llc_per_core.0.saturating_mul(count));
        }
        machine
    }

    /// The buffer in front of the persistent memory, if there is one.
    pub fn buffer_shape(&self) -> Option<CacheConfig> {
        let BufferConfig { mode, size, ways, policy, .. } = self.buffer;
        (mode != BufferMode::None).then_some(CacheConfig { size_bytes: size.0, ways, policy })
    }

    /// Whether such a machine can be built.
    ///
    /// # Errors
    /// Names the first value that cannot be, and what would be right.
    pub fn validate(&self) -> Result<(), MachineError> {
        let ranges: &[(&str, u64, u64, u64)] = &[
            ("core.count", self.core.count.into(), 1, 64),
            ("core.threads", self.core.threads.into(), 1, 2),
            ("l1.prefetch", self.extras.prefetch.into(), 0, 32),
            ("adr.drain_lines", self.adr.drain_lines.into(), 0, 1 << 30),
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
            ("core.store_prefetch", self.core.store_prefetch.into(), 0, 1024),
            ("core.predictor_counters", self.core.predictor_counters.into(), 1, 1 << 22),
            ("core.instr_pj", self.energy.instr_pj.into(), 0, ENERGY_PJ_MAX),
            ("core.static_pj", self.energy.static_pj.into(), 0, ENERGY_PJ_MAX),
            ("l1.access_pj", self.energy.l1_pj.into(), 0, ENERGY_PJ_MAX),
            ("l2.access_pj", self.energy.l2_pj.into(), 0, ENERGY_PJ_MAX),
            ("llc.access_pj", self.energy.llc_pj.into(), 0, ENERGY_PJ_MAX),
            ("dram.from", self.dram.from.0, 0, MEMORY_BYTES_MAX),
            ("caches.wc_lines", self.wc_lines.into(), 1, 1024),
            ("l1.ways", self.l1.ways.into(), 1, WAYS_MAX),
            ("l2.ways", self.l2.ways.into(), 1, WAYS_MAX),
            ("llc.ways", self.llc.ways.into(), 1, WAYS_MAX),
            ("buffer.ways", self.buffer.ways.into(), 1, WAYS_MAX),
            ("tlb.l1_sets", self.tlb.l1_sets.into(), 1, 1 << 12),
            ("tlb.l1_ways", self.tlb.l1_ways.into(), 1, 64),
            ("tlb.l2_sets", self.tlb.l2_sets.into(), 1, 1 << 12),
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
        let period = self.core.clock.period_fs();
        self.check_spans(
            "",
            period,
            &[
                ("core.mispredict_penalty", self.core.mispredict_penalty),
                ("tlb.l2_latency", self.tlb.l2_latency),
                ("tlb.walk_latency", self.tlb.walk_latency),
                ("l1.latency", self.l1.latency),
                ("l2.latency", self.l2.latency),
                ("llc.latency", self.llc.latency),
                ("llc.bank_busy", self.extras.llc_bank_busy),
                ("caches.snoop", self.snoop),
                ("buffer.lookup", self.buffer.lookup),
            ],
            SPAN_US_MAX,
        )?;
        self.check_capacity()?;
        let caches = self.caches().validate();
        caches.map_err(|source| MachineError::Caches { name: self.name.clone(), source })?;
        if self.core.threads > 1 && self.core.kind == CoreKind::InOrder {
            let message =
                "core.threads is 2 on cores that are in order: take 1, or core.kind = ooo";
            return Err(self.impossible(message.to_owned()));
        }
        if self.extras.llc_atomics && self.inclusion == Inclusion::Exclusive {
            let message =
                "llc.atomics needs caches.inclusion = inclusive: the last level has every line";
            return Err(self.impossible(message.to_owned()));
        }
        if ![0, 4096, 2 << 20].contains(&self.tlb.page.0) {
            return Err(self.impossible("tlb.page: take 4 KiB, 2 MiB, or 0 B for none".to_owned()));
        }
        self.validate_memory("memory", &self.memory)?;
        if let Some(buffer) = self.buffer_shape() {
            let shape = buffer.sets();
            shape.map_err(|error| self.impossible(format!("buffer.size: {error}")))?;
        }
        let has_buffer = self.buffer_shape().is_some();
        match (&self.dram.memory, self.dram.from.0) {
            (None, _) if has_buffer => {
                Err(self
                    .impossible("buffer.mode needs dram.preset, the memory it lies in".to_owned()))
            }
            (None, 0) => Ok(()),
            (Some(dram), from) if (from > 0 || has_buffer) && from.is_multiple_of(64) => {
                self.validate_memory("dram", dram)
            }
            (Some(_), _) => {
                let message =
                    "dram.preset needs dram.from, a multiple of 64 B above 0 B, or buffer.mode";
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

    /// Whether all these times are at most `limit_us`.
    fn check_spans(
        &self,
        memory: &str,
        period_fs: u64,
        spans: &[(&str, Span)],
        limit_us: u64,
    ) -> Result<(), MachineError> {
        match spans.iter().find(|(_, span)| span.exceeds_us(limit_us, period_fs)) {
            None => Ok(()),
            Some((key, span)) => {
                let span = span.show();
                Err(self.impossible(format!("{memory}{key} is {span}: take 0 ns to {limit_us} us")))
            }
        }
    }

    /// Whether the caches together leave the host some memory.
    fn check_capacity(&self) -> Result<(), MachineError> {
        let levels = [
            ("l1.size", self.l1.size.0, self.core.count),
            ("l2.size", self.l2.size.0, self.core.count),
            ("llc.size", self.llc.size.0, 1),
            ("llc.per_core", self.extras.llc_per_core.0, self.core.count),
            ("buffer.size", self.buffer.size.0, 1),
        ];
        for (key, bytes, count) in levels {
            let most = CACHE_BYTES_MAX / u64::from(count);
            if bytes > most {
                let of = if count > 1 { format!(" on {count} cores") } else { String::new() };
                let (bytes, most) = (Bytes(bytes).show(), Bytes(most).show());
                return Err(self.impossible(format!("{key} is {bytes}{of}: take at most {most}")));
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
            ("drain_low", m.drain_low.into(), 0, u64::from(m.drain_high).saturating_sub(1)),
            ("drain_idle", m.drain_idle.into(), 1, m.write_queue.into()),
            ("write_buffer", m.write_buffer.into(), 1, 1 << 16),
            ("row", m.row.0, 64, 1 << 20),
            ("channels", m.channels.into(), 1, 64),
            ("ranks", m.ranks.into(), 1, 64),
            ("groups", m.groups.into(), 1, 64),
            ("banks", m.banks.into(), 1, 64),
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
        if m.link.0.is_some_and(|rate| !RATES.contains(&rate)) {
            let (rate, least, most) =
                (m.link.show(), RATES.start() / 1_000_000, RATES.end() / 1_000_000_000);
            let message =
                format!("{name}.link is {rate}: take {least} MB/s to {most} GB/s, or unlimited");
            return Err(self.impossible(message));
        }
        let period = m.clock.period_fs();
        let memory = format!("{name}.");
        let spans = [
            ("path", m.path),
            ("tCL", m.t_cl),
            ("tCWL", m.t_cwl),
            ("tRCD", m.t_rcd),
            ("tRP", m.t_rp),
            ("tRAS", m.t_ras),
            ("tBURST", m.t_burst),
            ("tCCD_S", m.t_ccd_s),
            ("tCCD_L", m.t_ccd_l),
            ("tRRD_S", m.t_rrd_s),
            ("tRRD_L", m.t_rrd_l),
            ("tFAW", m.t_faw),
            ("tWR", m.t_wr),
            ("tWTR_S", m.t_wtr_s),
            ("tWTR_L", m.t_wtr_l),
            ("tRTP", m.t_rtp),
            ("tRTRS", m.t_rtrs),
            ("tRFC", m.t_rfc),
            ("tRFCpb", m.t_rfc_pb),
            ("tRREFD", m.t_rrefd),
        ];
        self.check_spans(&memory, period, &spans, SPAN_US_MAX)?;
        self.check_spans(&memory, period, &[("tREFI", m.t_refi)], REFRESH_US_MAX)?;
        let (key, busy) = match m.refresh {
            Refresh::AllBank => ("tRFC", m.t_rfc),
            Refresh::PerBank => ("tRFCpb", m.t_rfc_pb),
        };
        let (interval, busy) = (m.t_refi.cycles(period), busy.cycles(period));
        if interval > 0 && busy >= interval {
            let message = format!(
                "{name}.{key} is {busy} cycles, and a refresh comes every {interval}: take less \
                 than {name}.tREFI"
            );
            return Err(self.impossible(message));
        }
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
