//! Named machines and memories, and files that build on them.
//!
//! A file names what it starts from (`base`, a machine; `memory.preset`, a memory) and then
//! sets keys. A file without a base starts from [`DEFAULT_MACHINE`], one with the base `blank`
//! from the smallest of everything, and no time for anything. The crate's own machines and
//! memories have no base and set every key of theirs.

use super::{
    AdrConfig, BitEnergy, BufferConfig, BufferMode, Bytes, Clock, CoreConfig, CoreKind, DramConfig,
    EnergyConfig, ExtrasConfig, Field, LevelConfig, MachineConfig, MachineError, Mapping,
    MemoryConfig, PagePolicy, Rate, Refresh, Scheduling, Span, TlbConfig,
};
use crate::{config::Inclusion, policy::Policy};
use outlast_trace::instead_of;
use std::path::Path;
use toml::{Table, Value as Toml};

/// The machine that is meant where none is named.
pub const DEFAULT_MACHINE: &str = "server";

/// Files that build one on the other.
const BASES_MAX: usize = 16;

/// A machine or memory that comes with the crate.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// The machine and the source of its values, in one line.
    pub about: &'static str,
    text: &'static str,
}

macro_rules! presets {
    ($($name:literal, $folder:literal, $about:literal;)*) => {
        &[$(Preset {
            name: $name,
            about: $about,
            text: include_str!(concat!("../../../presets/", $folder, "/", $name, ".toml")),
        }),*]
    };
}

/// The machines there are.
pub const PRESETS: &[Preset] = presets! {
    "server", "machine", "a current server core over DDR4-3200";
    "hwl", "machine", "HWL and FWB's machine: 4 cores at 2.5 GHz, 8 MB L2, NVRAM of 8 banks (Table II)";
    "ehou", "machine", "EHOU's machine: 4 cores at 2 GHz, three levels, PM of 48 and 300 ns (Table I)";
    "picl", "machine", "PiCL's machine: in-order cores at 2 GHz, NVM of 128 and 368 ns (Table IV)";
    "archapt", "machine", "one socket of Archapt's machine: 12 cores, 19.25 MB of last level in 11 ways, DRAM as memory";
    "tiny", "machine", "caches of a few lines and short queues, for crash campaigns";
};

/// The memories there are.
pub const MEMORY_PRESETS: &[Preset] = presets! {
    "ddr4-3200", "memory", "one channel of DDR4-3200AA, 8 Gb x8, two ranks (JEDEC)";
    "hwl-pcm", "memory", "row hit 36 ns, read conflict 100 ns, write conflict 300 ns (HWL, Table II)";
    "ehou-pm", "memory", "read 48 ns, write 300 ns (EHOU, Table I)";
    "picl-nvm", "memory", "row read 128 ns, row write 368 ns, closed rows, FCFS, 12.8 GB/s link (PiCL, Table IV)";
    "pcm-150-500", "memory", "phase-change memory of 150 and 500 ns behind a DDR4-2400 channel (gem5's values)";
    "pcm-isscc-2012", "memory", "phase-change memory of 120 ns to read and 150 ns to write behind an LPDDR channel at 400 MHz (NVMain's values)";
    "optane-like", "memory", "a DIMM of 256-byte rows, 4 KiB of write queue, some 170 ns to read: plausible, not calibrated";
    "cxl-pm", "memory", "DDR4-3200 with flush-on-fail behind a CXL link of 70 ns each way and 32 GB/s: plausible, not calibrated";
};

impl MachineConfig {
    /// The machine of a preset's name or of a TOML file.
    ///
    /// # Errors
    /// When there is no such preset or file, or the file asks for something that cannot be.
    pub fn named(name: &str) -> Result<Self, MachineError> {
        Self::named_within(name, BASES_MAX)
    }

    fn named_within(name: &str, bases: usize) -> Result<Self, MachineError> {
        let mut machine = match PRESETS.iter().find(|preset| preset.name == name) {
            Some(preset) => Self::from_text(name, preset.text, Self::blank(), bases)?,
            None if Path::new(name).is_file() => {
                let text = std::fs::read_to_string(name).map_err(|error| MachineError::Syntax {
                    origin: name.to_owned(),
                    message: error.to_string(),
                })?;
                Self::from_text(name, &text, Self::named(DEFAULT_MACHINE)?, bases)?
            }
            None => {
                let instead = instead_of(name, PRESETS.iter().map(|preset| preset.name));
                return Err(MachineError::UnknownPreset { name: name.to_owned(), instead });
            }
        };
        machine.name = name.to_owned();
        Ok(machine)
    }

