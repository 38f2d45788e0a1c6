//! Prints what this machine allows: `cargo run --release -p outlast-pmem --example floor [DIR]`.

use outlast_pmem::{
    Domain, FLOOR_LINES_MAX, FloorOptions, MapOptions, Mapped, Pattern, measure_floor,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".to_owned());
    let path = std::path::Path::new(&dir).join(format!("floor-{}.pool", std::process::id()));
    let options = MapOptions { domain: Some(Domain::Adr), ..MapOptions::default() };
    let medium = Mapped::create(&path, 256 << 20, &options)?;
    // The mapping keeps the file alive; nothing is left behind however this ends.
    std::fs::remove_file(&path)?;
    println!("{}", medium.describe());
    let report = measure_floor(&medium, &FloorOptions::default(), |_, _| {});
    println!("median ns (quartiles) of {} samples; clock {} ns", report.samples, report.clock_ns);
    for pattern in Pattern::ALL {
        println!("{pattern}: {}", pattern.describe());
        for lines in 1..=FLOOR_LINES_MAX {
            let row = report.row(pattern, lines).ok_or("a row is missing")?;
            println!("  {lines:2} {:5} ({}-{})", row.p50_ns, row.p25_ns, row.p75_ns);
        }
    }
    Ok(())
}
