//! Digests of journals and statistics of small runs under every scheme. A change of the simulator
//! that is not meant to change a scheme leaves them as they are.

use std::sync::Arc;

use outlast_crash::machine::{with_cores, work_of};
use outlast_schemes::{MachineScheme, Options};
use outlast_sim::timed::{
    CoreKind, CycleHistogram, LaneOps, MachineConfig, MemoryStats, ReadCause, RunStats, Setup,
    Source,
};
use outlast_sim::{CacheStats, Cause, Domain};
use outlast_trace::LaneId;
use outlast_workloads::Workload;
use outlast_workloads::machine::Plan;

/// FNV-1a over 64-bit words, byte by byte: the same on every host.
struct Digest(u64);

impl Digest {
    fn add(&mut self, values: impl IntoIterator<Item = u64>) {
        for value in values {
            for byte in value.to_le_bytes() {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }

    fn cache(&mut self, stats: CacheStats) {
        let CacheStats { hits, misses, fills, evictions, write_backs, invalidations } = stats;
        self.add([hits, misses, fills, evictions, write_backs, invalidations]);
    }

    fn times(&mut self, times: &CycleHistogram) {
        self.add([times.count(), times.mean().to_bits(), times.quantile(0.5), times.max()]);
    }

    fn memory(&mut self, stats: &MemoryStats) {
        self.add([stats.reads, stats.writes, stats.forwarded_reads, stats.joined_reads]);
        self.add([stats.replaced_writes, stats.reads_delayed, stats.writes_delayed]);
        self.add([stats.row_hits, stats.row_hit_writes, stats.row_misses, stats.row_conflicts]);
        self.add([stats.activates, stats.refreshes]);
        self.times(&stats.read_times);
        self.times(&stats.write_times);
        for queue in [&stats.read_queue, &stats.write_queue] {
            self.add([queue.request_cycles, queue.max, queue.full_cycles]);
        }
    }

    fn stats(&mut self, stats: &RunStats) {
        self.add([stats.cycles]);
        for core in &stats.cores {
            self.add([core.instructions, core.loads, core.stores, core.forwarded, core.branches]);
            self.add([core.merged_misses, core.mispredicted, core.flushes, core.fences]);
            self.add([core.fence_cycles, core.tlb_misses, core.walks, core.busy_cycles]);
            self.add([core.lost.total(), core.prefetches, core.bank_conflicts]);
        }
        for level in [stats.caches.l1, stats.caches.l2, stats.caches.llc] {
            self.cache(level);
        }
        let traffic = stats.caches.traffic;
        self.add([traffic.memory_reads, traffic.memory_evictions, traffic.memory_flushes]);
        self.add([traffic.memory_streams, traffic.transfers, traffic.flushes_clean]);
        self.memory(&stats.memory);
        self.add([ReadCause::Load, ReadCause::Store, ReadCause::Walk].map(|c| stats.reads.of(c)));
        for cause in CAUSES {
            self.add([stats.writes.of(cause)]);
            self.times(stats.persist.of(cause).expect("it has times"));
        }
        self.add(stats.tx_cycles.iter().copied());
    }
}

/// What writes are for, under these schemes.
const CAUSES: [Cause; 6] = [
    Cause::Evicted,
    Cause::Flushed,
    Cause::Streamed,
    Cause::Logged,
    Cause::Forced,
    Cause::Metadata,
];

fn number(cause: Cause) -> u64 {
    let known = CAUSES.iter().position(|known| *known == cause);
    known.expect("a write has one of these causes") as u64
}

fn digest(config: &MachineConfig, scheme: MachineScheme, plan: Plan) -> u64 {
    let recorded = plan.record().expect("the program can be made");
    let options = Options::default().with("log_slots", 1024).with("scan_period", 3_000_000 / 64);
    let prepared = scheme.prepare(&work_of(&recorded), &options, None).unwrap();
    let base = recorded.image.to_vec();
    let setup = Setup { seed: plan.seed, base, journal: Some(Domain::Adr), ..Setup::default() };
    let source = |lane: u16| -> Box<dyn Source> {
        let log = Arc::clone(&prepared.streams()[recorded.stream_of(lane)]);
        Box::new(LaneOps::new(log, LaneId(lane)))
    };
    let sources = (0..recorded.lanes()).map(source).collect();
    let mut system = prepared.machine(&with_cores(config, plan.threads), setup, sources).unwrap();
    system.run_to_end().unwrap();
    let mut digest = Digest(0xcbf2_9ce4_8422_2325);
    digest.stats(&system.take_stats());
    let timed = system.journal().expect("a journal is kept");
    for (index, entry) in timed.journal().iter().enumerate() {
        digest.add([timed.at(index).0, entry.line.0, entry.first_word as u64]);
        digest.add([number(entry.cause)]);
        digest.add(entry.words.iter().map(|word| u64::from_le_bytes(*word)));
    }
    digest.add(timed.acknowledged_by(system.now()).iter().flat_map(|(at, tx)| [at.0, tx.0]));
    digest.0
}

/// The schemes whose digests stand below, in their order.
const SCHEMES: [&str; 15] = [
    "non-pers",
    "unsafe-undo",
    "unsafe-redo",
    "undo-clwb",
    "redo-clwb",
    "undo-redo-clwb",
    "undo-clwb:ring",
    "redo-clwb:ring",
    "hw-ulog",
    "hw-rlog",
    "hwl",
    "fwb",
    "fwb:buffered",
    "hwl:literal",
    "fwb:literal",
];

fn digests(program: &str, kind: CoreKind) -> [u64; SCHEMES.len()] {
    let mut machine = MachineConfig::named("hwl").unwrap();
    machine.core.kind = kind;
    if kind == CoreKind::InOrder {
        machine.core.threads = 1;
    }
    let plan = Plan {
        workload: Workload::named(program).unwrap(),
        footprint: 1 << 18,
        threads: 2,
        warm_up: 0,
        transactions: 250,
        shared: false,
        switch_every: 0,
        abort_every: 0,
        batch: 0,
        seed: 11,
    };
    SCHEMES.map(|name| digest(&machine, name.parse().unwrap(), plan))
}

/// For each program and kind of core the digests under [`SCHEMES`].
const DIGESTS: [(&str, CoreKind, [u64; SCHEMES.len()]); 4] = [
    (
        "hash-toggle",
        CoreKind::OutOfOrder,
        [
            0x44a7_afaf_e670_6964,
            0x1c88_01c3_192b_e45f,
            0xda36_f342_e2f7_07ce,
            0x4473_0db2_4f94_0eb8,
            0x8860_eac1_3c09_d555,
            0xb150_d18a_e03d_4277,
            0xb242_81f3_9b5c_967c,
            0x40e8_51fd_4f08_7f40,
            0xe084_776b_4a7e_b343,
            0x1c6b_4acf_4142_f6a1,
            0xba24_1ebe_c37c_2534,
            0x3304_0c6d_fdee_bf71,
            0x3918_8915_b145_e22b,
            0x6edc_6c29_f245_8890,
            0xc556_6cd3_18ed_9d83,
        ],
    ),
    (
        "sps",
        CoreKind::OutOfOrder,
        [
            0x42c7_6655_6cce_72a2,
            0xdaf8_cee1_0ff3_dc3a,
            0x4f0e_cad8_8f2e_2e99,
            0xd834_2f99_4e05_ea8d,
            0x0192_3b65_a9dc_1cf7,
            0x5e2b_e941_3dbb_546c,
            0xdc17_4e0c_8e8f_2e92,
            0x250e_d418_344e_05d4,
            0x9563_709a_8486_cc69,
            0x15c6_bb44_a1f3_a839,
            0x8594_5fc0_90fa_cd89,
            0x9af6_a7e8_2650_362b,
            0x8a67_5c58_2ca5_d46f,
            0xb848_d4db_b8b2_dabd,
            0xe1c8_5145_1c46_372c,
        ],
    ),
    (
        "rbtree-toggle",
        CoreKind::OutOfOrder,
        [
            0xdaec_7a68_6565_51be,
            0xadb0_6e46_6857_5101,
            0x1b29_3184_05e4_938c,
            0xe1cc_cc5a_2af2_af83,
            0xae97_8cd2_5011_1cba,
            0x4046_1585_a566_73d1,
            0x2ec8_3457_74cc_7c14,
            0x997c_5b63_eb52_59f0,
            0x52bc_2b5a_536f_41bd,
            0xff27_14eb_99dd_9a0d,
            0x9f6d_3501_d481_0a34,
            0x4e42_d35d_c2dc_b242,
            0xd26f_57a2_3223_e445,
            0xd1bc_97e7_8ecc_4751,
            0xa343_d630_a203_72fb,
        ],
    ),
    (
        "sps",
        CoreKind::InOrder,
        [
            0x1c85_8d4c_b5f7_c682,
            0xff93_0269_7d5c_c304,
            0x0b9c_3bf2_b60d_36e1,
            0x2bfe_6e90_98de_977d,
            0x25a6_0f6b_3f17_f253,
            0x19ee_4882_6018_8d31,
            0x7f45_6a58_50e0_5768,
            0x82fa_05a0_e790_ff70,
            0x4d4c_ea2d_420e_0869,
            0xb5cd_32b0_8281_a339,
            0x6b4a_9787_d75b_20f2,
            0x7ac8_99c3_9631_32f7,
            0x5801_0e6e_8ba2_d17e,
            0xbf70_3647_aad7_07dc,
            0xe21c_4621_ec61_ed9e,
        ],
    ),
];

#[test]
fn every_scheme_leaves_the_journal_and_the_figures_that_it_left_before() {
    let mut changed = Vec::new();
    for (bench, kind, before) in DIGESTS {
        let now = digests(bench, kind);
        let rows = SCHEMES.iter().zip(now.iter().zip(&before));
        let differ = rows.filter(|(_, (now, before))| now != before);
        let names: Vec<_> = differ.map(|(name, _)| *name).collect();
        if !names.is_empty() {
            changed
                .push(format!("{bench}, {kind}: {} changed; now {now:#018x?}", names.join(", ")));
        }
    }
    assert!(changed.is_empty(), "{}", changed.join("\n"));
}
