//! What the hardware costs on an FPGA, by Yosys' `synth_xilinx` for the 7 series.
//!
//! The same source is mapped with PiCL and without. What a module takes is with its memories. Table III's
//! *controller* is what a system without PiCL does not have at the off-chip interface: undo log and
//! epochs, and what the port to memory grows by.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::Config;
use crate::verilate::{BuildError, run, write_sources};

/// The Kintex-7 of the Genesys2 board, XC7K325T: LUTs, flip-flops, 36-Kbit blocks.
pub const DEVICE: Used =
    Used { luts: 203_800, flip_flops: 407_600, half_blocks: 2 * 445, multipliers: 840 };

/// LUTs of an in-order core of 64 bits beside these caches: an assumption, since none is synthesised here.
pub const CORE_LUTS: u64 = 20_000;

/// Parts of an FPGA.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Used {
    /// LUTs, those that are memory included.
    pub luts: u64,
    /// Flip-flops.
    pub flip_flops: u64,
    /// Block RAM in halves of 18 Kbit.
    pub half_blocks: u64,
    /// Multipliers.
    pub multipliers: u64,
}

impl Used {
    fn cell(name: &str) -> Self {
        let of = |luts, flip_flops, half_blocks, multipliers| Self {
            luts,
            flip_flops,
            half_blocks,
            multipliers,
        };
        match name {
            "LUT1" | "LUT2" | "LUT3" | "LUT4" | "LUT5" | "LUT6" => of(1, 0, 0, 0),
            "RAM64M" | "RAM32M" => of(4, 0, 0, 0),
            "RAM32X1D" | "RAM64X1D" => of(2, 0, 0, 0),
            "RAM128X1D" => of(4, 0, 0, 0),
            "SRL16E" | "SRLC32E" => of(1, 0, 0, 0),
            "FDRE" | "FDSE" | "FDCE" | "FDPE" => of(0, 1, 0, 0),
            "RAMB18E1" => of(0, 0, 1, 0),
            "RAMB36E1" => of(0, 0, 2, 0),
            "DSP48E1" => of(0, 0, 0, 1),
            _ => Self::default(),
        }
    }

    fn plus(self, other: Self, times: u64) -> Self {
        Self {
            luts: self.luts + times * other.luts,
            flip_flops: self.flip_flops + times * other.flip_flops,
            half_blocks: self.half_blocks + times * other.half_blocks,
            multipliers: self.multipliers + times * other.multipliers,
        }
    }

    /// What this has more than another.
    pub fn more_than(self, other: Self) -> Self {
        Self {
            luts: self.luts.saturating_sub(other.luts),
            flip_flops: self.flip_flops.saturating_sub(other.flip_flops),
            half_blocks: self.half_blocks.saturating_sub(other.half_blocks),
            multipliers: self.multipliers.saturating_sub(other.multipliers),
        }
    }
}

/// What each module takes, by its name; `l2` once, though there are two.
pub type Modules = BTreeMap<String, Used>;

/// The hardware with PiCL and without.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Area {
    /// With it.
    pub with: Modules,
    /// Without.
    pub without: Modules,
}

impl Area {
    /// Maps both.
    ///
    /// # Errors
    /// When Yosys is missing or fails.
    pub fn measure(with: Config) -> Result<Self, BuildError> {
        Ok(Self { with: map(with)?, without: map(Config { picl: false, ..with })? })
    }

    /// What PiCL adds to a module.
    pub fn added(&self, module: &str) -> Used {
        let of = |modules: &Modules| modules.get(module).copied().unwrap_or_default();
        of(&self.with).more_than(of(&self.without))
    }

    /// What it adds to the off-chip interface.
    pub fn controller(&self) -> Used {
        let parts = ["undo_log", "epochs", "mem_port"];
        parts.iter().fold(Used::default(), |sum, part| sum.plus(self.added(part), 1))
    }

