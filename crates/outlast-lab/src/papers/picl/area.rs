//! Table III: what PiCL adds to an FPGA, from the RTL of `rtl/` as Yosys maps it.

use outlast_rtl::Config;
use outlast_rtl::frequency::Frequencies;
use outlast_rtl::synthesis::{Area, CORE_LUTS, DEVICE, Used};

use crate::papers::claim::{Found, Judgement, Rule};
use crate::record::{Kind, Metric, Record};

/// Bytes of a private line of the prototype, which is what an EID speaks of.
const GRANULE: u64 = 16;

/// Why no claim about area is judged where nothing was mapped.
pub(super) const NOT_MAPPED: &str =
    "this run did not synthesise the RTL (`--figure table3` does, in some five minutes)";

/// How far a number that only describes their tile may be from ours.
const DESCRIBED: Rule = Rule::Near(0.25);

const LUTS: Metric = Metric { name: "table3_luts", unit: "LUTs" };
const FLIP_FLOPS: Metric = Metric { name: "table3_flip_flops", unit: "flip-flops" };
const BLOCKS: Metric = Metric { name: "table3_block_ram", unit: "36 Kbit" };
const MULTIPLIERS: Metric = Metric { name: "table3_multipliers", unit: "DSP48" };
const FREQUENCY: Metric = Metric { name: "frequency", unit: "MHz" };

/// Maps the hardware at the prototype's sizes, with PiCL and without; or says in one line why not.
pub(super) fn map() -> Result<Area, String> {
    Area::measure(Config::prototype(GRANULE, true)).map_err(|error| error.to_string())
}

/// The area of each module without PiCL and with it.
pub(super) fn records(area: &Area) -> Vec<Record> {
    let of = |modules: &outlast_rtl::synthesis::Modules, scheme| -> Vec<Record> {
        let record = |(name, used): (&String, &Used)| {
            let values = [
                (LUTS, used.luts as f64),
                (FLIP_FLOPS, used.flip_flops as f64),
                (BLOCKS, used.half_blocks as f64 / 2.0),
                (MULTIPLIERS, used.multipliers as f64),
            ];
            values.map(|(metric, value)| Record::new(Kind::Sim, name, scheme, metric, value))
        };
        modules.iter().flat_map(record).collect()
    };
    let mut records = of(&area.without, "ideal");
    records.extend(of(&area.with, "picl"));
    records
}

/// The highest clock of a private cache without PiCL and with it, and of the undo log; or in one line why
/// not.
pub(super) fn frequencies() -> Result<[Record; 3], String> {
    let config = Config::prototype(GRANULE, true);
    let found = Frequencies::measure(config).map_err(|error| error.to_string())?;
    let of = |module, scheme, value| Record::new(Kind::Sim, module, scheme, FREQUENCY, value);
    Ok([
        of("l2", "ideal", found.plain_cache),
        of("l2", "picl", found.cache),
        of("undo_log", "picl", found.undo_log),
    ])
}

/// The verdict on a claim of Table III or of the prototype's text, by its name without the paper's.
pub(super) fn judgement(id: &str, area: &Result<Area, String>) -> Judgement {
    let area = match area {
        Ok(area) => area,
        Err(why) => return Judgement::NotTestable(why.clone()),
    };
    let tile = area.tile();
    let of_device = |luts: u64| 100.0 * luts as f64 / DEVICE.luts as f64;
    let of_caches = |half_blocks: u64| 100.0 * half_blocks as f64 / area.cache_blocks() as f64;
    // The table's block RAM is that of EIDs in caches; the filters' here is the controller's.
    let eids = area.added("l2").half_blocks + area.added("llc").half_blocks;
    let blocks = |name: &str| if name == "total" { eids } else { area.added(name).half_blocks };
    let part = |name: &str| match name {
        "controller" => area.controller(),
        "total" => tile,
        cache => area.added(cache),
    };
    let (value, rule, note) = match id.rsplit_once('.') {
        Some(("proto", "logic")) => {
            let caches: u64 = ["l2", "llc"].iter().map(|of| area.without[*of].luts).sum();
            let note = format!(
                "{} LUTs and {} flip-flops of a tile; {:.1} % of its caches' LUTs, {:.1} % with an \
                 assumed core of {CORE_LUTS}; the caches here block and are smaller than OpenPiton's",
                tile.luts,
                tile.flip_flops,
                100.0 * tile.luts as f64 / caches as f64,
                100.0 * tile.luts as f64 / (caches + CORE_LUTS) as f64,
            );
            (of_device(tile.luts), Rule::Below, note)
        }
        Some(("proto", "llc_share")) => {
            let note = "the controller here writes blocks with checksums, finds chunks free and drives the \
                        scan; theirs is a buffer and a filter";
            (100.0 * part("llc").luts as f64 / tile.luts as f64, Rule::Above, note.to_owned())
        }
        Some(("proto", "bram")) => {
            (of_caches(eids), DESCRIBED, "of the caches' block RAM here".to_owned())
        }
        Some(("table3.lut", of)) => (part(of).luts as f64, DESCRIBED, String::new()),
        Some(("table3.lut_pct", of)) => {
            (of_device(part(of).luts), DESCRIBED, "of the XC7K325T".to_owned())
        }
        Some(("table3.bram", of)) => {
            (blocks(of) as f64 / 2.0, DESCRIBED, "36-Kbit blocks".to_owned())
        }
        Some(("table3.bram_pct", of)) => {
            (of_caches(blocks(of)), DESCRIBED, "of the caches' block RAM here".to_owned())
        }
        _ => return Judgement::NotTestable(NOT_MAPPED.to_owned()),
    };
    Judgement::Compared(Found::of(value).noting(&note), rule)
}