    /// The machine that a TOML text describes; `origin` says whose text it is. Without a `base` it
    /// is [`DEFAULT_MACHINE`] with other values.
    ///
    /// # Errors
    /// As [`named`](Self::named).
    pub fn from_toml(origin: &str, text: &str) -> Result<Self, MachineError> {
        Self::from_text(origin, text, Self::named(DEFAULT_MACHINE)?, BASES_MAX)
    }

    /// The same; without a base, `start` with other values. `bases` is how many may follow, one on the other.
    fn from_text(
        origin: &str,
        text: &str,
        start: Self,
        bases: usize,
    ) -> Result<Self, MachineError> {
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            let message = format!("line {line}: {}", error.message());
            MachineError::Syntax { origin: origin.to_owned(), message }
        })?;
        let mut machine = match table.remove("base") {
            Some(Toml::String(base)) if base == "blank" => Self::blank(),
            Some(Toml::String(base)) => {
                let left = bases.checked_sub(1).ok_or_else(|| MachineError::Impossible {
                    name: origin.to_owned(),
                    message: format!("its bases lead to more than {BASES_MAX}, or in a circle"),
                })?;
                Self::named_within(&base, left)?
            }
            Some(other) => return Err(not_a_name(origin, "base", &other)),
            None => start,
        };
        // A preset first: the other keys change it.
        for name in ["memory", "dram"] {
            if let Some(Toml::Table(memory)) = table.get_mut(name)
                && let Some(preset) = memory.remove("preset")
            {
                let key = format!("{name}.preset");
                let Toml::String(preset) = preset else {
                    return Err(not_a_name(origin, &key, &preset));
                };
                machine.set(origin, &key, &preset)?;
            }
        }
        machine.set_table(origin, "", &table)?;
        machine.name = origin.to_owned();
        Ok(machine)
    }

    /// Replaces the memory by that of a preset.
    ///
    /// # Errors
    /// When there is no such preset.
    pub fn set_memory(&mut self, origin: &str, name: &str) -> Result<(), MachineError> {
        let preset = MEMORY_PRESETS.iter().find(|preset| preset.name == name);
        let Some(preset) = preset else {
            let instead = instead_of(name, MEMORY_PRESETS.iter().map(|preset| preset.name));
            let message = format!("no memory is named '{name}'; {instead}");
            return Err(MachineError::Impossible { name: origin.to_owned(), message });
        };
        let table: Table = preset.text.parse().expect("a preset is TOML: a test parses them all");
        if let Some(Toml::String(base)) = table.get("base") {
            self.set_memory(origin, base)?;
        }
        let keys = table.into_iter().filter(|(key, _)| key != "base").collect();
        self.set_table(name, "memory.", &keys)
    }

    /// Gives the machine volatile memory of a preset, or with `none` takes it away.
    pub(super) fn set_dram_memory(&mut self, origin: &str, name: &str) -> Result<(), MachineError> {
        if name == "none" {
            self.dram.memory = None;
            return Ok(());
        }
        let mut of_dram = Self::blank();
        of_dram.set_memory(origin, name).map_err(|error| in_dram(error, origin))?;
        self.dram.memory = Some(of_dram.memory);
        Ok(())
    }

    /// Sets `dram.KEY` as `memory.KEY` is set.
    pub(super) fn set_dram(
        &mut self,
        origin: &str,
        key: &str,
        text: &str,
    ) -> Result<(), MachineError> {
        let Some(memory) = &mut self.dram.memory else {
            return Err(MachineError::Impossible {
                name: origin.to_owned(),
                message: format!("{key} needs dram.preset before it"),
            });
        };
        let mut of_dram = Self::blank();
        std::mem::swap(&mut of_dram.memory, memory);
        let set = of_dram.set(origin, &key.replacen("dram.", "memory.", 1), text);
        std::mem::swap(&mut of_dram.memory, memory);
        set.map_err(|error| in_dram(error, origin))
    }

    /// `key=value`, or `memory.preset=name`, or `dram.preset=name`.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_option(&mut self, key: &str, text: &str) -> Result<(), MachineError> {
        self.set("--set", key, text)?;
        self.name = format!("{}, {key}={text}", self.name);
        Ok(())
    }

    fn set_table(&mut self, origin: &str, prefix: &str, table: &Table) -> Result<(), MachineError> {
        for (key, value) in table {
            let key = format!("{prefix}{key}");
            match value {
                Toml::Table(inner) => self.set_table(origin, &format!("{key}."), inner)?,
                Toml::String(text) => self.set(origin, &key, text)?,
                other => self.set(origin, &key, &other.to_string())?,
            }
        }
        Ok(())
    }

    /// Where the crate's own machines start: the smallest of everything, no time for anything.
    pub(crate) fn blank() -> Self {
        let zero = Span::Cycles(0);
        let level = |mshrs| LevelConfig {
            size: Bytes(4096),
            ways: 4,
            policy: Policy::Lru,
            latency: zero,
            mshrs,
        };
        Self {
            name: "blank".to_owned(),
            core: CoreConfig {
                kind: CoreKind::InOrder,
                count: 1,
                threads: 1,
                clock: Clock(1_000_000),
                dispatch_width: 1,
                issue_width: 1,
                retire_width: 1,
                load_ports: 1,
                store_ports: 1,
                rob: 16,
                load_queue: 8,
                store_queue: 8,
                mispredict_penalty: zero,
                flushes: 8,
                store_prefetch: 0,
                predictor_counters: 1024,
            },
            tlb: TlbConfig {
                page: Bytes(4096),
                l1_sets: 1,
                l1_ways: 4,
                l2_sets: 1,
                l2_ways: 4,
                l2_latency: zero,
                walk_latency: zero,
                walkers: 1,
            },
            l1: level(4),
            l2: LevelConfig { size: Bytes(0), ..level(4) },
            llc: LevelConfig { size: Bytes(16_384), ..level(8) },
            inclusion: Inclusion::Inclusive,
            wc_lines: 4,
            snoop: zero,
            adr: AdrConfig { drain_lines: 0 },
            dram: DramConfig { from: Bytes(0), memory: None },
            buffer: BufferConfig {
                mode: BufferMode::None,
                size: Bytes(16 << 20),
                ways: 16,
                policy: Policy::Lru,
                lookup: zero,
            },
            extras: ExtrasConfig {
                prefetch: 0,
                l1_banks: 0,
                llc_banks: 0,
                llc_bank_busy: Span::Cycles(1),
                llc_per_core: Bytes(0),
                write_through: false,
                llc_atomics: false,
                scan_tags: 1,
            },
            energy: EnergyConfig { instr_pj: 70, static_pj: 0, l1_pj: 20, l2_pj: 100, llc_pj: 100 },
            memory: MemoryConfig {
                clock: Clock(1_000_000),
                channels: 1,
                ranks: 1,
                groups: 1,
                banks: 8,
                row: Bytes(2048),
                mapping: Mapping([
                    Field::Row,
                    Field::Channel,
                    Field::Rank,
                    Field::Bank,
                    Field::Group,
                    Field::Column,
                ]),
                scheduling: Scheduling::FrFcfs,
                page: PagePolicy::Open,
                read_queue: 32,
                bank_queue: 0,
                row_hits: 0,
                write_queue: 32,
                drain_high: 24,
                drain_low: 8,
                drain_idle: 1,
                adr: true,
                row_durable: false,
                refresh: Refresh::AllBank,
                write_buffer: 16,
                path: zero,
                link: Rate(None),
                t_cl: zero,
                t_cwl: zero,
                t_rcd: zero,
                t_rp: zero,
                t_ras: zero,
                t_burst: zero,
                t_ccd_s: zero,
                t_ccd_l: zero,
                t_rrd_s: zero,
                t_rrd_l: zero,
                t_faw: zero,
                t_wr: zero,
                t_wtr_s: zero,
                t_wtr_l: zero,
                t_rtp: zero,
                t_rtrs: zero,
                t_refi: zero,
                t_rfc: zero,
                t_rfc_pb: zero,
                t_rrefd: zero,
                endurance: 0,
                row_read: BitEnergy(None),
                row_write: BitEnergy(None),
                array_read: BitEnergy(None),
                array_write: BitEnergy(None),
            },
        }
    }
}

/// An error about a key of the memory, said of the same key of the volatile one.
fn in_dram(error: MachineError, origin: &str) -> MachineError {
    let of_dram = |key: String| key.replacen("memory.", "dram.", 1);
    let origin = origin.to_owned();
    match error {
        MachineError::BadValue { key, text, expects, .. } => {
            MachineError::BadValue { origin, key: of_dram(key), text, expects }
        }
        MachineError::UnknownKey { key, instead, .. } => {
            MachineError::UnknownKey { origin, key: of_dram(key), instead: of_dram(instead) }
        }
        other => other,
    }
}

fn not_a_name(origin: &str, key: &str, value: &Toml) -> MachineError {
    MachineError::BadValue {
        origin: origin.to_owned(),
        key: key.to_owned(),
        text: value.to_string(),
        expects: "a preset's name in quotes".to_owned(),
    }
}