    /// What it adds to a tile: one private cache, one slice, and the controller.
    pub fn tile(&self) -> Used {
        self.controller().plus(self.added("l2"), 1).plus(self.added("llc"), 1)
    }

    /// Block RAM of both caches of a tile without PiCL.
    pub fn cache_blocks(&self) -> u64 {
        ["l2", "llc"]
            .iter()
            .map(|cache| self.without.get(*cache).map_or(0, |of| of.half_blocks))
            .sum()
    }
}

/// Maps one configuration and counts.
///
/// # Errors
/// When Yosys is missing or fails.
pub fn map(config: Config) -> Result<Modules, BuildError> {
    let folder = tempfile::tempdir()?;
    let stat = folder.path().join("stat");
    let steps = format!(
        "synth_xilinx -family xc7 -top top -noiopad -noclkbuf; tee -o {} stat",
        stat.display()
    );
    synthesise("top", &config.parameters(), folder.path(), &steps)?;
    Ok(count(&std::fs::read_to_string(stat)?))
}

/// Has Yosys read the RTL, a module of it with these parameters on top, and go on with `steps`.
pub(crate) fn synthesise(
    module: &str,
    parameters: &[(&str, u64)],
    folder: &Path,
    steps: &str,
) -> Result<(), BuildError> {
    let sources = write_sources(folder)?;
    let names: Vec<String> = sources
        .iter()
        .filter(|path| !path.ends_with("checks.sv") && !path.ends_with("formal.sv"))
        .map(|path| path.display().to_string())
        .collect();
    let parameters: String =
        parameters.iter().map(|(name, value)| format!(" -chparam {name} {value}")).collect();
    let script = format!(
        "read_verilog -sv {}; hierarchy -top {module}{parameters}; {steps}",
        names.join(" "),
    );
    run("yosys", "apt-get install yosys", Command::new("yosys").args(["-q", "-p", &script]))?;
    Ok(())
}

/// The counts of a report of `stat`: for each module what its cells are, those of modules in it included.
fn count(report: &str) -> Modules {
    let mut cells: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    let mut module = None;
    for line in report.lines() {
        if let Some(name) = line.strip_prefix("=== ").and_then(|line| line.strip_suffix(" ===")) {
            module = (name != "design hierarchy").then_some(name);
            continue;
        }
        let mut words = line.split_whitespace();
        if let (Some(module), Some(cell), Some(Ok(number)), None) =
            (module, words.next(), words.next().map(str::parse), words.next())
        {
            cells.entry(module).or_default().push((cell, number));
        }
    }
    fn total(of: &str, cells: &BTreeMap<&str, Vec<(&str, u64)>>) -> Used {
        let parts = cells.get(of).into_iter().flatten();
        parts.fold(Used::default(), |sum, (cell, number)| {
            let of_one =
                if cells.contains_key(cell) { total(cell, cells) } else { Used::cell(cell) };
            sum.plus(of_one, *number)
        })
    }
    let short = |name: &str| name.rsplit('\\').next().unwrap_or(name).to_owned();
    let named = cells.keys().filter(|name| !name.ends_with("\\ram"));
    named.map(|name| (short(name), total(name, &cells))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_has_what_those_in_it_have() {
        let report = "
=== $paramod$1\\ram ===

   Number of cells:                  1
     RAMB36E1                        2

=== $paramod$2\\llc ===

   Number of wires:                 10
     $paramod$1\\ram      2
     FDRE                          281
     LUT6                           20
     LUT2                            5
     RAM64M                          1
     DSP48E1                         4

   Estimated number of LCs:         40

=== design hierarchy ===

   top                               1
     LUT6                           99
";
        let counted = count(report);
        let llc = Used { luts: 29, flip_flops: 281, half_blocks: 8, multipliers: 4 };
        assert_eq!(counted, Modules::from([("llc".to_owned(), llc)]));
    }
}
