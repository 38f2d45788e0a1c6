//! The machine and the schemes of Table IV and section VI-A, divided as everything is.

use std::error::Error;

use outlast_schemes::Options;
use outlast_sim::timed::{MachineConfig, Span};

use super::measured::Set;
use super::{EPOCH, LONG_EPOCH, PICL, Task};
use crate::record::{Kind, Metric, Record};

/// The machine of Table IV.
pub(crate) const PRESET: &str = "picl";

/// Kilobytes of the caches, the last level's for each core, and bytes that they have at least.
const CACHES: [(&str, u64, u64); 3] =
    [("l1.size", 32, 512), ("l2.size", 256, 512), ("llc.size", 2048, 2048)];
/// Nanoseconds of a row's write.
const WRITE_NS: f64 = 368.0;
/// Those of them that the cells take.
const CELLS_NS: f64 = 240.0;
/// The values that figures 15 to 17 vary, the published one apart: megabytes of the last level for each core,
/// nanoseconds of a row's write, gigabytes per second of the link.
pub(super) const LLCS: [f64; 3] = [1.0, 4.0, 8.0];
pub(super) const WRITES: [f64; 3] = [128.0, 680.0, 1024.0];
pub(super) const LINKS: [f64; 4] = [0.8, 1.6, 3.2, 6.4];
/// Entries of the translation tables.
const TABLE: u64 = 6144;
const LINE_TABLE: u64 = 2048;
const PAGE_TABLE: u64 = 4096;
/// Lines of a core's registers.
const SAVED: u64 = 15;
/// The log that the operating system allots at a time, and how often: a gigabyte in all.
const LOG: u64 = 128 << 20;
const GROWTHS: u64 = 7;
/// Bytes of a log's part, and of `frm`'s log, that any run's end needs.
const LOG_LEAST: u64 = 1 << 20;
const FRM_LOG_LEAST: u64 = 16 << 20;

impl Task {
    /// The paper's machine with `cores` cores.
    pub(super) fn machine(&self, cores: u16, set: Set) -> Result<MachineConfig, Box<dyn Error>> {
        let mut machine = MachineConfig::named(PRESET)?;
        for (key, kilobytes, least) in CACHES {
            let mut bytes = (1024 * kilobytes / self.divisor).max(least);
            if key == "llc.size" {
                if let Set::Llc(megabytes) = set {
                    bytes = (bytes as f64 * megabytes / 2.0) as u64;
                }
                bytes *= u64::from(cores);
            }
            machine.set_option(key, &format!("{bytes} B"))?;
        }
        match set {
            Set::Write(ns) => {
                machine.set_option("memory.tWR", &format!("{} ns", CELLS_NS - (WRITE_NS - ns)))?;
            }
            Set::Link(gigabytes) => {
                machine.set_option("memory.link", &format!("{gigabytes} GB/s"))?;
            }
            _ => {}
        }
        Ok(machine)
    }

    /// Options of a scheme.
    pub(super) fn options(&self, scheme: &str, set: Set) -> Options {
        let of = |published: u64| (published / self.divisor).max(1);
        let sets = |published: u64| (published / self.divisor).next_multiple_of(16).max(16);
        let epoch = match set {
            Set::Long => LONG_EPOCH,
            Set::Epoch(instructions) => instructions,
            _ => EPOCH,
        };
        let options = Options::default();
        if scheme == super::IDEAL {
            return options;
        }
        let options = options.with("epoch", of(epoch)).with("save_lines", of(SAVED));
        match scheme {
            PICL => {
                let log = (LOG / self.divisor).max(LOG_LEAST);
                let options = options.with("log", log).with("log_growths", GROWTHS);
                match set {
                    Set::Gap(gap) => options.with("acs_gap", gap),
                    _ => options,
                }
            }
            "frm" => options.with("log", (8 * LOG / self.divisor).max(FRM_LOG_LEAST)),
            "thynvm" => options
                .with("line_entries", sets(LINE_TABLE))
                .with("page_entries", sets(PAGE_TABLE)),
            _ => options.with("table_entries", sets(TABLE)),
        }
    }
}

/// A value of Table IV here, by the claim's name behind `table4.`.
pub(super) fn value(name: &str) -> Result<f64, Box<dyn Error>> {
    let machine = MachineConfig::named(PRESET)?;
    let clock = machine.core.clock.period_fs();
    let cycles = |time: Span| time.cycles(clock) as f64;
    let kilobytes = |size: u64| size as f64 / 1024.0;
    let memory = &machine.memory;
    let ns = |times: &[Span]| {
        let femtoseconds: u64 = times.iter().map(|time| time.cycles(1)).sum();
        femtoseconds as f64 / 1e6
    };
    Ok(match name {
        "core.clock" => 1e6 / clock as f64,
        "core.cpi" => 1.0,
        "l1.size" => kilobytes(machine.l1.size.0),
        "l1.ways" => f64::from(machine.l1.ways),
        "l1.latency" => cycles(machine.l1.latency),
        "l2.size" => kilobytes(machine.l2.size.0),
        "l2.ways" => f64::from(machine.l2.ways),
        "l2.latency" => cycles(machine.l2.latency),
        "llc.size" => kilobytes(machine.llc.size.0) / 1024.0,
        "llc.ways" => f64::from(machine.llc.ways),
        "llc.latency" => cycles(machine.llc.latency),
        "link.width" => 64.0,
        "link.clock" => 64.0 / ns(&[memory.t_burst]) / 8.0,
        "link.bw" => 64.0 / ns(&[memory.t_burst]),
        "nvm.read" => ns(&[memory.t_rcd, memory.t_cl, memory.t_burst]),
        "nvm.write" => ns(&[memory.t_rcd, memory.t_cwl, memory.t_burst, memory.t_wr]),
        name => unreachable!("Table IV has no {name}"),
    })
}

/// The options that Table IV gives.
pub(super) const TABLE4: [&str; 16] = [
    "core.clock",
    "core.cpi",
    "l1.size",
    "l1.latency",
    "l1.ways",
    "l2.size",
    "l2.ways",
    "l2.latency",
    "llc.size",
    "llc.ways",
    "llc.latency",
    "link.width",
    "link.clock",
    "link.bw",
    "nvm.read",
    "nvm.write",
];

/// The machine here, as a table.
pub(super) const MACHINE: Metric = Metric { name: "table4_value", unit: "as given" };

/// Records of it.
pub(super) fn records() -> Result<Vec<Record>, Box<dyn Error>> {
    TABLE4
        .iter()
        .map(|name| Ok(Record::new(Kind::Sim, name, "ideal", MACHINE, value(name)?).config("picl")))
        .collect()
}
